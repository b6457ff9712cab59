//! Ownership of a commit while it is in an engine's queue.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot::Receiver;
use tokio::time::timeout;

use crate::engine::{EngineError, Outcome};

/// Ownership of a commit: the caller's until the writer starts it, then the writer's.
///
/// A caller that stops waiting can therefore tell whether the commit may still happen.
#[derive(Debug, Clone, Default)]
pub(super) struct CommitTurn(Arc<AtomicBool>);

impl CommitTurn {
    /// Starts the commit. Returns false if it was withdrawn.
    pub(super) fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Withdraws the commit. Returns false if it was started.
    fn withdraw(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Waits for the writer's answer, up to `to_begin` for the start and then up to `to_end`.
    ///
    /// # Errors
    /// [`EngineError::Timeout`] when the commit did not start and will not happen;
    /// [`EngineError::Unknown`] when it did not finish.
    pub(super) async fn wait(
        &self,
        answer: Receiver<Result<Outcome, EngineError>>,
        to_begin: Duration,
        to_end: Duration,
    ) -> Result<Outcome, EngineError> {
        let mut answer = pin!(answer);
        let answered = match timeout(to_begin, answer.as_mut()).await {
            Ok(answered) => answered,
            Err(_) if self.withdraw() => return Err(EngineError::Timeout),
            Err(_) => match timeout(to_end, answer).await {
                Ok(answered) => answered,
                Err(_) => return Err(EngineError::Unknown),
            },
        };
        answered.unwrap_or_else(|_| Err(EngineError::Unavailable("its writer thread has stopped".to_owned())))
    }
}
