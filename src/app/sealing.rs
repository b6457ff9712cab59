//! Loads the data key at startup: reads the wrapped key from the store and unwraps it with the
//! token. A new node first receives the data key from another node.
//!
//! A new node reads its own request and the data key from the database, which an attacker may have
//! changed. So the node verifies its own signature of the request. It accepts the data key only
//! with a signature by the key that the operator has named.

use zeroize::Zeroizing;

use sealgate_config as config;
use sealgate_core::state::NotServing;
use sealgate_domain::admission::EnvelopeFault;
use sealgate_domain::key_ring::TokenHolder;
use sealgate_domain::secret::from_base64url;
use sealgate_signer as signer;
use sealgate_signer::{FreshRandom, PublicKey, SignerOpenError, StoredDataKey, WrappedKey};
use sealgate_store::sealer::{SealError, Sealer};
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
pub enum NoDataKey {
    #[error("{NO_WRAPPING_KEY}")]
    NoWrappingKey,
    #[error("{NOT_ADMITTED}")]
    NotAdmitted,
}

/// Checks whether [`open`] would succeed. Returns the reason if there would be no data key.
///
/// Writes nothing. Blocks on the token.
pub(crate) async fn check(
    hsm: &config::Hsm,
    store: &Store,
    entropy: &dyn Entropy,
) -> Result<Option<NoDataKey>, DataKeyError> {
    let noted = store.cluster_data_key().await?;
    let wrapped_keys = wrapped_data_keys(store).await?;
    if noted.is_none() && wrapped_keys.is_empty() {
        return Ok(None);
    }
    if store.is_shared() {
        return Ok(open_cluster_data_key(hsm, &wrapped_keys, noted.as_deref())?.err());
    }
    signer::data_key(hsm, &wrapped_keys, fresh_random(entropy))?;
    Ok(None)
}

async fn wrapped_data_keys(store: &Store) -> Result<Vec<WrappedKey>, StoreError> {
    let wrapped_keys = store.wrapped_data_keys().await?;
    Ok(wrapped_keys.into_iter().map(|(wrapping_id, bytes)| WrappedKey { wrapping_id, bytes }).collect())
}

fn fresh_random(entropy: &dyn Entropy) -> FreshRandom {
    FreshRandom { key: Zeroizing::new(random(entropy)), nonce: random(entropy) }
}

/// Loads the data key, if the token has a wrapping key. On the first call for a store, generates,
/// wraps and stores a data key.
///
/// Blocks on the token. Call it before the signer is opened. Nodes that share a store use the same
/// data key, because each node must decrypt the records of the other nodes.
pub async fn open(
    hsm: &config::Hsm,
    store: &Store,
    entropy: &dyn Entropy,
) -> Result<Result<Sealer, NoDataKey>, DataKeyError> {
    match try_to_open(hsm, store, entropy).await {
        // Another node has stored a data key at the same time. Load that data key.
        Err(DataKeyError::Store(StoreError::Contended)) => try_to_open(hsm, store, entropy).await,
        opened => opened,
    }
}

/// Loads the data key on a node with its own token. If another node has sent the data key, receives
/// it first.
///
/// # Errors
/// Those of [`open`], and [`DataKeyError::Envelope`].
pub async fn open_or_receive(
    hsm: &config::Hsm,
    store: &Store,
    holder: &TokenHolder,
    entropy: &dyn Entropy,
) -> Result<Result<Sealer, NoDataKey>, DataKeyError> {
    match Box::pin(open(hsm, store, entropy)).await? {
        Err(NoDataKey::NotAdmitted) if Box::pin(receive(hsm, store, holder, entropy)).await? => {
            Box::pin(open(hsm, store, entropy)).await
        }
        opened => Ok(opened),
    }
}

async fn try_to_open(
    hsm: &config::Hsm,
    store: &Store,
    entropy: &dyn Entropy,
) -> Result<Result<Sealer, NoDataKey>, DataKeyError> {
    // Read the recorded id before the wrapped keys. Otherwise the wrapped keys might not include
    // the key with that id.
    let noted = store.cluster_data_key().await?;
    let wrapped_keys = wrapped_data_keys(store).await?;
    if store.is_shared() && (noted.is_some() || !wrapped_keys.is_empty()) {
        let opened = open_cluster_data_key(hsm, &wrapped_keys, noted.as_deref())?;
        if let (Ok(sealer), None) = (&opened, noted) {
            store.note_cluster_data_key(sealer.data_key_id()).await?;
        }
        return Ok(opened);
    }
    let opened = signer::data_key(hsm, &wrapped_keys, fresh_random(entropy))?;
    let Some(opened) = opened else {
        if !wrapped_keys.is_empty() {
            tracing::warn!(
                wrapping_keys = wrapping_key_ids(&wrapped_keys),
                "the token has no wrapping key that sealed this store; the sealed records cannot be read \
                 until one is restored"
            );
        }
        return Ok(Err(NoDataKey::NoWrappingKey));
    };
    let sealer = Sealer::new(&opened.key)?;
    if let Some(new) = &opened.to_store {
        if store.is_shared() {
            store.keep_first_data_key(&new.wrapping_id, &new.bytes, sealer.data_key_id()).await?;
        } else {
            store.keep_data_key(&new.wrapping_id, &new.bytes).await?;
        }
        tracing::debug!(wrapping_key = new.wrapping_id, "generated a data key for the store");
    }
    Ok(Ok(sealer))
}

/// Unwraps the cluster's data key.
///
/// Never generates a data key: the other nodes could not decrypt records that are encrypted with a
/// new data key.
fn open_cluster_data_key(
    hsm: &config::Hsm,
    wrapped_keys: &[WrappedKey],
    noted: Option<&str>,
) -> Result<Result<Sealer, NoDataKey>, DataKeyError> {
    match signer::stored_data_key(hsm, wrapped_keys)? {
        StoredDataKey::Opened(opened) => {
            let sealer = Sealer::new(&opened.key)?;
            if noted.is_some_and(|noted| noted != sealer.data_key_id()) {
                return Err(DataKeyError::AnotherDataKey(hsm.token_label.clone()));
            }
            Ok(Ok(sealer))
        }
        StoredDataKey::NoMatchingKey(own) if hsm.shared => {
            let own = if own.is_empty() { "no wrapping key".to_owned() } else { own.join(", ") };
            Err(DataKeyError::OtherWrappingKey {
                token: hsm.token_label.clone(),
                own,
                expected: wrapping_key_ids(wrapped_keys),
            })
        }
        StoredDataKey::NoMatchingKey(_) => Ok(Err(NoDataKey::NotAdmitted)),
    }
}

fn wrapping_key_ids(wrapped_keys: &[WrappedKey]) -> String {
    wrapped_keys.iter().map(|key| key.wrapping_id.as_str()).collect::<Vec<_>>().join(", ")
}

/// Error of loading the data key.
#[derive(Debug, thiserror::Error)]
pub enum DataKeyError {
    /// The token fails, or the stored data key cannot be unwrapped.
    #[error(transparent)]
    Token(#[from] SignerOpenError),
    /// The store fails.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// The token has another wrapping key, although the configuration says that all nodes have the
    /// same keys (`hsm.shared`).
    #[error(
        "token \"{token}\": this token cannot decrypt the data key of this store's nodes: it was wrapped by \
         the wrapping key with the CKA_ID {expected}, and the token has {own}. With hsm.shared = true the token \
         of each node needs the same keys: copy that wrapping key to this token. If it is lost permanently, \
         see docs/how-to/signing-keys.md, The wrapping key"
    )]
    OtherWrappingKey { token: String, own: String, expected: String },
    /// The token unwrapped a data key that is not the cluster's.
    #[error(
        "token \"{0}\": the data key in the database is not the one that this store's nodes use: another \
         program replaced the record, or it is from another store. Restore the record, or see \
         docs/how-to/signing-keys.md, The wrapping key"
    )]
    AnotherDataKey(String),
    /// The received data key does not match this node's request.
    #[error("{0}: it may have been changed. Repeat the request: sealgate node request")]
    Envelope(#[from] EnvelopeFault),
    /// The library rejects the key.
    #[error(transparent)]
    Key(#[from] SealError),
}

impl From<DataKeyError> for NotServing {
    fn from(error: DataKeyError) -> Self {
        let is_transient = match &error {
            DataKeyError::Token(error) => error.is_transient(),
            DataKeyError::Store(error) => error.is_transient(),
            _ => false,
        };
        Self { lines: vec![error.to_string()], is_transient }
    }
}

/// Receives the data key that another node has sent, and stores it wrapped by the node's own token.
///
/// Returns false if no node has sent it. Blocks on the token. Call it before the signer is opened.
///
/// # Errors
/// [`DataKeyError::Envelope`] if the data key does not match this node's request. Other errors if the
/// token or the store fails.
pub(crate) async fn receive(
    hsm: &config::Hsm,
    store: &Store,
    holder: &TokenHolder,
    entropy: &dyn Entropy,
) -> Result<bool, DataKeyError> {
    let request = store.node_request(&holder.node).await?;
    let envelope = store.data_key_envelope(&holder.node).await?;
    let (Some(request), Some(envelope)) = (request, envelope) else { return Ok(false) };
    let own = request.key.thumbprint();
    let keys = signer::list(hsm)?;
    if !keys.iter().any(|key| key.label == hsm.key_label && Some(key.kid.as_str()) == own.as_deref()) {
        return Err(EnvelopeFault::Request.into());
    }
    envelope.check(&request, &holder.issuer, PublicKey::has_signed)?;
    let noted = store.cluster_data_key().await?;
    if noted.as_ref() != Some(&envelope.data_key_id) {
        return Err(EnvelopeFault::OtherDataKey.into());
    }
    let ciphertext = from_base64url(&envelope.ciphertext).unwrap_or_default();
    let key = signer::open_envelope(hsm, &request.enrolment, request.hash, &ciphertext)?;
    if Sealer::new(&key)?.data_key_id() != envelope.data_key_id {
        return Err(EnvelopeFault::OtherDataKey.into());
    }
    let wrapped = signer::wrap_received(hsm, FreshRandom { key, nonce: random(entropy) })?;
    store.keep_received_data_key(&holder.node, &wrapped.wrapping_id, &wrapped.bytes).await?;
    tracing::info!(node = holder.node, wrapping_key = wrapped.wrapping_id, "received the cluster's data key");
    // Remove the enrolment key, which is no longer needed. A further request would otherwise reuse
    // it.
    if let Err(error) = signer::destroy_enrolment(hsm) {
        tracing::warn!(%error, "cannot remove the enrolment key from the token; delete it there");
    }
    Ok(true)
}
