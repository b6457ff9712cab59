//! Console page that explains whether a request to an application is admitted.

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};

/// Page with the form of an access check and its result.
///
/// The form sends `csrf`, `url`, `method`, `user`, `client`, `level`, `address` and `token`. With the
/// button `find`, the page lists the users that match `user`; a button of the list sends `choose`. The
/// buttons `find-client` and `choose-client` do the same for clients.
#[derive(Template)]
#[template(path = "console/check_access.html")]
pub struct CheckAccessPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub form: &'a CheckForm<'a>,
    pub outcome: Option<&'a AccessOutcome>,
}

/// Input of the form.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckForm<'a> {
    pub url: &'a str,
    pub method: &'a str,
    /// E-mail address, username or `sub`. Empty for a client without credentials.
    pub user: &'a str,
    /// Identifier of a client that sends the request. Empty for a browser.
    pub client: &'a str,
    /// Level of the sign-in. Empty for the level that the user must reach.
    pub level: &'a str,
    /// Address of the client. Empty if unknown.
    pub address: &'a str,
    pub fault: Option<CheckField>,
    /// Users that match a search, with the number of all. `None` if no search was made.
    pub found: Option<(&'a [CheckChoice], usize)>,
    /// Clients that match a search, with the number of all. `None` if no search was made.
    pub found_clients: Option<(&'a [CheckChoice], usize)>,
}

/// User or client that the form can choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckChoice {
    /// E-mail address or username of a user, or identifier of a client. The form sends it.
    pub value: String,
    /// Name that users see. May be empty.
    pub name: String,
}

/// Field of the form with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckField {
    Url,
    /// The path or query has characters that must be percent-encoded.
    UrlCharacters,
    Method,
    User,
    /// No user has this name or address.
    NoUser,
    /// No client has this identifier.
    Client,
    /// The client gets no token in its own name for the application, so the check needs a user.
    ClientAlone,
    Address,
    /// There is also a user or a client, or the token is too long.
    Token,
}

impl CheckForm<'_> {
    pub(super) fn is_url_wrong(&self) -> bool {
        matches!(self.fault, Some(CheckField::Url | CheckField::UrlCharacters))
    }

    /// Returns the text about the result of a search.
    pub(super) fn found_words(&self, t: &Words) -> Markup {
        match self.found {
            None | Some(([], _)) => t.check_found_none(),
            Some((choices, total)) if choices.len() < total => t.check_found_some(choices.len() as u64, total as u64),
            Some(_) => t.check_found(),
        }
    }

    /// Returns the text about the result of a search for clients.
    pub(super) fn found_clients_words(&self, t: &Words) -> Markup {
        match self.found_clients {
            None | Some(([], _)) => t.check_found_no_client(),
            Some((choices, total)) if choices.len() < total => {
                t.check_found_some_clients(choices.len() as u64, total as u64)
            }
            Some(_) => t.check_found_clients(),
        }
    }

    pub(super) fn is_client_wrong(&self) -> bool {
        matches!(self.fault, Some(CheckField::Client | CheckField::ClientAlone))
    }

    pub(super) fn is_user_wrong(&self) -> bool {
        matches!(self.fault, Some(CheckField::User | CheckField::NoUser))
    }

    pub(super) fn is(&self, field: &CheckField) -> bool {
        self.fault == Some(*field)
    }
}

/// Result of an access check.
#[derive(Debug, Clone, Default)]
pub struct AccessOutcome {
    pub is_forwarded: bool,
    /// HTTP status of the refusal. `None` if the request is forwarded or Sealgate answers it.
    pub status: Option<u16>,
    /// Reason, as in the log.
    pub reason: &'static str,
    /// Name and title of the application.
    pub app: Option<(String, String)>,
    /// Rule that decided, as `sealgate explain` writes it.
    pub rule: Option<String>,
    /// Claim of an access token that decided.
    pub claim: Option<&'static str>,
    /// Audience for which the rule accepts the access token.
    pub audience: Option<String>,
    /// More about the reason.
    pub note: Option<CheckNote>,
    pub headers: Vec<CheckedHeader>,
    /// Account of the gateway's own sign-in to the application.
    pub login: Option<CheckedLogin>,
    /// Servers, and the path that they receive.
    pub upstream: Option<(String, String)>,
    /// Name and `sub` of the user.
    pub user: Option<(String, String)>,
    /// Name and path segment of the client.
    pub client: Option<(String, String)>,
    pub groups: String,
}

/// More about the reason of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckNote {
    UserDisabled,
    /// The rule accepts only access tokens.
    TokensOnly,
    /// The rules depend on the network, and the client's address is unknown.
    AddressMissing,
}

/// Identity header of an admitted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedHeader {
    pub name: String,
    /// Attribute that the value comes from.
    pub from: &'static str,
    pub is_sent: bool,
    /// Value. `None` if the header is omitted or signed for each request.
    pub value: Option<String>,
}

/// Account at the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckedLogin {
    OfUser,
    Service(String),
}

impl CheckAccessPage<'_> {
    fn decision(&self, outcome: &AccessOutcome) -> Markup {
        let t = self.inside.frame.t;
        match outcome.status {
            _ if outcome.is_forwarded => t.check_allowed(),
            Some(302) => t.check_sign_in(),
            Some(_) => t.check_refused(),
            None => t.check_own(),
        }
    }

    fn reason(&self, outcome: &AccessOutcome) -> Markup {
        let t = self.inside.frame.t;
        match outcome.note {
            Some(CheckNote::UserDisabled) => t.check_user_disabled(),
            Some(CheckNote::TokensOnly) => t.check_tokens_only(),
            Some(CheckNote::AddressMissing) => t.check_address_missing(),
            None => t.access_reason(outcome.reason),
        }
    }
}

impl AccessOutcome {
    fn is_refused(&self) -> bool {
        !self.is_forwarded && self.status.is_some_and(|status| status != 302)
    }
}

impl Words {
    /// Returns the choices of a sign-in level, each with its value.
    pub(super) fn check_levels(&self) -> [(&'static str, Markup); 4] {
        [
            ("", self.check_level_required()),
            ("1", self.client_level_one()),
            ("2", self.client_level_two()),
            ("3", self.client_level_three()),
        ]
    }

    /// Returns a sentence about the reason of a decision, with a remedy.
    pub(super) fn access_reason(&self, reason: &str) -> Markup {
        match reason {
            "forwarded" => self.reason_forwarded(),
            "own" => self.reason_own(),
            "no_application" => self.reason_no_application(),
            "unauthenticated" => self.reason_unauthenticated(),
            "invalid_token" => self.reason_invalid_token(),
            "audience" => self.reason_audience(),
            "client" => self.reason_client(),
            "unapproved_client" => self.reason_unapproved_client(),
            "scope" => self.reason_scope(),
            "user" => self.reason_user(),
            "group" => self.reason_group(),
            "acr" => self.reason_acr(),
            "max_age" => self.reason_max_age(),
            "too_many_groups" => self.reason_too_many_groups(),
            "unwritable_group" => self.reason_unwritable_group(),
            "destination" => self.reason_destination(),
            "below" => self.reason_below(),
            "maintenance" => self.reason_maintenance(),
            "network" => self.reason_network(),
            "unopened" => self.reason_unopened(),
            "method" => self.reason_method(),
            "method_case" => self.reason_method_case(),
            "repeated_field" => self.reason_repeated_field(),
            other => self.reason_ambiguous(other),
        }
    }
}
