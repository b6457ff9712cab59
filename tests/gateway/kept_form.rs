//! Tests forms submitted after the session has ended: they are stored, and the user submits them
//! again.

use bytes::Bytes;
use http::header;
use sealgate_edge::origin::Origin;
use sealgate_edge::{AnswerReason, Front, RouteDecision};

use crate::browser::{Browser, attribute, is_login};
use crate::world::{ANNA, BEN, PASSWORD, Reply, World, encode, request};

const COOKIE: &str = "__Host-sealgate";
const BODY: &str = "title=%C5%9Eubat+%26+%3Cb%3E%22&note=bir%0D%0Aiki&empty=&title=again";
const TARGET: &str = "/pages/7?draft=1&x=%2F";
/// Longer than the idle timeout of a session, in seconds.
const AWAY: u64 = 3601;

async fn world() -> World {
    World::keeping(Some(10)).await
}

/// Returns the headers of a form that a page of this host submits.
fn page_fields(length: &str) -> Vec<(&str, &str)> {
    vec![
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
        ("accept", "text/html,*/*;q=0.8"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-length", length),
    ]
}

async fn post(browser: &Browser<'_>, url: &str, body: &str) -> Reply {
    let length = body.len().to_string();
    browser.send("POST", url, &page_fields(&length), body).await
}

/// Submits the form on the page that follows the sign-in.
async fn press_the_button(browser: &Browser<'_>, page: &Reply) -> Reply {
    let (target, _, fields) = waiting(page);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    post(browser, &format!("https://wiki.test{target}"), &encode(&fields)).await
}

/// Returns the target, the encoding and the fields of a page's form.
#[track_caller]
fn waiting(page: &Reply) -> (String, String, Vec<(String, String)>) {
    page.assert_page(200);
    let html = page.text();
    let unescaped = |text: String| text.replace("&#34;", "\"").replace("&#60;", "<").replace("&#62;", ">");
    let tags = |name: &'static str| html.split('<').filter(move |tag| tag.starts_with(name));
    let form = tags("form ").next().expect("a form");
    let field = |tag: &str| (attribute(tag, "name").unwrap(), unescaped(attribute(tag, "value").unwrap()));
    let fields = tags("input ").map(field).collect();
    (attribute(form, "action").unwrap(), attribute(form, "accept-charset").unwrap(), fields)
}

/// Anna submits a form after her session has expired. Returns the sign-in page.
async fn sent_too_late(world: &World, browser: &Browser<'_>) -> Reply {
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    world.wait(AWAY);
    let url = format!("https://wiki.test{TARGET}");
    let reply = post(browser, &url, BODY).await;
    // The answer to a form is fetched with a GET.
    assert_eq!(reply.answered_with(), 303, "{reply:?}");
    assert!(!reply.location().contains("draft"), "the sent form stays here");
    assert_eq!(world.sealgate.store.kept_forms(), 1);
    let page = browser.follow(&url, reply).await;
    assert!(is_login(&page), "{page:?}");
    page
}

#[tokio::test]
async fn a_form_sent_after_the_session_is_kept_and_resent_by_a_button() {
    let world = world().await;
    let browser = Browser::new(&world);
    let page = sent_too_late(&world, &browser).await;
    let shown = browser.sign_in(&page, ANNA).await;
    let (target, charset, fields) = waiting(&shown);
    assert_eq!((target.as_str(), charset.as_str()), (TARGET, "utf-8"));
    let expected = [("title", "Şubat & <b>\""), ("note", "bir\r\niki"), ("empty", ""), ("title", "again")];
    assert!(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected), "{fields:?}");
    assert!(shown.text().contains("wiki") && shown.text().contains(ANNA) && !shown.text().contains("<script"));
    assert_eq!(shown.header("cache-control"), Some("no-store"));
    // Applications check the `Origin`, and may redirect anywhere.
    assert_eq!(shown.header("referrer-policy"), Some("same-origin"));
    assert!(!shown.header("content-security-policy").unwrap().contains("form-action"));
    assert_eq!(world.sealgate.store.kept_forms(), 0);
    assert_eq!(press_the_button(&browser, &shown).await.arrived(), ("wiki", TARGET));
}

#[tokio::test]
async fn a_form_is_kept_for_a_user_without_a_session() {
    let world = world().await;
    let browser = Browser::new(&world);
    let url = format!("https://wiki.test{TARGET}");
    let reply = post(&browser, &url, BODY).await;
    let page = browser.follow(&url, reply).await;
    let shown = browser.sign_in(&page, BEN).await;
    assert!(shown.text().contains(BEN));
    assert_eq!(press_the_button(&browser, &shown).await.arrived(), ("wiki", TARGET));
}

#[tokio::test]
async fn a_kept_form_of_another_user_is_dropped() {
    let world = world().await;
    let browser = Browser::new(&world);
    let page = sent_too_late(&world, &browser).await;
    let shown = browser.sign_in(&page, BEN).await;
    shown.assert_page(403);
    assert!(!shown.text().contains("ubat") && !shown.text().contains("<form"), "{}", shown.text());
    assert_eq!(world.sealgate.store.kept_forms(), 0);
}

/// Signs in and returns the URL that shows the stored form.
async fn address(world: &World, browser: &Browser<'_>) -> String {
    let page = sent_too_late(world, browser).await;
    let mut reply = browser.submit_only(&page, &[("email", ANNA), ("password", PASSWORD)]).await.1;
    loop {
        let location = reply.location().to_owned();
        if location.starts_with("/.sealgate/form?") {
            return format!("https://wiki.test{location}");
        }
        let next = if location.starts_with('/') { format!("https://id.test{location}") } else { location };
        reply = browser.visit(&next).await;
        assert_ne!(reply.status, 200, "{next}: {reply:?}");
    }
}

#[tokio::test]
async fn a_form_is_shown_once() {
    let world = world().await;
    let browser = Browser::new(&world);
    let address = address(&world, &browser).await;
    waiting(&browser.visit(&address).await);
    browser.visit(&address).await.assert_page(410);
}

#[tokio::test]
async fn a_form_is_shown_to_its_own_browser_only() {
    let world = world().await;
    let browser = Browser::new(&world);
    let address = address(&world, &browser).await;
    let other = Browser::new(&world);
    other.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    other.visit(&address).await.assert_page(410);
    // An attacker who guesses ids gets nothing and deletes nothing.
    for guess in ["", "?id=", "?id=x", "?id=a&id=b"] {
        browser.visit(&format!("https://wiki.test/.sealgate/form{guess}")).await.assert_page(410);
    }
    waiting(&browser.visit(&address).await);
}

#[tokio::test]
async fn a_form_is_kept_for_fifteen_minutes() {
    for (waited, status) in [(899, 200), (901, 410)] {
        let world = world().await;
        let browser = Browser::new(&world);
        let address = address(&world, &browser).await;
        world.wait(waited);
        browser.visit(&address).await.assert_page(status);
    }
}

#[tokio::test]
async fn a_user_signed_out_before_the_form_is_shown_signs_in_again() {
    let world = world().await;
    let browser = Browser::new(&world);
    let address = address(&world, &browser).await;
    let session = browser.cookie("wiki.test", COOKIE).unwrap();
    browser.set_cookie("wiki.test", COOKIE, &"A".repeat(session.len()));
    // The provider's session is still valid, so that the user types nothing.
    waiting(&browser.open(&address).await);
}

#[tokio::test]
async fn a_sign_in_that_is_too_old_for_a_form_is_renewed_for_it() {
    let world = world().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/money/", ANNA).await.arrived();
    world.wait(301);
    let url = "https://desk.test/money/send";
    let reply = post(&browser, url, "amount=5").await;
    let page = browser.follow(url, reply).await;
    assert!(is_login(&page), "{page:?}");
    let shown = browser.sign_in(&page, ANNA).await;
    assert_eq!(waiting(&shown).0, "/money/send");
    assert_eq!(post(&browser, url, "amount=5").await.arrived(), ("desk", "/money/send"));
}

#[tokio::test]
async fn on_the_issuers_host_the_providers_session_counts() {
    let world = world().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/portal", ANNA).await.arrived();
    world.wait(AWAY);
    let url = "https://id.test/portal/send";
    let reply = post(&browser, url, "a=b").await;
    let page = browser.follow(url, reply).await;
    browser.sign_in(&page, BEN).await.assert_page(403);
    let reply = post(&browser, url, "a=b").await;
    assert_eq!(reply.arrived(), ("portal", "/portal/send"));
}

#[tokio::test]
async fn a_form_in_an_older_encoding_says_so() {
    let world = world().await;
    let browser = Browser::new(&world);
    let reply = post(&browser, "https://wiki.test/a", "ad=%FEirin+%80").await;
    let page = browser.follow("https://wiki.test/a", reply).await;
    let (_, charset, fields) = waiting(&browser.sign_in(&page, ANNA).await);
    assert_eq!((charset.as_str(), fields), ("windows-1252", vec![("ad".to_owned(), "þirin €".to_owned())]));
}

#[tokio::test]
async fn the_page_speaks_turkish() {
    let world = world().await;
    let browser = Browser::new(&world);
    browser.set_cookie("wiki.test", "__Host-sealgate-language", "tr");
    let reply = post(&browser, "https://wiki.test/a", "a=b").await;
    let page = browser.follow("https://wiki.test/a", reply).await;
    let shown = browser.sign_in(&page, ANNA).await;
    assert!(shown.text().contains("Form şimdi gönderilsin mi?"), "{}", shown.text());
}

/// A link scanner, a preview or an image does not use the form up: it gets a page with a button, or
/// nothing.
#[tokio::test]
async fn only_a_page_that_its_user_opens_shows_the_form() {
    let world = world().await;
    let browser = Browser::new(&world);
    let page = sent_too_late(&world, &browser).await;
    let (url, reply) = browser.submit_only(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
    let mut at = (url, reply);
    while !at.1.location().starts_with("/.sealgate/form?") {
        let next = at.1.location().to_owned();
        let next = if next.starts_with('/') { format!("https://id.test{next}") } else { next };
        at = (next.clone(), browser.visit(&next).await);
    }
    let url = format!("https://wiki.test{}", at.1.location());
    let html = ("accept", "text/html,*/*;q=0.8");
    for fields in [
        vec![],
        vec![html],
        vec![("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
        vec![("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe"), html],
    ] {
        let asked = browser.send("GET", &url, &fields, "").await;
        asked.assert_page(200);
        assert!(asked.text().contains("id=\"form-show\"") && !asked.text().contains("Şubat"), "{asked:?}");
        let policy = asked.header("content-security-policy").unwrap();
        assert!(policy.ends_with("form-action 'self'"), "{policy}");
    }
    assert_eq!(world.sealgate.store.kept_forms(), 1);
    let shown = browser.send("POST", &url, &[html], "").await;
    assert_eq!(waiting(&shown).0, TARGET);
    assert_eq!(world.sealgate.store.kept_forms(), 0);
}

/// A form that cannot be stored, or a frame, gets a page with instructions. Programs get JSON; both
/// get the same challenge.
#[tokio::test]
async fn a_form_or_a_frame_that_needs_a_sign_in_shows_a_page() {
    let world = world().await;
    let browser = Browser::new(&world);
    let large = "65537";
    for (name, value) in [
        ("content-type", "multipart/form-data; boundary=x"),
        ("content-length", large),
        ("sec-fetch-site", "cross-site"),
    ] {
        let fields: Vec<_> =
            page_fields("3").into_iter().filter(|(known, _)| *known != name).chain([(name, value)]).collect();
        let reply = browser.send("POST", "https://wiki.test/a", &fields, "a=b").await;
        reply.assert_page(401);
        assert!(reply.text().contains("Sign in to continue") && reply.text().contains("href=\"/\""), "{reply:?}");
        assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer "), "{reply:?}");
        assert_eq!(reply.header("x-frame-options"), Some("DENY"));
    }
    for dest in ["iframe", "frame", "object", "embed"] {
        let fields = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", dest), ("accept", "text/html")];
        let reply = browser.send("GET", "https://wiki.test/a", &fields, "").await;
        assert_eq!(reply.answered_with(), 401);
        assert!(reply.text().contains("target=\"_top\""), "{reply:?}");
        // Only pages of the application may show it in a frame.
        assert_eq!(reply.header("x-frame-options"), Some("SAMEORIGIN"));
        assert!(reply.header("content-security-policy").unwrap().contains("frame-ancestors 'self'"), "{reply:?}");
    }
}

/// Asserts a rejection, as a page or for a program, and that no form was stored.
async fn refused(world: &World, browser: &Browser<'_>, url: &str, fields: &[(&str, &str)], body: &str) {
    refused_as(world, browser, "POST", url, fields, body).await;
}

async fn refused_as(
    world: &World,
    browser: &Browser<'_>,
    method: &str,
    url: &str,
    fields: &[(&str, &str)],
    body: &str,
) {
    let reply = browser.send(method, url, fields, body).await;
    let challenge = reply.header("www-authenticate").unwrap();
    assert!(reply.answered_with() == 401 && challenge.starts_with("Bearer "), "{reply:?}");
    assert_eq!(world.sealgate.store.kept_forms(), 0, "{fields:?}");
    assert_eq!(world.sealgate.store.open_interactions(), 0);
}

#[tokio::test]
async fn forms_of_other_origins_and_types_are_not_kept() {
    let world = world().await;
    let browser = Browser::new(&world);
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-dest", "iframe"),
        ("content-type", "multipart/form-data; boundary=x"),
        ("content-type", "text/plain"),
        ("content-type", "application/json"),
        ("content-length", "65537"),
        ("content-length", "-1"),
        ("content-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
        ("origin", "https://evil.test"),
        ("x-requested-with", "XMLHttpRequest"),
    ] {
        let fields = page_fields("3");
        let fields = fields.into_iter().filter(|(known, _)| *known != name).chain([(name, value)]);
        refused(&world, &browser, "https://wiki.test/a", &fields.collect::<Vec<_>>(), "a=b").await;
    }
    let fields: Vec<_> = page_fields("3").into_iter().filter(|(name, _)| *name != "content-length").collect();
    refused(&world, &browser, "https://wiki.test/a", &fields, "a=b").await;
    refused(&world, &browser, "https://wiki.test/api/a", &page_fields("3"), "a=b").await;
    // A browser would not submit these with the same bytes again.
    for (target, body) in [("/a", "a"), ("/a", "a=%0A"), ("/a", "{}"), ("/a?x='", "a=b")] {
        refused(&world, &browser, &format!("https://wiki.test{target}"), &page_fields("3"), body).await;
    }
    refused_as(&world, &browser, "PUT", "https://wiki.test/a", &page_fields("3"), "a=b").await;
    assert_eq!(post(&browser, "https://wiki.test/public/a", "a=b").await.arrived(), ("wiki", "/public/a"));
}

#[tokio::test]
async fn no_form_is_kept_without_a_wrapping_key_or_with_a_limit_of_zero() {
    for world in [World::new().await, World::keeping(Some(0)).await] {
        let browser = Browser::new(&world);
        refused(&world, &browser, "https://wiki.test/a", &page_fields("3"), "a=b").await;
    }
}

#[tokio::test]
async fn a_form_of_an_unknown_sender_is_not_kept() {
    let world = world().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    // An operator ended the session: the form of another user in this browser is not Anna's.
    world.sealgate.store.end_sessions_of_user(world.anna.sub).await.unwrap();
    let reply = post(&browser, "https://wiki.test/a", "a=b").await;
    // The application's own session still exists, so that the owner of the form is known.
    assert_eq!(reply.answered_with(), 303);
    let browser = Browser::new(&world);
    browser.set_cookie("wiki.test", COOKIE, &"A".repeat(65));
    post(&browser, "https://wiki.test/a", "a=b").await.assert_page(401);
}

#[tokio::test]
async fn the_longest_form_is_kept_but_no_body_longer_than_announced() {
    let world = world().await;
    let browser = Browser::new(&world);
    let longest = format!("a={}", "x".repeat(65_534));
    assert_eq!(post(&browser, "https://wiki.test/a", &longest).await.answered_with(), 303);
    let longer = format!("a={}", "x".repeat(65_535));
    let reply = browser.send("POST", "https://wiki.test/a", &page_fields("5"), &longer).await;
    reply.assert_page(401);
}

#[tokio::test]
async fn kept_forms_are_limited_per_address_and_in_total() {
    let world = world().await;
    let mut answers = Vec::new();
    for _ in 0..70 {
        // A browser that rejects cookies.
        let browser = Browser::new(&world);
        answers.push(post(&browser, "https://wiki.test/a", "a=b").await.answered_with());
    }
    assert_eq!((&answers[..60], &answers[60..]), (&[303; 60][..], &[429; 10][..]));
    assert_eq!(world.sealgate.store.kept_forms(), 10);
}

#[tokio::test]
async fn a_form_read_after_its_sender_signed_in_again_is_shown() {
    let world = world().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    let jar = browser.jar("wiki.test");
    let mut fields = page_fields("3");
    fields.push(("cookie", &jar));
    let head_with = |fields: &[(&str, &str)]| {
        let (mut head, _) = request("POST", "https://wiki.test/a", fields, "").into_parts();
        let address = "192.0.2.1".parse().unwrap();
        head.extensions.insert(Origin { address, secure: true, request_id: "request-1".into(), ..Origin::unknown() });
        head
    };
    let RouteDecision::Local { route, .. } = world.site.decide(&head_with(&page_fields("3"))).await else {
        panic!("the form of a stranger is read");
    };
    let head = head_with(&fields);
    assert!(matches!(world.site.decide(&head).await, RouteDecision::Forward(_)));
    let response = world.site.answer(&head, AnswerReason::Local(route, Bytes::from("a=b"))).await.unwrap();
    assert_eq!(response.status(), 303);
    let location = response.headers()[header::LOCATION].to_str().unwrap();
    let shown = browser.visit(&format!("https://wiki.test{location}")).await;
    assert_eq!(waiting(&shown).0, "/a");
}

/// Signs out at the application and at the provider.
async fn sign_out(browser: &Browser<'_>) {
    let page = browser.open("https://wiki.test/.sealgate/logout").await;
    browser.submit(&page, &[("logout-confirm", "yes")]).await;
}

/// Submits the form of an open page, and signs in to show it.
async fn send_and_sign_in(browser: &Browser<'_>, url: &str, email: &str) -> Reply {
    let reply = post(browser, url, BODY).await;
    let page = browser.follow(url, reply).await;
    browser.sign_in(&page, email).await
}

#[tokio::test]
async fn the_form_of_a_signed_out_user_is_not_shown_to_another_user() {
    let world = world().await;
    let browser = Browser::new(&world);
    let url = format!("https://wiki.test{TARGET}");
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    sign_out(&browser).await;
    let shown = send_and_sign_in(&browser, &url, BEN).await;
    shown.assert_page(403);
    assert!(!shown.text().contains("ubat") && world.sealgate.store.kept_forms() == 0, "{}", shown.text());
    // Ben signs out too: the owner of the open page is no longer known.
    sign_out(&browser).await;
    post(&browser, &url, BODY).await.assert_page(401);
    assert_eq!(world.sealgate.store.kept_forms(), 0);
}

#[tokio::test]
async fn a_user_who_signs_in_again_gets_the_form_of_the_open_page() {
    let world = world().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    sign_out(&browser).await;
    let shown = send_and_sign_in(&browser, &format!("https://wiki.test{TARGET}"), ANNA).await;
    assert_eq!(waiting(&shown).0, TARGET);
}

#[tokio::test]
async fn a_sign_out_deletes_the_kept_forms_of_the_browser() {
    let world = world().await;
    let browser = Browser::new(&world);
    // Without a known owner, the next user who signs in would get the form.
    let reply = post(&browser, "https://wiki.test/a", BODY).await;
    let login = browser.follow("https://wiki.test/a", reply).await;
    let elsewhere = Browser::new(&world);
    post(&elsewhere, "https://wiki.test/a", BODY).await;
    assert_eq!(world.sealgate.store.kept_forms(), 2);
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    sign_out(&browser).await;
    assert_eq!(world.sealgate.store.kept_forms(), 1, "another browser's form stays");
    browser.sign_in(&login, BEN).await.assert_page(410);
}

#[tokio::test]
async fn on_the_issuers_host_a_sign_out_ends_the_provider_session() {
    let world = world().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://id.test/portal", ANNA).await.arrived();
    post(&Browser::new(&world), "https://id.test/portal/send", "a=b").await;
    let page = browser.open("https://id.test/oauth/logout").await;
    browser.submit(&page, &[("logout-confirm", "yes")]).await;
    send_and_sign_in(&browser, "https://id.test/portal/send", BEN).await.assert_page(403);
}
