//! Limits on connections and HTTP/2 requests, in total and for each client address.
//!
//! An HTTP/1 connection uses memory for one head and for buffers of a fixed size, so a limit on
//! connections also limits the memory. An HTTP/2 connection can have a hundred concurrent requests,
//! each with its own head. So each HTTP/2 request counts like a connection, and the total size of
//! the heads of HTTP/2 requests is limited too.
//!
//! A thread keeps the places of HTTP/2 requests that have ended, for its next requests of the same
//! addresses. So most requests write to no memory that other threads use. Before a connection or request
//! is refused, all threads return the places that they keep. The limits are therefore exact.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use thread_local::ThreadLocal;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use sealgate_system::own_line::OwnLine;
use sealgate_system::read_mostly::LocalRef;

/// Limits on the total size of the HTTP/2 request heads of one address and of all addresses, as
/// multiples of the maximum head length.
///
/// Ordinary heads have a tenth of the maximum length. So usually the limit on the number of
/// requests is reached first.
const MAX_HEADS_PER_PEER: usize = 256;
const MAX_HEADS: usize = 2048;
/// Maximum number of places of ended requests, and of their addresses, that a thread keeps.
const MAX_KEPT_PLACES: usize = 256;
const MAX_KEPT_ADDRESSES: usize = 64;

/// Counter of connections and HTTP/2 requests. Refuses a connection or request that exceeds a
/// limit.
pub struct Quota {
    all: Arc<Semaphore>,
    capacity: u32,
    per_peer: usize,
    /// Maximum length of a head, in bytes.
    head: usize,
    exempt: Vec<IpNet>,
    /// Locked before any of `kept`.
    usage: Mutex<Usage>,
    /// Places of ended requests, which each thread keeps. `usage` contains them.
    kept: ThreadLocal<OwnLine<Mutex<KeptPlaces>>>,
}

/// Places that a thread keeps. The last are those of the latest request.
#[derive(Default)]
struct KeptPlaces(Vec<(Option<IpAddr>, PeerUsage)>);

impl KeptPlaces {
    /// Takes a place for a request. Returns false if there is none, or not for a head of this length.
    fn take(&mut self, peer: Option<IpAddr>, head: usize) -> bool {
        let found = self.0.iter_mut().rfind(|(of, _)| *of == peer);
        let Some((_, kept)) = found.filter(|(_, kept)| kept.places > 0 && kept.heads >= head) else { return false };
        kept.places -= 1;
        kept.heads -= head;
        true
    }

    /// Keeps the place of an ended request. Returns whether too many are kept.
    fn keep(&mut self, peer: Option<IpAddr>, head: usize) -> bool {
        let index = self.0.iter().rposition(|(of, _)| *of == peer);
        let mut kept = index.map_or((peer, PeerUsage::default()), |index| self.0.remove(index));
        kept.1.places += 1;
        kept.1.heads += head;
        let is_full = kept.1.places > MAX_KEPT_PLACES || self.0.len() >= MAX_KEPT_ADDRESSES;
        self.0.push(kept);
        is_full
    }
}

#[derive(Default)]
struct Usage {
    /// Number of HTTP/2 requests. The limit is the same as for connections, but requests are
    /// counted separately, so that they cannot prevent new connections.
    requests: usize,
    heads: usize,
    peers: HashMap<IpAddr, PeerUsage>,
}

#[derive(Default)]
struct PeerUsage {
    /// Number of connections and HTTP/2 requests of the address.
    places: usize,
    /// Total length of the heads of the HTTP/2 requests, in bytes.
    heads: usize,
}

impl Quota {
    /// Creates a quota for `capacity` connections in total, and `per_peer` connections from one
    /// address (IPv6: one /64).
    ///
    /// Addresses in `exempt` are trusted proxies, which represent many clients. Their connections
    /// count only towards the totals. `head` is the maximum length of a head, in bytes.
    pub fn new(capacity: usize, per_peer: usize, head: usize, exempt: Vec<IpNet>) -> Arc<Self> {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX >> 3).clamp(1, u32::MAX >> 3);
        let all = Arc::new(Semaphore::new(capacity as usize));
        Arc::new(Self { all, capacity, per_peer, head, exempt, usage: Mutex::default(), kept: ThreadLocal::new() })
    }

    /// Waits until one more connection is allowed. The caller must call this function before it
    /// accepts a connection.
    ///
    /// While this function waits, new connections stay in the kernel's queue and use no memory of
    /// the process.
    pub(crate) async fn wait_for_capacity(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.all).acquire_owned().await {
            Ok(room) => room,
            // Only a closed semaphore returns an error, and this semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Counts a connection from `peer`. `None` if the address has too many connections.
    pub(crate) fn admit(self: &Arc<Self>, room: OwnedSemaphorePermit, peer: IpAddr) -> Option<ConnectionPermit> {
        let peer = self.counted_address(peer);
        if let Some(peer) = peer
            && !self.add_connection(&mut self.usage(), peer)
        {
            return None;
        }
        Some(ConnectionPermit { quota: Arc::clone(self), peer, _room: room })
    }

    /// Counts an HTTP/2 request with a head of `head` bytes. `None` if a limit of the address or of
    /// all addresses is reached.
    pub(crate) fn admit_request(this: &LocalRef<Self>, peer: IpAddr, head: usize) -> Option<StreamPermit> {
        let peer = this.counted_address(peer);
        // A statement of its own, so that the list is not locked while others are.
        let is_kept = this.kept_here().take(peer, head);
        (is_kept || this.add_request(peer, head)).then(|| StreamPermit { quota: this.clone(), peer, head })
    }

    fn add_request(&self, peer: Option<IpAddr>, head: usize) -> bool {
        let mut usage = self.usage();
        if !usage.has_room(self, peer, head) {
            self.return_kept(&mut usage);
            if !usage.has_room(self, peer, head) {
                return false;
            }
        }
        if let Some(peer) = peer {
            let peer_usage = usage.peers.entry(peer).or_default();
            peer_usage.places += 1;
            peer_usage.heads += head;
        }
        usage.requests += 1;
        usage.heads += head;
        true
    }

    /// Counts a connection from `peer`. Returns false if the address has too many.
    fn add_connection(&self, usage: &mut Usage, peer: IpAddr) -> bool {
        if !usage.add_connection(peer, self.per_peer) {
            self.return_kept(usage);
            return usage.add_connection(peer, self.per_peer);
        }
        true
    }

    /// Releases the places that the threads keep.
    fn return_kept(&self, usage: &mut Usage) {
        // All are locked before the first is released, so that the remaining usage is that of one
        // moment. Otherwise a thread could take a kept place while another one keeps a place, and both
        // would be counted.
        let all: Vec<_> = self.kept.iter().map(|kept| locked(kept)).collect();
        for mut kept in all {
            usage.release_kept(&mut kept);
        }
    }

    /// Keeps the place of an ended request for the next one on this thread.
    fn keep(&self, peer: Option<IpAddr>, head: usize) {
        if self.kept_here().keep(peer, head) {
            let mut usage = self.usage();
            usage.release_kept(&mut self.kept_here());
        }
    }

    fn kept_here(&self) -> MutexGuard<'_, KeptPlaces> {
        locked(self.kept.get_or_default())
    }

    /// Returns the address under which a peer is counted, or `None` if the peer is exempt.
    fn counted_address(&self, peer: IpAddr) -> Option<IpAddr> {
        let peer = peer.to_canonical();
        (!self.exempt.iter().any(|net| net.contains(&peer))).then(|| address_group(peer))
    }

    /// Waits until every connection is closed. The caller must not admit connections while this
    /// function waits.
    pub async fn wait_until_empty(&self) {
        // `acquire_many` succeeds when no connection holds a permit. The acquired permits are
        // released immediately.
        let _all = self.all.acquire_many(self.capacity).await;
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        (self.capacity as usize).saturating_sub(self.all.available_permits())
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        locked(&self.usage)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The counters are consistent even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the address under which a peer is counted. For an IPv6 address, this is its /64.
///
/// A household or a server usually has a whole IPv6 /64.
pub(crate) fn address_group(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// A counted connection. Dropping it reduces the count.
pub(crate) struct ConnectionPermit {
    quota: Arc<Quota>,
    peer: Option<IpAddr>,
    _room: OwnedSemaphorePermit,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        if let Some(peer) = self.peer {
            self.quota.usage().release(peer, 1, 0);
        }
    }
}

impl ConnectionPermit {
    /// Counts the connection for another address: the address of the client that connects through a
    /// load balancer. Returns false if that address has too many connections.
    pub(crate) fn count_for(&mut self, peer: IpAddr) -> bool {
        let peer = self.quota.counted_address(peer);
        let mut usage = self.quota.usage();
        if let Some(peer) = peer
            && !self.quota.add_connection(&mut usage, peer)
        {
            return false;
        }
        if let Some(before) = std::mem::replace(&mut self.peer, peer) {
            usage.release(before, 1, 0);
        }
        true
    }
}

/// A counted HTTP/2 request. When it is dropped, the thread keeps its place.
pub(crate) struct StreamPermit {
    quota: LocalRef<Quota>,
    peer: Option<IpAddr>,
    head: usize,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.quota.keep(self.peer, self.head);
    }
}

impl Usage {
    /// Counts a connection from `peer`. Returns false if the address already has `limit` places.
    fn add_connection(&mut self, peer: IpAddr, limit: usize) -> bool {
        if self.peers.get(&peer).is_some_and(|peer_usage| peer_usage.places >= limit) {
            return false;
        }
        self.peers.entry(peer).or_default().places += 1;
        true
    }

    /// Returns whether the limits of `quota` permit one more request.
    fn has_room(&self, quota: &Quota, peer: Option<IpAddr>, head: usize) -> bool {
        if self.requests >= quota.capacity as usize || self.heads + head > MAX_HEADS * quota.head {
            return false;
        }
        peer.is_none_or(|peer| {
            let (places, heads) = self.peers.get(&peer).map_or((0, 0), |usage| (usage.places, usage.heads));
            places < quota.per_peer && heads + head <= MAX_HEADS_PER_PEER * quota.head
        })
    }

    /// Releases the places that a thread keeps.
    fn release_kept(&mut self, kept: &mut KeptPlaces) {
        for (peer, PeerUsage { places, heads }) in kept.0.drain(..) {
            self.requests -= places;
            self.heads -= heads;
            if let Some(peer) = peer {
                self.release(peer, places, heads);
            }
        }
    }

    fn release(&mut self, peer: IpAddr, places: usize, heads: usize) {
        if let Entry::Occupied(mut entry) = self.peers.entry(peer) {
            let peer_usage = entry.get_mut();
            peer_usage.places -= places;
            peer_usage.heads -= heads;
            if peer_usage.places == 0 && peer_usage.heads == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn begin(quota: &Arc<Quota>, peer: &str, head: usize) -> Option<StreamPermit> {
        Quota::admit_request(&LocalRef::new(Arc::clone(quota)), peer.parse().unwrap(), head)
    }

    async fn admit(quota: &Arc<Quota>, peer: &str) -> Option<ConnectionPermit> {
        let room = quota.wait_for_capacity().await;
        quota.admit(room, peer.parse().unwrap())
    }

    #[tokio::test]
    async fn a_peer_is_limited_to_its_share() {
        let quota = Quota::new(10, 2, 100, Vec::new());
        let first = admit(&quota, "192.0.2.1").await.unwrap();
        let _second = admit(&quota, "192.0.2.1").await.unwrap();
        assert!(admit(&quota, "192.0.2.1").await.is_none());
        assert!(admit(&quota, "192.0.2.2").await.is_some());
        drop(first);
        assert!(admit(&quota, "192.0.2.1").await.is_some());
    }

    #[tokio::test]
    async fn ipv6_peers_are_counted_by_their_network() {
        let quota = Quota::new(10, 1, 100, Vec::new());
        let _first = admit(&quota, "2001:db8:1:2::1").await.unwrap();
        assert!(admit(&quota, "2001:db8:1:2:ffff::9").await.is_none());
        assert!(admit(&quota, "2001:db8:1:3::1").await.is_some());
    }

    #[tokio::test]
    async fn mapped_ipv4_addresses_count_as_ipv4() {
        let quota = Quota::new(10, 1, 100, Vec::new());
        let _first = admit(&quota, "192.0.2.1").await.unwrap();
        assert!(admit(&quota, "::ffff:192.0.2.1").await.is_none());
    }

    #[tokio::test]
    async fn trusted_proxies_have_no_limit_per_peer() {
        let quota = Quota::new(10, 1, 100, vec!["10.0.0.0/8".parse().unwrap()]);
        let _first = admit(&quota, "10.1.1.1").await.unwrap();
        assert!(admit(&quota, "10.1.1.1").await.is_some());
    }

    #[tokio::test]
    async fn a_connection_through_a_load_balancer_counts_for_its_client() {
        let quota = Quota::new(10, 1, 100, vec!["10.0.0.0/8".parse().unwrap()]);
        let client = "192.0.2.1".parse().unwrap();
        let mut first = admit(&quota, "10.1.1.1").await.unwrap();
        assert!(first.count_for(client));
        let mut second = admit(&quota, "10.1.1.1").await.unwrap();
        assert!(!second.count_for(client) && admit(&quota, "192.0.2.1").await.is_none());
        drop(first);
        assert!(second.count_for(client));
        drop(second);
        assert!(quota.usage().peers.is_empty());
    }

    #[tokio::test]
    async fn a_closed_connection_leaves_no_counter() {
        let quota = Quota::new(10, 1, 100, Vec::new());
        drop(admit(&quota, "192.0.2.1").await.unwrap());
        assert!(quota.usage().peers.is_empty());
        assert_eq!(quota.open_connections(), 0);
    }

    #[tokio::test]
    async fn requests_use_capacity_in_addition_to_connections() {
        let quota = Quota::new(10, 3, 100, Vec::new());
        let peer = "192.0.2.1";
        let _connection = admit(&quota, "192.0.2.1").await.unwrap();
        let first = begin(&quota, peer, 10).unwrap();
        let _second = begin(&quota, peer, 10).unwrap();
        assert!(begin(&quota, peer, 10).is_none());
        assert!(admit(&quota, peer).await.is_none());
        assert!(begin(&quota, "192.0.2.2", 10).is_some());
        drop(first);
        assert!(admit(&quota, peer).await.is_some(), "the place of an ended request");
        assert!(begin(&quota, peer, 10).is_some());
    }

    #[test]
    fn the_next_request_of_an_address_uses_the_kept_place() {
        let quota = Quota::new(1000, 1000, 1000, Vec::new());
        drop(begin(&quota, "192.0.2.1", 500).unwrap());
        let used = || {
            let usage = quota.usage();
            (usage.requests, usage.heads)
        };
        assert_eq!(used(), (1, 500));
        let first = begin(&quota, "192.0.2.1", 200).unwrap();
        let second = begin(&quota, "192.0.2.1", 300).unwrap();
        assert_eq!(used(), (2, 800), "a further place for the second");
        drop((first, second));
        let all: Vec<_> = (0..=MAX_KEPT_PLACES).map(|_| begin(&quota, "192.0.2.1", 1).unwrap()).collect();
        drop(all);
        for number in 0..=MAX_KEPT_ADDRESSES {
            drop(begin(&quota, &format!("192.0.2.{number}"), 1).unwrap());
            assert!(used().0 <= MAX_KEPT_PLACES + MAX_KEPT_ADDRESSES);
        }
        quota.return_kept(&mut quota.usage());
        assert_eq!((used(), quota.usage().peers.len()), ((0, 0), 0));
    }

    #[test]
    fn an_address_does_not_use_the_kept_place_of_another() {
        let quota = Quota::new(1000, 1, 100, Vec::new());
        drop(begin(&quota, "192.0.2.1", 10).unwrap());
        let _first = begin(&quota, "192.0.2.2", 10).unwrap();
        assert!(begin(&quota, "192.0.2.2", 10).is_none());
        assert!(begin(&quota, "192.0.2.1", 10).is_some());
    }

    #[test]
    fn threads_never_exceed_a_limit_and_are_never_refused_below_it() {
        const THREADS: usize = 8;
        const PER_PEER: usize = 3;
        let quota = Quota::new(1000, PER_PEER, 100, Vec::new());
        // Each thread has at most one request, so none may be refused, although the threads keep places.
        let below = Quota::new(THREADS, THREADS, 100, Vec::new());
        let (running, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for round in 0..2000 {
                        assert!(begin(&below, "192.0.2.1", round % 100).is_some());
                        let Some(permit) = begin(&quota, "192.0.2.1", 10) else {
                            refused.fetch_add(1, Ordering::SeqCst);
                            continue;
                        };
                        assert!(running.fetch_add(1, Ordering::SeqCst) < PER_PEER);
                        std::thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        assert!(refused.load(Ordering::SeqCst) > 0);
    }

    #[test]
    fn the_size_of_heads_is_limited_per_peer_and_in_total() {
        let quota = Quota::new(1 << 20, 1 << 20, 10, vec!["10.0.0.0/8".parse().unwrap()]);
        let begin = |peer: &str, head| begin(&quota, peer, head);
        let whole = MAX_HEADS_PER_PEER * 10;
        let all = begin("192.0.2.1", whole).unwrap();
        assert!(begin("192.0.2.1", 1).is_none() && begin("192.0.2.2", whole + 1).is_none());
        // A load balancer represents many clients, so it has no limit for one address. But the
        // total limits apply.
        let _others = begin("10.0.0.1", (MAX_HEADS - MAX_HEADS_PER_PEER) * 10).unwrap();
        assert!(begin("10.0.0.1", 1).is_none() && begin("192.0.2.2", 1).is_none());
        drop(all);
        assert!(begin("192.0.2.1", whole).is_some());
        quota.return_kept(&mut quota.usage());
        let usage = quota.usage();
        assert_eq!((usage.requests, usage.heads, usage.peers.len()), (1, (MAX_HEADS - MAX_HEADS_PER_PEER) * 10, 0));
    }

    #[tokio::test]
    async fn emptied_waits_for_the_last_connection() {
        let quota = Quota::new(1, 1, 100, Vec::new());
        let only = admit(&quota, "192.0.2.1").await.unwrap();
        assert_eq!(quota.open_connections(), 1);
        let waiting = tokio::spawn({
            let quota = Arc::clone(&quota);
            async move { quota.wait_until_empty().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(only);
        waiting.await.unwrap();
    }
}
