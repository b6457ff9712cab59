//! Why a start does not get to seal.

use crate::app::not_serving::NotServing;
use crate::domain::admission::EnvelopeFault;
use crate::signer::SignerOpenError;
use crate::store::StoreError;
use crate::store::sealer::SealError;

/// Why it is not known whether and how to seal: one line.
#[derive(Debug, thiserror::Error)]
pub enum NotSealing {
    /// The token fails, or the kept data key does not open.
    #[error(transparent)]
    Token(#[from] SignerOpenError),
    /// The store fails.
    #[error("store: {0}")]
    Store(#[from] StoreError),
    /// A token that is said to have the keys of all nodes has another wrapping key.
    #[error(
        "token \"{token}\": the nodes of this store seal with a data key that this token cannot open: it was wrapped by the \
         wrapping key with the CKA_ID {kept}, and the token has {own}. With hsm.shared = true the token of each node needs the \
         same keys: bring that wrapping key into this token. Where it is lost for good, see docs/hsm.md, The \
         wrapping key"
    )]
    OtherWrappingKey { token: String, own: String, kept: String },
    /// What the token opens is not what the other nodes seal with.
    #[error(
        "token \"{0}\": it opens a data key that is not the one which the nodes of this store seal with: the record was put \
         there by somebody else, or comes from another store. Bring back the record that the database had, or see docs/hsm.md, \
         The wrapping key"
    )]
    AnotherDataKey(String),
    /// What was sent to this node is not what it has asked for.
    #[error("{0}: somebody may have changed it. Make the request anew: sealgate node request")]
    Envelope(#[from] EnvelopeFault),
    /// The library takes no such key.
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
