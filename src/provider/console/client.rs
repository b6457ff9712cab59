//! `/console/clients/{client_id}`: settings, secrets and deletion of one client.

use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, StatusCode};

use super::confirmation::Target;
use super::form::own_redirect_uri;
use super::{confirmation, form, kept_form};
use crate::console::{ConsoleUser, last_segment};
use crate::submission::{Effect, ShownResult};
use crate::{submission, visitor};
use sealgate_admin as admin;
use sealgate_admin::answer::ShownSecret;
use sealgate_admin::arguments::SecretExpiry;
use sealgate_admin::client_settings::ClientSettings;
use sealgate_admin::command::{ClientCommand, Command, SecretCommand};
use sealgate_admin::{Answer, CommandContext, CommandError};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assertion_source::{AssertionSource, ClientJwks};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::{Client, ClientId, MAX_SECRETS};
use sealgate_domain::client_rules;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::Secret;
use sealgate_pages::console::{ClientForm, ClientPage, ClientRefusal};
use sealgate_pages::{Done, Problem, html};

/// Times for which the previous secret can stay valid, in seconds. The form offers these choices.
const OVERLAPS: [u64; 4] = [0, 3600, 86_400, 604_800];

/// Lifetimes of a further secret, in days. The form offers these choices; 0 is unlimited.
const LIFETIMES: [u64; 4] = [0, 90, 180, 365];

pub(super) async fn client_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let client = console_user.client(ctx, ClientId::from_path_segment(last_segment(ctx))).await?;
    if ctx.head.method != Method::POST {
        if let Some(form) = kept_form::take(ctx, console_user, &page_of(&client.id)).await? {
            return resume(ctx, console_user, &client, &form);
        }
        let result = submission::take_result(ctx, &console_user.visitor, &page_of(&client.id)).await?;
        return Ok(show(ctx, console_user, &client, &ClientNotes { result: Some(&result), ..ClientNotes::default() }));
    }
    let form = console_user.form(ctx)?;
    if client.from_configuration {
        // The user loaded the page before the configuration file defined the client. The page of a
        // client from the configuration has no forms.
        let notes = ClientNotes { refused: Some(ClientRefusal::DefinedInFile), ..ClientNotes::default() };
        return Ok(show(ctx, console_user, &client, &notes));
    }
    let id = client.id.clone();
    let action = form.one("action")?;
    if action == Some("set-keys")
        && let Some(page) = refused_keys(ctx, console_user, &client, &form)?
    {
        return Ok(page);
    }
    if let Some(change) = action.and_then(confirmation::of_client_action)
        && let Some(page) =
            confirmation::ask(ctx, console_user, &form, change, &Target::client(&client, page_of(&client.id))).await?
    {
        return Ok(page);
    }
    match action {
        Some("save") => save(ctx, console_user, &client, &form).await,
        Some("rotate") => rotate(ctx, console_user, &client, &form).await,
        Some("add-secret") => add_secret(ctx, console_user, &client, &form).await,
        Some("remove-secret") => remove_secret(ctx, console_user, &client, &form).await,
        Some("set-keys") => set_keys(ctx, console_user, &client, &form).await,
        Some("use-secret") => use_secret(ctx, console_user, &client, &form).await,
        Some("disable") => command(ctx, console_user, ClientCommand::Disable(id.into()), Done::ClientState).await,
        Some("enable") => command(ctx, console_user, ClientCommand::Enable(id.into()), Done::ClientState).await,
        Some("approve") => command(ctx, console_user, ClientCommand::Approve(id.into()), Done::ClientState).await,
        Some("revoke-approval") => {
            command(ctx, console_user, ClientCommand::RevokeApproval(id.into()), Done::ClientState).await
        }
        Some("level") => set_level(ctx, console_user, id, &form).await,
        Some("logout") => set_logout(ctx, console_user, &client, &form).await,
        Some("delete") => command(ctx, console_user, ClientCommand::Delete(id.into()), Done::ClientDeleted).await,
        _ => Err(Failure::page(Problem::InvalidRequest)),
    }
}

/// Shows a form that was kept while the user signed in again.
///
/// The page asks for the confirmation of a guarded change, or shows the typed values.
fn resume(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let (action, notes) = (form.one("action")?, ClientNotes::default());
    if let Some(change) = action.and_then(confirmation::of_client_action) {
        let target = Target::client(client, page_of(&client.id));
        return Ok(confirmation::page(ctx, console_user, form, change, &target));
    }
    Ok(match action {
        Some("save") => page(ctx, console_user, client, &form::read(form, Some(client.client_type))?, &notes),
        _ => show(ctx, console_user, client, &notes),
    })
}

async fn save(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let typed = form::read(form, Some(client.client_type))?;
    let checked = match form::check(&typed, |uri| console_user.may_register(ctx, uri, Some(client))) {
        Ok(checked) => checked,
        Err(faults) => {
            return Ok(page(ctx, console_user, client, &ClientForm { faults, ..typed }, &ClientNotes::default()));
        }
    };
    let own = own_redirect_uri(ctx);
    let lapsed = AtomicBool::new(false);
    let change = |client: &mut Client| {
        let before = client.clone();
        checked.replace(client, &own);
        let loses = !console_user.is_administrator() && client.revoke_approval_if_changed(&before);
        lapsed.store(loses, Ordering::Relaxed);
    };
    let changed = ctx.sealgate.store.change_client(&client.id, change).await?;
    changed.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    let detail = if lapsed.into_inner() { "settings, approval lost" } else { "settings" };
    let event = console_user.event(ctx, AuditKind::ClientChanged).with_client(&client.id).with_detail(detail);
    ctx.sealgate.audit.note(event);
    Ok(Response::see_other(&visitor::done(ctx, &page_of(&client.id), Done::Client)))
}

async fn rotate(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let requested_seconds = form.one("overlap_seconds")?.and_then(|text| text.parse().ok());
    let overlap_seconds =
        requested_seconds.filter(|seconds| OVERLAPS.contains(seconds)).ok_or(Failure::page(Problem::InvalidRequest))?;
    if client.is_public() {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let rotate = ClientCommand::RotateSecret { client: client.id.clone().into(), overlap_seconds };
    with_new_secret(ctx, console_user, client, form, rotate, overlap_seconds > 0).await
}

/// Returns the page with the reason why the client gets no further secret, if there is one.
fn full_of_secrets(ctx: &RequestContext<'_>, console_user: &ConsoleUser, client: &Client) -> Option<Response> {
    let notes = ClientNotes { refused: Some(ClientRefusal::TooManySecrets), ..ClientNotes::default() };
    (client.working_secrets(ctx.now).count() >= MAX_SECRETS).then(|| show(ctx, console_user, client, &notes))
}

/// Executes a command that creates a secret. The next page shows the secret once. `is_further` is whether
/// the secret is valid beside the others, so that their number is limited.
async fn with_new_secret(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
    command: ClientCommand,
    is_further: bool,
) -> Result<Response, Failure> {
    let work = Box::pin(async {
        if is_further && let Some(page) = full_of_secrets(ctx, console_user, client) {
            return Ok(Effect::Refused(page));
        }
        let Answer::Client(changed) = execute(ctx, console_user, Command::Client(command)).await? else {
            return Err(Failure::Internal);
        };
        let ShownSecret(secret) = changed.client_secret.ok_or(Failure::Internal)?;
        Ok(Effect::Done { page: page_of(&client.id), secret: Some(secret) })
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

async fn add_secret(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let days = form.one("lifetime_days")?.and_then(|text| text.parse().ok());
    let days: u64 = days.filter(|days| LIFETIMES.contains(days)).ok_or(Failure::page(Problem::InvalidRequest))?;
    let expires = (days > 0).then_some(SecretExpiry::In(days * 86_400));
    let add = SecretCommand::Add { client: client.id.clone().into(), expires };
    with_new_secret(ctx, console_user, client, form, ClientCommand::Secret(add), true).await
}

async fn remove_secret(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let secret = form.one("secret")?.ok_or(Failure::page(Problem::InvalidRequest))?.to_owned();
    let remove = SecretCommand::Remove { client: client.id.clone().into(), secret };
    command(ctx, console_user, ClientCommand::Secret(remove), Done::Client).await
}

/// Returns the page with the reason why the typed keys cannot be used, if there is one.
fn refused_keys(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Option<Response>, Failure> {
    let typed = form.one("jwks")?.unwrap_or_default();
    if ClientJwks::parse(typed).is_ok() {
        return Ok(None);
    }
    let refused = Some(ClientRefusal::UnusableKeys);
    let notes = ClientNotes { refused, typed_keys: Some(typed), ..ClientNotes::default() };
    Ok(Some(show(ctx, console_user, client, &notes)))
}

/// Replaces the client's secrets, or its earlier keys, by public keys.
async fn set_keys(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let invalid = Failure::page(Problem::InvalidRequest);
    let Ok(jwks) = ClientJwks::parse(form.one("jwks")?.unwrap_or_default()) else { return Err(invalid) };
    if client.is_public() {
        return Err(invalid);
    }
    let settings = Box::new(ClientSettings::of_jwks(jwks));
    command(ctx, console_user, ClientCommand::Set { client: client.id.clone().into(), settings }, Done::Client).await
}

/// Replaces the client's public keys by a secret.
async fn use_secret(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    if !client.uses_assertions() {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let settings = Box::new(ClientSettings::of_secret());
    let set = ClientCommand::Set { client: client.id.clone().into(), settings };
    with_new_secret(ctx, console_user, client, form, set, false).await
}

/// Sets the level that users must reach to use the client.
///
/// Only an administrator may set the level, so that the client's developer cannot lower it.
async fn set_level(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: ClientId,
    form: &Params,
) -> Result<Response, Failure> {
    if !console_user.is_administrator() {
        return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
    }
    let chosen = form.one("level")?.and_then(AssuranceLevel::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    let level = Some(chosen).filter(|level| *level > AssuranceLevel::One);
    let settings = Box::new(ClientSettings::of_level(level));
    command(ctx, console_user, ClientCommand::Set { client: client.into(), settings }, Done::Client).await
}

/// Sets where the client receives logout tokens.
///
/// Only an administrator may set it, because the server sends requests to this URI.
async fn set_logout(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    if !console_user.is_administrator() {
        return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
    }
    let uri = form.one("backchannel_logout_uri")?.map(str::trim).filter(|uri| !uri.is_empty());
    if uri.is_some_and(|uri| client_rules::logout_uri(uri).is_err()) {
        let notes = ClientNotes { refused: Some(ClientRefusal::LogoutUri), ..ClientNotes::default() };
        return Ok(show(ctx, console_user, client, &notes));
    }
    let session_required = form.has("backchannel_logout_session_required");
    let settings = Box::new(ClientSettings::of_backchannel_logout(uri.map(str::to_owned), session_required));
    command(ctx, console_user, ClientCommand::Set { client: client.id.clone().into(), settings }, Done::Client).await
}

async fn command(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    command: ClientCommand,
    done: Done,
) -> Result<Response, Failure> {
    execute(ctx, console_user, Command::Client(command)).await?;
    let page = match done {
        Done::ClientDeleted => "/console/clients".to_owned(),
        _ => format!("/console/clients/{}", last_segment(ctx)),
    };
    Ok(Response::see_other(&visitor::done(ctx, &page, done)))
}

/// Executes an administrative command. The console and the command line share the implementation of
/// the commands.
pub(super) async fn execute(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    command: Command,
) -> Result<Answer, Failure> {
    let context = command_context(ctx, console_user);
    admin::execute(&context, command).await.map_err(failure_of)
}

/// Returns the context of a command of this user.
pub(super) fn command_context<'c>(ctx: &'c RequestContext<'_>, console_user: &ConsoleUser) -> CommandContext<'c> {
    let origin = &ctx.origin;
    CommandContext::new(ctx.sealgate).by(console_user.authority(), origin.address, &origin.request_id)
}

/// Returns the answer to a command that failed.
pub(super) fn failure_of(error: CommandError) -> Failure {
    match error {
        CommandError::Absent(_) => Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound),
        CommandError::Forbidden(_) => Failure::Page(StatusCode::FORBIDDEN, Problem::Console),
        CommandError::Invalid(_) | CommandError::Exists(_) => Failure::page(Problem::InvalidRequest),
        CommandError::Store(error) => error.into(),
        CommandError::Password(error) => error.into(),
    }
}

/// Content of a client's page in addition to the stored client.
#[derive(Default)]
pub(super) struct ClientNotes<'a> {
    /// Result of the form that redirected to this page.
    result: Option<&'a ShownResult>,
    /// Reason why the form changed nothing.
    refused: Option<ClientRefusal>,
    /// Keys as typed, after a refusal.
    typed_keys: Option<&'a str>,
}

/// Returns the path of a client's page.
pub(super) fn page_of(client: &ClientId) -> String {
    format!("/console/clients/{}", client.path_segment())
}

/// Returns the client's public keys as formatted JSON. Empty if it has none.
fn jwks_of(client: &Client) -> String {
    match &client.assertion_source {
        Some(AssertionSource::Jwks(jwks)) => serde_json::to_string_pretty(jwks.as_value()).unwrap_or_default(),
        _ => String::new(),
    }
}

fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser, client: &Client, notes: &ClientNotes<'_>) -> Response {
    page(ctx, console_user, client, &form::from_client(client, &own_redirect_uri(ctx)), notes)
}

fn page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &ClientForm,
    notes: &ClientNotes<'_>,
) -> Response {
    let token_limit = client.token_limit.unwrap_or(ctx.sealgate.config.rate_limits.token);
    let page = ClientPage {
        inside: submission::with_hint(console_user.inside(ctx), notes.result),
        csrf: &console_user.csrf(ctx),
        client,
        form,
        may_enable: client.may_be_enabled_by(console_user.authority()),
        may_approve: console_user.is_administrator() && !client.is_operators_own(),
        level: client.level.unwrap_or(AssuranceLevel::One),
        token_limit: token_limit.requests().map(u64::from),
        keys: notes.typed_keys.map_or_else(|| jwks_of(client), str::to_owned),
        secrets: &client.working_secrets(ctx.now).collect::<Vec<_>>(),
        new_secret: notes.result.and_then(ShownResult::secret).map(Secret::expose),
        issuer: ctx.sealgate.config.issuer.as_str(),
        refused: notes.refused,
    };
    Response::page(StatusCode::OK, html(&page), None)
}
