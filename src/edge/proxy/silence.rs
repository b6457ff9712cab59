//! Timeout for an upstream that sends nothing.
//!
//! Pingora sets its read timeout before the answer arrives, so it cannot depend on the answer. The
//! peers therefore have the long timeout of streams, and this module enforces the timeout that
//! applies: the ordinary one until the head of an answer shows an event stream.
//!
//! At the deadline, the upstream connection is closed, and Pingora reads its end. An answer that was
//! read completely and waits for a slow client stays whole. [`Silence::is_over`] tells this end from
//! that of an upstream.

use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::upstream::Handle;

/// The wait of one exchange for its upstream.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    wait: Mutex<Option<Wait>>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Wait {
    until: Instant,
    limit: Duration,
    /// Descriptor of the upstream connection, open while the exchange waits.
    descriptor: RawFd,
}

/// Timer of an exchange, created when it first waits.
pub(crate) type Timer = Option<Pin<Box<Sleep>>>;

impl Silence {
    /// Starts to wait for bytes of the upstream. Replaces an earlier wait.
    pub(crate) fn begin(&self, descriptor: RawFd, limit: Duration) {
        *self.wait() = Some(Wait { until: Instant::now() + limit, limit, descriptor });
    }

    /// Changes the limit of the wait and starts it again.
    pub(crate) fn extend(&self, limit: Duration) {
        if let Some(wait) = &mut *self.wait() {
            wait.limit = limit;
            wait.until = Instant::now() + limit;
        }
    }

    /// Starts the wait again, because bytes went to the upstream or came from it.
    pub(crate) fn renew(&self) {
        if let Some(wait) = &mut *self.wait() {
            wait.until = Instant::now() + wait.limit;
        }
    }

    /// Ends the wait. To be called before the upstream connection can belong to another exchange.
    pub(crate) fn end(&self) {
        *self.wait() = None;
    }

    /// Returns whether the upstream connection was closed at the deadline.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Closes the upstream connection if the deadline has passed, or wakes the task when it does.
    pub(crate) fn poll(&self, timer: &mut Timer, cx: &mut Context<'_>) {
        let mut wait = self.wait();
        let Some(current) = &mut *wait else { return };
        let connection = loop {
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(current.until)));
            // A timer that is too early is set again when it fires, which costs less than at each
            // piece of an answer.
            if timer.deadline() > current.until {
                timer.as_mut().reset(current.until);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            let now = Instant::now();
            if current.until <= now {
                // The client may be slow: the upstream's next bytes wait to be read.
                if let Some(connection) =
                    Handle::from_descriptor(current.descriptor).filter(|connection| !connection.has_bytes())
                {
                    break connection;
                }
                current.until = now + current.limit;
            }
            timer.as_mut().reset(current.until);
        };
        *wait = None;
        self.is_over.store(true, Ordering::Release);
        connection.end();
    }

    fn wait(&self) -> MutexGuard<'_, Option<Wait>> {
        // A panic cannot leave it inconsistent: each statement leaves it valid.
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
