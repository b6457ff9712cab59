//! `/console/clients` and `/console/clients/new`: the list of clients, and registration of a new one.

use http::{Method, StatusCode};

use super::form::ValidForm;
use super::owners::Owners;
use super::{client, confirmation, form, kept_form};
use crate::console::ConsoleUser;
use crate::request::ProviderRequest as _;
use crate::submission;
use crate::submission::Effect;
use sealgate_core::tokens::clients::OWN_CLIENT;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::{
    Client, ClientDecision, ClientDetails, ClientId, ClientSecret, ClientState, ClientType, ConsentRule,
};
use sealgate_domain::client_rules;
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::secret::Secret;
use sealgate_pages::console::{ClientFault, ClientField, ClientForm, ClientsPage, NewClientPage};
use sealgate_pages::html;
use sealgate_store::AddOutcome;

/// Number of clients per read. A page ends after the read that reaches this number.
const CLIENTS_PER_READ: usize = 50;
/// Maximum number of reads for one page. A developer sees only their own clients, so a page may
/// need several reads.
const MAX_READS: usize = 20;

/// Path of the form for a new client.
const NEW: &str = "/console/clients/new";

pub(super) async fn clients_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let mut after = ctx.cursor(ClientId::parse)?;
    let only_without_owner = console_user.roles.reads_everything() && ctx.query()?.one("owner")? == Some("none");
    let (mut clients, mut owners) = (Vec::new(), Owners::default());
    let mut more = true;
    for _ in 0..MAX_READS {
        let step = ctx.sealgate.store.clients(after.as_ref(), CLIENTS_PER_READ).await?;
        more = step.len() == CLIENTS_PER_READ;
        after = step.last().map(|client| client.id.clone()).or(after);
        for client in step.into_iter().filter(|client| console_user.may_see(client)) {
            let owner = owners.of(ctx, &client).await?;
            let is_left = owner.as_ref().is_some_and(|owner| !owner.is_active());
            if is_left || !only_without_owner {
                clients.push((client, owner));
            }
        }
        if !more || clients.len() >= CLIENTS_PER_READ {
            break;
        }
    }
    let filter = if only_without_owner { "owner=none&" } else { "" };
    let next = after.filter(|_| more).map(|after| ctx.path(&format!("/console/clients?{filter}after={after}")));
    let page =
        ClientsPage { inside: console_user.inside(ctx), clients: &clients, only_without_owner, next: next.as_deref() };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Shows the form for a new client (GET), or registers the client (POST).
pub(super) async fn register(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        confirmation::require_recent(ctx, NEW).await?;
        let stored_form = kept_form::take(ctx, console_user, NEW).await?;
        let typed = stored_form.map_or_else(|| Ok(form::empty()), |stored_form| form::read(&stored_form, None))?;
        return Ok(show(ctx, console_user, &typed));
    }
    let form = console_user.form(ctx)?;
    let typed = form::read(&form, None)?;
    let checked = form::check(&typed, |uri| console_user.may_register(ctx, uri, None));
    let id = chosen_id(console_user, &typed);
    let wrong_id = ClientFault { field: ClientField::Id, uri: None };
    let (id, checked) = match (id, checked) {
        (Ok(id), Ok(checked)) => (id, checked),
        (id, checked) => {
            let faults = id.err().map(|()| wrong_id).into_iter().chain(checked.err().unwrap_or_default()).collect();
            return Ok(show(ctx, console_user, &ClientForm { faults, ..typed }));
        }
    };
    let work = Box::pin(async {
        if let Some(effect) = add(ctx, console_user, id, checked).await? {
            return Ok(effect);
        }
        let typed = ClientForm { faults: vec![wrong_id], ..typed };
        Ok(Effect::Refused(show(ctx, console_user, &typed)))
    });
    submission::once(ctx, &console_user.visitor, &form, work).await
}

/// Returns the identifier that an administrator has chosen for a new client. `None` for a random one.
///
/// Developers cannot choose one: a name of another application would mislead the readers of the audit
/// log.
fn chosen_id(console_user: &ConsoleUser, form: &ClientForm) -> Result<Option<ClientId>, ()> {
    if form.id.is_empty() {
        return Ok(None);
    }
    let id = ClientId::parse(&form.id).filter(|_| console_user.is_administrator());
    // The path of the client's page must not be that of the form for a new client.
    let id = id.filter(|id| client_rules::check_id(id).is_ok() && id.as_str() != "new" && id.as_str() != OWN_CLIENT);
    id.map(Some).ok_or(())
}

/// Registers the client. Returns `None` if another client has the chosen identifier.
async fn add(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    chosen: Option<ClientId>,
    sound: ValidForm,
) -> Result<Option<Effect>, Failure> {
    let is_chosen = chosen.is_some();
    let id = match chosen {
        Some(id) => id,
        None => ClientId::parse(Secret::from_random(&ctx.random::<16>()).expose()).ok_or(Failure::Internal)?,
    };
    let secret = (sound.client_type == ClientType::Confidential).then(|| Secret::from_random(&ctx.random::<32>()));
    let client_secret = |secret: &Secret| ClientSecret { hash: secret.hash(), created_at: ctx.now, expires_at: None };
    let client = Client {
        id,
        name: sound.name,
        client_type: sound.client_type,
        auth_method: sound.auth_method,
        secrets: secret.iter().map(client_secret).collect(),
        assertion_source: None,
        redirect_uris: sound.redirect_uris,
        post_logout_redirect_uris: sound.post_logout_redirect_uris,
        scope: sound.scope,
        grant_types: ValidForm::grant_types(),
        consent: ConsentRule::Ask,
        state: ClientState::Enabled,
        created_at: ctx.now,
        incarnation: u32::from_be_bytes(ctx.random()),
        details: ClientDetails {
            description: sound.description,
            default_scope: sound.default_scope,
            ..ClientDetails::default()
        },
        refresh_retry_seconds: None,
        token_limit: None,
        level: None,
        service: None,
        logo: None,
        visible_groups: GroupFilter::default(),
        backchannel_logout: None,
        introspection: None,
        owner: Some(console_user.visitor.user.sub),
        registration: None,
        // A client that an administrator registers is approved.
        approval: console_user.is_administrator().then(|| ClientDecision { by: console_user.authority(), at: ctx.now }),
        disabled: None,
        from_configuration: false,
    };
    if ctx.sealgate.store.add_client(&client).await? == AddOutcome::Exists {
        return if is_chosen { Ok(None) } else { Err(Failure::Internal) };
    }
    ctx.sealgate.audit.note(console_user.event(ctx, AuditKind::ClientRegistered).with_client(&client.id));
    Ok(Some(Effect::Done { page: client::page_of(&client.id), secret }))
}

fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &ClientForm) -> Response {
    let page = NewClientPage { inside: console_user.inside(ctx), csrf: &console_user.csrf(ctx), form };
    Response::page(StatusCode::OK, html(&page), None)
}
