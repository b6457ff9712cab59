//! `sealgate directory check`.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::directory::harness::{Keys, config};
use crate::scripted::{attribute, entry, scripted};
use crate::slapd::{BASE, Slapd, group, user, write_secret};

struct Checked {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(text: &str, password: &str, arguments: &[&str]) -> Checked {
    let place = tempfile::tempdir().unwrap();
    write_secret(&place.path().join("password"), password);
    let file = place.path().join("sealgate.toml");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealgate"));
    command.args(["directory", "check"]).args(arguments).arg("--config").arg(&file);
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Checked { status: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn check(keys: &Keys<'_>, arguments: &[&str]) -> Checked {
    run(&config(keys), "service password", arguments)
}

#[test]
fn a_user_is_shown_as_it_would_be_stored() {
    let entries = user("anna", "displayName: Anna K\n") + &group("staff", &["uid=anna,ou=people"]);
    let server = Slapd::start(&entries);
    let more = format!("ca_file = \"{}\"", server.ca_file().display());
    let keys = Keys { servers: &[server.tls_url(), server.tls_url()], more: &more, ..Keys::default() };
    let found = check(&keys, &["corp", "--find", "anna"]);
    assert_eq!(found.status, Some(0), "{}{}", found.stdout, found.stderr);
    let lines: Vec<_> = found.stdout.lines().collect();
    assert!(
        lines[0].starts_with(&format!("ok: corp: {}: connected with TLS; cn=sealgate", server.tls_url())),
        "{lines:#?}"
    );
    for line in [
        "  username: anna",
        "  email: anna@example.test",
        "  email_verified: true",
        "  name: Anna K",
        "  groups: corp:staff",
        "  state: enabled",
    ] {
        assert!(lines.contains(&line), "{line}: {lines:#?}");
    }
    let found = check(&keys, &["--find", "anna@example.test", "--json"]);
    let value: Value = serde_json::from_str(&found.stdout).unwrap();
    let directory = &value["directories"][0];
    assert_eq!((&directory["name"], &directory["ok"]), (&json!("corp"), &json!(true)));
    assert_eq!(directory["user"]["groups"], json!(["corp:staff"]));
    assert_eq!(directory["user"]["id"].as_str().unwrap().len(), 36);
    assert!(directory["steps"].as_array().unwrap().iter().all(|step| step["outcome"] == "passed"), "{directory}");
}

#[test]
fn each_error_has_a_remedy() {
    let mut server = Slapd::start(&(user("anna", "") + &user("otto", "uid: anna@example.test\n")));
    let servers = [server.url()];
    let keys = || Keys { servers: &servers, ..Keys::default() };
    let fails = |keys: &Keys<'_>, arguments: &[&str], parts: &[&str]| {
        let found = check(keys, arguments);
        assert_eq!(found.status, Some(1), "{}", found.stdout);
        let error = found.stdout.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(parts.iter().all(|part| error.contains(part)), "{}", found.stdout);
    };
    fails(&keys(), &["--find", "nobody"], &["user: no entry below ou=people", "in uid, mail; correct the name"]);
    fails(
        &keys(),
        &["--find", "anna@example.test"],
        &["several entries", "uid=anna,", "uid=otto,", "narrow users.names"],
    );
    let filtered = Keys { users: "filter = \"(uid=x)\"", ..keys() };
    fails(&filtered, &[], &["users.base: no entry matches users.filter"]);
    let other_id = Keys { more: "id = \"nsUniqueId\"", ..keys() };
    fails(&other_id, &[], &["users.base: ", "has no nsUniqueId; correct id"]);
    let found = run(&config(&keys()).replace("ou=groups", "ou=absent"), "service password", &[]);
    assert!(found.stdout.contains("error: corp: groups.base: "), "{}", found.stdout);
    assert!(found.stdout.contains("ou=absent,dc=example,dc=test does not exist or is not visible"), "{}", found.stdout);
    let found = run(&config(&keys()), "wrong", &[]);
    assert_eq!(found.status, Some(1));
    assert!(
        found.stdout.contains("cannot sign in (code 49: ); check bind.dn and the password in "),
        "{}",
        found.stdout
    );
    assert!(!found.stdout.contains("users.base"), "{}", found.stdout);
    server.kill();
    fails(&keys(), &[], &["Connection refused", "check servers"]);
    let found = check(&keys(), &["other"]);
    assert_eq!(found.status, Some(1));
    assert!(found.stderr.contains("no directory is named other; the names are corp"), "{}", found.stderr);
}

#[test]
fn states_and_references_are_reported() {
    let referral = format!(
        "dn: ou=remote,ou=people,{BASE}\nobjectClass: referral\nobjectClass: extensibleObject\nou: remote\n\
         ref: ldap://127.0.0.1:9/ou=remote,dc=other\n\n"
    );
    let server = Slapd::start(&(user("anna", "objectClass: shadowAccount\nshadowExpire: 1\n") + &referral));
    let found = check(&Keys { servers: &[server.url()], ..Keys::default() }, &["--find", "anna"]);
    assert_eq!(found.status, Some(0), "{}", found.stdout);
    assert!(
        found.stdout.contains("belong to other servers (ldap://127.0.0.1:9/ou=remote,dc=other"),
        "{}",
        found.stdout
    );
    assert!(found.stdout.contains("which may not sign in: expired"), "{}", found.stdout);
    assert!(found.stdout.contains("  state: expired"), "{}", found.stdout);
}

#[test]
fn limits_and_rights_at_active_directory_are_reported() {
    let server = scripted(|request| {
        let asks = |name: &[u8]| request.windows(name.len()).any(|part| part == name);
        if asks(b"lockoutThreshold") {
            let window = attribute("lockOutObservationWindow", b"-18000000000");
            return vec![entry(b"dc=x", &[attribute("lockoutThreshold", b"5"), window])];
        }
        if asks(b"defaultNamingContext") {
            return vec![entry(b"", &[attribute("defaultNamingContext", b"dc=x")])];
        }
        if asks(b"adminCount") {
            return vec![entry(b"cn=sealgate", &[attribute("adminCount", b"1")])];
        }
        vec![entry(b"cn=a", &[attribute("objectGUID", b"0123456789abcdef")])]
    });
    let text = config(&Keys { servers: &[server], ..Keys::default() }).replace("\"ldap\"", "\"active_directory\"");
    let found = run(&text, "service password", &[]);
    assert_eq!(found.status, Some(0), "{}", found.stdout);
    let warning = "warning: corp: lockout: the domain locks an account after 5 wrong passwords in 1800 seconds, but login \
         allows 10 in 900 seconds";
    assert!(found.stdout.contains(warning), "{}", found.stdout);
    assert!(
        found.stdout.contains("warning: corp: bind.dn: the account is or was an administrator"),
        "{}",
        found.stdout
    );
    let login = "[login]\nfailures_per_account = 4\nwindow_seconds = 1800\n[[directory]]";
    let found = run(&text.replace("[[directory]]", login), "service password", &[]);
    assert!(found.stdout.contains("ok: corp: lockout: "), "{}", found.stdout);
    // Whether the account is disabled is not visible.
    let found = run(&text, "service password", &["--find", "anna"]);
    assert_eq!(found.status, Some(1), "{}", found.stdout);
    assert!(
        found.stdout.contains("error: corp: user: ") && found.stdout.contains("has no userAccountControl"),
        "{}",
        found.stdout
    );
}
