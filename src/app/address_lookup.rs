//! Looks up an address that somebody wants to prove, when the mail's turn comes: the request that asked for it looked at nothing,
//! and takes the same time whoever has the address.

use crate::app::state::Sealgate;
use crate::clock::random;
use crate::domain::mail::{Mail, MailId, MailMessage, WaitingMail};
use crate::domain::time::UnixTime;
use crate::store::{Committed, Loaded, StoreError};

/// Puts a code in the place of `wanted`, or for somebody who has an account with the address a word about that, and no code. Who
/// asked may have the address already, written otherwise. Somebody whose account is disabled gets nothing. A conflict means
/// that somebody else has taken `wanted`.
///
/// # Errors
/// When the store fails or nothing seals; `wanted` is still there then.
pub async fn look_up(
    sealgate: &Sealgate,
    now: UnixTime,
    wanted: &Loaded<WaitingMail>,
    message: &MailMessage,
) -> Result<Committed, StoreError> {
    let store = &sealgate.store;
    let (Mail::AddressWanted { code, purpose }, Some(to)) = (&message.mail, &message.to) else {
        return Err(StoreError::Broken("a mail whose address is looked up has none".to_owned()));
    };
    let owner = store.user_by_email(to).await?.filter(|owner| Some(owner.sub) != wanted.value.subject);
    let (subject, to, mail) = match owner {
        Some(owner) if owner.is_enabled() => (Some(owner.sub), owner.email, Mail::AccountExists { purpose: *purpose }),
        Some(_) => return store.replace_mail(wanted, &[]).await,
        None => {
            let mail = Mail::VerificationCode { code: code.clone(), purpose: *purpose };
            (wanted.value.subject, to.clone(), mail)
        }
    };
    let entropy = sealgate.entropy.as_ref();
    let message = MailMessage { to: Some(to), mail, ..message.clone() };
    let id = MailId::from_bytes(random(entropy));
    store.replace_mail(wanted, &[store.new_mail((id, random(entropy)), subject, &message, now)?]).await
}
