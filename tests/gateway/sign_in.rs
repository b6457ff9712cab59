//! Tests users who are redirected to the sign-in and return.

use std::sync::Arc;

use sealgate_domain::user::UserState;
use sealgate_store::Store;

use crate::browser::{Browser, is_login, link};
use crate::world::{ANNA, BEN, World};

const COOKIE: &str = "__Host-sealgate";
const BINDING: &str = "__Host-sealgate-browser";

#[tokio::test]
async fn a_user_returns_to_the_requested_page() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    for wanted in
        ["/reports/2026?q=%C5%9Fubat&x=a+b%2F..%2f//&y=;%00", "/a%20b/%c3%a7?", "/staff/?next=https://evil.test/"]
    {
        browser.forget("wiki.test");
        browser.forget("id.test");
        let page = browser.open(&format!("https://wiki.test{wanted}")).await;
        assert!(is_login(&page), "{page:?}");
        let end = browser.sign_in(&page, ANNA).await;
        assert_eq!(end.arrived(), ("wiki", wanted));
        assert_eq!(end.header("x-forwarded-email"), Some(ANNA));
    }
}

#[tokio::test]
async fn the_sign_in_uses_the_code_flow_with_pkce_and_a_secret_state() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let first = browser.visit("https://wiki.test/a?b").await;
    assert_eq!(first.answered_with(), 302);
    assert!(first.location().starts_with("https://id.test/oauth/authorize?"), "{}", first.location());
    for (name, value) in [
        ("client_id", "sealgate-app-wiki"),
        ("redirect_uri", "https://wiki.test/.sealgate/callback"),
        ("response_type", "code"),
        ("scope", "openid profile email"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(first.sent_with(name).as_deref(), Some(value));
    }
    let second = browser.visit("https://wiki.test/a?b").await;
    for name in ["state", "code_challenge"] {
        let (one, other) = (first.sent_with(name).unwrap(), second.sent_with(name).unwrap());
        assert!(one.len() == 43 && one != other, "{name}");
    }
    assert!(!first.location().contains("%2Fa"), "the page that was wanted stays here");
}

/// A browser keeps the fragment of a URL from the callback to the application's page, where scripts
/// can read a code in it. An attacker who began the sign-in could complete it elsewhere.
#[tokio::test]
async fn an_applications_code_is_never_sent_in_a_fragment_or_a_form() {
    let world = World::with("[form_post]\nenabled = true").await;
    let (browser, other) = (Browser::new(&world), Browser::new(&world));
    browser.sign_in_at("https://wiki.test/x", ANNA).await;
    let begun = other.visit("https://wiki.test/x").await;
    for mode in ["fragment", "form_post"] {
        let reply = browser.visit(&format!("{}&response_mode={mode}", begun.location())).await;
        assert!(reply.location().starts_with("https://wiki.test/.sealgate/callback?"), "{reply:?}");
        assert_eq!(reply.sent_with("error").as_deref(), Some("invalid_request"), "{mode}");
    }
    let reply = browser.visit(&format!("{}&response_mode=query", begun.location())).await;
    assert!(reply.sent_with("code").is_some(), "{reply:?}");
}

#[tokio::test]
async fn one_binding_cookie_serves_any_number_of_tabs() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let first = browser.visit("https://wiki.test/1").await;
    assert_eq!(first.headers.get_all("set-cookie").iter().count(), 1);
    let binding = browser.cookie("wiki.test", BINDING).unwrap();
    for number in 2..20 {
        let reply = browser.visit(&format!("https://wiki.test/{number}")).await;
        assert_eq!(reply.header("set-cookie"), None);
    }
    assert_eq!(browser.jar("wiki.test"), format!("{BINDING}={binding}"));
}

#[tokio::test]
async fn every_tab_returns_to_its_own_page_with_one_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let mut tabs = Vec::new();
    for number in 0..4 {
        tabs.push(browser.open(&format!("https://wiki.test/tab/{number}?x")).await);
    }
    let first = browser.sign_in(&tabs[2], ANNA).await;
    assert_eq!(first.arrived(), ("wiki", "/tab/2?x"));
    let session = browser.cookie("wiki.test", COOKIE).unwrap();
    // The remaining tabs still show the form. If a user submits it, they sign in again, which
    // creates an additional newer session.
    for number in [0, 3] {
        world.wait(5);
        let end = browser.sign_in(&tabs[number], ANNA).await;
        assert_eq!(end.arrived(), ("wiki", format!("/tab/{number}?x").as_str()));
    }
    // A reloaded tab needs no form, and changes no cookie.
    browser.set_cookie("wiki.test", COOKIE, &session);
    let end = browser.open("https://wiki.test/tab/1?x").await;
    assert_eq!(end.arrived(), ("wiki", "/tab/1?x"));
    assert_eq!(browser.cookie("wiki.test", COOKIE), Some(session));
}

#[tokio::test]
async fn tabs_restored_at_once_share_one_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://shop.test/orders/1", ANNA).await;
    world.wait(60);
    let mut authorized = Vec::new();
    for number in 0..8 {
        let sent = browser.visit(&format!("https://wiki.test/{number}")).await;
        authorized.push(browser.visit(sent.location()).await);
    }
    let mut sessions = std::collections::BTreeSet::new();
    for (number, reply) in authorized.iter().enumerate() {
        let back = browser.visit(reply.location()).await;
        assert_eq!((back.answered_with(), back.location()), (302, format!("/{number}").as_str()));
        sessions.insert(browser.cookie("wiki.test", COOKIE).unwrap());
        let end = browser.visit(&format!("https://wiki.test/{number}")).await;
        assert_eq!(end.arrived().0, "wiki");
    }
    assert_eq!(sessions.len(), 1);
}

#[tokio::test]
async fn a_repeated_sign_in_response_leads_to_the_application() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.open("https://wiki.test/a").await;
    let (_, posted) = browser.submit_only(&page, &[("email", ANNA), ("password", crate::world::PASSWORD)]).await;
    let resumed = browser.visit(&format!("https://id.test{}", posted.location())).await;
    let callback = resumed.location().to_owned();
    let first = browser.visit(&callback).await;
    assert_eq!(first.location(), "/a");
    let second = browser.visit(&callback).await;
    assert_eq!((second.answered_with(), second.location()), (302, "/a"));
}

#[tokio::test]
async fn a_late_response_to_a_sign_in_restarts_it() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://shop.test/orders/", ANNA).await;
    let sent = browser.visit("https://wiki.test/a").await;
    world.wait(595);
    let answered = browser.visit(sent.location()).await;
    assert!(answered.location().starts_with("https://wiki.test/.sealgate/callback?code="));
    world.wait(5);
    let late = browser.visit(answered.location()).await;
    assert!(late.location().starts_with("https://id.test/oauth/authorize?"));
    assert_ne!(late.sent_with("state"), sent.sent_with("state"));
}

#[tokio::test]
async fn a_link_of_an_attacker_does_not_sign_the_victim_in() {
    let world = World::new().await;
    let attacker = Browser::new(&world);
    let page = attacker.open("https://wiki.test/a").await;
    let (_, posted) = attacker.submit_only(&page, &[("email", BEN), ("password", crate::world::PASSWORD)]).await;
    let resumed = attacker.visit(&format!("https://id.test{}", posted.location())).await;
    let callback = resumed.location().to_owned();

    let stranger = Browser::new(&world);
    stranger.visit(&callback).await.assert_page(400);
    assert_eq!(stranger.jar("wiki.test"), "");

    let victim = Browser::new(&world);
    victim.visit("https://wiki.test/b").await;
    let reply = victim.visit(&callback).await;
    assert!(reply.location().starts_with("https://id.test/"), "{reply:?}");
    assert_eq!(victim.cookie("wiki.test", COOKIE), None);

    // The victim's own attempt with the attacker's code, which belongs to another challenge.
    let own = victim.visit("https://wiki.test/b").await;
    let state = own.sent_with("state").unwrap();
    let code = resumed.sent_with("code").unwrap();
    let reply = victim.visit(&format!("https://wiki.test/.sealgate/callback?code={code}&state={state}")).await;
    assert!(reply.location().starts_with("https://id.test/"), "{reply:?}");
    assert_eq!(victim.cookie("wiki.test", COOKIE), None);

    // None of these attempts has used the code up.
    assert_eq!(attacker.visit(&callback).await.location(), "/a");
}

#[tokio::test]
async fn a_code_for_one_application_opens_no_other() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let sent = browser.visit("https://shop.test/orders/").await;
    let answered = browser.visit(sent.location()).await;
    let code = answered.sent_with("code").unwrap();
    browser.forget("wiki.test");
    let other = browser.visit("https://wiki.test/a").await;
    let state = other.sent_with("state").unwrap();
    let reply = browser.visit(&format!("https://wiki.test/.sealgate/callback?code={code}&state={state}")).await;
    assert!(reply.location().starts_with("https://id.test/"), "{reply:?}");
    assert_eq!(browser.cookie("wiki.test", COOKIE), None);
    // A state opens no second application: the response for one application's sign-in is sent to
    // the callback of a second one.
    let reply = browser.visit(&answered.location().replace("shop.test", "wiki.test")).await;
    assert!(reply.location().starts_with("https://id.test/"), "{reply:?}");
    assert_eq!(browser.cookie("wiki.test", COOKIE), None);
}

#[tokio::test]
async fn one_applications_callback_does_not_affect_anothers_sign_in() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let sent = browser.visit("https://shop.test/orders/7").await;
    browser.set_cookie("wiki.test", BINDING, &browser.cookie("shop.test", BINDING).unwrap());
    let state = sent.sent_with("state").unwrap();
    let refused = format!("https://wiki.test/.sealgate/callback?error=access_denied&state={state}");
    browser.visit(&refused).await.assert_page(400);
    let page = browser.follow("https://shop.test/", sent).await;
    let end = browser.sign_in(&page, ANNA).await;
    assert_eq!(end.arrived(), ("shop", "/orders/7"));
}

#[tokio::test]
async fn a_user_disabled_during_the_sign_in_gets_no_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://shop.test/orders/", ANNA).await;
    let (one, other) = (browser.visit("https://wiki.test/a").await, browser.visit("https://wiki.test/b").await);
    let (one, other) = (browser.visit(one.location()).await, browser.visit(other.location()).await);
    let store = &world.sealgate.store;
    store.change_user(world.anna.sub, |user| user.state = UserState::Disabled).await.unwrap();
    let back = browser.visit(one.location()).await;
    assert!(back.location().starts_with("https://id.test/oauth/authorize?"), "{back:?}");
    assert_eq!(browser.cookie("wiki.test", COOKIE), None);
    store.change_user(world.anna.sub, |user| user.state = UserState::Enabled).await.unwrap();
    store.end_sessions_of_user(world.anna.sub).await.unwrap();
    let back = browser.visit(other.location()).await;
    assert!(back.location().starts_with("https://id.test/oauth/authorize?"), "{back:?}");
    assert_eq!(browser.cookie("wiki.test", COOKIE), None);
}

#[tokio::test]
async fn concurrent_sign_in_responses_begin_one_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.open("https://wiki.test/a").await;
    let (_, posted) = browser.submit_only(&page, &[("email", ANNA), ("password", crate::world::PASSWORD)]).await;
    let resumed = browser.visit(&format!("https://id.test{}", posted.location())).await;
    let callback = resumed.location().to_owned();
    let (one, other) = tokio::join!(browser.visit(&callback), browser.visit(&callback));
    let (winner, loser) = if one.location() == "/a" { (one, other) } else { (other, one) };
    assert_eq!(winner.location(), "/a");
    assert!(loser.location().starts_with("https://id.test/oauth/authorize?"), "{loser:?}");
    // The browser arrives with either answer.
    let end = browser.follow(&callback, loser).await;
    assert_eq!(end.arrived(), ("wiki", "/a"));
}

#[tokio::test]
async fn an_error_of_the_provider_is_shown_and_starts_no_sign_in() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    for (error, status) in [("access_denied", 400), ("invalid_scope", 400), ("temporarily_unavailable", 503)] {
        let sent = browser.visit("https://wiki.test/a").await;
        let state = sent.sent_with("state").unwrap();
        let address = format!("https://wiki.test/.sealgate/callback?error={error}&state={state}&iss=https://id.test");
        browser.visit(&address).await.assert_page(status);
        // The attempt has ended.
        browser.visit(&address).await.assert_page(400);
    }
}

#[tokio::test]
async fn malformed_sign_in_responses_are_reported() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let sent = browser.visit("https://wiki.test/a").await;
    let state = sent.sent_with("state").unwrap();
    for query in ["state=a&state=b&code=c", "state=%ff", "iss=https://evil.test&code=c&state=s"] {
        browser.visit(&format!("https://wiki.test/.sealgate/callback?{query}")).await.assert_page(400);
    }
    let mixed = format!("https://wiki.test/.sealgate/callback?iss=https://evil.test&code=c&state={state}");
    browser.visit(&mixed).await.assert_page(400);
}

#[tokio::test]
async fn a_redirect_loop_is_stopped_after_three_callbacks() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://shop.test/orders/", ANNA).await;
    world.wait(60);
    browser.refuse("wiki.test", COOKIE);
    let page = browser.open("https://wiki.test/a").await;
    page.assert_page(400);
    browser.visit("https://wiki.test/a").await.assert_page(400);
    world.wait(10);
    assert_eq!(browser.visit("https://wiki.test/a").await.answered_with(), 302);
}

#[tokio::test]
async fn a_browser_without_cookies_gets_an_error_page() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://shop.test/orders/", ANNA).await;
    for name in [COOKIE, BINDING, "__Host-sealgate-rounds"] {
        browser.refuse("wiki.test", name);
    }
    browser.open("https://wiki.test/a").await.assert_page(400);
}

/// Office follows redirects itself and passes the last URL to the browser, which has not begun a
/// sign-in.
#[tokio::test]
async fn a_link_in_an_office_document_is_not_redirected() {
    let world = World::new().await;
    for fields in [
        [("user-agent", "Mozilla/4.0 (compatible; ms-office; MSOffice rmj)"), ("accept", "*/*")],
        [("user-agent", "Mozilla/4.0 (compatible; MSIE 7.0; Trident/7.0; ms-office)"), ("accept", "text/html, */*")],
    ] {
        for method in ["GET", "HEAD"] {
            let reply = world.call(method, "https://wiki.test/a", &fields).await;
            reply.assert_page(200);
            assert_eq!((reply.header("set-cookie"), reply.header("cache-control")), (None, Some("no-store")));
        }
    }
}

/// The URL stays in the browser's history, and the back button returns to it.
#[tokio::test]
async fn a_page_with_a_url_too_long_to_store_asks_for_a_sign_in() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let long = format!("https://wiki.test/search?q={}", "x".repeat(8192));
    let page = browser.visit(&long).await;
    page.assert_page(401);
    assert!(page.text().contains("Sign in to continue") && page.text().contains("href=\"/\""), "{page:?}");
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    assert_eq!(browser.visit(&long).await.arrived().0, "wiki");
}

#[tokio::test]
async fn repeated_manual_sign_ins_are_not_a_redirect_loop() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    for _ in 0..5 {
        let page = browser.open("https://wiki.test/a").await;
        world.wait(1);
        let end = browser.sign_in(&page, ANNA).await;
        assert_eq!(end.arrived(), ("wiki", "/a"));
        browser.forget("id.test");
        browser.refuse("nowhere", COOKIE);
        browser.visit("https://wiki.test/.sealgate/logout").await;
    }
}

#[tokio::test]
async fn started_sign_ins_are_limited_per_address() {
    let world = World::with("[rate_limits]\nsign_ins = 20").await;
    let browser = Browser::new(&world);
    for _ in 0..20 {
        assert_eq!(browser.visit("https://wiki.test/a").await.answered_with(), 302);
    }
    let limited = browser.visit("https://wiki.test/a").await;
    limited.assert_page(429);
    assert!(limited.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    let mut neighbour = Browser::new(&world);
    neighbour.address = "192.0.2.2".into();
    assert_eq!(neighbour.visit("https://wiki.test/a").await.answered_with(), 302);
    world.wait(60);
    assert_eq!(browser.visit("https://wiki.test/a").await.answered_with(), 302);
}

/// Monday morning: all sessions have expired, and the whole building shares one address.
#[tokio::test]
async fn an_office_of_five_hundred_behind_one_address_signs_in_within_a_minute() {
    let world = World::new().await;
    for person in 0..500 {
        let browser = Browser::new(&world);
        let page = browser.open("https://wiki.test/a").await;
        assert!(is_login(&page), "person {person}: {page:?}");
        // The pages of a whole sign-in, with their resources.
        for file in ["style.css", "script.js", "keys.js", "logo"] {
            let file = browser.visit(&format!("https://id.test/oauth/{file}")).await;
            assert_ne!(file.status, 429, "person {person}");
        }
        // Verifying a password is slow, so only some users type theirs. The other users request the
        // same number of pages without a password.
        if person % 50 == 49 {
            assert_eq!(browser.sign_in(&page, ANNA).await.arrived(), ("wiki", "/a"), "person {person}");
        } else {
            for _ in 0..2 {
                let page = browser.visit("https://id.test/oauth/signed-out").await;
                assert_ne!(page.status, 429, "person {person}");
            }
        }
    }
}

#[tokio::test]
async fn the_403_page_names_the_account_and_offers_another() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let refused = browser.sign_in_at("https://wiki.test/staff/rota?week=3", BEN).await;
    refused.assert_page(403);
    assert!(refused.text().contains(BEN), "{}", refused.text());
    // A second request shows the same page, and no sign-in.
    browser.visit("https://wiki.test/staff/rota?week=3").await.assert_page(403);
    let switch = link(refused.text(), "/.sealgate/switch-account");
    let chooser = browser.open(&format!("https://wiki.test{switch}")).await;
    assert!(chooser.text().contains(BEN) && !is_login(&chooser), "{}", chooser.text());
    let login = browser.submit(&chooser, &[]).await;
    let end = browser.sign_in(&login, ANNA).await;
    assert_eq!(end.arrived(), ("wiki", "/staff/rota?week=3"));
    assert_eq!(end.header("x-forwarded-email"), Some(ANNA));
}

#[tokio::test]
async fn an_application_on_the_issuers_host_is_opened_by_the_providers_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.open("https://id.test/dashboard?x=1").await;
    let end = browser.sign_in(&page, ANNA).await;
    assert_eq!(end.arrived(), ("portal", "/dashboard?x=1"));
    assert_eq!(end.header("x-forwarded-email"), Some(ANNA));
    // The only session cookie is the provider's: other applications still open with it.
    let end = browser.open("https://wiki.test/a").await;
    assert_eq!(end.arrived(), ("wiki", "/a"));
    // The provider's own paths never reach the application.
    assert_eq!(browser.visit("https://id.test/oauth/nothing").await.answered_with(), 404);
    for trick in ["/%6fauth/login", "/oauth%2flogin", "/x/../oauth/login"] {
        let reply = browser.visit(&format!("https://id.test{trick}")).await;
        assert!(reply.arrived.is_none() || reply.arrived().0 == "portal", "{trick}");
    }
}

#[tokio::test]
async fn a_full_store_does_not_affect_signed_in_users() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/a", ANNA).await;
    world.engine.refuse_writes(true);
    assert_eq!(browser.visit("https://wiki.test/a").await.arrived(), ("wiki", "/a"));
    let stranger = Browser::new(&world);
    let reply = stranger.visit("https://wiki.test/a").await;
    reply.assert_page(503);
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn pending_sign_ins_are_still_counted_after_a_restart() {
    let world = World::new().await;
    for _ in 0..3 {
        Browser::new(&world).visit("https://wiki.test/").await;
    }
    assert_eq!(world.sealgate.store.open_interactions(), 3);
    let engine = Arc::clone(&world.engine);
    assert_eq!(Store::open(engine, 10).await.unwrap().open_interactions(), 3);
}

#[tokio::test]
async fn a_browser_has_at_most_eight_pending_sign_ins() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let mut sent = Vec::new();
    for number in 0..20 {
        sent.push(browser.visit(&format!("https://wiki.test/page/{number}")).await.location().to_owned());
        world.wait(1);
    }
    assert_eq!(world.sealgate.store.open_interactions(), 8);
    // The last ones still lead to their own pages.
    let page = browser.open(&sent[12]).await;
    assert_eq!(browser.sign_in(&page, ANNA).await.arrived.unwrap().target, "/page/12");
    assert_eq!(browser.open(&sent[19]).await.arrived.unwrap().target, "/page/19");
}

#[tokio::test]
async fn an_ipv6_site_may_start_twice_the_sign_ins_of_an_address() {
    let world = World::with("[rate_limits]\nsign_ins = 300").await;
    let mut begun = 0;
    for network in 0..256 {
        for _ in 0..4 {
            let mut browser = Browser::new(&world);
            browser.address = format!("2001:db8:1:{network:x}::1");
            match browser.visit("https://wiki.test/").await.status {
                302 => begun += 1,
                status => assert_eq!(status, 429),
            }
        }
    }
    assert_eq!((begun, world.sealgate.store.open_interactions()), (600, 600));
}

#[tokio::test]
async fn a_sign_in_page_that_was_left_open_leads_to_the_requested_page() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.open("https://wiki.test/a?b=c").await;
    world.wait(8 * 3600);
    assert_eq!(browser.sign_in(&page, ANNA).await.arrived(), ("wiki", "/a?b=c"));
}

#[tokio::test]
async fn back_after_the_sign_in_leads_to_the_application() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.open("https://wiki.test/a").await;
    assert_eq!(browser.sign_in(&page, ANNA).await.arrived(), ("wiki", "/a"));
    let form = page.text().split('<').find(|tag| tag.starts_with("form ")).unwrap();
    let login = crate::browser::attribute(form, "action").unwrap();
    let login = format!("https://id.test{login}");
    assert_eq!(browser.open(&login).await.arrived(), ("wiki", "/a"));
    // The callback of another sign-in does not end at the page of this one.
    let other = browser.visit("https://wiki.test/.sealgate/callback?state=x&code=y").await;
    assert_eq!(other.location(), "/");
    // After a minute the cookie has expired, and the sign-in leads to the application's start page.
    browser.set_cookie("wiki.test", "__Host-sealgate-last", "");
    assert_eq!(browser.open(&login).await.arrived(), ("wiki", "/"));
}

/// The user presses Back and sends the form again, or reloads the page that the form led to.
#[tokio::test]
async fn a_resent_sign_in_form_leads_to_the_requested_page_without_a_second_session() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.open("https://wiki.test/a?b=c").await;
    let fields = [("email", ANNA), ("password", crate::world::PASSWORD)];
    assert_eq!(browser.submit(&page, &fields).await.arrived(), ("wiki", "/a?b=c"));
    let sessions = || (browser.cookie("id.test", COOKIE), browser.cookie("wiki.test", COOKIE));
    let before = sessions();
    for fields in [&fields[..], &[("email", ANNA), ("password", "wrong")]] {
        assert_eq!(browser.submit(&page, fields).await.arrived(), ("wiki", "/a?b=c"));
        assert_eq!(sessions(), before);
    }
    // A second browser gets neither a session nor the page.
    let stranger = Browser::new(&world);
    let shown = stranger.submit(&page, &fields).await;
    assert_eq!(shown.answered_with(), 400);
    assert!(!shown.text().contains("b=c"));
}

/// A page of up to 2 KiB fits into the cookie. A longer one ends at the start page.
#[tokio::test]
async fn a_resent_sign_in_form_leads_to_a_page_with_a_long_url() {
    let world = World::new().await;
    let fields = [("email", ANNA), ("password", crate::world::PASSWORD)];
    for (length, is_kept) in [(2048, true), (2049, false)] {
        let browser = Browser::new(&world);
        let wanted = format!("/{}", "a".repeat(length - 1));
        let page = browser.open(&format!("https://wiki.test{wanted}")).await;
        assert_eq!(browser.submit(&page, &fields).await.arrived(), ("wiki", wanted.as_str()));
        let again = if is_kept { wanted.as_str() } else { "/" };
        assert_eq!(browser.submit(&page, &fields).await.arrived(), ("wiki", again), "{length}");
    }
}
