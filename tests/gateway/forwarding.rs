//! Tests the requests that the application receives.

use crate::browser::Browser;
use crate::world::{ANNA, World};

const FORGED: &[(&str, &str)] = &[
    ("x-forwarded-user", "forged"),
    ("x_forwarded_user", "forged"),
    ("x-forwarded_email", "forged"),
    ("x.forwarded.groups", "forged"),
    ("x-forwarded-name", "forged"),
    ("x-forwarded-preferred-username", "forged"),
    ("x-forwarded-access-token", "forged"),
    ("x-sealgate-assertion", "forged"),
    ("x_sealgate_user", "forged"),
    ("x-forwarded-for", "forged"),
    ("x-forwarded-host", "forged"),
    ("x-forwarded-proto", "forged"),
    ("x-real-ip", "forged"),
    ("forwarded", "for=forged"),
    ("x-original-url", "/forged"),
    ("X_Rewrite_URL", "/forged"),
    ("x-forwarded-uri", "/forged"),
    ("x-forwarded-prefix", "/forged"),
    ("x-script-name", "/forged"),
    ("proxy", "http://forged.test"),
    ("x-forwarded-scheme", "forged"),
    ("x-forwarded-ssl", "forged"),
    ("x-forwarded-protocol", "forged"),
    ("x-forwarded-by-nobody-yet", "forged"),
    ("x-forwarded", "forged"),
    ("front-end-https", "forged"),
    ("front_end_https", "forged"),
    ("x-url-scheme", "forged"),
    ("x_scheme", "forged"),
    ("true-client-ip", "forged"),
    ("x-client-ip", "forged"),
    ("client-ip", "forged"),
    ("x-cluster-client-ip", "forged"),
    ("cf-connecting-ip", "forged"),
    ("wl-proxy-client-ip", "forged"),
    ("http_client_ip", "forged"),
    ("x-original-host", "forged"),
    ("x-arr-clientcert", "forged"),
    ("x-ssl-client-verify", "forged"),
    ("ssl-client-cert", "forged"),
];

#[tokio::test]
async fn forged_headers_reach_no_application() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let fields = [FORGED, &[("x-forwarded-for", "forged"), ("x-forwarded-user", "forged")]].concat();
    for path in ["/", "/public/"] {
        let reply = browser.send("GET", &format!("https://wiki.test{path}"), &fields, "").await;
        reply.arrived();
        for (name, value) in &reply.headers {
            assert!(!value.to_str().unwrap().contains("forged"), "{path}: {name}");
        }
        assert_eq!(reply.header("x-forwarded-for"), Some("192.0.2.1"));
        assert_eq!(reply.header("x-forwarded-host"), Some("wiki.test"));
        assert_eq!(reply.header("x-forwarded-proto"), Some("https"));
    }
}

#[tokio::test]
async fn a_public_path_receives_no_identity() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let token = format!("Bearer {}", world.access_token("openid").await);
    for fields in [vec![], vec![("authorization", token.as_str())]] {
        let reply = browser.send("GET", "https://wiki.test/public/", &fields, "").await;
        reply.arrived();
        for name in ["x-forwarded-user", "authorization", "cookie"] {
            assert_eq!(reply.header(name), None);
        }
    }
}

#[tokio::test]
async fn an_access_token_of_ours_reaches_no_application() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let token = world.access_token("openid").await;
    let sent = |scheme: &str| format!("{scheme}{token}");
    let spellings = ["Bearer ", "bearer\t", "Bearer  ", "", "DPoP ", "Token token="];
    let public = async |authorization: &str| {
        let reply = world.call("GET", "https://wiki.test/public/", &[("authorization", authorization)]).await;
        reply.arrived();
        reply.header("authorization").map(str::to_owned)
    };
    for scheme in spellings {
        assert_eq!(public(&sent(scheme)).await, None, "{scheme:?}");
    }
    // Together with a session, in a scheme of the application.
    let reply = browser.send("GET", "https://wiki.test/", &[("authorization", &sent("DPoP "))], "").await;
    reply.arrived();
    assert_eq!(reply.header("authorization"), None);
    // An expired or damaged token is still hidden from the application.
    world.wait(1_000_000);
    let (claims, _) = token.rsplit_once('.').unwrap();
    for spoilt in [sent("Bearer "), format!("Bearer {claims}.AAAA")] {
        assert_eq!(public(&spoilt).await, None, "{spoilt}");
    }
    // A token for the admin API, which is sent to the wrong server.
    for api in ["Bearer sealgate_api_x", "Token sealgate_api_x"] {
        assert_eq!(public(api).await, None, "{api}");
    }
    // Foreign credentials are forwarded unchanged.
    let body = |text: &str| sealgate_domain::secret::base64url(text.as_bytes());
    let header = body(r#"{"alg":"RS256","typ":"at+jwt","kid":"k"}"#);
    let foreign = format!("Bearer {header}.{}.AAAA", body(r#"{"iss":"https://id.test.evil"}"#));
    for other in [foreign.as_str(), "Bearer opaque", "Basic dTpw", "Bearer eyJ.eyJ.x"] {
        assert_eq!(public(other).await.as_deref(), Some(other));
    }
}

#[tokio::test]
async fn a_non_ascii_cookie_hides_no_other_cookie() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    for host in ["wiki.test", "id.test"] {
        // Their names sort before and after the session cookie.
        browser.set_cookie(host, "AD", "Ayşe");
        browser.set_cookie(host, "zil", "İstanbul ğ");
    }
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let reply = browser.fetch("https://wiki.test/").await;
    assert_eq!(reply.header("cookie"), Some("AD=Ayşe; zil=İstanbul ğ"));
    assert_eq!(reply.header("x-forwarded-email"), Some(ANNA));
    // The cookie is in ISO-8859-9, and has bytes at its ends that some parsers treat as white
    // space.
    let own = browser.cookie("wiki.test", "__Host-sealgate").unwrap();
    let theirs = [b"\xa0ad=Ay\xfee\xa0".as_slice(), b"\xff"].join(b"; ".as_slice());
    let line = [theirs.as_slice(), b"; __Host-sealgate=", own.as_bytes()].concat();
    let mut request = crate::world::request("GET", "https://wiki.test/", &[], "");
    request.headers_mut().insert("cookie", http::HeaderValue::from_bytes(&line).unwrap());
    let reply = world.send("192.0.2.1", request).await;
    reply.arrived();
    assert_eq!(reply.headers["cookie"].as_bytes(), theirs);
}

#[tokio::test]
async fn only_the_applications_cookies_are_forwarded() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    assert_eq!(browser.fetch("https://wiki.test/").await.header("cookie"), None);
    browser.set_cookie("wiki.test", "PHPSESSID", "a=b%20c");
    browser.set_cookie("wiki.test", "_theme", "\"dark\"");
    let reply = browser.fetch("https://wiki.test/").await;
    assert_eq!(reply.header("cookie"), Some("PHPSESSID=a=b%20c; _theme=\"dark\""));
}

#[tokio::test]
async fn the_applications_own_authorization_is_forwarded_with_a_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let reply = browser.send("GET", "https://wiki.test/", &[("authorization", "Basic dTpw")], "").await;
    assert_eq!(reply.header("authorization"), Some("Basic dTpw"));
    assert_eq!(reply.header("x-forwarded-email"), Some(ANNA));
    // The header has no credential of this provider.
    let reply = world.call("GET", "https://wiki.test/", &[("authorization", "Basic dTpw")]).await;
    reply.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_user_without_groups_gets_no_groups_header() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", crate::world::BEN).await;
    let reply = browser.send("GET", "https://wiki.test/", &[("x-forwarded-groups", "staff")], "").await;
    assert_eq!(reply.header("x-forwarded-groups"), None);
    assert_eq!(reply.header("x-forwarded-name"), Some("Ben"));
}

#[tokio::test]
async fn a_user_with_too_many_groups_for_a_header_is_refused() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let change = |user: &mut sealgate_domain::user::User| {
        user.groups = (0..2000).map(|number| format!("group-{number}")).collect();
    };
    world.sealgate.store.change_user(world.anna.sub, change).await.unwrap();
    browser.fetch("https://wiki.test/").await.assert_refused(500, "server_error");
    browser.visit("https://wiki.test/").await.assert_page(500);
}

const WITH_TOKENS: &str = r#"
    [[app]]
    name = "board"
    host = "board.test"
    upstreams = ["http://127.0.0.1:8081"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    application_tokens = true
    [[app.route]]
    path = "/strict/"
    access = "signed_in"
"#;

#[tokio::test]
async fn the_applications_own_tokens_are_forwarded_next_to_a_session() {
    let world = World::with(WITH_TOKENS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://board.test/", ANNA).await.arrived();
    // A JWT of the application, an opaque token, and one in characters that RFC 6750 does not allow.
    for token in ["Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJib2FyZCJ9.", "bearer opaque", "Bearer a b;c"] {
        let fields = [("authorization", token)];
        let reply = browser.send("GET", "https://board.test/api", &fields, "").await;
        reply.arrived();
        assert_eq!(reply.header("authorization"), Some(token));
        assert_eq!(reply.header("x-forwarded-email"), Some(ANNA));
        browser.send("GET", "https://board.test/strict/", &fields, "").await.assert_refused(401, "invalid_token");
        // Without a session the token opens nothing.
        world.call("GET", "https://board.test/api", &fields).await.assert_refused(401, "login_required");
    }
    // A token of ours decides, and is not forwarded. A forged one is refused.
    let token = format!("Bearer {}", world.access_token("openid").await);
    let reply = world.call("GET", "https://board.test/api", &[("authorization", &token)]).await;
    reply.arrived();
    assert_eq!(reply.header("authorization"), None);
    let forged = format!("{}.AAAA", token.rsplit_once('.').unwrap().0);
    let refused = browser.send("GET", "https://board.test/api", &[("authorization", &forged)], "").await;
    refused.assert_refused(401, "invalid_token");
    // Two headers are ambiguous.
    let two = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
    assert_eq!(browser.send("GET", "https://board.test/api", &two, "").await.answered_with() / 100, 4);
}
