//! The pages of a forgotten password.

use askama::Template;

use super::frame::Frame;
use super::words::{Markup, Words};
use crate::password::PasswordFault;

/// Asks whose password was forgotten. Its form sends `csrf`, `email` and `reset-submit`. Once it was asked, the page says what
/// to do, in the same words whether or not there is such an account.
#[derive(Template)]
#[template(path = "forgot_password.html")]
pub struct ForgotPasswordPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub asked: bool,
    pub sign_in: &'a str,
}

/// Lets whoever has opened a mailed link choose a password. Its form sends `csrf` and `new-password`.
#[derive(Template)]
#[template(path = "new_password.html")]
pub struct NewPasswordPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Whose account it is, partly hidden: somebody who was given another one's link notices.
    pub account: &'a str,
    /// What a password manager keeps the password under.
    pub username: &'a str,
    pub problem: Option<NewPasswordProblem>,
}

/// Why a password was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewPasswordProblem {
    /// It will not do.
    Fault(PasswordFault),
    /// Too many wait to be hashed.
    Busy,
}

impl NewPasswordPage<'_> {
    fn blames_password(&self) -> bool {
        matches!(self.problem, Some(NewPasswordProblem::Fault(_)))
    }

    fn described(&self) -> &'static str {
        if self.blames_password() { "password-problem password-hint" } else { "password-hint" }
    }

    fn words(&self) -> Option<Markup> {
        self.problem.map(|problem| problem.words(self.frame.t))
    }
}

impl NewPasswordProblem {
    pub(super) fn words(self, t: Words) -> Markup {
        match self {
            Self::Fault(fault) => t.password_fault(fault),
            Self::Busy => t.password_busy(),
        }
    }
}

impl Words {
    /// Why a text cannot be a password.
    pub(super) fn password_fault(self, fault: PasswordFault) -> Markup {
        match fault {
            PasswordFault::TooShort => self.password_too_short(),
            PasswordFault::TooLong => self.password_too_long(),
            PasswordFault::Personal => self.password_personal(),
            PasswordFault::Common => self.password_common(),
        }
    }
}

/// The page after a reset.
#[derive(Template)]
#[template(path = "reset_done.html")]
pub struct ResetDonePage<'a> {
    pub frame: Frame<'a>,
    pub sign_in: &'a str,
}
