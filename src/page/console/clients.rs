//! The console's pages about clients.

use askama::Template;

use super::form::{ClientField, ClientForm};
use super::snippets::Snippet;
use crate::domain::assurance::AssuranceLevel;
use crate::domain::client::{Client, ClientSecret};
use crate::page::inside::{Inside, MenuEntry};
use crate::page::words::{Markup, Words};

/// The clients that somebody may see.
#[derive(Template)]
#[template(path = "console/clients.html")]
pub struct ClientsPage<'a> {
    pub inside: Inside<'a>,
    pub clients: &'a [Client],
    /// Address of the next ones, if there are more.
    pub next: Option<&'a str>,
}

impl Words {
    fn secret(self, secret: &ClientSecret) -> Markup {
        let made = self.moment(&secret.created_at);
        match secret.expires_at {
            Some(end) => self.client_secret_until(self.moment(&end), made),
            None => self.client_secret_since(made),
        }
    }
}

/// The form for a new client.
#[derive(Template)]
#[template(path = "console/new_client.html")]
pub struct NewClientPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub form: &'a ClientForm,
}

/// One client, with all that can be done to it. Its other forms send `csrf` and `action`: `rotate` with
/// `overlap_seconds`, `disable`, `enable`, `approve`, `withdraw-approval`, `level` with `level`, `delete`.
#[derive(Template)]
#[template(path = "console/client.html")]
pub struct ClientPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub client: &'a Client,
    pub form: &'a ClientForm,
    /// Whether the reader may enable it: what an administrator disabled, only an administrator enables.
    pub may_enable: bool,
    /// Whether the reader may approve it, or take that back.
    pub may_approve: bool,
    /// The level that people must reach before it gets tokens.
    pub level: AssuranceLevel,
    /// How often it may come to the token endpoint in a minute; none for any number.
    pub token_limit: Option<u64>,
    /// Its secrets that still work.
    pub secrets: &'a [&'a ClientSecret],
    /// A secret that was just made, in clear, shown this once.
    pub secret: Option<&'a str>,
    pub issuer: &'a str,
    /// Why nothing was changed.
    pub refused: Option<ClientRefusal>,
}

/// Why a form on a client's page changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRefusal {
    /// The client has as many secrets as it may have.
    SecretsFull,
}

impl ClientPage<'_> {
    fn secrets_full(&self) -> bool {
        self.refused == Some(ClientRefusal::SecretsFull)
    }

    /// The levels, with what each asks of people.
    fn levels(&self) -> [(AssuranceLevel, Markup); 3] {
        let t = self.inside.frame.t;
        [
            (AssuranceLevel::One, t.client_level_one()),
            (AssuranceLevel::Two, t.client_level_two()),
            (AssuranceLevel::PhishingResistant, t.client_level_three()),
        ]
    }

    fn snippets(&self) -> Vec<Snippet> {
        Snippet::all(self.issuer, self.client.id.as_str(), self.form)
    }
}

/// The page on which a client is tried. Its forms send `csrf` and `action`: `switch-on`, `switch-off`, `start`.
#[derive(Template)]
#[template(path = "console/trial.html")]
pub struct TrialPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub client: &'a Client,
    /// The console's own redirect URI, which the client may have.
    pub redirect_uri: &'a str,
    /// The claims of the ID token and of the access token, and what UserInfo says, as JSON.
    pub claims: Option<&'a [String; 3]>,
    /// Why there are none.
    pub problem: Option<TrialProblem<'a>>,
}

/// Why a trial gave no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialProblem<'a> {
    /// The authorization endpoint answered with this error.
    Refused(&'a str),
    /// The code belongs to no trial of this browser, or was used.
    Unknown,
}

impl TrialPage<'_> {
    fn words(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.problem? {
            TrialProblem::Refused(error) => t.trial_refused(error),
            TrialProblem::Unknown => t.trial_unknown(),
        })
    }
}
