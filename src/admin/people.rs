//! Lookup of users, and checks of new ones.

use super::directory::{CommandError, Directory};
use super::person::Person;
use sealgate_domain::profile::{MAX_GROUPS, MAX_NAME_LENGTH, is_group, is_line, is_phone_number, is_picture, is_seen};
use sealgate_domain::user::{Email, User};
use sealgate_domain::username::Username;

/// Returns the user, or an error if there is none.
pub(super) async fn find(directory: &Directory<'_>, person: &Person) -> Result<User, CommandError> {
    let found = match person {
        Person::Sub(sub) => directory.store.user(*sub).await?,
        Person::Email(email) => directory.store.user_by_email(email).await?,
        Person::Username(username) => directory.store.user_by_username(username).await?,
    };
    found.ok_or_else(|| absent(person))
}

pub(super) fn absent(person: &Person) -> CommandError {
    CommandError::Absent(match person {
        Person::Sub(sub) => format!("no user has the sub {sub}"),
        Person::Email(email) => format!("no user has the e-mail address {}", email.as_str()),
        Person::Username(username) => format!("no user has the username {username}"),
    })
}

/// Returns the error if an existing user has the e-mail address or the username.
pub(super) async fn taken(directory: &Directory<'_>, new: &User) -> Result<Option<CommandError>, CommandError> {
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

pub(super) fn email_taken(email: &Email) -> CommandError {
    CommandError::Exists(format!("a user with the e-mail address {} already exists", email.as_str()))
}

pub(super) fn username_taken(username: &Username) -> CommandError {
    CommandError::Exists(format!("a user with the username {username} already exists"))
}

/// Returns the invalid attributes of a user, one line each.
pub(super) fn faults(user: &User) -> Vec<String> {
    let mut faults = Vec::new();
    if !is_line(&user.name, MAX_NAME_LENGTH) {
        faults.push(format!("a name has 1 to {MAX_NAME_LENGTH} visible characters and no line breaks"));
    }
    if !is_seen(user.email.as_str()) {
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
