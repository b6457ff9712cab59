//! The person that an operator means.

use super::directory::{CommandError, Directory};
use super::person::Person;
use crate::domain::user::User;

/// The person that is meant.
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
        Person::Sub(sub) => format!("nobody has the sub {sub}"),
        Person::Email(email) => format!("nobody has the address {}", email.as_str()),
        Person::Username(username) => format!("nobody has the username {username}"),
    })
}
