//! How many connections there may be, in all and from one peer. Memory is bounded by the connections themselves.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts connections.
pub(crate) struct Quota {
    all: Arc<Semaphore>,
    capacity: u32,
    per_peer: usize,
    exempt: Vec<IpNet>,
    peers: Mutex<HashMap<IpAddr, usize>>,
}

impl Quota {
    /// Room for `capacity` connections in all and `per_peer` from one address (IPv6: one /64). Addresses in `exempt`,
    /// the trusted proxies, each stand for many clients and count in all only.
    pub(crate) fn new(capacity: usize, per_peer: usize, exempt: Vec<IpNet>) -> Arc<Self> {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX >> 3).clamp(1, u32::MAX >> 3);
        let all = Arc::new(Semaphore::new(capacity as usize));
        Arc::new(Self { all, capacity, per_peer, exempt, peers: Mutex::default() })
    }

    /// Waits for room for one more connection. To be called before accepting: until there is room, new connections
    /// stay in the kernel's queue and cost us nothing.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.all).acquire_owned().await {
            Ok(room) => room,
            // Only a closed semaphore refuses, and nobody closes this one.
            Err(_) => std::future::pending().await,
        }
    }

    /// Counts a connection from `peer`. None when that address has as many as it may have.
    pub(super) fn admit(self: &Arc<Self>, room: OwnedSemaphorePermit, peer: IpAddr) -> Option<Ticket> {
        let peer = peer.to_canonical();
        if self.exempt.iter().any(|net| net.contains(&peer)) {
            return Some(Ticket { quota: Arc::clone(self), peer: None, _room: room });
        }
        let peer = counted_as(peer);
        let mut peers = self.peers();
        let count = peers.entry(peer).or_default();
        if *count >= self.per_peer {
            // A peer at its limit has an entry already, unless the limit is zero.
            if *count == 0 {
                peers.remove(&peer);
            }
            return None;
        }
        *count += 1;
        drop(peers);
        Some(Ticket { quota: Arc::clone(self), peer: Some(peer), _room: room })
    }

    /// Resolves when every connection is gone. No new ones may be admitted meanwhile.
    pub(crate) async fn emptied(&self) {
        // All room taken back means that nobody holds any. The permit goes at once: there is nothing left to guard.
        let _all = self.all.acquire_many(self.capacity).await;
    }

    /// Connections right now.
    pub(crate) fn open(&self) -> usize {
        (self.capacity as usize).saturating_sub(self.all.available_permits())
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // The map is whole after each statement, so a panic elsewhere cannot have left it half written.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address that a peer's connections are counted under: one household or server has a whole IPv6 /64 to itself.
fn counted_as(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// A connection that is counted; dropping it takes it off the count.
pub(super) struct Ticket {
    quota: Arc<Quota>,
    peer: Option<IpAddr>,
    _room: OwnedSemaphorePermit,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(peer) = self.peer else { return };
        if let Entry::Occupied(mut count) = self.quota.peers().entry(peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn admit(quota: &Arc<Quota>, peer: &str) -> Option<Ticket> {
        let room = quota.room().await;
        quota.admit(room, peer.parse().unwrap())
    }

    #[tokio::test]
    async fn a_peer_gets_its_share_and_no_more() {
        let quota = Quota::new(10, 2, Vec::new());
        let first = admit(&quota, "192.0.2.1").await.unwrap();
        let _second = admit(&quota, "192.0.2.1").await.unwrap();
        assert!(admit(&quota, "192.0.2.1").await.is_none());
        assert!(admit(&quota, "192.0.2.2").await.is_some());
        drop(first);
        assert!(admit(&quota, "192.0.2.1").await.is_some());
    }

    #[tokio::test]
    async fn ipv6_peers_are_counted_by_their_network() {
        let quota = Quota::new(10, 1, Vec::new());
        let _first = admit(&quota, "2001:db8:1:2::1").await.unwrap();
        assert!(admit(&quota, "2001:db8:1:2:ffff::9").await.is_none());
        assert!(admit(&quota, "2001:db8:1:3::1").await.is_some());
    }

    #[tokio::test]
    async fn an_ipv4_peer_is_the_same_through_a_dual_stack_socket() {
        let quota = Quota::new(10, 1, Vec::new());
        let _first = admit(&quota, "192.0.2.1").await.unwrap();
        assert!(admit(&quota, "::ffff:192.0.2.1").await.is_none());
    }

    #[tokio::test]
    async fn trusted_proxies_are_not_counted_as_one_peer() {
        let quota = Quota::new(10, 1, vec!["10.0.0.0/8".parse().unwrap()]);
        let _first = admit(&quota, "10.1.1.1").await.unwrap();
        assert!(admit(&quota, "10.1.1.1").await.is_some());
    }

    #[tokio::test]
    async fn a_peer_that_left_leaves_no_trace() {
        let quota = Quota::new(10, 1, Vec::new());
        drop(admit(&quota, "192.0.2.1").await.unwrap());
        assert!(quota.peers().is_empty());
        assert_eq!(quota.open(), 0);
    }

    #[tokio::test]
    async fn room_runs_out_and_comes_back() {
        let quota = Quota::new(1, 1, Vec::new());
        let only = admit(&quota, "192.0.2.1").await.unwrap();
        assert_eq!(quota.open(), 1);
        let waiting = tokio::spawn({
            let quota = Arc::clone(&quota);
            async move { quota.emptied().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(only);
        waiting.await.unwrap();
    }
}
