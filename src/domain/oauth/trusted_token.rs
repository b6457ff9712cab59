//! Parsing and validation of access tokens of other issuers (RFC 7519, RFC 8725, RFC 9068 §4).
//!
//! The caller verifies the signature with a key of the issuer that the token names. Users and
//! groups are in the namespace of their issuer. They never equal local names, unless the operator's
//! configuration makes them equal.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::oauth::jwk_set::Algorithm;
use crate::oauth::jws::{Jws, JwsFault, MalformedInstant, audiences, instant, mapped};
use crate::oauth::jwt::ACCESS_TOKEN;
use crate::secret::from_base64url;
use crate::time::UnixTime;
use crate::user::Email;

/// Maximum length of a token of any issuer, in bytes.
pub const MAX_TOKEN_LENGTH: usize = 16 * 1024;

/// Maximum length of `sub` in bytes (OpenID Connect Core §2).
const MAX_SUB_LENGTH: usize = 255;

/// Configured requirements for the tokens of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustTerms {
    /// Local short name of the issuer: letters, digits, `-` and `_`.
    pub name: String,
    /// URL of the issuer, byte for byte as in `iss`.
    pub issuer: String,
    /// Accepted audiences. A token must name one of them.
    pub audiences: Vec<String>,
    pub algorithms: Vec<Algorithm>,
    /// Whether the header's `typ` must be `at+jwt` (RFC 9068 §2.1). Otherwise it may be `JWT` or
    /// absent.
    pub access_tokens_only: bool,
    /// Clients of the issuer whose tokens are accepted. `None` if the tokens of all clients are
    /// accepted.
    pub clients: Option<Vec<String>>,
    /// Maximum difference between the issuer's clock and this server's clock.
    pub skew: Duration,
    /// Maximum length of the issuer's tokens in bytes.
    pub longest: usize,
    /// Claims that rules of the gateway use.
    pub claims: ClaimNames,
}

impl TrustTerms {
    /// Returns whether tokens of the client that these claims name are accepted. The client is in
    /// `client_id`, otherwise in `azp`.
    pub fn accept_client_of(&self, claims: &Map<String, Value>) -> bool {
        let Some(listed) = &self.clients else { return true };
        let client = claims.get("client_id").or_else(|| claims.get("azp")).and_then(Value::as_str);
        client.is_some_and(|client| listed.iter().any(|known| known == client))
    }
}

/// Configured claims. A claim is given by its name, or by a JSON pointer (RFC 6901) such as
/// `/realm_access/roles`.
///
/// Claims that are not configured are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimNames {
    /// Claim with the groups: a list of strings, or one string.
    pub groups: Option<String>,
    /// Prefix added to each group.
    pub group_prefix: String,
    /// Claim with the scopes: a space-separated string, or a list of strings.
    pub scope: Option<String>,
    pub email: Option<String>,
    /// Whether e-mail addresses are used even without `"email_verified": true`.
    pub emails_are_verified: bool,
    pub acr: Option<String>,
}

/// Reason to reject a token of another issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ForeignFault {
    /// The token exceeds the configured length for the issuer.
    TooLong,
    /// The token is not a JWS with three parts, or not the expected JSON.
    Malformed,
    /// The token requires extensions that are not supported (RFC 7515 §4.1.11).
    Critical,
    /// The issuer may not use the token's algorithm.
    Algorithm,
    /// The token is not an access token.
    Kind,
    /// The issuer has no key with the token's `kid`.
    UnknownKey,
    /// The signature is not valid under the key.
    Signature,
    Issuer,
    Audience,
    /// The token was issued to a client that is not accepted.
    Client,
    /// The token has expired, or has no expiry.
    Expired,
    /// The token is not valid yet, or was issued in the future.
    NotYet,
    /// The token has no subject, or a subject that cannot be used as a name.
    Subject,
    /// The token is bound to a key (RFC 7800), and proof of possession is not supported.
    Bound,
    /// The issuer's keys were never loaded or are too old.
    NoKeys,
}

impl From<JwsFault> for ForeignFault {
    fn from(fault: JwsFault) -> Self {
        match fault {
            JwsFault::TooLong => Self::TooLong,
            JwsFault::Malformed => Self::Malformed,
            JwsFault::Critical => Self::Critical,
            JwsFault::Algorithm => Self::Algorithm,
            JwsFault::KeyId => Self::UnknownKey,
        }
    }
}

impl From<MalformedInstant> for ForeignFault {
    fn from(_: MalformedInstant) -> Self {
        Self::Malformed
    }
}

impl ForeignFault {
    /// Returns the name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Critical => "critical",
            Self::Algorithm => "algorithm",
            Self::Kind => "kind",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Client => "client",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::Subject => "subject",
            Self::Bound => "bound",
            Self::NoKeys => "no_keys",
        }
    }

    /// Returns the claim or header parameter that caused the rejection, if any.
    pub const fn claim(self) -> Option<&'static str> {
        match self {
            Self::TooLong | Self::Malformed | Self::Signature | Self::NoKeys => None,
            Self::Critical => Some("crit"),
            Self::Algorithm => Some("alg"),
            Self::Kind => Some("typ"),
            Self::UnknownKey => Some("kid"),
            Self::Issuer => Some("iss"),
            Self::Audience => Some("aud"),
            Self::Client => Some("client_id"),
            Self::Expired => Some("exp"),
            Self::NotYet => Some("nbf"),
            Self::Subject => Some("sub"),
            Self::Bound => Some("cnf"),
        }
    }
}

/// Returns the issuer that an unverified token claims. Returns `None` if the claim is missing or
/// duplicated.
///
/// Use the result only to choose the keys and terms for the validation.
pub fn claimed_issuer(token: &str) -> Option<String> {
    /// Ignores all other claims, because this parser runs for every request.
    #[derive(Deserialize)]
    struct Claimed {
        iss: String,
    }

    if token.len() > MAX_TOKEN_LENGTH {
        return None;
    }
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    serde_json::from_slice(&from_base64url(claims)?).ok().map(|Claimed { iss }| iss)
}

/// Access token whose signature and claims are not verified.
#[derive(Debug)]
pub struct Signed<'a>(Jws<'a>);

impl<'a> Signed<'a> {
    /// Parses a token, and checks its length and header against the issuer's terms.
    ///
    /// # Errors
    /// `TooLong`, `Malformed`, `Critical`, `Algorithm`, `Kind`, `UnknownKey`.
    pub fn parse(token: &'a str, terms: &TrustTerms) -> Result<Self, ForeignFault> {
        let jws = Jws::parse(token, terms.longest, &terms.algorithms)?;
        if !is_access_token(&jws, terms.access_tokens_only) {
            return Err(ForeignFault::Kind);
        }
        Ok(Self(jws))
    }

    /// Returns the token as a JWS, for the verification of its signature.
    pub fn jws(&self) -> &Jws<'a> {
        &self.0
    }

    /// Checks the claims against the terms and returns them. The claims are trustworthy only if the
    /// signature is valid too.
    ///
    /// # Errors
    /// `Issuer`, `Subject`, `Audience`, `Client`, `Bound`, `Expired`, `NotYet`, or `Malformed` for
    /// a claim of the wrong type.
    pub fn judged(&self, terms: &TrustTerms, now: UnixTime) -> Result<Foreign, ForeignFault> {
        let claims = self.0.claims();
        if claims.get("iss").and_then(Value::as_str) != Some(&terms.issuer) {
            return Err(ForeignFault::Issuer);
        }
        let sub = claims.get("sub").and_then(Value::as_str).filter(|sub| is_writable(sub));
        let sub = sub.ok_or(ForeignFault::Subject)?;
        let audiences = audiences(claims).ok_or(ForeignFault::Audience)?;
        if !audiences.iter().any(|audience| terms.audiences.contains(audience)) {
            return Err(ForeignFault::Audience);
        }
        if !terms.accept_client_of(claims) {
            return Err(ForeignFault::Client);
        }
        if claims.contains_key("cnf") {
            return Err(ForeignFault::Bound);
        }
        let exp = instant(claims, "exp")?.ok_or(ForeignFault::Expired)?.plus(terms.skew);
        if now >= exp {
            return Err(ForeignFault::Expired);
        }
        let latest = now.plus(terms.skew);
        for name in ["nbf", "iat", "auth_time"] {
            if instant(claims, name)?.is_some_and(|start| start > latest) {
                return Err(ForeignFault::NotYet);
            }
        }
        Ok(Foreign {
            issuer: terms.name.clone(),
            sub: sub.to_owned(),
            audiences,
            scopes: mapped(claims, terms.claims.scope.as_deref()).map(scopes).unwrap_or_default(),
            groups: mapped(claims, terms.claims.groups.as_deref())
                .map(|groups| prefixed(groups, &terms.claims.group_prefix))
                .unwrap_or_default(),
            email: email(claims, &terms.claims),
            acr: mapped(claims, terms.claims.acr.as_deref()).and_then(Value::as_str).map(str::to_owned),
            auth_time: instant(claims, "auth_time")?,
            ends_at: exp,
        })
    }
}

/// Identity from a token of a trusted issuer. Has only configured claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    pub issuer: String,
    /// The issuer's identifier of the user: 1 to 255 visible ASCII characters.
    pub sub: String,
    pub audiences: Vec<String>,
    pub scopes: BTreeSet<String>,
    pub groups: BTreeSet<String>,
    pub email: Option<Email>,
    pub acr: Option<String>,
    pub auth_time: Option<UnixTime>,
    /// Time at which the token is no longer accepted: `exp` plus the permitted clock difference.
    pub ends_at: UnixTime,
}

impl Foreign {
    /// Returns the name `issuer:sub`. The name is unique: local names have no colon, and other
    /// issuers have other prefixes.
    pub fn name(&self) -> String {
        format!("{}:{}", self.issuer, self.sub)
    }

    /// Estimates the memory usage in bytes. Short list elements use more memory here than in the
    /// token.
    pub fn size(&self) -> usize {
        /// Overhead of a string: its entry in a tree or list, and the allocation.
        const TEXT: usize = 64;
        let texts = self.audiences.iter().chain(&self.scopes).chain(&self.groups).chain([&self.issuer, &self.sub]);
        texts.chain(&self.acr).map(|text| text.len() + TEXT).sum::<usize>() + size_of::<Self>()
    }
}

/// Returns whether the header's `typ` is that of an access token.
fn is_access_token(jws: &Jws<'_>, access_tokens_only: bool) -> bool {
    match jws.typ() {
        None => !access_tokens_only,
        Some(typ) => typ == ACCESS_TOKEN || (!access_tokens_only && typ == "jwt"),
    }
}

fn is_writable(sub: &str) -> bool {
    !sub.is_empty() && sub.len() <= MAX_SUB_LENGTH && sub.bytes().all(|byte| byte.is_ascii_graphic())
}

fn scopes(value: &Value) -> BTreeSet<String> {
    let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    match value {
        Value::String(text) => words(text).into_iter().collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => BTreeSet::new(),
    }
}

fn prefixed(value: &Value, prefix: &str) -> BTreeSet<String> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let is_valid = |group: &&str| !group.is_empty() && !group.chars().any(char::is_control);
    list.iter().filter_map(Value::as_str).filter(is_valid).map(|group| format!("{prefix}{group}")).collect()
}

fn email(claims: &Map<String, Value>, names: &ClaimNames) -> Option<Email> {
    let email = Email::parse(mapped(claims, names.email.as_deref())?.as_str()?)?;
    let verified = claims.get("email_verified");
    // `"email_verified": false` overrides the configuration.
    let counts = match verified {
        Some(claim) => claim == &Value::Bool(true),
        None => names.emails_are_verified,
    };
    counts.then_some(email)
}

#[cfg(test)]
mod tests;
