//! Tests several nodes on one database, each in a separate process.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::block_in_place;

use crate::postgres_server::PostgresServer;
use crate::relay::{Manner, Relay};
use crate::support::{Browser, Instance, Node, REDIRECT_URI, Settings, Upstream, until};

/// Two running nodes. The second one reaches the database through a relay.
pub(super) struct Cluster {
    database: PostgresServer,
    pub(super) relay: Relay,
    pub(super) first: Instance,
    pub(super) second: Instance,
    pub(super) secret: String,
    _upstream: Upstream,
}

impl Cluster {
    async fn start() -> Self {
        Self::start_with("").await
    }

    pub(super) async fn start_with(sections: &str) -> Self {
        let mut cluster = Self::prepare(sections, true).await;
        // The nodes start one after the other, because SoftHSM sometimes shows a process no token
        // while another process logs in.
        cluster.first.start();
        cluster.second.start();
        cluster
    }

    /// Prepares two nodes with a token each. The first serves and the second is not admitted.
    pub(super) async fn start_apart(sections: &str) -> Self {
        let mut cluster = Self::prepare(sections, false).await;
        cluster.first.start();
        cluster.second.run(&["key", "generate"]);
        cluster
    }

    async fn prepare(sections: &str, is_shared: bool) -> Self {
        let database = tokio::task::spawn_blocking(|| PostgresServer::start(&[])).await.unwrap();
        let relay = Relay::start(database.port).await;
        let upstream = Upstream::start();
        let node = |name, port: u16, issuer_port| Settings {
            sections: sections.to_owned(),
            upstream: Some(upstream.url()),
            node: Some(Node { name, database: format!("postgres://sealgate@127.0.0.1:{port}/postgres"), issuer_port }),
        };
        let first = node("a", database.port, None);
        let first = Instance::bare(&first);
        if !is_shared {
            has_own_token(&first);
        }
        first.run(&["store", "init"]);
        first.run(&["key", "generate"]);
        first.add_anna();
        let secret = first.add_confidential_client("web");
        let second = node("b", relay.port, Some(first.port));
        let second = if is_shared {
            Instance::beside(&first, &second)
        } else {
            let second = Instance::bare(&second);
            has_own_token(&second);
            second
        };
        Self { database, relay, first, second, secret, _upstream: upstream }
    }

    pub(super) async fn tokens(&self) -> Value {
        let browser = Browser::new(&self.first);
        let query = format!(
            "client_id=web&response_type=code&scope=openid+profile+offline_access&prompt=consent&redirect_uri={}",
            url::form_urlencoded::byte_serialize(REDIRECT_URI.as_bytes()).collect::<String>()
        );
        let end = browser.go(&self.first.url(&format!("/oauth/authorize?{query}"))).await;
        let code = end.returned("code").unwrap();
        self.ask(
            &self.first,
            "/oauth/token",
            &[("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", REDIRECT_URI)],
        )
        .await
        .1
    }

    /// Sends a request of the client to this node. All nodes share one host name, and have
    /// different addresses.
    pub(super) async fn ask(&self, node: &Instance, path: &str, fields: &[(&str, &str)]) -> (u16, Value) {
        let request = reqwest::Client::new().post(format!("http://127.0.0.1:{}{path}", node.port));
        let host = format!("localhost:{}", self.first.port);
        let answer =
            request.header("Host", host).basic_auth("web", Some(&self.secret)).form(fields).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }
}

/// Changes a node's configuration so that its token is not shared.
fn has_own_token(node: &Instance) {
    let shared = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), shared.replace("shared = true", "shared = false")).unwrap();
}

/// Returns a node with a token of its own.
pub(super) fn with_own_token(name: &'static str, database: &PostgresServer, issuer_port: Option<u16>) -> Instance {
    let node = Node { name, database: database.url(""), issuer_port };
    let node = Instance::bare(&Settings { node: Some(node), ..Settings::default() });
    has_own_token(&node);
    node
}

/// Returns the status of the token at this node's gateway.
pub(super) async fn gate(node: &Instance, token: &str) -> u16 {
    let request = reqwest::Client::new().get(format!("http://127.0.0.1:{}/api/data", node.port));
    request.header("Host", "app.localhost").bearer_auth(token).send().await.unwrap().status().as_u16()
}

/// Returns the first status other than 503: on a busy machine a heartbeat may be late.
async fn first_decision(node: &Instance, token: &str) -> u16 {
    loop {
        match gate(node, token).await {
            503 => {}
            decided => return decided,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_takes_effect_at_the_other_node_within_a_second() {
    let cluster = Cluster::start().await;
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        let tokens = cluster.tokens().await;
        let token = tokens["access_token"].as_str().unwrap();
        until("both let it in", || async {
            gate(&cluster.first, token).await == 200 && gate(&cluster.second, token).await == 200
        })
        .await;
        let revoked = cluster.ask(&cluster.first, "/oauth/revoke", &[("token", token)]).await;
        assert_eq!(revoked.0, 200);
        let answered = Instant::now();
        assert_eq!(gate(&cluster.first, token).await, 401);
        while answered.elapsed() < Duration::from_millis(1500) {
            let asked = answered.elapsed();
            match gate(&cluster.second, token).await {
                200 => {
                    longest = longest.max(asked);
                    assert!(asked < Duration::from_secs(1), "let in {asked:?} after it was revoked");
                }
                401 => break,
                other => assert_eq!(other, 503),
            }
        }
    }
    println!("let in for {longest:?} at most");
}

/// When the command returns, every node rejects the next request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_waits_returns_when_all_nodes_refuse() {
    let cluster = Cluster::start().await;
    for command in [["user", "revoke"], ["user", "disable"]] {
        let tokens = cluster.tokens().await;
        let token = tokens["access_token"].as_str().unwrap();
        until("the other lets it in", || async { gate(&cluster.second, token).await == 200 }).await;
        let said =
            block_in_place(|| cluster.first.try_run(&[&command[..], &["anna@example.test", "--wait"]].concat(), ""));
        assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
        assert_eq!(first_decision(&cluster.second, token).await, 401);
        assert_eq!(first_decision(&cluster.first, token).await, 401);
    }
}

/// The command waits for a suspended node until its heartbeat resumes, or until it no longer
/// counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_waits_includes_a_suspended_node() {
    let cluster = Cluster::start().await;
    let tokens = cluster.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    until("the other lets it in", || async { gate(&cluster.second, token).await == 200 }).await;
    cluster.second.signal("STOP");
    let wait = || cluster.first.try_run(&["user", "revoke", "anna@example.test", "--wait"], "");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(wait);
        let stopped = Instant::now();
        while stopped.elapsed() < Duration::from_secs(1) {
            assert!(!waiting.is_finished(), "it is back while a node has not heard of it");
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster.second.signal("CONT");
        assert!(waiting.join().unwrap().stderr.is_empty());
    });
    assert_eq!(first_decision(&cluster.second, token).await, 401);
    cluster.second.signal("STOP");
    let said = block_in_place(wait);
    cluster.second.signal("CONT");
    assert!(said.status.success());
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("note: the node b sent no heartbeat for 5 seconds: it refuses gated requests"), "{said}");
}

/// A database that was restored to an earlier state contains refresh tokens that were used since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_revived_by_a_restored_database_can_be_revoked() {
    let mut cluster = Cluster::start().await;
    let tokens = cluster.tokens().await;
    let database = cluster.database.client("").await;
    database.batch_execute("CREATE TABLE earlier AS TABLE record").await.unwrap();
    let used = tokens["refresh_token"].as_str().unwrap();
    let refresh = [("grant_type", "refresh_token"), ("refresh_token", used)];
    assert_eq!(cluster.ask(&cluster.second, "/oauth/token", &refresh).await.0, 200);

    let refusal = |cluster: &Cluster| {
        let said = block_in_place(|| cluster.first.try_run(&["restore", "--in-place"], ""));
        assert!(!said.status.success());
        String::from_utf8(said.stderr).unwrap()
    };
    let said = refusal(&cluster);
    assert!(said.contains("stop it first"), "{said}");
    assert_eq!(block_in_place(|| cluster.first.stop()), Some(0));
    let said = refusal(&cluster);
    assert!(
        said.contains("sent a heartbeat in the last five seconds: ") && said.contains("stop all nodes first"),
        "{said}"
    );
    assert_eq!(block_in_place(|| cluster.second.stop()), Some(0));
    database.batch_execute("TRUNCATE record; INSERT INTO record TABLE earlier").await.unwrap();
    let said = || block_in_place(|| cluster.first.try_run(&["restore", "--in-place", "--json"], ""));
    until("no node is heard of", || async { said().status.success() }).await;
    database.batch_execute("TRUNCATE record; INSERT INTO record TABLE earlier").await.unwrap();
    let done: Value = serde_json::from_slice(&said().stdout).unwrap();
    assert_eq!(done["grants_ended"], 1, "{done}");
    assert_eq!((&done["keys"][0]["state"], &done["keys"][0]["token"]), (&"active".into(), &"present".into()), "{done}");

    block_in_place(|| cluster.second.start());
    let (status, answer) = cluster.ask(&cluster.second, "/oauth/token", &refresh).await;
    assert_eq!((status, &answer["error"]), (400, &"invalid_grant".into()), "{answer}");
    block_in_place(|| cluster.first.start());
    assert!(cluster.tokens().await["refresh_token"].is_string(), "people and clients are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_database_refuses_requests_and_recovers() {
    let cluster = Cluster::start().await;
    let tokens = cluster.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    let browser = Browser::new(&cluster.first);
    assert_eq!(browser.go(&cluster.first.app_url("/json")).await.status, 200);
    // The cookie belongs to the host, which all nodes share.
    let visit = || async { browser.client().get(cluster.second.app_url("/json")).send().await.unwrap().status() };
    until("both are let in", || async { gate(&cluster.second, token).await == 200 && visit().await == 200 }).await;
    cluster.relay.refuse(true);
    cluster.relay.set(Manner::SwallowAnswers);
    let cut = Instant::now();
    until("the gate is closed", || async {
        let (asked, status) = (cut.elapsed(), gate(&cluster.second, token).await);
        assert!(status == 503 || asked < Duration::from_secs(1), "{status} after {asked:?}");
        status == 503
    })
    .await;
    assert_eq!(visit().await, 503);
    let public = |path: &'static str, host: &'static str| {
        let request = reqwest::Client::new().get(format!("http://127.0.0.1:{}{path}", cluster.second.port));
        async move { request.header("Host", host).send().await.unwrap().status().as_u16() }
    };
    assert_eq!(public("/public/", "app.localhost").await, 200);
    assert_eq!(public("/.well-known/openid-configuration", "localhost").await, 200);
    assert_eq!(public("/oauth/jwks", "localhost").await, 200);
    let ready = reqwest::get(cluster.second.admin_url("/readyz")).await.unwrap();
    assert_eq!(ready.status(), 503, "the balancer knows");
    assert!(ready.text().await.unwrap().contains("the database has not answered recently"));
    let metrics = reqwest::get(cluster.second.admin_url("/metrics")).await.unwrap().text().await.unwrap();
    for series in ["sealgate_store_timeline 1", "sealgate_store_reruns_total{cause=\"cancelled_wait\"} 0"] {
        assert!(metrics.lines().any(|line| line == series), "{series}: {metrics}");
    }
    // The first node is unaffected.
    assert_eq!(gate(&cluster.first, token).await, 200);
    let revoked = cluster.ask(&cluster.first, "/oauth/revoke", &[("token", token)]).await;
    assert_eq!(revoked.0, 200);
    cluster.relay.set(Manner::Carry);
    cluster.relay.refuse(false);
    cluster.relay.cut();
    until("it is back", || async {
        let status = gate(&cluster.second, token).await;
        assert_ne!(status, 200, "it was revoked meanwhile");
        status == 401
    })
    .await;
}

/// Clients without an answer retry at the remaining node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_a_node_ends_no_grant() {
    let mut cluster = Cluster::start().await;
    let tokens = cluster.tokens().await;
    let mut refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    for turn in 0..6 {
        let node = if turn % 2 == 0 { &cluster.first } else { &cluster.second };
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
        let (status, answer) = cluster.ask(node, "/oauth/token", &fields).await;
        assert_eq!(status, 200, "{answer}");
        refresh = answer["refresh_token"].as_str().unwrap().to_owned();
    }
    cluster.second.kill();
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh.as_str())];
    let (status, answer) = cluster.ask(&cluster.first, "/oauth/token", &fields).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(gate(&cluster.first, answer["access_token"].as_str().unwrap()).await, 200);
    cluster.second.start();
    assert_eq!(gate(&cluster.second, answer["access_token"].as_str().unwrap()).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_refuses_requests_while_the_store_has_an_unreadable_format() {
    let cluster = Cluster::start().await;
    let tokens = cluster.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    until("it is let in", || async { gate(&cluster.first, token).await == 200 }).await;
    let database = cluster.database.client("").await;
    let set = |format: &'static str| {
        let words = format!("UPDATE record SET value = '{format}'::bytea WHERE key = 'mformat'");
        let database = &database;
        async move { assert_eq!(database.execute(&words, &[]).await.unwrap(), 1) }
    };
    set("\\x0138").await;
    let ready = || async { reqwest::get(cluster.first.admin_url("/readyz")).await.unwrap() };
    until("it is not ready", || async { ready().await.status() == 503 }).await;
    let newer = "the store has format 8, and this version reads up to 7; use the version of sealgate that wrote it, or a newer one";
    assert!(ready().await.text().await.unwrap().contains(newer));
    assert_eq!(gate(&cluster.first, token).await, 503);
    let refresh = [("grant_type", "refresh_token"), ("refresh_token", tokens["refresh_token"].as_str().unwrap())];
    assert_eq!(cluster.ask(&cluster.first, "/oauth/token", &refresh).await.0, 503);
    cluster.first.tells(&format!("{newer}; until then, this node answers gated requests with 503"));
    set("\\x0137").await;
    until("both serve again", || async {
        gate(&cluster.first, token).await == 200 && gate(&cluster.second, token).await == 200
    })
    .await;
    assert_eq!(cluster.ask(&cluster.first, "/oauth/token", &refresh).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_node_does_not_serve_until_it_is_admitted() {
    let mut cluster = Cluster::start().await;
    let tokens = cluster.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    let nodes = cluster.first.json(&["node", "list"]);
    let states = |nodes: &Value| -> Vec<(String, String)> {
        let word = |node: &Value, member: &str| node[member].as_str().unwrap().to_owned();
        nodes["nodes"].as_array().unwrap().iter().map(|node| (word(node, "name"), word(node, "state"))).collect()
    };
    let state = |name: &str, state: &str| (name.to_owned(), state.to_owned());
    assert_eq!(states(&nodes), [state("a", "serving"), state("b", "serving")]);
    cluster.first.run(&["node", "remove", "b"]);
    until("it serves no more", || async { gate(&cluster.second, token).await == 503 }).await;
    assert_eq!(gate(&cluster.first, token).await, 200);
    assert_eq!(states(&cluster.first.json(&["node", "list"]))[1], state("b", "removed"));
    cluster.second.kill();
    cluster.second.launch();
    assert_eq!(cluster.second.wait_for_end(), Some(1));
    cluster.second.tells("run: sealgate node admit b");
    cluster.first.run(&["node", "admit", "b"]);
    cluster.second.start();
    assert_eq!(gate(&cluster.second, token).await, 200);
    let unknown = cluster.first.try_run(&["node", "remove", "c"], "");
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("no node has the name c"));
}

/// A node that joins the cluster replaces the node with its name. A start therefore fails if
/// another server answers under that name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_start_does_not_replace_a_running_node() {
    let cluster = Cluster::start().await;
    let tokens = cluster.tokens().await;
    let token = tokens["access_token"].as_str().unwrap();
    assert_eq!(gate(&cluster.first, token).await, 200);
    let again = cluster.first.try_run(&["serve"], "");
    assert_eq!(again.status.code(), Some(1));
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(said.contains("another server answers"), "{said}");
    // After five heartbeats the running node would have detected it.
    let looked = Instant::now();
    while looked.elapsed() < Duration::from_millis(1500) {
        assert_eq!(gate(&cluster.first, token).await, 200);
    }
}

/// systemd restarts the unit, so that a failover during a start needs no operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_the_store_refuses_can_be_repeated() {
    let database = tokio::task::spawn_blocking(|| PostgresServer::start(&[])).await.unwrap();
    let address = format!("postgres://sealgate@127.0.0.1:{}/postgres", database.port);
    let settings =
        Settings { node: Some(Node { name: "a", database: address, issuer_port: None }), ..Settings::default() };
    let mut node = Instance::bare(&settings);
    node.run(&["store", "init"]);
    node.run(&["key", "generate"]);
    // Blocks all writes, as a suspended server would.
    let client = database.client("").await;
    let locks = "SELECT count(pg_advisory_lock('record'::regclass::oid::integer, stripe)) FROM generate_series(0, 4400) AS s(stripe)";
    client.query_one(locks, &[]).await.unwrap();
    node.launch();
    assert_eq!(node.wait_for_end(), Some(75));
    let reasons =
        ["store: the operation waited too long in the store's queue", "store: the store did not answer in time"];
    assert!(reasons.iter().any(|reason| node.log().contains(reason)), "{}", node.log());
    drop(client);
    node.start();
}
