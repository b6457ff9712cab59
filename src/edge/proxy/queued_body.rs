//! Access check before queued parts of a request body are sent to an upstream.
//!
//! If an upstream does not read, parts of the body wait in Pingora's queue. They were permitted
//! when they were queued. Before the exchange continues, the front therefore decides again if it
//! was replaced, if its epoch has changed, or if the last decision is old.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::long_lived::{Admitted, DECISION_TIMEOUT, LONG_LIVED_AGE};
use super::snapshot::{Snapshot, Snapshots, Validity};
use sealgate_system::read_mostly::LocalRef;

/// Pause before the front is asked again if it could not decide.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Snapshot, epoch and time of a decision that permitted the request.
pub(crate) struct Decision {
    pub(crate) snapshot: LocalRef<Snapshot>,
    pub(crate) epoch: u64,
    pub(crate) at: Instant,
}

/// Check of a request body that may be partly queued.
#[derive(Default)]
pub(crate) struct QueuedBody {
    /// Whether checks are enabled. Most exchanges have no queued body and need not take the lock.
    is_begun: AtomicBool,
    body: Mutex<Option<Body>>,
}

struct Body {
    admitted: Arc<Admitted>,
    snapshots: Arc<Snapshots>,
    decision: Decision,
}

/// Check in progress. Its result is `None` if access has ended.
pub(crate) type Recheck = Option<Pin<Box<dyn Future<Output = Option<Decision>> + Send>>>;

impl QueuedBody {
    pub(crate) fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    /// Enables the check before each further step, until the exchange ends.
    pub(crate) fn begin(&self, admitted: Arc<Admitted>, snapshots: Arc<Snapshots>, decision: Decision) {
        *self.body() = Some(Body { admitted, snapshots, decision });
        self.is_begun.store(true, Ordering::Release);
    }

    /// Records another decision that permitted the request.
    pub(crate) fn decided(&self, decision: impl FnOnce() -> Decision) {
        if self.is_begun()
            && let Some(body) = &mut *self.body()
        {
            body.decision = decision();
        }
    }

    /// Returns whether the exchange may continue. Waits while the front cannot decide.
    ///
    /// The watcher of long-lived exchanges limits that time.
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
            let same = snapshot.is_same(&decision.snapshot) && snapshot.front.epoch() == decision.epoch;
            if same && decision.at.elapsed() <= LONG_LIVED_AGE {
                return Poll::Ready(true);
            }
            *check = Some(Box::pin(ask(Arc::clone(admitted), Arc::clone(snapshots))));
        }
    }

    fn body(&self) -> MutexGuard<'_, Option<Body>> {
        // No statement leaves the value inconsistent, so it is consistent even after a panic.
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the current front until it can decide. `None` if access has ended.
async fn ask(admitted: Arc<Admitted>, snapshots: Arc<Snapshots>) -> Option<Decision> {
    loop {
        // Read before the front decides. If access changes afterwards, the epoch exceeds this
        // value.
        let snapshot = snapshots.current();
        let (epoch, at) = (snapshot.front.epoch(), Instant::now());
        match timeout(DECISION_TIMEOUT, snapshot.validity(&admitted.head, &admitted.app, &admitted.target, None)).await
        {
            Ok(Validity::Valid) => return Some(Decision { snapshot, epoch, at }),
            Ok(Validity::Ended) => return None,
            Ok(Validity::Unknown) | Err(_) => sleep(RETRY_PAUSE).await,
        }
    }
}
