//! `sealgate user` while no server runs.

use std::time::Duration;

use sealgate_config::LoginConfig;
use sealgate_core::password::{Passwords, QueueKey};
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Subject};
use sealgate_store::AppPasswordAdded;
use serde_json::json;

use crate::site::{OTHER_PASSWORD, PASSWORD, Site, names, stderr};

const SUB_LENGTH: usize = 36;

async fn knows(site: &Site, email: &str, password: &str) -> bool {
    let login = LoginConfig {
        only_upstream: None,
        failures_per_account: 10,
        failures_per_address: 10,
        window: Duration::from_mins(1),
        password_threads: 1,
        password_queue: 1,
    };
    let user = site.store().await.user_by_email(&Email::parse(email).unwrap()).await.unwrap().unwrap();
    let passwords = Passwords::new(&login).unwrap();
    passwords.verify(QueueKey::Trusted, user.password.as_ref(), password.into()).await.unwrap()
}

#[test]
fn a_user_is_added_with_all_attributes() {
    let site = Site::new();
    let arguments = [
        &["user", "add", "anna@example.test", "--name", "Anna Öz", "--phone", "+90 212 555 01 01"][..],
        &["--username", "anna.oz"],
        &["--picture", "https://example.test/a.png", "--email-verified", "--role", "developer", "--role", "admin"],
        &["--group", "staff", "--group", "night shift", "--password-stdin"],
    ]
    .concat();
    let added = site.json_with(&arguments, &format!("{PASSWORD}\nsecond line"));
    let sub = added["sub"].as_str().unwrap();
    assert_eq!((sub.len(), &sub[14..15]), (SUB_LENGTH, "4"), "a random UUID");
    let shown = site.json(&["user", "show", sub]);
    assert_eq!(shown, added);
    let expected = json!({
        "sub": sub, "email": "anna@example.test", "email_verified": true, "name": "Anna Öz", "username": "anna.oz",
        "phone_number": "+90 212 555 01 01", "picture": "https://example.test/a.png",
        "roles": ["developer", "admin"], "groups": ["night shift", "staff"], "state": "enabled",
        "created_at": shown["created_at"], "updated_at": shown["created_at"],
    });
    assert_eq!(shown, expected);
    assert_eq!(site.json(&["user", "show", "ANNA@example.test"]), shown);
    assert_eq!(site.json(&["user", "show", "anna.oz"]), shown);
    assert_eq!(site.json(&["user", "list"]), json!({ "users": [shown] }));
}

#[test]
fn adding_a_user_prints_only_the_sub() {
    let site = Site::new();
    assert_eq!(site.add_user("anna@example.test").len(), SUB_LENGTH);
}

/// Adds an application password of this user for the application `git`. Returns its ID.
async fn app_password(site: &Site, sub: &str, name: &str) -> String {
    let random = sealgate_system::clock::random(&sealgate_system::clock::OsEntropy);
    let (password, _) =
        AppPassword::new("git", name, AssuranceLevel::One, &random, UnixTime::from_seconds(1_700_000_000));
    let added = site.store().await.add_app_password(Subject::parse(sub).unwrap(), &password).await.unwrap();
    assert_eq!(added, AppPasswordAdded::Yes);
    password.id()
}

#[tokio::test]
async fn application_passwords_are_listed_and_revoked_one_by_one() {
    let site = Site::new();
    let (anna, ben) = (site.add_user("anna@example.test"), site.add_user("ben@example.test"));
    assert_eq!(site.json(&["app-password", "list", "anna@example.test"]), json!({ "app_passwords": [] }));
    let laptop = app_password(&site, &anna, "laptop").await;
    let phone = app_password(&site, &anna, "phone").await;
    let of_ben = app_password(&site, &ben, "laptop").await;
    let row = |id: &str, name: &str| json!({ "id": id, "app": "git", "name": name, "created_at": 1_700_000_000, "last_used_at": null });
    let listed = |whom: &str| site.json(&["app-password", "list", whom])["app_passwords"].clone();
    assert_eq!(listed(&anna), json!([row(&laptop, "laptop"), row(&phone, "phone")]));
    let table = site.text(&["app-password", "list", "anna@example.test"]);
    assert!(table.starts_with("ID ") && table.contains("2023-11-14T22:13:20Z"), "{table}");
    // A command that names another user cannot revoke it.
    let errors = site.errors(&["app-password", "revoke", "anna@example.test", &of_ben], "");
    assert_eq!(errors, [format!("anna@example.test has no application password with the ID {of_ben}")]);
    let revoked = site.json(&["app-password", "revoke", "anna@example.test", &laptop]);
    assert_eq!(revoked, json!({ "sub": anna, "id": laptop, "app": "git", "name": "laptop", "revoked": true }));
    assert_eq!((listed(&anna), listed(&ben)), (json!([row(&phone, "phone")]), json!([row(&of_ben, "laptop")])));
    assert_eq!(site.errors(&["app-password", "revoke", "anna@example.test", &laptop], "").len(), 1);
    let trail = site.json(&["audit", "list", "--kind", "app_password_revoked"]);
    let events: Vec<_> = trail["events"].as_array().unwrap().iter().collect();
    assert_eq!(events.len(), 1, "{trail}");
    let told = ["actor", "sub", "app", "detail"].map(|name| events[0][name].as_str().unwrap().to_owned());
    assert_eq!(told, ["operator".to_owned(), anna, "git".to_owned(), laptop]);
}

#[test]
fn a_list_is_printed_as_a_table() {
    let site = Site::new();
    let sub = site.add_user("anna@example.test");
    let table = site.text(&["user", "list"]);
    let cells = |line: &'_ str| -> Vec<String> {
        line.split("  ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    let lines: Vec<_> = table.lines().map(cells).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], ["SUB", "EMAIL", "USERNAME", "NAME", "STATE", "ROLES", "INVITATION"]);
    assert_eq!(lines[1], [&sub, "anna@example.test", "Anna Example", "enabled"]);
}

#[test]
fn an_address_belongs_to_one_user() {
    let site = Site::new();
    site.add_user("anna@example.test");
    let again = ["user", "add", "Anna@Example.test", "--name", "Other", "--password-stdin"];
    assert_eq!(site.errors(&again, PASSWORD), ["a user with the e-mail address Anna@Example.test already exists"]);
    assert_eq!(site.json(&["user", "list"])["users"].as_array().unwrap().len(), 1);
}

#[test]
fn a_username_belongs_to_one_user() {
    let site = Site::new();
    let anna = site.add_user("anna@example.test");
    site.add_user("ben@example.test");
    site.json(&["user", "set", "anna@example.test", "--username", "anna"]);
    let taken = ["a user with the username anna already exists"];
    assert_eq!(site.errors(&["user", "set", "ben@example.test", "--username", "anna"], ""), taken);
    let add = ["user", "add", "c@example.test", "--name", "C", "--username", "anna", "--password-stdin"];
    assert_eq!(site.errors(&add, PASSWORD), taken);
    for wrong in ["Anna", "anna@b", "9a", "ayşe", &anna] {
        let output = site.run(&["user", "set", "ben@example.test", "--username", wrong], "");
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(stderr(&output).contains("a username has 1 to 64"), "{}", stderr(&output));
    }
    // A username is available again once its owner gives it up or is deleted.
    site.json(&["user", "set", "anna", "--no-username"]);
    assert_eq!(site.errors(&["user", "show", "anna"], ""), ["no user has the username anna"]);
    site.json(&["user", "set", "ben@example.test", "--username", "anna"]);
    site.json(&["user", "delete", "anna"]);
    assert_eq!(site.json_with(&add, PASSWORD)["username"], "anna");
}

#[test]
fn a_user_without_an_address_has_a_username_and_a_password() {
    let site = Site::new();
    let add = ["user", "add", "anna", "--name", "Anna Öz", "--password-stdin"];
    let text = site.text_with(&add, PASSWORD);
    assert!(text.starts_with("Created user anna with ID "), "{text}");
    let shown = site.json(&["user", "show", "anna"]);
    let expected = json!({
        "sub": shown["sub"], "email_verified": false, "name": "Anna Öz", "username": "anna", "roles": [], "groups": [],
        "state": "enabled", "created_at": shown["created_at"], "updated_at": shown["created_at"],
    });
    assert_eq!(shown, expected);
    assert!(!site.text(&["user", "show", "anna"]).to_lowercase().contains("email  "));
    let table = site.text(&["user", "list"]);
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, [shown["sub"].as_str().unwrap(), "anna", "Anna", "Öz", "enabled"]);
    assert_eq!(site.errors(&add, PASSWORD), ["a user with the username anna already exists"]);
    // Other commands accept the username.
    for command in [&["disable"][..], &["enable"], &["set", "--phone", "+90 212 555 01 01"]] {
        let arguments = [&["user", command[0], "anna"][..], &command[1..]].concat();
        let text = site.text(&arguments);
        assert!(text.contains("user anna"), "{arguments:?}: {text}");
    }
    assert_eq!(site.json(&["session", "list", "--user", "anna"]), json!({ "sessions": [] }));
    // The username is given once, and an address that does not exist is not verified.
    let twice = site.run(&["user", "add", "ben", "--username", "benk", "--name", "B", "--password-stdin"], PASSWORD);
    assert_eq!(twice.status.code(), Some(2));
    assert!(stderr(&twice).contains("a user has only one username"), "{}", stderr(&twice));
    let verified = ["user", "add", "ben", "--name", "B", "--email-verified", "--password-stdin"];
    assert_eq!(site.errors(&verified, PASSWORD), ["a user without an e-mail address cannot have a verified one"]);
    for wrong in ["Ben", "ben:k", "a@b@c", "1f0c2e8e-6b0e-4b43-8a3e-2d4c8b1f9a77"] {
        assert_eq!(
            site.run(&["user", "add", wrong, "--name", "B", "--password-stdin"], PASSWORD).status.code(),
            Some(2)
        );
    }
}

#[test]
fn an_invitation_needs_an_address() {
    let site = Site::new();
    let errors = site.errors(&["user", "add", "anna", "--name", "Anna"], "");
    assert!(
        errors[0].contains("an invitation needs an e-mail address; give the address, or the password"),
        "{errors:?}"
    );
    assert_eq!(site.run(&["user", "invite", "anna", "--name", "Anna"], "").status.code(), Some(2));
    let import = ["user", "import", "-", "--format", "csv"];
    site.json_with(&import, "username,name\nanna,Anna\n");
    let errors = site.errors(&["user", "resend-invitation", "anna", "--print-link"], "");
    assert!(errors[0].starts_with("anna has no e-mail address; an invitation needs an e-mail address"), "{errors:?}");
    site.json(&["user", "set", "anna", "--email", "anna@example.test"]);
    let link = site.json(&["user", "resend-invitation", "anna", "--print-link"]);
    assert!(link["invitation_link"].as_str().unwrap().contains("/oauth/invitation?token="), "{link}");
}

#[test]
fn an_address_is_removed_only_from_a_user_with_a_username() {
    let site = Site::new();
    let sub = site.add_user("anna@example.test");
    let remove = ["user", "set", &sub, "--no-email"];
    let nameless = ["a user needs an e-mail address or a username; the only one of the two cannot be removed"];
    assert_eq!(site.errors(&remove, ""), nameless);
    assert_eq!(site.json(&["user", "show", &sub])["email"], "anna@example.test");
    site.json(&["user", "set", &sub, "--email-verified"]);
    let both = site.json(&["user", "set", &sub, "--no-email", "--username", "anna"]);
    assert_eq!(
        (&both["email"], &both["email_verified"], &both["username"]),
        (&json!(null), &json!(false), &json!("anna"))
    );
    assert_eq!(site.errors(&["user", "set", "anna", "--no-username"], ""), nameless);
    assert_eq!(site.errors(&["user", "show", "anna@example.test"], "").len(), 1, "the address is free");
    for conflict in ["--email-verified", "--email=b@example.test"] {
        assert_eq!(site.run(&["user", "set", "anna", "--no-email", conflict], "").status.code(), Some(2), "{conflict}");
    }
    let errors = site.errors(&["user", "set", "anna", "--email-verified"], "");
    assert_eq!(errors, ["a user without an e-mail address cannot have a verified one"]);
    site.add_user("anna@example.test");
    let taken = site.errors(&["user", "set", "anna", "--email", "Anna@example.test"], "");
    assert_eq!(taken, ["a user with the e-mail address Anna@example.test already exists"]);
    let moved = site.json(&["user", "set", "anna", "--email", "a@example.test", "--no-username"]);
    assert_eq!((&moved["email"], &moved["username"]), (&json!("a@example.test"), &json!(null)));
    let trail = site.json(&["audit", "list", "--user", &sub, "--kind", "user_changed"]);
    assert!(trail.to_string().contains("address, verification of the address, username"), "{trail}");
}

#[test]
fn user_set_changes_each_property() {
    let site = Site::new();
    let sub = site.add_user("anna@example.test");
    site.add_user("ben@example.test");
    let set = |arguments: &[&str]| site.json(&[&["user", "set", &sub][..], arguments].concat());
    let changed = [
        &["--name", "Anna Öz", "--phone", "+90 212 555 01 01", "--picture", "https://example.test/a.png"][..],
        &["--role", "admin", "--group", "staff", "--group", "night shift", "--email-verified"],
    ]
    .concat();
    let mut shown = set(&changed);
    // A new role ends the user's access.
    for ended in ["grants_ended", "sessions_ended"] {
        assert_eq!(shown.as_object_mut().unwrap().remove(ended), Some(json!(0)), "{ended}");
    }
    assert_eq!(shown, site.json(&["user", "show", &sub]));
    assert_eq!((&shown["name"], &shown["phone_number"]), (&json!("Anna Öz"), &json!("+90 212 555 01 01")));
    assert_eq!((&shown["roles"], &shown["groups"]), (&json!(["admin"]), &json!(["night shift", "staff"])));
    assert_eq!((&shown["email_verified"], &shown["picture"]), (&json!(true), &json!("https://example.test/a.png")));
    // Omitted fields do not change. A new address counts as unverified.
    assert_eq!(set(&["--email", "ANNA@example.test"])["email_verified"], true, "the same address");
    let shown = set(&["--email", "a.oz@example.test", "--remove-group", "staff", "--add-group", "ops"]);
    assert_eq!((&shown["email"], &shown["email_verified"]), (&json!("a.oz@example.test"), &json!(false)));
    assert_eq!((&shown["groups"], &shown["name"]), (&json!(["night shift", "ops"]), &json!("Anna Öz")));
    assert_eq!(set(&["--email", "anna@example.test", "--email-verified"])["email_verified"], true);
    assert_eq!(set(&["--email-unverified"])["email_verified"], false);
    let shown = set(&["--no-phone", "--no-picture", "--no-roles", "--no-groups"]);
    assert_eq!((&shown["phone_number"], &shown["picture"]), (&json!(null), &json!(null)));
    assert_eq!((&shown["roles"], &shown["groups"]), (&json!([]), &json!([])));
    // The old address is available and another user's is not. A failed command changes nothing.
    site.add_user("a.oz@example.test");
    let taken = ["user", "set", &sub, "--email", "Ben@example.test", "--name", "Nobody"];
    assert_eq!(site.errors(&taken, ""), ["a user with the e-mail address Ben@example.test already exists"]);
    let wrong = ["user", "set", &sub, "--name", " ", "--phone", "0555", "--picture", "x", "--add-group", "a,b"];
    assert_eq!(site.errors(&wrong, "").len(), 4);
    assert_eq!(site.json(&["user", "show", &sub]), shown);
    assert_eq!(site.run(&["user", "set", &sub], "").status.code(), Some(2), "nothing to change is a slip");
    assert_eq!(
        site.errors(&["user", "set", "nobody@example.test", "--name", "N"], ""),
        ["no user has the e-mail address nobody@example.test"]
    );
    // The audit event names the changed fields without their values, and the roles and groups.
    let trail = site.json(&["audit", "list", "--user", &sub, "--kind", "user_changed"]);
    assert_eq!(
        trail["events"].as_array().unwrap().last().unwrap()["detail"],
        "verification of the address, name, phone number, picture, role added admin, group added night shift, \
         group added staff"
    );
    assert!(!trail.to_string().contains("Öz"));
}

#[tokio::test]
async fn the_password_works_and_is_not_stored_in_clear() {
    let site = Site::new();
    site.add_user("anna@example.test");
    assert!(knows(&site, "anna@example.test", PASSWORD).await);
    assert!(!knows(&site, "anna@example.test", OTHER_PASSWORD).await);
    assert!(site.store_holds("anna@example.test"), "the search would find it");
    assert!(!site.store_holds(PASSWORD));
}

#[tokio::test]
async fn a_new_password_replaces_the_old_one() {
    let site = Site::new();
    site.add_user("anna@example.test");
    let set = ["user", "set-password", "anna@example.test", "--password-stdin"];
    assert_eq!(site.json_with(&set, OTHER_PASSWORD)["sessions_ended"], 0);
    assert!(knows(&site, "anna@example.test", OTHER_PASSWORD).await);
    assert!(!knows(&site, "anna@example.test", PASSWORD).await);
}

#[test]
fn a_password_is_read_only_from_standard_input() {
    let site = Site::new();
    let arguments = ["user", "add", "anna@example.test", "--name", "Anna"];
    // Without a password, the command would invite the user.
    let errors = site.errors(&arguments, PASSWORD);
    assert!(
        errors.len() == 1
            && errors[0].contains("the server, which is not running")
            && errors[0].contains("--password-stdin"),
        "{errors:?}"
    );
    assert_eq!(site.json(&["user", "list"])["users"].as_array().unwrap().len(), 0);
    let output = site.run(&["user", "set-password", "anna@example.test"], PASSWORD);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--password-stdin"), "{}", stderr(&output));
    let output = site.run(&[&arguments[..], &["--password", PASSWORD]].concat(), "");
    assert_eq!(output.status.code(), Some(2));
    let with_stdin = [&arguments[..], &["--password-stdin"]].concat();
    assert_eq!(site.errors(&with_stdin, ""), ["standard input has no password"]);
    // Thirteen characters. Some consist of two code points.
    for short in ["short\n", "gu\u{308}l s\u{327}eker u\u{308}ft\n"] {
        assert_eq!(site.errors(&with_stdin, short), ["a password has at least 15 characters; a few words are enough"]);
    }
    assert_eq!(site.errors(&with_stdin, &"x".repeat(1025)), ["a password has at most 1024 bytes"]);
}

#[test]
fn a_common_password_is_refused() {
    let site = Site::new();
    let add = ["user", "add", "anna.oz@example.test", "--name", "Anna Öz", "--username", "annao"];
    let add = [&add[..], &["--password-stdin"]].concat();
    for (password, told) in [
        ("password", "at least 15 characters"),
        ("passwordpassword", "easy to guess"),
        ("ANNA likes mountains", "name, username or e-mail address"),
        ("x anna.oz@example.test", "name, username or e-mail address"),
        ("the annao of the north", "name, username or e-mail address"),
    ] {
        let errors = site.errors(&add, password);
        assert!(errors.len() == 1 && errors[0].contains(told), "{password}: {errors:?}");
    }
    site.json_with(&add, PASSWORD);
    let set = ["user", "set-password", "annao", "--password-stdin"];
    assert!(site.errors(&set, "qwertyuiopasdfgh")[0].contains("easy to guess"));
    assert!(site.errors(&set, "anna anna anna anna")[0].contains("name, username or e-mail address"));
    site.json_with(&set, OTHER_PASSWORD);
}

#[test]
fn all_faults_of_a_new_user_are_reported_together() {
    let site = Site::new();
    let arguments = [
        &["user", "add", "anna@example.test", "--name", " ", "--phone", "0555"][..],
        &["--picture", "javascript:alert(1)", "--group", "a,admins", "--password-stdin"],
    ]
    .concat();
    let errors = site.errors(&arguments, "short");
    let about = ["a password", "a name", "a phone number", "a picture", "the group \"a,admins\""];
    assert_eq!(errors.len(), about.len(), "{errors:?}");
    for (error, about) in errors.iter().zip(about) {
        assert!(error.starts_with(about), "{error}");
    }
}

#[test]
fn a_user_can_be_disabled_enabled_and_deleted() {
    let site = Site::new();
    let sub = site.add_user("anna@example.test");
    assert_eq!(site.json(&["user", "disable", &sub])["state"], "disabled");
    assert_eq!(site.json(&["user", "show", &sub])["state"], "disabled");
    assert_eq!(site.json(&["user", "enable", &sub])["state"], "enabled");
    let revoked = site.json(&["user", "revoke", &sub]);
    assert_eq!(revoked, json!({ "sub": sub, "sessions_ended": 0, "grants_ended": 0 }));
    assert_eq!(site.json(&["user", "delete", "anna@example.test"])["deleted"], true);
    assert_eq!(site.errors(&["user", "show", &sub], ""), [format!("no user has the sub {sub}")]);
    let gone = ["no user has the e-mail address anna@example.test"];
    for verb in ["show", "disable", "enable", "revoke", "delete"] {
        assert_eq!(site.errors(&["user", verb, "anna@example.test"], ""), gone);
    }
    assert_eq!(site.errors(&["session", "list", "--user", "anna@example.test"], ""), gone);
    assert_ne!(site.add_user("anna@example.test"), sub, "the address is free, the sub is not used again");
}

#[test]
fn no_output_about_a_user_contains_a_hash() {
    let site = Site::new();
    let sub = site.add_user("anna@example.test");
    for arguments in [&["user", "show", &sub][..], &["user", "list"], &["user", "disable", &sub]] {
        let printed = site.json(arguments).to_string();
        assert!(!printed.contains("argon2") && !printed.contains("password"), "{printed}");
    }
    assert!(!names(&site.json(&["user", "show", &sub])).contains(&"password"));
}

#[test]
fn the_audit_trail_is_exported_for_other_programs() {
    let site = Site::new();
    let sub = site.add_user("anna@example.test");
    // More than one page of events.
    for number in 0..120 {
        site.json(&["user", "set", &sub, "--name", &format!("Anna {number}")]);
    }
    let lines = site.text(&["audit", "export"]);
    let events: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 121);
    assert_eq!((&events[0]["kind"], &events[120]["kind"]), (&json!("user_changed"), &json!("user_created")));
    let ids: std::collections::BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 121);
    assert_eq!(site.text(&["audit", "export", "--until", "2001-01-01"]), "");
    // The exported file is readable by its owner only.
    let file = site.store_directory().with_file_name("trail.csv");
    let to = ["audit", "export", "--kind", "user_created", "--format", "csv", "--to", file.to_str().unwrap()];
    assert_eq!(site.json(&to)["events"], 1);
    let text = std::fs::read_to_string(&file).unwrap();
    let rows: Vec<&str> = text.split_terminator("\r\n").collect();
    assert!(rows.len() == 2 && rows[0].starts_with("\"id\",\"happened_at\",\"kind\""), "{text}");
    assert!(rows[1].contains("Z\",\"user_created\",\"operator\"") && rows[1].contains(&sub), "{text}");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions()) & 0o777,
        0o600
    );
    assert!(site.errors(&to, "")[0].contains("trail.csv"), "an old file is not written over");
}
