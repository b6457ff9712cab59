//! Signature algorithms for tokens of other issuers (RFC 7518 §3.1, RFC 8037 §3.1).
//!
//! `none` and the symmetric algorithms have no variant, so that they cannot be configured or used.

/// Signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// `EdDSA` on Ed25519, the only supported curve.
    EdDsa,
}

impl Algorithm {
    /// All algorithms with their names in configuration and tokens.
    pub const ALL: [(&'static str, Self); 4] =
        [("RS256", Self::Rs256), ("PS256", Self::Ps256), ("ES256", Self::Es256), ("EdDSA", Self::EdDsa)];

    /// Parses the `alg` of a token or key. It is case-sensitive (RFC 7515 §4.1.1).
    pub fn parse(text: &str) -> Option<Self> {
        // RFC 9864 names the curve.
        let text = if text == "Ed25519" { "EdDSA" } else { text };
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, algorithm)| *algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_four_have_a_name() {
        for (name, algorithm) in Algorithm::ALL {
            assert_eq!(Algorithm::parse(name), Some(algorithm));
        }
        assert_eq!(Algorithm::parse("Ed25519"), Some(Algorithm::EdDsa));
        for name in
            ["none", "None", "", "HS256", "HS512", "rs256", "RS256 ", "RS384", "RS1", "ES256K", "ES384", "Ed448"]
        {
            assert_eq!(Algorithm::parse(name), None, "{name}");
        }
    }
}
