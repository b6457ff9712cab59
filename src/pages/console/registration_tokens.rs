//! Console page with the initial access tokens, which register clients.

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use sealgate_domain::client::ClientId;
use sealgate_domain::time::UnixTime;

/// Page with the initial access tokens and the form for a new one.
///
/// The forms send `csrf` and one of these actions as `action`: `create` with `once`, `name`, `days` and
/// `registrations`, and `revoke` with `id`.
#[derive(Template)]
#[template(path = "console/registration_tokens.html")]
pub struct RegistrationTokensPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub tokens: &'a [RegistrationTokenLine],
    pub form: &'a RegistrationTokenForm,
    /// Lifetimes that the form offers, in days.
    pub lifetimes: &'a [u64],
    /// Numbers of clients that the form offers.
    pub registrations: &'a [u32],
    /// Whether the configuration lets clients register with a token.
    pub are_accepted: bool,
    /// New token in clear text, shown once.
    pub new_token: Option<&'a str>,
    /// URL of the registration endpoint.
    pub address: &'a str,
}

/// Token without its secret.
#[derive(Debug, Clone)]
pub struct RegistrationTokenLine {
    pub id: String,
    /// Name. Empty if an operator gave it none.
    pub name: String,
    /// `sub` and name of the administrator who created the token. `None` for an operator.
    pub creator: Option<(String, Option<String>)>,
    /// Number of clients that the token registers.
    pub registrations: u32,
    /// Clients that were registered with the token.
    pub clients: Vec<ClientId>,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
}

impl RegistrationTokenLine {
    fn name(&self) -> &str {
        if self.name.is_empty() { &self.id } else { &self.name }
    }

    /// Returns the number of registered clients, and the number of clients that the token registers.
    fn uses(&self) -> (u64, u64) {
        (self.clients.len() as u64, self.registrations.into())
    }

    fn is_used_up(&self) -> bool {
        let (used, total) = self.uses();
        used >= total
    }
}

/// Form for a new token, as typed.
#[derive(Debug, Clone)]
pub struct RegistrationTokenForm {
    pub name: String,
    pub days: u64,
    pub registrations: u32,
    pub fault: Option<RegistrationTokenFault>,
}

/// Error in the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationTokenFault {
    Name,
    /// There is the maximum number of tokens.
    TooMany,
}

impl RegistrationTokensPage<'_> {
    fn has(&self, fault: RegistrationTokenFault) -> bool {
        self.form.fault == Some(fault)
    }
}
