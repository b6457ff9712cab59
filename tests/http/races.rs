//! Tests concurrent requests for the same object, in a fixed order: the request that decided first
//! commits last, detects the change, and decides again.

use sealgate_domain::session::SessionId;

use crate::meddler::{At, Meddler};
use crate::steps::{assert_consent, with_anna};
use crate::support::{Provider, Tokens, jwt_claims};

const OFFLINE: &str = "openid offline_access";

/// The first request has loaded the code and signed its tokens when a second one redeems it. The
/// first is a replay, and the tokens of the second are revoked (RFC 6749 §4.1.2).
#[tokio::test]
async fn concurrent_redemptions_of_a_code_revoke_all_tokens() {
    let (provider, meddler) = Provider::meddled().await;
    let client = provider.c1();
    let code = client.code(&[("scope", OFFLINE)]).await;
    let stop = meddler.stop(At::BeforeCommit, b'c');
    let (late, early) = tokio::join!(client.redeem(&code), stop.meanwhile(client.redeem(&code)));
    let tokens = Tokens::of(&early);
    late.assert_error(400, "invalid_grant");
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
}

/// The first request has loaded the refresh token and signed its tokens when a second one rotates
/// it. The first is a replay, and the family ends (RFC 9700 §4.14.2).
#[tokio::test]
async fn concurrent_uses_of_a_refresh_token_revoke_all_tokens() {
    let (provider, meddler) = Provider::meddled().await;
    let client = provider.c1();
    // The retry window, in which the parent returns the same child, is disabled.
    provider.change_client("c1", |client| client.refresh_retry_seconds = Some(0)).await;
    let tokens = client.tokens(OFFLINE).await;
    let stop = meddler.stop(At::BeforeCommit, b'g');
    let (late, early) = tokio::join!(client.refresh(&tokens.refresh), stop.meanwhile(client.refresh(&tokens.refresh)));
    let next = Tokens::of(&early);
    late.assert_error(400, "invalid_grant");
    client.refresh(&next.refresh).await.assert_error(400, "invalid_grant");
    for access in [&tokens.access, &next.access] {
        provider.userinfo(access).await.assert_bearer_error(401, "invalid_token");
    }
}

/// A refresh that has signed its tokens when the family is revoked must not restore the family.
#[tokio::test]
async fn a_refresh_does_not_revive_a_concurrently_revoked_grant() {
    let (provider, meddler) = Provider::meddled().await;
    let client = provider.c1();
    let tokens = client.tokens(OFFLINE).await;
    let stop = meddler.stop(At::BeforeCommit, b'g');
    let (refreshed, revoked) =
        tokio::join!(client.refresh(&tokens.refresh), stop.meanwhile(client.revoke(&tokens.refresh)));
    assert_eq!(revoked.status, 200);
    refreshed.assert_error(400, "invalid_grant");
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

/// The reverse order: a revocation that has read the family before a refresh rotates it ends the
/// rotated one too.
#[tokio::test]
async fn a_revocation_ends_a_concurrently_refreshed_grant() {
    let (provider, meddler) = Provider::meddled().await;
    let client = provider.c1();
    let tokens = client.tokens(OFFLINE).await;
    let stop = meddler.stop(At::BeforeCommit, b'g');
    let (revoked, refreshed) =
        tokio::join!(client.revoke(&tokens.refresh), stop.meanwhile(client.refresh(&tokens.refresh)));
    assert_eq!(revoked.status, 200);
    let next = Tokens::of(&refreshed);
    client.refresh(&next.refresh).await.assert_error(400, "invalid_grant");
    provider.userinfo(&next.access).await.assert_bearer_error(401, "invalid_token");
}

/// The consent is withdrawn while its code is being redeemed: no tokens are left.
#[tokio::test]
async fn a_consent_withdrawn_while_its_code_is_redeemed_leaves_no_tokens() {
    for at in [At::BeforeCommit, At::AfterCommit] {
        let (provider, meddler) = Provider::meddled().await;
        let client = provider.c1();
        let code = client.code(&[("scope", OFFLINE)]).await;
        let stop = meddler.stop(at, b'c');
        let withdraw = async {
            let id = sealgate_domain::client::ClientId::parse("c1").unwrap();
            let store = &provider.sealgate.store;
            store.withdraw_consent(provider.anna.sub, &id, provider.sealgate.clock.now()).await.unwrap();
        };
        let (redeemed, ()) = tokio::join!(client.redeem(&code), stop.meanwhile(withdraw));
        redeemed.assert_error(400, "invalid_grant");
        assert_no_grants(&provider).await;
    }
}

/// The session of the sign-in ends while its code is redeemed.
#[tokio::test]
async fn a_session_that_ends_while_its_code_is_redeemed_leaves_no_tokens() {
    for at in [At::BeforeCommit, At::AfterCommit] {
        let (provider, meddler) = Provider::meddled().await;
        let client = provider.c1();
        let code = client.code(&[("scope", OFFLINE)]).await;
        let stop = meddler.stop(at, b'c');
        let end = async {
            provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
        };
        let (redeemed, ()) = tokio::join!(client.redeem(&code), stop.meanwhile(end));
        redeemed.assert_error(400, "invalid_grant");
        assert_no_grants(&provider).await;
    }
}

async fn assert_no_grants(provider: &Provider) {
    let filter = sealgate_store::GrantFilter { subject: Some(provider.anna.sub), ..Default::default() };
    assert_eq!(provider.sealgate.store.grants(&filter, None, 10).await.unwrap().grants, []);
}

/// One tab updates the last use of a session while a second tab ends the session. The update does
/// not restore it.
#[tokio::test]
async fn a_recorded_use_does_not_revive_a_concurrently_ended_session() {
    let (provider, meddler) = Provider::meddled().await;
    let browser = with_anna(&provider).await;
    let id = session_of_anna(&provider).await;
    provider.wait(120);
    let stop = meddler.stop(At::BeforeCommit, b's');
    let end = async { assert!(provider.sealgate.store.end_session(id).await.unwrap()) };
    let silent = provider.c1().authorize(&[("prompt", "none")]);
    let ((), _) = tokio::join!(stop.meanwhile(end), browser.get(&silent));
    assert!(provider.sealgate.store.session(id).await.unwrap().is_none());
    browser.open(&silent).await.assert_error_redirect("login_required");
}

/// The reverse order: a session that was read before the update of its last use still ends.
#[tokio::test]
async fn a_session_ends_despite_a_concurrently_recorded_use() {
    let (provider, meddler) = Provider::meddled().await;
    let browser = with_anna(&provider).await;
    let id = session_of_anna(&provider).await;
    provider.wait(120);
    let stop = meddler.stop(At::BeforeCommit, b's');
    let silent = provider.c1().authorize(&[("prompt", "none")]);
    let (ended, used) = tokio::join!(provider.sealgate.store.end_session(id), stop.meanwhile(browser.get(&silent)));
    assert!(ended.unwrap() && used.returned("code").is_some());
    browser.open(&silent).await.assert_error_redirect("login_required");
}

async fn session_of_anna(provider: &Provider) -> SessionId {
    let sessions = provider.sealgate.store.sessions_of_user(provider.anna.sub, None, 10).await.unwrap().sessions;
    assert_eq!(sessions.len(), 1);
    sessions[0].id
}

/// Two tabs submit the same consent. Both have read it when one commits, and only one code is
/// issued.
#[tokio::test]
async fn two_tabs_that_finish_one_request_send_one_response() {
    let (provider, meddler) = Provider::meddled().await;
    let browser = with_anna(&provider).await;
    let page = browser.open(&provider.c2().authorize(&[])).await;
    assert_consent(&page);
    let allowed = browser.submit_only(&page, &[("consent-allow", "yes")]).await;
    let resume = allowed.location().to_owned();
    // The first tab has its code and is about to delete the request.
    let stop = meddler.stop(At::BeforeCommit, b'i');
    let (late, early) = tokio::join!(browser.get(&resume), stop.meanwhile(browser.get(&resume)));
    assert!(early.returned("code").is_some());
    assert!(late.location().starts_with('/'), "it begins anew: {late:?}");
}

/// Concurrent changes of a client by administrators are all applied.
#[tokio::test]
async fn concurrent_changes_of_a_client_are_both_kept() {
    let (provider, meddler) = Provider::meddled().await;
    let stop = meddler.stop(At::BeforeCommit, b'l');
    let name = provider.change_client("c1", |client| client.name = "another name".into());
    let disable = provider.change_client("c1", |client| client.refresh_retry_seconds = Some(7));
    let ((), ()) = tokio::join!(name, stop.meanwhile(disable));
    let id = sealgate_domain::client::ClientId::parse("c1").unwrap();
    let client = provider.sealgate.store.client(&id).await.unwrap().unwrap();
    assert_eq!((client.name.as_str(), client.refresh_retry_seconds), ("another name", Some(7)));
}

/// The winner's tokens name the winner's grant: the tokens that the loser signed are invalid.
#[tokio::test]
async fn tokens_of_the_losing_request_are_invalid() {
    let (provider, meddler): (Provider, std::sync::Arc<Meddler>) = Provider::meddled().await;
    let client = provider.p1();
    let code = client.code(&[("scope", OFFLINE)]).await;
    let stop = meddler.stop(At::BeforeCommit, b'c');
    let end = async {
        provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
        client.redeem(&code).await
    };
    let (first, second) = tokio::join!(client.redeem(&code), stop.meanwhile(end));
    first.assert_error(400, "invalid_grant");
    second.assert_error(400, "invalid_grant");
    assert_no_grants(&provider).await;
    let other = provider.p1().tokens("openid").await;
    assert_eq!(jwt_claims(&other.access)["sub"], provider.anna.sub.to_string());
}
