//! Pages for resetting a forgotten password.

use askama::Template;

use super::words::{Markup, Words};
use crate::inside::Frame;
use sealgate_domain::password_rules::PasswordFault;

/// Page that asks for the account whose password was forgotten.
///
/// Its form sends `csrf`, `email` and `reset-submit`. The page then shows the next steps, in the
/// same words whether or not the account exists.
#[derive(Template)]
#[template(path = "forgot_password.html")]
pub struct ForgotPasswordPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub is_requested: bool,
    pub sign_in: &'a str,
}

/// Page where a user with a mailed link chooses a password. Its form sends `csrf` and
/// `new-password`.
#[derive(Template)]
#[template(path = "new_password.html")]
pub struct NewPasswordPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// E-mail address of the account, partly hidden. It lets the user notice that a link is for
    /// another account.
    pub account: &'a str,
    /// Name under which a password manager stores the password.
    pub username: &'a str,
    pub problem: Option<NewPasswordProblem>,
}

/// Reason why a password was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewPasswordProblem {
    /// The password is not acceptable.
    Fault(PasswordFault),
    /// Too many passwords are queued for hashing.
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
    /// Returns the reason why a text is not acceptable as a password.
    pub(super) fn password_fault(self, fault: PasswordFault) -> Markup {
        match fault {
            PasswordFault::TooShort => self.password_too_short(),
            PasswordFault::TooLong => self.password_too_long(),
            PasswordFault::Personal => self.password_personal(),
            PasswordFault::Common => self.password_common(),
        }
    }
}

/// Page after a reset.
#[derive(Template)]
#[template(path = "reset_done.html")]
pub struct ResetDonePage<'a> {
    pub frame: Frame<'a>,
    pub sign_in: &'a str,
}
