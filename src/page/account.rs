//! The account pages: what a person may see and change of their own.

use askama::Template;
use askama::filters::Safe;

use crate::domain::app_password::AppPassword;
use crate::domain::assurance::{AssuranceLevel, AuthenticationMethod};
use crate::domain::client::ClientId;
use crate::domain::scope::Scope;
use crate::domain::session::{Session, SessionId, SignIn};
use crate::domain::time::UnixTime;
use crate::domain::user::{Subject, User};
use crate::password::PasswordFault;

use super::device;
use super::frame::initial;
use super::inside::{Inside, MenuEntry};
use super::moment::Wait;
use super::words::{Markup, Words, escaped};

/// The applications that somebody may open.
#[derive(Template)]
#[template(path = "account/home.html")]
pub struct HomePage<'a> {
    pub inside: Inside<'a>,
    /// In the operator's order.
    pub apps: &'a [HomeApp<'a>],
}

#[derive(Debug, Clone)]
pub struct HomeApp<'a> {
    pub address: String,
    pub title: &'a str,
    /// What it is for, in a line.
    pub description: Option<&'a str>,
    pub icon: Option<String>,
}

impl HomeApp<'_> {
    /// The letter in the place of a picture.
    fn letter(&self) -> String {
        initial(self.title)
    }
}

/// The profile. Its form sends `csrf`, `name`, `phone_number` and `picture`.
#[derive(Template)]
#[template(path = "account/profile.html")]
pub struct ProfilePage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub user: &'a User,
    /// Whether there is a page on which the address is proven and changed.
    pub has_address_page: bool,
    pub name: &'a str,
    /// International format, or empty; as typed.
    pub phone_number: &'a str,
    /// URL of an image, or empty; as typed.
    pub picture: &'a str,
    /// The picture that is saved, and shown.
    pub shown_picture: Option<&'a str>,
    pub faults: &'a [ProfileField],
}

/// A field of the profile.
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

    /// Whether the field is the first one to be put right.
    fn is_first(&self, field: ProfileField) -> bool {
        self.faults.first() == Some(&field)
    }
}

/// The change of a password. Its form sends `csrf`, `current`, `new` and `again`.
#[derive(Template)]
#[template(path = "account/password.html")]
pub struct PasswordPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub email: &'a str,
    pub problem: Option<PasswordProblem>,
}

/// Why a password was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordProblem {
    /// The current one is not right.
    WrongCurrent,
    /// The new one will not do.
    New(PasswordFault),
    /// The new one is the current one.
    Unchanged,
    /// The new one was not typed twice alike.
    Different,
    Throttled {
        /// Until the next attempt is allowed.
        seconds: u64,
    },
    /// It was changed too often within a day.
    TooManyChanges,
    /// Nothing was checked, because too many checks wait.
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

/// A person's sessions. Its forms send `csrf`, and `session` or `others=yes`.
#[derive(Template)]
#[template(path = "account/sessions.html")]
pub struct SessionsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Whose they are.
    pub subject: Subject,
    pub own: SessionId,
    /// All of them, this one first.
    pub sessions: &'a [Session],
    pub switch_account: &'a str,
}

impl Words {
    /// The device of a session.
    pub(super) fn device_of(self, session: &Session) -> Markup {
        match (device::browser(&session.user_agent), device::system(&session.user_agent)) {
            (Some(browser), Some(system)) => self.device(browser, system),
            (Some(only), None) | (None, Some(only)) => escaped(only),
            (None, None) => self.device_unknown(),
        }
    }

    /// When and from where a person signed in there.
    pub(super) fn signed_in(self, session: &Session, subject: &Subject) -> Markup {
        let at = session.sign_in_of(*subject).map_or(session.created_at, SignIn::at);
        self.sessions_signed_in(session.address.to_string(), self.moment(&at))
    }

    /// What they did to sign in there.
    pub(super) fn signed_in_with(self, session: &Session, subject: &Subject) -> Option<Markup> {
        let steps = session.sign_in_of(*subject)?.steps.all();
        let methods: Vec<_> = steps.iter().map(|step| self.method(step.method).0).collect();
        (!methods.is_empty()).then(|| self.sessions_signed_in_with(Safe(methods.join(", "))))
    }

    fn method(self, method: AuthenticationMethod) -> Markup {
        match method {
            AuthenticationMethod::Password => self.method_password(),
            AuthenticationMethod::Totp => self.factor_kind_app(),
            AuthenticationMethod::RecoveryCode => self.method_recovery(),
            AuthenticationMethod::SecurityKey => self.factor_kind_security_key(),
            AuthenticationMethod::Passkey => self.factor_kind_passkey(),
        }
    }
}

/// The applications that a person has let in. Its forms send `csrf` and `client`.
#[derive(Template)]
#[template(path = "account/applications.html")]
pub struct ApplicationsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub applications: &'a [Application],
}

/// What a client may see of a person, and since when.
#[derive(Debug, Clone)]
pub struct Application {
    /// The client, sent back as `client`.
    pub client: ClientId,
    pub name: String,
    pub scope: Scope,
    pub since: UnixTime,
}

/// A person's application passwords. The forms send `csrf`, and `revoke` with an id, or `app` and `name` for a new one.
#[derive(Template)]
#[template(path = "account/app_passwords.html")]
pub struct AppPasswordsPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// The applications that take some: their names, sent back as `app`, and what people call them.
    pub apps: &'a [(&'a str, &'a str)],
    /// The name of the one that is chosen.
    pub app: &'a str,
    /// Those that there are, the newest first, and what people call the application that each opens.
    pub passwords: &'a [(&'a AppPassword, &'a str)],
    /// What is typed as the name of a new one.
    pub name: &'a str,
    pub fault: Option<AppPasswordFault>,
    /// The level that a sign-in must have reached to make one, where this one has not. The form is left out then.
    pub needed: Option<AssuranceLevel>,
    /// The one that was just made, shown this once.
    pub made: Option<NewAppPassword<'a>>,
}

/// An application password that was just made.
#[derive(Clone, Copy)]
pub struct NewAppPassword<'a> {
    pub password: &'a str,
    pub user: &'a str,
    pub app: &'a str,
}

/// Why none was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppPasswordFault {
    Name,
    /// There are as many as there may be.
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
