//! `/console/clients/{client_id}` and its sections: settings, secrets and deletion of one client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use http::{Method, StatusCode};

use super::actions::{Action, ClientAction};
use super::confirmation::{Question, Target};
use super::form::own_redirect_uri;
use super::owners::Owners;
use super::{check_access, client_grants, confirmation, form, kept_form};
use crate::console::{ConsoleUser, last_segment, segment_before_last};
use crate::request::ProviderRequest as _;
use crate::submission::{Effect, ShownResult};
use crate::{submission, visitor};
use sealgate_admin as admin;
use sealgate_admin::answer::ShownSecret;
use sealgate_admin::arguments::{SecretExpiry, Setting};
use sealgate_admin::client_settings::ClientSettings;
use sealgate_admin::command::{ClientCommand, Command, GrantCommand, GrantsOf, SecretCommand};
use sealgate_admin::{Answer, CommandContext, CommandError, UserRef};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assertion_source::{AssertionSource, ClientJwks};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::{Client, ClientId, ConsentRule, MAX_SECRETS};
use sealgate_domain::client_rules;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::secret::Secret;
use sealgate_domain::shown_client::{ClientPart, ShownClient};
use sealgate_pages::console::{
    ClientForm, ClientOwner, ClientPage, ClientRefusal, ClientRulesForm, ClientSection, ConfirmDetail, ConfirmLabel,
    GuardedChange, Library,
};
use sealgate_pages::{Done, Problem, html};

/// Times for which the previous secret can stay valid, in seconds. The form offers these choices.
const OVERLAPS: [u64; 4] = [0, 3600, 86_400, 604_800];

/// Lifetimes of a further secret, in days. The form offers these choices; 0 is unlimited.
const LIFETIMES: [u64; 4] = [0, 90, 180, 365];

pub(super) async fn client_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let client = console_user.client(ctx, ClientId::from_path_segment(last_segment(ctx))).await?;
    if ctx.head.method != Method::POST {
        if let Some(form) = kept_form::take(ctx, console_user, &page_of(&client.id)).await? {
            return resume(ctx, console_user, &client, &form).await;
        }
        return show_section(ctx, console_user, &client, ClientSection::Settings).await;
    }
    let form = console_user.form(ctx)?;
    if client.from_configuration {
        // The user loaded the page before the configuration file defined the client. The page of a
        // client from the configuration has no forms.
        let notes = ClientNotes { refused: Some(ClientRefusal::DefinedInFile), ..ClientNotes::default() };
        return show(ctx, console_user, &client, &notes).await;
    }
    let id = client.id.clone();
    let action = ClientAction::read(&form)?;
    if action == ClientAction::Approve
        && let Some(changed) = changed_since(&client, &form)?
    {
        return show(ctx, console_user, &client, &ClientNotes { changed, ..ClientNotes::of(action.section()) }).await;
    }
    if action == ClientAction::SetKeys
        && let Some(page) = refused_keys(ctx, console_user, &client, &form).await?
    {
        return Ok(page);
    }
    if let Some(question) = simple_question(&client, action, &form)?
        && !confirmation::is_confirmed(&form)
    {
        return Ok(confirmation::page(ctx, console_user, &form, &question));
    }
    match action {
        ClientAction::Save => save(ctx, console_user, &client, &form).await,
        ClientAction::Rotate => rotate(ctx, console_user, &client, &form).await,
        ClientAction::AddSecret => add_secret(ctx, console_user, &client, &form).await,
        ClientAction::RemoveSecret => remove_secret(ctx, console_user, &client, &form).await,
        ClientAction::SetKeys => set_keys(ctx, console_user, &client, &form).await,
        ClientAction::UseSecret => use_secret(ctx, console_user, &client, &form).await,
        ClientAction::Disable => {
            command(ctx, console_user, action, ClientCommand::Disable(id.into()), Done::ClientState).await
        }
        ClientAction::Enable => {
            command(ctx, console_user, action, ClientCommand::Enable(id.into()), Done::ClientState).await
        }
        ClientAction::Approve => approve(ctx, console_user, &client, &form).await,
        ClientAction::RevokeApproval => {
            command(ctx, console_user, action, ClientCommand::RevokeApproval(id.into()), Done::ClientState).await
        }
        ClientAction::Level => set_level(ctx, console_user, &id, &form).await,
        ClientAction::Logout => set_logout(ctx, console_user, &client, &form).await,
        ClientAction::SetRules => set_rules(ctx, console_user, &client, &form).await,
        ClientAction::EndGrant => {
            client_grants::end(ctx, console_user, &client, &form).await?;
            let page = ClientSection::Grants.page(client.id.path_segment());
            Ok(Response::see_other(&visitor::done(ctx, &page, Done::Withdrawn)))
        }
        ClientAction::EndGrants => {
            execute(ctx, console_user, Command::Grant(GrantCommand::RevokeAll(GrantsOf::of_client(id)))).await?;
            let page = ClientSection::Grants.page(client.id.path_segment());
            Ok(Response::see_other(&visitor::done(ctx, &page, Done::Client)))
        }
        ClientAction::Delete => {
            command(ctx, console_user, action, ClientCommand::Delete(id.into()), Done::ClientDeleted).await
        }
    }
}

/// Shows a section of the client's page other than the first. Its forms go to the client's own URL.
pub(super) async fn section_page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    section: ClientSection,
) -> Result<Response, Failure> {
    let client = console_user.client(ctx, ClientId::from_path_segment(segment_before_last(ctx))).await?;
    let is_form = matches!(section, ClientSection::Secrets | ClientSection::Danger);
    if !section.fits(&client) || (is_form && !console_user.may_change(&client)) {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    show_section(ctx, console_user, &client, section).await
}

/// Shows a section with the result of the form that redirected to it, if there is one.
pub(super) async fn show_section(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    section: ClientSection,
) -> Result<Response, Failure> {
    let page = section.page(client.id.path_segment());
    let result = submission::take_result(ctx, &console_user.visitor, &page).await?;
    show(ctx, console_user, client, &ClientNotes { result: Some(&result), ..ClientNotes::of(section) }).await
}

/// Returns the question about an action that is always confirmed. [`save`] asks by itself.
fn simple_question<'a>(
    client: &'a Client,
    action: ClientAction,
    form: &Params,
) -> Result<Option<Question<'a>>, Failure> {
    let change = match action {
        ClientAction::Save | ClientAction::Logout | ClientAction::SetRules | ClientAction::EndGrant => return Ok(None),
        ClientAction::EndGrants => GuardedChange::EndGrants,
        ClientAction::Rotate => GuardedChange::RotateSecret,
        ClientAction::AddSecret => GuardedChange::AddSecret,
        ClientAction::RemoveSecret => GuardedChange::RemoveSecret,
        ClientAction::SetKeys => GuardedChange::SetKeys,
        ClientAction::UseSecret => GuardedChange::UseSecret,
        ClientAction::Disable => GuardedChange::DisableClient,
        ClientAction::Enable => GuardedChange::EnableClient,
        ClientAction::Approve => GuardedChange::Approve,
        ClientAction::RevokeApproval => GuardedChange::RevokeApproval,
        ClientAction::Level => GuardedChange::SetLevel(chosen_level(form)?),
        ClientAction::Delete => GuardedChange::DeleteClient,
    };
    let section = action.section().page(client.id.path_segment());
    let question = Question::new(change, Target::client(client, page_of(&client.id)).of_section(section));
    Ok(Some(match action {
        ClientAction::Approve => {
            let uris = |uris: &[RedirectUri]| uris.iter().map(|uri| uri.as_str().to_owned()).collect();
            question.with(details([
                (ConfirmLabel::RedirectUris, uris(&client.redirect_uris)),
                (ConfirmLabel::PostLogoutRedirectUris, uris(&client.post_logout_redirect_uris)),
                (ConfirmLabel::Scope, vec![client.scope.to_string()]),
            ]))
        }
        _ => question,
    }))
}

/// Returns the parts of a change that have values.
fn details<const N: usize>(parts: [(ConfirmLabel, Vec<String>); N]) -> Vec<ConfirmDetail> {
    let parts = parts.into_iter().filter(|(_, values)| !values.is_empty());
    parts.map(|(label, values)| ConfirmDetail { label, values }).collect()
}

/// Returns the parts of the client that have changed since the page with the form was shown, if any.
/// A form without digests counts as changed in every part.
fn changed_since(client: &Client, form: &Params) -> Result<Option<Vec<ClientPart>>, Failure> {
    let seen = form.one("seen")?.and_then(ShownClient::parse);
    let changed = seen.map_or_else(|| ClientPart::ALL.to_vec(), |seen| seen.changes(client));
    Ok(Some(changed).filter(|changed| !changed.is_empty()))
}

/// Approves the client that the page has shown.
async fn approve(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let seen = form.one("seen")?.and_then(ShownClient::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    let context = command_context(ctx, console_user);
    let changed = admin::approve_client(&context, &client.id, &seen).await.map_err(failure_of)?;
    if changed.is_empty() {
        let page = ClientSection::Rules.page(client.id.path_segment());
        return Ok(Response::see_other(&visitor::done(ctx, &page, Done::ClientState)));
    }
    let client = console_user.client(ctx, Some(client.id.clone())).await?;
    show(ctx, console_user, &client, &ClientNotes { changed, ..ClientNotes::of(ClientSection::Rules) }).await
}

/// Shows a form that was kept while the user signed in again.
///
/// The page asks for the confirmation of a guarded change, or shows the typed values.
async fn resume(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let action = ClientAction::read(form)?;
    let may_act = console_user.roles.has_any(Action::Client(action).roles()) && console_user.may_change(client);
    if client.from_configuration || !may_act {
        return show(ctx, console_user, client, &ClientNotes::default()).await;
    }
    let is_late = matches!(action, ClientAction::Save | ClientAction::Approve);
    let changed = changed_since(client, form)?.filter(|_| is_late).unwrap_or_default();
    if action == ClientAction::Save {
        // The typed values, to be saved again.
        let typed = form::read(form, Some(client.client_type))?;
        return page(ctx, console_user, client, &typed, &ClientNotes { changed, ..ClientNotes::default() }).await;
    }
    match simple_question(client, action, form)? {
        Some(question) if changed.is_empty() => Ok(confirmation::page(ctx, console_user, form, &question)),
        _ => show(ctx, console_user, client, &ClientNotes { changed, ..ClientNotes::of(action.section()) }).await,
    }
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
            let typed = ClientForm { faults, ..typed };
            return page(ctx, console_user, client, &typed, &ClientNotes::default()).await;
        }
    };
    let added = details(checked.additions(client));
    if !added.is_empty() {
        confirmation::require_recent_for_form(ctx, console_user, form).await?;
        if !confirmation::is_confirmed(form) {
            let target = Target::client(client, page_of(&client.id));
            let question = Question::new(GuardedChange::WidenClient, target).with(added);
            return Ok(confirmation::page(ctx, console_user, form, &question));
        }
    }
    let own = own_redirect_uri(ctx);
    let seen = form.one("seen")?.and_then(ShownClient::parse);
    let (lapsed, changed_since) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let change = |client: &mut Client| {
        let before = client.clone();
        let changed = seen.as_ref().map(|seen| seen.changes(client)).unwrap_or_default();
        if changed.is_empty() && console_user.may_change(client) {
            checked.replace(client, &own);
        }
        let loses = !console_user.is_administrator() && client.revoke_approval_if_changed(&before);
        lapsed.store(loses, Ordering::Relaxed);
        // The store may call this closure several times. The last call is committed.
        *changed_since.lock().unwrap_or_else(PoisonError::into_inner) = changed;
    };
    let changed = ctx.sealgate.store.change_client(&client.id, change).await?;
    // The client may belong to another developer by now.
    let client = changed.filter(|client| console_user.may_change(client));
    let client = client.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    let changed = changed_since.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !changed.is_empty() {
        return page(ctx, console_user, &client, &typed, &ClientNotes { changed, ..ClientNotes::default() }).await;
    }
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
        if is_further && client.working_secrets(ctx.now).count() >= MAX_SECRETS {
            let refused = Some(ClientRefusal::TooManySecrets);
            let notes = ClientNotes { refused, ..ClientNotes::of(ClientSection::Secrets) };
            return Ok(Effect::Refused(show(ctx, console_user, client, &notes).await?));
        }
        let Answer::Client(changed) = execute(ctx, console_user, Command::Client(command)).await? else {
            return Err(Failure::Internal);
        };
        let ShownSecret(secret) = changed.client_secret.ok_or(Failure::Internal)?;
        Ok(Effect::Done { page: ClientSection::Secrets.page(client.id.path_segment()), secret: Some(secret) })
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
    command(ctx, console_user, ClientAction::RemoveSecret, ClientCommand::Secret(remove), Done::Client).await
}

/// Returns the page with the reason why the typed keys cannot be used, if there is one.
async fn refused_keys(
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
    let notes = ClientNotes { refused, typed_keys: Some(typed), ..ClientNotes::of(ClientSection::Secrets) };
    show(ctx, console_user, client, &notes).await.map(Some)
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
    set(ctx, console_user, ClientAction::SetKeys, &client.id, settings).await
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

fn chosen_level(form: &Params) -> Result<AssuranceLevel, Failure> {
    form.one("level")?.and_then(AssuranceLevel::parse).ok_or(Failure::page(Problem::InvalidRequest))
}

/// Sets the level that users must reach to use the client.
async fn set_level(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &ClientId,
    form: &Params,
) -> Result<Response, Failure> {
    let level = Some(chosen_level(form)?).filter(|level| *level > AssuranceLevel::One);
    let settings = Box::new(ClientSettings::of_level(level));
    set(ctx, console_user, ClientAction::Level, client, settings).await
}

/// Sets where the client receives logout tokens.
async fn set_logout(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let uri = form.one("backchannel_logout_uri")?.map(str::trim).filter(|uri| !uri.is_empty());
    if uri.is_some_and(|uri| client_rules::logout_uri(uri).is_err()) {
        let notes = ClientNotes { refused: Some(ClientRefusal::LogoutUri), ..ClientNotes::of(ClientSection::Rules) };
        return show(ctx, console_user, client, &notes).await;
    }
    let session_required = form.has("backchannel_logout_session_required");
    let settings = Box::new(ClientSettings::of_backchannel_logout(uri.map(str::to_owned), session_required));
    set(ctx, console_user, ClientAction::Logout, &client.id, settings).await
}

/// Sets the consent rule, the limit at the token endpoint and the owner, after a confirmation.
async fn set_rules(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &Params,
) -> Result<Response, Failure> {
    let text = |name| -> Result<&str, Failure> { Ok(form.one(name)?.unwrap_or_default().trim()) };
    let is_consent_implied = text("consent")? == "implied";
    let (token_limit, owner) = (text("token_limit")?, text("owner")?);
    let limit = if token_limit.is_empty() { Ok(None) } else { RateLimit::parse(token_limit).map(Some) };
    let user = match owner {
        "" => Ok(None),
        owner => match UserRef::parse(owner) {
            Some(user_ref) if check_access::find(ctx, &user_ref).await?.is_some() => Ok(Some(user_ref)),
            _ => Err(()),
        },
    };
    let (Ok(limit), Ok(user)) = (limit, user) else {
        let rules =
            ClientRulesForm { is_consent_implied, token_limit: token_limit.to_owned(), owner: owner.to_owned() };
        let notes = ClientNotes {
            refused: Some(ClientRefusal::Rules),
            rules: Some(rules),
            ..ClientNotes::of(ClientSection::Rules)
        };
        return show(ctx, console_user, client, &notes).await;
    };
    let owner_setting = (owner != text("shown_owner")?).then(|| user.map_or(Setting::Removed, Setting::Set));
    if !confirmation::is_confirmed(form) {
        let or_dash = |text: &str| vec![if text.is_empty() { "–".to_owned() } else { text.to_owned() }];
        let consent = if is_consent_implied { "implied" } else { "ask" };
        let section = ClientSection::Rules.page(client.id.path_segment());
        let target = Target::client(client, page_of(&client.id)).of_section(section);
        let question = Question::new(GuardedChange::SetClientRules, target).with(details([
            (ConfirmLabel::ConsentRule, vec![consent.to_owned()]),
            (ConfirmLabel::TokenLimit, or_dash(token_limit)),
            (ConfirmLabel::Owner, or_dash(owner)),
        ]));
        return Ok(confirmation::page(ctx, console_user, form, &question));
    }
    let consent = if is_consent_implied { ConsentRule::Implied } else { ConsentRule::Ask };
    let settings = Box::new(ClientSettings::of_rules(consent, limit, owner_setting));
    set(ctx, console_user, ClientAction::SetRules, &client.id, settings).await
}

async fn set(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    action: ClientAction,
    client: &ClientId,
    settings: Box<ClientSettings>,
) -> Result<Response, Failure> {
    let change = ClientCommand::Set { client: client.clone().into(), settings };
    command(ctx, console_user, action, change, Done::Client).await
}

async fn command(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    action: ClientAction,
    command: ClientCommand,
    done: Done,
) -> Result<Response, Failure> {
    execute(ctx, console_user, Command::Client(command)).await?;
    let page = match done {
        Done::ClientDeleted => "/console/clients".to_owned(),
        _ => action.section().page(last_segment(ctx)),
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
    let context = CommandContext::new(ctx.sealgate).by(console_user.authority(), origin.address, &origin.request_id);
    context.recorded_as(console_user.actor)
}

/// Returns the answer to a command that failed.
pub(super) fn failure_of(error: CommandError) -> Failure {
    match error {
        CommandError::Absent(_) => Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound),
        CommandError::Forbidden(_) => Failure::Page(StatusCode::FORBIDDEN, Problem::Console),
        CommandError::Invalid(_)
        | CommandError::File(_)
        | CommandError::Exists(_)
        | CommandError::Cursor
        | CommandError::SignInDataChanged => Failure::page(Problem::InvalidRequest),
        CommandError::Store(error) => error.into(),
        CommandError::Password(error) => error.into(),
    }
}

/// Content of a client's page in addition to the stored client.
#[derive(Default)]
pub(super) struct ClientNotes<'a> {
    /// Section to show.
    section: ClientSection,
    /// Result of the form that redirected to this page.
    result: Option<&'a ShownResult>,
    /// Reason why the form changed nothing.
    refused: Option<ClientRefusal>,
    /// Form with the rules as typed, after a refusal.
    rules: Option<ClientRulesForm>,
    /// Keys as typed, after a refusal.
    typed_keys: Option<&'a str>,
    /// Parts that have changed since the page with the form was shown, so that the form changed
    /// nothing.
    changed: Vec<ClientPart>,
}

impl ClientNotes<'_> {
    fn of(section: ClientSection) -> Self {
        Self { section, ..Self::default() }
    }

    /// Creates the notes of a form of this section that changed nothing.
    pub(super) fn refused(section: ClientSection, refused: ClientRefusal) -> Self {
        Self { refused: Some(refused), ..Self::of(section) }
    }
}

/// Returns the path of a client's page, which receives the forms of all sections.
pub(super) fn page_of(client: &ClientId) -> String {
    ClientSection::Settings.page(client.path_segment())
}

/// Returns the path that receives the forms of a section.
fn forms_of(client: &ClientId, section: ClientSection) -> String {
    match section {
        ClientSection::Logo => section.page(client.path_segment()),
        _ => page_of(client),
    }
}

/// Returns the client's public keys as formatted JSON. Empty if it has none.
fn jwks_of(client: &Client) -> String {
    match &client.assertion_source {
        Some(AssertionSource::Jwks(jwks)) => serde_json::to_string_pretty(jwks.as_value()).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Formats a limit as the form sends it.
fn limit_text(limit: RateLimit) -> String {
    limit.requests().map_or_else(|| "none".to_owned(), |requests| requests.to_string())
}

pub(super) async fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    notes: &ClientNotes<'_>,
) -> Result<Response, Failure> {
    page(ctx, console_user, client, &form::from_client(client, &own_redirect_uri(ctx)), notes).await
}

async fn page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    form: &ClientForm,
    notes: &ClientNotes<'_>,
) -> Result<Response, Failure> {
    let owner = Owners::default().of(ctx, client).await?;
    let (grants, next) = match notes.section {
        ClientSection::Grants => client_grants::lines(ctx, client).await?,
        _ => (Vec::new(), None),
    };
    let stored_rules = || ClientRulesForm {
        is_consent_implied: client.consent == ConsentRule::Implied,
        token_limit: client.token_limit.map(limit_text).unwrap_or_default(),
        owner: match &owner {
            Some(ClientOwner::Active { name, .. } | ClientOwner::WithoutAccess { name, .. }) => name.clone(),
            Some(ClientOwner::Deleted) | None => String::new(),
        },
    };
    let rules = notes.rules.clone().unwrap_or_else(stored_rules);
    let token_limit = client.token_limit.unwrap_or(ctx.sealgate.config.rate_limits.token);
    let page = ClientPage {
        inside: submission::with_hint(console_user.inside(ctx), notes.result),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(&forms_of(&client.id, notes.section))),
        client,
        section: notes.section,
        form,
        may_change: console_user.may_change(client),
        may_enable: client.may_be_enabled_by(console_user.authority()),
        may_disable: client.is_changed_by_disabling(console_user.authority()),
        may_approve: console_user.is_administrator() && !client.is_operators_own(),
        level: client.level.unwrap_or(AssuranceLevel::One),
        token_limit: token_limit.requests().map(u64::from),
        keys: notes.typed_keys.map_or_else(|| jwks_of(client), str::to_owned),
        secrets: &client.working_secrets(ctx.now).collect::<Vec<_>>(),
        new_secret: notes.result.and_then(ShownResult::secret).map(Secret::expose),
        issuer: ctx.sealgate.config.issuer.as_str(),
        refused: notes.refused,
        changed: &notes.changed,
        seen: &ShownClient::of(client).to_string(),
        owner: owner.as_ref(),
        rules: &rules,
        library: ctx.query()?.one("library")?.and_then(Library::parse),
        grants: &grants,
        next: next.as_deref(),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
