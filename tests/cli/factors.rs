//! Commands about second factors, and security keys after a change of the issuer's host, a restore
//! or an import.

use std::fs;
use std::path::Path;

use sealgate_domain::user::Subject;
use sealgate_store::ExportRecord;
use serde_json::{Value, json};

use crate::factors::{ADDED, app, key, record};
use crate::serve::Server;
use crate::server::{Served, grant};
use crate::site::{Site, names, stderr};

async fn keep(site: &Site, records: &[ExportRecord]) {
    site.store().await.import(records).await.unwrap();
}

fn subject(sub: &str) -> Subject {
    Subject::parse(sub).unwrap()
}

/// Returns the kind and name of each second factor of a user.
fn kinds(site: &Site, person: &str) -> Vec<String> {
    let listed = site.json(&["user", "list-factors", person]);
    let rows = listed["factors"].as_array().unwrap();
    let text = |row: &Value| format!("{} {}", row["kind"].as_str().unwrap(), row["name"].as_str().unwrap_or_default());
    rows.iter().map(text).collect()
}

fn replace_in_config(site: &Site, from: &str, to: &str) {
    let text = fs::read_to_string(site.config()).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(site.config(), text.replace(from, to)).unwrap();
}

#[tokio::test]
async fn factors_are_listed_and_a_reset_removes_all() {
    let site = Site::new();
    let anna = subject(&site.add_user("anna@example.test"));
    assert_eq!(site.json(&["user", "list-factors", "anna@example.test"]), json!({ "factors": [] }));
    let keys = [key("security_key", "Blue key", 1), key("passkey", "Laptop", 2)];
    keep(&site, &[record(anna, &[app("Phone")], &keys, 7)]).await;

    let listed = site.json(&["user", "list-factors", "anna@example.test"]);
    let rows = listed["factors"].as_array().unwrap();
    assert_eq!(
        rows[0],
        json!({ "kind": "totp", "name": "Phone", "added": ADDED, "last_used": ADDED + 500, "blocked": true })
    );
    assert_eq!(rows[1], json!({ "kind": "security_key", "name": "Blue key", "added": ADDED + 60, "last_used": null }));
    assert_eq!(rows[2]["kind"], "passkey");
    assert_eq!((rows[3]["kind"].as_str(), rows[3]["left"].as_u64()), (Some("recovery_codes"), Some(7)));
    assert!(site.text(&["user", "list-factors", &anna.to_string()]).starts_with("KIND "));

    assert_eq!(site.json(&["user", "unblock-factors", "anna@example.test"])["unblocked"], true);
    assert!(site.json(&["user", "list-factors", "anna@example.test"])["factors"][0]["blocked"].is_null());
    assert_eq!(site.json(&["user", "unblock-factors", "anna@example.test"])["unblocked"], false);

    let reset = site.json(&["user", "reset-factors", "anna@example.test"]);
    assert_eq!(reset["factors_removed"], 3);
    let link = reset["enrolment_link"].as_str().unwrap();
    let token = link.strip_prefix("http://localhost:8080/oauth/enrolment?token=").unwrap_or_else(|| panic!("{link}"));
    assert_eq!(token.len(), 54);
    assert!(reset["link_expires_at"].as_u64().unwrap() > ADDED);
    assert_eq!(kinds(&site, "anna@example.test"), [""; 0]);
    assert!(!site.store_holds(token) && !site.store_holds(&token[22..]), "the link cannot be read from the store");

    let again = site.text(&["user", "reset-factors", "anna@example.test"]);
    assert!(
        again.starts_with("Removed 0 two-factor methods of user anna@example.test; ")
            && again.contains("enrolment_link: http://localhost:8080/"),
        "{again}"
    );
    assert!(!again.contains(token), "each reset has a link of its own");
    assert!(
        site.errors(&["user", "reset-factors", "nobody@example.test"], "")[0]
            .contains("no user has the e-mail address")
    );
}

#[tokio::test]
async fn the_audit_event_of_a_reset_names_each_key() {
    let site = Site::new();
    let anna = subject(&site.add_user("anna@example.test"));
    keep(&site, &[record(anna, &[app("Phone")], &[key("passkey", "Laptop", 2)], 0)]).await;
    let reset = site.json(&["user", "reset-factors", "anna@example.test"]);
    let trail = site.json(&["audit", "list", "--user", "anna@example.test"]);
    let events = trail["events"].as_array().unwrap();
    let said = |kind: &str| -> Vec<(&str, &str)> {
        let of_kind = events.iter().filter(|event| event["kind"] == kind);
        of_kind.map(|event| (event["actor"].as_str().unwrap(), event["detail"].as_str().unwrap())).collect()
    };
    assert_eq!(said("factor_removed"), [("operator", "passkey Laptop"), ("operator", "totp Phone")]);
    assert_eq!(said("factors_reset"), [("operator", "sessions 0 grants 0")]);
    let token = reset["enrolment_link"].as_str().unwrap().split_once('=').unwrap().1;
    assert!(!trail.to_string().contains(token));
}

#[tokio::test]
async fn a_reset_of_factors_ends_the_users_sessions_only() {
    let served = Served::start().await;
    let (anna, ben) = (served.add_user("anna@example.test").await, served.add_user("ben@example.test").await);
    served.sign_in(anna, 1).await;
    served.sign_in(ben, 2).await;
    for subject in [anna, ben] {
        grant(&served.store, subject, "wiki").await;
    }
    served.store.import(&[record(anna, &[app("Phone")], &[], 2)]).await.unwrap();
    let reset = served.run(|site| site.json(&["user", "reset-factors", "anna@example.test"])).await;
    assert_eq!((reset["sessions_ended"].as_u64(), reset["grants_ended"].as_u64()), (Some(1), Some(1)), "{reset}");
    let of = |person: &'static str| {
        served.run(move |site| site.json(&["session", "list", "--user", person])["sessions"].clone())
    };
    assert_eq!(of("anna@example.test").await, json!([]));
    assert_eq!(of("ben@example.test").await.as_array().unwrap().len(), 1);
}

/// Runs a command that must fail, and returns its error output.
fn refused(site: &Site, arguments: &[&str]) -> String {
    let output = site.run(arguments, "");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
    stderr(&output)
}

#[tokio::test]
async fn keys_of_another_host_stop_the_start_until_their_loss_is_accepted() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let (anna, ben) = (subject(&site.add_user("anna@example.test")), subject(&site.add_user("ben@example.test")));
    assert_eq!(Server::start(&site).stop().0, Some(0));
    let of_anna = record(anna, &[app("Phone")], &[key("security_key", "Blue", 1), key("passkey", "Laptop", 2)], 0);
    keep(&site, &[of_anna, record(ben, &[app("Tablet")], &[], 0)]).await;

    // Security keys are bound to the host, not to the port.
    replace_in_config(&site, "http://localhost:8080", "http://localhost:8090");
    site.text(&["check"]);
    replace_in_config(&site, "http://localhost:8090", "http://id.localhost:8080");
    for command in ["check", "serve"] {
        let said = refused(&site, &[command]);
        let words = [
            "its host changes from \"localhost\" to \"id.localhost\". 1 user has security keys",
            "abandon_keys_of = \"localhost\"",
        ];
        assert!(words.iter().all(|word| said.contains(word)), "{command}: {said}");
    }
    // The keys stay bound to the earlier host, which has to permit the new origin.
    replace_in_config(&site, "http://id.localhost:8080", "https://id.localhost:8080");
    replace_in_config(&site, "[admin]", "[factors]\nrp_id = \"localhost\"\n\n[admin]");
    site.text(&["check"]);
    assert_eq!(Server::start(&site).stop().0, Some(0));
    assert_eq!(kinds(&site, "anna@example.test").len(), 3);
    replace_in_config(&site, "[factors]\nrp_id = \"localhost\"\n\n", "");
    replace_in_config(&site, "https://id.localhost:8080", "http://id.localhost:8080");

    replace_in_config(&site, "[admin]", "[factors]\nabandon_keys_of = \"other.localhost\"\n\n[admin]");
    assert!(refused(&site, &["serve"]).contains("they would stop working"));
    assert_eq!(kinds(&site, "anna@example.test"), ["totp Phone", "security_key Blue", "passkey Laptop"]);

    replace_in_config(&site, "\"other.localhost\"", "\"localhost\"");
    site.text(&["check"]);
    assert_eq!(kinds(&site, "anna@example.test").len(), 3, "a check removes nothing");
    let (code, log) = Server::start(&site).stop();
    assert!(code == Some(0) && log.contains("removed=2"), "{log}");
    assert_eq!(kinds(&site, "anna@example.test"), ["totp Phone"]);
    assert_eq!(kinds(&site, "ben@example.test"), ["totp Tablet"]);
    let trail = site.json(&["audit", "list", "--kind", "factor_removed"]);
    assert_eq!(trail["events"].as_array().unwrap().len(), 2, "{trail}");

    // New security keys are bound to the new host.
    keep(&site, &[record(subject(&site.add_user("cem@example.test")), &[], &[key("passkey", "Laptop", 3)], 0)]).await;
    site.text(&["check"]);
    replace_in_config(&site, "http://id.localhost:8080", "http://localhost:8080");
    assert!(refused(&site, &["check"]).contains("its host changes from \"id.localhost\" to \"localhost\""));
}

#[tokio::test]
async fn a_check_of_a_changed_host_asks_the_running_server_for_keys() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let anna = subject(&site.add_user("anna@example.test"));
    assert_eq!(Server::start(&site).stop().0, Some(0));
    assert!(!names(&site_status(&site)).contains(&"keys_of"));
    keep(&site, &[record(anna, &[], &[key("passkey", "Laptop", 2)], 0)]).await;
    let _server = Server::start(&site);
    site.text(&["check"]);
    replace_in_config(&site, "http://localhost:8080", "http://id.localhost:8080");
    let said = refused(&site, &["check"]);
    assert!(
        said.contains("its host changes from \"localhost\"") && said.contains("Users have security keys"),
        "{said}"
    );
}

/// Starts a server and returns its status.
fn site_status(site: &Site) -> Value {
    let _server = Server::start(site);
    site.json(&["status"])
}

fn restore(site: &Site, from: &Path) {
    fs::remove_dir_all(site.store_directory()).unwrap();
    site.json(&["restore", "--from", from.to_str().unwrap()]);
}

#[tokio::test]
async fn a_restored_backup_has_no_recovery_codes() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let anna = subject(&site.add_user("anna@example.test"));
    keep(&site, &[record(anna, &[app("Phone")], &[key("passkey", "Laptop", 2)], 4)]).await;
    let saved = site.store_directory().with_file_name("saved");
    site.text(&["backup", "--to", saved.to_str().unwrap()]);
    restore(&site, &saved);
    assert_eq!(kinds(&site, "anna@example.test"), ["totp Phone", "passkey Laptop"]);
}

#[tokio::test]
async fn an_export_contains_factors_their_host_and_the_wrapped_data_key() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let anna = subject(&site.add_user("anna@example.test"));
    assert_eq!(Server::start(&site).stop().0, Some(0));
    let data_keys = site.store().await.wrapped_data_keys().await.unwrap();
    assert_eq!(data_keys.len(), 1);
    keep(&site, &[record(anna, &[app("Phone")], &[key("passkey", "Laptop", 2)], 4)]).await;
    let file = site.store_directory().with_file_name("export.ndjson");
    site.text(&["export", "--to", file.to_str().unwrap()]);
    fs::remove_dir_all(site.store_directory()).unwrap();
    site.text(&["import", "--from", file.to_str().unwrap()]);

    assert_eq!(kinds(&site, "anna@example.test"), ["totp Phone", "passkey Laptop", "recovery_codes "]);
    // The same token decrypts the secrets, so the server generates no new data key.
    assert_eq!(Server::start(&site).stop().0, Some(0));
    assert_eq!(site.store().await.wrapped_data_keys().await.unwrap(), data_keys);
    replace_in_config(&site, "http://localhost:8080", "http://id.localhost:8080");
    assert!(refused(&site, &["check"]).contains("1 user has security keys"));
}
