//! JSON Web Tokens of this server in compact form (RFC 7515, RFC 7519).
//!
//! This module creates signing inputs and parses tokens. Other modules sign and verify.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use sha2::{Digest, Sha256};

use crate::oauth::jwk_set::Algorithm;
use crate::secret::{base64url, from_base64url};

/// Maximum length of a token in bytes. Tokens of this server have about 900 bytes.
pub const MAX_TOKEN_LENGTH: usize = 8192;

/// The `typ` of an access token (RFC 9068 §2.1).
pub const ACCESS_TOKEN: &str = "at+jwt";
/// The `typ` of an ID token.
pub const ID_TOKEN: &str = "JWT";

/// The `typ` of a logout token to a client (OpenID Connect Back-Channel Logout 1.0 §2.4).
pub const LOGOUT_TOKEN: &str = "logout+jwt";

/// The `typ` of an assertion to an application. It is different from the other types, so that an
/// assertion is never accepted as a token.
pub const ASSERTION: &str = "sealgate-assertion+jwt";

#[derive(Serialize)]
struct OurHeader<'a> {
    alg: Algorithm,
    typ: &'static str,
    kid: &'a str,
}

/// Returns the hash of the access token for the ID token: the left half of its SHA-256 (OpenID
/// Connect Core §3.1.3.6).
pub fn at_hash(access_token: &str) -> String {
    let digest = Sha256::digest(access_token.as_bytes());
    base64url(&digest.iter().take(16).copied().collect::<Vec<u8>>())
}

/// Returns the signing input of a token: `base64url(header).base64url(claims)` (RFC 7515 §5.1).
///
/// # Errors
/// Returns an error if the claims cannot be serialized, which would be a bug.
pub fn signing_input(
    typ: &'static str,
    alg: Algorithm,
    kid: &str,
    claims: &impl Serialize,
) -> Result<String, serde_json::Error> {
    let header = serde_json::to_vec(&OurHeader { alg, typ, kid })?;
    Ok(format!("{}.{}", base64url(&header), base64url(&serde_json::to_vec(claims)?)))
}

/// Joins a signing input and its signature to a token.
pub fn assemble(signing_input: &str, signature: &[u8]) -> String {
    format!("{signing_input}.{}", base64url(signature))
}

/// Parsed token whose signature is not verified yet.
#[derive(Debug)]
pub struct Unverified<'a> {
    /// Algorithm according to the token. The verifier must compare it with the algorithm of the key.
    pub algorithm: Algorithm,
    /// kid of the key that has signed the token, according to the token.
    pub kid: String,
    /// Type according to the token, without the prefix `application/`, which may be omitted (RFC
    /// 7515 §4.1.9).
    pub typ: Option<String>,
    pub signing_input: &'a str,
    pub signature: Vec<u8>,
    claims: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

impl<'a> Unverified<'a> {
    /// Parses a token. Returns `None` unless it has three parts, an algorithm that this server may
    /// sign with, a kid, and no critical extensions.
    ///
    /// The key determines the algorithm, so the verifier compares both. Therefore `none`, HS256 with the public key, and the `jwk` or `jku` of an attacker have no
    /// effect.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let (signing_input, signature) = token.rsplit_once('.')?;
        let (header, claims) = signing_input.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let header: Header = serde_json::from_slice(&from_base64url(header)?).ok()?;
        // This server writes the other name of Ed25519 (RFC 9864) into no header.
        let algorithm = Algorithm::parse(&header.alg).filter(|algorithm| algorithm.name() == header.alg)?;
        if header.crit.is_some() {
            return None;
        }
        let typ = header.typ.map(|typ| {
            let bare = typ.get(..12).filter(|prefix| prefix.eq_ignore_ascii_case("application/")).map_or(0, str::len);
            typ[bare..].to_ascii_lowercase()
        });
        Some(Self {
            algorithm,
            kid: header.kid?,
            typ,
            signing_input,
            signature: from_base64url(signature)?,
            claims: from_base64url(claims)?,
        })
    }

    /// Returns whether the token's `typ` is this type. Media types are case-insensitive.
    pub fn is(&self, typ: &str) -> bool {
        self.typ.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(typ))
    }

    /// Returns the claims. Returns `None` if they do not match `T`.
    pub fn claims<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.claims).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(header: &str) -> String {
        format!("{}.{}.{}", base64url(header.as_bytes()), base64url(b"{}"), base64url(b"s"))
    }

    #[test]
    fn only_known_algorithms_with_a_kid_are_parsed() {
        for (name, algorithm) in Algorithm::ALL {
            let token = token(&format!(r#"{{"alg":"{name}","kid":"k","typ":"at+jwt"}}"#));
            assert_eq!(Unverified::parse(&token).unwrap().algorithm, algorithm);
        }
        for header in [
            r#"{"alg":"none","kid":"k"}"#,
            r#"{"alg":"HS256","kid":"k"}"#,
            r#"{"alg":"rs256","kid":"k"}"#,
            r#"{"alg":"Ed25519","kid":"k"}"#,
            r#"{"alg":"ES384","kid":"k"}"#,
            r#"{"alg":"RS256"}"#,
            r#"{"alg":"RS256","kid":"k","crit":["b64"]}"#,
            r#"{"alg":["RS256"],"kid":"k"}"#,
            "",
        ] {
            assert!(Unverified::parse(&token(header)).is_none(), "{header}");
        }
    }

    #[test]
    fn the_type_is_compared_without_case_and_prefix() {
        let token = token(r#"{"alg":"RS256","kid":"k","typ":"application/AT+JWT"}"#);
        assert!(Unverified::parse(&token).unwrap().is(ACCESS_TOKEN));
    }

    #[test]
    fn a_written_token_can_be_parsed() {
        let input = signing_input(ID_TOKEN, Algorithm::Rs256, "k", &serde_json::json!({"sub": "ş"})).unwrap();
        let token = assemble(&input, b"sig");
        let read = Unverified::parse(&token).unwrap();
        assert_eq!((read.signing_input, read.signature.as_slice()), (input.as_str(), b"sig".as_slice()));
        assert_eq!(read.claims::<serde_json::Value>().unwrap()["sub"], "ş");
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in ".{0,200}") {
            let _ = Unverified::parse(&text);
        }

        #[test]
        fn no_header_causes_a_panic(typ in ".{0,30}") {
            let header = serde_json::json!({"alg": "RS256", "kid": "k", "typ": typ}).to_string();
            let _ = Unverified::parse(&token(&header)).unwrap().is(ACCESS_TOKEN);
        }
    }
}
