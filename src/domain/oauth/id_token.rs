//! Validation of ID tokens of upstream providers (OpenID Connect Core §3.1.3.7).
//!
//! The caller verifies the signature with a key of the provider.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA512, digest};
use serde_json::{Map, Value};

use crate::oauth::jwk_set::Algorithm;
use crate::oauth::jws::{Jws, MalformedInstant, audiences, instant};
use crate::secret::{base64url, constant_time_eq};
use crate::time::UnixTime;

/// Maximum length of an ID token or logout token in bytes.
pub const MAX_ID_TOKEN_LENGTH: usize = 32 * 1024;

/// Maximum difference between the clocks of the provider and of this server.
pub const MAX_SKEW: Duration = Duration::from_mins(1);

/// Maximum age of a token when it is received.
pub const MAX_TOKEN_AGE: Duration = Duration::from_mins(10);

/// Maximum length of `sub` (OpenID Connect Core §2), of `sid` and of `acr`, in bytes.
const MAX_VALUE_LENGTH: usize = 255;

/// Maximum number of audiences and of authentication methods.
const MAX_LISTED: usize = 32;

/// Authentication methods (RFC 8176 §2).
const METHODS: [&str; 21] = [
    "face", "fpt", "geo", "hwk", "iris", "kba", "mca", "mfa", "otp", "pin", "pop", "pwd", "rba", "retina", "sc", "sms",
    "swk", "tel", "user", "vbm", "wia",
];

/// Requirements for an ID token.
#[derive(Debug, Clone, Copy)]
pub struct IdTokenTerms<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    /// Nonce of the sign-in. `None` for an ID token of a refresh.
    pub nonce: Option<&'a str>,
    /// Access token of the same response.
    pub access_token: &'a str,
    /// Requested maximum age of the user's authentication.
    pub max_age: Option<Duration>,
    pub now: UnixTime,
}

/// Reason to reject an ID token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdTokenFault {
    /// A claim has the wrong type or is too long.
    Malformed,
    /// The token has another type.
    Kind,
    Issuer,
    Audience,
    /// The token was issued to another client (`azp`).
    Client,
    Subject,
    Expired,
    /// The token was issued in the future, or is not valid yet.
    NotYet,
    /// The token was issued too long ago.
    Old,
    Nonce,
    /// The access token is not the one of the ID token.
    AtHash,
    /// The user's authentication is older than requested, or its time is missing.
    AuthTime,
}

impl IdTokenFault {
    /// Returns the name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Kind => "kind",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Client => "client",
            Self::Subject => "subject",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::Old => "old",
            Self::Nonce => "nonce",
            Self::AtHash => "at_hash",
            Self::AuthTime => "auth_time",
        }
    }

    /// Returns whether a wrong clock, here or at the provider, may be the cause.
    pub const fn is_about_time(self) -> bool {
        matches!(self, Self::Expired | Self::NotYet | Self::Old | Self::AuthTime)
    }
}

impl From<MalformedInstant> for IdTokenFault {
    fn from(_: MalformedInstant) -> Self {
        Self::Malformed
    }
}

/// Validated ID token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdToken {
    pub sub: String,
    pub auth_time: Option<UnixTime>,
    pub acr: Option<String>,
    /// Authentication methods, only values of RFC 8176.
    pub amr: Vec<String>,
    pub sid: Option<String>,
}

impl IdToken {
    /// Checks the claims of an ID token. The result is trustworthy only if the signature is valid too.
    ///
    /// # Errors
    /// [`IdTokenFault`].
    pub fn check(jws: &Jws<'_>, terms: &IdTokenTerms<'_>) -> Result<Self, IdTokenFault> {
        let claims = jws.claims();
        if jws.typ().is_some_and(|typ| typ != "jwt") {
            return Err(IdTokenFault::Kind);
        }
        check_issuer_and_audience(claims, terms.issuer, terms.client_id)?;
        let sub = subject(claims).ok_or(IdTokenFault::Subject)?;
        check_times(claims, terms.now)?;
        if let Some(nonce) = terms.nonce {
            let found = claims.get("nonce").and_then(Value::as_str).ok_or(IdTokenFault::Nonce)?;
            if !constant_time_eq(found, nonce) {
                return Err(IdTokenFault::Nonce);
            }
        }
        if let Some(hash) = claims.get("at_hash") {
            let expected = at_hash(jws.algorithm(), terms.access_token);
            if !hash.as_str().is_some_and(|hash| constant_time_eq(hash, &expected)) {
                return Err(IdTokenFault::AtHash);
            }
        }
        let auth_time = instant(claims, "auth_time")?;
        if auth_time.is_some_and(|time| time > terms.now.plus(MAX_SKEW)) {
            return Err(IdTokenFault::NotYet);
        }
        if let Some(max_age) = terms.max_age {
            let auth_time = auth_time.ok_or(IdTokenFault::AuthTime)?;
            if terms.now.since(auth_time) > max_age.saturating_add(MAX_SKEW) {
                return Err(IdTokenFault::AuthTime);
            }
        }
        Ok(Self {
            sub,
            auth_time,
            acr: short_text(claims, "acr")?,
            amr: methods(claims.get("amr")),
            sid: short_text(claims, "sid")?,
        })
    }
}

/// Checks `iss`, `aud` and `azp` of a token for this client.
pub(crate) fn check_issuer_and_audience(
    claims: &Map<String, Value>,
    issuer: &str,
    client_id: &str,
) -> Result<(), IdTokenFault> {
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err(IdTokenFault::Issuer);
    }
    let audiences = audiences(claims).filter(|audiences| audiences.len() <= MAX_LISTED);
    let audiences = audiences.ok_or(IdTokenFault::Audience)?;
    if !audiences.iter().any(|audience| audience == client_id) {
        return Err(IdTokenFault::Audience);
    }
    let azp = claims.get("azp").map(|azp| azp.as_str().unwrap_or_default());
    // A token for several audiences must name the client that requested it.
    if azp.is_some_and(|azp| azp != client_id) || (azp.is_none() && audiences.len() > 1) {
        return Err(IdTokenFault::Client);
    }
    Ok(())
}

/// Checks `exp`, `nbf` and `iat`, and returns `exp` and `iat`.
pub(crate) fn check_times(claims: &Map<String, Value>, now: UnixTime) -> Result<(UnixTime, UnixTime), IdTokenFault> {
    let exp = instant(claims, "exp")?.ok_or(IdTokenFault::Expired)?;
    if now >= exp.plus(MAX_SKEW) {
        return Err(IdTokenFault::Expired);
    }
    let iat = instant(claims, "iat")?.ok_or(IdTokenFault::Malformed)?;
    let latest = now.plus(MAX_SKEW);
    if iat > latest || instant(claims, "nbf")?.is_some_and(|start| start > latest) {
        return Err(IdTokenFault::NotYet);
    }
    if now.since(iat) > MAX_TOKEN_AGE {
        return Err(IdTokenFault::Old);
    }
    Ok((exp, iat))
}

/// Returns the claim `sub`: 1 to 255 bytes without control characters.
pub(crate) fn subject(claims: &Map<String, Value>) -> Option<String> {
    let sub = claims.get("sub")?.as_str()?;
    let is_valid = (1..=MAX_VALUE_LENGTH).contains(&sub.len()) && !sub.chars().any(char::is_control);
    is_valid.then(|| sub.to_owned())
}

/// Returns a claim that is a text of at most 255 bytes. An empty text counts as absent.
pub(crate) fn short_text(claims: &Map<String, Value>, name: &str) -> Result<Option<String>, IdTokenFault> {
    match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.len() <= MAX_VALUE_LENGTH && !text.chars().any(char::is_control) => {
            Ok(Some(text.clone()))
        }
        Some(_) => Err(IdTokenFault::Malformed),
    }
}

/// Returns the known authentication methods. Other values have no defined meaning.
fn methods(value: Option<&Value>) -> Vec<String> {
    let listed = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let known = listed.iter().take(MAX_LISTED).filter_map(Value::as_str).filter(|method| METHODS.contains(method));
    let mut methods: Vec<String> = Vec::new();
    for method in known {
        if !methods.iter().any(|other| other == method) {
            methods.push(method.to_owned());
        }
    }
    methods
}

/// Returns the left half of the access token's hash (OpenID Connect Core §3.1.3.6). Its hash function
/// is that of the signature.
fn at_hash(algorithm: Algorithm, access_token: &str) -> String {
    let function = match algorithm {
        Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => &SHA256,
        // Ed25519 uses SHA-512.
        Algorithm::EdDsa => &SHA512,
    };
    let hash = digest(function, access_token.as_bytes());
    let (left, _) = hash.as_ref().split_at(hash.as_ref().len() / 2);
    base64url(left)
}

#[cfg(test)]
mod tests;
