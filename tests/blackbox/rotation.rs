//! Tests the automatic rotation of signing keys by a running server.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::shim::{Call, FOREVER};
use crate::support::{Instance, Settings, wait_until};
use crate::token_tls::use_shim;

/// Error of a token for a login that may only sign.
const CKR_TOKEN_WRITE_PROTECTED: u64 = 0xe2;

fn settings(every: u32) -> Settings {
    Settings {
        sections: format!(
            "[tokens]\naccess_token_seconds = 1\n[keys]\npublish_seconds = 2\nkeep_seconds = 2\nrotate_seconds = {every}\n\
             [rate_limits]\njwks = 4000"
        ),
        ..Settings::default()
    }
}

fn keys(list: &Value) -> Vec<Value> {
    let mut keys = list["keys"].as_array().unwrap().clone();
    keys.sort_by_key(|key| key["activate_at"].as_u64());
    keys
}

fn read(url: &str) -> String {
    let output = std::process::Command::new("curl").args(["-s", url]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn metric(instance: &Instance, name: &str) -> Option<u64> {
    let metrics = read(&instance.admin_url("/metrics"));
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn keys_are_rotated_automatically_at_the_configured_times() {
    let mut instance = Instance::prepare(&settings(6));
    instance.start();
    let mut published: Vec<BTreeSet<String>> = Vec::new();
    wait_until("two keys were replaced", || {
        let jwks: Value = serde_json::from_str(&read(&instance.url("/oauth/jwks"))).unwrap();
        let kids = jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned());
        let kids: BTreeSet<String> = kids.collect();
        if published.last() != Some(&kids) {
            published.push(kids);
        }
        published.len() >= 5
    });
    assert!(published.iter().all(|kids| (1..=2).contains(&kids.len())), "{published:?}");
    let list = instance.json(&["key", "list"]);
    let keys = keys(&list);
    let seconds = |key: &Value, name: &str| key[name].as_u64().unwrap_or_else(|| panic!("{name} in {key}"));
    for pair in keys.windows(2) {
        let [old, new] = pair else { unreachable!("a window of two") };
        assert_eq!(seconds(new, "activate_at") - seconds(new, "published_at"), 2);
        assert_eq!(seconds(old, "retire_at"), seconds(new, "activate_at"));
        assert_eq!(seconds(old, "remove_at"), seconds(new, "activate_at") + 2);
        let signed = seconds(new, "activate_at") - seconds(old, "activate_at");
        assert!(signed >= 6, "{signed} seconds: one was due after 6, and the making came on top");
    }
    assert_eq!(metric(&instance, "sealgate_key_rotation_failing"), Some(0));
    assert!(metric(&instance, "sealgate_key_rotations_total") >= Some(2));

    // The audit log records the rotation although no user caused it.
    let list = instance.json(&["audit", "list", "--kind", "keys_changed"]);
    let events = list["events"].as_array().unwrap();
    let rotated = |kid: &str| {
        let detail = format!("rotate {kid}");
        events.iter().any(|event| event["actor"] == "server" && event["detail"] == detail.as_str())
    };
    for key in keys.iter().skip(1) {
        assert!(rotated(key["kid"].as_str().unwrap()), "{key} is not among {list}");
    }

    let status = instance.json(&["status"]);
    let next = status["next_rotation_at"].as_u64().unwrap();
    let active = keys.iter().filter_map(|key| key["activate_at"].as_u64()).max().unwrap();
    assert!(next >= active, "{status}");
    assert_eq!(status["rotation_fault"], Value::Null);
    let table = instance.run(&["key", "list"]);
    assert!(table.lines().any(|line| line.starts_with("next_rotation_at: 20")), "{table}");
}

#[test]
fn a_rotation_that_became_due_while_stopped_happens_after_the_start() {
    let mut instance = Instance::prepare(&settings(5));
    instance.start();
    assert_eq!(instance.stop(), Some(0));
    // Waits past the time at which the key should have been replaced.
    std::thread::sleep(Duration::from_secs(6));
    instance.start();
    wait_until("the next key is planned", || {
        let list = instance.json(&["key", "list"]);
        // On a slow machine the next key may already be due.
        keys(&list).len() >= 2 && keys(&list).iter().all(|key| key["activate_at"].is_u64())
    });
    instance.kill();
    instance.start();
    assert!(instance.run(&["key", "check"]).contains(": ok"));
}

#[test]
fn a_failing_rotation_is_reported_and_a_prepared_key_is_used() {
    let mut instance = Instance::prepare(&settings(5));
    // A token that creates no keys for this login.
    let own = fs::read_to_string(instance.config()).unwrap();
    let shim = use_shim(&instance, "");
    shim.fail(Call::GenerateKeyPair, CKR_TOKEN_WRITE_PROTECTED, FOREVER);
    instance.start();
    let ready = || read(&instance.admin_url("/readyz"));
    assert_eq!(ready(), "ready\n");
    wait_until("the failure is shown", || ready().contains("warning: "));
    let shown = ready();
    assert!(
        shown.starts_with("ready\nwarning: cannot generate the next signing key: ") && shown.contains("key announce"),
        "{shown}"
    );
    assert_eq!(metric(&instance, "sealgate_key_rotation_failing"), Some(1));
    instance.tells("cannot rotate the signing key");
    let status = instance.json(&["status"]);
    assert!(status["rotation_fault"].as_str().unwrap().contains("cannot generate the next signing key"), "{status}");
    // Waits past the key's time: nothing may happen, however often it is retried.
    std::thread::sleep(Duration::from_secs(5));
    let one: Value = serde_json::from_str(&read(&instance.url("/oauth/jwks"))).unwrap();
    assert_eq!(one["keys"].as_array().unwrap().len(), 1, "the key goes on signing past its time");
    let said = instance.log().matches("cannot rotate the signing key").count();
    assert_eq!(said, 1, "told once, not at each try");

    // A second login, or the same login later, can create the key.
    fs::write(instance.config(), own).unwrap();
    let waiting = instance.json(&["key", "generate", "--next"])["kid"].as_str().unwrap().to_owned();
    wait_until("the failure is over", || ready() == "ready\n");
    let list = instance.json(&["key", "list"]);
    let planned = keys(&list).into_iter().find(|key| key["kid"] == waiting.as_str()).unwrap();
    assert!(planned["activate_at"].is_u64(), "{planned}");
    assert_eq!(metric(&instance, "sealgate_key_rotation_failing"), Some(0));
}

#[test]
fn an_emergency_rotation_is_one_command() {
    let instance = Instance::started(&Settings::default());
    let before = keys(&instance.json(&["key", "list"]))[0]["kid"].clone();
    let replaced = instance.try_run(&["key", "rotate", "--emergency", "--json"], "");
    let warning = String::from_utf8(replaced.stderr).unwrap();
    assert!(
        replaced.status.success() && warning.starts_with("warning: Sealgate now refuses tokens signed with the key "),
        "{warning}"
    );
    let jwks: Value = serde_json::from_str(&read(&instance.url("/oauth/jwks"))).unwrap();
    let kids: Vec<&Value> = jwks["keys"].as_array().unwrap().iter().map(|key| &key["kid"]).collect();
    assert!(kids.len() == 1 && *kids[0] != before, "{kids:?}");
    // A pending key is used, and none is created.
    let waiting = instance.json(&["key", "generate", "--next"])["kid"].as_str().unwrap().to_owned();
    assert!(instance.try_run(&["key", "rotate", "--emergency"], "").status.success());
    let list = instance.json(&["key", "list"]);
    let active: Vec<_> = keys(&list).into_iter().filter(|key| key["state"] == "active").collect();
    assert!(active.len() == 1 && active[0]["kid"] == waiting.as_str(), "{list}");
    assert_eq!(keys(&list).len(), 3);
}

/// Returns a copy of the tokens that a running server does not see. A SoftHSM that cannot lock its
/// files detects no change either.
fn apart(instance: &Instance) -> PathBuf {
    let (tokens, copy) = (instance.softhsm.tokens(), instance.softhsm.root().join("apart"));
    let copied = std::process::Command::new("cp").arg("-r").args([&tokens, &copy]).status().unwrap();
    assert!(copied.success());
    let own = fs::read_to_string(instance.softhsm.configuration()).unwrap();
    let configuration = instance.softhsm.root().join("apart.conf");
    let (tokens, copy) = (tokens.to_str().unwrap(), copy.to_str().unwrap());
    fs::write(&configuration, own.replace(tokens, copy)).unwrap();
    configuration
}

#[test]
fn a_rotation_that_was_not_announced_continues_after_the_next_start() {
    let mut instance = Instance::started(&Settings::default());
    let configuration = apart(&instance);
    instance.environment.push(("SOFTHSM2_CONF", configuration.display().to_string()));
    for _ in 0..2 {
        let output = instance.try_run(&["key", "rotate"], "");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(told.contains("the server does not find the key") && told.contains("ReadWritePaths="), "{told}");
        assert!(told.contains("is in the token, but not announced"), "{told}");
    }
    let list = instance.json(&["key", "list"]);
    let states: Vec<_> = keys(&list).iter().map(|key| key["state"].as_str().unwrap().to_owned()).collect();
    assert!(states.len() == 2 && states.iter().any(|state| state == "begun"), "one key, tried twice: {list}");
    let begun = keys(&list).into_iter().find(|key| key["state"] == "begun").unwrap()["kid"].clone();
    let checked = instance.run(&["check"]);
    assert!(checked.contains(&format!("key {} was generated here", begun.as_str().unwrap())), "{checked}");

    instance.kill();
    let (tokens, apart) = (instance.softhsm.tokens(), instance.softhsm.root().join("apart"));
    fs::remove_dir_all(&tokens).unwrap();
    fs::rename(apart, tokens).unwrap();
    instance.environment.clear();
    instance.start();
    let rotated = instance.json(&["key", "rotate"]);
    let planned = keys(&rotated).into_iter().find(|key| key["state"] == "pre_published").unwrap();
    assert!(planned["kid"] == begun && planned["activate_at"].is_u64(), "{rotated}");
    assert_eq!(keys(&rotated).len(), 2);
    assert!(instance.run(&["check"]).ends_with(": ok\n"));
}
