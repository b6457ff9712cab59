//! Tests notifications by mail: changes that an attacker would make to an account.

use sealgate::app::notices;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::mail::{Mail, Notice};
use sealgate_domain::time::UnixTime;
use sealgate_store::engine::{Changes, Engine as _, Outcome};
use sealgate_system::clock::Clock as _;

use crate::mailbox::{self, MAIL};
use crate::security::{send, with_app};
use crate::support::{Provider, form_action};

const ANNA: &str = "anna@example.test";

/// Returns the due notifications, with count and recipient, and the number of notifications that
/// are not due yet.
async fn told(provider: &Provider) -> (Vec<(Notice, u32, String)>, usize) {
    notices::queue_notices(&provider.sealgate).await;
    let (store, ever) = (&provider.sealgate.store, UnixTime::from_seconds(u64::MAX));
    let due = store.due_mail(provider.clock.now(), 100).await.unwrap();
    let mut told = Vec::new();
    for mail in due {
        let message = store.open_mail(&mail.value).unwrap();
        let Mail::Notice { notice, count } = message.mail else { panic!("{message:?}") };
        told.push((notice, count, mailbox::address(&message)));
        assert!(store.drop_mail(mail.value.id).await.unwrap());
    }
    told.sort();
    (told, store.due_mail(ever, 100).await.unwrap().len())
}

fn once(notice: Notice) -> (Notice, u32, String) {
    (notice, 1, ANNA.to_owned())
}

#[tokio::test]
async fn security_changes_are_notified_to_the_owner() {
    let provider = Provider::with(MAIL).await;
    let (browser, _) = with_app(&provider).await;
    assert_eq!(told(&provider).await, (vec![once(Notice::FactorAdded)], 0));
    let page = browser.open("/account/security/codes").await;
    let shown = send(&browser, "/account/security/codes", &page, &[]).await;
    assert!(shown.text().contains("recovery-code"), "{shown:?}");
    assert_eq!(told(&provider).await, (vec![once(Notice::RecoveryCodesMade)], 0));
}

/// Both bypass the account's second factor. An attacker who copied a key can use it, and an
/// application password needs no second factor.
#[tokio::test]
async fn a_possibly_copied_key_and_a_new_application_password_are_notified() {
    let provider = Provider::with(MAIL).await;
    for (kind, actor, notice) in [
        (AuditKind::KeyMayBeCopied, Actor::Stranger, Notice::KeyMayBeCopied),
        (AuditKind::AppPasswordCreated, Actor::User, Notice::AppPasswordCreated),
    ] {
        let event = AuditEvent::new(provider.clock.now(), kind, actor);
        provider.sealgate.audit.note(event.for_subject(provider.anna.sub));
        assert_eq!(told(&provider).await, (vec![once(notice)], 0));
    }
}

#[tokio::test]
async fn a_stored_password_for_an_application_is_notified() {
    let provider = Provider::with(MAIL).await;
    for (kind, actor, notice) in [
        (AuditKind::AppCredentialSet, Actor::User, Notice::AppCredentialSet),
        (AuditKind::AppCredentialSet, Actor::Operator, Notice::AdministratorActed),
        (AuditKind::AppCredentialRemoved, Actor::Administrator(provider.ben.sub), Notice::AdministratorActed),
    ] {
        let event = AuditEvent::new(provider.clock.now(), kind, actor);
        provider.sealgate.audit.note(event.for_subject(provider.anna.sub));
        assert_eq!(told(&provider).await, (vec![once(notice)], 0));
        // Another message of the same kind is delayed for an hour.
        provider.wait(3600);
    }
    let event = AuditEvent::new(provider.clock.now(), AuditKind::AppCredentialRemoved, Actor::User);
    provider.sealgate.audit.note(event.for_subject(provider.anna.sub));
    assert_eq!(told(&provider).await, (Vec::new(), 0));
}

#[tokio::test]
async fn repeated_wrong_second_factors_cause_one_notice() {
    let provider = Provider::with(MAIL).await;
    with_app(&provider).await;
    told(&provider).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[])).await;
    let mut page = browser.sign_in(&page, ANNA).await;
    let to = form_action(page.text());
    for wrong in 1..=6 {
        page = browser.submit(&page, &[("code", "000000")]).await;
        assert_eq!(page.status, 200, "{to} {page:?}");
        let expected = if wrong == 5 { vec![once(Notice::FactorFailed)] } else { Vec::new() };
        assert_eq!(told(&provider).await, (expected, 0), "after {wrong}");
    }
}

#[tokio::test]
async fn notices_of_one_kind_are_sent_at_once_and_then_counted_for_an_hour() {
    let provider = Provider::with(MAIL).await;
    let (browser, _) = with_app(&provider).await;
    told(&provider).await;
    for _ in 0..3 {
        let page = browser.open("/account/security/codes").await;
        send(&browser, "/account/security/codes", &page, &[]).await;
    }
    assert_eq!(told(&provider).await, (vec![once(Notice::RecoveryCodesMade)], 1));
    provider.wait(3599);
    assert_eq!(told(&provider).await, (Vec::new(), 1));
    provider.wait(1);
    assert_eq!(told(&provider).await, (vec![(Notice::RecoveryCodesMade, 2, ANNA.to_owned())], 0));
}

/// A damaged record stays damaged. It must not block the notifications of other users.
#[tokio::test]
async fn a_damaged_user_record_does_not_block_other_notifications() {
    let provider = Provider::with(MAIL).await;
    let happened = |person| {
        let event = AuditEvent::new(provider.clock.now(), AuditKind::FactorRemoved, Actor::User);
        provider.sealgate.audit.note(event.for_subject(person));
    };
    let damaged = [b"b", &provider.anna.sub.as_bytes()[..], b"factor_removed"].concat();
    let changes = Changes { put: vec![(damaged, b"?".to_vec())], ..Changes::default() };
    assert_eq!(provider.engine.commit(changes).await.unwrap(), Outcome::Committed);
    happened(provider.anna.sub);
    happened(provider.ben.sub);
    let to_ben = (Notice::FactorRemoved, 1, "ben@example.test".to_owned());
    assert_eq!(told(&provider).await, (vec![to_ben], 0));
}

#[tokio::test]
async fn without_a_mail_server_no_notification_is_queued() {
    let provider = Provider::new().await;
    with_app(&provider).await;
    assert_eq!(told(&provider).await, (Vec::new(), 0));
    assert!(provider.sealgate.audit.take_notices().is_empty());
}
