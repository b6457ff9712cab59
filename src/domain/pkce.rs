//! Proof Key for Code Exchange (RFC 7636).

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::secret::{Secret, base64url, constant_time_eq, from_base64url};

/// How a challenge is derived from its verifier (RFC 7636 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChallengeMethod {
    /// base64url of the verifier's SHA-256.
    S256,
    #[serde(rename = "plain")]
    Plain,
}

impl ChallengeMethod {
    /// Parses `code_challenge_method`. The names are case-sensitive.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "S256" => Some(Self::S256),
            "plain" => Some(Self::Plain),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::S256 => "S256",
            Self::Plain => "plain",
        }
    }
}

/// Well-formed `code_challenge` with its method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeChallenge {
    method: ChallengeMethod,
    value: String,
}

impl CodeChallenge {
    /// Parses a challenge. An S256 challenge has 43 characters of base64url, and a plain challenge
    /// is a well-formed verifier.
    ///
    /// Returns `None` for a challenge that no verifier can match.
    pub fn parse(value: &str, method: ChallengeMethod) -> Option<Self> {
        let well_formed = match method {
            ChallengeMethod::S256 => from_base64url(value).is_some_and(|hash| hash.len() == 32),
            ChallengeMethod::Plain => is_verifier(value),
        };
        well_formed.then(|| Self { method, value: value.to_owned() })
    }

    /// Returns `code_challenge` and `code_challenge_method`.
    pub(crate) fn parameters(&self) -> (&str, ChallengeMethod) {
        (&self.value, self.method)
    }

    /// Returns whether this challenge was derived from the verifier (RFC 7636 §4.6).
    pub(crate) fn is_met_by(&self, verifier: &CodeVerifier) -> bool {
        let computed = match self.method {
            ChallengeMethod::S256 => base64url(&Sha256::digest(verifier.0.expose().as_bytes())),
            ChallengeMethod::Plain => verifier.0.expose().to_owned(),
        };
        constant_time_eq(&computed, &self.value)
    }
}

/// `code_verifier`: 43 to 128 unreserved characters (RFC 7636 §4.1).
#[derive(Debug, Clone)]
pub struct CodeVerifier(Secret);

impl CodeVerifier {
    /// Parses a verifier. Returns `None` if its length or a character is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        is_verifier(text).then(|| Self(Secret::new(text)))
    }
}

fn is_verifier(text: &str) -> bool {
    (43..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector of RFC 7636 appendix B.
    #[test]
    fn the_rfc_vector_is_reproduced() {
        let verifier = CodeVerifier::parse("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").unwrap();
        let challenge =
            CodeChallenge::parse("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", ChallengeMethod::S256).unwrap();
        assert!(challenge.is_met_by(&verifier));
        let other = CodeVerifier::parse(&"a".repeat(43)).unwrap();
        assert!(!challenge.is_met_by(&other));
    }

    #[test]
    fn lengths_and_characters_are_checked() {
        assert!(CodeVerifier::parse(&"a".repeat(42)).is_none());
        assert!(CodeVerifier::parse(&"a".repeat(129)).is_none());
        assert!(CodeVerifier::parse(&"a".repeat(128)).is_some());
        assert!(CodeVerifier::parse(&format!("{}!", "a".repeat(43))).is_none());
        for wrong in ["E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-c", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM="] {
            assert!(CodeChallenge::parse(wrong, ChallengeMethod::S256).is_none());
        }
    }
}
