//! Form of a client, and its errors.

use crate::words::{Argument, Markup, Words};
use sealgate_domain::redirect_uri::RedirectUriFault;
use sealgate_domain::scope::{Scope, ScopeValue};

/// Content of a client's form.
///
/// The form sends `csrf`, for a new client of an administrator `client_id`, `name`, `description`, `type`, `redirect_uris` and
/// `post_logout_redirect_uris` (one URI per line), `scope_profile` and the other scopes,
/// `default_scope`, and `auth_method`.
#[derive(Debug, Clone)]
pub struct ClientForm {
    /// Identifier of a new client. Empty for a random one.
    pub id: String,
    pub name: String,
    pub description: String,
    /// Whether the client is public. A public client cannot keep a secret.
    pub public: bool,
    /// Redirect URIs, one per line.
    pub redirect_uris: String,
    /// Post-logout redirect URIs, one per line.
    pub post_logout_redirect_uris: String,
    /// Permitted scopes.
    pub scope: Scope,
    /// Scope of requests without a scope. If empty, such requests are refused.
    pub default_scope: String,
    /// Whether the client sends its secret in the form body.
    pub secret_in_body: bool,
    pub faults: Vec<ClientFault>,
}

/// Error of a field of a client's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientFault {
    pub field: ClientField,
    /// Error of a URI in a list, and its line number. `None` if the list itself is invalid.
    pub uri: Option<(RedirectUriFault, u64)>,
}

/// Field of a client's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientField {
    /// The identifier is invalid, reserved or taken.
    Id,
    Name,
    Description,
    RedirectUris,
    /// Post-logout redirect URIs.
    PostLogoutRedirectUris,
    DefaultScope,
}

/// Errors of a URI that the script can find, with the names of their messages.
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
            RedirectUriFault::OwnHost => self.uri_own_host(line),
        }
    }

    /// Returns the message of each rule for the script, with `#` as the line number.
    pub(super) fn uri_rules(self) -> impl Iterator<Item = (&'static str, Markup)> {
        URI_FAULTS.into_iter().map(move |(name, fault)| (name, self.uri_fault(fault, "#")))
    }

    /// Returns the scopes that a developer can select.
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

    /// Returns whether the field is the first one with an error.
    pub(super) fn is_first(&self, field: ClientField) -> bool {
        self.faults.first().is_some_and(|fault| fault.field == field)
    }

    /// Returns the error of a list of URIs.
    pub(super) fn uris_wrong(&self, t: &Words, field: ClientField) -> Option<Markup> {
        Some(match self.fault(field)?.uri {
            Some((fault, line)) => t.uri_fault(fault, line),
            None => t.client_uris_wrong(),
        })
    }
}
