//! Tests the signing keys of a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealgate_domain::key_ring::{KeyTimes, PublicJwk};
use sealgate_domain::time::UnixTime;
use sealgate_store::Store;
use sealgate_store::postgres::{PostgresEngine, PostgresSettings};
use serde_json::Value;
use tokio::task::block_in_place;

use crate::cluster::{Cluster, gate, with_own_token};
use crate::postgres_server::PostgresServer;
use crate::relay::Manner;
use crate::support::{Instance, until};

async fn jwks(node: &Instance) -> (u16, Value) {
    let request = reqwest::Client::new().get(format!("http://127.0.0.1:{}/oauth/jwks", node.port));
    let answer = request.header("Host", "localhost").send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

fn kids(jwks: &Value) -> Vec<&str> {
    jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_removed_key_are_refused_at_the_other_node_within_a_second() {
    let cluster = Cluster::start_with("").await;
    let tokens = cluster.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    until("both let it in", || async {
        gate(&cluster.first, token).await == 200 && gate(&cluster.second, token).await == 200
    })
    .await;
    let kid = jwks(&cluster.first).await.1["keys"][0]["kid"].as_str().unwrap().to_owned();
    cluster.first.run(&["key", "generate", "--next"]);
    cluster.first.run(&["key", "remove", &kid, "--now"]);
    let removed = Instant::now();
    assert_eq!(gate(&cluster.first, token).await, 401);
    until("the other refuses it", || async {
        let (asked, status) = (removed.elapsed(), gate(&cluster.second, token).await);
        assert!(status != 200 || asked < Duration::from_secs(1), "let in {asked:?} after its key was removed");
        status == 401
    })
    .await;
    let (status, shown) = jwks(&cluster.second).await;
    assert_eq!(status, 200);
    assert!(!kids(&shown).contains(&kid.as_str()), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_set_that_may_be_incomplete_is_not_published() {
    let cluster = Cluster::start_with("[keys]\npublish_seconds = 8").await;
    let before = jwks(&cluster.second).await;
    assert_eq!(before.0, 200);
    cluster.relay.refuse(true);
    cluster.relay.set(Manner::SwallowAnswers);
    let cut = Instant::now();
    until("the key set is not shown any more", || async {
        let (asked, (status, shown)) = (cut.elapsed(), jwks(&cluster.second).await);
        // The key set was read at most two seconds before, and is served for four.
        assert!(status == 200 || asked > Duration::from_secs(1), "{status} after {asked:?}");
        assert!(status == 503 || asked < Duration::from_secs(6), "{status} after {asked:?}");
        assert!(status == 503 || shown == before.1);
        status == 503
    })
    .await;
    assert_eq!(jwks(&cluster.first).await.0, 200);
    cluster.relay.set(Manner::Carry);
    cluster.relay.refuse(false);
    cluster.relay.cut();
    until("it is shown again", || async { jwks(&cluster.second).await == before }).await;
}

/// Returns a store as an attacker can open it: with the database's password, and without a token.
async fn writer(database: &PostgresServer) -> Store {
    let settings = PostgresSettings::new(database.url("").into());
    let engine = PostgresEngine::open(&settings, Arc::new(())).await.unwrap();
    Store::open(Arc::new(engine), 10).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_only_the_database_contains_is_not_published() {
    let database = tokio::task::spawn_blocking(|| PostgresServer::start(&[])).await.unwrap();
    let mut node = with_own_token("a", &database, None);
    node.run(&["store", "init"]);
    node.run(&["key", "generate"]);
    node.start();
    let before = jwks(&node).await;
    let own = kids(&before.1)[0].to_owned();
    until("the own key is described", || async {
        let list = node.json(&["key", "list"]);
        list["keys"][0]["holder"] == "a" && list["keys"][0]["jwk"]["n"] == before.1["keys"][0]["n"]
    })
    .await;

    let store = writer(&database).await;
    let times = KeyTimes { publish: Duration::ZERO, keep: Duration::from_secs(1000) };
    let now = || UnixTime::from_seconds(0);
    let forged = [[0xc1].as_slice(), &[0x5a; 255]].concat();
    let forged = PublicJwk::rsa(&URL_SAFE_NO_PAD.encode(&forged), "AQAB");
    let changed = store.change_key_ring(|ring| {
        let kid = ring.admit("b", forged.clone(), now(), times)?;
        ring.endorse(&kid, &own, &[7; 256], now());
        Ok(())
    });
    changed.await.unwrap().unwrap();
    let ready = || async { reqwest::get(node.admin_url("/readyz")).await.unwrap().text().await.unwrap() };
    until("it is told of", || async { ready().await.contains("that this node has not endorsed") }).await;
    let metrics = reqwest::get(node.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    assert!(metrics.contains("\nsealgate_keys_unendorsed 1\n"), "{metrics}");
    assert_eq!(jwks(&node).await, before);
    node.kill();
    node.start();
    assert_eq!(jwks(&node).await, before);
    let list = node.json(&["key", "list"]);
    let endorsed = list["keys"].as_array().unwrap().iter().find(|key| key["holder"] == "b").unwrap();
    assert_eq!(endorsed["endorsed"].as_array().unwrap().len(), 1, "{endorsed}");
}

/// A first start creates a key that is active at once. A second token cannot admit itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_not_admitted_does_not_start() {
    let database = tokio::task::spawn_blocking(|| PostgresServer::start(&[])).await.unwrap();
    let mut first = with_own_token("a", &database, None);
    first.run(&["store", "init"]);
    first.run(&["key", "generate"]);
    first.start();
    let before = jwks(&first).await;
    let mut second = with_own_token("b", &database, Some(first.port));
    second.run(&["key", "generate"]);
    second.launch();
    assert_eq!(second.wait_for_end(), Some(1));
    second.tells("is not admitted to the cluster");
    let refused = second.try_run(&["key", "generate", "--next"], "");
    assert!(!refused.status.success(), "by the command line neither");
    assert_eq!(jwks(&first).await, before);
    assert!(first.json(&["key", "list"])["keys"].as_array().unwrap().iter().all(|key| key["holder"] == "a"));
}

/// Short times, so that keys are replaced within seconds.
const SHORT: &str = "[tokens]\naccess_token_seconds = 5\n[keys]\npublish_seconds = 3\nkeep_seconds = 6\nrotate_seconds = 10\n\
     [rate_limits]\ntoken = 4000\njwks = 4000";

/// Admits the second node, and starts it.
fn admit_second(cluster: &mut Cluster) {
    let trusted = cluster.first.json(&["key", "list"])["keys"][0]["kid"].as_str().unwrap().to_owned();
    let shown = cluster.second.json(&["node", "request", &format!("--trust={trusted}")]);
    let given = |name: &str, member: &str| format!("--{name}={}", shown[member].as_str().unwrap());
    cluster.first.run(&["node", "admit", "b", &given("key", "key"), &given("enrolment", "enrolment")]);
    cluster.second.start();
}

/// If the node served, it would reject the tokens of the other node as forged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_refuses_requests_if_the_only_other_key_was_replaced_during_its_absence() {
    let mut cluster = Cluster::start_apart("[keys]\npublish_seconds = 2").await;
    admit_second(&mut cluster);
    let before = cluster.first.json(&["key", "list"])["keys"][0]["kid"].as_str().unwrap().to_owned();
    cluster.second.kill();
    block_in_place(|| cluster.first.run(&["key", "rotate", "--emergency"]));
    let tokens = cluster.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    until("the key of before is gone", || async {
        let _ = cluster.first.try_run(&["key", "remove", "--now", &before], "");
        !kids(&jwks(&cluster.first).await.1).contains(&before.as_str())
    })
    .await;
    cluster.second.launch();
    let ready = || async {
        let answer = reqwest::get(cluster.second.admin_url("/readyz")).await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    };
    until("/readyz has the reason", || async {
        ready().await.is_some_and(|(status, said)| {
            assert_ne!(status, 200, "{said}");
            said.contains("with which the node a signs")
        })
    })
    .await;
    assert_eq!(gate(&cluster.second, token).await, 503);
    assert_eq!(cluster.ask(&cluster.second, "/oauth/revoke", &[("token", token)]).await.0, 503);
    assert_eq!(gate(&cluster.first, token).await, 200);

    // Follows the instructions in the message.
    let (_, said) = ready().await.unwrap();
    let kid = said.split("--trust=").nth(1).unwrap().split(';').next().unwrap();
    cluster.second.kill();
    let shown = cluster.second.json(&["node", "request", &format!("--trust={kid}")]);
    let given = |name: &str, member: &str| format!("--{name}={}", shown[member].as_str().unwrap());
    cluster.first.run(&["node", "admit", "b", &given("key", "key"), &given("enrolment", "enrolment")]);
    cluster.second.start();
    let ready = reqwest::get(cluster.second.admin_url("/readyz")).await.unwrap();
    assert_eq!(ready.status(), 200);
    until("it decides", || async { gate(&cluster.second, token).await == 200 }).await;
    assert_eq!(cluster.ask(&cluster.second, "/oauth/revoke", &[("token", token)]).await.0, 200);
    assert_eq!(gate(&cluster.second, token).await, 401);
}

/// Refreshes at the node. Returns the new access token and the kid of its key.
async fn refreshed(cluster: &Cluster, node: &Instance, refresh: &mut String) -> (String, String) {
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
    let (status, answer) = cluster.ask(node, "/oauth/token", &fields).await;
    assert_eq!(status, 200, "{answer}");
    answer["refresh_token"].as_str().unwrap().clone_into(refresh);
    let token = answer["access_token"].as_str().unwrap().to_owned();
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    (token, header["kid"].as_str().unwrap().to_owned())
}

async fn assert_both_take(cluster: &Cluster, token: &str, kid: &str) {
    for node in [&cluster.first, &cluster.second] {
        assert_eq!(gate(node, token).await, 200, "signed by {kid}\n{}", node.log());
        let (_, shown) = jwks(node).await;
        assert!(kids(&shown).contains(&kid), "{kid} is not in {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_valid_at_both_nodes_during_key_rotations() {
    let mut cluster = Cluster::start_apart(SHORT).await;
    cluster.second.launch();
    assert_eq!(cluster.second.wait_for_end(), Some(1), "nobody has admitted it");
    admit_second(&mut cluster);
    let tokens = cluster.tokens().await;
    let mut refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    let (token, kid) = refreshed(&cluster, &cluster.second, &mut refresh).await;
    assert_both_take(&cluster, &token, &kid).await;
    let mut of_nodes: [BTreeSet<String>; 2] = [BTreeSet::new(), BTreeSet::from([kid])];
    let started = Instant::now();
    while of_nodes.iter().any(|kids| kids.len() < 3) {
        assert!(started.elapsed() < Duration::from_mins(2), "{of_nodes:?}\n{}", cluster.second.log());
        for (node, kids) in [&cluster.first, &cluster.second].into_iter().zip(&mut of_nodes) {
            let (token, kid) = refreshed(&cluster, node, &mut refresh).await;
            assert_both_take(&cluster, &token, &kid).await;
            kids.insert(kid);
        }
    }
    assert!(of_nodes[0].is_disjoint(&of_nodes[1]), "{of_nodes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_removed_node_are_refused_within_a_second() {
    let mut cluster = Cluster::start_apart("[keys]\npublish_seconds = 2").await;
    admit_second(&mut cluster);
    let tokens = cluster.tokens().await;
    let own = tokens["access_token"].as_str().unwrap();
    let mut refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    let (token, kid) = refreshed(&cluster, &cluster.second, &mut refresh).await;
    assert_both_take(&cluster, &token, &kid).await;
    // First a regular removal: tokens that the node signed stay valid until they expire.
    cluster.first.run(&["node", "remove", "b"]);
    until("it serves no more", || async { gate(&cluster.second, own).await == 503 }).await;
    assert_eq!(gate(&cluster.first, &token).await, 200);
    assert!(kids(&jwks(&cluster.first).await.1).contains(&kid.as_str()));
    cluster.first.run(&["node", "remove", "b", "--now"]);
    let removed = Instant::now();
    until("it is refused", || async {
        let (asked, status) = (removed.elapsed(), gate(&cluster.first, &token).await);
        assert!(status != 200 || asked < Duration::from_secs(1), "let in {asked:?} after its node was removed");
        status == 401
    })
    .await;
    assert!(!kids(&jwks(&cluster.first).await.1).contains(&kid.as_str()));
    assert_eq!(gate(&cluster.first, own).await, 200);
    // Admission by name alone would restore keys that were removed.
    let by_name = cluster.first.try_run(&["node", "admit", "b"], "");
    let said = String::from_utf8(by_name.stderr).unwrap();
    assert!(!by_name.status.success() && said.contains("needs --key and --enrolment"), "{said}");
    cluster.second.kill();
    cluster.second.launch();
    assert_eq!(cluster.second.wait_for_end(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_replaced_key_is_trusted_through_the_next_key() {
    let mut cluster = Cluster::start_apart("[keys]\npublish_seconds = 2").await;
    admit_second(&mut cluster);
    let tokens = cluster.tokens().await;
    let mut refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    let (stolen, before) = refreshed(&cluster, &cluster.second, &mut refresh).await;
    assert_both_take(&cluster, &stolen, &before).await;
    cluster.second.run(&["key", "rotate", "--emergency"]);
    let (token, kid) = refreshed(&cluster, &cluster.second, &mut refresh).await;
    assert_ne!(kid, before);
    assert_both_take(&cluster, &token, &kid).await;
    until("the first refuses tokens of the previous key", || async { gate(&cluster.first, &stolen).await == 401 })
        .await;
    let own = tokens["access_token"].as_str().unwrap();
    assert_eq!(gate(&cluster.second, own).await, 200, "and the first one's tokens are good there");
}
