//! Limits on the concurrent requests at an application, in total and for each client.
//!
//! The total protects the application's workers and the descriptors of the proxy. The limit for
//! each client is needed because an HTTP/2 client can send a hundred requests on each connection.
//! Requests above a limit wait, in order of arrival.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::super::listen::quota::address_group;

/// Maximum time for which a request waits for its permit.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// Clients with requests that were permitted or that wait.
    clients: Mutex<HashMap<IpAddr, Client>>,
}

struct Client {
    turns: Arc<Semaphore>,
    /// Number of requests that were permitted or that wait.
    requests: usize,
    long_lived: usize,
}

impl FairQueue {
    pub(super) fn new(in_all: usize, per_client: usize) -> Self {
        let all = Arc::new(Semaphore::new(in_all.clamp(1, Semaphore::MAX_PERMITS)));
        let per_client = per_client.clamp(1, Semaphore::MAX_PERMITS);
        Self { all, per_client, max_long_lived: in_all / 2, queue_timeout: QUEUE_TIMEOUT, clients: Mutex::default() }
    }

    /// Waits until the limits permit one more request. `None` if the wait takes too long.
    ///
    /// `client` is `None` if the client is unknown. The requests of a load balancer that does not
    /// name its clients belong to many clients.
    pub(super) async fn turn(self: &Arc<Self>, client: Option<IpAddr>) -> Option<QueueSlot> {
        let mut turn =
            QueueSlot { queue: Arc::clone(self), client: client.map(address_group), client_permit: None, all: None };
        let client_permit = turn.client.map(|client| self.join(client));
        let both = async {
            // The client's own limit comes first. A request that waits for it must not use up the
            // limit that all clients share.
            if let Some(client_permit) = client_permit {
                turn.client_permit = Some(client_permit.acquire_owned().await.ok()?);
            }
            turn.all = Some(Arc::clone(&self.all).acquire_owned().await.ok()?);
            Some(())
        };
        timeout(self.queue_timeout, both).await.ok()??;
        Some(turn)
    }

    fn join(&self, client: IpAddr) -> Arc<Semaphore> {
        let new = || Client { turns: Arc::new(Semaphore::new(self.per_client)), requests: 0, long_lived: 0 };
        let mut clients = self.clients();
        let client = clients.entry(client).or_insert_with(new);
        client.requests += 1;
        Arc::clone(&client.turns)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        // No statement leaves the map inconsistent, so it is consistent even after a panic.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit for one request. Dropping it lets the next request proceed.
pub(crate) struct QueueSlot {
    queue: Arc<FairQueue>,
    client: Option<IpAddr>,
    /// Permit for the client's limit; `None` once the exchange is long-lived.
    client_permit: Option<OwnedSemaphorePermit>,
    all: Option<OwnedSemaphorePermit>,
}

impl QueueSlot {
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
        let Some(client) = self.client else { return };
        // A request that was cancelled while it waited has no `all` permit. A long-lived exchange
        // has only that permit.
        let lasted = self.client_permit.is_none() && self.all.is_some();
        if let Entry::Occupied(mut entry) = self.queue.clients().entry(client) {
            let client = entry.get_mut();
            client.requests -= 1;
            client.long_lived -= usize::from(lasted);
            if client.requests == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(in_all: usize, per_client: usize) -> Arc<FairQueue> {
        Arc::new(FairQueue { queue_timeout: Duration::from_millis(300), ..FairQueue::new(in_all, per_client) })
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
            let queue = Arc::clone(&queue);
            async move { queue.turn(Some(client(1))).await.is_some() }
        });
        tokio::task::yield_now().await;
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
        assert!(queue.clients().is_empty());
        assert_eq!(queue.all.available_permits(), 1);
    }
}
