//! Commands about clients.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::answer::{Answer, ClientAnswer, EndedAnswer, ListPage, Rows, SecretTimes, ShownSecret};
use super::arguments::{SecretExpiry, Setting};
use super::client_settings::{
    ClientSettings, NewClient, SettingsInput, assertion_source, check_algorithm, check_introspection, check_service,
    client_secret, introspection, service_groups, services, uris, visible_groups,
};
use super::command::{ClientCommand, SecretCommand};
use super::context::{CommandContext, CommandError, PAGE, cursor};
use crate::{registration_tokens, users};
use sealgate_domain::assertion_source::AssertionSource;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::{
    AuthMethod, Authority, Client, ClientDecision, ClientDetails, ClientId, ClientSecret, ClientState, GrantType,
    MAX_SECRETS, SecretsFull,
};
use sealgate_domain::client_logout::BackchannelLogout;
use sealgate_domain::client_rules;
use sealgate_domain::grant::EndReason;
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::oauth::introspection::IntrospectionAccess;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::Secret;
use sealgate_domain::service::ServiceAccess;
use sealgate_domain::shown_client::{ClientPart, ShownClient};
use sealgate_domain::user::Subject;
use sealgate_store::{AddOutcome, StoreError};
use sealgate_system::clock::random;

/// Maximum overlap of an old secret, in seconds: 90 days.
const MAX_LIFETIME_SECONDS: u64 = 90 * 24 * 60 * 60;

pub(super) async fn execute(context: &CommandContext<'_>, command: ClientCommand) -> Result<Answer, CommandError> {
    match run(context, command).await {
        Err(CommandError::Store(StoreError::DefinedClient(id))) => {
            let file = context.config_file.map_or("the configuration file".into(), |file| file.display().to_string());
            Err(CommandError::Forbidden(format!(
                "the client {id} is defined in {file}; change its [[client]] there and run: sealgate reload"
            )))
        }
        done => done,
    }
}

async fn run(context: &CommandContext<'_>, command: ClientCommand) -> Result<Answer, CommandError> {
    match command {
        ClientCommand::Add(new) => add(context, *new).await,
        ClientCommand::List { after } => list(context, cursor(after.as_deref(), ClientId::parse)?.as_ref()).await,
        ClientCommand::Show(id) => Ok(ClientAnswer::from(&find(context, &id).await?).into()),
        ClientCommand::RotateSecret { client, overlap_seconds } => {
            rotate_secret(context, &client, overlap_seconds).await
        }
        ClientCommand::Secret(command) => secret(context, command).await,
        ClientCommand::Disable(id) => disable(context, &id).await,
        ClientCommand::Enable(id) => enable(context, &id).await,
        ClientCommand::Approve(id) => Ok(ClientAnswer::from(&approve(context, &id, true, None).await?.0).into()),
        ClientCommand::RevokeApproval(id) => {
            Ok(ClientAnswer::from(&approve(context, &id, false, None).await?.0).into())
        }
        ClientCommand::Set { client, settings } => set(context, &client, &settings).await,
        ClientCommand::Delete(id) => delete(context, &id).await,
        ClientCommand::GenerateToken { name, lifetime_seconds, registrations } => {
            registration_tokens::generate(context, name, lifetime_seconds, registrations).await
        }
        ClientCommand::ListTokens => registration_tokens::list(context).await,
        ClientCommand::RevokeToken { id } => registration_tokens::revoke(context, &id).await,
        // The command line executes this command itself, without a server.
        ClientCommand::HashSecret => Err(CommandError::invalid("a server does not hash secrets of clients")),
    }
}

async fn add(context: &CommandContext<'_>, new: NewClient) -> Result<Answer, CommandError> {
    let checked = check(&new, context)?;
    let now = context.clock.now();
    let has_secret = !matches!(checked.auth_method, AuthMethod::None | AuthMethod::PrivateKeyJwt);
    let secret = has_secret.then(|| fresh_secret(context));
    let mut client = Client {
        id: new.id,
        name: new.name,
        client_type: new.client_type,
        auth_method: checked.auth_method,
        secrets: secret.iter().map(|secret| client_secret(secret, now)).collect(),
        assertion_source: checked.assertion_source,
        redirect_uris: checked.redirect_uris,
        post_logout_redirect_uris: checked.post_logout_redirect_uris,
        scope: checked.scope,
        grant_types: checked.grant_types,
        consent: new.consent,
        state: ClientState::Enabled,
        created_at: now,
        incarnation: u32::from_be_bytes(random(context.entropy)),
        details: ClientDetails {
            default_scope: checked.default_scope,
            id_token_signed_response_alg: new.id_token_alg.filter(|algorithm| *algorithm != Algorithm::Rs256),
            ..ClientDetails::default()
        },
        owner: None,
        registration: None,
        refresh_retry_seconds: new.refresh_retry_seconds,
        token_limit: new.token_limit,
        level: new.level,
        service: checked.service,
        logo: None,
        visible_groups: checked.visible_groups,
        backchannel_logout: checked.backchannel_logout,
        introspection: checked.introspection,
        approval: None,
        disabled: None,
        from_configuration: false,
    };
    if let Some(settings) = &new.settings {
        let owner = owner_of(context, settings).await?;
        let input = settings_input(context, client_secret(&fresh_secret(context), now), owner);
        settings.apply(&mut client, &input).map_err(CommandError::Invalid)?;
    }
    match context.store.add_client(&client).await? {
        AddOutcome::Added => {}
        AddOutcome::Exists => {
            return Err(CommandError::Exists(format!("a client with the ID {} already exists", client.id)));
        }
    }
    context.record(context.event(AuditKind::ClientRegistered).with_client(&client.id)).await;
    Ok(ClientAnswer { client_secret: secret.map(ShownSecret), ..ClientAnswer::from(&client) }.into())
}

/// Parsed values of a new client.
struct ParsedClient {
    auth_method: AuthMethod,
    assertion_source: Option<AssertionSource>,
    redirect_uris: Vec<RedirectUri>,
    post_logout_redirect_uris: Vec<RedirectUri>,
    scope: Scope,
    default_scope: Option<Scope>,
    grant_types: Vec<GrantType>,
    service: Option<ServiceAccess>,
    visible_groups: GroupFilter,
    backchannel_logout: Option<BackchannelLogout>,
    introspection: Option<IntrospectionAccess>,
}

/// Parses the values of a new client and reports every error at once.
fn check(new: &NewClient, context: &CommandContext<'_>) -> Result<ParsedClient, CommandError> {
    let CommandContext { apps, algorithms, trusted_issuers, .. } = *context;
    let mut faults = Vec::new();
    faults.extend(client_rules::check_id(&new.id).err());
    faults.extend(client_rules::check_name(&new.name).err());
    if new.redirect_uris.is_empty() && new.services.is_empty() {
        faults.push(client_rules::NO_REDIRECT_URI.to_owned());
    }
    let redirect_uris = uris("redirect URI", &new.redirect_uris, &mut faults);
    let post_logout_redirect_uris = uris("post-logout redirect URI", &new.post_logout_redirect_uris, &mut faults);
    let scope = if new.scopes.is_empty() { Ok(Scope::all()) } else { client_rules::scope(&new.scopes.join(" ")) };
    let scope = scope.unwrap_or_else(|fault| {
        faults.push(fault);
        Scope::EMPTY
    });
    let default_scope = new.default_scope.as_deref().map(|text| client_rules::default_scope(text, scope));
    let default_scope = default_scope.transpose().unwrap_or_else(|fault| {
        faults.push(fault);
        None
    });
    let source = (new.jwks.as_ref(), new.jwks_uri.as_deref(), new.workload.as_ref());
    let assertion_source = assertion_source(source, trusted_issuers, &mut faults);
    // The keys imply the method.
    let requested = new.auth_method.or(assertion_source.as_ref().map(|_| AuthMethod::PrivateKeyJwt));
    let auth_method = match client_rules::auth_method(new.client_type, requested) {
        Ok(method) => {
            let problem = client_rules::check_assertion_source(method, assertion_source.as_ref(), true).err();
            faults.extend(problem.map(str::to_owned));
            method
        }
        Err(fault) => {
            faults.push(fault);
            AuthMethod::None
        }
    };
    faults.extend(client_rules::check_refresh_retry(new.refresh_retry_seconds).err());
    faults.extend(new.id_token_alg.and_then(|algorithm| check_algorithm(algorithm, algorithms).err()));
    let service = ServiceAccess {
        apps: services(&new.services, &mut faults),
        groups: service_groups(&new.service_groups, &mut faults),
    };
    let service = Some(service).filter(|_| !new.services.is_empty());
    if let Some(service) = &service {
        check_service(&new.id, new.client_type, service, apps, &mut faults);
    }
    let visible_groups = visible_groups(&new.visible_groups, &mut faults);
    let logout_uri = new
        .backchannel_logout_uri
        .as_deref()
        .and_then(|text| client_rules::logout_uri(text).map_err(|fault| faults.push(fault)).ok());
    let session_required = new.backchannel_logout_session_required;
    let introspection = new.introspection.then(|| introspection(&new.introspection_apps));
    if let Some(access) = &introspection {
        check_introspection(new.client_type, access, apps, &mut faults);
    }
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    // Without a redirect URI, there are no codes.
    let grant_types =
        if redirect_uris.is_empty() { Vec::new() } else { vec![GrantType::AuthorizationCode, GrantType::RefreshToken] };
    Ok(ParsedClient {
        auth_method,
        assertion_source,
        redirect_uris,
        post_logout_redirect_uris,
        scope,
        default_scope,
        grant_types,
        service,
        visible_groups,
        backchannel_logout: logout_uri.map(|uri| BackchannelLogout { uri, session_required }),
        introspection,
    })
}

fn fresh_secret(context: &CommandContext<'_>) -> Secret {
    Secret::from_random(&random::<32>(context.entropy))
}

async fn list(context: &CommandContext<'_>, after: Option<&ClientId>) -> Result<Answer, CommandError> {
    let clients = context.store.clients(after, PAGE).await?;
    let next = clients.last().filter(|_| clients.len() == PAGE).map(|client| client.id.clone());
    Ok(ListPage::answer(Rows::Clients(clients.iter().map(ClientAnswer::from).collect()), next))
}

async fn find(context: &CommandContext<'_>, id: &ClientId) -> Result<Client, CommandError> {
    context.store.client(id).await?.ok_or_else(|| absent(id))
}

fn absent(id: &ClientId) -> CommandError {
    CommandError::Absent(format!("no client has the ID {id}"))
}

/// Returns whether the sender may change this client. Another request may have given a developer's
/// client to another user since the sender's page was checked.
fn may_change(context: &CommandContext<'_>, client: &Client) -> bool {
    match context.authority {
        Authority::Owner(subject) => client.owner == Some(subject),
        Authority::Administrator(_) | Authority::Operator => true,
    }
}

async fn record_change(context: &CommandContext<'_>, id: &ClientId, detail: &str) {
    context.record(context.event(AuditKind::ClientChanged).with_client(id).with_detail(detail)).await;
}

/// Returns the new owner that the settings name.
async fn owner_of(context: &CommandContext<'_>, settings: &ClientSettings) -> Result<Option<Subject>, CommandError> {
    match settings.owner.as_ref().and_then(Setting::value) {
        Some(user) => Ok(Some(users::find(context, user).await?.sub)),
        None => Ok(None),
    }
}

fn settings_input<'a>(context: &CommandContext<'a>, secret: ClientSecret, owner: Option<Subject>) -> SettingsInput<'a> {
    SettingsInput {
        algorithms: context.algorithms,
        apps: context.apps,
        trusted_issuers: context.trusted_issuers,
        decision: ClientDecision { by: context.authority, at: secret.created_at },
        secret,
        owner,
    }
}

async fn set(context: &CommandContext<'_>, id: &ClientId, settings: &ClientSettings) -> Result<Answer, CommandError> {
    let owner = owner_of(context, settings).await?;
    let secret = fresh_secret(context);
    let means = settings_input(context, client_secret(&secret, context.clock.now()), owner);
    let outcome = Mutex::new(None);
    let change = |client: &mut Client| {
        let mut next = client.clone();
        if !may_change(context, client) {
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return;
        }
        let changed = settings.apply(&mut next, &means).map(|()| {
            // A developer cannot approve what users would see.
            let loses = !context.authority.is_administrative() && next.revoke_approval_if_changed(client);
            let lost = loses.then_some("approval lost");
            client_rules::changes(client, &next).into_iter().chain(lost).collect::<Vec<_>>()
        });
        if changed.is_ok() {
            *client = next;
        }
        // The store may call this closure several times. The last call is committed.
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(changed);
    };
    let changed = context.store.change_client_with(id, settings.picture(), change).await?;
    let client = changed.ok_or_else(|| absent(id))?;
    let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    let changed = outcome.ok_or_else(|| absent(id))?.map_err(CommandError::Invalid)?;
    if !changed.is_empty() {
        record_change(context, id, &format!("set {}", changed.join(", "))).await;
    }
    let is_new = client.secrets.iter().any(|one| one.hash == means.secret.hash);
    Ok(ClientAnswer { client_secret: is_new.then_some(ShownSecret(secret)), ..ClientAnswer::from(&client) }.into())
}

async fn rotate_secret(
    context: &CommandContext<'_>,
    id: &ClientId,
    overlap_seconds: u64,
) -> Result<Answer, CommandError> {
    if overlap_seconds > MAX_LIFETIME_SECONDS {
        return Err(CommandError::invalid(format!(
            "two secrets overlap for at most {MAX_LIFETIME_SECONDS} seconds (90 days)"
        )));
    }
    let now = context.clock.now();
    let secret = fresh_secret(context);
    let end = now.plus(Duration::from_secs(overlap_seconds));
    let fresh = client_secret(&secret, now);
    let client = change_secrets(context, id, |client| client.rotate_secret(fresh.clone(), end)).await?;
    record_change(context, id, &format!("rotate_secret overlap {overlap_seconds}")).await;
    Ok(ClientAnswer { client_secret: Some(ShownSecret(secret)), ..ClientAnswer::from(&client) }.into())
}

async fn secret(context: &CommandContext<'_>, command: SecretCommand) -> Result<Answer, CommandError> {
    match command {
        SecretCommand::Add { client, expires } => add_secret(context, &client, expires).await,
        SecretCommand::List(id) => {
            let client = find(context, &id).await?;
            let secrets = client.secrets.iter().map(SecretTimes::from).collect();
            Ok(ListPage::answer(Rows::Secrets(secrets), None::<String>))
        }
        SecretCommand::Remove { client, secret } => remove_secret(context, &client, &secret).await,
    }
}

async fn add_secret(
    context: &CommandContext<'_>,
    id: &ClientId,
    expires: Option<SecretExpiry>,
) -> Result<Answer, CommandError> {
    let now = context.clock.now();
    let expires_at = expires.map(|expiry| match expiry {
        SecretExpiry::At(at) => at,
        SecretExpiry::In(seconds) => now.plus(Duration::from_secs(seconds)),
    });
    if expires_at.is_some_and(|at| at <= now) {
        return Err(CommandError::invalid("a new secret must expire in the future"));
    }
    let secret = fresh_secret(context);
    let fresh = ClientSecret { expires_at, ..client_secret(&secret, now) };
    let client = change_secrets(context, id, |client| client.add_secret(fresh.clone())).await?;
    record_change(context, id, &format!("add_secret {}", fresh.id())).await;
    Ok(ClientAnswer { client_secret: Some(ShownSecret(secret)), ..ClientAnswer::from(&client) }.into())
}

async fn remove_secret(context: &CommandContext<'_>, id: &ClientId, secret: &str) -> Result<Answer, CommandError> {
    let now = context.clock.now();
    let outcome = Mutex::new(Ok(()));
    let change = |client: &mut Client| {
        let mut next = client.clone();
        if !may_change(context, client) {
            return;
        }
        let removed = if !next.remove_secret(secret) {
            let see = format!("; see: sealgate client secret list {id}");
            let see = context.advice(&see, "");
            Err(CommandError::Absent(format!("the client {id} has no secret {secret}{see}")))
        } else if next.working_secrets(now).next().is_none() && client.working_secrets(now).next().is_some() {
            Err(CommandError::invalid(format!(
                "this is the only valid secret of the client {id}; add another one first, or disable the client"
            )))
        } else {
            *client = next;
            Ok(())
        };
        // The store may call this closure several times. The last call is committed.
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = removed;
    };
    let changed = context.store.change_client(id, change).await?;
    let client = changed.filter(|client| may_change(context, client)).ok_or_else(|| absent(id))?;
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    record_change(context, id, &format!("remove_secret {secret}")).await;
    Ok(ClientAnswer::from(&client).into())
}

/// Changes the secrets of a confidential client.
async fn change_secrets(
    context: &CommandContext<'_>,
    id: &ClientId,
    change: impl Fn(&mut Client) -> Result<(), SecretsFull> + Send + Sync,
) -> Result<Client, CommandError> {
    let outcome = Mutex::new(Ok(()));
    let change = |client: &mut Client| {
        if !client.is_public() && !client.uses_assertions() && may_change(context, client) {
            // The store may call this closure several times. The last call is committed.
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = change(client);
        }
    };
    let changed = context.store.change_client(id, change).await?;
    let client = changed.filter(|client| may_change(context, client)).ok_or_else(|| absent(id))?;
    if client.is_public() {
        return Err(CommandError::invalid(format!("the client {id} is public and has no secret")));
    }
    if client.uses_assertions() {
        return Err(CommandError::invalid(format!(
            "the client {id} authenticates with private_key_jwt and has no secret; to use a secret instead, run: \
             sealgate client set {id} --auth-method client_secret_basic"
        )));
    }
    if let Err(SecretsFull { until }) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let until = until.map(|until| format!(", the first one until {until}")).unwrap_or_default();
        return Err(CommandError::invalid(format!(
            "the client {id} has {MAX_SECRETS} valid secrets{until}; wait, remove one with client secret remove, or \
             replace all of them with client rotate-secret --overlap-seconds 0"
        )));
    }
    Ok(client)
}

async fn disable(context: &CommandContext<'_>, id: &ClientId) -> Result<Answer, CommandError> {
    // Disable first: an enabled client could get new grants while the old ones are being revoked.
    let now = context.clock.now();
    let decision = ClientDecision { by: context.authority, at: now };
    let change = |client: &mut Client| {
        if may_change(context, client) {
            client.disable(decision);
        }
    };
    let changed = context.store.change_client(id, change).await?;
    let client = changed.filter(|client| may_change(context, client)).ok_or_else(|| absent(id))?;
    record_change(context, id, "disable").await;
    let ended = context.store.end_grants_of_client(id, EndReason::Administrator, now).await?;
    Ok(ClientAnswer { grants_ended: Some(ended), ..ClientAnswer::from(&client) }.into())
}

async fn enable(context: &CommandContext<'_>, id: &ClientId) -> Result<Answer, CommandError> {
    let authority = context.authority;
    let change = |client: &mut Client| {
        if may_change(context, client) {
            client.enable(authority);
        }
    };
    let changed = context.store.change_client(id, change).await?;
    let client = changed.filter(|client| may_change(context, client)).ok_or_else(|| absent(id))?;
    if !client.is_enabled() {
        return Err(CommandError::Forbidden(format!("an administrator disabled the client {id}")));
    }
    record_change(context, id, "enable").await;
    Ok(ClientAnswer::from(&client).into())
}

/// Approves a client as a page has shown it.
///
/// Returns the parts that have changed since. If there are any, the client is not approved.
///
/// # Errors
/// As `sealgate client approve`.
pub async fn approve_client(
    context: &CommandContext<'_>,
    id: &ClientId,
    seen: &ShownClient,
) -> Result<Vec<ClientPart>, CommandError> {
    Ok(approve(context, id, true, Some(seen)).await?.1)
}

/// Approves a client that the operator did not create, or revokes the approval. Returns the client,
/// and the parts that differ from `seen`. If there are any, nothing was changed.
async fn approve(
    context: &CommandContext<'_>,
    id: &ClientId,
    approved: bool,
    seen: Option<&ShownClient>,
) -> Result<(Client, Vec<ClientPart>), CommandError> {
    let by = context.authority;
    if !by.is_administrative() {
        return Err(CommandError::Forbidden("only an administrator can approve a client".to_owned()));
    }
    let client = find(context, id).await?;
    if client.is_operators_own() && !client.from_configuration {
        return Err(CommandError::invalid(format!(
            "an operator created the client {id}, so it needs no approval; to revoke its access, disable it"
        )));
    }
    let approval = approved.then(|| ClientDecision { by, at: context.clock.now() });
    let differences = Mutex::new(Vec::new());
    let change = |client: &mut Client| {
        let changed = seen.map(|seen| seen.changes(client)).unwrap_or_default();
        if changed.is_empty() {
            client.approval = approval;
        }
        // The store may call this closure several times. The last call is committed.
        *differences.lock().unwrap_or_else(PoisonError::into_inner) = changed;
    };
    let client = context.store.change_client(id, change).await?.ok_or_else(|| absent(id))?;
    let differences = differences.into_inner().unwrap_or_else(PoisonError::into_inner);
    if differences.is_empty() {
        record_change(context, id, if approved { "approve" } else { "revoke approval" }).await;
    }
    Ok((client, differences))
}

async fn delete(context: &CommandContext<'_>, id: &ClientId) -> Result<Answer, CommandError> {
    let may_delete = |client: &Client| may_change(context, client);
    if !context.store.delete_client_if(id, context.clock.now(), may_delete).await? {
        return Err(absent(id));
    }
    context.record(context.event(AuditKind::ClientDeleted).with_client(id)).await;
    Ok(EndedAnswer { client_id: Some(id.clone()), deleted: Some(true), ..EndedAnswer::from(()) }.into())
}
