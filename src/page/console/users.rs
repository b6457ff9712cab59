//! The console's pages about people.

use std::collections::BTreeSet;

use askama::Template;

use crate::domain::session::Session;
use crate::domain::time::UnixTime;
use crate::domain::user::{Role, User};
use crate::page::inside::{Inside, MenuEntry};

#[derive(Template)]
#[template(path = "console/users.html")]
pub struct UsersPage<'a> {
    pub inside: Inside<'a>,
    /// Those of this page, and when each last signed in, as far as the trail still says so.
    pub users: &'a [(User, Option<UnixTime>)],
    /// What was looked for, as typed; empty where all are shown. The form sends it as `find`.
    pub wanted: &'a str,
    /// Address of the next ones, if there are more.
    pub next: Option<&'a str>,
}

impl UsersPage<'_> {
    fn groups(user: &User) -> String {
        user.groups.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// The form for a new person. It sends `csrf`, `email`, `username`, `name`, `groups` (one a line), `role_developer` and `role_admin`.
#[derive(Template)]
#[template(path = "console/new_user.html")]
pub struct NewUserPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub email: &'a str,
    /// Username; empty where they shall have none.
    pub username: &'a str,
    pub name: &'a str,
    /// Groups, one a line.
    pub groups: &'a str,
    pub roles: &'a BTreeSet<Role>,
    pub faults: &'a [UserField],
}

/// A field of a person's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserField {
    /// The address is none.
    Email,
    EmailTaken,
    /// The username is none.
    Username,
    UsernameTaken,
    Name,
    Groups,
    /// An administrator took their own role away.
    OwnRole,
}

impl NewUserPage<'_> {
    fn is_first(&self, field: UserField) -> bool {
        self.faults.first() == Some(&field)
    }
}

/// One person, with all that can be done. The forms send `csrf` and `action`: `save` with `groups`, `role_developer`,
/// `role_admin` and, where they have none yet, `username`, `disable`, `enable`, `reset-password`, `revoke`, `end-session` with `session`.
#[derive(Template)]
#[template(path = "console/user.html")]
pub struct UserPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub user: &'a User,
    /// Whether it is whoever looks: nobody shuts themselves out.
    pub own: bool,
    pub sessions: &'a [Session],
    /// A password that was just made, shown this once.
    pub password: Option<&'a str>,
    pub faults: &'a [UserField],
}

impl UserPage<'_> {
    fn heading(&self) -> &str {
        if self.user.name.is_empty() { self.user.email.as_str() } else { &self.user.name }
    }

    /// One a line.
    fn groups(&self) -> String {
        self.user.groups.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}
