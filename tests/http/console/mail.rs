//! Tests the console's pages about e-mail.

use sealgate_domain::mail::{Mail, MailId, MailMessage, Notice};
use sealgate_system::clock::{OsEntropy, random};

use super::*;
use crate::mail_server::{Illness, MailServer};
use crate::mailbox;

const PAGE: &str = "/console/mail";

async fn queue(provider: &Provider) -> MailId {
    let (id, nonce) = (MailId::from_bytes(random(&OsEntropy)), random(&OsEntropy));
    let mail = Mail::Notice { notice: Notice::PasswordChanged, count: 1 };
    let language = provider.sealgate.config.pages.default_language;
    let message = MailMessage { to: Email::parse(BEN), language, at: provider.clock.now(), origin: None, mail };
    let later = provider.clock.now().plus(Duration::from_mins(10));
    let waiting = provider.sealgate.store.new_mail((id, nonce), Some(provider.ben.sub), &message, later).unwrap();
    assert!(provider.sealgate.store.add_mail(&[waiting]).await.unwrap());
    id
}

async fn waiting(provider: &Provider) -> Vec<UnixTime> {
    let mails = provider.sealgate.store.waiting_mails(None, 100).await.unwrap();
    mails.into_iter().map(|mail| mail.value.due_at).collect()
}

#[tokio::test]
async fn queued_messages_are_retried_and_deleted_once() {
    let provider = provider_with(mailbox::MAIL).await;
    let (anna, ben) = (signed_in(&provider, ANNA).await, signed_in(&provider, BEN).await);
    let page = anna.get(PAGE).await;
    assert!(page.text().contains("The queue is empty.") && page.text().contains("no undeliverable"), "{page:?}");
    let id = queue(&provider).await.to_string();
    let page = anna.get(PAGE).await;
    assert!(page.text().contains("Security notice") && page.text().contains(BEN), "{page:?}");
    let csrf = csrf_of(&page);
    let send = async |browser: &Browser<'_>, action: &str| {
        browser.post(PAGE, &[("csrf", &csrf), ("action", action), ("id", &id)]).await
    };
    for action in ["retry", "delete"] {
        assert_eq!(send(&ben, action).await.status, 403);
        assert_eq!(anna.post(PAGE, &[("action", action), ("id", &id)]).await.status, 400);
    }
    assert_eq!(send(&anna, "sell").await.status, 400);
    assert!(waiting(&provider).await[0] > provider.clock.now());
    let done = send(&anna, "retry").await;
    assert_eq!((done.status, done.location()), (303, "/console/mail?done=mail-retried"));
    assert_eq!(waiting(&provider).await, [provider.clock.now()]);
    let question = send(&anna, "delete").await;
    assert!(is_confirmation(&question) && question.text().contains("Security notice"), "{question:?}");
    assert!(question.text().contains(BEN) && waiting(&provider).await.len() == 1, "{question:?}");
    assert_eq!(anna.submit_only(&question, &[("sure", "yes")]).await.location(), "/console/mail?done=mail-deleted");
    assert_eq!(waiting(&provider).await, []);
    // The message is gone.
    for action in ["retry", "delete"] {
        assert_eq!(send(&anna, action).await.location(), PAGE);
    }
    assert_eq!(anna.submit_only(&question, &[("sure", "yes")]).await.location(), PAGE);
    let filter = AuditFilter { kinds: vec![AuditKind::MailChanged], ..AuditFilter::default() };
    let events = provider.sealgate.store.audit_page(&filter, None, 10).await.unwrap().records;
    let details: Vec<_> = events.iter().map(|record| record.event.detail.clone().unwrap()).collect();
    assert_eq!(details, [format!("delete {id}"), format!("retry {id}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_message_shows_the_answer_of_the_mail_server() {
    let server = MailServer::start();
    let section =
        format!("[mail]\nhost = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"id@example.test\"\n", server.port);
    let provider = provider_with(&section).await;
    let anna = signed_in(&provider, ANNA).await;
    let page = press_only(&anna, PAGE, &[("action", "test"), ("to", "a b")]).await;
    assert!(page.text().contains("Enter an address such as"), "{page:?}");
    let page = press_only(&anna, PAGE, &[("action", "test"), ("to", ANNA)]).await;
    assert!(page.text().contains("id=\"mail-sent\"") && page.text().contains("250"), "{page:?}");
    server.is_now(Illness::answering("RCPT", "550 5.1.1 no such user here"));
    let page = press_only(&anna, PAGE, &[("action", "test"), ("to", ANNA)]).await;
    assert!(page.text().contains("id=\"mail-problem\"") && page.text().contains("no such user here"), "{page:?}");
}

#[tokio::test]
async fn all_messages_are_previewed_in_both_languages() {
    let provider = provider().await;
    let anna = signed_in(&provider, ANNA).await;
    assert!(anna.get(PAGE).await.text().contains("id=\"mail-off\""));
    for (language, word) in [("en", "Reset your password"), ("tr", "Parolanızı sıfırlayın")] {
        let page = anna.get(&format!("/console/mail/templates?of={language}")).await;
        assert!(page.text().contains(word), "{language}: {page:?}");
        assert_eq!(page.text().matches("<details>").count(), 8 + Notice::ALL.len(), "{language}");
    }
}
