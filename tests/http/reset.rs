//! A forgotten password: asking for a link, whose it is, and what it does.

use std::sync::atomic::{AtomicU32, Ordering};

use sealgate::facade::app::reset_lookup::look_up;
use sealgate::facade::clock::Clock as _;
use sealgate::facade::domain::mail::{Mail, MailMessage, Notice, WaitingMail};

use crate::mails::{self, MAIL};
use crate::security::between;
use crate::steps::{assert_code, assert_login};
use crate::support::{Browser, Provider, Reply, is_consent};

static NETWORK: AtomicU32 = AtomicU32::new(1);
const ANNA: &str = "anna@example.test";
const NEW: &str = "purple lantern under seven bridges";
const LINK: &str = "__Host-sealgate-link";

async fn mailing() -> Provider {
    Provider::with(MAIL).await
}

/// The page that asks whose password was forgotten, come to from the sign-in page of a client.
async fn forgot_page(provider: &Provider, browser: &Browser<'_>) -> Reply {
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert_login(&page);
    let link = between(page.text(), "id=\"forgot-password\" href=\"", "\"").unwrap().replace("&#38;", "&");
    browser.get(&link).await
}

/// Does what the worker does with what was asked for, and yields the mails that are due then.
async fn work(provider: &Provider) -> Vec<(WaitingMail, MailMessage)> {
    let (store, now) = (&provider.sealgate.store, provider.clock.now());
    for mail in store.due_mail(now, 1000).await.unwrap() {
        let message = store.open_mail(&mail.value).unwrap();
        if matches!(message.mail, Mail::ResetWanted { .. }) {
            let _ = look_up(&provider.sealgate, now, &mail, &message).await.unwrap();
        }
    }
    mails::due(store, now).await
}

/// The token of a link that was mailed to whoever has this address or username. From another network each time.
async fn link_of(provider: &Provider, typed: &str) -> String {
    let mut browser = provider.browser();
    browser.address = format!("198.51.100.{}", NETWORK.fetch_add(1, Ordering::Relaxed) % 250);
    let page = forgot_page(provider, &browser).await;
    browser.submit(&page, &[("email", typed)]).await;
    let mails = work(provider).await;
    let newest = mails.iter().rev().find(|(_, message)| matches!(message.mail, Mail::Reset { .. })).unwrap();
    mails::token(&newest.1).to_owned()
}

/// Opens a mailed link in a browser.
async fn open(browser: &Browser<'_>, token: &str) -> Reply {
    browser.open(&format!("/oauth/reset?token={token}")).await
}

#[track_caller]
fn assert_form(page: &Reply) {
    assert!(page.status == 200 && page.text().contains("id=\"new-password-submit\""), "no form: {page:?}");
}

#[track_caller]
fn assert_over(page: &Reply) {
    assert!(page.status == 400 && page.text().contains("This link no longer works"), "not refused: {page:?}");
}

#[track_caller]
fn assert_done(page: &Reply) {
    assert!(page.status == 200 && page.text().contains("Your password was changed"), "not done: {page:?}");
}

#[tokio::test]
async fn a_forgotten_password_is_reset_and_its_owner_goes_on_where_they_wanted() {
    let provider = mailing().await;
    let browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    assert!(page.text().contains("id=\"reset-submit\""), "{page:?}");
    let asked = browser.submit(&page, &[("email", ANNA)]).await;
    assert!(asked.status == 200 && asked.text().contains("Check your email"), "{asked:?}");
    let mails = work(&provider).await;
    let [(waiting, message)] = mails.as_slice() else { panic!("not one mail: {mails:?}") };
    assert_eq!((waiting.subject, message.to.as_ref()), (Some(provider.anna.sub), Some(&provider.anna.email)));

    let page = open(&browser, mails::token(message)).await;
    assert_form(&page);
    assert!(page.text().contains("<bdi>a…@example.test</bdi>"), "it says whose account it is: {page:?}");
    assert!(page.text().contains("value=\"anna@example.test\" autocomplete=\"username\""), "{page:?}");
    let done = browser.submit(&page, &[("new-password", NEW)]).await;
    assert_done(&done);
    assert_eq!(browser.cookie(LINK), None);
    // Nobody is signed in by it.
    assert!(browser.get("/account").await.location().starts_with("/oauth/authorize?"));

    let on = between(done.text(), "id=\"sign-in\" href=\"", "\"").unwrap().replace("&#38;", "&");
    let page = browser.open(&on).await;
    assert_login(&page);
    let old = browser.sign_in(&page, ANNA).await;
    assert!(old.text().contains("Incorrect account or password"), "{old:?}");
    let page = browser.submit(&old, &[("email", ANNA), ("password", NEW)]).await;
    assert!(is_consent(&page), "{page:?}");
    assert_code(&browser.allow(&page).await);

    let mails = work(&provider).await;
    let told = |(_, message): &(WaitingMail, MailMessage)| {
        message.mail == Mail::Notice { notice: Notice::PasswordReset, count: 1 }
            && message.to.as_ref() == Some(&provider.anna.email)
    };
    assert_eq!(mails.iter().filter(|mail| told(mail)).count(), 1, "{mails:?}");
}

#[tokio::test]
async fn without_mail_there_is_no_way_to_a_reset() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert!(!page.text().contains("forgot-password"), "{page:?}");
    for reply in [browser.get("/oauth/forgot-password").await, browser.post("/oauth/forgot-password", &[]).await] {
        assert_eq!(reply.status, 404, "{reply:?}");
    }
    assert!(work(&provider).await.is_empty());
}
