//! Management and display of a user's second factors in the console.

use super::client::execute;
use super::console_user::ConsoleUser;
use sealgate_admin::answer::ShownSecret;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::{Answer, Person};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::factor_failures::{FactorFailures, TryVerdict};
use sealgate_domain::factors::Factors;
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_pages::console::{ResetState, UserFactor};

/// Removes all factors of a user. Returns an enrolment link, which lets the user add a new one.
pub(super) async fn reset(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    subject: Subject,
) -> Result<Secret, Failure> {
    let command = UserCommand::ResetFactors(Person::Sub(subject));
    let Answer::User(reset) = execute(ctx, console_user, Command::User(command)).await? else {
        return Err(Failure::Internal);
    };
    let ShownSecret(link) = reset.enrolment_link.ok_or(Failure::Internal)?;
    Ok(link)
}

/// Returns whether the user's one-time or recovery codes are blocked after too many failures.
pub(super) fn is_blocked(factors: &Factors, now: UnixTime) -> bool {
    let blocked = |failures: &FactorFailures| failures.verdict(now) == TryVerdict::Blocked;
    (blocked(&factors.totp_failures) && !factors.totp.is_empty())
        || (blocked(&factors.recovery_failures) && factors.recovery.is_some())
}

/// Returns the state of a reset that the user has not followed with an enrolment.
pub(super) fn reset_state(factors: &Factors, now: UnixTime) -> Option<ResetState> {
    let reset = factors.reset.as_ref()?;
    Some(if now < reset.until { ResetState::Open { until: reset.until } } else { ResetState::Late })
}

/// Returns the user's strongest factor, as the list of users shows it.
pub(super) fn strongest(factors: Option<&Factors>) -> UserFactor {
    let Some(factors) = factors else { return UserFactor::None };
    if factors.has_passkey() {
        UserFactor::Passkey
    } else if !factors.keys.is_empty() {
        UserFactor::SecurityKey
    } else if !factors.totp.is_empty() {
        UserFactor::App
    } else if factors.reset.is_some() {
        UserFactor::Reset
    } else {
        UserFactor::None
    }
}
