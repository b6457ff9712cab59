//! At the start: the data key out of the store, through the token, into what seals. Knows neither what is sealed nor how.

use zeroize::Zeroizing;

use crate::clock::{Entropy, random};
use crate::config;
use crate::signer::{self, Fresh, SignerOpenError, WrappedKey};
use crate::store::sealer::{SealError, Sealer};
use crate::store::{Store, StoreError};

/// What an operator is told whose token has no wrapping key.
pub(crate) const NO_WRAPPING_KEY: &str = "the token has no wrapping key, so nothing can be sealed: no authenticator app and no \
    recovery codes can be kept for anybody, and no form that was sent too late. To make one: sealgate key wrap-init; then \
    restart the server";

/// What an operator is told who wants mails sent by a server that cannot seal.
pub(crate) const NO_MAIL: &str = "[mail] is configured and no mail is sent: what waits to be sent opens accounts, so it is kept \
    sealed or not at all. Make a wrapping key, or leave [mail] out";

/// Why it is not known whether and how to seal: one line.
#[derive(Debug, thiserror::Error)]
pub enum NotSealing {
    /// The token fails, or the kept data key does not open.
    #[error(transparent)]
    Token(#[from] SignerOpenError),
    /// The store fails.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// The library takes no such key.
    #[error(transparent)]
    Key(#[from] SealError),
}

impl NotSealing {
    /// Whether the same may succeed later although nobody has done anything.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Token(error) if error.may_pass())
    }
}

/// Whether [`open`] would open what the store has. Writes nothing. Blocks on the token.
pub(crate) async fn check(hsm: &config::Hsm, store: &Store, entropy: &dyn Entropy) -> Result<(), NotSealing> {
    let kept = kept(store).await?;
    if !kept.is_empty() {
        signer::data_key(hsm, &kept, fresh(entropy))?;
    }
    Ok(())
}

async fn kept(store: &Store) -> Result<Vec<WrappedKey>, StoreError> {
    let kept = store.wrapped_data_keys().await?;
    Ok(kept.into_iter().map(|(wrapping_id, bytes)| WrappedKey { wrapping_id, bytes }).collect())
}

fn fresh(entropy: &dyn Entropy) -> Fresh {
    Fresh { key: Zeroizing::new(random(entropy)), nonce: random(entropy) }
}

/// What seals, when the token has a wrapping key. The first time a data key is made, wrapped and kept. Blocks on the
/// token; call it before the signer is opened.
pub async fn open(hsm: &config::Hsm, store: &Store, entropy: &dyn Entropy) -> Result<Option<Sealer>, NotSealing> {
    match try_to_open(hsm, store, entropy).await {
        // Another node has kept one at the same moment: that is the one.
        Err(NotSealing::Store(StoreError::Contended)) => try_to_open(hsm, store, entropy).await,
        opened => opened,
    }
}

async fn try_to_open(hsm: &config::Hsm, store: &Store, entropy: &dyn Entropy) -> Result<Option<Sealer>, NotSealing> {
    let kept = kept(store).await?;
    let opened = signer::data_key(hsm, &kept, fresh(entropy))?;
    let Some(opened) = opened else {
        if !kept.is_empty() {
            let ids: Vec<&str> = kept.iter().map(|kept| kept.wrapping_id.as_str()).collect();
            tracing::warn!(
                wrapping_keys = ids.join(", "),
                "the token has none of the wrapping keys that the store was sealed with; what was sealed is out of reach \
                 until one is back"
            );
        }
        return Ok(None);
    };
    if let Some(new) = &opened.to_keep {
        store.keep_data_key(&new.wrapping_id, &new.bytes).await?;
        tracing::info!(wrapping_key = new.wrapping_id, "made a data key for what is sealed in the store");
    }
    Ok(Some(Sealer::new(&opened.key)?))
}
