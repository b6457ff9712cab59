//! The page of an invitation.

use askama::Template;

use super::factor::EnrolProblem;
use super::frame::Frame;
use super::reset::NewPasswordProblem;
use super::words::Markup;

/// Lets somebody who was invited choose with what they sign in. Its form sends `csrf` and `new-password`; the one for a passkey
/// `csrf`, `with`, `kind`, `credential` (the JSON of an attestation) and `name`.
#[derive(Template)]
#[template(path = "invitation.html")]
pub struct InvitationPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Whose account it is, partly hidden.
    pub account: &'a str,
    /// What a password manager keeps the password under.
    pub username: &'a str,
    /// The administrator who invited.
    pub inviter: Option<&'a str>,
    /// The application that the invitation leads to.
    pub app: Option<&'a str>,
    /// Whether somebody else is signed in in this browser.
    pub is_shared: bool,
    pub choice: InvitationChoice<'a>,
}

/// With what they sign in from then on.
#[derive(Debug, Clone, Copy)]
pub enum InvitationChoice<'a> {
    Password {
        /// Whether a passkey can be chosen instead.
        or_passkey: bool,
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

impl InvitationPage<'_> {
    fn is_faulty(&self) -> bool {
        self.words().is_some()
    }

    fn blames_password(&self) -> bool {
        matches!(self.choice, InvitationChoice::Password { problem: Some(NewPasswordProblem::Fault(_)), .. })
    }

    fn described(&self) -> &'static str {
        if self.blames_password() { "password-problem password-hint" } else { "password-hint" }
    }

    fn words(&self) -> Option<Markup> {
        let t = self.frame.t;
        match self.choice {
            InvitationChoice::Password { problem, .. } => problem.map(|problem| problem.words(t)),
            InvitationChoice::Passkey { problem, .. } => problem.map(|problem| problem.words(t)),
        }
    }
}
