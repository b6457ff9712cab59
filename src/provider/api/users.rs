//! Users, by ID, e-mail address or username.

use serde_json::Value;

use super::body::{Field, Kind, field, fixed};
use super::problem::ApiProblem;
use super::{Call, Reply, etag, members, objects, token};
use crate::links::reset;
use sealgate_admin::command::{Command, UserCommand, UserListFilter};
use sealgate_admin::user_settings::{Invitee, NewNames, NewPassword, NewUser, UserChanges};
use sealgate_admin::{Answer, CommandError, UserRef};
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::profile::MAX_GROUPS;
use sealgate_domain::user::{Email, Role, Subject, User, UserState};
use sealgate_domain::username::Username;

/// Filters of the list.
pub(super) const FILTER: &[Field] = &[
    field("group", Kind::Text(100), "Only members of this group"),
    field("state", Kind::Choice(&["enabled", "disabled"]), "Only users in this state"),
    field("search", Kind::Text(200), "Only users whose name, address or username contains all of these words"),
    field("after", Kind::Text(100), "Value of `next` on the previous page"),
];

/// Attributes of a user. `password` and `invitation` are for a new user.
pub(super) const ATTRIBUTES: &[Field] = &[
    fixed("name", Kind::Text(200), "Full name"),
    field("email", Kind::Text(254), "E-mail address; the user signs in with it"),
    field("username", Kind::Text(64), "Username; the user can sign in with it"),
    field("phone_number", Kind::Text(30), "Phone number, such as +905551112233"),
    field("picture", Kind::Text(2000), "HTTPS URL of an image"),
    fixed("email_verified", Kind::Flag, "Whether the address is verified; unchanged if absent"),
    field("roles", Kind::Choices(ROLES), "Console roles; unchanged if absent; needs the scope admins:write"),
    field("groups", Kind::Texts(MAX_GROUPS), "Groups; unchanged if absent"),
    fixed("password", Kind::Text(1024), "Password of a new user; ignored if the user exists"),
    fixed(
        "invitation",
        Kind::Choice(&["mail", "link"]),
        "Invitation of a new user without a password: sent by e-mail (the default), or its link in the answer",
    ),
];

/// Names of the console roles.
const ROLES: &[&str] = &["developer", "auditor", "admin"];

pub(super) async fn list(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let text = |name| call.query.some_text(name).map(str::to_owned);
    let state = match call.query.some_text("state") {
        Some("disabled") => Some(UserState::Disabled),
        Some(_) => Some(UserState::Enabled),
        None => None,
    };
    let filter = UserListFilter { group: text("group"), state, search: text("search") };
    call.command(Command::User(UserCommand::List { filter, after: text("after") })).await
}

pub(super) async fn show(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    Ok(Reply::object(&call.shown_user(&call.user(0)?).await?))
}

impl Call<'_> {
    /// Returns a user as the command line shows it.
    pub(super) async fn shown_user(&self, user: &UserRef) -> Result<Value, ApiProblem> {
        Ok(members(&self.execute(Command::User(UserCommand::Show(user.clone()))).await?))
    }

    async fn find_user(&self, user: &UserRef) -> Result<Option<User>, ApiProblem> {
        let store = &self.sealgate.store;
        Ok(match user {
            UserRef::Sub(sub) => store.user(*sub).await?,
            UserRef::Email(email) => store.user_by_email(email).await?,
            UserRef::Username(username) => store.user_by_username(username).await?,
        })
    }

    /// Returns the ID of a user after checking the conditions of the request, or `None` if there is no
    /// user. With `If-Match`, the change fails if the user has changed since this check.
    async fn conditional_user(&self, user: &UserRef) -> Result<Option<Subject>, ApiProblem> {
        let Some(found) = self.find_user(user).await? else {
            self.check(None)?;
            return Ok(None);
        };
        let sub = found.sub;
        if self.conditions.if_match.is_some() {
            self.sealgate.store.pin_user(sub).await?;
        }
        let shown = self.shown_user(&UserRef::Sub(sub)).await?;
        self.check(Some(&etag(&shown)))?;
        Ok(Some(sub))
    }

    /// Returns a user whose access the token may change: one without a console role, or any user with the
    /// scope `admins:write`.
    ///
    /// Changes of the user record itself are also checked by the commit.
    pub(super) async fn unprotected_user(&self, number: usize) -> Result<UserRef, ApiProblem> {
        let user = self.user(number)?;
        let found = self.find_user(&user).await?.ok_or_else(|| absent(&user))?;
        if !self.token.has(ApiScope::AdminsWrite) && token::has_role(&self.sealgate.config.console, &found) {
            return Err(ApiProblem::insufficient_scope(ApiScope::AdminsWrite));
        }
        Ok(UserRef::Sub(found.sub))
    }
}

fn absent(user: &UserRef) -> ApiProblem {
    ApiProblem::not_found(format!("no user has the ID, address or username {user}"))
}

/// Creates the user with this address or username, or replaces the attributes of the user.
pub(super) async fn put(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let user = call.user(0)?;
    let attributes = Attributes::read(call)?;
    match call.conditional_user(&user).await? {
        Some(sub) => {
            let attributes = attributes.named_by(&user)?;
            change(call, sub, attributes.replacing()).await
        }
        None => create(call, &user, attributes).await,
    }
}

/// Changes the given attributes of a user. Null removes an attribute (RFC 7396).
pub(super) async fn patch(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let user = call.user(0)?;
    let attributes = Attributes::read(call)?;
    let sub = call.conditional_user(&user).await?.ok_or_else(|| absent(&user))?;
    change(call, sub, attributes.changes()).await
}

async fn change(call: &Call<'_>, sub: Subject, changes: UserChanges) -> Result<Reply, ApiProblem> {
    let user = UserRef::Sub(sub);
    call.execute(Command::User(UserCommand::Set { user: user.clone(), changes: Box::new(changes) })).await?;
    Ok(Reply::object(&call.shown_user(&user).await?))
}

async fn create(call: &Call<'_>, user: &UserRef, attributes: Attributes) -> Result<Reply, ApiProblem> {
    if let UserRef::Sub(_) = user {
        return Err(absent(user));
    }
    let Attributes { name, email, username, phone, picture, email_verified, roles, groups } =
        attributes.named_by(user)?;
    let (name, roles, groups) = (name.unwrap_or_default(), roles.unwrap_or_default(), groups.unwrap_or_default());
    let (email, username) = (email.flatten(), username.flatten());
    let (phone, picture) = (phone.flatten(), picture.flatten());
    let command = match (call.body.secret("password"), email) {
        (Some(password), email) => {
            let (names, email_verified) = (NewNames { email, username }, email_verified.unwrap_or(false));
            let password = NewPassword::from(password);
            let new = NewUser { name, names, phone, picture, email_verified, roles, groups, password };
            UserCommand::Add(Box::new(new))
        }
        (None, Some(email)) => {
            let print_link = call.body.some_text("invitation") == Some("link");
            let (app, language) = (None, None);
            let invitee = Invitee { email, username, name, phone, picture, roles, groups, app, language, print_link };
            UserCommand::InviteUser(Box::new(invitee))
        }
        (None, None) => {
            return Err(ApiProblem::invalid(vec!["a user without an e-mail address needs a password".to_owned()]));
        }
    };
    let answer = match sealgate_admin::execute(&call.context(), Command::User(command)).await {
        // Another request has created the user in the meantime.
        Err(CommandError::Exists(_)) if call.conditions.is_new => return Err(ApiProblem::precondition_failed()),
        done => done.map_err(|error| call.failed(error))?,
    };
    let Answer::User(added) = &answer else { return Ok(Reply::nothing()) };
    let path = format!("users/{}", added.sub);
    // The entity tag is that of the user without the link.
    let etag = etag(&call.shown_user(&UserRef::Sub(added.sub)).await?);
    let reply = Reply { etag: Some(etag), ..Reply::object(&members(&answer)) };
    Ok(objects::created(call, reply, &path))
}

pub(super) async fn delete(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let user = call.user(0)?;
    let sub = call.conditional_user(&user).await?.ok_or_else(|| absent(&user))?;
    call.execute(Command::User(UserCommand::Delete(UserRef::Sub(sub).into()))).await?;
    Ok(Reply::nothing())
}

pub(super) async fn disable(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::User(UserCommand::Disable(call.unprotected_user(0).await?.into()))).await
}

pub(super) async fn enable(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::User(UserCommand::Enable(call.unprotected_user(0).await?))).await
}

pub(super) async fn revoke(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::User(UserCommand::Revoke(call.unprotected_user(0).await?.into()))).await
}

pub(super) async fn factors(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::User(UserCommand::ListFactors(call.user(0)?))).await
}

pub(super) async fn reset_factors(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::User(UserCommand::ResetFactors(call.unprotected_user(0).await?))).await
}

pub(super) async fn unblock_factors(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.command(Command::User(UserCommand::UnblockFactors(call.unprotected_user(0).await?))).await
}

/// Sends a new invitation link, or returns it.
pub(super) async fn invite(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let print_link = call.body.some_text("invitation") == Some("link");
    let user = call.unprotected_user(0).await?;
    call.command(Command::User(UserCommand::ResendInvitation { user, print_link })).await
}

pub(super) async fn revoke_invitation(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    call.execute(Command::User(UserCommand::RevokeInvitation(call.unprotected_user(0).await?))).await?;
    Ok(Reply::nothing())
}

/// E-mails the user a link to set a new password, as the console does.
pub(super) async fn send_reset_link(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let user_ref = call.unprotected_user(0).await?;
    let user = call.find_user(&user_ref).await?.ok_or_else(|| absent(&user_ref))?;
    if !reset::may_be_mailed(call.ctx, &user) {
        let reason = "No link can be sent: the server sends no mail, or the user is disabled, has no address or has a \
                      password elsewhere.";
        return Err(ApiProblem::invalid(vec![reason.to_owned()]));
    }
    if !reset::mail_link(call.ctx, &call.sealgate.store, &user).await? {
        return Err(ApiProblem::unavailable());
    }
    let context = call.context();
    let event = call.ctx.event(AuditKind::PasswordResetAsked, context.actor).for_subject(user.sub);
    call.sealgate.audit.note(event.with_detail("link mailed"));
    Ok(Reply::nothing())
}

/// Attributes of a request. `None` is absent; `Some(None)` removes an attribute.
#[expect(clippy::option_option, reason = "an absent attribute differs from null")]
struct Attributes {
    name: Option<String>,
    email: Option<Option<Email>>,
    username: Option<Option<Username>>,
    phone: Option<Option<String>>,
    picture: Option<Option<String>>,
    email_verified: Option<bool>,
    roles: Option<Vec<Role>>,
    groups: Option<Vec<String>>,
}

impl Attributes {
    /// Reads the attributes of a request.
    ///
    /// # Errors
    /// 422 with each invalid name.
    fn read(call: &Call<'_>) -> Result<Self, ApiProblem> {
        let body = &call.body;
        let mut faults = Vec::new();
        let email = body.text("email").map(|text| {
            text.and_then(|text| {
                let email = Email::parse(text);
                faults.extend(email.is_none().then(|| "\"email\" must be name@host, without spaces".to_owned()));
                email
            })
        });
        let username = body.text("username").map(|text| {
            text.and_then(|text| {
                let username = Username::parse(text);
                faults.extend(username.is_none().then(|| {
                    "\"username\" has 1 to 64 of a-z, 0-9, '.', '_' and '-', starts with a letter and ends with a \
                     letter or digit"
                        .to_owned()
                }));
                username
            })
        });
        if !faults.is_empty() {
            return Err(ApiProblem::invalid(faults));
        }
        let owned = |name| body.text(name).map(|text| text.map(str::to_owned));
        let role = |name: &String| Role::ALL.into_iter().find(|role| role.as_str() == name);
        Ok(Self {
            name: owned("name").flatten(),
            email,
            username,
            phone: owned("phone_number"),
            picture: owned("picture"),
            email_verified: body.flag("email_verified").flatten(),
            roles: body.texts("roles").map(|roles| roles.iter().filter_map(role).collect()),
            groups: body.texts("groups"),
        })
    }

    /// Adds the name in the path to the attributes.
    ///
    /// # Errors
    /// 422 if the attributes have another one. To rename a user, use PATCH.
    fn named_by(mut self, user: &UserRef) -> Result<Self, ApiProblem> {
        let is_same = match user {
            UserRef::Sub(_) => true,
            UserRef::Email(email) => {
                let given = self.email.get_or_insert_with(|| Some(email.clone()));
                given.as_ref().is_some_and(|given| given.lookup_key() == email.lookup_key())
            }
            UserRef::Username(username) => {
                let given = self.username.get_or_insert_with(|| Some(username.clone()));
                given.as_ref() == Some(username)
            }
        };
        if is_same {
            return Ok(self);
        }
        let reason = "the body names another address or username than the path; to rename a user, use PATCH";
        Err(ApiProblem::invalid(vec![reason.to_owned()]))
    }

    /// Returns the changes that set the given attributes.
    fn changes(self) -> UserChanges {
        let Self { name, email, username, phone, picture, email_verified, roles, groups } = self;
        UserChanges {
            name,
            no_email: email == Some(None),
            email: email.flatten(),
            no_username: username == Some(None),
            username: username.flatten(),
            no_phone: phone == Some(None),
            phone: phone.flatten(),
            no_picture: picture == Some(None),
            picture: picture.flatten(),
            email_verified: email_verified == Some(true),
            email_unverified: email_verified == Some(false),
            no_roles: roles.as_ref().is_some_and(Vec::is_empty),
            roles: roles.unwrap_or_default(),
            no_groups: groups.as_ref().is_some_and(Vec::is_empty),
            groups: groups.unwrap_or_default(),
            ..UserChanges::default()
        }
    }

    /// Returns the changes that replace the profile: absent attributes are removed. Groups, roles and the
    /// verification of the address stay unless they are given.
    fn replacing(mut self) -> UserChanges {
        self.email.get_or_insert(None);
        self.username.get_or_insert(None);
        self.phone.get_or_insert(None);
        self.picture.get_or_insert(None);
        self.changes()
    }
}
