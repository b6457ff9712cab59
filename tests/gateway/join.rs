//! Tests a page and its API on two hosts: the sign-in at the page's application also signs in at the
//! applications in `also_sign_in`.

use sealgate_domain::user::UserState;

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World};

const APPS: &str = r#"
    [[app]]
    name = "page"
    host = "page.test"
    upstreams = ["http://127.0.0.1:8091"]
    also_sign_in = ["api", "portal", "files"]
    [[app.route]]
    path = "/"
    access = "signed_in"

    [[app]]
    name = "api"
    host = "api.test"
    upstreams = ["http://127.0.0.1:8092"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    cors_origins = ["https://page.test"]

    [[app]]
    name = "files"
    host = "files.test"
    upstreams = ["http://127.0.0.1:8093"]
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

const COOKIE: &str = "__Host-sealgate";

/// Sends a request as a script of the page does, and returns the user whom the API sees.
async fn user_at(browser: &Browser<'_>, host: &str) -> Option<String> {
    let fields = [("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty"), ("origin", "https://page.test")];
    let reply = browser.send("GET", &format!("https://{host}/data"), &fields, "").await;
    if reply.arrived.is_none() {
        reply.assert_refused(401, "login_required");
    }
    reply.header("x-forwarded-email").map(str::to_owned)
}

#[tokio::test]
async fn one_sign_in_starts_a_session_at_each_listed_application() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    assert_eq!(user_at(&browser, "api.test").await, None);
    let end = browser.sign_in_at("https://page.test/start?x=1&y=%2F", ANNA).await;
    assert_eq!(end.arrived(), ("page", "/start?x=1&y=%2F"));
    for host in ["api.test", "files.test"] {
        assert_eq!(user_at(&browser, host).await.as_deref(), Some(ANNA), "{host}");
    }
    // A second browser sign-in without credentials does the same.
    browser.forget("page.test");
    browser.forget("api.test");
    assert_eq!(browser.open("https://page.test/").await.arrived(), ("page", "/"));
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(ANNA));
    // The other direction is not configured.
    let other = Browser::new(&world);
    other.sign_in_at("https://api.test/", ANNA).await.arrived();
    assert_eq!(other.jar("page.test"), "");
}

#[tokio::test]
async fn the_sessions_are_of_the_same_user() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    let of_anna = browser.cookie("api.test", COOKIE);
    assert!(of_anna.is_some(), "{}", browser.jar("api.test"));
    let page = browser.open("https://page.test/.sealgate/switch-account?then=%2Fnext").await;
    let page = browser.submit(&page, &[("account", "")]).await;
    let end = browser.sign_in(&page, BEN).await;
    assert_eq!(end.arrived(), ("page", "/next"));
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(BEN));
    assert_ne!(browser.cookie("api.test", COOKIE), of_anna);
    // Back to the first user, who is still signed in.
    let page = browser.open("https://page.test/.sealgate/switch-account").await;
    let end = browser.submit(&page, &[("account", &world.anna.sub.to_string())]).await;
    assert_eq!(end.header("x-forwarded-email"), Some(ANNA));
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(ANNA));
}

#[tokio::test]
async fn a_sign_in_that_needs_a_page_is_left_out_and_ends_an_older_session() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    // The provider's session is gone, so the sign-in at the API would show a page.
    browser.forget("id.test");
    let mut at = "https://api.test/.sealgate/join?app=page&then=%2Fback".to_owned();
    let mut hosts = Vec::new();
    while !at.starts_with("https://page.test/") {
        let reply = browser.visit(&at).await;
        assert_eq!(reply.answered_with(), 302, "{reply:?}");
        at = reply.location().to_owned();
        hosts.push(at["https://".len()..].split('/').next().unwrap().to_owned());
    }
    assert_eq!(at, "https://page.test/back");
    assert_eq!(hosts, ["id.test", "api.test", "files.test", "id.test", "files.test", "page.test"]);
    assert_eq!(browser.cookie("api.test", COOKIE), None);
    assert_eq!(user_at(&browser, "api.test").await, None);
    assert_eq!(user_at(&browser, "files.test").await, None);
    // The page's own session is not touched.
    assert_eq!(user_at(&browser, "page.test").await.as_deref(), Some(ANNA));
}

#[tokio::test]
async fn a_link_leads_only_to_an_application_that_lists_this_one() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    for (host, query) in [
        ("page.test", "app=api"),
        ("api.test", "app=files"),
        ("api.test", "app=api"),
        ("api.test", "app=nobody"),
        ("api.test", "app=page&app=page"),
        ("api.test", "then=%2F"),
        ("wiki.test", "app=page"),
    ] {
        browser.visit(&format!("https://{host}/.sealgate/join?{query}")).await.assert_page(400);
    }
    for then in
        ["https://evil.test/", "//evil.test/", "/%5Cevil.test/", "/.sealgate/logout", "/a%0d%0ab", "@evil.test/"]
    {
        let encoded: String = url::form_urlencoded::byte_serialize(then.as_bytes()).collect();
        let end = browser.open(&format!("https://api.test/.sealgate/join?app=page&then={encoded}")).await;
        assert_eq!(end.arrived(), ("page", "/"), "{then}");
    }
    let post = browser.send("POST", "https://api.test/.sealgate/join?app=page", &[], "").await;
    assert_eq!(post.answered_with(), 405);
}

#[tokio::test]
async fn a_revocation_ends_the_sessions_at_all_of_them() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    world.sealgate.store.change_user(world.anna.sub, |user| user.state = UserState::Disabled).await.unwrap();
    for host in ["page.test", "api.test", "files.test"] {
        assert_eq!(user_at(&browser, host).await, None, "{host}");
    }
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", BEN).await.arrived();
    let page = browser.open("https://page.test/.sealgate/logout").await;
    browser.submit(&page, &[("logout-confirm", "yes")]).await;
    for host in ["page.test", "api.test", "files.test"] {
        assert_eq!(user_at(&browser, host).await, None, "{host}");
    }
}

#[tokio::test]
async fn a_browser_without_cookies_at_one_of_them_reaches_the_page() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    for name in [COOKIE, "__Host-sealgate-browser"] {
        browser.refuse("api.test", name);
    }
    let end = browser.sign_in_at("https://page.test/start", ANNA).await;
    assert_eq!(end.arrived(), ("page", "/start"));
    assert_eq!(user_at(&browser, "api.test").await, None);
    assert_eq!(user_at(&browser, "files.test").await.as_deref(), Some(ANNA));
}

#[tokio::test]
async fn a_limit_of_sign_ins_does_not_stop_the_way_to_the_page() {
    let world = World::with(&format!("[rate_limits]\nsign_ins = 1\n{APPS}")).await;
    let browser = Browser::new(&world);
    let end = browser.sign_in_at("https://page.test/start", ANNA).await;
    assert_eq!(end.arrived(), ("page", "/start"));
    assert_eq!(user_at(&browser, "api.test").await, None);
}
