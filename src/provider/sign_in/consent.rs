//! `/oauth/consent`: shows the user which data a client requests, and lets them allow or deny the
//! request.
//!
//! Applications behind the gateway may accept tokens of a self-registered client only after an
//! administrator has approved the client. In this case, the page shows a note.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};

use crate::protocol::authorize::account;
use crate::sign_in::interaction::{RESUME, Waiting, finished};
use sealgate_config::App;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::client::Client;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::mail::{Mail, MailId, MailKind, MailMessage, Notice, WaitingMail};
use sealgate_domain::oauth::next_step::{Interaction, Progress};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::redirect_uri;
use sealgate_domain::scope::{Scope, ScopeValue};
use sealgate_domain::user::{Email, User};
use sealgate_pages::{ClientLink, ConsentPage, ConsentResource, Problem, Publisher, client_logo_path, html};
use sealgate_store::{Committed, StoreError};

const PAGE: &str = "consent";

/// Maximum age of a client that is marked as new. Clients that an operator created are never
/// marked.
const NEW_CLIENT_AGE: Duration = Duration::from_hours(30 * 24);

pub(crate) async fn consent_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find(ctx).await?;
    let Some(user) = account(ctx, &waiting).await? else {
        // The session ended in the meantime: start over at the sign-in.
        return Ok(Response::see_other(&waiting.address(ctx, RESUME)));
    };
    if ctx.head.method != Method::POST {
        return show(ctx, &waiting, &user).await;
    }
    let form = waiting.form(ctx, &form_of(&user))?;
    match (form.has("consent-allow"), form.has("consent-deny")) {
        (true, false) => allow(ctx, &waiting, &user, &form).await,
        (false, true) => deny(ctx, &waiting).await,
        _ => Err(Failure::page(Problem::InvalidRequest)),
    }
}

/// Returns the form name for the CSRF token. The name includes the user, whose data the page shows.
/// If another user signs in in a second tab, the form is therefore rejected, and cannot consent for
/// that user.
fn form_of(user: &User) -> String {
    format!("{PAGE} {}", user.sub)
}

async fn show(ctx: &RequestContext<'_>, waiting: &Waiting, user: &User) -> Result<Response, Failure> {
    let client = &waiting.client;
    let vouched_for = client.is_vouched_for();
    let owner = match client.owner.filter(|_| !vouched_for) {
        Some(owner) => ctx.sealgate.store.user(owner).await?,
        None => None,
    };
    let publisher = match &owner {
        _ if vouched_for => Publisher::Operator,
        Some(owner) if owner.name.is_empty() => Publisher::Developer(owner.sign_in_name()),
        Some(owner) => Publisher::Developer(&owner.name),
        None => match client.id.document_host() {
            Some(host) => Publisher::Developer(host),
            None if client.registration.is_some() => Publisher::Itself,
            None => Publisher::DeletedUser,
        },
    };
    let website = client.details.client_uri.as_deref().filter(|_| vouched_for).and_then(redirect_uri::host);
    let scope = waiting.interaction().request.scope;
    let shared: Vec<(ScopeValue, Vec<String>)> = scope
        .values()
        .filter(|value| *value != ScopeValue::OfflineAccess)
        .map(|value| (value, values(user, value, &client.visible_groups)))
        .collect();
    let resource = waiting.interaction().request.resource.as_ref();
    let is_listed = resource
        .and_then(|access| ctx.sealgate.config.app_of_resource(&access.id))
        .is_some_and(|app| app.lists_client(&client.id));
    let resource = resource.and_then(|access| Some((access, ctx.sealgate.config.app_of_resource(&access.id)?)));
    let resource = resource.map(|(access, app)| {
        let texts = app.scopes.iter().filter(|scope| access.scopes.contains(&scope.name));
        ConsentResource {
            app: app.called(),
            id: &access.id,
            scopes: texts.map(|scope| scope.text(ctx.language())).collect(),
        }
    });
    // Registered URIs have a host; if this one has none, show the whole URI.
    let redirect_uri = waiting.interaction().request.return_to.redirect_uri();
    let host = redirect_uri::host(redirect_uri).unwrap_or_else(|| redirect_uri.to_owned());
    let only = (!vouched_for).then_some(host.as_str());
    let terms = client.details.tos_uri.as_deref().and_then(|address| link(address, only));
    let policy = client.details.policy_uri.as_deref().and_then(|address| link(address, only));
    // A picture that no administrator has seen could pretend to be another client.
    let logo = client_logo_path(&client.id, client.logo.as_ref().filter(|_| vouched_for)).map(|path| ctx.path(&path));
    let page = ConsentPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(&form_of(user)),
        client: &client.name,
        logo: logo.as_deref(),
        host: &host,
        only_on_device: client.is_only_on_device(),
        publisher,
        is_new: !client.is_operators_own() && ctx.now.since(client.created_at) < NEW_CLIENT_AGE,
        website: website.as_deref(),
        needs_approval: !is_listed && needs_approval(ctx, client),
        terms,
        policy,
        account: user.sign_in_name(),
        scopes: &shared,
        resource: resource.as_ref(),
        offline_access: scope.contains(ScopeValue::OfflineAccess),
    };
    Ok(Response::page(StatusCode::OK, html(&page), waiting.then().as_deref()))
}

/// Returns a link to a client's page, if the consent page may show it.
///
/// For a client that is not vouched for, `only` is the host of its redirect URI, and the link must
/// have that host. A link to another host would lend the client that host's reputation.
fn link<'a>(address: &'a str, only: Option<&str>) -> Option<ClientLink<'a>> {
    let host = redirect_uri::host(address).filter(|_| address.starts_with("https://"))?;
    only.is_none_or(|only| host == only).then_some(ClientLink { address, host })
}

/// Returns the values that a scope shares with a client that sees these groups.
fn values(user: &User, scope: ScopeValue, filter: &GroupFilter) -> Vec<String> {
    let values = match scope {
        ScopeValue::OpenId => vec![Some(user.sub.to_string())],
        ScopeValue::OfflineAccess => vec![],
        ScopeValue::Profile => {
            let username = user.username.as_ref().map(ToString::to_string);
            vec![Some(user.name.clone()), username, user.picture.clone()]
        }
        ScopeValue::Email => vec![user.email.as_ref().map(|email| email.as_str().to_owned())],
        ScopeValue::Phone => vec![user.phone_number.clone()],
        ScopeValue::Groups => filter.visible(user).cloned().map(Some).collect(),
    };
    values.into_iter().flatten().filter(|value| !value.is_empty()).collect()
}

async fn allow(ctx: &RequestContext<'_>, waiting: &Waiting, user: &User, form: &Params) -> Result<Response, Failure> {
    let interaction = waiting.interaction();
    let requested_scope = interaction.request.scope;
    let offline = form.one("offline_access")? == Some("true");
    let allowed: Scope = if offline { requested_scope } else { requested_scope.without(ScopeValue::OfflineAccess) };
    let progress = Progress { account: Some(user.sub), allowed: Some(allowed), ..interaction.progress.clone() };
    let next = Interaction { progress, ..interaction.clone() };
    match ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await? {
        Committed::Yes => Ok(Response::see_other(&waiting.address(ctx, RESUME))),
        Committed::Conflict => Err(finished(ctx, waiting.interaction()).await?),
    }
}

async fn deny(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Response, Failure> {
    match ctx.sealgate.store.drop_interaction(&waiting.loaded).await? {
        Committed::Yes => {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "The user denied the request.");
            Err(Failure::Return(Box::new(waiting.interaction().request.return_to.clone()), refusal))
        }
        Committed::Conflict => Err(finished(ctx, waiting.interaction()).await?),
    }
}

/// Returns whether an application behind the gateway refuses the client's tokens until an
/// administrator approves the client.
pub(crate) fn needs_approval(ctx: &RequestContext<'_>, client: &Client) -> bool {
    !client.is_vouched_for() && ctx.sealgate.config.apps.iter().any(App::requires_approved_clients)
}

/// Notifies the users in `registration.notify` that a client needs an approval, once per client.
pub(crate) async fn request_approval(ctx: &RequestContext<'_>, client: &Client) -> Result<(), StoreError> {
    let (config, store) = (&ctx.sealgate.config, &ctx.sealgate.store);
    let is_new = client.registration.as_ref().is_some_and(|own| !own.approval_requested);
    if !is_new || !needs_approval(ctx, client) {
        return Ok(());
    }
    tracing::info!(client = client.id.as_str(), "a self-registered client needs an approval");
    if config.registration.notify.is_empty() || !ctx.sealgate.sends_mail() {
        return Ok(());
    }
    // Only one of several concurrent requests sends the notifications.
    let is_first = AtomicBool::new(false);
    let changed = store.change_client(&client.id, |client| {
        let own = client.registration.as_mut().filter(|own| !own.approval_requested);
        is_first.store(own.is_some(), Ordering::Relaxed);
        if let Some(own) = own {
            own.approval_requested = true;
        }
    });
    if changed.await?.is_none() || !is_first.into_inner() {
        return Ok(());
    }
    for address in &config.registration.notify {
        if let Some(user) = store.user_by_email(address).await?.filter(User::is_enabled) {
            notify(ctx, &user, address).await?;
        } else {
            tracing::warn!(address = address.as_str(), "an address in registration.notify has no enabled account");
        }
    }
    Ok(())
}

/// Queues a notification.
///
/// The first notification is sent at once. Later notifications are combined into at most one mail
/// an hour, which states their number, so that registrations cannot flood the mailbox.
async fn notify(ctx: &RequestContext<'_>, user: &User, address: &Email) -> Result<(), StoreError> {
    let (store, language) = (&ctx.sealgate.store, ctx.sealgate.config.pages.default_language);
    let notice = Notice::ClientNeedsApproval;
    let added = store
        .add_notice((user.sub, notice), ctx.now, |id, due_at, count| {
            let id = id.unwrap_or_else(|| MailId::from_bytes(ctx.random()));
            let (to, mail) = (Some(user.email.as_ref().unwrap_or(address).clone()), Mail::Notice { notice, count });
            let message = MailMessage { to, language, at: ctx.now, origin: None, mail };
            let mail = store.new_mail((id, ctx.random()), Some(user.sub), &message, ctx.now)?;
            Ok(WaitingMail { due_at, ..mail })
        })
        .await?;
    if !added {
        ctx.sealgate.mail_dropped(MailKind::Notice);
    }
    Ok(())
}
