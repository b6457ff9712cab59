//! `sealgate upstream check`.

use std::fs;
use std::process::{Command, Output};

use sealgate_domain::secret::base64url;
use serde_json::{Value, json};

use super::harness::*;

struct Checked {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

fn check(fake: &FakeProvider, more: &str, claims: Option<&str>, arguments: &[&str]) -> Checked {
    let file = fake.place().join("sealgate.toml");
    fs::write(&file, fake.config(more)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealgate"));
    command.args(["upstream", "check"]).args(arguments).arg("--config").arg(&file);
    if let Some(claims) = claims {
        let file = fake.place().join("claims");
        fs::write(&file, claims).unwrap();
        command.arg("--claims").arg(&file);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Checked { status: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

#[test]
fn the_urls_to_register_and_the_stored_user_are_shown() {
    let fake = FakeProvider::start();
    fake.change().metadata["backchannel_logout_supported"] = json!(true);
    let claims = fake.change().claims.to_string();
    let found = check(&fake, "", Some(&claims), &["op"]);
    assert_eq!(found.status, Some(0), "{}{}", found.stdout, found.stderr);
    for line in [
        &format!("ok: op: metadata: read {}/.well-known/openid-configuration", fake.issuer)[..],
        &format!("ok: op: keys: {}/jwks has 1 usable keys", fake.issuer),
        "ok: op: client_secret_file: the secret can be read",
        "ok: op: redirect_uri: register https://id.test/oauth/upstream/op/callback at the provider",
        "ok: op: logout: register https://id.test/oauth/upstream/op/logout at the provider for back-channel logout",
        "  id: u-1",
        "  email: zeynep@example.com",
        "  email_verified: true",
        "  groups: op:staff",
    ] {
        assert!(found.stdout.lines().any(|found| found == line), "{line}: {}", found.stdout);
    }
    assert!(!found.stdout.contains(SECRET));
    let token = format!("e30.{}.c2ln", base64url(claims.as_bytes()));
    let found = check(&fake, "", Some(&token), &["--json"]);
    let value: Value = serde_json::from_str(&found.stdout).unwrap();
    let upstream = &value["upstreams"][0];
    assert_eq!(
        (&upstream["name"], &upstream["ok"], &upstream["user"]["id"]),
        (&json!("op"), &json!(true), &json!("u-1"))
    );
}

#[test]
fn each_error_has_a_remedy() {
    let fake = FakeProvider::start();
    let fails = |more: &str, claims: Option<&str>, parts: &[&str]| {
        let found = check(&fake, more, claims, &["op"]);
        assert_eq!(found.status, Some(1), "{}", found.stdout);
        let mut errors = found.stdout.lines().filter(|line| line.starts_with("error: "));
        assert!(errors.any(|error| parts.iter().all(|part| error.contains(part))), "{parts:?}: {}", found.stdout);
    };
    fails(
        "required = { tid = \"t\" }",
        Some("{\"sub\":\"u\"}"),
        &["tid does not have the required value; correct required"],
    );
    fails("subject_claim = \"oid\"", Some("{\"sub\":\"u\"}"), &["oid is missing", "correct subject_claim"]);
    fails("", Some("{\"sub\":\"u\",\"hasgroups\":true}"), &["too many groups", "assigned to this application"]);
    fails(
        "",
        Some("{\"sub\":\"u\",\"iss\":\"https://other.test\"}"),
        &["iss is \"https://other.test\"", "correct one"],
    );
    fails("", Some("{\"sub\":\"u\",\"aud\":[\"other\"]}"), &["aud is [\"other\"]", "client_id"]);
    fails("client_key = \"missing\"", None, &["client_key: "]);
    fake.change().metadata["token_endpoint_auth_methods_supported"] = json!(["private_key_jwt"]);
    fails("", None, &["neither client_secret_basic nor client_secret_post", "the other kind of credential"]);
    fake.change().answers.insert("/jwks".into(), Answer::Json(200, "{\"keys\":[]}".into()));
    fails("", None, &["keys: ", "check the provider"]);
    fake.change().answers.insert("/.well-known/openid-configuration".into(), Answer::Json(404, String::new()));
    fails("", None, &["metadata: ", "write the issuer exactly as the provider states it"]);
    fake.replace_secret("");
    fails("", None, &["files: ", "is empty; write the client secret"]);
}

#[test]
fn the_reason_for_an_unverified_address_is_shown() {
    let fake = FakeProvider::start();
    let claims = fake.change().claims.clone();
    for (email, verified, part) in [
        ("a@other.com", json!(true), "\"other.com\" is not in domains"),
        ("a@example.com", json!("true"), "email_verified is \"true\" and not the boolean"),
        ("a@example.com", json!(false), "email_verified is not true"),
    ] {
        let mut claims = claims.clone();
        claims["email"] = json!(email);
        claims["email_verified"] = verified;
        let found = check(&fake, "", Some(&claims.to_string()), &["op"]);
        assert_eq!(found.status, Some(0), "{}", found.stdout);
        let is_shown = |line: &str| line.starts_with("warning: op: email: ") && line.contains(part);
        assert!(found.stdout.lines().any(is_shown), "{part}: {}", found.stdout);
        assert!(found.stdout.contains("  email_verified: false"));
    }
}

#[test]
fn unknown_names_and_unusable_claims_are_refused() {
    let fake = FakeProvider::start();
    let found = check(&fake, "", None, &["other"]);
    assert!(
        found.status == Some(1) && found.stderr.contains("no upstream is named other; the names are op"),
        "{}",
        found.stderr
    );
    for claims in ["", "not JSON", "{\"sub\":\"a\",\"sub\":\"b\"}", "[]", "a.b.c"] {
        let found = check(&fake, "", Some(claims), &["op"]);
        assert!(
            found.status == Some(1) && found.stderr.contains("write the claims of one ID token"),
            "{}",
            found.stderr
        );
    }
}
