//! Nodes and the data key of their store, which is made once.

use crate::postgres_server::PostgresServer;
use crate::support::{Instance, Node, Settings};

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
    second.tells("bring that wrapping key into this token");
    let checked = second.try_run(&["check"], "");
    assert!(!checked.status.success());
    let count = "SELECT count(*) FROM record WHERE substring(key FROM 1 FOR 10) = 'mdata_key/'::bytea";
    let made: i64 = database.client("").await.query_one(count, &[]).await.unwrap().get(0);
    assert_eq!(made, 1);
}
