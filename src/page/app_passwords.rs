//! The account page's application passwords.

use askama::Template;

use super::content::Chrome;
use super::moment::moment;
use super::shell::{Inside, Place, Shell};
use super::words::{Markup, Words};
use super::{Pages, rendered};

/// A person's application passwords. The forms send `csrf`, and `revoke` with an id, or `app` and `name` for a new one.
#[derive(Clone, Copy)]
pub struct AppPasswords<'a> {
    /// The forms' token against cross-site requests.
    pub csrf: &'a str,
    /// The applications that take some.
    pub apps: &'a [AppChoice<'a>],
    /// Those that there are, the newest first.
    pub passwords: &'a [AppPasswordLine<'a>],
    /// What is typed as the name of a new one.
    pub name: &'a str,
    /// What of it was refused.
    pub fault: Option<AppPasswordFault>,
    /// The one that was just made, shown this once.
    pub made: Option<AppPasswordMade<'a>>,
}

/// An application that takes application passwords.
#[derive(Debug, Clone, Copy)]
pub struct AppChoice<'a> {
    /// Its name, sent back as `app`.
    pub app: &'a str,
    /// What people call it.
    pub title: &'a str,
    /// Whether it is chosen.
    pub chosen: bool,
}

/// An application password.
#[derive(Debug, Clone, Copy)]
pub struct AppPasswordLine<'a> {
    /// Its id, sent back as `revoke`.
    pub id: &'a str,
    /// What its owner calls it.
    pub name: &'a str,
    /// The application that it opens, as people call it.
    pub app: &'a str,
    /// When it was made, seconds since 1970.
    pub created_at: u64,
    /// When it was last used, if it was.
    pub last_used_at: Option<u64>,
}

/// An application password that was just made.
#[derive(Clone, Copy)]
pub struct AppPasswordMade<'a> {
    /// The password.
    pub password: &'a str,
    /// The name that goes with it.
    pub user: &'a str,
    /// The application that it opens.
    pub app: &'a str,
}

/// Why none was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppPasswordFault {
    /// The name.
    Name,
    /// There are as many as there may be.
    Full,
}

impl Pages {
    /// A person's application passwords.
    pub fn app_passwords(&self, chrome: &Chrome<'_>, shell: &Shell<'_>, page: &AppPasswords<'_>) -> String {
        let t = Words::of(chrome);
        let lines = page.passwords.iter().map(|line| {
            let used = line.last_used_at.map(|at| t.app_password_used(moment(t, at)));
            (*line, moment(t, line.created_at), used)
        });
        let lines = lines.collect();
        let heading = t.app_passwords_title();
        let inside = Inside::new(self, chrome, shell, Place::AppPasswords, heading, page.fault.is_some());
        rendered(&AppPasswordsPage { inside, page, lines })
    }
}

#[derive(Template)]
#[template(path = "account/app_passwords.html")]
struct AppPasswordsPage<'a> {
    inside: Inside<'a>,
    page: &'a AppPasswords<'a>,
    lines: Vec<(AppPasswordLine<'a>, Markup, Option<Markup>)>,
}

impl AppPasswordsPage<'_> {
    fn blames(&self, fault: AppPasswordFault) -> bool {
        self.page.fault == Some(fault)
    }
}
