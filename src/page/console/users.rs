//! The console's pages about people.

use askama::Template;

use crate::page::account::{SessionLine, SessionWords};
use crate::page::content::Chrome;
use crate::page::moment::moment;
use crate::page::shell::{Inside, Place, Shell};
use crate::page::words::{Markup, Words, escaped};
use crate::page::{Pages, rendered};

/// People.
#[derive(Clone, Copy)]
pub struct Users<'a> {
    /// They.
    pub users: &'a [UserLine<'a>],
    /// What was looked for, as typed; empty where all are shown. The form sends it as `find`.
    pub wanted: &'a str,
    /// Address of the next ones, if there are more.
    pub next: Option<&'a str>,
}

/// One person.
#[derive(Debug, Clone, Copy)]
pub struct UserLine<'a> {
    /// Their `sub`.
    pub subject: &'a str,
    /// Full name.
    pub name: &'a str,
    /// Address.
    pub email: &'a str,
    /// Whether they may come in.
    pub enabled: bool,
    /// Groups, with a comma between two.
    pub groups: &'a str,
    /// The roles that they have.
    pub roles: Roles,
    /// When they last signed in, seconds since 1970, as far as the trail still says so.
    pub signed_in_at: Option<u64>,
}

/// The form for a new person. It sends `csrf`, `email`, `username`, `name`, `groups` (one a line), `role_developer` and `role_admin`.
#[derive(Clone, Copy)]
pub struct NewUser<'a> {
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// Address.
    pub email: &'a str,
    /// Username; empty where they shall have none.
    pub username: &'a str,
    /// Full name.
    pub name: &'a str,
    /// Groups, one a line.
    pub groups: &'a str,
    /// The roles that they have.
    pub roles: Roles,
    /// What of it was refused.
    pub faults: &'a [UserField],
}

/// The roles that a person has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    /// They may register clients.
    pub developer: bool,
    /// They may do everything.
    pub admin: bool,
}

/// A field of a person's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserField {
    /// The address is none.
    Email,
    /// Somebody has the address already.
    EmailTaken,
    /// The username is none.
    Username,
    /// Somebody has the username already.
    UsernameTaken,
    /// The name.
    Name,
    /// A group.
    Groups,
    /// An administrator took their own role away.
    OwnRole,
}

/// One person, with all that can be done. The forms send `csrf` and `action`: `save` with `groups`, `role_developer`,
/// `role_admin` and, where they have none yet, `username`, `disable`, `enable`, `reset-password`, `revoke`, `end-session` with `session`.
#[derive(Clone, Copy)]
pub struct UserPage<'a> {
    /// The forms' token against cross-site requests.
    pub csrf: &'a str,
    /// Their `sub`.
    pub subject: &'a str,
    /// Address.
    pub email: &'a str,
    /// Username, if they have one.
    pub username: Option<&'a str>,
    /// Full name.
    pub name: &'a str,
    /// Groups, one a line.
    pub groups: &'a str,
    /// The roles that they have.
    pub roles: Roles,
    /// Whether they may come in.
    pub enabled: bool,
    /// Whether it is whoever looks: nobody shuts themselves out.
    pub own: bool,
    /// Since when they are known, seconds since 1970.
    pub created_at: u64,
    /// Where they are signed in.
    pub sessions: &'a [SessionLine<'a>],
    /// A password that was just made, shown this once.
    pub password: Option<&'a str>,
    /// What of the form was refused.
    pub faults: &'a [UserField],
}

impl Pages {
    /// People.
    pub fn console_users(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Users<'_>) -> String {
        let t = Words::of(chrome);
        let lines = page.users.iter().map(|user| (*user, user.signed_in_at.map(|at| moment(t, at)))).collect();
        let inside = Inside::new(self, chrome, shell, Place::Users, t.users_title(), false);
        rendered(&UsersPage { inside, page, lines })
    }

    /// The form for a new person.
    pub fn console_new_user(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &NewUser<'_>) -> String {
        let heading = Words::of(chrome).user_new_title();
        let faulty = !page.faults.is_empty();
        rendered(&NewUserPage { inside: Inside::new(self, chrome, shell, Place::Users, heading, faulty), page })
    }

    /// One person.
    pub fn console_user(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &UserPage<'_>) -> String {
        let t = Words::of(chrome);
        let heading = if page.name.is_empty() { page.email } else { page.name };
        let inside = Inside::new(self, chrome, shell, Place::Users, escaped(heading), !page.faults.is_empty());
        let sessions = page.sessions.iter().map(|line| SessionWords::new(t, line)).collect();
        rendered(&OneUserPage { inside, page, sessions, since: moment(t, page.created_at) })
    }
}

#[derive(Template)]
#[template(path = "console/users.html")]
struct UsersPage<'a> {
    inside: Inside<'a>,
    page: &'a Users<'a>,
    lines: Vec<(UserLine<'a>, Option<Markup>)>,
}

#[derive(Template)]
#[template(path = "console/new_user.html")]
struct NewUserPage<'a> {
    inside: Inside<'a>,
    page: &'a NewUser<'a>,
}

impl NewUserPage<'_> {
    fn blames_username(&self) -> bool {
        self.has(UserField::Username) || self.has(UserField::UsernameTaken)
    }

    fn has(&self, field: UserField) -> bool {
        self.page.faults.contains(&field)
    }

    fn is_first(&self, field: UserField) -> bool {
        self.page.faults.first() == Some(&field)
    }
}

#[derive(Template)]
#[template(path = "console/user.html")]
struct OneUserPage<'a> {
    inside: Inside<'a>,
    page: &'a UserPage<'a>,
    sessions: Vec<SessionWords<'a>>,
    since: Markup,
}

impl OneUserPage<'_> {
    fn blames_username(&self) -> bool {
        self.has(UserField::Username) || self.has(UserField::UsernameTaken)
    }

    fn has(&self, field: UserField) -> bool {
        self.page.faults.contains(&field)
    }
}
