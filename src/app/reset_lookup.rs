//! Who it is that asked for a reset of their password. Looked up when the mail's turn comes, and not in the request, which so
//! does the same for everybody.

use std::time::Duration;

use crate::app::state::Sealgate;
use crate::clock::random;
use crate::domain::account_links::{AccountLinks, AccountMark, LinkToken, RESET_LIFE, ResetLink};
use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::mail::{Mail, MailId, MailMessage, WaitingMail};
use crate::domain::time::UnixTime;
use crate::domain::user::User;
use crate::store::{Committed, Loaded, StoreError};

/// The longest that a mail lies before it is sent. Mails are sent one after the other: whoever asks for somebody else's link
/// and then for their own would read off their own mail's time whether one went before it.
pub const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// What is mailed to whoever was looked up.
enum Answer {
    /// A link by which they set another password.
    Link,
    /// That they have no password to reset.
    PasskeysOnly,
    /// Nothing, and why.
    Nothing(&'static str),
}

/// Puts the mail that the person gets in the place of `wanted`, which asks for a reset and was taken from the outbox. Where
/// nobody gets one, it goes. The mail is due soon, at a random time, and goes to the address that the account has. A crash
/// before the commit leaves `wanted` where it is, and one after it makes no second link. A conflict means that somebody else
/// has taken `wanted`.
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
    let Mail::ResetWanted { account, browser } = &message.mail else {
        return Err(StoreError::Broken("a mail that is looked up as a reset is none".to_owned()));
    };
    let Some(user) = store.user_by_lookup_key(account).await? else { return store.replace_mail(wanted, &[]).await };
    if !browser.is_empty() && store.known_browsers(user.sub).await?.find_kept(browser, now).is_none() {
        // Strangers have asked as often as they may, and this is one more.
        return store.replace_mail(wanted, &[]).await;
    }
    let answer = answer_for(sealgate, &user).await?;
    let (committed, detail) = match answer {
        Answer::Link => {
            let (link, token) = LinkToken::new(user.sub, random(sealgate.entropy.as_ref()));
            let mail = made(sealgate, now, &user, message, Mail::Reset { token: token.expose().to_owned() })?;
            let link = ResetLink { hash: link.hash, account: AccountMark::of(&user), expires_at: now.plus(RESET_LIFE) };
            let add = |links: &mut AccountLinks| links.add_reset(link.clone(), now);
            let committed = store.replace_mail_and_change_links(wanted, &[mail], user.sub, add).await?;
            (committed, "link mailed")
        }
        Answer::PasskeysOnly => {
            let mail = made(sealgate, now, &user, message, Mail::PasskeysOnly)?;
            (store.replace_mail(wanted, &[mail]).await?, "has passkeys only")
        }
        Answer::Nothing(why) => (store.replace_mail(wanted, &[]).await?, why),
    };
    if committed == Committed::Yes {
        let event = AuditEvent::new(message.at, AuditKind::PasswordResetAsked, Actor::Stranger).of(user.sub);
        let address = message.origin.as_ref().map(|origin| origin.address);
        sealgate.audit.note(AuditEvent { address, ..event.with_detail(detail) });
    }
    Ok(committed)
}

async fn answer_for(sealgate: &Sealgate, user: &User) -> Result<Answer, StoreError> {
    if !user.is_enabled() {
        return Ok(Answer::Nothing("account disabled"));
    }
    // An address that nobody has proven may be a stranger's.
    if !user.email_verified {
        return Ok(Answer::Nothing("address not verified"));
    }
    if user.password.is_some() {
        return Ok(Answer::Link);
    }
    // The mailbox alone opens no account that has no password.
    let factors = sealgate.store.factors(user.sub).await?;
    let has_passkey = factors.is_some_and(|factors| factors.value.has_passkey());
    Ok(if has_passkey { Answer::PasskeysOnly } else { Answer::Nothing("no password") })
}

/// A mail to the person, in the language and with the origin of the request that caused it.
fn made(
    sealgate: &Sealgate,
    now: UnixTime,
    user: &User,
    message: &MailMessage,
    mail: Mail,
) -> Result<WaitingMail, StoreError> {
    let entropy = sealgate.entropy.as_ref();
    let id = MailId::from_bytes(random(entropy));
    let message = MailMessage { to: Some(user.email.clone()), mail, ..message.clone() };
    let mail = sealgate.store.new_mail((id, random(entropy)), Some(user.sub), &message, now)?;
    // Of 2^32 numbers the remainder prefers some by next to nothing.
    let delay = u64::from(u32::from_be_bytes(random(entropy))) % (LONGEST_DELAY.as_secs() + 1);
    let due_at = now.plus(Duration::from_secs(delay));
    Ok(WaitingMail { due_at, ..mail })
}
