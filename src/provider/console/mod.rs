//! `/console`: where developers register clients, and administrators look after people, keys and limits.
//!
//! Who may do what is decided here and in [`ConsoleUser::client`], nowhere else: [`Area::least`] says which role a page
//! needs, and a developer's client is theirs alone. Every change is a form with a token that is bound to the person and
//! the page's own path.

mod audit;
mod client;
mod clients;
mod form;
mod operation;
mod trial;
mod user;
mod users;

use http::StatusCode;

use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::client::{Authority, Client, ClientId};
use crate::oauth::params::Params;
use crate::page::{ConsoleRole, Inside, Problem};
use crate::provider::visitor::Visitor;
use crate::tokens::clients::OWN_PAGES;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;

/// The pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Clients,
    NewClient,
    Client,
    Trial,
    TrialCallback,
    Users,
    NewUser,
    User,
    Keys,
    Apps,
    Settings,
    Audit,
    AuditExport,
}

impl Area {
    /// The least role that opens it.
    fn least(self) -> ConsoleRole {
        match self {
            Self::Clients | Self::NewClient | Self::Client | Self::Trial | Self::TrialCallback => {
                ConsoleRole::Developer
            }
            Self::Users
            | Self::NewUser
            | Self::User
            | Self::Keys
            | Self::Apps
            | Self::Settings
            | Self::Audit
            | Self::AuditExport => ConsoleRole::Administrator,
        }
    }
}

/// Somebody who works in the console, on a page that their role opens.
pub(super) struct ConsoleUser {
    visitor: Visitor,
    role: ConsoleRole,
}

impl ConsoleUser {
    async fn enter(ctx: &RequestContext<'_>, area: Area) -> Result<Self, Failure> {
        let visitor = Visitor::recent(ctx, way_back(ctx), ctx.sealgate.config.console.sign_in).await?;
        match visitor.console_role(ctx) {
            Some(role) if role >= area.least() => Ok(Self { visitor, role }),
            _ => Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console)),
        }
    }

    /// The client that the path names, if it is theirs to see. One answer for "none" and "not yours": it tells nobody
    /// which clients exist.
    async fn client(&self, ctx: &RequestContext<'_>, id: Option<ClientId>) -> Result<Client, Failure> {
        let client = match id {
            Some(id) => ctx.sealgate.store.client(&id).await?,
            None => None,
        };
        let theirs = |client: &Client| {
            self.is_administrator() || client.owner.is_some_and(|owner| owner == self.visitor.user.sub)
        };
        client.filter(theirs).ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))
    }

    fn is_administrator(&self) -> bool {
        self.role == ConsoleRole::Administrator
    }

    /// The right by which they decide.
    fn authority(&self) -> Authority {
        let subject = self.visitor.user.sub;
        if self.is_administrator() { Authority::Administrator(subject) } else { Authority::Owner(subject) }
    }

    /// An event of the audit trail by them, to be told more of.
    fn event(&self, ctx: &RequestContext<'_>, kind: AuditKind) -> AuditEvent {
        ctx.event(kind, Actor::Administrator(self.visitor.user.sub))
    }

    fn csrf(&self, ctx: &RequestContext<'_>) -> String {
        self.visitor.csrf(ctx, ctx.head.uri.path())
    }

    fn form(&self, ctx: &RequestContext<'_>) -> Result<Params, Failure> {
        self.visitor.form(ctx, ctx.head.uri.path())
    }

    fn inside<'a>(&'a self, ctx: &'a RequestContext<'_>) -> Inside<'a> {
        self.visitor.inside(ctx)
    }
}

pub(super) async fn answer(ctx: &RequestContext<'_>, area: Area) -> Result<Response, Failure> {
    let console_user = ConsoleUser::enter(ctx, area).await?;
    match area {
        Area::Clients => clients::answer(ctx, &console_user).await,
        Area::NewClient => clients::register(ctx, &console_user).await,
        Area::Client => client::answer(ctx, &console_user).await,
        Area::Trial => trial::answer(ctx, &console_user).await,
        Area::TrialCallback => trial::callback(ctx, &console_user).await,
        Area::Users => users::answer(ctx, &console_user).await,
        Area::NewUser => users::add(ctx, &console_user).await,
        Area::User => user::answer(ctx, &console_user).await,
        Area::Keys => operation::keys(ctx, &console_user).await,
        Area::Apps => Ok(operation::apps(ctx, &console_user)),
        Area::Settings => Ok(operation::settings(ctx, &console_user)),
        Area::Audit => audit::answer(ctx, &console_user).await,
        Area::AuditExport => audit::export(ctx).await,
    }
}

/// The page that a sign-in comes back to: this one, or the list that it hangs on.
fn way_back(ctx: &RequestContext<'_>) -> &'static str {
    let path = ctx.head.uri.path();
    let path = path.strip_prefix(ctx.sealgate.config.issuer.path_prefix()).unwrap_or(path);
    let known = OWN_PAGES.iter().copied().filter(|page| path == *page);
    let above = OWN_PAGES.iter().copied().filter(|page| path.starts_with(&format!("{page}/")));
    known.chain(above).max_by_key(|page| page.len()).unwrap_or("/console")
}

/// The last segment of the path.
fn last_segment<'c>(ctx: &'c RequestContext<'_>) -> &'c str {
    ctx.head.uri.path().rsplit('/').next().unwrap_or_default()
}
