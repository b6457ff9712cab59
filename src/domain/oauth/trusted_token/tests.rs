use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::oauth::jwk_set::MAX_KID_LENGTH;
use crate::secret::base64url;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fn terms() -> TrustTerms {
    TrustTerms {
        name: "corp".into(),
        issuer: "https://login.corp.test/".into(),
        audiences: vec!["https://wiki.test".into()],
        algorithms: vec![Algorithm::Rs256],
        access_tokens_only: true,
        clients: None,
        skew: Duration::from_mins(1),
        longest: 8192,
        claims: ClaimNames { group_prefix: "corp:".into(), ..ClaimNames::default() },
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://login.corp.test/", "sub": "auth0|17", "aud": "https://wiki.test",
        "exp": NOW.seconds() + 600, "iat": NOW.seconds(),
    })
}

fn written(header: &str, claims: &str) -> String {
    format!("{}.{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()), base64url(b"s"))
}

fn token(claims: &Value) -> String {
    written(r#"{"alg":"RS256","kid":"k","typ":"at+jwt"}"#, &claims.to_string())
}

fn judged_by(terms: &TrustTerms, claims: &Value) -> Result<Foreign, ForeignFault> {
    Signed::parse(&token(claims), terms)?.judged(terms, NOW)
}

fn changed(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

#[test]
fn a_valid_token_yields_only_mapped_claims() {
    let verified =
        json!({ "groups": ["staff"], "scope": "profile", "email": "a@b.test", "email_verified": true, "acr": "1" });
    let mut all = claims();
    all.as_object_mut().unwrap().extend(verified.as_object().unwrap().clone());
    let foreign = judged_by(&terms(), &all).unwrap();
    assert_eq!(foreign.name(), "corp:auth0|17");
    assert_eq!(foreign.ends_at, NOW.plus(Duration::from_mins(11)));
    assert!(foreign.groups.is_empty() && foreign.scopes.is_empty());
    assert_eq!((foreign.email, foreign.acr), (None, None));
}

#[test]
fn the_header_cannot_override_the_terms() {
    let with_header = |header: &str| Signed::parse(&written(header, &claims().to_string()), &terms()).map(|_| ());
    for header in [
        r#"{"alg":"none","typ":"at+jwt"}"#,
        r#"{"alg":"None","typ":"at+jwt"}"#,
        r#"{"alg":"","typ":"at+jwt"}"#,
        r#"{"typ":"at+jwt"}"#,
        r#"{"alg":"HS256","kid":"k","typ":"at+jwt"}"#,
        r#"{"alg":"PS256","kid":"k","typ":"at+jwt"}"#,
        r#"{"alg":"ES256","kid":"k","typ":"at+jwt"}"#,
    ] {
        assert_eq!(with_header(header), Err(ForeignFault::Algorithm), "{header}");
    }
    for header in [
        r#"{"alg":"RS256","alg":"none","typ":"at+jwt"}"#,
        r#"{"alg":["RS256"],"typ":"at+jwt"}"#,
        r#"{"alg":"RS256","kid":7,"typ":"at+jwt"}"#,
        r#"["RS256"]"#,
        "",
    ] {
        assert_eq!(with_header(header), Err(ForeignFault::Malformed), "{header}");
    }
    for header in [
        r#"{"alg":"RS256","typ":"at+jwt","crit":["b64"],"b64":false}"#,
        r#"{"alg":"RS256","typ":"at+jwt","crit":[]}"#,
        r#"{"alg":"RS256","typ":"at+jwt","crit":null}"#,
    ] {
        assert_eq!(with_header(header), Err(ForeignFault::Critical), "{header}");
    }
    let long = format!(r#"{{"alg":"RS256","typ":"at+jwt","kid":"{}"}}"#, "k".repeat(MAX_KID_LENGTH + 1));
    assert_eq!(with_header(&long), Err(ForeignFault::UnknownKey));
    let brings = r#"{"alg":"RS256","typ":"at+jwt","kid":"k","jku":"https://evil.test","jwk":{"kty":"RSA"},"x5u":"x"}"#;
    assert_eq!(with_header(brings), Ok(()));
}

#[test]
fn the_type_must_be_an_access_tokens_unless_configured_otherwise() {
    let kind = |typ: &str, access_tokens_only| {
        let header = format!(r#"{{"alg":"RS256","kid":"k"{typ}}}"#);
        let terms = TrustTerms { access_tokens_only, ..terms() };
        Signed::parse(&written(&header, &claims().to_string()), &terms).map(|_| ())
    };
    for typ in [r#","typ":"at+jwt""#, r#","typ":"AT+JWT""#, r#","typ":"application/at+jwt""#] {
        assert_eq!((kind(typ, true), kind(typ, false)), (Ok(()), Ok(())), "{typ}");
    }
    for typ in ["", r#","typ":"JWT""#, r#","typ":"application/jwt""#] {
        assert_eq!((kind(typ, true), kind(typ, false)), (Err(ForeignFault::Kind), Ok(())), "{typ}");
    }
    for typ in ["logout+jwt", "secevent+jwt", "dpop+jwt", "sealgate-assertion+jwt", "", "jwt ", "at+jwt;x"] {
        let typ = format!(r#","typ":"{typ}""#);
        assert_eq!((kind(&typ, true), kind(&typ, false)), (Err(ForeignFault::Kind), Err(ForeignFault::Kind)), "{typ}");
    }
}

#[test]
fn the_issuer_is_compared_byte_for_byte() {
    for issuer in ["https://login.corp.test", "https://LOGIN.corp.test/", "https://login.corp.test//", "corp", ""] {
        assert_eq!(judged_by(&terms(), &changed("iss", issuer)), Err(ForeignFault::Issuer), "{issuer}");
    }
    assert_eq!(judged_by(&terms(), &changed("iss", json!(["https://login.corp.test/"]))), Err(ForeignFault::Issuer));
    assert_eq!(judged_by(&terms(), &without("iss")), Err(ForeignFault::Issuer));
}

#[test]
fn a_configured_audience_is_required() {
    for aud in [json!("https://wiki.test"), json!(["https://wiki.test"]), json!(["x", "https://wiki.test"])] {
        assert!(judged_by(&terms(), &changed("aud", aud.clone())).is_ok(), "{aud}");
    }
    for aud in [
        json!("https://other.test"),
        json!("https://wiki.test/"),
        json!("https://wiki.test x"),
        json!(""),
        json!([]),
        json!(["x"]),
        json!(["https://wiki.test", 1]),
        json!([["https://wiki.test"]]),
        json!({ "https://wiki.test": 1 }),
        Value::Null,
        json!(true),
    ] {
        assert_eq!(judged_by(&terms(), &changed("aud", aud.clone())), Err(ForeignFault::Audience), "{aud}");
    }
    assert_eq!(judged_by(&terms(), &without("aud")), Err(ForeignFault::Audience));
}

#[test]
fn times_are_checked_with_the_permitted_skew() {
    let at = |name: &str, seconds: u64| judged_by(&terms(), &changed(name, seconds)).map(|_| ());
    let now = NOW.seconds();
    assert_eq!((at("exp", now - 59), at("exp", now - 60)), (Ok(()), Err(ForeignFault::Expired)));
    for name in ["nbf", "iat", "auth_time"] {
        assert_eq!((at(name, now + 60), at(name, now + 61)), (Ok(()), Err(ForeignFault::NotYet)), "{name}");
    }
    assert_eq!(judged_by(&terms(), &without("exp")), Err(ForeignFault::Expired));
    assert!(judged_by(&terms(), &without("iat")).is_ok());
    let fraction = judged_by(&terms(), &changed("exp", 1_800_000_000.75)).unwrap();
    assert_eq!(fraction.ends_at, NOW.plus(Duration::from_mins(1)));
    for odd in [json!("1900000000"), json!(-1), json!(1e300), json!([1_900_000_000]), Value::Null] {
        for name in ["exp", "nbf", "iat", "auth_time"] {
            let outcome = judged_by(&terms(), &changed(name, odd.clone()));
            assert_eq!(outcome, Err(ForeignFault::Malformed), "{name} {odd}");
        }
    }
}

#[test]
fn subjects_that_cannot_be_in_a_header_are_refused() {
    for sub in [json!(""), json!("a b"), json!("a\r\nx: y"), json!("ş"), json!("a".repeat(256)), json!(7), Value::Null]
    {
        assert_eq!(judged_by(&terms(), &changed("sub", sub.clone())), Err(ForeignFault::Subject), "{sub}");
    }
    assert_eq!(judged_by(&terms(), &without("sub")), Err(ForeignFault::Subject));
}

#[test]
fn unlisted_clients_and_bound_tokens_are_refused() {
    let listed = TrustTerms { clients: Some(vec!["cron".into()]), ..terms() };
    assert!(judged_by(&listed, &changed("client_id", "cron")).is_ok());
    assert!(judged_by(&listed, &changed("azp", "cron")).is_ok());
    for claims in [changed("client_id", "other"), changed("client_id", json!(["cron"])), claims()] {
        assert_eq!(judged_by(&listed, &claims), Err(ForeignFault::Client), "{claims}");
    }
    let mut both = changed("client_id", "other");
    both["azp"] = json!("cron");
    assert_eq!(judged_by(&listed, &both), Err(ForeignFault::Client));
    assert_eq!(judged_by(&terms(), &changed("cnf", json!({ "jkt": "x" }))), Err(ForeignFault::Bound));
}

#[test]
fn mapped_claims_are_read_in_all_forms() {
    let mut mapped = terms();
    mapped.claims.groups = Some("/realm_access/roles".into());
    mapped.claims.scope = Some("scp".into());
    mapped.claims.acr = Some("acr".into());
    let mut all = claims();
    all["realm_access"] = json!({ "roles": ["staff", "", "a\u{7}b", 7, "ğ"] });
    all["scp"] = json!("read  write");
    all["acr"] = json!("urn:x");
    let foreign = judged_by(&mapped, &all).unwrap();
    assert_eq!(foreign.groups, ["corp:staff".to_owned(), "corp:ğ".to_owned()].into());
    assert_eq!(foreign.scopes, ["read".to_owned(), "write".to_owned()].into());
    assert_eq!(foreign.acr.as_deref(), Some("urn:x"));
    all["scp"] = json!(["read", "a b"]);
    assert_eq!(judged_by(&mapped, &all).unwrap().scopes, ["read".to_owned(), "a b".to_owned()].into());
    all["realm_access"] = json!({ "roles": "one" });
    assert_eq!(judged_by(&mapped, &all).unwrap().groups, ["corp:one".to_owned()].into());
    for odd in [json!({ "roles": { "staff": true } }), json!("staff"), json!([["staff"]]), Value::Null] {
        all["realm_access"] = odd;
        assert!(judged_by(&mapped, &all).unwrap().groups.is_empty());
    }
    mapped.claims.groups = Some("https://corp.test/groups".into());
    mapped.claims.group_prefix = String::new();
    all["https://corp.test/groups"] = json!(["staff"]);
    assert_eq!(judged_by(&mapped, &all).unwrap().groups, ["staff".to_owned()].into());
}

#[test]
fn an_address_counts_only_if_it_is_verified() {
    let email = |vouched, verified: Option<Value>| {
        let mut mapped = terms();
        mapped.claims.email = Some("email".into());
        mapped.claims.emails_are_verified = vouched;
        let mut claims = changed("email", "anna@corp.test");
        if let Some(verified) = verified {
            claims["email_verified"] = verified;
        }
        judged_by(&mapped, &claims).unwrap().email.is_some()
    };
    assert!(email(false, Some(json!(true))) && email(true, None) && email(true, Some(json!(true))));
    for said in [json!(false), json!("true"), json!(1), Value::Null] {
        assert!(!email(false, Some(said.clone())) && !email(true, Some(said)));
    }
    assert!(!email(false, None));
}

#[test]
fn a_repeated_claim_invalidates_the_token() {
    let header = r#"{"alg":"RS256","kid":"k","typ":"at+jwt"}"#;
    let twice = claims().to_string().replacen('{', r#"{"sub":"admin","#, 1);
    assert_eq!(Signed::parse(&written(header, &twice), &terms()).map(|_| ()), Err(ForeignFault::Malformed));
    let twice = claims().to_string().replacen('{', r#"{"\u0069ss":"https://id.test","#, 1);
    assert_eq!(claimed_issuer(&written(header, &twice)), None);
}

#[test]
fn an_oversized_token_is_not_read() {
    let long = token(&changed("padding", "x".repeat(8192)));
    assert_eq!(Signed::parse(&long, &terms()).map(|_| ()), Err(ForeignFault::TooLong));
    assert_eq!(claimed_issuer(&"a".repeat(MAX_TOKEN_LENGTH + 1)), None);
}

#[test]
fn the_claimed_issuer_is_read_only_from_three_part_tokens() {
    let sound = token(&claims());
    assert_eq!(claimed_issuer(&sound).as_deref(), Some("https://login.corp.test/"));
    for other in [format!("{sound}.x.y"), sound.replacen('.', "", 1), String::new(), "..".to_owned()] {
        assert_eq!(claimed_issuer(&other), None, "{other}");
        assert_eq!(Signed::parse(&other, &terms()).map(|_| ()), Err(ForeignFault::Malformed), "{other}");
    }
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in ".{0,200}", claims in "\\PC{0,200}") {
        let _ = claimed_issuer(&text);
        let _ = Signed::parse(&text, &terms());
        let token = written(r#"{"alg":"RS256","kid":"k","typ":"at+jwt"}"#, &claims);
        let _ = Signed::parse(&token, &terms()).map(|signed| signed.judged(&terms(), NOW));
    }

    #[test]
    fn names_of_foreign_users_are_never_local_subjects(sub in "[!-~]{1,60}") {
        if let Ok(foreign) = judged_by(&terms(), &changed("sub", sub)) {
            prop_assert_eq!(crate::user::Subject::parse(&foreign.name()), None);
        }
    }
}
