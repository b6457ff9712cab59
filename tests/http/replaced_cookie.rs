//! Tests the session cookie from before a renewed sign-in: the provider rejects it at once.

use sealgate_domain::user::Role;

use crate::steps::{assert_code, assert_login, with_anna};
use crate::support::{Browser, Provider};

const COOKIE: &str = "__Host-sealgate";

/// Returns an attacker's browser with Anna's old cookie, and her browser after it has renewed the
/// sign-in.
async fn renewed(provider: &Provider) -> (Browser<'_>, Browser<'_>) {
    let browser = with_anna(provider).await;
    let thief = provider.browser();
    thief.set_cookie(COOKIE, &browser.cookie(COOKIE).unwrap());
    provider.wait(400);
    let page = browser.open(&provider.c1().authorize(&[("max_age", "300")])).await;
    assert_code(&browser.sign_in(&page, "anna@example.test").await);
    (thief, browser)
}

#[tokio::test]
async fn a_replaced_cookie_gets_no_code() {
    let provider = Provider::new().await;
    let (thief, browser) = renewed(&provider).await;
    for more in [&[][..], &[("max_age", "300")]] {
        let silent = provider.c1().authorize(&[&[("prompt", "none")], more].concat());
        thief.open(&silent).await.assert_error_redirect("login_required");
        assert_login(&thief.open(&provider.c1().authorize(more)).await);
        assert_code(&browser.open(&silent).await);
    }
}

#[tokio::test]
async fn a_replaced_cookie_opens_neither_account_nor_console() {
    let provider = Provider::with("[console]\nenabled = true").await;
    let store = &provider.sealgate.store;
    store.change_user(provider.anna.sub, |user| user.roles = [Role::Admin].into()).await.unwrap();
    let (thief, browser) = renewed(&provider).await;
    for page in ["/account", "/account/sessions", "/account/password", "/console", "/console/users"] {
        assert_login(&thief.open(page).await);
        assert_eq!(browser.get(page).await.status, 200, "{page}");
    }
}

/// A holder of the old cookie who signs in as another user gets a separate session, not access to
/// the renewed one.
#[tokio::test]
async fn a_sign_in_with_a_replaced_cookie_does_not_join_the_session() {
    let provider = Provider::new().await;
    let (thief, browser) = renewed(&provider).await;
    let page = thief.open(&provider.c1().authorize(&[])).await;
    thief.sign_in(&page, "ben@example.test").await;
    let store = &provider.sealgate.store;
    let of = async |user| store.sessions_of_user(user, None, 10).await.unwrap().sessions;
    let (ben, anna) = (of(provider.ben.sub).await, of(provider.anna.sub).await);
    assert_eq!((ben.len(), ben[0].sign_ins.len(), anna.len()), (1, 1, 1));
    assert_ne!(ben[0].id, anna[0].id);
    assert_eq!(browser.get("/account").await.status, 200);
}

/// Signing out with the old cookie still ends the session: a concurrent sign-out must not leave a
/// session alive whose browser has lost the cookie.
#[tokio::test]
async fn a_replaced_cookie_can_still_sign_out() {
    let provider = Provider::new().await;
    let (old, browser) = renewed(&provider).await;
    let page = old.open("/oauth/logout").await;
    old.submit(&page, &[("logout-confirm", "yes")]).await;
    assert_login(&browser.open("/account").await);
}
