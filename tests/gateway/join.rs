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
    also_sign_in = ["api", "files"]
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

/// Follows the redirects of a link to a further application until the page's host is next. Returns
/// the hosts on the way, and the last URL.
async fn walk(browser: &Browser<'_>, link: &str) -> (Vec<String>, String) {
    let mut at = link.to_owned();
    let mut hosts = Vec::new();
    while !at.starts_with("https://page.test/") {
        hosts.push(at["https://".len()..].split('/').next().unwrap().to_owned());
        let reply = browser.visit(&at).await;
        assert!(matches!(reply.answered_with(), 302 | 303), "{reply:?}");
        at = crate::browser::resolve(&at, reply.location());
    }
    (hosts, at)
}

/// Returns the link to the first further application, from the page's host.
async fn link(browser: &Browser<'_>, then: &str) -> String {
    let reply = browser.visit(&format!("https://page.test/.sealgate/join?then={then}")).await;
    assert_eq!(reply.answered_with(), 302, "{reply:?}");
    reply.location().to_owned()
}

#[tokio::test]
async fn a_page_starts_the_missing_sessions_again() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    browser.forget("api.test");
    assert_eq!(user_at(&browser, "api.test").await, None);
    let start = "https://page.test/.sealgate/join?then=%2Fback%3Fa%3Db";
    assert_eq!(browser.open(start).await.arrived(), ("page", "/back?a=b"));
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(ANNA));
    // A page that does this again and again is stopped.
    for _ in 0..2 {
        browser.open(start).await.arrived();
    }
    browser.open(start).await.assert_page(400);
    world.wait(11);
    browser.open(start).await.arrived();
    // Without a session, the user signs in first.
    let other = Browser::new(&world);
    let end = other.sign_in_at(start, BEN).await;
    assert_eq!(end.arrived(), ("page", "/back?a=b"));
    assert_eq!(user_at(&other, "api.test").await.as_deref(), Some(BEN));
}

#[tokio::test]
async fn a_further_sign_in_never_acts_for_another_user_than_the_page() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    // Another application selects another account at the provider.
    let page = browser.open("https://wiki.test/.sealgate/switch-account").await;
    let page = browser.submit(&page, &[("account", "")]).await;
    browser.sign_in(&page, BEN).await.arrived();
    // The session of the page's user stays.
    let (hosts, at) = walk(&browser, &link(&browser, "%2Fback").await).await;
    assert_eq!(at, "https://page.test/back");
    assert_eq!(hosts, ["api.test", "id.test", "api.test", "files.test", "id.test", "files.test"]);
    assert_eq!(user_at(&browser, "page.test").await.as_deref(), Some(ANNA));
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(ANNA));
    // A session of the other user ends.
    browser.forget("api.test");
    browser.open("https://api.test/").await.arrived();
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(BEN));
    walk(&browser, &link(&browser, "%2Fback").await).await;
    assert_eq!(user_at(&browser, "api.test").await, None);
    assert_eq!(browser.cookie("api.test", COOKIE), None);
    assert_eq!(user_at(&browser, "files.test").await.as_deref(), Some(ANNA));
}

#[tokio::test]
async fn a_sign_in_that_needs_a_page_is_left_out() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    let link = link(&browser, "%2Fback").await;
    // The provider's session is gone, so the sign-in at the API would show a page.
    browser.forget("id.test");
    browser.forget("files.test");
    let (_, at) = walk(&browser, &link).await;
    assert_eq!(at, "https://page.test/back");
    for (host, user) in [("page.test", Some(ANNA)), ("api.test", Some(ANNA)), ("files.test", None)] {
        assert_eq!(user_at(&browser, host).await.as_deref(), user, "{host}");
    }
}

#[tokio::test]
async fn a_link_changes_nothing_in_another_browser() {
    let world = World::with(APPS).await;
    let attacker = Browser::new(&world);
    attacker.sign_in_at("https://page.test/", BEN).await.arrived();
    let link = link(&attacker, "%2Fback").await;
    for has_session in [false, true] {
        let victim = Browser::new(&world);
        victim.sign_in_at("https://wiki.test/", ANNA).await.arrived();
        if has_session {
            victim.open("https://api.test/").await.arrived();
        }
        walk(&victim, &link).await;
        assert_eq!(user_at(&victim, "api.test").await.as_deref(), has_session.then_some(ANNA));
    }
    let anonymous = Browser::new(&world);
    walk(&anonymous, &link).await;
    assert_eq!(user_at(&anonymous, "api.test").await, None);
}

#[tokio::test]
async fn only_a_page_that_its_user_opens_starts_or_ends_sessions() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    let link = link(&browser, "%2F").await;
    browser.forget("id.test");
    for (mode, dest) in [("no-cors", "image"), ("navigate", "iframe"), ("cors", "empty"), ("no-cors", "script")] {
        let fields = [("sec-fetch-mode", mode), ("sec-fetch-dest", dest), ("accept", "*/*")];
        for url in [link.as_str(), "https://page.test/.sealgate/join"] {
            browser.send("GET", url, &fields, "").await.assert_refused(403, "access_denied");
        }
    }
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(ANNA));
}

#[tokio::test]
async fn a_link_leads_only_to_an_application_that_lists_this_one() {
    let world = World::with(APPS).await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://page.test/", ANNA).await.arrived();
    let session = link(&browser, "%2F").await.split_once("session=").unwrap().1.split('&').next().unwrap().to_owned();
    for (host, query) in [
        ("page.test", "app=api"),
        ("api.test", "app=files"),
        ("api.test", "app=api"),
        ("api.test", "app=nobody"),
        ("api.test", "app=page&app=page"),
        ("wiki.test", "app=page"),
        ("id.test", "app=page"),
    ] {
        browser.visit(&format!("https://{host}/.sealgate/join?{query}&session={session}")).await.assert_page(400);
    }
    browser.visit("https://api.test/.sealgate/join?app=page&session=x").await.assert_page(400);
    for then in [
        "https://evil.test/",
        "//evil.test/",
        "/%5Cevil.test/",
        "/.sealgate/logout",
        "/.sealgate/form?id=a&b=c",
        "/.sealgate/form?id=",
        "/a%0d%0ab",
        "@evil.test/",
    ] {
        let encoded: String = url::form_urlencoded::byte_serialize(then.as_bytes()).collect();
        let link = format!("https://api.test/.sealgate/join?app=page&session={session}&then={encoded}");
        assert_eq!(browser.open(&link).await.arrived(), ("page", "/"), "{then}");
    }
    let post = browser.send("POST", "https://api.test/.sealgate/join?app=page", &[], "").await;
    assert_eq!(post.answered_with(), 405);
}

#[tokio::test]
async fn a_form_that_waits_for_the_sign_in_is_shown_after_it() {
    let world = World::made(APPS, Some(10), |_| ()).await;
    let browser = Browser::new(&world);
    let fields = [
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
        ("accept", "text/html"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-length", "3"),
    ];
    let url = "https://page.test/save";
    let reply = browser.send("POST", url, &fields, "a=b").await;
    let page = browser.follow(url, reply).await;
    let end = browser.sign_in(&page, ANNA).await;
    end.assert_page(200);
    assert!(end.text().contains("action=\"/save\""), "{}", end.text());
    assert_eq!(user_at(&browser, "api.test").await.as_deref(), Some(ANNA));
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
