//! Commands about users, and the ways to name a user in a command.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, EndedAnswer, ListPage, Rows, UserAnswer};
use crate::command::{UserCommand, UserListFilter};
use crate::context::{CommandContext, CommandError, Mailing, PAGE, cursor};
use crate::user_settings::{NewUser, UserChanges};
use crate::{bulk_invitation, factors, import, invitations, open_accesses};
use sealgate_core::password;
use sealgate_domain::account_links::AccountLinks;
use sealgate_domain::audit::{AuditEvent, AuditKind};
use sealgate_domain::mail::{Mail, MailId, MailKind, MailMessage, Notice, WaitingMail};
use sealgate_domain::password_rules::Owner;
use sealgate_domain::profile::{
    MAX_GROUPS, MAX_NAME_LENGTH, is_group, is_line, is_phone_number, is_picture, is_visible,
};
use sealgate_domain::secret::Secret;
use sealgate_domain::shown_sign_in_data::ShownSignInData;
use sealgate_domain::source::{SourceLink, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, ManagerDecisions, Subject, User, UserState, membership_changes};
use sealgate_domain::username::Username;
use sealgate_store::{AddOutcome, Ended, EndedLinks, LinkOutcome, Promotion, RenameOutcome};
use sealgate_system::clock::random;

/// Maximum number of users that are read for one page of a list with a filter.
const MAX_EXAMINED: usize = 5000;

pub(super) async fn execute(context: &CommandContext<'_>, command: UserCommand) -> Result<Answer, CommandError> {
    match command {
        UserCommand::Add(new) => add(context, *new).await,
        UserCommand::Import(import) => import::execute(context, *import).await,
        UserCommand::List { filter, after } => list(context, &filter, cursor(after.as_deref(), Subject::parse)?).await,
        UserCommand::Export { after, .. } => {
            list(context, &UserListFilter::default(), cursor(after.as_deref(), Subject::parse)?).await
        }
        UserCommand::Show(user) => {
            let user = find(context, &user).await?;
            Ok(invitations::answer(context, user).await?.into())
        }
        UserCommand::InviteUser(invitee) => invitations::invite(context, *invitee).await,
        UserCommand::ResendInvitation { user, print_link } => invitations::resend(context, &user, print_link).await,
        UserCommand::RevokeInvitation(user) => invitations::revoke(context, &user).await,
        UserCommand::InviteMany(invitees) => bulk_invitation::execute(context, *invitees).await,
        // The command line sends `InviteUser` or `InviteMany` instead.
        UserCommand::Invite(_) => Err(CommandError::invalid("send the command invite_user or invite_many")),
        UserCommand::Set { user, changes } => set(context, &user, &changes).await,
        UserCommand::SetPassword { user, password } => set_password(context, &user, &password.secret).await,
        // The command line sends `LinkUser` instead.
        UserCommand::Link(_) => Err(CommandError::invalid("send the command link_user")),
        UserCommand::LinkUser { user, link } => link_to(context, &user, &link).await,
        UserCommand::Unlink(user) => unlink(context, &user).await,
        UserCommand::Disable(ending) => disable(context, &ending.user).await,
        UserCommand::Enable(user) => {
            let user = enable(context, &user).await?;
            context.record(context.event(AuditKind::UserEnabled).for_subject(user.sub)).await;
            Ok(UserAnswer::from(user).into())
        }
        UserCommand::Delete(ending) => delete(context, &ending.user).await,
        UserCommand::Revoke(ending) => revoke(context, &ending.user).await,
        UserCommand::ListAccesses(user) => {
            let (sub, now) = (find(context, &user).await?.sub, context.clock.now());
            let accesses =
                open_accesses::of_user(context.store, context.apps, sub, context.keep_signed_in, now).await?;
            Ok(ListPage::answer(Rows::OpenAccesses(accesses), None::<String>))
        }
        UserCommand::ListFactors(user) => factors::list(context, &user).await,
        UserCommand::ResetFactors(user) => factors::reset(context, &user).await,
        UserCommand::UnblockFactors(user) => factors::unblock(context, &user).await,
    }
}

async fn add(context: &CommandContext<'_>, new: NewUser) -> Result<Answer, CommandError> {
    let now = context.clock.now();
    let mut user = User {
        sub: Subject::from_random(random(context.entropy)),
        email: new.names.email,
        email_verified: new.email_verified,
        username: new.names.username,
        name: new.name,
        phone_number: new.phone,
        picture: new.picture,
        roles: new.roles.into_iter().collect(),
        groups: new.groups.into_iter().collect(),
        password: None,
        source: None,
        state: UserState::Enabled,
        created_at: now,
        updated_at: now,
        audit_filters: Vec::new(),
        by_manager: decisions(context),
    };
    let password = &new.password.secret;
    let refused = context.passwords.check(password, &Owner::of(&user)).await?.err().map(|fault| fault.to_string());
    let faults: Vec<String> = refused.into_iter().chain(faults(&user)).collect();
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    if let Some(conflict) = find_conflict(context, &user).await? {
        return Err(conflict);
    }
    let hash = context.passwords.hash(password, random(context.entropy)).await?;
    user.set_password(hash, context.is_user_manager());
    match context.store.add_user(&user).await? {
        AddOutcome::Added => {}
        // Another command has added the user in the meantime.
        AddOutcome::Exists => {
            return Err(find_conflict(context, &user).await?.unwrap_or_else(|| name_taken(&user)));
        }
    }
    context.record(with_membership(context.event(AuditKind::UserCreated).for_subject(user.sub), &user)).await;
    Ok(UserAnswer::from(user).into())
}

/// Returns the decisions of a user manager about a new user.
pub(super) fn decisions(context: &CommandContext<'_>) -> ManagerDecisions {
    ManagerDecisions { email: context.is_user_manager(), ..ManagerDecisions::default() }
}

/// Adds the groups and roles of a new user to the event.
pub(super) fn with_membership(event: AuditEvent, user: &User) -> AuditEvent {
    let nobody = User { groups: BTreeSet::new(), roles: BTreeSet::new(), ..user.clone() };
    match membership_changes(&nobody, user) {
        changes if changes.is_empty() => event,
        changes => event.with_detail(changes.join(", ")),
    }
}

/// Lists the users that match. A page may be shorter than the maximum, or empty, although more users
/// may follow.
async fn list(
    context: &CommandContext<'_>,
    filter: &UserListFilter,
    mut after: Option<Subject>,
) -> Result<Answer, CommandError> {
    let (mut rows, mut examined) = (Vec::new(), 0);
    while rows.len() < PAGE && examined < MAX_EXAMINED {
        let users = context.store.users(after, PAGE).await?;
        let is_last = users.len() < PAGE;
        for user in users {
            (after, examined) = (Some(user.sub), examined + 1);
            if filter.matches(&user) {
                rows.push(invitations::answer(context, user).await?);
                if rows.len() == PAGE {
                    break;
                }
            }
        }
        if is_last && rows.len() < PAGE {
            after = None;
            break;
        }
    }
    Ok(ListPage::answer(Rows::Users(rows), after))
}

async fn set(context: &CommandContext<'_>, user: &UserRef, changes: &UserChanges) -> Result<Answer, CommandError> {
    let (now, by_manager) = (context.clock.now(), context.is_user_manager());
    edit(context, user, None, |user| change(user, changes, now, by_manager)).await
}

/// Changes a user as `sealgate user set` does. If the user gets rights in the console, the sign-in data must
/// be those that a page has shown.
///
/// # Errors
/// As `sealgate user set`; [`CommandError::SignInDataChanged`], and then nothing was changed.
pub async fn set_user_as_shown(
    context: &CommandContext<'_>,
    user: Subject,
    changes: &UserChanges,
    shown: &ShownSignInData,
) -> Result<Answer, CommandError> {
    let (now, by_manager) = (context.clock.now(), context.is_user_manager());
    edit(context, &UserRef::Sub(user), Some(shown), |user| change(user, changes, now, by_manager)).await
}

/// Changes a user. The store may call `change` several times.
///
/// With `shown`, a change that gives the user rights in the console requires these sign-in data.
pub(super) async fn edit(
    context: &CommandContext<'_>,
    user: &UserRef,
    shown: Option<&ShownSignInData>,
    change: impl Fn(&mut User) + Send + Sync,
) -> Result<Answer, CommandError> {
    let before = find(context, user).await?;
    let replaced = Mutex::new(before.clone());
    let change = |user: &mut User| {
        let before = user.clone();
        change(user);
        // Checked before the change, which may correct the address but not the password.
        if before.is_open_to_manager() && context.console.promotes(&before, user) {
            user.close_to_managers(password::unknown_hash(random(context.entropy), random(context.entropy)));
        }
        // The last call is committed.
        *replaced.lock().unwrap_or_else(PoisonError::into_inner) = before;
    };
    let mut next = before.clone();
    change(&mut next);
    if let Some(source) = &before.source {
        let kept = changed_fields(&before, &next);
        let kept: Vec<_> = kept.into_iter().filter(|field| KEPT_BY_SOURCE.contains(field)).collect();
        if !kept.is_empty() {
            return Err(kept_by_source(source, &kept.join(", ")));
        }
    }
    // Values that older rules accepted may stay, but new ones must satisfy the current rules.
    let existing_faults = faults(&before);
    let faults: Vec<String> = faults(&next).into_iter().filter(|fault| !existing_faults.contains(fault)).collect();
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    // The same commit removes all links of an account that leaves its mailbox or gets rights in the
    // console. It also notifies the old mailbox, and opens the revocation of a promoted user: somebody
    // who could act as the user until now must not get these rights.
    let revocation = context.revocation(before.sub);
    let left = |before: &User, after: &User| {
        let key = |user: &User| user.email.as_ref().map(Email::lookup_key);
        let is_moved = key(before) != key(after);
        let is_promoted = context.console.promotes(before, after);
        (is_moved || is_promoted).then(|| EndedLinks {
            mails: if is_moved { notice_to_old_address(context, before) } else { Vec::new() },
            links: remove_links,
            promotion: is_promoted.then(|| Promotion {
                revocation: revocation.clone(),
                removes_factors: before.is_open_to_manager(),
                shown: shown.cloned(),
            }),
        })
    };
    let user = match context.store.rename_user_and_tell(before.sub, change, left).await? {
        RenameOutcome::Renamed(user) => *user,
        RenameOutcome::Absent => return Err(absent(user)),
        // The command has given the new names. Others are not repeated.
        RenameOutcome::EmailTaken => {
            let given = next.email.as_ref().filter(|_| next.email != before.email);
            return Err(given.map_or_else(|| other_has("e-mail address"), email_taken));
        }
        RenameOutcome::UsernameTaken => {
            let given = next.username.as_ref().filter(|_| next.username != before.username);
            return Err(given.map_or_else(|| other_has("username"), username_taken));
        }
        RenameOutcome::Nameless => return Err(CommandError::invalid(NAMELESS)),
        RenameOutcome::SignInDataChanged => return Err(CommandError::SignInDataChanged),
    };
    let replaced = replaced.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ended = if context.console.promotes(&replaced, &user) {
        Some(context.store.carry_out(&revocation).await?)
    } else {
        None
    };
    let fields = changed_fields(&replaced, &user).into_iter().map(str::to_owned);
    let closed = (ended.is_some() && replaced.is_open_to_manager()).then(|| CLOSED.to_owned());
    let fields: Vec<String> = fields.chain(membership_changes(&replaced, &user)).chain(closed).collect();
    if !fields.is_empty() {
        let event = context.event(AuditKind::UserChanged).for_subject(user.sub);
        context.record(event.with_detail(fields.join(", "))).await;
    }
    let Some(ended) = ended else { return Ok(UserAnswer::from(user).into()) };
    let event = context.event(AuditKind::UserRevoked).for_subject(user.sub);
    context.record(event.with_detail(ended.to_string())).await;
    Ok(with_ended(user, ended))
}

/// Detail of the audit event about a new role of a user whom a user manager could sign in as.
const CLOSED: &str = "sign-in data of a user manager removed";

/// Removes all links of the account. The previous mailbox must not be able to undo an
/// administrator's change.
fn remove_links(links: &mut AccountLinks) {
    links.take_back();
    links.undos.clear();
}

/// Creates the notification to the previous address, if there is one. The audit event triggers the
/// notification to the new address.
fn notice_to_old_address(context: &CommandContext<'_>, before: &User) -> Vec<WaitingMail> {
    let (Mailing::On(sealgate), Some(address)) = (context.mailing, &before.email) else { return Vec::new() };
    if !sealgate.has_room_for(MailKind::Notice) {
        tracing::warn!(subject = %before.sub, "the old address is not notified of the change: too many \
            messages are queued");
        return Vec::new();
    }
    let (id, now) = (MailId::from_bytes(random(context.entropy)), context.clock.now());
    let mail = Mail::Notice { notice: Notice::AdministratorActed, count: 1 };
    let language = sealgate.config.pages.default_language;
    let message = MailMessage { to: Some(address.clone()), language, at: now, origin: None, mail };
    match context.store.new_mail((id, random(context.entropy)), Some(before.sub), &message, now) {
        Ok(mail) => vec![mail],
        Err(error) => {
            tracing::error!(%error, "cannot seal a message; it is not sent");
            Vec::new()
        }
    }
}

/// Applies the changes to the current state of the user.
fn change(user: &mut User, changes: &UserChanges, now: UnixTime, by_manager: bool) {
    let before = user.clone();
    if let Some(email) = &changes.email {
        // A user manager who changes the case of letters does not take over an administrator's address.
        user.by_manager.email = by_manager && (user.by_manager.email || !user.has_email(email));
        // The user has not verified the new address.
        user.email_verified &= user.has_email(email);
    }
    user.email_verified &= !changes.no_email;
    replace(&mut user.email, changes.email.as_ref(), changes.no_email);
    if changes.email_verified || changes.email_unverified {
        user.email_verified = changes.email_verified;
    }
    replace(&mut user.username, changes.username.as_ref(), changes.no_username);
    if let Some(name) = &changes.name {
        user.name.clone_from(name);
    }
    replace(&mut user.phone_number, changes.phone.as_ref(), changes.no_phone);
    replace(&mut user.picture, changes.picture.as_ref(), changes.no_picture);
    if *user != before {
        user.updated_at = now;
    }
    if !changes.roles.is_empty() || changes.no_roles {
        user.roles = changes.roles.iter().copied().collect();
    }
    if !changes.groups.is_empty() || changes.no_groups {
        user.groups = changes.groups.iter().cloned().collect();
    }
    user.roles.extend(changes.add_roles.iter().copied());
    user.roles.retain(|role| !changes.remove_roles.contains(role));
    user.groups.extend(changes.add_groups.iter().cloned());
    user.groups.retain(|group| !changes.remove_groups.contains(group));
}

/// Replaces or removes an optional value, if requested.
fn replace<T: Clone>(value: &mut Option<T>, new: Option<&T>, remove: bool) {
    if new.is_some() || remove {
        *value = new.cloned();
    }
}

/// Returns the error about attributes that the user's source keeps. It does not name the source, because
/// the token of an API request may not read it.
fn kept_by_source(source: &UserSource, kept: &str) -> CommandError {
    let kind = if source.is_upstream() { "OpenID provider" } else { "directory" };
    CommandError::invalid(format!("the user's {kind} keeps the {kept}; change it there"))
}

/// Attributes that a source keeps for its users.
const KEPT_BY_SOURCE: [&str; 5] = ["address", "verification of the address", "username", "name", "phone number"];

/// Returns the changed attributes in the form of the audit log. [`membership_changes`] has the groups
/// and roles.
fn changed_fields(before: &User, after: &User) -> Vec<&'static str> {
    let fields = [
        ("address", before.email != after.email),
        ("verification of the address", before.email_verified != after.email_verified),
        ("username", before.username != after.username),
        ("name", before.name != after.name),
        ("phone number", before.phone_number != after.phone_number),
        ("picture", before.picture != after.picture),
    ];
    fields.into_iter().filter(|(_, changed)| *changed).map(|(field, _)| field).collect()
}

async fn set_password(
    context: &CommandContext<'_>,
    user_ref: &UserRef,
    password: &Secret,
) -> Result<Answer, CommandError> {
    let user = find(context, user_ref).await?;
    if let Some(source) = &user.source {
        return Err(kept_by_source(source, "password"));
    }
    let judged = context.passwords.check(password, &Owner::of(&user)).await?;
    judged.map_err(|fault| CommandError::invalid(fault.to_string()))?;
    let sub = user.sub;
    let hash = context.passwords.hash(password, random(context.entropy)).await?;
    let by_manager = context.is_user_manager();
    let set = |user: &mut User| {
        // The user may have been linked to a source in the meantime.
        if user.source.is_none() {
            user.set_password(hash.clone(), by_manager);
        }
    };
    let (user, ended) = change_and_end(context, user_ref, sub, set).await?;
    if let Some(source) = &user.source {
        return Err(kept_by_source(source, "password"));
    }
    context.record(context.event(AuditKind::PasswordChanged).for_subject(sub).with_detail(ended.to_string())).await;
    Ok(with_ended(user, ended))
}

async fn link_to(context: &CommandContext<'_>, user: &UserRef, link: &SourceLink) -> Result<Answer, CommandError> {
    let sub = find(context, user).await?.sub;
    let revocation = context.revocation(sub);
    let outcome = context.store.link_user(&revocation, link).await?;
    link_changed(context, user, outcome, (AuditKind::AccountLinked, link.source.as_str())).await
}

async fn unlink(context: &CommandContext<'_>, user: &UserRef) -> Result<Answer, CommandError> {
    let before = find(context, user).await?;
    let source = before.source.map(|source| source.link.source.to_string()).unwrap_or_default();
    let revocation = context.revocation(before.sub);
    let outcome = context.store.unlink_user(&revocation, None).await?;
    link_changed(context, user, outcome, (AuditKind::AccountUnlinked, &source)).await
}

/// Records a changed link, or returns why the link was not changed.
async fn link_changed(
    context: &CommandContext<'_>,
    user: &UserRef,
    outcome: LinkOutcome,
    (kind, source): (AuditKind, &str),
) -> Result<Answer, CommandError> {
    match outcome {
        LinkOutcome::Changed(user, ended) => {
            let event = context.event(kind).for_subject(user.sub);
            context.record(event.with_detail(format!("{source}; {ended}"))).await;
            Ok(with_ended(*user, ended))
        }
        LinkOutcome::Absent => Err(absent(user)),
        LinkOutcome::Taken(holder) => Err(CommandError::Exists(format!(
            "the account is already the user {holder}; delete that user (sealgate user delete {holder}) to link the \
             account to another user"
        ))),
        LinkOutcome::HasSource(link) => Err(CommandError::Exists(format!(
            "the user is already linked to {}; remove that link first (sealgate user unlink {user})",
            link.source
        ))),
        LinkOutcome::IsLocal => Err(CommandError::invalid("the user is not linked to a directory or provider")),
        LinkOutcome::Nameless => Err(CommandError::invalid(
            "this user would have neither a verified e-mail address nor a username; set a username first: sealgate user set"
                .to_owned(),
        )),
        LinkOutcome::NameTaken => Err(CommandError::Exists(
            "another user now has the address or username of this user; change one of them first (sealgate user set)"
                .to_owned(),
        )),
    }
}

async fn disable(context: &CommandContext<'_>, user: &UserRef) -> Result<Answer, CommandError> {
    let sub = find(context, user).await?.sub;
    let by_manager = context.is_user_manager();
    // Revoke all access, so that neither old sessions nor old refresh tokens work after enabling.
    let (user, ended) = change_and_end(context, user, sub, |user| user.disable(by_manager)).await?;
    context.record(context.event(AuditKind::UserDisabled).for_subject(user.sub).with_detail(ended.to_string())).await;
    Ok(with_ended(user, ended))
}

/// Enables a user. A user manager cannot enable a user whom an administrator or operator disabled.
async fn enable(context: &CommandContext<'_>, user: &UserRef) -> Result<User, CommandError> {
    let sub = find(context, user).await?.sub;
    let by_manager = context.is_user_manager();
    let enable = |user: &mut User| {
        if !by_manager || user.may_be_enabled_by_manager() {
            user.enable();
        }
    };
    let changed = context.store.change_user(sub, enable).await?.ok_or_else(|| absent(user))?;
    if changed.state == UserState::Enabled {
        return Ok(changed);
    }
    Err(CommandError::Forbidden("an administrator disabled this user, so only an administrator can enable them".into()))
}

async fn delete(context: &CommandContext<'_>, user_ref: &UserRef) -> Result<Answer, CommandError> {
    let user = find(context, user_ref).await?;
    if !context.store.delete_user(user.sub, context.clock.now()).await? {
        return Err(absent(user_ref));
    }
    context.record(context.event(AuditKind::UserDeleted).for_subject(user.sub)).await;
    Ok(UserAnswer { deleted: Some(true), ..UserAnswer::from(user) }.into())
}

async fn revoke(context: &CommandContext<'_>, user: &UserRef) -> Result<Answer, CommandError> {
    let sub = find(context, user).await?.sub;
    let ended = end_everything(context, sub).await?;
    context.record(context.event(AuditKind::UserRevoked).for_subject(sub).with_detail(ended.to_string())).await;
    let (sessions_ended, grants_ended) = (Some(ended.sessions), Some(ended.grants));
    Ok(EndedAnswer { sub: Some(sub), sessions_ended, grants_ended, ..EndedAnswer::from(()) }.into())
}

/// Changes a user and revokes all access.
///
/// The revocation begins with the commit of the change. So it also ends a session or a grant that
/// another request obtains with the old credentials during the change.
async fn change_and_end(
    context: &CommandContext<'_>,
    user: &UserRef,
    sub: Subject,
    change: impl Fn(&mut User) + Send,
) -> Result<(User, Ended), CommandError> {
    let revocation = context.revocation(sub);
    let changed = context.store.change_user_with(&revocation, change).await?;
    let user = changed.ok_or_else(|| absent(user))?;
    Ok((user, context.store.carry_out(&revocation).await?))
}

async fn end_everything(context: &CommandContext<'_>, sub: Subject) -> Result<Ended, CommandError> {
    Ok(context.store.revoke(&context.revocation(sub)).await?)
}

fn with_ended(user: User, ended: Ended) -> Answer {
    let (sessions_ended, grants_ended) = (Some(ended.sessions), Some(ended.grants));
    UserAnswer { sessions_ended, grants_ended, ..UserAnswer::from(user) }.into()
}

/// Error about a user without a name.
const NAMELESS: &str = "a user needs an e-mail address or a username; the only one of the two cannot be removed";

/// User as named by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserRef {
    /// By `sub`.
    Sub(Subject),
    Email(Email),
    Username(Username),
}

impl UserRef {
    /// Parses a `sub`, an e-mail address if the text contains `@`, or a username. No text has two
    /// of these forms.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('@') {
            return Email::parse(text).map(Self::Email);
        }
        Subject::parse(text).map(Self::Sub).or_else(|| Username::parse(text).map(Self::Username))
    }
}

impl fmt::Display for UserRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sub(sub) => sub.fmt(f),
            Self::Email(email) => f.write_str(email.as_str()),
            Self::Username(username) => username.fmt(f),
        }
    }
}

/// Returns the user, or an error if there is none.
pub(super) async fn find(context: &CommandContext<'_>, user: &UserRef) -> Result<User, CommandError> {
    let stored_user = match user {
        UserRef::Sub(sub) => context.store.user(*sub).await?,
        UserRef::Email(email) => context.store.user_by_email(email).await?,
        UserRef::Username(username) => context.store.user_by_username(username).await?,
    };
    stored_user.ok_or_else(|| absent(user))
}

pub(super) fn absent(user: &UserRef) -> CommandError {
    CommandError::Absent(match user {
        UserRef::Sub(sub) => format!("no user has the sub {sub}"),
        UserRef::Email(email) => format!("no user has the e-mail address {}", email.as_str()),
        UserRef::Username(username) => format!("no user has the username {username}"),
    })
}

/// Returns the error if an existing user has the e-mail address or the username.
pub(super) async fn find_conflict(
    context: &CommandContext<'_>,
    new: &User,
) -> Result<Option<CommandError>, CommandError> {
    if let Some(email) = &new.email
        && context.store.user_by_email(email).await?.is_some()
    {
        return Ok(Some(email_taken(email)));
    }
    match &new.username {
        Some(username) if context.store.user_by_username(username).await?.is_some() => {
            Ok(Some(username_taken(username)))
        }
        _ => Ok(None),
    }
}

fn email_taken(email: &Email) -> CommandError {
    CommandError::Exists(format!("a user with the e-mail address {} already exists", email.as_str()))
}

fn other_has(name: &str) -> CommandError {
    CommandError::Exists(format!("another user has the {name} of this user"))
}

/// Returns the error if another user has one of the names.
pub(super) fn name_taken(user: &User) -> CommandError {
    CommandError::Exists(format!("a user with the name {} already exists", user.sign_in_name()))
}

fn username_taken(username: &Username) -> CommandError {
    CommandError::Exists(format!("a user with the username {username} already exists"))
}

/// Returns the invalid attributes of a user, one line each.
pub(super) fn faults(user: &User) -> Vec<String> {
    let mut faults = Vec::new();
    if !is_line(&user.name, MAX_NAME_LENGTH) {
        faults.push(format!("a name has 1 to {MAX_NAME_LENGTH} visible characters and no line breaks"));
    }
    match user.fault() {
        Some(_) if user.email.is_none() && user.username.is_none() => faults.push(NAMELESS.to_owned()),
        Some(fault) => faults.push(fault.to_owned()),
        None => {}
    }
    if user.email.as_ref().is_some_and(|email| !is_visible(email.as_str())) {
        faults.push("the e-mail address has invisible characters".to_owned());
    }
    if user.phone_number.as_deref().is_some_and(|number| !is_phone_number(number)) {
        faults.push("a phone number has a plus sign and 6 to 15 digits, such as +90 555 111 22 33".to_owned());
    }
    if user.picture.as_deref().is_some_and(|picture| !is_picture(picture)) {
        faults.push("a picture must be the https URL of an image".to_owned());
    }
    if user.groups.len() > MAX_GROUPS {
        faults.push(format!("a user can be in at most {MAX_GROUPS} groups"));
    }
    for group in &user.groups {
        if !is_group(group) {
            faults.push(format!(
                "the group {group:?} is invalid: a group has 1 to 100 characters, no commas, and no spaces around it"
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_named_by_sub_address_or_username() {
        let sub = "6f2c6f0e-5a3b-4d5e-8f3a-0d6a2b1c4e5f";
        assert_eq!(UserRef::parse(sub).unwrap().to_string(), sub);
        assert_eq!(UserRef::parse("a@b").unwrap().to_string(), "a@b");
        assert_eq!(UserRef::parse("somebody").unwrap().to_string(), "somebody");
        assert_eq!(UserRef::parse("Some body"), None);
        assert_eq!(UserRef::parse("a@b@c"), None);
    }
}
