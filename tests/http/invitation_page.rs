//! Tests `/oauth/invitation`: an invited user activates the account.

use http::{Method, Request};
use sealgate_domain::account_links::INVITATION_LIFE;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::webauthn::{KeyAlgorithm, UserHandle};
use sealgate_system::clock::Clock as _;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::invitations::{NEW, change, command, invite, invite_to, links, provider, shown, token_for, user};
use crate::mailbox::{self, MAIL};
use crate::reset::{forgot_page, work};
use crate::second_factor::{answer, passkey};
use crate::security::{key_of, send};
use crate::steps::{assert_login, with_anna};
use crate::support::{Browser, Provider, Reply, is_login};

const PAGE: &str = "/oauth/invitation";
const CHOSEN: &str = "purple lantern under seven bridges";
const LINK: &str = "__Host-sealgate-link";
const SESSION: &str = "__Host-sealgate";

fn address(token: &str) -> String {
    format!("{PAGE}?token={token}")
}

async fn take(browser: &Browser<'_>, page: &Reply) -> Reply {
    browser.submit_only(page, &[("new-password", CHOSEN), ("new-password-submit", "yes")]).await
}

#[track_caller]
fn assert_form(page: &Reply) {
    assert!(page.status == 200 && page.text().contains("id=\"new-password-submit\""), "no form: {page:?}");
}

#[track_caller]
fn assert_over(page: &Reply) {
    assert!(page.status == 400 && page.text().contains("This invitation no longer works"), "not over: {page:?}");
}

/// Signs in with the chosen password for the account page.
async fn signs_in(provider: &Provider, email: &str, password: &str) -> Reply {
    let browser = provider.browser();
    let page = browser.open("/account").await;
    assert_login(&page);
    browser.submit(&page, &[("email", email), ("password", password)]).await
}

#[tokio::test]
async fn an_invited_user_chooses_a_password_and_reaches_the_application() {
    let provider = provider().await;
    invite_to(&provider, NEW, Some("wiki")).await.unwrap();
    let token = token_for(&provider, NEW).await;
    let before = links(&provider, NEW).await;
    // Imitates a link scanner.
    for method in [Method::GET, Method::HEAD, Method::GET, Method::HEAD, Method::GET] {
        let scanner = provider.browser();
        let reply = scanner.send(Request::builder().method(method).uri(address(&token)), String::new()).await;
        assert_eq!((reply.status, reply.header("location")), (303, Some(PAGE)), "{reply:?}");
        assert_form(&scanner.get(PAGE).await);
    }
    assert_eq!(links(&provider, NEW).await, before);

    let browser = provider.browser();
    let page = browser.open(&address(&token)).await;
    assert_form(&page);
    for told in
        ["<bdi>c…@example.test</bdi>", "continue to <bdi>Ortak Wiki</bdi>", "value=\"ceren@example.test\" autocomplete"]
    {
        assert!(page.text().contains(told), "{told}: {page:?}");
    }
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let short = browser.submit(&page, &[("new-password", "short")]).await;
    assert!(short.text().contains("id=\"password-problem\"") && user(&provider, NEW).await.unwrap().password.is_none());
    let policy = short.header("content-security-policy").unwrap();
    assert!(policy.ends_with("form-action 'self' https://wiki.example.test"), "{policy}");
    let on = take(&browser, &short).await;
    assert_eq!((on.status, on.location()), (303, "https://wiki.example.test/"));
    assert_eq!((browser.cookie(LINK), browser.cookie(SESSION)), (None, None), "it signs in no user");
    let accepted = user(&provider, NEW).await.unwrap();
    assert!(accepted.email_verified && accepted.password.is_some());
    let told = shown(&provider, NEW).await;
    assert_eq!(
        (&told["invitation"], &told["invitation_accepted_at"]),
        (&json!("accepted"), &json!(provider.clock.now()))
    );
    assert!(signs_in(&provider, NEW, CHOSEN).await.text().contains("Ceren Kaya"));

    // The link is opened again.
    assert_over(&provider.browser().open(&address(&token)).await);
    assert_over(&take(&browser, &short).await);
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let filter = AuditFilter { kinds: vec![AuditKind::InvitationAccepted], ..AuditFilter::default() };
    let events = provider.sealgate.store.audit_page(&filter, None, 9).await.unwrap().records;
    assert_eq!((events.len(), events[0].event.detail.as_deref()), (1, Some("password")));
}

#[tokio::test]
async fn an_invitation_without_an_application_leads_to_the_sign_in() {
    let provider = Provider::with(MAIL).await;
    invite(&provider, NEW).await.unwrap();
    let browser = provider.browser();
    let page = browser.open(&address(&token_for(&provider, NEW).await)).await;
    let login = browser.follow(take(&browser, &page).await).await;
    assert!(is_login(&login) && login.text().contains("value=\"ceren@example.test\""), "{login:?}");
}

#[tokio::test]
async fn concurrent_uses_of_an_invitation_succeed_once() {
    for _ in 0..5 {
        let provider = provider().await;
        invite(&provider, NEW).await.unwrap();
        let address = address(&token_for(&provider, NEW).await);
        let (one, other) = (provider.browser(), provider.browser());
        let (page, same) = (one.open(&address).await, other.open(&address).await);
        let theirs = [("new-password", "seven green bottles on the wall")];
        let (first, second) = tokio::join!(take(&one, &page), other.submit_only(&same, &theirs));
        assert_eq!(
            [first.status, second.status].iter().filter(|status| **status == 303).count(),
            1,
            "{first:?} {second:?}"
        );
        let (password, refused) = if first.status == 303 { (CHOSEN, &second) } else { (theirs[0].1, &first) };
        assert_over(refused);
        assert!(signs_in(&provider, NEW, password).await.text().contains("Ceren Kaya"));
    }
}

#[tokio::test]
async fn an_invitation_link_ends_when_the_account_changes() {
    for (what, is_dead) in [
        ("late", true),
        ("resent", true),
        ("withdrawn", true),
        ("password", true),
        ("disabled", true),
        ("address", true),
        ("revoked", true),
        ("deleted", true),
        ("renamed", false),
    ] {
        let provider = provider().await;
        invite(&provider, NEW).await.unwrap();
        let token = token_for(&provider, NEW).await;
        let browser = provider.browser();
        let page = browser.open(&address(&token)).await;
        assert_form(&page);
        let person = json!({ "email": NEW });
        match what {
            "late" => provider.clock.set(provider.clock.now().plus(INVITATION_LIFE)),
            "resent" => drop(change(&provider, NEW, "resend").await.unwrap()),
            "withdrawn" => drop(change(&provider, NEW, "revoke").await.unwrap()),
            "password" => {
                let set = json!({ "set_password": { "user": person, "password": "seven green bottles on the wall" } });
                drop(command(&provider, set).await.unwrap());
            }
            "disabled" => {
                drop(command(&provider, json!({ "disable": person })).await.unwrap());
                drop(command(&provider, json!({ "enable": person })).await.unwrap());
            }
            "address" => {
                let set = json!({ "set": { "user": person, "changes": { "email": "other@example.test" } } });
                drop(command(&provider, set).await.unwrap());
            }
            "revoked" => drop(command(&provider, json!({ "revoke": person })).await.unwrap()),
            "deleted" => {
                drop(command(&provider, json!({ "delete": person })).await.unwrap());
                invite(&provider, NEW).await.unwrap();
            }
            _ => {
                let set = json!({ "set": { "user": person, "changes": { "name": "Ceren K." } } });
                drop(command(&provider, set).await.unwrap());
            }
        }
        let reply = take(&browser, &page).await;
        assert_eq!(reply.status == 400, is_dead, "{what}: {reply:?}");
        if is_dead {
            assert_over(&reply);
            assert_over(&browser.get(PAGE).await);
            if let Some(user) = user(&provider, NEW).await.filter(|_| what != "password") {
                assert!(user.password.is_none() && !user.email_verified, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn an_invitation_form_needs_an_opened_link() {
    let provider = provider().await;
    invite(&provider, NEW).await.unwrap();
    let token = token_for(&provider, NEW).await;
    let page = provider.browser().open(&address(&token)).await;
    let scanner = provider.browser();
    assert_over(&take(&scanner, &page).await);
    assert_over(&scanner.post(&address(&token), &[("new-password", CHOSEN)]).await);
    // The request has the cookie but not the form token.
    let browser = provider.browser();
    browser.open(&address(&token)).await;
    let reply = browser.post(PAGE, &[("new-password", CHOSEN)]).await;
    assert!(reply.status == 400 && user(&provider, NEW).await.unwrap().password.is_none(), "{reply:?}");
    for nonsense in ["", "AAAA", &token[1..]] {
        assert_over(&provider.browser().open(&address(nonsense)).await);
    }
}

#[tokio::test]
async fn a_user_with_a_passkey_has_no_password_and_signs_in_with_it() {
    let provider = provider().await;
    invite(&provider, NEW).await.unwrap();
    let token = token_for(&provider, NEW).await;
    let sub = user(&provider, NEW).await.unwrap().sub;
    let (browser, other) = (provider.browser(), provider.browser());
    let (first, in_other) = (browser.open(&address(&token)).await, other.open(&address(&token)).await);
    assert!(provider.sealgate.store.factors(sub).await.unwrap().is_none(), "opening it begins nothing");
    let page = browser.submit(&first, &[("choose", "passkey")]).await;
    assert!(page.text().contains("id=\"enrol-passkey\"") && !page.text().contains("new-password"), "{page:?}");

    let mut key = Authenticator::new(KeyAlgorithm::Es256, &[9; 32]);
    let elsewhere = key_of(&page, &key, |ceremony| ceremony.saying("https://id.test", "https://evil.test"));
    let form = |answer| [("with", "key"), ("kind", "passkey"), ("credential", answer)];
    let page = send(&browser, PAGE, &page, &form(elsewhere.as_str())).await;
    assert!(page.text().contains("its answer could not be verified"), "{page:?}");
    let made = key_of(&page, &key, |ceremony| ceremony);
    let login = send(&browser, PAGE, &page, &form(made.as_str())).await;
    assert_login(&login);
    let accepted = user(&provider, NEW).await.unwrap();
    assert!(accepted.password.is_none() && accepted.email_verified, "{accepted:?}");
    let factors = provider.sealgate.store.factors(sub).await.unwrap().unwrap().value;
    assert!(factors.has_passkey() && factors.pending.is_empty());
    // The same link cannot add a password after the passkey.
    assert_over(&take(&other, &in_other).await);
    assert!(change(&provider, NEW, "resend").await.unwrap_err()[0].contains("already has a password or a passkey"));

    key.handle = UserHandle::parse(&factors.handle.to_string()).unwrap();
    let signed = answer(&login, &key, |ceremony| ceremony);
    let home = passkey(&browser, &login, &signed).await;
    assert!(browser.cookie(SESSION).is_some() && home.text().contains("<h1>Your applications<"), "{home:?}");
}

#[tokio::test]
async fn a_concurrent_password_and_passkey_choose_one_credential() {
    let provider = provider().await;
    invite(&provider, NEW).await.unwrap();
    let token = token_for(&provider, NEW).await;
    let (one, other) = (provider.browser(), provider.browser());
    let (page, in_other) = (one.open(&address(&token)).await, other.open(&address(&token)).await);
    let page = one.submit(&page, &[("choose", "passkey")]).await;
    let made = key_of(&page, &Authenticator::new(KeyAlgorithm::Es256, &[9; 32]), |ceremony| ceremony);
    let form = [("with", "key"), ("kind", "passkey"), ("credential", made.as_str())];
    let _ = tokio::join!(send(&one, PAGE, &page, &form), take(&other, &in_other));
    let accepted = user(&provider, NEW).await.unwrap();
    let factors = provider.sealgate.store.factors(accepted.sub).await.unwrap().unwrap().value;
    assert!(accepted.password.is_some() != factors.has_passkey());
}

#[tokio::test]
async fn a_required_second_factor_is_added_at_the_first_sign_in() {
    let provider = Provider::with(&format!("{MAIL}[factors]\nlevel = \"2\"\n")).await;
    invite(&provider, NEW).await.unwrap();
    let browser = provider.browser();
    let page = browser.open(&address(&token_for(&provider, NEW).await)).await;
    let login = browser.follow(take(&browser, &page).await).await;
    let page = browser.submit(&login, &[("email", NEW), ("password", CHOSEN)]).await;
    assert!(page.text().contains("id=\"enrol-totp\"") && browser.cookie(SESSION).is_none(), "{page:?}");
}

#[tokio::test]
async fn an_existing_session_of_another_user_is_neither_changed_nor_used() {
    let provider = provider().await;
    invite_to(&provider, NEW, Some("wiki")).await.unwrap();
    let browser = with_anna(&provider).await;
    let session = browser.cookie(SESSION);
    let page = browser.open(&address(&token_for(&provider, NEW).await)).await;
    assert!(page.text().contains("id=\"shared-browser\"") && !page.text().contains("Ortak Wiki"), "{page:?}");
    let login = browser.follow(take(&browser, &page).await).await;
    assert!(is_login(&login) && login.text().contains("value=\"ceren@example.test\""), "{login:?}");
    assert_eq!(browser.cookie(SESSION), session);
}

#[tokio::test]
async fn an_account_with_a_pending_invitation_cannot_be_opened() {
    let provider = provider().await;
    invite(&provider, NEW).await.unwrap();
    for password in ["", CHOSEN] {
        assert!(is_login(&signs_in(&provider, NEW, password).await));
    }
    let browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    browser.submit(&page, &[("email", NEW)]).await;
    let mails = work(&provider).await;
    assert!(mails.len() == 1 && mailbox::token(&mails[0].1) == token_for(&provider, NEW).await, "no reset: {mails:?}");
}
