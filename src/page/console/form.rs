//! What is typed about a client, and what of it was refused.

use crate::domain::redirect_uri::RedirectUriFault;
use crate::domain::scope::{Scope, ScopeValue};
use crate::page::words::{Argument, Markup, Words};

/// What a client's form holds. It sends `csrf`, `name`, `description`, `type`, `redirect_uris` and
/// `post_logout_redirect_uris` (one URI a line), `scope_profile` and its like, `default_scope`, and `auth_method`.
#[derive(Debug, Clone)]
pub struct ClientForm {
    pub name: String,
    pub description: String,
    /// Whether it cannot keep a secret.
    pub public: bool,
    /// Where codes may be sent, one a line.
    pub redirect_uris: String,
    /// Where browsers may be sent after a logout, one a line.
    pub post_logout_redirect_uris: String,
    /// The scopes that it may ask for.
    pub scope: Scope,
    /// The scope of requests that name none; empty where those are refused.
    pub default_scope: String,
    /// Whether it sends its secret in the form body.
    pub secret_in_body: bool,
    pub faults: Vec<ClientFault>,
}

/// A field of a client's form that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFault {
    pub field: ClientField,
    /// In a list of URIs: what is wrong, and in which line; nothing where the list itself will not do.
    pub uri: Option<(RedirectUriFault, u64)>,
}

/// A field of a client's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientField {
    Name,
    Description,
    RedirectUris,
    /// Where browsers may be sent after a logout.
    PostLogoutRedirectUris,
    DefaultScope,
}

/// The faults of a URI, by the names by which the script finds their words.
const URI_FAULTS: [(&str, RedirectUriFault); 8] = [
    ("long", RedirectUriFault::TooLong),
    ("characters", RedirectUriFault::Characters),
    ("absolute", RedirectUriFault::NotAbsolute),
    ("wildcard", RedirectUriFault::Wildcard),
    ("fragment", RedirectUriFault::Fragment),
    ("user", RedirectUriFault::UserName),
    ("scheme", RedirectUriFault::Scheme),
    ("host", RedirectUriFault::Host),
];

impl Words {
    fn uri_fault(self, fault: RedirectUriFault, line: impl Argument) -> Markup {
        match fault {
            RedirectUriFault::TooLong => self.uri_long(line),
            RedirectUriFault::Characters => self.uri_characters(line),
            RedirectUriFault::NotAbsolute => self.uri_absolute(line),
            RedirectUriFault::Wildcard => self.uri_wildcard(line),
            RedirectUriFault::Fragment => self.uri_fragment(line),
            RedirectUriFault::UserName => self.uri_user(line),
            RedirectUriFault::Scheme => self.uri_scheme(line),
            RedirectUriFault::Host => self.uri_host(line),
        }
    }

    /// The words of each rule, for the script, with `#` for the line.
    pub(super) fn uri_rules(self) -> impl Iterator<Item = (&'static str, Markup)> {
        URI_FAULTS.into_iter().map(move |(name, fault)| (name, self.uri_fault(fault, "#")))
    }

    /// The scopes that a developer may tick.
    pub(super) fn scope_choices(self) -> [(ScopeValue, Markup); 4] {
        [
            (ScopeValue::Profile, self.scope_profile()),
            (ScopeValue::Email, self.scope_email()),
            (ScopeValue::Phone, self.scope_phone()),
            (ScopeValue::OfflineAccess, self.scope_offline_access()),
        ]
    }
}

impl ClientForm {
    fn fault(&self, field: ClientField) -> Option<&ClientFault> {
        self.faults.iter().find(|fault| fault.field == field)
    }

    pub(super) fn has(&self, field: ClientField) -> bool {
        self.fault(field).is_some()
    }

    pub(super) fn ticks(&self, scope: &ScopeValue) -> bool {
        self.scope.contains(*scope)
    }

    /// Whether the field is the first one to be put right.
    pub(super) fn is_first(&self, field: ClientField) -> bool {
        self.faults.first().is_some_and(|fault| fault.field == field)
    }

    /// What is wrong with a list of URIs.
    pub(super) fn uris_wrong(&self, t: &Words, field: ClientField) -> Option<Markup> {
        Some(match self.fault(field)?.uri {
            Some((fault, line)) => t.uri_fault(fault, line),
            None => t.client_uris_wrong(),
        })
    }
}
