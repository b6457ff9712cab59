//! Entry of a key ring: a key with its times, its holder and its endorsements. The state of the key
//! follows from the times.
//!
//! A node trusts a key of another node if a key in the node's own token has endorsed that key. An
//! attacker with write access to the database can change every record, but cannot create such a
//! signature. Therefore write access does not suffice to add a key to a node's key set.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::oauth::jwk_set::{Algorithm, Numbers};
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
    /// Only algorithm of the key (RFC 7518 §3.1). `None` is RS256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// Endorsements of the key by other keys of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endorsed: Vec<Endorsement>,
}

impl KeyLife {
    pub(super) fn new(kid: &str, holder: Option<&str>, algorithm: Algorithm, now: UnixTime) -> Self {
        Self {
            kid: kid.to_owned(),
            created_at: now,
            published_at: now,
            activate_at: None,
            retire_at: None,
            remove_at: None,
            holder: holder.map(str::to_owned),
            jwk: None,
            // Records of RS256 keys stay as earlier versions wrote them.
            alg: (algorithm != Algorithm::Rs256).then(|| algorithm.name().to_owned()),
            endorsed: Vec::new(),
        }
    }

    /// Returns the name of the key's only algorithm.
    pub fn algorithm_name(&self) -> &str {
        self.alg.as_deref().unwrap_or(Algorithm::Rs256.name())
    }

    /// Returns whether the key is for this algorithm. A key is for one algorithm only.
    pub fn is_for(&self, algorithm: Algorithm) -> bool {
        self.algorithm_name() == algorithm.name()
    }

    /// Returns the holder and the algorithm. Keys with the same values replace one another.
    pub(super) fn line(&self) -> (Option<String>, String) {
        (self.holder.clone(), self.algorithm_name().to_owned())
    }

    /// Removes the public parameters and the endorsements. The algorithm stays.
    pub(super) fn strip(&mut self) {
        if self.is_for(Algorithm::Rs256) {
            self.alg = None;
        }
        self.jwk = None;
        self.endorsed.clear();
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

/// Public members of a key in a ring (RFC 7518 §6, RFC 8037 §2). They may be invalid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicJwk {
    kty: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    n: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    e: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    crv: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    x: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    y: String,
}

impl PublicJwk {
    fn empty(kty: &str, crv: &str) -> Self {
        let [n, e, x, y] = std::array::from_fn(|_| String::new());
        Self { kty: kty.to_owned(), n, e, crv: crv.to_owned(), x, y }
    }

    /// Creates an RSA key from a modulus and an exponent, both encoded as in a JWK.
    pub fn rsa(n: &str, e: &str) -> Self {
        Self { n: n.to_owned(), e: e.to_owned(), ..Self::empty("RSA", "") }
    }

    /// Creates a key on P-256 from its coordinates, both encoded as in a JWK.
    pub fn p256(x: &str, y: &str) -> Self {
        Self { x: x.to_owned(), y: y.to_owned(), ..Self::empty("EC", "P-256") }
    }

    /// Creates a key on Ed25519, encoded as in a JWK.
    pub fn ed25519(x: &str) -> Self {
        Self { x: x.to_owned(), ..Self::empty("OKP", "Ed25519") }
    }

    /// Returns the input of the thumbprint (RFC 7638 §3, RFC 8037 §2). Returns `None` if the
    /// members are not those of a known key type, or contain invalid characters.
    pub fn canonical(&self) -> Option<String> {
        self.numbers()?;
        let Self { kty, n, e, crv, x, y } = self;
        Some(match kty.as_str() {
            "RSA" => format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#),
            "EC" => format!(r#"{{"crv":"{crv}","kty":"EC","x":"{x}","y":"{y}"}}"#),
            _ => format!(r#"{{"crv":"{crv}","kty":"OKP","x":"{x}"}}"#),
        })
    }

    /// Returns the RFC 7638 thumbprint, which is the kid.
    pub fn thumbprint(&self) -> Option<String> {
        Some(base64url(&Sha256::digest(self.canonical()?)))
    }

    /// Returns the modulus and the exponent of an RSA key, big-endian.
    pub fn components(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        match self.numbers()? {
            Numbers::Rsa { n, e } => Some((n, e)),
            Numbers::P256(_) | Numbers::Ed25519(_) => None,
        }
    }

    /// Returns the decoded members. Returns `None` if they are not those of a known key type.
    pub fn numbers(&self) -> Option<Numbers> {
        let coordinate = |text: &str| from_base64url(text).filter(|bytes| bytes.len() == 32);
        match (self.kty.as_str(), self.crv.as_str()) {
            ("RSA", "") => Some(Numbers::Rsa { n: from_base64url(&self.n)?, e: from_base64url(&self.e)? }),
            ("EC", "P-256") => Some(Numbers::P256([vec![4], coordinate(&self.x)?, coordinate(&self.y)?].concat())),
            ("OKP", "Ed25519") => Some(Numbers::Ed25519(coordinate(&self.x)?)),
            _ => None,
        }
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
/// has no holder, an unknown algorithm, or a key that is not for it or whose thumbprint is not its kid.
pub fn statement(life: &KeyLife, issuer: &str) -> Option<Vec<u8>> {
    let holder = life.holder.as_deref().filter(|holder| !holder.is_empty() && !holder.chars().any(char::is_control))?;
    let jwk = life.jwk.as_ref()?;
    let algorithm = life.alg.as_deref().and_then(Algorithm::parse).filter(|algorithm| life.is_for(*algorithm))?;
    if jwk.thumbprint().as_ref() != Some(&life.kid) || !jwk.numbers()?.are_for(algorithm) {
        return None;
    }
    // No part contains a line break, so the text is unambiguous.
    let lines = [PURPOSE, issuer, holder, &life.kid, algorithm.name(), &jwk.canonical()?];
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

    /// Returns whether the key `by` has endorsed the entry `life`. Only RS256 keys endorse, because
    /// every node has one.
    pub(super) fn endorses(&self, by: &KeyLife, life: &KeyLife) -> bool {
        if !by.is_for(Algorithm::Rs256) {
            return false;
        }
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
