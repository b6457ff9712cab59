//! Choice of the first credential: a password or a passkey.

use super::factor::EnrolProblem;
use super::reset::NewPasswordProblem;
use super::words::{Markup, Words};

/// Credential for future sign-ins.
///
/// The form for a password sends `new-password`. The form for a passkey sends `with`, `kind`,
/// `credential` (the JSON of an attestation) and `name`.
#[derive(Debug, Clone, Copy)]
pub enum CredentialChoice<'a> {
    Password {
        /// Whether a passkey can be chosen instead.
        or_passkey: bool,
        /// Whether the password's field has the initial focus.
        has_focus: bool,
        problem: Option<NewPasswordProblem>,
    },
    Passkey {
        /// For `navigator.credentials.create()`, as JSON.
        options: &'a str,
        /// As typed.
        name: &'a str,
        problem: Option<EnrolProblem>,
    },
}

impl CredentialChoice<'_> {
    pub(super) fn is_faulty(&self) -> bool {
        matches!(self, Self::Password { problem: Some(_), .. } | Self::Passkey { problem: Some(_), .. })
    }

    pub(super) fn blames_password(&self) -> bool {
        matches!(self, Self::Password { problem: Some(NewPasswordProblem::Fault(_)), .. })
    }

    pub(super) fn focuses_password(&self) -> bool {
        matches!(self, Self::Password { has_focus, problem, .. } if *has_focus || problem.is_some())
    }

    pub(super) fn described(&self) -> &'static str {
        if self.blames_password() { "password-problem password-hint" } else { "password-hint" }
    }

    pub(super) fn words(&self, t: &Words) -> Option<Markup> {
        match self {
            Self::Password { problem, .. } => problem.map(|problem| problem.words(*t)),
            Self::Passkey { problem, .. } => problem.map(|problem| problem.words(*t)),
        }
    }
}
