//! The pages by which somebody makes an account for themselves.

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
    /// The domains that addresses must have, with commas between; empty where any may be used.
    pub domains: &'a str,
    pub sign_in: &'a str,
    pub problem: Option<CreateAccountProblem>,
}

/// Why nothing was begun, or does not go on. None says whether there is an account, but to somebody who reads its mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateAccountProblem {
    /// It is no address that mail servers take.
    Malformed,
    /// There are letters beyond ASCII before the `@`, which many mail servers do not take.
    NotAscii,
    /// Accounts are made with addresses of other domains.
    Domain,
    /// There is no room for another one.
    Busy,
    /// Nothing is waited for in this browser, or not any more.
    Over,
    /// There is an account with the address by now.
    Taken,
}

/// Asks for the code that was mailed, the same whatever the address. Its form sends `csrf` and `code`.
#[derive(Template)]
#[template(path = "prove_address.html")]
pub struct ProveAddressPage<'a> {
    pub frame: Frame<'a>,
    pub action: &'a str,
    pub csrf: &'a str,
    /// Where another address is entered.
    pub again: &'a str,
    pub is_wrong: bool,
}

/// Asks for what makes the account, once the address is proven. Its form sends `csrf`, `person-name` and what
/// [`CredentialChoice`] says.
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
