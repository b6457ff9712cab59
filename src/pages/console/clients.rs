//! Console pages about clients.

use askama::Template;

use super::form::{ClientField, ClientForm};
use super::sections::ClientSection;
use super::snippets::{Library, Snippet};
use crate::events::Named;
use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_domain::assertion_source::AssertionSource;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{Client, ClientSecret};
use sealgate_domain::client_logo::LogoFault;
use sealgate_domain::shown_client::ClientPart;
use sealgate_domain::time::UnixTime;

/// Page of the clients that the signed-in administrator or developer may see.
#[derive(Template)]
#[template(path = "console/clients.html")]
pub struct ClientsPage<'a> {
    pub inside: Inside<'a>,
    /// Clients with their owners. `None` for a client that never had an owner.
    pub clients: &'a [(Client, Option<ClientOwner>)],
    /// Whether the list has only clients whose owner is gone.
    pub only_without_owner: bool,
    /// URL of the next page, if there are more clients.
    pub next: Option<&'a str>,
}

/// Developer who registered a client, or to whom an operator gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOwner {
    /// The user has access to the console.
    Active {
        id: String,
        name: String,
    },
    /// The user is disabled, or is no developer any more.
    WithoutAccess {
        id: String,
        name: String,
    },
    Deleted,
}

impl ClientOwner {
    /// Returns whether the owner can still manage the client.
    pub const fn is_active(&self) -> bool {
        matches!(self, Self::Active { .. })
    }

    /// Returns the identifier and the name of the user, unless the user was deleted.
    fn user(&self) -> Option<(&str, &str)> {
        match self {
            Self::Active { id, name } | Self::WithoutAccess { id, name } => Some((id, name)),
            Self::Deleted => None,
        }
    }
}

impl Words {
    fn client_part(self, part: &ClientPart) -> Markup {
        match part {
            ClientPart::Owner => self.client_owner(),
            ClientPart::Name => self.client_name(),
            ClientPart::RedirectUris => self.client_redirect_uris(),
            ClientPart::PostLogoutRedirectUris => self.client_part_logout_uris(),
            ClientPart::Scope => self.client_scopes_allowed(),
            ClientPart::Type => self.client_type(),
            ClientPart::Links => self.client_part_links(),
            ClientPart::Other => self.client_part_other(),
        }
    }

    /// Formats since when, and until when, a client secret is valid.
    fn secret_validity(self, secret: &ClientSecret) -> Markup {
        let created_at = self.moment(&secret.created_at);
        match secret.expires_at {
            Some(end) => self.client_secret_until(self.moment(&end), created_at),
            None => self.client_secret_since(created_at),
        }
    }
}

/// Page with the form for a new client.
#[derive(Template)]
#[template(path = "console/new_client.html")]
pub struct NewClientPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub form: &'a ClientForm,
}

/// Section of the page of a client.
///
/// The forms go to the client's own URL. One form sends the client's settings. It and the form of the approval send `seen`. The other forms send
/// `csrf` and one of these actions as `action`: `rotate` with `overlap_seconds`, `add-secret` with
/// `lifetime_days`, `remove-secret` with `secret`, `set-keys` with `jwks`, `use-secret`, `level` with `level`,
/// `logout` with `backchannel_logout_uri` and `backchannel_logout_session_required`, `disable`, `enable`, `approve`,
/// `revoke-approval`, `set-rules` with `consent`, `token_limit`, `owner` and the shown owner as
/// `shown_owner`, `end-grants`, `delete`. The buttons of the grants send `grant` instead of `action`.
///
/// The forms of the logo go to the section's own URL. They send `csrf` and `action`: `set` with the file
/// `logo`, as `multipart/form-data`, or `remove`.
#[derive(Template)]
#[template(path = "console/client.html")]
#[expect(clippy::struct_excessive_bools, reason = "independent permissions of the page")]
pub struct ClientPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub client: &'a Client,
    pub section: ClientSection,
    pub form: &'a ClientForm,
    /// Whether the signed-in user may change the client. Otherwise the page has no forms.
    pub may_change: bool,
    /// Whether the signed-in administrator or developer may enable the client. Only an administrator may enable a client that an
    /// administrator disabled.
    pub may_enable: bool,
    /// Whether disabling the client would change something.
    pub may_disable: bool,
    /// Whether the signed-in administrator or developer may approve the client or revoke the
    /// approval.
    pub may_approve: bool,
    /// Level that a sign-in must reach before the client gets tokens.
    pub level: AssuranceLevel,
    /// Maximum number of token requests per minute. `None` if unlimited.
    pub token_limit: Option<u64>,
    /// Public keys of the client, or the input that was refused.
    pub keys: String,
    /// Valid secrets of the client.
    pub secrets: &'a [&'a ClientSecret],
    /// New secret in clear text, shown once.
    pub new_secret: Option<&'a str>,
    pub issuer: &'a str,
    /// Reason why the form that was sent changed nothing.
    pub refused: Option<ClientRefusal>,
    /// Parts that changed after the page with the form was shown. The form then changed nothing.
    pub changed: &'a [ClientPart],
    /// Digests of the shown client, which the forms send as `seen`.
    pub seen: &'a str,
    /// Owner. `None` if the client never had one.
    pub owner: Option<&'a ClientOwner>,
    /// Input of the form with the consent rule, the limit and the owner.
    pub rules: &'a ClientRulesForm,
    /// Library whose example the section with the addresses shows. `None` for the first one.
    pub library: Option<Library>,
    /// Some of the grants, with the URL of the next ones if there may be more.
    pub grants: &'a [ClientGrantLine],
    pub next: Option<&'a str>,
}

/// Form with rules of a client that only administrators set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientRulesForm {
    /// Whether users are not asked for consent.
    pub is_consent_implied: bool,
    /// Requests per minute at the token endpoint, or `none`. Empty for the default.
    pub token_limit: String,
    /// Address or username of the owner. Empty if the client belongs to the operator.
    pub owner: String,
}

/// Grant of a client.
#[derive(Debug, Clone)]
pub struct ClientGrantLine {
    pub id: String,
    /// User who gave access. `None` if the client acts in its own name.
    pub who: Option<Named>,
    pub scope: String,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
}

impl ClientGrantLine {
    fn who(&self) -> &str {
        self.who.as_ref().map(|who| who.name.as_deref().unwrap_or(&who.id)).unwrap_or_default()
    }

    fn user_page(&self) -> Option<&str> {
        self.who.as_ref().filter(|who| who.has_page).map(|who| who.id.as_str())
    }
}

/// Reason why a form on a client's page changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRefusal {
    /// The client has the maximum number of secrets.
    TooManySecrets,
    /// The configuration file defines the client.
    DefinedInFile,
    /// The typed public keys cannot be used.
    UnusableKeys,
    /// The URI for logout tokens is invalid.
    LogoutUri,
    /// The limit is no number, or the owner is no user.
    Rules,
    /// No file was chosen as the logo.
    NoLogo,
    /// The file cannot be the logo.
    Logo(LogoFault),
}

impl ClientPage<'_> {
    fn section_address(&self, section: &ClientSection) -> String {
        self.inside.address(&section.page(self.client.id.path_segment()))
    }

    /// Returns the sections that this client has for the user.
    fn sections(&self) -> impl Iterator<Item = ClientSection> {
        ClientSection::ALL.into_iter().filter(|section| {
            section.fits(self.client)
                && match section {
                    ClientSection::Rules => self.inside.is_for_administrators(),
                    ClientSection::Grants => self.inside.reads_everything(),
                    ClientSection::Secrets | ClientSection::Logo | ClientSection::Danger => self.may_change,
                    _ => true,
                }
        })
    }

    fn has_too_many_secrets(&self) -> bool {
        self.refused == Some(ClientRefusal::TooManySecrets)
    }

    fn has_unusable_keys(&self) -> bool {
        self.refused == Some(ClientRefusal::UnusableKeys)
    }

    /// Returns whether the page has the forms that change the client.
    fn is_editable(&self) -> bool {
        self.may_change && !self.client.from_configuration
    }

    /// Returns the URL of the client's key set, or the workload that authenticates as the client.
    fn key_origin(&self) -> Option<(Markup, String)> {
        let t = self.inside.frame.t;
        match self.client.assertion_source.as_ref()? {
            AssertionSource::Jwks(_) => None,
            AssertionSource::JwksUri(uri) => Some((t.client_keys_uri(), uri.clone())),
            AssertionSource::Workload(workload) => {
                Some((t.client_keys_workload(), format!("{} {}", workload.issuer, workload.subject)))
            }
        }
    }

    fn has_wrong_rules(&self) -> bool {
        self.refused == Some(ClientRefusal::Rules)
    }

    fn has_wrong_logout_uri(&self) -> bool {
        self.refused == Some(ClientRefusal::LogoutUri)
    }

    /// Returns the stored URI for logout tokens, or an empty text.
    fn logout_uri(&self) -> &str {
        self.client.backchannel_logout.as_ref().map(|logout| logout.uri.as_str()).unwrap_or_default()
    }

    /// Returns the reason why the logo was not changed.
    fn logo_problem(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.refused? {
            ClientRefusal::NoLogo => t.client_logo_missing(),
            ClientRefusal::Logo(LogoFault::TooLarge) => t.client_logo_large(),
            ClientRefusal::Logo(LogoFault::Format) => t.client_logo_format(),
            ClientRefusal::Logo(LogoFault::Animated) => t.client_logo_animated(),
            ClientRefusal::Logo(LogoFault::Pixels { width, height }) => {
                t.client_logo_pixels(height as u64, width as u64)
            }
            _ => return None,
        })
    }

    fn requires_sid(&self) -> bool {
        self.client.backchannel_logout.as_ref().is_some_and(|logout| logout.session_required)
    }

    fn is_defined_in_file(&self) -> bool {
        self.refused == Some(ClientRefusal::DefinedInFile)
    }

    /// Returns the levels with their requirements.
    fn levels(&self) -> [(AssuranceLevel, Markup); 3] {
        let t = self.inside.frame.t;
        [
            (AssuranceLevel::One, t.client_level_one()),
            (AssuranceLevel::Two, t.client_level_two()),
            (AssuranceLevel::PhishingResistant, t.client_level_three()),
        ]
    }

    fn snippet(&self) -> Snippet {
        Snippet::new(self.library, self.issuer, self.client.id.as_str(), self.form)
    }

    /// Returns the libraries that support the client type.
    fn libraries(&self) -> impl Iterator<Item = Library> {
        Library::ALL.into_iter().filter(|library| library.fits(self.form.public))
    }

    fn library_address(&self, library: &Library) -> String {
        format!("{}?library={}#code", self.section_address(&ClientSection::Connect), library.as_str())
    }
}

/// Page for a test sign-in at a client. Its forms send `csrf` and `action`: `switch-on`,
/// `switch-off`, `start`.
#[derive(Template)]
#[template(path = "console/client_test.html")]
pub struct ClientTestPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub client: &'a Client,
    /// Redirect URI of the console, which can be added to the client.
    pub redirect_uri: &'a str,
    /// Claims of the ID token, claims of the access token, and the UserInfo response, as JSON.
    pub claims: Option<&'a [String; 3]>,
    /// Reason why there are no claims.
    pub problem: Option<ClientTestProblem<'a>>,
}

/// Reason why a test sign-in returned no tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTestProblem<'a> {
    /// The authorization endpoint returned this error.
    Refused(&'a str),
    /// The code belongs to no test sign-in of this browser, or was already used.
    Unknown,
}

impl ClientTestPage<'_> {
    fn problem_text(&self) -> Option<Markup> {
        let t = self.inside.frame.t;
        Some(match self.problem? {
            ClientTestProblem::Refused(error) => t.client_test_refused(error),
            ClientTestProblem::Unknown => t.client_test_unknown(),
        })
    }
}
