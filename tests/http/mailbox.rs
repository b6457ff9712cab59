//! Reads the messages in the outbox as their recipients do.

use sealgate::app::mail_lookup;
use sealgate_config::Language;
use sealgate_core::state::Sealgate;
use sealgate_domain::mail::{Mail, MailId, MailKind, MailMessage, WaitingMail};
use sealgate_domain::time::UnixTime;
use sealgate_store::{Committed, Store};

/// Configuration section that enables mail. No server listens on the port.
pub(crate) const MAIL: &str = "[mail]\nhost = \"127.0.0.1\"\nport = 9\ntls = \"none\"\nfrom = \"no-reply@id.test\"\n";

const MOST: usize = 1000;

/// Returns the due messages in order, with their contents.
pub(crate) async fn due(store: &Store, now: UnixTime) -> Vec<(WaitingMail, MailMessage)> {
    let due = store.due_mail(now, MOST).await.unwrap();
    due.into_iter().map(|mail| (mail.value.clone(), store.open_mail(&mail.value).unwrap())).collect()
}

/// Returns the token of the link in a message.
pub(crate) fn token(mail: &MailMessage) -> &str {
    match &mail.mail {
        Mail::Reset { token } | Mail::Invitation { token, .. } | Mail::AddressChanged { token, .. } => token,
        other => panic!("no link: {other:?}"),
    }
}

/// Takes all messages out of the outbox, after the pending address lookups. Sorted by address.
pub(crate) async fn take(sealgate: &Sealgate) -> Vec<MailMessage> {
    let (store, ever) = (&sealgate.store, UnixTime::from_seconds(u64::MAX));
    for wanted in store.due_mail(ever, MOST).await.unwrap() {
        let message = store.open_mail(&wanted.value).unwrap();
        if wanted.value.kind == MailKind::AddressWanted {
            let looked_up =
                mail_lookup::answer_address_request(sealgate, sealgate.clock.now(), &wanted, &message).await;
            assert_eq!(looked_up.unwrap(), Committed::Yes);
        }
    }
    let mut mails = Vec::new();
    for mail in store.due_mail(ever, MOST).await.unwrap() {
        mails.push(store.open_mail(&mail.value).unwrap());
        assert!(store.drop_mail(mail.value.id).await.unwrap());
    }
    mails.sort_by_key(address);
    mails
}

/// Returns the recipient of a message.
pub(crate) fn address(mail: &MailMessage) -> String {
    mail.to.as_ref().map(|to| to.as_str().to_owned()).unwrap_or_default()
}

/// Returns the code in the only queued message, and its recipient.
pub(crate) async fn code(sealgate: &Sealgate) -> (String, String) {
    let mails = take(sealgate).await;
    assert_eq!(mails.len(), 1, "{mails:?}");
    match &mails[0].mail {
        Mail::VerificationCode { code, .. } => (code.clone(), address(&mails[0])),
        other => panic!("no code: {other:?}"),
    }
}

/// Fills the outbox to its capacity.
pub(crate) async fn fill(sealgate: &Sealgate) {
    let (store, now) = (&sealgate.store, sealgate.clock.now());
    let (to, language, mail) = (None, Language::English, Mail::Test);
    let message = MailMessage { to, language, at: now, origin: None, mail };
    let one = store.new_mail((MailId::from_bytes([7; 16]), [7; 12]), None, &message, now).unwrap();
    let many: Vec<WaitingMail> = (0..store.outbox_room().free)
        .map(|number| WaitingMail {
            id: MailId::from_bytes(u128::try_from(number).unwrap().to_be_bytes()),
            ..one.clone()
        })
        .collect();
    assert!(store.add_mail(&many).await.unwrap());
}

/// Returns how many messages of this kind were dropped.
pub(crate) fn dropped(sealgate: &Sealgate, kind: &str) -> u64 {
    let series = format!("sealgate_mails_total{{kind=\"{kind}\",outcome=\"dropped\"}} ");
    let text = sealgate.metrics.text();
    text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().unwrap())
}
