//! Grants: what came of one redeemed code, for as long as any token of it may be used.
//!
//! One record holds a grant whatever number of refresh tokens it sees (a "family", RFC 9700 §4.14.2). A refresh token is
//! `RT_` and base64url of `key ‖ generation ‖ secret`. The grant's id is a hash of the key, so
//! - the id may stand in access tokens without giving anything away,
//! - a forged token finds no record, and nobody who has not held a genuine token of the family can end it,
//! - a genuine token of any older generation is recognised without a row of its own.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::protocol::client::ClientId;
use crate::protocol::scope::Scope;
use crate::protocol::secret::{Secret, SecretHash, base64url, from_base64url};
use crate::protocol::session::SessionId;
use crate::protocol::time::UnixTime;
use crate::protocol::user::Subject;

const PREFIX: &str = "RT_";

/// A grant's public identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId([u8; 16]);

impl GrantId {
    /// The identifier that these bytes are.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        from_base64url(text)?.try_into().ok().map(Self)
    }

    /// The 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url(&self.0))
    }
}

impl Serialize for GrantId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GrantId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).ok_or_else(|| serde::de::Error::custom("not a grant id"))
    }
}

/// The secret that makes a grant's refresh tokens recognisable; it stands in each of them and nowhere else.
#[derive(Clone)]
pub struct GrantKey(Zeroizing<[u8; 16]>);

impl GrantKey {
    /// The key made of these random bytes.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The grant's public identifier.
    pub fn id(&self) -> GrantId {
        let mut id = [0; 16];
        id.copy_from_slice(&SecretHash::of(&self.0[..]).as_bytes()[..16]);
        GrantId(id)
    }
}

impl fmt::Debug for GrantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantKey(…)")
    }
}

/// A refresh token in clear: what a client holds.
#[derive(Debug, Clone)]
pub struct RefreshToken {
    key: GrantKey,
    generation: u32,
    secret: Zeroizing<[u8; 32]>,
}

impl RefreshToken {
    /// The first token of a grant.
    pub fn first(key: GrantKey, random: [u8; 32]) -> Self {
        Self { key, generation: 0, secret: Zeroizing::new(random) }
    }

    /// The token that follows this one.
    #[must_use]
    pub fn next(&self, random: [u8; 32]) -> Self {
        let generation = self.generation.saturating_add(1);
        Self { key: self.key.clone(), generation, secret: Zeroizing::new(random) }
    }

    /// Reads a token; `None` for anything that was never one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: Zeroizing<[u8; 52]> = Zeroizing::new(from_base64url(text.strip_prefix(PREFIX)?)?.try_into().ok()?);
        let (key, rest) = bytes.split_at(16);
        let (generation, secret) = rest.split_at(4);
        Some(Self {
            key: GrantKey::from_random(key.try_into().ok()?),
            generation: u32::from_be_bytes(generation.try_into().ok()?),
            secret: Zeroizing::new(secret.try_into().ok()?),
        })
    }

    /// The token on the wire.
    pub fn to_wire(&self) -> Secret {
        let bytes = [&self.key.0[..], &self.generation.to_be_bytes(), &self.secret[..]].concat();
        Secret::new(format!("{PREFIX}{}", base64url(&bytes)))
    }

    /// The grant that it belongs to, if it is genuine.
    pub fn grant(&self) -> GrantId {
        self.key.id()
    }

    /// What the grant keeps of it.
    pub fn hash(&self) -> SecretHash {
        self.to_wire().hash()
    }
}

/// The refresh token in force of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    /// How often it was rotated.
    pub generation: u32,
    /// Of the token in force.
    pub current: SecretHash,
    /// When the token in force stops working.
    pub expires_at: UnixTime,
}

/// Why a grant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The client revoked its refresh token (RFC 7009).
    Revoked,
    /// Its code was presented again (RFC 6749 §4.1.2).
    CodeReplayed,
    /// A rotated refresh token was presented again (RFC 9700 §4.14.2).
    RefreshReplayed,
    /// The person withdrew consent.
    ConsentWithdrawn,
    /// An operator ended it.
    Administrator,
    /// The person changed their password.
    PasswordChanged,
    /// A backup was restored that does not know what became of it since.
    Restored,
}

/// Whether a grant's tokens work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum GrantState {
    /// They do.
    Active,
    /// They do not any more.
    Ended {
        /// Since when.
        at: UnixTime,
        /// Why.
        why: EndReason,
    },
}

/// What a redeemed code gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its identifier.
    pub id: GrantId,
    /// To whom.
    pub client: ClientId,
    /// About whom.
    pub subject: Subject,
    /// The provider session in which it was given.
    pub session: SessionId,
    /// The scope that was granted: the most that a refresh may ask for (RFC 6749 §6).
    pub scope: Scope,
    /// When the person had signed in.
    pub auth_time: UnixTime,
    /// The context class reached.
    pub acr: String,
    /// The methods used.
    pub amr: Vec<String>,
    /// When the code was redeemed.
    pub created_at: UnixTime,
    /// When the last of its tokens expires.
    pub expires_at: UnixTime,
    /// Whether its tokens work.
    pub state: GrantState,
    /// Set when `offline_access` was granted.
    #[serde(default)]
    pub refresh: Option<Refresh>,
}

/// What presenting a refresh token means (specification, "States and transitions").
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presented {
    /// It is the one in force.
    Current,
    /// It was revoked, or its grant ended otherwise.
    Ended,
    /// It expired.
    Expired,
    /// It was rotated away: somebody else has the newer one. The grant ends.
    Replayed,
    /// It never was a token of this grant and client; nothing changes.
    Unknown,
}

impl Grant {
    /// Whether its tokens work.
    pub fn is_active(&self) -> bool {
        self.state == GrantState::Active
    }

    /// Judges a presented refresh token whose key led to this grant. Another client learns nothing and changes nothing.
    pub fn judge(&self, token: &RefreshToken, client: &ClientId, now: UnixTime) -> Presented {
        let Some(refresh) = self.refresh.as_ref().filter(|_| self.client == *client) else { return Presented::Unknown };
        if !self.is_active() {
            return Presented::Ended;
        }
        if refresh.current == token.hash() {
            return if now < refresh.expires_at { Presented::Current } else { Presented::Expired };
        }
        // The key is right, so whoever made this token has held a genuine one of the family. Not the one in force
        // means an older one: a theft, or a client that lost its newest answer. Either way the family ends.
        Presented::Replayed
    }

    /// The grant after its refresh token was rotated: the next one lives for `lifetime`, the access token that comes with
    /// it for `access_token`.
    #[must_use]
    pub fn rotated(&self, next: &RefreshToken, now: UnixTime, lifetime: Duration, access_token: Duration) -> Self {
        let refresh = Refresh { generation: next.generation, current: next.hash(), expires_at: now.plus(lifetime) };
        let expires_at = self.expires_at.max(refresh.expires_at).max(now.plus(access_token));
        Self { refresh: Some(refresh), expires_at, ..self.clone() }
    }

    /// The grant, ended. An ended one keeps its first reason.
    #[must_use]
    pub fn ended(&self, at: UnixTime, why: EndReason) -> Self {
        let state = if self.is_active() { GrantState::Ended { at, why } } else { self.state };
        Self { state, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_000_000);
    const MONTH: Duration = Duration::from_hours(720);

    fn grant(token: &RefreshToken) -> Grant {
        Grant {
            id: token.grant(),
            client: ClientId::parse("c1").unwrap(),
            subject: Subject::from_random([1; 16]),
            session: SessionId::from_random([2; 16]),
            scope: Scope::all(),
            auth_time: NOW,
            acr: "1".into(),
            amr: vec!["pwd".into()],
            created_at: NOW,
            expires_at: NOW.plus(MONTH),
            state: GrantState::Active,
            refresh: Some(Refresh { generation: 0, current: token.hash(), expires_at: NOW.plus(MONTH) }),
        }
    }

    fn first() -> RefreshToken {
        RefreshToken::first(GrantKey::from_random([3; 16]), [4; 32])
    }

    #[test]
    fn a_token_survives_the_wire() {
        let wire = first().to_wire();
        assert!(wire.expose().starts_with("RT_") && wire.expose().len() == 73);
        let read = RefreshToken::parse(wire.expose()).unwrap();
        assert_eq!((read.grant(), read.hash()), (first().grant(), first().hash()));
        for wrong in ["", "RT_", "RT_AAAA", "xx_AAAA", &wire.expose().to_lowercase()] {
            assert!(RefreshToken::parse(wrong).is_none_or(|token| token.hash() != first().hash()));
        }
    }

    #[test]
    fn a_rotated_token_is_recognised_however_old() {
        let client = ClientId::parse("c1").unwrap();
        let second = first().next([5; 32]);
        let third = second.next([6; 32]);
        let grant = grant(&first()).rotated(&second, NOW, MONTH, MONTH).rotated(&third, NOW, MONTH, MONTH);
        assert_eq!(grant.judge(&third, &client, NOW), Presented::Current);
        assert_eq!(grant.judge(&first(), &client, NOW), Presented::Replayed);
        assert_eq!(grant.judge(&second, &client, NOW), Presented::Replayed);
    }

    #[test]
    fn another_client_learns_and_changes_nothing() {
        let other = ClientId::parse("c2").unwrap();
        assert_eq!(grant(&first()).judge(&first(), &other, NOW), Presented::Unknown);
    }

    #[test]
    fn expiry_and_end_are_told_apart() {
        let client = ClientId::parse("c1").unwrap();
        assert_eq!(grant(&first()).judge(&first(), &client, NOW.plus(MONTH)), Presented::Expired);
        let ended = grant(&first()).ended(NOW, EndReason::Revoked);
        assert_eq!(ended.judge(&first(), &client, NOW), Presented::Ended);
    }
}
