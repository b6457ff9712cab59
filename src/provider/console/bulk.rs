//! `/console/users/bulk`: changes to several users, from the list of users and from the pages of
//! groups.
//!
//! Every change is guarded: it requires a recent sign-in, and a confirmation that lists the users.
//! The change executes one command for each user, each with its own audit event.

use http::StatusCode;

use crate::console::client::execute;
use crate::console::{ConsoleUser, confirmation, user_list};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect};
use crate::visitor;
use sealgate_admin::UserRef;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::UserChanges;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::{MAX_GROUPS, is_group};
use sealgate_domain::user::{Subject, User};
use sealgate_pages::console::{BulkAction, BulkFault, BulkLine, BulkPage, BulkSkip};
use sealgate_pages::{ConsoleRole, Done, Problem, html};
use sealgate_store::UserRecords;

/// Path of the form.
pub(super) const PAGE: &str = "/console/users/bulk";

/// Maximum number of users in one change.
const MAX_USERS: usize = 100;

/// Maximum length of the path to return to, in bytes.
const MAX_BACK_BYTES: usize = 2000;

/// Change to several users, as in the form.
struct Plan {
    action: BulkAction,
    group: String,
    users: Vec<User>,
    skipped: Vec<(BulkLine, BulkSkip)>,
    fault: Option<BulkFault>,
}

pub(super) async fn bulk(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let form = console_user.form(ctx)?;
    let plan = Plan::read(ctx, console_user, &form).await?;
    if plan.fault.is_some() || !confirmation::is_confirmed(ctx, console_user, &form, user_list::PAGE).await? {
        return Ok(show(ctx, console_user, &form, &plan));
    }
    let work = Box::pin(async {
        for user in &plan.users {
            match execute(ctx, console_user, Command::User(plan.command(user.sub))).await {
                // The user was deleted in the meantime, or can sign in by now.
                Ok(_) | Err(Failure::Page(StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST, _)) => {}
                Err(failure) => return Err(failure),
            }
        }
        let back = back(&form);
        let joint = if back.contains('?') { '&' } else { '?' };
        Ok(Effect::Done { page: format!("{back}{joint}done={}", Done::Users.as_str()), secret: None })
    });
    submission::once(ctx, &console_user.visitor, &form, work).await
}

/// Shows the confirmation of a form that was kept while the administrator signed in again.
pub(super) async fn resume(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
) -> Result<Response, Failure> {
    let plan = Plan::read(ctx, console_user, form).await?;
    Ok(show(ctx, console_user, form, &plan))
}

fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params, plan: &Plan) -> Response {
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let users: Vec<BulkLine> = plan.users.iter().map(line).collect();
    let role = Some(&plan.group).filter(|_| plan.action == BulkAction::AddToGroup);
    let page = BulkPage {
        inside,
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(PAGE)),
        action: plan.action,
        group: &plan.group,
        role: role.and_then(|group| visitor::console_role(ctx, &[].into(), |known| known == group)),
        users: &users,
        skipped: &plan.skipped,
        fault: plan.fault,
        fields: &confirmation::fields(form, &once),
        back: &ctx.path(&back(form)),
    };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Returns the path and query of the page with the form: the list of users, or a page of groups.
fn back(form: &Params) -> String {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+%&=?/".contains(&byte);
    let is_own = |path: &str| {
        let page = path.split('?').next().unwrap_or_default();
        let is_known = [user_list::PAGE, super::groups::PAGE, super::groups::MEMBERS].contains(&page);
        is_known && path.len() <= MAX_BACK_BYTES && path.bytes().all(allowed)
    };
    let path = form.one("back").ok().flatten().filter(|path| is_own(path));
    path.unwrap_or(user_list::PAGE).to_owned()
}

fn line(user: &User) -> BulkLine {
    BulkLine { name: user.name.clone(), identifier: user.sign_in_name().to_owned() }
}

impl Plan {
    async fn read(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Self, Failure> {
        let action = form.one("action")?.and_then(BulkAction::parse);
        let action = action.ok_or(Failure::page(Problem::InvalidRequest))?;
        if action == BulkAction::InviteAgain && !ctx.sealgate.sends_mail() {
            return Err(Failure::page(Problem::InvalidRequest));
        }
        let group = if action.has_group() { form.one("to_group")?.unwrap_or_default().trim() } else { "" };
        let mut plan = Self { action, group: group.to_owned(), users: Vec::new(), skipped: Vec::new(), fault: None };
        let all = |wanted: &'static str| form.pairs().filter(move |(name, _)| *name == wanted).map(|(_, text)| text);
        let mut subjects: Vec<Subject> = all("user").filter_map(Subject::parse).collect();
        let names: Vec<&str> =
            form.one("who")?.unwrap_or_default().lines().map(str::trim).filter(|name| !name.is_empty()).collect();
        plan.fault = match subjects.len() + names.len() {
            0 => Some(BulkFault::NoUsers),
            1..=MAX_USERS => None,
            _ => Some(BulkFault::TooMany { most: MAX_USERS as u64 }),
        };
        if action.has_group() && !is_group(group) {
            plan.fault = Some(BulkFault::Group);
        }
        if plan.fault.is_some() {
            return Ok(plan);
        }
        for name in names {
            if let Some(user) = ctx.sealgate.store.user_by_sign_in_name(name).await? {
                subjects.push(user.sub);
            } else {
                let line = BulkLine { name: String::new(), identifier: name.to_owned() };
                plan.skipped.push((line, BulkSkip::Unknown));
            }
        }
        let mut known = std::collections::BTreeSet::new();
        subjects.retain(|subject| known.insert(*subject));
        for row in ctx.sealgate.store.user_rows_of(&subjects).await? {
            let records = row.read()?;
            match plan.skip(ctx, console_user, &records) {
                None => plan.users.push(records.user),
                Some(reason) => plan.skipped.push((line(&records.user), reason)),
            }
        }
        Ok(plan)
    }

    /// Returns why the change leaves out this user, if it does.
    fn skip(&self, ctx: &RequestContext<'_>, console_user: &ConsoleUser, records: &UserRecords) -> Option<BulkSkip> {
        let UserRecords { user, factors, .. } = records;
        let own = user.sub == console_user.visitor.user.sub;
        let is_local_member = user.groups.contains(&self.group);
        match self.action {
            BulkAction::Disable | BulkAction::Revoke if own => Some(BulkSkip::Own),
            BulkAction::Disable => (!user.is_enabled()).then_some(BulkSkip::Unchanged),
            BulkAction::Enable => user.is_enabled().then_some(BulkSkip::Unchanged),
            BulkAction::Revoke => None,
            BulkAction::AddToGroup if is_local_member => Some(BulkSkip::Unchanged),
            BulkAction::AddToGroup => (user.groups.len() >= MAX_GROUPS).then_some(BulkSkip::TooManyGroups),
            BulkAction::RemoveFromGroup if !is_local_member && user.is_in_group(&self.group) => {
                Some(BulkSkip::Directory)
            }
            BulkAction::RemoveFromGroup if !is_local_member => Some(BulkSkip::Unchanged),
            BulkAction::RemoveFromGroup => {
                (own && !stays_administrator(ctx, user, &self.group)).then_some(BulkSkip::Own)
            }
            BulkAction::InviteAgain if user.has_password() => Some(BulkSkip::HasCredential),
            BulkAction::InviteAgain if factors.as_ref().is_some_and(|factors| !factors.keys.is_empty()) => {
                Some(BulkSkip::HasCredential)
            }
            BulkAction::InviteAgain => (!user.is_enabled() || user.email.is_none()).then_some(BulkSkip::CannotInvite),
        }
    }

    fn command(&self, subject: Subject) -> UserCommand {
        let user = UserRef::Sub(subject);
        let set = |changes| UserCommand::Set { user: UserRef::Sub(subject), changes: Box::new(changes) };
        match self.action {
            BulkAction::Disable => UserCommand::Disable(user.into()),
            BulkAction::Enable => UserCommand::Enable(user),
            BulkAction::Revoke => UserCommand::Revoke(user.into()),
            BulkAction::AddToGroup => set(UserChanges::of_groups(vec![self.group.clone()], Vec::new())),
            BulkAction::RemoveFromGroup => set(UserChanges::of_groups(Vec::new(), vec![self.group.clone()])),
            BulkAction::InviteAgain => UserCommand::ResendInvitation { user, print_link: false },
        }
    }
}

/// Returns whether a user is an administrator without the local membership in this group.
pub(super) fn stays_administrator(ctx: &RequestContext<'_>, user: &User, group: &str) -> bool {
    let without =
        User { groups: user.groups.iter().filter(|known| *known != group).cloned().collect(), ..user.clone() };
    let role = visitor::console_role(ctx, &without.roles, |known| without.is_in_group(known));
    role == Some(ConsoleRole::Administrator)
}
