//! Mails that wait in the outbox of a server under test.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a fixture that fails fails its test")]

use sealgate::facade::domain::mail::{Mail, MailMessage, WaitingMail};
use sealgate::facade::domain::time::UnixTime;
use sealgate::facade::store::Store;

/// The section of a configuration with which mails are sent. Nobody listens there.
pub(crate) const MAIL: &str = "[mail]\nhost = \"127.0.0.1\"\nport = 9\ntls = \"none\"\nfrom = \"no-reply@id.test\"\n";

/// The mails that are due, in the order in which they are, with what they say.
pub(crate) async fn due(store: &Store, now: UnixTime) -> Vec<(WaitingMail, MailMessage)> {
    let due = store.due_mail(now, 1000).await.unwrap();
    due.into_iter().map(|mail| (mail.value.clone(), store.open_mail(&mail.value).unwrap())).collect()
}

/// The token of the link that a mail carries.
pub(crate) fn token(mail: &MailMessage) -> &str {
    match &mail.mail {
        Mail::Reset { token } | Mail::Invitation { token, .. } | Mail::AddressChanged { token, .. } => token,
        other => panic!("no link: {other:?}"),
    }
}
