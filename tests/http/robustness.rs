//! Tests malformed requests of every kind, and a store that accepts no writes (cases MISC).

use crate::support::{FORM, ISSUER, Provider, Reply, Tokens, basic};

const PATHS: [&str; 17] = [
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server",
    "/oauth/jwks",
    "/oauth/token",
    "/oauth/userinfo",
    "/oauth/revoke",
    "/oauth/register",
    "/oauth/register/c1",
    "/oauth/authorize",
    "/oauth/resume",
    "/oauth/login",
    "/oauth/consent",
    "/oauth/select-account",
    "/oauth/logout",
    "/oauth/logout/confirm",
    "/oauth/signed-out",
    "/oauth/style.css",
];

/// Limits that permit many requests from one address.
const ROOM: &str = "[rate_limits]\npages = 4095\nauthorize = 4095\nregister = 4095\ntoken = 4095\nrevoke = 4095\n\
                    userinfo = 4095\nlogout = 4095";

#[track_caller]
fn assert_away(reply: &Reply) {
    reply.assert_error(503, "temporarily_unavailable");
    let seconds: u64 = reply.header("retry-after").expect("when to come again").parse().unwrap();
    assert!(seconds >= 1);
    let text = reply.text();
    assert!(!text.contains("store") && !text.contains("switched off"), "{text}");
}

#[tokio::test]
async fn misc_01_every_json_error_has_the_same_shape() {
    let provider = Provider::with(ROOM).await;
    let tokens = provider.c1().tokens("openid offline_access").await;
    let narrow = Tokens::of(&provider.c1().refresh_with_scope(&tokens.refresh, "offline_access").await);
    let replies = [
        (400, "invalid_request", provider.c1().token(&[]).await),
        (401, "invalid_client", provider.post("/oauth/token", &[], &[]).await),
        (400, "invalid_grant", provider.c1().redeem("x").await),
        (400, "invalid_scope", provider.c1().refresh_with_scope(&narrow.refresh, "phone").await),
        (400, "unsupported_grant_type", provider.c1().token(&[("grant_type", "x")]).await),
        (401, "invalid_token", provider.userinfo("x").await),
        (401, "invalid_token", provider.get("/oauth/userinfo").await),
        (403, "insufficient_scope", provider.userinfo(&narrow.access).await),
        (400, "invalid_request", provider.c1().revoke("").await),
        (401, "invalid_token", provider.request("POST", "/oauth/register", &[], "{}").await),
        (401, "invalid_token", provider.get("/oauth/register/c1").await),
        (404, "not_found", provider.get("/nope").await),
        (405, "method_not_allowed", provider.get("/oauth/token").await),
        (405, "method_not_allowed", provider.request("PUT", "/oauth/login", &[], "").await),
    ];
    for (status, error, reply) in &replies {
        reply.assert_error(*status, error);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("set-cookie"), None);
    }
}

#[tokio::test]
async fn misc_02_a_read_only_store_is_503_and_consumes_nothing() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let tokens = client.tokens("openid offline_access").await;
    let code = client.code(&[("scope", "openid offline_access")]).await;
    provider.engine.refuse_writes(true);

    assert_away(&client.redeem(&code).await);
    assert_away(&client.refresh(&tokens.refresh).await);
    assert_away(&client.revoke(&tokens.access).await);
    assert_away(&client.revoke(&tokens.refresh).await);
    // Requests without a write are still answered: keys, metadata, issued tokens, rejections.
    assert_eq!(provider.get("/oauth/jwks").await.status, 200);
    assert_eq!(provider.get("/.well-known/openid-configuration").await.json()["issuer"], ISSUER);
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    client.redeem("x").await.assert_error(400, "invalid_grant");
    let page = provider.browser().get(&client.authorize(&[])).await;
    assert_eq!(page.returned("error").as_deref(), Some("temporarily_unavailable"));
    page.assert_error_redirect("temporarily_unavailable");

    provider.engine.refuse_writes(false);
    let redeemed = Tokens::of(&client.redeem(&code).await);
    let renewed = Tokens::of(&client.refresh(&tokens.refresh).await);
    for access in [&tokens.access, &redeemed.access, &renewed.access] {
        assert_eq!(provider.userinfo(access).await.status, 200);
    }
}

/// A replay that cannot be recorded is still rejected, and ends the grant when it is repeated.
#[tokio::test]
async fn misc_02_a_replay_during_a_read_only_store_is_refused() {
    let provider = Provider::new().await;
    let client = provider.c1();
    let code = client.code(&[("scope", "openid offline_access")]).await;
    let first = Tokens::of(&client.redeem(&code).await);
    let second = Tokens::of(&client.refresh(&first.refresh).await);
    provider.engine.refuse_writes(true);
    assert_away(&client.redeem(&code).await);
    assert_away(&client.refresh(&first.refresh).await);
    provider.engine.refuse_writes(false);
    client.redeem(&code).await.assert_error(400, "invalid_grant");
    client.refresh(&second.refresh).await.assert_error(400, "invalid_grant");
    provider.userinfo(&second.access).await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn misc_02_a_registration_that_cannot_be_written_is_503() {
    let provider = Provider::with("[registration]\nmode = \"open\"").await;
    provider.engine.refuse_writes(true);
    let body = r#"{"redirect_uris":["https://rp.test/cb"]}"#;
    let headers = [("content-type", "application/json")];
    assert_away(&provider.request("POST", "/oauth/register", &headers, body).await);
    provider.engine.refuse_writes(false);
    assert_eq!(provider.request("POST", "/oauth/register", &headers, body).await.status, 201);
}

#[tokio::test]
async fn misc_04_another_spelling_of_a_path_is_another_path() {
    let provider = Provider::with(ROOM).await;
    let header = basic("c1", "secret of c1");
    for path in PATHS.into_iter().filter(|path| *path != "/oauth/register") {
        for spelling in [
            format!("{path}/"),
            format!("/{path}"),
            path.to_uppercase(),
            path.replace("/o", "/O"),
            path.replace("/o", "/%6F"),
            path.replace("/o", "/./o"),
            path.replace("/o", "/x/../o"),
            path.replace("/o", "//o"),
            format!("{path};x=1"),
            format!("{path}%00"),
            format!("{path}%20"),
            format!("{path}%2f"),
            format!("{path}."),
        ] {
            // Any id may follow a registration's path.
            if spelling == path || (path == "/oauth/register/c1" && spelling.starts_with("/oauth/register/c1")) {
                continue;
            }
            for method in ["GET", "POST"] {
                let reply = provider.request(method, &spelling, &[FORM, ("authorization", &header)], "").await;
                assert_eq!(reply.status, 404, "{method} {spelling}");
                reply.assert_error(404, "not_found");
            }
        }
    }
    for path in ["/oauth/register/", "/oauth/register/c1/", "/oauth/register/a/b"] {
        provider.get(path).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn misc_04_a_query_does_not_change_the_route() {
    let provider = Provider::new().await;
    assert_eq!(provider.get("/oauth/jwks?x=/oauth/token").await.status, 200);
    assert_eq!(provider.get("/.well-known/openid-configuration?a&b=%zz&c=%ff").await.status, 200);
}

#[tokio::test]
async fn misc_07_other_methods_are_405_with_the_allowed_ones() {
    let provider = Provider::with(ROOM).await;
    for path in PATHS {
        for method in ["TRACE", "CONNECT", "PATCH", "PROPFIND", "FOO", "get", "post"] {
            let reply = provider.request(method, path, &[], "").await;
            reply.assert_error(405, "method_not_allowed");
            assert!(!reply.header("allow").unwrap().is_empty(), "{path}");
        }
    }
}

/// Inputs that break parsers, used as values, names and bodies.
const HOSTILE: &[&str] = &[
    "",
    "%",
    "%%%",
    "%zz",
    "%ff%fe",
    "%00",
    "%0d%0aSet-Cookie:%20a=b",
    "ş%c4%b1",
    "%f0%9f%92%a9",
    "a=b=c",
    "&&&&",
    "====",
    "a[]=1&a[0]=2",
    "+",
    "'\"><script>alert(1)</script>",
    "{{7*7}}${7*7}",
    "../../../../etc/passwd",
    "https://evil.test/",
    "\u{202e}\u{feff}\u{2028}",
    "-1",
    "99999999999999999999999999",
    "null",
    "{\"a\":1}",
    "eyJhbGciOiJub25lIn0.e30.",
];

#[tokio::test]
async fn misc_01_no_unauthenticated_request_causes_a_500() {
    let provider = Provider::with(ROOM).await;
    let header = basic("c1", "secret of c1");
    let long = "x".repeat(60_000);
    let many = "a&".repeat(1000);
    for body in HOSTILE.iter().copied().chain([long.as_str(), many.as_str()]) {
        // Every input gets a new rate limit window.
        provider.wait(60);
        let encoded: String = url::form_urlencoded::byte_serialize(body.as_bytes()).collect();
        let fields = [
            "client_id",
            "client_secret",
            "grant_type",
            "code",
            "redirect_uri",
            "code_verifier",
            "refresh_token",
            "scope",
            "token",
            "token_type_hint",
            "id_token_hint",
            "post_logout_redirect_uri",
            "state",
            "csrf",
            "interaction",
        ];
        let form: String = fields.map(|field| format!("{field}={encoded}")).join("&");
        for path in PATHS {
            for sent in [body, form.as_str()] {
                for headers in
                    [&[FORM][..], &[FORM, ("authorization", &header)], &[("content-type", "application/json")]]
                {
                    check(&provider.request("POST", path, headers, sent).await, path, sent);
                    check(&provider.request("PUT", path, headers, sent).await, path, sent);
                }
            }
            // A request line contains visible characters only.
            if body.len() < 1000 {
                check(&provider.get(&format!("{path}?{encoded}")).await, path, body);
                check(&provider.get(&format!("{path}?client_id=c1&scope={encoded}&state={encoded}")).await, path, body);
            }
        }
    }
}

#[track_caller]
fn check(reply: &Reply, path: &str, sent: &str) {
    assert!(reply.status < 500 && reply.status != 429, "{path} {sent:.100}: {reply:?}");
    assert!(!reply.text().contains("<script>alert"), "{path} {sent}");
    assert!(reply.headers("set-cookie").all(|cookie| !cookie.starts_with("a=")), "{path} {sent}");
}

#[tokio::test]
async fn misc_01_no_head_causes_a_500() {
    let provider = Provider::with(ROOM).await;
    let long = "x".repeat(8000);
    for value in ["", " ", ",", ";", "=", "\"", "\t", "\u{e9}", "%00", "Basic", "Bearer", "a, b, c", &long] {
        provider.wait(60);
        for name in [
            "authorization",
            "content-type",
            "accept",
            "accept-language",
            "cookie",
            "origin",
            "user-agent",
            "referer",
            "x-forwarded-for",
            "forwarded",
            "access-control-request-method",
            "range",
            "if-none-match",
            "expect",
        ] {
            for path in PATHS {
                check(&provider.request("GET", path, &[(name, value)], "").await, path, value);
                check(&provider.request("POST", path, &[FORM, (name, value)], "a=b").await, path, value);
                check(&provider.request("OPTIONS", path, &[(name, value)], "").await, path, value);
            }
        }
    }
}
