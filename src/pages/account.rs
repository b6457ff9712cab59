//! Account pages: data that users can see and change themselves.

use askama::Template;

use sealgate_domain::app_credential::AppCredential;
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::open_access::{AccessKind, OpenAccess};
use sealgate_domain::password_rules::PasswordFault;
use sealgate_domain::session::SessionId;
use sealgate_domain::user::User;

use super::inside::{Inside, MenuEntry};
use super::open_access::AccessTable;
use super::security::FactorLine;
use super::words::Markup;
use crate::inside::initial;
use crate::language::Wait;

/// Page of the applications that the user can open.
#[derive(Template)]
#[template(path = "account/home.html")]
pub struct HomePage<'a> {
    pub inside: Inside<'a>,
    /// Applications in the operator's order, or the results of a search.
    pub apps: &'a [HomeApp<'a>],
    /// Text of the search, possibly empty. `None` for users with few applications, who need none.
    pub search: Option<&'a str>,
    /// Whether the page contains the offer to add a passkey. A script shows the offer on devices
    /// that can store a passkey.
    pub offers_passkey: bool,
}

/// Application in the list on the home page.
#[derive(Debug, Clone)]
pub struct HomeApp<'a> {
    pub address: String,
    pub title: &'a str,
    /// Description of the application, one line.
    pub description: Option<&'a str>,
    pub icon: Option<String>,
    pub in_maintenance: bool,
    /// Whether all servers of the application fail their health checks.
    pub is_unavailable: bool,
    /// Set if the user's name and password at the application are missing or were refused.
    pub login: Option<HomeAppLogin>,
}

/// Reason why the user cannot be signed in to an application, with the URL of the form that
/// corrects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeAppLogin {
    Missing(String),
    Refused(String),
}

impl HomePage<'_> {
    /// Returns the text of a search.
    fn searched(&self) -> Option<&str> {
        self.search.filter(|text| !text.is_empty())
    }
}

impl HomeApp<'_> {
    /// Returns the letter that is shown instead of a picture.
    fn letter(&self) -> String {
        initial(self.title)
    }

    /// Returns the CSS class that colours the letter. The class depends only on the title.
    fn tint(&self) -> &'static str {
        const TINTS: [&str; 6] = ["tint-0", "tint-1", "tint-2", "tint-3", "tint-4", "tint-5"];
        // FNV-1a: the colour must be the same in every process.
        let hash =
            self.title.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        TINTS.get((hash >> 16) as usize % TINTS.len()).copied().unwrap_or_default()
    }
}

/// Page of the profile. Its form sends `csrf`, `name`, `phone_number` and `picture`.
#[derive(Template)]
#[template(path = "account/profile.html")]
pub struct ProfilePage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub user: &'a User,
    /// Name of the OpenID provider that keeps the user's account, for users.
    pub upstream: Option<&'a str>,
    /// Whether the account has a page for verifying and changing the address.
    pub has_address_page: bool,
    pub name: &'a str,
    /// Phone number as typed: in international format, or empty.
    pub phone_number: &'a str,
    /// URL of an image as typed, or empty.
    pub picture: &'a str,
    /// URL of the saved picture.
    pub shown_picture: Option<&'a str>,
    pub faults: &'a [ProfileField],
}

/// Field of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileField {
    Name,
    PhoneNumber,
    Picture,
}

impl ProfilePage<'_> {
    fn is_faulty(&self, field: ProfileField) -> bool {
        self.faults.contains(&field)
    }

    /// Returns whether the field is the first one with an error.
    fn is_first(&self, field: ProfileField) -> bool {
        self.faults.first() == Some(&field)
    }
}

/// Page of the password change. Its form sends `csrf`, `current`, `new` and `again`.
#[derive(Template)]
#[template(path = "account/password.html")]
pub struct PasswordPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// E-mail address of the account, or its username.
    pub account: &'a str,
    /// Whether a directory or an OpenID provider keeps the password, so that it cannot be changed
    /// here.
    pub is_managed: bool,
    /// Name of the OpenID provider that keeps the password, for users.
    pub upstream: Option<&'a str>,
    pub problem: Option<PasswordProblem>,
}

/// Reason why a password was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordProblem {
    /// The current password is wrong.
    WrongCurrent,
    /// The new password is not acceptable.
    New(PasswordFault),
    /// The new password is the current one.
    Unchanged,
    /// The new password and its repetition differ.
    Different,
    Throttled {
        /// Time until the next attempt is allowed.
        seconds: u64,
    },
    /// The password was changed too often within a day.
    TooManyChanges,
    /// The passwords were not checked, because too many checks are queued.
    Busy,
}

impl PasswordPage<'_> {
    fn blames_new(&self) -> bool {
        use PasswordProblem::{Different, New, Unchanged};
        matches!(self.problem, Some(New(_) | Unchanged | Different))
    }

    fn blames_current(&self) -> bool {
        self.problem == Some(PasswordProblem::WrongCurrent)
    }

    fn current_described(&self) -> &'static str {
        if self.blames_current() { "password-problem" } else { "" }
    }

    fn new_described(&self) -> &'static str {
        if self.blames_new() { "password-problem new-hint" } else { "new-hint" }
    }

    fn words(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.problem? {
            PasswordProblem::WrongCurrent => t.password_wrong_current(),
            PasswordProblem::New(fault) => t.password_fault(fault),
            PasswordProblem::Unchanged => t.password_unchanged(),
            PasswordProblem::Different => t.password_different(),
            PasswordProblem::Throttled { seconds } => match Wait::from_seconds(seconds) {
                Wait::Seconds(seconds) => t.password_throttled_seconds(seconds),
                Wait::Minutes(minutes) => t.password_throttled_minutes(minutes),
            },
            PasswordProblem::TooManyChanges => t.password_too_many_changes(),
            PasswordProblem::Busy => t.password_busy(),
        })
    }
}

/// Page of the user's open accesses, and of factors that were added recently.
///
/// The form of the accesses sends `csrf` and one of these fields: `end` with an access,
/// `others=yes`, `everything=yes`. The form of the factors is the same as on the page "Security".
#[derive(Template)]
#[template(path = "account/sessions.html")]
pub struct SessionsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Session of this browser.
    pub own: Option<SessionId>,
    /// Open accesses, those of this browser first.
    pub accesses: AccessTable<'a>,
    /// Whether the user is signed in in other browsers.
    pub is_elsewhere: bool,
    /// Factors that were added recently.
    pub new_factors: &'a [FactorLine<'a>],
    /// Token of the form that removes a factor.
    pub factors_csrf: &'a str,
    pub switch_account: &'a str,
}

/// Page of the applications that the user has granted access to. Its forms send `csrf` and
/// `client`.
#[derive(Template)]
#[template(path = "account/applications.html")]
pub struct ApplicationsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Accesses of clients, with their permissions.
    pub applications: &'a [OpenAccess],
}

/// Page of the user's application passwords.
///
/// All forms send `csrf`. The forms of existing passwords also send `revoke` with an id. The form
/// for a new password also sends `app` and `name`.
#[derive(Template)]
#[template(path = "account/app_passwords.html")]
pub struct AppPasswordsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Applications that accept application passwords: their names, which the form sends as `app`,
    /// and their titles.
    pub apps: &'a [(&'a str, &'a str)],
    /// Name of the selected application.
    pub app: &'a str,
    /// Existing passwords, newest first, each with the title of its application.
    pub passwords: &'a [(&'a AppPassword, &'a str)],
    /// Name of a new password, as typed.
    pub name: &'a str,
    pub fault: Option<AppPasswordFault>,
    /// Level that a sign-in must reach to create a password. `None` if this sign-in has reached the
    /// level. Otherwise the page has no form.
    pub needed: Option<AssuranceLevel>,
    /// New password, shown once.
    pub made: Option<NewAppPassword<'a>>,
}

/// New application password.
#[derive(Clone, Copy)]
pub struct NewAppPassword<'a> {
    pub password: &'a str,
    pub user: &'a str,
    pub app: &'a str,
    /// Header in which programs send the password. `None` for HTTP Basic.
    pub header: Option<&'a str>,
}

/// Reason why no password was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppPasswordFault {
    Name,
    /// The user has the maximum number of passwords.
    Full,
}

impl AppPasswordsPage<'_> {
    fn weak(&self, needed: AssuranceLevel) -> Markup {
        let t = self.inside.frame.t;
        if needed == AssuranceLevel::PhishingResistant {
            t.app_password_weak_resistant()
        } else {
            t.app_password_weak_two()
        }
    }

    fn blames(&self, fault: AppPasswordFault) -> bool {
        self.fault == Some(fault)
    }
}

/// Page where the user stores a name and a password for each application that has its own login
/// form.
///
/// All forms send `csrf`. The forms that remove a stored password also send `remove` with an
/// application. The form that stores a password also sends `app`, `app_username` and
/// `app_password`. The page never contains a stored password.
///
/// The password field has `autocomplete="new-password"`, because browsers ignore `off` for passwords
/// and would fill in the password of the account.
#[derive(Template)]
#[template(path = "account/app_logins.html")]
pub struct AppLoginsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub lines: &'a [AppLoginLine<'a>],
    /// Form of one application.
    pub form: Option<AppLoginForm<'a>>,
    pub fault: Option<AppLoginFault>,
    /// Title and URL of the application whose name and password were just stored.
    pub saved: Option<(&'a str, &'a str)>,
    /// Whether passwords can be encrypted. If not, the page has no form.
    pub can_store: bool,
    /// Level that a sign-in must reach to store a password. `None` if this sign-in has reached the
    /// level. Otherwise the page has no form.
    pub needed: Option<AssuranceLevel>,
}

/// Application on the page of names and passwords.
#[derive(Debug, Clone, Copy)]
pub struct AppLoginLine<'a> {
    /// Name in the configuration.
    pub app: &'a str,
    pub title: &'a str,
    /// Whether a name and password can be entered. False if the application takes no user's name
    /// and password, or if the user cannot open the application.
    pub takes: bool,
    pub stored: Option<&'a AppCredential>,
}

/// Form for the name and password at one application.
#[derive(Debug, Clone, Copy)]
pub struct AppLoginForm<'a> {
    /// Name of the application in the configuration.
    pub app: &'a str,
    pub title: &'a str,
    /// Name at the application, as typed or stored.
    pub username: &'a str,
}

/// Reason why a name and password were not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppLoginFault {
    Username,
    Password,
    /// The user has the maximum number of names and passwords.
    Full,
}

impl AppLoginsPage<'_> {
    fn weak(&self, needed: AssuranceLevel) -> Markup {
        let t = self.inside.frame.t;
        if needed == AssuranceLevel::PhishingResistant {
            t.app_logins_weak_resistant()
        } else {
            t.app_logins_weak_two()
        }
    }

    fn blames(&self, fault: AppLoginFault) -> bool {
        self.fault == Some(fault)
    }

    /// Returns whether names and passwords can be entered in this sign-in.
    fn is_open(&self) -> bool {
        self.can_store && self.needed.is_none()
    }
}
