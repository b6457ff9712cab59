//! The mails that wait in an outbox, read as whoever gets them reads them.

use sealgate::facade::app::address_lookup;
use sealgate::facade::app::state::Sealgate;
use sealgate::facade::domain::mail::{Mail, MailKind, MailMessage};
use sealgate::facade::domain::time::UnixTime;
use sealgate::facade::store::Committed;

const MOST: usize = 1000;

/// Takes all mails out of the outbox, after those that are looked up were; in the order of their addresses.
pub(crate) async fn take(sealgate: &Sealgate) -> Vec<MailMessage> {
    let (store, ever) = (&sealgate.store, UnixTime::from_seconds(u64::MAX));
    for wanted in store.due_mail(ever, MOST).await.unwrap() {
        let message = store.open_mail(&wanted.value).unwrap();
        if wanted.value.kind == MailKind::AddressWanted {
            let looked_up = address_lookup::look_up(sealgate, sealgate.clock.now(), &wanted, &message).await;
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

/// To whom a mail goes.
pub(crate) fn address(mail: &MailMessage) -> String {
    mail.to.as_ref().map(|to| to.as_str().to_owned()).unwrap_or_default()
}

/// The code of the only mail that waits, and whose it is.
pub(crate) async fn code(sealgate: &Sealgate) -> (String, String) {
    let mails = take(sealgate).await;
    assert_eq!(mails.len(), 1, "{mails:?}");
    match &mails[0].mail {
        Mail::VerificationCode { code, .. } => (code.clone(), address(&mails[0])),
        other => panic!("no code: {other:?}"),
    }
}
