//! Applications with a wildcard in their host: each host of the wildcard has its own sign-in, session,
//! redirects and origin.

use crate::browser::{Browser, is_login};
use crate::world::{ANNA, BEN, Reply, World};

const APPS: &str = r#"
    [[app]]
    name = "previews"
    title = "Previews"
    host = "*.previews.test"
    upstreams = ["http://127.0.0.1:8091"]
    after_sign_out = "/bye"
    assertion = true
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/public/"
    access = "public"
    [[app.route]]
    path = "/listed/"
    access = "signed_in"
    cors_origins = ["https://www.test"]

    [[app]]
    name = "docs"
    host = "docs.previews.test"
    upstreams = ["http://127.0.0.1:8092"]
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

const COOKIE: &str = "__Host-sealgate";
/// Cookie that binds a sign-in to a browser.
const BROWSER: &str = "__Host-sealgate-browser";

async fn get(world: &World, url: &str) -> Reply {
    world.call("GET", url, &[]).await
}

#[tokio::test]
async fn a_request_belongs_to_the_wildcard_or_to_the_exact_host() {
    let world = World::with(APPS).await;
    for host in ["a.previews.test", "PR-17.Previews.test", "a.previews.test:8443"] {
        assert_eq!(
            get(&world, &format!("https://{host}/public/x")).await.arrived(),
            ("previews", "/public/x"),
            "{host}"
        );
    }
    get(&world, "https://docs.previews.test/public/x").await.assert_refused(401, "login_required");
    for host in [
        "previews.test",
        "a.b.previews.test",
        "*.previews.test",
        "-.previews.test",
        ".previews.test",
        "a.previews.test.",
    ] {
        let reply = get(&world, &format!("https://{host}/public/x")).await;
        assert_eq!(reply.answered_with(), 421, "{host}");
    }
}

#[tokio::test]
async fn the_sign_in_returns_to_the_host_where_it_started() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    let page = "https://a.previews.test/start?x=1&y=%2F";
    let begun = browser.visit(page).await;
    assert_eq!(begun.sent_with("redirect_uri").as_deref(), Some("https://a.previews.test/.sealgate/callback"));
    assert_eq!(begun.sent_with("client_id").as_deref(), Some("sealgate-app-previews.a"));
    let form = browser.follow(page, begun).await;
    assert!(form.text().contains("Previews"), "{}", form.text());
    let end = browser.sign_in(&form, ANNA).await;
    assert_eq!(end.arrived(), ("previews", "/start?x=1&y=%2F"));
    assert_eq!((end.header("host"), end.header("x-forwarded-email")), (Some("a.previews.test"), Some(ANNA)));
    // The next host needs no password, and gets a session of its own.
    assert_eq!(browser.jar("b.previews.test"), "");
    let end = browser.open("https://b.previews.test/other").await;
    assert_eq!(end.arrived(), ("previews", "/other"));
    let [at_a, at_b] = ["a", "b"].map(|label| browser.cookie(&format!("{label}.previews.test"), COOKIE).unwrap());
    assert_ne!(at_a, at_b);
}

#[tokio::test]
async fn a_session_is_valid_only_at_its_host() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://a.previews.test/", ANNA).await.arrived();
    let cookie = browser.cookie("a.previews.test", COOKIE).unwrap();
    let sent = |host: &'static str| {
        let (world, cookie) = (&world, format!("{COOKIE}={cookie}"));
        async move { world.call("GET", &format!("https://{host}/x"), &[("cookie", &cookie)]).await }
    };
    // The first request of each host reads the store, and the second one the cache.
    for _ in 0..2 {
        for host in ["a.previews.test", "A.previews.test:8443"] {
            assert_eq!(sent(host).await.header("x-forwarded-email"), Some(ANNA), "{host}");
        }
        for host in ["b.previews.test", "docs.previews.test", "wiki.test"] {
            sent(host).await.assert_refused(401, "login_required");
        }
    }
}

#[tokio::test]
async fn a_sign_in_cannot_end_at_another_host() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/", ANNA).await;
    let begun = browser.visit("https://a.previews.test/start").await;
    let authorize = begun.location().to_owned();
    let callback = browser.visit(&authorize).await.location().to_owned();
    assert!(callback.starts_with("https://a.previews.test/.sealgate/callback?"), "{callback}");
    // The cookie that binds the sign-in to the browser is copied to the other host.
    let of_browser = browser.cookie("a.previews.test", BROWSER).unwrap();
    browser.set_cookie("b.previews.test", BROWSER, &of_browser);
    let at_b = callback.replace("https://a.", "https://b.");
    let reply = browser.visit(&at_b).await;
    assert_eq!(browser.cookie("b.previews.test", COOKIE), None, "{reply:?}");
    // A new sign-in starts there, for that host.
    assert_eq!(reply.sent_with("redirect_uri").as_deref(), Some("https://b.previews.test/.sealgate/callback"));
    assert_eq!(browser.open(&callback).await.arrived(), ("previews", "/start"));
    // The provider accepts neither another host nor another spelling for the client of a host.
    for (from, to) in [
        ("https%3A%2F%2Fa.", "https%3A%2F%2Fb."),
        ("https%3A%2F%2Fa.previews.test", "https%3A%2F%2Fa.previews.test.evil.test"),
        ("https%3A%2F%2Fa.previews.test", "https%3A%2F%2Fa.evil.test"),
        ("https%3A%2F%2Fa.previews.test", "https%3A%2F%2Fa.previews.test%40evil.test"),
        ("previews.a&", "previews&"),
        ("previews.a&", "previews.A&"),
        ("previews.a&", "previews.*&"),
        ("previews.a&", "previews.&"),
        ("previews.a&", "previews.a.b&"),
        ("previews.a&", "docs&"),
        ("previews.a&", "docs.a&"),
        ("previews.a&", "wiki.a&"),
    ] {
        assert_eq!(authorize.matches(from).count(), 1, "{authorize}");
        let reply = browser.visit(&authorize.replace(from, to)).await;
        assert_eq!((reply.answered_with(), reply.header("location")), (400, None), "{to}");
    }
    // The host of another application cannot receive a code for this one.
    let docs = authorize.replace("https%3A%2F%2Fa.", "https%3A%2F%2Fdocs.").replace("previews.a&", "previews.docs&");
    let reply = browser.visit(&docs).await;
    assert_eq!((reply.answered_with(), reply.header("location")), (400, None));
}

#[tokio::test]
async fn a_return_path_cannot_lead_to_another_host() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://a.previews.test/", ANNA).await.arrived();
    for then in ["//b.previews.test/", "https://b.previews.test/", "/%5Cb.previews.test", "%2F%2Fb.previews.test"] {
        // The limit of redirects is for ten seconds.
        world.wait(20);
        let reply = browser.visit(&format!("https://a.previews.test/.sealgate/language?lang=tr&then={then}")).await;
        assert_eq!(reply.location(), "/", "{then}");
        let page = browser.open(&format!("https://a.previews.test/.sealgate/switch-account?then={then}")).await;
        let end = browser.submit(&page, &[("account", &world.anna.sub.to_string())]).await;
        assert_eq!((end.arrived(), end.header("host")), (("previews", "/"), Some("a.previews.test")), "{then}");
    }
}

#[tokio::test]
async fn a_sign_out_ends_every_session_and_returns_to_its_host() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://a.previews.test/", ANNA).await.arrived();
    browser.open("https://b.previews.test/").await.arrived();
    let asked = browser.visit("https://a.previews.test/.sealgate/logout").await;
    assert_eq!(asked.sent_with("post_logout_redirect_uri").as_deref(), Some("https://a.previews.test/bye"));
    assert_eq!(browser.cookie("a.previews.test", COOKIE), None);
    let page = browser.open(asked.location()).await;
    let (_, reply) = browser.submit_only(&page, &[]).await;
    assert_eq!(reply.location(), "https://a.previews.test/bye");
    assert!(is_login(&browser.open("https://b.previews.test/").await));
    // The URI of one host is not valid for another.
    let other = asked.location().replace("a.previews.test", "b.previews.test");
    assert_eq!(browser.visit(&other).await.answered_with(), 400);
}

#[tokio::test]
async fn another_user_at_another_host_does_not_replace_the_session() {
    let world = World::with(APPS).await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    anna.sign_in_at("https://a.previews.test/", ANNA).await.arrived();
    ben.sign_in_at("https://a.previews.test/", BEN).await.arrived();
    assert_eq!(anna.visit("https://a.previews.test/").await.header("x-forwarded-email"), Some(ANNA));
    assert_eq!(ben.visit("https://a.previews.test/").await.header("x-forwarded-email"), Some(BEN));
}

#[tokio::test]
async fn challenges_metadata_and_assertions_name_the_requested_host() {
    let world = World::with(APPS).await;
    let reply = get(&world, "https://a.previews.test/x").await;
    let challenge = reply.header("www-authenticate").unwrap();
    assert!(challenge.contains("\"https://a.previews.test/.well-known/oauth-protected-resource\""), "{challenge}");
    let metadata = get(&world, "https://b.previews.test/.well-known/oauth-protected-resource").await.json();
    assert_eq!(metadata["resource"], "https://b.previews.test");
    let browser = Browser::new(&world);
    browser.sign_in_at("https://a.previews.test/", ANNA).await.arrived();
    for host in ["a.previews.test", "b.previews.test"] {
        let end = browser.open(&format!("https://{host}/")).await;
        let payload = end.header("x-sealgate-assertion").unwrap().split('.').nth(1).unwrap();
        let claims: serde_json::Value =
            serde_json::from_slice(&sealgate_domain::secret::from_base64url(payload).unwrap()).unwrap();
        assert_eq!(claims["aud"], format!("https://{host}"));
    }
}

#[tokio::test]
async fn a_page_of_another_host_opens_no_websocket() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://a.previews.test/", ANNA).await.arrived();
    let open = |origin: &'static str| {
        let fields =
            [("origin", origin), ("upgrade", "websocket"), ("connection", "upgrade"), ("sec-fetch-mode", "websocket")];
        let browser = &browser;
        async move { browser.send("GET", "https://a.previews.test/socket", &fields, "").await }
    };
    assert_eq!(open("https://a.previews.test").await.arrived(), ("previews", "/socket"));
    for origin in ["https://b.previews.test", "https://*.previews.test", "https://docs.previews.test"] {
        assert_eq!(open(origin).await.answered_with(), 403, "{origin}");
    }
}

#[tokio::test]
async fn listed_origins_may_call_every_host() {
    let world = World::with(APPS).await;
    let fields = [("origin", "https://www.test"), ("access-control-request-method", "GET")];
    for host in ["a.previews.test", "b.previews.test"] {
        let reply = world.call("OPTIONS", &format!("https://{host}/listed/x"), &fields).await;
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://www.test"), "{host}");
    }
}
