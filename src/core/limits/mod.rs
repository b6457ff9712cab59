//! Limits on requests and password guesses.
//!
//! A single process keeps its own counts ([`sealgate_domain::limiter`]). Nodes that share a store
//! enforce limits of the cluster together:
//!
//! - Requests: a node reserves a block of requests in the store, and then counts within the block
//!   in memory.
//! - Password guesses: each guess is counted in the store before the password is hashed.
//!
//! While the store does not respond, each node enforces an equal part of the limit on requests, and
//! refuses guesses.

use std::sync::Arc;
use std::time::Duration;

use sealgate_domain::limiter::{
    Counted, FailureThrottle, LimitKey, Limiter, RateLimitStatus, Rule, Shares, shared_key,
};
use sealgate_domain::pace::Pace;
use sealgate_domain::time::UnixTime;
use sealgate_store::cluster::shared_counts::{BlockRequest, CountedGuess, NotCounted, SharedCounts};
use sealgate_system::metrics::{BlockOutcome, Metrics};

/// Limit on this node's queries to the store.
///
/// Each query creates a row, and unauthenticated clients can invent any number of keys.
const STORE_QUERIES: Rule = Rule { limit: 60_000, window: Duration::from_mins(1) };

/// Processes whose requests are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// This node only.
    Node,
    /// All nodes that share the store.
    Cluster,
}

/// Counted guess. If the guess was correct or could not be checked, the caller must call
/// [`RequestLimits::give_back`].
#[derive(Debug)]
#[must_use]
pub enum Guess {
    /// Counted in this process.
    Here(Vec<Counted>),
    /// Counted in the store.
    Shared(Vec<CountedGuess>),
}

/// Counts requests and guesses against their limits.
pub struct RequestLimits {
    limiter: Limiter,
    throttle: FailureThrottle,
    cluster: Option<Cluster>,
}

struct Cluster {
    shares: Shares,
    seed: [u8; 16],
    counts: Arc<dyn SharedCounts>,
    metrics: Arc<Metrics>,
}

impl RequestLimits {
    /// Creates the limits of a single process, which shares no counts. The seeds must be
    /// unpredictable to clients.
    pub fn new(windows: [u8; 16], guesses: [u8; 16]) -> Self {
        Self { limiter: Limiter::new(windows), throttle: FailureThrottle::new(guesses), cluster: None }
    }

    /// Creates the limits of a node. `seed` is stored, and is the same for all nodes.
    pub fn of_node(seed: [u8; 16], counts: Arc<dyn SharedCounts>, metrics: Arc<Metrics>) -> Self {
        let cluster = Cluster { shares: Shares::new(seed), seed, counts, metrics };
        Self { cluster: Some(cluster), ..Self::new(seed, seed) }
    }

    /// Counts a request and returns whether it is allowed. A refused request is not counted.
    pub async fn take(&self, scope: LimitScope, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        match &self.cluster {
            Some(cluster) if scope == LimitScope::Cluster => self.take_shared(cluster, key, rule, now).await,
            _ => self.limiter.take(key, rule, now),
        }
    }

    /// Counts a request against a limit of this node.
    pub(crate) fn take_here(&self, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        self.limiter.take(key, rule, now)
    }

    /// Returns the state of a key as known to this node. Counts nothing.
    pub fn peek(&self, scope: LimitScope, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        match &self.cluster {
            Some(cluster) if scope == LimitScope::Cluster => cluster.shares.peek(key, rule, now),
            _ => self.limiter.peek(key, rule, now),
        }
    }

    async fn take_shared(&self, cluster: &Cluster, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let query = match cluster.shares.take(key, rule, now) {
            Ok(reading) => return reading,
            Err(query) => query,
        };
        let request = BlockRequest { key: query.key, ends: query.ends(), limit: query.limit, block: query.block };
        let may_query = self.limiter.take(&LimitKey::text("questions", b""), STORE_QUERIES, now).allowed;
        let answer = if may_query { cluster.counts.reserve(request).await.ok() } else { None };
        let Some(block) = answer else {
            cluster.metrics.limit_block(BlockOutcome::Local);
            return self.take_part(cluster.counts.nodes(), key, rule, now);
        };
        let outcome = if block.got < query.block { BlockOutcome::Short } else { BlockOutcome::Granted };
        cluster.metrics.limit_block(outcome);
        cluster.shares.answer(&query, rule, now, (block.all, block.got))
    }

    /// Counts a request against this node's part of a cluster-wide limit.
    fn take_part(&self, nodes: u32, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let part = (rule.limit / nodes.max(1)).max(rule.limit.min(1));
        let reading = self.limiter.take(key, Rule { limit: part, ..rule }, now);
        RateLimitStatus { limit: rule.limit, ..reading }
    }

    /// Counts a guess under each of these keys.
    ///
    /// Must be called before the guess is checked. Otherwise all concurrent guesses would be
    /// allowed.
    ///
    /// Returns the seconds to wait if a limit is reached. In this case, nothing is counted.
    ///
    /// # Errors
    /// [`NotCounted`] if the store did not respond. The guess must be refused.
    pub async fn count_guess(
        &self,
        keys: &[(LimitKey<'_>, Pace)],
        now: UnixTime,
    ) -> Result<Result<Guess, u64>, NotCounted> {
        let Some(cluster) = &self.cluster else { return Ok(self.throttle.take(keys, now).map(Guess::Here)) };
        let keys = keys.iter().map(|(key, pace)| (shared_key(&cluster.seed, key), *pace)).collect();
        cluster.counts.count_guess(keys, now).await.map(|counted| counted.map(Guess::Shared))
    }

    /// Removes a guess from the counts.
    pub fn give_back(&self, guess: Guess, now: UnixTime) {
        match (guess, &self.cluster) {
            (Guess::Here(counted), _) => self.throttle.give_back(counted, now),
            (Guess::Shared(counted), Some(cluster)) => cluster.counts.give_back(counted, now),
            (Guess::Shared(_), None) => {}
        }
    }

    /// Counts a failed attempt on this node only, to bound the load.
    ///
    /// Only for secrets that attackers cannot guess. Passwords need [`RequestLimits::count_guess`].
    ///
    /// # Errors
    /// Returns the seconds to wait before the next attempt.
    pub fn count_failure_here(&self, key: LimitKey<'_>, pace: Pace, now: UnixTime) -> Result<(), u64> {
        self.throttle.take(&[(key, pace)], now).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use async_trait::async_trait;

    use super::*;
    use sealgate_store::cluster::shared_counts::{Block, CountKey};

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_017);
    const RULE: Rule = Rule { limit: 50, window: Duration::from_mins(1) };

    #[derive(Clone, Copy, PartialEq)]
    enum Behavior {
        Answers,
        Refuses,
    }

    struct Server {
        behavior: Mutex<Behavior>,
        taken: Mutex<HashMap<(CountKey, u64), u32>>,
    }

    impl Server {
        fn new(behavior: Behavior) -> Arc<Self> {
            Arc::new(Self { behavior: Mutex::new(behavior), taken: Mutex::default() })
        }

        fn node(self: &Arc<Self>) -> RequestLimits {
            let metrics = Arc::new(Metrics::new().unwrap());
            RequestLimits::of_node([7; 16], Arc::clone(self) as Arc<dyn SharedCounts>, metrics)
        }
    }

    #[async_trait]
    impl SharedCounts for Server {
        async fn reserve(&self, request: BlockRequest) -> Result<Block, NotCounted> {
            let behavior = *self.behavior.lock().unwrap();
            if behavior == Behavior::Refuses {
                return Err(NotCounted("away"));
            }
            let mut taken = self.taken.lock().unwrap();
            let all = taken.entry((request.key, request.ends)).or_default();
            let got = request.block.min(request.limit - *all);
            *all += got;
            Ok(Block { all: *all, got })
        }

        async fn count_guess(
            &self,
            _keys: Vec<(CountKey, Pace)>,
            _now: UnixTime,
        ) -> Result<Result<Vec<CountedGuess>, u64>, NotCounted> {
            Err(NotCounted("away"))
        }

        fn give_back(&self, _counted: Vec<CountedGuess>, _now: UnixTime) {}

        fn nodes(&self) -> u32 {
            3
        }
    }

    fn key() -> LimitKey<'static> {
        LimitKey::text("token", b"wiki")
    }

    async fn allowed(node: &RequestLimits, scope: LimitScope) -> usize {
        let mut allowed = 0;
        for _ in 0..100 {
            let reading = node.take(scope, &key(), RULE, NOW).await;
            assert_eq!(reading.limit, 50);
            allowed += usize::from(reading.allowed);
        }
        allowed
    }

    #[tokio::test]
    async fn nodes_share_a_cluster_limit_but_not_a_node_limit() {
        let server = Server::new(Behavior::Answers);
        let nodes = [server.node(), server.node(), server.node()];
        let (mut of_cluster, mut of_node) = (0, 0);
        for node in &nodes {
            of_cluster += allowed(node, LimitScope::Cluster).await;
            of_node += allowed(node, LimitScope::Node).await;
        }
        assert_eq!((of_cluster, of_node), (50, 150));
    }

    #[tokio::test]
    async fn without_the_store_a_node_enforces_its_part_of_the_limit() {
        let server = Server::new(Behavior::Refuses);
        let node = server.node();
        assert_eq!(allowed(&node, LimitScope::Cluster).await, 16);
        *server.behavior.lock().unwrap() = Behavior::Answers;
        assert_eq!(
            allowed(&node, LimitScope::Cluster).await,
            50,
            "requests counted locally do not count against the limit of the cluster"
        );
        let one = Rule { limit: 1, ..RULE };
        assert!(Server::new(Behavior::Refuses).node().take(LimitScope::Cluster, &key(), one, NOW).await.allowed);
        let nothing = Rule { limit: 0, ..RULE };
        assert!(!Server::new(Behavior::Refuses).node().take(LimitScope::Cluster, &key(), nothing, NOW).await.allowed);
    }

    #[tokio::test]
    async fn a_flood_of_keys_does_not_exceed_the_query_limit() {
        let server = Server::new(Behavior::Answers);
        let node = server.node();
        for number in 0..STORE_QUERIES.limit + 1000 {
            node.take(LimitScope::Cluster, &LimitKey::text("token", &number.to_be_bytes()), RULE, NOW).await;
        }
        assert_eq!(server.taken.lock().unwrap().len(), STORE_QUERIES.limit as usize);
    }

    #[tokio::test]
    async fn guesses_are_refused_while_they_cannot_be_counted() {
        let node = Server::new(Behavior::Answers).node();
        let pace = Pace::even(10, Duration::from_mins(15));
        assert_eq!(node.count_guess(&[(key(), pace)], NOW).await.unwrap_err(), NotCounted("away"));
    }
}
