//! Tests "Keep me signed in on this device" (`sessions.keep_signed_in`).

use sealgate_domain::session::Session;
use sealgate_domain::user::UserState;
use sealgate_system::clock::Clock as _;

use crate::authenticator::Ceremony;
use crate::second_factor::{answer, passkey_with, with_key};
use crate::security::with_app;
use crate::steps::{assert_code, assert_login, with_anna};
use crate::support::{Browser, PASSWORD, Provider, Reply, form_action, jwt_claims};
use crate::totp::code;

const ANNA: &str = "anna@example.test";
const BEN: &str = "ben@example.test";
const SESSION: &str = "__Host-sealgate";
const DAY: u64 = 24 * 3600;

const OFF: &str = "";
const ON: &str = "[sessions]\nkeep_signed_in = \"on\"";
const CHOICE: &str = "[sessions]\nkeep_signed_in = \"choice\"";

/// Lifetime of the cookie in the example of the check box.
const KEPT: &str = "; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=2592000";
const UNKEPT: &str = "; Path=/; HttpOnly; SameSite=Lax; Secure";

const CHECK_BOX: &str = "<input type=\"checkbox\" id=\"keep\" name=\"keep\" value=\"yes\"";

/// Returns the attributes of the session cookie that the response sets.
#[track_caller]
fn attributes(reply: &Reply) -> String {
    let cookie = reply.headers("set-cookie").find_map(|line| line.strip_prefix("__Host-sealgate="));
    let cookie = cookie.unwrap_or_else(|| panic!("no session cookie: {reply:?}"));
    cookie[cookie.find(';').unwrap()..].to_owned()
}

/// Submits the sign-in page with the check box selected, and returns the first response.
async fn keep(browser: &Browser<'_>, page: &Reply, email: &str) -> Reply {
    browser.submit_only(page, &[("email", email), ("password", PASSWORD), ("keep", "yes")]).await
}

async fn silent(provider: &Provider, browser: &Browser<'_>) -> Reply {
    browser.open(&provider.c1().authorize(&[("prompt", "none")])).await
}

async fn assert_signed_in(provider: &Provider, browser: &Browser<'_>) {
    assert_code(&silent(provider, browser).await);
}

async fn assert_signed_out(provider: &Provider, browser: &Browser<'_>) {
    silent(provider, browser).await.assert_error_redirect("login_required");
}

/// Returns a browser in which Anna has chosen to stay signed in.
async fn kept(provider: &Provider) -> Browser<'_> {
    let browser = with_anna(provider).await;
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    let reply = keep(&browser, &page, ANNA).await;
    browser.follow(reply).await;
    browser
}

async fn session_of_anna(provider: &Provider) -> Session {
    provider.sealgate.store.sessions_of_user(provider.anna.sub, None, 9).await.unwrap().sessions.remove(0)
}

#[tokio::test]
async fn the_check_box_is_shown_only_for_a_choice_and_is_not_selected() {
    for (settings, is_shown) in [(OFF, false), (ON, false), (CHOICE, true)] {
        let provider = Provider::with(settings).await;
        for (language, label) in [("en", "Keep me signed in on this device"), ("tr", "Bu cihazda oturumum açık kalsın")]
        {
            let page = provider.browser().open(&provider.c1().authorize(&[("ui_locales", language)])).await;
            assert_login(&page);
            assert_eq!(page.text().contains(label), is_shown, "{page:?}");
            assert_eq!(page.text().contains(CHECK_BOX), is_shown, "{page:?}");
            assert!(!page.text().contains("checked"), "{page:?}");
        }
    }
}

#[tokio::test]
async fn a_kept_session_survives_a_restart_of_the_browser_until_its_date() {
    let provider = Provider::with(CHOICE).await;
    let (kept, unkept) = (with_anna(&provider).await, with_anna(&provider).await);
    for (browser, is_kept) in [(&kept, true), (&unkept, false)] {
        let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
        let fields = [("email", ANNA), ("password", PASSWORD), ("keep", "yes")];
        let reply = browser.submit_only(&page, &fields[..if is_kept { 3 } else { 2 }]).await;
        assert_eq!(attributes(&reply), if is_kept { KEPT } else { UNKEPT });
        browser.restart();
    }
    assert_signed_in(&provider, &kept).await;
    assert_signed_out(&provider, &unkept).await;
    // Longer than the idle timeout, then longer than the maximum age of other sessions.
    for seconds in [9 * 3600, 8 * DAY] {
        provider.wait(seconds);
        assert_signed_in(&provider, &kept).await;
    }
    provider.wait(22 * DAY - 9 * 3600 - 1);
    assert_signed_in(&provider, &kept).await;
    provider.wait(1);
    assert_signed_out(&provider, &kept).await;
}

#[tokio::test]
async fn a_session_that_the_user_does_not_keep_ends_as_usual() {
    let provider = Provider::with(CHOICE).await;
    let browser = with_anna(&provider).await;
    provider.wait(8 * 3600);
    assert_signed_out(&provider, &browser).await;
}

#[tokio::test]
async fn the_setting_decides_whatever_the_form_sends() {
    for (settings, expected) in [(OFF, UNKEPT), (ON, KEPT)] {
        let provider = Provider::with(settings).await;
        for fields in [
            &[("email", ANNA), ("password", PASSWORD)][..],
            &[("email", ANNA), ("password", PASSWORD), ("keep", "yes")],
        ] {
            let browser = provider.browser();
            let page = browser.open(&provider.c1().authorize(&[])).await;
            assert_eq!(attributes(&browser.submit_only(&page, fields).await), expected);
        }
    }
}

/// An attacker sends the user a link that would select the check box.
#[tokio::test]
async fn a_link_cannot_select_the_check_box() {
    let provider = Provider::with(CHOICE).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[("keep", "yes")])).await;
    assert!(page.text().contains(CHECK_BOX) && !page.text().contains("checked"), "{page:?}");
    let action = format!("{}&keep=yes", form_action(page.text()));
    let page = browser.open(&action).await;
    assert!(page.text().contains(CHECK_BOX) && !page.text().contains("checked"), "{page:?}");
    let csrf = crate::steps::csrf_of(&page);
    let fields = [("csrf", csrf.as_str()), ("email", ANNA), ("password", PASSWORD)];
    assert_eq!(attributes(&browser.post(&action, &fields).await), UNKEPT);
}

#[tokio::test]
async fn a_wrong_password_keeps_the_choice() {
    let provider = Provider::with(CHOICE).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.submit(&page, &[("email", ANNA), ("password", "wrong"), ("keep", "yes")]).await;
    assert!(page.text().contains(&format!("{CHECK_BOX} checked")), "{page:?}");
    // Deselecting it counts.
    let reply = browser.submit_only(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
    assert_eq!(attributes(&reply), UNKEPT);
}

#[tokio::test]
async fn the_choice_continues_through_the_second_step() {
    let provider = Provider::with(CHOICE).await;
    let (_, secret) = with_app(&provider).await;
    for (fields, expected) in [(&[("keep", "yes")][..], KEPT), (&[], UNKEPT)] {
        provider.wait(90);
        let browser = provider.browser();
        let page = browser.open(&provider.c1().authorize(&[])).await;
        let fields = [&[("email", ANNA), ("password", PASSWORD)], fields].concat();
        let page = browser.submit(&page, &fields).await;
        let page = browser.submit(&page, &[("code", "000000")]).await;
        let code = code(&secret, provider.clock.now().seconds());
        // The second page has no choice.
        let reply = browser.submit_only(&page, &[("code", &code), ("keep", "no")]).await;
        assert_eq!(attributes(&reply), expected);
    }
}

#[tokio::test]
async fn a_sign_in_with_a_passkey_has_the_choice() {
    let provider = Provider::with(CHOICE).await;
    let (_, authenticator) = with_key(&provider, "passkey").await;
    for (sign_count, fields, expected) in [(9, &[("keep", "yes")][..], KEPT), (10, &[], UNKEPT)] {
        let browser = provider.browser();
        let page = browser.open(&provider.c1().authorize(&[])).await;
        let signed = answer(&page, &authenticator, |ceremony| Ceremony { sign_count, ..ceremony });
        let reply = passkey_with(&browser, &page, &signed, fields).await;
        assert_eq!(attributes(&reply), expected);
    }
}

/// A kept session is no recent sign-in.
#[tokio::test]
async fn a_kept_session_does_not_make_its_sign_in_younger() {
    let provider = Provider::with(CHOICE).await;
    let browser = kept(&provider).await;
    let signed_in_at = provider.clock.now().seconds();
    browser.restart();
    provider.wait(10 * DAY);
    for changes in [("max_age", "863999"), ("prompt", "login")] {
        assert_login(&browser.open(&provider.c1().authorize(&[changes])).await);
    }
    let silent = browser.open(&provider.c1().authorize(&[("max_age", "864060"), ("prompt", "none")])).await;
    let tokens = provider.c1().redeem(&assert_code(&silent)).await;
    assert_eq!(jwt_claims(tokens.json()["id_token"].as_str().unwrap())["auth_time"], signed_in_at);
    let silent = browser.open(&provider.c1().authorize(&[("max_age", "863999"), ("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
}

/// Applications ask for a recent sign-in. That question is not about staying signed in.
#[tokio::test]
async fn a_repeated_sign_in_without_the_choice_changes_no_date() {
    let provider = Provider::with(CHOICE).await;
    let browser = kept(&provider).await;
    let before = session_of_anna(&provider).await.kept_until;
    provider.wait(10 * DAY);
    let page = browser.open(&provider.c1().authorize(&[("max_age", "300")])).await;
    let reply = browser.submit_only(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
    assert_eq!(attributes(&reply), UNKEPT.to_owned() + "; Max-Age=1728000");
    assert_eq!(session_of_anna(&provider).await.kept_until, before);
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    assert_eq!(attributes(&keep(&browser, &page, ANNA).await), KEPT);
}

/// A session that was renewed shortly before its date continues as usual after it.
#[tokio::test]
async fn a_date_that_has_passed_deletes_no_cookie() {
    let provider = Provider::with(CHOICE).await;
    let browser = kept(&provider).await;
    provider.wait(30 * DAY - 3600);
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    browser.sign_in(&page, ANNA).await;
    provider.wait(2 * 3600);
    let page = browser.open("/account/sessions").await;
    assert!(!page.text().contains("Stays signed in until"), "{page:?}");
    assert_eq!(attributes(&browser.submit_only(&page, &[("others", "yes")]).await), UNKEPT);
    assert_signed_in(&provider, &browser).await;
}

/// Users of one browser share a session. None of them stays signed in by another user's choice.
#[tokio::test]
async fn a_session_is_kept_only_if_each_of_its_users_chose_it() {
    let provider = Provider::with(CHOICE).await;
    let sign_in = async |browser: &Browser<'_>, email, keeps: bool| {
        let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
        let fields = [("email", email), ("password", PASSWORD), ("keep", "yes")];
        attributes(&browser.submit_only(&page, &fields[..if keeps { 3 } else { 2 }]).await)
    };
    for (anna, ben, expected) in [(true, true, KEPT), (true, false, UNKEPT), (false, true, UNKEPT)] {
        let browser = provider.browser();
        sign_in(&browser, ANNA, anna).await;
        assert_eq!(sign_in(&browser, BEN, ben).await, expected, "{anna} {ben}");
    }
}

#[tokio::test]
async fn signing_out_ends_a_kept_session() {
    let provider = Provider::with(CHOICE).await;
    let browser = kept(&provider).await;
    let cookie = browser.cookie(SESSION).unwrap();
    let page = browser.open("/oauth/logout").await;
    let reply = browser.submit_only(&page, &[("logout-confirm", "yes")]).await;
    assert!(attributes(&reply).ends_with("; Max-Age=0"), "{reply:?}");
    browser.set_cookie(SESSION, &cookie);
    assert_signed_out(&provider, &browser).await;
}

#[tokio::test]
async fn a_kept_session_ends_when_the_user_ends_the_other_sessions() {
    let provider = Provider::with(CHOICE).await;
    let (lost, browser) = (kept(&provider).await, kept(&provider).await);
    provider.wait(60);
    let page = browser.open("/account/sessions").await;
    let reply = browser.submit_only(&page, &[("others", "yes")]).await;
    // This browser stays signed in until the same date.
    assert_eq!(attributes(&reply), UNKEPT.to_owned() + "; Max-Age=2591940");
    browser.restart();
    assert_signed_in(&provider, &browser).await;
    assert_signed_out(&provider, &lost).await;
}

#[tokio::test]
async fn a_kept_session_ends_with_a_changed_password_and_a_disabled_account() {
    let provider = Provider::with(CHOICE).await;
    let (lost, browser) = (kept(&provider).await, kept(&provider).await);
    let new = "violet harbour 47 stones";
    let page = browser.open("/account/password").await;
    browser.submit(&page, &[("current", PASSWORD), ("new", new), ("again", new)]).await;
    assert_signed_out(&provider, &lost).await;
    assert_signed_in(&provider, &browser).await;
    provider.change_user(provider.anna.sub, |user| user.state = UserState::Disabled).await;
    assert_signed_out(&provider, &browser).await;
}

#[tokio::test]
async fn off_ends_kept_sessions_that_are_older_than_others_may_be() {
    let provider = Provider::with(CHOICE).await;
    let old = kept(&provider).await;
    let cookie = old.cookie(SESSION).unwrap();
    provider.wait(8 * 3600);
    let young = kept(&provider).await.cookie(SESSION).unwrap();
    let provider = provider.restarted_with(OFF).await;
    let with = |cookie: &str| {
        let browser = provider.browser();
        browser.set_cookie(SESSION, cookie);
        browser
    };
    assert_signed_out(&provider, &with(&cookie)).await;
    let browser = with(&young);
    assert_signed_in(&provider, &browser).await;
    let page = browser.open("/account/sessions").await;
    assert_eq!(page.text().matches("value=\"session:").count(), 1, "{page:?}");
    assert!(!page.text().contains("Stays signed in until"), "{page:?}");
    // The next sign-in sets a cookie that ends with the browser.
    let page = browser.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    assert_eq!(attributes(&keep(&browser, &page, ANNA).await), UNKEPT);
    provider.wait(8 * 3600);
    assert_signed_out(&provider, &browser).await;
}

#[tokio::test]
async fn the_list_of_devices_shows_until_when_the_user_stays_signed_in() {
    let provider = Provider::with(CHOICE).await;
    let browser = with_anna(&provider).await;
    kept(&provider).await;
    for (language, words) in [("en", "Stays signed in until: "), ("tr", "Oturumun sona ereceği tarih: ")] {
        browser.set_cookie("__Host-sealgate-language", language);
        let page = browser.open("/account/sessions").await;
        assert_eq!(page.text().matches(words).count(), 1, "{page:?}");
    }
}
