//! PostgreSQL engine only: lost answers, and unsuitable servers.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sealgate_config::BeatDurability;
use sealgate_store::engine::{Changes, CommitObserver, Engine, EngineError, Outcome, RerunCause};
use sealgate_store::postgres::{PostgresEngine, PostgresFault, PostgresSettings, initialise};
use tokio_postgres::Client;

use crate::postgres_server::{PATIENT, PostgresServer, empty_store, schema, shared, within};
use crate::relay::{Manner, Relay};
use crate::{absent, commit, node, put, value};

/// Waits for a condition.
pub(super) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_mins(1), "not yet: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn first(key: &[u8], value: &[u8]) -> Changes {
    Changes { expect: vec![absent(key)], ..put(key, value) }
}

/// A node behind a relay, with one writer, and another with a direct connection.
struct Relayed {
    relay: Relay,
    schema: String,
    node: Arc<PostgresEngine>,
    other: PostgresEngine,
}

impl Relayed {
    async fn start() -> Self {
        let schema = schema().await;
        let settings = |port: u16| {
            let url = format!("postgres://sealgate@127.0.0.1:{port}/postgres{}", within(&schema));
            PostgresSettings { writers: 1, staleness: PATIENT, ..PostgresSettings::new(url.into()) }
        };
        let straight = settings(shared().port);
        initialise(&straight).await.unwrap();
        let relay = Relay::start(shared().port).await;
        let node = Arc::new(node(&settings(relay.port)).await);
        // Includes its readers and counts, so that the relay has all of its connections.
        until("all connections stand", || async { relay.connected() == 6 }).await;
        node.get(b"k").await.unwrap();
        let other = crate::node(&straight).await;
        Self { relay, schema, node, other }
    }

    /// Starts a commit that creates the key `k`. The relay treats its connection as `manner` says.
    fn begin(&self, manner: Manner) -> tokio::task::JoinHandle<Result<Outcome, EngineError>> {
        self.relay.set(manner);
        let node = Arc::clone(&self.node);
        tokio::spawn(async move { node.commit(first(b"k", b"ours")).await })
    }

    async fn stored(&self) -> Option<Vec<u8>> {
        self.other.get(b"k").await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_with_a_lost_answer_is_applied_once() {
    let relayed = Relayed::start().await;
    let begun = relayed.begin(Manner::SwallowAnswers);
    until("it is applied", || async { relayed.stored().await.is_some() }).await;
    relayed.relay.cut();
    assert_eq!(begun.await.unwrap().unwrap(), Outcome::Committed);
    assert_eq!(relayed.node.get(b"k").await.unwrap().as_deref(), Some(&b"ours"[..]));
    assert_eq!(commit(&*relayed.node, first(b"k", b"theirs")).await, Outcome::Conflict);
}

/// An engine that compared the stored value with its own would report a conflict here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_with_a_lost_answer_is_detected_after_a_later_commit() {
    let relayed = Relayed::start().await;
    let begun = relayed.begin(Manner::SwallowAnswers);
    until("it is applied", || async { relayed.stored().await.is_some() }).await;
    let changed = Changes { expect: vec![value(b"k", b"ours")], ..put(b"k", b"theirs") };
    assert_eq!(commit(&relayed.other, changed).await, Outcome::Committed);
    relayed.relay.cut();
    assert_eq!(begun.await.unwrap().unwrap(), Outcome::Committed);
    assert_eq!(relayed.stored().await.as_deref(), Some(&b"theirs"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_with_a_lost_answer_remains_a_refusal() {
    let relayed = Relayed::start().await;
    commit(&relayed.other, put(b"k", b"theirs")).await;
    let begun = relayed.begin(Manner::SwallowAnswers);
    until("it is answered", || async { relayed.relay.stopped() > 0 }).await;
    relayed.relay.cut();
    assert_eq!(begun.await.unwrap().unwrap(), Outcome::Conflict);
    assert_eq!(relayed.stored().await.as_deref(), Some(&b"theirs"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_overtaken_by_another_is_a_conflict() {
    let relayed = Relayed::start().await;
    let begun = relayed.begin(Manner::HoldQuestions);
    until("it is on its way", || async { relayed.relay.stopped() > 0 }).await;
    assert_eq!(commit(&relayed.other, first(b"k", b"theirs")).await, Outcome::Committed);
    relayed.relay.cut();
    assert_eq!(begun.await.unwrap().unwrap(), Outcome::Conflict);
    assert_eq!(relayed.stored().await.as_deref(), Some(&b"theirs"[..]));
}

/// A write without expectations: only the engine prevents the delayed attempt from writing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_first_attempt_writes_nothing() {
    let relayed = Relayed::start().await;
    relayed.relay.set(Manner::HoldQuestions);
    let node = Arc::clone(&relayed.node);
    let begun = tokio::spawn(async move { node.commit(put(b"k", b"ours")).await });
    until("it is on its way", || async { relayed.relay.stopped() > 0 }).await;
    relayed.relay.cut();
    assert_eq!(begun.await.unwrap().unwrap(), Outcome::Committed, "the second run");
    for newer in [&b"newer"[..], b"newest"] {
        assert_eq!(commit(&*relayed.node, put(b"k", newer)).await, Outcome::Committed);
    }
    // The first run arrives on an abandoned connection, and the server ends it.
    relayed.relay.set(Manner::Carry);
    until("the late run has ended", || async { relayed.relay.has_ended(6) }).await;
    assert_eq!(relayed.stored().await.as_deref(), Some(&b"newest"[..]));
}

/// A single writer takes the commits in queue order, and never two commits of one key in one batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_one_key_are_applied_in_queue_order() {
    let engine = node(&PostgresSettings { writers: 1, ..empty_store().await }).await;
    let step = |number: u8| Changes { expect: vec![value(b"k", &[number])], ..put(b"k", &[number + 1]) };
    commit(&engine, put(b"k", &[0])).await;
    let (one, two, three, four) =
        tokio::join!(engine.commit(step(0)), engine.commit(step(1)), engine.commit(step(2)), engine.commit(step(3)));
    for outcome in [one, two, three, four] {
        assert_eq!(outcome.unwrap(), Outcome::Committed);
    }
    assert_eq!(engine.get(b"k").await.unwrap(), Some(vec![4]));
}

pub(super) async fn administer(client: &Client, statements: &[&str]) {
    for statement in statements {
        client.batch_execute(statement).await.unwrap();
    }
}

/// Returns the connections that wait for a standby.
pub(super) async fn waiting(client: &Client) -> Vec<i32> {
    let rows = client.query("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Records connections and retried batches.
#[derive(Default)]
struct Told {
    reruns: Mutex<Vec<RerunCause>>,
    timelines: Mutex<Vec<Option<u32>>>,
}

impl CommitObserver for Told {
    fn committed(&self, _operations: usize, _seconds: f64) {}

    fn queue(&self, _waiting: usize) {}

    fn rerun(&self, cause: RerunCause) {
        self.reruns.lock().unwrap().push(cause);
    }

    fn connected(&self, timeline: Option<u32>) {
        self.timelines.lock().unwrap().push(timeline);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_wait_for_the_standby_is_not_a_commit() {
    let server = start(&[]).await;
    let settings = PostgresSettings::new(server.url("").into());
    initialise(&settings).await.unwrap();
    let client = server.client("").await;
    await_nobody(&server, &client).await;
    // Open connections apply the setting one after another, new connections at once. Heartbeats do
    // not wait for a standby.
    let told = Arc::new(Told::default());
    let settings = PostgresSettings { beat: BeatDurability::Local, ..settings };
    let observer = Arc::clone(&told) as Arc<dyn CommitObserver>;
    let engine = Arc::new(PostgresEngine::open(&settings, observer).await.unwrap());
    let committing = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.commit(first(b"k", b"v")).await })
    };
    until("it waits", || async { waiting(&client).await.len() == 1 }).await;
    let first = waiting(&client).await[0];
    client.execute("SELECT pg_cancel_backend($1)", &[&first]).await.unwrap();
    // The server has now reported success, and all clients can read the data. The node waits for a
    // standby again.
    until("it waits again", || async { waiting(&client).await.iter().any(|pid| *pid != first) }).await;
    assert!(!committing.is_finished());
    assert_eq!(*told.reruns.lock().unwrap(), [RerunCause::CancelledWait]);
    administer(&client, &["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"]).await;
    assert_eq!(committing.await.unwrap().unwrap(), Outcome::Committed);
    assert!(told.timelines.lock().unwrap().iter().all(|timeline| *timeline == Some(1)));
    assert!(!told.timelines.lock().unwrap().is_empty());
    assert_eq!(engine.get(b"k").await.unwrap(), Some(b"v".to_vec()));
}

/// Makes a server wait for an absent standby.
///
/// Its processes apply that one by one: returns once a commit waits.
pub(super) async fn await_nobody(server: &PostgresServer, client: &Client) {
    administer(client, &["ALTER SYSTEM SET synchronous_standby_names = 'none'", "SELECT pg_reload_conf()"]).await;
    let probe = server.client("").await;
    let pid: i32 = probe.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let commit = "SELECT pg_logical_emit_message(true, '', '')";
    let probing = tokio::spawn(async move { while probe.query(commit, &[]).await.is_ok() {} });
    until("a commit waits", || async { waiting(client).await == [pid] }).await;
    client.query("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    probing.await.unwrap();
    until("it waits no more", || async { waiting(client).await.is_empty() }).await;
}

pub(super) async fn start(settings: &'static [&'static str]) -> PostgresServer {
    tokio::task::spawn_blocking(|| PostgresServer::start(settings)).await.unwrap()
}

async fn refusal(settings: &PostgresSettings) -> PostgresFault {
    PostgresEngine::open(settings, Arc::new(())).await.map(|_| ()).unwrap_err()
}

fn assert_says(fault: &impl fmt::Display, words: &str) {
    let said = fault.to_string();
    assert!(said.contains(words) && said.lines().count() == 1, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_would_lose_or_garble_records_is_refused() {
    let schema = schema().await;
    let at = |more: &str| PostgresSettings::new(shared().url(&format!("{}{more}", within(&schema))).into());
    assert_says(&refusal(&at("")).await, "sealgate store init");
    initialise(&at("")).await.unwrap();
    initialise(&at("")).await.unwrap();
    let engine = node(&at("")).await;
    commit(&engine, put(b"k", b"v")).await;
    for value in ["off", "local"] {
        assert_says(&refusal(&at(&format!("%20-csynchronous_commit%3D{value}"))).await, "synchronous_commit is");
    }
    let client = shared().client(&within(&schema)).await;
    administer(&client, &["ALTER TABLE record SET UNLOGGED"]).await;
    assert_says(&refusal(&at("")).await, "ALTER TABLE record SET LOGGED");
    administer(&client, &["ALTER TABLE record SET LOGGED", "ALTER TABLE guess SET UNLOGGED"]).await;
    assert_says(&refusal(&at("")).await, "ALTER TABLE guess SET LOGGED");
    administer(&client, &["ALTER TABLE guess SET LOGGED", "UPDATE store SET layout = 2"]).await;
    assert_says(&refusal(&at("")).await, "layout 2");
    let latin = format!("latin_{schema}");
    administer(&client, &[&format!("CREATE DATABASE {latin} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")]).await;
    let settings = PostgresSettings::new(format!("postgres://sealgate@127.0.0.1:{}/{latin}", shared().port).into());
    for fault in [refusal(&settings).await, initialise(&settings).await.unwrap_err()] {
        assert_says(&fault, "LATIN1");
    }
    let stranger = PostgresSettings::new(format!("postgres://nobody@127.0.0.1:{}/postgres", shared().port).into());
    assert_says(&refusal(&stranger).await, "nobody");
}

/// The database is in the state after another store was restored at the same address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_another_store_is_refused() {
    let relayed = Relayed::start().await;
    let client = shared().client(&within(&relayed.schema)).await;
    let id: String = client.query_one("SELECT id::text FROM store", &[]).await.unwrap().get(0);
    administer(&client, &["UPDATE store SET id = gen_random_uuid()"]).await;
    relayed.relay.cut();
    assert!(matches!(relayed.node.get(b"k").await, Err(EngineError::Unavailable(_))));
    assert!(relayed.node.ping().await.is_err());
    administer(&client, &[&format!("UPDATE store SET id = '{id}'")]).await;
    until("it is the store again", || async { relayed.node.get(b"k").await.is_ok() }).await;
    assert_eq!(commit(&*relayed.node, put(b"k", b"v")).await, Outcome::Committed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_verified_and_cannot_be_bypassed() {
    let server = start(&[]).await;
    let client = server.client("").await;
    let settings = |host: &str, ca: &std::path::Path| {
        let url = format!("postgres://sealgate:secret@{host}:{}/postgres?sslmode=disable", server.port);
        PostgresSettings { ca_file: Some(ca.to_owned()), ..PostgresSettings::new(url.into()) }
    };
    let (ca, other_ca) = (server.certify(), shared().certify());
    // The server would continue without TLS, and so would the URL.
    assert_says(&refusal(&settings("localhost", &ca)).await, "does not support TLS");
    let file = |name: &str| server.file(name).display().to_string();
    server.rule("hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all all ::1/128 scram-sha-256");
    administer(
        &client,
        &[
            "ALTER ROLE sealgate PASSWORD 'secret'",
            &format!("ALTER SYSTEM SET ssl_cert_file = '{}'", file("server.pem")),
            &format!("ALTER SYSTEM SET ssl_key_file = '{}'", file("server.key")),
            "ALTER SYSTEM SET ssl = on",
            "SELECT pg_reload_conf()",
        ],
    )
    .await;
    until("it speaks TLS", || async { initialise(&settings("localhost", &ca)).await.is_ok() }).await;
    let engine = node(&settings("localhost", &ca)).await;
    assert_eq!(commit(&engine, put(b"k", b"v")).await, Outcome::Committed);
    let count = "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE ssl AND application_name = 'sealgate'";
    assert!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0) >= 1);
    assert_says(&refusal(&settings("localhost", &other_ca)).await, "not trusted (invalid peer certificate");
    assert_says(&refusal(&settings("127.0.0.1", &ca)).await, "not valid for name");
    let wrong = settings("localhost", &server.file("server.key"));
    assert_says(&refusal(&wrong).await, "store.ca_file");
}
