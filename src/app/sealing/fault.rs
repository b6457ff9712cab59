//! Errors of loading the data key at a start.

use sealgate_core::not_serving::NotServing;
use sealgate_domain::admission::EnvelopeFault;
use sealgate_signer::SignerOpenError;
use sealgate_store::StoreError;
use sealgate_store::sealer::SealError;

/// Error of loading the data key.
#[derive(Debug, thiserror::Error)]
pub enum NotSealing {
    /// The token fails, or the stored data key cannot be unwrapped.
    #[error(transparent)]
    Token(#[from] SignerOpenError),
    /// The store fails.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// A token configured as having the keys of all nodes has another wrapping key.
    #[error(
        "token \"{token}\": this token cannot decrypt the data key of this store's nodes: it was wrapped by \
         the wrapping key with the CKA_ID {kept}, and the token has {own}. With hsm.shared = true the token \
         of each node needs the same keys: copy that wrapping key to this token. If it is lost permanently, \
         see docs/how-to/signing-keys.md, The wrapping key"
    )]
    OtherWrappingKey { token: String, own: String, kept: String },
    /// The data key unwrapped by the token is not the cluster's.
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

impl From<NotSealing> for NotServing {
    fn from(error: NotSealing) -> Self {
        let may_pass = match &error {
            NotSealing::Token(error) => error.may_pass(),
            NotSealing::Store(error) => error.may_pass(),
            _ => false,
        };
        Self { lines: vec![error.to_string()], may_pass }
    }
}
