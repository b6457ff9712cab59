//! Recent sign-in and confirmation, which [`super::actions`] requires for changes of access.
//!
//! Without both, an attacker at an administrator's open browser could take over any account with
//! one click.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;

use super::kept_form;
use crate::account::activity::EventNames;
use crate::account::security::factor_lines;
use crate::console::{ConsoleUser, page_after_sign_in};
use crate::visitor::Visitor;
use sealgate_admin::open_accesses;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::client::Client;
use sealgate_domain::factors::Factors;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::open_access::{AccessKind, OpenAccess};
use sealgate_domain::shown_sign_in_data::ShownSignInData;
use sealgate_domain::user::{Role, User};
use sealgate_pages::console::{ConfirmDetail, ConfirmPage, GuardedChange, OwnedClients, PromotedUser};
use sealgate_pages::{EventLine, html};

/// Maximum age of the sign-in for a guarded change.
const MAX_SIGN_IN_AGE: Duration = Duration::from_mins(5);

/// Field of the confirmation with the choice to disable the clients of a user.
pub(super) const DISABLE_CLIENTS: &str = "disable_clients";

/// Field of the confirmation with the digest of the sign-in data of the users who get rights.
const SIGN_IN_DATA: &str = "sign_in_data";

/// Roles and groups of a user.
type Rights<'a> = (&'a BTreeSet<Role>, &'a BTreeSet<String>);

/// Returns the guarded change if new roles and groups give or remove a console role.
///
/// `before` is `None` for a new user.
pub(super) fn of_roles(
    ctx: &RequestContext<'_>,
    before: Option<Rights<'_>>,
    after: Rights<'_>,
) -> Option<GuardedChange> {
    let console = &ctx.sealgate.config.console;
    let sources = |(roles, groups): Rights<'_>| -> (BTreeSet<Role>, Vec<String>) {
        let of_groups = console.role_groups().map(|(group, _)| group).filter(|group| groups.contains(*group));
        (roles.clone(), of_groups.map(str::to_owned).collect())
    };
    let roles = console.roles(after.0, |group| after.1.contains(group));
    match before {
        None => (sources(after) != (BTreeSet::new(), Vec::new())).then_some(GuardedChange::AddUser(roles)),
        Some(before) => (sources(before) != sources(after)).then_some(GuardedChange::SetRole(roles)),
    }
}

/// User or client that a change applies to.
pub(super) struct Target<'a> {
    pub(super) name: &'a str,
    pub(super) identifier: &'a str,
    /// Path that receives the form, without the issuer's prefix.
    pub(super) page: String,
    /// Path of the page with the form, if it is another one.
    pub(super) section: Option<String>,
}

impl<'a> Target<'a> {
    pub(super) fn user(user: &'a User, page: String) -> Self {
        Self { name: &user.name, identifier: user.sign_in_name(), page, section: None }
    }

    pub(super) fn client(client: &'a Client, page: String) -> Self {
        Self { name: &client.name, identifier: client.id.as_str(), page, section: None }
    }

    /// Sets the path of the page with the form.
    pub(super) fn of_section(self, section: String) -> Self {
        Self { section: Some(section), ..self }
    }
}

/// Change that a page asks the user to confirm.
pub(super) struct Question<'a> {
    pub(super) change: GuardedChange,
    pub(super) target: Target<'a>,
    /// Parts of the change.
    pub(super) details: Vec<ConfirmDetail>,
    /// Clients that would have no owner after the change.
    pub(super) clients: OwnedClients,
    /// Sign-in data of a user who gets a console role, or further users to manage.
    pub(super) promoted: Option<SignInData>,
}

/// Sign-in data of a user, with the times at which they were added.
pub(super) struct SignInData {
    /// Digest of the data. The commit compares it.
    pub(super) shown: ShownSignInData,
    /// Whether a user manager could sign in as the user.
    is_open_to_manager: bool,
    email: Option<(String, bool)>,
    factors: Option<Factors>,
    sessions: Vec<OpenAccess>,
    changes: Vec<EventLine>,
}

/// Number of events in [`SignInData`].
const MAX_CHANGES: usize = 20;

/// Events that add or change sign-in data, by the user or by somebody else.
const CHANGES: [AuditKind; 11] = [
    AuditKind::UserCreated,
    AuditKind::UserChanged,
    AuditKind::InvitationSent,
    AuditKind::InvitationAccepted,
    AuditKind::PasswordChanged,
    AuditKind::PasswordResetAsked,
    AuditKind::PasswordReset,
    AuditKind::AddressVerified,
    AuditKind::AddressChanged,
    AuditKind::FactorAdded,
    AuditKind::FactorsReset,
];

impl SignInData {
    /// Reads the sign-in data of a user.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn read(ctx: &RequestContext<'_>, user: &User) -> Result<Self, Failure> {
        let (store, config) = (&ctx.sealgate.store, &ctx.sealgate.config);
        let keep = config.sessions.keep_signed_in;
        let mut sessions = open_accesses::of_user(store, &config.apps, user.sub, keep, ctx.now).await?;
        sessions.retain(|access| access.kind == AccessKind::Session);
        let filter = AuditFilter { subject: Some(user.sub), kinds: CHANGES.into(), ..AuditFilter::default() };
        ctx.sealgate.audit.store_pending(filter.subject).await;
        let (mut names, mut changes) = (EventNames::default(), Vec::new());
        for record in store.audit_page(&filter, None, MAX_CHANGES).await?.records {
            changes.push(names.line(ctx, record.event).await?);
        }
        let factors = store.factors(user.sub).await?.map(|loaded| loaded.value);
        let mut shown = ShownSignInData::default();
        shown.add(user, factors.as_ref());
        Ok(Self {
            shown,
            is_open_to_manager: user.is_open_to_manager(),
            email: user.email.as_ref().map(|email| (email.as_str().to_owned(), user.email_verified)),
            factors,
            sessions,
            changes,
        })
    }
}

impl<'a> Question<'a> {
    pub(super) fn new(change: GuardedChange, target: Target<'a>) -> Self {
        Self { change, target, details: Vec::new(), clients: OwnedClients::default(), promoted: None }
    }

    /// Adds the parts of the change.
    pub(super) fn with(self, details: Vec<ConfirmDetail>) -> Self {
        Self { details, ..self }
    }
}

/// Requires a sign-in that is recent enough for a guarded change. A user who has to sign in again
/// returns to `page` afterwards.
///
/// Pages with a form for a guarded change also call this function before they show the form, so
/// that users rarely have to sign in again after typing.
///
/// # Errors
/// [`Failure::Redirect`] when the sign-in is too old; when the store fails.
pub(super) async fn require_recent(ctx: &RequestContext<'_>, page: &str) -> Result<(), Failure> {
    Visitor::recent(ctx, page, MAX_SIGN_IN_AGE).await.map(drop)
}

/// Like [`require_recent`], for a form that was sent. If the sign-in is too old, the form is kept
/// until the user has signed in again. Its page, or the list above it, then shows the form.
///
/// # Errors
/// As [`require_recent`].
pub(super) async fn require_recent_for_form(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
) -> Result<(), Failure> {
    let page = page_after_sign_in(ctx);
    match require_recent(ctx, &page).await {
        Err(Failure::Redirect(_)) => {
            let page = kept_form::keep(ctx, &console_user.visitor, &page, form).await?;
            require_recent(ctx, &page).await
        }
        recent => recent,
    }
}

/// Returns whether the form was sent from its confirmation.
pub(super) fn is_confirmed(form: &Params) -> bool {
    form.has("sure")
}

/// Returns whether the confirmation had these sign-in data of users who get rights.
///
/// Otherwise the administrator would confirm a password or an address that somebody has set since. The
/// commit compares the data again.
pub(super) fn has_shown(form: &Params, current: &ShownSignInData) -> Result<bool, Failure> {
    Ok(form.one(SIGN_IN_DATA)? == current.digest().as_deref())
}

/// Returns the field with the digest of these sign-in data, for the form of the confirmation.
pub(super) fn sign_in_data_field(digest: Option<&String>) -> Option<(&str, &str)> {
    digest.map(|digest| (SIGN_IN_DATA, digest.as_str()))
}

/// Returns the fields of a form that its confirmation sends again.
pub(super) fn fields<'f>(form: &'f Params, once: &'f str) -> Vec<(&'f str, &'f str)> {
    let mut fields: Vec<(&str, &str)> =
        form.pairs().filter(|(name, _)| !["csrf", "sure", DISABLE_CLIENTS, SIGN_IN_DATA].contains(name)).collect();
    // A kept form has no `once` token, because [`kept_form`] drops it.
    if !form.has("once") {
        fields.push(("once", once));
    }
    fields
}

/// Returns the page that asks for the confirmation.
pub(super) fn page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
    question: &Question<'_>,
) -> Response {
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let digest = question.promoted.as_ref().and_then(|data| data.shown.digest());
    let mut fields = fields(form, &once);
    fields.extend(sign_in_data_field(digest.as_ref()));
    let target = &question.target;
    let factors = factor_lines(question.promoted.as_ref().and_then(|data| data.factors.as_ref()));
    let promoted = question.promoted.as_ref().map(|data| PromotedUser {
        email: data.email.as_ref().map(|(address, is_verified)| (address.as_str(), *is_verified)),
        factors: &factors,
        is_open_to_manager: data.is_open_to_manager,
        sessions: &data.sessions,
        changes: &data.changes,
    });
    let page = ConfirmPage {
        inside,
        csrf: &console_user.csrf(ctx),
        change: question.change,
        name: target.name,
        identifier: target.identifier,
        new_address: fields.iter().find(|(name, value)| *name == "email" && !value.is_empty()).map(|(_, value)| *value),
        details: &question.details,
        promoted,
        clients: &question.clients,
        fields: &fields,
        action: &target.page,
        cancel: target.section.as_ref().unwrap_or(&target.page),
    };
    Response::page(StatusCode::OK, html(&page), None)
}
