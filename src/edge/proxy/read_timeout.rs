//! Timeout for an upstream that sends nothing.
//!
//! Event streams have a longer timeout than other responses, but Pingora's read timeout is set
//! before the response arrives. So Pingora gets the long timeout, and this module enforces the
//! shorter one.
//!
//! When the time is over, this module closes the upstream connection, so Pingora's read ends.
//! [`ReadTimeout::is_over`] distinguishes that from an upstream that has closed the connection. A
//! response that was read completely is not affected if the client is slow.

use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::upstream::Handle;

/// Wait of one exchange for bytes of its upstream.
#[derive(Debug, Default)]
pub(crate) struct ReadTimeout {
    wait: Mutex<Option<Wait>>,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Wait {
    until: Instant,
    limit: Duration,
    /// Descriptor of the upstream connection, which is open as long as the exchange waits.
    descriptor: RawFd,
    /// Whether received bytes are read from the socket although the client is slow. HTTP/2 connections
    /// do that, and limit the length of the unsent part by flow control.
    reads_ahead: bool,
}

impl Wait {
    /// Returns the remaining time if the upstream is not silent: its bytes are waiting for a slow client.
    fn remaining(&self, connection: &Handle) -> Option<Duration> {
        if self.reads_ahead {
            let silence = connection.silence()?;
            return self.limit.checked_sub(silence).filter(|remaining| !remaining.is_zero());
        }
        connection.has_bytes().then_some(self.limit)
    }
}

/// Timer of an exchange. It is taken when the exchange first waits.
pub(crate) type Timer = Option<Pin<Box<Sleep>>>;

/// Maximum number of timers that are kept for later exchanges.
const MAX_KEPT_TIMERS: usize = 256;

/// Timers of ended exchanges on a thread, for its later ones.
///
/// They stay registered with their old deadlines. Registering a timer for each exchange would cost more
/// than the rare wake-up of a task whose exchange has ended.
#[derive(Debug, Default)]
pub struct Timers(Mutex<Vec<Pin<Box<Sleep>>>>);

impl Timers {
    fn take(&self, until: Instant) -> Pin<Box<Sleep>> {
        self.kept().pop().unwrap_or_else(|| Box::pin(sleep_until(until)))
    }

    /// Keeps the timer of an ended exchange.
    pub(crate) fn keep(&self, timer: Timer) {
        let mut kept = self.kept();
        if kept.len() < MAX_KEPT_TIMERS {
            kept.extend(timer);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Pin<Box<Sleep>>>> {
        // No statement leaves the value inconsistent, so it is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadTimeout {
    /// Starts to wait for bytes of the upstream. Replaces an earlier wait.
    pub(crate) fn begin(&self, descriptor: RawFd, limit: Duration) {
        *self.wait() = Some(Wait { until: Instant::now() + limit, limit, descriptor, reads_ahead: false });
    }

    /// Sets the limit for the body of a response, and restarts the wait.
    pub(crate) fn extend(&self, limit: Duration, reads_ahead: bool) {
        if let Some(wait) = &mut *self.wait() {
            wait.limit = limit;
            wait.reads_ahead = reads_ahead;
            wait.until = Instant::now() + limit;
        }
    }

    /// Restarts the wait, because bytes were sent to the upstream or received from it.
    pub(crate) fn renew(&self) {
        if let Some(wait) = &mut *self.wait() {
            wait.until = Instant::now() + wait.limit;
        }
    }

    /// Ends the wait. Must be called before another exchange can use the upstream connection.
    pub(crate) fn end(&self) {
        *self.wait() = None;
    }

    /// Returns whether the upstream connection was closed because the wait took too long.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Closes the upstream connection if the wait took too long. Otherwise wakes the task at the
    /// deadline.
    pub(crate) fn poll(&self, timer: &mut Timer, timers: &Timers, cx: &mut Context<'_>) {
        let mut wait = self.wait();
        let Some(current) = &mut *wait else { return };
        let connection = loop {
            let timer = timer.get_or_insert_with(|| timers.take(current.until));
            // A timer that is too early is reset when it fires. Resetting it for each part of a
            // response would cost more.
            if timer.deadline() > current.until {
                timer.as_mut().reset(current.until);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return;
            }
            let now = Instant::now();
            if current.until <= now {
                let connection = Handle::from_descriptor(current.descriptor);
                let remaining = connection.as_ref().map_or(Some(current.limit), |open| current.remaining(open));
                match (connection, remaining) {
                    (Some(connection), None) => break connection,
                    (_, remaining) => current.until = now + remaining.unwrap_or(current.limit),
                }
            }
            timer.as_mut().reset(current.until);
        };
        *wait = None;
        self.is_over.store(true, Ordering::Release);
        connection.end();
    }

    fn wait(&self) -> MutexGuard<'_, Option<Wait>> {
        // No statement leaves the value inconsistent, so it is consistent even after a panic.
        self.wait.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::task::Poll;

    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Waits for a silent upstream with a kept timer or a new one. Returns whether it was closed before
    /// `end`.
    async fn is_over(timers: &Timers, limit: Duration, end: Duration) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        upstream.set_nonblocking(true).unwrap();
        let read_timeout = ReadTimeout::default();
        read_timeout.begin(upstream.as_raw_fd(), limit);
        let mut timer = None;
        let over = poll_fn(|cx| {
            read_timeout.poll(&mut timer, timers, cx);
            if read_timeout.is_over() { Poll::Ready(()) } else { Poll::Pending }
        });
        let is_over = timeout(end, over).await.is_ok();
        timers.keep(timer);
        is_over
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_exchange_uses_the_kept_timer_until_its_own_deadline() {
        let timers = Timers::default();
        let start = Instant::now();
        for (limit, passed) in [(5, 5), (60, 65), (2, 67)] {
            assert!(is_over(&timers, limit * SECOND, 99 * SECOND).await);
            assert_eq!((start.elapsed().as_secs(), timers.kept().len()), (passed, 1));
        }
        // A kept timer with a later deadline, and one whose deadline has passed meanwhile.
        assert!(!is_over(&timers, 60 * SECOND, SECOND).await);
        assert!(is_over(&timers, 3 * SECOND, 99 * SECOND).await);
        assert_eq!(start.elapsed().as_secs(), 71);
        assert!(!is_over(&timers, 5 * SECOND, SECOND).await);
        let _: Result<(), _> = timeout(10 * SECOND, pending()).await;
        assert!(is_over(&timers, 3 * SECOND, 99 * SECOND).await);
        assert_eq!((start.elapsed().as_secs(), timers.kept().len()), (85, 1));
    }
}
