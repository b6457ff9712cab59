//! Why a node believes that another node's key is one: a key in its own token has signed that it is. Whoever writes the
//! database can change every record and make no such signature; so no key comes into a node's key set by the database's word
//! alone.

use super::KeyLife;
use super::endorsement::PublicJwk;
use crate::domain::secret::from_base64url;

/// What signatures about keys begin with. No JWS signing input has a blank or a line break (RFC 7515 §5.1), so that none of
/// them is a token, and no token is one of them.
const PURPOSE: &str = "sealgate key";

/// The one algorithm that keys of nodes have.
pub(super) const ALGORITHM: &str = "RS256";

/// A node with a PKCS#11 token of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// Its name, `fleet.node`.
    pub node: String,
    /// The issuer whose keys they are. It comes from the node's own configuration, never from the database, so that what was
    /// signed for one fleet is nothing in another one that uses the same token.
    pub issuer: String,
}

/// What is signed about a key: for which issuer, whose it is, which it is. `None` where the entry names no holder, another
/// algorithm, or a key whose thumbprint is not its kid.
pub fn statement(life: &KeyLife, issuer: &str) -> Option<Vec<u8>> {
    let holder = life.holder.as_deref().filter(|holder| !holder.is_empty() && !holder.chars().any(char::is_control))?;
    let jwk = life.jwk.as_ref()?;
    if life.alg.as_deref() != Some(ALGORITHM) || jwk.thumbprint().as_ref() != Some(&life.kid) {
        return None;
    }
    // No part has a line break: none can pass for another.
    let lines = [PURPOSE, issuer, holder, &life.kid, ALGORITHM, &jwk.canonical()?];
    Some(lines.join("\n").into_bytes())
}

/// Whether a key has signed a message.
pub type Verify<'a> = dyn Fn(&PublicJwk, &[u8], &[u8]) -> bool + 'a;

/// By what a node judges the keys of a ring.
pub struct Trust<'a> {
    pub holder: &'a TokenHolder,
    /// Whether a key with this kid is in its token.
    pub in_token: &'a dyn Fn(&str) -> bool,
    pub verify: &'a Verify<'a>,
}

impl Trust<'_> {
    /// Whether the key is one of its own token.
    pub(super) fn is_own(&self, life: &KeyLife) -> bool {
        self.has_own_name(life) && (self.in_token)(&life.kid)
    }

    /// Whether the key is said to be its own. One that is not in its token is nobody's.
    pub(super) fn has_own_name(&self, life: &KeyLife) -> bool {
        life.holder.as_ref() == Some(&self.holder.node)
    }

    /// Whether the one key has signed what the other's entry says.
    pub(super) fn endorses(&self, by: &KeyLife, life: &KeyLife) -> bool {
        let Some(jwk) = by.jwk.as_ref().filter(|jwk| jwk.thumbprint().as_ref() == Some(&by.kid)) else { return false };
        let mut signed = life.endorsed.iter().filter(|endorsement| endorsement.by == by.kid).peekable();
        // Thumbprints and signatures only where somebody claims one.
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
