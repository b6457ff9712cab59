//! `/console/users/bulk`: changes to several users, from the list of users and from the pages of
//! groups.
//!
//! Every change is guarded: it requires a recent sign-in, and a confirmation that lists the users.
//! The change executes one command for each user, each with its own audit event. If it leaves out
//! users, the next page lists them with the reason.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::console::client::{command_context, execute, failure_of};
use crate::console::{ConsoleUser, confirmation, user_list};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect};
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::UserChanges;
use sealgate_admin::{UserRef, set_user_as_shown};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::{MAX_GROUPS, is_group};
use sealgate_domain::secret::Secret;
use sealgate_domain::shown_sign_in_data::ShownSignInData;
use sealgate_domain::user::{Subject, User};
use sealgate_pages::console::{BulkAction, BulkFault, BulkLine, BulkPage, BulkResultPage, BulkSkip};
use sealgate_pages::{Done, Problem, html};
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
    /// Sign-in data of the users who get rights in the console.
    shown: ShownSignInData,
    /// Number of these users whom a user manager could sign in as.
    open_to_managers: usize,
    skipped: Vec<(BulkLine, BulkSkip)>,
    fault: Option<BulkFault>,
}

pub(super) async fn bulk(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        return result_page(ctx, console_user).await;
    }
    let form = console_user.form(ctx)?;
    let plan = Plan::read(ctx, console_user, &form).await?;
    if plan.fault.is_some() || !confirmation::is_confirmed(&form) {
        return Ok(show(ctx, console_user, &form, &plan));
    }
    let work = Box::pin(async {
        if !confirmation::has_shown(&form, &plan.shown)? {
            return Ok(Effect::Refused(show(ctx, console_user, &form, &plan)));
        }
        let (done, left_out) = plan.execute(ctx, console_user).await?;
        let back = back(&form);
        if !left_out.is_empty() {
            let result = Outcome::new(&plan, done, left_out, back);
            let result = serde_json::to_string(&result).map_err(|_| Failure::Internal)?;
            return Ok(Effect::Done { page: PAGE.to_owned(), secret: Some(Secret::new(&result)) });
        }
        let joint = if back.contains('?') { '&' } else { '?' };
        Ok(Effect::Done { page: format!("{back}{joint}done={}", Done::Users.as_str()), secret: None })
    });
    submission::once(ctx, &console_user.visitor, &form, work).await
}

/// Result of a change that left out users. The page after the change shows it once.
#[derive(Serialize, Deserialize)]
struct Outcome {
    /// Name of the action.
    action: String,
    group: String,
    /// Names and identifiers of the changed users.
    done: Vec<(String, String)>,
    /// Names and identifiers of the other users, with the names of the reasons.
    left_out: Vec<(String, String, String)>,
    /// Path and query of the page with the form.
    back: String,
}

impl Outcome {
    fn new(plan: &Plan, done: Vec<BulkLine>, left_out: Vec<(BulkLine, BulkSkip)>, back: String) -> Self {
        let skipped = |(user, reason): (BulkLine, BulkSkip)| (user.name, user.identifier, reason.as_str().to_owned());
        Self {
            action: plan.action.as_str().to_owned(),
            group: plan.group.clone(),
            done: done.into_iter().map(|user| (user.name, user.identifier)).collect(),
            left_out: left_out.into_iter().map(skipped).collect(),
            back,
        }
    }
}

/// Shows for each user what was done. A reload returns to the list.
async fn result_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let result = submission::take_result(ctx, &console_user.visitor, PAGE).await?;
    let outcome: Option<Outcome> = result.secret().and_then(|text| serde_json::from_str(text.expose()).ok());
    let action = outcome.as_ref().and_then(|outcome| BulkAction::parse(&outcome.action));
    let (Some(outcome), Some(action)) = (outcome, action) else {
        return Ok(Response::see_other(&ctx.path(user_list::PAGE)));
    };
    let line = |name, identifier| BulkLine { name, identifier };
    let done: Vec<BulkLine> = outcome.done.into_iter().map(|(name, identifier)| line(name, identifier)).collect();
    let left_out = outcome.left_out.into_iter().filter_map(|(name, identifier, reason)| {
        BulkSkip::parse(&reason).map(|reason| (line(name, identifier), reason))
    });
    let page = BulkResultPage {
        inside: console_user.inside(ctx),
        action,
        group: &outcome.group,
        done: &done,
        left_out: &left_out.collect::<Vec<_>>(),
        back: &ctx.path(&outcome.back),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
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
    // The users, not the typed names: a name could belong to another user by the confirmation.
    let subjects: Vec<String> = plan.users.iter().map(|user| user.sub.to_string()).collect();
    let fields = confirmation::fields(form, &once);
    let fields = fields.into_iter().filter(|(name, _)| !["user", "who"].contains(name));
    let digest = plan.shown.digest();
    let fields = fields.chain(subjects.iter().map(|subject| ("user", subject.as_str())));
    let fields: Vec<_> = fields.chain(confirmation::sign_in_data_field(digest.as_ref())).collect();
    let role = Some(&plan.group).filter(|_| plan.action == BulkAction::AddToGroup);
    let page = BulkPage {
        inside,
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(PAGE)),
        action: plan.action,
        group: &plan.group,
        roles: role.map_or(ConsoleRoles::NONE, |group| of_group(ctx, group)),
        users: &users,
        open_to_managers: plan.open_to_managers as u64,
        skipped: &plan.skipped,
        fault: plan.fault,
        fields: &fields,
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
        let mut plan = Self {
            action,
            group: group.to_owned(),
            users: Vec::new(),
            shown: ShownSignInData::default(),
            open_to_managers: 0,
            skipped: Vec::new(),
            fault: None,
        };
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
        if action.has_group() && !console_user.may_change_group(group) {
            plan.fault = Some(BulkFault::OtherGroup);
            return Ok(plan);
        }
        for name in names {
            let user = ctx.sealgate.store.user_by_sign_in_name(name).await?;
            if let Some(user) = user.filter(|user| console_user.may_see_user(ctx, user)) {
                subjects.push(user.sub);
            } else {
                let line = BulkLine { name: String::new(), identifier: name.to_owned() };
                plan.skipped.push((line, BulkSkip::Unknown));
            }
        }
        let mut known = BTreeSet::new();
        subjects.retain(|subject| known.insert(*subject));
        let mut missing: BTreeSet<Subject> = subjects.iter().copied().collect();
        for row in ctx.sealgate.store.user_rows_of(&subjects).await? {
            let records = row.read()?;
            if !console_user.may_see_user(ctx, &records.user) {
                continue;
            }
            missing.remove(&records.user.sub);
            match plan.skip(ctx, console_user, &records) {
                None => plan.add(ctx, records),
                Some(reason) => plan.skipped.push((line(&records.user), reason)),
            }
        }
        let deleted = |subject: Subject| BulkLine { name: String::new(), identifier: subject.to_string() };
        plan.skipped.extend(missing.into_iter().map(|subject| (deleted(subject), BulkSkip::Deleted)));
        Ok(plan)
    }

    /// Adds a user to change.
    fn add(&mut self, ctx: &RequestContext<'_>, UserRecords { user, factors, .. }: UserRecords) {
        if self.action == BulkAction::AddToGroup && promotes(ctx, &user, &self.group) {
            self.shown.add(&user, factors.as_ref());
            self.open_to_managers += usize::from(user.is_open_to_manager());
        }
        self.users.push(user);
    }

    /// Changes the users, one after the other. Returns who was changed, and who was not.
    ///
    /// # Errors
    /// When nobody was changed because the server failed, or because the administrator lost the
    /// role.
    async fn execute(
        &self,
        ctx: &RequestContext<'_>,
        console_user: &ConsoleUser,
    ) -> Result<(Vec<BulkLine>, Vec<(BulkLine, BulkSkip)>), Failure> {
        let (mut done, mut left_out, mut has_failed) = (Vec::new(), self.skipped.clone(), false);
        for user in &self.users {
            if has_failed {
                left_out.push((line(user), BulkSkip::Failed));
                continue;
            }
            ctx.sealgate.store.act_on(user.sub);
            match self.change(ctx, console_user, user.sub).await {
                Ok(()) => done.push(line(user)),
                Err(Failure::Page(StatusCode::NOT_FOUND, _)) => left_out.push((line(user), BulkSkip::Deleted)),
                // For instance, the user can sign in by now.
                Err(Failure::Page(StatusCode::BAD_REQUEST, _)) => left_out.push((line(user), BulkSkip::Refused)),
                Err(failure) if done.is_empty() => return Err(failure),
                Err(_) => {
                    left_out.push((line(user), BulkSkip::Failed));
                    has_failed = true;
                }
            }
        }
        Ok((done, left_out))
    }

    /// Returns why the change leaves out this user, if it does.
    fn skip(&self, ctx: &RequestContext<'_>, console_user: &ConsoleUser, records: &UserRecords) -> Option<BulkSkip> {
        let UserRecords { user, factors, .. } = records;
        let own = user.sub == console_user.visitor.user.sub;
        let is_local_member = user.groups.contains(&self.group);
        if !console_user.may_change_user(ctx, user) {
            return Some(BulkSkip::NotManaged);
        }
        match self.action {
            BulkAction::Disable | BulkAction::Revoke if own => Some(BulkSkip::Own),
            BulkAction::Disable => {
                let is_changed = user.is_changed_by_disabling(!console_user.is_administrator());
                (!is_changed).then_some(BulkSkip::Unchanged)
            }
            BulkAction::Enable if !console_user.is_administrator() && !user.may_be_enabled_by_manager() => {
                Some(BulkSkip::DisabledByAdministrator)
            }
            BulkAction::Enable => user.is_enabled().then_some(BulkSkip::Unchanged),
            BulkAction::Revoke => None,
            BulkAction::AddToGroup if is_local_member => Some(BulkSkip::Unchanged),
            BulkAction::AddToGroup => (user.groups.len() >= MAX_GROUPS).then_some(BulkSkip::TooManyGroups),
            BulkAction::RemoveFromGroup if !is_local_member && user.is_in_group(&self.group) => {
                Some(BulkSkip::Directory)
            }
            BulkAction::RemoveFromGroup if !is_local_member => Some(BulkSkip::Unchanged),
            BulkAction::RemoveFromGroup if own => {
                (!stays_administrator(ctx, user, &self.group)).then_some(BulkSkip::Own)
            }
            BulkAction::RemoveFromGroup => {
                let is_managed = console_user.may_change_user(ctx, &without_group(user, &self.group));
                (!is_managed).then_some(BulkSkip::LastGroup)
            }
            BulkAction::InviteAgain if user.has_password() => Some(BulkSkip::HasCredential),
            BulkAction::InviteAgain if factors.as_ref().is_some_and(|factors| !factors.keys.is_empty()) => {
                Some(BulkSkip::HasCredential)
            }
            BulkAction::InviteAgain => (!user.is_enabled() || user.email.is_none()).then_some(BulkSkip::CannotInvite),
        }
    }

    async fn change(
        &self,
        ctx: &RequestContext<'_>,
        console_user: &ConsoleUser,
        subject: Subject,
    ) -> Result<(), Failure> {
        let user = UserRef::Sub(subject);
        let command = match self.action {
            BulkAction::Disable => UserCommand::Disable(user.into()),
            BulkAction::Enable => UserCommand::Enable(user),
            BulkAction::Revoke => UserCommand::Revoke(user.into()),
            BulkAction::AddToGroup => {
                let changes = UserChanges::of_groups(vec![self.group.clone()], Vec::new());
                let context = command_context(ctx, console_user);
                return set_user_as_shown(&context, subject, &changes, &self.shown).await.map(drop).map_err(failure_of);
            }
            BulkAction::RemoveFromGroup => {
                let changes = Box::new(UserChanges::of_groups(Vec::new(), vec![self.group.clone()]));
                UserCommand::Set { user, changes }
            }
            BulkAction::InviteAgain => UserCommand::ResendInvitation { user, print_link: false },
        };
        execute(ctx, console_user, Command::User(command)).await.map(drop)
    }
}

/// Returns whether this group gives the user rights in the console.
fn promotes(ctx: &RequestContext<'_>, user: &User, group: &str) -> bool {
    let mut next = user.clone();
    next.groups.insert(group.to_owned());
    ctx.sealgate.config.console.promotes(user, &next)
}

/// Returns whether a user is an administrator without the local membership in this group.
pub(super) fn stays_administrator(ctx: &RequestContext<'_>, user: &User, group: &str) -> bool {
    ctx.sealgate.config.console.roles_of(&without_group(user, group)).is_administrator()
}

fn without_group(user: &User, group: &str) -> User {
    User { groups: user.groups.iter().filter(|known| *known != group).cloned().collect(), ..user.clone() }
}

/// Returns the console roles that a group gives.
pub(super) fn of_group(ctx: &RequestContext<'_>, group: &str) -> ConsoleRoles {
    ctx.sealgate.config.console.roles(&BTreeSet::new(), |known| known == group)
}
