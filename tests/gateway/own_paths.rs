//! Tests the paths below `/.sealgate/`.

use crate::browser::{Browser, link};
use crate::world::{BEN, World};

#[tokio::test]
async fn the_application_is_not_reachable_below_our_own_path() {
    let world = World::new().await;
    for path in ["/.sealgate", "/.sealgate/", "/.sealgate/nothing", "/%2esealgate/x", "/.sealgate/callback/x"] {
        let reply = world.call("GET", &format!("https://wiki.test{path}"), &[("accept", "text/html")]).await;
        reply.assert_page(404);
        assert!(reply.text().contains("id=\"way\" href=\"/\""), "{reply:?}");
        world.call("GET", &format!("https://wiki.test{path}"), &[]).await.assert_refused(404, "not_found");
    }
    for (method, path, allowed) in [
        ("POST", "callback", "GET"),
        ("HEAD", "callback", "GET"),
        ("HEAD", "logout", "GET, POST"),
        ("HEAD", "form", "GET, POST"),
        ("DELETE", "language", "GET"),
        ("POST", "style.css", "GET, HEAD"),
    ] {
        let reply = world.call(method, &format!("https://wiki.test/.sealgate/{path}"), &[]).await;
        reply.assert_refused(405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some(allowed));
    }
}

#[tokio::test]
async fn the_stylesheet_of_our_pages_is_served_on_the_applications_host() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.sign_in_at("https://wiki.test/staff/", BEN).await;
    page.assert_page(403);
    let href = page.text().split("href=\"").map(|rest| rest.split('"').next().unwrap());
    let stylesheet = href.into_iter().find(|href| href.contains("style.css")).unwrap();
    let reply = world.call("GET", &format!("https://wiki.test{stylesheet}"), &[]).await;
    assert_eq!(reply.answered_with(), 200);
    assert_eq!(reply.header("content-type"), Some("text/css; charset=utf-8"));
    assert!(reply.header("cache-control").unwrap().contains("immutable"));
}

#[tokio::test]
async fn a_chosen_language_is_saved_and_sent_to_the_provider() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.sign_in_at("https://wiki.test/staff/?a=b&c", BEN).await;
    for tag in ["tr", "en"] {
        let switch = link(page.text(), &format!("/.sealgate/language?lang={tag}"));
        let reply = browser.visit(&format!("https://wiki.test{switch}")).await;
        assert_eq!((reply.answered_with(), reply.location()), (302, "/staff/?a=b&c"));
        let page = browser.visit("https://wiki.test/staff/?a=b&c").await;
        assert!(page.text().contains(&format!("<html lang=\"{tag}\"")), "{}", page.text());
        let sent = browser.visit("https://wiki.test/.sealgate/switch-account").await;
        assert_eq!(sent.sent_with("ui_locales").as_deref(), Some(tag));
    }
}

#[tokio::test]
async fn reserved_paths_do_not_redirect_to_other_hosts() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    for then in [
        "//evil.test/",
        "https://evil.test/",
        "/\\evil.test",
        "/%5cevil.test",
        "/a%0d%0aSet-Cookie:x",
        "evil",
        "/.sealgate/logout",
        "/a/../b",
        "",
    ] {
        let query = crate::world::encode(&[("lang", "tr"), ("then", then)]);
        let reply = browser.visit(&format!("https://wiki.test/.sealgate/language?{query}")).await;
        assert_eq!(reply.location(), "/", "{then}");
    }
    let reply = browser.visit("https://wiki.test/.sealgate/language?lang=%22%3E&then=/a").await;
    assert_eq!((reply.location(), reply.header("set-cookie")), ("/a", None));
}
