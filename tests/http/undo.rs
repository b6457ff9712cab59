//! Tests "This wasn’t me": the holder of the old mailbox can undo a change of address.

use sealgate_admin::command::Command;
use sealgate_admin::{CommandContext, execute};
use sealgate_domain::account_links::{AccountLinks, AddressUndo, LinkToken};
use sealgate_domain::mail::{Mail, MailMessage, Notice};
use sealgate_domain::user::{Email, User, UserState};
use sealgate_domain::webauthn::KeyAlgorithm;
use serde_json::json;

use crate::authenticator::Authenticator;
use crate::factors::{app, key, record};
use crate::mailbox::{self, MAIL};
use crate::meddler::At;
use crate::security::{key_of, send};
use crate::steps::{assert_login, with_anna};
use crate::support::{Browser, Provider, Reply, Tokens};

const NEW: &str = "/account/address/new";
const KEY: &str = "/account/security/key";
const OVER: &str = "This link no longer works";

async fn anna(provider: &Provider) -> User {
    provider.sealgate.store.user(provider.anna.sub).await.unwrap().unwrap()
}

/// Changes the account's address and returns the notifications.
async fn move_to(browser: &Browser<'_>, provider: &Provider, address: &str) -> Vec<MailMessage> {
    let page = browser.get(NEW).await;
    browser.submit(&page, &[("address", address)]).await;
    let (code, _) = mailbox::code(&provider.sealgate).await;
    let page = browser.get("/account/address").await;
    let changed = browser.submit(&page, &[("code", &code)]).await;
    assert!(changed.text().contains("was changed"), "{changed:?}");
    mailbox::take(&provider.sealgate).await
}

/// Returns a browser in which Anna signs in with this address.
async fn with_anna_at<'a>(provider: &'a Provider, address: &str) -> Browser<'a> {
    let browser = provider.browser();
    let login = browser.open(NEW).await;
    browser.sign_in(&login, address).await;
    browser
}

#[track_caller]
fn assert_told_without_link(mails: &[MailMessage], old: &str) {
    let told = mails.iter().find(|mail| mailbox::address(mail) == old).unwrap();
    assert_eq!(told.mail, Mail::Notice { notice: Notice::AddressReplaced, count: 1 });
    assert!(!mails.iter().any(|mail| matches!(mail.mail, Mail::AddressChanged { .. })), "{mails:?}");
}

/// An attacker in Anna's session changes the address. Returns the URL that undoes the change.
pub(crate) async fn taken_to(browser: &Browser<'_>, provider: &Provider, address: &str) -> String {
    let mails = move_to(browser, provider, address).await;
    let told = mails.iter().find(|mail| matches!(mail.mail, Mail::AddressChanged { .. })).unwrap();
    format!("/oauth/undo?token={}", mailbox::token(told))
}

pub(crate) async fn press(browser: &Browser<'_>, link: &str) -> Reply {
    let page = browser.open(link).await;
    browser.submit_only(&page, &[("undo-submit", "yes")]).await
}

#[tokio::test]
async fn a_change_of_address_is_undone_from_the_old_mailbox_and_all_access_ends() {
    let provider = Provider::with(MAIL).await;
    let thief = with_anna(&provider).await;
    let code = provider.c1().code_in(&thief, &[("scope", "openid offline_access")]).await;
    let tokens = Tokens::of(&provider.c1().redeem(&code).await);
    let link = taken_to(&thief, &provider, "thief@evil.test").await;

    let owner = provider.browser();
    let page = owner.open(&link).await;
    let moved = "changed from <bdi>a…@example.test</bdi> to <bdi>t…@evil.test</bdi>";
    assert!(page.text().contains(moved), "{page:?}");
    let undone = press(&owner, &link).await;
    assert!(undone.text().contains("a reset link to your old address"), "{undone:?}");
    let after = anna(&provider).await;
    assert_eq!((&after.email, after.email_verified), (&provider.anna.email, true));
    assert_eq!(provider.sealgate.store.user_by_email(&after.email.unwrap()).await.unwrap().unwrap().sub, after.sub);
    assert!(provider.sealgate.store.user_by_email(&email("thief@evil.test")).await.unwrap().is_none());
    assert_login(&thief.open("/account").await);
    provider.c1().refresh(&tokens.refresh).await.assert_error(400, "invalid_grant");
    // The password, which the attacker may know, signs in with neither address.
    let again = provider.browser();
    let login = again.open("/account").await;
    assert_login(&again.sign_in(&login, "anna@example.test").await);
    assert_login(&again.sign_in(&login, "thief@evil.test").await);

    let mails = mailbox::take(&provider.sealgate).await;
    assert_eq!((mails.len(), mailbox::address(&mails[0]).as_str()), (1, "anna@example.test"));
    assert!(matches!(mails[0].mail, Mail::Reset { .. }), "{mails:?}");
    let form = owner.open(&format!("/oauth/reset?token={}", mailbox::token(&mails[0]))).await;
    let password = "a wholly different secret";
    owner.submit(&form, &[("new-password", password)]).await;
    let login = again.open("/account").await;
    let account = again.submit(&login, &[("email", "anna@example.test"), ("password", password)]).await;
    assert!(account.status == 200 && account.text().contains("id=\"profile-save\""), "{account:?}");
    // The link works once.
    let late = owner.open(&link).await;
    assert!(late.status == 400 && late.text().contains(OVER), "{late:?}");
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    assert!(again.get("/account/activity").await.text().contains("Change of address undone"));
}

#[tokio::test]
async fn a_link_scanner_undoes_nothing() {
    let provider = Provider::with(MAIL).await;
    let browser = with_anna(&provider).await;
    let link = taken_to(&browser, &provider, "anna@new.test").await;
    let changed = anna(&provider).await;
    for _ in 0..5 {
        let scanner = provider.browser();
        assert_eq!(scanner.get(&link).await.location(), "/oauth/undo");
        assert_eq!(provider.request("HEAD", &link, &[], "").await.status, 303);
        assert_eq!(scanner.get("/oauth/undo").await.status, 200);
        scanner.post("/oauth/undo", &[("undo-submit", "yes")]).await.assert_error_page();
        // The button without the link's cookie.
        provider.browser().post(&link, &[("undo-submit", "yes")]).await.assert_error_page();
    }
    let mut wrong = link.clone();
    wrong.replace_range(link.len() - 1.., if link.ends_with('A') { "Q" } else { "A" });
    assert_eq!(provider.browser().open(&wrong).await.status, 400);
    assert_eq!(anna(&provider).await, changed);
    assert_eq!(browser.get("/account").await.status, 200, "nobody was signed out");
    provider.wait(14 * 86_400);
    assert!(provider.browser().open(&link).await.text().contains(OVER));
}

#[tokio::test]
async fn undoing_the_first_change_undoes_the_later_ones() {
    let provider = Provider::with(MAIL).await;
    let thief = with_anna(&provider).await;
    let first = taken_to(&thief, &provider, "one@evil.test").await;
    let second = taken_to(&thief, &provider, "two@evil.test").await;
    press(&provider.browser(), &first).await;
    assert_eq!(anna(&provider).await.email, provider.anna.email);
    assert!(provider.browser().open(&second).await.text().contains(OVER));
    assert_eq!(anna(&provider).await.email, provider.anna.email);
}

/// The owner, who still knows the password, moves the account on from the attacker's address.
#[tokio::test]
async fn every_link_of_the_first_address_undoes_all_changes() {
    for used in 0..2 {
        let provider = Provider::with(MAIL).await;
        let thief = with_anna(&provider).await;
        let first = taken_to(&thief, &provider, "thief@evil.test").await;
        let owner = with_anna_at(&provider, "thief@evil.test").await;
        let mails = move_to(&owner, &provider, "owner@new.test").await;
        let (to_first, others): (Vec<_>, Vec<_>) =
            mails.into_iter().partition(|mail| mailbox::address(mail) == "anna@example.test");
        assert_told_without_link(&others, "thief@evil.test");
        let [to_first] = to_first.as_slice() else { panic!("{to_first:?}") };
        let Mail::AddressChanged { new_address, .. } = &to_first.mail else { panic!("{to_first:?}") };
        assert_eq!(new_address, "o…@new.test");
        let links = [first, format!("/oauth/undo?token={}", mailbox::token(to_first))];
        press(&provider.browser(), &links[used]).await;
        assert_eq!(anna(&provider).await.email, provider.anna.email, "{used}");
        for link in &links {
            assert!(provider.browser().open(link).await.text().contains(OVER));
        }
    }
}

/// Earlier versions sent a link to each replaced address.
#[tokio::test]
async fn a_stored_link_of_a_later_address_undoes_nothing() {
    let provider = Provider::with(MAIL).await;
    let thief = with_anna(&provider).await;
    taken_to(&thief, &provider, "thief@evil.test").await;
    let (link, token) = LinkToken::new(provider.anna.sub, [9; 24]);
    let later = AddressUndo::new(link.hash, &anna(&provider).await, provider.sealgate.clock.now()).unwrap();
    let add = |links: &mut AccountLinks| links.undos.push(later.clone());
    provider.sealgate.store.change_account_links(provider.anna.sub, &[], add).await.unwrap();
    let page = provider.browser().open(&format!("/oauth/undo?token={}", token.expose())).await;
    assert!(page.status == 400 && page.text().contains(OVER), "{page:?}");
}

/// A failure after the restoring commit leaves only the used link, so that the owner can try again.
#[tokio::test]
async fn an_interrupted_undo_leaves_no_other_link() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let thief = with_anna(&provider).await;
    let first = taken_to(&thief, &provider, "one@evil.test").await;
    let second = taken_to(&thief, &provider, "two@evil.test").await;
    meddler.fail(Some(b's'));
    let failed = press(&provider.browser(), &first).await;
    assert!(failed.status >= 500, "{failed:?}");
    meddler.fail(None);
    assert_eq!(anna(&provider).await.email, provider.anna.email);
    assert!(provider.browser().open(&second).await.text().contains(OVER));
    let undone = press(&provider.browser(), &first).await;
    assert!(undone.text().contains("a reset link to your old address"), "{undone:?}");
    assert_login(&thief.open("/account").await);
    assert!(provider.browser().open(&first).await.text().contains(OVER));
}

/// The page of another link shows when the address changes, before the undo is complete.
#[tokio::test]
async fn no_other_link_works_after_the_account_is_restored() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let thief = with_anna(&provider).await;
    let first = taken_to(&thief, &provider, "one@evil.test").await;
    let second = taken_to(&thief, &provider, "two@evil.test").await;
    let (owner, other) = (provider.browser(), provider.browser());
    let page = other.open(&second).await;
    let stop = meddler.stop(At::AfterCommit, b'u');
    let press_other = other.submit_only(&page, &[("undo-submit", "yes")]);
    let (undone, late) = tokio::join!(press(&owner, &first), stop.meanwhile(press_other));
    assert!(undone.text().contains("a reset link to your old address"), "{undone:?}");
    assert!(late.status == 400 && late.text().contains(OVER), "{late:?}");
    assert_eq!(anna(&provider).await.email, provider.anna.email);
}

#[tokio::test]
async fn an_undo_keeps_factors_and_closes_an_account_with_a_new_passkey() {
    for (kind, closed) in [("security_key", false), ("passkey", true)] {
        let provider = Provider::with(MAIL).await;
        let thief = with_anna(&provider).await;
        let link = taken_to(&thief, &provider, "thief@evil.test").await;
        let mut added = key(kind, "Thief <b>", 9);
        added["added_at"] = provider.sealgate.clock.now().seconds().into();
        let of_anna = record(provider.anna.sub, &[app("Phone")], &[added], 0);
        provider.sealgate.store.import(&[of_anna]).await.unwrap();
        let undone = press(&provider.browser(), &link).await;
        assert!(undone.text().contains("<li><bdi>Thief &#60;b&#62;</bdi></li>"), "{undone:?}");
        assert!(!undone.text().contains("Phone"), "that one was there before");
        let after = anna(&provider).await;
        assert_eq!(after.email, provider.anna.email);
        assert_eq!(after.state == UserState::Disabled, closed, "{kind}");
        assert_eq!(undone.text().contains("Ask your administrator"), closed);
        assert_eq!(mailbox::take(&provider.sealgate).await.is_empty(), closed);
        let factors = provider.sealgate.store.factors(provider.anna.sub).await.unwrap().unwrap().value;
        assert_eq!((factors.totp.len(), factors.keys.len()), (1, 1));
    }
}

#[tokio::test]
async fn an_undo_to_a_taken_address_disables_the_account() {
    let provider = Provider::with(MAIL).await;
    let thief = with_anna(&provider).await;
    let link = taken_to(&thief, &provider, "thief@evil.test").await;
    let old = provider.anna.email.clone().unwrap();
    let _ = provider.sealgate.store.rename_user(provider.ben.sub, |ben| ben.email = Some(old.clone())).await.unwrap();
    let undone = press(&provider.browser(), &link).await;
    assert!(undone.text().contains("Your old address now belongs to another account"), "{undone:?}");
    let after = anna(&provider).await;
    assert_eq!((after.sign_in_name(), after.state), ("thief@evil.test", UserState::Disabled));
    assert_eq!(provider.sealgate.store.user_by_email(&old).await.unwrap().unwrap().sub, provider.ben.sub);
    assert_login(&thief.open("/account").await);
    assert!(mailbox::take(&provider.sealgate).await.is_empty());
}

/// An unverified address may belong to another person, who would take over the account with the
/// link.
#[tokio::test]
async fn an_unverified_old_address_is_notified_without_a_link() {
    let provider = Provider::with(MAIL).await;
    let browser = with_anna(&provider).await;
    provider.sealgate.store.change_user(provider.anna.sub, |anna| anna.email_verified = false).await.unwrap();
    assert_told_without_link(&move_to(&browser, &provider, "anna@new.test").await, "anna@example.test");
}

/// The attacker's address is replaced by the original one, and gets no link that outlives the
/// owner's.
#[tokio::test]
async fn an_address_that_the_owner_returns_from_is_notified_without_a_link() {
    let provider = Provider::with(MAIL).await;
    let browser = with_anna(&provider).await;
    let link = taken_to(&browser, &provider, "thief@evil.test").await;
    provider.wait(60);
    assert_told_without_link(&move_to(&browser, &provider, "anna@example.test").await, "thief@evil.test");
    assert!(provider.browser().open(&link).await.text().contains(OVER), "there is nothing to take back");
    let links = provider.sealgate.store.account_links(provider.anna.sub).await.unwrap();
    assert!(links.is_none_or(|links| links.value.undos.is_empty()));
}

#[tokio::test]
async fn an_undo_link_expires_with_the_link_of_an_earlier_change() {
    let provider = Provider::with(MAIL).await;
    let browser = with_anna(&provider).await;
    let first = taken_to(&browser, &provider, "thief@evil.test").await;
    provider.wait(13 * 86_400);
    let again = with_anna_at(&provider, "thief@evil.test").await;
    let second = taken_to(&again, &provider, "owner@new.test").await;
    provider.wait(86_400);
    for link in [first, second] {
        assert!(provider.browser().open(&link).await.text().contains(OVER));
    }
}

/// An attacker adds passkeys in a loop: one is committed between the check of the factors and the
/// restoring commit.
#[tokio::test]
async fn a_passkey_added_during_an_undo_closes_the_account() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let thief = with_anna(&provider).await;
    let link = taken_to(&thief, &provider, "thief@evil.test").await;
    let form = thief.open(KEY).await;
    let made = key_of(&form, &Authenticator::new(KeyAlgorithm::Es256, &[9; 32]), |ceremony| ceremony);
    let stop = meddler.stop(At::BeforeCommit, b'u');
    let fields = [("kind", "passkey"), ("credential", made.as_str())];
    let owner = provider.browser();
    let (undone, added) = tokio::join!(press(&owner, &link), stop.meanwhile(send(&thief, KEY, &form, &fields)));
    assert!(added.text().contains("class=\"done\""), "{added:?}");
    assert!(undone.text().contains("<li><bdi>Passkey</bdi></li>"), "{undone:?}");
    assert_eq!(anna(&provider).await.state, UserState::Disabled);
    assert_login(&thief.open("/account").await);
}

/// A passkey that arrives after the restoring commit, before the attacker's session has ended, is
/// not added.
#[tokio::test]
async fn no_passkey_can_be_added_after_an_undo() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let thief = with_anna(&provider).await;
    let link = taken_to(&thief, &provider, "thief@evil.test").await;
    let form = thief.open(KEY).await;
    let made = key_of(&form, &Authenticator::new(KeyAlgorithm::Es256, &[9; 32]), |ceremony| ceremony);
    let stop = meddler.stop(At::AfterCommit, b'u');
    let fields = [("kind", "passkey"), ("credential", made.as_str())];
    let owner = provider.browser();
    let (undone, added) = tokio::join!(press(&owner, &link), stop.meanwhile(send(&thief, KEY, &form, &fields)));
    assert_eq!(added.status, 503, "{added:?}");
    assert!(undone.text().contains("a reset link to your old address"), "{undone:?}");
    let factors = provider.sealgate.store.factors(provider.anna.sub).await.unwrap();
    assert!(factors.is_none_or(|factors| !factors.value.has_any()));
}

#[tokio::test]
async fn an_administrators_change_is_notified_but_cannot_be_undone() {
    let provider = Provider::with(MAIL).await;
    let thief = with_anna(&provider).await;
    let link = taken_to(&thief, &provider, "thief@evil.test").await;
    let set = json!({ "user": { "set": {
        "user": { "email": "thief@evil.test" }, "changes": { "email": "anna@safe.test" },
    } } });
    let command: Command = serde_json::from_value(set).unwrap();
    execute(&CommandContext::new(&provider.sealgate), command).await.unwrap();
    let after = anna(&provider).await;
    assert_eq!((after.sign_in_name(), after.email_verified), ("anna@safe.test", false));
    let told = mailbox::take(&provider.sealgate).await;
    assert_eq!((told.len(), mailbox::address(&told[0]).as_str()), (1, "thief@evil.test"));
    assert_eq!(told[0].mail, Mail::Notice { notice: Notice::AdministratorActed, count: 1 });
    assert!(provider.browser().open(&link).await.text().contains(OVER));
}

#[tokio::test]
async fn an_administrators_change_without_a_queued_notification_is_not_made() {
    let (provider, meddler) = Provider::meddled_with(MAIL).await;
    let set = json!({ "user": { "set": {
        "user": { "email": "anna@example.test" }, "changes": { "email": "anna@safe.test" },
    } } });
    let command: Command = serde_json::from_value(set).unwrap();
    // The outbox cannot be written.
    meddler.fail(Some(b'q'));
    assert!(execute(&CommandContext::new(&provider.sealgate), command.clone()).await.is_err());
    meddler.fail(None);
    assert_eq!(anna(&provider).await, provider.anna);
    execute(&CommandContext::new(&provider.sealgate), command).await.unwrap();
    assert_eq!(mailbox::take(&provider.sealgate).await.len(), 1);
}

fn email(text: &str) -> Email {
    Email::parse(text).unwrap()
}
