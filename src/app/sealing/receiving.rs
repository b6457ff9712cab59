//! Receipt of the data key by a new node.
//!
//! All inputs come from the database. The node authenticates its own request by its own signature,
//! and accepts the data key only from the key that its operator has named.

use crate::app::sealing::fault::NotSealing;
use sealgate_config as config;
use sealgate_domain::admission::EnvelopeFault;
use sealgate_domain::key_ring::TokenHolder;
use sealgate_domain::secret::from_base64url;
use sealgate_signer as signer;
use sealgate_signer::{FreshRandom, PublicKey};
use sealgate_store::Store;
use sealgate_store::sealer::Sealer;
use sealgate_system::clock::{Entropy, random};

/// Receives the data key sent to this node, and stores it wrapped by the node's own token.
///
/// Returns false if none was sent. Blocks on the token; call it before the signer is opened.
///
/// # Errors
/// [`NotSealing::Envelope`] if it does not match this node's request; when the token or the store
/// fails.
pub(crate) async fn take(
    hsm: &config::Hsm,
    store: &Store,
    holder: &TokenHolder,
    entropy: &dyn Entropy,
) -> Result<bool, NotSealing> {
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
    // The enrolment key protects nothing any more; a further request would reuse it.
    if let Err(error) = signer::destroy_enrolment(hsm) {
        tracing::warn!(%error, "cannot remove the enrolment key from the token; delete it there");
    }
    Ok(true)
}
