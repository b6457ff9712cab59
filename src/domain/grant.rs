//! Grants. A grant results from a redeemed code and exists as long as its tokens may be used.
//!
//! A grant and all its refresh tokens (a "family", RFC 9700 §4.14.2) are one record. A refresh
//! token is `RT_` and base64url of `key ‖ generation ‖ secret`. The grant's id is a hash of the
//! key. Therefore:
//! - The id in access tokens reveals nothing about the key.
//! - A forged token matches no record. Only a party that has held a genuine token of the family can
//!   end the family.
//! - A genuine token of any earlier generation is recognised without a record of its own.
//!
//! A client that did not receive an answer still has the parent of the current token. Within the
//! retry window, or while the answer is doubtful ([`crate::answers`]), the client receives the
//! current token again. The secret of a token is a hash of its parent's secret and a random salt.
//! The record contains only the salt, so deriving the token needs both the parent and the record.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::answers::{REPEAT_WINDOW, RotationId};
use crate::client::ClientId;
use crate::id::Id;
use crate::resource::ResourceAccess;
use crate::scope::Scope;
use crate::secret::{Secret, SecretHash, base64url, base64url_bytes, from_base64url};
use crate::session::SessionId;
use crate::time::UnixTime;
use crate::user::Subject;

const PREFIX: &str = "RT_";

/// Public identifier of a grant.
pub type GrantId = Id<'g'>;

/// Secret part that all refresh tokens of a grant have in common. It identifies the grant.
#[derive(Clone)]
pub struct GrantKey(Zeroizing<[u8; 16]>);

impl GrantKey {
    /// Creates the key from random bytes.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the grant's public identifier.
    pub fn id(&self) -> GrantId {
        let mut id = [0; 16];
        id.copy_from_slice(&SecretHash::for_secret(&self.0[..]).as_bytes()[..16]);
        GrantId::from_bytes(id)
    }
}

impl fmt::Debug for GrantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantKey(…)")
    }
}

/// Refresh token in clear text, as the client has it.
#[derive(Debug, Clone)]
pub struct RefreshToken {
    key: GrantKey,
    generation: u32,
    secret: Zeroizing<[u8; 32]>,
}

impl RefreshToken {
    /// Creates the first token of a grant.
    pub fn first(key: GrantKey, random: [u8; 32]) -> Self {
        Self { key, generation: 0, secret: Zeroizing::new(random) }
    }

    /// Derives the next token. The same salt gives the same token.
    #[must_use]
    pub fn next(&self, salt: &Salt) -> Self {
        // All parts have a fixed length, and the hash is never disclosed, so SHA-256 suffices
        // without HMAC.
        let parts = Zeroizing::new([b"sealgate refresh child", &self.secret[..], &salt.0].concat());
        let generation = self.generation.saturating_add(1);
        Self { key: self.key.clone(), generation, secret: Zeroizing::new(*SecretHash::for_secret(&parts).as_bytes()) }
    }

    /// Parses a token. Returns `None` if the format is invalid.
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

    /// Returns the token as sent to the client.
    pub fn to_wire(&self) -> Secret {
        let bytes = [&self.key.0[..], &self.generation.to_be_bytes(), &self.secret[..]].concat();
        Secret::new(format!("{PREFIX}{}", base64url(&bytes)))
    }

    /// Returns the id of the grant that the token claims to belong to.
    pub fn grant(&self) -> GrantId {
        self.key.id()
    }

    /// Returns the hash that the grant stores.
    pub fn hash(&self) -> SecretHash {
        self.to_wire().hash()
    }
}

/// Random input for the derivation of a refresh token from its parent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Salt(#[serde(with = "base64url_bytes")] [u8; 32]);

impl Salt {
    /// Creates the salt from random bytes.
    pub const fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(…)")
    }
}

/// Parent of the current refresh token. With the parent, the client may request the current token
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub hash: SecretHash,
    pub salt: Salt,
    pub rotated_at: UnixTime,
    /// Id of the latest response that returned the current token. `None` in records that an older
    /// version of Sealgate wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<RotationId>,
}

/// Current refresh token of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    pub generation: u32,
    pub current: SecretHash,
    /// Expiry of the current token.
    pub expires_at: UnixTime,
    /// Parent of the current token, until the current token is rotated. Older versions stored the
    /// parent only for clients with a retry window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
}

/// Reason why a grant has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The client revoked its refresh token (RFC 7009), or the user signed out everywhere else.
    Revoked,
    /// The code of the grant was presented again (RFC 6749 §4.1.2).
    CodeReplayed,
    /// A rotated refresh token was presented again (RFC 9700 §4.14.2).
    RefreshReplayed,
    ConsentWithdrawn,
    Administrator,
    PasswordChanged,
    /// The user's source disabled or removed the account.
    Source,
    /// A backup was restored, so changes of the grant after the backup are unknown.
    Restored,
}

/// State of a grant: whether its tokens are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum GrantState {
    Active,
    /// The tokens are no longer valid.
    Ended {
        at: UnixTime,
        why: EndReason,
    },
}

/// Authorization of a client by a user, from an authorization code. Or the permission of a client to
/// act in its own name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    pub client: ClientId,
    pub subject: Subject,
    /// Session at the provider in which the user authorized the client.
    pub session: SessionId,
    /// Granted scope. A refresh can only request a part of it (RFC 6749 §6).
    pub scope: Scope,
    /// Resource of the tokens, and its granted scopes. `None` if the issuer is their audience.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceAccess>,
    pub auth_time: UnixTime,
    pub acr: String,
    pub amr: Vec<String>,
    pub created_at: UnixTime,
    /// Time at which the last token of the grant expires.
    pub expires_at: UnixTime,
    pub state: GrantState,
    /// Refresh token, if `offline_access` was granted.
    #[serde(default)]
    pub refresh: Option<Refresh>,
    /// Whether the client gets tokens in its own name ([`crate::service`]). `subject` is then no user,
    /// and `session` no session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_service: bool,
}

/// Classification of a presented refresh token (RFC 6749 §6, RFC 9700 §4.14.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresentedToken {
    Current,
    /// The parent of the current token, within the retry window. The current token is derived again
    /// with this salt.
    Again(Salt),
    /// The parent, after the retry window. If the last answer was doubtful, the current token is
    /// sent again. If the answer was in time, the grant ends.
    Parent(Salt, RotationId),
    /// The grant has ended.
    Ended,
    Expired,
    /// A token older than the parent. The grant ends, because another party may have the newer
    /// tokens.
    Replayed,
    /// Not a token of this grant or client. The grant is unchanged.
    Unknown,
}

impl Grant {
    /// Returns whether the tokens of the grant are valid, unless they have expired.
    pub fn is_active(&self) -> bool {
        self.state == GrantState::Active
    }

    /// Classifies a presented refresh token whose key belongs to this grant.
    ///
    /// Returns `Unknown` for a client that does not own the grant. `retry` is the retry window
    /// after a rotation. Zero means that there is no retry window.
    pub fn judge(&self, token: &RefreshToken, client: &ClientId, retry: Duration, now: UnixTime) -> PresentedToken {
        let Some(refresh) = self.refresh.as_ref().filter(|_| self.client == *client) else {
            return PresentedToken::Unknown;
        };
        if !self.is_active() {
            return PresentedToken::Ended;
        }
        let hash = token.hash();
        if refresh.current == hash {
            return if now < refresh.expires_at { PresentedToken::Current } else { PresentedToken::Expired };
        }
        let parent = refresh.parent.as_ref().filter(|parent| parent.hash == hash);
        if let Some(parent) = parent.filter(|parent| now < parent.rotated_at.plus(retry) && now < refresh.expires_at) {
            return PresentedToken::Again(parent.salt.clone());
        }
        if let Some(parent) =
            parent.filter(|parent| now < parent.rotated_at.plus(REPEAT_WINDOW) && now < refresh.expires_at)
            && let Some(answer) = &parent.answer
        {
            return PresentedToken::Parent(parent.salt.clone(), answer.clone());
        }
        // The key is correct, so the sender has held a genuine token of the family. That token is
        // older than the parent. Either it was stolen, or the client lost several answers. The
        // grant ends in both cases.
        PresentedToken::Replayed
    }

    /// Returns the time of the last rotation, if known.
    pub fn rotated_at(&self) -> Option<UnixTime> {
        self.refresh.as_ref()?.parent.as_ref().map(|parent| parent.rotated_at)
    }

    /// Returns the grant after `answer` has sent the current token again. The time of the rotation
    /// is unchanged.
    #[must_use]
    pub fn given_again(&self, answer: RotationId) -> Self {
        let mut grant = self.clone();
        if let Some(parent) = grant.refresh.as_mut().and_then(|refresh| refresh.parent.as_mut()) {
            parent.answer = Some(answer);
        }
        grant
    }

    /// Returns the grant after a rotation to a token that expires after `lifetime`.
    #[must_use]
    pub fn rotated(&self, next: &RefreshToken, parent: Option<Parent>, now: UnixTime, lifetime: Duration) -> Self {
        let (generation, current, expires_at) = (next.generation, next.hash(), now.plus(lifetime));
        let refresh = Refresh { generation, current, expires_at, parent };
        Self { refresh: Some(refresh), ..self.clone() }.living_until(expires_at)
    }

    /// Returns the grant with its expiry extended to `then`, unless the grant already expires
    /// later. The caller has issued a token that expires at `then`.
    #[must_use]
    pub fn living_until(mut self, then: UnixTime) -> Self {
        self.expires_at = self.expires_at.max(then);
        self
    }

    /// Returns the ended grant. A grant that has already ended keeps its first reason.
    #[must_use]
    pub fn ended(&self, at: UnixTime, why: EndReason) -> Self {
        let state = if self.is_active() { GrantState::Ended { at, why } } else { self.state };
        Self { state, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::ProcessId;

    const NOW: UnixTime = UnixTime::from_seconds(1_000_000);
    const MONTH: Duration = Duration::from_hours(720);

    fn grant(token: &RefreshToken) -> Grant {
        Grant {
            id: token.grant(),
            client: ClientId::parse("c1").unwrap(),
            subject: Subject::from_random([1; 16]),
            session: SessionId::from_bytes([2; 16]),
            scope: Scope::all(),
            resource: None,
            auth_time: NOW,
            acr: "1".into(),
            amr: vec!["pwd".into()],
            created_at: NOW,
            expires_at: NOW.plus(MONTH),
            state: GrantState::Active,
            refresh: Some(Refresh { generation: 0, current: token.hash(), expires_at: NOW.plus(MONTH), parent: None }),
            is_service: false,
        }
    }

    fn first() -> RefreshToken {
        RefreshToken::first(GrantKey::from_random([3; 16]), [4; 32])
    }

    #[test]
    fn a_token_is_unchanged_after_writing_and_parsing() {
        let wire = first().to_wire();
        assert!(wire.expose().starts_with("RT_") && wire.expose().len() == 73);
        let read = RefreshToken::parse(wire.expose()).unwrap();
        assert_eq!((read.grant(), read.hash()), (first().grant(), first().hash()));
        for wrong in ["", "RT_", "RT_AAAA", "xx_AAAA", &wire.expose().to_lowercase()] {
            assert!(RefreshToken::parse(wrong).is_none_or(|token| token.hash() != first().hash()));
        }
    }

    #[test]
    fn a_rotated_token_of_any_age_is_recognised() {
        let client = ClientId::parse("c1").unwrap();
        let second = first().next(&Salt::from_random([5; 32]));
        let third = second.next(&Salt::from_random([6; 32]));
        let grant = grant(&first()).rotated(&second, None, NOW, MONTH).rotated(&third, None, NOW, MONTH);
        assert_eq!(grant.judge(&third, &client, MONTH, NOW), PresentedToken::Current);
        assert_eq!(grant.judge(&first(), &client, MONTH, NOW), PresentedToken::Replayed);
        assert_eq!(grant.judge(&second, &client, MONTH, NOW), PresentedToken::Replayed);
    }

    #[test]
    fn a_parent_returns_the_same_child_within_the_window_until_it_is_used() {
        let client = ClientId::parse("c1").unwrap();
        let (salt, window) = (Salt::from_random([5; 32]), Duration::from_secs(10));
        let second = first().next(&salt);
        let parent =
            |token: &RefreshToken| Parent { hash: token.hash(), salt: salt.clone(), rotated_at: NOW, answer: None };
        let grant = grant(&first()).rotated(&second, Some(parent(&first())), NOW, MONTH);
        let at = |seconds| NOW.plus(Duration::from_secs(seconds));
        assert_eq!(grant.judge(&first(), &client, window, at(9)), PresentedToken::Again(salt.clone()));
        assert_eq!(first().next(&salt).hash(), second.hash());
        assert_eq!(grant.judge(&first(), &client, window, at(10)), PresentedToken::Replayed);
        assert_eq!(grant.judge(&first(), &client, Duration::ZERO, NOW), PresentedToken::Replayed);
        let third = second.next(&salt);
        let used = grant.rotated(&third, Some(parent(&second)), NOW, MONTH);
        assert_eq!(used.judge(&first(), &client, window, NOW), PresentedToken::Replayed);
        assert_eq!(used.judge(&second, &client, window, NOW), PresentedToken::Again(salt.clone()));
    }

    #[test]
    fn a_parent_outside_the_retry_window_depends_on_its_answer_for_a_minute() {
        let client = ClientId::parse("c1").unwrap();
        let salt = Salt::from_random([5; 32]);
        let answer = |number| RotationId { process: ProcessId::from_bytes([9; 16]), number, at: NOW };
        let second = first().next(&salt);
        let parent = |token: &RefreshToken| Parent {
            hash: token.hash(),
            salt: salt.clone(),
            rotated_at: NOW,
            answer: Some(answer(1)),
        };
        let rotated = grant(&first()).rotated(&second, Some(parent(&first())), NOW, MONTH);
        let at = |seconds| NOW.plus(Duration::from_secs(seconds));
        let judged = |grant: &Grant, now| grant.judge(&first(), &client, Duration::ZERO, now);
        assert_eq!(judged(&rotated, at(59)), PresentedToken::Parent(salt.clone(), answer(1)));
        assert_eq!(judged(&rotated, at(60)), PresentedToken::Replayed);
        assert_eq!(judged(&rotated.given_again(answer(2)), at(59)), PresentedToken::Parent(salt.clone(), answer(2)));
        assert_eq!(judged(&rotated.given_again(answer(2)), at(60)), PresentedToken::Replayed);
        let used = rotated.rotated(&second.next(&salt), Some(parent(&second)), NOW, MONTH);
        assert_eq!(judged(&used, NOW), PresentedToken::Replayed);
        let short = grant(&first()).rotated(&second, Some(parent(&first())), NOW, Duration::from_secs(5));
        assert_eq!(judged(&short, at(5)), PresentedToken::Replayed);
    }

    /// If the salt were not needed, an attacker with an old token could compute the current token
    /// without the server.
    #[test]
    fn a_child_cannot_be_derived_without_the_salt() {
        let child = |salt| first().next(&Salt::from_random([salt; 32])).hash();
        assert_ne!(child(5), child(6));
        assert!(!format!("{:?}", Salt::from_random([5; 32])).contains('5'));
    }

    #[test]
    fn another_client_learns_and_changes_nothing() {
        let other = ClientId::parse("c2").unwrap();
        assert_eq!(grant(&first()).judge(&first(), &other, MONTH, NOW), PresentedToken::Unknown);
    }

    #[test]
    fn expiry_and_revocation_are_distinguished() {
        let client = ClientId::parse("c1").unwrap();
        assert_eq!(grant(&first()).judge(&first(), &client, MONTH, NOW.plus(MONTH)), PresentedToken::Expired);
        let ended = grant(&first()).ended(NOW, EndReason::Revoked);
        assert_eq!(ended.judge(&first(), &client, MONTH, NOW), PresentedToken::Ended);
    }
}
