//! Limits on the concurrent requests at an application, in total and for each client.
//!
//! The total protects the application's workers and the descriptors of the proxy. The limit for
//! each client is needed because an HTTP/2 client can send a hundred requests on each connection.
//! Requests above a limit wait, in order of arrival.
//!
//! A thread keeps the permits of a request that has ended, for its next request of the same client. So
//! most requests write to no memory that other threads use. Before a request waits, all threads return
//! the permits that they keep, and they keep none while a request waits. The limits are therefore exact.
//!
//! An application with a low limit may have as many workers, each of which serves one connection. So
//! each of its upstream connections needs a permit, also while it is idle: a thread has at most as many
//! idle connections as it keeps permits, and closes them before it returns the permits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thread_local::ThreadLocal;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::super::listen::quota::address_group;
use super::handle::ConnectionId;
use super::server::UpstreamServer;
use sealgate_system::own_line::OwnLine;
use sealgate_system::read_mostly::LocalRef;

/// Maximum time for which a request waits for its permit.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of ended requests whose permits a thread keeps.
const MAX_KEPT: usize = 64;
/// Minimum limit with which idle connections need no permit: the default of `max_requests`.
const MIN_UNBOUNDED: usize = 1024;

/// Limits of one application, with the requests that wait.
pub(super) struct FairQueue {
    all: Arc<Semaphore>,
    per_client: usize,
    /// Maximum number of long-lived exchanges of one client (`WebSocket`s, streams) that do not
    /// count towards `per_client`.
    ///
    /// Long-lived exchanges are not a burst of requests, and many users may share one address. The
    /// maximum ensures that one client never uses up the application's limit.
    max_long_lived: usize,
    queue_timeout: Duration,
    /// Clients with requests that were permitted or that wait, or with kept permits.
    clients: Mutex<HashMap<IpAddr, Client>>,
    /// Whether idle connections need a permit.
    bounds_connections: bool,
    /// Permits and idle connections of each thread.
    kept: ThreadLocal<OwnLine<Mutex<Kept>>>,
    /// Number of requests that wait.
    waiting: AtomicUsize,
}

struct Client {
    turns: Arc<Semaphore>,
    /// Number of requests that were permitted or that wait, and of kept permits.
    requests: usize,
    long_lived: usize,
}

/// Complete permits for one request.
struct Permits {
    client: Option<(IpAddr, OwnedSemaphorePermit)>,
    _all: OwnedSemaphorePermit,
}

/// Permits that a thread keeps, and its idle connections if they need permits.
#[derive(Default)]
struct Kept {
    /// The last are those of the latest request.
    permits: Vec<Permits>,
    /// The last is that of the latest request.
    idle: Vec<IdleConnection>,
    /// Number of requests of this thread for which Pingora chooses a connection at the moment. Pingora
    /// may choose any idle one, so none is closed meanwhile.
    choosing: usize,
    /// Number of the last request that has used each connection, by descriptor, until the request ends.
    used: HashMap<RawFd, u64>,
    last_use: u64,
    /// Number of connections that were closed, and of those whose end the thread's event loop has seen.
    /// Before that, Pingora would use them.
    closed: u64,
    seen: u64,
}

/// Connection of a request. It is idle after the request, unless another request uses it already.
#[derive(Clone, Copy)]
struct IdleConnection {
    server: u64,
    id: ConnectionId,
    /// Number of the request.
    number: u64,
}

impl Kept {
    /// Closes idle connections for which there is no permit. The oldest are closed first.
    fn close_excess(&mut self) {
        if self.choosing == 0 {
            let excess = self.idle.len().saturating_sub(self.permits.len());
            for connection in self.idle.drain(..excess) {
                connection.id.end();
                self.closed += 1;
            }
        }
    }

    /// Returns the connection of an ended request if it is idle.
    fn idle_after(&mut self, connection: IdleConnection) -> Option<IdleConnection> {
        let descriptor = connection.id.descriptor;
        if self.used.get(&descriptor) != Some(&connection.number) {
            return None;
        }
        self.used.remove(&descriptor);
        connection.id.is_open().then_some(connection)
    }

    /// Returns all permits, which the caller must release, and closes the idle connections. Returns none
    /// while a connection is chosen; [`FairQueue::end_choice`] returns them afterwards.
    fn take_all(&mut self) -> Vec<Permits> {
        if self.choosing > 0 && !self.idle.is_empty() {
            return Vec::new();
        }
        let permits = std::mem::take(&mut self.permits);
        self.close_excess();
        permits
    }
}

/// Counts a request that waits, until it is dropped.
struct Waiting<'q>(&'q AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FairQueue {
    pub(super) fn new(in_all: usize, per_client: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(in_all.clamp(1, Semaphore::MAX_PERMITS))),
            per_client: per_client.clamp(1, Semaphore::MAX_PERMITS),
            max_long_lived: in_all / 2,
            queue_timeout: QUEUE_TIMEOUT,
            bounds_connections: in_all < MIN_UNBOUNDED,
            clients: Mutex::default(),
            kept: ThreadLocal::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits until the limits permit one more request. `None` if the wait takes too long.
    ///
    /// `client` is `None` if the client is unknown. The requests of a load balancer that does not
    /// name its clients belong to many clients.
    pub(super) async fn turn(this: LocalRef<Self>, client: Option<IpAddr>) -> Option<QueueSlot> {
        let client = client.map(address_group);
        if let Some(Permits { client: permit, _all: all }) = this.take_kept(client) {
            let client_permit = permit.map(|(_, permit)| permit);
            return Some(QueueSlot { queue: this, client, client_permit, all: Some(all), connection: None });
        }
        let of_client = client.map(|client| this.join(client));
        let mut turn = QueueSlot { queue: this.clone(), client, client_permit: None, all: None, connection: None };
        // The client's own limit comes first. A request that waits for it must not use up the limit
        // that all clients share.
        turn.client_permit = of_client.clone().and_then(|permits| permits.try_acquire_owned().ok());
        if turn.client_permit.is_some() == of_client.is_some() {
            turn.all = Arc::clone(&this.all).try_acquire_owned().ok();
        }
        if turn.all.is_some() {
            return Some(turn);
        }
        let _waiting = this.return_kept();
        let both = async {
            if let Some(permits) = of_client.filter(|_| turn.client_permit.is_none()) {
                turn.client_permit = Some(permits.acquire_owned().await.ok()?);
            }
            turn.all = Some(Arc::clone(&this.all).acquire_owned().await.ok()?);
            Some(())
        };
        timeout(this.queue_timeout, both).await.ok()??;
        Some(turn)
    }

    /// Takes permits of the client that this thread keeps.
    fn take_kept(&self, client: Option<IpAddr>) -> Option<Permits> {
        let mut kept = self.kept_here();
        let is_of_client = |permits: &Permits| permits.client.as_ref().map(|(client, _)| *client) == client;
        let index = kept.permits.iter().rposition(is_of_client)?;
        Some(kept.permits.remove(index))
    }

    /// Keeps permits for the next request on this thread, with the connection of the ended one. Returns
    /// permits that must be released.
    fn keep(&self, permits: Permits, connection: Option<IdleConnection>) -> Option<Permits> {
        let mut kept = self.kept_here();
        let idle = connection.and_then(|connection| kept.idle_after(connection));
        // If `return_kept` has not seen the list of this thread, the fence ensures that `waiting` is
        // seen here.
        fence(Ordering::SeqCst);
        let is_awaited = self.waiting.load(Ordering::SeqCst) > 0;
        // Another request may have chosen the connection already. The end of its choice returns the
        // permits.
        if is_awaited && (idle.is_none() || kept.choosing == 0) {
            if let Some(idle) = idle {
                idle.id.end();
                kept.closed += 1;
            }
            return Some(permits);
        }
        kept.permits.push(permits);
        kept.idle.extend(idle);
        let excess = (kept.permits.len() > MAX_KEPT).then(|| kept.permits.remove(0));
        kept.close_excess();
        excess
    }

    /// Starts the choice of a connection to a server for a request of this thread. Returns the number of
    /// closed connections if the event loop has not seen the end of all.
    fn begin_choice(&self, server: u64, is_new: bool) -> Option<u64> {
        let mut kept = self.kept_here();
        if is_new || kept.idle.iter().all(|idle| idle.server != server) {
            // The new connection uses the permit of its request. The idle ones need others.
            kept.close_excess();
        }
        kept.choosing += 1;
        (kept.closed != kept.seen).then_some(kept.closed)
    }

    /// Records that the event loop has seen the end of so many closed connections.
    fn see(&self, closed: u64) {
        let mut kept = self.kept_here();
        kept.seen = kept.seen.max(closed);
    }

    /// Ends the choice of a connection, which is no longer idle. Returns the number of the request.
    fn end_choice(&self, chosen: Option<RawFd>) -> u64 {
        let mut kept = self.kept_here();
        kept.choosing -= 1;
        kept.idle.retain(|idle| Some(idle.id.descriptor) != chosen);
        kept.last_use += 1;
        let number = kept.last_use;
        kept.used.extend(chosen.map(|descriptor| (descriptor, number)));
        kept.close_excess();
        // A request may have begun to wait during the choice.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let permits = kept.take_all();
            drop(kept);
            for permits in permits {
                self.release(permits);
            }
        }
        number
    }

    /// Closes idle connections now, and other connections as soon as they become idle.
    pub(super) fn retire(&self) {
        // Threads keep nothing while a request waits.
        std::mem::forget(self.return_kept());
    }

    /// Releases the permits that the threads keep. They keep no others until the result is dropped.
    fn return_kept(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        for kept in &self.kept {
            let permits = kept.lock().unwrap_or_else(PoisonError::into_inner).take_all();
            for permits in permits {
                self.release(permits);
            }
        }
        Waiting(&self.waiting)
    }

    fn release(&self, permits: Permits) {
        if let Some((client, _permit)) = permits.client {
            self.leave(client, false);
        }
    }

    fn kept_here(&self) -> MutexGuard<'_, Kept> {
        self.kept.get_or_default().lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, client: IpAddr) -> Arc<Semaphore> {
        let new = || Client { turns: Arc::new(Semaphore::new(self.per_client)), requests: 0, long_lived: 0 };
        let mut clients = self.clients();
        let client = clients.entry(client).or_insert_with(new);
        client.requests += 1;
        Arc::clone(&client.turns)
    }

    /// Ends the count of a request. `lasted` is true for a long-lived exchange.
    fn leave(&self, client: IpAddr, lasted: bool) {
        if let Entry::Occupied(mut entry) = self.clients().entry(client) {
            let client = entry.get_mut();
            client.requests -= 1;
            client.long_lived -= usize::from(lasted);
            if client.requests == 0 {
                entry.remove();
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        // No statement leaves the map inconsistent, so it is consistent even after a panic.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit for one request. Dropping it lets the next request proceed.
pub(crate) struct QueueSlot {
    queue: LocalRef<FairQueue>,
    client: Option<IpAddr>,
    /// Permit for the client's limit; `None` once the exchange is long-lived.
    client_permit: Option<OwnedSemaphorePermit>,
    all: Option<OwnedSemaphorePermit>,
    /// Connection of the request, if idle connections need permits.
    connection: Option<Choice>,
}

/// Choice of a request's connection by Pingora.
#[derive(Clone, Copy)]
enum Choice {
    Begun { server: u64, is_pinned: bool },
    Ended(IdleConnection),
}

impl QueueSlot {
    /// Must be called before Pingora chooses a connection to this server for an ordinary request, or an
    /// upgrade if `is_upgrade` is true. `is_pinned` is true for the connection of one client, which needs
    /// no permit while it is idle.
    pub(crate) async fn begin_choice(&mut self, server: &UpstreamServer, is_upgrade: bool, is_pinned: bool) {
        // Shared threads have common connections, which cannot be told apart here. They keep none idle.
        if self.queue.bounds_connections && is_own_thread() {
            self.abandon_choice();
            // Pingora does not mix the two kinds of connections.
            let server = server.number ^ u64::from(is_upgrade);
            let closed = self.queue.begin_choice(server, is_pinned);
            self.connection = Some(Choice::Begun { server, is_pinned });
            if let Some(closed) = closed {
                // None is closed during the choice. After one round of the event loop, Pingora notices
                // those that were closed before.
                yield_now().await;
                self.queue.see(closed);
            }
        }
    }

    /// Must be called when Pingora has chosen the connection with this descriptor.
    pub(crate) fn end_choice(&mut self, descriptor: RawFd) {
        if let Some(Choice::Begun { server, is_pinned }) = self.connection {
            let number = self.queue.end_choice(Some(descriptor));
            let id = ConnectionId::of(descriptor).filter(|_| !is_pinned);
            self.connection = id.map(|id| Choice::Ended(IdleConnection { server, id, number }));
        }
    }

    /// Returns whether the connection must be closed after the request.
    pub(crate) fn closes_connection(&self) -> bool {
        self.queue.bounds_connections && self.connection.is_none()
    }

    /// Ends the choice of a connection that could not be opened.
    fn abandon_choice(&mut self) {
        if let Some(Choice::Begun { .. }) = self.connection.take() {
            self.queue.end_choice(None);
        }
    }

    /// Marks the exchange as long-lived, so that it no longer counts towards the client's limit.
    /// Has no effect if the client has too many long-lived exchanges.
    pub(crate) fn become_long_lived(&mut self) {
        let Some(client) = self.client.filter(|_| self.client_permit.is_some()) else { return };
        if let Some(client) = self.queue.clients().get_mut(&client)
            && client.long_lived < self.queue.max_long_lived
        {
            client.long_lived += 1;
            self.client_permit = None;
        }
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let connection = match self.connection {
            Some(Choice::Ended(connection)) => Some(connection),
            _ => None,
        };
        self.abandon_choice();
        // A request that was cancelled while it waited has no `all` permit. A long-lived exchange
        // has only that permit.
        let all = self.all.take();
        let lasted = all.is_some() && self.client_permit.is_none();
        let client = self.client.zip(self.client_permit.take());
        match all {
            Some(all) if client.is_some() == self.client.is_some() => {
                if let Some(permits) = self.queue.keep(Permits { client, _all: all }, connection) {
                    self.queue.release(permits);
                }
            }
            _ => {
                if let Some(connection) = connection {
                    // It has no permit, so an idle connection is closed.
                    let mut kept = self.queue.kept_here();
                    let idle = kept.idle_after(connection);
                    kept.idle.extend(idle);
                    kept.close_excess();
                }
                if let Some(client) = self.client {
                    self.queue.leave(client, lasted);
                }
            }
        }
    }
}

/// Returns whether the thread serves its connections alone.
fn is_own_thread() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queue with a reference of this thread.
    #[derive(Clone)]
    struct Queue(Arc<FairQueue>);

    impl Queue {
        async fn turn(&self, client: Option<IpAddr>) -> Option<QueueSlot> {
            FairQueue::turn(LocalRef::new(Arc::clone(&self.0)), client).await
        }
    }

    fn queue(in_all: usize, per_client: usize) -> Queue {
        let queue_timeout = Duration::from_millis(300);
        Queue(Arc::new(FairQueue { queue_timeout, ..FairQueue::new(in_all, per_client) }))
    }

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[tokio::test]
    async fn a_client_above_its_limit_waits_for_a_turn() {
        let queue = queue(10, 2);
        let first = queue.turn(Some(client(1))).await.unwrap();
        let _second = queue.turn(Some(client(1))).await.unwrap();
        assert!(queue.turn(Some(client(1))).await.is_none(), "after its timeout");
        assert!(queue.turn(Some(client(2))).await.is_some());
        let third = tokio::spawn({
            let queue = queue.clone();
            async move { queue.turn(Some(client(1))).await.is_some() }
        });
        yield_now().await;
        drop(first);
        assert!(third.await.unwrap());
    }

    #[tokio::test]
    async fn long_lived_requests_leave_capacity_for_others() {
        let queue = queue(4, 1);
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut turn = queue.turn(Some(client(1))).await.unwrap();
            turn.become_long_lived();
            open.push(turn);
        }
        // Two are long-lived. The third one still counts towards the client's limit of one.
        assert!(queue.turn(Some(client(1))).await.is_none());
        assert!(queue.turn(Some(client(2))).await.is_some());
        open.remove(0);
        open.last_mut().unwrap().become_long_lived();
        assert!(queue.turn(Some(client(1))).await.is_some());
    }

    #[tokio::test]
    async fn cancelled_requests_free_their_capacity() {
        let queue = queue(1, 1);
        let only = queue.turn(None).await.unwrap();
        // One request waits until the timeout. Another is cancelled before it.
        assert!(queue.turn(Some(client(1))).await.is_none());
        assert!(timeout(Duration::from_millis(10), queue.turn(Some(client(2)))).await.is_err());
        drop(only);
        drop(queue.turn(Some(client(3))).await.unwrap());
        drop(queue.0.return_kept());
        assert!(queue.0.clients().is_empty());
        assert_eq!(queue.0.all.available_permits(), 1);
    }

    #[tokio::test]
    async fn the_next_request_of_a_client_uses_the_kept_permits() {
        let queue = queue(4, 4);
        drop(queue.turn(Some(client(1))).await.unwrap());
        let _other = queue.turn(Some(client(2))).await.unwrap();
        assert_eq!(queue.0.all.available_permits(), 2);
        let again = queue.turn(Some(client(1))).await.unwrap();
        assert_eq!(queue.0.all.available_permits(), 2, "no further permit");
        drop(again);
        for number in 0..=u8::try_from(MAX_KEPT).unwrap() {
            drop(queue.turn(Some(client(number))).await.unwrap());
        }
        assert!(queue.0.kept_here().permits.len() <= MAX_KEPT);
    }

    #[test]
    fn threads_never_exceed_a_limit_and_never_wait_below_it() {
        const THREADS: usize = 8;
        const IN_ALL: usize = 4;
        const PER_CLIENT: usize = 2;
        let queue = queue(IN_ALL, PER_CLIENT);
        // Each thread has at most one request, so none may be refused, although the threads keep permits.
        let below = Queue(Arc::new(FairQueue::new(THREADS, THREADS)));
        let (running, of_clients) = (AtomicUsize::new(0), [const { AtomicUsize::new(0) }; 3]);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (queue, below, running, of_clients) = (&queue, &below, &running, &of_clients);
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                    runtime.block_on(async {
                        for round in 0..2000 {
                            let number = (thread + round) % of_clients.len();
                            let who = client(u8::try_from(number).unwrap());
                            let free = below.turn(Some(who)).await;
                            assert!(free.is_some());
                            let Some(turn) = queue.turn(Some(who)).await else { continue };
                            assert!(running.fetch_add(1, Ordering::SeqCst) < IN_ALL);
                            assert!(of_clients[number].fetch_add(1, Ordering::SeqCst) < PER_CLIENT);
                            yield_now().await;
                            of_clients[number].fetch_sub(1, Ordering::SeqCst);
                            running.fetch_sub(1, Ordering::SeqCst);
                            drop(turn);
                        }
                    });
                });
            }
        });
        // The permits that the ended threads keep are available to others.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let turns =
                [queue.turn(None).await, queue.turn(None).await, queue.turn(None).await, queue.turn(None).await];
            assert!(turns.iter().all(Option::is_some));
            assert!(queue.turn(None).await.is_none());
        });
    }
}
