//! Tests resetting a forgotten password: the request for a link, its owner, and its effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sealgate::app::mail_lookup::{self, MAX_DELAY};
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::{CommandContext, UserRef, execute};
use sealgate_config::Language;
use sealgate_core::password::hash_blocking;
use sealgate_domain::account_links::{AccountLinks, AccountMark, Invitation, LINK_BYTES, LinkToken, RESET_LIFE};
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::grant::EndReason;
use sealgate_domain::mail::{Mail, MailId, MailMessage, Notice, WaitingMail};
use sealgate_domain::user::{Email, Subject, User, UserState};
use sealgate_domain::username::Username;
use sealgate_store::engine::Engine;
use sealgate_store::{Committed, RenameOutcome};
use sealgate_system::clock::Clock as _;
use secrecy::SecretString;

use crate::mailbox::{self, MAIL};
use crate::meddler::At;
use crate::second_factor::with_key;
use crate::security::{between, with_app};
use crate::steps::{assert_code, assert_login, with_anna};
use crate::support::{Browser, Provider, Reply, form_action, is_consent, is_login, token_device};
use crate::totp::code;

static NETWORK: AtomicU32 = AtomicU32::new(1);
const ANNA: &str = "anna@example.test";
const NEW: &str = "purple lantern under seven bridges";
const LINK: &str = "__Host-sealgate-link";
const LATE: &str = "another lantern under the bridge";

type Change = fn(&mut User);

async fn mailing() -> Provider {
    Provider::with(MAIL).await
}

/// Opens the page that asks for the account from the sign-in page of a client.
pub(crate) async fn forgot_page(provider: &Provider, browser: &Browser<'_>) -> Reply {
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert_login(&page);
    let link = between(page.text(), "id=\"forgot-password\" href=\"", "\"").unwrap().replace("&#38;", "&");
    browser.get(&link).await
}

/// Processes the requests as the worker does, and returns the messages that are due soon.
pub(crate) async fn work(provider: &Provider) -> Vec<(WaitingMail, MailMessage)> {
    let (store, now) = (&provider.sealgate.store, provider.clock.now());
    for mail in store.due_mail(now, 1000).await.unwrap() {
        let message = store.open_mail(&mail.value).unwrap();
        if matches!(message.mail, Mail::ResetWanted { .. }) {
            let _ = mail_lookup::answer_reset_request(&provider.sealgate, now, &mail, &message).await.unwrap();
        }
    }
    mailbox::due(store, now.plus(MAX_DELAY)).await
}

/// Requests a link for this address or username and returns its token. Each request comes from
/// another network.
pub(crate) async fn link_of(provider: &Provider, typed: &str) -> String {
    let mut browser = provider.browser();
    browser.address = format!("198.51.100.{}", NETWORK.fetch_add(1, Ordering::Relaxed) % 250);
    let page = forgot_page(provider, &browser).await;
    let before = work(provider).await;
    browser.submit(&page, &[("email", typed)]).await;
    // Messages that are due in the same second have no fixed order.
    let is_new = |(waiting, _): &&(WaitingMail, MailMessage)| before.iter().all(|(known, _)| known.id != waiting.id);
    let mails = work(provider).await;
    let new: Vec<&(WaitingMail, MailMessage)> = mails.iter().filter(is_new).collect();
    let [(_, message)] = new.as_slice() else { panic!("not one mail: {new:?}") };
    mailbox::token(message).to_owned()
}

/// Opens a link in a browser.
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

/// The links end in the commit that begins the revocation: a node or a process that fails after it
/// leaves none.
#[tokio::test]
async fn a_reset_link_ends_with_the_commit_that_disables_or_revokes() {
    type Ending = fn(UserRef) -> UserCommand;
    let endings: [Ending; 3] = [
        |person| UserCommand::Disable(person.into()),
        |person| UserCommand::Revoke(person.into()),
        UserCommand::ResetFactors,
    ];
    for ending in endings {
        let (provider, meddler) = Provider::meddled_with(MAIL).await;
        let token = link_of(&provider, ANNA).await;
        assert_form(&open(&provider.browser(), &token).await);
        let _session = with_anna(&provider).await;
        // No session can be ended, so that the rest of the revocation fails.
        meddler.fail(Some(b's'));
        let command = Command::User(ending(UserRef::Sub(provider.anna.sub)));
        assert!(execute(&CommandContext::new(&provider.sealgate), command).await.is_err());
        provider.sealgate.store.change_user(provider.anna.sub, |user| user.state = UserState::Enabled).await.unwrap();
        assert_over(&open(&provider.browser(), &token).await);
    }
}

#[tokio::test]
async fn a_password_reset_continues_to_the_requested_page() {
    let provider = mailing().await;
    let browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    assert!(page.text().contains("id=\"reset-submit\""), "{page:?}");
    let asked = browser.submit(&page, &[("email", ANNA)]).await;
    assert!(asked.status == 200 && asked.text().contains("Check your email"), "{asked:?}");
    let mails = work(&provider).await;
    let [(waiting, message)] = mails.as_slice() else { panic!("not one mail: {mails:?}") };
    assert_eq!((waiting.subject, message.to.as_ref()), (Some(provider.anna.sub), provider.anna.email.as_ref()));

    let page = open(&browser, mailbox::token(message)).await;
    assert_form(&page);
    assert!(page.text().contains("<bdi>a…@example.test</bdi>"), "the page names the account: {page:?}");
    assert!(page.text().contains("value=\"anna@example.test\" autocomplete=\"username\""), "{page:?}");
    let done = browser.submit(&page, &[("new-password", NEW)]).await;
    assert_done(&done);
    assert_eq!(browser.cookie(LINK), None);
    // The reset signs in no user.
    assert!(browser.get("/account").await.location().starts_with("/oauth/authorize?"));

    let on = between(done.text(), "id=\"sign-in\" href=\"", "\"").unwrap().replace("&#38;", "&");
    let page = browser.open(&on).await;
    assert_login(&page);
    let old = browser.sign_in(&page, ANNA).await;
    assert!(old.text().contains("Incorrect email address, username or password"), "{old:?}");
    let page = browser.submit(&old, &[("email", ANNA), ("password", NEW)]).await;
    assert!(is_consent(&page), "{page:?}");
    assert_code(&browser.allow(&page).await);

    let mails = work(&provider).await;
    let told = |(_, message): &(WaitingMail, MailMessage)| {
        message.mail == Mail::Notice { notice: Notice::PasswordReset, count: 1 }
            && message.to.as_ref() == provider.anna.email.as_ref()
    };
    assert_eq!(mails.iter().filter(|mail| told(mail)).count(), 1, "{mails:?}");
}

#[tokio::test]
async fn without_mail_no_reset_is_offered() {
    let provider = Provider::new().await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    assert!(!page.text().contains("forgot-password"), "{page:?}");
    for reply in [browser.get("/oauth/forgot-password").await, browser.post("/oauth/forgot-password", &[]).await] {
        assert_eq!(reply.status, 404, "{reply:?}");
    }
    assert!(work(&provider).await.is_empty());
}

/// Returns an answer without the rate limit headers.
fn shown(reply: &Reply) -> (u16, Vec<(String, String)>, String) {
    let mut headers = reply.all_headers();
    headers.retain(|(name, _)| !name.starts_with("x-ratelimit-"));
    (reply.status, headers, reply.text().to_owned())
}

#[tokio::test]
async fn every_reset_request_gets_the_same_response_and_record() {
    let provider = mailing().await;
    name_anna(&provider).await;
    provider.change_user(provider.ben.sub, |ben| ben.state = UserState::Disabled).await;
    let mut browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    let long = "x".repeat(20_000);
    let typed = [
        ANNA,
        " Anna@Example.TEST ",
        "nobody@example.test",
        "ben@example.test",
        "sahin",
        "",
        "no address",
        "a@b@c",
        "anna@example.test\r\nBcc: eve@evil.test",
        "anna@example.test, eve@evil.test",
        "\u{202e}anna@example.test",
        &long,
    ];
    let mut answers = Vec::new();
    let mut sizes = Vec::new();
    for (number, typed) in typed.iter().enumerate() {
        browser.address = format!("198.51.100.{}", 100 + number);
        let before = mailbox::due(&provider.sealgate.store, provider.clock.now()).await.len();
        let asked = browser.submit_only(&page, &[("email", typed)]).await;
        answers.push((shown(&asked), shown(&browser.follow(asked).await)));
        let waiting = mailbox::due(&provider.sealgate.store, provider.clock.now()).await;
        assert_eq!(waiting.len(), before + 1, "{typed:?}");
        let (last, message) = waiting.last().unwrap();
        assert!(last.subject.is_none() && message.to.is_none(), "nobody was looked up");
        sizes.push(last.message.as_bytes().len());
    }
    // Rejected requests: one too many for this address, and one too many from this network.
    for address in ["198.51.100.201", "198.51.100.202", "198.51.100.203"] {
        browser.address = address.into();
        let asked = browser.submit_only(&page, &[("email", ANNA)]).await;
        answers.push((shown(&asked), shown(&browser.follow(asked).await)));
    }
    assert_eq!(mailbox::due(&provider.sealgate.store, provider.clock.now()).await.len(), typed.len() + 1, "3 an hour");
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
    }
    assert!(answers[0].1.2.contains("If the account exists"), "{answers:?}");
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}

/// With one count for all, an attacker could block a user's resets. The request does not check
/// whether the browser belongs to the account's owner.
#[tokio::test]
async fn a_known_browser_has_its_own_count() {
    let provider = mailing().await;
    let own = with_anna(&provider).await;
    let known = own.cookie("__Host-sealgate-known").unwrap();
    let ask = async |cookie: Option<&str>| {
        let mut browser = provider.browser();
        browser.address = format!("198.51.100.{}", NETWORK.fetch_add(1, Ordering::Relaxed) % 250);
        if let Some(cookie) = cookie {
            browser.set_cookie("__Host-sealgate-known", cookie);
        }
        let page = forgot_page(&provider, &browser).await;
        let before = mailbox::due(&provider.sealgate.store, provider.clock.now()).await.len();
        let answer = browser.submit(&page, &[("email", ANNA)]).await;
        let asked = mailbox::due(&provider.sealgate.store, provider.clock.now()).await.len() - before;
        (asked, (answer.status, answer.text().len()))
    };
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (asked, answer) = ask(None).await;
        assert_eq!(asked, 1);
        answers.push(answer);
    }
    assert_eq!(work(&provider).await.len(), 3);
    for mail in provider.sealgate.store.waiting_mails(None, 10).await.unwrap() {
        let _ = provider.sealgate.store.replace_mail(&mail, &[]).await.unwrap();
    }
    let events = asked_events(&provider).await.len();
    let forged = "AAAAAAAAAAAAAAAAAAAAAA.BBBBBBBBBBBBBBBBBBBBBB";
    for (cookie, asked, mailed) in [
        (None, 0, 0),
        (Some(forged.to_owned()), 1, 0),
        (Some(known.clone()), 1, 1),
        (Some(format!("{known}.{forged}")), 1, 1),
        (Some(known.clone()), 1, 1),
        // The limit of the mark is used up too, whether or not the cookie contains other marks.
        (Some(known.clone()), 0, 0),
        (Some(format!("CCCCCCCCCCCCCCCCCCCCCC.{known}")), 1, 0),
    ] {
        let (found, answer) = ask(cookie.as_deref()).await;
        assert_eq!(found, asked, "{cookie:?}");
        answers.push(answer);
        let links = work(&provider).await;
        assert_eq!(links.len(), mailed, "{cookie:?}: {links:?}");
        assert!(links.iter().all(|(_, message)| matches!(message.mail, Mail::Reset { .. })), "{links:?}");
        for mail in provider.sealgate.store.waiting_mails(None, 10).await.unwrap() {
            let _ = provider.sealgate.store.replace_mail(&mail, &[]).await.unwrap();
        }
    }
    assert_eq!(asked_events(&provider).await.len(), events + 3);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[tokio::test]
async fn the_reset_link_goes_to_the_address_of_the_account_only() {
    let provider = mailing().await;
    name_anna(&provider).await;
    for typed in [ANNA, "ANNA@example.TEST", "sahin", "Sahin"] {
        let mut browser = provider.browser();
        browser.address = format!("198.51.100.{}", NETWORK.fetch_add(1, Ordering::Relaxed) % 250);
        let page = forgot_page(&provider, &browser).await;
        let turkish = browser.get(&format!("{}&lang=tr", form_action(page.text()))).await;
        browser.submit(&turkish, &[("email", typed)]).await;
        let mails = work(&provider).await;
        let (waiting, message) = mails.last().unwrap();
        assert!(matches!(message.mail, Mail::Reset { .. }), "{typed}: {message:?}");
        assert_eq!((message.to.as_ref(), waiting.subject), (provider.anna.email.as_ref(), Some(provider.anna.sub)));
        assert_eq!(message.language, Language::Turkish);
        assert_eq!(message.origin.as_ref().unwrap().address.to_string(), browser.address);
        provider.wait(3600);
    }
}

#[tokio::test]
async fn users_without_a_reset_get_no_link() {
    let cases: [(&str, &str, Change); 4] = [
        ("nobody@example.test", "", |_| {}),
        (ANNA, "address not verified", |anna| anna.email_verified = false),
        (ANNA, "account disabled", |anna| anna.state = UserState::Disabled),
        (ANNA, "no password", |anna| anna.password = None),
    ];
    for (typed, why, change) in cases {
        let provider = mailing().await;
        provider.change_user(provider.anna.sub, change).await;
        let browser = provider.browser();
        let page = forgot_page(&provider, &browser).await;
        browser.submit(&page, &[("email", typed)]).await;
        assert!(work(&provider).await.is_empty(), "{why}");
        assert!(provider.sealgate.store.account_links(provider.anna.sub).await.unwrap().is_none(), "{why}");
        let told = asked_events(&provider).await;
        assert_eq!(told, if why.is_empty() { vec![] } else { vec![why.to_owned()] });
    }
}

/// Gives Anna a username.
async fn name_anna(provider: &Provider) {
    let name = |anna: &mut User| anna.username = Username::parse("sahin");
    let renamed = provider.sealgate.store.rename_user(provider.anna.sub, name).await.unwrap();
    assert!(matches!(renamed, RenameOutcome::Renamed(_)), "{renamed:?}");
}

async fn asked_events(provider: &Provider) -> Vec<String> {
    let store = &provider.sealgate.store;
    provider.sealgate.audit.write(store).await.unwrap();
    let kinds = [AuditKind::PasswordResetAsked].into();
    let filter = AuditFilter { subject: Some(provider.anna.sub), kinds, ..AuditFilter::default() };
    let found = store.audit_page(&filter, None, 50).await.unwrap().records;
    found.into_iter().map(|record| record.event.detail.unwrap()).collect()
}

#[tokio::test]
async fn users_with_passkeys_only_get_a_notice_instead_of_a_link() {
    let provider = mailing().await;
    with_key(&provider, "passkey").await;
    provider.change_user(provider.anna.sub, |anna| anna.password = None).await;
    let browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    browser.submit(&page, &[("email", ANNA)]).await;
    let mails = work(&provider).await;
    assert_eq!(mails.iter().map(|(_, message)| &message.mail).collect::<Vec<_>>(), [&Mail::PasskeysOnly]);
    assert_eq!(mails[0].1.to.as_ref(), provider.anna.email.as_ref());
    assert!(provider.sealgate.store.account_links(provider.anna.sub).await.unwrap().is_none());
    assert_eq!(asked_events(&provider).await, ["has passkeys only"]);
}

#[tokio::test]
async fn a_late_lookup_changes_nothing() {
    let provider = mailing().await;
    let browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    browser.submit(&page, &[("email", ANNA)]).await;
    let (store, now) = (&provider.sealgate.store, provider.clock.now());
    let taken = store.due_mail(now, 1).await.unwrap().pop().unwrap();
    let message = store.open_mail(&taken.value).unwrap();
    assert_eq!(
        mail_lookup::answer_reset_request(&provider.sealgate, now, &taken, &message).await.unwrap(),
        Committed::Yes
    );
    let links = store.account_links(provider.anna.sub).await.unwrap().unwrap().value;
    assert_eq!(
        mail_lookup::answer_reset_request(&provider.sealgate, now, &taken, &message).await.unwrap(),
        Committed::Conflict
    );
    assert_eq!(store.account_links(provider.anna.sub).await.unwrap().unwrap().value, links);
    assert_eq!(links.resets.len(), 1);
    assert_eq!(work(&provider).await.len(), 1);
}

/// Messages are sent one after the other. The arrival time of a user's own message must not reveal
/// whether the address of the previous request has an account.
#[tokio::test]
async fn the_time_of_a_message_does_not_reveal_accounts() {
    let provider = mailing().await;
    for _ in 0..3 {
        for _ in 0..3 {
            link_of(&provider, ANNA).await;
        }
        // One address gets no more messages within an hour.
        provider.wait(3600);
    }
    let mails = work(&provider).await;
    let delays: Vec<u64> = mails.iter().map(|(mail, _)| mail.due_at.seconds() - mail.created_at.seconds()).collect();
    assert_eq!(delays.len(), 9);
    assert!(delays.iter().all(|delay| *delay <= MAX_DELAY.as_secs()), "{delays:?}");
    assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
}

#[tokio::test]
async fn opening_a_reset_link_does_not_use_it() {
    let provider = mailing().await;
    let token = link_of(&provider, ANNA).await;
    let link = format!("/oauth/reset?token={token}");
    for _ in 0..5 {
        for method in ["GET", "HEAD"] {
            let scanner = provider.request(method, &link, &[], "").await;
            assert_eq!((scanner.status, scanner.location()), (303, "/oauth/reset"));
            let cookie = scanner.headers("set-cookie").next().unwrap();
            let value = format!("{LINK}=reset.{token}; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=1800");
            assert_eq!(cookie, value);
            assert_eq!(scanner.header("referrer-policy"), Some("no-referrer"));
            let headers = [("cookie", format!("{LINK}=reset.{token}"))];
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(provider.request(method, "/oauth/reset", &headers, "").await.status, 200);
        }
    }
    // The button without the cookie, or without the page's token.
    assert_over(&provider.post("/oauth/reset", &[], &[("new-password", NEW)]).await);
    let cookie = format!("{LINK}=reset.{token}");
    let bare = provider.post("/oauth/reset", &[("cookie", &cookie)], &[("new-password", NEW)]).await;
    assert!(bare.status == 400 && !bare.text().contains("no longer works"), "{bare:?}");
    let other = provider.post(&link, &[("cookie", &cookie)], &[("new-password", NEW), ("csrf", &"A".repeat(43))]).await;
    assert_eq!(other.status, 400);
    let browser = provider.browser();
    let page = open(&browser, &token).await;
    assert_done(&browser.submit(&page, &[("new-password", NEW)]).await);
}

#[tokio::test]
async fn a_reset_link_works_once_and_only_for_the_unchanged_account() {
    let provider = mailing().await;
    let (first, second) = (link_of(&provider, ANNA).await, link_of(&provider, ANNA).await);
    let browser = provider.browser();
    let page = open(&browser, &first).await;
    assert_form(&page);
    // A second tab with the same link.
    let tab = browser.get("/oauth/reset").await;
    assert_done(&browser.submit(&page, &[("new-password", NEW)]).await);
    assert_over(&browser.submit(&tab, &[("new-password", "another lantern under the bridge")]).await);
    for token in [&first, &second] {
        assert_over(&open(&provider.browser(), token).await);
    }
    let known = provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap().password;
    assert_ne!(known, provider.anna.password);

    let changes: [(&str, Change); 4] = [
        ("disabled", |anna| anna.state = UserState::Disabled),
        ("not verified", |anna| anna.email_verified = false),
        ("another password", |anna| {
            anna.password = Some(hash_blocking(&SecretString::from("something else entirely"), [3; 16]).unwrap());
        }),
        ("no password", |anna| anna.password = None),
    ];
    for (what, change) in changes {
        let provider = mailing().await;
        let token = link_of(&provider, ANNA).await;
        let browser = provider.browser();
        let page = open(&browser, &token).await;
        assert_form(&page);
        provider.change_user(provider.anna.sub, change).await;
        let password = provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap().password;
        assert_over(&browser.submit(&page, &[("new-password", NEW)]).await);
        assert_over(&open(&provider.browser(), &token).await);
        let after = provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap().password;
        assert_eq!(after, password, "{what}");
    }
}

#[tokio::test]
async fn a_reset_link_ends_with_the_address_or_the_users_access() {
    let provider = mailing().await;
    let store = &provider.sealgate.store;
    let token = link_of(&provider, ANNA).await;
    let moved = User { email: Email::parse("a@example.test"), ..provider.anna.clone() };
    let renamed = store.rename_user(provider.anna.sub, |user| user.email = moved.email.clone()).await.unwrap();
    assert!(matches!(renamed, RenameOutcome::Renamed(_)), "{renamed:?}");
    assert_over(&open(&provider.browser(), &token).await);

    let provider = mailing().await;
    let token = link_of(&provider, ANNA).await;
    provider
        .sealgate
        .store
        .revoke_user(provider.anna.sub, EndReason::Administrator, provider.clock.now())
        .await
        .unwrap();
    assert_over(&open(&provider.browser(), &token).await);
}

#[tokio::test]
async fn the_last_two_reset_links_are_valid_for_half_an_hour() {
    let provider = mailing().await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(link_of(&provider, ANNA).await);
    }
    assert_over(&open(&provider.browser(), &tokens[0]).await);
    for token in &tokens[1..] {
        assert_form(&open(&provider.browser(), token).await);
    }
    let late = provider.browser();
    provider.wait(RESET_LIFE.as_secs() - 1);
    let page = open(&late, &tokens[2]).await;
    assert_form(&page);
    provider.wait(1);
    assert_over(&late.submit(&page, &[("new-password", NEW)]).await);
}

#[tokio::test]
async fn a_token_of_another_link_is_refused_for_a_reset() {
    let provider = mailing().await;
    let store = &provider.sealgate.store;
    let (link, token) = LinkToken::new(provider.anna.sub, [5; LINK_BYTES]);
    let invitation = Invitation {
        hash: link.hash,
        account: AccountMark::from_user(&provider.anna),
        sent_at: provider.clock.now(),
        expires_at: provider.clock.now().plus(RESET_LIFE),
        app: None,
        inviter: None,
        language: None,
        accepted_at: None,
    };
    let invite = |links: &mut AccountLinks| links.invitation = Some(invitation.clone());
    store.change_account_links(provider.anna.sub, &[], invite).await.unwrap();
    assert_over(&open(&provider.browser(), token.expose()).await);
    let good = link_of(&provider, ANNA).await;
    let mut bent = good.clone();
    bent.replace_range(53..54, if good.ends_with('A') { "B" } else { "A" });
    let (_, of_nobody) = LinkToken::new(Subject::from_random([99; 16]), [5; LINK_BYTES]);
    for wrong in ["", "x", &"A".repeat(54), &bent, &good[1..], of_nobody.expose(), "%0d%0aSet-Cookie:%20a=b"] {
        assert_over(&open(&provider.browser(), wrong).await);
    }
    // The cookie of another page's link.
    let browser = provider.browser();
    browser.set_cookie(LINK, &format!("invitation.{good}"));
    assert_over(&browser.get("/oauth/reset").await);
    browser.set_cookie(LINK, &format!("reset.{good}"));
    assert_form(&browser.get("/oauth/reset").await);
}

#[tokio::test]
async fn a_reset_form_applies_only_to_its_account() {
    let provider = mailing().await;
    provider.change_user(provider.ben.sub, |ben| ben.email_verified = true).await;
    let (annas, bens) = (link_of(&provider, ANNA).await, link_of(&provider, "ben@example.test").await);
    let browser = provider.browser();
    let page = open(&browser, &annas).await;
    open(&browser, &bens).await;
    let mixed = browser.submit(&page, &[("new-password", NEW)]).await;
    assert!(mixed.status == 400 && mixed.text().contains("This page has expired"), "{mixed:?}");
    for user in [&provider.anna, &provider.ben] {
        let now = provider.sealgate.store.user(user.sub).await.unwrap().unwrap();
        assert_eq!(now.password, user.password);
    }
}

#[tokio::test]
async fn an_unsuitable_password_does_not_use_the_link() {
    let provider = mailing().await;
    let token = link_of(&provider, ANNA).await;
    let browser = provider.browser();
    let mut page = open(&browser, &token).await;
    for (wrong, why) in [
        ("", "too short"),
        ("short", "too short"),
        ("passwordpassword", "easy to guess"),
        ("lantern anna@example.test", "contains your name"),
        ("Lantern Sahin under the bridge", "contains your name"),
        (&"lantern under the bridge ".repeat(60), "too long"),
    ] {
        page = browser.submit(&page, &[("new-password", wrong)]).await;
        assert_form(&page);
        assert!(page.text().contains("role=\"alert\"") && page.text().contains(why), "{why}: {page:?}");
    }
    assert_done(&browser.submit(&page, &[("new-password", NEW)]).await);
}

#[tokio::test]
async fn concurrent_uses_of_a_reset_link_set_one_password() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let token = link_of(&provider, ANNA).await;
    let (one, other) = (provider.browser(), provider.browser());
    let (first, second) = (open(&one, &token).await, open(&other, &token).await);
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let (late, early) = tokio::join!(
        one.submit(&first, &[("new-password", LATE)]),
        stop.meanwhile(other.submit(&second, &[("new-password", NEW)])),
    );
    assert_done(&early);
    assert_over(&late);
    let page = one.open(&provider.c1().authorize(&[])).await;
    assert!(is_consent(&one.submit(&page, &[("email", ANNA), ("password", NEW)]).await));
    let notices = work(&provider).await;
    assert_eq!(notices.iter().filter(|(_, message)| matches!(message.mail, Mail::Notice { .. })).count(), 1);
}

#[tokio::test]
async fn a_reset_keeps_and_requires_the_second_factor() {
    let provider = mailing().await;
    let (owner, secret) = with_app(&provider).await;
    provider.wait(60);
    let token = link_of(&provider, ANNA).await;
    let browser = provider.browser();
    let page = open(&browser, &token).await;
    assert_done(&browser.submit(&page, &[("new-password", NEW)]).await);
    assert!(is_login(&owner.open("/account").await), "the owner's own session ended too");
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let half = browser.submit(&page, &[("email", ANNA), ("password", NEW)]).await;
    assert!(half.text().contains("Verify it’s you"), "{half:?}");
    assert!(browser.cookie("__Host-sealgate").is_none(), "no session yet");
    let page = browser.submit(&half, &[("code", &code(&secret, provider.clock.now().seconds()))]).await;
    assert_code(&page);
}

#[tokio::test]
async fn wrong_second_factors_are_still_counted_after_a_reset() {
    let provider = mailing().await;
    let (_, _) = with_app(&provider).await;
    provider.wait(60);
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let mut half = browser.sign_in(&page, ANNA).await;
    for _ in 0..3 {
        half = browser.submit(&half, &[("code", "000000")]).await;
    }
    let before = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
    let token = link_of(&provider, ANNA).await;
    let page = open(&browser, &token).await;
    assert_done(&browser.submit(&page, &[("new-password", NEW)]).await);
    let after = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_reset_ends_all_earlier_access() {
    let provider = mailing().await;
    let thief = with_anna(&provider).await;
    let client = provider.c1();
    let tokens = client.tokens("openid offline_access").await;
    // The attacker has begun a sign-in and holds a code.
    let code = client.code_in(&thief, &[]).await;
    let half = provider.browser();
    let waiting = half.open(&client.authorize(&[("prompt", "login")])).await;
    let token = link_of(&provider, ANNA).await;
    let browser = provider.browser();
    let page = open(&browser, &token).await;
    assert_done(&browser.submit(&page, &[("new-password", NEW)]).await);
    assert!(is_login(&thief.open("/account").await));
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    client.refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    client.redeem(&code).await.assert_error(400, "invalid_grant");
    let refused = half.sign_in(&waiting, ANNA).await;
    assert!(refused.text().contains("Incorrect email address, username or password"), "{refused:?}");
    let known = provider.sealgate.store.known_browsers(provider.anna.sub).await.unwrap();
    assert_eq!(known.browsers.len(), 1, "the browser of the reset only");
}

/// A sign-in with the old password during the reset is ended afterwards.
#[tokio::test]
async fn a_concurrent_sign_in_with_the_old_password_ends_with_the_reset() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let token = link_of(&provider, ANNA).await;
    let (browser, thief) = (provider.browser(), provider.browser());
    let page = open(&browser, &token).await;
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let client = provider.c1();
    let (done, _) = tokio::join!(
        browser.submit(&page, &[("new-password", NEW)]),
        stop.meanwhile(async { client.code_in(&thief, &[]).await }),
    );
    assert_done(&done);
    assert!(is_login(&thief.open("/account").await));
}

#[tokio::test]
async fn a_crash_before_the_password_is_set_leaves_a_valid_link() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let token = link_of(&provider, ANNA).await;
    let browser = provider.browser();
    let page = open(&browser, &token).await;
    meddler.fail(Some(b'u'));
    let failed = browser.submit(&page, &[("new-password", NEW)]).await;
    assert!(failed.status >= 500, "{failed:?}");
    meddler.fail(None);
    let page = browser.get("/oauth/reset").await;
    assert_done(&browser.submit(&page, &[("new-password", NEW)]).await);
}

#[tokio::test]
async fn a_crash_during_a_reset_revokes_all_access_at_the_next_start() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let thief = with_anna(&provider).await;
    let token = link_of(&provider, ANNA).await;
    let browser = provider.browser();
    let page = open(&browser, &token).await;
    meddler.fail(Some(b's'));
    browser.submit(&page, &[("new-password", NEW)]).await;
    meddler.fail(None);
    assert_eq!(thief.get("/account").await.status, 200);
    let engine = Arc::clone(&meddler) as Arc<dyn Engine>;
    provider.again_with(MAIL, engine, token_device::signer()).await;
    assert!(is_login(&thief.open("/account").await));
    assert_over(&open(&browser, &token).await);
}

#[tokio::test]
async fn a_reset_request_needs_the_token_of_its_page() {
    let provider = mailing().await;
    let browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    let action = form_action(page.text());
    for fields in [&[("email", ANNA)][..], &[("email", ANNA), ("csrf", "AAAA")]] {
        assert_eq!(browser.post(&action, fields).await.status, 400);
    }
    let stranger = provider.browser();
    let csrf = crate::steps::csrf_of(&page);
    assert_eq!(stranger.post(&action, &[("email", ANNA), ("csrf", &csrf)]).await.status, 400);
    assert!(mailbox::due(&provider.sealgate.store, provider.clock.now()).await.is_empty());
    // A bookmark leads to a sign-in.
    assert_login(&stranger.open("/oauth/forgot-password").await);
}

#[tokio::test]
async fn a_full_outbox_does_not_change_the_reset_response() {
    let provider = mailing().await;
    let browser = provider.browser();
    let page = forgot_page(&provider, &browser).await;
    let usual = browser.submit_only(&page, &[("email", ANNA)]).await;
    let (store, now) = (&provider.sealgate.store, provider.clock.now());
    let message = mailbox::due(store, now).await.pop().unwrap().1;
    let mails: Vec<WaitingMail> = (0..9_999_u128)
        .map(|number| {
            let id = MailId::from_bytes(number.to_be_bytes());
            store.new_mail((id, [1; 12]), None, &message, now).unwrap()
        })
        .collect();
    for some in mails.chunks(500) {
        assert!(store.add_mail(some).await.unwrap());
    }
    assert!(!store.has_room_for_mail(1));
    let full = browser.submit_only(&page, &[("email", "nobody@example.test")]).await;
    assert_eq!(shown(&full), shown(&usual));
    assert_eq!(store.count_outbox().await.unwrap().waiting, 10_000);
}

/// An attacker who knows the password changes it after each of the owner's requests, because every
/// change invalidates earlier links.
#[tokio::test]
async fn an_attacker_who_changes_the_password_repeatedly_cannot_block_resets() {
    let provider = mailing().await;
    let thief = with_anna(&provider).await;
    let mut password = crate::support::PASSWORD.to_owned();
    let mut changed = 0;
    for number in 0..8 {
        let page = thief.get("/account/password").await;
        let next = format!("a stolen account of mine, number {number}");
        let fields = [("current", password.as_str()), ("new", &next), ("again", &next)];
        let reply = thief.submit(&page, &fields).await;
        if reply.status == 200 {
            (password, changed) = (next, changed + 1);
        } else {
            assert!(reply.status == 429 && reply.text().contains("five times within a day"), "{reply:?}");
        }
    }
    assert_eq!(changed, 5);
    let token = link_of(&provider, ANNA).await;
    let page = thief.get("/account/password").await;
    let fields = [("current", password.as_str()), ("new", LATE), ("again", LATE)];
    assert_eq!(thief.submit(&page, &fields).await.status, 429);
    let owner = provider.browser();
    let form = owner.open(&format!("/oauth/reset?token={token}")).await;
    let done = owner.submit(&form, &[("new-password", NEW)]).await;
    assert!(done.text().contains("reset-done") || done.status == 200, "{done:?}");
    assert_login(&thief.open("/account").await);
    let login = owner.open("/account").await;
    let account = owner.submit(&login, &[("email", ANNA), ("password", NEW)]).await;
    assert!(account.text().contains("id=\"profile-save\""), "{account:?}");
    // A day later the owner may change the password again.
    provider.wait(24 * 3600 + 1);
    let owner = provider.browser();
    let login = owner.open("/account/password").await;
    let page = owner.submit(&login, &[("email", ANNA), ("password", NEW)]).await;
    let changed = owner.submit(&page, &[("current", NEW), ("new", LATE), ("again", LATE)]).await;
    assert_eq!(changed.status, 200, "{changed:?}");
}
