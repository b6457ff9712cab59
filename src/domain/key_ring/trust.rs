//! Trust in other nodes' keys: a node trusts a key if a key in its own token has endorsed it. An
//! attacker with write access to the database can change every record but cannot create such a
//! signature, so the database alone cannot add a key to a node's key set.

use super::KeyLife;
use super::endorsement::PublicJwk;
use crate::secret::from_base64url;

/// Prefix of signatures about keys. A JWS signing input contains no space or line break (RFC 7515
/// §5.1), so such a signature is never valid for a token, and vice versa.
const PURPOSE: &str = "sealgate key";

/// The only algorithm of nodes' keys.
pub(super) const ALGORITHM: &str = "RS256";

/// A node with its own PKCS#11 token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// Its name, `cluster.node`.
    pub node: String,
    /// The issuer that the keys belong to. It comes from the node's own configuration, never from
    /// the database, so that a signature for one cluster is invalid in another that uses the same
    /// token.
    pub issuer: String,
}

/// Returns the statement to sign about a key: the issuer, the holder and the key. `None` if the
/// entry has no holder, another algorithm, or a key whose thumbprint is not its kid.
pub fn statement(life: &KeyLife, issuer: &str) -> Option<Vec<u8>> {
    let holder = life.holder.as_deref().filter(|holder| !holder.is_empty() && !holder.chars().any(char::is_control))?;
    let jwk = life.jwk.as_ref()?;
    if life.alg.as_deref() != Some(ALGORITHM) || jwk.thumbprint().as_ref() != Some(&life.kid) {
        return None;
    }
    // No part contains a line break, so the parts are unambiguous.
    let lines = [PURPOSE, issuer, holder, &life.kid, ALGORITHM, &jwk.canonical()?];
    Some(lines.join("\n").into_bytes())
}

/// Whether a key has signed a message.
pub(crate) type Verify<'a> = dyn Fn(&PublicJwk, &[u8], &[u8]) -> bool + 'a;

/// Input for a node's trust decisions about the keys of a ring.
pub struct Trust<'a> {
    pub holder: &'a TokenHolder,
    /// Whether the node's token has a key with this kid.
    pub in_token: &'a dyn Fn(&str) -> bool,
    pub verify: &'a Verify<'a>,
}

impl Trust<'_> {
    /// Reports whether the key is in the node's own token.
    pub(super) fn is_own(&self, life: &KeyLife) -> bool {
        self.has_own_name(life) && (self.in_token)(&life.kid)
    }

    /// Reports whether the ring lists the key as this node's own. If it is not in the token, it is
    /// not trusted.
    pub(super) fn has_own_name(&self, life: &KeyLife) -> bool {
        life.holder.as_ref() == Some(&self.holder.node)
    }

    /// Reports whether one key has endorsed the other's entry.
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
