//! The pages for registering an account.

use askama::Template;

use super::credential_choice::CredentialChoice;
use super::frame::Frame;
use super::words::Markup;

/// Asks for the address. Its form sends `csrf`, `email` and `register-submit`.
#[derive(Template)]
#[template(path = "create_account.html")]
pub struct CreateAccountPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub typed: &'a str,
    /// Permitted domains of addresses, separated by commas; empty for any.
    pub domains: &'a str,
    pub sign_in: &'a str,
    pub problem: Option<CreateAccountProblem>,
}

/// Reason why a registration cannot start or continue.
///
/// Only a user who receives the address's mail learns whether an account exists.
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

/// Asks for the mailed code, in the same words for every address. Its form sends `csrf` and `code`.
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

/// Asks for the account's data after the address was verified.
///
/// Its form sends `csrf`, `person-name` and the fields of [`CredentialChoice`].
#[derive(Template)]
#[template(path = "new_account.html")]
pub struct NewAccountPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    pub address: &'a str,
    /// As typed.
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
