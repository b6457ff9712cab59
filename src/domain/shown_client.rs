//! Digests of a client that a page has shown, to detect changes between the page and a decision.
//!
//! An administrator approves what the page has shown. Without the digests, a developer could change
//! the client in between, and the approval would apply to the changed client.

use std::fmt;

use serde::Serialize;

use crate::client::{Client, ClientState};
use crate::secret::{SecretHash, base64url};

/// Part of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientPart {
    /// The owner, or the client itself: it was deleted and registered again.
    Owner,
    Name,
    RedirectUris,
    PostLogoutRedirectUris,
    Scope,
    /// Client type, authentication method and grant types.
    Type,
    /// Pages that the server links to.
    Links,
    /// All other settings.
    Other,
}

impl ClientPart {
    /// All parts, in the order of their digests.
    pub const ALL: [Self; 8] = [
        Self::Owner,
        Self::Name,
        Self::RedirectUris,
        Self::PostLogoutRedirectUris,
        Self::Scope,
        Self::Type,
        Self::Links,
        Self::Other,
    ];

    /// Returns the digest of this part of a client: 22 characters.
    fn digest(self, client: &Client) -> String {
        let details = &client.details;
        match self {
            Self::Owner => digest(&(&client.owner, client.incarnation, client.created_at)),
            Self::Name => digest(&client.name),
            Self::RedirectUris => digest(&client.redirect_uris),
            Self::PostLogoutRedirectUris => digest(&client.post_logout_redirect_uris),
            Self::Scope => digest(&client.scope),
            Self::Type => {
                digest(&(client.client_type, details.application_type, client.auth_method, &client.grant_types))
            }
            Self::Links => {
                digest(&(&details.client_uri, &details.initiate_login_uri, &details.tos_uri, &details.policy_uri))
            }
            Self::Other => digest(&others(client)),
        }
    }
}

/// Returns the client without the values of the other parts, and without its state, which is not a
/// setting.
fn others(client: &Client) -> Client {
    let mut rest = client.clone();
    (rest.name, rest.redirect_uris, rest.post_logout_redirect_uris) = Default::default();
    (rest.secrets, rest.approval, rest.disabled, rest.registration) = Default::default();
    rest.state = ClientState::Enabled;
    rest.scope = crate::scope::Scope::EMPTY;
    rest.grant_types = Vec::new();
    let details = &mut rest.details;
    (details.client_uri, details.initiate_login_uri, details.tos_uri, details.policy_uri) = Default::default();
    rest
}

fn digest(value: &impl Serialize) -> String {
    // A client serializes without errors, as it does for the store.
    let text = serde_json::to_vec(value).unwrap_or_default();
    base64url(&SecretHash::for_secret(&text).as_bytes()[..16])
}

/// Digests of the parts of a client, in the order of [`ClientPart::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownClient([String; ClientPart::ALL.len()]);

impl ShownClient {
    /// Returns the digests of a client.
    pub fn of(client: &Client) -> Self {
        Self(ClientPart::ALL.map(|part| part.digest(client)))
    }

    /// Parses the text of a form: the digests, separated by dots.
    pub fn parse(text: &str) -> Option<Self> {
        let digests: Vec<String> = text.split('.').map(str::to_owned).collect();
        digests.try_into().ok().map(Self)
    }

    /// Returns the parts of the client that differ from the shown ones.
    pub fn changes(&self, client: &Client) -> Vec<ClientPart> {
        let shown = ClientPart::ALL.into_iter().zip(&self.0);
        shown.filter(|(part, digest)| part.digest(client) != **digest).map(|(part, _)| part).collect()
    }
}

impl fmt::Display for ShownClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}
