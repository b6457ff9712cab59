//! Client assertions (RFC 7523 §2.2, §3; OpenID Connect Core §9): signed JWTs with which clients
//! authenticate.
//!
//! The caller verifies the signature with a key of the client, or of the issuer that vouches for the
//! workload. The audience is the issuer of this server as a single string. An assertion that also
//! names another audience, or names an endpoint, could have been made for another server
//! (draft-ietf-oauth-rfc7523bis §4).

use std::time::Duration;

use serde::Deserialize;

use crate::assertion_source::Workload;
use crate::client::ClientId;
use crate::oauth::jwk_set::Algorithm;
use crate::oauth::jws::{Jws, JwsFault, MalformedInstant, audiences, instant};
use crate::secret::from_base64url;
use crate::time::UnixTime;

/// The only supported `client_assertion_type` (RFC 7523 §2.2).
pub const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Maximum length of an assertion in bytes. An assertion of a client has about 500 bytes.
pub const MAX_ASSERTION_LENGTH: usize = 8192;

/// Maximum time until the expiry of a client's own assertion.
const MAX_LIFETIME: Duration = Duration::from_mins(5);

/// Maximum difference between the clocks of the client and of this server.
const MAX_SKEW: Duration = Duration::from_secs(30);

/// Maximum length of `jti` in bytes.
const MAX_JTI_LENGTH: usize = 256;

/// The `typ` of a client assertion (draft-ietf-oauth-rfc7523bis). Most clients send `JWT` or none.
const CLIENT_AUTHENTICATION: &str = "client-authentication+jwt";

/// Reason to reject an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AssertionFault {
    /// The client is not registered for assertions.
    Method,
    /// The assertion exceeds the maximum length.
    TooLong,
    /// The assertion is not a JWS with three parts, or not the expected JSON.
    Malformed,
    /// The assertion requires extensions that are not supported (RFC 7515 §4.1.11).
    Critical,
    /// The algorithm is not one of the accepted ones.
    Algorithm,
    /// The assertion is a token of another kind.
    Kind,
    /// There is no key with this `kid` for this algorithm.
    UnknownKey,
    Signature,
    Issuer,
    Subject,
    Audience,
    /// The trusted issuer's `clients` do not contain the client that the token names.
    Client,
    /// The assertion has expired, or has no expiry.
    Expired,
    /// The assertion is valid for too long.
    Lifetime,
    /// The assertion is not valid yet, or was issued in the future.
    NotYet,
    /// The assertion has no usable `jti`.
    Id,
    /// The assertion was used before.
    Replayed,
    /// The token is bound to a key (RFC 7800), and proof of possession is not supported.
    Bound,
    /// The keys were never read, or are too old.
    NoKeys,
}

impl From<JwsFault> for AssertionFault {
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

impl From<MalformedInstant> for AssertionFault {
    fn from(_: MalformedInstant) -> Self {
        Self::Malformed
    }
}

impl AssertionFault {
    /// All reasons, in the order of the variants.
    pub const ALL: [Self; 19] = [
        Self::Method,
        Self::TooLong,
        Self::Malformed,
        Self::Critical,
        Self::Algorithm,
        Self::Kind,
        Self::UnknownKey,
        Self::Signature,
        Self::Issuer,
        Self::Subject,
        Self::Audience,
        Self::Client,
        Self::Expired,
        Self::Lifetime,
        Self::NotYet,
        Self::Id,
        Self::Replayed,
        Self::Bound,
        Self::NoKeys,
    ];

    /// Returns the name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Critical => "critical",
            Self::Algorithm => "algorithm",
            Self::Kind => "kind",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Issuer => "issuer",
            Self::Subject => "subject",
            Self::Audience => "audience",
            Self::Client => "client",
            Self::Expired => "expired",
            Self::Lifetime => "lifetime",
            Self::NotYet => "not_yet",
            Self::Id => "jti",
            Self::Replayed => "replayed",
            Self::Bound => "bound",
            Self::NoKeys => "no_keys",
        }
    }
}

/// Returns the client that an unverified assertion claims in `sub`. Returns `None` if the claim is
/// missing, duplicated, or no client id.
///
/// Use the result only to find the client whose keys verify the assertion.
pub fn claimed_client(assertion: &str) -> Option<ClientId> {
    #[derive(Deserialize)]
    struct Claimed {
        sub: String,
    }

    if assertion.len() > MAX_ASSERTION_LENGTH {
        return None;
    }
    let claims = from_base64url(assertion.split('.').nth(1)?)?;
    let claimed: Claimed = serde_json::from_slice(&claims).ok()?;
    ClientId::parse(&claimed.sub)
}

/// Client assertion whose signature and claims are not verified.
#[derive(Debug)]
pub struct ClientAssertion<'a>(Jws<'a>);

/// Identifier of a valid assertion, which may be used once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssertionId {
    pub jti: String,
    /// Time from which the assertion is expired.
    pub until: UnixTime,
}

impl<'a> ClientAssertion<'a> {
    /// Parses an assertion of at most `longest` bytes, signed with one of these algorithms.
    ///
    /// # Errors
    /// `TooLong`, `Malformed`, `Critical`, `Algorithm`, `Kind`, `UnknownKey`.
    pub fn parse(assertion: &'a str, longest: usize, algorithms: &[Algorithm]) -> Result<Self, AssertionFault> {
        let jws = Jws::parse(assertion, longest.min(MAX_ASSERTION_LENGTH), algorithms)?;
        // A token of another kind was made for another purpose, such as an access token.
        if jws.typ().is_some_and(|typ| typ != "jwt" && typ != CLIENT_AUTHENTICATION) {
            return Err(AssertionFault::Kind);
        }
        Ok(Self(jws))
    }

    /// Returns the assertion as a JWS, for the verification of its signature.
    pub fn jws(&self) -> &Jws<'a> {
        &self.0
    }

    /// Checks the claims of an assertion that the client has signed itself. `issuer` is the issuer of
    /// this server. The claims are trustworthy only if the signature is valid too.
    ///
    /// # Errors
    /// `Issuer`, `Subject`, `Audience`, `Expired`, `Lifetime`, `NotYet`, `Id`, `Malformed`.
    pub fn judge(&self, client: &ClientId, issuer: &str, now: UnixTime) -> Result<AssertionId, AssertionFault> {
        if self.text("iss") != Some(client.as_str()) {
            return Err(AssertionFault::Issuer);
        }
        if self.text("sub") != Some(client.as_str()) {
            return Err(AssertionFault::Subject);
        }
        if self.text("aud") != Some(issuer) {
            return Err(AssertionFault::Audience);
        }
        let exp = self.expiry(MAX_SKEW, now)?;
        if exp > now.plus(MAX_LIFETIME).plus(MAX_SKEW) {
            return Err(AssertionFault::Lifetime);
        }
        self.check_start(MAX_SKEW, now)?;
        let jti = self.text("jti").filter(|jti| (1..=MAX_JTI_LENGTH).contains(&jti.len()));
        let jti = jti.ok_or(AssertionFault::Id)?.to_owned();
        Ok(AssertionId { jti, until: exp.plus(MAX_SKEW) })
    }

    /// Checks the claims of a token that a trusted issuer has made for a workload. `own` is the issuer
    /// of this server, which must be the only audience.
    ///
    /// A workload may use a token several times, because platforms such as Kubernetes renew the tokens
    /// only once an hour.
    ///
    /// # Errors
    /// `Issuer`, `Subject`, `Audience`, `Bound`, `Expired`, `NotYet`, `Malformed`.
    pub fn judge_workload(
        &self,
        workload: &Workload,
        issuer: &str,
        own: &str,
        skew: Duration,
        now: UnixTime,
    ) -> Result<(), AssertionFault> {
        if self.text("iss") != Some(issuer) {
            return Err(AssertionFault::Issuer);
        }
        if self.text("sub") != Some(&workload.subject) {
            return Err(AssertionFault::Subject);
        }
        if audiences(self.0.claims()).as_deref() != Some(&[own.to_owned()]) {
            return Err(AssertionFault::Audience);
        }
        if self.0.claims().contains_key("cnf") {
            return Err(AssertionFault::Bound);
        }
        self.expiry(skew, now)?;
        self.check_start(skew, now)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.claims().get(name)?.as_str()
    }

    fn expiry(&self, skew: Duration, now: UnixTime) -> Result<UnixTime, AssertionFault> {
        let exp = instant(self.0.claims(), "exp")?.ok_or(AssertionFault::Expired)?;
        if now >= exp.plus(skew) { Err(AssertionFault::Expired) } else { Ok(exp) }
    }

    fn check_start(&self, skew: Duration, now: UnixTime) -> Result<(), AssertionFault> {
        for name in ["nbf", "iat"] {
            if instant(self.0.claims(), name)?.is_some_and(|start| start > now.plus(skew)) {
                return Err(AssertionFault::NotYet);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::assertion_source::algorithms;
    use crate::secret::base64url;

    const OWN: &str = "https://id.test";
    const NOW: u64 = 1_000_000;

    fn signed(header: &Value, claims: &Value) -> String {
        let part = |value: &Value| base64url(value.to_string().as_bytes());
        format!("{}.{}.{}", part(header), part(claims), base64url(b"s"))
    }

    fn own(changes: &Value) -> String {
        let mut claims = json!({"iss": "job", "sub": "job", "aud": OWN, "exp": NOW + 60, "iat": NOW, "jti": "1"});
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => claims.as_object_mut().unwrap().remove(name),
                value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
            };
        }
        signed(&json!({"alg": "ES256"}), &claims)
    }

    fn judge(assertion: &str) -> Result<AssertionId, AssertionFault> {
        let parsed = ClientAssertion::parse(assertion, MAX_ASSERTION_LENGTH, &algorithms())?;
        parsed.judge(&ClientId::parse("job").unwrap(), OWN, UnixTime::from_seconds(NOW))
    }

    #[test]
    fn each_claim_of_an_assertion_is_checked() {
        let id = judge(&own(&json!({}))).unwrap();
        assert_eq!(id, AssertionId { jti: "1".to_owned(), until: UnixTime::from_seconds(NOW + 90) });
        for sound in [
            json!({"exp": NOW + 330}),
            json!({"exp": NOW - 29}),
            json!({"iat": null}),
            json!({"iat": NOW + 30, "nbf": NOW + 30}),
            json!({"jti": "x".repeat(256)}),
        ] {
            assert!(judge(&own(&sound)).is_ok(), "{sound}");
        }
        for (changes, fault) in [
            (json!({"iss": null}), AssertionFault::Issuer),
            (json!({"iss": "other"}), AssertionFault::Issuer),
            (json!({"sub": null}), AssertionFault::Subject),
            (json!({"sub": "other"}), AssertionFault::Subject),
            (json!({"aud": null}), AssertionFault::Audience),
            (json!({"aud": [OWN]}), AssertionFault::Audience),
            (json!({"aud": format!("{OWN}/")}), AssertionFault::Audience),
            (json!({"aud": format!("{OWN}/oauth/token")}), AssertionFault::Audience),
            (json!({"exp": null}), AssertionFault::Expired),
            (json!({"exp": NOW - 30}), AssertionFault::Expired),
            (json!({"exp": NOW + 331}), AssertionFault::Lifetime),
            (json!({"exp": "soon"}), AssertionFault::Malformed),
            (json!({"iat": NOW + 31}), AssertionFault::NotYet),
            (json!({"nbf": NOW + 31}), AssertionFault::NotYet),
            (json!({"iat": "now"}), AssertionFault::Malformed),
            (json!({"jti": null}), AssertionFault::Id),
            (json!({"jti": ""}), AssertionFault::Id),
            (json!({"jti": 1}), AssertionFault::Id),
            (json!({"jti": "x".repeat(257)}), AssertionFault::Id),
        ] {
            assert_eq!(judge(&own(&changes)), Err(fault), "{changes}");
        }
    }

    #[test]
    fn an_assertion_is_no_token_of_another_kind() {
        let claims = json!({"iss": "job", "sub": "job", "aud": OWN, "exp": NOW + 60, "jti": "1"});
        for typ in ["JWT", "client-authentication+jwt", "application/Client-Authentication+JWT"] {
            assert!(judge(&signed(&json!({"alg": "EdDSA", "typ": typ}), &claims)).is_ok(), "{typ}");
        }
        for typ in ["at+jwt", "logout+jwt", "dpop+jwt", ""] {
            let judged = judge(&signed(&json!({"alg": "EdDSA", "typ": typ}), &claims));
            assert_eq!(judged, Err(AssertionFault::Kind), "{typ}");
        }
        let long = own(&json!({"x": "x".repeat(MAX_ASSERTION_LENGTH)}));
        assert_eq!((judge(&long), claimed_client(&long)), (Err(AssertionFault::TooLong), None));
    }

    #[test]
    fn the_subject_names_the_client() {
        assert_eq!(claimed_client(&own(&json!({}))), ClientId::parse("job"));
        let twice = format!("e30.{}.c2ln", base64url(br#"{"sub":"job","sub":"other"}"#));
        for text in ["", ".", "e30", "e30.e30.", &twice, &own(&json!({"sub": "a b"})), &own(&json!({"sub": 7}))] {
            assert_eq!(claimed_client(text), None, "{text}");
        }
    }

    #[test]
    fn a_workload_has_exactly_one_subject_and_audience() {
        const CLUSTER: &str = "https://k8s.test";
        let workload = Workload::new("k8s", "system:serviceaccount:jobs:backup").unwrap();
        let judge = |changes: Value| {
            let mut claims = json!({"iss": CLUSTER, "sub": workload.subject, "aud": [OWN], "exp": NOW + 3600});
            claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let assertion = signed(&json!({"alg": "RS256", "kid": "k"}), &claims);
            let parsed = ClientAssertion::parse(&assertion, MAX_ASSERTION_LENGTH, &algorithms()).unwrap();
            parsed.judge_workload(&workload, CLUSTER, OWN, Duration::from_mins(1), UnixTime::from_seconds(NOW))
        };
        assert_eq!((judge(json!({})), judge(json!({"aud": OWN, "iat": NOW}))), (Ok(()), Ok(())));
        for (changes, fault) in [
            (json!({"iss": OWN}), AssertionFault::Issuer),
            (json!({"sub": "system:serviceaccount:jobs:backup2"}), AssertionFault::Subject),
            (json!({"sub": "system:serviceaccount:jobs"}), AssertionFault::Subject),
            (json!({"aud": [OWN, "https://kubernetes.default.svc"]}), AssertionFault::Audience),
            (json!({"aud": "https://kubernetes.default.svc"}), AssertionFault::Audience),
            (json!({"aud": []}), AssertionFault::Audience),
            (json!({"cnf": {"jkt": "x"}}), AssertionFault::Bound),
            (json!({"exp": NOW - 60}), AssertionFault::Expired),
            (json!({"exp": null}), AssertionFault::Malformed),
            (json!({"nbf": NOW + 61}), AssertionFault::NotYet),
        ] {
            assert_eq!(judge(changes.clone()), Err(fault), "{changes}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in ".{0,200}") {
            let _ = claimed_client(&text);
            let _ = ClientAssertion::parse(&text, MAX_ASSERTION_LENGTH, &algorithms());
        }
    }
}
