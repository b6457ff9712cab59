//! Tests the retry window: a client whose answer was lost repeats the request with its old token,
//! and gets the identical new one. Everything else is reuse (RFC 9700 §4.14.2).

use std::collections::BTreeSet;
use std::sync::Arc;

use sealgate_domain::client::ClientId;
use serde_json::json;
use tokio::task::JoinSet;

use crate::register::{open, register};
use crate::support::{Provider, Reply, Tokens};

const OFFLINE: &str = "openid email offline_access";

async fn provider() -> Provider {
    Provider::with("[tokens]\nrefresh_retry_seconds = 10\n[rate_limits]\ntoken = 4000").await
}

async fn refresh_64_times(provider: &Arc<Provider>, token: &str) -> Vec<Reply> {
    let mut refreshes = JoinSet::new();
    for _ in 0..64 {
        let (provider, token) = (Arc::clone(provider), token.to_owned());
        refreshes.spawn(async move { provider.c1().refresh(&token).await });
    }
    refreshes.join_all().await
}

/// Asserts that the family has ended: neither its refresh tokens nor its access tokens work.
async fn assert_ended(provider: &Provider, tokens: &[&Tokens]) {
    for tokens in tokens {
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
        provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    }
}

#[tokio::test]
async fn a_lost_answer_is_repeated_with_the_same_refresh_token() {
    let provider = provider().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let lost = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    provider.wait(9);
    let again = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(again.refresh, lost.refresh);
    assert_ne!(again.access, lost.access);
    assert_eq!(again.body["scope"], OFFLINE);
    for tokens in [&first, &lost, &again] {
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    }
    let third = Tokens::of(&provider.c1().refresh(&again.refresh).await);
    assert_ne!(third.refresh, again.refresh);
}

#[tokio::test]
async fn a_retry_does_not_extend_the_window() {
    let provider = provider().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    provider.wait(6);
    Tokens::of(&provider.c1().refresh(&first.refresh).await);
    provider.wait(4);
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(&provider, &[&first, &second]).await;
}

#[tokio::test]
async fn the_parent_of_a_used_child_ends_the_family() {
    let provider = provider().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    let third = Tokens::of(&provider.c1().refresh(&second.refresh).await);
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(&provider, &[&first, &second, &third]).await;
}

#[tokio::test]
async fn another_client_gets_no_child_and_changes_nothing() {
    let provider = provider().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    provider.c2().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    provider.p1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    assert_eq!(Tokens::of(&provider.c1().refresh(&first.refresh).await).refresh, second.refresh);
}

#[tokio::test]
async fn a_parent_of_an_ended_grant_is_refused() {
    let provider = provider().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(provider.c1().revoke(&second.refresh).await.status, 200);
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn revoking_a_parent_within_the_window_ends_the_grant() {
    let provider = provider().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(provider.c1().revoke(&first.refresh).await.status, 200);
    assert_ended(&provider, &[&first, &second]).await;
}

#[tokio::test]
async fn a_client_with_its_own_window_overrides_the_configured_one() {
    let provider = Provider::new().await;
    provider.change_client("c1", |client| client.refresh_retry_seconds = Some(5)).await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(Tokens::of(&provider.c1().refresh(&first.refresh).await).refresh, second.refresh);
    let other = provider.p1().tokens(OFFLINE).await;
    Tokens::of(&provider.p1().refresh(&other.refresh).await);
    provider.p1().refresh(&other.refresh).await.assert_error(400, "invalid_grant");
    // A value of zero for a client disables the configured retry window.
    let open = Provider::with("[tokens]\nrefresh_retry_seconds = 10").await;
    open.change_client("c1", |client| client.refresh_retry_seconds = Some(0)).await;
    let first = open.c1().tokens(OFFLINE).await;
    Tokens::of(&open.c1().refresh(&first.refresh).await);
    open.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn the_window_survives_a_restart() {
    let provider = Provider::new().await;
    provider.change_client("c1", |client| client.refresh_retry_seconds = Some(10)).await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    let provider = provider.restarted().await;
    assert_eq!(Tokens::of(&provider.c1().refresh(&first.refresh).await).refresh, second.refresh);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_refreshes_all_get_the_same_child() {
    let provider = Arc::new(provider().await);
    let first = provider.c1().tokens(OFFLINE).await;
    let replies = refresh_64_times(&provider, &first.refresh).await;
    let tokens: Vec<_> = replies.iter().map(Tokens::of).collect();
    let children: BTreeSet<&str> = tokens.iter().map(|tokens| tokens.refresh.as_str()).collect();
    let access: BTreeSet<&str> = tokens.iter().map(|tokens| tokens.access.as_str()).collect();
    assert_eq!((children.len(), access.len()), (1, 64));
    Tokens::of(&provider.c1().refresh(&tokens[0].refresh).await);
    // The child has been used, so the parent counts as reuse.
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    assert_ended(&provider, &[&first, &tokens[0]]).await;
}

/// The child's use races with retries of its parent: a retry either commits first and returns this
/// child, or ends the family.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_retry_concurrent_with_the_childs_use_creates_no_second_family() {
    let provider = Arc::new(provider().await);
    for _ in 0..16 {
        let first = provider.c1().tokens(OFFLINE).await;
        let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
        let send = |token: &str| {
            let (provider, token) = (Arc::clone(&provider), token.to_owned());
            tokio::spawn(async move { provider.c1().refresh(&token).await })
        };
        let (used, retried) = (send(&second.refresh), send(&first.refresh));
        let (used, retried) = (used.await.unwrap(), retried.await.unwrap());
        if retried.status == 200 {
            assert_eq!(Tokens::of(&retried).refresh, second.refresh);
            let third = Tokens::of(&used);
            Tokens::of(&provider.c1().refresh(&third.refresh).await);
        } else {
            retried.assert_error(400, "invalid_grant");
            assert_ended(&provider, &[&first, &second]).await;
        }
    }
}

#[tokio::test]
async fn a_registration_cannot_set_the_window() {
    let provider = open().await;
    let metadata = json!({ "redirect_uris": ["https://rp.test/cb"], "refresh_retry_seconds": 300 });
    let registered = register(&provider, &metadata).await;
    assert_eq!(registered.status, 201, "{}", registered.text());
    let id = registered.json()["client_id"].as_str().and_then(ClientId::parse).unwrap();
    let client = provider.sealgate.store.client(&id).await.unwrap().unwrap();
    assert_eq!(client.refresh_retry_seconds, None);
    assert_eq!(registered.json().get("refresh_retry_seconds"), None);
}
