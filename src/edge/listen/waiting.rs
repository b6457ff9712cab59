//! Deadline and shutdown signal. A connection awaits both between its requests.
//!
//! The timer and the signal are registered once for each connection. Registering them for each
//! request would cost more than the access decision.

use std::pin::Pin;

use pingora::server::ShutdownWatch;
use tokio::time::{Instant, Sleep, sleep_until};

/// Deadline that is often postponed and rarely passes.
///
/// Postponing the deadline does not touch the timer. The timer fires at the old deadline, and is
/// then set to the current deadline.
pub(crate) struct Deadline {
    at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Deadline {
    pub(crate) fn new(at: Instant) -> Self {
        Self { at, timer: Box::pin(sleep_until(at)) }
    }

    /// Moves the deadline to a later or an earlier time.
    pub(crate) fn set(&mut self, at: Instant) {
        self.at = at;
        if at < self.timer.deadline() {
            self.timer.as_mut().reset(at);
        }
    }

    /// Waits until the deadline has passed.
    pub(crate) async fn wait(&mut self) {
        loop {
            self.timer.as_mut().await;
            if Instant::now() >= self.at {
                return;
            }
            self.timer.as_mut().reset(self.at);
        }
    }
}

/// One connection's subscription to the server's shutdown signal.
pub(crate) enum ShutdownSubscription {
    Awaited(Pin<Box<dyn Future<Output = ()> + Send>>),
    Received,
}

impl ShutdownSubscription {
    pub(crate) fn new(stop: ShutdownWatch) -> Self {
        Self::Awaited(Box::pin(wait_for_shutdown(stop)))
    }

    /// Waits for the shutdown signal. Returns immediately if it was received before.
    pub(crate) async fn wait(&mut self) {
        if let Self::Awaited(stop) = self {
            stop.as_mut().await;
            *self = Self::Received;
        }
    }
}

/// Waits for the shutdown signal.
async fn wait_for_shutdown(mut stop: ShutdownWatch) {
    // An error means that the sender was dropped, which is a shutdown too.
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;
    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_moved_deadline_passes_at_its_new_time() {
        let start = Instant::now();
        let mut deadline = Deadline::new(start + SECOND);
        deadline.set(start + 5 * SECOND);
        deadline.wait().await;
        assert_eq!(start.elapsed().as_secs(), 5);
        deadline.set(start + 60 * SECOND);
        assert!(timeout(SECOND, deadline.wait()).await.is_err());
        deadline.set(start + 8 * SECOND);
        deadline.wait().await;
        assert_eq!(start.elapsed().as_secs(), 8);
    }

    #[tokio::test]
    async fn the_stop_signal_is_received_repeatedly() {
        let (stop, stopping) = watch::channel(false);
        let mut stopping = ShutdownSubscription::new(stopping);
        assert!(timeout(Duration::from_millis(20), stopping.wait()).await.is_err());
        stop.send_replace(true);
        stopping.wait().await;
        stopping.wait().await;
    }
}
