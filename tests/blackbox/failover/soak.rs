//! Tests load with a different failure every few seconds: no acknowledged change is lost, and no
//! used token works again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;

use super::world::Cluster;
use super::{Chance, FAMILIES, Load};
use crate::relay::Manner;

/// Failures that the cluster must survive without help.
const FAILURES: [&str; 6] = [
    "a node is killed",
    "a node stands still",
    "a node is cut off",
    "answers are lost",
    "the primary stands still",
    "the standby is away",
];

fn length() -> Duration {
    Duration::from_secs(
        std::env::var("SOAK_SECONDS").map_or(120, |text| text.parse().expect("SOAK_SECONDS is a number")),
    )
}

async fn fail(cluster: &mut Cluster, failure: &str, chance: &mut Chance) {
    let a_while = chance.milliseconds(500, 5000);
    let node = chance.below(cluster.nodes.len());
    match failure {
        "a node is killed" => {
            cluster.client.nodes_may_die.store(true, Ordering::SeqCst);
            block_in_place(|| {
                cluster.nodes[node].kill();
                std::thread::sleep(a_while);
                cluster.nodes[node].start();
            });
        }
        "a node stands still" => {
            cluster.nodes[node].signal("STOP");
            tokio::time::sleep(a_while).await;
            cluster.nodes[node].signal("CONT");
        }
        "a node is cut off" | "answers are lost" => {
            cluster.relay.refuse(failure == "a node is cut off");
            cluster.relay.set(Manner::SwallowAnswers);
            tokio::time::sleep(a_while).await;
            cluster.relay.set(Manner::Carry);
            cluster.relay.refuse(false);
            cluster.relay.cut();
        }
        "the primary stands still" => {
            block_in_place(|| cluster.primary.hang());
            tokio::time::sleep(a_while).await;
            block_in_place(|| cluster.primary.resume());
        }
        _ => {
            block_in_place(|| cluster.standby.hang());
            tokio::time::sleep(a_while).await;
            block_in_place(|| cluster.standby.resume());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes of failures under load: make test-cluster"]
async fn a_cluster_with_continuous_failures_loses_and_repeats_nothing() {
    let mut chance = Chance::seeded("soak");
    let mut cluster = Cluster::start().await;
    let client = Arc::clone(&cluster.client);
    let mut unused_code = None;
    let load = Load::start(&client, &mut chance).await;
    let began = Instant::now();
    let mut failures = 0;
    // Each failure occurs at least once.
    while began.elapsed() < length() || failures < FAILURES.len() {
        let failure = FAILURES[failures % FAILURES.len()];
        unused_code = client.code(client.any()).await.or(unused_code);
        fail(&mut cluster, failure, &mut chance).await;
        cluster.goes_on().await;
        failures += 1;
        tokio::time::sleep(chance.milliseconds(500, 3000)).await;
    }
    let known = load.end().await;
    known.check(&client, &unused_code.unwrap()).await;
    for node in &mut cluster.nodes {
        assert!(!node.has_ended() && !node.log().contains("panicked"), "{}", node.log());
    }
    let rotated: usize = known.families.iter().map(|family| family.len() - 1).sum();
    assert!(rotated > FAMILIES && !known.revoked.is_empty() && !known.clients.is_empty());
    println!(
        "{failures} failures in {:?}: {rotated} rotations, {} used codes, {} revocations, {} clients hold; {:?} without a success",
        began.elapsed(),
        known.used_codes.len(),
        known.revoked.len(),
        known.clients.len(),
        client.answered.lock().unwrap().longest_gap,
    );
}
