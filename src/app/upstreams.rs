//! Background confirmation of the sign-ins at OpenID providers that have a refresh token.
//!
//! A provider may accept each refresh token once. So one node of a cluster confirms all sign-ins, while
//! it holds a lease. The other nodes read from the store when each provider last answered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::server::Stop;
use crate::app::task_lease;
use crate::app::task_lease::TaskLease;
use sealgate_core::sources::{OpenIdSource, Refreshed};
use sealgate_core::state::Sealgate;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::{LEASE_LENGTH, LeaseName, SignInPlace, StoreError};
use sealgate_system::metrics::UpstreamRefreshOutcome;

/// Maximum number of sign-ins at one provider that are confirmed at the same time. Sign-ins of users
/// need the remaining requests.
const CONCURRENCY: usize = 4;

/// Minimum duration after which a round starts no more requests. The remaining sign-ins are the first
/// ones of the next round.
const MIN_ROUND: Duration = Duration::from_mins(1);

/// Number of different users for whom the provider has given no answer, with no answer in between, after
/// which it counts as away, and the round ends.
const MAX_FAILURES: usize = 8;

/// Pause after a round in which the provider did not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum interval at which a node without the lease reads when a provider last answered. The node
/// with the lease writes it at the same interval, but not more often than it reads the provider.
const SHARE_INTERVAL: Duration = Duration::from_mins(1);

/// Time just before this node last acquired or renewed the lease. `None` without the lease.
type Held = watch::Receiver<Option<Instant>>;

/// Confirms sign-ins at all providers until `stop`.
pub(crate) async fn run(sealgate: Arc<Sealgate>, mut stop: Stop) {
    if sealgate.sources.upstreams().is_empty() {
        return;
    }
    let mut lease = TaskLease::new(&sealgate, LeaseName::Upstreams);
    let (lease_end, held) = watch::channel(None);
    let mut tasks = JoinSet::new();
    for source in sealgate.sources.upstreams() {
        let (sealgate, source) = (Arc::clone(&sealgate), Arc::clone(source));
        let keeper = Keeper { sealgate, source, held: held.clone(), stop: stop.clone(), known: HashMap::new() };
        tasks.spawn(keeper.run());
    }
    loop {
        let at = Instant::now();
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            fence = lease.acquire_or_renew() => { lease_end.send_replace(fence.map(|_| at)); }
        }
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            () = tokio::time::sleep(task_lease::CHECK_INTERVAL) => {}
        }
    }
    lease_end.send_replace(None);
    // Requests that were sent must end first, because their answers may have new refresh tokens.
    tasks.join_all().await;
    lease.release().await;
}

/// Confirms the sign-ins at one provider.
struct Keeper {
    sealgate: Arc<Sealgate>,
    source: Arc<OpenIdSource>,
    held: Held,
    stop: Stop,
    known: HashMap<SignInPlace, Known>,
}

/// State of a sign-in on this node.
#[derive(Default)]
struct Known {
    /// Number of the last round that has confirmed the sign-in.
    round: u64,
    /// Hash of the refresh token, if the last request with it got no answer.
    doubt: Option<SecretHash>,
}

/// Result of a round.
#[derive(Default)]
struct Tally {
    answers: usize,
    /// Users without an answer since the last answer.
    failing: HashSet<Subject>,
    failures: usize,
    /// Whether the store failed.
    is_broken: bool,
}

impl Keeper {
    async fn run(mut self) {
        let mut number = 0;
        while !*self.stop.borrow() {
            let refresh = self.source.settings().refresh;
            let pause = if self.may_ask() {
                number += 1;
                if self.round(number).await { refresh } else { RETRY_INTERVAL.min(refresh) }
            } else {
                // Another node may have got the tokens meanwhile.
                self.known.clear();
                self.follow().await;
                task_lease::CHECK_INTERVAL.max(SHARE_INTERVAL.min(refresh) / 4)
            };
            let mut held = self.held.clone();
            let had = held.borrow_and_update().is_some();
            tokio::select! {
                biased;
                _ = self.stop.changed() => return,
                _ = held.wait_for(|at| at.is_some() && !had) => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns whether this node still holds the lease for some time.
    fn may_ask(&self) -> bool {
        let held = *self.held.borrow();
        held.is_some_and(|at| at.elapsed() < LEASE_LENGTH / 2) && !*self.stop.borrow()
    }

    /// Confirms all sign-ins, those first that the previous round did not reach. Returns whether the
    /// provider has answered.
    async fn round(&mut self, number: u64) -> bool {
        let result = self.confirm_all(number).await;
        result.unwrap_or_else(|error| {
            tracing::error!(upstream = %self.source.name(), %error, "cannot confirm the sign-ins at an OpenID provider");
            false
        })
    }

    async fn confirm_all(&mut self, number: u64) -> Result<bool, StoreError> {
        let (sealgate, source) = (Arc::clone(&self.sealgate), Arc::clone(&self.source));
        let at = sealgate.clock.now();
        let keep = sealgate.config.sessions.keep_signed_in;
        let mut places =
            sealgate.store.refreshable_sign_ins(source.name(), |session| session.is_live(at, keep)).await?;
        let found: HashSet<_> = places.iter().copied().collect();
        self.known.retain(|place, _| found.contains(place));
        places.sort_by_key(|place| self.known.get(place).map_or(0, |known| known.round));
        let deadline = Instant::now() + source.settings().refresh.max(MIN_ROUND);
        let (mut waiting, mut running, mut tally) = (places.into_iter(), JoinSet::new(), Tally::default());
        loop {
            while running.len() < CONCURRENCY
                && tally.failing.len() < MAX_FAILURES
                && Instant::now() < deadline
                && self.may_ask()
                && let Some(place) = waiting.next()
            {
                let (sealgate, source) = (Arc::clone(&sealgate), Arc::clone(&source));
                let doubt = self.known.get(&place).and_then(|known| known.doubt);
                running.spawn(async move { (place, sealgate.refresh_sign_in(&source, place, doubt).await) });
            }
            let Some(done) = running.join_next().await else { break };
            // A panic was logged, and says nothing about the provider.
            let Ok((place, result)) = done else { continue };
            self.note(number, place, result, &mut tally);
        }
        // Sign-ins whose tokens cannot be opened say nothing about the provider.
        let is_done = tally.failures == 0 && !tally.is_broken && waiting.next().is_none();
        let has_answered = tally.answers > 0 || is_done;
        if has_answered {
            self.share(at).await?;
        } else if tally.failures > 0 {
            let seconds = at.since(source.answered_at()).as_secs();
            tracing::error!(upstream = %source.name(), seconds, "the OpenID provider is away; its last answer was this \
                many seconds ago");
        }
        Ok(has_answered)
    }

    fn note(&mut self, number: u64, place: SignInPlace, result: Result<Refreshed, StoreError>, tally: &mut Tally) {
        let name = self.source.name();
        let known = self.known.entry(place).or_default();
        known.round = number;
        let outcome = match result {
            Ok(Refreshed::Absent) => return,
            Ok(Refreshed::Answered(outcome)) => {
                known.doubt = None;
                tally.answers += 1;
                tally.failing.clear();
                outcome
            }
            Ok(Refreshed::Unavailable { doubt }) => {
                known.doubt = doubt.or(known.doubt);
                tally.failures += 1;
                tally.failing.insert(place.subject);
                UpstreamRefreshOutcome::Unavailable
            }
            Err(error) => {
                tracing::error!(upstream = %name, %error, "cannot save the confirmation of a sign-in");
                tally.is_broken = true;
                return;
            }
        };
        self.sealgate.metrics.upstream_refreshed(name.as_str(), outcome);
    }

    /// Records that the provider has answered, for this node and sometimes for the others.
    async fn share(&self, at: UnixTime) -> Result<(), StoreError> {
        let (store, source) = (&self.sealgate.store, &self.source);
        source.has_answered(&self.sealgate.metrics, at);
        if !store.is_shared() {
            return Ok(());
        }
        let stored = store.upstream_answer(source.name()).await?;
        if stored.is_none_or(|stored| at.since(stored) >= SHARE_INTERVAL.min(source.settings().stale / 4)) {
            store.note_upstream_answer(source.name(), at).await?;
        }
        Ok(())
    }

    /// Reads when the provider has last answered another node.
    async fn follow(&self) {
        match self.sealgate.store.upstream_answer(self.source.name()).await {
            Ok(Some(at)) => self.source.has_answered(&self.sealgate.metrics, at),
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(upstream = %self.source.name(), %error, "cannot read when the provider last answered");
            }
        }
    }
}
