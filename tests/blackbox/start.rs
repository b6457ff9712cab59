//! Tests that a start that cannot succeed exits with one clear line and a nonzero status.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Instance, Settings};

/// Asserts that the server fails to start, and returns its error.
#[track_caller]
fn refused(instance: &Instance) -> String {
    ended(instance, 1)
}

/// Asserts that the server exits with this status, and returns its error.
#[track_caller]
fn ended(instance: &Instance, status: i32) -> String {
    let output = instance.try_run(&["serve"], "");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{error}");
    let lines: Vec<&str> = error.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(lines.len(), 1, "one clear line: {error}");
    lines[0].to_owned()
}

#[test]
fn a_wrong_pin_stops_the_start() {
    let instance = Instance::prepare(&Settings::default());
    instance.softhsm.write_pin_file("000000", 0o600);
    let error = refused(&instance);
    assert!(error.contains("PIN"), "{error}");
    assert!(!error.contains("000000"), "the message contains the PIN: {error}");
}

#[test]
fn a_pin_file_that_others_can_read_stops_the_start() {
    let instance = Instance::prepare(&Settings::default());
    fs::set_permissions(instance.softhsm.pin_file(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refused(&instance).contains("chmod"), "{}", refused(&instance));
}

#[test]
fn a_low_open_file_limit_is_reported() {
    let mut instance = Instance::prepare(&Settings::default());
    instance.start_limited("ulimit -n 4000");
    assert_eq!(instance.stop(), Some(0));
    let log = instance.log();
    let warning = log.lines().find(|line| line.contains("WARN") && line.contains("LimitNOFILE"));
    assert!(warning.is_some_and(|line| line.contains("allowed=4000")), "{log}");
}

#[test]
fn a_soft_limit_of_open_files_is_raised_silently() {
    let mut instance = Instance::prepare(&Settings::default());
    instance.start_limited("ulimit -Hn 20000; ulimit -Sn 1024");
    assert_eq!(instance.stop(), Some(0));
    assert!(!instance.log().contains("LimitNOFILE"), "{}", instance.log());
}

#[test]
fn a_missing_module_stops_the_start() {
    let instance = Instance::prepare(&Settings::default());
    let text = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), text.replace("libsofthsm2.so", "nothing.so")).unwrap();
    assert!(refused(&instance).contains("nothing.so"));
}

#[test]
fn a_missing_token_is_a_temporary_start_failure() {
    let instance = Instance::prepare(&Settings::default());
    let text = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), text.replace("token_label = \"sealgate\"", "token_label = \"elsewhere\"")).unwrap();
    // A missing device may return: systemd retries for this status only.
    assert!(ended(&instance, 75).contains("elsewhere"));
}

#[test]
fn a_token_without_a_key_stops_the_start_and_names_the_command() {
    let instance = Instance::bare(&Settings::default());
    let error = refused(&instance);
    assert!(error.contains("key generate"), "{error}");
}

#[test]
fn a_new_wrapping_key_is_used_and_a_replaced_one_prevents_the_start() {
    let settings = Settings { sections: "[log]\nfilter = \"info,sealgate::app=debug\"".into(), ..Settings::default() };
    let mut instance = Instance::bare(&settings);
    instance.run(&["key", "generate", "--without-wrapping-key"]);
    instance.start();
    // The log names the disabled features, and how to enable them.
    instance.tells("sealgate key generate-wrapping-key");
    instance.stop();
    let id = instance.json(&["key", "generate-wrapping-key"])["id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        instance.start();
        assert_eq!(instance.stop(), Some(0));
    }
    assert_eq!(instance.log().matches("generated a data key").count(), 1);

    let wrap = ["--label", "sealgate-wrap", "--id", id.trim()];
    instance.softhsm.pkcs11_tool("sealgate", &[&["--delete-object", "--type", "secrkey"], &wrap[..]].concat());
    instance.softhsm.pkcs11_tool("sealgate", &[&["--keygen", "--key-type", "AES:32"], &wrap[..]].concat());
    let error = refused(&instance);
    assert!(error.contains("\"sealgate-wrap\"") && error.contains("restore the right token or store"), "{error}");
}

#[test]
fn two_matching_keys_stop_the_start() {
    let instance = Instance::prepare(&Settings::default());
    instance.softhsm.pkcs11_tool(
        "sealgate",
        &["--keypairgen", "--key-type", "rsa:2048", "--label", "sealgate", "--id", "77", "--usage-sign"],
    );
    let error = refused(&instance);
    assert!(error.contains("77"), "{error}");
}

#[test]
fn a_store_in_use_by_another_process_stops_the_start() {
    let mut first = Instance::prepare(&Settings::default());
    first.start();
    let config = fs::read_to_string(first.config()).unwrap();
    let second = Instance::prepare(&Settings::default());
    let second_store = second.store().display().to_string();
    let own = fs::read_to_string(second.config()).unwrap();
    assert!(config.contains(&first.store().display().to_string()));
    fs::write(second.config(), own.replace(&second_store, &first.store().display().to_string())).unwrap();
    let error = refused(&second);
    assert!(error.contains("store"), "{error}");
}

#[test]
fn a_port_in_use_stops_the_start() {
    let instance = Instance::prepare(&Settings::default());
    let _taken = TcpListener::bind(("127.0.0.1", instance.port)).unwrap();
    let error = refused(&instance);
    assert!(error.contains(&instance.port.to_string()), "{error}");
}

#[test]
fn an_unreadable_certificate_stops_the_start() {
    let instance = Instance::prepare(&Settings::default());
    let text = fs::read_to_string(instance.config()).unwrap();
    let tls = "[server]\ntls = { certificate = \"/nowhere/cert.pem\", key = \"/nowhere/key.pem\" }";
    fs::write(instance.config(), text.replace("[server]", tls)).unwrap();
    let output = instance.try_run(&["serve"], "");
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/cert.pem"));
}

#[test]
fn all_faults_of_the_configuration_are_reported_together() {
    let instance = Instance::prepare(&Settings::default());
    let text = fs::read_to_string(instance.config()).unwrap();
    let broken = text.replace("[server]", "[server]\ncolour = 1").replace("issuer = \"http://", "issuer = \"ftp://");
    fs::write(instance.config(), broken + "\n[tokens]\naccess_token_seconds = 0\n").unwrap();
    let output = instance.try_run(&["check"], "");
    assert!(!output.status.success());
    let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    for path in ["issuer", "server.colour", "tokens.access_token_seconds"] {
        assert!(told.contains(path), "{path} is missing: {told}");
    }
}
