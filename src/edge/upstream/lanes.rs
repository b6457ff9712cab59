//! How many requests are under way at an application: in all, since it has so many workers and we so many descriptors, and
//! from one client, which over HTTP/2 asks a hundred things on each of its connections. Further ones wait their turn, in
//! the order in which they came.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::super::listen::quota::counted_as;

/// The longest that a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turns at one application.
pub(super) struct Lanes {
    all: Arc<Semaphore>,
    per_client: usize,
    /// Exchanges that last (`WebSocket`s, streams) are no burst, and an office behind one address has many. But one client
    /// may never have all of the turns.
    most_long_lived: usize,
    patience: Duration,
    /// Those of clients that have or wait for a turn.
    clients: Mutex<HashMap<IpAddr, Client>>,
}

struct Client {
    turns: Arc<Semaphore>,
    /// Requests that have a turn or wait for one.
    here: usize,
    long_lived: usize,
}

impl Lanes {
    pub(super) fn new(in_all: usize, per_client: usize) -> Self {
        let all = Arc::new(Semaphore::new(in_all.clamp(1, Semaphore::MAX_PERMITS)));
        let per_client = per_client.clamp(1, Semaphore::MAX_PERMITS);
        Self { all, per_client, most_long_lived: in_all / 2, patience: PATIENCE, clients: Mutex::default() }
    }

    /// Waits for a turn. None when it does not come in time. `client` is none where nobody knows who it is: a load balancer
    /// that does not say stands for many.
    pub(super) async fn turn(self: &Arc<Self>, client: Option<IpAddr>) -> Option<Turn> {
        let mut turn = Turn { lanes: Arc::clone(self), client: client.map(counted_as), own: None, all: None };
        let own = turn.client.map(|client| self.come(client));
        let both = async {
            // First its own: who has none waits in nobody else's way.
            if let Some(own) = own {
                turn.own = Some(own.acquire_owned().await.ok()?);
            }
            turn.all = Some(Arc::clone(&self.all).acquire_owned().await.ok()?);
            Some(())
        };
        timeout(self.patience, both).await.ok()??;
        Some(turn)
    }

    fn come(&self, client: IpAddr) -> Arc<Semaphore> {
        let new = || Client { turns: Arc::new(Semaphore::new(self.per_client)), here: 0, long_lived: 0 };
        let mut clients = self.clients();
        let client = clients.entry(client).or_insert_with(new);
        client.here += 1;
        Arc::clone(&client.turns)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Client>> {
        // Whole after each statement.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn; dropping it is the next one's.
pub(in crate::edge) struct Turn {
    lanes: Arc<Lanes>,
    client: Option<IpAddr>,
    /// None once the exchange lasts.
    own: Option<OwnedSemaphorePermit>,
    all: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// The exchange lasts: its client may ask for other things meanwhile, unless it has many such.
    pub(in crate::edge) fn lasts(&mut self) {
        let Some(client) = self.client.filter(|_| self.own.is_some()) else { return };
        if let Some(client) = self.lanes.clients().get_mut(&client)
            && client.long_lived < self.lanes.most_long_lived
        {
            client.long_lived += 1;
            self.own = None;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(client) = self.client else { return };
        // One that never got its turn does not last; one that lasts has one of all and none of its own.
        let lasted = self.own.is_none() && self.all.is_some();
        if let Entry::Occupied(mut entry) = self.lanes.clients().entry(client) {
            let client = entry.get_mut();
            client.here -= 1;
            client.long_lived -= usize::from(lasted);
            if client.here == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(in_all: usize, per_client: usize) -> Arc<Lanes> {
        Arc::new(Lanes { patience: Duration::from_millis(300), ..Lanes::new(in_all, per_client) })
    }

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[tokio::test]
    async fn a_client_has_its_turns_and_then_waits() {
        let lanes = lanes(10, 2);
        let first = lanes.turn(Some(client(1))).await.unwrap();
        let _second = lanes.turn(Some(client(1))).await.unwrap();
        assert!(lanes.turn(Some(client(1))).await.is_none(), "after its patience");
        assert!(lanes.turn(Some(client(2))).await.is_some());
        let third = tokio::spawn({
            let lanes = Arc::clone(&lanes);
            async move { lanes.turn(Some(client(1))).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(third.await.unwrap());
    }

    #[tokio::test]
    async fn what_lasts_makes_room_and_never_takes_all() {
        let lanes = lanes(4, 1);
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut turn = lanes.turn(Some(client(1))).await.unwrap();
            turn.lasts();
            open.push(turn);
        }
        // Two last, and the third keeps the client's only turn.
        assert!(lanes.turn(Some(client(1))).await.is_none());
        assert!(lanes.turn(Some(client(2))).await.is_some());
        open.remove(0);
        open.last_mut().unwrap().lasts();
        assert!(lanes.turn(Some(client(1))).await.is_some());
    }

    #[tokio::test]
    async fn who_left_leaves_no_trace() {
        let lanes = lanes(1, 1);
        let only = lanes.turn(None).await.unwrap();
        // One that waits in vain, and one that gives up before.
        assert!(lanes.turn(Some(client(1))).await.is_none());
        assert!(timeout(Duration::from_millis(10), lanes.turn(Some(client(2)))).await.is_err());
        drop(only);
        drop(lanes.turn(Some(client(3))).await.unwrap());
        assert!(lanes.clients().is_empty());
        assert_eq!(lanes.all.available_permits(), 1);
    }
}
