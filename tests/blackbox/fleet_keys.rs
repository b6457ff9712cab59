//! Signing keys of a fleet.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealgate::facade::domain::key_ring::{KeyTimes, PublicJwk};
use sealgate::facade::domain::time::UnixTime;
use sealgate::facade::store::Store;
use sealgate::facade::store::postgres::{PostgresEngine, PostgresSettings};
use serde_json::Value;

use crate::fleet::{Fleet, gate, until};
use crate::postgres_server::PostgresServer;
use crate::relay::Manner;
use crate::support::{Instance, Node, Settings};

async fn jwks(node: &Instance) -> (u16, Value) {
    let request = reqwest::Client::new().get(format!("http://127.0.0.1:{}/oauth/jwks", node.port));
    let answer = request.header("Host", "localhost").send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

fn kids(jwks: &Value) -> Vec<&str> {
    jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_removed_key_signed_is_refused_at_the_other_node_a_second_later() {
    let fleet = Fleet::start_with("").await;
    let tokens = fleet.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    until("both let it in", || async {
        gate(&fleet.first, token).await == 200 && gate(&fleet.second, token).await == 200
    })
    .await;
    let kid = jwks(&fleet.first).await.1["keys"][0]["kid"].as_str().unwrap().to_owned();
    fleet.first.run(&["key", "generate", "--next"]);
    fleet.first.run(&["key", "remove", "--kid", &kid, "--now"]);
    let removed = Instant::now();
    assert_eq!(gate(&fleet.first, token).await, 401);
    until("the other refuses it", || async {
        let (asked, status) = (removed.elapsed(), gate(&fleet.second, token).await);
        assert!(status != 200 || asked < Duration::from_secs(1), "let in {asked:?} after its key was removed");
        status == 401
    })
    .await;
    let (status, shown) = jwks(&fleet.second).await;
    assert_eq!(status, 200);
    assert!(!kids(&shown).contains(&kid.as_str()), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_set_that_may_lack_a_key_is_not_shown() {
    let fleet = Fleet::start_with("[keys]\npublish_seconds = 8").await;
    let before = jwks(&fleet.second).await;
    assert_eq!(before.0, 200);
    fleet.relay.refuse(true);
    fleet.relay.set(Manner::SwallowAnswers);
    let cut = Instant::now();
    until("the key set is not shown any more", || async {
        let (asked, (status, shown)) = (cut.elapsed(), jwks(&fleet.second).await);
        // It was read two seconds before at most, and is shown for four.
        assert!(status == 200 || asked > Duration::from_secs(1), "{status} after {asked:?}");
        assert!(status == 503 || asked < Duration::from_secs(6), "{status} after {asked:?}");
        assert!(status == 503 || shown == before.1);
        status == 503
    })
    .await;
    assert_eq!(jwks(&fleet.first).await.0, 200);
    fleet.relay.set(Manner::Carry);
    fleet.relay.refuse(false);
    fleet.relay.cut();
    until("it is shown again", || async { jwks(&fleet.second).await == before }).await;
}

fn with_own_token(name: &'static str, database: &PostgresServer, issuer_port: Option<u16>) -> Instance {
    let node = Node { name, database: database.url(""), issuer_port };
    let node = Instance::bare(&Settings { node: Some(node), ..Settings::default() });
    let shared = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), shared.replace("shared = true", "shared = false")).unwrap();
    node
}

/// What somebody can do who has the database's password, and no token.
async fn writer(database: &PostgresServer) -> Store {
    let settings = PostgresSettings::new(database.url("").into());
    let engine = PostgresEngine::open(&settings, Arc::new(())).await.unwrap();
    Store::open(Arc::new(engine), 10).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_the_database_alone_vouches_for_is_not_published() {
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
    until("it is told of", || async { ready().await.contains("no key of this node's token has endorsed") }).await;
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

/// A first start makes a key that signs at once; a second token is not let in by its own word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_nobody_admitted_does_not_start() {
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
    second.tells("is not admitted to the fleet");
    let refused = second.try_run(&["key", "generate", "--next"], "");
    assert!(!refused.status.success(), "by the command line neither");
    assert_eq!(jwks(&first).await, before);
    assert!(first.json(&["key", "list"])["keys"].as_array().unwrap().iter().all(|key| key["holder"] == "a"));
}
