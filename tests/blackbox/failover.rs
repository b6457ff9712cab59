//! Tests three nodes on one database with a standby, while nodes and database servers fail under
//! load.

mod revocations;
mod rolling;
mod soak;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::{JoinSet, block_in_place};

use crate::chance::Chance;
use world::{Client, Cluster, rounds, text};

/// Value of `refresh_retry_seconds`.
const RETRY_WINDOW: Duration = Duration::from_mins(1);
/// Number of refresh token families that are rotated concurrently.
const FAMILIES: usize = 8;

/// State that the cluster has acknowledged.
#[derive(Default)]
struct Known {
    /// Refresh tokens of each family, oldest first.
    families: Vec<Vec<String>>,
    used_codes: Vec<String>,
    revoked: Vec<String>,
    clients: Vec<(String, String)>,
}

/// Rotates one family until the stop. After a failure, asks another node with the current token.
async fn rotate(client: Arc<Client>, mut family: Vec<String>, stop: Arc<AtomicBool>, pause: Duration) -> Known {
    let mut asked = None;
    loop {
        let token = family.last().unwrap();
        let began = *asked.get_or_insert_with(Instant::now);
        match client.refresh(client.any(), token).await {
            (200, body) => {
                let next = text(&body, "refresh_token");
                assert!(!family.contains(&next), "a token was given twice");
                family.push(next);
                asked = None;
                // A request is repeated until it is answered, so that every acknowledged token has
                // been rotated.
                if stop.load(Ordering::SeqCst) {
                    return Known { families: vec![family], ..Known::default() };
                }
            }
            (503, _) => assert!(began.elapsed() < RETRY_WINDOW, "nobody answered for {RETRY_WINDOW:?}"),
            (status, body) => panic!(
                "a family died at token {}, {:?} after it was first presented: {status}: {body}",
                family.len(),
                began.elapsed()
            ),
        }
        tokio::time::sleep(pause).await;
    }
}

/// Redeems codes, and revokes the tokens of every second one.
async fn redeem_and_revoke(client: Arc<Client>, stop: Arc<AtomicBool>) -> Known {
    let mut known = Known::default();
    while !stop.load(Ordering::SeqCst) {
        let Some((code, tokens)) = client.tokens(client.any()).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        known.used_codes.push(code);
        if known.used_codes.len() % 2 == 0 {
            let token = text(&tokens, "refresh_token");
            while let (status, body) = client.revoke(client.any(), &token).await
                && status != 200
            {
                assert_eq!(status, 503, "{body}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            known.revoked.push(token);
        }
    }
    known
}

async fn register(client: Arc<Client>, stop: Arc<AtomicBool>) -> Known {
    let mut known = Known::default();
    while !stop.load(Ordering::SeqCst) {
        match client.register(client.any()).await {
            (201, body) => known.clients.push((text(&body, "client_id"), text(&body, "client_secret"))),
            (503, _) => {}
            (status, body) => panic!("{status}: {body}"),
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    known
}

impl Known {
    fn learn(&mut self, seen: Self) {
        self.families.extend(seen.families);
        self.used_codes.extend(seen.used_codes);
        self.revoked.extend(seen.revoked);
        self.clients.extend(seen.clients);
    }

    async fn check(&self, client: &Client, unused_code: &str) {
        let (status, body) = client.redeem(client.any(), unused_code).await;
        assert_eq!(status, 200, "an acknowledged code is lost: {body}");
        let refused = |what: &'static str, (status, body): (u16, Value)| {
            assert_eq!((status, &body["error"]), (400, &"invalid_grant".into()), "{what}: {body}");
        };
        for token in &self.revoked {
            refused("a revoked token came back to life", client.refresh(client.any(), token).await);
        }
        for code in &self.used_codes {
            refused("a used code came back to life", client.redeem(client.any(), code).await);
        }
        for (id, secret) in &self.clients {
            let code = [("grant_type", "authorization_code"), ("code", "none"), ("redirect_uri", "https://rp.test/cb")];
            refused(
                "a registered client is lost",
                client.post(client.any(), "/oauth/token", (id, secret), &code).await,
            );
        }
        for (number, family) in self.families.iter().enumerate() {
            let (status, body) = client.refresh(client.any(), family.last().unwrap()).await;
            assert_eq!(status, 200, "an acknowledged refresh token is lost: {body}");
            let child = text(&body, "refresh_token");
            // A rotated token cannot be used again, and ends its family.
            let earlier = (family.len() - 2) * number / (FAMILIES - 1);
            refused("a used refresh token", client.refresh(client.any(), &family[earlier]).await);
            refused("a family that was misused", client.refresh(client.any(), &child).await);
        }
    }
}

/// Clients that refresh, redeem, revoke and register.
struct Load {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Known>,
}

impl Load {
    async fn start(client: &Arc<Client>, chance: &mut Chance) -> Self {
        let (stop, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for _ in 0..FAMILIES {
            let (_, tokens) = client.tokens(client.any()).await.unwrap();
            let family = vec![text(&tokens, "refresh_token")];
            tasks.spawn(rotate(Arc::clone(client), family, Arc::clone(&stop), chance.milliseconds(1, 60)));
        }
        tasks.spawn(redeem_and_revoke(Arc::clone(client), Arc::clone(&stop)));
        tasks.spawn(redeem_and_revoke(Arc::clone(client), Arc::clone(&stop)));
        tasks.spawn(register(Arc::clone(client), Arc::clone(&stop)));
        client.answered.lock().unwrap().last = Instant::now();
        Self { stop, tasks }
    }

    async fn end(self) -> Known {
        self.stop.store(true, Ordering::SeqCst);
        let mut known = Known::default();
        for seen in self.tasks.join_all().await {
            known.learn(seen);
        }
        known
    }
}

/// Failure of the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fall {
    Killed,
    /// The primary is suspended, and resumes later with its old connections.
    Hangs,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kills servers of the database again and again: make test-cluster"]
async fn a_failover_under_load_over_http_loses_and_repeats_nothing() {
    let mut chance = Chance::seeded("failover");
    for round in 0..rounds() {
        println!("round {round}: {}", fail_over(Fall::Killed, &mut chance).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "stops servers of the database again and again: make test-cluster"]
async fn an_old_primary_that_resumes_after_a_failover_repeats_nothing_over_http() {
    let mut chance = Chance::seeded("waking");
    for round in 0..rounds() {
        println!("round {round}: {}", fail_over(Fall::Hangs, &mut chance).await);
    }
}

/// Stops the primary under load, promotes the standby, and restarts the old primary, which is still
/// first in the URL.
async fn fail_over(fall: Fall, chance: &mut Chance) -> String {
    let mut cluster = Cluster::start().await;
    let client = Arc::clone(&cluster.client);
    let load = Load::start(&client, chance).await;
    tokio::time::sleep(chance.milliseconds(500, 3000)).await;
    let unused_code = client.code(client.any()).await.unwrap();
    let delay = chance.milliseconds(0, 1000);
    block_in_place(|| {
        match fall {
            Fall::Killed => cluster.primary.kill(),
            Fall::Hangs => cluster.primary.hang(),
        }
        std::thread::sleep(delay);
        cluster.standby.promote();
    });
    cluster.goes_on().await;
    tokio::time::sleep(chance.milliseconds(0, 1000)).await;

    block_in_place(|| match fall {
        Fall::Killed => cluster.primary.start_again(),
        Fall::Hangs => cluster.primary.resume(),
    });
    let old = cluster.primary.client("").await;
    if fall == Fall::Killed {
        // The old primary waits for no standby, and therefore acknowledges every commit.
        old.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await.unwrap();
        old.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    }
    let beats = || async {
        let beats = "SELECT max(seen)::text FROM node";
        old.query_one(beats, &[]).await.unwrap().get::<_, String>(0)
    };
    // Work that a suspended server had begun finishes now.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = beats().await;
    let new = cluster.standby.client("").await;
    for _ in 0..3 {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'sealgate'";
        assert!(new.query_one(end, &[]).await.unwrap().get::<_, i64>(0) > 0);
        tokio::time::sleep(chance.milliseconds(100, 600)).await;
        cluster.goes_on().await;
    }
    let known = load.end().await;
    let (gap, slowest) = {
        let answered = client.answered.lock().unwrap();
        (answered.longest_gap, answered.slowest)
    };
    // A node that has never connected to the new primary chooses correctly too.
    cluster.nodes[2].kill();
    cluster.nodes[2].start();
    known.check(&client, &unused_code).await;
    assert_eq!(beats().await, before, "the old primary was written to");
    for node in &mut cluster.nodes {
        assert!(!node.has_ended() && !node.log().contains("panicked"), "{}", node.log());
    }
    let rotated: usize = known.families.iter().map(|family| family.len() - 1).sum();
    assert!(rotated > FAMILIES && !known.used_codes.is_empty());
    assert!(!known.revoked.is_empty() && !known.clients.is_empty());
    format!(
        "{fall:?}, promoted after {delay:?}: {rotated} rotations, {} used codes, {} revocations, {} clients hold; \
         {gap:?} without a success, slowest answer {slowest:?}",
        known.used_codes.len(),
        known.revoked.len(),
        known.clients.len(),
    )
}
