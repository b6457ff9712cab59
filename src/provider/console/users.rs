//! `/console/users/new`: creation of a new user.
//!
//! The module [`user`] also uses the parsers of form fields in this module.

use std::collections::BTreeSet;

use http::{Method, StatusCode};

use crate::console::client::execute;
use crate::console::confirmation::{Question, Target};
use crate::console::{ConsoleUser, confirmation, kept_form, user};
use crate::submission;
use crate::submission::Effect;
use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::user_settings::{Invitee, NewNames, NewUser};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::{MAX_GROUPS, MAX_NAME_LENGTH, is_group, is_line, is_visible};
use sealgate_domain::secret::Secret;
use sealgate_domain::user::{Email, Role};
use sealgate_domain::username::Username;
use sealgate_pages::console::{InvitationForm, NewUserPage, UserField};
use sealgate_pages::{Done, Problem, html};

/// Path of the form for a new user.
const NEW: &str = "/console/users/new";

/// Input of the form for a new user.
#[derive(Default)]
struct Typed {
    email: String,
    username: String,
    name: String,
    groups: String,
    roles: BTreeSet<Role>,
    app: String,
}

impl Typed {
    fn read(form: &Params) -> Result<Self, Failure> {
        let text = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim().to_owned()) };
        Ok(Self {
            email: text("email")?,
            username: text("username")?,
            name: text("name")?,
            groups: typed_groups(form)?,
            roles: roles(form),
            app: text("app")?,
        })
    }
}

/// Shows the form for a new user (GET), or creates or invites the user (POST).
pub(super) async fn add(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        confirmation::require_recent(ctx, NEW).await?;
        return match kept_form::take(ctx, console_user, NEW).await? {
            Some(form) => resume(ctx, console_user, &form),
            None => Ok(show(ctx, console_user, &Typed::default(), &[])),
        };
    }
    let form = console_user.form(ctx)?;
    // The checks run inside `once`. Otherwise a repeated request with the same form would report
    // that the address is taken.
    submission::once(ctx, &console_user.visitor, &form, Box::pin(add_user(ctx, console_user, &form))).await
}

/// Shows a form that was kept while the administrator signed in again.
///
/// The page asks for the confirmation of a guarded change, or shows the typed values.
fn resume(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let typed = Typed::read(form)?;
    let change = groups(&typed.groups).and_then(|groups| confirmation::of_roles(ctx, None, (&typed.roles, &groups)));
    Ok(match change {
        Some(change) => {
            let identifier = if typed.email.is_empty() { &typed.username } else { &typed.email };
            let target = Target { name: &typed.name, identifier, page: NEW.to_owned(), section: None };
            confirmation::page(ctx, console_user, form, &Question::new(change, target))
        }
        None => show(ctx, console_user, &typed, &[]),
    })
}

async fn add_user(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Effect, Failure> {
    let typed = Typed::read(form)?;
    // The form has the button `invite` only if the server sends mail.
    let by_mail = form.has("invite");
    if by_mail && !ctx.sealgate.sends_mail() {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let mut faults = Vec::new();
    let email = Email::parse(&typed.email).filter(|email| is_visible(email.as_str()));
    // A user with a generated password can have only a username.
    let may_lack_address = !by_mail && typed.email.is_empty() && !typed.username.is_empty();
    match &email {
        None if may_lack_address => {}
        None => faults.push(UserField::Email),
        Some(email) if by_mail && MailAddress::from_email(email).is_none() => faults.push(UserField::Email),
        Some(email) if ctx.sealgate.store.user_by_email(email).await?.is_some() => faults.push(UserField::EmailTaken),
        Some(_) => {}
    }
    let username = match username(&typed.username) {
        Ok(username) => username,
        Err(fault) => {
            faults.push(fault);
            None
        }
    };
    if let Some(username) = &username
        && ctx.sealgate.store.user_by_username(username).await?.is_some()
    {
        faults.push(UserField::UsernameTaken);
    }
    if !is_line(&typed.name, MAX_NAME_LENGTH) {
        faults.push(UserField::Name);
    }
    let groups = groups(&typed.groups);
    match &groups {
        None => faults.push(UserField::Groups),
        Some(_) if console_user.is_administrator() => {}
        Some(groups) if !groups.is_subset(&console_user.managed) || !typed.roles.is_empty() => {
            return Err(Failure::Page(StatusCode::FORBIDDEN, Problem::Console));
        }
        Some(groups) if groups.is_empty() => faults.push(UserField::ManagedGroups),
        Some(_) => {}
    }
    let (Some(groups), []) = (groups, faults.as_slice()) else {
        return Ok(Effect::Refused(show(ctx, console_user, &typed, &faults)));
    };
    let names = NewNames { email, username };
    let target = Target { name: &typed.name, identifier: names.sign_in_name(), page: NEW.to_owned(), section: None };
    if let Some(change) = confirmation::of_roles(ctx, None, (&typed.roles, &groups))
        && !confirmation::is_confirmed(form)
    {
        return Ok(Effect::Refused(confirmation::page(ctx, console_user, form, &Question::new(change, target))));
    }
    let (roles, groups) = (typed.roles.into_iter().collect(), groups.into_iter().collect());
    let (name, phone, picture) = (typed.name, None, None);
    let (secret, command) = if by_mail {
        let app = Some(typed.app).filter(|app| !app.is_empty() && console_user.is_administrator());
        // An invitation without an address has a fault above.
        let email = names.email.clone().ok_or(Failure::page(Problem::InvalidRequest))?;
        let (username, language, print_link) = (names.username.clone(), None, false);
        let invitee = Invitee { email, username, name, phone, picture, roles, groups, app, language, print_link };
        (None, UserCommand::InviteUser(Box::new(invitee)))
    } else {
        let generated = new_password(ctx);
        let (names, password) = (names.clone(), generated.clone().into());
        let new = NewUser { names, email_verified: false, name, phone, picture, roles, groups, password };
        (Some(generated), UserCommand::Add(Box::new(new)))
    };
    execute(ctx, console_user, Command::User(command)).await?;
    let added = ctx.sealgate.store.user_by_sign_in_name(names.sign_in_name()).await?;
    let added = added.ok_or(Failure::page(Problem::InvalidRequest))?;
    let page = user::page_of(added.sub);
    let page = if by_mail { format!("{page}?done={}", Done::UserInvited.as_str()) } else { page };
    Ok(Effect::Done { page, secret })
}

fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser, typed: &Typed, faults: &[UserField]) -> Response {
    let apps = ctx.sealgate.config.apps.iter().filter(|_| console_user.is_administrator());
    let apps: Vec<_> = apps.map(|app| (app.name.as_str(), app.called())).collect();
    let managed: Vec<&str> = console_user.managed.iter().map(String::as_str).collect();
    let invitation = ctx.sealgate.sends_mail().then_some(InvitationForm { apps: &apps, app: &typed.app });
    let page = NewUserPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.csrf(ctx),
        email: &typed.email,
        username: &typed.username,
        name: &typed.name,
        groups: &typed.groups,
        managed: &managed,
        roles: &typed.roles,
        invitation,
        faults,
    };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Returns a random password with 96 bits of entropy.
pub(super) fn new_password(ctx: &RequestContext<'_>) -> Secret {
    Secret::from_random(&ctx.random::<12>())
}

/// Parses the username field. An empty field means no username.
pub(super) fn username(typed: &str) -> Result<Option<Username>, UserField> {
    match typed {
        "" => Ok(None),
        typed => Username::parse(typed).map(Some).ok_or(UserField::Username),
    }
}

/// Returns the roles that are ticked in the form.
pub(super) fn roles(form: &Params) -> BTreeSet<Role> {
    Role::ALL.into_iter().filter(|role| form.has(&format!("role_{}", role.as_str()))).collect()
}

/// Returns the groups of a form, one per line: of the field `groups`, or of the ticked boxes `member` in
/// the form for a user manager.
///
/// # Errors
/// When the field is repeated.
pub(super) fn typed_groups(form: &Params) -> Result<String, Failure> {
    if let Some(groups) = form.one("groups")? {
        return Ok(groups.trim().to_owned());
    }
    let ticked: Vec<&str> = form.pairs().filter(|(name, _)| *name == "member").map(|(_, group)| group).collect();
    Ok(ticked.join("\n"))
}

/// Parses a list with one group per line. Returns `None` if a group is invalid, or if the list has
/// too many groups.
pub(super) fn groups(text: &str) -> Option<BTreeSet<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let groups: BTreeSet<String> = lines.map(str::to_owned).collect();
    (groups.len() <= MAX_GROUPS && groups.iter().all(|group| is_group(group))).then_some(groups)
}
