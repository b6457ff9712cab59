//! Commands about tokens for the admin API.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::answer::{Answer, ApiTokenAnswer, EndedAnswer, ListPage, Rows, ShownSecret};
use crate::arguments::SecretExpiry;
use crate::command::{ApiTokenCommand, NewApiToken};
use crate::context::{CommandContext, CommandError};
use sealgate_domain::api_token::{
    ApiToken, ApiTokenId, DEFAULT_LIFETIME, MAX_LIFETIME, MAX_TOKEN_NAME_LENGTH, MAX_TOKENS,
};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::client::Authority;
use sealgate_domain::profile::is_line;
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::random;

pub(super) async fn execute(context: &CommandContext<'_>, command: ApiTokenCommand) -> Result<Answer, CommandError> {
    let reads = matches!(command, ApiTokenCommand::List);
    // No route of the API leads here. If one did, a token could outlive its own expiry.
    if matches!(context.actor, Actor::ApiToken { .. }) || !(reads || context.authority.is_administrative()) {
        return Err(CommandError::Forbidden("only an administrator or operator can manage API tokens".to_owned()));
    }
    match command {
        ApiTokenCommand::Add(new) => add(context, *new).await,
        ApiTokenCommand::List => {
            let mut tokens = context.store.api_tokens().await?;
            tokens.sort_by(|a, b| (b.created_at, &a.name).cmp(&(a.created_at, &b.name)));
            let now = context.clock.now();
            let live = tokens.into_iter().filter(|token| token.is_live(now));
            let rows = Rows::ApiTokens(live.map(ApiTokenAnswer::from).collect());
            Ok(ListPage::answer(rows, None::<String>))
        }
        ApiTokenCommand::Remove { id } => remove(context, &id).await,
    }
}

async fn add(context: &CommandContext<'_>, new: NewApiToken) -> Result<Answer, CommandError> {
    let now = context.clock.now();
    let scopes: BTreeSet<_> = new.scopes.into_iter().collect();
    let expires_at = expiry(new.expires, now);
    let mut faults = Vec::new();
    if !is_line(&new.name, MAX_TOKEN_NAME_LENGTH) {
        faults.push(format!("a token's name has 1 to {MAX_TOKEN_NAME_LENGTH} visible characters and no line breaks"));
    }
    if scopes.is_empty() {
        faults.push("a token needs at least one scope".to_owned());
    }
    if expires_at <= now || expires_at > now.plus(MAX_LIFETIME) {
        faults.push("a token must expire in the future, and within 365 days".to_owned());
    }
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    let secret = ApiToken::new_secret(random(context.entropy));
    let creator = match context.authority {
        Authority::Administrator(subject) => Some(subject),
        Authority::Owner(_) | Authority::Operator => None,
    };
    let (hash, name) = (secret.hash(), new.name);
    let token = ApiToken { hash, name, scopes, creator, created_at: now, expires_at, last_used_at: None };
    if !context.store.add_api_token(&token).await? {
        return Err(CommandError::invalid(format!("there are {MAX_TOKENS} API tokens; remove one first")));
    }
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let detail = format!("{}; scopes {}; until {expires_at}", token.id(), scopes.join(" "));
    context.record(context.event(AuditKind::ApiTokenCreated).with_detail(detail)).await;
    Ok(Answer::ApiToken(Box::new(ApiTokenAnswer { token: Some(ShownSecret(secret)), ..ApiTokenAnswer::from(token) })))
}

fn expiry(expires: Option<SecretExpiry>, now: UnixTime) -> UnixTime {
    match expires {
        None => now.plus(DEFAULT_LIFETIME),
        Some(SecretExpiry::At(at)) => at,
        Some(SecretExpiry::In(seconds)) => now.plus(Duration::from_secs(seconds)),
    }
}

async fn remove(context: &CommandContext<'_>, id: &str) -> Result<Answer, CommandError> {
    let absent =
        || CommandError::Absent(format!("no API token has the ID {id}; to list them, run: sealgate api-token list"));
    let token = ApiTokenId::parse(id).ok_or_else(absent)?;
    let removed = context.store.remove_api_token(token).await?.ok_or_else(absent)?;
    context.record(context.event(AuditKind::ApiTokenRevoked).with_detail(id)).await;
    let (id, name) = (Some(id.to_owned()), Some(removed.name));
    Ok(EndedAnswer { id, name, revoked: Some(true), ..EndedAnswer::from(()) }.into())
}
