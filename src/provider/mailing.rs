//! Mails that a request causes: made here, limited here, and committed with what they are about. Nothing here waits for a mail
//! server.

use std::time::Duration;

use crate::domain::account_links::CODE_DIGITS;
use crate::domain::mail::{Mail, MailId, MailMessage, WaitingMail};
use crate::domain::secret::SecretHash;
use crate::domain::user::{Email, Subject};
use crate::limiter::{LimitKey, Rule};
use crate::web::context::RequestContext;
use crate::web::failure::Failure;

/// What strangers may cause to one address, whatever it is about.
const TO_ONE: [(&str, Rule); 2] = [
    ("mail_hour", Rule { limit: 3, window: Duration::from_hours(1) }),
    ("mail_day", Rule { limit: 10, window: Duration::from_hours(24) }),
];

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

/// Whether a stranger may cause one more mail to the address with this lookup key. Asked before anybody looks whose address it
/// is, so that a refusal says nothing of that; and what is refused gets the same answer as all others.
pub(super) fn stranger_may(ctx: &RequestContext<'_>, account: &SecretHash) -> bool {
    let limiter = &ctx.sealgate.limiter;
    let allows = |key: &LimitKey<'_>, rule| limiter.take(key, rule, ctx.now).allowed;
    let network = LimitKey::site("mail_network", ctx.origin.address)
        .unwrap_or_else(|| LimitKey::address("mail_network", ctx.origin.address));
    allows(&network, FROM_ONE)
        && TO_ONE.iter().all(|(bucket, rule)| allows(&LimitKey::text(bucket, account.as_bytes()), *rule))
        && allows(&LimitKey::text("mail_all", b""), IN_ALL)
}

/// A new verification code: digits, each as likely as any other.
pub(super) fn new_code(ctx: &RequestContext<'_>) -> String {
    let most = 10_u64.pow(u32::try_from(CODE_DIGITS).unwrap_or(8));
    // Of 2^64 numbers the remainder prefers some by one in 10^11.
    let number = u64::from_be_bytes(ctx.random()) % most;
    format!("{number:0CODE_DIGITS$}")
}
