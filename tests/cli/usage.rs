//! Arguments, configuration files, exit statuses, and a store that another process uses.

use std::fs;

use crate::site::{Site, run, stderr};

#[test]
fn a_missing_configuration_file_is_named_with_a_remedy() {
    let site = Site::new();
    let output = run(&mut site.program(&["user", "list", "--config", "absent/sealgate.toml"]), "");
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("absent/sealgate.toml") && error.contains("--config FILE or SEALGATE_CONFIG"), "{error}");
    let help = run(&mut site.program(&["user", "list", "--help"]), "");
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("[default: /etc/sealgate/sealgate.toml]"), "{help}");
}

/// Returns the commands that a help page lists, each with its description.
fn listed(help: &str) -> Vec<(&str, &str)> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split_once("  "))
        .map(|(name, about)| (name, about.trim()))
        .collect()
}

#[test]
fn each_command_is_listed_with_one_short_line() {
    let site = Site::new();
    let mut paths = vec![Vec::new()];
    let mut number = 0;
    while let Some(path) = paths.pop() {
        let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let output = run(&mut site.program(&arguments), "");
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains("\nGlobal options:\n"), "{path:?}: {help}");
        for (name, about) in listed(&help).into_iter().filter(|(name, _)| *name != "help") {
            assert!(!about.is_empty() && about.len() <= 75, "{path:?} {name}: {about}");
            paths.push([path.clone(), vec![name.to_owned()]].concat());
            number += 1;
        }
    }
    assert!(number > 50, "{number}");
}

#[test]
fn the_configuration_is_given_by_option_or_environment() {
    let site = Site::new();
    let config = site.config();
    let config = config.to_str().unwrap();
    for arguments in [["--config", config, "user", "list"], ["user", "--config", config, "list"]] {
        let output = run(&mut site.program(&arguments), "");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let output = run(site.program(&["user", "list"]).env("SEALGATE_CONFIG", config), "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn unknown_commands_and_missing_arguments_are_wrong_usage() {
    let site = Site::new();
    for arguments in [
        &["user", "steal"][..],
        &["client", "show"],
        &["client", "add", "wiki"],
        &["user", "show", "neither sub nor name"],
        &["user", "show", "a@b.test", "c@d.test"],
        &["key", "generate", "--bits", "1024"],
    ] {
        let output = site.run(arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty() && stderr(&output).starts_with("error: "), "{arguments:?}");
    }
}

#[test]
fn help_succeeds_on_standard_output() {
    let site = Site::new();
    for arguments in [&["--help"][..], &["client", "add", "--help"], &["--version"]] {
        let output = run(&mut site.program(arguments), "");
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn check_prints_ok_or_every_error() {
    let site = Site::with_token();
    let errors = site.errors(&["check"], "");
    assert!(errors.len() == 1 && errors[0].contains("key generate"), "a start would refuse it: {errors:?}");
    let kid = site.kid(&["key", "generate"]);
    let (config, store) = (site.config().display().to_string(), site.store_directory().display().to_string());
    let token = format!("token: sealgate ({})", crate::softhsm::MODULE);
    assert_eq!(site.text(&["check"]), format!("{token}\nsigning key: {kid}\nstore: {store}\n{config}: ok\n"));
    assert_eq!(site.json(&["check"])["ok"], true);
    let text = fs::read_to_string(site.config()).unwrap();
    fs::write(site.config(), text.replace("issuer", "isuer").replace("\"sealgate\"", "7")).unwrap();
    let errors = site.errors(&["check"], "");
    for path in ["issuer: ", "isuer: ", "hsm.token_label: "] {
        assert!(errors.iter().any(|error| error.starts_with(path)), "{path} {errors:?}");
    }
}

#[test]
fn check_warns_of_hosts_without_a_certificate() {
    let site = Site::with_token();
    site.text(&["key", "generate"]);
    let text = fs::read_to_string(site.config()).unwrap();
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/config/wiki");
    let tls = format!("[server]\ntls = {{ certificate = \"{files}.certificate.pem\", key = \"{files}.key.pem\" }}");
    fs::write(site.config(), text.replace("http://", "https://").replace("[server]", &tls)).unwrap();
    let told = site.text(&["check"]);
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("certificate: ") && lines[0].contains("wiki.certificate.pem, valid until "), "{told}");
    let [.., first, second, last] = lines[..] else { panic!("{told}") };
    assert!(
        first.starts_with("warning: server.tls.certificate: ") && first.contains("is not valid for any of localhost")
    );
    assert_eq!(
        second,
        "warning: server.tls: no certificate is valid for localhost, so browsers cannot connect; add one"
    );
    assert!(last.ends_with(": ok"), "{told}");
    assert_eq!(site.json(&["check"])["warnings"].as_array().unwrap().len(), 2);
}

#[test]
fn an_invalid_configuration_stops_every_command() {
    let site = Site::with_token();
    fs::write(site.config(), "issuer = 1").unwrap();
    for arguments in [&["serve"][..], &["check"], &["status"], &["user", "list"], &["key", "list"]] {
        let errors = site.errors(arguments, "");
        assert!(errors.iter().any(|error| error.starts_with("issuer: ")), "{arguments:?} {errors:?}");
    }
    fs::remove_file(site.config()).unwrap();
    let errors = site.errors(&["client", "list"], "");
    assert!(errors.len() == 1 && errors[0].contains("sealgate.toml"), "{errors:?}");
}

#[test]
fn users_can_be_managed_without_the_files_of_the_token() {
    // The configured module and PIN file do not exist: `check` reports that, `user` does not.
    let site = Site::new();
    assert!(site.errors(&["check"], "").iter().any(|error| error.starts_with("hsm.pin_file: ")));
    site.add_user("anna@example.test");
}

#[test]
fn a_store_in_use_is_reported_with_the_process_that_uses_it() {
    let site = Site::new();
    let engine = site.engine();
    let errors = site.errors(&["user", "list"], "");
    let process = format!("by process {}", std::process::id());
    assert!(errors.len() == 1 && errors[0].contains("is in use") && errors[0].contains(&process), "{errors:?}");
    drop(engine);
    assert_eq!(site.json(&["user", "list"])["users"], serde_json::json!([]));
}

#[test]
fn a_closed_pipe_causes_no_panic() {
    let site = Site::new();
    let config = site.config();
    let script = format!("'{}' user list --config '{}' | true", env!("CARGO_BIN_EXE_sealgate"), config.display());
    let output = run(std::process::Command::new("sh").args(["-c", &script]), "");
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}
