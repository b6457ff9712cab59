//! Tests the lifetime of a browser's session at an application, and its ends.

use sealgate_domain::account_links::{AccountMark, LINK_BYTES, LinkToken, RESET_LIFE, ResetLink};
use sealgate_domain::session::{KeepSignedIn, SessionCookie};
use sealgate_domain::user::UserState;
use sealgate_system::clock::Clock as _;

use crate::browser::{Browser, is_login};
use crate::world::{ANNA, BEN, Reply, World};

const COOKIE: &str = "__Host-sealgate";

async fn signed_in(world: &World) -> Browser<'_> {
    let browser = Browser::new(world);
    let end = browser.sign_in_at("https://wiki.test/a", ANNA).await;
    assert_eq!(end.arrived(), ("wiki", "/a"));
    browser
}

#[tokio::test]
async fn signing_out_at_the_application_continues_at_the_provider() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let cookie = browser.cookie("wiki.test", COOKIE).unwrap();
    let reply = browser.visit("https://wiki.test/.sealgate/logout").await;
    assert_eq!(reply.location(), "https://id.test/oauth/logout?client_id=sealgate-app-wiki");
    assert_eq!(browser.cookie("wiki.test", COOKIE), None);
    // The back button shows no cached page of the application.
    assert_eq!(reply.header("clear-site-data"), Some("\"cache\""));
    // The cookie is invalid, not only deleted.
    browser.set_cookie("wiki.test", COOKIE, &cookie);
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    let page = browser.open("https://wiki.test/.sealgate/logout").await;
    browser.submit(&page, &[("logout-confirm", "yes")]).await;
    let end = browser.open("https://wiki.test/a").await;
    assert!(is_login(&end), "{end:?}");
}

#[tokio::test]
async fn a_reset_of_the_password_ends_every_application() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let (store, anna) = (&world.sealgate.store, world.anna.sub);
    let verified = store.change_user(anna, |anna| anna.email_verified = true).await.unwrap().unwrap();
    let (link, token) = LinkToken::new(anna, [1; LINK_BYTES]);
    let now = world.clock.now();
    let link =
        ResetLink { hash: link.hash, account: AccountMark::from_user(&verified), expires_at: now.plus(RESET_LIFE) };
    store.change_account_links(anna, &[], |links| links.add_reset(link.clone(), now)).await.unwrap();
    let elsewhere = Browser::new(&world);
    let page = elsewhere.open(&format!("https://id.test/oauth/reset?token={}", token.expose())).await;
    assert_eq!(browser.fetch("https://wiki.test/a").await.arrived(), ("wiki", "/a"));
    elsewhere.submit(&page, &[("new-password", "purple lantern under seven bridges")]).await;
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_form_can_sign_out() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let reply = browser.send("POST", "https://wiki.test/.sealgate/logout", &[], "").await;
    assert_eq!(reply.answered_with(), 303);
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_link_of_another_site_does_not_sign_the_user_out() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let fields = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let reply = browser.send("GET", "https://wiki.test/.sealgate/logout", &fields, "").await;
    assert!(reply.location().starts_with("https://id.test/oauth/logout"));
    assert_eq!(browser.fetch("https://wiki.test/a").await.arrived(), ("wiki", "/a"));
}

/// Images, frames, scripts, prefetches and link scanners send GET requests as well.
#[tokio::test]
async fn only_a_page_that_its_user_opens_signs_out_by_a_link() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let url = "https://wiki.test/.sealgate/logout";
    let html = ("accept", "text/html,*/*;q=0.8");
    let ours = ("sec-fetch-site", "same-origin");
    let opened = [ours, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"), html];
    for fields in [
        vec![],
        vec![html],
        vec![ours, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
        vec![ours, ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty"), html],
        vec![ours, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe"), html],
        vec![ours, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "empty"), html],
    ] {
        let reply = browser.send("GET", url, &fields, "").await;
        assert_eq!(reply.answered_with(), 302, "{fields:?}");
        // The provider asks for confirmation.
        assert_eq!(reply.location(), "https://id.test/oauth/logout?client_id=sealgate-app-wiki");
        assert_eq!((reply.header("set-cookie"), reply.header("clear-site-data")), (None, None));
    }
    for purpose in [("sec-purpose", "prefetch"), ("sec-purpose", "prefetch;prerender"), ("purpose", "prefetch")] {
        for path in
            ["logout", "switch-account", "form?id=a", "callback?code=a&state=b", "join?app=a", "language?lang=tr"]
        {
            let url = format!("https://wiki.test/.sealgate/{path}");
            let reply = browser.send("GET", &url, &[&opened[..], &[purpose]].concat(), "").await;
            reply.assert_refused(403, "access_denied");
            assert_eq!(reply.header("set-cookie"), None);
        }
    }
    assert_eq!(browser.fetch("https://wiki.test/a").await.arrived(), ("wiki", "/a"));
    browser.send("GET", url, &opened, "").await;
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn signing_out_at_the_provider_ends_every_application() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    browser.open("https://shop.test/orders/").await.arrived();
    let page = browser.open("https://id.test/oauth/logout").await;
    browser.submit(&page, &[("logout-confirm", "yes")]).await;
    for url in ["https://wiki.test/a", "https://shop.test/orders/"] {
        browser.fetch(url).await.assert_refused(401, "login_required");
    }
}

#[tokio::test]
async fn a_disabled_or_deleted_user_is_refused_at_the_next_request() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let store = &world.sealgate.store;
    store.change_user(world.anna.sub, |user| user.state = UserState::Disabled).await.unwrap();
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    store.change_user(world.anna.sub, |user| user.state = UserState::Enabled).await.unwrap();
    browser.fetch("https://wiki.test/a").await.arrived();
    store.delete_user(world.anna.sub, world.sealgate.clock.now()).await.unwrap();
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_change_of_groups_applies_to_the_next_request() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    browser.fetch("https://wiki.test/staff/").await.arrived();
    world.sealgate.store.change_user(world.anna.sub, |user| user.groups.clear()).await.unwrap();
    browser.fetch("https://wiki.test/staff/").await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn a_used_session_stays_and_an_idle_session_ends() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let idle = signed_in(&world).await;
    for _ in 0..4 {
        world.wait(1800);
        browser.fetch("https://wiki.test/a").await.arrived();
        world.site.note_uses().await;
    }
    browser.fetch("https://wiki.test/a").await.arrived();
    idle.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn no_use_keeps_a_session_beyond_its_end() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    for _ in 0..19 {
        world.wait(1800);
        browser.fetch("https://wiki.test/a").await.arrived();
        world.site.note_uses().await;
    }
    world.wait(1800);
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_late_use_does_not_restore_an_ended_session() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    world.wait(120);
    browser.fetch("https://wiki.test/a").await.arrived();
    let page = browser.open("https://id.test/oauth/logout").await;
    browser.submit(&page, &[("logout-confirm", "yes")]).await;
    world.site.note_uses().await;
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_cookie_is_valid_only_for_its_application() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    browser.open("https://shop.test/orders/").await.arrived();
    let (wiki, provider) = (browser.cookie("wiki.test", COOKIE).unwrap(), browser.cookie("id.test", COOKIE).unwrap());
    let thief = Browser::new(&world);
    thief.set_cookie("shop.test", COOKIE, &wiki);
    thief.fetch("https://shop.test/orders/").await.assert_refused(401, "login_required");
    thief.set_cookie("wiki.test", COOKIE, &provider);
    thief.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    thief.set_cookie("id.test", COOKIE, &wiki);
    thief.fetch("https://id.test/dashboard").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_session_id_without_its_secret_opens_nothing() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let known = SessionCookie::parse(&browser.cookie("wiki.test", COOKIE).unwrap()).unwrap();
    let forged = SessionCookie::new(known.id, [0; 24]);
    browser.set_cookie("wiki.test", COOKIE, forged.value().expose());
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    browser.fetch("https://id.test/dashboard").await.arrived();
    let known = SessionCookie::parse(&browser.cookie("id.test", COOKIE).unwrap()).unwrap();
    browser.set_cookie("id.test", COOKIE, SessionCookie::new(known.id, [0; 24]).value().expose());
    browser.fetch("https://id.test/dashboard").await.assert_refused(401, "login_required");
    for value in ["", "x", "AAAA", &"A".repeat(54), &"A".repeat(5000)] {
        browser.set_cookie("wiki.test", COOKIE, value);
        browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    }
}

#[tokio::test]
async fn a_planted_session_is_not_used_for_the_victim() {
    let world = World::new().await;
    let attacker = Browser::new(&world);
    attacker.sign_in_at("https://wiki.test/a", BEN).await;
    let planted = attacker.cookie("wiki.test", COOKIE).unwrap();

    let victim = Browser::new(&world);
    victim.set_cookie("wiki.test", COOKIE, &planted);
    let page = victim.open("https://wiki.test/.sealgate/switch-account").await;
    let end = victim.sign_in(&page, ANNA).await;
    assert_eq!(end.header("x-forwarded-email"), Some(ANNA));
    assert_ne!(victim.cookie("wiki.test", COOKIE).unwrap(), planted);
    // The planted session has ended, and never becomes Anna's.
    attacker.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_session_is_cached_until_any_revocation() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let asked = async || {
        let before = world.reads();
        browser.fetch("https://wiki.test/a").await.arrived();
        world.reads() - before
    };
    asked().await;
    assert_eq!((asked().await, asked().await), (0, 0));
    // Changes of Anna's access cause a lookup; changes of other users do not.
    world.sealgate.store.change_user(world.anna.sub, |user| user.groups.clear()).await.unwrap();
    assert_eq!((asked().await, asked().await), (3, 0));
    world.sealgate.store.change_user(world.ben.sub, |user| user.state = UserState::Disabled).await.unwrap();
    assert_eq!((asked().await, asked().await), (0, 0));
    world.wait(29);
    assert_eq!(asked().await, 0);
    world.wait(1);
    assert_eq!((asked().await, asked().await), (3, 0));
    let cookie = browser.cookie("wiki.test", COOKIE).unwrap();
    let stranger = Browser::new(&world);
    stranger.set_cookie("shop.test", COOKIE, &cookie);
    stranger.fetch("https://shop.test/orders/").await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn a_cached_session_ends_at_its_exact_expiry() {
    let world = World::new().await;
    for (waits, what) in [(vec![3590, 9], "idle"), ([1750; 20].to_vec(), "absolute")] {
        let browser = signed_in(&world).await;
        let mut passed = 0;
        for seconds in waits {
            world.wait(seconds);
            passed += seconds;
            browser.fetch("https://wiki.test/a").await.arrived();
            if what == "absolute" {
                world.site.note_uses().await;
            }
        }
        let end = if what == "idle" { 3600 } else { 36_000 };
        world.wait(end - passed - 1);
        browser.fetch("https://wiki.test/a").await.arrived();
        world.wait(1);
        browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    }
}

#[tokio::test]
async fn a_cached_cookie_of_the_provider_ends_when_another_user_signs_in() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/dashboard", ANNA).await.arrived();
    let before = browser.cookie("id.test", COOKIE).unwrap();
    let old = Browser::new(&world);
    old.set_cookie("id.test", COOKIE, &before);
    for _ in 0..2 {
        assert_eq!(old.fetch("https://id.test/dashboard").await.header("x-forwarded-email"), Some(ANNA));
    }
    let page = browser.open("https://id.test/.sealgate/switch-account").await;
    let page = browser.submit(&page, &[("account", "")]).await;
    let end = browser.sign_in(&page, BEN).await;
    assert_eq!(end.header("x-forwarded-email"), Some(BEN));
    old.fetch("https://id.test/dashboard").await.assert_refused(401, "login_required");
    assert_eq!(browser.fetch("https://id.test/dashboard").await.header("x-forwarded-email"), Some(BEN));
}

#[tokio::test]
async fn the_browser_arrives_at_the_configured_place_after_a_sign_out() {
    let app = |name: &str, place: &str| {
        format!(
            "[[app]]\nname = {name:?}\nhost = \"{name}.test\"\nupstreams = [\"http://127.0.0.1:8099\"]\nafter_sign_out = {place:?}\n\
             [[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n"
        )
    };
    let world = World::with(&[app("toys", "/bye?a=b&c"), app("desk2", "https://www.test/start")].concat()).await;
    for (name, url) in [("toys", "https://toys.test/bye?a=b&c"), ("desk2", "https://www.test/start")] {
        let browser = Browser::new(&world);
        browser.sign_in_at(&format!("https://{name}.test/"), ANNA).await.arrived();
        let page = browser.open(&format!("https://{name}.test/.sealgate/logout")).await;
        let (_, reply) = browser.submit_only(&page, &[("logout-confirm", "yes")]).await;
        assert_eq!(reply.location(), url);
        // No other place is accepted.
        for other in ["https://www.test/", "https://toys.test/bye", "https://evil.test/"] {
            let wrong =
                format!("https://id.test/oauth/logout?client_id=sealgate-app-{name}&post_logout_redirect_uri={other}");
            browser.visit(&wrong).await.assert_page(400);
        }
    }
}

/// Configuration of an application with two places after the sign-out.
const TOYS: &str = r#"
    [[app]]
    name = "toys"
    host = "toys.test"
    upstreams = ["http://127.0.0.1:8099"]
    after_sign_out = ["https://www.test/start", "/bye?a=b", "http://intranet.test/"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/left/"
    access = "public"
"#;

/// Signs out at `toys.test` with this `then`, and returns the page's URL and answer.
async fn leave(world: &World, then: &str) -> (String, Reply) {
    // The limit of sign-ins is per minute.
    world.wait(61);
    let browser = Browser::new(world);
    browser.sign_in_at("https://toys.test/", ANNA).await.arrived();
    let query = crate::world::encode(&[("then", then)]);
    let page = browser.open(&format!("https://toys.test/.sealgate/logout?{query}")).await;
    let (_, reply) = browser.submit_only(&page, &[("logout-confirm", "yes")]).await;
    let url = reply.location().to_owned();
    let reply = if url.starts_with("https://toys.test/") { browser.visit(&url).await } else { reply };
    browser.fetch("https://toys.test/").await.assert_refused(401, "login_required");
    (url, reply)
}

#[tokio::test]
async fn a_link_names_the_page_after_the_sign_out() {
    let world = World::with(TOYS).await;
    for (then, page) in [
        ("/left/?x=1&y=%2F%25&z=\u{131}", "/left/?x=1&y=%2F%25&z=\u{131}"),
        ("https://toys.test/left/a", "/left/a"),
        ("https://toys.test/left/?u=https://evil.test/", "/left/?u=https://evil.test/"),
        ("/bye?a=b", "/bye?a=b"),
        ("/", "/"),
    ] {
        let (url, reply) = leave(&world, then).await;
        assert!(url.starts_with("https://toys.test/.sealgate/signed-out?state="), "{url}");
        assert_eq!(std::str::from_utf8(reply.headers["location"].as_bytes()), Ok(page), "{then}");
    }
    for (then, place) in [
        ("https://toys.test/bye?a=b", "https://toys.test/bye?a=b"),
        ("http://intranet.test/", "http://intranet.test/"),
        ("http://intranet.test", "http://intranet.test/"),
        ("HTTP://Intranet.test:80/", "http://intranet.test/"),
    ] {
        assert_eq!(leave(&world, then).await.0, place, "{then}");
    }
}

#[tokio::test]
async fn a_link_to_another_place_after_the_sign_out_is_ignored() {
    let world = World::with(TOYS).await;
    let long = format!("/left/{}", "a".repeat(2048));
    for then in [
        "",
        "left",
        "//evil.test/",
        "///evil.test/",
        "/\\evil.test/",
        "\\\\evil.test/",
        "/%2Fevil.test/",
        "/%5Cevil.test/",
        "/\t/evil.test/",
        "/\r\nLocation: https://evil.test/",
        "\u{1}https://evil.test/",
        "https:evil.test/",
        "https:/\\evil.test/",
        "https://evil.test/",
        "https://www.test/",
        "https://www.test/start/",
        "https://www.test/start?x",
        "https://www.test/start#x",
        "https://a@www.test/start",
        "https://www.test:8443/start",
        "http://www.test/start",
        "http://intranet.test.evil.test/",
        "http://intranet.test/evil",
        "https://toys.test.evil.test/",
        "https://toys.test@evil.test/",
        "https://toys.test:443@evil.test/",
        "https://toys.test\\@evil.test/",
        "https://toys.test%2F@evil.test/",
        "https://toys.test//evil.test/",
        "https://toys.test/\\evil.test/",
        "https://toys.test/../\\evil.test",
        "https://toys.test/left/../../a",
        "https://wiki.test/",
        "https://id.test/",
        "javascript:alert(1)",
        "data:text/html,x",
        "/.sealgate/logout",
        "/.sealgate/signed-out?state=/left/",
        "https://toys.test/.sealgate/language?then=/left/",
        "/%2esealgate/logout",
        "/left/#a",
        &long,
    ] {
        assert_eq!(leave(&world, then).await.0, "https://www.test/start", "{then:?}");
    }
    let browser = Browser::new(&world);
    // A repeated parameter has no meaning.
    let twice = browser.visit("https://toys.test/.sealgate/logout?then=/left/&then=/left/").await;
    assert_eq!(twice.sent_with("post_logout_redirect_uri").as_deref(), Some("https://www.test/start"));
    // The last step can be requested directly, and leads to pages of its own host only.
    for state in
        ["//evil.test/", "https://evil.test/", "/%5Cevil.test", "https://www.test/start", "/.sealgate/logout", ""]
    {
        let query = crate::world::encode(&[("state", state)]);
        let reply = browser.visit(&format!("https://toys.test/.sealgate/signed-out?{query}")).await;
        assert_eq!(reply.location(), "https://id.test/oauth/signed-out", "{state}");
    }
    // The provider accepts that step of the application's host and no other.
    for uri in [
        "https://wiki.test/.sealgate/signed-out",
        "https://toys.test/.sealgate/signed-out?x",
        "https://toys.test/left/",
    ] {
        let query = crate::world::encode(&[("client_id", "sealgate-app-toys"), ("post_logout_redirect_uri", uri)]);
        browser.visit(&format!("https://id.test/oauth/logout?{query}")).await.assert_page(400);
    }
}

#[tokio::test]
async fn an_application_without_a_place_after_the_sign_out_follows_a_link_to_its_pages() {
    let world = World::new().await;
    let browser = signed_in(&world).await;
    let page = browser.open("https://wiki.test/.sealgate/logout?then=/public/bye").await;
    let end = browser.submit(&page, &[("logout-confirm", "yes")]).await;
    assert_eq!((end.arrived(), end.header("host")), (("wiki", "/public/bye"), Some("wiki.test")));
    // An application on the issuer's host.
    world.wait(61);
    let login = browser.open("https://id.test/").await;
    browser.sign_in(&login, ANNA).await.arrived();
    let page = browser.open("https://id.test/.sealgate/logout?then=/x").await;
    let (_, reply) = browser.submit_only(&page, &[("logout-confirm", "yes")]).await;
    assert_eq!(browser.visit(reply.location()).await.location(), "/x");
}

/// A browser that is closed keeps the provider's cookie only.
#[tokio::test]
async fn a_kept_session_opens_applications_again_without_a_question() {
    let world = World::made("", None, |config| config.sessions.keep_signed_in = KeepSignedIn::On).await;
    let browser = signed_in(&world).await;
    // Longer than the idle timeout and the maximum age of other sessions.
    world.wait(40_000);
    assert_eq!(browser.fetch("https://wiki.test/a").await.arrived(), ("wiki", "/a"));
    // The cookie of the application ends with the browser.
    let mut url = "https://wiki.test/a".to_owned();
    browser.forget("wiki.test");
    let reply = loop {
        let reply = browser.visit(&url).await;
        if reply.headers.get_all("set-cookie").iter().any(|line| line.to_str().unwrap().starts_with("__Host-sealgate="))
        {
            break reply;
        }
        url = crate::browser::resolve(&url, reply.location());
    };
    let mut cookies = reply.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap());
    let cookie = cookies.find(|line| line.starts_with("__Host-sealgate=")).unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
    assert_eq!(browser.fetch("https://wiki.test/a").await.arrived(), ("wiki", "/a"));
    // A rule still requires a recent sign-in.
    assert!(is_login(&browser.open("https://desk.test/money/").await));
    world.wait(30 * 24 * 3600 - 40_000);
    browser.fetch("https://wiki.test/a").await.assert_refused(401, "login_required");
    assert!(is_login(&browser.open("https://wiki.test/a").await));
}
