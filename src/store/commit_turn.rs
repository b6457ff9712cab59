//! Whose a commit is, while it waits in an engine's queue.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot::Receiver;
use tokio::time::timeout;

use crate::store::engine::{EngineError, Outcome};

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
    fn withdraw(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// What the writer says. `to_begin`: how long it may take until it begins; `to_end`: from then on.
    ///
    /// # Errors
    /// [`EngineError::Timeout`] when it has not begun, so that nothing happens; [`EngineError::Unknown`] when it has not ended.
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
        answered.unwrap_or_else(|_| Err(EngineError::Unavailable("its writer has stopped".to_owned())))
    }
}
