//! Access check before queued pieces of a request body are written.
//!
//! While an upstream does not read, a few pieces of the body wait in Pingora's queue. They were
//! permitted when they entered it. The task that runs the exchange therefore asks the front again
//! before it continues, if the front was replaced, its epoch changed or the decision is old.
//! Otherwise this costs a comparison.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::long_lived::{Admitted, LONG, PATIENCE};
use super::snapshot::{Snapshot, Snapshots, Validity};

/// Pause before an undecided front is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Front, epoch and time of a positive decision.
pub(crate) struct Decision {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) epoch: u64,
    pub(crate) at: Instant,
}

/// A request body of which pieces may be queued.
#[derive(Default)]
pub(crate) struct QueuedBody {
    /// Most exchanges have none, and do not take the lock.
    is_begun: AtomicBool,
    body: Mutex<Option<Body>>,
}

struct Body {
    admitted: Arc<Admitted>,
    snapshots: Arc<Snapshots>,
    decision: Decision,
}

/// A check in progress. It returns `None` if access has ended.
pub(crate) type Recheck = Option<Pin<Box<dyn Future<Output = Option<Decision>> + Send>>>;

impl QueuedBody {
    pub(crate) fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    /// Starts to check the exchange before it continues, until it ends.
    pub(crate) fn begin(&self, admitted: Arc<Admitted>, snapshots: Arc<Snapshots>, decision: Decision) {
        *self.body() = Some(Body { admitted, snapshots, decision });
        self.is_begun.store(true, Ordering::Release);
    }

    /// Records a positive decision.
    pub(crate) fn decided(&self, decision: impl FnOnce() -> Decision) {
        if self.is_begun()
            && let Some(body) = &mut *self.body()
        {
            body.decision = decision();
        }
    }

    /// Returns whether the exchange may continue. Waits while the front cannot decide.
    ///
    /// The watcher of long-lived exchanges limits that wait.
    pub(crate) fn poll_permitted(&self, check: &mut Recheck, cx: &mut Context<'_>) -> Poll<bool> {
        if !self.is_begun() {
            return Poll::Ready(true);
        }
        loop {
            if let Some(running) = check {
                let Some(decision) = ready!(running.as_mut().poll(cx)) else { return Poll::Ready(false) };
                *check = None;
                self.decided(|| decision);
            }
            let body = self.body();
            let Some(Body { admitted, snapshots, decision }) = &*body else { return Poll::Ready(true) };
            let snapshot = snapshots.current();
            let same = Arc::ptr_eq(&snapshot, &decision.snapshot) && snapshot.front.epoch() == decision.epoch;
            if same && decision.at.elapsed() <= LONG {
                return Poll::Ready(true);
            }
            *check = Some(Box::pin(ask(Arc::clone(admitted), Arc::clone(snapshots))));
        }
    }

    fn body(&self) -> MutexGuard<'_, Option<Body>> {
        // A panic cannot leave it inconsistent: each statement leaves it valid.
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the current front until it decides. Returns `None` if access has ended.
async fn ask(admitted: Arc<Admitted>, snapshots: Arc<Snapshots>) -> Option<Decision> {
    loop {
        // Read before the front is asked: a change meanwhile moves the epoch past this value.
        let snapshot = snapshots.current();
        let (epoch, at) = (snapshot.front.epoch(), Instant::now());
        match timeout(PATIENCE, snapshot.validity(&admitted.head, &admitted.app)).await {
            Ok(Validity::Valid) => return Some(Decision { snapshot, epoch, at }),
            Ok(Validity::Ended) => return None,
            Ok(Validity::Unknown) | Err(_) => sleep(PAUSE).await,
        }
    }
}
