//! Endorsement of signing keys in a cluster whose nodes have separate PKCS#11 tokens.
//!
//! This node endorses the keys of other nodes in the key ring. At startup it does not serve until
//! the other nodes accept its own key. [`sealgate_domain::key_ring`] defines the signed content.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::state::NotServing;
use sealgate_domain::key_ring::{FirstKeyTrust, KeyFault, KeyRing, KeyState};
use sealgate_domain::time::UnixTime;
use sealgate_signer::{EndorsementPlan, SignError, Signer};
use sealgate_store::{Store, StoreError};
use sealgate_system::clock::Clock;

/// Maximum time that a starting node waits until the other nodes accept its key. Each node looks
/// for new keys every second.
const ACCEPTANCE_TIMEOUT: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Reason why this node's endorsements are missing from the ring.
#[derive(Debug, thiserror::Error)]
pub enum NotEndorsed {
    #[error("store: {0}")]
    Store(#[from] StoreError),
    #[error("cannot endorse the keys of other nodes: {0}")]
    Token(#[from] SignError),
    #[error(transparent)]
    Ring(#[from] KeyFault),
}

impl From<NotEndorsed> for NotServing {
    fn from(fault: NotEndorsed) -> Self {
        match fault {
            NotEndorsed::Store(error) => error.into(),
            // The PKCS#11 token was available at startup, so the failure is probably temporary.
            NotEndorsed::Token(_) => Self { lines: vec![fault.to_string()], is_transient: true },
            NotEndorsed::Ring(_) => vec![fault.to_string()].into(),
        }
    }
}

/// Adds this node's missing keys to the ring, and endorses the trusted keys of other nodes.
///
/// Returns the kids of keys of other nodes that no trusted key endorses. Returns `None` if all
/// nodes share one PKCS#11 token.
///
/// # Errors
/// [`NotEndorsed`].
pub async fn endorse(
    store: &Store,
    signer: &dyn Signer,
    clock: &dyn Clock,
    mut ring: KeyRing,
) -> Result<Option<Vec<String>>, NotEndorsed> {
    let now = clock.now();
    let Some(mut endorsement_plan) = signer.endorsement_plan(&ring, now) else { return Ok(None) };
    if !endorsement_plan.undescribed.is_empty() {
        let undescribed = endorsement_plan.undescribed;
        let described = change(store, |ring| undescribed.iter().for_each(|(kid, jwk)| ring.describe(kid, jwk)));
        ring = described.await?;
        let Some(again) = signer.endorsement_plan(&ring, now) else { return Ok(None) };
        endorsement_plan = again;
    }
    let EndorsementPlan { due, untrusted, .. } = endorsement_plan;
    if due.is_empty() {
        return Ok(Some(untrusted));
    }
    let mut endorsements = Vec::with_capacity(due.len());
    for (by, endorsement) in due {
        let signatures = signer.sign(&by, vec![endorsement.statement.clone()]).await?;
        endorsements.extend(signatures.into_iter().next().map(|signature| (endorsement, signature)));
    }
    let endorsed = change(store, |ring| {
        for (endorsement, signature) in &endorsements {
            ring.endorse(&endorsement.kid, &endorsement.by, signature.as_bytes(), now);
        }
    });
    let ring = endorsed.await?;
    for (endorsement, _) in &endorsements {
        let (kid, by) = (&endorsement.kid, &endorsement.by);
        if let Some(FirstKeyTrust { holder, word_of }) = &endorsement.introduced {
            tracing::warn!(kid, by, holder, word_of, "trusting the first key of a node, which a trusted node endorsed");
        } else {
            tracing::info!(kid, by, "endorsed a signing key of the cluster");
        }
    }
    Ok(signer.endorsement_plan(&ring, now).map(|endorsement_plan| endorsement_plan.untrusted))
}

/// Blocks decisions while another serving node signs with a key that this node does not trust.
///
/// Otherwise this node would treat valid tokens of the other node as forged, and report that they
/// are revoked. There are two causes:
///
/// - This node was offline while the only other node replaced its key and removed the previous key.
/// - The issuer was renamed, which affects all nodes.
///
/// An attacker with write access to the database can also block decisions, by adding a forged row
/// of a node. The same attacker could do as much harm by deleting rows.
///
/// # Errors
/// Returns the store's error. In this case, nothing has changed.
pub async fn hold_back(store: &Store, ring: &KeyRing, untrusted: &[String], now: UnixTime) -> Result<(), StoreError> {
    let mut signing = Vec::new();
    for key in untrusted.iter().filter_map(|kid| ring.find(kid)) {
        if let (KeyState::Active, Some(holder)) = (ring.state(key, now), &key.holder) {
            signing.push((&key.kid, holder));
        }
    }
    let live = if signing.is_empty() { Vec::new() } else { store.live_nodes().await? };
    let cause = signing.into_iter().find(|(_, holder)| live.contains(holder)).map(|(kid, holder)| {
        format!(
            "this node does not trust the key {kid}, with which the node {holder} signs. Stop this server \
             and run here: sealgate node request --trust={kid}; then run on {holder}: sealgate node admit \
             (docs/how-to/cluster-nodes.md, \"A node that was away\")"
        )
    });
    if store.hold_back(cause.clone()) {
        if let Some(cause) = cause {
            tracing::error!("this node refuses gated requests: {cause}");
        } else {
            tracing::info!("this node trusts the keys of all serving nodes");
        }
    }
    Ok(())
}

async fn change(store: &Store, change: impl Fn(&mut KeyRing) + Send + Sync) -> Result<KeyRing, NotEndorsed> {
    let changed = store.change_key_ring(|ring| {
        change(ring);
        Ok(())
    });
    Ok(changed.await??)
}

/// Publishes this node's key at startup, and waits until all serving nodes trust it. Afterwards no
/// node rejects tokens of this node.
///
/// # Errors
/// One line if a node does not accept the key in time.
pub async fn join(store: &Store, signer: &dyn Signer, clock: &Arc<dyn Clock>) -> Result<(), NotServing> {
    let started = Instant::now();
    loop {
        let ring = store.key_ring().await?;
        let Some(untrusted) = endorse(store, signer, clock.as_ref(), ring).await? else { return Ok(()) };
        let ring = store.key_ring().await?;
        signer.set_key_ring(ring.clone(), Arc::clone(clock));
        let kid = signer.key_set().active().kid().to_string();
        let live = store.live_nodes().await?;
        let distrusting = ring.distrusting_nodes(&kid, &live, clock.now());
        if distrusting.is_empty() {
            return Ok(hold_back(store, &ring, &untrusted, clock.now()).await?);
        }
        if started.elapsed() > ACCEPTANCE_TIMEOUT {
            let fault = format!(
                "the key {kid} of this node is not trusted by {}, which would refuse tokens signed with it. \
                 A node trusts a key after a key that the node already trusts has endorsed it. /readyz and \
                 the log of a node list the keys that the node does not trust",
                distrusting.join(", ")
            );
            // The other nodes may be starting too.
            return Err(NotServing { lines: vec![fault], is_transient: true });
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}
