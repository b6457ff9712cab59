//! Commands about clients.

use std::time::Duration;

use serde_json::json;

use super::answer::Answer;
use super::command::{ClientCommand, NewClient};
use super::execute::{CommandError, Directory, PAGE};
use super::{client_settings, view};
use crate::clock::random;
use crate::domain::audit::AuditKind;
use crate::domain::client::INTERNAL_CLIENT;
use crate::domain::client::{
    AuthMethod, Client, ClientDecision, ClientDetails, ClientId, ClientSecret, ClientState, ClientType, GrantType,
    LONGEST_REFRESH_RETRY,
};
use crate::domain::grant::EndReason;
use crate::domain::profile::is_line;
use crate::domain::redirect_uri::RedirectUri;
use crate::domain::scope::Scope;
use crate::domain::secret::Secret;
use crate::domain::time::UnixTime;
use crate::store::AddOutcome;

/// The longest name, characters, and the most URIs of each kind.
const LONGEST_NAME: usize = 200;
const MOST_URIS: usize = 100;
/// The longest that an old secret may go on working, and that an initial access token may wait: 90 days, in seconds.
const LONGEST_WAIT: u64 = 90 * 24 * 60 * 60;

pub(super) async fn execute(directory: &Directory<'_>, command: ClientCommand) -> Result<Answer, CommandError> {
    match command {
        ClientCommand::Add(new) => add(directory, *new).await,
        ClientCommand::List { after } => list(directory, after.as_ref()).await,
        ClientCommand::Show(id) => Ok(view::client(&find(directory, &id).await?)),
        ClientCommand::RotateSecret { id, overlap_seconds } => rotate_secret(directory, &id, overlap_seconds).await,
        ClientCommand::Disable(id) => disable(directory, &id).await,
        ClientCommand::Enable(id) => enable(directory, &id).await,
        ClientCommand::Approve(id) => approve(directory, &id, true).await,
        ClientCommand::WithdrawApproval(id) => approve(directory, &id, false).await,
        ClientCommand::Set { id, settings } => client_settings::set(directory, &id, &settings).await,
        ClientCommand::Delete(id) => delete(directory, &id).await,
        ClientCommand::InitialToken { lifetime_seconds } => initial_token(directory, lifetime_seconds).await,
    }
}

async fn add(directory: &Directory<'_>, new: NewClient) -> Result<Answer, CommandError> {
    let checked = check(&new)?;
    let now = directory.clock.now();
    let secret = (new.client_type == ClientType::Confidential).then(|| fresh_secret(directory));
    let client = Client {
        id: new.id,
        name: new.name,
        client_type: new.client_type,
        auth_method: checked.auth_method,
        secrets: secret.iter().map(|secret| kept(secret, now)).collect(),
        redirect_uris: checked.redirect_uris,
        post_logout_redirect_uris: checked.post_logout_redirect_uris,
        scope: checked.scope,
        grant_types: vec![GrantType::AuthorizationCode, GrantType::RefreshToken],
        consent: new.consent,
        state: ClientState::Enabled,
        created_at: now,
        incarnation: u32::from_be_bytes(random(directory.entropy)),
        details: ClientDetails::default(),
        owner: None,
        registration: None,
        refresh_retry_seconds: new.refresh_retry_seconds,
        token_limit: new.token_limit,
        approval: None,
        disabled: None,
    };
    match directory.store.add_client(&client).await? {
        AddOutcome::Added => {}
        AddOutcome::Exists => {
            return Err(CommandError::Exists(format!("a client with the id {} exists already", client.id)));
        }
    }
    directory.record(directory.event(AuditKind::ClientRegistered).with_client(&client.id)).await;
    let answer = view::client(&client);
    Ok(match secret {
        Some(secret) => answer.with("client_secret", secret.expose()),
        None => answer,
    })
}

/// What a new client says, where it had to be read.
struct Checked {
    auth_method: AuthMethod,
    redirect_uris: Vec<RedirectUri>,
    post_logout_redirect_uris: Vec<RedirectUri>,
    scope: Scope,
}

/// Reads what a new client says. Every fault is told at once.
fn check(new: &NewClient) -> Result<Checked, CommandError> {
    let mut faults = Vec::new();
    if new.id.as_str().starts_with(INTERNAL_CLIENT) {
        faults.push(format!(
            "ids that start with {INTERNAL_CLIENT} belong to the protected applications; choose another"
        ));
    }
    faults.extend(name_fault(&new.name));
    if new.redirect_uris.is_empty() {
        faults.push("a client needs at least one redirect URI".to_owned());
    }
    let redirect_uris = uris("redirect URI", &new.redirect_uris, &mut faults);
    let post_logout_redirect_uris = uris("post-logout redirect URI", &new.post_logout_redirect_uris, &mut faults);
    let scope = scope(new.scope.as_deref()).unwrap_or_else(|fault| {
        faults.push(fault);
        Scope::EMPTY
    });
    let auth_method = auth_method(new.client_type, new.auth_method).unwrap_or_else(|fault| {
        faults.push(fault);
        AuthMethod::None
    });
    faults.extend(retry_fault(new.refresh_retry_seconds));
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    Ok(Checked { auth_method, redirect_uris, post_logout_redirect_uris, scope })
}

pub(super) fn name_fault(name: &str) -> Option<String> {
    let fault =
        || format!("a client's name has 1 to {LONGEST_NAME} characters, all of them visible, and no line breaks");
    (!is_line(name, LONGEST_NAME)).then(fault)
}

pub(super) fn retry_fault(seconds: Option<u64>) -> Option<String> {
    let too_long = seconds.is_some_and(|seconds| seconds > LONGEST_REFRESH_RETRY);
    too_long.then(|| format!("a refresh token can be retried for at most {LONGEST_REFRESH_RETRY} seconds"))
}

pub(super) fn uris(kind: &str, written: &[String], faults: &mut Vec<String>) -> Vec<RedirectUri> {
    if written.len() > MOST_URIS {
        faults.push(format!("a client has at most {MOST_URIS} {kind}s"));
    }
    let mut uris = Vec::new();
    for text in written {
        match RedirectUri::parse(text) {
            Ok(uri) if uris.contains(&uri) => {}
            Ok(uri) => uris.push(uri),
            Err(fault) => faults.push(format!("the {kind} {text:?} is refused: {fault}")),
        }
    }
    uris
}

pub(super) fn scope(written: Option<&str>) -> Result<Scope, String> {
    let Some(text) = written else { return Ok(Scope::all()) };
    let scope = Scope::parse(text).map_err(|unknown| format!("the scope {text:?} is refused: {unknown}"))?;
    if scope.is_empty() { Err("the scope is empty: leave it out for all scopes".to_owned()) } else { Ok(scope) }
}

pub(super) fn auth_method(client_type: ClientType, asked: Option<AuthMethod>) -> Result<AuthMethod, String> {
    match (client_type, asked) {
        (ClientType::Public, None | Some(AuthMethod::None)) => Ok(AuthMethod::None),
        (ClientType::Public, Some(method)) => {
            Err(format!("a public client has no secret, so its authentication method is none, not {}", method.as_str()))
        }
        (ClientType::Confidential, None) => Ok(AuthMethod::ClientSecretBasic),
        (ClientType::Confidential, Some(AuthMethod::None)) => {
            Err("a confidential client authenticates with client_secret_basic or client_secret_post, not none"
                .to_owned())
        }
        (ClientType::Confidential, Some(method)) => Ok(method),
    }
}

pub(super) fn fresh_secret(directory: &Directory<'_>) -> Secret {
    Secret::from_random(&random::<32>(directory.entropy))
}

pub(super) fn kept(secret: &Secret, now: UnixTime) -> ClientSecret {
    ClientSecret { hash: secret.hash(), created_at: now, expires_at: None }
}

async fn list(directory: &Directory<'_>, after: Option<&ClientId>) -> Result<Answer, CommandError> {
    let clients = directory.store.clients(after, PAGE).await?;
    let next = clients.last().filter(|_| clients.len() == PAGE).map(|client| client.id.to_string());
    Ok(view::list("clients", clients.iter().map(view::client).collect(), next))
}

async fn find(directory: &Directory<'_>, id: &ClientId) -> Result<Client, CommandError> {
    directory.store.client(id).await?.ok_or_else(|| absent(id))
}

pub(super) fn absent(id: &ClientId) -> CommandError {
    CommandError::Absent(format!("no client has the id {id}"))
}

async fn rotate_secret(directory: &Directory<'_>, id: &ClientId, overlap_seconds: u64) -> Result<Answer, CommandError> {
    if overlap_seconds > LONGEST_WAIT {
        return Err(CommandError::invalid(format!("two secrets overlap for at most {LONGEST_WAIT} seconds (90 days)")));
    }
    let now = directory.clock.now();
    let secret = fresh_secret(directory);
    let end = now.plus(Duration::from_secs(overlap_seconds));
    let changed = directory.store.change_client(id, |client| replace_secret(client, kept(&secret, now), end)).await?;
    let client = changed.ok_or_else(|| absent(id))?;
    if client.is_public() {
        return Err(CommandError::invalid(format!("the client {id} is public and has no secret")));
    }
    record_change(directory, id, &format!("rotate_secret overlap {overlap_seconds}")).await;
    Ok(view::client(&client).with("client_secret", secret.expose()))
}

/// Puts a new secret beside the newest of the old ones, which works until `end` if that lies ahead. All others go: two
/// secrets are enough for a rotation, and rotating again and again must not pile them up. A public client stays as it is.
fn replace_secret(client: &mut Client, fresh: ClientSecret, end: UnixTime) {
    if client.is_public() {
        return;
    }
    let now = fresh.created_at;
    let newest = client.secrets.pop().map(|old| {
        let expires_at = old.expires_at.map_or(end, |earlier| earlier.min(end));
        ClientSecret { expires_at: Some(expires_at), ..old }
    });
    client.secrets = newest.into_iter().filter(|old| old.expires_at.is_some_and(|end| now < end)).collect();
    client.secrets.push(fresh);
}

async fn disable(directory: &Directory<'_>, id: &ClientId) -> Result<Answer, CommandError> {
    // The state first: a client that is still enabled could get new grants while the old ones are being ended.
    let now = directory.clock.now();
    let decision = ClientDecision { by: directory.authority, at: now };
    let changed = directory.store.change_client(id, |client| client.disable(decision)).await?;
    let client = changed.ok_or_else(|| absent(id))?;
    record_change(directory, id, "disable").await;
    let ended = directory.store.end_grants_of_client(id, EndReason::Administrator, now).await?;
    Ok(view::client(&client).with("grants_ended", ended))
}

async fn enable(directory: &Directory<'_>, id: &ClientId) -> Result<Answer, CommandError> {
    let authority = directory.authority;
    let changed = directory.store.change_client(id, |client| client.enable(authority)).await?;
    let client = changed.ok_or_else(|| absent(id))?;
    if !client.is_enabled() {
        return Err(CommandError::Forbidden(format!("an administrator disabled the client {id}")));
    }
    record_change(directory, id, "enable").await;
    Ok(view::client(&client))
}

/// Vouches for a client that somebody else made, or takes that back.
async fn approve(directory: &Directory<'_>, id: &ClientId, approved: bool) -> Result<Answer, CommandError> {
    let by = directory.authority;
    if !by.is_administrative() {
        return Err(CommandError::Forbidden("only an administrator approves a client".to_owned()));
    }
    if find(directory, id).await?.is_operators_own() {
        return Err(CommandError::invalid(format!(
            "an operator made the client {id}, so it needs no approval; to end what it may do, disable it"
        )));
    }
    let approval = approved.then(|| ClientDecision { by, at: directory.clock.now() });
    let changed = directory.store.change_client(id, |client| client.approval = approval).await?;
    let client = changed.ok_or_else(|| absent(id))?;
    record_change(directory, id, if approved { "approve" } else { "withdraw approval" }).await;
    Ok(view::client(&client))
}

pub(super) async fn record_change(directory: &Directory<'_>, id: &ClientId, said: &str) {
    directory.record(directory.event(AuditKind::ClientChanged).with_client(id).with_detail(said)).await;
}

async fn delete(directory: &Directory<'_>, id: &ClientId) -> Result<Answer, CommandError> {
    if !directory.store.delete_client(id, directory.clock.now()).await? {
        return Err(absent(id));
    }
    directory.record(directory.event(AuditKind::ClientDeleted).with_client(id)).await;
    Ok(view::object(json!({ "client_id": id, "deleted": true })))
}

async fn initial_token(directory: &Directory<'_>, lifetime_seconds: u64) -> Result<Answer, CommandError> {
    if !(1..=LONGEST_WAIT).contains(&lifetime_seconds) {
        return Err(CommandError::invalid(format!(
            "an initial access token works for 1 to {LONGEST_WAIT} seconds (90 days)"
        )));
    }
    let token = fresh_secret(directory);
    let expires_at = directory.clock.now().plus(Duration::from_secs(lifetime_seconds));
    directory.store.add_initial_token(&token.hash(), expires_at).await?;
    tracing::info!("an operator made an initial access token");
    Ok(view::object(json!({ "expires_at": expires_at })).with("initial_access_token", token.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::client::ConsentRule;

    fn client(secrets: Vec<ClientSecret>) -> Client {
        Client {
            id: ClientId::parse("c1").unwrap(),
            name: "c1".into(),
            client_type: ClientType::Confidential,
            auth_method: AuthMethod::ClientSecretBasic,
            secrets,
            redirect_uris: Vec::new(),
            post_logout_redirect_uris: Vec::new(),
            scope: Scope::all(),
            grant_types: Vec::new(),
            consent: ConsentRule::Ask,
            state: ClientState::Enabled,
            created_at: UnixTime::from_seconds(0),
            incarnation: 0,
            details: ClientDetails::default(),
            owner: None,
            registration: None,
            refresh_retry_seconds: None,
            token_limit: None,
            approval: None,
            disabled: None,
        }
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    #[test]
    fn the_secret_before_works_until_the_overlap_ends() {
        let (old, new) = (Secret::new("old"), Secret::new("new"));
        let mut client = client(vec![kept(&old, at(0))]);
        replace_secret(&mut client, kept(&new, at(100)), at(160));
        assert!(client.knows(&old, at(159)) && !client.knows(&old, at(160)));
        assert!(client.knows(&new, at(100)) && client.knows(&new, at(1_000_000)));
    }

    #[test]
    fn without_an_overlap_the_old_secret_is_gone() {
        let mut client = client(vec![kept(&Secret::new("old"), at(0))]);
        replace_secret(&mut client, kept(&Secret::new("new"), at(100)), at(100));
        assert_eq!(client.secrets.len(), 1);
        assert!(!client.knows(&Secret::new("old"), at(100)));
    }

    #[test]
    fn secrets_do_not_pile_up_and_no_rotation_lengthens_a_life() {
        let secrets = ["a", "b", "c"].map(Secret::new);
        let mut client = client(vec![kept(&secrets[0], at(0))]);
        replace_secret(&mut client, kept(&secrets[1], at(10)), at(20));
        replace_secret(&mut client, kept(&secrets[2], at(11)), at(1000));
        assert_eq!(client.secrets.len(), 2);
        assert!(!client.knows(&secrets[0], at(11)));
        assert!(client.knows(&secrets[1], at(999)) && client.knows(&secrets[2], at(999)));
    }

    #[test]
    fn a_type_and_a_method_that_contradict_each_other_are_refused() {
        use {AuthMethod as Method, ClientType as Type};
        assert_eq!(auth_method(Type::Public, None), Ok(Method::None));
        assert_eq!(auth_method(Type::Confidential, None), Ok(Method::ClientSecretBasic));
        assert_eq!(auth_method(Type::Confidential, Some(Method::ClientSecretPost)), Ok(Method::ClientSecretPost));
        assert!(auth_method(Type::Public, Some(Method::ClientSecretBasic)).is_err());
        assert!(auth_method(Type::Confidential, Some(Method::None)).is_err());
    }
}
