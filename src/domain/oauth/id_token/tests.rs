use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fn terms() -> IdTokenTerms<'static> {
    IdTokenTerms {
        issuer: "https://op.test",
        client_id: "us",
        nonce: Some("n-1"),
        access_token: "access",
        max_age: None,
        now: NOW,
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://op.test", "sub": "u", "aud": "us", "exp": NOW.seconds() + 300, "iat": NOW.seconds(),
        "nonce": "n-1",
    })
}

fn check_by(terms: &IdTokenTerms<'_>, header: &Value, claims: &Value) -> Result<IdToken, IdTokenFault> {
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    let token = format!("{}.{}.{}", part(header), part(claims), base64url(b"s"));
    let algorithms = Algorithm::ALL.map(|(_, algorithm)| algorithm);
    IdToken::check(&Jws::parse(&token, MAX_ID_TOKEN_LENGTH, &algorithms).unwrap(), terms)
}

fn check(change: impl FnOnce(&mut Value)) -> Result<IdToken, IdTokenFault> {
    let mut claims = claims();
    change(&mut claims);
    check_by(&terms(), &json!({ "alg": "RS256", "kid": "k" }), &claims)
}

fn with(name: &str, value: impl Into<Value>) -> Result<IdToken, IdTokenFault> {
    check(|claims| claims[name] = value.into())
}

fn without(name: &str) -> Result<IdToken, IdTokenFault> {
    check(|claims| {
        claims.as_object_mut().unwrap().remove(name);
    })
}

#[test]
fn issuer_audience_and_client_are_compared_exactly() {
    assert!(check(|_| {}).is_ok());
    for issuer in ["https://op.test/", "https://OP.test", "http://op.test", ""] {
        assert_eq!(with("iss", issuer), Err(IdTokenFault::Issuer), "{issuer}");
    }
    assert_eq!(without("iss"), Err(IdTokenFault::Issuer));
    assert_eq!(with("aud", "other"), Err(IdTokenFault::Audience));
    assert_eq!(with("aud", json!(["other"])), Err(IdTokenFault::Audience));
    assert_eq!(with("aud", json!(["us", 1])), Err(IdTokenFault::Audience));
    assert_eq!(without("aud"), Err(IdTokenFault::Audience));
    assert_eq!(with("aud", json!(vec!["us"; MAX_LISTED + 1])), Err(IdTokenFault::Audience));
    assert!(with("aud", json!(["us"])).is_ok());
    assert_eq!(with("aud", json!(["us", "other"])), Err(IdTokenFault::Client));
    let both = |azp: &'static str| {
        check(move |claims| {
            claims["aud"] = json!(["us", "other"]);
            claims["azp"] = json!(azp);
        })
    };
    assert!(both("us").is_ok());
    assert_eq!(both("other"), Err(IdTokenFault::Client));
    assert_eq!(with("azp", "other"), Err(IdTokenFault::Client));
    assert_eq!(with("azp", Value::Null), Err(IdTokenFault::Client));
}

#[test]
fn times_are_checked_with_one_minute_of_skew() {
    let at = |offset: i64| NOW.seconds().saturating_add_signed(offset);
    for (name, offset, fault) in [
        ("exp", -59, None),
        ("exp", -60, Some(IdTokenFault::Expired)),
        ("iat", 60, None),
        ("iat", 61, Some(IdTokenFault::NotYet)),
        ("iat", -600, None),
        ("iat", -601, Some(IdTokenFault::Old)),
        ("nbf", 60, None),
        ("nbf", 61, Some(IdTokenFault::NotYet)),
        ("auth_time", 60, None),
        ("auth_time", 61, Some(IdTokenFault::NotYet)),
        ("auth_time", -1_000_000, None),
    ] {
        assert_eq!(with(name, at(offset)).err(), fault, "{name} {offset}");
    }
    assert_eq!(without("exp"), Err(IdTokenFault::Expired));
    assert_eq!(without("iat"), Err(IdTokenFault::Malformed));
    for value in [json!("1800000000"), json!(-1), json!(1e300), Value::Null] {
        assert_eq!(with("iat", value.clone()), Err(IdTokenFault::Malformed), "{value}");
    }
}

#[test]
fn a_requested_age_must_be_proved() {
    let terms = IdTokenTerms { max_age: Some(Duration::from_secs(100)), ..terms() };
    let header = json!({ "alg": "RS256" });
    let with = |auth_time: Option<u64>| {
        let mut claims = claims();
        if let Some(auth_time) = auth_time {
            claims["auth_time"] = json!(auth_time);
        }
        check_by(&terms, &header, &claims)
    };
    assert_eq!(with(None), Err(IdTokenFault::AuthTime));
    assert_eq!(with(Some(NOW.seconds() - 161)), Err(IdTokenFault::AuthTime));
    let token = with(Some(NOW.seconds() - 160)).unwrap();
    assert_eq!(token.auth_time.unwrap().seconds(), NOW.seconds() - 160);
}

#[test]
fn the_nonce_must_be_the_one_of_the_sign_in() {
    assert_eq!(with("nonce", "n-2"), Err(IdTokenFault::Nonce));
    assert_eq!(with("nonce", ""), Err(IdTokenFault::Nonce));
    assert_eq!(with("nonce", 1), Err(IdTokenFault::Nonce));
    assert_eq!(without("nonce"), Err(IdTokenFault::Nonce));
    let refresh = IdTokenTerms { nonce: None, ..terms() };
    assert!(check_by(&refresh, &json!({ "alg": "RS256" }), &claims()).is_ok());
}

#[test]
fn a_hash_of_another_access_token_is_refused() {
    // The left halves of SHA-256 and SHA-512 of "access".
    let short = "oFYf1knNtrqnhAVfBRuteQ";
    let long = "kyd4-h3ZoV2sH212kLKbcOnCBajStKQ38Ae_bfT-PFI";
    assert!(with("at_hash", short).is_ok());
    assert_eq!(with("at_hash", at_hash(Algorithm::Rs256, "other")), Err(IdTokenFault::AtHash));
    assert_eq!(with("at_hash", long), Err(IdTokenFault::AtHash));
    assert_eq!(with("at_hash", Value::Null), Err(IdTokenFault::AtHash));
    let mut claims = claims();
    claims["at_hash"] = json!(long);
    assert!(check_by(&terms(), &json!({ "alg": "EdDSA" }), &claims).is_ok());
}

#[test]
fn tokens_of_other_types_are_refused() {
    for typ in ["at+jwt", "logout+jwt", "application/at+jwt", "secevent+jwt", ""] {
        let result = check_by(&terms(), &json!({ "alg": "RS256", "typ": typ }), &claims());
        assert_eq!(result, Err(IdTokenFault::Kind), "{typ}");
    }
    for typ in ["JWT", "jwt", "application/JWT"] {
        assert!(check_by(&terms(), &json!({ "alg": "RS256", "typ": typ }), &claims()).is_ok(), "{typ}");
    }
}

#[test]
fn subject_session_and_context_class_have_maximum_lengths() {
    for sub in [json!(""), json!("a".repeat(256)), json!("a\nb"), json!(7), Value::Null] {
        assert_eq!(with("sub", sub.clone()), Err(IdTokenFault::Subject), "{sub}");
    }
    assert!(with("sub", "a".repeat(255)).is_ok());
    for name in ["sid", "acr"] {
        assert_eq!(with(name, "a".repeat(256)), Err(IdTokenFault::Malformed));
        assert_eq!(with(name, json!(["a"])), Err(IdTokenFault::Malformed));
        assert!(with(name, "a".repeat(255)).is_ok());
    }
}

#[test]
fn only_registered_authentication_methods_remain() {
    let token = with("amr", json!(["pwd", "mfa", "pwd", "ngcmfa", 7, "<script>"])).unwrap();
    assert_eq!(token.amr, ["pwd", "mfa"]);
    assert!(with("amr", "pwd").unwrap().amr.is_empty());
}

proptest! {
    #[test]
    fn no_claim_causes_a_panic(name in "(iss|sub|aud|azp|exp|iat|nbf|nonce|at_hash|auth_time|acr|amr|sid)", text in "\\PC{0,40}", number in any::<f64>()) {
        let _ = with(&name, text.clone());
        let _ = with(&name, json!([text, number]));
        let _ = with(&name, number);
        let _ = with(&name, json!({ text: number }));
    }
}
