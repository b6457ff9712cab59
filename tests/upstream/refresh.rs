//! Reads of users with refresh tokens.

use sealgate_domain::source::{SourceId, SourceLink, SourceName};
use sealgate_upstream::{UpstreamInvalid, UpstreamRefresh, UpstreamRefusal};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::harness::*;

/// Returns the answer, or why it has no user.
async fn refresh(client: &Client, token: &str, id: &str) -> Result<UpstreamRefresh, UpstreamRefusal> {
    let read = answer(client, token, id).await?;
    match read.user {
        Ok(user) => Ok(UpstreamRefresh { user: Ok(user), ..read }),
        Err(refusal) => Err(refusal),
    }
}

async fn answer(client: &Client, token: &str, id: &str) -> Result<UpstreamRefresh, UpstreamRefusal> {
    let link =
        SourceLink { source: SourceName::parse("op").unwrap(), id: SourceId::from_bytes(id.as_bytes()).unwrap() };
    client.provider.refresh(&SecretString::from(token), &link).await
}

#[tokio::test]
async fn a_user_is_read_again_with_an_id_token() {
    let fake = FakeProvider::start();
    fake.change().token_members = json!({ "refresh_token": "refresh-2" });
    fake.change().claims["groups"] = json!(["new"]);
    let client = fake.open();
    let read = refresh(&client, "refresh-1", "u-1").await.unwrap();
    assert_eq!(read.user.unwrap().groups.into_iter().collect::<Vec<_>>(), ["op:new"]);
    assert_eq!(read.refresh_token.unwrap().expose_secret(), "refresh-2");
    let [request] = &fake.received("/token")[..] else { panic!() };
    assert_eq!(request.form()["grant_type"], "refresh_token");
    assert!(request.headers.contains_key("authorization") && fake.received("/userinfo").is_empty());
}

#[tokio::test]
async fn without_an_id_token_the_user_info_counts() {
    let fake = FakeProvider::start();
    fake.change().token_members = json!({ "id_token": null, "refresh_token": null });
    fake.change().user_info = json!({ "sub": "u-1", "name": "New Name", "groups": ["wiki"] });
    let client = fake.open();
    let read = refresh(&client, "refresh-1", "u-1").await.unwrap();
    assert!(read.id_token.is_none() && read.refresh_token.is_none());
    assert_eq!(read.user.unwrap().name, "New Name");
    fake.change().user_info["sub"] = json!("u-2");
    let other = refresh(&client, "refresh-1", "u-1").await.unwrap_err();
    assert_eq!(other, UpstreamRefusal::Invalid(UpstreamInvalid::OtherUser));
}

#[tokio::test]
async fn an_ended_access_differs_from_an_outage() {
    let fake = FakeProvider::start();
    let client = fake.open();
    assert_eq!(refresh(&client, "revoked", "u-1").await.unwrap_err(), UpstreamRefusal::Ended);
    for (status, body) in [
        (500, "{}"),
        (503, "{\"error\":\"temporarily_unavailable\"}"),
        (400, "{\"error\":\"invalid_client\"}"),
        (400, "{\"error\":\"unauthorized_client\"}"),
        (400, "invalid_grant"),
        (503, "{\"error\":\"invalid_grant\"}"),
        (429, "{\"error\":\"invalid_request\"}"),
        (429, "{}"),
    ] {
        fake.change().answers.insert("/token".into(), Answer::Json(status, body.into()));
        unavailable(refresh(&client, "refresh-1", "u-1").await);
    }
    fake.change().answers.clear();
    fake.change().token_members = json!({ "id_token": null });
    fake.change().answers.insert("/userinfo".into(), Answer::Json(503, String::new()));
    unavailable(refresh(&client, "refresh-1", "u-1").await);
}

#[tokio::test]
async fn an_error_about_one_user_is_an_answer() {
    let fake = FakeProvider::start();
    let client = fake.open();
    for error in ["interaction_required", "invalid_request", "invalid_scope", "consent_required"] {
        let body = format!("{{\"error\":\"{error}\"}}");
        fake.change().answers.insert("/token".into(), Answer::Json(400, body));
        assert!(refused(refresh(&client, "refresh-1", "u-1").await).contains(error));
        assert!(refused(client.sign_in(&fake).await).contains(error));
    }
    // A user with very many claims.
    fake.change().answers.clear();
    fake.change().claims["long"] = json!("a".repeat(40_000));
    assert_eq!(refresh(&client, "refresh-1", "u-1").await.unwrap_err().as_str(), "too_long");
    assert_eq!(invalid(client.sign_in(&fake).await), "too_long");
}

#[tokio::test]
async fn the_answer_must_be_about_the_same_user() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let other = refresh(&client, "refresh-1", "u-2").await.unwrap_err();
    assert_eq!(other, UpstreamRefusal::Invalid(UpstreamInvalid::OtherUser));
    fake.change().claims["iss"] = json!("https://other.test");
    assert_eq!(refresh(&client, "refresh-1", "u-1").await.unwrap_err().as_str(), "issuer");
}

#[tokio::test]
async fn a_lost_required_claim_ends_access_only_if_the_answer_is_complete() {
    let fake = FakeProvider::start();
    let client = fake.open_with("required = { tid = \"t-1\" }");
    let refused = refresh(&client, "refresh-1", "u-1").await.unwrap_err();
    assert_eq!(refused, UpstreamRefusal::NotAllowed("tid".into()));
    fake.change().token_members = json!({ "id_token": null });
    assert!(unavailable(refresh(&client, "refresh-1", "u-1").await).contains("UserInfo has no tid"));
    fake.change().user_info = json!({ "sub": "u-1", "tid": "t-2" });
    assert_eq!(refresh(&client, "refresh-1", "u-1").await.unwrap_err(), refused);
}

/// The previous refresh token is no longer valid, so the new one must not be lost.
#[tokio::test]
async fn a_new_refresh_token_is_returned_although_the_user_cannot_be_read() {
    let fake = FakeProvider::start();
    let client = fake.open();
    fake.change().token_members = json!({ "id_token": null, "refresh_token": "refresh-2" });
    fake.change().answers.insert("/userinfo".into(), Answer::Json(503, String::new()));
    let read = answer(&client, "refresh-1", "u-1").await.unwrap();
    assert_eq!(read.refresh_token.unwrap().expose_secret(), "refresh-2");
    assert!(matches!(read.user, Err(UpstreamRefusal::Unavailable(_))));
    fake.change().answers.clear();
    fake.change().user_info = json!({ "sub": "u-2" });
    let read = answer(&client, "refresh-1", "u-1").await.unwrap();
    assert!(read.refresh_token.is_some() && read.user.is_err());
}
