//! `[[upstream]]`: OpenID providers whose users can sign in.

use std::path::PathBuf;
use std::time::Duration;

use sealgate_domain::oauth::upstream_claims::UpstreamClaims;
use sealgate_domain::source::SourceName;

/// `[[upstream]]`: an OpenID provider whose users can sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamSettings {
    pub name: SourceName,
    /// Name of the provider on the sign-in page.
    pub label: String,
    pub kind: UpstreamKind,
    /// URL of the provider, byte for byte as in the claim `iss`. For GitHub, the URL of its web
    /// pages.
    pub issuer: String,
    /// Id of this server at the provider.
    pub client_id: String,
    pub credential: UpstreamCredential,
    pub scopes: Vec<String>,
    /// Claims that are used, and whose values are accepted.
    pub claims: UpstreamClaims,
    pub arrival: UpstreamArrival,
    /// Whether local users may link their account to one at the provider.
    pub linking: bool,
    pub logout: UpstreamLogout,
    /// Time between two reads of the users who are signed in, if the provider issues refresh tokens.
    pub refresh: Duration,
    /// Time for which sessions continue while the provider cannot be reached.
    pub stale: Duration,
    /// Time after which a sign-in is checked again, if the provider issues no refresh tokens.
    pub session: Duration,
    /// Timeout of each operation at the provider.
    pub timeout: Duration,
    /// PEM file with CA certificates that are trusted in addition to those of the machine.
    pub ca_file: Option<PathBuf>,
}

/// Kind of a provider. Determines default values and requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamKind {
    /// Any OpenID provider.
    OpenId,
    /// Microsoft Entra ID, one tenant.
    Entra,
    Google,
    Okta,
    Keycloak,
    /// GitHub, or GitHub Enterprise Server. It has OAuth 2.0 without OpenID Connect.
    GitHub,
}

/// Credential of this server at the provider's token endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamCredential {
    /// File with the client secret.
    SecretFile(PathBuf),
    /// Label of an EC P-256 key in the PKCS#11 token that signs client assertions
    /// (`private_key_jwt`).
    Key(String),
}

/// Treatment of a user who signs in for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamArrival {
    /// A user is created.
    Create,
    /// The sign-in is refused. An administrator or the user must link the account first.
    LinkedOnly,
}

/// Extent of a sign-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamLogout {
    /// The user is also signed out at the provider.
    Upstream,
    /// The user remains signed in at the provider.
    Local,
}

impl UpstreamSettings {
    /// Returns the path to which the provider returns browsers, below the issuer's path.
    pub fn callback_path(&self) -> String {
        format!("/oauth/upstream/{}/callback", self.name)
    }

    /// Returns the path to which the provider sends logout tokens, below the issuer's path.
    pub fn logout_path(&self) -> String {
        format!("/oauth/upstream/{}/logout", self.name)
    }

    /// Returns the path to which the provider returns browsers after a sign-out, below the issuer's
    /// path.
    pub fn signed_out_path(&self) -> String {
        format!("/oauth/upstream/{}/signed-out", self.name)
    }

    /// Returns the path of the public key of the client key, below the issuer's path.
    pub fn jwks_path(&self) -> String {
        format!("/oauth/upstream/{}/jwks.json", self.name)
    }

    /// Returns whether the provider is responsible for some domains of e-mail addresses.
    pub fn has_domains(&self) -> bool {
        !self.claims.domains.is_empty()
    }

    /// Returns whether the provider is responsible for the domain of an e-mail address. Compares
    /// ASCII letters without case.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.claims.has_domain(domain)
    }
}
