//! Mails that requests cause: their creation and rate limits, and validation of addresses.
//!
//! A mail is committed together with the change that it reports. Requests never wait for a mail
//! server.

use std::time::Duration;

use sealgate_core::limits::LimitScope;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::account_links::CODE_DIGITS;
use sealgate_domain::known_browser::Marks;
use sealgate_domain::limiter::{LimitKey, Rule};
use sealgate_domain::mail::{Mail, MailId, MailMessage, WaitingMail};
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::profile::is_visible;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::{Email, Subject};

/// Limits of the mails that unauthenticated requests may send to one address, for all purposes
/// together.
const ADDRESS_LIMITS: [(&str, Rule); 2] = [
    ("mail_hour", Rule { limit: 3, window: Duration::from_hours(1) }),
    ("mail_day", Rule { limit: 10, window: Duration::from_hours(24) }),
];

/// Limit of the reset mails that one known browser may request. It applies after the account's
/// limit is used up.
const KNOWN_BROWSER_LIMIT: Rule = Rule { limit: 3, window: Duration::from_hours(24) };

/// Limit of the mails that unauthenticated requests from one network may cause.
const NETWORK_LIMIT: Rule = Rule { limit: 10, window: Duration::from_hours(1) };

/// Limit of the mails that all unauthenticated requests together may cause.
const TOTAL_LIMIT: Rule = Rule { limit: 60, window: Duration::from_mins(1) };

/// Creates a mail that is due at once. `to` is `None` if the recipient is determined later, when
/// the mail is sent.
///
/// # Errors
/// When the store has no data key; see
/// [`Sealgate::sends_mail`](sealgate_core::state::Sealgate::sends_mail).
pub(crate) fn new_mail(
    ctx: &RequestContext<'_>,
    subject: Option<Subject>,
    to: Option<&Email>,
    mail: Mail,
) -> Result<WaitingMail, Failure> {
    let id = MailId::from_bytes(ctx.random());
    let origin = Some(ctx.request_origin());
    let message = MailMessage { to: to.cloned(), language: ctx.language(), at: ctx.now, origin, mail };
    ctx.sealgate.store.new_mail((id, ctx.random()), subject, &message, ctx.now).map_err(|error| {
        tracing::error!(%error, "cannot seal a message; it is not sent");
        Failure::Unavailable
    })
}

/// Charges the limits for a mail to this address that an unauthenticated request causes. Returns
/// whether the limits allow the mail.
///
/// The check precedes the account lookup, so that a refusal does not reveal whether an account
/// exists. The caller must answer a refused request like an accepted one.
pub(crate) async fn allows_unauthenticated_mail(ctx: &RequestContext<'_>, to: &Email) -> bool {
    // An internationalized domain has several spellings that mail servers treat as the same domain.
    let mailbox = MailAddress::from_email(to).map_or_else(|| to.as_str().to_owned(), |mailbox| mailbox.to_string());
    let account = SecretHash::for_secret(mailbox.to_ascii_lowercase().as_bytes());
    network_allows(ctx).await && account_allows(ctx, &account).await && total_allows(ctx).await
}

/// Charges the limits for the mail of a password reset. `marks` are the marks of the browser that
/// requests the reset.
///
/// Returns `None` if the limits are exceeded. Otherwise returns the marks that must be checked when
/// the mail is sent, or no marks if no check is needed.
///
/// After the account's limit is used up, each browser known to the account has a separate small
/// limit. Whether the account knows the browser is checked only when the mail is sent.
pub(crate) async fn charge_reset_mail(
    ctx: &RequestContext<'_>,
    account: &SecretHash,
    marks: &Marks,
) -> Option<Vec<SecretHash>> {
    if !network_allows(ctx).await {
        return None;
    }
    let mut needed = Vec::new();
    if !account_allows(ctx, account).await {
        // Each mark has its own counter, so that adding other marks gives a browser no extra mails.
        for mark in marks.hashes() {
            if allows(ctx, &LimitKey::text("mail_browser", &joined(account, &mark)), KNOWN_BROWSER_LIMIT).await {
                needed.push(mark);
            }
        }
        if needed.is_empty() {
            return None;
        }
    }
    total_allows(ctx).await.then_some(needed)
}

async fn network_allows(ctx: &RequestContext<'_>) -> bool {
    let network = LimitKey::site("mail_network", ctx.origin.address)
        .unwrap_or_else(|| LimitKey::address("mail_network", ctx.origin.address));
    allows(ctx, &network, NETWORK_LIMIT).await
}

async fn account_allows(ctx: &RequestContext<'_>, account: &SecretHash) -> bool {
    for (bucket, rule) in ADDRESS_LIMITS {
        if !allows(ctx, &LimitKey::text(bucket, account.as_bytes()), rule).await {
            return false;
        }
    }
    true
}

async fn total_allows(ctx: &RequestContext<'_>) -> bool {
    allows(ctx, &LimitKey::text("mail_all", b""), TOTAL_LIMIT).await
}

/// Charges a limit that all nodes of the cluster count together. Returns whether the limit allows
/// the mail.
pub(crate) async fn allows(ctx: &RequestContext<'_>, key: &LimitKey<'_>, rule: Rule) -> bool {
    ctx.sealgate.limits.take(LimitScope::Cluster, key, rule, ctx.now).await.allowed
}

fn joined(account: &SecretHash, mark: &SecretHash) -> Vec<u8> {
    [account.as_bytes().as_slice(), mark.as_bytes()].concat()
}

/// Reason why no mail can be sent to a typed address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressFault {
    /// Mail servers do not accept the address.
    Malformed,
    /// The part before the `@` has non-ASCII letters, which many mail servers do not accept.
    NotAscii,
}

/// Parses a typed address to which mail can be sent.
///
/// Converts the domain to ASCII if it is only another spelling of an ASCII domain, for instance in
/// full-width letters. Otherwise one mailbox could have several addresses, and so several accounts.
pub(crate) fn mailable(typed: &str) -> Result<Email, AddressFault> {
    let local = typed.rsplit_once('@').map_or(typed, |(local, _)| local);
    if !local.is_ascii() {
        return Err(AddressFault::NotAscii);
    }
    let address = Email::parse(typed).filter(|address| is_visible(address.as_str())).ok_or(AddressFault::Malformed)?;
    let mailbox = MailAddress::from_email(&address).ok_or(AddressFault::Malformed)?;
    if typed.is_ascii() || mailbox.is_international() {
        return Ok(address);
    }
    Email::parse(&mailbox.to_string()).ok_or(AddressFault::Malformed)
}

/// Returns the digits of a typed code. Whitespace and hyphens are ignored.
pub(crate) fn digits(typed: &str) -> Option<String> {
    let digits: String = typed.chars().filter(|char| !char.is_whitespace() && *char != '-').collect();
    (digits.len() == CODE_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// Returns the keyed hash of a code. `bound_to` identifies the owner and the purpose of the code.
///
/// # Errors
/// When the store has no data key.
pub(crate) fn code_hash(ctx: &RequestContext<'_>, bound_to: &[u8], code: &str) -> Result<SecretHash, Failure> {
    ctx.sealgate.store.code_hash(bound_to, code).map_err(|error| {
        tracing::error!(%error, "cannot create or verify a code");
        Failure::Unavailable
    })
}

/// Returns a new verification code of uniformly distributed digits.
pub(crate) fn new_code(ctx: &RequestContext<'_>) -> String {
    let most = 10_u64.pow(u32::try_from(CODE_DIGITS).unwrap_or(8));
    // The modulo makes some codes slightly more likely than others, by less than one part in 10^11.
    let number = u64::from_be_bytes(ctx.random()) % most;
    format!("{number:0CODE_DIGITS$}")
}
