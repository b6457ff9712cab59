//! Tests forms of the console that are sent with a sign-in that is too old: they are kept, and shown
//! again after the sign-in.

use super::confirmation::{guarded, state};
use super::*;
use crate::support::is_login;

const BROWSER: &str = "__Host-sealgate-browser";

/// Time after which a sign-in is too old for a guarded change, in seconds.
const LATE: u64 = 301;

/// Opens the page in time and sends its form too late. Returns the sign-in page.
async fn sent_late(provider: &Provider, browser: &Browser<'_>, path: &str, fields: &[(&str, &str)]) -> Reply {
    let page = browser.open(path).await;
    provider.wait(LATE);
    let login = send(browser, path, &csrf_of(&page), fields).await;
    assert_login(&login);
    login
}

async fn send(browser: &Browser<'_>, path: &str, csrf: &str, fields: &[(&str, &str)]) -> Reply {
    let reply = browser.post(path, &[&[("csrf", csrf)], fields].concat()).await;
    assert!(!reply.location().contains("example.test"), "the fields are not in the address: {reply:?}");
    browser.follow(reply).await
}

/// Returns the address of a page of the console to which the sign-in on this page leads.
async fn address_after(browser: &Browser<'_>, login: &Reply, email: &str) -> String {
    let mut reply = browser.submit_only(login, &[("email", email), ("password", PASSWORD)]).await;
    while !reply.location().starts_with("/console") {
        reply = browser.get(reply.location()).await;
    }
    reply.location().to_owned()
}

fn user_page(provider: &Provider) -> String {
    format!("/console/users/{}", provider.ben.sub)
}

fn kept(provider: &Provider) -> usize {
    provider.sealgate.store.kept_forms()
}

/// The administrator fills in the form for longer than a sign-in is recent. After the new sign-in,
/// the page asks to confirm the typed values.
#[tokio::test]
async fn a_form_for_a_new_administrator_outlives_the_sign_in() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let fields = [
        ("email", "new@example.test"),
        ("name", "New <b>"),
        ("groups", "staff\r\nteam"),
        ("role_admin", "yes"),
        ("password", "not a field of this form"),
    ];
    let login = sent_late(&provider, &anna, "/console/users/new", &fields).await;
    assert_eq!(kept(&provider), 1);
    let asked = anna.sign_in(&login, ANNA).await;
    assert!(is_confirmation(&asked) && asked.text().contains("new@example.test"), "{asked:?}");
    assert!(!asked.text().contains("not a field"), "a password is kept: {asked:?}");
    assert_eq!((state(&provider).await.2, kept(&provider)), (false, 0), "nothing is submitted");
    anna.submit(&asked, &[("sure", "yes")]).await;
    let added = provider.sealgate.store.user_by_email(&Email::parse("new@example.test").unwrap()).await.unwrap();
    let added = added.unwrap();
    assert_eq!((added.name.as_str(), added.roles), ("New <b>", [Role::Admin].into()));
    assert_eq!(added.groups, ["staff".to_owned(), "team".to_owned()].into());
}

#[tokio::test]
async fn every_guarded_form_is_shown_again_after_the_sign_in() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let before = state(&provider).await;
    for (path, fields) in confirmation::forms(&provider) {
        let login = sent_late(&provider, &anna, &path, &fields).await;
        let asked = anna.sign_in(&login, ANNA).await;
        assert!(is_confirmation(&asked), "{path} {fields:?}: {asked:?}");
        for (name, value) in &fields {
            let field = format!("name=\"{name}\" value=\"{value}\"");
            assert!(asked.text().contains(&field), "{path} {field}: {asked:?}");
        }
    }
    assert_eq!((state(&provider).await, kept(&provider)), (before, 0));
}

/// The change needs no confirmation any more, because another administrator made it. It is not
/// submitted: the form shows the typed values.
#[tokio::test]
async fn a_kept_change_that_needs_no_confirmation_is_shown_in_its_form() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let fields = [("action", "save"), ("role_admin", "yes"), ("groups", "typed-group")];
    let login = sent_late(&provider, &anna, &user_page(&provider), &fields).await;
    let other = |user: &mut User| (user.roles, user.groups) = ([Role::Admin].into(), ["typed-group".to_owned()].into());
    provider.change_user(provider.ben.sub, other).await;
    let before = state(&provider).await;
    let form = anna.sign_in(&login, ANNA).await;
    assert!(!is_confirmation(&form) && form.text().contains("typed-group"), "{form:?}");
    assert!(form.text().contains("id=\"role_admin\" name=\"role_admin\" value=\"yes\" checked"), "{form:?}");
    assert_eq!(state(&provider).await, before);
}

#[tokio::test]
async fn typed_values_are_shown_with_a_fault() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    let fields = [("action", "save"), ("groups", "typed,group"), ("role_developer", "yes")];
    let form = press_only(&anna, &user_page(&provider), &fields).await;
    assert!(form.text().contains("typed,group") && form.text().contains("value=\"yes\" checked"), "{form:?}");
    let fields = [("action", "save-profile"), ("name", "Typed"), ("username", "ben!")];
    let form = press_only(&anna, &user_page(&provider), &fields).await;
    assert!(form.text().contains("value=\"Typed\"") && form.text().contains("value=\"ben!\""), "{form:?}");
}

/// The confirmation page was left open too. It is confirmed again after the sign-in.
#[tokio::test]
async fn a_confirmed_form_is_confirmed_again() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let before = state(&provider).await;
    let login = sent_late(&provider, &anna, &user_page(&provider), &[("action", "disable"), ("sure", "yes")]).await;
    let asked = anna.sign_in(&login, ANNA).await;
    assert!(is_confirmation(&asked), "{asked:?}");
    assert!(!asked.text().contains("type=\"hidden\" name=\"sure\""), "{asked:?}");
    assert_eq!(state(&provider).await, before);
    anna.submit(&asked, &[("sure", "yes")]).await;
    assert!(!state(&provider).await.0.unwrap().is_enabled());
}

#[tokio::test]
async fn a_kept_form_is_shown_once() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let login = sent_late(&provider, &anna, &user_page(&provider), &[("action", "disable")]).await;
    let address = address_after(&anna, &login, ANNA).await;
    // A look-ahead of the browser does not use it up.
    let ahead = anna.get_with(&address, &[("sec-purpose", "prefetch")]).await;
    assert!(!is_confirmation(&ahead), "{ahead:?}");
    assert!(is_confirmation(&anna.get(&address).await));
    let again = anna.get(&address).await;
    assert!(again.status == 200 && !is_confirmation(&again), "{again:?}");
}

#[tokio::test]
async fn a_kept_form_expires_after_fifteen_minutes() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    for (seconds, is_shown) in [(899, true), (900, false)] {
        let login = sent_late(&provider, &anna, &user_page(&provider), &[("action", "disable")]).await;
        provider.wait(seconds);
        let page = anna.sign_in(&login, ANNA).await;
        assert_eq!((page.status, is_confirmation(&page)), (200, is_shown), "{page:?}");
    }
}

/// The form belongs to this user, in this session and this browser.
#[tokio::test]
async fn a_kept_form_is_for_its_user_session_and_browser_only() {
    let provider = guarded().await;
    give(&provider, provider.ben.sub, Some(Role::Admin)).await;
    let anna = signed_in(&provider, ANNA).await;
    let new = [("email", "new@example.test"), ("name", "New"), ("role_admin", "yes")];
    let late = async || sent_late(&provider, &anna, "/console/users/new", &new).await;
    let login = late().await;
    let address = address_after(&anna, &login, ANNA).await;
    // Another browser with the same user, another user, and a thief with the cookie of the session.
    let (other, ben, thief) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await, provider.browser());
    thief.set_cookie("__Host-sealgate", &anna.cookie("__Host-sealgate").unwrap());
    thief.set_cookie(BROWSER, &other.cookie(BROWSER).unwrap());
    for stranger in [&other, &ben, &thief] {
        let page = stranger.open(&address).await;
        assert!(page.status == 200 && !page.text().contains("new@example.test"), "{page:?}");
    }
    assert_eq!(kept(&provider), 1);
    assert!(is_confirmation(&anna.open(&address).await));

    // A different page does not show the form.
    let login = late().await;
    let address = address_after(&anna, &login, ANNA).await.replace("/users/new", "/clients/new");
    let page = anna.open(&address).await;
    assert!(page.status == 200 && !page.text().contains("value=\"New\""), "{page:?}");

    // A different user signs in in the same browser.
    let login = late().await;
    let address = address_after(&anna, &login, BEN).await;
    let page = anna.open(&address).await;
    assert!(page.status == 200 && !page.text().contains("new@example.test"), "{page:?}");

    // A new session of the same user in the same browser.
    let anna = signed_in(&provider, ANNA).await;
    let login = sent_late(&provider, &anna, "/console/users/new", &new).await;
    for session in provider.sealgate.store.sessions_of_user(provider.anna.sub, None, 9).await.unwrap().sessions {
        provider.sealgate.store.end_session(session.id).await.unwrap();
    }
    let address = address_after(&anna, &login, ANNA).await;
    let page = anna.open(&address).await;
    assert!(page.status == 200 && !page.text().contains("new@example.test"), "{page:?}");
}

/// A form that is too large, that is sent while none are kept, or by another site is not kept. The
/// sign-in leads to the page as before.
#[tokio::test]
async fn a_form_that_cannot_be_kept_leads_back_to_the_page() {
    let provider = guarded().await;
    let anna = signed_in(&provider, ANNA).await;
    let large = "a".repeat(16 * 1024);
    let login = sent_late(&provider, &anna, &user_page(&provider), &[("action", "disable"), ("x", &large)]).await;
    assert_eq!(kept(&provider), 0);
    let page = anna.sign_in(&login, ANNA).await;
    assert!(!is_confirmation(&page) && page.text().contains("user-save-profile"), "{page:?}");
    provider.wait(LATE);
    anna.post(&user_page(&provider), &[("csrf", "x"), ("action", "disable")]).await.assert_error_page();
    assert_eq!(kept(&provider), 0);

    let provider = Provider::with(&format!("{ON}\n[sessions]\nmax_forms = 0")).await;
    give(&provider, provider.anna.sub, Some(Role::Admin)).await;
    let anna = signed_in(&provider, ANNA).await;
    let login = sent_late(&provider, &anna, &user_page(&provider), &[("action", "disable")]).await;
    let page = anna.sign_in(&login, ANNA).await;
    assert!(!is_confirmation(&page) && page.text().contains("user-save-profile"), "{page:?}");
}

/// The console itself requires a sign-in of the last twelve hours. A form that is sent later is kept
/// too.
#[tokio::test]
async fn a_form_that_is_sent_after_the_consoles_own_limit_is_kept() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = ben.get("/console/clients/new").await;
    for _ in 0..13 {
        provider.wait(3600);
        ben.get("/account").await;
    }
    let fields = form(&[("name", "Typed name"), ("description", "Typed text")]);
    let login = send(&ben, "/console/clients/new", &csrf_of(&page), &fields).await;
    assert!(is_login(&login), "{login:?}");
    let shown = ben.sign_in(&login, BEN).await;
    for typed in ["Typed name", "Typed text", REDIRECT_URI] {
        assert!(shown.text().contains(typed), "{typed}: {shown:?}");
    }
    assert_eq!(kept(&provider), 0);

    // A user without a role keeps nothing.
    let page = csrf_of(&ben.get("/console/clients/new").await);
    for _ in 0..13 {
        provider.wait(3600);
        ben.get("/account").await;
    }
    give(&provider, provider.ben.sub, None).await;
    let refused = ben.post("/console/clients/new", &[&[("csrf", page.as_str())], &fields[..]].concat()).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(kept(&provider), 0);
}
