//! Exchanges that last: open `WebSocket`s, event streams, long downloads, and all whose body is not there yet. What let one
//! through may be taken away while it is open, so the [`crate::edge::Front`] that is set now is asked again: all of them once it
//! is another one or its epoch has moved, and each in its turn, for what ends by the clock alone. One whose access has ended
//! is cut off.
//!
//! A short exchange without a body never gets here and costs nothing but its [`Switch`].

use std::collections::BTreeMap;
use std::future::{poll_fn, ready};
use std::ops::Bound::{Excluded, Included};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use atomic_waker::AtomicWaker;
use h2::Reason;
use http::request;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::server::ShutdownWatch;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::client_address::peer;
use super::fields::head_length;
use super::snapshot::{Snapshot, Snapshots, Validity};
use crate::config::Upstream;
use crate::edge::listen::quota::Quota;
use crate::edge::upstream::PinnedConnection;
use crate::edge::{ConnectionEvent, Watch};

/// From this age on an exchange lasts, whatever its head promised.
pub(in crate::edge) const LONG: Duration = Duration::from_secs(1);
/// An answer announced as longer than this may last.
pub(in crate::edge) const LONG_BODY: u64 = 256 * 1024;
/// How often the front's epoch is looked at.
const TICK: Duration = Duration::from_millis(100);
/// The longest rest after a round that took long: with it, a round and the next still end within a second.
const LONGEST_REST: Duration = Duration::from_millis(300);
/// Each exchange is asked about once in this many ticks although nothing has moved; in a tick so many at most, so that of
/// more than two thousand each waits a little longer for what ends by the clock.
const TICKS_A_TURN: usize = 10;
const MOST_A_TICK: usize = 200;
/// How long the front may think about one.
pub(in crate::edge) const PATIENCE: Duration = Duration::from_secs(1);

/// For so long an exchange stays of which the front cannot tell whether it may: a failover of the store's database, not more.
const LONGEST_DOUBT: Duration = Duration::from_mins(1);

/// What an exchange over HTTP/1 is given by its connection.
pub(in crate::edge) struct ConnectionContext {
    pub(in crate::edge) switch: Arc<Switch>,
    /// The client's own upstream connection, from an earlier exchange.
    pub(in crate::edge) pinned: Option<Arc<PinnedConnection>>,
}

/// Cuts one exchange off, from outside.
#[derive(Debug, Default)]
pub(in crate::edge) struct Switch {
    thrown: AtomicBool,
    /// Of the one task that the exchange runs in.
    task: AtomicWaker,
}

impl Switch {
    /// Whether the exchange was cut off.
    pub(in crate::edge) fn is_thrown(&self) -> bool {
        self.thrown.load(Ordering::Acquire)
    }

    fn throw(&self) {
        self.thrown.store(true, Ordering::Release);
        self.task.wake();
    }

    fn poll_thrown(&self, cx: &Context<'_>) -> Poll<()> {
        self.task.register(cx.waker());
        // After registering: a throw in between has either been seen or wakes.
        if self.thrown.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// An HTTP application whose exchanges can be cut off: dropping one closes its HTTP/1 connection, or resets its HTTP/2
/// stream, and closes the connection to the upstream. Those of HTTP/2 are counted.
pub(crate) struct Severable<A> {
    pub(crate) app: Arc<A>,
    pub(crate) quota: Arc<Quota>,
    pub(crate) watch: Watch,
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> HttpServerApp for Severable<A> {
    // Written out, for a session is kilobytes: an async function would move it into a future of its own first.
    fn process_new_http<'this, 'stop, 'all>(
        self: &'this Arc<Self>,
        mut session: ServerSession,
        shutdown: &'stop ShutdownWatch,
    ) -> Pin<Box<dyn Future<Output = Option<ReusedHttpStream>> + Send + 'all>>
    where
        'this: 'all,
        'stop: 'all,
        Self: 'all,
    {
        let switch = Arc::new(Switch::default());
        let mut place = None;
        if session.is_http2() {
            place = self.quota.begin(peer(&session), head_length(session.req_header()));
            if place.is_none() {
                // "Nothing was done, try again" (RFC 9113 §8.7). Words would wait for a client that need not read them, and
                // the head would be kept as long.
                (self.watch)(ConnectionEvent::TooManyStreams);
                session.shutdown_with_reason(Reason::REFUSED_STREAM);
                return Box::pin(ready(None));
            }
            session.req_header_mut().extensions_mut().insert(Arc::clone(&switch));
        } else {
            let kept = session.take_connection_user_context();
            let pinned = kept.and_then(|kept| kept.downcast::<Arc<PinnedConnection>>().ok()).map(|pinned| *pinned);
            let context = ConnectionContext { switch: Arc::clone(&switch), pinned };
            session.set_connection_user_context(Some(Box::new(context)));
        }
        let mut exchange = self.app.process_new_http(session, shutdown);
        Box::pin(poll_fn(move |cx| {
            // Held for as long as the exchange.
            let _ = &place;
            match exchange.as_mut().poll(cx) {
                Poll::Ready(reused) => Poll::Ready(reused),
                Poll::Pending => switch.poll_thrown(cx).map(|()| None),
            }
        }))
    }

    fn h2_options(&self) -> Option<H2Options> {
        self.app.h2_options()
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        self.app.server_options()
    }

    async fn http_cleanup(&self) {
        self.app.http_cleanup().await;
    }
}

pub(in crate::edge) struct Admitted {
    pub(in crate::edge) head: request::Parts,
    /// The name of the application that it went to.
    pub(in crate::edge) app: String,
    /// What the configuration called the server that it went to, where the exchange has no end of its own.
    pub(in crate::edge) upstream: Option<Arc<Upstream>>,
}

impl Admitted {
    /// Whether it goes on for ever with a server that the configuration does not name any more.
    fn is_stranded(&self, snapshot: &Snapshot) -> bool {
        let Some(upstream) = &self.upstream else { return false };
        !snapshot.upstreams.iter().any(|upstreams| upstreams.app() == self.app && upstreams.name(upstream))
    }
}

/// The exchanges that last. As many as there are connections and streams, and no more.
#[derive(Default)]
pub(crate) struct LongLived(Mutex<Open>);

#[derive(Default)]
struct Open {
    exchanges: BTreeMap<u64, OpenExchange>,
    last: u64,
    /// The last one that was asked about in its turn.
    turn: u64,
    /// Those from here on were never asked about.
    asked: u64,
}

struct OpenExchange {
    admitted: Arc<Admitted>,
    switch: Arc<Switch>,
    /// Since when nobody can tell whether it may stay.
    in_doubt: Option<Instant>,
}

impl LongLived {
    /// Takes down an exchange; it is asked about at once, and stays until the ticket is dropped.
    pub(in crate::edge) fn begin(self: &Arc<Self>, admitted: Arc<Admitted>, switch: Arc<Switch>) -> LongLivedTicket {
        let mut open = self.open();
        open.last += 1;
        let id = open.last;
        open.exchanges.insert(id, OpenExchange { admitted, switch, in_doubt: None });
        LongLivedTicket { long_lived: Arc::clone(self), id }
    }

    /// Those to ask about now: all, or the new ones and those whose turn it is.
    fn due(&self, all: bool) -> Vec<(u64, Arc<Admitted>)> {
        let mut open = self.open();
        let found = |(id, exchange): (&u64, &OpenExchange)| (*id, Arc::clone(&exchange.admitted));
        let (turn, asked) = (open.turn, open.asked);
        open.asked = open.last;
        if all {
            return open.exchanges.iter().map(found).collect();
        }
        let share = (open.exchanges.len() / TICKS_A_TURN + 1).min(MOST_A_TICK);
        let mut due: Vec<_> = open.exchanges.range((Excluded(turn), Included(asked))).take(share).map(found).collect();
        open.turn = if due.len() < share { 0 } else { due.last().map_or(0, |(id, _)| *id) };
        due.extend(open.exchanges.range(asked + 1..).map(found));
        due
    }

    fn cut(&self, id: u64) {
        // Under the lock: after its ticket is gone, the same connection may carry the next exchange.
        if let Some(exchange) = self.open().exchanges.remove(&id) {
            exchange.switch.throw();
        }
    }

    /// Whether nobody could tell for too long, up to now, whether it may stay.
    fn is_in_doubt_too_long(&self, id: u64, now: Instant) -> bool {
        let mut open = self.open();
        let Some(exchange) = open.exchanges.get_mut(&id) else { return false };
        let since = *exchange.in_doubt.get_or_insert(now);
        now.saturating_duration_since(since) > LONGEST_DOUBT
    }

    fn may_stay(&self, id: u64) {
        if let Some(exchange) = self.open().exchanges.get_mut(&id) {
            exchange.in_doubt = None;
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Whole after each statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An exchange that was taken down.
pub(in crate::edge) struct LongLivedTicket {
    long_lived: Arc<LongLived>,
    id: u64,
}

impl Drop for LongLivedTicket {
    fn drop(&mut self) {
        self.long_lived.open().exchanges.remove(&self.id);
    }
}

/// Asks the front about the exchanges that last and cuts off those whose access has ended, until `stop` turns true.
pub(crate) async fn watch_long_lived(
    long_lived: Arc<LongLived>,
    snapshots: Arc<Snapshots>,
    mut stop: watch::Receiver<bool>,
) {
    let mut known = snapshots.current();
    let mut known_epoch = known.front.epoch();
    let mut rest = TICK;
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(rest) => {}
        }
        // Before the front is asked: what changes meanwhile moves the epoch past this.
        let snapshot = snapshots.current();
        let epoch = snapshot.front.epoch();
        let moved = epoch != known_epoch || !Arc::ptr_eq(&snapshot, &known);
        let begun = Instant::now();
        for (id, admitted) in long_lived.due(moved) {
            if admitted.is_stranded(&snapshot) {
                long_lived.cut(id);
                continue;
            }
            match timeout(PATIENCE, snapshot.validity(&admitted.head, &admitted.app)).await {
                Ok(Validity::Valid) => long_lived.may_stay(id),
                Ok(Validity::Ended) => long_lived.cut(id),
                // It is asked about again in its turn.
                Ok(Validity::Unknown) | Err(_) => {
                    if long_lived.is_in_doubt_too_long(id, Instant::now()) {
                        long_lived.cut(id);
                    }
                }
            }
        }
        (known, known_epoch) = (snapshot, epoch);
        rest = begun.elapsed().clamp(TICK, LONGEST_REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted() -> Arc<Admitted> {
        Arc::new(Admitted { head: http::Request::new(()).into_parts().0, app: String::new(), upstream: None })
    }

    fn ids(due: Vec<(u64, Arc<Admitted>)>) -> Vec<u64> {
        due.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn a_new_one_is_asked_about_at_once_and_then_in_its_turn() {
        let long_lived = Arc::new(LongLived::default());
        assert!(long_lived.due(false).is_empty());
        let tickets: Vec<_> = (0..95).map(|_| long_lived.begin(admitted(), Arc::default())).collect();
        assert_eq!(long_lived.due(false).len(), 95);
        let mut turn: Vec<u64> = (0..10).flat_map(|_| ids(long_lived.due(false))).collect();
        assert_eq!(turn.len(), 95, "once in ten ticks");
        turn.dedup();
        assert_eq!(turn, (1..=95).collect::<Vec<_>>());
        let _late = long_lived.begin(admitted(), Arc::default());
        assert!(ids(long_lived.due(false)).contains(&96));
        assert_eq!(long_lived.due(true).len(), 96);
        drop(tickets);
        assert_eq!(ids(long_lived.due(true)), [96]);
    }

    #[test]
    fn one_of_which_nobody_can_tell_stays_for_a_minute() {
        let long_lived = Arc::new(LongLived::default());
        let ticket = long_lived.begin(admitted(), Arc::default());
        let start = Instant::now();
        let asked = |seconds| long_lived.is_in_doubt_too_long(1, start + Duration::from_secs(seconds));
        assert!(!asked(0) && !asked(60));
        long_lived.may_stay(1);
        assert!(!asked(61) && !asked(121), "a minute from the first doubt on");
        assert!(asked(122));
        drop(ticket);
        assert!(!asked(999));
    }

    #[tokio::test]
    async fn one_that_is_over_is_not_cut() {
        let long_lived = Arc::new(LongLived::default());
        let switch = Arc::new(Switch::default());
        drop(long_lived.begin(admitted(), Arc::clone(&switch)));
        long_lived.cut(1);
        assert!(!switch.thrown.load(Ordering::Acquire));
        let _ticket = long_lived.begin(admitted(), Arc::clone(&switch));
        long_lived.cut(2);
        poll_fn(|cx| switch.poll_thrown(cx)).await;
    }
}
