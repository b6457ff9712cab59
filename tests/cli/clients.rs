//! `sealgate client` while no server runs.

use std::time::{Duration, Instant};

use sealgate_domain::client::{Client, ClientId, SelfRegistration};
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use serde_json::{Value, json};

use crate::records;
use crate::serve::Server;
use crate::site::{Site, names, stderr};

const WEB: &[&str] =
    &["client", "add", "wiki", "--name=Wiki", "--type=confidential", "--redirect-uri=https://wiki.example.test/cb"];
const NATIVE: &[&str] = &["client", "add", "app", "--name=App", "--type=public", "--redirect-uri=http://127.0.0.1/cb"];

#[test]
fn a_confidential_client_gets_its_secret_once() {
    let site = Site::new();
    let added = site.json(WEB);
    let secret = added["client_secret"].as_str().unwrap();
    assert_eq!(secret.len(), 43, "32 bytes in base64url");
    let shown = site.json(&["client", "show", "wiki"]);
    let expected = json!({
        "client_id": "wiki", "client_name": "Wiki", "client_type": "confidential",
        "token_endpoint_auth_method": "client_secret_basic",
        "redirect_uris": ["https://wiki.example.test/cb"], "post_logout_redirect_uris": [],
        "scope": "openid profile email phone offline_access",
        "grant_types": ["authorization_code", "refresh_token"],
        "consent": "ask", "state": "enabled", "self_registered": false, "vouched_for": true,
        "refresh_retry_seconds": null, "token_limit": null,
        "created_at": shown["created_at"],
        "client_secrets": [
            { "id": shown["client_secrets"][0]["id"], "created_at": shown["created_at"], "expires_at": null },
        ],
    });
    assert_eq!(shown, expected);
    assert_eq!(site.json(&["client", "list"]), json!({ "clients": [expected] }));
    assert!(!site.text(&["client", "show", "wiki"]).contains(secret));
    assert!(site.store_holds("wiki.example.test"), "the search would find it");
    assert!(!site.store_holds(secret));
}

#[tokio::test]
async fn the_printed_secret_authenticates_the_client() {
    let site = Site::new();
    let text = site.text(WEB);
    let secret = text.strip_prefix("Created client wiki\nclient_secret: ").unwrap().trim_end();
    let client = site.store().await.client(&ClientId::parse("wiki").unwrap()).await.unwrap().unwrap();
    assert!(client.has_secret(&Secret::new(secret), client.created_at));
}

#[test]
fn a_public_client_has_no_secret() {
    let site = Site::new();
    let added = site.json(NATIVE);
    assert!(!names(&added).contains(&"client_secret"));
    assert_eq!(added["token_endpoint_auth_method"], "none");
    assert_eq!(site.errors(&["client", "rotate-secret", "app"], ""), ["the client app is public and has no secret"]);
    assert_eq!(site.json(&["client", "show", "app"])["client_secrets"], json!([]));
}

#[test]
fn a_client_is_added_with_the_given_settings() {
    let site = Site::new();
    let more = [
        "--redirect-uri=http://localhost:3000/cb",
        "--redirect-uri=http://localhost:3000/cb",
        "--post-logout-redirect-uri=https://wiki.example.test/",
        "--scope=email openid",
        "--scope=profile",
        "--auth-method=client_secret_post",
        "--consent=implied",
    ];
    let added = site.json(&[WEB, &more].concat());
    assert_eq!(added["redirect_uris"], json!(["https://wiki.example.test/cb", "http://localhost:3000/cb"]));
    assert_eq!(added["post_logout_redirect_uris"], json!(["https://wiki.example.test/"]));
    assert_eq!(added["scope"], "openid profile email");
    assert_eq!(added["token_endpoint_auth_method"], "client_secret_post");
    assert_eq!(added["consent"], "implied");
}

#[test]
fn all_faults_of_a_new_client_are_reported_together() {
    let site = Site::new();
    let arguments = [
        "client",
        "add",
        "sealgate-app-wiki",
        "--name=x",
        "--type=public",
        "--redirect-uri=http://wiki.example.test/cb",
        "--redirect-uri=https://wiki.example.test/#f",
        "--post-logout-redirect-uri=https://*.example.test/",
        "--scope=openid root",
        "--auth-method=client_secret_basic",
    ];
    let errors = site.errors(&arguments, "");
    assert_eq!(
        errors,
        [
            "IDs that start with sealgate-app- are reserved for protected applications; choose another",
            "the redirect URI \"http://wiki.example.test/cb\" is invalid: a redirect URI must be https, or http on localhost, 127.0.0.1 or [::1]",
            "the redirect URI \"https://wiki.example.test/#f\" is invalid: a redirect URI must not have a fragment",
            "the post-logout redirect URI \"https://*.example.test/\" is invalid: a redirect URI must not have a wildcard",
            "the scope \"openid root\" is invalid: the scopes are openid, profile, email, phone, offline_access and groups",
            "a public client has no secret, so its authentication method is none, not client_secret_basic",
        ]
    );
    assert_eq!(site.json(&["client", "list"])["clients"], json!([]));
}

#[test]
fn names_are_classified() {
    let site = Site::new();
    for name in ["\u{202e}ikiW", "Wi\u{200b}ki", "Wiki\u{2069}", "\u{3164}"] {
        let arguments = ["client", "add", "app", "--type=public", "--redirect-uri=http://127.0.0.1/cb", "--name", name];
        let fault = site.errors(&arguments, "").concat();
        assert!(fault.contains("visible characters"), "{}: {fault}", name.escape_unicode());
        let arguments = ["user", "add", "a@example.test", "--password-stdin", "--name", name];
        let fault = site.errors(&arguments, "correct horse battery").concat();
        assert!(fault.contains("visible characters"), "{}: {fault}", name.escape_unicode());
    }
}

#[test]
fn a_confidential_client_authenticates() {
    let site = Site::new();
    let errors = site.errors(&[WEB, &["--auth-method=none"]].concat(), "");
    assert_eq!(
        errors,
        [
            "a confidential client authenticates with client_secret_basic, client_secret_post or private_key_jwt, not none"
        ]
    );
}

#[test]
fn a_client_id_cannot_be_registered_twice() {
    let site = Site::new();
    site.json(WEB);
    assert_eq!(site.errors(WEB, ""), ["a client with the ID wiki already exists"]);
}

#[tokio::test]
async fn a_rotated_secret_overlaps_for_the_given_time() {
    let site = Site::new();
    let first = secret(&site.json(WEB));
    let second = secret(&site.json(&["client", "rotate-secret", "wiki", "--overlap-seconds", "3600"]));
    let client = stored(&site, "wiki").await;
    let now = client.secrets[1].created_at;
    let hour = now.plus(Duration::from_hours(1));
    assert!(client.has_secret(&first, now) && !client.has_secret(&first, hour));
    assert!(client.has_secret(&second, now) && client.has_secret(&second, hour));
    let third = secret(&site.json(&["client", "rotate-secret", "wiki"]));
    let client = stored(&site, "wiki").await;
    assert_eq!(client.secrets.len(), 1);
    assert!(client.has_secret(&third, hour) && !client.has_secret(&second, now));
    let errors = site.errors(&["client", "rotate-secret", "wiki", "--overlap-seconds", "99999999"], "");
    assert_eq!(errors, ["two secrets overlap for at most 7776000 seconds (90 days)"]);
}

#[tokio::test]
async fn a_client_has_two_secrets_with_end_dates() {
    let site = Site::new();
    let first = secret(&site.json(WEB));
    let second = secret(&site.json(&["client", "secret", "add", "wiki", "--expires", "90d"]));
    let client = stored(&site, "wiki").await;
    let now = client.secrets[1].created_at;
    let end = now.plus(Duration::from_hours(90 * 24));
    assert_eq!((client.secrets[0].expires_at, client.secrets[1].expires_at), (None, Some(end)));
    assert!(client.has_secret(&first, now) && client.has_secret(&second, now) && !client.has_secret(&second, end));
    let list = site.json(&["client", "secret", "list", "wiki"]);
    let ids: Vec<_> = list["secrets"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), list["secrets"][1]["expires_at"].is_null()), (2, false));
    let text = site.text(&["client", "secret", "list", "wiki"]);
    assert!(text.starts_with("ID") && ids.iter().all(|id| text.contains(id)), "{text}");
    let errors = site.errors(&["client", "secret", "add", "wiki"], "");
    assert!(errors[0].starts_with("the client wiki has 2 valid secrets, the first one until "), "{errors:?}");
    assert_eq!(
        site.errors(&["client", "secret", "remove", "wiki", "0123456789ab"], ""),
        ["the client wiki has no secret 0123456789ab; see: sealgate client secret list wiki"]
    );
    site.text(&["client", "secret", "remove", "wiki", ids[0]]);
    assert!(!stored(&site, "wiki").await.has_secret(&first, now));
    let errors = site.errors(&["client", "secret", "remove", "wiki", ids[1]], "");
    assert!(errors[0].starts_with("this is the only valid secret of the client wiki"), "{errors:?}");
    for expired in ["2020-01-01", "2020-01-01T00:00:00Z", "0d"] {
        let errors = site.errors(&["client", "secret", "add", "wiki", "--expires", expired], "");
        assert_eq!(errors, ["a new secret must expire in the future"], "{expired}");
    }
    for wrong in ["90", "d", "-1d", "1y", "tomorrow"] {
        let output = site.run(&["client", "secret", "add", "wiki", &format!("--expires={wrong}")], "");
        assert!(!output.status.success() && stderr(&output).contains("write a day such as"), "{wrong}");
    }
    site.json(NATIVE);
    assert_eq!(site.errors(&["client", "secret", "add", "app"], ""), ["the client app is public and has no secret"]);
}

#[tokio::test]
async fn a_client_with_keys_has_no_secret() {
    const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAPIYLWvoxN+xSnJq6PDL3XhR6j0RL2tVlo41ASRqVPtw=\n-----END PUBLIC KEY-----\n";
    let site = Site::new();
    let file = site.config().with_file_name("wiki.pub");
    std::fs::write(&file, PUBLIC_KEY).unwrap();
    let jwks = format!("--jwks={}", file.display());
    let added = site.json(&[WEB, &[&jwks]].concat());
    assert_eq!((&added["token_endpoint_auth_method"], added.get("client_secret")), (&json!("private_key_jwt"), None));
    let x = "PIYLWvoxN-xSnJq6PDL3XhR6j0RL2tVlo41ASRqVPtw";
    assert_eq!(added["jwks"], json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": x }] }));
    for command in [&["secret", "add", "wiki"][..], &["rotate-secret", "wiki"]] {
        let errors = site.errors(&[&["client"], command].concat(), "");
        assert!(errors[0].starts_with("the client wiki authenticates with private_key_jwt"), "{errors:?}");
    }
    // A key that is not public, another method beside the keys, and a method without keys.
    std::fs::write(&file, r#"{"kty":"OKP","crv":"Ed25519","x":"x","d":"x"}"#).unwrap();
    let output = site.run(&["client", "set", "wiki", &jwks], "");
    assert!(!output.status.success() && stderr(&output).contains("key 1 is private"), "{output:?}");
    std::fs::write(&file, PUBLIC_KEY).unwrap();
    assert_eq!(
        site.errors(&["client", "set", "wiki", &jwks, "--auth-method=client_secret_post"], ""),
        ["jwks, jwks_uri and workload need the authentication method private_key_jwt"]
    );
    site.json(NATIVE);
    assert_eq!(
        site.errors(&["client", "set", "app", "--type=confidential", "--auth-method=private_key_jwt"], ""),
        ["the authentication method private_key_jwt needs jwks, jwks_uri or workload"]
    );
    assert_eq!(
        site.errors(&["client", "set", "wiki", "--jwks-uri=http://wiki.example.test/jwks"], ""),
        [
            "the jwks_uri \"http://wiki.example.test/jwks\" is invalid; write an https URL without a username or fragment"
        ]
    );
    assert_eq!(
        site.errors(&["client", "set", "wiki", "--workload=k8s=system:serviceaccount:jobs:backup"], ""),
        ["\"k8s\" is not the name of a [[trusted_issuer]] in the configuration"]
    );
    let changed = site.json(&["client", "set", "wiki", "--jwks-uri=https://wiki.example.test/jwks"]);
    assert_eq!((&changed["jwks_uri"], changed.get("jwks")), (&json!("https://wiki.example.test/jwks"), None));
    let owner = site.add_user("anna@example.test");
    let errors = site.errors(&["client", "set", "wiki", "--owner", &owner], "");
    assert!(errors[0].starts_with("only a client of the operator can have a jwks_uri"), "{errors:?}");
    // Back to a secret, which is printed once.
    let changed = site.json(&["client", "set", "wiki", "--auth-method=client_secret_basic"]);
    let client = stored(&site, "wiki").await;
    assert!(client.has_secret(&secret(&changed), client.secrets[0].created_at) && client.assertion_source.is_none());
    assert_eq!(site.json(&["client", "set", "wiki", "--auth-method=client_secret_post"]).get("client_secret"), None);
}

async fn stored(site: &Site, id: &str) -> Client {
    site.store().await.client(&ClientId::parse(id).unwrap()).await.unwrap().unwrap()
}

fn secret(answer: &Value) -> Secret {
    Secret::new(answer["client_secret"].as_str().unwrap())
}

#[test]
fn a_retry_window_can_be_set_and_removed() {
    let site = Site::new();
    site.json(&[WEB, &["--refresh-retry-seconds=30"]].concat());
    let window = |site: &Site| site.json(&["client", "show", "wiki"])["refresh_retry_seconds"].clone();
    assert_eq!(window(&site), 30);
    assert_eq!(site.json(&["client", "set", "wiki", "--refresh-retry-seconds=0"])["refresh_retry_seconds"], 0);
    assert_eq!(window(&site), 0);
    site.json(&["client", "set", "wiki", "--refresh-retry-seconds=default"]);
    assert_eq!(window(&site), Value::Null);
    let fault = site.errors(&["client", "set", "wiki", "--refresh-retry-seconds=301"], "").concat();
    assert!(fault.contains("at most 300 seconds"), "{fault}");
}

#[test]
fn a_default_scope_contains_openid_and_only_permitted_values() {
    let site = Site::new();
    let added = site.json(&[WEB, &["--default-scope=openid profile email"]].concat());
    assert_eq!(added["default_scope"], "openid profile email");
    let refused = |arguments: &[&str]| site.errors(arguments, "").concat();
    let set = ["client", "set", "wiki"];
    for (scope, why) in [
        ("profile email", "it must include openid"),
        ("openid api", "the scopes are"),
        ("openid groups", "the client may only ask for openid profile email phone offline_access"),
    ] {
        let setting = format!("--default-scope={scope}");
        assert!(refused(&[&set[..], &[&setting]].concat()).contains(why), "{scope}");
        let mut other = [WEB, &[setting.as_str(), "--scope=openid email profile phone offline_access"]].concat();
        other[2] = "other";
        assert!(refused(&other).contains(why), "{scope}");
    }
    // Both settings are checked together. A narrower scope does not change the default scope.
    assert_eq!(
        site.json(&["client", "set", "wiki", "--scope=openid", "--default-scope=openid"])["default_scope"],
        "openid"
    );
    assert!(
        refused(&["client", "set", "wiki", "--scope=openid", "--default-scope=openid email"])
            .contains("may only ask for openid")
    );
    assert_eq!(site.json(&["client", "show", "wiki"])["default_scope"], "openid");
}

#[test]
fn every_setting_of_a_client_can_be_set() {
    let site = Site::new();
    site.json(WEB);
    let owner = site.add_user("dev@example.test");
    let before = site.json(&["client", "show", "wiki"]);
    let settings = [
        "--name=Wiki of the town",
        "--redirect-uri=https://wiki.example.test/one",
        "--redirect-uri=https://wiki.example.test/two",
        "--post-logout-redirect-uri=https://wiki.example.test/",
        "--scope=openid email",
        "--default-scope=openid email",
        "--grant-type=authorization_code",
        "--auth-method=client_secret_post",
        "--consent=implied",
        "--description=Where the town writes things down",
        "--client-uri=https://wiki.example.test/about",
        "--initiate-login-uri=https://wiki.example.test/login",
        "--tos-uri=https://wiki.example.test/terms",
        "--policy-uri=https://wiki.example.test/privacy",
        "--default-max-age=3600",
        "--refresh-retry-seconds=20",
        "--token-limit=5000",
        "--level=phr",
        "--owner=dev@example.test",
    ];
    let set = site.json(&[&["client", "set", "wiki"], &settings[..]].concat());
    let expected = json!({
        "client_id": "wiki", "client_name": "Wiki of the town", "client_type": "confidential",
        "token_endpoint_auth_method": "client_secret_post",
        "redirect_uris": ["https://wiki.example.test/one", "https://wiki.example.test/two"],
        "post_logout_redirect_uris": ["https://wiki.example.test/"],
        "scope": "openid email", "grant_types": ["authorization_code"], "consent": "implied", "state": "enabled",
        "description": "Where the town writes things down", "client_uri": "https://wiki.example.test/about",
        "initiate_login_uri": "https://wiki.example.test/login", "default_max_age": 3600,
        "tos_uri": "https://wiki.example.test/terms", "policy_uri": "https://wiki.example.test/privacy",
        "default_scope": "openid email", "refresh_retry_seconds": 20, "token_limit": 5000, "level": "3",
        "owner": owner, "approval": set["approval"], "vouched_for": true, "self_registered": false,
        "created_at": before["created_at"], "client_secrets": before["client_secrets"],
    });
    assert_eq!((&set, &set["approval"]["by"]), (&expected, &json!("operator")));
    assert_eq!(site.json(&["client", "show", "wiki"]), expected);
    let trail = site.json(&["audit", "list", "--client=wiki", "--kind=client_changed"]);
    assert_eq!(
        trail["events"][0]["detail"],
        "set name, redirect_uris, post_logout_redirect_uris, scope, default_scope, grant_types, auth_method, consent, \
         description, client_uri, initiate_login_uri, tos_uri, policy_uri, default_max_age, refresh_retry_seconds, token_limit, level, owner"
    );

    let removed = [
        "--post-logout-redirect-uri=",
        "--description=",
        "--client-uri=",
        "--initiate-login-uri=",
        "--tos-uri=",
        "--policy-uri=",
        "--default-scope=",
        "--default-max-age=none",
        "--refresh-retry-seconds=default",
        "--token-limit=default",
        "--level=none",
        "--owner=none",
    ];
    let bare = site.json(&[&["client", "set", "wiki"], &removed[..]].concat());
    assert_eq!(bare["post_logout_redirect_uris"], json!([]));
    assert_eq!((&bare["refresh_retry_seconds"], &bare["token_limit"]), (&Value::Null, &Value::Null));
    for gone in [
        "description",
        "client_uri",
        "initiate_login_uri",
        "tos_uri",
        "policy_uri",
        "default_max_age",
        "default_scope",
        "level",
        "owner",
    ] {
        assert_eq!(bare.get(gone), None, "{gone}");
    }
    assert_eq!(bare["client_name"], "Wiki of the town", "other settings stay");

    // A command that changes nothing adds no audit event.
    site.json(&["client", "set", "wiki", "--token-limit=default"]);
    let trail = site.json(&["audit", "list", "--client=wiki", "--kind=client_changed"]);
    assert_eq!(trail["events"].as_array().unwrap().len(), 2, "{trail}");
}

#[tokio::test]
async fn a_client_gets_a_secret_when_it_becomes_confidential_and_loses_it_when_public() {
    let site = Site::new();
    site.json(NATIVE);
    let set = site.json(&["client", "set", "app", "--type=confidential"]);
    assert_eq!(set["token_endpoint_auth_method"], "client_secret_basic");
    let kept = stored(&site, "app").await;
    assert!(kept.has_secret(&secret(&set), kept.created_at));
    assert_eq!(site.json(&["client", "set", "app", "--type=confidential"]).get("client_secret"), None);
    let public = site.json(&["client", "set", "app", "--type=public"]);
    assert_eq!(
        (&public["token_endpoint_auth_method"], &public["client_secrets"], public.get("client_secret")),
        (&json!("none"), &json!([]), None)
    );
}

#[test]
fn all_errors_of_changed_settings_are_reported_and_nothing_is_changed() {
    let site = Site::new();
    site.json(NATIVE);
    let before = site.json(&["client", "show", "app"]);
    let settings = [
        "--name= ",
        "--redirect-uri=",
        "--post-logout-redirect-uri=https://*.example.test/",
        "--scope=openid root",
        "--grant-type=refresh_token",
        "--auth-method=client_secret_basic",
        "--description=a\nb",
        "--client-uri=http://127.0.0.1/",
        "--refresh-retry-seconds=301",
    ];
    let errors = site.errors(&[&["client", "set", "app"], &settings[..]].concat(), "");
    assert_eq!(
        errors,
        [
            "a client's name has 1 to 200 visible characters and no line breaks",
            "a client needs at least one redirect URI",
            "the post-logout redirect URI \"https://*.example.test/\" is invalid: a redirect URI must not have a wildcard",
            "the scope \"openid root\" is invalid: the scopes are openid, profile, email, phone, offline_access and groups",
            "a client needs the grant type authorization_code, because a refresh token starts with a code",
            "a public client has no secret, so its authentication method is none, not client_secret_basic",
            "a description has 1 to 500 visible characters and no line breaks",
            "the home page \"http://127.0.0.1/\" is invalid; write an https URL without a fragment",
            "a refresh token can be retried for at most 300 seconds",
        ]
    );
    assert_eq!(site.json(&["client", "show", "app"]), before);
    for wrong in [
        "--level=0",
        "--level=aal2",
        "--token-limit=0",
        "--token-limit=1000001",
        "--default-max-age=soon",
        "--owner=no body",
    ] {
        let output = site.run(&["client", "set", "app", wrong], "");
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", stderr(&output));
    }
    let output = site.run(&["client", "set", "app"], "");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(
        site.errors(&["client", "set", "app", "--owner=a@b.test"], ""),
        ["no user has the e-mail address a@b.test"]
    );
    assert_eq!(site.errors(&["client", "set", "gone", "--name=x"], ""), ["no client has the ID gone"]);
}

#[test]
fn a_client_can_be_disabled_enabled_and_removed() {
    let site = Site::new();
    site.json(WEB);
    assert_eq!(site.json(&["client", "disable", "wiki"])["state"], "disabled");
    assert_eq!(site.json(&["client", "show", "wiki"])["state"], "disabled");
    assert_eq!(site.json(&["client", "enable", "wiki"])["state"], "enabled");
    assert_eq!(site.json(&["client", "delete", "wiki"]), json!({ "client_id": "wiki", "deleted": true }));
    for verb in ["show", "rotate-secret", "disable", "enable", "approve", "revoke-approval", "delete"] {
        assert_eq!(site.errors(&["client", verb, "wiki"], ""), ["no client has the ID wiki"]);
    }
}

#[tokio::test]
async fn clients_of_others_can_be_approved_and_unapproved() {
    let site = Site::new();
    site.json(WEB);
    let fault = site.errors(&["client", "approve", "wiki"], "").concat();
    assert!(fault.contains("needs no approval"), "{fault}");
    let owner = Subject::from_random([7; 16]);
    let id = ClientId::parse("wiki").unwrap();
    site.store().await.change_client(&id, |client| client.owner = Some(owner)).await.unwrap();
    let shown = site.json(&["client", "show", "wiki"]);
    assert_eq!((&shown["vouched_for"], &shown["owner"]), (&json!(false), &json!(owner.to_string())));
    let approved = site.json(&["client", "approve", "wiki"]);
    assert_eq!((&approved["vouched_for"], &approved["approval"]["by"]), (&json!(true), &json!("operator")));
    assert_eq!(site.text(&["client", "revoke-approval", "wiki"]), "Revoked the approval of client wiki\n");
    assert_eq!(site.json(&["client", "show", "wiki"])["vouched_for"], false);
    let trail = site.json(&["audit", "list", "--client=wiki"]).to_string();
    assert!(trail.contains("\"detail\":\"approve\"") && trail.contains("revoke approval"), "{trail}");
}

#[tokio::test]
async fn an_initial_token_works_until_it_expires() {
    let site = Site::new();
    let made = site.json(&["client", "generate-token", "--lifetime-seconds", "60"]);
    let token = made["initial_access_token"].as_str().unwrap();
    let end = made["expires_at"].as_u64().unwrap();
    assert!(!site.store_holds(token));
    let store = site.store().await;
    let hash = SecretHash::for_secret(token.as_bytes());
    let token = store.registration_token(&hash).await.unwrap().unwrap();
    assert!(token.works(UnixTime::from_seconds(end - 1)));
    assert!(!token.works(UnixTime::from_seconds(end)));
}

#[tokio::test]
async fn initial_tokens_are_listed_and_revoked() {
    let site = Site::new();
    let made = site.json(&["client", "generate-token", "--name", "CI", "--registrations", "5"]);
    let id = made["id"].as_str().unwrap();
    let list = site.json(&["client", "list-tokens"]);
    let [token] = list["registration_tokens"].as_array().unwrap().as_slice() else { panic!("one token: {list}") };
    assert_eq!((&token["id"], &token["name"]), (&id.into(), &"CI".into()));
    assert_eq!((&token["registrations"], &token["left"], &token["clients"]), (&5.into(), &5.into(), &json!([])));
    assert_eq!(token["expires_at"], made["expires_at"]);
    assert!(!list.to_string().contains(made["initial_access_token"].as_str().unwrap()));
    let revoked = site.text(&["client", "revoke-token", id]);
    assert_eq!(revoked, format!("Revoked registration token {id}\n"));
    let hash = SecretHash::for_secret(made["initial_access_token"].as_str().unwrap().as_bytes());
    assert_eq!(site.store().await.registration_token(&hash).await.unwrap(), None);
    let again = site.run(&["client", "revoke-token", id], "");
    assert!(!again.status.success() && stderr(&again).contains("no registration token has the ID"), "{again:?}");
    let trail = site.json(&["audit", "list", "--kind=registration_token_created", "--kind=registration_token_revoked"]);
    assert_eq!(trail["events"].as_array().unwrap().len(), 2, "{trail}");
    for (arguments, fault) in [
        (["--registrations", "0"], "registers 1 to 100 clients"),
        (["--registrations", "101"], "registers 1 to 100 clients"),
        (["--lifetime-seconds", "7776001"], "valid for 1 to 7776000 seconds"),
        (["--name", "a\nb"], "no line breaks"),
    ] {
        let refused = site.run(&[&["client", "generate-token"], arguments.as_slice()].concat(), "");
        assert!(!refused.status.success() && stderr(&refused).contains(fault), "{arguments:?}: {refused:?}");
    }
}

#[tokio::test]
async fn a_logo_is_set_from_a_file_and_removed() {
    let site = Site::new();
    site.json(&["client", "add", "wiki", "--name", "Wiki", "--type", "public", "--redirect-uri", "https://wiki.test/"]);
    let file = site.config().with_file_name("logo");
    let set = |content: &[u8]| {
        std::fs::write(&file, content).unwrap();
        site.run(&["client", "set", "wiki", "--logo", file.to_str().unwrap(), "--json"], "")
    };
    let picture = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x2f\0\0\x3f\0\0";
    let done = set(picture);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(site.json(&["client", "show", "wiki"])["logo"], "image/webp");
    let store = site.store().await;
    let client = store.client(&ClientId::parse("wiki").unwrap()).await.unwrap().unwrap();
    assert_eq!(store.client_logo(&client).await.unwrap().unwrap().into_bytes(), picture);
    drop(store);
    let trail = site.json(&["audit", "list", "--client=wiki"]).to_string();
    assert!(trail.contains("\"detail\":\"set logo\""), "{trail}");
    for (content, fault) in
        [(b"<svg/>".as_slice(), "not a PNG, JPEG or WebP"), (&vec![0; 40_000], "more than 32768 bytes")]
    {
        let refused = set(content);
        assert!(!refused.status.success() && stderr(&refused).contains(fault), "{refused:?}");
    }
    let missing = site.run(&["client", "set", "wiki", "--logo", "/nonexistent/logo.png"], "");
    assert!(!missing.status.success() && stderr(&missing).contains("cannot read /nonexistent/logo.png"), "{missing:?}");
    site.json(&["client", "set", "wiki", "--logo", ""]);
    assert!(site.json(&["client", "show", "wiki"]).get("logo").is_none());
}

#[test]
fn an_unnecessary_initial_token_causes_a_note() {
    let site = Site::new();
    let config = std::fs::read_to_string(site.config()).unwrap();
    std::fs::write(site.config(), config + "[registration]\nmode = \"off\"\n").unwrap();
    let output = site.run(&["client", "generate-token"], "");
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let token = printed.trim_end().rsplit_once("\ninitial_access_token: ").unwrap().1;
    assert!(printed.starts_with("Generated an initial access token, valid until ") && token.len() == 43, "{printed}");
    assert!(stderr(&output).contains("registration.mode is \"off\""), "{}", stderr(&output));
}

#[tokio::test]
async fn a_long_client_list_is_complete() {
    let site = Site::new();
    let store = site.store().await;
    for number in 0..205 {
        let _ = store.add_client(&client(&format!("client-{number:03}"))).await.unwrap();
    }
    drop(store);
    let list = site.json(&["client", "list"]);
    assert_eq!(names(&list), ["clients"]);
    let ids: Vec<_> = list["clients"].as_array().unwrap().iter().map(|client| client["client_id"].clone()).collect();
    let expected: Vec<_> = (0..205).map(|number| json!(format!("client-{number:03}"))).collect();
    assert_eq!(ids, expected);
}

pub(crate) fn client(id: &str) -> Client {
    records::client(id, UnixTime::from_seconds(1_700_000_000))
}

#[tokio::test]
async fn records_that_expired_while_stopped_are_removed_at_the_start() {
    let site = Site::with_token();
    site.json(&["key", "generate"]);
    {
        let past = UnixTime::from_seconds(1);
        let unused = SelfRegistration {
            access_token: SecretHash::for_secret(b""),
            used: false,
            approval_requested: false,
            unused_until: Some(past),
        };
        let client = Client { registration: Some(unused), ..client("forgotten") };
        let registered = site.store().await.register_client(&client, None, 9).await.unwrap();
        assert_eq!(format!("{registered:?}"), "Added");
    }
    assert_eq!(site.json(&["client", "list"])["clients"][0]["client_id"], "forgotten");
    let _server = Server::start(&site);
    // The server must delete the client at its start, not in the periodic garbage collection.
    let end = Instant::now() + Duration::from_secs(20);
    while !site.json(&["client", "list"])["clients"].as_array().unwrap().is_empty() {
        assert!(Instant::now() < end, "nothing was swept");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
