//! Form with a user's groups and roles, on the page of the user.
//!
//! The form sends the values that the page has shown. Only the difference is applied, so that the
//! form does not undo what another administrator has changed since.

use std::collections::BTreeSet;

use http::StatusCode;

use crate::console::client::{command_context, failure_of};
use crate::console::confirmation::{Question, SignInData, Target};
use crate::console::user::{UserNotes, page_of, show};
use crate::console::users::{groups, roles, typed_groups};
use crate::console::{ConsoleUser, confirmation, owners};
use crate::submission::{self, Effect};
use sealgate_admin::user_settings::UserChanges;
use sealgate_admin::{CommandError, set_user_as_shown};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::MAX_GROUPS;
use sealgate_domain::user::{Role, Subject, User};
use sealgate_pages::console::{ConfirmDetail, ConfirmLabel, GuardedChange, OwnedClients, TypedUser, UserField};
use sealgate_pages::{Done, Problem};

/// Input of the form.
pub(super) struct Membership {
    groups: String,
    roles: BTreeSet<Role>,
    /// Groups and roles that the page has shown. `None` if the form has no such fields.
    shown: Option<(BTreeSet<String>, BTreeSet<Role>)>,
}

impl Membership {
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        // Groups contain no commas.
        let list = |text: &str| text.split(',').filter(|text| !text.is_empty()).map(str::to_owned).collect();
        let shown_groups: Option<BTreeSet<String>> = form.one("shown_groups")?.map(list);
        let shown_roles = form.one("shown_roles")?.unwrap_or_default();
        let shown_roles = Role::ALL.into_iter().filter(|role| {
            let name = role.as_str();
            shown_roles.split(',').any(|shown| shown == name)
        });
        Ok(Self {
            groups: typed_groups(form)?,
            roles: roles(form),
            shown: shown_groups.map(|groups| (groups, shown_roles.collect())),
        })
    }

    pub(super) fn typed(&self) -> TypedUser<'_> {
        TypedUser { groups: &self.groups, roles: &self.roles, shown: self.shown.as_ref() }
    }

    /// Returns the difference to the shown values, or `None` if a group is invalid.
    fn difference(&self, user: &User) -> Option<Difference> {
        let groups = groups(&self.groups)?;
        let (shown_groups, shown_roles) =
            self.shown.as_ref().map_or((&user.groups, &user.roles), |(groups, roles)| (groups, roles));
        Some(Difference {
            added: groups.difference(shown_groups).cloned().collect(),
            removed: shown_groups.difference(&groups).cloned().collect(),
            added_roles: self.roles.difference(shown_roles).copied().collect(),
            removed_roles: shown_roles.difference(&self.roles).copied().collect(),
        })
    }
}

/// Groups and roles to add and to remove.
struct Difference {
    added: BTreeSet<String>,
    removed: BTreeSet<String>,
    added_roles: BTreeSet<Role>,
    removed_roles: BTreeSet<Role>,
}

impl Difference {
    /// Returns whether only these groups change, and no role.
    fn is_within(&self, groups: &BTreeSet<String>) -> bool {
        let has_no_roles = self.added_roles.is_empty() && self.removed_roles.is_empty();
        has_no_roles && self.added.is_subset(groups) && self.removed.is_subset(groups)
    }

    /// Applies the difference. Changes nothing if the user would have too many groups.
    fn apply(&self, user: &mut User) {
        let mut groups: BTreeSet<String> = user.groups.difference(&self.removed).cloned().collect();
        groups.extend(self.added.iter().cloned());
        if groups.len() > MAX_GROUPS && groups.len() > user.groups.len() {
            return;
        }
        user.groups = groups;
        user.roles.retain(|role| !self.removed_roles.contains(role));
        user.roles.extend(self.added_roles.iter().copied());
    }

    fn into_changes(self) -> UserChanges {
        let (add_groups, remove_groups) = (self.added.into_iter().collect(), self.removed.into_iter().collect());
        UserChanges {
            add_roles: self.added_roles.into_iter().collect(),
            remove_roles: self.removed_roles.into_iter().collect(),
            ..UserChanges::of_groups(add_groups, remove_groups)
        }
    }

    fn applied(&self, user: &User) -> User {
        let mut next = user.clone();
        self.apply(&mut next);
        next
    }
}

/// Returns the question about the form, or `None` if it changes nothing.
pub(super) async fn question<'a>(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &'a User,
    typed: &Membership,
) -> Result<Option<Question<'a>>, Failure> {
    let Some(difference) = typed.difference(user) else { return Ok(None) };
    let next = difference.applied(user);
    let (added, removed): (Vec<String>, Vec<String>) = (
        next.groups.difference(&user.groups).cloned().collect(),
        user.groups.difference(&next.groups).cloned().collect(),
    );
    let of_roles = confirmation::of_roles(ctx, Some((&user.roles, &user.groups)), (&next.roles, &next.groups));
    if of_roles.is_none() && added.is_empty() && removed.is_empty() {
        return Ok(None);
    }
    let details = [(ConfirmLabel::GroupsAdded, added), (ConfirmLabel::GroupsRemoved, removed)];
    let details = details.into_iter().filter(|(_, values)| !values.is_empty());
    let question =
        Question::new(of_roles.unwrap_or(GuardedChange::ChangeGroups), Target::user(user, page_of(user.sub)))
            .with(details.map(|(label, values)| ConfirmDetail { label, values }).collect());
    let keeps_clients = ctx.sealgate.config.console.roles_of(&next).has_any(ConsoleRoles::CLIENT_EDITORS);
    let clients =
        if keeps_clients { OwnedClients::default() } else { owners::clients_of(ctx, console_user, user.sub).await? };
    let is_promoted = ctx.sealgate.config.console.promotes(user, &next);
    let promoted = if is_promoted { Some(SignInData::read(ctx, user).await?) } else { None };
    Ok(Some(Question { clients, promoted, ..question }))
}

/// Saves the form.
pub(super) async fn save(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    user: &User,
    form: &Params,
) -> Result<Response, Failure> {
    let typed = Membership::read(form)?;
    let wrong = async |field| {
        let notes = UserNotes { typed: Some(&typed), faults: &[field], ..UserNotes::default() };
        show(ctx, console_user, user, &notes).await
    };
    let Some(difference) = typed.difference(user) else { return wrong(UserField::Groups).await };
    if !console_user.is_administrator() && !difference.is_within(&console_user.managed) {
        return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
    }
    let next = difference.applied(user);
    if !console_user.may_change_user(ctx, &next) {
        return wrong(UserField::ManagedGroups).await;
    }
    let is_lost = difference.added.iter().any(|group| !next.groups.contains(group));
    if is_lost {
        return wrong(UserField::Groups).await;
    }
    let roles = ctx.sealgate.config.console.roles_of(&next);
    let own = user.sub == console_user.visitor.user.sub;
    if own && !roles.covers(console_user.roles) {
        return wrong(UserField::OwnRole).await;
    }
    let asked = question(ctx, console_user, user, &typed).await?;
    if let Some(asked) = asked.as_ref().filter(|_| !confirmation::is_confirmed(form)) {
        return Ok(confirmation::page(ctx, console_user, form, asked));
    }
    let shown = asked.and_then(|asked| asked.promoted).map(|data| data.shown).unwrap_or_default();
    let work = Box::pin(async {
        if !confirmation::has_shown(form, &shown)? {
            return Ok(Effect::Refused(ask_again(ctx, console_user, user.sub, form, &typed).await?));
        }
        if !roles.has_any(ConsoleRoles::CLIENT_EDITORS) {
            owners::disable_if_chosen(ctx, console_user, user.sub, form).await?;
        }
        let (context, changes) = (command_context(ctx, console_user), difference.into_changes());
        match set_user_as_shown(&context, user.sub, &changes, &shown).await {
            Ok(_) => {}
            Err(CommandError::SignInDataChanged) => {
                return Ok(Effect::Refused(ask_again(ctx, console_user, user.sub, form, &typed).await?));
            }
            Err(error) => return Err(failure_of(error)),
        }
        Ok(Effect::Done { page: format!("{}?done={}", page_of(user.sub), Done::User.as_str()), secret: None })
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

/// Asks for the confirmation again, because the sign-in data of the user have changed since.
async fn ask_again(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    subject: Subject,
    form: &Params,
    typed: &Membership,
) -> Result<Response, Failure> {
    let user = ctx.sealgate.store.user(subject).await?;
    let user = user.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    match question(ctx, console_user, &user, typed).await? {
        Some(question) => Ok(confirmation::page(ctx, console_user, form, &question)),
        // Another administrator has made the change.
        None => show(ctx, console_user, &user, &UserNotes::default()).await,
    }
}
