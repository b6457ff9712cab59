//! Commands about a user's factors.
//!
//! An administrator can list the factors, unblock them, or remove all of them and create an
//! enrolment link. Only the owner can add a factor or see its secret.

use super::answer::{Answer, FactorAnswer, ListPage, Rows, ShownSecret, UserAnswer};
use super::context::{CommandContext, CommandError};
use crate::users;
use crate::users::UserRef;
use sealgate_domain::account_links::LinkToken;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::factor_failures::FactorFailures;
use sealgate_domain::factors::{FactorKind, FactorReset, Factors, LINK_LIFE, LINK_PATH};
use sealgate_domain::secret::Secret;
use sealgate_domain::webauthn::UserHandle;
use sealgate_store::FactorsChanged;
use sealgate_system::clock::random;

pub(super) async fn list(context: &CommandContext<'_>, user: &UserRef) -> Result<Answer, CommandError> {
    let sub = users::find(context, user).await?.sub;
    let factors = context.store.factors(sub).await?.map(|loaded| loaded.value);
    let rows =
        factors.as_ref().map(|factors| FactorAnswer::from_factors(factors, context.clock.now())).unwrap_or_default();
    Ok(ListPage::answer(Rows::Factors(rows), None::<String>))
}

/// Removes all factors and revokes all access, because an attacker may have the lost device.
///
/// Until a new factor is enrolled, the password alone is not sufficient. Otherwise an attacker with
/// the password could sign in without a second factor.
pub(super) async fn reset(context: &CommandContext<'_>, user: &UserRef) -> Result<Answer, CommandError> {
    let user = users::find(context, user).await?;
    let (link, token) = LinkToken::new(user.sub, random(context.entropy));
    let until = context.clock.now().plus(LINK_LIFE);
    let revocation = context.revocation(user.sub);
    let change = context.store.change_factors_with(&revocation, new_handle(context), |factors| {
        let removed_factors = removed(factors);
        factors.reset(FactorReset { link: link.hash, until });
        removed_factors
    });
    let removed_factors = expect_changed(change.await?)?;
    // Revoke access after the change. A session that began with an old factor in the meantime then
    // ends too.
    let ended = context.store.carry_out(&revocation).await?;
    for factor in &removed_factors {
        context.record(context.event(AuditKind::FactorRemoved).for_subject(user.sub).with_detail(factor)).await;
    }
    context.record(context.event(AuditKind::FactorsReset).for_subject(user.sub).with_detail(ended.to_string())).await;
    let address = Secret::new(format!("{}{LINK_PATH}?token={}", context.issuer, token.expose()));
    Ok(UserAnswer {
        factors_removed: Some(removed_factors.len()),
        sessions_ended: Some(ended.sessions),
        grants_ended: Some(ended.grants),
        enrolment_link: Some(ShownSecret(address)),
        link_expires_at: Some(until),
        ..UserAnswer::from(user)
    }
    .into())
}

/// Unblocks factors after too many wrong codes.
pub(super) async fn unblock(context: &CommandContext<'_>, user: &UserRef) -> Result<Answer, CommandError> {
    let user = users::find(context, user).await?;
    let change = context.store.change_factors(user.sub, new_handle(context), |factors| {
        let freed = factors.totp_failures != FactorFailures::default()
            || factors.recovery_failures != FactorFailures::default();
        factors.totp_failures = FactorFailures::default();
        factors.recovery_failures = FactorFailures::default();
        freed
    });
    let freed = expect_changed(change.await?)?;
    if freed {
        let event = context.event(AuditKind::UserChanged).for_subject(user.sub);
        context.record(event.with_detail("blocked factors")).await;
    }
    Ok(UserAnswer { unblocked: Some(freed), ..UserAnswer::from(user) }.into())
}

/// Creates the handle for a user who has had no factor yet.
fn new_handle(context: &CommandContext<'_>) -> UserHandle {
    UserHandle::from_random(random(context.entropy))
}

fn expect_changed<T>(changed: FactorsChanged<T>) -> Result<T, CommandError> {
    match changed {
        FactorsChanged::Yes(result, _) => Ok(result),
        // No command adds a credential.
        FactorsChanged::CredentialTaken => Err(CommandError::invalid("a security key belongs to another user")),
    }
}

/// Returns the removed factors in the form of the audit log.
fn removed(factors: &Factors) -> Vec<String> {
    let apps = factors.totp.iter().map(|app| (FactorKind::Totp, app.name.as_str()));
    let keys = factors.keys.iter().map(|key| (key.kind(), key.name.as_str()));
    apps.chain(keys).map(|(kind, name)| format!("{} {name}", kind.as_str())).collect()
}
