//! Whose a commit is, while it waits in an engine's queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whose a commit is: the caller's until the writer begins it, and the writer's from then on. So a caller that stops
/// waiting knows whether the commit may still happen.
#[derive(Debug, Clone, Default)]
pub(super) struct CommitTurn(Arc<AtomicBool>);

impl CommitTurn {
    /// Begins it; false when it was withdrawn.
    pub(super) fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Takes it back; false when it was begun.
    pub(super) fn withdraw(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}
