//! Users whose accounts another server keeps: a directory or an OpenID provider.
//!
//! The source identifies a user by an id that never changes ([`SourceId`]). Names, addresses and
//! groups may change. Users are never linked by address.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::secret::{SecretHash, base64url, from_base64url};
use crate::time::UnixTime;
use crate::user::{Email, ManagerDecisions, Subject, User, UserState};
use crate::username::Username;

/// Name of a source in the configuration: 1 to 32 of `a-z`, `0-9` and `-`. It begins with a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourceName(String);

impl SourceName {
    /// Parses a name.
    pub fn parse(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_valid = text.len() <= 32
            && text.bytes().all(allowed)
            && text.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SourceName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not the name of a source")
    }
}

impl From<SourceName> for String {
    fn from(name: SourceName) -> Self {
        name.0
    }
}

/// Id of a user at a source, which never changes: 1 to 255 bytes. Examples: `objectGUID` of Active
/// Directory, `entryUUID` (RFC 4530), or `sub` of an OpenID provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourceId(Vec<u8>);

impl SourceId {
    /// Wraps the bytes of an id.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (1..=255).contains(&bytes.len()).then(|| Self(bytes.to_vec()))
    }

    /// Returns the bytes as the source sent them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<String> for SourceId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        from_base64url(&text).and_then(|bytes| Self::from_bytes(&bytes)).ok_or("not the id of a user at a source")
    }
}

impl From<SourceId> for String {
    fn from(id: SourceId) -> Self {
        base64url(&id.0)
    }
}

/// User at a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceLink {
    pub source: SourceName,
    pub id: SourceId,
}

impl SourceLink {
    /// Returns the key under which the linked user is stored.
    ///
    /// The name contains no zero byte, so name and id are unambiguous.
    pub fn lookup_key(&self) -> SecretHash {
        SecretHash::for_secret(&[self.source.as_str().as_bytes(), &[0], self.id.as_bytes()].concat())
    }
}

/// State of a user's account at its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    Enabled,
    Disabled,
    /// The account has ended.
    Expired,
    /// The source no longer has the account, or its filter no longer finds it.
    Gone,
}

impl SourceState {
    /// Returns the name in records and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Expired => "expired",
            Self::Gone => "gone",
        }
    }
}

/// Link of a user to a source, with what the source last reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSource {
    pub link: SourceLink,
    /// Groups at the source, with the source's prefix.
    #[serde(default)]
    pub groups: BTreeSet<String>,
    pub state: SourceState,
    /// Time at which the source reported something new.
    pub changed_at: UnixTime,
    /// Time at which an OpenID provider last confirmed the account, rounded: see
    /// [`UserSource::confirm`]. `None` for accounts in directories, which are read in the
    /// background, and for users who need a sign-in at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<UnixTime>,
    /// Origin of the id at an OpenID provider. `None` for accounts in directories, for users who were
    /// linked and have not signed in since, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<SourceIdOrigin>,
    /// Origin of the link. `None` if the source created the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<LinkOrigin>,
}

/// Issuer and claim from which the id of a user at an OpenID provider comes. The same id of another
/// issuer, or in another claim, may be that of another user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceIdOrigin {
    pub issuer: String,
    pub subject_claim: String,
}

/// Terms of a report by an OpenID provider.
#[derive(Debug, Clone, Copy)]
pub struct ProviderTerms<'a> {
    /// Time for which the report is valid.
    pub valid_for: Duration,
    pub origin: &'a SourceIdOrigin,
    /// Whether the user has signed in. The answer to a background request does not restore a
    /// confirmation that was withdrawn in the meantime.
    pub is_sign_in: bool,
}

/// Origin of a link that was added to a local user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkOrigin {
    pub at: UnixTime,
    /// Whether the user added the link on the account page. Otherwise an administrator added it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_user: bool,
}

impl User {
    /// Returns whether an administrator has linked the user, and the source has reported nothing since.
    /// The address is then that of the local user.
    pub fn has_unreported_link(&self) -> bool {
        self.source
            .as_ref()
            .is_some_and(|source| source.linked.is_some_and(|linked| !linked.by_user && linked.at == source.changed_at))
    }

    /// Returns whether this user differs from `before` only in the time at which an OpenID provider
    /// confirmed the account, and in the origin of the id.
    pub fn is_confirmation_of(&self, before: &Self) -> bool {
        let mut confirmed = before.clone();
        if let (Some(confirmed), Some(own)) = (&mut confirmed.source, &self.source) {
            confirmed.confirmed_at = own.confirmed_at;
            confirmed.origin.clone_from(&own.origin);
        }
        confirmed == *self
    }
}

impl UserSource {
    /// Returns whether the source is an OpenID provider, and not a directory.
    pub fn is_upstream(&self) -> bool {
        self.confirmed_at.is_some() || self.origin.is_some()
    }

    /// Returns whether the id may come from this origin. The origin of a user who was linked is that of
    /// the next sign-in.
    pub fn may_be_of(&self, origin: &SourceIdOrigin) -> bool {
        self.origin.as_ref().is_none_or(|own| own == origin)
    }

    /// Withdraws the last confirmation of an OpenID provider: the user has no access before the next
    /// sign-in there. Returns whether there was a confirmation.
    pub fn withdraw_confirmation(&mut self) -> bool {
        self.confirmed_at.take().is_some()
    }

    /// Returns whether an OpenID provider has confirmed the account within `valid_for`.
    pub fn is_confirmed(&self, now: UnixTime, valid_for: Duration) -> bool {
        self.confirmed_at.is_some_and(|at| now.since(at) < valid_for)
    }

    /// Records that the OpenID provider has confirmed the account at `now`. Changes nothing if the
    /// last confirmation is recent, because each change of a user empties the caches of tokens.
    ///
    /// `valid_for` is the time for which a confirmation is valid.
    fn confirm(&mut self, now: UnixTime, valid_for: Duration) {
        let is_recent = |at: UnixTime| at <= now && now.since(at) < valid_for / 4;
        if !self.confirmed_at.is_some_and(is_recent) {
            self.confirmed_at = Some(now);
        }
    }
}

/// Report of a source about a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEntry {
    pub id: SourceId,
    /// Username. `None` if the source has no name that is a valid username.
    pub username: Option<Username>,
    pub email: Option<Email>,
    /// Whether the source is responsible for the domain of the address.
    pub email_verified: bool,
    pub name: String,
    pub phone_number: Option<String>,
    /// Groups with the source's prefix.
    pub groups: BTreeSet<String>,
    pub state: SourceState,
}

impl SourceEntry {
    /// Returns the user that a source has reported for the first time.
    ///
    /// `provider` has the terms of an OpenID provider. `None` for directories.
    pub fn new_user(
        &self,
        source: &SourceName,
        sub: Subject,
        provider: Option<ProviderTerms<'_>>,
        now: UnixTime,
    ) -> User {
        let link = SourceLink { source: source.clone(), id: self.id.clone() };
        User {
            sub,
            email: self.email.clone(),
            username: self.username.clone(),
            email_verified: self.email_verified,
            name: self.name.clone(),
            phone_number: self.phone_number.clone(),
            picture: None,
            roles: BTreeSet::new(),
            groups: BTreeSet::new(),
            password: None,
            source: Some(UserSource {
                link,
                groups: self.groups.clone(),
                state: self.state,
                changed_at: now,
                confirmed_at: provider.map(|_| now),
                origin: provider.map(|provider| provider.origin.clone()),
                linked: None,
            }),
            state: UserState::Enabled,
            created_at: now,
            updated_at: now,
            audit_filters: Vec::new(),
            by_manager: ManagerDecisions::default(),
        }
    }

    /// Returns this report with the names of a user, for a user whose new names are taken.
    ///
    /// A previous address that the source no longer reports may belong to another user, so it counts
    /// as not verified.
    #[must_use]
    pub fn with_names_of(self, user: &User) -> Self {
        let (username, email) = (user.username.clone(), user.email.clone());
        let email_verified = user.email_verified && self.email == email;
        let name = if self.name.is_empty() { user.name.clone() } else { self.name };
        Self { username, email, email_verified, name, ..self }
    }

    /// Returns the user with the data of this report, or `None` if nothing differs.
    ///
    /// Roles, local groups, the local state and the password remain unchanged. `provider` is as for
    /// [`SourceEntry::new_user`]. The caller has compared the origin.
    pub fn applied_to(
        &self,
        user: &User,
        source: &SourceName,
        provider: Option<ProviderTerms<'_>>,
        now: UnixTime,
    ) -> Option<User> {
        let mut next = user.clone();
        next.username.clone_from(&self.username);
        next.email.clone_from(&self.email);
        next.email_verified = self.email_verified;
        next.name.clone_from(&self.name);
        next.phone_number.clone_from(&self.phone_number);
        let link = SourceLink { source: source.clone(), id: self.id.clone() };
        let before = user.source.as_ref();
        let changed_at = before.map_or(now, |source| source.changed_at);
        let confirmed_at = before.and_then(|source| source.confirmed_at);
        let linked = before.and_then(|source| source.linked);
        let (groups, state) = (self.groups.clone(), self.state);
        let origin = before.and_then(|source| source.origin.clone());
        let mut reported = UserSource { link, groups, state, changed_at, confirmed_at, origin, linked };
        next.source = Some(reported.clone());
        if next != *user {
            next.updated_at = now;
            reported.changed_at = now;
        }
        if let Some(ProviderTerms { valid_for, origin, is_sign_in }) = provider {
            if is_sign_in || reported.confirmed_at.is_some() {
                reported.confirm(now, valid_for);
            }
            reported.origin = Some(origin.clone());
        }
        next.source = Some(reported);
        (next != *user).then_some(next)
    }
}

/// Number of accounts that one round of reads may find gone in any case.
const ALWAYS_ACCEPTED: usize = 10;

/// Returns whether so many of the accounts that a round has read are gone that the source is
/// probably misconfigured: more than 10, and more than a fifth of those read.
pub fn is_mass_loss(read: usize, gone: usize) -> bool {
    gone > ALWAYS_ACCEPTED && gone * 5 > read
}
