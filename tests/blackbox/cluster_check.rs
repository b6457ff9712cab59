//! Tests `sealgate check` with a PostgreSQL store, and the warnings of a start.

use std::fs;

use serde_json::{Value, json};

use crate::postgres_server::PostgresServer;
use crate::support::{Instance, Node, Settings, until};

fn node(name: &'static str, role: &str, server: &PostgresServer) -> Settings {
    let database = format!("postgres://{role}@127.0.0.1:{}/postgres", server.port);
    Settings { node: Some(Node { name, database, issuer_port: None }), ..Settings::default() }
}

async fn server(settings: &'static [&'static str]) -> PostgresServer {
    tokio::task::spawn_blocking(|| PostgresServer::start(settings)).await.unwrap()
}

/// Returns a node with keys and a store of its own, which the role `sealgate` owns.
fn first_node(server: &PostgresServer) -> Instance {
    let first = Instance::bare(&node("a", "sealgate", server));
    first.run(&["store", "init"]);
    first.run(&["key", "generate"]);
    first
}

/// Returns the only line of the command's error.
fn fault(instance: &Instance) -> String {
    let output = instance.try_run(&["check"], "");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    error
}

fn warns_of(found: &Value, words: &str) -> bool {
    found["warnings"].as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains(words))
}

const NO_STANDBY: &str = "does not wait for a standby";
const NO_SPARE: &str = "every commit of the database waits for the same standby";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_names_the_missing_permissions_of_the_role() {
    let mut server = server(&[]).await;
    let owner = first_node(&server);
    let found = owner.json(&["check"]);
    let database = &found["database"];
    assert_eq!(
        (database["host"].as_str(), database["timeline"].as_i64()),
        (Some(&*format!("127.0.0.1:{}", server.port)), Some(1))
    );
    assert_eq!((&database["owns_tables"], &database["sees_standbys"]), (&json!(true), &json!(true)));
    assert_eq!((&database["role"], &database["standbys"]), (&json!("sealgate"), &json!([])));
    // 64 × 200 connections; 4096 and 640 for each of two writers.
    assert_eq!((&database["lock_slots"], &database["lock_slots_needed"]), (&json!(12_800), &json!(5376)));
    assert!(database["round_trip_seconds"].as_f64().unwrap() > 0.0);
    assert!(database["clock_offset_seconds"].as_f64().unwrap().abs() < 2.0);
    assert!(warns_of(&found, NO_STANDBY) && !warns_of(&found, "lock slots"), "{found}");

    let administrator = server.client("").await;
    let version: String = administrator.query_one("SHOW server_version", &[]).await.unwrap().get(0);
    assert_eq!(database["version"], json!(version));
    administrator.batch_execute("CREATE ROLE clerk LOGIN").await.unwrap();
    let clerk = Instance::beside(&owner, &node("b", "clerk", &server));
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk";
    let lacks = fault(&clerk);
    assert!(lacks.contains("the database's role clerk lacks SELECT, UPDATE on store; SELECT, INSERT, "), "{lacks}");
    assert!(lacks.trim_end().ends_with(grant), "{lacks}");
    // The advice in the message solves the problem.
    administrator.batch_execute(grant).await.unwrap();
    let found = clerk.json(&["check"]);
    let database = &found["database"];
    assert_eq!((&database["owns_tables"], &database["sees_standbys"]), (&json!(false), &json!(false)));
    assert!(clerk.run(&["check"]).contains("GRANT pg_read_all_stats TO clerk"));
    administrator.batch_execute("REVOKE DELETE ON guess FROM clerk").await.unwrap();
    let lacks = fault(&clerk);
    assert!(lacks.contains("clerk lacks DELETE on guess; run as"), "{lacks}");
    administrator.batch_execute("GRANT DELETE ON guess TO clerk").await.unwrap();

    let config = fs::read_to_string(clerk.config()).unwrap();
    let external = config.replace("engine = \"postgres\"", "engine = \"postgres\"\ndurability = \"external\"");
    fs::write(clerk.config(), external).unwrap();
    assert!(!warns_of(&clerk.json(&["check"]), NO_STANDBY));
    server.kill();
    assert!(fault(&clerk).contains("no database server accepts writes"));
    assert!(clerk.run(&["check", "--file-only"]).ends_with(": ok\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_standby_that_all_commits_wait_for_causes_a_warning() {
    let server = server(&["max_locks_per_transaction=20"]).await;
    let mut first = first_node(&server);
    let standby = |name: &'static str| server.standby(name);
    let mut only = tokio::task::block_in_place(|| standby("s1"));
    wait_for(&server, "s1", 1).await;

    let found = first.json(&["check"]);
    let followed = &found["database"]["standbys"][0];
    assert_eq!((&followed["name"], &followed["state"]), (&json!("s1"), &json!("streaming")));
    assert!(warns_of(&found, NO_SPARE) && !warns_of(&found, NO_STANDBY), "{found}");
    // 27 × 200 connections are 5400.
    assert!(warns_of(&found, "4000 lock slots") && warns_of(&found, "max_locks_per_transaction to 27 or"), "{found}");
    let text = first.run(&["check"]);
    assert!(text.contains("\nstandbys: s1 127.0.0.1 streaming sync\n"), "{text}");
    first.start();
    first.tells(NO_SPARE);
    first.tells("max_locks_per_transaction to 27 or");
    assert_eq!(first.log().matches(NO_SPARE).count(), 1);
    assert_eq!(first.stop(), Some(0));

    let other = tokio::task::block_in_place(|| standby("s2"));
    wait_for(&server, "ANY 1 (s1, s2)", 2).await;
    let found = first.json(&["check"]);
    assert!(!warns_of(&found, NO_SPARE) && !warns_of(&found, NO_STANDBY), "{found}");
    drop(other);
    until("one is left", || standbys(&server, 1)).await;
    assert!(warns_of(&first.json(&["check"]), NO_SPARE));
    only.kill();
    until("none is left", || standbys(&server, 0)).await;
    let asked = fault(&first);
    assert!(asked.contains("does not acknowledge commits") && asked.contains("requires 1 standbys, and 0"), "{asked}");
}

/// Configures synchronous standbys, and waits until this many acknowledge.
async fn wait_for(server: &PostgresServer, names: &str, acknowledging: i64) {
    let client = server.client("").await;
    client.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"), &[]).await.unwrap();
    client.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
    until("they acknowledge", || standbys(server, acknowledging)).await;
}

async fn standbys(server: &PostgresServer, acknowledging: i64) -> bool {
    let count = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state <> 'async'";
    server.client("").await.query_one(count, &[]).await.unwrap().get::<_, i64>(0) == acknowledging
}
