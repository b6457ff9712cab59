//! Tests a rolling upgrade: the nodes of a cluster are replaced one by one by the next version,
//! which has a newer store format.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::task::{JoinSet, block_in_place};
use tokio_postgres::Client as Database;

use super::world::{Client, Cluster, text};
use crate::backup::LIMITS;
use crate::postgres_server::{empty_store, shared};
use crate::support::{Instance, Node, Settings, until};

fn today() -> PathBuf {
    env!("CARGO_BIN_EXE_sealgate").into()
}

/// Returns the path of `examples/next_format.rs`.
fn next() -> PathBuf {
    today().with_file_name("examples").join("next_format")
}

/// Sends each request to a node in service, and removes a node once all its requests are answered.
#[derive(Default)]
struct Balancer {
    nodes: [RwLock<()>; 3],
    turn: AtomicUsize,
}

impl Balancer {
    fn any(&self) -> (usize, RwLockReadGuard<'_, ()>) {
        loop {
            let node = self.turn.fetch_add(1, Ordering::Relaxed) % self.nodes.len();
            if let Ok(serving) = self.nodes[node].try_read() {
                return (node, serving);
            }
        }
    }
}

struct Load {
    client: Arc<Client>,
    balancer: Balancer,
    stop: AtomicBool,
    answered: AtomicUsize,
}

impl Load {
    fn goes_on(&self) -> bool {
        self.answered.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::SeqCst)
    }

    async fn refresh(&self, token: &str) -> Value {
        let (node, _serving) = self.balancer.any();
        let (status, body) = self.client.refresh(node, token).await;
        assert_eq!(status, 200, "a refresh at node {node}: {body}");
        body
    }

    /// Signs in for a client at one node, and redeems the code at another.
    async fn tokens(&self) -> Value {
        let (node, serving) = self.balancer.any();
        let code = self.client.code(node).await.unwrap_or_else(|| panic!("no code at node {node}"));
        drop(serving);
        let (node, _serving) = self.balancer.any();
        let (status, body) = self.client.redeem(node, &code).await;
        assert_eq!(status, 200, "a code at node {node}: {body}");
        body
    }

    /// Sends a request with a token. A node whose heartbeat is late on a busy machine answers 503
    /// until it has read the state; such a request is repeated.
    async fn gate(&self, token: &str) -> u16 {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let (node, _serving) = self.balancer.any();
            match self.client.gate(node, token).await {
                503 if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(50)).await,
                status => return status,
            }
        }
    }
}

/// Rotates a family of refresh tokens from before the first replacement until after the last.
async fn rotate(load: Arc<Load>) -> usize {
    let (mut tokens, mut rotated) = (load.tokens().await, 0);
    while load.goes_on() {
        tokens = load.refresh(&text(&tokens, "refresh_token")).await;
        assert_eq!(load.gate(&text(&tokens, "access_token")).await, 200);
        rotated += 1;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    rotated
}

async fn revoke(load: Arc<Load>) -> usize {
    let mut revoked = 0;
    while load.goes_on() {
        let tokens = load.tokens().await;
        let token = text(&tokens, "refresh_token");
        let (node, serving) = load.balancer.any();
        assert_eq!(load.client.revoke(node, &token).await.0, 200);
        drop(serving);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(load.gate(&text(&tokens, "access_token")).await, 401, "a second after it was revoked");
        revoked += 1;
    }
    revoked
}

async fn register(load: Arc<Load>) -> usize {
    let mut registered = 0;
    while load.goes_on() {
        let (node, _serving) = load.balancer.any();
        let (status, body) = load.client.register(node).await;
        assert_eq!(status, 201, "a registration at node {node}: {body}");
        registered += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    registered
}

/// Returns the number of records of this version, and of records that were converted back.
async fn records(database: &Database, version: i32) -> (i64, i64) {
    let words = "SELECT count(*), count(*) FILTER (WHERE position('\"until_format_8\"'::bytea IN value) > 0) \
         FROM record WHERE length(value) > 0 AND get_byte(value, 0) = $1";
    let row = database.query_one(words, &[&version]).await.unwrap();
    (row.get(0), row.get(1))
}

fn refused(instance: &Instance, arguments: &[&str]) -> String {
    let output = instance.try_run(arguments, "");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Stops a node that is out of service, and starts it with this program.
async fn replace(cluster: &mut Cluster, load: &Load, node: usize, program: PathBuf) {
    let _out = load.balancer.nodes[node].write().await;
    block_in_place(|| {
        assert_eq!(cluster.nodes[node].stop(), Some(0));
        cluster.nodes[node].program = program;
        cluster.nodes[node].start();
    });
}

const HELD_UP: &str = "the store stays at format 7: these nodes do not read format 8";
const TOO_NEW: &str =
    "the store has format 8, and this version reads up to 7; use the version of sealgate that wrote it, or a newer one";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_replaced_one_by_one_without_a_failed_request() {
    let mut cluster = Cluster::start().await;
    let database = cluster.primary.client("").await;
    let client = Arc::clone(&cluster.client);
    let load = Arc::new(Load {
        client,
        balancer: Balancer::default(),
        stop: AtomicBool::default(),
        answered: AtomicUsize::default(),
    });
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        tasks.spawn(rotate(Arc::clone(&load)));
    }
    tasks.spawn(revoke(Arc::clone(&load)));
    tasks.spawn(register(Arc::clone(&load)));

    // Until the format is raised, a downgrade is possible.
    replace(&mut cluster, &load, 0, next()).await;
    replace(&mut cluster, &load, 0, today()).await;
    for node in 0..3 {
        replace(&mut cluster, &load, node, next()).await;
        if node < 2 {
            let said = block_in_place(|| refused(&cluster.nodes[0], &["store", "upgrade"]));
            let holds = |name: &str| said.contains(&format!("error: {name}: version "));
            assert!(said.contains(HELD_UP) && !holds("a") && holds("c") && holds("b") == (node == 0), "{said}");
            let found = block_in_place(|| cluster.nodes[0].json(&["check"]));
            let formats = ["format", "reads_from", "reads_to", "nodes_read_to"].map(|name| &found["database"][name]);
            assert_eq!(formats, [&json!(7), &json!(7), &json!(8), &json!(7)]);
        }
        let asked = load.answered.load(Ordering::SeqCst);
        until("each is asked", || async { load.answered.load(Ordering::SeqCst) > asked + 60 }).await;
    }
    // A newer node now does the cluster's background work, under a lease that older nodes
    // understand.
    let counts = || async {
        let row = database.query_opt("SELECT value FROM record WHERE key = 'mcounts'", &[]).await.unwrap();
        row.map(|row| row.get::<_, Vec<u8>>(0))
    };
    let before = counts().await;
    until("a newer node counts", || async { counts().await != before }).await;
    let (written, back) = records(&database, 7).await;
    assert!(written > 0 && back > 0, "the newer nodes write nothing");
    assert_eq!(records(&database, 8).await.0, 0, "a record that the older version does not read");
    let file = cluster.nodes[1].directory.path().join("export").display().to_string();
    block_in_place(|| cluster.nodes[1].run(&["export", "--to", &file]));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("{\"kind\":\"sealgate-export\",\"format\":7,"));
    let found = block_in_place(|| cluster.nodes[0].run(&["check"]));
    assert!(
        found.contains(
            "format: 7 (this version serves 7 to 8; all nodes support format 8; to use it, run: sealgate store upgrade)"
        ),
        "{found}"
    );

    let raised = block_in_place(|| cluster.nodes[0].json(&["store", "upgrade"]));
    assert_eq!(raised, json!({ "from": 7, "format": 8, "newest": 8, "holding": [] }));
    until("they write the newer format", || async { records(&database, 8).await.0 > 20 }).await;
    assert_eq!(records(&database, 8).await.1, 0);
    let again = block_in_place(|| cluster.nodes[1].run(&["store", "upgrade"]));
    assert_eq!(again, "the store has format 8 already\n");

    // The older node is rejected, and the newer nodes are unaffected.
    let out = load.balancer.nodes[2].write().await;
    block_in_place(|| {
        let node = &mut cluster.nodes[2];
        assert_eq!(node.stop(), Some(0));
        node.program = today();
        assert!(refused(node, &["check"]).contains(TOO_NEW));
        assert!(refused(node, &["store", "upgrade"]).contains(TOO_NEW));
        node.launch();
        assert_eq!(node.wait_for_end(), Some(1));
        node.tells(TOO_NEW);
        node.program = next();
        node.start();
    });
    drop(out);
    let asked = load.answered.load(Ordering::SeqCst);
    until("each is asked", || async { load.answered.load(Ordering::SeqCst) > asked + 60 }).await;
    load.stop.store(true, Ordering::SeqCst);
    let done = tasks.join_all().await;
    assert!(done.iter().all(|done| *done > 0), "{done:?}");
    println!("rotations, revocations and registrations: {done:?}");
    let nodes = block_in_place(|| cluster.nodes[0].json(&["node", "list"]));
    for node in nodes["nodes"].as_array().unwrap() {
        assert_eq!((&node["state"], &node["reads_to"]), (&json!("serving"), &json!(8)));
    }
    for node in &cluster.nodes {
        assert!(!node.log().contains("panicked") && !node.log().contains("cannot be read"), "{}", node.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_uses_the_format_of_the_clusters_nodes() {
    let mut before = Instance::prepare(&Settings { sections: LIMITS.into(), ..Settings::default() });
    before.add_confidential_client("web");
    before.start();
    assert_eq!(before.stop(), Some(0));
    let file = before.directory.path().join("export").display().to_string();
    before.run(&["export", "--to", &file]);

    let settings = empty_store().await;
    let url = secrecy::ExposeSecret::expose_secret(&settings.url).to_owned();
    let (database, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // A node of the current version has served here, and will again.
    let node = "INSERT INTO node (name, incarnation, version, reads_from, reads_to) VALUES ('a', 1, '0.1.0', 7, 7)";
    database.batch_execute(node).await.unwrap();
    let issuer_port = Some(before.port);
    let node = Node { name: "a", database: url, issuer_port };
    let mut instance = Instance::beside(&before, &Settings { node: Some(node), ..Settings::default() });
    instance.program = next();
    instance.run(&["import", "--from", &file]);
    let (written, back) = records(&database, 7).await;
    assert!(written > 0 && back > 0 && records(&database, 8).await.0 == 0, "{written}, {back}");
    instance.program = today();
    instance.start();
    assert!(instance.run(&["client", "list"]).contains("web"));
    assert!(shared().port > 0);
}
