//! Commands about people.

use std::collections::BTreeSet;

use super::answer::Answer;
use super::command::{NewUser, Person, UserChanges, UserCommand};
use super::execute::{CommandError, Directory, PAGE};
use super::view;
use crate::clock::random;
use crate::domain::audit::AuditKind;
use crate::domain::grant::EndReason;
use crate::domain::profile::{LONGEST_NAME, is_group, is_line, is_phone_number, is_picture, is_seen};
use crate::domain::secret::Secret;
use crate::domain::time::UnixTime;
use crate::domain::user::{Email, Subject, User, UserState};
use crate::domain::username::Username;
use crate::password::{Owner, check_password};
use crate::store::{AddOutcome, Ended, RenameOutcome};

/// Groups that a person may be in: they travel in one header to applications.
const MOST_GROUPS: usize = 100;

pub(super) async fn execute(directory: &Directory<'_>, command: UserCommand) -> Result<Answer, CommandError> {
    match command {
        UserCommand::Add(new) => add(directory, *new).await,
        UserCommand::List { after } => list(directory, after).await,
        UserCommand::Show(person) => Ok(view::user(&find(directory, &person).await?)),
        UserCommand::Set { person, changes } => set(directory, &person, &changes).await,
        UserCommand::SetPassword { person, password } => set_password(directory, &person, &password).await,
        UserCommand::Disable(person) => disable(directory, &person).await,
        UserCommand::Enable(person) => {
            let user = set_state(directory, &person, UserState::Enabled).await?;
            directory.record(directory.event(AuditKind::UserEnabled).of(user.sub)).await;
            Ok(view::user(&user))
        }
        UserCommand::Delete(person) => delete(directory, &person).await,
        UserCommand::Revoke(person) => revoke(directory, &person).await,
    }
}

async fn add(directory: &Directory<'_>, new: NewUser) -> Result<Answer, CommandError> {
    let owner = Owner { email: &new.email, username: new.username.as_ref(), name: &new.name };
    let mut faults: Vec<String> =
        check_password(&new.password, &owner).err().map(|fault| fault.to_string()).into_iter().collect();
    faults.extend(Known::new(&new).faults());
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    if let Some(taken) = taken(directory, &new).await? {
        return Err(taken);
    }
    let password = directory.passwords.hash(&new.password, random(directory.entropy)).await?;
    let now = directory.clock.now();
    let user = User {
        sub: Subject::from_random(random(directory.entropy)),
        email: new.email.clone(),
        email_verified: new.email_verified,
        username: new.username.clone(),
        name: new.name.clone(),
        phone_number: new.phone_number.clone(),
        picture: new.picture.clone(),
        roles: new.roles.clone(),
        groups: new.groups.clone(),
        password: Some(password),
        state: UserState::Enabled,
        created_at: now,
        updated_at: now,
    };
    match directory.store.add_user(&user).await? {
        AddOutcome::Added => {}
        // Somebody was quicker.
        AddOutcome::Exists => return Err(taken(directory, &new).await?.unwrap_or_else(|| email_taken(&new.email))),
    }
    directory.record(directory.event(AuditKind::UserCreated).of(user.sub)).await;
    Ok(view::user(&user))
}

/// Why somebody cannot be added beside those who are there.
async fn taken(directory: &Directory<'_>, new: &NewUser) -> Result<Option<CommandError>, CommandError> {
    if directory.store.user_by_email(&new.email).await?.is_some() {
        return Ok(Some(email_taken(&new.email)));
    }
    match &new.username {
        Some(username) if directory.store.user_by_username(username).await?.is_some() => {
            Ok(Some(username_taken(username)))
        }
        _ => Ok(None),
    }
}

fn email_taken(email: &Email) -> CommandError {
    CommandError::Exists(format!("a person with the address {} exists already", email.as_str()))
}

fn username_taken(username: &Username) -> CommandError {
    CommandError::Exists(format!("a person with the username {username} exists already"))
}

/// What is to be known of a person.
struct Known<'a> {
    email: &'a Email,
    name: &'a str,
    phone_number: Option<&'a str>,
    picture: Option<&'a str>,
    groups: &'a BTreeSet<String>,
}

impl<'a> Known<'a> {
    fn new(new: &'a NewUser) -> Self {
        Self {
            email: &new.email,
            name: &new.name,
            phone_number: new.phone_number.as_deref(),
            picture: new.picture.as_deref(),
            groups: &new.groups,
        }
    }

    fn of(user: &'a User) -> Self {
        Self {
            email: &user.email,
            name: &user.name,
            phone_number: user.phone_number.as_deref(),
            picture: user.picture.as_deref(),
            groups: &user.groups,
        }
    }

    /// What of it cannot be taken, one line each.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !is_line(self.name, LONGEST_NAME) {
            faults.push(format!("a name has 1 to {LONGEST_NAME} characters, all of them visible, and no line breaks"));
        }
        if !is_seen(self.email.as_str()) {
            faults.push("the address has characters that cannot be seen".to_owned());
        }
        if self.phone_number.is_some_and(|number| !is_phone_number(number)) {
            faults.push("a phone number is written as +90 555 111 22 33: a plus sign and 6 to 15 digits".to_owned());
        }
        if self.picture.is_some_and(|picture| !is_picture(picture)) {
            faults.push("a picture is the https URL of an image".to_owned());
        }
        if self.groups.len() > MOST_GROUPS {
            faults.push(format!("a person is in at most {MOST_GROUPS} groups"));
        }
        for group in self.groups {
            if !is_group(group) {
                faults.push(format!(
                    "the group {group:?} is refused: a group has 1 to 100 characters, no commas, and no spaces around it"
                ));
            }
        }
        faults
    }
}

async fn list(directory: &Directory<'_>, after: Option<Subject>) -> Result<Answer, CommandError> {
    let users = directory.store.users(after, PAGE).await?;
    let next = users.last().filter(|_| users.len() == PAGE).map(|user| user.sub.to_string());
    Ok(view::list("users", users.iter().map(view::user).collect(), next))
}

/// The person that is meant.
pub(super) async fn find(directory: &Directory<'_>, person: &Person) -> Result<User, CommandError> {
    let found = match person {
        Person::Sub(sub) => directory.store.user(*sub).await?,
        Person::Email(email) => directory.store.user_by_email(email).await?,
        Person::Username(username) => directory.store.user_by_username(username).await?,
    };
    found.ok_or_else(|| absent(person))
}

fn absent(person: &Person) -> CommandError {
    CommandError::Absent(match person {
        Person::Sub(sub) => format!("nobody has the sub {sub}"),
        Person::Email(email) => format!("nobody has the address {}", email.as_str()),
        Person::Username(username) => format!("nobody has the username {username}"),
    })
}

async fn set(directory: &Directory<'_>, person: &Person, changes: &UserChanges) -> Result<Answer, CommandError> {
    let before = find(directory, person).await?;
    let now = directory.clock.now();
    let change = |user: &mut User| change(user, changes, now);
    let mut next = before.clone();
    change(&mut next);
    // What was taken under older rules may stay, but not be written anew.
    let known = Known::of(&before).faults();
    let faults: Vec<String> = Known::of(&next).faults().into_iter().filter(|fault| !known.contains(fault)).collect();
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    let user = match directory.store.rename_user(before.sub, change).await? {
        RenameOutcome::Renamed(user) => user,
        RenameOutcome::Absent => return Err(absent(person)),
        RenameOutcome::EmailTaken => return Err(email_taken(&next.email)),
        RenameOutcome::UsernameTaken => {
            return Err(next.username.as_ref().map_or_else(|| email_taken(&next.email), username_taken));
        }
    };
    let fields = changed_fields(&before, &user);
    if !fields.is_empty() {
        let event = directory.event(AuditKind::UserChanged).of(user.sub);
        directory.record(event.with_detail(fields.join(", "))).await;
    }
    Ok(view::user(&user))
}

/// Applies the changes to whatever the person is by then.
fn change(user: &mut User, changes: &UserChanges, now: UnixTime) {
    let before = user.clone();
    if let Some(email) = &changes.email {
        // Nobody has shown that the new address is theirs.
        user.email_verified &= email.lookup_key() == user.email.lookup_key();
        user.email = email.clone();
    }
    user.email_verified = changes.email_verified.unwrap_or(user.email_verified);
    changes.username.apply(&mut user.username);
    if let Some(name) = &changes.name {
        user.name.clone_from(name);
    }
    changes.phone_number.apply(&mut user.phone_number);
    changes.picture.apply(&mut user.picture);
    if *user != before {
        user.updated_at = now;
    }
    if let Some(roles) = &changes.roles {
        user.roles.clone_from(roles);
    }
    if let Some(groups) = &changes.groups {
        user.groups.clone_from(groups);
    }
    user.groups.extend(changes.add_groups.iter().cloned());
    user.groups.retain(|group| !changes.remove_groups.contains(group));
}

/// What has changed, in the words of the audit trail.
fn changed_fields(before: &User, after: &User) -> Vec<&'static str> {
    let fields = [
        ("address", before.email != after.email),
        ("verification of the address", before.email_verified != after.email_verified),
        ("username", before.username != after.username),
        ("name", before.name != after.name),
        ("phone number", before.phone_number != after.phone_number),
        ("picture", before.picture != after.picture),
        ("roles", before.roles != after.roles),
        ("groups", before.groups != after.groups),
    ];
    fields.into_iter().filter(|(_, changed)| *changed).map(|(field, _)| field).collect()
}

async fn set_password(directory: &Directory<'_>, person: &Person, password: &Secret) -> Result<Answer, CommandError> {
    let user = find(directory, person).await?;
    let owner = Owner { email: &user.email, username: user.username.as_ref(), name: &user.name };
    check_password(password, &owner).map_err(|fault| CommandError::invalid(fault.to_string()))?;
    let sub = user.sub;
    let hash = directory.passwords.hash(password, random(directory.entropy)).await?;
    let changed = directory.store.change_user(sub, |user| user.password = Some(hash.clone())).await?;
    let user = changed.ok_or_else(|| absent(person))?;
    // After the change: whoever signs in with the old password in between is put out too. A refresh token that the old
    // password gave somebody must not outlive it.
    let ended = end_everything(directory, sub).await?;
    directory.record(directory.event(AuditKind::PasswordChanged).of(sub).with_detail(ended.to_string())).await;
    Ok(with_ended(view::user(&user), ended))
}

async fn disable(directory: &Directory<'_>, person: &Person) -> Result<Answer, CommandError> {
    let user = set_state(directory, person, UserState::Disabled).await?;
    // Enabling must bring back neither a browser that was in before nor a client that held a refresh token.
    let ended = end_everything(directory, user.sub).await?;
    directory.record(directory.event(AuditKind::UserDisabled).of(user.sub).with_detail(ended.to_string())).await;
    Ok(with_ended(view::user(&user), ended))
}

async fn set_state(directory: &Directory<'_>, person: &Person, state: UserState) -> Result<User, CommandError> {
    let sub = find(directory, person).await?.sub;
    let changed = directory.store.change_user(sub, |user| user.state = state).await?;
    changed.ok_or_else(|| absent(person))
}

async fn delete(directory: &Directory<'_>, person: &Person) -> Result<Answer, CommandError> {
    let user = find(directory, person).await?;
    if !directory.store.delete_user(user.sub, directory.clock.now()).await? {
        return Err(absent(person));
    }
    directory.record(directory.event(AuditKind::UserDeleted).of(user.sub)).await;
    Ok(view::user(&user).with("deleted", true))
}

async fn revoke(directory: &Directory<'_>, person: &Person) -> Result<Answer, CommandError> {
    let sub = find(directory, person).await?.sub;
    let ended = end_everything(directory, sub).await?;
    directory.record(directory.event(AuditKind::PersonRevoked).of(sub).with_detail(ended.to_string())).await;
    Ok(with_ended(view::object(serde_json::json!({ "sub": sub })), ended))
}

async fn end_everything(directory: &Directory<'_>, sub: Subject) -> Result<Ended, CommandError> {
    Ok(directory.store.revoke_person(sub, EndReason::Administrator, directory.clock.now()).await?)
}

fn with_ended(answer: Answer, ended: Ended) -> Answer {
    answer.with("sessions_ended", ended.sessions).with("grants_ended", ended.grants)
}
