//! Tests revocation (RFC 7009; cases REV).

use std::sync::Arc;

use crate::support::{FORM, Provider, Tokens, basic};

const OFFLINE: &str = "openid offline_access";

#[tokio::test]
async fn rev_01_a_revoked_refresh_token_is_refused() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    let reply = provider.c1().revoke(&tokens.refresh).await;
    assert_eq!((reply.status, reply.json()), (200, serde_json::json!({})));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let refused = provider.c1().refresh(&tokens.refresh).await;
    refused.assert_error(400, "invalid_grant");
    assert!(refused.json()["error_description"].as_str().unwrap().contains("revoked"));
}

#[tokio::test]
async fn rev_02_revoking_a_refresh_token_revokes_its_access_tokens() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    let other = provider.c1().tokens(OFFLINE).await;
    for tokens in [&first, &second, &other] {
        assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    }
    assert_eq!(provider.c1().revoke(&second.refresh).await.status, 200);
    for tokens in [&first, &second] {
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    }
    assert_eq!(provider.userinfo(&other.access).await.status, 200);
    Tokens::of(&provider.c1().refresh(&other.refresh).await);
}

#[tokio::test]
async fn rev_02_a_rotated_token_revokes_its_family() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(provider.c1().revoke(&first.refresh).await.status, 200);
    provider.c1().refresh(&second.refresh).await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn rev_03_revoking_an_access_token_revokes_nothing_else() {
    let provider = Provider::new().await;
    let first = provider.c1().tokens(OFFLINE).await;
    let second = Tokens::of(&provider.c1().refresh(&first.refresh).await);
    assert_eq!(provider.userinfo(&first.access).await.status, 200);
    assert_eq!(provider.userinfo(&second.access).await.status, 200);
    let reply = provider.c1().revoke(&first.access).await;
    assert_eq!((reply.status, reply.json()), (200, serde_json::json!({})));
    provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
    assert_eq!(provider.userinfo(&second.access).await.status, 200);
    Tokens::of(&provider.c1().refresh(&second.refresh).await);
}

#[tokio::test]
async fn rev_04_unknown_tokens_are_answered_200() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    let code = provider.c1().code(&[]).await;
    let long = "x".repeat(20_000);
    for token in ["garbage", "RT_garbage", "a.b.c", "ş", &tokens.id, &code, &long] {
        let reply = provider.c1().revoke(token).await;
        assert_eq!((reply.status, reply.json()), (200, serde_json::json!({})), "{token}");
    }
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    Tokens::of(&provider.c1().redeem(&code).await);
    for token in [&tokens.access, &tokens.refresh] {
        for _ in 0..2 {
            assert_eq!(provider.c1().revoke(token).await.status, 200);
        }
    }
    provider.wait(1000);
    assert_eq!(provider.c1().revoke(&tokens.access).await.status, 200);
}

/// K15: the token is not revoked, and the answer does not reveal it.
#[tokio::test]
async fn rev_04_a_token_of_another_client_is_unchanged() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    for client in [provider.c2(), provider.p1()] {
        for token in [&tokens.access, &tokens.refresh] {
            let reply = client.revoke(token).await;
            assert_eq!((reply.status, reply.json()), (200, serde_json::json!({})));
        }
    }
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    let second = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
    // Another client cannot end the family with a rotated token either.
    assert_eq!(provider.c2().revoke(&tokens.refresh).await.status, 200);
    Tokens::of(&provider.c1().refresh(&second.refresh).await);
}

#[tokio::test]
async fn rev_05_the_token_is_required() {
    let provider = Provider::new().await;
    provider.c1().post("/oauth/revoke", &[]).await.assert_error(400, "invalid_request");
    provider.c1().revoke("").await.assert_error(400, "invalid_request");
    provider.c1().post("/oauth/revoke?token=x", &[]).await.assert_error(400, "invalid_request");
}

#[tokio::test]
async fn rev_06_the_client_must_authenticate() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    for token in [tokens.refresh.as_str(), "unknown", ""] {
        let form = [("token", token)];
        let wrong = [("authorization", basic("c1", "wrong"))];
        let wrong = [(wrong[0].0, wrong[0].1.as_str())];
        provider.post("/oauth/revoke", &wrong, &form).await.assert_unauthenticated();
        provider.post("/oauth/revoke", &[], &form).await.assert_unauthenticated();
        provider.post("/oauth/revoke", &[], &[form[0], ("client_id", "c1")]).await.assert_unauthenticated();
        provider.post("/oauth/revoke", &[], &[form[0], ("client_id", "c9")]).await.assert_unauthenticated();
    }
    Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
}

#[tokio::test]
async fn rev_06_both_ways_to_send_a_secret_work_and_not_together() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    let form = [("token", tokens.refresh.as_str()), ("client_id", "c1"), ("client_secret", "secret of c1")];
    let header = [("authorization", basic("c1", "secret of c1"))];
    let header = [(header[0].0, header[0].1.as_str())];
    provider.post("/oauth/revoke", &header, &form).await.assert_error(400, "invalid_request");
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    assert_eq!(provider.post("/oauth/revoke", &[], &form).await.status, 200);
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn rev_08_a_public_client_revokes_with_its_id_alone() {
    let provider = Provider::new().await;
    let tokens = provider.p1().tokens(OFFLINE).await;
    assert_eq!(provider.p1().revoke(&tokens.refresh).await.status, 200);
    provider.p1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn rev_09_a_wrong_hint_has_no_effect() {
    let provider = Provider::new().await;
    for hint in ["access_token", "refresh_token", "saml2", ""] {
        let tokens = provider.c1().tokens(OFFLINE).await;
        let fields = [("token", tokens.access.as_str()), ("token_type_hint", hint)];
        assert_eq!(provider.c1().post("/oauth/revoke", &fields).await.status, 200);
        provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
        let fields = [("token", tokens.refresh.as_str()), ("token_type_hint", hint)];
        assert_eq!(provider.c1().post("/oauth/revoke", &fields).await.status, 200);
        provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    }
}

#[tokio::test]
async fn rev_11_only_a_form_by_post_is_read() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens(OFFLINE).await;
    let reply = provider.get("/oauth/revoke").await;
    reply.assert_error(405, "method_not_allowed");
    assert_eq!(reply.header("allow"), Some("POST"));
    let header = basic("c1", "secret of c1");
    let json = format!(r#"{{"token":"{}"}}"#, tokens.refresh);
    let headers = [("authorization", header.as_str()), ("content-type", "application/json")];
    provider.request("POST", "/oauth/revoke", &headers, &json).await.assert_error(400, "invalid_request");
    let headers = [("authorization", header.as_str()), FORM];
    for body in [
        format!("token={0}&token={0}", tokens.refresh),
        format!("token={}&token=", tokens.refresh),
        format!("token={}&token_type_hint=a&token_type_hint=b", tokens.refresh),
    ] {
        provider.request("POST", "/oauth/revoke", &headers, &body).await.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
}

#[tokio::test]
async fn rev_14_a_script_of_another_origin_may_revoke_its_token() {
    let provider = Provider::new().await;
    let origin = ("origin", "https://spa.test");
    let preflight =
        [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "content-type")];
    let preflight = provider.request("OPTIONS", "/oauth/revoke", &preflight, "").await;
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("POST"));
    let tokens = provider.p1().tokens(OFFLINE).await;
    let form = [("token", tokens.refresh.as_str()), ("client_id", "p1")];
    let revoked = provider.post("/oauth/revoke", &[origin], &form).await;
    let refused = provider.post("/oauth/revoke", &[origin], &form[1..]).await;
    assert_eq!((revoked.status, refused.status), (200, 400));
    for reply in [preflight, revoked, refused] {
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rev_01_a_revocation_holds_despite_concurrent_refreshes() {
    let provider = Arc::new(Provider::new().await);
    for _ in 0..8 {
        let first = provider.c1().tokens(OFFLINE).await;
        let refresh = tokio::spawn({
            let (provider, token) = (Arc::clone(&provider), first.refresh.clone());
            async move { provider.c1().refresh(&token).await }
        });
        let revoke = tokio::spawn({
            let (provider, token) = (Arc::clone(&provider), first.refresh.clone());
            async move { provider.c1().revoke(&token).await }
        });
        let (refreshed, revoked) = (refresh.await.unwrap(), revoke.await.unwrap());
        assert_eq!(revoked.status, 200);
        provider.userinfo(&first.access).await.assert_bearer_error(401, "invalid_token");
        if refreshed.status == 200 {
            let second = Tokens::of(&refreshed);
            provider.userinfo(&second.access).await.assert_bearer_error(401, "invalid_token");
            provider.c1().refresh(&second.refresh).await.assert_error(400, "invalid_grant");
        } else {
            refreshed.assert_error(400, "invalid_grant");
        }
    }
}
