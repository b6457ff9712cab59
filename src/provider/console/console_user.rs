//! The user of a console page, and the clients that they may access.

use http::{Method, StatusCode};

use super::kept_form;
use crate::own_page;
use crate::request::ProviderRequest as _;
use crate::visitor::Visitor;
use sealgate_core::tokens::clients::OWN_PAGES;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::{Authority, Client, ClientId};
use sealgate_domain::oauth::params::Params;
use sealgate_pages::{ConsoleRole, Inside, Problem};

/// Signed-in user of a console page whose role admits them to it.
pub(super) struct ConsoleUser {
    pub(super) visitor: Visitor,
    role: ConsoleRole,
}

impl ConsoleUser {
    /// Returns the user of a console page that requires at least this role.
    ///
    /// The sign-in must be recent and reach the level that `[factors]` demands.
    pub(super) async fn enter(ctx: &RequestContext<'_>, least: ConsoleRole) -> Result<Self, Failure> {
        let max_age = ctx.sealgate.config.console.sign_in;
        let visitor = match Visitor::recent(ctx, &way_back(ctx), max_age).await {
            Err(Failure::Elsewhere(address)) => return Err(keep_form(ctx, address).await?),
            visitor => visitor?,
        };
        if visitor.short_of(ctx).await?.is_some() {
            return Err(Failure::Elsewhere(ctx.path("/account/security")));
        }
        match visitor.console_role(ctx) {
            Some(role) if role >= least => Ok(Self { visitor, role }),
            _ => Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console)),
        }
    }

    /// Returns the client that the path names, if the user may access it.
    ///
    /// An unknown client and another developer's client both get 404, which does not reveal the
    /// clients that exist.
    pub(super) async fn client(&self, ctx: &RequestContext<'_>, id: Option<ClientId>) -> Result<Client, Failure> {
        let client = match id {
            Some(id) => ctx.sealgate.store.client(&id).await?,
            None => None,
        };
        let theirs = |client: &Client| {
            self.is_administrator() || client.owner.is_some_and(|owner| owner == self.visitor.user.sub)
        };
        client.filter(theirs).ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))
    }

    pub(super) fn is_administrator(&self) -> bool {
        self.role == ConsoleRole::Administrator
    }

    /// Returns the user's authority in decisions about clients.
    pub(super) fn authority(&self) -> Authority {
        let subject = self.visitor.user.sub;
        if self.is_administrator() { Authority::Administrator(subject) } else { Authority::Owner(subject) }
    }

    /// Returns an audit event with this user as the actor. The caller adds the details.
    pub(super) fn event(&self, ctx: &RequestContext<'_>, kind: AuditKind) -> AuditEvent {
        ctx.event(kind, Actor::from(self.authority()))
    }

    pub(super) fn csrf(&self, ctx: &RequestContext<'_>) -> String {
        self.visitor.csrf(ctx, ctx.head.uri.path())
    }

    pub(super) fn form(&self, ctx: &RequestContext<'_>) -> Result<Params, Failure> {
        self.visitor.form(ctx, ctx.head.uri.path())
    }

    pub(super) fn inside<'a>(&'a self, ctx: &'a RequestContext<'_>) -> Inside<'a> {
        self.visitor.inside(ctx)
    }
}

/// Keeps the form of this request, if it is one of a user whose sign-in is too old. Returns the
/// redirect to the sign-in, which is `address` if there is no form to keep.
async fn keep_form(ctx: &RequestContext<'_>, address: String) -> Result<Failure, Failure> {
    let (page, path) = (way_back(ctx), ctx.head.uri.path());
    if ctx.head.method != Method::POST || ctx.path(&page) != path {
        return Ok(Failure::Elsewhere(address));
    }
    let visitor = Visitor::find(ctx, &page).await?;
    let form = match visitor.form(ctx, path) {
        Ok(form) if visitor.console_role(ctx).is_some() => form,
        _ => return Ok(Failure::Elsewhere(address)),
    };
    let page = kept_form::keep(ctx, &visitor, &page, &form).await?;
    let max_age = ctx.sealgate.config.console.sign_in;
    Ok(Visitor::recent(ctx, &page, max_age).await.err().unwrap_or(Failure::Elsewhere(address)))
}

/// Returns the page that the browser returns to after a sign-in: the present page, or the list that
/// contains it.
fn way_back(ctx: &RequestContext<'_>) -> String {
    let path = ctx.head.uri.path();
    let path = path.strip_prefix(ctx.sealgate.config.issuer.path_prefix()).unwrap_or(path);
    if own_page::request_for(path).1.is_some() {
        return path.to_owned();
    }
    let known = OWN_PAGES.iter().copied().filter(|page| path == *page);
    let above = OWN_PAGES.iter().copied().filter(|page| path.starts_with(&format!("{page}/")));
    known.chain(above).max_by_key(|page| page.len()).unwrap_or("/console").to_owned()
}

/// Returns the last segment of the request's path.
pub(super) fn last_segment<'c>(ctx: &'c RequestContext<'_>) -> &'c str {
    ctx.head.uri.path().rsplit('/').next().unwrap_or_default()
}
