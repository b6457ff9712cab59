//! `sealgate export` and `sealgate import`: arguments and messages.

use std::fs;

use sealgate_admin::hex;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::site::{PASSWORD, Site};

fn digest(file: &str) -> String {
    hex(&Sha256::digest(fs::read(file).unwrap()))
}

/// Joins a header and records to a file with a valid trailer.
fn whole(lines: &[String]) -> String {
    let text = lines.join("\n") + "\n";
    let last = json!({ "records": lines.len() - 1, "sha256": hex(&Sha256::digest(&text)) });
    text + &last.to_string() + "\n"
}

/// Adds one user and exports the site. Returns the path of the file.
fn exported(site: &Site) -> String {
    site.add_user("anna@example.test");
    let file = site.store_directory().with_file_name("export.ndjson").display().to_string();
    site.text(&["export", "--to", &file]);
    file
}

#[test]
fn an_import_verifies_a_given_digest() {
    let site = Site::new();
    let file = exported(&site);
    let meant = digest(&file);
    let there = Site::new();
    let import = |sha256: &str| -> Vec<String> { there.errors(&["import", "--from", &file, "--sha256", sha256], "") };
    let refused = import(&"0".repeat(64)).concat();
    assert!(refused.contains(&format!("the file's SHA-256 is {meant}")), "{refused}");
    assert!(!there.store_directory().exists(), "it left something behind");
    // A file with a valid trailer and other content.
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let other: Vec<String> = lines[..lines.len() - 1].iter().map(|line| line.replace("Anna", "Enna")).collect();
    fs::write(&file, whole(&other)).unwrap();
    assert!(import(&meant).concat().contains("which differs from --sha256"));
    fs::write(&file, text).unwrap();
    let wrong = there.run(&["import", "--from", &file, "--sha256", "abc"], "");
    assert_eq!(wrong.status.code(), Some(2));
    there.json(&["import", "--from", &file, "--sha256", &meant.to_uppercase()]);
    assert!(there.text(&["user", "list"]).contains("anna@example.test"));
}

#[test]
fn an_invalid_record_is_named_and_nothing_is_imported() {
    let site = Site::new();
    let file = exported(&site);
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let person = lines.iter_mut().find(|line| line.contains("\"user\"")).unwrap();
    let start = person.find("\"value\":").unwrap();
    *person = format!("{}\"value\":{{\"x\":1}}}}", &person[..start]);
    lines.pop();
    fs::write(&file, whole(&lines)).unwrap();
    let there = Site::new();
    let refused = there.errors(&["import", "--from", &file], "").concat();
    assert!(refused.contains("a record of table user: it does not fit the table"), "{refused}");
    assert!(refused.contains("nothing was imported") && !refused.contains("damaged"), "{refused}");
    assert!(!there.store_directory().exists());
}

#[test]
fn users_without_an_address_are_transferred_and_users_without_names_are_refused() {
    let site = Site::new();
    site.json_with(&["user", "add", "cem", "--name", "Cem", "--password-stdin"], PASSWORD);
    let file = exported(&site);
    let there = Site::new();
    there.json(&["import", "--from", &file]);
    for name in ["cem", "anna@example.test"] {
        assert_eq!(there.json(&["user", "show", name]), site.json(&["user", "show", name]));
    }
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let nameless = |line: &&str| line.replace("\"email\":\"anna@example.test\",", "");
    let lines: Vec<String> = lines[..lines.len() - 1].iter().map(nameless).collect();
    fs::write(&file, whole(&lines)).unwrap();
    let there = Site::new();
    let refused = there.errors(&["import", "--from", &file], "").concat();
    assert!(
        refused.contains("a record of table user: the user has neither an e-mail address nor a username"),
        "{refused}"
    );
    assert!(refused.contains("nothing was imported") && !there.store_directory().exists(), "{refused}");
}
