//! Limits on requests and password guesses.
//!
//! A single process keeps its own counts ([`sealgate_domain::limiter`]). Nodes that share a store
//! enforce cluster-wide limits together: a node reserves blocks of requests in the store and
//! consumes them one by one. Password guesses are counted in the store one at a time, before
//! hashing.
//!
//! If the store does not answer, a request is counted against this node's part of the limit, and a
//! guess is refused.

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

/// Scope of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// Per node.
    Node,
    /// All nodes of the store together.
    Cluster,
}

/// Counted guess. The caller must give it back if the guess was correct or could not be checked.
#[derive(Debug)]
#[must_use]
pub enum Guess {
    /// Counted in this process.
    Here(Vec<Counted>),
    /// Counted in the store.
    Shared(Vec<CountedGuess>),
}

/// Counts requests and guesses.
pub struct RequestLimits {
    limiter: Limiter,
    brake: FailureThrottle,
    cluster: Option<Cluster>,
}

struct Cluster {
    shares: Shares,
    seed: [u8; 16],
    counts: Arc<dyn SharedCounts>,
    metrics: Arc<Metrics>,
}

impl RequestLimits {
    /// Creates the limits of a process that shares nothing. The seeds must be unpredictable to
    /// clients.
    pub fn new(windows: [u8; 16], guesses: [u8; 16]) -> Self {
        Self { limiter: Limiter::new(windows), brake: FailureThrottle::new(guesses), cluster: None }
    }

    /// Creates the limits of a node. `seed` belongs to the store and is the same for all its nodes.
    pub fn of_node(seed: [u8; 16], counts: Arc<dyn SharedCounts>, metrics: Arc<Metrics>) -> Self {
        let cluster = Cluster { shares: Shares::new(seed), seed, counts, metrics };
        Self { cluster: Some(cluster), ..Self::new(seed, seed) }
    }

    /// Counts a request if it is allowed. Refused requests are not counted.
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

    /// Returns the key's state as known locally, without counting.
    pub fn peek(&self, scope: LimitScope, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        match &self.cluster {
            Some(cluster) if scope == LimitScope::Cluster => cluster.shares.peek(key, rule, now),
            _ => self.limiter.peek(key, rule, now),
        }
    }

    async fn take_shared(&self, cluster: &Cluster, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let ask = match cluster.shares.take(key, rule, now) {
            Ok(reading) => return reading,
            Err(ask) => ask,
        };
        let wanted = BlockRequest { key: ask.key, ends: ask.ends(), limit: ask.limit, block: ask.block };
        let may_ask = self.limiter.take(&LimitKey::text("questions", b""), STORE_QUERIES, now).allowed;
        let answer = if may_ask { cluster.counts.reserve(wanted).await.ok() } else { None };
        let Some(block) = answer else {
            cluster.metrics.limit_block(BlockOutcome::Local);
            return self.take_part(cluster.counts.nodes(), key, rule, now);
        };
        let outcome = if block.got < ask.block { BlockOutcome::Short } else { BlockOutcome::Granted };
        cluster.metrics.limit_block(outcome);
        cluster.shares.answer(&ask, rule, now, (block.all, block.got))
    }

    /// Counts a request against this node's part of a limit.
    fn take_part(&self, nodes: u32, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let part = (rule.limit / nodes.max(1)).max(rule.limit.min(1));
        let reading = self.limiter.take(key, Rule { limit: part, ..rule }, now);
        RateLimitStatus { limit: rule.limit, ..reading }
    }

    /// Counts a guess under each of these keys.
    ///
    /// Must be called before the guess is checked. Otherwise all concurrent guesses would be
    /// allowed. If a limit is reached, counts nothing and returns the seconds to wait.
    ///
    /// # Errors
    /// # Errors
    pub async fn count_guess(
        &self,
        keys: &[(LimitKey<'_>, Pace)],
        now: UnixTime,
    ) -> Result<Result<Guess, u64>, NotCounted> {
        let Some(cluster) = &self.cluster else { return Ok(self.brake.take(keys, now).map(Guess::Here)) };
        let keys = keys.iter().map(|(key, pace)| (shared_key(&cluster.seed, key), *pace)).collect();
        cluster.counts.count_guess(keys, now).await.map(|counted| counted.map(Guess::Shared))
    }

    /// Removes a guess from the counts.
    pub fn give_back(&self, guess: Guess, now: UnixTime) {
        match (guess, &self.cluster) {
            (Guess::Here(counted), _) => self.brake.give_back(counted, now),
            (Guess::Shared(counted), Some(cluster)) => cluster.counts.give_back(counted, now),
            (Guess::Shared(_), None) => {}
        }
    }

    /// Counts a failed attempt on this node only.
    ///
    /// For secrets that cannot be guessed: the limit only bounds the load.
    ///
    /// # Errors
    /// Seconds to wait before the next attempt.
    pub fn count_failure_here(&self, key: LimitKey<'_>, pace: Pace, now: UnixTime) -> Result<(), u64> {
        self.brake.take(&[(key, pace)], now).map(drop)
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
    enum Manner {
        Answers,
        Refuses,
    }

    struct Server {
        manner: Mutex<Manner>,
        taken: Mutex<HashMap<(CountKey, u64), u32>>,
    }

    impl Server {
        fn new(manner: Manner) -> Arc<Self> {
            Arc::new(Self { manner: Mutex::new(manner), taken: Mutex::default() })
        }

        fn node(self: &Arc<Self>) -> RequestLimits {
            let metrics = Arc::new(Metrics::new().unwrap());
            RequestLimits::of_node([7; 16], Arc::clone(self) as Arc<dyn SharedCounts>, metrics)
        }
    }

    #[async_trait]
    impl SharedCounts for Server {
        async fn reserve(&self, wanted: BlockRequest) -> Result<Block, NotCounted> {
            let manner = *self.manner.lock().unwrap();
            if manner == Manner::Refuses {
                return Err(NotCounted("away"));
            }
            let mut taken = self.taken.lock().unwrap();
            let all = taken.entry((wanted.key, wanted.ends)).or_default();
            let got = wanted.block.min(wanted.limit - *all);
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
        let server = Server::new(Manner::Answers);
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
        let server = Server::new(Manner::Refuses);
        let node = server.node();
        assert_eq!(allowed(&node, LimitScope::Cluster).await, 16);
        *server.manner.lock().unwrap() = Manner::Answers;
        assert_eq!(allowed(&node, LimitScope::Cluster).await, 50, "what was counted here was not counted there");
        let one = Rule { limit: 1, ..RULE };
        assert!(Server::new(Manner::Refuses).node().take(LimitScope::Cluster, &key(), one, NOW).await.allowed);
        let nothing = Rule { limit: 0, ..RULE };
        assert!(!Server::new(Manner::Refuses).node().take(LimitScope::Cluster, &key(), nothing, NOW).await.allowed);
    }

    #[tokio::test]
    async fn a_flood_of_keys_does_not_exceed_the_query_limit() {
        let server = Server::new(Manner::Answers);
        let node = server.node();
        for number in 0..STORE_QUERIES.limit + 1000 {
            node.take(LimitScope::Cluster, &LimitKey::text("token", &number.to_be_bytes()), RULE, NOW).await;
        }
        assert_eq!(server.taken.lock().unwrap().len(), STORE_QUERIES.limit as usize);
    }

    #[tokio::test]
    async fn guesses_are_refused_while_they_cannot_be_counted() {
        let node = Server::new(Manner::Answers).node();
        let pace = Pace::even(10, Duration::from_mins(15));
        assert_eq!(node.count_guess(&[(key(), pace)], NOW).await.unwrap_err(), NotCounted("away"));
    }
}
