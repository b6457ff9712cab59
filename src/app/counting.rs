//! Counts what strangers can make, which is bounded in all, for all nodes of a fleet. Alone on a store, a process knows what there
//! is from its start on, and nothing is to be done here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::duty::Duty;
use crate::app::server::Stop;
use crate::app::state::Sealgate;
use crate::store::{LeaseName, StoreError};

/// How often what was counted is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is counted.
const EVERY: Duration = Duration::from_secs(3);
/// How often the clients are, all of which are read for that.
const CLIENTS_EVERY: Duration = Duration::from_secs(30);

/// Counts while this is the node that does, and goes by what was counted, until told to stop.
pub(crate) async fn keep(sealgate: Arc<Sealgate>, mut stop: Stop) {
    if !sealgate.store.is_shared() {
        return;
    }
    let mut counting =
        Counting { duty: Duty::new(&sealgate, LeaseName::Counting), sealgate, last: None, clients: None };
    loop {
        let looked = async {
            tokio::time::sleep(LOOK).await;
            counting.look().await
        };
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            looked = looked => if let Err(error) = looked {
                tracing::warn!(%error, "what there is of what strangers can make is not counted");
            },
        }
    }
    counting.duty.let_go().await;
}

struct Counting {
    sealgate: Arc<Sealgate>,
    duty: Duty,
    /// When it was last counted here, and when the clients were.
    last: Option<Instant>,
    clients: Option<Instant>,
}

impl Counting {
    async fn look(&mut self) -> Result<(), StoreError> {
        let store = &self.sealgate.store;
        if let Some(fence) = self.duty.hold().await {
            let is_due = |last: Option<Instant>, every| last.is_none_or(|last| last.elapsed() >= every);
            if is_due(self.last, EVERY) {
                let with_clients = is_due(self.clients, CLIENTS_EVERY);
                self.last = Some(Instant::now());
                if store.publish_counts(&fence, with_clients).await? && with_clients {
                    self.clients = self.last;
                }
            }
        }
        store.follow_counts().await
    }
}
