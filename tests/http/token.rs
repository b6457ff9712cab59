//! Tests the authorization code grant at the token endpoint: a code gives tokens once (RFC 6749
//! §4.1.3, §5; cases TOK).

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealgate_domain::client::GrantType;
use sealgate_domain::redirect_uri::RedirectUri;
use tokio::task::JoinSet;

use crate::support::{Provider, Tokens, VERIFIER, assert_random, basic, challenge, redemption};

#[tokio::test]
async fn tok_01_a_code_gives_an_access_token_and_an_id_token() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[("scope", "openid email")]).await;
    let reply = provider.c1().redeem(&code).await;
    let body = Tokens::of(&reply).body;
    let members: BTreeSet<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["access_token", "expires_in", "id_token", "scope", "token_type"].into());
    assert_eq!(body["token_type"], "Bearer");
    assert_eq!(body["expires_in"].as_u64(), Some(900));
    assert_eq!(body["scope"], "openid email");
    assert!(body["access_token"].as_str().unwrap().split('.').count() == 3);
}

#[tokio::test]
async fn tok_02_responses_of_the_token_endpoint_are_not_cacheable() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let header = basic("c1", "secret of c1");
    let replies = [
        provider.c1().redeem(&code).await,
        provider.c1().redeem(&code).await,
        provider.post("/oauth/token", &[], &redemption(&code, &[])).await,
        provider.request("POST", "/oauth/token", &[("authorization", &header)], "{}").await,
        provider.get("/oauth/token").await,
    ];
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 400, 401, 400, 405]);
    for reply in &replies {
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
        assert_eq!(reply.header("pragma"), Some("no-cache"));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("set-cookie"), None);
    }
}

#[tokio::test]
async fn tok_03_offline_access_gives_a_refresh_token() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let mut tokens = Vec::new();
    for _ in 0..8 {
        let code = provider.c1().code_in(&browser, &[("scope", "openid offline_access")]).await;
        let given = Tokens::of(&provider.c1().redeem(&code).await);
        assert_eq!(given.body["scope"], "openid offline_access");
        tokens.push(URL_SAFE_NO_PAD.decode(given.refresh.strip_prefix("RT_").unwrap()).unwrap());
    }
    // The grant's key and a counter precede the secret.
    assert!(tokens.iter().all(|token| token.len() == 16 + 4 + 32));
    assert_random(tokens.iter().map(|token| token[20..].to_vec()));
}

#[tokio::test]
async fn tok_04_a_user_may_refuse_offline_access() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let address = provider.c1().authorize(&[("scope", "openid email offline_access")]);
    let page = browser.sign_in(&browser.open(&address).await, "anna@example.test").await;
    let reply = browser.submit(&page, &[("consent-allow", "yes")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&reply.returned("code").unwrap()).await);
    assert_eq!((tokens.refresh.as_str(), &tokens.body["scope"]), ("", &"openid email".into()));
}

#[tokio::test]
async fn tok_04_a_client_without_the_refresh_grant_gets_no_refresh_token() {
    let provider = Provider::new().await;
    provider.change_client("c1", |client| client.grant_types = vec![GrantType::AuthorizationCode]).await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    assert_eq!((tokens.refresh.as_str(), &tokens.body["scope"]), ("", &"openid".into()));
}

#[tokio::test]
async fn tok_05_a_code_works_once() {
    let provider = Provider::new().await;
    for client in [provider.c1(), provider.p1()] {
        let code = client.code(&[]).await;
        Tokens::of(&client.redeem(&code).await);
        client.redeem(&code).await.assert_error(400, "invalid_grant");
        client.redeem(&code).await.assert_error(400, "invalid_grant");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tok_05_of_64_simultaneous_redemptions_at_most_one_succeeds_and_the_grant_ends() {
    // Permits more than a client's default of 50 requests a minute.
    let provider = Arc::new(Provider::with("[rate_limits]\ntoken = 1000").await);
    let code = provider.c1().code(&[("scope", "openid offline_access")]).await;
    let mut redemptions = JoinSet::new();
    for _ in 0..64 {
        let (provider, code) = (Arc::clone(&provider), code.clone());
        redemptions.spawn(async move { provider.c1().redeem(&code).await });
    }
    let (won, lost): (Vec<_>, Vec<_>) = redemptions.join_all().await.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((won.len(), lost.len()), (1, 63));
    for reply in &lost {
        reply.assert_error(400, "invalid_grant");
    }
    let tokens = Tokens::of(&won[0]);
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_06_a_replayed_code_revokes_only_its_tokens() {
    let provider = Provider::new().await;
    let other = provider.c1().tokens("openid offline_access").await;
    let code = provider.c1().code(&[("scope", "openid offline_access")]).await;
    let first = Tokens::of(&provider.c1().redeem(&code).await);
    let renewed = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    // The bearer cache contains the token, which must not outlive the grant.
    assert_eq!(provider.userinfo(&renewed.access).await.status, 200);
    provider.c1().redeem(&code).await.assert_error(400, "invalid_grant");
    provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
    provider.userinfo(&renewed.access).await.assert_bearer_error(401, "invalid_token");
    provider.c1().refresh(&renewed.refresh).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&other.access).await.status, 200);
    Tokens::of(&provider.c1().refresh(&other.refresh).await);
}

#[tokio::test]
async fn tok_06_another_client_cannot_end_a_grant_with_a_used_code() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    provider.c2().redeem(&code).await.assert_error(400, "invalid_grant");
    provider.p1().redeem(&code).await.assert_error(400, "invalid_grant");
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
}

#[tokio::test]
async fn tok_09_a_code_works_for_five_minutes() {
    let provider = Provider::new().await;
    let early = provider.c1().code(&[]).await;
    let late = provider.c1().code(&[]).await;
    provider.wait(299);
    Tokens::of(&provider.c1().redeem(&early).await);
    // A code is invalid at the end of its lifetime.
    provider.wait(1);
    provider.c1().redeem(&late).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_10_the_redirect_uri_must_match_the_authorization_request() {
    let provider = Provider::new().await;
    let other = "https://rp.test/other";
    provider.change_client("c1", |client| client.redirect_uris.push(RedirectUri::parse(other).unwrap())).await;
    let code = provider.c1().code(&[]).await;
    for uri in [other, "https://rp.test/cb/", "https://RP.test/cb", "https://rp.test/cb?", "https://rp.test:443/cb"] {
        let reply = provider.c1().token(&redemption(&code, &[("redirect_uri", uri)])).await;
        reply.assert_error(400, "invalid_grant");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_11_the_redirect_uri_is_required() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    for value in ["-", ""] {
        let reply = provider.c1().token(&redemption(&code, &[("redirect_uri", value)])).await;
        reply.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_12_another_client_cannot_use_or_spoil_a_code() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    // The other conditions of a redemption also apply to these clients: consent, scope, redirect
    // URI and verifier.
    for client in [provider.c2(), provider.p1()] {
        Tokens::of(&client.redeem(&client.code_in(&browser, &[]).await).await);
    }
    let challenge = challenge(VERIFIER);
    let pkce = [("code_challenge", challenge.as_str()), ("code_challenge_method", "S256")];
    let (plain, bound) = (provider.c1().code_in(&browser, &[]).await, provider.c1().code_in(&browser, &pkce).await);
    let unknown = provider.c2().redeem("unknown").await;
    for stolen in [provider.c2().redeem(&plain).await, provider.p1().redeem(&bound).await] {
        stolen.assert_error(400, "invalid_grant");
        assert_eq!(stolen.text(), unknown.text(), "the answer is that to an unknown code");
    }
    Tokens::of(&provider.c1().redeem(&plain).await);
    let redemption = redemption(&bound, &[("code_verifier", VERIFIER)]);
    let tokens = Tokens::of(&provider.c1().token(&redemption).await);
    // A used code presented by another client is no replay.
    for stolen in [provider.c2().redeem(&plain).await, provider.p1().redeem(&bound).await] {
        assert_eq!(stolen.text(), unknown.text());
    }
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
}

#[tokio::test]
async fn tok_13_a_valid_code_is_required() {
    let provider = Provider::new().await;
    for (code, error) in [("unknown", "invalid_grant"), ("", "invalid_request"), ("-", "invalid_request")] {
        let reply = provider.c1().token(&redemption("x", &[("code", code)])).await;
        reply.assert_error(400, error);
    }
    provider.c1().redeem(&"x".repeat(50_000)).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn tok_35_a_code_is_compared_byte_for_byte() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let swapped: String = code
        .chars()
        .map(|char| if char.is_ascii_lowercase() { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() })
        .collect();
    for wrong in [format!("{code} "), format!(" {code}"), swapped, code[1..].to_owned(), format!("{code}=")] {
        provider.c1().redeem(&wrong).await.assert_error(400, "invalid_grant");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}
