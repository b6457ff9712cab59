//! Entry of a key ring: a key with its times, its holder and its endorsements. The state of the key
//! follows from the times.
//!
//! A node trusts a key of another node if a key in the node's own token has endorsed that key. An
//! attacker with write access to the database can change every record, but cannot create such a
//! signature. Therefore write access does not suffice to add a key to a node's key set.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::secret::{base64url, from_base64url};
use crate::time::UnixTime;

/// State of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// Published but not signing yet, so that verifiers know the key before it signs.
    PrePublished,
    Active,
    /// Published but no longer signing, so that verifiers accept its earlier signatures.
    Retired,
    /// Neither published nor signing. Its signatures are rejected.
    Removed,
}

/// Key in a ring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLife {
    /// RFC 7638 thumbprint of the key.
    pub kid: String,
    pub created_at: UnixTime,
    pub published_at: UnixTime,
    /// Time at which the key begins to sign. `None` if it is not scheduled.
    pub activate_at: Option<UnixTime>,
    /// Time at which another key begins to sign instead.
    pub retire_at: Option<UnixTime>,
    /// Time at which the key is no longer published.
    pub remove_at: Option<UnixTime>,
    /// Node whose own token contains the key. `None` if all nodes share a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Public parameters of the key, for nodes whose tokens do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwk: Option<PublicJwk>,
    /// Signature algorithm of the key (RFC 7518 §3.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// Endorsements of the key by other keys of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endorsed: Vec<Endorsement>,
}

impl KeyLife {
    pub(super) fn new(kid: &str, holder: Option<&str>, now: UnixTime) -> Self {
        Self {
            kid: kid.to_owned(),
            created_at: now,
            published_at: now,
            activate_at: None,
            retire_at: None,
            remove_at: None,
            holder: holder.map(str::to_owned),
            jwk: None,
            alg: None,
            endorsed: Vec::new(),
        }
    }

    /// Returns the state at an instant of the ring's own time (`KeyRing::at`).
    pub(super) fn state(&self, now: UnixTime) -> KeyState {
        let come = |at: Option<UnixTime>| at.is_some_and(|at| at <= now);
        match () {
            () if come(self.remove_at) => KeyState::Removed,
            () if come(self.retire_at) => KeyState::Retired,
            () if come(self.activate_at) => KeyState::Active,
            () => KeyState::PrePublished,
        }
    }

    /// Returns whether the key is scheduled to sign at a time in the future.
    pub(super) fn is_scheduled(&self, now: UnixTime) -> bool {
        self.state(now) == KeyState::PrePublished && self.activate_at.is_some()
    }

    pub(super) fn retire(&mut self, at: UnixTime, times: KeyTimes) {
        self.retire_at = Some(at);
        self.remove_at = Some(at.plus(times.keep));
    }
}

/// Durations of the states of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KeyTimes {
    /// Time from publication to the first signature. It must cover the maximum cache time of the
    /// JWK set and the difference between clocks.
    pub publish: Duration,
    /// Time from the last signature to removal. It must cover the maximum lifetime of a token and
    /// the difference between clocks.
    pub keep: Duration,
}

/// Public members of an RSA key in a ring (RFC 7518 §6.3.1). They may be invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicJwk {
    kty: String,
    n: String,
    e: String,
}

impl PublicJwk {
    /// Creates the key from a modulus and an exponent, both encoded as in a JWK.
    pub fn rsa(n: &str, e: &str) -> Self {
        Self { kty: "RSA".to_owned(), n: n.to_owned(), e: e.to_owned() }
    }

    /// Returns the input of the thumbprint (RFC 7638 §3). Returns `None` if the members are not
    /// those of an RSA key or contain invalid characters.
    pub fn canonical(&self) -> Option<String> {
        self.components()?;
        (self.kty == "RSA").then(|| format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, self.e, self.n))
    }

    /// Returns the RFC 7638 thumbprint, which is the kid.
    pub fn thumbprint(&self) -> Option<String> {
        Some(base64url(&Sha256::digest(self.canonical()?)))
    }

    /// Returns the modulus and the exponent, big-endian.
    pub fn components(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((from_base64url(&self.n)?, from_base64url(&self.e)?))
    }
}

/// Signature of one key about another key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endorsement {
    /// kid of the key that signed.
    pub by: String,
    /// Signature of [`crate::key_ring::statement`], base64url.
    pub signature: String,
}

/// Prefix of statements about keys. A JWS signing input contains no space or line break (RFC 7515
/// §5.1), so the signature of a statement is never valid for a JWT, and vice versa.
const PURPOSE: &str = "sealgate key";

/// Signature algorithm of all nodes' keys.
pub(super) const ALGORITHM: &str = "RS256";

/// Node with its own PKCS#11 token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// Name of the node, `cluster.node`.
    pub node: String,
    /// Issuer of the cluster. It comes from the node's configuration and not from the database. A
    /// signature for one cluster is therefore invalid in another cluster that uses the same token.
    pub issuer: String,
}

/// Returns the statement about a key to sign: issuer, holder and key. Returns `None` if the entry
/// has no holder, another algorithm, or a key whose thumbprint is not its kid.
pub fn statement(life: &KeyLife, issuer: &str) -> Option<Vec<u8>> {
    let holder = life.holder.as_deref().filter(|holder| !holder.is_empty() && !holder.chars().any(char::is_control))?;
    let jwk = life.jwk.as_ref()?;
    if life.alg.as_deref() != Some(ALGORITHM) || jwk.thumbprint().as_ref() != Some(&life.kid) {
        return None;
    }
    // No part contains a line break, so the text is unambiguous.
    let lines = [PURPOSE, issuer, holder, &life.kid, ALGORITHM, &jwk.canonical()?];
    Some(lines.join("\n").into_bytes())
}

/// Function that returns whether a key has signed a message.
pub(crate) type Verify<'a> = dyn Fn(&PublicJwk, &[u8], &[u8]) -> bool + 'a;

/// Inputs with which a node decides which keys of a ring to trust.
pub struct Trust<'a> {
    pub holder: &'a TokenHolder,
    /// Returns whether the node's token has a key with this kid.
    pub in_token: &'a dyn Fn(&str) -> bool,
    pub verify: &'a Verify<'a>,
}

impl Trust<'_> {
    /// Returns whether the key is in the node's own token.
    pub(super) fn is_own(&self, life: &KeyLife) -> bool {
        self.has_own_name(life) && (self.in_token)(&life.kid)
    }

    /// Returns whether the ring lists the key under this node's name. Such a key is trusted only if
    /// it is in the token.
    pub(super) fn has_own_name(&self, life: &KeyLife) -> bool {
        life.holder.as_ref() == Some(&self.holder.node)
    }

    /// Returns whether the key `by` has endorsed the entry `life`.
    pub(super) fn endorses(&self, by: &KeyLife, life: &KeyLife) -> bool {
        let Some(jwk) = by.jwk.as_ref().filter(|jwk| jwk.thumbprint().as_ref() == Some(&by.kid)) else { return false };
        let mut signed = life.endorsed.iter().filter(|endorsement| endorsement.by == by.kid).peekable();
        // Compute thumbprints and verify signatures only if there is an endorsement.
        if signed.peek().is_none() {
            return false;
        }
        let Some(statement) = statement(life, &self.holder.issuer) else { return false };
        signed.any(|endorsement| {
            let signature = from_base64url(&endorsement.signature);
            signature.is_some_and(|signature| (self.verify)(jwk, &statement, &signature))
        })
    }
}
