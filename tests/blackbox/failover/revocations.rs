//! Tests the revocation of tokens at one node while the other nodes and the database are
//! disconnected, stopped and suspended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, block_in_place};

use super::world::{Client, Cluster, rounds, text};
use crate::chance::Chance;
use crate::relay::Manner;
use crate::support::until;

/// Time after which every node rejects a revoked token.
const SECOND: Duration = Duration::from_secs(1);

/// Observations of all revocations.
#[derive(Default)]
struct Seen {
    revocations: AtomicUsize,
    /// Answers of the gateways by status.
    answers: Mutex<BTreeMap<u16, usize>>,
    /// Longest time between the answer to the revocation and the sending of an accepted request.
    latest: Mutex<Duration>,
    /// Number of requests that were sent more than a second after the answer to the revocation. The
    /// second number counts the requests that also waited that long at a node.
    sent_late: AtomicUsize,
    waited: AtomicUsize,
    faults: Mutex<Vec<String>>,
    /// Longest duration of one request.
    slowest: Mutex<Duration>,
}

/// Revocation of a token: the times when it was sent and answered.
#[derive(Default)]
struct Revocation {
    sent: Option<Instant>,
    answered: Option<Instant>,
}

/// Sends requests to the gateway of one node, without waiting for earlier answers, until long after
/// the revocation.
///
/// A suspended node answers the outstanding requests when it resumes. Their number is limited:
/// requests that increase while answers are late would never end.
async fn watch(client: Arc<Client>, node: usize, token: String, at: Arc<Mutex<Revocation>>, seen: Arc<Seen>) {
    let mut asked = JoinSet::new();
    loop {
        let answered = at.lock().unwrap().answered;
        // The second counts from the answer. Requests that are sent from its end until this time
        // must be rejected.
        if answered.is_some_and(|answered| answered.elapsed() > Duration::from_millis(1600)) {
            break;
        }
        // A suspended node leaves them unanswered until well after the revocation.
        if asked.len() < 12 {
            asked.spawn(ask(Arc::clone(&client), node, token.clone(), Arc::clone(&at), Arc::clone(&seen)));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        while asked.try_join_next().is_some() {}
    }
    asked.join_all().await;
}

async fn ask(client: Arc<Client>, node: usize, token: String, at: Arc<Mutex<Revocation>>, seen: Arc<Seen>) {
    let sent = Instant::now();
    let status = client.gate(node, &token).await;
    let came = Instant::now();
    *seen.answers.lock().unwrap().entry(status).or_default() += 1;
    let mut slowest = seen.slowest.lock().unwrap();
    *slowest = slowest.max(came - sent);
    drop(slowest);
    let (revoked, answered) = {
        let at = at.lock().unwrap();
        (at.sent, at.answered)
    };
    let after = answered.and_then(|answered| sent.checked_duration_since(answered)).unwrap_or_default();
    if after > SECOND {
        seen.sent_late.fetch_add(1, Ordering::Relaxed);
        seen.waited.fetch_add(usize::from(came - sent > SECOND), Ordering::Relaxed);
    }
    let fault = |what: String| seen.faults.lock().unwrap().push(format!("node {node}: {what}"));
    match status {
        // A node that was suspended after its decision may time out while it waits for the
        // application.
        200 | 504 => {
            let mut latest = seen.latest.lock().unwrap();
            *latest = latest.max(after);
            if after > SECOND {
                fault(format!(
                    "let in though sent {after:?} after the revocation was answered, answer {:?} later",
                    came - sent
                ));
            }
        }
        401 if revoked.is_none_or(|revoked| came < revoked) => fault("refused though not revoked".to_owned()),
        401 | 503 => {}
        _ => fault(format!("answered {status}")),
    }
}

/// Creates tokens at the first node, presents them to the other nodes, and revokes them.
async fn revoke(client: Arc<Client>, seen: Arc<Seen>, stop: Arc<AtomicBool>, before: Duration) {
    let mut watchers = JoinSet::new();
    while !stop.load(Ordering::SeqCst) {
        let Some((_, tokens)) = client.tokens(0).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let token = text(&tokens, "access_token");
        let at = Arc::new(Mutex::new(Revocation::default()));
        for node in 0..client.ports.len() {
            watchers.spawn(watch(Arc::clone(&client), node, token.clone(), Arc::clone(&at), Arc::clone(&seen)));
        }
        tokio::time::sleep(before).await;
        at.lock().unwrap().sent = Some(Instant::now());
        while let (status, body) = client.revoke(0, &token).await
            && status != 200
        {
            assert_eq!(status, 503, "{body}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        at.lock().unwrap().answered = Some(Instant::now());
        seen.revocations.fetch_add(1, Ordering::Relaxed);
    }
    watchers.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "partitions, kills and suspends the servers of a cluster: make test-cluster"]
async fn revocations_take_effect_within_a_second_during_failures() {
    let mut chance = Chance::seeded("revocations");
    for round in 0..rounds() {
        let mut cluster = Cluster::start().await;
        let client = Arc::clone(&cluster.client);
        let (seen, stop) = (Arc::new(Seen::default()), Arc::new(AtomicBool::new(false)));
        let mut load = JoinSet::new();
        // Some are revoked long after the gateways have cached them, also while a gateway is
        // disconnected.
        for number in 0..20 {
            let before = chance.milliseconds(50, if number < 8 { 500 } else { 3000 });
            load.spawn(revoke(Arc::clone(&client), Arc::clone(&seen), Arc::clone(&stop), before));
        }
        let mut failures = [0, 1, 2, 3];
        failures.rotate_left(chance.below(4));
        for failure in failures {
            tokio::time::sleep(chance.milliseconds(1000, 2000)).await;
            match failure {
                0 => {
                    cluster.relay.refuse(true);
                    cluster.relay.set(Manner::SwallowAnswers);
                    tokio::time::sleep(Duration::from_secs(4)).await;
                    cluster.relay.set(Manner::Carry);
                    cluster.relay.refuse(false);
                    cluster.relay.cut();
                }
                1 => {
                    block_in_place(|| cluster.primary.hang());
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    block_in_place(|| cluster.primary.resume());
                }
                2 => {
                    cluster.nodes[2].signal("STOP");
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    cluster.nodes[2].signal("CONT");
                }
                // A suspended node resumes while the primary does not answer.
                _ => {
                    cluster.nodes[2].signal("STOP");
                    tokio::time::sleep(chance.milliseconds(500, 2500)).await;
                    block_in_place(|| cluster.primary.hang());
                    tokio::time::sleep(chance.milliseconds(100, 1000)).await;
                    cluster.nodes[2].signal("CONT");
                    tokio::time::sleep(chance.milliseconds(100, 1500)).await;
                    block_in_place(|| cluster.primary.resume());
                }
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.store(true, Ordering::SeqCst);
        load.join_all().await;
        cluster.goes_on().await;
        let (_, tokens) = client.tokens(0).await.unwrap();
        for node in 0..cluster.nodes.len() {
            let token = text(&tokens, "access_token");
            until("it lets in again", || async { client.gate(node, &token).await == 200 }).await;
        }
        for node in &mut cluster.nodes {
            assert!(!node.has_ended() && !node.log().contains("panicked"), "{}", node.log());
        }
        let (revocations, waited) = (seen.revocations.load(Ordering::Relaxed), seen.waited.load(Ordering::Relaxed));
        println!(
            "round {round}: {revocations} revocations; answers {:?}; let in up to {:?} after; {} asked later than a second, \
             of which {waited} at a node that stood still; slowest answer {:?}",
            seen.answers.lock().unwrap(),
            seen.latest.lock().unwrap(),
            seen.sent_late.load(Ordering::Relaxed),
            seen.slowest.lock().unwrap()
        );
        let faults = seen.faults.lock().unwrap();
        assert!(faults.is_empty(), "{}: {:#?}", faults.len(), &faults[..faults.len().min(10)]);
        assert!(revocations > 50 && waited > 0);
    }
}
