//! Registry of long-lived exchanges, and the task that aborts those whose access has ended.
//!
//! Long-lived exchanges are open `WebSocket`s, event streams, long downloads, and requests whose
//! body has not arrived completely. When the front was replaced or its epoch has changed, the task
//! asks the current [`crate::Front`] whether they are still permitted. It also asks about each
//! exchange once a second, because access may expire.
//!
//! A short exchange without a body is never registered. It only has a [`CancelHandle`].

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
use http::uri::PathAndQuery;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::server::ShutdownWatch;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::client_address::peer;
use super::fields::head_length;
use super::queued_body::QueuedBody;
use super::read_timeout::{ReadTimeout, Timers};
use super::snapshot::{Snapshot, Snapshots, Validity};
use crate::listen::quota::Quota;
use crate::upstream::PinnedConnection;
use crate::{ConnectionEvent, Watch};
use sealgate_config::Upstream;
use sealgate_system::read_mostly::LocalRef;

/// Age at which every exchange becomes long-lived.
pub(crate) const LONG_LIVED_AGE: Duration = Duration::from_secs(1);
/// An exchange whose response announces a longer body, in bytes, becomes long-lived immediately.
pub(crate) const LONG_LIVED_BODY_BYTES: u64 = 256 * 1024;
/// Interval between checks of the front's epoch.
const TICK: Duration = Duration::from_millis(100);
/// Maximum pause after a slow round of checks, so that a revocation takes effect within one second.
const MAX_PAUSE: Duration = Duration::from_millis(300);
/// Number of ticks in which every exchange is checked once if nothing has changed.
///
/// [`MAX_PER_TICK`] limits the checks in one tick. With more than two thousand exchanges, each is
/// checked less often.
const TICKS_PER_PERIOD: usize = 10;
const MAX_PER_TICK: usize = 200;
/// Timeout for the front's decision about one exchange.
pub(crate) const DECISION_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time for which an exchange remains open although the front cannot decide. This is long
/// enough for a failover of the store's database.
const MAX_UNDECIDED_TIME: Duration = Duration::from_mins(1);

/// Context of an HTTP/1 exchange, which its connection provides.
pub(crate) struct ConnectionContext {
    pub(crate) switch: Arc<CancelHandle>,
    /// Upstream connection of this client alone, from an earlier exchange.
    pub(crate) pinned: Option<Arc<PinnedConnection>>,
}

/// Handle for other tasks to abort the exchange.
#[derive(Default)]
pub(crate) struct CancelHandle {
    cancelled: AtomicBool,
    /// Waker of the task that processes the exchange.
    task: AtomicWaker,
    /// Timeout of the exchange's upstream. The task of the exchange enforces it.
    pub(crate) read_timeout: ReadTimeout,
    /// Check of the queued request body. The task of the exchange performs it.
    pub(crate) queued_body: QueuedBody,
}

impl CancelHandle {
    /// Returns whether the exchange was aborted.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.task.wake();
    }

    fn poll_cancelled(&self, cx: &Context<'_>) -> Poll<()> {
        self.task.register(cx.waker());
        // Checked after registering, so that a concurrent `cancel` is either seen here or wakes the
        // task.
        if self.cancelled.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// HTTP application whose exchanges can be aborted. Also counts HTTP/2 requests.
///
/// Aborting an exchange means dropping its future. That closes the HTTP/1 connection or resets the
/// HTTP/2 stream, and closes the upstream connection.
pub struct Cancellable<A> {
    pub app: Arc<A>,
    pub quota: LocalRef<Quota>,
    pub watch: Watch,
    /// Timers of exchanges that have ended.
    pub timers: Timers,
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> HttpServerApp for Cancellable<A> {
    // This is not an `async fn`, because an `async fn` would move the session, several kilobytes,
    // into another future.
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
        let switch = Arc::new(CancelHandle::default());
        let mut place = None;
        if session.is_http2() {
            place = Quota::admit_request(&self.quota, peer(&session), head_length(session.req_header()));
            if place.is_none() {
                // REFUSED_STREAM means that the request was not processed and may be retried (RFC
                // 9113 §8.7). A response would keep the head in memory until the client reads it,
                // possibly forever.
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
        let (mut timer, mut check) = (None, None);
        Box::pin(poll_fn(move |cx| {
            // Keeps the permit until the exchange ends.
            let _ = &place;
            match switch.queued_body.poll_permitted(&mut check, cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => {
                    switch.cancel();
                    return Poll::Ready(None);
                }
                Poll::Pending => return switch.poll_cancelled(cx).map(|()| None),
            }
            match exchange.as_mut().poll(cx) {
                Poll::Ready(reused) => {
                    self.timers.keep(timer.take());
                    Poll::Ready(reused)
                }
                Poll::Pending => {
                    switch.read_timeout.poll(&mut timer, &self.timers, cx);
                    switch.poll_cancelled(cx).map(|()| None)
                }
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

pub(crate) struct Admitted {
    pub(crate) head: request::Parts,
    /// Name of the application that the exchange was forwarded to.
    pub(crate) app: String,
    /// Path and query for the upstream.
    pub(crate) target: PathAndQuery,
    /// Configuration of the upstream, if the exchange never ends by itself.
    pub(crate) upstream: Option<Arc<Upstream>>,
}

impl Admitted {
    /// Returns whether the exchange never ends by itself and its upstream was removed from the
    /// configuration.
    fn has_lost_upstream(&self, snapshot: &Snapshot) -> bool {
        let Some(upstream) = &self.upstream else { return false };
        !snapshot.all_upstreams().any(|upstreams| upstreams.app() == self.app && upstreams.contains(upstream))
    }
}

/// Open long-lived exchanges. The limits on connections and HTTP/2 requests bound their number.
#[derive(Default)]
pub struct LongLived(Mutex<Open>);

#[derive(Default)]
struct Open {
    exchanges: BTreeMap<u64, OpenExchange>,
    last_id: u64,
    /// Id of the last exchange that a periodic check has covered. The next check continues after
    /// it.
    last_periodic: u64,
    /// Greatest id that was already checked. Exchanges with a greater id are new.
    last_checked: u64,
}

struct OpenExchange {
    admitted: Arc<Admitted>,
    switch: Arc<CancelHandle>,
    /// Time since which the front cannot decide about the exchange; `None` if it could at the last
    /// check.
    undecided_since: Option<Instant>,
}

impl LongLived {
    /// Registers an exchange until the ticket is dropped. The next tick checks it for the first
    /// time.
    pub(crate) fn begin(self: &Arc<Self>, admitted: Arc<Admitted>, switch: Arc<CancelHandle>) -> LongLivedTicket {
        let mut open = self.open();
        open.last_id += 1;
        let id = open.last_id;
        open.exchanges.insert(id, OpenExchange { admitted, switch, undecided_since: None });
        LongLivedTicket { long_lived: Arc::clone(self), id }
    }

    /// Returns the exchanges to check in this tick: all, or the new ones and the next part of the
    /// others.
    fn due(&self, all: bool) -> Vec<(u64, Arc<Admitted>)> {
        let mut open = self.open();
        let found = |(id, exchange): (&u64, &OpenExchange)| (*id, Arc::clone(&exchange.admitted));
        let (periodic, checked) = (open.last_periodic, open.last_checked);
        open.last_checked = open.last_id;
        if all {
            return open.exchanges.iter().map(found).collect();
        }
        let share = (open.exchanges.len() / TICKS_PER_PERIOD + 1).min(MAX_PER_TICK);
        let mut due: Vec<_> =
            open.exchanges.range((Excluded(periodic), Included(checked))).take(share).map(found).collect();
        open.last_periodic = if due.len() < share { 0 } else { due.last().map_or(0, |(id, _)| *id) };
        due.extend(open.exchanges.range(checked + 1..).map(found));
        due
    }

    fn abort(&self, id: u64) {
        // Aborted under the lock. Once the ticket was dropped, the connection may carry another
        // exchange, which must not be aborted.
        if let Some(exchange) = self.open().exchanges.remove(&id) {
            exchange.switch.cancel();
        }
    }

    /// Returns whether, at `now`, the front has been unable to decide for too long.
    fn is_undecided_too_long(&self, id: u64, now: Instant) -> bool {
        let mut open = self.open();
        let Some(exchange) = open.exchanges.get_mut(&id) else { return false };
        let since = *exchange.undecided_since.get_or_insert(now);
        now.saturating_duration_since(since) > MAX_UNDECIDED_TIME
    }

    fn mark_decided(&self, id: u64) {
        if let Some(exchange) = self.open().exchanges.get_mut(&id) {
            exchange.undecided_since = None;
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // No statement leaves the registry inconsistent, so it is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a long-lived exchange. Dropping it ends the registration.
pub(crate) struct LongLivedTicket {
    long_lived: Arc<LongLived>,
    id: u64,
}

impl Drop for LongLivedTicket {
    fn drop(&mut self) {
        self.long_lived.open().exchanges.remove(&self.id);
    }
}

/// Checks long-lived exchanges and aborts those whose access has ended, until `stop` becomes true.
pub async fn watch_long_lived(long_lived: Arc<LongLived>, snapshots: Arc<Snapshots>, mut stop: watch::Receiver<bool>) {
    let mut known = snapshots.current();
    let mut known_epoch = known.front.epoch();
    let mut pause = TICK;
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(pause) => {}
        }
        // Read before the front decides. If access changes afterwards, the epoch exceeds this
        // value.
        let snapshot = snapshots.current();
        let epoch = snapshot.front.epoch();
        let has_changed = epoch != known_epoch || !snapshot.is_same(&known);
        let start = Instant::now();
        for (id, admitted) in long_lived.due(has_changed) {
            if admitted.has_lost_upstream(&snapshot) {
                long_lived.abort(id);
                continue;
            }
            let validity =
                snapshot.validity(&admitted.head, &admitted.app, &admitted.target, admitted.upstream.as_deref());
            match timeout(DECISION_TIMEOUT, validity).await {
                Ok(Validity::Valid) => long_lived.mark_decided(id),
                Ok(Validity::Ended) => long_lived.abort(id),
                // The exchange is checked again in its next period.
                Ok(Validity::Unknown) | Err(_) => {
                    if long_lived.is_undecided_too_long(id, Instant::now()) {
                        long_lived.abort(id);
                    }
                }
            }
        }
        (known, known_epoch) = (snapshot, epoch);
        pause = start.elapsed().clamp(TICK, MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted() -> Arc<Admitted> {
        let (head, ()) = http::Request::new(()).into_parts();
        Arc::new(Admitted { head, app: String::new(), target: PathAndQuery::from_static("/"), upstream: None })
    }

    fn ids(due: Vec<(u64, Arc<Admitted>)>) -> Vec<u64> {
        due.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn new_exchanges_are_checked_at_once_then_in_turn() {
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
    fn an_undecided_exchange_stays_open_for_a_minute() {
        let long_lived = Arc::new(LongLived::default());
        let ticket = long_lived.begin(admitted(), Arc::default());
        let start = Instant::now();
        let asked = |seconds| long_lived.is_undecided_too_long(1, start + Duration::from_secs(seconds));
        assert!(!asked(0) && !asked(60));
        long_lived.mark_decided(1);
        assert!(!asked(61) && !asked(121), "a minute from the first doubt on");
        assert!(asked(122));
        drop(ticket);
        assert!(!asked(999));
    }

    #[tokio::test]
    async fn an_ended_exchange_is_not_aborted() {
        let long_lived = Arc::new(LongLived::default());
        let switch = Arc::new(CancelHandle::default());
        drop(long_lived.begin(admitted(), Arc::clone(&switch)));
        long_lived.abort(1);
        assert!(!switch.cancelled.load(Ordering::Acquire));
        let _ticket = long_lived.begin(admitted(), Arc::clone(&switch));
        long_lived.abort(2);
        poll_fn(|cx| switch.poll_cancelled(cx)).await;
    }
}
