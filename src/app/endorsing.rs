//! Where each node has a token of its own: what this node adds to the ring of keys for the others, and what it waits for before
//! it signs. What it has to sign is [`crate::domain::key_ring`]'s to say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::not_serving::NotServing;
use crate::clock::Clock;
use crate::domain::key_ring::{Introduction, KeyFault, KeyRing};
use crate::signer::{SignError, Signer, Vouching};
use crate::store::{Store, StoreError};

/// For how long a start waits until the other nodes take its key: each looks once a second.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(250);

/// Why the ring lacks what this node has to say of keys: one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotEndorsed {
    #[error("store: {0}")]
    Store(#[from] StoreError),
    #[error("the keys of other nodes are not endorsed: {0}")]
    Token(#[from] SignError),
    #[error(transparent)]
    Ring(#[from] KeyFault),
}

impl From<NotEndorsed> for NotServing {
    fn from(fault: NotEndorsed) -> Self {
        match fault {
            NotEndorsed::Store(error) => error.into(),
            // The token has been opened: it is away or has too much to do.
            NotEndorsed::Token(_) => Self { lines: vec![fault.to_string()], may_pass: true },
            NotEndorsed::Ring(_) => vec![fault.to_string()].into(),
        }
    }
}

/// Writes what the ring lacks of this node's keys, and endorses what a key vouches for that is believed here. Yields the kids of
/// other nodes' keys that nobody vouches for; `None` where all nodes have one token.
///
/// # Errors
/// [`NotEndorsed`].
pub(crate) async fn endorse(
    store: &Store,
    signer: &dyn Signer,
    clock: &dyn Clock,
    mut ring: KeyRing,
) -> Result<Option<Vec<String>>, NotEndorsed> {
    let now = clock.now();
    let Some(mut vouching) = signer.vouching(&ring, now) else { return Ok(None) };
    if !vouching.undescribed.is_empty() {
        let undescribed = vouching.undescribed;
        let described = change(store, |ring| undescribed.iter().for_each(|(kid, jwk)| ring.describe(kid, jwk)));
        ring = described.await?;
        let Some(again) = signer.vouching(&ring, now) else { return Ok(None) };
        vouching = again;
    }
    let Vouching { due, untrusted, .. } = vouching;
    if due.is_empty() {
        return Ok(Some(untrusted));
    }
    let mut made = Vec::with_capacity(due.len());
    for (by, endorsement) in due {
        let signatures = signer.sign(&by, vec![endorsement.statement.clone()]).await?;
        made.extend(signatures.into_iter().next().map(|signature| (endorsement, signature)));
    }
    let endorsed = change(store, |ring| {
        for (endorsement, signature) in &made {
            ring.endorse(&endorsement.kid, &endorsement.by, signature.as_bytes(), now);
        }
    });
    let ring = endorsed.await?;
    for (endorsement, _) in &made {
        let (kid, by) = (&endorsement.kid, &endorsement.by);
        if let Some(Introduction { holder, word_of }) = &endorsement.introduced {
            tracing::warn!(kid, by, holder, word_of, "believes a node's first key from now on, on another's word");
        } else {
            tracing::info!(kid, by, "endorsed a key of the fleet");
        }
    }
    Ok(signer.vouching(&ring, now).map(|vouching| vouching.untrusted))
}

async fn change(store: &Store, change: impl Fn(&mut KeyRing) + Send + Sync) -> Result<KeyRing, NotEndorsed> {
    let changed = store.change_key_ring(|ring| {
        change(ring);
        Ok(())
    });
    Ok(changed.await??)
}

/// At a start: lets the other nodes have this one's key, and waits until those that serve take it. So no token of it is refused.
///
/// # Errors
/// One line: a node does not take it.
pub(crate) async fn join(store: &Store, signer: &dyn Signer, clock: &Arc<dyn Clock>) -> Result<(), NotServing> {
    let started = Instant::now();
    loop {
        let ring = store.key_ring().await?;
        if endorse(store, signer, clock.as_ref(), ring).await?.is_none() {
            return Ok(());
        }
        let ring = store.key_ring().await?;
        signer.follow(ring.clone(), Arc::clone(clock));
        let kid = signer.key_set().active().kid().to_string();
        let live = store.live_nodes().await?;
        let untaken = ring.untaken(&kid, &live, clock.now());
        if untaken.is_empty() {
            return Ok(());
        }
        if started.elapsed() > TAKEN_TIMEOUT {
            let fault = format!(
                "the key {kid} of this node is not taken by {}: tokens that it signs would be refused there. A node takes what \
                 is endorsed by a key that it knows: /readyz of it and its log say which it does not",
                untaken.join(", ")
            );
            // They may be in the middle of a start themselves.
            return Err(NotServing { lines: vec![fault], may_pass: true });
        }
        tokio::time::sleep(PAUSE).await;
    }
}
