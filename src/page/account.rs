//! The account pages: what a person may see and change of their own.

use askama::Template;

use super::content::Chrome;
use super::moment::moment;
use super::shell::{Inside, Place, Shell};
use super::template::{Wait, scope_title};
use super::words::{Markup, Words, escaped};
use super::{Pages, device, rendered};

/// The profile. Its form sends `csrf`, `name`, `phone_number` and `picture`.
#[derive(Clone, Copy)]
pub struct Profile<'a> {
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// The address, which only the operator changes.
    pub email: &'a str,
    /// The username, likewise, if they have one.
    pub username: Option<&'a str>,
    /// Full name.
    pub name: &'a str,
    /// International format, or empty.
    pub phone_number: &'a str,
    /// URL of an image, or empty.
    pub picture: &'a str,
    /// The picture that is saved, and shown.
    pub shown_picture: Option<&'a str>,
    /// What of it was refused.
    pub faults: &'a [ProfileField],
    /// When the profile last changed, seconds since 1970.
    pub updated_at: u64,
}

/// A field of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileField {
    /// The name.
    Name,
    /// The phone number.
    PhoneNumber,
    /// The picture.
    Picture,
}

/// The change of a password. Its form sends `csrf`, `current`, `new` and `again`.
#[derive(Clone, Copy)]
pub struct PasswordChange<'a> {
    /// The form's token against cross-site requests.
    pub csrf: &'a str,
    /// The account, for password managers.
    pub email: &'a str,
    /// Why the form is shown again.
    pub problem: Option<PasswordProblem>,
}

/// Why a password was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordProblem {
    /// The current one is not right.
    WrongCurrent,
    /// The new one is too short.
    TooShort,
    /// The new one is too long.
    TooLong,
    /// The new one contains what the person is called.
    Personal,
    /// The new one is one of those that are tried first.
    Common,
    /// The new one is the current one.
    Unchanged,
    /// The new one was not typed twice alike.
    Different,
    /// Too many wrong ones.
    Throttled {
        /// Until the next attempt is allowed.
        seconds: u64,
    },
    /// Nothing was checked, because too many checks wait.
    Busy,
}

/// A person's sessions. Its forms send `csrf`, and `session` or `others=yes`.
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    /// The forms' token against cross-site requests.
    pub csrf: &'a str,
    /// They, this one first.
    pub sessions: &'a [SessionLine<'a>],
    /// Address that offers another account.
    pub switch_account: &'a str,
}

/// One session.
#[derive(Debug, Clone, Copy)]
pub struct SessionLine<'a> {
    /// Its id, sent back as `session`.
    pub id: &'a str,
    /// Whether it is the one that asks.
    pub current: bool,
    /// What the browser calls itself.
    pub user_agent: &'a str,
    /// The address at sign-in.
    pub address: &'a str,
    /// When the person signed in, seconds since 1970.
    pub signed_in_at: u64,
    /// When it was last used, seconds since 1970.
    pub last_seen_at: u64,
}

/// The applications that a person has let in. Its forms send `csrf` and `client`.
#[derive(Clone, Copy)]
pub struct Applications<'a> {
    /// The forms' token against cross-site requests.
    pub csrf: &'a str,
    /// They, by name.
    pub applications: &'a [ApplicationLine<'a>],
}

/// One application.
#[derive(Debug, Clone, Copy)]
pub struct ApplicationLine<'a> {
    /// The client's id, sent back as `client`.
    pub client: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The scopes that it may see.
    pub scopes: &'a [&'a str],
    /// Since when, seconds since 1970.
    pub since: u64,
}

impl Pages {
    /// The profile.
    pub fn profile(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Profile<'_>) -> String {
        let heading = Words::of(chrome).profile_title();
        let faulty = !page.faults.is_empty();
        rendered(&ProfilePage { inside: Inside::new(self, chrome, shell, Place::Profile, heading, faulty), page })
    }

    /// The change of a password.
    pub fn password_change(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &PasswordChange<'_>) -> String {
        let t = Words::of(chrome);
        let problem = page.problem.map(|problem| password_problem(t, problem));
        let inside = Inside::new(self, chrome, shell, Place::Password, t.password_title(), problem.is_some());
        rendered(&PasswordPage { inside, page, problem })
    }

    /// A person's sessions.
    pub fn sessions(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Sessions<'_>) -> String {
        let t = Words::of(chrome);
        let lines = page.sessions.iter().map(|line| SessionWords::new(t, line)).collect();
        let inside = Inside::new(self, chrome, shell, Place::Sessions, t.sessions_title(), false);
        rendered(&SessionsPage { inside, page, lines })
    }

    /// The applications that a person has let in.
    pub fn applications(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &Applications<'_>) -> String {
        let t = Words::of(chrome);
        let words = |line: &'_ ApplicationLine<'_>| -> Vec<Markup> {
            line.scopes.iter().map(|scope| scope_title(t, scope)).collect()
        };
        let lines = page.applications.iter().map(|line| (*line, words(line), moment(t, line.since))).collect();
        let inside = Inside::new(self, chrome, shell, Place::Applications, t.applications_title(), false);
        rendered(&ApplicationsPage { inside, page, lines })
    }
}

#[derive(Template)]
#[template(path = "account/profile.html")]
struct ProfilePage<'a> {
    inside: Inside<'a>,
    page: &'a Profile<'a>,
}

impl ProfilePage<'_> {
    fn is_faulty(&self, field: ProfileField) -> bool {
        self.page.faults.contains(&field)
    }

    fn updated(&self) -> Markup {
        moment(self.inside.frame.t, self.page.updated_at)
    }

    /// Whether the field is the first one to be put right.
    fn is_first(&self, field: ProfileField) -> bool {
        self.page.faults.first() == Some(&field)
    }
}

#[derive(Template)]
#[template(path = "account/password.html")]
struct PasswordPage<'a> {
    inside: Inside<'a>,
    page: &'a PasswordChange<'a>,
    problem: Option<Markup>,
}

impl PasswordPage<'_> {
    fn blames_new(&self) -> bool {
        use PasswordProblem::{Common, Different, Personal, TooLong, TooShort, Unchanged};
        matches!(self.page.problem, Some(TooShort | TooLong | Personal | Common | Unchanged | Different))
    }

    fn blames_current(&self) -> bool {
        self.page.problem == Some(PasswordProblem::WrongCurrent)
    }
}

impl PasswordPage<'_> {
    fn current_described(&self) -> &'static str {
        if self.blames_current() { "password-problem" } else { "" }
    }

    fn new_described(&self) -> &'static str {
        if self.blames_new() { "password-problem new-hint" } else { "new-hint" }
    }
}

fn password_problem(t: Words, problem: PasswordProblem) -> Markup {
    match problem {
        PasswordProblem::WrongCurrent => t.password_wrong_current(),
        PasswordProblem::TooShort => t.password_too_short(),
        PasswordProblem::TooLong => t.password_too_long(),
        PasswordProblem::Personal => t.password_personal(),
        PasswordProblem::Common => t.password_common(),
        PasswordProblem::Unchanged => t.password_unchanged(),
        PasswordProblem::Different => t.password_different(),
        PasswordProblem::Throttled { seconds } => match Wait::from_seconds(seconds) {
            Wait::Seconds(seconds) => t.password_throttled_seconds(seconds),
            Wait::Minutes(minutes) => t.password_throttled_minutes(minutes),
        },
        PasswordProblem::Busy => t.password_busy(),
    }
}

#[derive(Template)]
#[template(path = "account/sessions.html")]
struct SessionsPage<'a> {
    inside: Inside<'a>,
    page: &'a Sessions<'a>,
    lines: Vec<SessionWords<'a>>,
}

/// A session in words.
pub(super) struct SessionWords<'a> {
    pub(super) line: &'a SessionLine<'a>,
    pub(super) device: Markup,
    pub(super) signed_in: Markup,
    pub(super) last_seen: Markup,
}

impl<'a> SessionWords<'a> {
    pub(super) fn new(t: Words, line: &'a SessionLine<'a>) -> Self {
        let device = match (device::browser(line.user_agent), device::system(line.user_agent)) {
            (Some(browser), Some(system)) => t.device(browser, system),
            (Some(only), None) | (None, Some(only)) => escaped(only),
            (None, None) => t.device_unknown(),
        };
        Self { line, device, signed_in: moment(t, line.signed_in_at), last_seen: moment(t, line.last_seen_at) }
    }
}

#[derive(Template)]
#[template(path = "account/applications.html")]
struct ApplicationsPage<'a> {
    inside: Inside<'a>,
    page: &'a Applications<'a>,
    lines: Vec<(ApplicationLine<'a>, Vec<Markup>, Markup)>,
}
