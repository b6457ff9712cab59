//! Tests the requests that the token endpoint accepts: grant types, forms, methods, sizes, other
//! origins (RFC 6749 §3.2, §5.2).

use crate::support::{FORM, Provider, REDIRECT_URI, Tokens, VERIFIER, basic, challenge, encode, redemption};

#[tokio::test]
async fn tok_14_other_grants_are_not_supported() {
    let provider = Provider::new().await;
    for grant in [
        "password",
        "client_credentials",
        "implicit",
        "urn:ietf:params:oauth:grant-type:device_code",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "AUTHORIZATION_CODE",
        "authorization_code ",
    ] {
        let reply = provider.c1().token(&[("grant_type", grant), ("username", "a"), ("password", "b")]).await;
        reply.assert_error(400, "unsupported_grant_type");
    }
}

#[tokio::test]
async fn tok_15_the_grant_type_is_required() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    for value in ["-", ""] {
        let reply = provider.c1().token(&redemption(&code, &[("grant_type", value)])).await;
        reply.assert_error(400, "invalid_request");
    }
    provider.c1().token(&[]).await.assert_error(400, "invalid_request");
    Tokens::of(&provider.c1().redeem(&code).await);
}

/// RFC 6749 §3.2: "Request and response parameters MUST NOT be included more than once."
#[tokio::test]
async fn tok_17_a_repeated_parameter_is_refused_and_the_code_stays_issued() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[("code_challenge", &challenge(VERIFIER)), ("code_challenge_method", "S256")]).await;
    let right = redemption(&code, &[("code_verifier", VERIFIER)]);
    for repeated in ["grant_type", "code", "redirect_uri", "code_verifier", "client_id", "scope", "refresh_token"] {
        let value = right.iter().find(|(name, _)| *name == repeated).map_or("c1", |(_, value)| value);
        for second in [value, "other", ""] {
            let mut fields = right.clone();
            fields.retain(|(name, _)| *name != repeated);
            fields.extend([(repeated, value), (repeated, second)]);
            let reply = provider.c1().token(&fields).await;
            assert_eq!(reply.status, 400, "{repeated} {second}: {reply:?}");
            reply.assert_error(400, "invalid_request");
        }
    }
    let twice = [("client_id", "c1"), ("client_secret", "secret of c1"), ("client_secret", "secret of c1")];
    provider.post("/oauth/token", &[], &[&right[..], &twice].concat()).await.assert_error(400, "invalid_request");
    Tokens::of(&provider.c1().token(&right).await);
}

#[tokio::test]
async fn tok_17_an_unknown_parameter_is_ignored_even_when_repeated() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let mut fields = redemption(&code, &[]);
    fields.extend([("extra", "1"), ("extra", "2"), ("audience", "x"), ("resource", "https://a"), ("state", "s")]);
    Tokens::of(&provider.c1().token(&fields).await);
}

#[tokio::test]
async fn tok_18_only_a_form_is_read() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let form = format!("grant_type=authorization_code&code={code}&redirect_uri={REDIRECT_URI}");
    let json = serde_json::json!({
        "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI,
    })
    .to_string();
    let multipart = format!("--b\r\nContent-Disposition: form-data; name=\"code\"\r\n\r\n{code}\r\n--b--\r\n");
    let header = basic("c1", "secret of c1");
    for (media_type, body) in [
        (Some("application/json"), &json),
        (Some("application/json"), &form),
        (Some("text/plain"), &form),
        (Some("application/x-www-form-urlencodedx"), &form),
        (Some(""), &form),
        (None, &form),
        (Some("multipart/form-data; boundary=b"), &multipart),
    ] {
        let mut headers = vec![("authorization", header.as_str())];
        headers.extend(media_type.map(|media_type| ("content-type", media_type)));
        let reply = provider.request("POST", "/oauth/token", &headers, body).await;
        reply.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.c1().redeem(&code).await);
}

#[tokio::test]
async fn tok_18_query_parameters_are_ignored() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let query = format!("/oauth/token?grant_type=authorization_code&code={code}&redirect_uri={REDIRECT_URI}");
    provider.c1().post(&query, &[]).await.assert_error(400, "invalid_request");
    let reply = provider.c1().post("/oauth/token?code=other&grant_type=password", &redemption(&code, &[])).await;
    Tokens::of(&reply);
}

#[tokio::test]
async fn tok_19_the_media_type_may_have_parameters_and_any_case() {
    let provider = Provider::new().await;
    let header = basic("c1", "secret of c1");
    for media_type in
        ["application/x-www-form-urlencoded; charset=UTF-8", "Application/X-WWW-Form-Urlencoded;charset=utf-8"]
    {
        let code = provider.c1().code(&[]).await;
        let body = format!("grant_type=authorization_code&code={code}&redirect_uri=https%3A%2F%2Frp.test%2Fcb");
        let headers = [("authorization", header.as_str()), ("content-type", media_type)];
        Tokens::of(&provider.request("POST", "/oauth/token", &headers, &body).await);
    }
}

#[tokio::test]
async fn tok_21_only_post_is_allowed() {
    let provider = Provider::new().await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH"] {
        let reply = provider.request(method, "/oauth/token", &[], "").await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")), "{method}");
    }
    provider.get("/oauth/token").await.assert_error(405, "method_not_allowed");
}

#[tokio::test]
async fn tok_22_a_body_beyond_the_limit_is_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let empty = encode(&redemption(&code, &[("padding", "")])).len();
    let of_size = |size: usize| "x".repeat(size - empty);
    for size in [64 * 1024 + 1, 1 << 21] {
        let reply = provider.c1().token(&redemption(&code, &[("padding", &of_size(size))])).await;
        reply.assert_error(413, "invalid_request");
    }
    Tokens::of(&provider.c1().token(&redemption(&code, &[("padding", &of_size(64 * 1024))])).await);
}

#[tokio::test]
async fn tok_22_too_many_parameters_are_refused() {
    let provider = Provider::new().await;
    let code = provider.c1().code(&[]).await;
    let of_length = |length: usize| {
        let mut fields = redemption(&code, &[]);
        fields.resize(length, ("a", "b"));
        fields
    };
    for length in [101, 10_000] {
        provider.c1().token(&of_length(length)).await.assert_error(400, "invalid_request");
    }
    Tokens::of(&provider.c1().token(&of_length(100)).await);
}

#[tokio::test]
async fn tok_33_a_script_of_another_origin_may_redeem_its_code() {
    let provider = Provider::new().await;
    let preflight = [
        ("origin", "https://spa.test"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let reply = provider.request("OPTIONS", "/oauth/token", &preflight, "").await;
    assert_eq!((reply.status, reply.text()), (204, ""));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    let allowed = reply.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
    assert!(allowed.contains("mcp-protocol-version"), "{allowed}");
    assert!(allowed.contains("authorization") && allowed.contains("content-type"));

    let code = provider.p1().code(&[]).await;
    let origin = [("origin", "https://spa.test")];
    let fields = redemption(&code, &[("client_id", "p1"), ("code_verifier", VERIFIER)]);
    let redeemed = provider.post("/oauth/token", &origin, &fields).await;
    let replayed = provider.post("/oauth/token", &origin, &fields).await;
    let unauthenticated = provider.request("POST", "/oauth/token", &[FORM, origin[0]], "").await;
    let wrong_method = provider.request("PUT", "/oauth/token", &origin, "").await;
    for (reply, status) in
        [(&reply, 204), (&redeemed, 200), (&replayed, 400), (&unauthenticated, 401), (&wrong_method, 405)]
    {
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
    }
}
