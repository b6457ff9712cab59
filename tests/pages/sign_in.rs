//! Sign-in pages: the markup on which password managers and clients rely, the visible content and
//! the announcements to screen readers.

use sealgate_config::Language;
use sealgate_pages::{ErrorPage, LinkTarget, PageLink, Problem, html};

use crate::markup::{Tag, tags, text};
use crate::sample::{Sample, frame, page, pages};

#[test]
fn ids_and_names_used_by_password_managers_are_unchanged() {
    let stands_once = |page_name: &str, element: &str, attributes: &[(&str, &str)]| {
        let html = page(page_name);
        let matches =
            |tag: &&Tag| tag.name == element && attributes.iter().all(|&(name, v)| tag.attribute(name) == Some(v));
        assert_eq!(tags(&html).iter().filter(matches).count(), 1, "{page_name}: {attributes:?}\n{html}");
    };
    let subject = Sample::plain().subject;
    stands_once("login.en", "input", &[("id", "email"), ("name", "email"), ("autocomplete", "username webauthn")]);
    stands_once("login-no-passkeys.en", "input", &[("id", "email"), ("autocomplete", "username")]);
    stands_once("login.en", "button", &[("id", "passkey-login"), ("type", "button"), ("hidden", "")]);
    stands_once("login.en", "input", &[("type", "hidden"), ("name", "credential")]);
    stands_once("login.en", "input", &[("id", "email"), ("inputmode", "email"), ("spellcheck", "false")]);
    stands_once("login.en", "input", &[("id", "password"), ("name", "password"), ("type", "password")]);
    stands_once("login.en", "input", &[("id", "password"), ("autocomplete", "current-password")]);
    stands_once("login.en", "button", &[("id", "login-submit"), ("name", "login-submit")]);
    stands_once("login-hint.en", "input", &[("id", "email"), ("value", "ayse.isik@example.com")]);
    stands_once("consent.en", "button", &[("id", "consent-allow"), ("name", "consent-allow"), ("value", "yes")]);
    stands_once("consent.en", "button", &[("id", "consent-deny"), ("name", "consent-deny"), ("value", "yes")]);
    stands_once("consent.en", "input", &[("id", "offline_access"), ("type", "checkbox"), ("checked", "")]);
    stands_once("chooser.en", "button", &[("id", "account-1"), ("name", "account"), ("value", subject)]);
    stands_once(
        "chooser.en",
        "button",
        &[("id", "account-2"), ("name", "account"), ("value", "07070707-0707-4707-8707-070707070707")],
    );
    stands_once("chooser.en", "button", &[("id", "account-other"), ("name", "account"), ("value", "")]);
    stands_once("logout.en", "button", &[("id", "logout-confirm"), ("name", "logout-confirm")]);
    stands_once("logout.en", "input", &[("type", "hidden"), ("name", "state"), ("value", "Wiki")]);
    stands_once("factor-app.en", "input", &[("id", "code"), ("name", "code"), ("autocomplete", "one-time-code")]);
    stands_once("factor-app.en", "input", &[("type", "hidden"), ("name", "with"), ("value", "totp")]);
    stands_once("factor-app.en", "button", &[("id", "code-submit")]);
    for choice in ["totp", "recovery", "key"] {
        let (id, address) = (format!("use-{choice}"), format!("/oauth/login?with={choice}"));
        stands_once("factor-app.en", "a", &[("id", &id), ("href", &address)]);
    }
    stands_once("enrol-app.en", "code", &[("id", "totp-secret")]);
    stands_once("enrol-app.en", "input", &[("id", "code"), ("name", "code"), ("inputmode", "numeric")]);
    stands_once("enrol-app.en", "button", &[("id", "totp-confirm")]);
    assert_eq!(page("recovery-codes.en").matches("class=\"recovery-code\"").count(), 10);
    for form in ["login-no-passkeys.en", "consent.en", "chooser.en", "logout.en", "factor-app.en", "enrol-app.en"] {
        stands_once(form, "input", &[("type", "hidden"), ("name", "csrf"), ("value", "LkT0cV2bUe9gqk3l")]);
        stands_once(form, "form", &[("method", "post"), ("action", "/oauth/login")]);
    }
}

#[test]
fn the_sign_in_page_places_each_option_next_to_its_field() {
    let html = page("login.en");
    let order = [
        "id=\"password\"",
        "id=\"forgot-password\"",
        "id=\"login-submit\"",
        "class=\"or\"",
        "id=\"passkey-login\"",
        "id=\"create-account\"",
    ];
    let places: Vec<_> = order.iter().map(|part| html.find(part).unwrap_or_else(|| panic!("{part}: {html}"))).collect();
    assert!(places.is_sorted(), "{places:?}\n{html}");
    assert!(!page("login-no-passkeys.en").contains("class=\"or\""));
}

#[test]
fn a_new_account_is_not_told_to_sign_in_next() {
    for (name, sentence) in
        [("new-account.en", "You are signed in right away."), ("new-account.tr", "Oturumunuz hemen açılır.")]
    {
        let html = page(name);
        assert!(text(&html).contains(sentence), "{html}");
    }
}

#[test]
fn allow_and_deny_look_the_same() {
    let html = page("consent.en");
    let tags = tags(&html);
    let class = |id: &str| tags.iter().find(|tag| tag.attribute("id") == Some(id)).unwrap().attribute("class");
    assert_eq!(class("consent-allow"), class("consent-deny"));
}

#[test]
fn offline_access_is_a_choice_only_where_it_is_asked_for() {
    assert!(page("consent.tr").contains("id=\"offline_access\""));
    assert!(!page("consent-online.tr").contains("offline_access"));
}

#[test]
fn consent_shows_the_exact_values_and_marks_missing_ones() {
    let shown = text(&page("consent.en"));
    for value in ["Ayşe Işık", "https://example.com/people/ayse.png", "ayse.isik@example.com", Sample::plain().subject]
    {
        assert!(shown.contains(value), "{value} is not in: {shown}");
    }
    let place = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words} is not in: {shown}"));
    assert!(place("Your profile") < place("Your user ID"), "the number comes last: {shown}");
    assert!(shown.contains("Your phone number Nothing is stored here yet."), "{shown}");
}

#[test]
fn a_refused_sign_in_is_announced_and_bound_to_its_fields() {
    for name in ["login-wrong.en", "login-throttled.en", "login-busy.tr"] {
        let html = page(name);
        let tags = tags(&html);
        let alert = tags.iter().find(|tag| tag.attribute("role") == Some("alert")).unwrap();
        for id in ["email", "password"] {
            let field = tags.iter().find(|tag| tag.attribute("id") == Some(id)).unwrap();
            assert_eq!(field.attribute("aria-describedby"), alert.attribute("id"), "{name}");
            assert_eq!(field.attribute("aria-invalid").is_some(), name.starts_with("login-wrong"), "{name}");
        }
    }
    assert!(!page("login.en").contains("role=\"alert\""));
    assert!(page("login-wrong.en").contains("<title>Error: Sign in – Acme</title>"));
}

#[test]
fn a_wait_is_shown_in_a_convenient_unit() {
    assert!(text(&page("login-throttled.en")).contains("Wait 30 seconds and try again."));
    assert!(text(&page("login-throttled-minutes.en")).contains("Wait 15 minutes and try again."));
    assert!(text(&page("login-throttled-minutes.tr")).contains("15 dakika bekleyip yeniden deneyin."));
    assert!(text(&page("error-too-many-requests-one.tr")).contains("1 saniye bekleyip bu sayfayı yenileyin."));
    let pages = pages("Acme", Language::English);
    let told = |seconds| {
        let link = PageLink { address: "", to: LinkTarget::Again };
        let frame = frame(&pages, Language::English, "/");
        text(&html(&ErrorPage { frame, problem: Problem::TooManyRequests { seconds }, request_id: "r", link }))
    };
    assert!(told(0).contains("Wait one second,"));
    assert!(told(1).contains("Wait one second,"));
    assert!(told(90).contains("Wait 90 seconds,"));
    assert!(told(91).contains("Wait 2 minutes,"), "a wait is rounded up");
    assert!(told(u64::MAX).contains("minutes"));
}
