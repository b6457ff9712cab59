//! Errors and outcomes of the store.

use crate::engine::EngineError;
use crate::format::newer;
use crate::sealer::SealError;
use sealgate_domain::client::ClientId;

/// Error of a store operation. Clients get status 503 without details.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A record cannot be read or written, because it is damaged or because of a bug.
    #[error("the store is damaged: {0}")]
    Broken(String),
    /// Too many sign-ins are in progress.
    #[error("there are too many pending sign-ins")]
    TooManyInteractions,
    /// The limit of stored forms is reached, and no form can be evicted.
    #[error("there are too many saved forms")]
    TooManyForms,
    /// A sealed record cannot be unsealed.
    #[error(transparent)]
    Sealed(#[from] SealError),
    /// The stored password of a user at an application cannot be unsealed.
    #[error("the password for the application {app} cannot be decrypted ({why}); it must be entered again")]
    UnreadableAppCredential { app: String, why: SealError },
    /// A newer version of the program has written the store.
    #[error("{}", newer(*.format, *.known))]
    Newer {
        /// Format of the store.
        format: u32,
        /// Newest format of this program.
        known: u32,
    },
    /// A node with an older version shares the store, and could not read the new record.
    #[error("{0}")]
    NotYet(String),
    /// The sign-in that the change depends on has ended. Nothing was changed.
    #[error("the sign-in has ended")]
    SignedOut,
    /// The user of the page does not have, or would not keep, the role that the change requires.
    /// Nothing was changed.
    #[error("the user may no longer make this change")]
    NotPermitted,
    /// The record differs from the one that the client named in `If-Match`. Nothing was changed.
    #[error("the record was changed meanwhile")]
    PreconditionFailed,
    /// The configuration file defines the client. Nothing was changed.
    #[error("the configuration file defines the client {0}; change its [[client]] there and run: sealgate reload")]
    DefinedClient(ClientId),
    /// Concurrent changes of the record caused too many conflicts.
    #[error("the record was changed concurrently too often")]
    Contended,
}

impl StoreError {
    /// Returns whether a retry may succeed without intervention, for instance after a failover.
    pub fn is_transient(&self) -> bool {
        use EngineError::{Busy, Stale, Timeout, Unavailable, Unknown};
        matches!(self, Self::Engine(Busy | Timeout | Unknown | Stale(_) | Unavailable(_)) | Self::Contended)
    }

    /// Returns whether clients alone caused the error, by reaching a limit or by changing the same
    /// record at the same time. Such an error must not be logged at the level `error`, because
    /// clients could fill the log.
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::TooManyInteractions | Self::TooManyForms | Self::Contended | Self::PreconditionFailed)
    }

    /// Returns whether the only cause is that the state in this process may be outdated.
    ///
    /// This cause is logged once, where it is detected.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Engine(EngineError::Stale(_)))
    }
}

/// Outcome of a commit that expects unchanged records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Committed {
    /// Committed and durable.
    Yes,
    /// A record has changed. The caller must load the records and decide again.
    Conflict,
}
