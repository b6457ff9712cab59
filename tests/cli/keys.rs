//! `sealgate key`, on SoftHSM.

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
