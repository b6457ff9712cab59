//! `sealgate key`, on SoftHSM.

use serde_json::json;

use crate::site::{Site, names};

#[test]
fn a_key_is_made_listed_and_passes_the_check() {
    let site = Site::with_token();
    assert!(site.errors(&["key", "check"], "")[0].contains("no RSA private key labelled \"sealgate\""));
    let kid = site.text(&["key", "generate"]).trim_end().to_owned();
    assert_eq!(kid.len(), 43, "a SHA-256 thumbprint in base64url");
    let list = site.json(&["key", "list"]);
    assert_eq!(names(&list), ["keys"]);
    let key = &list["keys"][0];
    assert_eq!((key["kid"].as_str(), key["bits"].as_u64()), (Some(kid.as_str()), Some(2048)));
    assert_eq!((key["sensitive"].as_bool(), key["extractable"].as_bool()), (Some(true), Some(false)));
    assert_eq!(site.text(&["key", "check"]), format!("{kid}: ok\n"));
    assert_eq!(site.json(&["key", "check"])["ok"], true);
    assert!(site.text(&["key", "list"]).starts_with("KID "));
}

#[test]
fn a_second_key_of_the_label_is_not_made() {
    let site = Site::with_token();
    let made = site.json(&["key", "generate", "--bits", "3072"]);
    assert_eq!(made["bits"], 3072);
    let errors = site.errors(&["key", "generate"], "");
    assert!(errors.len() == 1 && errors[0].contains("already has a private key"), "{errors:?}");
    assert_eq!(site.json(&["key", "list"])["keys"].as_array().unwrap().len(), 1);
}

#[test]
fn a_key_that_may_leave_the_token_fails_the_check_by_name() {
    let site = Site::with_token();
    let generate = ["--keypairgen", "--key-type", "rsa:2048", "--label", "sealgate", "--id", "07", "--extractable"];
    site.softhsm().pkcs11_tool("sealgate", &generate);
    let errors = site.errors(&["key", "check"], "");
    let named = errors.iter().find(|error| error.starts_with("key ")).unwrap_or_else(|| panic!("{errors:?}"));
    assert!(named.contains("label \"sealgate\", CKA_ID 07") && named.contains("CKA_EXTRACTABLE is true"), "{named}");
}

#[test]
fn a_wrong_pin_is_one_clear_line() {
    let site = Site::with_token();
    site.softhsm().write_pin_file("000000", 0o600);
    let errors = site.errors(&["key", "list"], "");
    assert!(errors.len() == 1 && errors[0].contains("PIN in hsm.pin_file is wrong"), "{errors:?}");
}

#[test]
fn a_pin_file_that_others_can_read_is_refused() {
    let site = Site::with_token();
    site.softhsm().write_pin_file("648219", 0o644);
    let errors = site.errors(&["key", "list"], "");
    assert!(errors.len() == 1 && errors[0].starts_with("hsm.pin_file: "), "{errors:?}");
}

/// The keys' states, the oldest key first.
fn states(site: &Site) -> Vec<String> {
    let mut keys = site.json(&["key", "list"])["keys"].as_array().unwrap().clone();
    keys.sort_by_key(|key| key["activate_at"].is_null());
    keys.iter().map(|key| key["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_further_key_waits_until_it_is_told_to_sign() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    assert_eq!(states(&site), ["new"]);
    let next = site.text(&["key", "generate", "--next", "--bits", "3072"]).trim_end().to_owned();
    assert_eq!(states(&site), ["active", "pre_published"]);
    assert_eq!(site.text(&["key", "check"]).lines().count(), 2);

    let early = site.errors(&["key", "activate", "--kid", &next, "--at", "2020-01-01T00:00:00Z"], "");
    assert!(early.len() == 1 && early[0].contains("--early"), "{early:?}");
    let plan = site.json(&["key", "activate", "--kid", &next, "--at", "2090-01-01T00:00:00+01:00"]);
    assert_eq!(plan["keys"][1]["activate_at"], 3_786_908_400_u64);
    assert_eq!(plan["keys"][0]["retire_at"], plan["keys"][1]["activate_at"]);
    let again = site.errors(&["key", "rotate"], "");
    assert!(again[0].contains("under way"), "{again:?}");

    let taken_back = site.json(&["key", "retire", "--kid", &next]);
    assert_eq!(
        (&taken_back["keys"][0]["retire_at"], &taken_back["keys"][1]["state"]),
        (&json!(null), &json!("retired"))
    );
    site.json(&["key", "activate", "--early", "--kid", &next]);
    assert_eq!(
        site.json(&["key", "list"])["keys"].as_array().unwrap().iter().filter(|key| key["state"] == "active").count(),
        1
    );
}

#[test]
fn a_rotation_prints_its_plan() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let table = site.text(&["key", "rotate"]);
    let lines: Vec<_> = table.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("KID ") && lines[2].contains("pre_published"), "{table}");
    let keys = site.json(&["key", "list"])["keys"].clone();
    let next = keys.as_array().unwrap().iter().find(|key| key["state"] == "pre_published").unwrap();
    let seconds = |name: &str| next[name].as_u64().unwrap();
    assert_eq!(seconds("activate_at") - seconds("published_at"), 90_000);
}

#[test]
fn a_kid_that_is_not_in_the_token_is_not_announced() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let errors = site.errors(&["key", "announce", "--kid", "x"], "");
    assert!(errors.len() == 1 && errors[0].contains("no key x"), "{errors:?}");
    let errors = site.errors(&["key", "remove", "--kid", "x"], "");
    assert!(errors.len() == 1 && errors[0].contains("no key x is announced"), "{errors:?}");
}
