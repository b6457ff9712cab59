//! `/console`: pages where developers register clients, and administrators manage users, keys and
//! limits.
//!
//! [`Area::readers`] are the roles that may open a page, and [`Area::editors`] those that may send a
//! form to it. [`ConsoleUser::client`] limits developers to their own clients, and
//! [`ConsoleUser::user`] user managers to the users that they manage. [`actions`] has what each action requires: the roles, a recent sign-in, a
//! confirmation. Each change is a form with a CSRF token, which is bound to the user and to the
//! page's path. Each commit requires that the user still has the role.
//!
//! The pages have modules of their own.

mod actions;
mod api_tokens;
mod app;
mod audit;
mod audit_export;
mod audit_filters;
mod bulk;
mod check_access;
mod client;
mod client_grants;
mod client_logo;
mod client_test;
mod clients;
mod confirmation;
mod edit_app;
mod export;
mod form;
mod groups;
mod import_users;
mod invite;
mod kept_form;
mod keys;
mod mail;
mod membership;
mod new_app;
mod overview;
mod owners;
mod registration_tokens;
mod settings;
mod upload;
mod user;
mod user_list;
mod user_profile;
mod users;
mod users_export;

use std::collections::BTreeSet;

use http::{Method, StatusCode};

use self::actions::{Action, Guard};
use self::upload::Upload;
use crate::boxed;
use crate::request::ProviderRequest as _;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::tokens::clients::OWN_PAGES;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::{Authority, Client, ClientId};
use sealgate_domain::console_role::{ConsoleRole, ConsoleRoles};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::user::{Subject, User};
use sealgate_pages::console::{AppSection, ClientSection, UserSection};
use sealgate_pages::{Inside, Problem};
use sealgate_store::UserRule;

/// Page of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Area {
    Overview,
    Clients,
    NewClient,
    Client,
    ClientSection(ClientSection),
    ClientTest,
    ClientTestCallback,
    Users,
    NewUser,
    User,
    UserSection(UserSection),
    Bulk,
    Invite,
    Import,
    UsersExport,
    Groups,
    Group,
    Keys,
    Mail,
    MailTemplates,
    Apps,
    App(AppSection),
    EditApp,
    EditRule,
    NewApp,
    CheckAccess,
    Settings,
    Audit,
    AuditExport,
    ApiTokens,
    RegistrationTokens,
}

impl Area {
    /// Returns the roles that may open the page: one of them is enough. Developers read only their own
    /// clients, and user managers only the users that they manage.
    fn readers(self) -> ConsoleRoles {
        match self {
            // The overview leads developers to their clients, and user managers to their users.
            Self::Overview => ConsoleRoles::ANY,
            Self::Clients
            | Self::Client
            | Self::ClientSection(
                ClientSection::Settings
                | ClientSection::Connect
                | ClientSection::Secrets
                | ClientSection::Logo
                | ClientSection::Danger,
            ) => ConsoleRoles::CLIENT_READERS,
            // These pages are forms.
            Self::NewClient | Self::ClientTest | Self::ClientTestCallback => ConsoleRoles::CLIENT_EDITORS,
            Self::NewUser | Self::Bulk | Self::Invite => ConsoleRoles::USER_EDITORS,
            Self::Import
            | Self::NewApp
            | Self::EditApp
            | Self::EditRule
            | Self::ClientSection(ClientSection::Rules) => ConsoleRoles::ADMINISTRATORS,
            Self::Users | Self::UsersExport | Self::User | Self::UserSection(_) | Self::Groups | Self::Group => {
                ConsoleRoles::USER_READERS
            }
            Self::ClientSection(ClientSection::Grants)
            | Self::Keys
            | Self::Mail
            | Self::MailTemplates
            | Self::Apps
            | Self::App(_)
            | Self::CheckAccess
            | Self::Settings
            | Self::Audit
            | Self::AuditExport
            | Self::ApiTokens
            | Self::RegistrationTokens => ConsoleRoles::READERS,
        }
    }

    /// Returns the roles that may send a form to the page. Other users get 403 whatever the form has.
    /// [`Action::roles`] says which actions.
    fn editors(self) -> ConsoleRoles {
        match self {
            Self::NewClient | Self::Client | Self::ClientSection(ClientSection::Logo) | Self::ClientTest => {
                ConsoleRoles::CLIENT_EDITORS
            }
            Self::NewUser | Self::User | Self::Bulk | Self::Invite => ConsoleRoles::USER_EDITORS,
            // A check changes nothing.
            Self::CheckAccess => ConsoleRoles::READERS,
            Self::Overview
            | Self::Clients
            | Self::ClientSection(_)
            | Self::ClientTestCallback
            | Self::Users
            | Self::UserSection(_)
            | Self::Import
            | Self::UsersExport
            | Self::Groups
            | Self::Group
            | Self::Keys
            | Self::Mail
            | Self::MailTemplates
            | Self::Apps
            | Self::App(_)
            | Self::EditApp
            | Self::EditRule
            | Self::NewApp
            | Self::Settings
            | Self::Audit
            | Self::AuditExport
            | Self::ApiTokens
            | Self::RegistrationTokens => ConsoleRoles::ADMINISTRATORS,
        }
    }
}

pub(super) async fn console_page(ctx: &RequestContext<'_>, area: Area) -> Result<Response, Failure> {
    let is_form = ctx.head.method == Method::POST;
    let console_user = ConsoleUser::enter(ctx, area).await?;
    if is_form {
        require(ctx, &console_user, area).await?;
    }
    // Boxed: the state of some pages is large.
    let page = match area {
        Area::Overview => boxed(|| overview::overview_page(ctx, &console_user)),
        Area::Clients => boxed(|| clients::clients_page(ctx, &console_user)),
        Area::NewClient => boxed(|| clients::register(ctx, &console_user)),
        Area::Client => boxed(|| client::client_page(ctx, &console_user)),
        Area::ClientSection(ClientSection::Logo) => boxed(|| client_logo::logo_page(ctx, &console_user)),
        Area::ClientSection(section) => boxed(|| client::section_page(ctx, &console_user, section)),
        Area::ClientTest => boxed(|| client_test::client_test_page(ctx, &console_user)),
        Area::ClientTestCallback => boxed(|| client_test::callback(ctx, &console_user)),
        Area::Users => boxed(|| user_list::users_page(ctx, &console_user)),
        Area::NewUser => boxed(|| users::add(ctx, &console_user)),
        Area::User => boxed(|| user::user_page(ctx, &console_user)),
        Area::UserSection(section) => boxed(|| user::section_page(ctx, &console_user, section)),
        Area::Bulk => boxed(|| bulk::bulk(ctx, &console_user)),
        Area::Invite => boxed(|| invite::invite_page(ctx, &console_user)),
        Area::Import => boxed(|| import_users::import_page(ctx, &console_user)),
        Area::UsersExport => boxed(|| users_export::export(ctx, &console_user)),
        Area::Groups => boxed(|| groups::groups_page(ctx, &console_user)),
        Area::Group => boxed(|| groups::members_page(ctx, &console_user)),
        Area::Keys => boxed(|| keys::keys_page(ctx, &console_user)),
        Area::Mail => boxed(|| mail::mail_page(ctx, &console_user)),
        Area::MailTemplates => return mail::templates_page(ctx, &console_user),
        Area::Apps => return Ok(app::apps_page(ctx, &console_user).await),
        Area::App(section) => boxed(|| app::app_page(ctx, &console_user, section)),
        Area::EditApp => boxed(|| edit_app::edit_page(ctx, &console_user)),
        Area::EditRule => boxed(|| edit_app::rule_page(ctx, &console_user)),
        Area::NewApp => boxed(|| new_app::new_app_page(ctx, &console_user)),
        Area::CheckAccess => boxed(|| check_access::check_page(ctx, &console_user)),
        Area::Settings => boxed(|| settings::settings_page(ctx, &console_user)),
        Area::Audit => boxed(|| audit::audit_page(ctx, &console_user)),
        Area::AuditExport => boxed(|| audit_export::export(ctx, &console_user)),
        Area::ApiTokens => boxed(|| api_tokens::api_tokens_page(ctx, &console_user)),
        Area::RegistrationTokens => boxed(|| registration_tokens::tokens_page(ctx, &console_user)),
    };
    page.await
}

/// Requires what the table of actions demands for the form of this request.
///
/// # Errors
/// An error page if the user may not make the action; [`Failure::Redirect`] if the sign-in is too
/// old; when the store fails.
async fn require(ctx: &RequestContext<'_>, console_user: &ConsoleUser, area: Area) -> Result<(), Failure> {
    let id = match area {
        Area::Client | Area::ClientTest => Some(last_segment(ctx)),
        Area::ClientSection(_) => Some(segment_before_last(ctx)),
        _ => None,
    };
    if let Some(id) = id {
        // Another developer's client is answered with 404, also if the form is invalid.
        let client = console_user.client(ctx, ClientId::from_path_segment(id)).await?;
        if !console_user.may_change(&client) {
            return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
        }
    }
    let form = match area {
        Area::ClientSection(ClientSection::Logo) | Area::Import => console_user.upload(ctx).await?.fields,
        _ => console_user.form(ctx)?,
    };
    let action = Action::read(area, &form)?;
    if !console_user.roles.has_any(action.roles()) {
        return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
    }
    match action.guard() {
        Guard::None | Guard::ByContent => Ok(()),
        Guard::RecentSignIn | Guard::Confirmation => {
            confirmation::require_recent_for_form(ctx, console_user, &form).await
        }
    }
}

/// Signed-in user of a console page, with a role that may open the page or send its form.
struct ConsoleUser {
    visitor: Visitor,
    roles: ConsoleRoles,
    /// Groups whose users the user manages. Empty if the user is no user manager.
    managed: BTreeSet<String>,
    /// Actor of audit events.
    actor: Actor,
}

impl ConsoleUser {
    /// Returns the user of a page, who has a role to open it or to send a form to it.
    ///
    /// The sign-in must be recent and reach the level that `[factors]` demands.
    async fn enter(ctx: &RequestContext<'_>, area: Area) -> Result<Self, Failure> {
        let required = if ctx.head.method == Method::POST { area.editors() } else { area.readers() };
        let max_age = ctx.sealgate.config.console.sign_in;
        let visitor = match Visitor::recent(ctx, &page_after_sign_in(ctx), max_age).await {
            Err(Failure::Redirect(address)) => return Err(keep_form(ctx, required, address).await?),
            visitor => visitor?,
        };
        let roles = visitor.console_roles(ctx);
        if !roles.has_any(required) {
            return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
        }
        if visitor.unmet_level(ctx).await?.is_some() {
            return Err(Failure::Redirect(ctx.path("/account/security")));
        }
        let managed = ctx.sealgate.config.console.managed_by(&visitor.user);
        limit_commits(ctx, roles, &managed);
        let subject = visitor.user.sub;
        let actor = match () {
            () if roles.is_administrator() => Actor::Administrator(subject),
            () if area.editors().has(ConsoleRole::UserManager) => Actor::UserManager(subject),
            () if area.editors().has(ConsoleRole::Developer) => Actor::Developer(subject),
            () => Actor::Auditor(subject),
        };
        Ok(Self { visitor, roles, managed, actor })
    }

    /// Returns the client with this id, if the user may see it.
    ///
    /// The response is 404 both for an unknown client and for another developer's client, so that
    /// it does not reveal which clients exist.
    async fn client(&self, ctx: &RequestContext<'_>, id: Option<ClientId>) -> Result<Client, Failure> {
        let client = match id {
            Some(id) => ctx.sealgate.store.client(&id).await?,
            None => None,
        };
        let client = client.filter(|client| self.may_see(client));
        client.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))
    }

    /// Returns whether the user may see the client.
    fn may_see(&self, client: &Client) -> bool {
        self.roles.reads_everything() || self.may_change(client)
    }

    /// Returns whether the user may change the client.
    fn may_change(&self, client: &Client) -> bool {
        let is_own = client.owner == Some(self.visitor.user.sub);
        self.is_administrator() || (self.roles.has(ConsoleRole::Developer) && is_own)
    }

    /// Returns the user with this id, if the user of the page may see them.
    ///
    /// The response is 404 both for an unknown user and for a user whom a user manager does not
    /// manage.
    async fn user(&self, ctx: &RequestContext<'_>, id: &str) -> Result<Option<User>, Failure> {
        let user = match Subject::parse(id) {
            Some(subject) => ctx.sealgate.store.user(subject).await?,
            None => None,
        };
        Ok(user.filter(|user| self.may_see_user(ctx, user)))
    }

    fn may_see_user(&self, ctx: &RequestContext<'_>, user: &User) -> bool {
        self.roles.reads_everything() || self.may_change_user(ctx, user)
    }

    fn may_change_user(&self, ctx: &RequestContext<'_>, user: &User) -> bool {
        self.is_administrator() || ctx.sealgate.config.console.is_managed(user, &self.managed)
    }

    /// Returns whether the user may add users to this group, and remove them.
    fn may_change_group(&self, group: &str) -> bool {
        self.is_administrator() || self.managed.contains(group)
    }

    /// Returns the groups to which lists of users are limited, for a user manager.
    fn listed_groups(&self) -> Option<&BTreeSet<String>> {
        (!self.roles.reads_everything()).then_some(&self.managed)
    }

    /// Returns whether the user may register a redirect URI. `client` is `None` for a new client.
    fn may_register(&self, ctx: &RequestContext<'_>, uri: &RedirectUri, client: Option<&Client>) -> bool {
        self.is_administrator() || ctx.sealgate.config.may_register(uri, client)
    }

    fn is_administrator(&self) -> bool {
        self.roles.is_administrator()
    }

    /// Returns the user's authority in decisions about clients.
    fn authority(&self) -> Authority {
        let subject = self.visitor.user.sub;
        if self.is_administrator() { Authority::Administrator(subject) } else { Authority::Owner(subject) }
    }

    /// Returns an audit event with this user as the actor. The caller adds the details.
    fn event(&self, ctx: &RequestContext<'_>, kind: AuditKind) -> AuditEvent {
        ctx.event(kind, self.actor)
    }

    fn csrf(&self, ctx: &RequestContext<'_>) -> String {
        self.visitor.csrf(ctx, ctx.head.uri.path())
    }

    fn form(&self, ctx: &RequestContext<'_>) -> Result<Params, Failure> {
        self.visitor.form(ctx, ctx.head.uri.path())
    }

    /// Reads a form that may have a file.
    ///
    /// # Errors
    /// An error page if the form is malformed, or if the CSRF token is wrong.
    async fn upload(&self, ctx: &RequestContext<'_>) -> Result<Upload, Failure> {
        let upload = Upload::read(ctx).await?;
        if ctx.is_own_form(&upload.fields, &self.csrf(ctx))? {
            Ok(upload)
        } else {
            Err(Failure::page(Problem::ExpiredForm))
        }
    }

    fn inside<'a>(&'a self, ctx: &'a RequestContext<'_>) -> Inside<'a> {
        self.visitor.inside(ctx)
    }
}

/// Requires for the commits of this request that the user still has these roles and still manages these
/// groups, and that a user who is no administrator changes only users of these groups.
fn limit_commits(ctx: &RequestContext<'_>, roles: ConsoleRoles, managed: &BTreeSet<String>) {
    let (store, console, groups) = (&ctx.sealgate.store, ctx.sealgate.config.console.clone(), managed.clone());
    store.require(UserRule::new(move |user| {
        let now = console.roles_of(user);
        now.covers(roles) && (now.is_administrator() || console.managed_by(user).is_superset(&groups))
    }));
    if !roles.is_administrator() {
        let (console, groups) = (ctx.sealgate.config.console.clone(), managed.clone());
        store.limit_users(UserRule::new(move |user| console.is_managed(user, &groups)));
    }
}

/// Stores the form of this request until the user has signed in again, because the sign-in is too
/// old.
///
/// Returns the redirect to the sign-in. If the request has no form to keep, the redirect goes to
/// `address`.
async fn keep_form(ctx: &RequestContext<'_>, required: ConsoleRoles, address: String) -> Result<Failure, Failure> {
    let (page, path) = (page_after_sign_in(ctx), ctx.head.uri.path());
    if ctx.head.method != Method::POST {
        return Ok(Failure::Redirect(address));
    }
    let visitor = Visitor::find(ctx, &page).await?;
    if !visitor.console_roles(ctx).has_any(required) {
        return Ok(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
    }
    if ctx.path(&page) != path {
        return Ok(Failure::Redirect(address));
    }
    let Ok(form) = visitor.form(ctx, path) else { return Ok(Failure::Redirect(address)) };
    let page = kept_form::keep(ctx, &visitor, &page, &form).await?;
    let max_age = ctx.sealgate.config.console.sign_in;
    Ok(Visitor::recent(ctx, &page, max_age).await.err().unwrap_or(Failure::Redirect(address)))
}

/// Returns the path of the page to open after a sign-in: the current page, or the list that
/// contains the current page.
fn page_after_sign_in(ctx: &RequestContext<'_>) -> String {
    let path = ctx.head.uri.path();
    let path = path.strip_prefix(ctx.sealgate.config.issuer.path_prefix()).unwrap_or(path);
    if visitor::request_for(path).1.is_some() {
        return path.to_owned();
    }
    let own_page = OWN_PAGES.iter().copied().filter(|page| path == *page);
    let above = OWN_PAGES.iter().copied().filter(|page| path.starts_with(&format!("{page}/")));
    own_page.chain(above).max_by_key(|page| page.len()).unwrap_or("/console").to_owned()
}

/// Returns the last segment of the request's path.
fn last_segment<'c>(ctx: &'c RequestContext<'_>) -> &'c str {
    ctx.head.uri.path().rsplit('/').next().unwrap_or_default()
}

/// Returns the segment before the last one: the identifier in the path of a section.
fn segment_before_last<'c>(ctx: &'c RequestContext<'_>) -> &'c str {
    ctx.head.uri.path().rsplit('/').nth(1).unwrap_or_default()
}
