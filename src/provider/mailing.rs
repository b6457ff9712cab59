//! Mails that a request causes: made here, limited here, and committed with what they are about. Nothing here waits for a mail
//! server.

use std::time::Duration;

use crate::domain::account_links::CODE_DIGITS;
use crate::domain::known_browser::Marks;
use crate::domain::mail::{Mail, MailId, MailMessage, WaitingMail};
use crate::domain::mail_address::MailAddress;
use crate::domain::profile::is_seen;
use crate::domain::secret::SecretHash;
use crate::domain::user::{Email, Subject};
use crate::limiter::{LimitKey, Rule};
use crate::limits::LimitScope;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;

/// What strangers may cause to one address, whatever it is about.
const TO_ONE: [(&str, Rule); 2] = [
    ("mail_hour", Rule { limit: 3, window: Duration::from_hours(1) }),
    ("mail_day", Rule { limit: 10, window: Duration::from_hours(24) }),
];

/// What one browser may cause that has signed in to the account before, when that is used up.
const OWN: Rule = Rule { limit: 3, window: Duration::from_hours(24) };

/// What they may cause from one network.
const FROM_ONE: Rule = Rule { limit: 10, window: Duration::from_hours(1) };

/// What they may cause in all.
const IN_ALL: Rule = Rule { limit: 60, window: Duration::from_mins(1) };

/// A mail that is due at once. `to`: nobody yet for what is looked up later.
///
/// # Errors
/// When nothing seals here; see [`Sealgate::sends_mail`](crate::app::state::Sealgate::sends_mail).
pub(super) fn new_mail(
    ctx: &RequestContext<'_>,
    subject: Option<Subject>,
    to: Option<&Email>,
    mail: Mail,
) -> Result<WaitingMail, Failure> {
    let id = MailId::from_bytes(ctx.random());
    let origin = Some(ctx.request_origin());
    let message = MailMessage { to: to.cloned(), language: ctx.language(), at: ctx.now, origin, mail };
    ctx.sealgate.store.new_mail((id, ctx.random()), subject, &message, ctx.now).map_err(|error| {
        tracing::error!(%error, "a mail cannot be sealed and is not sent");
        Failure::Unavailable
    })
}

/// Whether a stranger may cause one more mail to this address. Asked before anybody looks whose address it is, so that a refusal
/// says nothing of that; and what is refused gets the same answer as all others.
pub(super) async fn stranger_may(ctx: &RequestContext<'_>, to: &Email) -> bool {
    // A domain with letters beyond ASCII has many spellings, which are one to mail servers.
    let mailbox = MailAddress::of(to).map_or_else(|| to.as_str().to_owned(), |mailbox| mailbox.to_string());
    let account = SecretHash::of(mailbox.to_ascii_lowercase().as_bytes());
    from_network(ctx).await && to_account(ctx, &account).await && in_all(ctx).await
}

/// The same for a reset, asked for in a browser with these marks. Where strangers have used up what may be sent to the address,
/// each browser from which its owner has signed in has a few of its own: whether it is one is looked up later. Yields the marks
/// of which the account must know one then; `None` where nothing more is sent.
pub(super) async fn reset_may(
    ctx: &RequestContext<'_>,
    account: &SecretHash,
    marks: &Marks,
) -> Option<Vec<SecretHash>> {
    if !from_network(ctx).await {
        return None;
    }
    let mut needed = Vec::new();
    if !to_account(ctx, account).await {
        // Each mark has its own count, so that others beside it give a browser no more.
        for mark in marks.hashes() {
            if allows(ctx, &LimitKey::text("mail_browser", &of_both(account, &mark)), OWN).await {
                needed.push(mark);
            }
        }
        if needed.is_empty() {
            return None;
        }
    }
    in_all(ctx).await.then_some(needed)
}

async fn from_network(ctx: &RequestContext<'_>) -> bool {
    let network = LimitKey::site("mail_network", ctx.origin.address)
        .unwrap_or_else(|| LimitKey::address("mail_network", ctx.origin.address));
    allows(ctx, &network, FROM_ONE).await
}

async fn to_account(ctx: &RequestContext<'_>, account: &SecretHash) -> bool {
    for (bucket, rule) in TO_ONE {
        if !allows(ctx, &LimitKey::text(bucket, account.as_bytes()), rule).await {
            return false;
        }
    }
    true
}

async fn in_all(ctx: &RequestContext<'_>) -> bool {
    allows(ctx, &LimitKey::text("mail_all", b""), IN_ALL).await
}

/// Whoever mails, all nodes count it together.
pub(super) async fn allows(ctx: &RequestContext<'_>, key: &LimitKey<'_>, rule: Rule) -> bool {
    ctx.sealgate.limits.take(LimitScope::Fleet, key, rule, ctx.now).await.allowed
}

fn of_both(account: &SecretHash, mark: &SecretHash) -> Vec<u8> {
    [account.as_bytes().as_slice(), mark.as_bytes()].concat()
}

/// Why no mail can be sent to what was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressFault {
    /// It is no address that mail servers take.
    Malformed,
    /// There are letters beyond ASCII before the `@`, which many mail servers do not take.
    NotAscii,
}

/// The address that was typed, if mail can be sent to it. A domain that mail servers know in plain ASCII is written so: with
/// full-width letters, for instance, one mailbox had as many addresses, and as many accounts, as there are spellings.
pub(super) fn mailable(typed: &str) -> Result<Email, AddressFault> {
    let local = typed.rsplit_once('@').map_or(typed, |(local, _)| local);
    if !local.is_ascii() {
        return Err(AddressFault::NotAscii);
    }
    let address = Email::parse(typed).filter(|address| is_seen(address.as_str())).ok_or(AddressFault::Malformed)?;
    let mailbox = MailAddress::of(&address).ok_or(AddressFault::Malformed)?;
    if typed.is_ascii() || mailbox.is_international() {
        return Ok(address);
    }
    Email::parse(&mailbox.to_string()).ok_or(AddressFault::Malformed)
}

/// The digits of a code that was typed, however they are grouped.
pub(super) fn digits(typed: &str) -> Option<String> {
    let digits: String = typed.chars().filter(|char| !char.is_whitespace() && *char != '-').collect();
    (digits.len() == CODE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// The keyed hash of a code. `bound_to`: whose it is and what for.
///
/// # Errors
/// When nothing seals here.
pub(super) fn code_hash(ctx: &RequestContext<'_>, bound_to: &[u8], code: &str) -> Result<SecretHash, Failure> {
    ctx.sealgate.store.code_hash(bound_to, code).map_err(|error| {
        tracing::error!(%error, "no code can be made or checked");
        Failure::Unavailable
    })
}

/// A new verification code: digits, each as likely as any other.
pub(super) fn new_code(ctx: &RequestContext<'_>) -> String {
    let most = 10_u64.pow(u32::try_from(CODE_DIGITS).unwrap_or(8));
    // Of 2^64 numbers the remainder prefers some by one in 10^11.
    let number = u64::from_be_bytes(ctx.random()) % most;
    format!("{number:0CODE_DIGITS$}")
}
