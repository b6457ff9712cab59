//! Pages for registering an account and for accepting an invitation. On both pages, the user
//! chooses the first credential: a password or a passkey.

use askama::Template;

use crate::factor::EnrolProblem;
use crate::inside::Frame;
use crate::reset::NewPasswordProblem;
use crate::words::{Markup, Words};

/// Page that asks for the address. Its form sends `csrf`, `email` and `register-submit`.
#[derive(Template)]
#[template(path = "create_account.html")]
pub struct CreateAccountPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub typed: &'a str,
    /// Permitted domains of addresses, separated by commas. Empty if every domain is permitted.
    pub domains: &'a str,
    pub sign_in: &'a str,
    pub problem: Option<CreateAccountProblem>,
}

/// Reason why a registration cannot start or continue.
///
/// Only [`CreateAccountProblem::Taken`] reveals that an account exists, and only to a user who
/// receives the mail of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateAccountProblem {
    /// Mail servers do not accept an address of this form.
    Malformed,
    /// The part before the `@` is not ASCII, which many mail servers do not accept.
    NotAscii,
    /// The domain of the address is not permitted.
    Domain,
    /// The maximum number of pending registrations is reached.
    Busy,
    /// No registration is pending in this browser, or it has expired.
    Over,
    /// An account with the address was created meanwhile.
    Taken,
}

/// Page that asks for the mailed code, in the same words for every address. Its form sends `csrf`
/// and `code`.
#[derive(Template)]
#[template(path = "prove_address.html")]
pub struct ProveAddressPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// URL of the page for entering another address.
    pub again: &'a str,
    pub is_wrong: bool,
}

/// Page that asks for the account's data after the address was verified.
///
/// Its form sends `csrf`, `person-name` and the fields of [`CredentialChoice`].
#[derive(Template)]
#[template(path = "new_account.html")]
pub struct NewAccountPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub address: &'a str,
    /// Name of the user, as typed.
    pub person_name: &'a str,
    pub name_is_wrong: bool,
    pub choice: CredentialChoice<'a>,
}

impl CreateAccountPage<'_> {
    fn blames_address(&self) -> bool {
        use CreateAccountProblem::{Domain, Malformed, NotAscii};
        matches!(self.problem, Some(Malformed | NotAscii | Domain))
    }

    fn words(&self) -> Option<Markup> {
        let t = self.frame.t;
        Some(match self.problem? {
            CreateAccountProblem::Malformed => t.new_address_malformed(),
            CreateAccountProblem::NotAscii => t.new_address_not_ascii(),
            CreateAccountProblem::Domain => t.create_domain(self.domains),
            CreateAccountProblem::Busy => t.create_busy(),
            CreateAccountProblem::Over => t.create_over(),
            CreateAccountProblem::Taken => t.create_taken(),
        })
    }
}

/// Page where an invited user chooses a credential. Its form sends `csrf` and the fields of
/// [`CredentialChoice`].
#[derive(Template)]
#[template(path = "invitation.html")]
pub struct InvitationPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// E-mail address of the account, partly hidden.
    pub account: &'a str,
    /// Name under which a password manager stores the password.
    pub username: &'a str,
    /// The administrator who sent the invitation.
    pub inviter: Option<&'a str>,
    /// The application that the invitation leads to.
    pub app: Option<&'a str>,
    /// Whether another user is signed in in this browser.
    pub is_shared: bool,
    pub choice: CredentialChoice<'a>,
}

/// Choice of a credential for future sign-ins.
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
        /// Options for `navigator.credentials.create()`, as JSON.
        options: &'a str,
        /// Name of the passkey, as typed.
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
