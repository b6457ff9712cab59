//! `/console/users` and `/console/users/new`: people, and a new one.

use std::collections::BTreeSet;

use http::{Method, StatusCode};

use super::client::execute;
use super::{ConsoleUser, user};
use crate::admin::command::{Command, UserCommand};
use crate::admin::user_settings::NewUser as NewUserCommand;
use crate::domain::profile::{LONGEST_NAME, is_group, is_line, is_seen};
use crate::domain::secret::Secret;
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Role, Subject};
use crate::domain::username::Username;
use crate::oauth::params::Params;
use crate::page::Problem;
use crate::page::console::{NewUser, Roles, UserField, UserLine, Users};
use crate::store::UsersFound;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;

const PAGE: usize = 50;
/// Groups that a person may be in, as on the command line.
const MOST_GROUPS: usize = 100;

pub(super) async fn answer(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let query = ctx.query()?;
    let wanted = query.one("find")?.unwrap_or_default().trim().to_owned();
    let store = &ctx.sealgate.store;
    // A whole address has an index, however many people there are. A username may be the beginning of somebody's name.
    let exact = match Email::parse(&wanted) {
        Some(email) => store.user_by_email(&email).await?,
        None => None,
    };
    let UsersFound { users, next } = match exact {
        Some(user) => UsersFound { users: vec![user], next: None },
        None => store.find_users(&wanted, query.one("after")?.and_then(Subject::parse), PAGE).await?,
    };
    let next = next.map(|next| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("find", &wanted).append_pair("after", &next.to_string());
        ctx.path(&format!("/console/users?{}", query.finish()))
    });
    let mut texts = Vec::with_capacity(users.len());
    for user in &users {
        let groups = user.groups.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        texts.push((user.sub.to_string(), groups, store.last_sign_in(user.sub).await?));
    }
    let mut lines = Vec::with_capacity(users.len());
    for (user, (subject, groups, signed_in_at)) in users.iter().zip(&texts) {
        lines.push(UserLine {
            subject,
            name: &user.name,
            email: user.email.as_str(),
            enabled: user.is_enabled(),
            groups,
            roles: ticked(&user.roles),
            signed_in_at: signed_in_at.map(UnixTime::seconds),
        });
    }
    let content = Users { users: &lines, wanted: &wanted, next: next.as_deref() };
    let pages = &ctx.sealgate.pages;
    Ok(console_user.page(ctx, StatusCode::OK, |chrome, shell| pages.console_users(chrome, shell, &content)))
}

/// What is typed about a new person.
#[derive(Default)]
struct Typed {
    email: String,
    username: String,
    name: String,
    groups: String,
    roles: BTreeSet<Role>,
}

/// The form for a new person, and what it makes.
pub(super) async fn add(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        return Ok(show(ctx, console_user, &Typed::default(), &[]));
    }
    let form = console_user.form(ctx)?;
    let text = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim().to_owned()) };
    let typed = Typed {
        email: text("email")?,
        username: text("username")?,
        name: text("name")?,
        groups: text("groups")?,
        roles: roles(&form),
    };
    let mut faults = Vec::new();
    let email = Email::parse(&typed.email).filter(|email| is_seen(email.as_str()));
    match &email {
        None => faults.push(UserField::Email),
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
    if !is_line(&typed.name, LONGEST_NAME) {
        faults.push(UserField::Name);
    }
    let groups = groups(&typed.groups);
    if groups.is_none() {
        faults.push(UserField::Groups);
    }
    let (Some(email), Some(groups), []) = (email, groups, faults.as_slice()) else {
        return Ok(show(ctx, console_user, &typed, &faults));
    };
    let password = new_password(ctx);
    let new = NewUserCommand {
        email: email.clone(),
        email_verified: false,
        username,
        name: typed.name,
        phone: None,
        picture: None,
        roles: typed.roles.into_iter().collect(),
        groups: groups.into_iter().collect(),
        password: password.clone().into(),
    };
    execute(ctx, console_user, Command::User(UserCommand::Add(Box::new(new)))).await?;
    let added = ctx.sealgate.store.user_by_email(&email).await?.ok_or(Failure::page(Problem::InvalidRequest))?;
    user::show(ctx, console_user, &added, Some(&password), &[]).await
}

/// A password that nobody chose: 96 bits.
pub(super) fn new_password(ctx: &RequestContext<'_>) -> Secret {
    Secret::from_random(&ctx.random::<12>())
}

/// The username of a form; none where the field is empty.
///
/// # Errors
/// When it is not one.
pub(super) fn username(typed: &str) -> Result<Option<Username>, UserField> {
    match typed {
        "" => Ok(None),
        typed => Username::parse(typed).map(Some).ok_or(UserField::Username),
    }
}

/// The roles that a form ticks.
pub(super) fn roles(form: &Params) -> BTreeSet<Role> {
    let ticked = [("role_developer", Role::Developer), ("role_admin", Role::Admin)];
    ticked.into_iter().filter(|(name, _)| form.has(name)).map(|(_, role)| role).collect()
}

/// Which roles a page shows as ticked.
pub(super) fn ticked(roles: &BTreeSet<Role>) -> Roles {
    Roles { developer: roles.contains(&Role::Developer), admin: roles.contains(&Role::Admin) }
}

/// The groups of a list with one a line, if each is one.
pub(super) fn groups(text: &str) -> Option<BTreeSet<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let groups: BTreeSet<String> = lines.map(str::to_owned).collect();
    (groups.len() <= MOST_GROUPS && groups.iter().all(|group| is_group(group))).then_some(groups)
}

fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser, typed: &Typed, faults: &[UserField]) -> Response {
    let content = NewUser {
        csrf: &console_user.csrf(ctx),
        email: &typed.email,
        username: &typed.username,
        name: &typed.name,
        groups: &typed.groups,
        roles: ticked(&typed.roles),
        faults,
    };
    let pages = &ctx.sealgate.pages;
    console_user.page(ctx, StatusCode::OK, |chrome, shell| pages.console_new_user(chrome, shell, &content))
}
