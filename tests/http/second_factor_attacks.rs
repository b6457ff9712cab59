//! Tests attempts to bypass the second step: pages opened out of order, edited URLs, and changes
//! between two steps.

use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_domain::session::SessionCookie;
use sealgate_domain::user::{PasswordHash, Role, User};
use sealgate_domain::webauthn::{CeremonyChallenge, KeyAlgorithm, UserHandle};
use sealgate_system::clock::Clock as _;

use crate::authenticator::{Authenticator, Ceremony};
use crate::meddler::At;
use crate::security::{between, key_of, send, with_app};
use crate::steps::with_anna;
use crate::support::{Browser, Provider, Reply, form_action, is_consent, is_login};
use crate::totp::code;

const ANNA: &str = "anna@example.test";
const SESSION: &str = "__Host-sealgate";
const BROWSER: &str = "__Host-sealgate-browser";
const SECURITY: &str = "/account/security";
const APP: &str = "/account/security/app";
const KEY: &str = "/account/security/key";

fn now(provider: &Provider) -> u64 {
    provider.clock.now().seconds()
}

fn asks_for_second_step(page: &Reply) -> bool {
    page.text().contains("Verify it’s you")
}

/// Enters Anna's password and returns the browser with the page for the second step.
async fn half<'p>(provider: &'p Provider, changes: &[(&str, &str)]) -> (Browser<'p>, Reply) {
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(changes)).await;
    let page = browser.sign_in(&page, ANNA).await;
    assert!(asks_for_second_step(&page), "{page:?}");
    (browser, page)
}

/// Adds a key in a browser where Anna has just signed in.
async fn add_key(provider: &Provider, browser: &Browser<'_>, kind: &str) -> Authenticator {
    let mut authenticator = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
    let page = browser.open(KEY).await;
    let made = key_of(&page, &authenticator, |ceremony| ceremony);
    let done = send(browser, KEY, &page, &[("kind", kind), ("credential", &made)]).await;
    assert!(done.text().contains("class=\"done\""), "{done:?}");
    let found = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
    authenticator.handle = UserHandle::parse(&found.handle.to_string()).unwrap();
    authenticator
}

/// Returns a key's answer to a page, with this signature counter.
fn answer(page: &Reply, authenticator: &Authenticator, count: u32) -> String {
    let text = page.text().replace("&#34;", "\"");
    let challenge = CeremonyChallenge::parse(between(&text, "\"challenge\":\"", "\"").unwrap()).unwrap();
    let ceremony = authenticator.assertion("https://id.test", "id.test", &challenge);
    Ceremony { sign_count: count, ..ceremony }.asserted(authenticator).to_string()
}

/// Submits a key's answer.
async fn key_step(browser: &Browser<'_>, page: &Reply, answer: &str) -> Reply {
    send(browser, &form_action(page.text()), page, &[("with", "key"), ("credential", answer)]).await
}

/// Returns the URL of another page of the same sign-in.
fn page_beside(page: &Reply, name: &str) -> String {
    let address = form_action(page.text());
    let (_, query) = address.split_once('?').unwrap();
    format!("/oauth/{name}?{query}")
}

/// Computes the form token of a sign-in page from the browser's cookies.
fn forged_csrf(browser: &Browser<'_>, page: &str, address: &str) -> String {
    let id = between(address, "interaction=", ".").unwrap();
    let cookie = browser.cookie(BROWSER).unwrap();
    base64url(SecretHash::for_secret(format!("csrf {page} {id} {cookie}").as_bytes()).as_bytes())
}

/// An attacker begins a sign-in, and the user finishes it in the same browser, for example on a
/// shared computer. Both know the cookie and the URL.
///
/// Otherwise the attacker could add a second factor to a user who has none yet.
#[tokio::test]
async fn a_pending_sign_in_cannot_be_completed_by_its_starter() {
    let provider = Provider::with("[factors]\nlevel = \"2\"\nenrol_by = \"2099-12-31\"\n").await;
    let (thief, victim) = (provider.browser(), provider.browser());
    let planted = thief.open(&provider.c1().authorize(&[])).await;
    victim.set_cookie(BROWSER, &thief.cookie(BROWSER).unwrap());
    let asked = victim.sign_in(&planted, ANNA).await;
    assert!(form_action(asked.text()).contains("/oauth/enrol?"), "{asked:?}");
    let opens = async |page: &Reply| {
        for name in ["resume", "enrol", "factor", "login", "consent"] {
            let opened = thief.open(&page_beside(page, name)).await;
            assert!(!opened.text().contains(ANNA) && thief.cookie(SESSION).is_none(), "{name}: {opened:?}");
        }
    };
    opens(&planted).await;
    // The attack fails too if the attacker has a pending sign-in of their own in that browser.
    let planted = thief.open(&provider.c1().authorize(&[])).await;
    let half = thief.sign_in(&planted, "ben@example.test").await;
    assert!(form_action(half.text()).contains("/oauth/enrol?"), "{half:?}");
    let again = thief.open(&page_beside(&half, "login")).await;
    victim.set_cookie(BROWSER, &thief.cookie(BROWSER).unwrap());
    victim.sign_in(&again, ANNA).await;
    opens(&half).await;
    // The owner continues.
    let later = victim.submit(&asked, &[("later", "yes")]).await;
    assert!(is_consent(&later) || later.returned("code").is_some(), "{later:?}");
}

/// A changed password invalidates the pending sign-in, and does not cause a redirect loop.
#[tokio::test]
async fn a_password_changed_between_the_steps_requires_a_new_sign_in() {
    let change = |user: &mut User| user.password = Some(PasswordHash::new("another".into()));
    let provider = Provider::new().await;
    with_app(&provider).await;
    let (browser, page) = half(&provider, &[]).await;
    provider.change_user(provider.anna.sub, change).await;
    for name in ["factor", "resume"] {
        let page = browser.open(&page_beside(&page, name)).await;
        assert!(is_login(&page), "{name}: {page:?}");
    }

    let provider = Provider::with("[factors]\nlevel = \"2\"\nenrol_by = \"2099-12-31\"\n").await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.sign_in(&page, ANNA).await;
    let enrol = page_beside(&page, "enrol");
    assert_eq!(browser.get(&enrol).await.status, 200, "{page:?}");
    provider.change_user(provider.anna.sub, change).await;
    let page = browser.open(&enrol).await;
    assert!(is_login(&page), "{page:?}");
}

/// An attacker with the cookie and a code, but without the password, opens the page of the second
/// step directly.
#[tokio::test]
async fn a_second_factor_is_refused_where_the_password_is_required() {
    let provider = Provider::new().await;
    let (browser, secret) = with_app(&provider).await;
    for change in [("prompt", "login"), ("max_age", "0"), ("max_age", "300")] {
        provider.wait(400);
        let page = browser.open(&provider.c1().authorize(&[change])).await;
        assert!(is_login(&page), "{change:?}: {page:?}");
        let factor = page_beside(&page, "factor");
        let opened = browser.open(&factor).await;
        assert!(is_login(&opened), "{change:?}: {opened:?}");
        let (csrf, code) = (forged_csrf(&browser, "factor", &factor), code(&secret, now(&provider)));
        let fields = [("csrf", csrf.as_str()), ("with", "totp"), ("code", code.as_str())];
        let sent = browser.post(&factor, &fields).await;
        let sent = browser.follow(sent).await;
        assert!(is_login(&sent), "{change:?}: {sent:?}");
        // The code was not checked: it is still valid where the page asks for it.
        let page = browser.sign_in(&sent, ANNA).await;
        let end = browser.submit(&page, &[("code", &code)]).await;
        assert!(end.returned("code").is_some(), "{change:?}: {end:?}");
    }
}

/// Proves that the attack above does not fail because of a wrong form token.
#[tokio::test]
async fn the_forged_form_token_of_these_tests_is_valid() {
    let provider = Provider::new().await;
    let (_, secret) = with_app(&provider).await;
    provider.wait(60);
    let (browser, page) = half(&provider, &[]).await;
    let factor = page_beside(&page, "factor");
    let csrf = forged_csrf(&browser, "factor", &factor);
    let fields = [("csrf", csrf.as_str()), ("with", "totp"), ("code", &code(&secret, now(&provider)))];
    browser.post(&factor, &fields).await;
    assert!(browser.cookie(SESSION).is_some());
}

#[tokio::test]
async fn an_app_where_a_key_is_required_leads_to_an_explanation() {
    let provider = Provider::new().await;
    let (hers, secret) = with_app(&provider).await;
    provider.change_client("c1", |client| client.level = Some(AssuranceLevel::PhishingResistant)).await;
    provider.wait(60);
    let (browser, page) = half(&provider, &[]).await;
    assert!(page.text().contains("id=\"code\""), "{page:?}");
    let end = browser.submit(&page, &[("code", &code(&secret, now(&provider)))]).await;
    for page in [end, hers.open(&provider.c1().authorize(&[])).await] {
        assert_eq!(page.status, 403, "{page:?}");
        assert!(page.text().contains("href=\"/account/security\""), "{page:?}");
    }
    // There the user adds the missing factor and can continue.
    let page = browser.get(SECURITY).await;
    assert!(page.text().contains("id=\"add-key\""), "{page:?}");
    add_key(&provider, &browser, "security_key").await;
    let end = browser.open(&provider.c1().authorize(&[])).await;
    assert!(end.returned("code").is_some() || is_consent(&end), "{end:?}");
}

/// If administrators control first factors, an attacker with the password cannot add one, neither
/// in the sign-in nor on the account page.
#[tokio::test]
async fn a_stolen_password_cannot_enrol_a_factor_without_the_administrators_link() {
    let provider = Provider::with("[factors]\nenrolment = \"administrator\"\n").await;
    let thief = with_anna(&provider).await;
    let page = thief.get(SECURITY).await;
    assert!(!page.text().contains("id=\"add-totp\"") && !page.text().contains("id=\"add-key\""), "{page:?}");
    let sub = provider.anna.sub;
    for address in [APP, KEY] {
        let page = thief.open(address).await;
        assert_eq!(page.status, 403, "{address}: {page:?}");
        let csrf = format!("csrf own {address} {sub} {}", thief.cookie(SESSION).unwrap());
        let csrf = base64url(SecretHash::for_secret(csrf.as_bytes()).as_bytes());
        let sent = thief.post(address, &[("csrf", &csrf), ("kind", "passkey"), ("credential", "{}")]).await;
        assert_eq!(sent.status, 403, "{address}: {sent:?}");
    }
    let found = provider.sealgate.store.factors(sub).await.unwrap();
    assert!(found.is_none_or(|found| found.value.pending.is_empty()));
}

/// A user with a factor can add a further factor.
#[tokio::test]
async fn a_further_factor_needs_no_administrators_link() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    add_key(&provider, &browser, "security_key").await;
    let provider = provider.restarted_with("[factors]\nenrolment = \"administrator\"\n").await;
    let again = provider.browser();
    again.set_cookie(SESSION, &browser.cookie(SESSION).unwrap());
    assert!(again.get(SECURITY).await.text().contains("id=\"add-key\""));
    let page = again.get(KEY).await;
    assert_eq!(page.status, 200, "{page:?}");
}

/// A user who lacks a factor that every sign-in requires, and cannot add it, gets no session.
/// Otherwise the account pages would be open.
#[tokio::test]
async fn a_user_below_the_required_level_gets_no_session() {
    let provider = Provider::with("[factors]\nlevel = \"2\"\nenrolment = \"administrator\"\n").await;
    let browser = provider.browser();
    for address in [provider.c1().authorize(&[]), SECURITY.to_owned()] {
        let page = browser.open(&address).await;
        let page = browser.sign_in(&page, ANNA).await;
        assert!(page.text().contains("Open the link from your administrator"), "{address}: {page:?}");
        assert!(browser.cookie(SESSION).is_none());
    }
    assert!(is_login(&browser.open("/account").await));
}

/// Until that day the user may sign in without a factor, also where administrators control
/// enrolment.
#[tokio::test]
async fn a_policy_locks_no_user_out_before_its_day() {
    let more = "[factors]\nlevel = \"2\"\nenrolment = \"administrator\"\nenrol_by = \"2099-12-31\"\n";
    let provider = Provider::with(more).await;
    let browser = provider.browser();
    let end = browser.authorize(&provider.c1().authorize(&[]), ANNA).await;
    assert!(end.returned("code").is_some(), "{end:?}");
}

/// The console is not one of the user's own pages. An administrator below the required level may
/// add the missing factor, but not act on other users before.
#[tokio::test]
async fn the_console_requires_the_level_of_administrators() {
    let provider = Provider::with("[console]\nenabled = true\n[factors]\ngroups = { ops = \"3\" }\n").await;
    let (browser, _) = with_app(&provider).await;
    let administrator = |user: &mut User| {
        user.roles = [Role::Admin].into();
    };
    provider.change_user(provider.anna.sub, administrator).await;
    assert_eq!(browser.open("/console/users").await.status, 200);
    provider.change_user(provider.anna.sub, |user| user.groups = ["ops".to_owned()].into()).await;
    for page in ["/console", "/console/users"] {
        assert_eq!(browser.get(page).await.location(), SECURITY);
    }
    add_key(&provider, &browser, "security_key").await;
    assert_eq!(browser.open("/console/users").await.status, 200);
}

/// A session that ends while its owner or an attacker is at the second step is not restored by that
/// step.
#[tokio::test]
async fn a_session_that_ends_during_a_step_up_stays_ended() {
    let (provider, meddler) = Provider::meddled().await;
    let old = with_anna(&provider).await;
    let id = SessionCookie::parse(&old.cookie(SESSION).unwrap()).unwrap().id;
    let key = add_key(&provider, &with_anna(&provider).await, "security_key").await;
    let page = old.open(&provider.c1().authorize(&[("acr_values", "3")])).await;
    assert!(asks_for_second_step(&page), "{page:?}");
    let answer = answer(&page, &key, 1);
    let stop = meddler.stop(At::AfterCommit, b'f');
    let ended = stop.meanwhile(provider.sealgate.store.end_session(id));
    let (_, ended) = tokio::join!(key_step(&old, &page, &answer), ended);
    assert!(ended.unwrap());
    let page = old.open("/account").await;
    assert!(is_login(&page), "{page:?}");

    // The factor can be added on the account page, too.
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[("acr_values", "3")])).await;
    let page = browser.sign_in(&page, ANNA).await;
    let answer = self::answer(&page, &key, 2);
    key_step(&browser, &page, &answer).await;
    let id = SessionCookie::parse(&browser.cookie(SESSION).unwrap()).unwrap().id;
    let page = browser.open(KEY).await;
    let another = Authenticator::new(KeyAlgorithm::Es256, &[8; 32]);
    let made = key_of(&page, &another, |ceremony| ceremony);
    let stop = meddler.stop_later(At::AfterCommit, b'f', 1);
    let ended = stop.meanwhile(provider.sealgate.store.end_session(id));
    let fields = [("kind", "security_key"), ("credential", made.as_str())];
    let (_, ended) = tokio::join!(send(&browser, KEY, &page, &fields), ended);
    assert!(ended.unwrap());
    let page = browser.open("/account").await;
    assert!(is_login(&page), "{page:?}");
}
