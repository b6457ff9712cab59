//! E-mails whose recipient is determined only when they are sent: for a password reset, and for the
//! confirmation of an address.
//!
//! A request queues a mail in the same way for every name and address, so that its response does not
//! reveal whether the account exists. The account is looked up here, when the mail is due.

use std::time::Duration;

use sealgate_core::state::Sealgate;
use sealgate_domain::account_links::{AccountLinks, AccountMark, LinkToken, RESET_LIFE, ResetLink};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::mail::{Mail, MailId, MailMessage, WaitingMail};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject, User};
use sealgate_store::{Committed, Loaded, StoreError};
use sealgate_system::clock::random;

/// Maximum random delay of an e-mail.
///
/// E-mails are sent one after another. Without the delay, an attacker could request a link for
/// another user and then a link for their own account. The delivery time of their own e-mail would
/// reveal whether an e-mail was sent to the other user.
pub const MAX_DELAY: Duration = Duration::from_secs(10);

/// Reply to a request for a password reset.
enum ResetReply {
    /// An e-mail to this address with a link to set a new password.
    Link(Email),
    /// An e-mail to this address about an account that has no password.
    PasskeysOnly(Email),
    /// An e-mail to this address about an account whose password a directory keeps.
    PasswordElsewhere(Email),
    /// No e-mail, for this reason.
    Nothing(&'static str),
}

/// Replaces the reset request `request_mail` with the e-mail for its user, or removes the request.
/// The caller holds the lease of `request_mail`.
///
/// The new e-mail goes to the account's address, after a random delay. One commit replaces
/// `request_mail` and stores the link, so a crash neither loses the request nor creates a second
/// link. Returns [`Committed::Conflict`] if another process has changed `request_mail`.
///
/// # Errors
/// If the store fails or there is no data key. `request_mail` is then still queued.
pub async fn answer_reset_request(
    sealgate: &Sealgate,
    now: UnixTime,
    request_mail: &Loaded<WaitingMail>,
    message: &MailMessage,
) -> Result<Committed, StoreError> {
    let store = &sealgate.store;
    let Mail::ResetWanted { account, browser } = &message.mail else {
        return Err(StoreError::Broken("a message for a reset lookup is not a reset".to_owned()));
    };
    let Some(user) = store.user_by_lookup_key(account).await? else {
        return store.replace_mail(request_mail, &[]).await;
    };
    if !browser.is_empty() && store.known_browsers(user.sub).await?.find_kept(browser, now).is_none() {
        // The account's limit is used up, and the user has not signed in from this browser before.
        return store.replace_mail(request_mail, &[]).await;
    }
    let reply = reply_for(sealgate, &user).await?;
    let (committed, detail) = match reply {
        ResetReply::Link(to) => {
            let (link, token) = LinkToken::new(user.sub, random(sealgate.entropy.as_ref()));
            let reset = Mail::Reset { token: token.expose().to_owned() };
            let mail = new_mail(sealgate, now, (user.sub, to), message, reset)?;
            let link =
                ResetLink { hash: link.hash, account: AccountMark::from_user(&user), expires_at: now.plus(RESET_LIFE) };
            let add = |links: &mut AccountLinks| links.add_reset(link.clone(), now);
            let committed = store.replace_mail_and_change_links(request_mail, &[mail], user.sub, add).await?;
            (committed, "link mailed")
        }
        ResetReply::PasskeysOnly(to) => {
            let mail = new_mail(sealgate, now, (user.sub, to), message, Mail::PasskeysOnly)?;
            (store.replace_mail(request_mail, &[mail]).await?, "has passkeys only")
        }
        ResetReply::PasswordElsewhere(to) => {
            let mail = new_mail(sealgate, now, (user.sub, to), message, Mail::PasswordElsewhere)?;
            (store.replace_mail(request_mail, &[mail]).await?, "password of a directory")
        }
        ResetReply::Nothing(why) => (store.replace_mail(request_mail, &[]).await?, why),
    };
    if committed == Committed::Yes {
        let event = AuditEvent::new(message.at, AuditKind::PasswordResetAsked, Actor::Stranger).for_subject(user.sub);
        let address = message.origin.as_ref().map(|origin| origin.address);
        sealgate.audit.note(AuditEvent { address, ..event.with_detail(detail) });
    }
    Ok(committed)
}

async fn reply_for(sealgate: &Sealgate, user: &User) -> Result<ResetReply, StoreError> {
    if !user.is_enabled() {
        return Ok(ResetReply::Nothing("account disabled"));
    }
    let Some(email) = user.email.clone() else {
        return Ok(ResetReply::Nothing("no address"));
    };
    // An address that was not verified may belong to another person.
    if !user.email_verified {
        return Ok(ResetReply::Nothing("address not verified"));
    }
    if let Some(source) = &user.source {
        let is_known = sealgate.sources.directory(&source.link.source).is_some();
        let unknown = ResetReply::Nothing("no password");
        return Ok(if is_known { ResetReply::PasswordElsewhere(email) } else { unknown });
    }
    if user.password.is_some() {
        return Ok(ResetReply::Link(email));
    }
    // Access to the mailbox alone must not give access to an account without a password.
    let factors = sealgate.store.factors(user.sub).await?;
    let has_passkey = factors.is_some_and(|factors| factors.value.has_passkey());
    Ok(if has_passkey { ResetReply::PasskeysOnly(email) } else { ResetReply::Nothing("no password") })
}

/// Creates an e-mail for the user, with the language and the origin of the request. The e-mail is
/// due after a random delay.
fn new_mail(
    sealgate: &Sealgate,
    now: UnixTime,
    (subject, to): (Subject, Email),
    message: &MailMessage,
    mail: Mail,
) -> Result<WaitingMail, StoreError> {
    let entropy = sealgate.entropy.as_ref();
    let id = MailId::from_bytes(random(entropy));
    let message = MailMessage { to: Some(to), mail, ..message.clone() };
    let mail = sealgate.store.new_mail((id, random(entropy)), Some(subject), &message, now)?;
    // The modulo bias of a 32-bit number is negligible.
    let delay = u64::from(u32::from_be_bytes(random(entropy))) % (MAX_DELAY.as_secs() + 1);
    let due_at = now.plus(Duration::from_secs(delay));
    Ok(WaitingMail { due_at, ..mail })
}

/// Replaces `request_mail` with an e-mail that contains a code. If another account has the address,
/// replaces it with a notification to that account's user.
///
/// A disabled account gets no e-mail. An account that changes only the spelling of its own address
/// gets the code. Returns [`Committed::Conflict`] if another process has changed `request_mail`.
///
/// # Errors
/// If the store fails or there is no data key. `request_mail` is then still queued.
pub async fn answer_address_request(
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
    let is_enabled = owner.as_ref().is_some_and(User::is_enabled);
    let (subject, to, mail) = match owner {
        Some(User { sub, email: Some(email), .. }) if is_enabled => {
            (Some(sub), email, Mail::AccountExists { purpose: *purpose })
        }
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
