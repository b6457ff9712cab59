//! Decides whether a queued commit is started by the writer or withdrawn by its caller.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot::Receiver;
use tokio::time::timeout;

use crate::engine::{EngineError, Outcome};

/// Final decision about a queued commit: either the writer starts the commit, or the caller
/// withdraws it.
///
/// A caller that stops waiting therefore knows whether the commit may still take place.
#[derive(Debug, Clone, Default)]
pub(super) struct CommitTurn(Arc<AtomicBool>);

impl CommitTurn {
    /// Starts the commit. Returns false if the caller has withdrawn it.
    pub(super) fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Withdraws the commit. Returns false if the writer has started it.
    fn withdraw(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Waits for the writer's result: up to `to_begin` for the start of the commit, and then up to
    /// `to_end`.
    ///
    /// # Errors
    /// - [`EngineError::Timeout`] if the commit did not start. The commit will not take place.
    /// - [`EngineError::Unknown`] if the commit started but did not end. The commit may still take
    ///   place.
    pub(super) async fn wait(
        &self,
        answer: Receiver<Result<Outcome, EngineError>>,
        to_begin: Duration,
        to_end: Duration,
    ) -> Result<Outcome, EngineError> {
        let mut answer = pin!(answer);
        let result = match timeout(to_begin, answer.as_mut()).await {
            Ok(result) => result,
            Err(_) if self.withdraw() => return Err(EngineError::Timeout),
            Err(_) => match timeout(to_end, answer).await {
                Ok(result) => result,
                Err(_) => return Err(EngineError::Unknown),
            },
        };
        result.unwrap_or_else(|_| Err(EngineError::Unavailable("its writer thread has stopped".to_owned())))
    }
}
