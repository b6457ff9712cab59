//! Registered clients (RFC 6749 §2): their credentials, permissions and redirect URIs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assertion_source::AssertionSource;
use crate::assurance::AssuranceLevel;
use crate::client_logo::ClientLogo;
use crate::client_logout::BackchannelLogout;
use crate::group_filter::GroupFilter;
use crate::oauth::introspection::IntrospectionAccess;
use crate::oauth::jwk_set::Algorithm;
use crate::rate_limit::RateLimit;
use crate::redirect_uri::RedirectUri;
use crate::scope::{Scope, ScopeValue};
use crate::secret::{Secret, SecretHash};
use crate::service::ServiceAccess;
use crate::time::UnixTime;
use crate::user::Subject;

/// Prefix of the client ids of protected applications, which cannot be registered.
pub const INTERNAL_CLIENT: &str = "sealgate-app-";

/// Client id of the server's own pages.
pub const OWN_CLIENT: &str = "sealgate-app-~own";

/// Maximum length of a client identifier.
pub const MAX_CLIENT_ID_LENGTH: usize = 100;

/// Maximum length of a client identifier that is a URL.
const MAX_DOCUMENT_URL_LENGTH: usize = 255;

/// Client identifier: 1 to 100 letters, digits, `-`, `.`, `_`, `~`; or the URL of the client's metadata
/// document (draft-ietf-oauth-client-id-metadata-document).
///
/// No encoding changes the characters of a name. Equal identifiers are equal byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientId(String);

impl ClientId {
    /// Parses an identifier. Returns `None` if a character or the length is not allowed.
    pub fn parse(text: &str) -> Option<Self> {
        let is_name = (1..=MAX_CLIENT_ID_LENGTH).contains(&text.len()) && text.bytes().all(is_unreserved);
        (is_name || is_document_url(text)).then(|| Self(text.to_owned()))
    }

    /// Returns the host of the client's metadata document. `None` if the identifier is a name.
    pub fn document_host(&self) -> Option<&str> {
        self.0.strip_prefix("https://")?.split('/').next()
    }

    /// Returns the identifier as one segment of a path.
    pub fn path_segment(&self) -> String {
        self.0.replace(':', "%3A").replace('/', "%2F")
    }

    /// Parses a segment of a path that [`Self::path_segment`] returned.
    pub fn from_path_segment(segment: &str) -> Option<Self> {
        Self::parse(&segment.replace("%3A", ":").replace("%2F", "/")).filter(|id| id.path_segment() == segment)
    }

    /// Returns the identifier as sent in requests.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Returns whether the text is a URL that may be fetched as a client's metadata document.
///
/// The host is in lower case and has no port, and there is no username, query, fragment, escape, and
/// no empty or dot segment. So every URL parser reads the same host and path.
fn is_document_url(text: &str) -> bool {
    let is_of_host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_unreserved);
    let Some((host, path)) = text.strip_prefix("https://").and_then(|rest| rest.split_once('/')) else { return false };
    text.len() <= MAX_DOCUMENT_URL_LENGTH
        && !host.is_empty()
        && host.bytes().all(is_of_host)
        && path.split('/').all(is_segment)
}

impl TryFrom<String> for ClientId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a client ID has 1 to 100 letters, digits, '-', '.', '_' or '~'")
    }
}

impl From<ClientId> for String {
    fn from(id: ClientId) -> Self {
        id.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Client type: whether the client can keep a secret (RFC 6749 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientType {
    /// The client cannot keep a secret, such as a mobile or single-page application. PKCE is its
    /// only protection.
    Public,
    Confidential,
}

/// Registered authentication method at the token endpoint (RFC 7591 §2).
///
/// A client with a secret may send it with either method, whichever is registered. Only a client that
/// is registered for [`AuthMethod::PrivateKeyJwt`] may send assertions, and it may not send a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// No authentication, for public clients.
    None,
    /// HTTP Basic authentication.
    ClientSecretBasic,
    ClientSecretPost,
    /// Signed assertion (OpenID Connect Core §9, RFC 7523). The client has no secret.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// Returns the name used in requests and metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// Grant type supported by the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// RFC 6749 §4.1.
    AuthorizationCode,
    /// RFC 6749 §6.
    RefreshToken,
}

impl GrantType {
    /// Returns the name used in requests and metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::RefreshToken => "refresh_token",
        }
    }
}

/// Whether users must consent before the client receives their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsentRule {
    Ask,
    /// Users see no consent page, because the operator has consented for them. Protected
    /// applications have this rule.
    Implied,
}

/// Whether the client may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    Enabled,
    /// All requests and all tokens of the client are refused.
    Disabled,
}

/// Authority that decided about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The developer who owns the client.
    Owner(Subject),
    Administrator(Subject),
    /// A user who may run commands on the server's machine.
    Operator,
}

impl Authority {
    /// Returns whether a developer cannot reverse decisions of this authority.
    pub const fn is_administrative(self) -> bool {
        !matches!(self, Self::Owner(_))
    }
}

/// Decision about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientDecision {
    /// Authority that made the decision.
    pub by: Authority,
    pub at: UnixTime,
}

/// Maximum number of valid secrets per client: the current secret, and the next or the previous one.
///
/// Records of older versions have up to five.
pub const MAX_SECRETS: usize = 2;

/// Maximum number of expired secrets that are kept, so that the log can name a secret that a client
/// still uses.
const MAX_EXPIRED_SECRETS: usize = 3;

/// Error: the client has [`MAX_SECRETS`] valid secrets.
///
/// `until` is the expiry of the secret that expires first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretsFull {
    pub until: Option<UnixTime>,
}

/// Stored secret of a confidential client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSecret {
    /// SHA-256 of the secret.
    pub hash: SecretHash,
    pub created_at: UnixTime,
    /// Expiry. `None` if the secret is valid until it is removed or replaced.
    pub expires_at: Option<UnixTime>,
}

impl ClientSecret {
    /// Returns whether the secret has not expired.
    pub fn is_valid(&self, now: UnixTime) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }

    /// Returns the id of the secret: 12 hexadecimal digits that reveal neither the secret nor its
    /// stored hash.
    pub fn id(&self) -> String {
        let id = SecretHash::for_secret(&[b"client secret ".as_slice(), self.hash.as_bytes()].concat());
        let first = *id.as_bytes().first_chunk().unwrap_or(&[0; 8]);
        format!("{:012x}", u64::from_be_bytes(first) >> 16)
    }
}

/// Kind of application (OpenID Connect Registration §2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationType {
    #[default]
    Web,
    /// Program on the user's device.
    Native,
}

impl ApplicationType {
    /// Returns the name used in metadata.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Native => "native",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_web(&self) -> bool {
        *self == Self::Web
    }
}

/// Optional metadata of a client (RFC 7591 §2, OpenID Connect Registration §2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientDetails {
    /// Description of the client in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_uri: Option<String>,
    /// URI that starts a sign-in to the client (OpenID Connect Core §4, initiating login from a
    /// third party).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initiate_login_uri: Option<String>,
    /// URI of the terms of use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos_uri: Option<String>,
    /// URI of the privacy policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_uri: Option<String>,
    /// Default `max_age` of authorization requests, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_max_age: Option<u64>,
    /// Default scope of authorization requests (RFC 6749 §3.3).
    ///
    /// The registration endpoint cannot change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_scope: Option<Scope>,
    /// A native client may use any port of `localhost`: see [`Client::redirects_to`].
    #[serde(skip_serializing_if = "ApplicationType::is_web")]
    pub application_type: ApplicationType,
    /// Algorithm of the client's ID tokens (OpenID Connect Registration §2). `None` is RS256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token_signed_response_alg: Option<Algorithm>,
}

impl ClientDetails {
    /// Returns the algorithm of the client's ID tokens.
    pub fn id_token_alg(&self) -> Algorithm {
        self.id_token_signed_response_alg.unwrap_or_default()
    }
}

/// State of a client that was registered through the registration endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfRegistration {
    /// SHA-256 of its registration access token (RFC 7592 §3).
    pub access_token: SecretHash,
    /// Whether the client has ever received a token.
    #[serde(default)]
    pub used: bool,
    /// Whether administrators were notified that the client needs approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval_requested: bool,
    /// Time at which the client is deleted if it is still unused and unapproved. `None` in records
    /// of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_until: Option<UnixTime>,
}

/// Client as registered, or as derived from the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub id: ClientId,
    pub name: String,
    /// Client type: confidential if the client can keep a secret.
    pub client_type: ClientType,
    pub auth_method: AuthMethod,
    /// Secrets of the client. After a rotation, the previous secret stays valid for some time.
    #[serde(default)]
    pub secrets: Vec<ClientSecret>,
    /// Keys that verify the client's assertions. Present exactly if the authentication method is
    /// [`AuthMethod::PrivateKeyJwt`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertion_source: Option<AssertionSource>,
    pub redirect_uris: Vec<RedirectUri>,
    /// URIs to which browsers may be redirected after a logout.
    #[serde(default)]
    pub post_logout_redirect_uris: Vec<RedirectUri>,
    /// Scopes that the client may request.
    pub scope: Scope,
    pub grant_types: Vec<GrantType>,
    pub consent: ConsentRule,
    pub state: ClientState,
    pub created_at: UnixTime,
    /// Random number that distinguishes this client from an earlier client with the same id. It is
    /// 0 in records of older versions.
    #[serde(default)]
    pub incarnation: u32,
    #[serde(default)]
    pub details: ClientDetails,
    /// Logo that an administrator, an operator or the owner has uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logo: Option<ClientLogo>,
    /// Developer who owns the client. Only the owner and administrators see the client in the
    /// console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Subject>,
    /// Registration state, if the client registered through the registration endpoint.
    #[serde(default)]
    pub registration: Option<SelfRegistration>,
    /// Time in seconds after a refresh in which the client may repeat the refresh with the previous
    /// token. The client then receives the same new token again.
    ///
    /// `None` if the configured time applies. Only an operator can set this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_retry_seconds: Option<u64>,
    /// Rate limit at the token endpoint. `None` for the configured limit. Only an operator can set
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_limit: Option<RateLimit>,
    /// Minimum assurance level of sign-ins for the client, even if the client requests a lower one.
    ///
    /// `None` if any level is accepted. Only an operator or an administrator can set the level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<AssuranceLevel>,
    /// Permission to get tokens in the client's own name, without a user. `None` if it has none. Only
    /// an operator can grant it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceAccess>,
    /// Groups of users that the client sees, if it may request the scope `groups`. Only an operator can
    /// set it.
    #[serde(default, skip_serializing_if = "GroupFilter::is_empty")]
    pub visible_groups: GroupFilter,
    /// Where the client receives logout tokens. `None` if it receives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backchannel_logout: Option<BackchannelLogout>,
    /// Permission to introspect tokens. `None` if it has none. Only an operator can grant it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspection: Option<IntrospectionAccess>,
    /// Approval by an administrator. A client that an operator created needs no approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ClientDecision>,
    /// Decision that disabled the client. `None` while the client is enabled, and in records of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<ClientDecision>,
    /// Whether the configuration file defines the client. Such a client is changed only by a start
    /// or a reload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_configuration: bool,
}

/// Feature of the server that exists only if a client needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFeature {
    /// Logout tokens to clients.
    BackchannelLogout,
    /// The introspection endpoint.
    Introspection,
    /// Client authentication with signed assertions.
    Assertions,
}

impl ClientFeature {
    /// Number of features.
    pub const COUNT: usize = 3;
}

/// Maximum of [`Client::refresh_retry_seconds`]. A client that lost an answer retries soon.
pub const MAX_REFRESH_RETRY: u64 = 300;

impl Client {
    /// Returns the features of the server that this client needs.
    pub fn features(&self) -> impl Iterator<Item = ClientFeature> {
        let logout = self.backchannel_logout.as_ref().map(|_| ClientFeature::BackchannelLogout);
        let introspection = self.introspection.as_ref().map(|_| ClientFeature::Introspection);
        let assertions = self.uses_assertions().then_some(ClientFeature::Assertions);
        logout.into_iter().chain(introspection).chain(assertions)
    }

    /// Returns whether the client is enabled.
    pub fn is_enabled(&self) -> bool {
        self.state == ClientState::Enabled
    }

    /// Disables the client.
    ///
    /// A developer's decision does not replace the earlier decision of an administrator. Otherwise
    /// the developer could enable the client again.
    pub fn disable(&mut self, decision: ClientDecision) {
        let stands = !self.is_enabled() && !self.may_be_enabled_by(decision.by);
        if !stands {
            self.disabled = Some(decision);
        }
        self.state = ClientState::Disabled;
    }

    /// Returns whether disabling the client by this authority would change something: the client is
    /// enabled, or only its owner has disabled it.
    pub fn is_changed_by_disabling(&self, authority: Authority) -> bool {
        let by_owner = self.disabled.is_some_and(|disabled| !disabled.by.is_administrative());
        self.is_enabled() || (by_owner && authority.is_administrative())
    }

    /// Enables the client if this authority may do so.
    pub fn enable(&mut self, authority: Authority) {
        if self.may_be_enabled_by(authority) {
            self.state = ClientState::Enabled;
            self.disabled = None;
        }
    }

    /// Returns whether this authority may enable the client.
    ///
    /// A client that an administrator or operator disabled can be enabled only by an administrator
    /// or operator. The same applies if the record does not name who disabled it.
    pub fn may_be_enabled_by(&self, authority: Authority) -> bool {
        let by_owner = self.disabled.is_some_and(|disabled| !disabled.by.is_administrative());
        self.is_enabled() || by_owner || authority.is_administrative()
    }

    /// Returns whether an operator created the client or an administrator approved it.
    ///
    /// Tokens of other clients are accepted only by applications that list the client.
    pub fn is_vouched_for(&self) -> bool {
        self.approval.is_some() || self.is_operators_own()
    }

    /// Returns whether an operator created the client, on the command line or in the configuration
    /// file.
    pub fn is_operators_own(&self) -> bool {
        self.owner.is_none() && self.registration.is_none()
    }

    /// Revokes the approval if the client differs from the approved client in a way that matters
    /// for security. Returns whether the approval was revoked.
    ///
    /// To be called after a change by a user who cannot approve clients. These differences matter
    /// for security:
    ///
    /// - Values that pages of the server show or link to.
    /// - A new URI to which codes or browsers are sent.
    /// - A wider scope, or more grant types.
    /// - A web client that becomes native, and can then use further redirect URIs.
    /// - A change to a public client.
    pub fn revoke_approval_if_changed(&mut self, approved: &Self) -> bool {
        let same = self.displayed_values() == approved.displayed_values()
            && self.redirect_uris.iter().all(|uri| approved.redirect_uris.contains(uri))
            && self.post_logout_redirect_uris.iter().all(|uri| approved.post_logout_redirect_uris.contains(uri))
            && self.scope.is_subset_of(approved.scope)
            && self.grant_types.iter().all(|grant| approved.grant_types.contains(grant))
            && (approved.is_public() || !self.is_public())
            && (approved.is_native() || !self.is_native());
        !same && self.approval.take().is_some()
    }

    /// Returns the values that pages show or link to: the consent page, error pages, and pages that
    /// start sign-ins.
    ///
    /// A new field of [`ClientDetails`] belongs here if a page shows it.
    fn displayed_values(&self) -> (&str, Option<&ClientLogo>, Option<String>, [Option<&str>; 4]) {
        let ClientDetails {
            description: _,
            client_uri,
            initiate_login_uri,
            tos_uri,
            policy_uri,
            default_max_age: _,
            default_scope: _,
            application_type: _,
            id_token_signed_response_alg: _,
        } = &self.details;
        let links = [client_uri, initiate_login_uri, tos_uri, policy_uri].map(Option::as_deref);
        (&self.name, self.logo.as_ref(), self.home(), links)
    }

    /// Returns whether the client registered itself and was neither used nor approved in time.
    pub fn is_left_unused(&self, now: UnixTime) -> bool {
        let unused = self.registration.as_ref().filter(|own| !own.used && self.approval.is_none());
        unused.and_then(|own| own.unused_until).is_some_and(|end| end <= now)
    }

    /// Returns whether this is the client of a protected application or of the server's own pages.
    pub fn is_of_gateway(&self) -> bool {
        self.id.as_str().starts_with(INTERNAL_CLIENT)
    }

    /// Returns whether the client is public.
    pub fn is_public(&self) -> bool {
        self.client_type == ClientType::Public
    }

    /// Returns whether a sign-in with this `acr`, as stored in grants, suffices for the client.
    pub fn accepts_acr(&self, acr: &str) -> bool {
        self.level.is_none_or(|demanded| AssuranceLevel::parse(acr).is_some_and(|level| level.meets(demanded)))
    }

    /// Returns the time in which the client may repeat a refresh with the previous token.
    pub fn refresh_retry(&self, configured: Duration) -> Duration {
        self.refresh_retry_seconds.map_or(configured, Duration::from_secs)
    }

    /// Returns the default scope of authorization requests, limited to the client's permitted
    /// scope.
    pub fn default_scope(&self) -> Option<Scope> {
        let scope = self.details.default_scope?.intersection(self.scope);
        scope.contains(ScopeValue::OpenId).then_some(scope)
    }

    /// Returns whether the client may use this grant type.
    pub fn may_use(&self, grant: GrantType) -> bool {
        self.grant_types.contains(&grant)
    }

    /// Returns whether the client authenticates with signed assertions, and never with a secret.
    pub fn uses_assertions(&self) -> bool {
        self.auth_method == AuthMethod::PrivateKeyJwt
    }

    /// Sets the authentication method, and removes the credentials of the other methods.
    ///
    /// The caller adds the new credential if the client has none of the method.
    pub fn set_auth_method(&mut self, method: AuthMethod) {
        self.auth_method = method;
        match method {
            AuthMethod::PrivateKeyJwt => self.secrets.clear(),
            AuthMethod::None | AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost => {
                self.assertion_source = None;
            }
        }
    }

    /// Returns whether the presented secret is one of the client's valid secrets.
    ///
    /// Compares every secret, so that the duration does not reveal which one matches.
    pub fn has_secret(&self, presented: &Secret, now: UnixTime) -> bool {
        let hash = presented.hash();
        let matches = |secret: &&ClientSecret| secret.hash == hash && secret.is_valid(now);
        !self.uses_assertions() && self.secrets.iter().filter(matches).count() > 0
    }

    /// Returns the client's expired secret that was presented, if any.
    pub fn expired_secret(&self, presented: &Secret, now: UnixTime) -> Option<&ClientSecret> {
        let hash = presented.hash();
        self.secrets.iter().find(|secret| secret.hash == hash && !secret.is_valid(now))
    }

    /// Returns the valid secrets of the client.
    pub fn working_secrets(&self, now: UnixTime) -> impl Iterator<Item = &ClientSecret> {
        self.secrets.iter().filter(move |secret| secret.is_valid(now))
    }

    /// Replaces the secrets by a new secret.
    ///
    /// Secrets without an expiry now expire at `end`, or immediately if `end` is not in the future.
    /// Secrets with an expiry keep that expiry, so that a further rotation does not shorten their
    /// overlap.
    ///
    /// # Errors
    /// [`SecretsFull`] if [`MAX_SECRETS`] secrets are still valid. The client is then unchanged.
    pub fn rotate_secret(&mut self, fresh: ClientSecret, end: UnixTime) -> Result<(), SecretsFull> {
        let now = fresh.created_at;
        if end <= now {
            self.secrets = vec![fresh];
            return Ok(());
        }
        let ending =
            |secret: ClientSecret| ClientSecret { expires_at: Some(secret.expires_at.unwrap_or(end)), ..secret };
        let earlier = self.room_for_secret(now)?;
        self.secrets = earlier.into_iter().map(ending).chain([fresh]).collect();
        Ok(())
    }

    /// Adds a new secret. The others do not change.
    ///
    /// # Errors
    /// [`SecretsFull`] if [`MAX_SECRETS`] secrets are still valid. The client is then unchanged.
    pub fn add_secret(&mut self, fresh: ClientSecret) -> Result<(), SecretsFull> {
        let earlier = self.room_for_secret(fresh.created_at)?;
        self.secrets = earlier.into_iter().chain([fresh]).collect();
        Ok(())
    }

    /// Returns the secrets to keep beside a new one: the valid ones, and the last expired ones.
    fn room_for_secret(&self, now: UnixTime) -> Result<Vec<ClientSecret>, SecretsFull> {
        let (valid, mut expired): (Vec<_>, Vec<_>) =
            self.secrets.iter().cloned().partition(|secret| secret.is_valid(now));
        if valid.len() >= MAX_SECRETS {
            return Err(SecretsFull { until: valid.iter().filter_map(|secret| secret.expires_at).min() });
        }
        expired.sort_by_key(|secret| std::cmp::Reverse(secret.expires_at));
        expired.truncate(MAX_EXPIRED_SECRETS);
        Ok(expired.into_iter().rev().chain(valid).collect())
    }

    /// Removes the secret with this id, valid or expired. Returns whether there was one.
    pub fn remove_secret(&mut self, id: &str) -> bool {
        let before = self.secrets.len();
        self.secrets.retain(|secret| secret.id() != id);
        self.secrets.len() < before
    }

    /// Returns the record to store for a client that the configuration file defines: this
    /// definition with the id, creation time and incarnation of the stored record.
    ///
    /// Owner, registration, approval and state come from the definition. A secret that both records
    /// have keeps its creation time. A client that is not stored yet gets `incarnation`.
    #[must_use]
    pub fn defined_over(&self, stored: Option<&Self>, now: UnixTime, incarnation: u32) -> Self {
        let stored_secrets = stored.map(|stored| stored.secrets.as_slice()).unwrap_or_default();
        let created =
            |hash| stored_secrets.iter().find(|secret| secret.hash == hash).map_or(now, |secret| secret.created_at);
        let secret = |secret: &ClientSecret| ClientSecret { created_at: created(secret.hash), ..secret.clone() };
        Self {
            secrets: self.secrets.iter().map(secret).collect(),
            created_at: stored.map_or(now, |stored| stored.created_at),
            incarnation: stored.map_or(incarnation, |stored| stored.incarnation),
            logo: None,
            from_configuration: true,
            ..self.clone()
        }
    }

    /// Returns the home page of the client: the registered home page, or the site of its first
    /// redirect URI.
    ///
    /// Returns `None` if that redirect URI is not on a web site, for instance in a mobile
    /// application.
    pub fn home(&self) -> Option<String> {
        let is_site = |address: &&str| address.starts_with("https://") || address.starts_with("http://");
        if let Some(home) = self.details.client_uri.as_deref().filter(is_site) {
            return Some(home.to_owned());
        }
        let first = self.redirect_uris.first().map(RedirectUri::as_str).filter(is_site)?;
        let site = first.find("://").map(|scheme| scheme + 3)?;
        let end = first[site..].find(['/', '?']).map_or(first.len(), |end| site + end);
        Some(format!("{}/", &first[..end]))
    }

    /// Returns whether the client is a program on the user's device.
    pub fn is_native(&self) -> bool {
        self.details.application_type == ApplicationType::Native
    }

    /// Returns whether browsers may be redirected to this URI with a code.
    ///
    /// A registered URI with `localhost` and no port matches every port, but only for native
    /// clients and for clients with a metadata document.
    pub fn redirects_to(&self, uri: &str) -> bool {
        let any_port = self.is_native() || self.id.document_host().is_some();
        let matches =
            |registered: &RedirectUri| registered.matches(uri) || (any_port && registered.matches_localhost(uri));
        self.redirect_uris.iter().any(matches)
    }

    /// Returns whether every redirect URI is on the user's device. Any program there can pretend to
    /// be this client.
    pub fn is_only_on_device(&self) -> bool {
        self.redirect_uris.iter().all(RedirectUri::is_on_device)
    }

    /// Returns whether browsers may be redirected to this URI after a logout.
    ///
    /// URIs are compared byte for byte (RP-Initiated Logout §3).
    pub(crate) fn logs_out_to(&self, uri: &str) -> bool {
        self.post_logout_redirect_uris.iter().any(|registered| registered.as_str() == uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let record = r#"{"id":"c","name":"C","client_type":"confidential","auth_method":"client_secret_basic",
            "redirect_uris":[],"scope":"openid","grant_types":[],"consent":"ask","state":"enabled","created_at":0}"#;
        serde_json::from_str(record).unwrap()
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn rotate(client: &mut Client, secret: &str, now: u64, end: u64) -> Result<(), SecretsFull> {
        let hash = Secret::new(secret).hash();
        client.rotate_secret(ClientSecret { hash, created_at: at(now), expires_at: None }, at(end))
    }

    fn working(client: &Client, now: u64) -> String {
        "abcdefg".chars().filter(|secret| client.has_secret(&Secret::new(*secret), at(now))).collect()
    }

    #[test]
    fn each_secret_is_valid_until_its_expiry() {
        let mut client = client();
        rotate(&mut client, "a", 0, 0).unwrap();
        rotate(&mut client, "b", 10, 40).unwrap();
        for (now, expected) in [(10, "ab"), (39, "ab"), (40, "b")] {
            assert_eq!(working(&client, now), expected, "{now}");
        }
        rotate(&mut client, "c", 40, 100).unwrap();
        for (now, expected) in [(40, "bc"), (99, "bc"), (100, "c"), (1_000_000, "c")] {
            assert_eq!(working(&client, now), expected, "{now}");
        }
        // The expired secrets are kept, so that the log can name them.
        let expired = |secret: &str| client.expired_secret(&Secret::new(secret), at(100)).map(ClientSecret::id);
        assert_eq!(expired("a"), Some(client.secrets[0].id()));
        assert_eq!((expired("b").is_some(), expired("c"), expired("d")), (true, None, None));
    }

    #[test]
    fn a_secret_is_added_with_its_own_expiry_and_removed_by_its_id() {
        let mut client = client();
        rotate(&mut client, "a", 0, 0).unwrap();
        let fresh = |secret: &str, now, end: Option<u64>| {
            let hash = Secret::new(secret).hash();
            ClientSecret { hash, created_at: at(now), expires_at: end.map(at) }
        };
        client.add_secret(fresh("b", 10, Some(40))).unwrap();
        assert_eq!((working(&client, 39).as_str(), working(&client, 40).as_str()), ("ab", "a"));
        assert_eq!(client.add_secret(fresh("c", 20, None)), Err(SecretsFull { until: Some(at(40)) }));
        client.add_secret(fresh("c", 40, None)).unwrap();
        let ids: Vec<_> = client.secrets.iter().map(ClientSecret::id).collect();
        assert_eq!((ids.len(), ids[1].len()), (3, 12));
        assert!(client.remove_secret(&ids[1]) && !client.remove_secret(&ids[1]));
        assert_eq!(working(&client, 40), "c");
        for number in 0..6 {
            client.add_secret(fresh("d", 100 + number, Some(100 + number))).unwrap();
        }
        assert_eq!(client.secrets.len(), 1 + MAX_EXPIRED_SECRETS + 1);
    }

    #[test]
    fn each_authentication_method_keeps_only_its_own_credentials() {
        let mut client = client();
        rotate(&mut client, "a", 0, 0).unwrap();
        let source = AssertionSource::JwksUri("https://keys.test/jwks".to_owned());
        client.assertion_source = Some(source);
        // A secret that is left does not count.
        client.auth_method = AuthMethod::PrivateKeyJwt;
        assert_eq!(working(&client, 0), "");
        client.set_auth_method(AuthMethod::PrivateKeyJwt);
        assert!(client.secrets.is_empty() && client.assertion_source.is_some());
        client.set_auth_method(AuthMethod::ClientSecretBasic);
        assert_eq!(client.assertion_source, None);
    }

    #[test]
    fn without_an_overlap_every_earlier_secret_ends_at_once() {
        let mut client = client();
        rotate(&mut client, "a", 0, 0).unwrap();
        rotate(&mut client, "b", 10, 100).unwrap();
        rotate(&mut client, "c", 20, 20).unwrap();
        assert_eq!((working(&client, 20).as_str(), client.secrets.len()), ("c", 1));
    }

    #[test]
    fn valid_secrets_are_limited_and_none_is_evicted() {
        let mut client = client();
        rotate(&mut client, "a", 0, 0).unwrap();
        rotate(&mut client, "b", 1, 101).unwrap();
        let before = client.clone();
        assert_eq!(rotate(&mut client, "f", 10, 200), Err(SecretsFull { until: Some(at(101)) }));
        assert_eq!(client, before);
        rotate(&mut client, "f", 101, 200).unwrap();
        assert_eq!(working(&client, 101), "bf");
        rotate(&mut client, "g", 102, 102).unwrap();
        assert_eq!(working(&client, 102), "g");
        // A record of an older version has more.
        for secret in ["a", "b", "c"] {
            let hash = Secret::new(secret).hash();
            client.secrets.push(ClientSecret { hash, created_at: at(0), expires_at: Some(at(300)) });
        }
        assert_eq!(working(&client, 102), "abcg");
        assert_eq!(rotate(&mut client, "f", 110, 200), Err(SecretsFull { until: Some(at(300)) }));
    }

    #[test]
    fn a_level_is_satisfied_by_itself_and_every_higher_one() {
        let record = r#"{"id":"c","name":"C","client_type":"public","auth_method":"none","redirect_uris":[],"scope":"openid",
            "grant_types":[],"consent":"ask","state":"enabled","created_at":0}"#;
        let mut client: Client = serde_json::from_str(record).unwrap();
        for (level, enough, weak) in [
            (None, &["1", "2", "3", "urn:x", ""][..], &[][..]),
            (Some(AssuranceLevel::One), &["1", "2", "3", "phr"], &["", "0", "urn:x"]),
            (Some(AssuranceLevel::Two), &["2", "3", "phr"], &["1", "", "0", "22"]),
            (Some(AssuranceLevel::PhishingResistant), &["3", "phr"], &["1", "2", "phrh"]),
        ] {
            client.level = level;
            for (acrs, is_enough) in [(enough, true), (weak, false)] {
                for acr in acrs {
                    assert_eq!(client.accepts_acr(acr), is_enough, "{level:?} {acr}");
                }
            }
            let stored = serde_json::to_string(&client).unwrap();
            assert_eq!(serde_json::from_str::<Client>(&stored).unwrap(), client);
        }
    }

    #[test]
    fn an_id_is_the_same_in_every_encoding() {
        assert!(ClientId::parse("wiki-1.test_~").is_some());
        for wrong in ["", "a b", "a:b", "a%20b", "ı", "a/b", &"x".repeat(101)] {
            assert!(ClientId::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn an_id_may_be_the_url_of_a_document_that_all_parsers_read_alike() {
        for url in ["https://claude.ai/oauth/client", "https://a.test/x", "https://vscode.dev/.well-known/c.json"] {
            let id = ClientId::parse(url).unwrap();
            assert_eq!(id.document_host(), url.split('/').nth(2), "{url}");
            assert_eq!(ClientId::from_path_segment(&id.path_segment()), Some(id), "{url}");
        }
        for wrong in [
            "http://a.test/x",
            "HTTPS://a.test/x",
            "https://a.test",
            "https://a.test/",
            "https://a.test/x/",
            "https://a.test//x",
            "https://a.test/./x",
            "https://a.test/x/..",
            "https://a.test/%2e%2e/x",
            "https://a.test/x?y",
            "https://a.test/x#y",
            "https://A.test/x",
            "https://u@a.test/x",
            "https://u:p@a.test/x",
            "https://a.test:443/x",
            "https://a.test:8443/x",
            "https://[::1]/x",
            "https:///x",
            "https://a.test\\x/y",
            "https://a.test/x y",
            "https://\u{11f}.test/x",
            &format!("https://a.test/{}", "x".repeat(241)),
        ] {
            assert!(ClientId::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(ClientId::parse("wiki").unwrap().document_host(), None);
        for wrong in ["https%3A%2f%2Fa.test%2Fx", "wiki%2F", "https://a.test/x"] {
            assert!(ClientId::from_path_segment(wrong).is_none(), "{wrong}");
        }
    }
}
