//! Loads the data key from the store through the token, at a start.

mod fault;
mod receiving;

use zeroize::Zeroizing;

pub(crate) use fault::NotSealing;

use sealgate_config as config;
use sealgate_domain::key_ring::TokenHolder;
use sealgate_signer as signer;
use sealgate_signer::{FreshRandom, KeptKey, WrappedKey};
use sealgate_store::sealer::Sealer;
use sealgate_store::{Store, StoreError};
use sealgate_system::clock::{Entropy, random};

/// Warning for a token without a wrapping key.
pub(crate) const NO_WRAPPING_KEY: &str = "the token has no wrapping key, so no secret can be sealed: \
    authenticator apps, recovery codes and saved forms are not available. Create a wrapping key with \
    `sealgate key generate-wrapping-key`, then restart the server";

/// Warning for a node that has not received the cluster's data key.
const NOT_ADMITTED: &str = "this node's token cannot decrypt the cluster's data key, so authenticator apps, \
    recovery codes and messages do not work on this node. Send it the data key: see \
    docs/how-to/cluster-nodes.md, Taking a node in";

/// Error for `[mail]` without a data key.
pub(crate) const NO_MAIL: &str = "[mail] is configured, but no mail is sent: queued messages give access to \
    accounts and are only stored sealed. Create a wrapping key, or leave [mail] out";

/// Reason why a server starts without a data key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsealed {
    #[error("{NO_WRAPPING_KEY}")]
    NoWrappingKey,
    #[error("{NOT_ADMITTED}")]
    NotAdmitted,
}

/// Checks whether [`open`] would succeed, and returns why there would be no data key.
///
/// Writes nothing. Blocks on the token.
pub(crate) async fn check(
    hsm: &config::Hsm,
    store: &Store,
    entropy: &dyn Entropy,
) -> Result<Option<Unsealed>, NotSealing> {
    let noted = store.cluster_data_key().await?;
    let kept = kept(store).await?;
    if noted.is_none() && kept.is_empty() {
        return Ok(None);
    }
    if store.is_shared() {
        return Ok(open_of_cluster(hsm, &kept, noted.as_deref())?.err());
    }
    signer::data_key(hsm, &kept, fresh(entropy))?;
    Ok(None)
}

async fn kept(store: &Store) -> Result<Vec<WrappedKey>, StoreError> {
    let kept = store.wrapped_data_keys().await?;
    Ok(kept.into_iter().map(|(wrapping_id, bytes)| WrappedKey { wrapping_id, bytes }).collect())
}

fn fresh(entropy: &dyn Entropy) -> FreshRandom {
    FreshRandom { key: Zeroizing::new(random(entropy)), nonce: random(entropy) }
}

/// Loads the data key, if the token has a wrapping key. The first time, generates, wraps and stores
/// it.
///
/// Blocks on the token; call it before the signer is opened. Nodes that share a store use one data
/// key: each has to unseal the others' records.
pub async fn open(
    hsm: &config::Hsm,
    store: &Store,
    entropy: &dyn Entropy,
) -> Result<Result<Sealer, Unsealed>, NotSealing> {
    match try_to_open(hsm, store, entropy).await {
        // Another node has stored one concurrently; load that one.
        Err(NotSealing::Store(StoreError::Contended)) => try_to_open(hsm, store, entropy).await,
        opened => opened,
    }
}

/// Does the same for a node with its own token, which may receive the data key.
///
/// # Errors
/// As [`open`]; [`NotSealing::Envelope`].
pub async fn open_or_receive(
    hsm: &config::Hsm,
    store: &Store,
    holder: &TokenHolder,
    entropy: &dyn Entropy,
) -> Result<Result<Sealer, Unsealed>, NotSealing> {
    match Box::pin(open(hsm, store, entropy)).await? {
        Err(Unsealed::NotAdmitted) if Box::pin(receiving::take(hsm, store, holder, entropy)).await? => {
            Box::pin(open(hsm, store, entropy)).await
        }
        opened => Ok(opened),
    }
}

async fn try_to_open(
    hsm: &config::Hsm,
    store: &Store,
    entropy: &dyn Entropy,
) -> Result<Result<Sealer, Unsealed>, NotSealing> {
    // Before the wrapped keys: these then include the one with the recorded ID.
    let noted = store.cluster_data_key().await?;
    let kept = kept(store).await?;
    if store.is_shared() && (noted.is_some() || !kept.is_empty()) {
        let opened = open_of_cluster(hsm, &kept, noted.as_deref())?;
        if let (Ok(sealer), None) = (&opened, noted) {
            store.note_cluster_data_key(sealer.data_key_id()).await?;
        }
        return Ok(opened);
    }
    let opened = signer::data_key(hsm, &kept, fresh(entropy))?;
    let Some(opened) = opened else {
        if !kept.is_empty() {
            tracing::warn!(
                wrapping_keys = ids(&kept),
                "the token has no wrapping key that sealed this store; the sealed records cannot be read \
                 until one is restored"
            );
        }
        return Ok(Err(Unsealed::NoWrappingKey));
    };
    let sealer = Sealer::new(&opened.key)?;
    if let Some(new) = &opened.to_keep {
        if store.is_shared() {
            store.keep_first_data_key(&new.wrapping_id, &new.bytes, sealer.data_key_id()).await?;
        } else {
            store.keep_data_key(&new.wrapping_id, &new.bytes).await?;
        }
        tracing::debug!(wrapping_key = new.wrapping_id, "generated a data key for the store");
    }
    Ok(Ok(sealer))
}

/// Unwraps the cluster's data key. Generates none: the other nodes could not unseal its records.
fn open_of_cluster(
    hsm: &config::Hsm,
    kept: &[WrappedKey],
    noted: Option<&str>,
) -> Result<Result<Sealer, Unsealed>, NotSealing> {
    match signer::kept_data_key(hsm, kept)? {
        KeptKey::Opened(opened) => {
            let sealer = Sealer::new(&opened.key)?;
            if noted.is_some_and(|noted| noted != sealer.data_key_id()) {
                return Err(NotSealing::AnotherDataKey(hsm.token_label.clone()));
            }
            Ok(Ok(sealer))
        }
        KeptKey::NotOurs(own) if hsm.shared => {
            let own = if own.is_empty() { "no wrapping key".to_owned() } else { own.join(", ") };
            Err(NotSealing::OtherWrappingKey { token: hsm.token_label.clone(), own, kept: ids(kept) })
        }
        KeptKey::NotOurs(_) => Ok(Err(Unsealed::NotAdmitted)),
    }
}

fn ids(kept: &[WrappedKey]) -> String {
    kept.iter().map(|kept| kept.wrapping_id.as_str()).collect::<Vec<_>>().join(", ")
}
