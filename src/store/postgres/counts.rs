//! The counts shared by nodes over one database.

use std::sync::Arc;
use std::time::Duration;

use async_channel::Sender;
use async_trait::async_trait;
use tokio::task::JoinHandle;

use super::beat::LastBeat;
use super::connect::Servers;
use super::counting::{Counting, QUEUE, connect};
use super::guesses::{self, GuessJob, GuessWork};
use super::shares::{self, ShareJob, ShareWork};
use crate::shared_counts::{Block, BlockRequest, CountKey, CountedGuess, NotCounted, SharedCounts};
use sealgate_domain::pace::Pace;
use sealgate_domain::time::UnixTime;

/// Queues of both kinds.
pub(super) struct Counts {
    shares: Sender<ShareJob>,
    guesses: Sender<GuessJob>,
    /// Timeout of a request.
    timeout: Duration,
    last_beat: Arc<LastBeat>,
}

impl Counts {
    /// Connects and starts the tasks on the current runtime, which run until [`Counts::close`].
    pub(super) async fn start(
        servers: Arc<Servers>,
        last_beat: Arc<LastBeat>,
        timeout: Duration,
    ) -> (Self, [JoinHandle<()>; 2]) {
        let ((shares, share_jobs), (guesses, guess_jobs)) =
            (async_channel::bounded(QUEUE), async_channel::bounded(QUEUE));
        // Connect first, so that early requests are not rejected.
        let (share_link, guess_link) = tokio::join!(connect::<ShareWork>(&servers), connect::<GuessWork>(&servers));
        let work = ShareWork::new(timeout);
        let sharing = Counting {
            servers: Arc::clone(&servers),
            queue: share_jobs,
            work,
            first: share_link.ok(),
            last_beat: Arc::clone(&last_beat),
        };
        let guessing = Counting {
            servers,
            queue: guess_jobs,
            work: GuessWork,
            first: guess_link.ok(),
            last_beat: Arc::clone(&last_beat),
        };
        (Self { shares, guesses, timeout, last_beat }, [tokio::spawn(sharing.run()), tokio::spawn(guessing.run())])
    }

    /// Accepts no more requests; queued ones are finished.
    pub(super) fn close(&self) {
        self.shares.close();
        self.guesses.close();
    }
}

#[async_trait]
impl SharedCounts for Counts {
    async fn reserve(&self, wanted: BlockRequest) -> Result<Block, NotCounted> {
        shares::reserve(&self.shares, wanted, self.nodes(), self.timeout).await
    }

    async fn count_guess(
        &self,
        keys: Vec<(CountKey, Pace)>,
        now: UnixTime,
    ) -> Result<Result<Vec<CountedGuess>, u64>, NotCounted> {
        guesses::count(&self.guesses, keys, now).await
    }

    fn give_back(&self, counted: Vec<CountedGuess>, now: UnixTime) {
        guesses::give_back(&self.guesses, counted, now);
    }

    fn nodes(&self) -> u32 {
        self.last_beat.nodes()
    }
}
