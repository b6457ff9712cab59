//! Tests client authentication at the token and revocation endpoints (RFC 6749 §2.3, §5.2; cases
//! CAUT).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealgate_domain::client::{ClientSecret, ClientState, GrantType};
use sealgate_domain::secret::Secret;

use crate::support::{FORM, Provider, Reply, Tokens, VERIFIER, basic, redemption};

/// Redeems the code with this Authorization header and a changed form.
async fn redeem(provider: &Provider, authorization: &str, code: &str, changes: &[(&str, &str)]) -> Reply {
    provider.post("/oauth/token", &[("authorization", authorization)], &redemption(code, changes)).await
}

/// Redeems the code without an Authorization header.
async fn redeem_by_form(provider: &Provider, code: &str, changes: &[(&str, &str)]) -> Reply {
    provider.post("/oauth/token", &[], &redemption(code, changes)).await
}

/// Returns a `Basic` header with exactly these bytes, without form encoding.
fn raw_basic(bytes: &[u8]) -> String {
    format!("Basic {}", STANDARD.encode(bytes))
}

#[tokio::test]
async fn caut_01_basic_credentials_are_accepted() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    Tokens::of(&redeem(&provider, &basic("c1", "secret of c1"), &code, &[]).await);
}

#[tokio::test]
async fn caut_02_credentials_in_the_form_are_accepted() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let credentials = [("client_id", "c1"), ("client_secret", "secret of c1")];
    Tokens::of(&redeem_by_form(&provider, &code, &credentials).await);
}

#[tokio::test]
async fn caut_03_a_public_client_names_itself_and_proves_its_code() {
    let provider = Provider::new().await;
    let code = provider.p1().code(&[]).await;
    Tokens::of(&redeem_by_form(&provider, &code, &[("client_id", "p1"), ("code_verifier", VERIFIER)]).await);
}

#[tokio::test]
async fn caut_04_a_wrong_secret_is_401_and_leaves_the_code_issued() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    redeem(&provider, &basic("c1", "wrong"), &code, &[]).await.assert_unauthenticated();
    redeem(&provider, &basic("c1", "secret of c2"), &code, &[]).await.assert_unauthenticated();
    let credentials = [("client_id", "c1"), ("client_secret", "wrong")];
    redeem_by_form(&provider, &code, &credentials).await.assert_unauthenticated();
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn caut_05_an_unknown_client_and_a_wrong_secret_get_the_same_answer() {
    let provider = Provider::new().await;
    let visible = |reply: &Reply| {
        reply.assert_unauthenticated();
        let challenge = reply.header("www-authenticate").map(str::to_owned);
        (reply.status, reply.text().to_owned(), challenge, reply.allowance().limit, reply.allowance().remaining)
    };
    let known = redeem(&provider, &basic("c1", "wrong"), "x", &[]).await;
    let unknown = redeem(&provider, &basic("c9", "wrong"), "x", &[]).await;
    assert_eq!(visible(&known), visible(&unknown));
    let known = redeem_by_form(&provider, "x", &[("client_id", "c1"), ("client_secret", "wrong")]).await;
    let unknown = redeem_by_form(&provider, "x", &[("client_id", "c9"), ("client_secret", "wrong")]).await;
    assert_eq!(known.text(), unknown.text());
    unknown.assert_unauthenticated();
}

#[tokio::test]
async fn caut_08_broken_authorization_headers_are_401() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let right = basic("c1", "secret of c1");
    let headers = [
        String::new(),
        "Basic".into(),
        "Basic ".into(),
        "Basic !!!!".into(),
        "Basic =".into(),
        right.replace("Basic ", "Basic"),
        right.replace("Basic ", "Basic:"),
        right.replace("Basic ", ""),
        right.replace("Basic ", "Digest "),
        right.replace("Basic ", "Bearer "),
        format!("{right} {right}"),
        format!("{right}, {right}"),
        "Bearer x".into(),
        raw_basic(b"c1"),
        raw_basic(b":"),
        raw_basic(b"c1:"),
        raw_basic(b":secret of c1"),
        raw_basic(b" c1:secret of c1"),
        raw_basic(b"c1:secret of c1\0"),
        raw_basic(b"c1:secret of c1\n"),
        raw_basic(b"c1:\xff\xfe"),
        raw_basic(b"\xff:secret of c1"),
        raw_basic(b"C1:secret of c1"),
        raw_basic(&[b"c1:", "x".repeat(7000).as_bytes()].concat()),
    ];
    for header in headers {
        let reply = redeem(&provider, &header, &code, &[]).await;
        assert_eq!(reply.status, 401, "{header:?}: {reply:?}");
        reply.assert_unauthenticated();
    }
    Tokens::of(&redeem(&provider, &right, &code, &[]).await);
}

#[tokio::test]
async fn caut_08_two_authorization_headers_are_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let right = basic("c1", "secret of c1");
    let headers = [("authorization", right.as_str()), ("authorization", right.as_str())];
    let reply = provider.post("/oauth/token", &headers, &redemption(&code, &[])).await;
    reply.assert_error(400, "invalid_request");
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn caut_09_the_scheme_is_case_insensitive_with_any_number_of_spaces() {
    let provider = Provider::new().await;
    for scheme in ["basic ", "BASIC ", "bAsIc  "] {
        let code = provider.c1().code(&[]).await;
        let header = basic("c1", "secret of c1").replace("Basic ", scheme);
        Tokens::of(&redeem(&provider, &header, &code, &[]).await);
    }
}

#[tokio::test]
async fn caut_10_two_methods_at_once_are_refused_even_if_both_are_correct() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let header = basic("c1", "secret of c1");
    for secret in ["secret of c1", "wrong"] {
        let both = [("client_id", "c1"), ("client_secret", secret)];
        redeem(&provider, &header, &code, &both).await.assert_error(400, "invalid_request");
        redeem(&provider, &header, &code, &[("client_secret", secret)]).await.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn caut_12_the_form_may_repeat_the_id_of_the_header() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let header = basic("c1", "secret of c1");
    redeem(&provider, &header, &code, &[("client_id", "c2")]).await.assert_error(400, "invalid_request");
    redeem(&provider, &header, &code, &[("client_id", "p1")]).await.assert_error(400, "invalid_request");
    // An empty parameter counts as omitted.
    Tokens::of(&redeem(&provider, &header, &code, &[("client_id", "c1"), ("client_secret", "")]).await);
}

#[tokio::test]
async fn caut_13_a_confidential_client_must_authenticate() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    for credentials in [&[("client_id", "c1")][..], &[("client_id", "c1"), ("client_secret", "")]] {
        redeem_by_form(&provider, &code, credentials).await.assert_unauthenticated();
    }
    redeem(&provider, &raw_basic(b"c1:"), &code, &[]).await.assert_unauthenticated();
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn caut_14_a_public_client_that_sends_a_secret_is_refused() {
    let provider = Provider::new().await;
    let code = provider.p1().code(&[]).await;
    let proof = ("code_verifier", VERIFIER);
    let credentials = [("client_id", "p1"), ("client_secret", "x"), proof];
    redeem_by_form(&provider, &code, &credentials).await.assert_unauthenticated();
    redeem(&provider, &raw_basic(b"p1:x"), &code, &[proof]).await.assert_unauthenticated();
    // An empty password is no secret: the client stays public and its code still needs the verifier.
    redeem(&provider, &raw_basic(b"p1:"), &code, &[]).await.assert_error(400, "invalid_request");
    Tokens::of(&redeem(&provider, &raw_basic(b"p1:"), &code, &[proof]).await);
}

#[tokio::test]
async fn caut_15_a_request_without_credentials_is_401() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    redeem_by_form(&provider, &code, &[]).await.assert_unauthenticated();
    redeem_by_form(&provider, &code, &[("client_id", "")]).await.assert_unauthenticated();
    redeem_by_form(&provider, &code, &[("client_secret", "secret of c1")]).await.assert_unauthenticated();
    redeem_by_form(&provider, &code, &[("client_id", "c1 "), ("client_secret", "secret of c1")])
        .await
        .assert_unauthenticated();
}

/// RFC 6749 §2.3.1: credentials "MUST NOT be included in the request URI".
#[tokio::test]
async fn caut_15_credentials_in_the_query_are_ignored() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let path = "/oauth/token?client_id=c1&client_secret=secret+of+c1";
    provider.post(path, &[], &redemption(&code, &[])).await.assert_unauthenticated();
}

#[tokio::test]
async fn caut_18_a_client_with_a_secret_sends_no_assertion() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let assertion = [
        ("client_id", "c1"),
        ("client_assertion", "eyJhbGciOiJub25lIn0.e30."),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
    ];
    redeem_by_form(&provider, &code, &assertion).await.assert_unauthenticated();
    redeem(&provider, &basic("c1", "secret of c1"), &code, &assertion).await.assert_error(400, "invalid_request");
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn caut_19_a_disabled_client_is_refused_and_its_tokens_stop_at_once() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    provider.change_client("c1", |client| client.state = ClientState::Disabled).await;
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    provider.c1().refresh(&tokens.refresh).await.assert_unauthenticated();
    provider.c1().revoke(&tokens.refresh).await.assert_unauthenticated();
}

#[tokio::test]
async fn caut_19_a_disabled_public_client_is_refused() {
    let provider = Provider::new().await;
    let tokens = provider.p1().tokens("openid offline_access").await;
    provider.change_client("p1", |client| client.state = ClientState::Disabled).await;
    provider.p1().refresh(&tokens.refresh).await.assert_unauthenticated();
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
}

/// RFC 6749 §2.3.1 and appendix B: id and secret are form-encoded before they are joined.
#[tokio::test]
async fn caut_01_a_secret_of_any_characters_works_in_both_places() {
    let provider = Provider::new().await;
    for (number, secret) in
        ["a+b c", "100%", "%41", "a:b:c", ":", "ş&=?/#", "\"\\", " leading and trailing "].iter().enumerate()
    {
        let id = format!("special-{number}");
        let mut client = provider.confidential(&id);
        client.secrets[0].hash = Secret::new(*secret).hash();
        provider.add_client(client).await;
        // A valid refresh token is not needed: `invalid_grant` shows that the authentication
        // succeeded.
        let grant = [("grant_type", "refresh_token"), ("refresh_token", "RT_x")];
        let header = [("authorization", basic(&id, secret))];
        let header = [(header[0].0, header[0].1.as_str())];
        provider.post("/oauth/token", &header, &grant).await.assert_error(400, "invalid_grant");
        let form = [&grant[..], &[("client_id", id.as_str()), ("client_secret", secret)]].concat();
        provider.post("/oauth/token", &[], &form).await.assert_error(400, "invalid_grant");
    }
}

#[tokio::test]
async fn caut_01_every_octet_of_basic_credentials_may_be_percent_encoded() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let header = raw_basic(b"%631:%73ecret%20of%20c1");
    Tokens::of(&redeem(&provider, &header, &code, &[]).await);
}

#[tokio::test]
async fn caut_01_two_secrets_work_while_a_rotation_overlaps() {
    let provider = Provider::new().await;
    let now = sealgate_system::clock::Clock::now(provider.clock.as_ref());
    let end = now.plus(std::time::Duration::from_mins(1));
    provider
        .change_client("c1", |client| {
            client.secrets[0].expires_at = Some(end);
            client.secrets.push(ClientSecret { hash: Secret::new("new").hash(), created_at: now, expires_at: None });
        })
        .await;
    let grant = [("grant_type", "refresh_token"), ("refresh_token", "RT_x")];
    let attempt = async |secret: &str| {
        let header = basic("c1", secret);
        provider.post("/oauth/token", &[("authorization", &header)], &grant).await
    };
    attempt("secret of c1").await.assert_error(400, "invalid_grant");
    attempt("new").await.assert_error(400, "invalid_grant");
    provider.wait(60);
    attempt("secret of c1").await.assert_unauthenticated();
    attempt("new").await.assert_error(400, "invalid_grant");
}

/// K4: an authenticated client that may not use a grant gets `unauthorized_client`, not
/// `invalid_client`.
#[tokio::test]
async fn caut_12_a_grant_that_the_client_may_not_use_is_unauthorized_client() {
    let provider = Provider::new().await;
    provider.change_client("c1", |client| client.grant_types = vec![GrantType::AuthorizationCode]).await;
    provider.c1().refresh("RT_x").await.assert_error(400, "unauthorized_client");
}

#[tokio::test]
async fn caut_15_missing_credentials_are_reported_before_an_invalid_body() {
    let provider = Provider::new().await;
    // Authentication is checked first, so that an unauthenticated client learns nothing about the
    // rest of the request.
    let reply = provider.request("POST", "/oauth/token", &[FORM], "grant_type=password").await;
    reply.assert_unauthenticated();
    let reply = provider.request("POST", "/oauth/revoke", &[FORM], "").await;
    reply.assert_unauthenticated();
}
