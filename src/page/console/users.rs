//! The console's pages about people.

use std::collections::BTreeSet;

use askama::Template;

use crate::domain::account_links::InvitationState;
use crate::domain::session::Session;
use crate::domain::time::UnixTime;
use crate::domain::user::{Role, User};
use crate::page::inside::{Inside, MenuEntry};
use crate::page::security::FactorLine;
use crate::page::words::{Markup, Words};

#[derive(Template)]
#[template(path = "console/users.html")]
pub struct UsersPage<'a> {
    pub inside: Inside<'a>,
    pub users: &'a [UserLine],
    /// How many of how many people who can sign in have no factor, and when they were counted.
    pub without_factor: Option<(u64, u64, UnixTime)>,
    /// What was looked for, as typed; empty where all are shown. The form sends it as `find`.
    pub wanted: &'a str,
    /// Address of the next ones, if there are more.
    pub next: Option<&'a str>,
}

#[derive(Debug, Clone)]
pub struct UserLine {
    pub user: User,
    /// When they last signed in, as far as the trail still says so.
    pub signed_in_at: Option<UnixTime>,
    pub factor: UserFactor,
    /// What has become of their invitation, where there is one.
    pub invitation: Option<InvitationState>,
}

/// The strongest thing that somebody signs in with besides the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserFactor {
    None,
    App,
    SecurityKey,
    Passkey,
    /// All were removed, and the link was not used yet.
    Reset,
}

impl UserFactor {
    fn words(self, t: &Words) -> Markup {
        match self {
            Self::None => t.user_factor_none(),
            Self::App => t.factor_kind_app(),
            Self::SecurityKey => t.factor_kind_security_key(),
            Self::Passkey => t.factor_kind_passkey(),
            Self::Reset => t.user_factor_reset(),
        }
    }
}

impl UsersPage<'_> {
    fn groups(user: &User) -> String {
        user.groups.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// The form for a new person. It sends `csrf`, `email`, `username`, `name`, `groups` (one a line), `role_developer` and `role_admin`, and
/// where they can be invited `app` with `invite`, or `with-password`.
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
    /// Where people can be invited.
    pub invitation: Option<InvitationForm<'a>>,
    pub faults: &'a [UserField],
}

/// What an invitation says beside who it is for.
#[derive(Debug, Clone, Copy)]
pub struct InvitationForm<'a> {
    /// The applications that it may lead to: name, and what people call it.
    pub apps: &'a [(&'a str, &'a str)],
    /// The name of the one that is chosen; empty for none.
    pub app: &'a str,
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
/// `role_admin` and, where they have none yet, `username`, `disable`, `enable`, `reset-password`, `revoke`, `end-session` with `session`,
/// `unblock-factors`, `reset-factors`, `resend-invitation`, `withdraw-invitation`.
#[derive(Template)]
#[template(path = "console/user.html")]
pub struct UserPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub user: &'a User,
    /// Whether it is whoever looks: nobody shuts themselves out.
    pub own: bool,
    pub sessions: &'a [Session],
    pub factors: PersonFactors<'a>,
    pub invitation: PersonInvitation,
    /// A password that was just made, shown this once.
    pub password: Option<&'a str>,
    /// The link of a reset that was just made, shown this once.
    pub link: Option<&'a str>,
    pub faults: &'a [UserField],
}

/// What has become of somebody's invitation, and what can be done about it.
#[derive(Debug, Clone, Copy, Default)]
pub struct PersonInvitation {
    /// With the moment at which it was sent, or accepted.
    pub state: Option<(InvitationState, UnixTime)>,
    /// The end of the link.
    pub until: Option<UnixTime>,
    /// Whether they sign in with nothing yet, and a link can be sent.
    pub may_send: bool,
}

/// What a person signs in with besides the password.
#[derive(Debug, Clone, Copy)]
pub struct PersonFactors<'a> {
    /// They, in the order in which they were added.
    pub lines: &'a [FactorLine<'a>],
    /// Recovery codes that were not used, where there are some.
    pub recovery_left: Option<u64>,
    /// Whether codes are not looked at any more after too many wrong ones.
    pub blocked: bool,
    pub reset: Option<ResetState>,
}

impl PersonInvitation {
    /// The link's end; `sent` where there is none.
    fn end<'a>(&'a self, sent: &'a UnixTime) -> &'a UnixTime {
        self.until.as_ref().unwrap_or(sent)
    }

    fn is_open(&self) -> bool {
        self.state.is_some_and(|(state, _)| state != InvitationState::Accepted)
    }
}

/// How a reset stands that was not followed by an enrolment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetState {
    Open {
        /// Until when the link is good.
        until: UnixTime,
    },
    /// The link is good no more.
    Late,
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
