//! Claims that only the UserInfo endpoint has.

use std::collections::BTreeSet;

use sealgate_upstream::UpstreamRefusal;
use serde_json::json;

use super::harness::*;

fn lean() -> FakeProvider {
    let fake = FakeProvider::start();
    let mut state = fake.change();
    let claims = state.claims.as_object_mut().unwrap();
    for name in ["name", "email", "email_verified", "groups"] {
        claims.remove(name);
    }
    state.user_info = json!({
        "sub": "u-1", "name": "From UserInfo", "email": "zeynep@example.com", "email_verified": true,
        "groups": ["wiki"],
    });
    drop(state);
    fake
}

#[tokio::test]
async fn missing_claims_are_read_there() {
    let fake = lean();
    let user = fake.open().sign_in(&fake).await.unwrap().entry;
    assert_eq!((user.name.as_str(), user.email_verified), ("From UserInfo", true));
    assert_eq!(user.groups, BTreeSet::from(["op:wiki".to_owned()]));
    assert_eq!(fake.received("/userinfo").len(), 1);
}

#[tokio::test]
async fn a_response_about_another_user_is_refused() {
    let fake = lean();
    for sub in [json!("u-2"), json!("U-1"), json!(null), json!(["u-1"])] {
        fake.change().user_info["sub"] = sub.clone();
        assert_eq!(invalid(fake.open().sign_in(&fake).await), "userinfo_subject", "{sub}");
    }
}

#[tokio::test]
async fn a_claim_of_the_id_token_takes_precedence() {
    let fake = lean();
    fake.change().claims["name"] = json!("From the ID token");
    fake.change().claims["email"] = json!("other@example.com");
    let user = fake.open().sign_in(&fake).await.unwrap().entry;
    assert_eq!(user.name, "From the ID token");
    assert_eq!((user.email.unwrap().as_str(), user.email_verified), ("other@example.com", false));
}

#[tokio::test]
async fn a_reference_to_groups_is_refused_wherever_it_is() {
    let fake = lean();
    fake.change().user_info["_claim_names"] = json!({ "groups": "src1" });
    assert_eq!(fake.open().sign_in(&fake).await.unwrap_err(), UpstreamRefusal::GroupsOverage);
    let fake = lean();
    fake.change().claims["hasgroups"] = json!(true);
    assert_eq!(fake.open().sign_in(&fake).await.unwrap_err(), UpstreamRefusal::GroupsOverage);
}

#[tokio::test]
async fn unusable_responses_are_refused() {
    let fake = lean();
    let client = fake.open();
    for (answer, text) in [
        (Answer::Json(200, "{\"sub\":\"u-1\",\"sub\":\"u-1\"}".into()), "repeats a member"),
        (Answer::Json(200, "[]".into()), "not a JSON object"),
        (Answer::Json(401, "{}".into()), "401"),
        (Answer::Raw(200, "Content-Type: application/jwt\r\n".into(), "e30.e30.".into()), "is signed"),
    ] {
        fake.change().answers.insert("/userinfo".into(), answer);
        assert!(unavailable(client.sign_in(&fake).await).contains(text), "{text}");
    }
}

#[tokio::test]
async fn a_provider_without_the_endpoint_has_only_the_claims_of_the_id_token() {
    let fake = lean();
    fake.change().metadata.as_object_mut().unwrap().remove("userinfo_endpoint");
    let user = fake.open().sign_in(&fake).await.unwrap().entry;
    assert_eq!((user.email, user.groups.len()), (None, 0));
}
