//! The admin API at two nodes on one PostgreSQL store.

use super::*;
use crate::postgres_server::empty_store;
use tokio::time::{Instant, sleep};

/// Time in which a revocation takes effect on every node, with some time for a busy machine.
const EVERYWHERE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_works_and_ends_on_every_node() {
    let cluster = Provider::cluster(2, ON, &empty_store().await).await;
    give(&cluster[0], cluster[0].anna.sub, &[Role::Admin]).await;
    let first = Program::with(&cluster[0], &[ApiScope::UsersRead]).await;
    let second = Program { provider: &cluster[1], token: first.token.clone() };
    assert_eq!((first.get("users").await.status, second.get("users").await.status), (200, 200));
    let hash = ApiToken::hash_of(&first.token).unwrap();
    let id = cluster[0].sealgate.store.api_token(&hash).await.unwrap().unwrap().id();
    assert!(cluster[0].sealgate.store.remove_api_token(id).await.unwrap().is_some());
    assert_eq!(code(&first.get("users").await, 401), "invalid_token");
    let until = Instant::now() + EVERYWHERE;
    while second.get("users").await.status != 401 {
        assert!(Instant::now() < until, "the second node still accepts the token");
        sleep(Duration::from_millis(10)).await;
    }
    // A token ends on the other node with the role of its creator, too.
    let own = Program::with(&cluster[1], &[ApiScope::UsersRead]).await;
    assert_eq!(own.get("users").await.status, 200);
    give(&cluster[0], cluster[0].anna.sub, &[]).await;
    while own.get("users").await.status != 401 {
        assert!(Instant::now() < until, "the second node still accepts the token of a former administrator");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_conditional_changes_at_two_nodes_one_succeeds() {
    let cluster = Provider::cluster(2, ON, &empty_store().await).await;
    give(&cluster[0], cluster[0].anna.sub, &[Role::Admin]).await;
    let scopes = [ApiScope::UsersRead, ApiScope::UsersWrite, ApiScope::ClientsRead, ApiScope::ClientsWrite];
    let one = Program::with(&cluster[0], &scopes).await;
    let other = Program { provider: &cluster[1], token: one.token.clone() };
    for (path, name) in [(format!("users/{BEN}"), "name"), ("clients/c1".to_owned(), "client_name")] {
        for round in 0..5 {
            let tag = one.get(&path).await.header("etag").unwrap().to_owned();
            assert_eq!(other.get(&path).await.header("etag"), Some(tag.as_str()));
            let (by_one, by_other) =
                (json!({ name: format!("One {round}") }), json!({ name: format!("Other {round}") }));
            let condition = ("if-match", tag.as_str());
            let (first, second) = tokio::join!(
                one.call_if("PATCH", &path, condition, &by_one),
                other.call_if("PATCH", &path, condition, &by_other)
            );
            let mut statuses = [first.status, second.status];
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 412], "{path}: {first:?} {second:?}");
            let expected = if first.status == 200 { by_one } else { by_other };
            for program in [&one, &other] {
                assert_eq!(program.get(&path).await.json()[name], expected[name], "{path}");
            }
        }
    }
}
