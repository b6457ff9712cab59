//! Tests a user without an e-mail address: sign-in with the username, claims, account pages, mails,
//! and the addition of an address.

use sealgate::app::notices;
use sealgate_admin::command::Command;
use sealgate_admin::{CommandContext, execute};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::mail::{CodePurpose, Mail, MailMessage, Notice};
use sealgate_domain::user::User;
use sealgate_system::clock::Clock as _;
use serde_json::{Value, json};

use crate::mailbox::{self, MAIL};
use crate::reset::{forgot_page, work};
use crate::steps::{assert_login, csrf_of};
use crate::support::{Browser, Provider, Reply, Tokens, jwt_claims};

const ANNA: &str = "anna@example.test";

/// Account pages that every user can open.
const PAGES: [&str; 12] = [
    "/account",
    "/account/password",
    "/account/address",
    "/account/address/new",
    "/account/security",
    "/account/security/app",
    "/account/security/key",
    "/account/sessions",
    "/account/applications",
    "/account/app-passwords",
    "/account/app-logins",
    "/account/activity",
];

pub(crate) async fn set(provider: &Provider, changes: Value) {
    let set = json!({ "user": { "set": { "user": { "sub": provider.anna.sub }, "changes": changes } } });
    let command: Command = serde_json::from_value(set).unwrap();
    execute(&CommandContext::new(&provider.sealgate), command).await.unwrap();
}

/// Gives Anna the username `anna` and removes her address, as an operator does.
async fn without_address(provider: &Provider) {
    set(provider, json!({ "username": "anna", "no_email": true })).await;
}

async fn provider() -> Provider {
    let provider = Provider::with(MAIL).await;
    without_address(&provider).await;
    notices::queue_notices(&provider.sealgate).await;
    mailbox::take(&provider.sealgate).await;
    provider
}

async fn anna(provider: &Provider) -> User {
    provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap()
}

async fn signed_in(provider: &Provider) -> Browser<'_> {
    let browser = provider.browser();
    let login = browser.open("/account").await;
    let page = browser.sign_in(&login, "anna").await;
    assert!(page.status == 200 && page.text().contains("profile-save"), "{page:?}");
    browser
}

/// Enters an address on the page for a new one.
async fn add(browser: &Browser<'_>, address: &str) -> Reply {
    let page = browser.get("/account/address/new").await;
    browser.submit(&page, &[("address", address)]).await
}

#[tokio::test]
async fn clients_get_no_address_of_a_user_without_one() {
    let provider = provider().await;
    let login = provider.browser();
    assert_login(&login.sign_in(&login.open("/account").await, ANNA).await);
    let browser = provider.browser();
    let scope = [("scope", "openid email profile")];
    let page = browser.open(&provider.c1().authorize(&scope)).await;
    let consent = browser.sign_in(&page, "anna").await;
    assert!(consent.text().contains("You are signed in as <bdi>anna</bdi>."), "{consent:?}");
    assert!(consent.text().contains("Your account has no email address."), "{consent:?}");
    let code = browser.allow(&consent).await.returned("code").unwrap();
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    let (claims, info) = (jwt_claims(&tokens.id), provider.userinfo(&tokens.access).await.json());
    for claims in [&claims, &info] {
        assert_eq!((&claims["sub"], &claims["preferred_username"]), (&json!(provider.anna.sub), &json!("anna")));
        for absent in ["email", "email_verified"] {
            assert!(claims.get(absent).is_none(), "{claims}");
        }
    }
    // With an address, both claims appear.
    set(&provider, json!({ "email": ANNA })).await;
    let code = provider.c1().code_in(&browser, &scope).await;
    let claims = jwt_claims(&Tokens::of(&provider.c1().redeem(&code).await).id);
    assert_eq!((&claims["email"], &claims["email_verified"]), (&json!(ANNA), &json!(false)));
}

#[tokio::test]
async fn every_account_page_opens_without_an_address() {
    let provider = provider().await;
    let browser = signed_in(&provider).await;
    for path in PAGES {
        let page = browser.get(path).await;
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert!(!page.text().contains(ANNA), "{path}: {page:?}");
        assert!(page.text().contains("<bdi>anna</bdi>"), "{path} does not name the account: {page:?}");
    }
    let profile = browser.get("/account").await;
    assert!(profile.text().contains("No address") && profile.text().contains("/account/address/new"), "{profile:?}");
    let address = browser.get("/account/address").await;
    assert!(address.text().contains("You sign in with your username."), "{address:?}");
    assert!(!address.text().contains("id=\"verify\""), "there is no address to verify: {address:?}");
    // A form for the verification that was open before the address was removed sends nothing.
    let csrf = csrf_of(&browser.get("/account/address/new").await);
    let forms = [("/account/address", "verify"), ("/account/address", "cancel")];
    for (path, button) in forms {
        let reply = browser.post(path, &[("csrf", &csrf), (button, "yes")]).await;
        assert!(reply.status < 500, "{button}: {reply:?}");
    }
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
}

#[tokio::test]
async fn a_user_without_an_address_adds_one_with_a_mailed_code() {
    let provider = provider().await;
    let browser = signed_in(&provider).await;
    let page = browser.get("/account/address/new").await;
    assert!(page.text().contains("Add an address"), "{page:?}");
    add(&browser, "anna@new.test").await;
    assert_eq!(anna(&provider).await.email, None);
    let mails = mailbox::take(&provider.sealgate).await;
    let Mail::VerificationCode { code, purpose: CodePurpose::NewAddress } = &mails[0].mail else { panic!("{mails:?}") };
    assert_eq!((mails.len(), mailbox::address(&mails[0]).as_str()), (1, "anna@new.test"));
    let page = browser.get("/account/address").await;
    let added = browser.submit(&page, &[("code", code)]).await;
    assert!(added.text().contains("Your address was added."), "{added:?}");
    let anna = anna(&provider).await;
    assert_eq!((anna.sign_in_name(), anna.email_verified), ("anna@new.test", true));
    // Only the new address is notified: there is no old one.
    let mails = mailbox::take(&provider.sealgate).await;
    let told: Vec<_> = mails.iter().map(|mail| (mailbox::address(mail), &mail.mail)).collect();
    assert_eq!(told, [("anna@new.test".to_owned(), &Mail::Notice { notice: Notice::AddressChanged, count: 1 })]);
    assert!(provider.sealgate.store.account_links(anna.sub).await.unwrap().is_none(), "nothing can be undone");
    for name in ["anna", "Anna@New.test"] {
        let fresh = provider.browser();
        let page = fresh.sign_in(&fresh.open("/account").await, name).await;
        assert!(page.text().contains("anna@new.test"), "{name}: {page:?}");
    }
}

/// The code belongs to an account without an address, so it ends when an administrator sets one.
#[tokio::test]
async fn a_code_for_a_first_address_ends_with_another_address() {
    let provider = provider().await;
    let browser = signed_in(&provider).await;
    add(&browser, "anna@new.test").await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    let page = browser.get("/account/address").await;
    set(&provider, json!({ "email": "anna@safe.test" })).await;
    let over = browser.submit(&page, &[("code", &code)]).await;
    assert!(over.text().contains("This browser is not waiting for a code"), "{over:?}");
    assert_eq!(anna(&provider).await.sign_in_name(), "anna@safe.test");
}

#[tokio::test]
async fn a_first_address_requires_a_recent_sign_in() {
    let provider = provider().await;
    let browser = signed_in(&provider).await;
    let csrf = csrf_of(&browser.get("/account/address/new").await);
    provider.wait(31 * 60);
    let fields = [("csrf", csrf.as_str()), ("address", "thief@evil.test")];
    let reply = browser.post("/account/address/new", &fields).await;
    assert_login(&browser.follow(reply).await);
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
}

#[tokio::test]
async fn a_reset_for_a_user_without_an_address_looks_like_one_for_an_unknown_user() {
    let provider = provider().await;
    let answers = async |typed: &str| {
        let browser = provider.browser();
        let page = forgot_page(&provider, &browser).await;
        let asked = browser.submit(&page, &[("email", typed)]).await;
        assert_eq!(work(&provider).await.len(), 0, "{typed}");
        let text = asked.text().replace(&csrf_of(&page), "");
        (asked.status, text.split("<main").nth(1).unwrap().split("/oauth/").next().unwrap().to_owned())
    };
    let known = answers("anna").await;
    assert!(known.1.contains("If the account exists"), "{known:?}");
    assert_eq!(known, answers("nobody").await);
}

#[tokio::test]
async fn a_user_without_an_address_is_sent_no_notices() {
    let provider = provider().await;
    for user in [&provider.anna, &provider.ben] {
        let event = AuditEvent::new(provider.clock.now(), AuditKind::PasswordChanged, Actor::User);
        provider.sealgate.audit.note(event.for_subject(user.sub));
    }
    notices::queue_notices(&provider.sealgate).await;
    let told: Vec<_> = mailbox::take(&provider.sealgate).await.iter().map(mailbox::address).collect();
    assert_eq!(told, ["ben@example.test"]);
}

#[tokio::test]
async fn a_removed_address_is_notified_and_its_links_end() {
    let provider = Provider::with(MAIL).await;
    let token = crate::reset::link_of(&provider, ANNA).await;
    mailbox::take(&provider.sealgate).await;
    without_address(&provider).await;
    notices::queue_notices(&provider.sealgate).await;
    let mails = mailbox::take(&provider.sealgate).await;
    let [MailMessage { to: Some(to), mail: Mail::Notice { notice: Notice::AdministratorActed, .. }, .. }] =
        mails.as_slice()
    else {
        panic!("{mails:?}")
    };
    assert_eq!(to.as_str(), ANNA);
    let page = provider.browser().open(&format!("/oauth/reset?token={token}")).await;
    assert!(page.status == 400 && page.text().contains("This link no longer works"), "{page:?}");
    // Another user can have the address.
    let ben = json!({ "user": { "set": { "user": { "sub": provider.ben.sub }, "changes": { "email": ANNA } } } });
    execute(&CommandContext::new(&provider.sealgate), serde_json::from_value(ben).unwrap()).await.unwrap();
    let anna = anna(&provider).await;
    assert_eq!((anna.sign_in_name(), anna.email_verified), ("anna", false));
}
