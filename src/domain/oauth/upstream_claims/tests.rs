use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::profile::is_visible;
use crate::user::Email;

fn settings() -> UpstreamClaims {
    UpstreamClaims {
        subject: "sub".into(),
        required: Vec::new(),
        domains: vec!["example.com".into(), "xn--mller-kva.example".into()],
        email_proof: EmailProof::Claim,
        username: Some("preferred_username".into()),
        groups: Some("groups".into()),
        group_names: GroupNames::Prefixed("op:".into()),
        levels: BTreeMap::from([("phr".to_owned(), AssuranceLevel::PhishingResistant)]),
    }
}

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn entry(claims: Value) -> Result<SourceEntry, ClaimsRefusal> {
    settings().entry(&object(claims))
}

fn verified_by(settings: &UpstreamClaims, claims: Value) -> bool {
    let mut all = object(json!({ "sub": "u" }));
    all.extend(object(claims));
    settings.entry(&all).unwrap().email_verified
}

#[test]
fn a_user_has_the_configured_claims() {
    let user = entry(json!({
        "sub": "u-1", "name": " Zeynep\u{202e} Ak ", "email": "zeynep@example.com", "email_verified": true,
        "preferred_username": "Zeynep.Ak", "groups": ["staff", "", "a,b", 7, "staff"], "phone_number": "+90 555 111 22 33",
        "roles": ["admin"],
    }))
    .unwrap();
    assert_eq!(user.id, SourceId::from_bytes(b"u-1").unwrap());
    assert_eq!((user.name.as_str(), user.email_verified), ("Zeynep Ak", true));
    assert_eq!(user.username, Username::parse("zeynep.ak"));
    assert_eq!(user.groups, BTreeSet::from(["op:staff".to_owned()]));
    assert_eq!(user.phone_number.as_deref(), Some("+90 555 111 22 33"));
}

#[test]
fn a_name_is_found_in_other_claims() {
    let name = |claims| entry(claims).unwrap().name;
    assert_eq!(name(json!({ "sub": "u", "given_name": "Ada", "family_name": "Lovelace" })), "Ada Lovelace");
    assert_eq!(name(json!({ "sub": "u", "name": "\u{200b}", "preferred_username": "ada" })), "ada");
    assert_eq!(name(json!({ "sub": "u", "email": "ada@example.com" })), "ada@example.com");
    assert_eq!(name(json!({ "sub": "u" })), "");
    assert_eq!(name(json!({ "sub": "u", "name": "a".repeat(100_000) })).len(), MAX_NAME_LENGTH);
}

#[test]
fn an_id_is_a_text_or_a_number() {
    let by = |subject: &str, claims| UpstreamClaims { subject: subject.into(), ..settings() }.entry(&object(claims));
    assert_eq!(by("id", json!({ "id": 583_231 })).unwrap().id, SourceId::from_bytes(b"583231").unwrap());
    assert_eq!(by("/a/b", json!({ "a": { "b": "x" } })).unwrap().id, SourceId::from_bytes(b"x").unwrap());
    for id in [json!(""), json!("a".repeat(256)), json!("a\u{0}"), json!(-1), json!(1.5), json!(["a"]), Value::Null] {
        assert_eq!(by("oid", json!({ "oid": id.clone() })).unwrap_err(), ClaimsRefusal::NoSubject, "{id}");
    }
    assert_eq!(by("oid", json!({ "sub": "u" })).unwrap_err(), ClaimsRefusal::NoSubject);
}

#[test]
fn an_address_is_verified_only_with_the_boolean_and_a_domain_of_the_provider() {
    let settings = settings();
    for email in ["a@example.com", "A@EXAMPLE.com", "a@m\u{fc}ller.example", "a@xn--mller-kva.example"] {
        assert!(verified_by(&settings, json!({ "email": email, "email_verified": true })), "{email}");
    }
    for proof in [json!("true"), json!(1), json!("1"), json!(["true"]), json!(false), Value::Null] {
        assert!(!verified_by(&settings, json!({ "email": "a@example.com", "email_verified": proof })), "{proof}");
    }
    assert!(!verified_by(&settings, json!({ "email": "a@example.com" })));
    for email in [
        "a@other.com",
        "a@sub.example.com",
        "a@example.com.other.com",
        "a@notexample.com",
        "a@example.com.",
        "a@EXAMPLE\u{130}.com",
        "a@\u{ff45}xample.com",
        "a@ex\u{e4}mple.com",
        "\"a@other.com\"@example.com",
        "a@other.com@example.com",
        "m\u{131}ne@example.com",
    ] {
        assert!(!verified_by(&settings, json!({ "email": email, "email_verified": true })), "{email}");
    }
}

#[test]
fn letters_that_only_look_alike_are_other_addresses() {
    let settings = UpstreamClaims { domains: vec!["mail.com".into()], ..settings() };
    for email in ["a@ma\u{131}l.com", "a@MA\u{130}L.com"] {
        let claims = object(json!({ "sub": "u", "email": email, "email_verified": true }));
        let user = settings.entry(&claims).unwrap();
        assert!(!user.email_verified, "{email}");
        assert_ne!(user.email.unwrap().lookup_key(), Email::parse("a@mail.com").unwrap().lookup_key());
    }
}

#[test]
fn the_owner_of_a_domain_counts_only_where_it_is_configured() {
    let entra = UpstreamClaims { email_proof: EmailProof::ClaimOrDomainOwner, ..settings() };
    let own = json!({ "email": "a@example.com", "xms_edov": true });
    assert!(verified_by(&entra, own.clone()) && !verified_by(&settings(), own));
    assert!(!verified_by(&entra, json!({ "email": "a@example.com", "xms_edov": "true" })));
    assert!(!verified_by(&entra, json!({ "email": "a@other.com", "xms_edov": true })));
    assert!(!verified_by(&entra, json!({ "email": "a@example.com", "xms_edov": true, "email_verified": false })));
    let always = UpstreamClaims { email_proof: EmailProof::Always, ..settings() };
    assert!(verified_by(&always, json!({ "email": "a@example.com" })));
    assert!(!verified_by(&always, json!({ "email": "a@other.com" })));
    assert!(!verified_by(&always, json!({ "email": "a@example.com", "email_verified": false })));
}

#[test]
fn a_reference_to_groups_is_not_read_as_no_groups() {
    for claims in [
        json!({ "sub": "u", "_claim_names": { "groups": "src1" } }),
        json!({ "sub": "u", "_claim_names": { "groups": "src1" }, "groups": ["a"] }),
        json!({ "sub": "u", "hasgroups": true }),
        json!({ "sub": "u", "hasgroups": "true" }),
        json!({ "sub": "u", "groups": vec!["a"; MAX_GROUPS + 1] }),
    ] {
        assert_eq!(entry(claims.clone()).unwrap_err(), ClaimsRefusal::GroupsOverage, "{claims}");
    }
    assert!(entry(json!({ "sub": "u", "_claim_names": { "photo": "src1" } })).is_ok());
    assert!(entry(json!({ "sub": "u", "groups": vec!["a"; MAX_GROUPS] })).is_ok());
    let roles = UpstreamClaims { groups: Some("/roles".into()), ..settings() };
    assert!(roles.entry(&object(json!({ "sub": "u", "hasgroups": true, "roles": ["a"] }))).is_ok());
    assert!(roles.entry(&object(json!({ "sub": "u", "_claim_names": { "roles": "s" } }))).is_err());
    let none = UpstreamClaims { groups: None, ..settings() };
    assert!(none.entry(&object(json!({ "sub": "u", "hasgroups": true }))).is_ok());
}

#[test]
fn a_group_map_admits_only_its_groups() {
    let names = GroupNames::Only(BTreeMap::from([("guid-1".to_owned(), "staff".to_owned())]));
    let settings = UpstreamClaims { group_names: names, groups: Some("/realm/roles".into()), ..settings() };
    let groups = |claims| settings.entry(&object(claims)).unwrap().groups;
    let staff = BTreeSet::from(["staff".to_owned()]);
    assert_eq!(groups(json!({ "sub": "u", "realm": { "roles": ["guid-1", "guid-2", "staff", "admins"] } })), staff);
    assert_eq!(groups(json!({ "sub": "u", "realm": { "roles": "guid-1" } })), staff);
    assert_eq!(groups(json!({ "sub": "u", "realm": "guid-1" })), BTreeSet::new());
}

#[test]
fn required_claims_have_the_configured_value() {
    let required = |claim: &str, value: &str| RequiredClaim { claim: claim.into(), value: value.into() };
    let settings = UpstreamClaims { required: vec![required("tid", "t-1"), required("groups", "staff")], ..settings() };
    let check = |claims| settings.entry(&object(claims)).map(|_| ());
    assert_eq!(check(json!({ "sub": "u", "tid": "t-1", "groups": ["other", "staff"] })), Ok(()));
    let refused = |claim: &str| Err(ClaimsRefusal::NotAllowed(claim.to_owned()));
    assert_eq!(check(json!({ "sub": "u", "tid": "t-2", "groups": ["staff"] })), refused("tid"));
    assert_eq!(check(json!({ "sub": "u", "groups": ["staff"] })), refused("tid"));
    assert_eq!(check(json!({ "sub": "u", "tid": { "t-1": 1 }, "groups": ["staff"] })), refused("tid"));
    assert_eq!(check(json!({ "sub": "u", "tid": "t-1", "groups": ["STAFF"] })), refused("groups"));
    assert_eq!(check(json!({ "sub": "u", "tid": "t-1" })), refused("groups"));
}

#[test]
fn claims_of_a_response_complete_those_of_the_id_token() {
    let settings = settings();
    let merged = |token, response| settings.merged(&object(token), object(response)).unwrap();
    let all = merged(json!({ "sub": "u", "name": "A" }), json!({ "sub": "u", "name": "B", "email": "a@example.com" }));
    assert_eq!((all["name"].as_str(), all["email"].as_str()), (Some("A"), Some("a@example.com")));
    let verified = |token, response| settings.entry(&merged(token, response)).unwrap().email_verified;
    let proof = json!({ "sub": "u", "email": "b@example.com", "email_verified": true });
    assert!(verified(json!({ "sub": "u" }), proof.clone()));
    assert!(verified(json!({ "sub": "u", "email": "b@example.com" }), proof.clone()));
    assert!(!verified(json!({ "sub": "u", "email": "a@example.com" }), proof));
    let other = json!({ "sub": "u", "email": "b@example.com" });
    assert!(!verified(json!({ "sub": "u", "email_verified": true }), other));
    let overage = settings.merged(&object(json!({ "sub": "u", "hasgroups": true })), object(json!({ "groups": [] })));
    assert_eq!(overage, Err(ClaimsRefusal::GroupsOverage));
}

#[test]
fn an_id_token_without_a_used_claim_is_incomplete() {
    let complete = json!({
        "sub": "u", "name": "A", "email": "a@example.com", "email_verified": true, "preferred_username": "a", "groups": [],
    });
    assert!(!settings().is_incomplete(&object(complete.clone())));
    for name in ["sub", "name", "email", "email_verified", "preferred_username", "groups"] {
        let mut claims = object(complete.clone());
        claims.remove(name);
        assert!(settings().is_incomplete(&claims), "{name}");
    }
}

#[test]
fn only_listed_context_classes_have_a_level() {
    assert_eq!(settings().level(Some("phr")), Some(AssuranceLevel::PhishingResistant));
    assert_eq!(settings().level(Some("2")), None);
    assert_eq!(settings().level(None), None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,40}".prop_map(Value::from),
        "[a-z]{1,5}@(example.com|EXAMPLE.COM|other.test)".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("(groups|sub|src)", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_reading_of_claims_is_safe(
        claims in prop::collection::btree_map(
            "(sub|name|email|email_verified|xms_edov|preferred_username|groups|_claim_names|hasgroups|phone_number)",
            any_json(),
            0..8,
        ),
    ) {
        let claims: Map<String, Value> = claims.into_iter().collect();
        let _ = settings().is_incomplete(&claims);
        let _ = settings().merged(&claims, claims.clone());
        if let Ok(entry) = settings().entry(&claims) {
            prop_assert!(entry.groups.len() <= MAX_GROUPS && entry.groups.iter().all(|group| group.starts_with("op:")));
            prop_assert!(entry.name.chars().count() <= MAX_NAME_LENGTH && is_visible(&entry.name));
            prop_assert!(!entry.email_verified || claims["email_verified"] == true);
        }
    }
}
