//! How a call to the store ends.

use crate::store::engine::EngineError;
use crate::store::sealer::SealError;
use crate::store::versions::newer;

/// Why the store could not do what was asked. A stranger sees 503 and none of it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A record cannot be read or written: damage, or a bug.
    #[error("the store is damaged: {0}")]
    Broken(String),
    /// Too many people have started to sign in and not finished.
    #[error("too many sign-ins are open")]
    TooManyInteractions,
    /// As many forms are kept as may be, and none could give way.
    #[error("too many forms are kept")]
    TooManyForms,
    /// A sealed record does not open.
    #[error(transparent)]
    Sealed(#[from] SealError),
    /// The store was written by a newer program.
    #[error("{}", newer(*.found, *.known))]
    Newer {
        /// The format found.
        found: u32,
        /// The newest format that is known here.
        known: u32,
    },
    /// Nodes of an older version, which share the store, could not read what was to be written.
    #[error("{0}")]
    NotYet(String),
    /// The sign-in that the change was to be made with has ended; nothing was changed.
    #[error("the sign-in has ended")]
    SignedOut,
    /// Others changed the same record again and again.
    #[error("the record is contended")]
    Contended,
}

impl StoreError {
    /// Whether the same may succeed later although nobody has done anything: a failover in progress.
    pub(crate) fn may_pass(&self) -> bool {
        use EngineError::{Busy, Stale, Timeout, Unavailable, Unknown};
        matches!(self, Self::Engine(Busy | Timeout | Unknown | Stale(_) | Unavailable(_)) | Self::Contended)
    }

    /// Whether nothing is broken here, and what is known may have changed meanwhile. It is told once, where it began.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Engine(EngineError::Stale(_)))
    }
}

/// How a change that decided on loaded records ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Committed {
    /// Done and durable.
    Yes,
    /// A record had changed: load and decide again.
    Conflict,
}
