//! `sealgate key` with SoftHSM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::serve::Server;
use crate::site::{Site, names, stderr};
use crate::softhsm::PIN;

#[test]
fn a_generated_key_is_listed_and_passes_the_check() {
    let site = Site::with_token();
    assert!(site.errors(&["key", "check"], "")[0].contains("no RSA private key labelled \"sealgate\""));
    let kid = site.kid(&["key", "generate"]);
    assert_eq!(kid.len(), 43, "a SHA-256 thumbprint in base64url");
    let list = site.json(&["key", "list"]);
    assert_eq!(names(&list), ["keys", "tls_keys"]);
    assert_eq!(list["tls_keys"], json!([]));
    let key = &list["keys"][0];
    assert_eq!((key["kid"].as_str(), key["bits"].as_u64()), (Some(kid.as_str()), Some(2048)));
    assert_eq!((key["sensitive"].as_bool(), key["extractable"].as_bool()), (Some(true), Some(false)));
    assert_eq!(site.text(&["key", "check"]), format!("{kid}: ok\n"));
    assert_eq!(site.json(&["key", "check"])["ok"], true);
    assert!(site.text(&["key", "list"]).starts_with("KID "));
}

#[test]
fn a_second_key_with_the_label_is_not_generated() {
    let site = Site::with_token();
    let made = site.json(&["key", "generate", "--bits", "3072"]);
    assert_eq!(made["bits"], 3072);
    let errors = site.errors(&["key", "generate"], "");
    assert!(errors.len() == 1 && errors[0].contains("already has a private key"), "{errors:?}");
    assert_eq!(site.json(&["key", "list"])["keys"].as_array().unwrap().len(), 1);
}

#[test]
fn the_first_key_is_generated_with_a_wrapping_key() {
    let site = Site::with_token();
    let made = site.json(&["key", "generate"]);
    let id = made["wrapping_key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    assert_eq!(id.len(), 32);
    let errors = site.errors(&["key", "generate-wrapping-key"], "");
    assert!(errors.len() == 1 && errors[0].contains(&format!("already exists (CKA_ID {id})")), "{errors:?}");
    assert_eq!(site.json(&["key", "list"])["keys"].as_array().unwrap().len(), 1, "it is no signing key");
    assert_eq!(warned(&site, &["key", "check"]), "");
    assert_eq!(site.json(&["key", "check"])["wrapping_keys"], json!([id]));
    assert_eq!(site.json(&["check"])["warnings"], json!([]));

    // More signing keys, and the deletion of signing keys, do not change the wrapping key.
    site.text(&["key", "generate", "--next"]);
    for key in site.json(&["key", "list"])["keys"].as_array().unwrap() {
        let id = key["id"].as_str().unwrap();
        site.softhsm().pkcs11_tool("sealgate", &["--delete-object", "--type", "privkey", "--id", id]);
    }
    let again = site.json(&["key", "generate"]);
    assert!(again["wrapping_key"].is_null(), "{again}");
    assert_eq!(site.softhsm().secret_keys("sealgate"), 1);
}

#[test]
fn a_refused_signing_key_creates_no_wrapping_key() {
    let site = Site::with_token();
    site.text(&["key", "generate", "--without-wrapping-key"]);
    assert_eq!(site.softhsm().secret_keys("sealgate"), 0);
    assert!(site.errors(&["key", "generate"], "")[0].contains("already has a private key"));
    assert_eq!(site.softhsm().secret_keys("sealgate"), 0);
}

#[test]
fn a_token_without_a_wrapping_key_is_reported_with_the_command() {
    let site = Site::with_token();
    let made = site.json(&["key", "generate", "--without-wrapping-key"]);
    assert!(made["wrapping_key"].is_null(), "{made}");
    let warning = warned(&site, &["key", "check"]);
    assert!(warning.starts_with("warning: the token has no wrapping key"), "{warning}");
    let warnings = site.json(&["check"])["warnings"].clone();
    assert!(warnings[0].as_str().unwrap().contains("sealgate key generate-wrapping-key"), "{warnings}");
    assert_eq!(warnings.as_array().unwrap().len(), 1, "{warnings}");
    let mut file = fs::read_to_string(site.config()).unwrap();
    file += "\n[mail]\nhost = \"smtp.example.com\"\nfrom = \"no-reply@example.com\"\n";
    fs::write(site.config(), file).unwrap();
    let warnings = site.json(&["check"])["warnings"].clone();
    assert!(warnings[1].as_str().unwrap().starts_with("[mail] is configured, but no mail is sent"), "{warnings}");
    let mut file = fs::read_to_string(site.config()).unwrap();
    file += "[registration_of_people]\nmode = \"open\"\n";
    fs::write(site.config(), file).unwrap();
    let errors = site.errors(&["check"], "");
    assert!(
        errors[0].starts_with("registration_of_people.mode: is \"open\", but the token has no wrapping key"),
        "{errors:?}"
    );

    let id = site.json(&["key", "generate-wrapping-key"])["id"].clone();
    assert_eq!(warned(&site, &["key", "check"]), "");
    assert_eq!(site.json(&["key", "check"])["wrapping_keys"], json!([id]));
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
fn a_wrong_pin_is_reported_on_one_line() {
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

/// Returns the states of the keys. Keys without an activation time come last.
fn states(site: &Site) -> Vec<String> {
    let mut keys = site.json(&["key", "list"])["keys"].as_array().unwrap().clone();
    keys.sort_by_key(|key| key["activate_at"].is_null());
    keys.iter().map(|key| key["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_second_key_waits_for_its_activation() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    assert_eq!(states(&site), ["new"]);
    let next = site.kid(&["key", "generate", "--next", "--bits", "3072"]);
    assert_eq!(states(&site), ["active", "pre_published"]);
    assert_eq!(site.text(&["key", "check"]).lines().count(), 2);

    let early = site.errors(&["key", "activate", &next, "--at", "2020-01-01T00:00:00Z"], "");
    assert!(early.len() == 1 && early[0].contains("--early"), "{early:?}");
    let plan = site.json(&["key", "activate", &next, "--at", "2090-01-01T00:00:00+01:00"]);
    assert_eq!(plan["keys"][1]["activate_at"], 3_786_908_400_u64);
    assert_eq!(plan["keys"][0]["retire_at"], plan["keys"][1]["activate_at"]);
    let again = site.errors(&["key", "rotate"], "");
    assert!(again[0].contains("in progress"), "{again:?}");

    let taken_back = site.json(&["key", "retire", &next]);
    assert_eq!(
        (&taken_back["keys"][0]["retire_at"], &taken_back["keys"][1]["state"]),
        (&json!(null), &json!("retired"))
    );
    site.json(&["key", "activate", "--early", &next]);
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
    assert!(
        lines[0].starts_with("Published key ") && lines[1].starts_with("KID ") && lines[3].contains("pre_published"),
        "{table}"
    );
    let keys = site.json(&["key", "list"])["keys"].clone();
    let next = keys.as_array().unwrap().iter().find(|key| key["state"] == "pre_published").unwrap();
    let seconds = |name: &str| next[name].as_u64().unwrap();
    assert_eq!(seconds("activate_at") - seconds("published_at"), 90_000);
}

#[test]
fn a_kid_that_is_not_in_the_token_is_not_announced() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let errors = site.errors(&["key", "announce", "x"], "");
    assert!(errors.len() == 1 && errors[0].contains("no key x"), "{errors:?}");
    let errors = site.errors(&["key", "remove", "x"], "");
    assert!(errors.len() == 1 && errors[0].contains("no key x is announced"), "{errors:?}");
}

/// Returns the error that `key check` reports for the key with this `CKA_ID`.
fn fault_of(site: &Site, id: &str) -> String {
    let errors = site.errors(&["key", "check"], "");
    let named = errors.iter().find(|error| error.contains(&format!("CKA_ID {id}): ")));
    named.unwrap_or_else(|| panic!("{errors:?}")).clone()
}

#[test]
fn a_key_that_may_do_more_than_sign_fails_the_check_by_name() {
    let site = Site::with_token();
    let generate = ["--keypairgen", "--key-type", "rsa:2048", "--label", "sealgate", "--id", "07", "--usage-sign"];
    site.softhsm().pkcs11_tool("sealgate", &generate);
    let fault = fault_of(&site, "07");
    assert!(fault.contains("CKA_DECRYPT is true") && fault.contains("CKA_UNWRAP is true"), "{fault}");
    assert!(!fault.contains("CKA_LOCAL"), "{fault}");
}

#[test]
fn an_imported_key_always_fails_the_check() {
    let site = Site::with_token();
    let pem = site.softhsm().root().join("imported.pem");
    let imported = Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out"])
        .arg(&pem)
        .output()
        .unwrap();
    assert!(imported.status.success());
    let import = Command::new("softhsm2-util")
        .args(["--import", pem.to_str().unwrap(), "--token", "sealgate", "--label", "sealgate", "--id", "08"])
        .args(["--pin", PIN])
        .env("SOFTHSM2_CONF", site.softhsm().configuration())
        .output()
        .unwrap();
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    let fault = fault_of(&site, "08");
    for name in ["CKA_LOCAL", "CKA_ALWAYS_SENSITIVE", "CKA_NEVER_EXTRACTABLE"] {
        assert!(fault.contains(&format!("{name} is false")), "{name}: {fault}");
    }
    let own = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), own.replace("[hsm]", "[hsm]\nrequire_local = false")).unwrap();
    let fault = fault_of(&site, "08");
    assert!(!fault.contains("CKA_LOCAL") && fault.contains("CKA_NEVER_EXTRACTABLE is false"), "{fault}");
}

#[test]
fn a_key_of_another_size_fails_the_check() {
    let site = Site::with_token();
    for (bits, id) in [("rsa:1024", "0a"), ("rsa:2560", "0b")] {
        site.softhsm().pkcs11_tool(
            "sealgate",
            &["--keypairgen", "--key-type", bits, "--label", "sealgate", "--id", id, "--usage-sign"],
        );
    }
    for (bits, id) in [(1024, "0a"), (2560, "0b")] {
        let fault = fault_of(&site, id);
        let said = fault.matches(&format!("its modulus has {bits} bits; 2048, 3072 or 4096 are used")).count();
        assert_eq!(said, 1, "{fault}");
    }
}

#[test]
fn two_keys_with_the_same_id_fail_the_check() {
    let site = Site::with_token();
    let id = site.json(&["key", "generate"])["id"].as_str().unwrap().to_owned();
    let generate = ["--keypairgen", "--key-type", "rsa:2048", "--label", "sealgate", "--id", &id];
    site.softhsm().pkcs11_tool("sealgate", &generate);
    let errors = site.errors(&["key", "check"], "");
    assert!(errors[0].contains("several private keys") && errors[0].contains(&id), "{errors:?}");
}

/// Runs commands with another store and the same token.
fn with_store<T>(site: &Site, store: &Path, run: impl FnOnce() -> T) -> T {
    let own = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), own.replace("\"store\"", &format!("{:?}", store.to_str().unwrap()))).unwrap();
    let outcome = run();
    fs::write(site.config(), own).unwrap();
    outcome
}

fn backup(site: &Site, name: &str) -> PathBuf {
    let to = site.store_directory().with_file_name(name);
    site.text(&["backup", "--to", to.to_str().unwrap()]);
    to
}

/// Generates a usable signing key that the site's store does not contain. Returns its key ID.
fn made_by_a_stranger(site: &Site) -> String {
    let another = backup(site, "another");
    with_store(site, &another, || site.kid(&["key", "generate", "--next"]))
}

fn restore(site: &Site, from: &Path) -> Value {
    let lost = site.store_directory().with_file_name("lost");
    let _ = fs::remove_dir_all(&lost);
    fs::rename(site.store_directory(), lost).unwrap();
    site.json(&["restore", "--from", from.to_str().unwrap()])
}

/// Runs a command that must succeed, and returns its warnings.
fn warned(site: &Site, arguments: &[&str]) -> String {
    let output = site.run(arguments, "");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stderr(&output)
}

/// Returns the IDs of the keys in this state from a command's output.
fn in_state(printed: &Value, state: &str) -> Vec<String> {
    let keys = printed["keys"].as_array().unwrap().iter().filter(|key| key["state"] == state);
    keys.map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

fn notices(restored: &Value) -> Vec<&str> {
    restored["notices"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn a_key_that_was_removed_as_compromised_stays_removed_after_a_restore() {
    let site = Site::with_token();
    let first = site.kid(&["key", "generate"]);
    let next = site.kid(&["key", "generate", "--next"]);
    let saved = backup(&site, "saved");
    let warning = warned(&site, &["key", "rotate", "--emergency"]);
    assert!(warning.contains("with the label sealgate-removed"), "{warning}");
    assert!(warned(&site, &["key", "check"]).contains(&format!("key {first} was removed with --now")));

    let restored = restore(&site, &saved);
    assert_eq!(
        (in_state(&restored, "removed"), in_state(&restored, "active")),
        (vec![first.clone()], vec![next.clone()])
    );
    assert!(
        notices(&restored).len() == 1 && notices(&restored)[0].contains(&format!("{first} was removed with --now"))
    );
    let list = site.json(&["key", "list"]);
    assert_eq!((in_state(&list, "removed"), in_state(&list, "active")), (vec![first.clone()], vec![next]));
    assert!(site.text(&["check"]).ends_with(": ok\n"));

    // A manually restored copy of the old store does not reactivate the key.
    let errors = with_store(&site, &saved, || site.errors(&["check"], ""));
    assert!(
        errors.len() == 1 && errors[0].contains(&first) && errors[0].contains("marked as removed in the token"),
        "{errors:?}"
    );
    let errors = with_store(&site, &saved, || site.errors(&["key", "announce", &first], ""));
    assert!(errors[0].contains("the token has no key"), "{errors:?}");
}

#[test]
fn a_restore_explains_how_to_continue_with_keys_missing_from_the_backup() {
    let site = Site::with_token();
    let first = site.kid(&["key", "generate"]);
    let second = site.kid(&["key", "generate", "--next"]);
    let saved = backup(&site, "saved");
    warned(&site, &["key", "rotate", "--emergency"]);
    warned(&site, &["key", "rotate", "--emergency"]);
    let third = in_state(&site.json(&["key", "list"]), "active").remove(0);

    let restored = restore(&site, &saved);
    assert_eq!(in_state(&restored, "unannounced"), [third.as_str()]);
    let told = notices(&restored);
    let has = |words: &[&str]| told.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&[&second, "stays removed"]), "{told:?}");
    assert!(has(&[&first, "removed with --now", "key remove --now"]), "{told:?}");
    assert!(has(&[&third, "key announce"]), "{told:?}");
    assert_eq!(site.errors(&["check"], "").len(), 2);

    // The suggested commands solve the problem.
    site.text(&["key", "announce", &third]);
    warned(&site, &["key", "remove", "--now", &first]);
    let list = site.json(&["key", "list"]);
    assert_eq!((in_state(&list, "active"), in_state(&list, "removed").len()), (vec![third], 2));
    assert!(site.text(&["check"]).ends_with(": ok\n"));
}

#[test]
fn a_restore_without_the_token_reports_that_keys_were_not_compared() {
    let site = Site::with_token();
    site.add_user("anna@example.test");
    let saved = backup(&site, "saved");
    site.softhsm().write_pin_file("000000", 0o600);
    let restored = restore(&site, &saved);
    assert!(notices(&restored).len() == 1 && notices(&restored)[0].contains("not compared"), "{restored}");
    assert!(notices(&restored)[0].contains("the PIN in hsm.pin_file is wrong"), "{restored}");
}

#[test]
fn a_check_without_a_server_creates_no_store() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    assert!(site.text(&["check"]).ends_with(": ok\n"));
    assert!(!site.store_directory().exists());
    site.softhsm().write_pin_file("000000", 0o600);
    assert!(site.errors(&["check"], "")[0].contains("the PIN in hsm.pin_file is wrong"));
    assert!(site.text(&["check", "--file-only"]).ends_with(": ok\n"));
}

#[test]
fn the_check_compares_the_token_with_the_times_in_the_store() {
    let site = Site::with_token();
    let first = site.kid(&["key", "generate"]);
    let next = site.json(&["key", "generate", "--next"]);
    let (next, id) = (next["kid"].as_str().unwrap().to_owned(), next["id"].as_str().unwrap().to_owned());
    assert_eq!(site.text(&["key", "check"]).lines().count(), 2);
    assert!(site.text(&["check"]).ends_with(": ok\n"));

    // A usable key, generated without access to this store.
    let stranger = made_by_a_stranger(&site);
    let errors = site.errors(&["key", "check"], "");
    assert!(errors.len() == 1 && errors[0].contains(&stranger) && errors[0].contains("key announce"), "{errors:?}");
    assert_eq!(site.errors(&["check"], ""), errors);
    site.text(&["key", "announce", &stranger]);

    site.softhsm().pkcs11_tool("sealgate", &["--delete-object", "--type", "privkey", "--id", &id]);
    let errors = site.errors(&["key", "check"], "");
    assert_eq!(
        errors,
        [format!(
            "key {next} is announced (pre_published), but not in the token; restore it, or see docs/how-to/signing-keys.md"
        )]
    );
    site.text(&["key", "retire", &next]);
    let removed = site.run(&["key", "remove", "--now", &next], "");
    assert!(removed.status.success());
    assert_eq!(site.text(&["key", "check"]).lines().count(), 2);

    // A removed key that is still in the token causes a warning, not an error.
    let replaced = site.run(&["key", "remove", "--now", &first], "");
    assert!(replaced.status.success());
    let check = site.run(&["key", "check"], "");
    assert_eq!(check.status.code(), Some(0));
    let warning = String::from_utf8(check.stderr).unwrap();
    assert!(warning.contains(&first) && warning.contains("still in the token"), "{warning}");
    assert!(site.text(&["check"]).contains("still in the token"));
}

#[test]
fn a_scheduled_key_in_the_token_is_not_reported_as_missing() {
    let site = Site::with_token();
    let first = site.json(&["key", "generate"]);
    let (first, id) = (first["kid"].as_str().unwrap().to_owned(), first["id"].as_str().unwrap().to_owned());
    let next = site.json(&["key", "generate", "--next"])["kid"].as_str().unwrap().to_owned();
    site.text(&["key", "activate", &next, "--at", "2100-03-01T00:00:00Z"]);
    site.softhsm().pkcs11_tool("sealgate", &["--delete-object", "--type", "privkey", "--id", &id]);
    let errors = stderr(&site.run(&["serve"], ""));
    let there = format!("which signs until 2100-03-01T00:00:00Z, is not in the token, and the key {next}");
    assert!(errors.contains(&there) && errors.contains("if the clock is behind, set it"), "{errors}");
    // The suggested command solves the problem.
    assert!(site.run(&["key", "remove", "--now", &first], "").status.success());
    let keys = site.json(&["key", "list"])["keys"].clone();
    let signs = |key: &Value| key["state"] == "active" && key["kid"] == next.as_str();
    assert!(keys.as_array().unwrap().iter().any(signs), "{keys}");
    assert_eq!(site.text(&["key", "check"]).lines().count(), 1);
}

#[test]
fn an_emergency_rotation_activates_only_keys_in_the_token() {
    let site = Site::with_token();
    let first = site.kid(&["key", "generate"]);
    let next = site.json(&["key", "generate", "--next"]);
    let id = next["id"].as_str().unwrap();
    site.softhsm().pkcs11_tool("sealgate", &["--delete-object", "--type", "privkey", "--id", id]);
    assert!(site.run(&["key", "rotate", "--emergency"], "").status.success());
    let list = site.json(&["key", "list"]);
    let in_state = |state: &str| {
        let keys = list["keys"].as_array().unwrap().iter().filter(|key| key["state"] == state);
        keys.map(|key| key["kid"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(in_state("removed"), [first]);
    let active = in_state("active");
    assert!(active.len() == 1 && active[0] != next["kid"].as_str().unwrap(), "{list}");
}

#[test]
fn the_signing_mechanism_can_be_configured() {
    let site = Site::with_token();
    let own = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), own.replace("[hsm]", "[hsm]\nmechanism = \"sha256-rsa-pkcs\"")).unwrap();
    let kid = site.kid(&["key", "generate"]);
    assert_eq!(site.text(&["key", "check"]), format!("{}: ok\n", kid.trim_end()));
}

#[test]
fn check_and_start_warn_of_an_https_issuer_without_tls_or_a_proxy() {
    const WARNING: &str = "server.trusted_proxies: the issuer uses https, but neither tls nor trusted_proxies is set";
    let site = Site::with_token();
    site.json(&["key", "generate"]);
    let text = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), text.replace("http://localhost:8080", "https://localhost")).unwrap();
    let warnings = site.json(&["check"])["warnings"].clone();
    assert!(warnings[0].as_str().unwrap().starts_with(WARNING), "{warnings}");
    let (code, log) = Server::start(&site).stop();
    assert!(code == Some(0) && log.contains(WARNING), "{log}");
}
