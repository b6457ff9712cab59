//! Guarded changes in the console: changes that need a recent sign-in and a confirmation.
//!
//! Without both, an attacker at an administrator's open browser could take over any account with
//! one click.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;

use super::kept_form;
use crate::console::ConsoleUser;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::client::Client;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::user::{Role, User};
use sealgate_pages::console::{ConfirmPage, GuardedChange};
use sealgate_pages::html;

/// Maximum age of the sign-in for a guarded change.
const MAX_SIGN_IN_AGE: Duration = Duration::from_mins(5);

/// Returns the guarded change that an action on a user's page makes, if any.
///
/// For `save` see [`of_roles`], for `save-profile` see [`super::user_profile::Profile::change`].
pub(super) fn of_user_action(action: &str) -> Option<GuardedChange> {
    match action {
        "reset-password" => Some(GuardedChange::ResetPassword),
        "disable" => Some(GuardedChange::DisableUser),
        "delete" => Some(GuardedChange::DeleteUser),
        "revoke" => Some(GuardedChange::RevokeAccess),
        "reset-factors" => Some(GuardedChange::ResetFactors),
        _ => None,
    }
}

/// Returns the guarded change that an action on a client's page makes, if any.
pub(super) fn of_client_action(action: &str) -> Option<GuardedChange> {
    match action {
        "disable" => Some(GuardedChange::DisableClient),
        "delete" => Some(GuardedChange::DeleteClient),
        "rotate" => Some(GuardedChange::RotateSecret),
        "add-secret" => Some(GuardedChange::AddSecret),
        "remove-secret" => Some(GuardedChange::RemoveSecret),
        "set-keys" => Some(GuardedChange::SetKeys),
        "use-secret" => Some(GuardedChange::UseSecret),
        _ => None,
    }
}

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
    let sources = |(roles, groups): Rights<'_>| {
        let has = |group: &Option<String>| group.as_ref().is_some_and(|group| groups.contains(group));
        (roles.clone(), has(&console.admins), has(&console.developers))
    };
    let role = visitor::console_role(ctx, after.0, |group| after.1.contains(group));
    match before {
        None => (sources(after) != (BTreeSet::new(), false, false)).then_some(GuardedChange::AddUser(role)),
        Some(before) => (sources(before) != sources(after)).then_some(GuardedChange::SetRole(role)),
    }
}

/// User or client that a change applies to.
pub(super) struct Target<'a> {
    pub(super) name: &'a str,
    pub(super) identifier: &'a str,
    /// Path of the page with the form, without the issuer's prefix.
    pub(super) page: String,
}

impl<'a> Target<'a> {
    pub(super) fn user(user: &'a User, page: String) -> Self {
        Self { name: &user.name, identifier: user.sign_in_name(), page }
    }

    pub(super) fn client(client: &'a Client, page: String) -> Self {
        Self { name: &client.name, identifier: client.id.as_str(), page }
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

/// Asks the user to confirm a change.
///
/// Returns the page with the question, or `None` if the form contains the confirmation.
///
/// If the sign-in is too old, the form is kept until the user has signed in again.
///
/// # Errors
/// [`Failure::Redirect`] when the sign-in is too old; when the store fails.
pub(super) async fn ask(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
    change: GuardedChange,
    target: &Target<'_>,
) -> Result<Option<Response>, Failure> {
    let is_confirmed = is_confirmed(ctx, console_user, form, &target.page).await?;
    Ok(if is_confirmed { None } else { Some(page(ctx, console_user, form, change, target)) })
}

/// Returns whether the form contains the confirmation of a guarded change.
///
/// If the sign-in is too old, the form is kept until the user has signed in again, and `page` then
/// shows it.
///
/// # Errors
/// As [`ask`].
pub(super) async fn is_confirmed(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
    page: &str,
) -> Result<bool, Failure> {
    match require_recent(ctx, page).await {
        Err(Failure::Redirect(_)) => {
            let page = kept_form::keep(ctx, &console_user.visitor, page, form).await?;
            require_recent(ctx, &page).await?;
        }
        recent => recent?,
    }
    Ok(form.has("sure"))
}

/// Returns the fields of a form that its confirmation sends again.
pub(super) fn fields<'f>(form: &'f Params, once: &'f str) -> Vec<(&'f str, &'f str)> {
    let mut fields: Vec<(&str, &str)> = form.pairs().filter(|(name, _)| !["csrf", "sure"].contains(name)).collect();
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
    change: GuardedChange,
    target: &Target<'_>,
) -> Response {
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let fields = fields(form, &once);
    let page = ConfirmPage {
        inside,
        csrf: &console_user.csrf(ctx),
        change,
        name: target.name,
        identifier: target.identifier,
        new_address: fields.iter().find(|(name, value)| *name == "email" && !value.is_empty()).map(|(_, value)| *value),
        fields: &fields,
        action: &target.page,
        cancel: &target.page,
    };
    Response::page(StatusCode::OK, html(&page), None)
}
