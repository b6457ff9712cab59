//! Tests new nodes, and the data key of their store, which is created once. The attacker can write
//! to the database.

use serde_json::Value;

use crate::cluster::with_own_token;
use crate::postgres_server::PostgresServer;
use crate::support::{Instance, Node, Settings, wait_until};

fn node(name: &'static str, database: &PostgresServer, issuer_port: Option<u16>) -> Settings {
    let database = format!("postgres://sealgate@127.0.0.1:{}/postgres", database.port);
    Settings { node: Some(Node { name, database, issuer_port }), ..Settings::default() }
}

#[tokio::test]
async fn a_shared_token_with_another_wrapping_key_is_refused_and_makes_no_data_key() {
    let database = tokio::task::spawn_blocking(|| PostgresServer::start(&[])).await.unwrap();
    let mut first = Instance::bare(&node("a", &database, None));
    first.run(&["store", "init"]);
    first.run(&["key", "generate"]);
    first.start();
    let mut second = Instance::bare(&node("b", &database, Some(first.port)));
    second.run(&["key", "generate"]);
    second.launch();
    assert_eq!(second.wait_for_end(), Some(1));
    second.tells("copy that wrapping key to this token");
    let checked = second.try_run(&["check"], "");
    assert!(!checked.status.success());
    let count = "SELECT count(*) FROM record WHERE substring(key FROM 1 FOR 10) = 'mdata_key/'::bytea";
    let made: i64 = database.client("").await.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(made, 1);
}

/// Running node, and others with tokens of their own that are not admitted.
struct Cluster {
    database: PostgresServer,
    first: Instance,
    /// Signing key of the first node.
    trusted: String,
}

impl Cluster {
    async fn start() -> Self {
        let database = tokio::task::spawn_blocking(|| PostgresServer::start(&[])).await.unwrap();
        let mut first = with_own_token("a", &database, None);
        first.run(&["store", "init"]);
        first.run(&["key", "generate"]);
        first.start();
        // Shortly after the start, its entry has everything that other nodes need.
        wait_until("the key is described", || first.json(&["key", "list"])["keys"][0]["jwk"].is_object());
        let trusted = text(&first.json(&["key", "list"])["keys"][0]["kid"]);
        Self { database, first, trusted }
    }

    fn another(&self, name: &'static str) -> Instance {
        let node = with_own_token(name, &self.database, Some(self.first.port));
        node.run(&["key", "generate"]);
        node
    }

    /// Requests the node's admission and returns its fingerprints.
    fn request(&self, node: &Instance) -> (String, String) {
        let shown = node.json(&["node", "request", &format!("--trust={}", self.trusted)]);
        assert_eq!(shown["trusted"], self.trusted.as_str());
        (text(&shown["key"]), text(&shown["enrolment"]))
    }

    /// Admits the node with these fingerprints. Returns the command's error.
    fn admit(&self, name: &str, (key, enrolment): &(String, String)) -> Option<String> {
        let (key, enrolment) = (format!("--key={key}"), format!("--enrolment={enrolment}"));
        let output = self.first.try_run(&["node", "admit", name, &key, &enrolment], "");
        (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
    }

    /// Changes the database without a node.
    async fn sql(&self, statement: &str) -> u64 {
        self.database.client("").await.execute(statement, &[]).await.unwrap()
    }

    async fn count(&self, condition: &str) -> i64 {
        let count = format!("SELECT count(*) FROM record WHERE {condition}");
        self.database.client("").await.query_one(&count, &[]).await.unwrap().get(0)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Starts a node that must fail to start, and waits for this line of its log.
fn refused(node: &mut Instance, line: &str) {
    node.launch();
    assert_eq!(node.wait_for_end(), Some(1), "{}", node.log());
    node.tells(line);
}

const DATA_KEYS: &str = "substring(key FROM 1 FOR 10) = 'mdata_key/'::bytea";

#[tokio::test]
async fn a_new_node_is_admitted_by_fingerprints_and_uses_the_clusters_data_key() {
    let cluster = Cluster::start().await;
    let mut second = cluster.another("b");
    refused(&mut second, "sealgate node request");
    let unknown = second.try_run(&["node", "request", &format!("--trust={}", "x".repeat(43))], "");
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("the cluster has no key"));
    let shown = cluster.request(&second);
    assert_eq!(cluster.request(&second), shown, "asking again changes nothing");
    // Exactly these fingerprints are accepted, each for its own key.
    let swapped = (shown.1.clone(), shown.0.clone());
    assert!(cluster.admit("b", &swapped).unwrap().contains("an attacker"));
    assert!(cluster.admit("c", &shown).unwrap().contains("the node c has made no request"));
    refused(&mut second, "sealgate node request");
    assert_eq!(cluster.admit("b", &shown), None);
    second.run(&["key", "activate", "--early", &shown.0]);
    second.start();
    second.tells("received the cluster's data key");
    assert_eq!(cluster.count(DATA_KEYS).await, 2, "one data key, wrapped by each token");
    assert_eq!(cluster.count("substring(key FROM 1 FOR 6) = 'mnode_'::bytea").await, 0, "nothing is left of the way");
    second.stop();
    second.start();
    assert!(!second.log().contains("cannot decrypt the cluster's data key"), "{}", second.log());
}

/// The admitted node has a key in the ring and no row among the nodes.
#[tokio::test]
async fn an_admitted_node_that_never_started_can_be_removed() {
    let cluster = Cluster::start().await;
    let second = cluster.another("b");
    let shown = cluster.request(&second);
    assert_eq!(cluster.admit("b", &shown), None);
    let jwks = format!("http://127.0.0.1:{}/oauth/jwks", cluster.first.port);
    let published = async || reqwest::get(&jwks).await.unwrap().text().await.unwrap();
    assert!(published().await.contains(&shown.0));
    let stranger = cluster.first.try_run(&["node", "remove", "c", "--now"], "");
    assert!(String::from_utf8(stranger.stderr).unwrap().contains("no node has the name c"));
    cluster.first.run(&["node", "remove", "b", "--now"]);
    let left = published().await;
    assert!(left.contains(&cluster.trusted) && !left.contains(&shown.0), "{left}");
}

#[tokio::test]
async fn a_request_that_was_replaced_in_the_database_is_not_admitted() {
    let cluster = Cluster::start().await;
    let (second, stranger) = (cluster.another("b"), cluster.another("c"));
    let shown = cluster.request(&second);
    cluster.request(&stranger);
    let swap = "UPDATE record SET value = convert_to(replace(convert_from((SELECT value FROM record WHERE key = \
        'mnode_request/c'::bytea), 'UTF8'), '\"node\":\"c\"', '\"node\":\"b\"'), 'UTF8') WHERE key = 'mnode_request/b'::bytea";
    assert_eq!(cluster.sql(swap).await, 1);
    assert!(cluster.admit("b", &shown).unwrap().contains("an attacker"));
    let keys = cluster.first.json(&["key", "list"]);
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1, "{keys}");
    assert_eq!(cluster.count("key = 'mnode_data_key/b'::bytea").await, 0, "the data key was not sent");
}

/// Only the new node decides which key it trusts.
#[tokio::test]
async fn a_request_whose_trust_was_changed_in_the_database_is_not_admitted() {
    let cluster = Cluster::start().await;
    let second = cluster.another("b");
    let shown = cluster.request(&second);
    let (own, other) = (&cluster.trusted, "x".repeat(43));
    let change = |from: &str, to: &str| {
        format!(
            "UPDATE record SET value = convert_to(replace(convert_from(value, 'UTF8'), '\"trusted\":\"{from}\"', \
             '\"trusted\":\"{to}\"'), 'UTF8') WHERE key = 'mnode_request/b'::bytea"
        )
    };
    assert_eq!(cluster.sql(&change(own, &other)).await, 1);
    assert!(cluster.admit("b", &shown).unwrap().contains("is not the one that the node signed"));
    assert_eq!(cluster.sql(&change(&other, own)).await, 1);
    assert_eq!(cluster.admit("b", &shown), None);
}

#[tokio::test]
async fn a_data_key_that_was_changed_in_transit_prevents_the_start() {
    let cluster = Cluster::start().await;
    let mut second = cluster.another("b");
    let shown = cluster.request(&second);
    assert_eq!(cluster.admit("b", &shown), None);
    second.run(&["key", "activate", "--early", &shown.0]);
    let change = "UPDATE record SET value = convert_to(replace(convert_from(value, 'UTF8'), '\"ciphertext\":\"', \
        '\"ciphertext\":\"AAAA'), 'UTF8') WHERE key = 'mnode_data_key/b'::bytea";
    assert_eq!(cluster.sql(change).await, 1);
    refused(&mut second, "which this node trusts");
    assert_eq!(cluster.count(DATA_KEYS).await, 1);
    // The request can be submitted once more.
    assert_eq!(cluster.admit("b", &shown), None);
    second.start();
    second.tells("received the cluster's data key");
}

/// A node may sign without the data key if the message with that key was lost.
#[tokio::test]
async fn a_node_without_the_data_key_sends_none_and_receives_it_later() {
    let cluster = Cluster::start().await;
    let mut second = cluster.another("b");
    let shown = cluster.request(&second);
    assert_eq!(cluster.admit("b", &shown), None);
    second.run(&["key", "activate", "--early", &shown.0]);
    assert_eq!(cluster.sql("DELETE FROM record WHERE key = 'mnode_data_key/b'::bytea").await, 1);
    let warned = second.json(&["check"]);
    assert!(warned["warnings"].to_string().contains("cannot decrypt the cluster's data key"), "{warned}");
    second.start();
    second.tells("cannot decrypt the cluster's data key");
    assert_eq!(cluster.count(DATA_KEYS).await, 1, "it makes none of its own");

    let third = cluster.another("c");
    let asked = third.json(&["node", "request", &format!("--trust={}", shown.0)]);
    let (key, enrolment) = (text(&asked["key"]), text(&asked["enrolment"]));
    let (key, enrolment) = (format!("--key={key}"), format!("--enrolment={enrolment}"));
    let refused = second.try_run(&["node", "admit", "c", &key, &enrolment], "");
    assert!(String::from_utf8(refused.stderr).unwrap().contains("cannot decrypt the cluster's data key"));

    second.stop();
    assert_eq!(cluster.request(&second), shown);
    assert_eq!(cluster.admit("b", &shown), None);
    second.start();
    second.tells("received the cluster's data key");
    assert_eq!(cluster.count(DATA_KEYS).await, 2);
}
