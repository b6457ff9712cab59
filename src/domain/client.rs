//! Registered clients (RFC 6749 §2): who may ask for tokens, how they prove who they are, and where browsers return.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::assurance::AssuranceLevel;
use crate::domain::rate_limit::RateLimit;
use crate::domain::redirect_uri::RedirectUri;
use crate::domain::scope::{Scope, ScopeValue};
use crate::domain::secret::{Secret, SecretHash};
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;

/// The prefix of the client ids that belong to protected applications; nobody can register one.
pub const INTERNAL_CLIENT: &str = "sealgate-app-";

/// The client that our own pages are.
pub const OWN_CLIENT: &str = "sealgate-app-~own";

/// A client identifier: 1 to 100 letters, digits, `-`, `.`, `_`, `~`, so that it is the same in every encoding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClientId(String);

impl ClientId {
    /// Reads an identifier; `None` when a character or the length is not allowed.
    pub fn parse(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        ((1..=100).contains(&text.len()) && text.bytes().all(allowed)).then(|| Self(text.to_owned()))
    }

    /// The identifier on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ClientId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a client id has 1 to 100 letters, digits, '-', '.', '_' or '~'")
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

/// Whether a client can keep a secret (RFC 6749 §2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientType {
    /// It cannot: a mobile or single-page application. PKCE is its only proof.
    Public,
    Confidential,
}

/// How a client says that it authenticates at the token endpoint (RFC 7591 §2). A confidential client may use either
/// of the two ways to send its secret, whichever it registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// Public clients.
    None,
    /// HTTP Basic.
    ClientSecretBasic,
    ClientSecretPost,
}

impl AuthMethod {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }
}

/// The grants that the token endpoint serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// RFC 6749 §4.1.
    AuthorizationCode,
    /// RFC 6749 §6.
    RefreshToken,
}

impl GrantType {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::RefreshToken => "refresh_token",
        }
    }
}

/// Whether people are asked before the client learns who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConsentRule {
    Ask,
    /// The operator has decided for them: the applications behind the gate.
    Implied,
}

/// Whether the client may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    Enabled,
    /// It is refused everywhere, and its tokens with it.
    Disabled,
}

/// By whose authority something was decided about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// The developer whose client it is.
    Owner(Subject),
    Administrator(Subject),
    /// Whoever may give commands on the machine.
    Operator,
}

impl Authority {
    /// Whether a developer cannot undo what this one decided.
    pub const fn is_administrative(self) -> bool {
        !matches!(self, Self::Owner(_))
    }
}

/// What somebody decided about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientDecision {
    /// By whose authority.
    pub by: Authority,
    pub at: UnixTime,
}

/// The most secrets of a client that work at the same time.
pub const MAX_SECRETS: usize = 5;

/// A client has [`MAX_SECRETS`] secrets that still work. Until when the first of them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretsFull {
    pub until: Option<UnixTime>,
}

/// A secret of a confidential client, as kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSecret {
    /// SHA-256 of the secret.
    pub hash: SecretHash,
    pub created_at: UnixTime,
    /// When it stops working: set on the old one when a new one is made.
    pub expires_at: Option<UnixTime>,
}

impl ClientSecret {
    /// Whether it has not ended yet.
    fn works(&self, now: UnixTime) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// Optional metadata that people and other programs may want to see (RFC 7591 §2, OpenID Registration §2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientDetails {
    /// What the client is, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_uri: Option<String>,
    /// Where a sign-in can be started from outside (OpenID Connect Core §4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initiate_login_uri: Option<String>,
    /// Terms of use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos_uri: Option<String>,
    /// Privacy policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_uri: Option<String>,
    /// `max_age` of requests that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_max_age: Option<u64>,
    /// Scope of authorization requests that name none (RFC 6749 §3.3). Registration and update requests of the client cannot
    /// change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_scope: Option<Scope>,
}

/// How a client came in through the registration endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfRegistration {
    /// SHA-256 of its registration access token (RFC 7592 §3).
    pub access_token: SecretHash,
    /// Whether it has ever received a token.
    #[serde(default)]
    pub used: bool,
    /// Whether administrators were notified that it needs an approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval_requested: bool,
    /// When it goes, unless it was used or approved by then. None in a record of an older program, which did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_until: Option<UnixTime>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub id: ClientId,
    pub name: String,
    /// Whether it can keep a secret.
    pub client_type: ClientType,
    pub auth_method: AuthMethod,
    /// Its secrets; more than one while a rotation overlaps.
    #[serde(default)]
    pub secrets: Vec<ClientSecret>,
    pub redirect_uris: Vec<RedirectUri>,
    /// Where browsers may be sent after a logout.
    #[serde(default)]
    pub post_logout_redirect_uris: Vec<RedirectUri>,
    /// The scopes that it may ask for.
    pub scope: Scope,
    pub grant_types: Vec<GrantType>,
    pub consent: ConsentRule,
    pub state: ClientState,
    pub created_at: UnixTime,
    /// Tells it from an earlier client of the same id, by chance; 0 in a record from before there was such a number.
    #[serde(default)]
    pub incarnation: u32,
    #[serde(default)]
    pub details: ClientDetails,
    /// The developer whose client it is, in the console; administrators see all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Subject>,
    /// Set when it came in through the registration endpoint.
    #[serde(default)]
    pub registration: Option<SelfRegistration>,
    /// How long the parent of an unused refresh token is good for the same child, seconds; the configured window when
    /// absent. Only an operator sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_retry_seconds: Option<u64>,
    /// How often it may come to the token endpoint; as often as the configuration says when absent. Only an operator sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_limit: Option<RateLimit>,
    /// The level that people must have reached for it to get tokens, whatever it asks for itself; any when absent. Only an
    /// operator or an administrator sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<AssuranceLevel>,
    /// That an administrator vouches for it, although somebody else made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ClientDecision>,
    /// Who disabled it. None while it is enabled, and in a record of an older program, which did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<ClientDecision>,
}

/// The longest retry window that a client may be given, seconds: an answer that got lost is asked for again soon.
pub const LONGEST_REFRESH_RETRY: u64 = 300;

impl Client {
    /// Whether it may be used.
    pub fn is_enabled(&self) -> bool {
        self.state == ClientState::Enabled
    }

    /// Disables it. An administrator's decision stays what it is when a developer disables the client once more: that
    /// developer could enable it again afterwards.
    pub fn disable(&mut self, decision: ClientDecision) {
        let stands = !self.is_enabled() && !self.may_be_enabled_by(decision.by);
        if !stands {
            self.disabled = Some(decision);
        }
        self.state = ClientState::Disabled;
    }

    /// Enables it, if this authority may.
    pub fn enable(&mut self, authority: Authority) {
        if self.may_be_enabled_by(authority) {
            self.state = ClientState::Enabled;
            self.disabled = None;
        }
    }

    /// Whether this authority may enable it: what an administrator disabled, only an administrator enables. Where nobody
    /// knows who it was, it may have been one.
    pub fn may_be_enabled_by(&self, authority: Authority) -> bool {
        let by_owner = self.disabled.is_some_and(|disabled| !disabled.by.is_administrative());
        self.is_enabled() || by_owner || authority.is_administrative()
    }

    /// Whether somebody who may do so vouches for it: an operator made it, or an administrator approved it. The tokens of
    /// the others open no application that does not name them.
    pub fn is_vouched_for(&self) -> bool {
        self.approval.is_some() || self.is_operators_own()
    }

    /// Whether an operator made it on the command line.
    pub fn is_operators_own(&self) -> bool {
        self.owner.is_none() && self.registration.is_none()
    }

    /// Takes the approval back if the client is not any more what was approved, `approved`: our pages show or link to
    /// something else, it sends codes or browsers elsewhere, asks for more, or has no secret any more. For changes by those
    /// who cannot approve. Yields whether it was taken back.
    pub fn lose_approval_unless_still(&mut self, approved: &Self) -> bool {
        let same = self.shown() == approved.shown()
            && self.redirect_uris.iter().all(|uri| approved.redirect_uris.contains(uri))
            && self.post_logout_redirect_uris.iter().all(|uri| approved.post_logout_redirect_uris.contains(uri))
            && self.scope.is_subset_of(approved.scope)
            && self.grant_types.iter().all(|grant| approved.grant_types.contains(grant))
            && (approved.is_public() || !self.is_public());
        !same && self.approval.take().is_some()
    }

    /// What pages show of it, or link to: the consent page, pages that say what went wrong, and whatever starts a sign-in.
    /// A new member of [`ClientDetails`] that a page shows belongs here.
    fn shown(&self) -> (&str, Option<String>, [Option<&str>; 4]) {
        let ClientDetails {
            description: _,
            client_uri,
            initiate_login_uri,
            tos_uri,
            policy_uri,
            default_max_age: _,
            default_scope: _,
        } = &self.details;
        let links = [client_uri, initiate_login_uri, tos_uri, policy_uri].map(Option::as_deref);
        (&self.name, self.home(), links)
    }

    /// Whether it is one of those that registered themselves and go again, because nobody needed them in time.
    pub fn is_left_unused(&self, now: UnixTime) -> bool {
        let unused = self.registration.as_ref().filter(|own| !own.used && self.approval.is_none());
        unused.and_then(|own| own.unused_until).is_some_and(|end| end <= now)
    }

    /// Whether it cannot keep a secret.
    pub fn is_public(&self) -> bool {
        self.client_type == ClientType::Public
    }

    /// Whether a sign-in of this `acr`, as grants keep it, is enough for it.
    pub fn is_served_by(&self, acr: &str) -> bool {
        self.level.is_none_or(|demanded| AssuranceLevel::parse(acr).is_some_and(|level| level.meets(demanded)))
    }

    /// How long the parent of an unused refresh token is good for the same child.
    pub fn refresh_retry(&self, configured: Duration) -> Duration {
        self.refresh_retry_seconds.map_or(configured, Duration::from_secs)
    }

    /// Scope of an authorization request that names none: what is left of its default within the scope that it may ask for.
    pub fn default_scope(&self) -> Option<Scope> {
        let scope = self.details.default_scope?.intersection(self.scope);
        scope.contains(ScopeValue::OpenId).then_some(scope)
    }

    /// Whether it may use this grant.
    pub fn may_use(&self, grant: GrantType) -> bool {
        self.grant_types.contains(&grant)
    }

    /// Whether the presented secret is one of its live ones. Every secret is compared, so that the time tells nothing.
    pub fn knows(&self, presented: &Secret, now: UnixTime) -> bool {
        let hash = presented.hash();
        let matches = |secret: &&ClientSecret| secret.hash == hash && secret.works(now);
        self.secrets.iter().filter(matches).count() > 0
    }

    /// Its secrets that still work.
    pub fn working_secrets(&self, now: UnixTime) -> impl Iterator<Item = &ClientSecret> {
        self.secrets.iter().filter(move |secret| secret.works(now))
    }

    /// Adds a new secret. Earlier secrets that have no end yet work until `end`; those that have one keep it, so that a
    /// rotation that is repeated shortens no overlap. With an `end` that is not ahead, every earlier secret ends at once.
    ///
    /// # Errors
    /// [`SecretsFull`] when as many as there may be still work; nothing changes then.
    pub fn rotate_secret(&mut self, fresh: ClientSecret, end: UnixTime) -> Result<(), SecretsFull> {
        let now = fresh.created_at;
        let earlier: Vec<_> = if end <= now { Vec::new() } else { self.working_secrets(now).cloned().collect() };
        if earlier.len() >= MAX_SECRETS {
            return Err(SecretsFull { until: earlier.iter().filter_map(|secret| secret.expires_at).min() });
        }
        let ending =
            |secret: ClientSecret| ClientSecret { expires_at: Some(secret.expires_at.unwrap_or(end)), ..secret };
        self.secrets = earlier.into_iter().map(ending).chain([fresh]).collect();
        Ok(())
    }

    /// Its first page: its home page where it has named one, or else the site of its first redirect URI. None where that is
    /// no site, as of an application on a phone.
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

    /// Whether a browser may be sent here with a code.
    pub fn redirects_to(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|registered| registered.matches(uri))
    }

    /// Whether a browser may be sent here after a logout. Byte for byte (RP-Initiated Logout §3).
    pub fn logs_out_to(&self, uri: &str) -> bool {
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
        "abcdefg".chars().filter(|secret| client.knows(&Secret::new(*secret), at(now))).collect()
    }

    #[test]
    fn each_secret_works_until_its_own_end() {
        let mut client = client();
        rotate(&mut client, "a", 0, 0).unwrap();
        rotate(&mut client, "b", 10, 100).unwrap();
        rotate(&mut client, "c", 20, 40).unwrap();
        for (now, expected) in [(20, "abc"), (39, "abc"), (40, "ac"), (99, "ac"), (100, "c"), (1_000_000, "c")] {
            assert_eq!(working(&client, now), expected, "{now}");
        }
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
    fn secrets_that_work_are_bounded_and_none_is_dropped_for_another() {
        let mut client = client();
        for (number, secret) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            rotate(&mut client, secret, number as u64, 100 + number as u64).unwrap();
        }
        let before = client.clone();
        assert_eq!(rotate(&mut client, "f", 10, 200), Err(SecretsFull { until: Some(at(101)) }));
        assert_eq!(client, before);
        rotate(&mut client, "f", 101, 200).unwrap();
        assert_eq!(working(&client, 101), "bcdef");
        rotate(&mut client, "g", 102, 102).unwrap();
        assert_eq!(working(&client, 102), "g");
    }

    #[test]
    fn a_level_is_served_by_itself_and_by_each_higher_one() {
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
                    assert_eq!(client.is_served_by(acr), is_enough, "{level:?} {acr}");
                }
            }
            let kept = serde_json::to_string(&client).unwrap();
            assert_eq!(serde_json::from_str::<Client>(&kept).unwrap(), client);
        }
    }

    #[test]
    fn an_id_is_the_same_in_every_encoding() {
        assert!(ClientId::parse("wiki-1.test_~").is_some());
        for wrong in ["", "a b", "a:b", "a%20b", "ı", "a/b", &"x".repeat(101)] {
            assert!(ClientId::parse(wrong).is_none(), "{wrong}");
        }
    }
}
