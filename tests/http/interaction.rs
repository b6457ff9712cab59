//! Tests pending authorization requests: they are bound to one browser, finished once, and checked
//! again at each step (RFC 9700 §4.7; RFC 6749 §10.12).

use sealgate_domain::client::ClientState;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_domain::user::UserState;
use sealgate_store::engine::{Changes, Engine};
use sealgate_system::clock::Clock as _;

use crate::steps::{assert_code, assert_consent, assert_login, csrf_of, with_anna, with_anna_and_ben};
use crate::support::{Browser, PASSWORD, Provider, Reply, Tokens, form_action, is_consent, jwt_claims};

const ANNA: &str = "anna@example.test";
const SESSION: &str = "__Host-sealgate";
const BROWSER: &str = "__Host-sealgate-browser";
const LAST: &str = "__Host-sealgate-last";

/// Asserts an error page without side effects: no redirect, no cookie.
#[track_caller]
fn assert_refused(reply: &Reply) {
    reply.assert_error_page();
    assert_eq!(reply.headers("set-cookie").count(), 0);
}

/// A URL never reveals the form token: even if two browsers had a request under the same name, each
/// would need its own token.
#[tokio::test]
async fn resp_10_a_forms_token_is_bound_to_the_browser() {
    let provider = Provider::new().await;
    let (browser, victim) = (provider.browser(), provider.browser());
    let page = browser.open(&provider.c1().authorize(&[])).await;
    victim.open(&provider.c1().authorize(&[])).await;
    // Copies the request of one browser to a second browser.
    let key_of = |browser: &Browser<'_>| {
        [b"i".as_slice(), &SecretHash::for_secret(browser.cookie(BROWSER).unwrap().as_bytes()).as_bytes()[..16]]
            .concat()
    };
    let (key, record) = provider.engine.scan(&key_of(&browser), None, 1).await.unwrap().remove(0);
    let copy = [key_of(&victim), key[17..].to_vec()].concat();
    provider.engine.commit(Changes { put: vec![(copy, record)], ..Changes::default() }).await.unwrap();
    let action = form_action(page.text());
    let own = victim.get(&action).await;
    assert_login(&own);
    assert_refused(&victim.post(&action, &sign_in_with(&csrf_of(&page))).await);
    assert_eq!(victim.post(&action, &sign_in_with(&csrf_of(&own))).await.status, 303);
}

/// Returns the fields of a sign-in with this token.
fn sign_in_with(csrf: &str) -> Vec<(&str, &str)> {
    vec![("csrf", csrf), ("email", ANNA), ("password", PASSWORD)]
}

#[tokio::test]
async fn resp_10_a_form_without_its_token_does_nothing() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let (action, csrf) = (form_action(page.text()), csrf_of(&page));
    let elsewhere = provider.browser();
    let of_another_browser = csrf_of(&elsewhere.open(&provider.c1().authorize(&[])).await);
    let of_another_request = csrf_of(&browser.open(&provider.c1().authorize(&[])).await);
    let longer = format!("{csrf}A");
    for wrong in ["", "x", &csrf[1..], &longer, &csrf.to_uppercase(), &of_another_browser, &of_another_request] {
        assert_refused(&browser.post(&action, &sign_in_with(wrong)).await);
    }
    assert_refused(&browser.post(&action, &sign_in_with(&csrf)[1..]).await);
    let twice = [sign_in_with(&csrf), vec![("csrf", "x")]].concat();
    assert_refused(&browser.post(&action, &twice).await);
    // The token is correct, but sent in the query.
    assert_refused(&browser.post(&format!("{action}&csrf={csrf}"), &sign_in_with("")[1..]).await);
    assert_eq!(browser.cookie(SESSION), None);
    assert_eq!(browser.post(&action, &sign_in_with(&csrf)).await.status, 303);
}

#[tokio::test]
async fn resp_10_a_pages_token_opens_no_other_page() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let of_login = csrf_of(&page);
    let consent = browser.sign_in(&page, ANNA).await;
    let of_consent = csrf_of(&consent);
    let action = form_action(consent.text());
    assert_refused(&browser.post(&action, &[("csrf", &of_login), ("consent-allow", "yes")]).await);
    assert_refused(&browser.post(&form_action(page.text()), &sign_in_with(&of_consent)).await);
    let logout = browser.open("/oauth/logout").await;
    assert_refused(&browser.post(&action, &[("csrf", &csrf_of(&logout)), ("consent-allow", "yes")]).await);
    assert_refused(&browser.post("/oauth/logout/confirm", &[("csrf", &of_consent)]).await);
    let chooser = action.replace("/consent?", "/select-account?");
    assert_refused(&browser.post(&chooser, &[("csrf", &of_consent), ("account", "")]).await);
    assert_code(&browser.allow(&consent).await);
}

#[tokio::test]
async fn a_form_of_another_media_type_does_nothing() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let cookie = format!("{BROWSER}={}", browser.cookie(BROWSER).unwrap());
    let body = format!("csrf={}&email=anna%40example.test&password=x", csrf_of(&page));
    for content_type in ["text/plain", "application/json", "multipart/form-data; boundary=x"] {
        let headers = [("content-type", content_type), ("cookie", cookie.as_str())];
        assert_refused(&provider.request("POST", &form_action(page.text()), &headers, &body).await);
    }
}

#[tokio::test]
async fn only_the_browser_that_started_a_request_can_continue() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let consent = browser.sign_in(&page, ANNA).await;
    let action = form_action(consent.text());
    let strangers = [provider.browser(), with_anna(&provider).await];
    for stranger in &strangers {
        for step in ["login", "consent", "select-account", "resume"] {
            assert_refused(&stranger.get(&action.replace("/consent?", &format!("/{step}?"))).await);
        }
        assert_refused(&stranger.post(&action, &[("csrf", &csrf_of(&consent)), ("consent-allow", "yes")]).await);
    }
    assert_code(&browser.allow(&consent).await);
}

/// An attacker who plants the browser-binding cookie gets no access to the session.
#[tokio::test]
async fn a_planted_binding_cookie_gives_no_access_to_the_session() {
    let provider = Provider::new().await;
    let attacker = provider.browser();
    let page = attacker.open(&provider.c1().authorize(&[])).await;
    let victim = with_anna(&provider).await;
    victim.set_cookie(BROWSER, &attacker.cookie(BROWSER).unwrap());
    assert_code(&victim.open(&provider.c1().authorize(&[])).await);
    assert_login(&attacker.open(&form_action(page.text()).replace("/login?", "/resume?")).await);
}

#[tokio::test]
async fn malformed_cookies_are_ignored() {
    let provider = Provider::new().await;
    for value in ["", "x", "\"quoted\"", &"A".repeat(43), &"A".repeat(54), &"x".repeat(5000), "%00", "a=b=c"] {
        let browser = provider.browser();
        browser.set_cookie(SESSION, value);
        browser.set_cookie(BROWSER, value);
        browser.set_cookie("__Host-sealgate-language", value);
        let silent = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
        silent.assert_error_redirect("login_required");
        let page = browser.open(&provider.c1().authorize(&[])).await;
        assert_consent(&browser.sign_in(&page, ANNA).await);
        assert_ne!(browser.cookie(SESSION).unwrap(), value);
    }
}

#[tokio::test]
async fn two_tabs_do_not_disturb_each_other() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let first = browser.open(&provider.c1().authorize(&[("state", "first"), ("nonce", "n-first")])).await;
    let second = browser.open(&provider.p1().authorize(&[("state", "second"), ("nonce", "n-second")])).await;
    let second = browser.sign_in(&second, ANNA).await;
    let second = browser.allow(&second).await;
    assert_eq!(second.returned("state").as_deref(), Some("second"));
    // The first tab still shows its sign-in page, or the user navigates back to it.
    let first = browser.sign_in(&first, ANNA).await;
    let first = browser.allow(&first).await;
    assert_eq!(first.returned("state").as_deref(), Some("first"));
    assert_eq!(provider.p1().redeem(&assert_code(&second)).await.status, 200);
    assert_eq!(provider.c1().redeem(&assert_code(&first)).await.status, 200);
}

#[tokio::test]
async fn a_pending_request_continues_after_a_sign_in_in_another_tab() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let waiting = browser.open(&provider.c1().authorize(&[("state", "first")])).await;
    provider.c1().code_in(&browser, &[]).await;
    let reply = browser.open(&form_action(waiting.text()).replace("/login?", "/resume?")).await;
    assert_code(&reply);
    assert_eq!(reply.returned("state").as_deref(), Some("first"));
}

#[tokio::test]
async fn an_answered_request_is_over() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let consent = browser.sign_in(&page, ANNA).await;
    assert_code(&browser.allow(&consent).await);
    let action = form_action(consent.text());
    for step in ["login", "consent", "select-account", "resume"] {
        assert_refused(&browser.get(&action.replace("/consent?", &format!("/{step}?"))).await);
    }
    // A form that is sent again within a minute starts the request again.
    browser.set_cookie(LAST, "");
    assert_refused(&browser.post(&action, &[("csrf", &csrf_of(&consent)), ("consent-allow", "yes")]).await);
    assert_refused(&browser.post(&form_action(page.text()), &sign_in_with(&csrf_of(&page))).await);
}

#[tokio::test]
async fn a_denied_request_is_over() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    browser.submit(&consent, &[("consent-deny", "yes")]).await.assert_error_redirect("access_denied");
    let again = [("csrf", &*csrf_of(&consent)), ("consent-allow", "yes")];
    assert_refused(&browser.post(&form_action(consent.text()), &again).await);
}

/// After the error answer to the client, the sign-in page of that request is no longer accepted.
#[tokio::test]
async fn a_refused_request_is_over() {
    let provider = Provider::new().await;
    let tokens = provider.c1().tokens("openid").await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[("id_token_hint", &tokens.id)])).await;
    browser.sign_in(&page, "ben@example.test").await.assert_error_redirect("login_required");
    assert_refused(&browser.post(&form_action(page.text()), &sign_in_with(&csrf_of(&page))).await);
    assert_refused(&browser.get(&form_action(page.text()).replace("/login?", "/resume?")).await);
}

#[tokio::test]
async fn a_consent_decision_is_allow_or_deny() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let page = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    for button in ["consent", "CONSENT-ALLOW", "consent-allow consent-deny"] {
        assert_refused(&browser.submit(&page, &[(button, "yes")]).await);
    }
    assert_refused(&browser.submit(&page, &[("consent-deny", "yes"), ("consent-allow", "yes")]).await);
    assert_refused(&browser.submit(&page, &[]).await);
    assert_code(&browser.submit(&page, &[("consent-allow", "yes")]).await);
}

/// The page names the user whose data are shared; the consent is valid for that user only.
#[tokio::test]
async fn consent_counts_for_the_account_that_the_page_showed() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let request = provider.c1().authorize(&[("scope", "openid email")]);
    let page = browser.open(&request).await;
    assert_consent(&page);
    assert!(page.text().contains(ANNA));
    // In another tab, another user becomes the active one.
    let other = browser.open(&provider.c2().authorize(&[("prompt", "login")])).await;
    browser.sign_in(&other, "ben@example.test").await;
    let reply = browser.allow(&page).await;
    assert_refused(&reply);
    let page = browser.open(&request).await;
    assert!(page.text().contains("ben@example.test"), "Ben has allowed nothing");
}

#[tokio::test]
async fn a_session_that_ends_before_the_consent_requires_a_new_sign_in() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    let ended = provider.sealgate.store.end_sessions_of_user(provider.anna.sub).await.unwrap();
    assert_eq!(ended, 1);
    let page = browser.allow(&consent).await;
    assert_login(&page);
    let page = browser.sign_in(&page, ANNA).await;
    assert_consent(&page);
    assert_code(&browser.allow(&page).await);
}

/// Disables a user, as an operator does.
async fn disable(provider: &Provider, user: &sealgate_domain::user::User) {
    provider.sealgate.store.change_user(user.sub, |user| user.state = UserState::Disabled).await.unwrap();
}

#[tokio::test]
async fn a_user_disabled_during_the_sign_in_gets_no_code() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    let chooser = browser.open(&provider.c1().authorize(&[("prompt", "select_account")])).await;
    disable(&provider, &provider.anna).await;
    assert_login(&browser.allow(&consent).await);
    assert_login(&browser.submit(&chooser, &[("account", &provider.anna.sub.to_string())]).await);
    let silent = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let page = browser.sign_in(&page, ANNA).await;
    assert_login(&page);
    assert!(page.text().contains("id=\"login-problem\""));
}

#[tokio::test]
async fn disabling_one_account_of_a_session_keeps_the_others() {
    let provider = Provider::new().await;
    let browser = with_anna_and_ben(&provider).await;
    disable(&provider, &provider.ben).await;
    let page = browser.open(&provider.c1().authorize(&[("prompt", "select_account")])).await;
    assert!(page.text().contains(ANNA) && !page.text().contains("ben@example.test"));
    let reply = browser.open(&provider.c1().authorize(&[("prompt", "none")])).await;
    let tokens = Tokens::of(&provider.c1().redeem(&assert_code(&reply)).await);
    assert_eq!(jwt_claims(&tokens.id)["sub"], provider.anna.sub.to_string());
}

#[tokio::test]
async fn a_client_disabled_during_the_sign_in_gets_no_code() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    let id = "c1".to_owned().try_into().unwrap();
    provider.sealgate.store.change_client(&id, |client| client.state = ClientState::Disabled).await.unwrap();
    assert_refused(&browser.allow(&consent).await);
    assert_refused(&browser.submit(&consent, &[("consent-deny", "yes")]).await);
}

#[tokio::test]
async fn a_redirect_uri_removed_during_the_sign_in_gets_no_code() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    let id = "c1".to_owned().try_into().unwrap();
    let elsewhere = vec![RedirectUri::parse("https://new.test/cb").unwrap()];
    provider.sealgate.store.change_client(&id, |client| client.redirect_uris = elsewhere.clone()).await.unwrap();
    assert_refused(&browser.allow(&consent).await);
    assert_refused(&browser.submit(&consent, &[("consent-deny", "yes")]).await);
}

#[tokio::test]
async fn a_pending_request_expires() {
    let provider = Provider::with("[sessions]\ninteraction_seconds = 60").await;
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    provider.wait(59);
    let page = browser.open(&form_action(consent.text())).await;
    assert_consent(&page);
    provider.wait(1);
    // A signed-in user must consent again.
    let anew = browser.allow(&page).await;
    assert_consent(&anew);
    assert_ne!(form_action(anew.text()), form_action(page.text()));
}

#[tokio::test]
async fn a_sign_in_page_that_was_left_open_continues_in_its_browser() {
    let provider = Provider::new().await;
    let (browser, stranger) = (provider.browser(), provider.browser());
    let request = provider.c1().authorize(&[("state", "kept"), ("nonce", "n-kept")]);
    let page = browser.open(&request).await;
    stranger.open(&request).await;
    provider.wait(900);
    let fields = [("csrf", &*csrf_of(&page)), ("email", ANNA), ("password", PASSWORD)];
    assert_refused(&stranger.post(&form_action(page.text()), &fields).await);
    assert_refused(&browser.post(&form_action(page.text()), &fields[1..]).await);
    // A wrong password shows the page again and restarts its lifetime.
    let again = browser.submit(&page, &[("email", ANNA), ("password", "wrong")]).await;
    assert_login(&again);
    assert_ne!(form_action(again.text()), form_action(page.text()));
    provider.wait(899);
    let consent = browser.sign_in(&again, ANNA).await;
    assert_consent(&consent);
    let answer = browser.allow(&consent).await;
    assert_eq!(answer.returned("state").as_deref(), Some("kept"));
    assert_eq!(provider.c1().redeem(&assert_code(&answer)).await.status, 200);
    // Opening the page again instead of submitting it restarts the lifetime too.
    let other = provider.browser();
    let page = other.open(&request).await;
    provider.wait(12 * 3600);
    let opened = other.open(&form_action(page.text())).await;
    assert_login(&opened);
    assert_ne!(form_action(opened.text()), form_action(page.text()));
}

#[tokio::test]
async fn an_expired_page_can_be_continued_for_twelve_hours() {
    let provider = Provider::new().await;
    let (early, late) = (provider.browser(), provider.browser());
    let begin = async |browser: &Browser<'_>| browser.open(&provider.c1().authorize(&[])).await;
    let (one, other) = (begin(&early).await, begin(&late).await);
    provider.wait(900 + 12 * 3600 - 1);
    provider.sealgate.store.sweep(provider.clock.now(), 100).await.unwrap();
    assert_consent(&early.sign_in(&one, ANNA).await);
    // Expired requests are deleted within a minute.
    provider.wait(61);
    provider.sealgate.store.sweep(provider.clock.now(), 100).await.unwrap();
    assert_refused(&late.sign_in(&other, ANNA).await);
}

/// Returns the target of the page's link to continue.
fn error_link(page: &Reply) -> &str {
    let link = page.text().split("id=\"way\" href=\"").nth(1).unwrap_or_else(|| panic!("no way: {page:?}"));
    link.split('"').next().unwrap()
}

#[tokio::test]
async fn an_error_page_links_to_the_application() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let action = form_action(page.text());
    // The request has expired or belongs to another browser: the page still names its application.
    let elsewhere = provider.browser();
    elsewhere.open(&provider.p1().authorize(&[])).await;
    let home = "https://rp.test/";
    assert_eq!(error_link(&elsewhere.get(&action).await), home);
    assert_eq!(error_link(&provider.get(&action).await), home);
    assert_eq!(error_link(&browser.post(&action, &[("csrf", "x")]).await), home);
    assert_eq!(
        error_link(&provider.get(&provider.c1().authorize(&[("redirect_uri", "https://evil.test/")])).await),
        home
    );
    for other in ["/oauth/authorize?client_id=nobody", "/oauth/login", "/oauth/login?interaction=x.nobody"] {
        assert_eq!(error_link(&provider.get(other).await), "/account", "{other}");
    }
    // No page links to a client without approval.
    let id = "c1".to_owned().try_into().unwrap();
    let owner = provider.anna.sub;
    provider.sealgate.store.change_client(&id, |client| client.owner = Some(owner)).await.unwrap();
    assert_eq!(error_link(&elsewhere.get(&action).await), "/account");
}

#[tokio::test]
async fn back_after_the_sign_in_continues_the_request() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let consent = browser.sign_in(&page, ANNA).await;
    assert_code(&browser.allow(&consent).await);
    // The client has discarded its request: it gets no second answer, only a link to it.
    for back in [&page, &consent] {
        let shown = browser.get(&form_action(back.text())).await;
        assert_refused(&shown);
        assert!(shown.text().contains("You are already signed in"), "{shown:?}");
        assert_eq!(error_link(&shown), "https://rp.test/");
    }
    // The provider's own pages are shown at once.
    let own = provider.browser();
    let page = own.open("/account").await;
    assert_eq!(own.sign_in(&page, ANNA).await.status, 200);
    assert_eq!(own.get(&form_action(page.text())).await.location(), "/account");
}

/// The user sends the form of a sign-in again: with a second click, while the client answers
/// slowly, or with the Back button. The browser discards the first answer, so the client gets a
/// second one.
#[tokio::test]
async fn a_resent_form_restarts_the_same_request() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let client = provider.c1();
    let page = browser.open(&client.authorize(&[("scope", "openid email"), ("response_mode", "fragment")])).await;
    let consent = browser.sign_in(&page, ANNA).await;
    let first = browser.allow(&consent).await;
    let session = browser.cookie(SESSION);
    let sign_in = [("email", ANNA), ("password", PASSWORD)];
    for (page, fields) in [
        (&page, &sign_in[..]),
        (&page, &[("email", ANNA), ("password", "wrong")]),
        (&consent, &[("consent-allow", "yes")]),
    ] {
        let again = browser.submit(page, fields).await;
        let (prefix, code) = again.location().split_once("#code=").unwrap_or_else(|| panic!("no code: {again:?}"));
        assert!(first.location().starts_with(prefix) && again.location().contains("state=s1"), "{again:?}");
        let code = code.split('&').next().unwrap();
        let tokens = Tokens::of(&client.redeem(code).await);
        assert_eq!(jwt_claims(&tokens.id)["nonce"], "n1");
        assert_eq!(browser.cookie(SESSION), session, "there is no second sign-in");
    }
    // Another browser gets nothing, and a form of another request does not start this one.
    assert_refused(&provider.browser().submit(&page, &sign_in).await);
    let other = browser.open(&client.authorize(&[("prompt", "login"), ("state", "s2")])).await;
    assert_code(&browser.submit(&other, &sign_in).await);
    let shown = browser.submit(&page, &sign_in).await;
    assert!(shown.text().contains("You are already signed in"), "{shown:?}");
    // A request that asks for a new password asks for it again.
    assert_login(&browser.submit(&other, &sign_in).await);
}

/// The cookie expires after a minute. A request that does not fit into it is not started again.
#[tokio::test]
async fn a_form_resent_late_reports_that_the_user_is_signed_in() {
    let provider = Provider::new().await;
    let (short, long) = (provider.browser(), provider.browser());
    let state = "s".repeat(2000);
    for (browser, state) in [(&short, "s1"), (&long, state.as_str())] {
        let page = browser.open(&provider.c1().authorize(&[("state", state)])).await;
        let next = browser.sign_in(&page, ANNA).await;
        let done = if is_consent(&next) { browser.allow(&next).await } else { next };
        assert_code(&done);
        let set = done.headers("set-cookie").find(|cookie| cookie.starts_with("__Host-sealgate-last="));
        assert_eq!(set.map(|cookie| cookie.contains("Max-Age=60")), (state == "s1").then_some(true));
        browser.set_cookie(LAST, "");
        let shown = browser.submit(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
        assert!(shown.text().contains("You are already signed in"), "{shown:?}");
    }
    // A forged cookie leads to no other address.
    let page = short.open(&provider.c1().authorize(&[("prompt", "login")])).await;
    assert_code(&short.submit(&page, &[("email", ANNA), ("password", PASSWORD)]).await);
    let value = short.cookie(LAST).unwrap();
    let id = value.split('.').next().unwrap();
    for forged in ["/evil", "a\r\nSet-Cookie: x=y", "a b"] {
        short.set_cookie(LAST, &format!("{id}.{}", base64url(forged.as_bytes())));
        let shown = short.submit(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
        assert!(shown.text().contains("You are already signed in"), "{forged}: {shown:?}");
    }
}

/// A form of the provider's own pages leads to the page that the user opened.
#[tokio::test]
async fn a_resent_form_of_our_own_pages_leads_to_the_page() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open("/account/sessions").await;
    browser.sign_in(&page, ANNA).await;
    let shown = browser.submit(&page, &[("email", ANNA), ("password", PASSWORD)]).await;
    assert!(shown.text().contains("sessions-end-others"), "{shown:?}");
}

/// A request that names its user by an ID token does not start again: the cookie has no ID token,
/// and another user may be active.
#[tokio::test]
async fn a_request_with_an_id_token_is_not_started_again() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let client = provider.c1();
    let code = client.code_in(&browser, &[]).await;
    let hint = Tokens::of(&client.redeem(&code).await).id;
    let page = browser.open(&client.authorize(&[("id_token_hint", &hint), ("prompt", "login")])).await;
    let fields = [("email", ANNA), ("password", PASSWORD)];
    assert_code(&browser.submit(&page, &fields).await);
    let shown = browser.submit(&page, &fields).await;
    assert!(shown.text().contains("You are already signed in"), "{shown:?}");
}

#[tokio::test]
async fn the_oldest_pending_request_is_evicted_even_after_a_sign_in() {
    let provider = Provider::with("[sessions]\nmax_interactions = 3").await;
    let browsers: Vec<Browser<'_>> = (0..4).map(|_| provider.browser()).collect();
    let mut pages = Vec::new();
    for browser in &browsers[..3] {
        let page = browser.open(&provider.c1().authorize(&[])).await;
        pages.push(browser.sign_in(&page, ANNA).await);
        assert_consent(&pages[pages.len() - 1]);
        provider.wait(61);
    }
    assert_login(&browsers[3].open(&provider.c1().authorize(&[])).await);
    assert_eq!(provider.sealgate.store.open_interactions(), 3);
    let gone = pages.iter().zip(&browsers);
    let mut left = 0;
    for (page, browser) in gone {
        left += usize::from(browser.get(&form_action(page.text())).await.status == 200);
    }
    assert_eq!(left, 2);
    // Requests that need no page are still answered.
    let silent = browsers[3].open(&provider.c1().authorize(&[("prompt", "none")])).await;
    silent.assert_error_redirect("login_required");
}

/// The pending sign-ins of one account are limited across all browsers; the oldest one is evicted.
#[tokio::test]
async fn one_user_has_a_bounded_number_of_pending_sign_ins() {
    let provider = Provider::new().await;
    let first = provider.browser();
    let page = first.open(&provider.c1().authorize(&[])).await;
    let consent = first.sign_in(&page, ANNA).await;
    assert_consent(&consent);
    let of_ben = provider.browser();
    let page = of_ben.open(&provider.c1().authorize(&[])).await;
    let consent_of_ben = of_ben.sign_in(&page, "ben@example.test").await;
    for number in 0..40 {
        provider.wait(1);
        let mut browser = provider.browser();
        browser.address = format!("198.51.100.{number}");
        let page = browser.open(&provider.c1().authorize(&[])).await;
        assert_consent(&browser.sign_in(&page, ANNA).await);
    }
    assert_eq!(provider.sealgate.store.open_interactions(), 32 + 1);
    assert_refused(&first.get(&form_action(consent.text())).await);
    assert_code(&of_ben.allow(&consent_of_ben).await);
    // No records of them are left.
    provider.wait(900 + 12 * 3600 + 120);
    provider.sealgate.store.sweep(provider.clock.now(), 1000).await.unwrap();
    assert_eq!(provider.sealgate.store.open_interactions(), 0);
    let left = provider.engine.scan(b"xu", None, 1000).await.unwrap();
    assert!(left.iter().all(|(key, _)| key[18] != b'i'), "{left:?}");
}

/// An account page that cannot begin a sign-in reports the error. A redirect to the sign-in would
/// loop.
#[tokio::test]
async fn our_own_pages_report_that_no_sign_in_can_start() {
    let provider = Provider::new().await;
    provider.engine.refuse_writes(true);
    let browser = provider.browser();
    for page in ["/account", "/account/password"] {
        let shown = browser.open(page).await;
        assert_eq!((shown.status, shown.header("retry-after")), (503, Some("1")), "{page}: {shown:?}");
    }
    provider.engine.refuse_writes(false);
    assert_login(&browser.open("/account").await);
}

#[tokio::test]
async fn a_finished_request_frees_its_place() {
    let provider = Provider::with("[sessions]\nmax_interactions = 1").await;
    for _ in 0..3 {
        assert_eq!(provider.sealgate.store.open_interactions(), 0);
        provider.c1().code(&[]).await;
    }
    let browser = with_anna(&provider).await;
    let page = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    assert_eq!(provider.sealgate.store.open_interactions(), 1);
    browser.submit(&page, &[("consent-deny", "yes")]).await;
    assert_eq!(provider.sealgate.store.open_interactions(), 0);
}

#[tokio::test]
async fn a_browser_has_at_most_eight_pending_requests() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let mut pages = Vec::new();
    for _ in 0..9 {
        pages.push(browser.open(&provider.c1().authorize(&[])).await);
        provider.wait(1);
    }
    assert_eq!(provider.sealgate.store.open_interactions(), 8);
    assert_refused(&browser.get(&form_action(pages[0].text())).await);
    for page in &pages[1..] {
        assert_login(&browser.get(&form_action(page.text())).await);
    }
}

#[tokio::test]
async fn a_read_only_store_is_reported_to_the_client() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
    provider.engine.refuse_writes(true);
    browser.open(&provider.c1().authorize(&[])).await.assert_error_redirect("temporarily_unavailable");
    let page = browser.allow(&consent).await;
    assert_eq!((page.status, page.header("retry-after")), (503, Some("1")));
    provider.engine.refuse_writes(false);
    assert_code(&browser.allow(&consent).await);
}

#[tokio::test]
async fn two_tabs_that_finish_the_same_request_at_once_give_one_code() {
    let provider = Provider::new().await;
    let browser = with_anna(&provider).await;
    for _ in 0..10 {
        let consent = browser.open(&provider.c1().authorize(&[("prompt", "consent")])).await;
        let resume = browser.submit_only(&consent, &[("consent-allow", "yes")]).await.location().to_owned();
        let (one, other) = tokio::join!(browser.get(&resume), browser.get(&resume));
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [302, 400]);
    }
}

/// The active user was disabled. The consent page must name the same user as the step that led to
/// it.
#[tokio::test]
async fn all_pages_select_the_same_account_when_the_current_one_is_disabled() {
    let provider = Provider::new().await;
    let browser = with_anna_and_ben(&provider).await;
    disable(&provider, &provider.ben).await;
    let page = browser.open(&provider.c2().authorize(&[])).await;
    assert_consent(&page);
    assert!(page.text().contains(ANNA));
    assert_code(&browser.allow(&page).await);
}
