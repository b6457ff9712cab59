//! Lookup of an e-mail address that a user wants to confirm, when its e-mail is due.
//!
//! The request itself reads nothing, so its duration does not depend on the owner of the address.

use sealgate_core::state::Sealgate;
use sealgate_domain::mail::{Mail, MailId, MailMessage, WaitingMail};
use sealgate_domain::time::UnixTime;
use sealgate_store::{Committed, Loaded, StoreError};
use sealgate_system::clock::random;

/// Replaces `wanted` by an e-mail with a code, or by a notification if the address has an account.
///
/// The requesting user may already have the address in another spelling. A disabled user gets no
/// e-mail. A conflict means that another process has taken `wanted`.
///
/// # Errors
/// When the store fails or there is no data key; `wanted` is still queued then.
pub async fn look_up(
    sealgate: &Sealgate,
    now: UnixTime,
    wanted: &Loaded<WaitingMail>,
    message: &MailMessage,
) -> Result<Committed, StoreError> {
    let store = &sealgate.store;
    let (Mail::AddressWanted { code, purpose }, Some(to)) = (&message.mail, &message.to) else {
        return Err(StoreError::Broken("a message for an address lookup has no address".to_owned()));
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
