//! Commands about people.

use super::answer::Answer;
use super::command::{NewUser, Person, UserCommand};
use super::execute::{CommandError, Directory, PAGE};
use super::view;
use crate::ambient::random;
use crate::protocol::audit::AuditKind;
use crate::protocol::grant::EndReason;
use crate::protocol::profile::{LONGEST_NAME, check_password, is_group, is_line, is_phone_number, is_picture, is_seen};
use crate::protocol::secret::Secret;
use crate::protocol::user::{Subject, User, UserState};
use crate::store::{AddOutcome, Ended};

/// Groups that a person may be in: they travel in one header to applications.
const MOST_GROUPS: usize = 100;

pub(super) async fn execute(directory: &Directory<'_>, command: UserCommand) -> Result<Answer, CommandError> {
    match command {
        UserCommand::Add(new) => add(directory, *new).await,
        UserCommand::List { after } => list(directory, after).await,
        UserCommand::Show(person) => Ok(view::user(&find(directory, &person).await?)),
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
    let faults = faults(&new);
    if !faults.is_empty() {
        return Err(CommandError::Invalid(faults));
    }
    if directory.store.user_by_email(&new.email).await?.is_some() {
        return Err(exists(&new));
    }
    let password = directory.passwords.hash(&new.password, random(directory.entropy)).await?;
    let now = directory.clock.now();
    let user = User {
        sub: Subject::from_random(random(directory.entropy)),
        email: new.email.clone(),
        email_verified: new.email_verified,
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
        AddOutcome::Exists => return Err(exists(&new)),
    }
    directory.record(directory.event(AuditKind::UserCreated).of(user.sub)).await;
    Ok(view::user(&user))
}

fn exists(new: &NewUser) -> CommandError {
    CommandError::Exists(format!("a person with the address {} exists already", new.email.as_str()))
}

fn faults(new: &NewUser) -> Vec<String> {
    let mut faults = Vec::new();
    if let Err(fault) = check_password(&new.password) {
        faults.push(fault.to_string());
    }
    if !is_line(&new.name, LONGEST_NAME) {
        faults.push(format!("a name has 1 to {LONGEST_NAME} characters, all of them visible, and no line breaks"));
    }
    if !is_seen(new.email.as_str()) {
        faults.push("the address has characters that cannot be seen".to_owned());
    }
    if new.phone_number.as_deref().is_some_and(|number| !is_phone_number(number)) {
        faults.push("a phone number is written as +90 555 111 22 33: a plus sign and 6 to 15 digits".to_owned());
    }
    if new.picture.as_deref().is_some_and(|picture| !is_picture(picture)) {
        faults.push("a picture is the https URL of an image".to_owned());
    }
    if new.groups.len() > MOST_GROUPS {
        faults.push(format!("a person is in at most {MOST_GROUPS} groups"));
    }
    for group in &new.groups {
        if !is_group(group) {
            faults.push(format!(
                "the group {group:?} is refused: a group has 1 to 100 characters, no commas, and no spaces around it"
            ));
        }
    }
    faults
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
    };
    found.ok_or_else(|| absent(person))
}

fn absent(person: &Person) -> CommandError {
    CommandError::Absent(match person {
        Person::Sub(sub) => format!("nobody has the sub {sub}"),
        Person::Email(email) => format!("nobody has the address {}", email.as_str()),
    })
}

async fn set_password(directory: &Directory<'_>, person: &Person, password: &Secret) -> Result<Answer, CommandError> {
    check_password(password).map_err(|fault| CommandError::invalid(fault.to_string()))?;
    let sub = find(directory, person).await?.sub;
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
