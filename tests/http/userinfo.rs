//! Tests UserInfo (OpenID Connect Core §5.3; RFC 6750; cases UI).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sealgate_domain::client::ClientState;
use sealgate_domain::user::UserState;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{FORM, Provider, Reply, Tokens, basic, jwt_claims};

const EVERYTHING: &str = "openid profile email phone";

/// Requests UserInfo with this Authorization header.
async fn ask(provider: &Provider, authorization: &str) -> Reply {
    provider.request("GET", "/oauth/userinfo", &[("authorization", authorization)], "").await
}

/// Asserts a challenge without an error code, because no token was sent (RFC 6750 §3.1).
#[track_caller]
fn assert_no_token(reply: &Reply) {
    assert_eq!(reply.status, 401, "{reply:?}");
    assert_eq!(reply.header("www-authenticate"), Some("Bearer realm=\"sealgate\""));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn ui_01_every_scope_returns_its_claims_in_their_types() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(EVERYTHING).await;
    let reply = provider.userinfo(&tokens.access).await;
    assert_eq!((reply.status, reply.header("cache-control")), (200, Some("no-store")));
    let expected = json!({
        "sub": provider.anna.sub,
        "name": "Anna Şahin",
        "picture": "https://pictures.test/anna.png",
        "updated_at": 1_800_000_000,
        "email": "anna@example.test",
        "email_verified": true,
        "phone_number": "+90 212 555 01 01",
        "phone_number_verified": false,
    });
    assert_eq!(reply.json(), expected);
    assert!(reply.json()["updated_at"].is_u64() && reply.json()["email_verified"].is_boolean());
    assert_eq!(reply.json()["sub"], jwt_claims(&tokens.id)["sub"]);
}

#[tokio::test]
async fn ui_02_openid_alone_shows_only_the_sub() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    assert_eq!(provider.userinfo(&tokens.access).await.json(), json!({"sub": provider.anna.sub}));
}

#[tokio::test]
async fn ui_03_each_scope_shows_exactly_its_own_claims() {
    let provider = Provider::new().await;
    for (scope, claims) in [
        ("openid email", &["email", "email_verified", "sub"][..]),
        ("openid phone", &["phone_number", "phone_number_verified", "sub"]),
        ("openid profile", &["name", "picture", "sub", "updated_at"]),
        ("openid offline_access", &["sub"]),
    ] {
        let tokens = provider.c1().tokens(scope).await;
        let info = provider.userinfo(&tokens.access).await.json();
        let names: Vec<&str> = info.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, claims, "{scope}");
    }
}

#[tokio::test]
async fn ui_03_unknown_attributes_are_omitted() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let address = client.authorize(&[("scope", EVERYTHING)]);
    let reply = provider.browser().authorize(&address, "ben@example.test").await;
    let tokens = Tokens::of(&client.redeem(&reply.returned("code").unwrap()).await);
    let expected = json!({
        "sub": provider.ben.sub, "name": "Ben", "updated_at": 1_800_000_000,
        "email": "ben@example.test", "email_verified": false,
    });
    assert_eq!(provider.userinfo(&tokens.access).await.json(), expected);
    provider.change_user(provider.ben.sub, |user| user.name = String::new()).await;
    assert_eq!(provider.userinfo(&tokens.access).await.json().get("name"), None);
}

#[tokio::test]
async fn ui_04_post_is_the_same_as_get() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(EVERYTHING).await;
    let bearer = format!("Bearer {}", tokens.access);
    let got = ask(&provider, &bearer).await.json();
    for headers in [&[("authorization", bearer.as_str())][..], &[("authorization", &bearer), FORM]] {
        let posted = provider.request("POST", "/oauth/userinfo", headers, "").await;
        assert_eq!((posted.status, posted.json()), (200, got.clone()));
    }
}

#[tokio::test]
async fn ui_05_a_token_in_the_query_is_ignored() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let path = format!("/oauth/userinfo?access_token={}", tokens.access);
    assert_no_token(&provider.get(&path).await);
}

#[tokio::test]
async fn ui_06_a_token_in_the_form_is_ignored() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let reply = provider.post("/oauth/userinfo", &[], &[("access_token", &tokens.access)]).await;
    assert_no_token(&reply);
}

/// RFC 6750 §2 and §3.1: a token may be sent by one method only.
#[tokio::test]
async fn ui_06_a_token_by_two_methods_at_once_is_invalid_request() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let bearer = [("authorization", format!("Bearer {}", tokens.access))];
    let bearer = [(bearer[0].0, bearer[0].1.as_str())];
    let path = format!("/oauth/userinfo?access_token={}", tokens.access);
    let by_query = provider.request("GET", &path, &bearer, "").await;
    let by_form = provider.post("/oauth/userinfo", &bearer, &[("access_token", &tokens.access)]).await;
    let twice = provider.request("GET", "/oauth/userinfo", &[bearer[0], bearer[0]], "").await;
    for reply in [by_query, by_form, twice] {
        reply.assert_bearer_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn ui_08_without_a_token_the_challenge_explains_nothing() {
    let provider = Provider::new().await;
    assert_no_token(&provider.get("/oauth/userinfo").await);
    assert_no_token(&provider.request("POST", "/oauth/userinfo", &[], "").await);
}

/// RFC 6750 §3.1: credentials of another scheme count as no token.
#[tokio::test]
async fn ui_08_another_scheme_counts_as_no_token() {
    let provider = Provider::new().await;
    for header in [basic("c1", "secret of c1"), "Digest x".into(), "DPoP x".into(), "Bearerx y".into(), String::new()] {
        assert_no_token(&ask(&provider, &header).await);
    }
}

#[tokio::test]
async fn ui_09_an_invalid_token_is_invalid_token() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    let code = provider.c1().code(&[]).await;
    let (head, signature) = tokens.access.rsplit_once('.').unwrap();
    let flipped = if signature.starts_with('A') { "B" } else { "A" };
    let forged = format!("{head}.{flipped}{}", &signature[1..]);
    let (id_head, _) = tokens.id.rsplit_once('.').unwrap();
    for token in [
        "junk",
        "a.b.c",
        "..",
        ".",
        &forged,
        &format!("{head}."),
        &format!("{id_head}.{signature}"),
        &format!("{}.x", tokens.access),
        &tokens.access[1..],
        &tokens.id,
        &tokens.refresh,
        &code,
        &"x".repeat(20_000),
    ] {
        ask(&provider, &format!("Bearer {token}")).await.assert_bearer_error(401, "invalid_token");
    }
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
}

#[tokio::test]
async fn ui_09_a_token_with_another_algorithm_or_key_is_invalid_token() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let parts: Vec<&str> = tokens.access.split('.').collect();
    let header = crate::support::jwt_header(&tokens.access);
    let with = |member: &str, value: Value| {
        let mut header = header.clone();
        header[member] = value;
        URL_SAFE_NO_PAD.encode(header.to_string())
    };
    for header in [
        with("alg", json!("none")),
        with("alg", json!("HS256")),
        with("alg", json!("RS512")),
        with("kid", json!("other")),
        with("kid", json!("../../dev/null")),
        with("typ", json!("JWT")),
        with("crit", json!(["exp"])),
    ] {
        for signature in [parts[2], ""] {
            let token = format!("{header}.{}.{signature}", parts[1]);
            ask(&provider, &format!("Bearer {token}")).await.assert_bearer_error(401, "invalid_token");
        }
    }
}

#[tokio::test]
async fn ui_10_a_token_works_for_900_seconds() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    provider.wait(899);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    // The bearer cache now contains the token, and must not extend its lifetime.
    provider.wait(1);
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    provider.restarted().await.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn ui_11_a_token_without_openid_is_403_with_the_scope() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid email offline_access").await;
    let narrow = Tokens::of(&provider.c1().refresh_with_scope(&tokens.refresh, "email").await);
    let reply = provider.userinfo(&narrow.access).await;
    reply.assert_bearer_error(403, "insufficient_scope");
    assert!(reply.header("www-authenticate").unwrap().contains(r#"scope="openid""#));
}

#[tokio::test]
async fn ui_12_the_scheme_is_case_insensitive() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    for scheme in ["bearer", "BEARER", "bEaReR"] {
        assert_eq!(ask(&provider, &format!("{scheme} {}", tokens.access)).await.status, 200, "{scheme}");
    }
}

#[tokio::test]
async fn ui_13_malformed_credentials_are_refused() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    for header in
        ["Bearer".to_owned(), "Bearer ".into(), "Bearer  a b".into(), format!("Bearer {0} {0}", tokens.access)]
    {
        ask(&provider, &header).await.assert_bearer_error(401, "invalid_token");
    }
}

#[tokio::test]
async fn ui_16_a_cached_token_is_refused_after_its_revocation() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    for _ in 0..3 {
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    }
    assert_eq!(provider.c1().revoke(&tokens.access).await.status, 200);
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    provider.restarted().await.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn ui_16_a_cached_token_returns_current_attributes() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid profile").await;
    assert_eq!(provider.userinfo(&tokens.access).await.json()["name"], "Anna Şahin");
    provider.change_user(provider.anna.sub, |user| user.name = "Anna Yılmaz".into()).await;
    assert_eq!(provider.userinfo(&tokens.access).await.json()["name"], "Anna Yılmaz");
}

#[tokio::test]
async fn ui_17_a_script_of_another_origin_can_read_userinfo() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let origin = ("origin", "https://spa.test");
    let preflight =
        [origin, ("access-control-request-method", "GET"), ("access-control-request-headers", "authorization")];
    let preflight = provider.request("OPTIONS", "/oauth/userinfo", &preflight, "").await;
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("GET"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("Authorization"));
    let bearer = format!("Bearer {}", tokens.access);
    let right = provider.request("GET", "/oauth/userinfo", &[origin, ("authorization", &bearer)], "").await;
    let wrong = provider.request("GET", "/oauth/userinfo", &[origin, ("authorization", "Bearer x")], "").await;
    assert_eq!((right.status, wrong.status), (200, 401));
    for reply in [preflight, right, wrong] {
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert!(reply.header("access-control-expose-headers").unwrap().contains("WWW-Authenticate"));
    }
}

#[tokio::test]
async fn ui_20_other_methods_are_405() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let bearer = format!("Bearer {}", tokens.access);
    for method in ["PUT", "DELETE", "PATCH"] {
        let reply = provider.request(method, "/oauth/userinfo", &[("authorization", &bearer)], "").await;
        reply.assert_error(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("GET, HEAD, POST"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ui_16_no_request_that_begins_after_a_revocation_is_answered() {
    let provider = Arc::new(Provider::with("[rate_limits]\nuserinfo = 4095").await);
    for _ in 0..8 {
        let tokens = provider.c1().tokens("openid").await;
        let revoked = Arc::new(AtomicBool::new(false));
        let mut askers = JoinSet::new();
        for _ in 0..4 {
            let (provider, revoked, token) = (Arc::clone(&provider), Arc::clone(&revoked), tokens.access.clone());
            askers.spawn(async move {
                let mut answered = 0;
                for _ in 0..500 {
                    let late = revoked.load(Ordering::SeqCst);
                    let status = provider.userinfo(&token).await.status;
                    assert!(!late || status == 401, "answered {status} after the revocation");
                    answered += u32::from(status == 200);
                    if late {
                        return answered;
                    }
                }
                answered
            });
        }
        tokio::task::yield_now().await;
        assert_eq!(provider.c1().revoke(&tokens.access).await.status, 200);
        revoked.store(true, Ordering::SeqCst);
        askers.join_all().await;
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    }
}

/// A cached token is as valid as before, but the records it depends on may have changed.
#[tokio::test]
async fn a_token_ends_with_its_client_and_its_user() {
    let provider = Provider::new().await;
    let (used, unused) = (provider.c1().tokens("openid").await, provider.c1().tokens("openid").await);
    let client = async |state| provider.change_client("c1", |client| client.state = state).await;
    let person = async |state| provider.change_user(provider.anna.sub, |user| user.state = state).await;
    let assert_ended = async || {
        for token in [&used.access, &unused.access] {
            provider.userinfo(token).await.assert_bearer_error(401, "invalid_token");
        }
    };
    assert_eq!(provider.userinfo(&used.access).await.status, 200);
    client(ClientState::Disabled).await;
    assert_ended().await;
    client(ClientState::Enabled).await;
    assert_eq!(provider.userinfo(&used.access).await.status, 200);
    person(UserState::Disabled).await;
    assert_ended().await;
    person(UserState::Enabled).await;
    assert_eq!(provider.userinfo(&used.access).await.status, 200);
}
