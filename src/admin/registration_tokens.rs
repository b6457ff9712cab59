//! Commands about initial access tokens (RFC 7591 §3), which register clients over HTTP.

use std::time::Duration;

use crate::answer::{Answer, EndedAnswer, InitialToken, ListPage, RegistrationTokenAnswer, Rows, ShownSecret};
use crate::context::{CommandContext, CommandError};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::Authority;
use sealgate_domain::profile::is_line;
use sealgate_domain::registration_token::{
    MAX_REGISTRATION_LIFETIME, MAX_REGISTRATION_NAME_LENGTH, MAX_REGISTRATION_TOKENS, MAX_REGISTRATIONS,
    RegistrationToken, RegistrationTokenId,
};
use sealgate_domain::secret::Secret;
use sealgate_system::clock::random;

/// Refuses a developer, who can register clients only for themselves.
fn require_administrative(context: &CommandContext<'_>) -> Result<(), CommandError> {
    if context.authority.is_administrative() {
        return Ok(());
    }
    Err(CommandError::Forbidden("only an administrator or operator can manage registration tokens".to_owned()))
}

pub(super) async fn generate(
    context: &CommandContext<'_>,
    name: String,
    lifetime_seconds: u64,
    registrations: u32,
) -> Result<Answer, CommandError> {
    require_administrative(context)?;
    let mut faults = Vec::new();
    if !(1..=MAX_REGISTRATION_LIFETIME.as_secs()).contains(&lifetime_seconds) {
        let most = MAX_REGISTRATION_LIFETIME.as_secs();
        faults.push(format!("an initial access token is valid for 1 to {most} seconds (90 days)"));
    }
    if !(1..=MAX_REGISTRATIONS).contains(&registrations) {
        faults.push(format!("an initial access token registers 1 to {MAX_REGISTRATIONS} clients"));
    }
    if !name.is_empty() && !is_line(&name, MAX_REGISTRATION_NAME_LENGTH) {
        faults.push(format!(
            "a token's name has at most {MAX_REGISTRATION_NAME_LENGTH} visible characters and no line breaks"
        ));
    }
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    let secret = Secret::from_random(&random::<32>(context.entropy));
    let now = context.clock.now();
    let creator = match context.authority {
        Authority::Administrator(subject) => Some(subject),
        Authority::Owner(_) | Authority::Operator => None,
    };
    let expires_at = now.plus(Duration::from_secs(lifetime_seconds));
    let token =
        RegistrationToken { name, creator, registrations, ..RegistrationToken::new(secret.hash(), now, expires_at) };
    if !context.store.add_registration_token(&token).await? {
        return Err(CommandError::invalid(format!(
            "there are {MAX_REGISTRATION_TOKENS} registration tokens; revoke one first"
        )));
    }
    let detail = format!("{}; clients {registrations}; until {expires_at}", token.id());
    context.record(context.event(AuditKind::RegistrationTokenCreated).with_detail(detail)).await;
    let id = token.id().to_string();
    Ok(Answer::InitialToken(InitialToken { id, expires_at, initial_access_token: ShownSecret(secret) }))
}

pub(super) async fn list(context: &CommandContext<'_>) -> Result<Answer, CommandError> {
    let mut tokens = context.store.registration_tokens().await?;
    tokens.sort_by(|a, b| (b.created_at, &a.name).cmp(&(a.created_at, &b.name)));
    let now = context.clock.now();
    let live = tokens.into_iter().filter(|token| token.is_live(now));
    Ok(ListPage::answer(Rows::RegistrationTokens(live.map(RegistrationTokenAnswer::from).collect()), None::<String>))
}

pub(super) async fn revoke(context: &CommandContext<'_>, id: &str) -> Result<Answer, CommandError> {
    require_administrative(context)?;
    let absent = || {
        let list = "sealgate client list-tokens";
        CommandError::Absent(format!("no registration token has the ID {id}; to list them, run: {list}"))
    };
    let token = RegistrationTokenId::parse(id).ok_or_else(absent)?;
    let removed = context.store.remove_registration_token(token).await?.ok_or_else(absent)?;
    context.record(context.event(AuditKind::RegistrationTokenRevoked).with_detail(id)).await;
    let (id, name) = (Some(id.to_owned()), Some(removed.name));
    Ok(EndedAnswer { id, name, revoked: Some(true), ..EndedAnswer::from(()) }.into())
}
