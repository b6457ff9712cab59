//! Tests the outbox worker with a mail server and a manual clock.

use std::sync::Arc;
use std::time::Duration;

use sealgate::app::outbox;
use sealgate_domain::mail::{Mail, MailId, MailMessage, Notice, WaitingMail};
use sealgate_domain::user::Email;
use sealgate_system::clock::{Clock, OsEntropy, random};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::mail_server::{Illness, MailServer};
use crate::support::Provider;

/// Stages at which a server can defer a message.
const COMMANDS: [&str; 4] = ["MAIL", "RCPT", "DATA", "END"];

async fn waiting(provider: &Provider) -> Vec<WaitingMail> {
    let mails = provider.sealgate.store.waiting_mails(None, 100).await.unwrap();
    mails.into_iter().map(|mail| mail.value.clone()).collect()
}

/// Waits until this condition is true for the outbox.
async fn wait_until(provider: &Provider, holds: impl Fn(&[WaitingMail]) -> bool) {
    let held = timeout(Duration::from_secs(20), async {
        while !holds(&waiting(provider).await) {
            sleep(Duration::from_millis(10)).await;
        }
    });
    let held = held.await.is_ok();
    assert!(held, "it never came to that: {:?}", waiting(provider).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_messages_are_delivered_once() {
    let relay = MailServer::start();
    let section = format!(
        "[mail]\nhost = \"127.0.0.1\"\nport = {}\ntls = \"none\"\nfrom = \"id@example.test\"\nper_minute = 6000\n",
        relay.port
    );
    let provider = Provider::with(&section).await;
    let (store, begun) = (&provider.sealgate.store, provider.clock.now());
    let people: Vec<String> = (0..3).map(|number| format!("p{number}@example.test")).collect();
    for person in &people {
        let names = (MailId::from_bytes(random(&OsEntropy)), random(&OsEntropy));
        let mail = Mail::Notice { notice: Notice::PasswordChanged, count: 1 };
        let (to, language) = (Email::parse(person), provider.sealgate.config.pages.default_language);
        let message = MailMessage { to, language, at: begun, origin: None, mail };
        let mail = store.new_mail(names, None, &message, begun).unwrap();
        assert!(store.add_mail(&[mail]).await.unwrap());
    }
    let (stop, stopped) = watch::channel(false);
    let mut round = 0;
    relay.is_now(Illness::answering(COMMANDS[0], "451 4.7.1 come again later"));
    let worker = tokio::spawn(outbox::run(Arc::clone(&provider.sealgate), stopped));
    while provider.clock.now().since(begun) < Duration::from_hours(1) {
        round += 1;
        wait_until(&provider, |mails| mails.len() == 3 && mails.iter().all(|mail| mail.attempts == round)).await;
        let mails = waiting(&provider).await;
        assert!(mails.iter().all(|mail| mail.last_answer.as_deref().is_some_and(|answer| answer.contains("451"))));
        let command = COMMANDS[usize::try_from(round).unwrap() % COMMANDS.len()];
        relay.is_now(Illness::answering(command, "451 4.7.1 come again later"));
        let latest = mails.iter().map(|mail| mail.due_at).max().unwrap();
        provider.clock.advance(latest.since(provider.clock.now()));
    }
    wait_until(&provider, |mails| mails.iter().all(|mail| mail.attempts == round + 1)).await;
    assert!(relay.mails().is_empty());

    relay.is_now(Illness::default());
    provider.clock.advance(Duration::from_hours(2));
    wait_until(&provider, <[_]>::is_empty).await;
    stop.send(true).unwrap();
    worker.await.unwrap();
    for person in &people {
        assert_eq!(relay.mails_to(person).len(), 1, "{person}");
    }
    assert_eq!((relay.mails().len(), store.sent_mails(None, 10).await.unwrap().len()), (3, 3));
}
