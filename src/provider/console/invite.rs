//! `/console/users/invite`: invitations for several users at once.
//!
//! The first form has a line for each user. The page after it lists the users as they were read and
//! asks for the confirmation. One command then writes all accounts, invitations and mails, or none.

use std::collections::{BTreeMap, BTreeSet};

use http::{Method, StatusCode};

use crate::console::client::command_context;
use crate::console::confirmation::require_recent;
use crate::console::{ConsoleUser, client, confirmation, kept_form, user_list, users};
use crate::request::ProviderRequest as _;
use crate::submission::{self, Effect};
use sealgate_admin as admin;
use sealgate_admin::CommandError;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::Invitees;
use sealgate_config::App;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::{MAX_NAME_LENGTH, is_line, is_visible};
use sealgate_domain::user::Email;
use sealgate_pages::console::{BulkLine, InvitationForm, InviteConfirmPage, InviteFault, InviteLineFault, InvitePage};
use sealgate_pages::{Done, Problem, html};

/// Path of the form.
pub(super) const PAGE: &str = "/console/users/invite";

/// Maximum number of users in one form.
const MAX_USERS: usize = 100;

/// Form as typed.
#[derive(Default)]
struct Typed {
    users: String,
    groups: String,
    app: String,
}

/// Validated form.
struct Plan {
    users: Vec<(Email, String)>,
    groups: BTreeSet<String>,
}

pub(super) async fn invite_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if !ctx.sealgate.sends_mail() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if ctx.head.method == Method::POST {
        let form = console_user.form(ctx)?;
        return answer(ctx, console_user, &form).await;
    }
    require_recent(ctx, PAGE).await?;
    match kept_form::take(ctx, console_user, PAGE).await? {
        Some(form) => Box::pin(answer(ctx, console_user, &form)).await,
        None => Ok(show(ctx, console_user, &Typed::default(), &[])),
    }
}

/// Answers a form: shows its errors or the confirmation, or creates the invitations. A kept form has
/// lost its confirmation, so it creates none.
async fn answer(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let typed = Typed::read(form)?;
    if !confirmation::is_confirmed(form) {
        return Ok(match typed.plan(ctx, console_user).await? {
            Err(faults) => show(ctx, console_user, &typed, &faults),
            Ok(plan) => confirm(ctx, console_user, form, &typed, &plan),
        });
    }
    // The checks run inside `once`. A repeated request would report that the addresses are taken.
    let work = Box::pin(async {
        let plan = match typed.plan(ctx, console_user).await? {
            Ok(plan) => plan,
            Err(faults) => return Ok(Effect::Refused(show(ctx, console_user, &typed, &faults))),
        };
        let app = Some(typed.app.clone()).filter(|app| !app.is_empty());
        let invitees = Invitees::of(plan.users, plan.groups.into_iter().collect(), app);
        let command = Command::User(UserCommand::InviteMany(Box::new(invitees)));
        match admin::execute(&command_context(ctx, console_user), command).await {
            Ok(_) => {
                let page = format!("{}?sort=created&done={}", user_list::PAGE, Done::UsersInvited.as_str());
                Ok(Effect::Done { page, secret: None })
            }
            // The lines are valid: the mail queue is full, or another administrator was faster.
            Err(CommandError::Invalid(_) | CommandError::File(_) | CommandError::Exists(_)) => {
                let fault = InviteLineFault { line: 0, fault: InviteFault::NotNow };
                Ok(Effect::Refused(show(ctx, console_user, &typed, &[fault])))
            }
            Err(error) => Err(client::failure_of(error)),
        }
    });
    submission::once(ctx, &console_user.visitor, form, work).await
}

impl Typed {
    fn read(form: &Params) -> Result<Self, Failure> {
        let text = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim_end().to_owned()) };
        let (users, groups) = (text("users")?, users::typed_groups(form)?);
        Ok(Self { users, groups, app: text("app")?.trim().to_owned() })
    }

    /// Checks the form.
    ///
    /// # Errors
    /// The outer error when the store fails, or when a user manager names other groups. The inner one has every fault, in the order of the lines.
    async fn plan(
        &self,
        ctx: &RequestContext<'_>,
        console_user: &ConsoleUser,
    ) -> Result<Result<Plan, Vec<InviteLineFault>>, Failure> {
        let mut faults = Vec::new();
        let mut blame = |line, fault| faults.push(InviteLineFault { line, fault });
        let (mut users, mut known) = (Vec::new(), BTreeMap::new());
        let lines = || (1_u64..).zip(self.users.lines().map(str::trim)).filter(|(_, line)| !line.is_empty());
        match lines().count() {
            0 => blame(0, InviteFault::Empty),
            count if count > MAX_USERS => blame(0, InviteFault::TooMany { most: MAX_USERS as u64 }),
            _ => {
                for (number, line) in lines() {
                    let (email, name) = match user_of(line) {
                        Ok(user) => user,
                        Err(fault) => {
                            blame(number, fault);
                            continue;
                        }
                    };
                    if let Some(first) = known.insert(email.as_str().to_ascii_lowercase(), number) {
                        blame(number, InviteFault::Repeated { first });
                    } else if ctx.sealgate.store.user_by_email(&email).await?.is_some() {
                        blame(number, InviteFault::Taken);
                    } else {
                        users.push((email, name));
                    }
                }
            }
        }
        let groups = users::groups(&self.groups);
        match &groups {
            None => blame(0, InviteFault::Groups),
            Some(_) if console_user.is_administrator() => {}
            // The form of a user manager has only the managed groups, and no application.
            Some(groups) if !groups.is_subset(&console_user.managed) || !self.app.is_empty() => {
                return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
            }
            Some(groups) if groups.is_empty() => blame(0, InviteFault::ManagedGroups),
            Some(_) => {}
        }
        if !self.app.is_empty() && ctx.sealgate.config.apps.iter().all(|app| app.name.as_str() != self.app) {
            return Err(Failure::page(Problem::InvalidRequest));
        }
        Ok(match groups {
            Some(groups) if faults.is_empty() => Ok(Plan { users, groups }),
            _ => Err(faults),
        })
    }
}

/// Reads a line: `Name <address>`, or the name and the address in either order, with a tab,
/// semicolon or comma between them, as spreadsheets and mail programs copy them.
fn user_of(line: &str) -> Result<(Email, String), InviteFault> {
    let line = line.trim_end_matches([',', ';']);
    let (address, name) = if let Some((name, rest)) = line.rsplit_once('<') {
        (rest.strip_suffix('>').ok_or(InviteFault::Address)?, name)
    } else {
        let separator = ['\t', ';', ','].into_iter().find(|separator| line.contains(*separator));
        let parts = separator.and_then(|separator| {
            let ((first, rest), (before, last)) = (line.split_once(separator)?, line.rsplit_once(separator)?);
            Some(if first.contains('@') { (first, rest) } else { (last, before) })
        });
        parts.unwrap_or(if line.contains('@') { (line, "") } else { ("", line) })
    };
    let unquoted = |text: &str| text.trim().trim_matches('"').trim().to_owned();
    let (address, name) = (unquoted(address), unquoted(name));
    let email = Email::parse(&address).filter(|email| is_visible(email.as_str()));
    let email = email.filter(|email| MailAddress::from_email(email).is_some()).ok_or(InviteFault::Address)?;
    if !is_line(&name, MAX_NAME_LENGTH) {
        return Err(InviteFault::Name);
    }
    Ok((email, name))
}

fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser, typed: &Typed, faults: &[InviteLineFault]) -> Response {
    let apps = ctx.sealgate.config.apps.iter().filter(|_| console_user.is_administrator());
    let apps: Vec<_> = apps.map(|app| (app.name.as_str(), app.called())).collect();
    let managed: Vec<&str> = console_user.managed.iter().map(String::as_str).collect();
    let page = InvitePage {
        inside: console_user.inside(ctx),
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(PAGE)),
        users: &typed.users,
        groups: &typed.groups,
        managed: &managed,
        invitation: InvitationForm { apps: &apps, app: &typed.app },
        faults,
    };
    Response::page(StatusCode::OK, html(&page), None)
}

fn confirm(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
    typed: &Typed,
    plan: &Plan,
) -> Response {
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let line = |(email, name): &(Email, String)| BulkLine { name: name.clone(), identifier: email.as_str().to_owned() };
    let groups: Vec<&str> = plan.groups.iter().map(String::as_str).collect();
    let app = ctx.sealgate.config.apps.iter().find(|app| app.name.as_str() == typed.app);
    let page = InviteConfirmPage {
        inside,
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(PAGE)),
        users: &plan.users.iter().map(line).collect::<Vec<_>>(),
        groups: &groups,
        roles: ctx.sealgate.config.console.roles(&BTreeSet::new(), |known| plan.groups.contains(known)),
        app: app.map(App::called),
        fields: &confirmation::fields(form, &once),
    };
    Response::page(StatusCode::OK, html(&page), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_and_an_address() {
        for line in [
            "Ayşe Yılmaz <ayse@example.test>",
            "\"Ayşe Yılmaz\" <ayse@example.test>,",
            "Ayşe Yılmaz, ayse@example.test",
            "ayse@example.test;Ayşe Yılmaz",
            "ayse@example.test\tAyşe Yılmaz",
            "Ayşe Yılmaz\tayse@example.test",
            "\"ayse@example.test\",\"Ayşe Yılmaz\"",
        ] {
            let (email, name) = user_of(line).unwrap();
            assert_eq!((email.as_str(), name.as_str()), ("ayse@example.test", "Ayşe Yılmaz"), "{line}");
        }
        assert_eq!(user_of("Yılmaz, Ayşe <ayse@example.test>").unwrap().1, "Yılmaz, Ayşe");
        for (line, fault) in [
            ("ayse@example.test", InviteFault::Name),
            ("Ayşe", InviteFault::Address),
            ("Ayşe <ayse@example.test", InviteFault::Address),
            ("Ayşe <ayse@>", InviteFault::Address),
            ("Ayşe, a..b@example.test", InviteFault::Address),
            ("Ay\u{202e}şe <ayse@example.test>", InviteFault::Name),
        ] {
            assert_eq!(user_of(line).unwrap_err(), fault, "{line}");
        }
    }
}
