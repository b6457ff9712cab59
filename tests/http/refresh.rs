//! Tests the refresh token grant (RFC 6749 §6; RFC 9700 §4.14.2; OpenID Connect Core §12; cases
//! REF).

use std::collections::BTreeSet;
use std::sync::Arc;

use sealgate_domain::client::ClientId;
use sealgate_domain::scope::Scope;
use sealgate_domain::user::UserState;
use sealgate_system::clock::Clock;
use tokio::task::JoinSet;

use crate::support::{Provider, Reply, Tokens, jwt_claims};

const OFFLINE: &str = "openid email offline_access";

fn refresh_fields(token: &str) -> [(&str, &str); 2] {
    [("grant_type", "refresh_token"), ("refresh_token", token)]
}

#[track_caller]
fn scope_of(tokens: &Tokens) -> &str {
    tokens.body["scope"].as_str().unwrap()
}

#[tokio::test]
async fn ref_01_a_refresh_returns_new_tokens() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    let members: BTreeSet<&str> = second.body.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["access_token", "expires_in", "id_token", "refresh_token", "scope", "token_type"];
    assert_eq!(members, expected.into());
    assert_ne!(second.access, first.access);
    assert!(second.refresh.starts_with("RT_") && second.refresh != first.refresh);
    assert_eq!((second.body["expires_in"].as_u64(), scope_of(&second)), (Some(900), OFFLINE));
    assert_eq!(second.body["token_type"], "Bearer");
    assert_eq!(provider.userinfo(&second.access).await.status, 200);
}

#[tokio::test]
async fn ref_01_the_previous_access_token_stays_valid_after_a_refresh() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(provider.userinfo(&first.access).await.status, 200);
}

#[tokio::test]
async fn ref_02_a_rotated_token_is_refused() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    Tokens::of(&provider.c1().refresh(&first.refresh).await);
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn ref_03_the_reuse_of_a_rotated_token_ends_its_family() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    let third = Tokens::of(&provider.c1().refresh(&second.refresh).await);
    for tokens in [&first, &second, &third] {
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    }
    // The oldest token is recognized, however often it was rotated since.
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    provider.c1().refresh(&third.refresh).await.assert_error(400, "invalid_grant");
    for tokens in [&first, &second, &third] {
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    }
}

#[tokio::test]
async fn ref_04_another_family_of_the_same_person_and_client_is_unaffected() {
    let provider = Provider::new().await;
    let one = provider.c1().tokens(OFFLINE).await;
    let other = provider.c1().tokens(OFFLINE).await;
    Tokens::of(&provider.c1().refresh(&one.refresh).await);
    provider.c1().refresh(&one.refresh).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&other.access).await.status, 200);
    Tokens::of(&provider.c1().refresh(&other.refresh).await);
}

#[tokio::test]
async fn ref_07_another_client_cannot_use_or_spoil_a_refresh_token() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    provider.c2().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    provider.p1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    // Another client that presents a rotated token is not a replay either.
    provider.c2().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    Tokens::of(&provider.c1().refresh(&second.refresh).await);
}

#[tokio::test]
async fn ref_07_another_client_gets_the_answer_for_an_unknown_token() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let stolen = provider.c2().refresh(&first.refresh).await;
    let unknown = provider.c2().refresh("RT_unknown").await;
    assert_eq!(stolen.text(), unknown.text());
}

#[tokio::test]
async fn ref_09_the_granted_scope_may_be_requested_again() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    // Order and repetition have no meaning (RFC 6749 §3.3).
    let second =
        Tokens::of(&provider.c1().refresh_with_scope(&first.refresh, "offline_access email openid email").await);
    assert_eq!(scope_of(&second), OFFLINE);
}

#[tokio::test]
async fn ref_10_a_narrower_scope_narrows_the_access_token_and_not_the_grant() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let narrow = Tokens::of(&provider.c1().refresh_with_scope(&first.refresh, "openid").await);
    assert_eq!(scope_of(&narrow), "openid");
    assert_eq!(provider.userinfo(&narrow.access).await.json(), serde_json::json!({"sub": provider.anna.sub}));
    assert_eq!(jwt_claims(&narrow.id)["email"], serde_json::Value::Null);
    assert_eq!(jwt_claims(&narrow.access)["scope"], "openid");
    let wide = Tokens::of(&provider.c1().refresh(&narrow.refresh).await);
    assert_eq!(scope_of(&wide), OFFLINE);
    assert_eq!(provider.userinfo(&wide.access).await.json()["email"], "anna@example.test");
    // An empty parameter counts as omitted.
    let wide = Tokens::of(&provider.c1().refresh_with_scope(&wide.refresh, "").await);
    assert_eq!(scope_of(&wide), OFFLINE);
}

/// K24: the only way to an access token that UserInfo does not accept.
#[tokio::test]
async fn ref_10_narrowing_openid_away_gives_no_id_token_and_no_userinfo() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let narrow = Tokens::of(&provider.c1().refresh_with_scope(&first.refresh, "email").await);
    assert_eq!((scope_of(&narrow), narrow.body.get("id_token")), ("email", None));
    provider.userinfo(&narrow.access).await.assert_bearer_error(403, "insufficient_scope");
    let wide = Tokens::of(&provider.c1().refresh(&narrow.refresh).await);
    assert_eq!(provider.userinfo(&wide.access).await.status, 200);
    assert!(!wide.id.is_empty());
}

#[tokio::test]
async fn ref_11_a_wider_or_malformed_scope_is_refused_and_rotates_nothing() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    for scope in ["openid phone", "profile", "openid foo:bar", "OPENID", "openid\temail", "openid,email", " ", "*"] {
        let reply = provider.c1().refresh_with_scope(&first.refresh, scope).await;
        reply.assert_error(400, "invalid_scope");
    }
    Tokens::of(&provider.c1().refresh(&first.refresh).await);
}

#[tokio::test]
async fn ref_13_the_id_token_of_a_refresh_describes_the_same_sign_in() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    provider.wait(100);
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    let (before, after) = (jwt_claims(&first.id), jwt_claims(&second.id));
    for claim in ["iss", "sub", "aud", "azp", "auth_time", "acr", "amr"] {
        assert_eq!(before.get(claim), after.get(claim), "{claim}");
    }
    let moved = |claim: &str| after[claim].as_u64().unwrap() - before[claim].as_u64().unwrap();
    assert_eq!((moved("iat"), moved("exp")), (100, 100));
    assert_eq!((&before["nonce"], after.get("nonce")), (&"n1".into(), None));
}

#[tokio::test]
async fn ref_14_a_refresh_token_expires() {
    let provider = Provider::with("[tokens]\nrefresh_token_seconds = 1000").await;
    let first = provider.c1().tokens(OFFLINE).await;
    let other = provider.c1().tokens(OFFLINE).await;
    provider.wait(999);
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    provider.wait(1);
    provider.c1().refresh(&other.refresh).await.assert_error(400, "invalid_grant");
    // The next token has its own lifetime.
    provider.wait(998);
    Tokens::of(&provider.c1().refresh(&second.refresh).await);
}

#[tokio::test]
async fn ref_14_the_default_lifetime_is_thirty_days() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let other = provider.c1().tokens(OFFLINE).await;
    provider.wait(30 * 86_400 - 1);
    Tokens::of(&provider.c1().refresh(&first.refresh).await);
    provider.wait(1);
    provider.c1().refresh(&other.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn ref_16_the_token_is_required_exactly_once() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    provider.c1().token(&[("grant_type", "refresh_token")]).await.assert_error(400, "invalid_request");
    provider.c1().refresh("").await.assert_error(400, "invalid_request");
    for repeated in [("refresh_token", first.refresh.as_str()), ("grant_type", "refresh_token")] {
        let fields = [&refresh_fields(&first.refresh)[..], &[repeated]].concat();
        provider.c1().token(&fields).await.assert_error(400, "invalid_request");
    }
    let fields = [&refresh_fields(&first.refresh)[..], &[("scope", "openid"), ("scope", "openid")]].concat();
    provider.c1().token(&fields).await.assert_error(400, "invalid_request");
    Tokens::of(&provider.c1().refresh(&first.refresh).await);
}

#[tokio::test]
async fn ref_16_an_invented_refresh_token_is_invalid() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let code = provider.c1().code(&[]).await;
    let cut = &first.refresh[..first.refresh.len() - 1];
    let forged = format!("{}{}", &first.refresh[..60], "A".repeat(first.refresh.len() - 60));
    let lower = first.refresh.replace("RT_", "rt_");
    let spaced = format!("{} ", first.refresh);
    let unprefixed = first.refresh.trim_start_matches("RT_");
    for token in ["x", "RT_", "RT_ş", cut, &lower, &spaced, unprefixed, &code, &first.access, &first.id] {
        provider.c1().refresh(token).await.assert_error(400, "invalid_grant");
    }
    assert_eq!(provider.userinfo(&first.access).await.status, 200);
    // An attacker who forged this token had a genuine token of the family, so it counts as reuse.
    provider.c1().refresh(&forged).await.assert_error(400, "invalid_grant");
    provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn ref_17_a_failed_authentication_leaves_the_token_usable() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let credentials = [("client_id", "c1"), ("client_secret", "wrong")];
    let fields = [&refresh_fields(&first.refresh)[..], &credentials].concat();
    provider.post("/oauth/token", &[], &fields).await.assert_unauthenticated();
    Tokens::of(&provider.c1().refresh(&first.refresh).await);
}

#[tokio::test]
async fn ref_18_a_public_client_refreshes_with_its_id_alone() {
    let provider = Provider::new().await;
    let first = provider.p1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.p1().refresh(&first.refresh).await);
    assert_ne!(first.refresh, second.refresh);
    provider.p1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    provider.p1().refresh(&second.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn ref_20_offline_access_outlives_the_session() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let code = provider.c1().code_in(&browser, &[("scope", OFFLINE)]).await;
    let first = Tokens::of(&provider.c1().redeem(&code).await);
    let reply = browser.get(&format!("/oauth/logout?id_token_hint={}", first.id)).await;
    assert_eq!(reply.status, 302);
    let silent = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(provider.userinfo(&second.access).await.status, 200);
}

#[tokio::test]
async fn ref_21_a_withdrawn_consent_ends_its_tokens() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let of_another_client = provider.c2().tokens(OFFLINE).await;
    assert_eq!(provider.userinfo(&first.access).await.status, 200);
    let client = ClientId::parse("c1").unwrap();
    let now = provider.clock.now();
    provider.sealgate.store.withdraw_consent(provider.anna.sub, &client, now).await.unwrap();
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
    assert_eq!(provider.userinfo(&of_another_client.access).await.status, 200);
}

#[tokio::test]
async fn ref_21_tokens_of_a_disabled_user_are_refused_at_once() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    assert_eq!(provider.userinfo(&first.access).await.status, 200);
    provider.change_user(provider.anna.sub, |user| user.state = UserState::Disabled).await;
    provider.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn ref_21_deleting_a_user_or_client_ends_its_tokens() {
    let provider = Provider::new().await;
    let of_c1 = provider.c1().tokens(OFFLINE).await;
    let of_c2 = provider.c2().tokens(OFFLINE).await;
    for tokens in [&of_c1, &of_c2] {
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    }
    let now = provider.clock.now();
    let c2 = ClientId::parse("c2").unwrap();
    assert!(provider.sealgate.store.delete_client(&c2, now).await.unwrap());
    provider.userinfo(&of_c2.access).await.assert_bearer_error(401, "invalid_token");
    provider.c2().refresh(&of_c2.refresh).await.assert_unauthenticated();
    // A later client with the same id inherits nothing.
    provider.add_client(provider.confidential("c2")).await;
    provider.userinfo(&of_c2.access).await.assert_bearer_error(401, "invalid_token");
    provider.c2().refresh(&of_c2.refresh).await.assert_error(400, "invalid_grant");

    assert_eq!(provider.userinfo(&of_c1.access).await.status, 200);
    assert!(provider.sealgate.store.delete_user(provider.anna.sub, now).await.unwrap());
    provider.userinfo(&of_c1.access).await.assert_bearer_error(401, "invalid_token");
    provider.c1().refresh(&of_c1.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn a_new_client_with_a_used_id_has_no_consents() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    provider.c1().code_in(&browser, &[]).await;
    let c1 = ClientId::parse("c1").unwrap();
    assert!(provider.sealgate.store.delete_client(&c1, provider.clock.now()).await.unwrap());
    provider.wait(1);
    provider.add_client(provider.confidential("c1")).await;
    let reply = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    reply.assert_error_redirect("consent_required");
    Tokens::of(&provider.c1().redeem(&provider.c1().code_in(&browser, &[]).await).await);
}

#[tokio::test]
async fn ref_01_a_family_survives_a_restart_and_so_does_its_end() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    let again = provider.restarted().await;
    assert_eq!(again.userinfo(&second.access).await.status, 200);
    let third = Tokens::of(&again.c1().refresh(&second.refresh).await);
    again.c1().refresh(&first.refresh).await.assert_error(400, "invalid_grant");
    let again = again.restarted().await;
    again.userinfo(&third.access).await.assert_bearer_error(401, "invalid_token");
    again.c1().refresh(&third.refresh).await.assert_error(400, "invalid_grant");
}

/// Sends 64 concurrent refreshes and returns all answers.
async fn refresh_64_times(provider: &Arc<Provider>, token: &str) -> Vec<Reply> {
    let mut refreshes = JoinSet::new();
    for _ in 0..64 {
        let (provider, token) = (Arc::clone(provider), token.to_owned());
        refreshes.spawn(async move { provider.c1().refresh(&token).await });
    }
    refreshes.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ref_03_64_simultaneous_refreshes_never_leave_two_usable_children() {
    let provider = Arc::new(Provider::with("[rate_limits]\ntoken = 1000").await);
    let first = provider.c1().tokens(OFFLINE).await;
    let (won, lost): (Vec<_>, Vec<_>) =
        refresh_64_times(&provider, &first.refresh).await.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((won.len(), lost.len()), (1, 63));
    for reply in &lost {
        reply.assert_error(400, "invalid_grant");
    }
    // The token was used twice, so the family has ended: no child is left.
    let child = Tokens::of(&won[0]);
    provider.c1().refresh(&child.refresh).await.assert_error(400, "invalid_grant");
    provider.userinfo(&child.access).await.assert_bearer_error(401, "invalid_token");
    provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
}

/// RFC 6749 §3.3: the server may grant less than requested, and returns the granted scope.
#[tokio::test]
async fn ref_10_a_refresh_grants_no_more_than_the_clients_current_scope() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let narrower = Scope::parse("openid offline_access").unwrap();
    provider.change_client("c1", |client| client.scope = narrower).await;
    provider.c1().refresh_with_scope(&first.refresh, OFFLINE).await.assert_error(400, "invalid_scope");
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(scope_of(&second), "openid offline_access");
    assert_eq!(provider.userinfo(&second.access).await.json().get("email"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ref_03_a_replayed_code_ends_the_grant_despite_concurrent_refreshes() {
    let provider = Arc::new(Provider::new().await);
    for _ in 0..8 {
        let code = provider.c1().code(&[("scope", OFFLINE)]).await;
        let first = Tokens::of(&provider.c1().redeem(&code).await);
        let replay = tokio::spawn({
            let provider = Arc::clone(&provider);
            async move { provider.c1().redeem(&code).await }
        });
        let refresh = tokio::spawn({
            let (provider, token) = (Arc::clone(&provider), first.refresh.clone());
            async move { provider.c1().refresh(&token).await }
        });
        replay.await.unwrap().assert_error(400, "invalid_grant");
        let refreshed = refresh.await.unwrap();
        provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
        if refreshed.status == 200 {
            let second = Tokens::of(&refreshed);
            provider.userinfo(&second.access).await.assert_bearer_error(401, "invalid_token");
            provider.c1().refresh(&second.refresh).await.assert_error(400, "invalid_grant");
        }
    }
}

/// A confidential client gets a new grant with each sign-in.
#[tokio::test]
async fn ref_04_every_code_starts_a_family() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let mut families = Vec::new();
    for _ in 0..3 {
        let code = provider.c1().code_in(&browser, &[("scope", OFFLINE)]).await;
        families.push(Tokens::of(&provider.c1().redeem(&code).await));
    }
    assert_eq!(provider.c1().revoke(&families[1].refresh).await.status, 200);
    for (index, family) in families.iter().enumerate() {
        let expected = if index == 1 { 400 } else { 200 };
        assert_eq!(provider.c1().refresh(&family.refresh).await.status, expected);
    }
}
