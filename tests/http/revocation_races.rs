//! Tests revocations at the worst moment: after a request has read a record and before it caches
//! the result, and by a commit whose answer is lost.

use sealgate_domain::client::ClientState;
use sealgate_domain::user::UserState;

use crate::meddler::At;
use crate::support::{Provider, Tokens};

const OFFLINE: &str = "openid offline_access";

/// The record that a token depends on is revoked right after it was read. The request that has read
/// it may pass; the next one must not, because the first one cached an outdated state.
#[tokio::test]
async fn a_token_read_before_its_revocation_is_not_cached() {
    for table in *b"glur" {
        let (provider, meddler) = Provider::meddled().await;
        let client = provider.c1();
        let tokens = client.tokens(OFFLINE).await;
        let stop = meddler.stop(At::AfterGet, table);
        let racing = stop.meanwhile(async {
            let store = &provider.sealgate.store;
            match table {
                b'g' => assert_eq!(client.revoke(&tokens.refresh).await.status, 200),
                b'l' => provider.change_client("c1", |client| client.state = ClientState::Disabled).await,
                b'u' => {
                    let change = store.change_user(provider.anna.sub, |user| user.state = UserState::Disabled);
                    change.await.unwrap();
                }
                _ => assert_eq!(client.revoke(&tokens.access).await.status, 200),
            }
        });
        let (first, ()) = tokio::join!(provider.userinfo(&tokens.access), racing);
        assert_eq!(first.status, 200, "{}: it had read that before", char::from(table));
        for _ in 0..2 {
            provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
        }
    }
}

/// A cached token is checked again while it is revoked.
#[tokio::test]
async fn a_token_checked_again_is_not_cached_beyond_a_revocation() {
    let (provider, meddler) = Provider::meddled().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    let user = async |state| {
        let change = provider.sealgate.store.change_user(provider.anna.sub, |user| user.state = state);
        change.await.unwrap();
    };
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    user(UserState::Enabled).await;
    let stop = meddler.stop(At::AfterGet, b'u');
    let (first, ()) = tokio::join!(provider.userinfo(&tokens.access), stop.meanwhile(user(UserState::Disabled)));
    assert_eq!(first.status, 200);
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

/// A revocation that is committed but not answered yet is in force as soon as it can be read.
#[tokio::test]
async fn a_revocation_takes_effect_before_its_response() {
    let (provider, meddler) = Provider::meddled().await;
    let client = provider.c1();
    let tokens = client.tokens(OFFLINE).await;
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    let stop = meddler.stop(At::AfterCommit, b'r');
    let (revoked, while_waiting) =
        tokio::join!(client.revoke(&tokens.access), stop.meanwhile(provider.userinfo(&tokens.access)));
    while_waiting.assert_bearer_error(401, "invalid_token");
    assert_eq!(revoked.status, 200);
}

/// A slow disk: the commit times out and is applied afterwards. The request got 503, and the token
/// was cached as valid; it must not stay valid.
#[tokio::test]
async fn a_revocation_that_timed_out_takes_effect_when_applied() {
    for token_of in ["access", "refresh"] {
        let (provider, meddler) = Provider::meddled().await;
        let client = provider.c1();
        let tokens = client.tokens(OFFLINE).await;
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
        let (table, token) = if token_of == "access" { (b"r", &tokens.access) } else { (b"g", &tokens.refresh) };
        meddler.lose_answer(table);
        assert_eq!(client.revoke(token).await.status, 503);
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200, "it has not happened yet");
        meddler.apply_late().await;
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
        assert_eq!(client.revoke(token).await.status, 200, "the retry");
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    }
}

/// The disabling of an account times out and is applied later.
#[tokio::test]
async fn a_disabling_that_timed_out_takes_effect_when_applied() {
    let (provider, meddler) = Provider::meddled().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    meddler.lose_answer(&[b"u", provider.anna.sub.as_bytes().as_slice()].concat());
    let change = provider.sealgate.store.change_user(provider.anna.sub, |user| user.state = UserState::Disabled);
    assert!(change.await.is_err());
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    meddler.apply_late().await;
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

/// Changes that revoke nothing do not invalidate the cache: a refresh, a change of another user, a
/// session in use.
#[tokio::test]
async fn harmless_changes_keep_cached_tokens() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let tokens = client.tokens(OFFLINE).await;
    let store = &provider.sealgate.store;
    let before = store.access_counter(provider.anna.sub);
    Tokens::of(&client.refresh(&tokens.refresh).await);
    store.change_user(provider.ben.sub, |user| user.state = UserState::Disabled).await.unwrap();
    let session = store.sessions_of_user(provider.anna.sub, None, 1).await.unwrap().sessions.remove(0);
    provider.wait(120);
    let loaded = store.session(session.id).await.unwrap().unwrap();
    store.touch_session(&loaded, provider.sealgate.clock.now()).await;
    assert_ne!(store.session(session.id).await.unwrap().unwrap().value.last_seen_at, session.last_seen_at);
    assert_eq!(store.access_counter(provider.anna.sub), before);
    store.end_session(session.id).await.unwrap();
    assert_ne!(store.access_counter(provider.anna.sub), before);
}
