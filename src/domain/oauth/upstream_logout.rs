//! Validation of logout tokens of upstream providers (OpenID Connect Back-Channel Logout 1.0 §2.6).
//!
//! The caller verifies the signature with a key of the provider, and accepts each token once.

use serde_json::Value;

use crate::oauth::id_token::{
    IdTokenFault, MAX_SKEW, MAX_TOKEN_AGE, check_issuer_and_audience, check_times, short_text, subject,
};
use crate::oauth::jws::Jws;
use crate::time::UnixTime;

/// Member of `events` that makes a token a logout token.
pub(crate) const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Reason to reject a logout token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogoutTokenFault {
    /// A check that ID tokens have too.
    Token(IdTokenFault),
    /// The token is not a logout token.
    Events,
    /// The token has a nonce, so it may be an ID token.
    Nonce,
    /// The token has neither `sub` nor `sid`.
    Nobody,
    /// The token has no usable `jti`.
    TokenId,
}

impl LogoutTokenFault {
    /// Returns the name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token(fault) => fault.as_str(),
            Self::Events => "events",
            Self::Nonce => "nonce",
            Self::Nobody => "subject",
            Self::TokenId => "jti",
        }
    }
}

impl From<IdTokenFault> for LogoutTokenFault {
    fn from(fault: IdTokenFault) -> Self {
        Self::Token(fault)
    }
}

/// Validated logout token. At least one of `sub` and `sid` is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutToken {
    pub sub: Option<String>,
    pub sid: Option<String>,
    pub jti: String,
    /// Time from which the token would be rejected as expired or old.
    pub ends_at: UnixTime,
}

impl LogoutToken {
    /// Checks the claims of a logout token. The result is trustworthy only if the signature is valid
    /// too.
    ///
    /// # Errors
    /// [`LogoutTokenFault`].
    pub fn check(jws: &Jws<'_>, issuer: &str, client_id: &str, now: UnixTime) -> Result<Self, LogoutTokenFault> {
        let claims = jws.claims();
        if jws.typ().is_some_and(|typ| typ != "jwt" && typ != "logout+jwt") {
            return Err(IdTokenFault::Kind.into());
        }
        check_issuer_and_audience(claims, issuer, client_id)?;
        let (exp, iat) = check_times(claims, now)?;
        let event = claims.get("events").and_then(|events| events.get(EVENT));
        if !event.is_some_and(Value::is_object) {
            return Err(LogoutTokenFault::Events);
        }
        if claims.contains_key("nonce") {
            return Err(LogoutTokenFault::Nonce);
        }
        let sub = match claims.get("sub") {
            None => None,
            Some(_) => Some(subject(claims).ok_or(IdTokenFault::Subject)?),
        };
        let sid = short_text(claims, "sid")?;
        if sub.is_none() && sid.is_none() {
            return Err(LogoutTokenFault::Nobody);
        }
        let jti = short_text(claims, "jti")?.ok_or(LogoutTokenFault::TokenId)?;
        let ends_at = exp.plus(MAX_SKEW).min(iat.plus(MAX_TOKEN_AGE + MAX_SKEW));
        Ok(Self { sub, sid, jti, ends_at })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oauth::id_token::MAX_ID_TOKEN_LENGTH;
    use crate::oauth::jwk_set::Algorithm;
    use crate::secret::base64url;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn check_with_header(header: &Value, change: impl FnOnce(&mut Value)) -> Result<LogoutToken, LogoutTokenFault> {
        let mut claims = json!({
            "iss": "https://op.test", "aud": "us", "iat": NOW.seconds(), "exp": NOW.seconds() + 120, "jti": "j",
            "sub": "u", "sid": "s", "events": { EVENT: {} },
        });
        change(&mut claims);
        let part = |value: &Value| base64url(value.to_string().as_bytes());
        let token = format!("{}.{}.{}", part(header), part(&claims), base64url(b"s"));
        let jws = Jws::parse(&token, MAX_ID_TOKEN_LENGTH, &[Algorithm::Rs256]).unwrap();
        LogoutToken::check(&jws, "https://op.test", "us", NOW)
    }

    fn check(change: impl FnOnce(&mut Value)) -> Result<LogoutToken, LogoutTokenFault> {
        check_with_header(&json!({ "alg": "RS256", "typ": "logout+jwt" }), change)
    }

    fn remove(claims: &mut Value, name: &str) {
        claims.as_object_mut().unwrap().remove(name);
    }

    #[test]
    fn a_complete_token_is_accepted_with_sub_or_sid() {
        let token = check(|_| {}).unwrap();
        assert_eq!((token.sub.as_deref(), token.sid.as_deref(), token.jti.as_str()), (Some("u"), Some("s"), "j"));
        assert_eq!(token.ends_at.seconds(), NOW.seconds() + 180);
        assert_eq!(check(|claims| remove(claims, "sub")).unwrap().sub, None);
        assert_eq!(check(|claims| remove(claims, "sid")).unwrap().sid, None);
        for typ in ["JWT", "application/logout+jwt", "LOGOUT+JWT"] {
            assert!(check_with_header(&json!({ "alg": "RS256", "typ": typ }), |_| {}).is_ok(), "{typ}");
        }
        assert!(check_with_header(&json!({ "alg": "RS256" }), |_| {}).is_ok());
    }

    #[test]
    fn an_id_is_remembered_only_while_its_token_would_be_accepted() {
        let token = check(|claims| claims["exp"] = json!(NOW.seconds() + 1_000_000)).unwrap();
        assert_eq!(token.ends_at.seconds(), NOW.seconds() + 660);
    }

    #[test]
    fn each_changed_member_is_refused() {
        type Change = (&'static str, Value, &'static str);
        let changes: &[Change] = &[
            ("iss", json!("https://other.test"), "issuer"),
            ("aud", json!("other"), "audience"),
            ("azp", json!("other"), "client"),
            ("iat", json!(NOW.seconds() + 61), "not_yet"),
            ("iat", json!(NOW.seconds() - 601), "old"),
            ("exp", json!(NOW.seconds() - 60), "expired"),
            ("events", json!({}), "events"),
            ("events", json!({ EVENT: true }), "events"),
            ("events", json!([EVENT]), "events"),
            ("nonce", json!("n"), "nonce"),
            ("nonce", Value::Null, "nonce"),
            ("sub", json!(""), "subject"),
            ("sub", json!(7), "subject"),
            ("sid", json!(7), "malformed"),
            ("jti", json!(7), "malformed"),
        ];
        for (name, value, word) in changes {
            let fault = check(|claims| claims[*name] = value.clone()).unwrap_err();
            assert_eq!(fault.as_str(), *word, "{name}: {value}");
        }
        for (name, word) in [
            ("iss", "issuer"),
            ("aud", "audience"),
            ("iat", "malformed"),
            ("exp", "expired"),
            ("events", "events"),
            ("jti", "jti"),
        ] {
            assert_eq!(check(|claims| remove(claims, name)).unwrap_err().as_str(), word, "{name}");
        }
        let nobody = |claims: &mut Value| ["sub", "sid"].iter().for_each(|name| remove(claims, name));
        assert_eq!(check(nobody), Err(LogoutTokenFault::Nobody));
        let kind = check_with_header(&json!({ "alg": "RS256", "typ": "at+jwt" }), |_| {});
        assert_eq!(kind, Err(LogoutTokenFault::Token(IdTokenFault::Kind)));
    }
}
