//! What surrounds the pages of somebody who is signed in: the menu, who it is, what has just been done.

use super::Pages;
use super::content::Chrome;
use super::template::Frame;
use super::words::{Markup, Words};

/// What surrounds a page of the account or the console.
#[derive(Debug, Clone, Copy)]
pub struct Shell<'a> {
    /// The path in front of the provider's own paths; empty at the root.
    pub prefix: &'a str,
    /// Who is signed in, as its owner knows the account (the email address).
    pub account: &'a str,
    /// The console, if this person may use it.
    pub console: Option<Standing>,
    /// What the form before this page has done.
    pub done: Option<Done>,
    /// Whether some application takes application passwords.
    pub app_passwords: bool,
    /// Whether there is a page of applications.
    pub home: bool,
}

/// What a person may do in the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Registers clients, and sees their own.
    Developer,
    /// Sees and changes everything.
    Administrator,
}

/// What a form has done, told on the page that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The profile was saved.
    Profile,
    /// The password was changed; other sessions have ended.
    Password,
    /// A session was ended.
    Session,
    /// Every other session was ended.
    OtherSessions,
    /// An application's access was withdrawn.
    Withdrawn,
    /// An application password was taken back.
    AppPassword,
    /// A client was saved.
    Client,
    /// A client was deleted.
    ClientDeleted,
    /// A client's state was changed.
    ClientState,
    /// A person was saved.
    User,
    /// A person's sessions and tokens were ended.
    UserRevoked,
}

impl Done {
    const ALL: [(Self, &'static str); 11] = [
        (Self::Profile, "profile"),
        (Self::Password, "password"),
        (Self::Session, "session"),
        (Self::OtherSessions, "other-sessions"),
        (Self::Withdrawn, "withdrawn"),
        (Self::AppPassword, "app-password"),
        (Self::Client, "client"),
        (Self::ClientDeleted, "client-deleted"),
        (Self::ClientState, "client-state"),
        (Self::User, "user"),
        (Self::UserRevoked, "user-revoked"),
    ];

    /// The word in addresses.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, word)| word)
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(done, _)| *done)
    }

    fn words(self, t: Words) -> Markup {
        match self {
            Self::Profile => t.done_profile(),
            Self::Password => t.done_password(),
            Self::Session => t.done_session(),
            Self::OtherSessions => t.done_other_sessions(),
            Self::Withdrawn => t.done_withdrawn(),
            Self::AppPassword => t.done_app_password(),
            Self::Client => t.done_client(),
            Self::ClientDeleted => t.done_client_deleted(),
            Self::ClientState => t.done_client_state(),
            Self::User => t.done_user(),
            Self::UserRevoked => t.done_user_revoked(),
        }
    }
}

/// The pages that the menu leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Home,
    Profile,
    Password,
    Sessions,
    Applications,
    AppPasswords,
    Activity,
    Clients,
    Users,
    Keys,
    Apps,
    Settings,
    Audit,
}

impl Place {
    const ACCOUNT: [Self; 7] = [
        Self::Home,
        Self::Profile,
        Self::Password,
        Self::Sessions,
        Self::Applications,
        Self::AppPasswords,
        Self::Activity,
    ];
    const DEVELOPER: [Self; 1] = [Self::Clients];
    const ADMINISTRATOR: [Self; 6] = [Self::Clients, Self::Apps, Self::Users, Self::Audit, Self::Keys, Self::Settings];

    fn path(self) -> &'static str {
        match self {
            Self::Home => "/",
            Self::Profile => "/account",
            Self::Password => "/account/password",
            Self::Sessions => "/account/sessions",
            Self::Applications => "/account/applications",
            Self::AppPasswords => "/account/app-passwords",
            Self::Activity => "/account/activity",
            Self::Clients => "/console",
            Self::Users => "/console/users",
            Self::Keys => "/console/keys",
            Self::Apps => "/console/applications",
            Self::Settings => "/console/settings",
            Self::Audit => "/console/audit",
        }
    }

    fn words(self, t: Words) -> Markup {
        match self {
            Self::Home => t.menu_home(),
            Self::Profile => t.menu_profile(),
            Self::Password => t.menu_password(),
            Self::Sessions => t.menu_sessions(),
            Self::Applications => t.menu_applications(),
            Self::AppPasswords => t.menu_app_passwords(),
            Self::Activity => t.menu_activity(),
            Self::Clients => t.menu_clients(),
            Self::Users => t.menu_users(),
            Self::Keys => t.menu_keys(),
            Self::Apps => t.menu_apps(),
            Self::Settings => t.menu_settings(),
            Self::Audit => t.menu_audit(),
        }
    }

    fn in_console(self) -> bool {
        !Self::ACCOUNT.contains(&self)
    }
}

/// One line of the menu.
pub(super) struct MenuLine {
    pub(super) address: String,
    pub(super) words: Markup,
    pub(super) current: bool,
}

/// A page's frame with its menu.
pub(super) struct Inside<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) shell: &'a Shell<'a>,
    pub(super) heading: Markup,
    pub(super) menu_name: Markup,
    pub(super) menu: Vec<MenuLine>,
    /// The way from the account to the console, or back.
    pub(super) across: Option<MenuLine>,
    pub(super) done: Option<Markup>,
    /// Whether it is a page of the console, which has the width of the screen.
    pub(super) console: bool,
}

impl<'a> Inside<'a> {
    /// `faulty`: a form came back, which the title tells those who hear it first.
    pub(super) fn new(
        pages: &'a Pages,
        chrome: &'a Chrome<'a>,
        shell: &'a Shell<'a>,
        place: Place,
        heading: Markup,
        faulty: bool,
    ) -> Self {
        let t = Words::of(chrome);
        let line = |known: Place, words| MenuLine {
            address: format!("{}{}", shell.prefix, known.path()),
            words,
            current: known == place,
        };
        let places: &[Place] = match (place.in_console(), shell.console) {
            (false, _) => &Place::ACCOUNT,
            (true, Some(Standing::Administrator)) => &Place::ADMINISTRATOR,
            (true, _) => &Place::DEVELOPER,
        };
        let across = match (place.in_console(), shell.console) {
            (false, Some(_)) => Some(line(Place::Clients, t.menu_console())),
            (false, None) => None,
            (true, _) => Some(line(Place::Profile, t.menu_account())),
        };
        let mut frame = pages.frame(chrome, &heading);
        if faulty {
            frame.title = t.document_title_problem(&pages.operator, &heading);
        }
        Self {
            frame,
            shell,
            heading,
            menu_name: if place.in_console() { t.menu_console() } else { t.menu_account() },
            // Where no application takes application passwords, or one has our root, there is no such page.
            menu: places
                .iter()
                .filter(|place| shell.app_passwords || **place != Place::AppPasswords)
                .filter(|place| shell.home || **place != Place::Home)
                .map(|place| line(*place, place.words(t)))
                .collect(),
            across,
            done: shell.done.map(|done| done.words(t)),
            console: place.in_console(),
        }
    }

    pub(super) fn is_for_administrators(&self) -> bool {
        self.shell.console == Some(Standing::Administrator)
    }

    /// Where the name of the operator leads.
    pub(super) fn first(&self) -> String {
        self.address(if self.shell.home { Place::Home.path() } else { Place::Profile.path() })
    }

    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.shell.prefix)
    }
}
