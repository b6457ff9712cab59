//! GitHub Enterprise Server, which has its API on its own host.

use std::collections::{BTreeMap, BTreeSet};

use sealgate_domain::source::SourceId;
use sealgate_domain::username::Username;
use sealgate_upstream::UpstreamRefusal;
use serde_json::{Value, json};
use url::Url;

use super::harness::*;

const MORE: &str =
    "kind = \"github\"\nusername_claim = \"login\"\ngroups_claim = \"teams\"\nrequired = { orgs = \"acme\" }";

fn github() -> FakeProvider {
    let fake = FakeProvider::start();
    let token = json!({ "access_token": "access-1", "token_type": "bearer", "scope": "user:email" });
    let answers: [(&str, Value); 5] = [
        ("/login/oauth/access_token", token),
        ("/api/v3/user", json!({ "id": 583_231, "login": "Zeynep-Ak", "name": null, "email": "public@example.com" })),
        (
            "/api/v3/user/emails",
            json!([
                { "email": "other@example.com", "primary": false, "verified": true },
                { "email": "zeynep@example.com", "primary": true, "verified": true },
            ]),
        ),
        (
            "/api/v3/user/teams?per_page=100",
            json!([{ "slug": "core", "organization": { "login": "acme" } }, { "slug": 7 }]),
        ),
        ("/api/v3/user/orgs?per_page=100", json!([{ "login": "acme", "id": 4711 }])),
    ];
    for (path, answer) in answers {
        fake.change().answers.insert(path.into(), Answer::Json(200, answer.to_string()));
    }
    fake
}

#[tokio::test]
async fn a_user_has_the_numeric_id_the_primary_address_and_teams() {
    let fake = github();
    let client = fake.open_with(MORE);
    let secrets = Secrets::new("one");
    let url = Url::parse(&client.provider.authorization_url(&secrets.trip()).await.unwrap()).unwrap();
    assert_eq!(url.path(), "/login/oauth/authorize");
    let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    assert_eq!((query["scope"].as_str(), query.contains_key("nonce")), ("read:user user:email", false));
    let user = client.provider.sign_in(&with_code("c"), &secrets.trip()).await.unwrap().entry;
    assert_eq!((user.id, user.username), (SourceId::from_bytes(b"583231").unwrap(), Username::parse("zeynep-ak")));
    assert_eq!((user.email.unwrap().as_str(), user.email_verified), ("zeynep@example.com", true));
    assert_eq!(user.groups, BTreeSet::from(["op:acme/core".to_owned()]));
    let [token] = &fake.received("/login/oauth/access_token")[..] else { panic!() };
    assert_eq!((token.form()["client_secret"].as_str(), token.form().contains_key("code_verifier")), (SECRET, true));
    assert!(fake.received("/.well-known/openid-configuration").is_empty());
}

#[tokio::test]
async fn other_organizations_unverified_addresses_and_incomplete_lists_are_refused() {
    let fake = github();
    let client = fake.open_with(MORE);
    let secrets = Secrets::new("one");
    let emails = json!([{ "email": "zeynep@example.com", "primary": true, "verified": "true" }]).to_string();
    fake.change().answers.insert("/api/v3/user/emails".into(), Answer::Json(200, emails));
    assert!(!client.provider.sign_in(&with_code("c"), &secrets.trip()).await.unwrap().entry.email_verified);
    let next = "Link: <https://x.test/?page=2>; rel=\"next\"\r\n".to_owned();
    fake.change().answers.insert("/api/v3/user/teams?per_page=100".into(), Answer::Raw(200, next, "[]".into()));
    let overage = client.provider.sign_in(&with_code("c"), &secrets.trip()).await.unwrap_err();
    assert_eq!(overage, UpstreamRefusal::GroupsOverage);
    fake.change().answers.insert("/api/v3/user/teams?per_page=100".into(), Answer::Json(200, "[]".into()));
    fake.change().answers.insert("/api/v3/user/orgs?per_page=100".into(), Answer::Json(200, "[]".into()));
    let other = client.provider.sign_in(&with_code("c"), &secrets.trip()).await.unwrap_err();
    assert_eq!(other, UpstreamRefusal::NotAllowed("orgs".into()));
    let renamed = json!([{ "login": "new-name", "id": 4711 }, { "login": "4712", "id": "x" }]).to_string();
    fake.change().answers.insert("/api/v3/user/orgs?per_page=100".into(), Answer::Json(200, renamed));
    for (id, is_admitted) in [("4711", true), ("4712", false)] {
        let settings = MORE.replace("{ orgs = \"acme\" }", &format!("{{ org_ids = \"{id}\" }}"));
        let client = fake.open_with(&settings);
        assert_eq!(client.provider.sign_in(&with_code("c"), &secrets.trip()).await.is_ok(), is_admitted, "{id}");
    }
    let refused = Answer::Json(200, json!({ "error": "bad_verification_code" }).to_string());
    fake.change().answers.insert("/login/oauth/access_token".into(), refused);
    assert_eq!(invalid(client.provider.sign_in(&with_code("c"), &secrets.trip()).await), "code");
}
