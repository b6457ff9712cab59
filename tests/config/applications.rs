//! `console.applications_file`: a file with further applications.

use std::fs;

use sealgate_config::Config;

use super::{APP, REQUIRED, lines, with_app};

const WIKI: &str =
    "[[app]]\nname = \"second\"\nhost = \"second.example.com\"\nupstreams = [\"http://127.0.0.1:8082\"]\n";

/// Reads a configuration file whose file of applications has this content.
fn with_file(applications: Option<&str>, main: &str) -> Result<Config, Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    if let Some(applications) = applications {
        fs::write(directory.path().join("applications.toml"), applications).unwrap();
    }
    let text = format!("console.applications_file = \"applications.toml\"\n{main}");
    Config::parse(&text, directory.path()).map_err(|faults| lines(&faults))
}

fn names(config: &Config) -> Vec<&str> {
    config.apps.iter().map(|app| app.name.as_str()).collect()
}

#[test]
fn applications_of_the_file_follow_those_of_the_configuration() {
    let main = format!("{REQUIRED}{APP}");
    assert_eq!(names(&with_file(None, &main).unwrap()), ["wiki"], "the file need not exist");
    assert_eq!(names(&with_file(Some(""), &main).unwrap()), ["wiki"]);
    assert_eq!(names(&with_file(Some(WIKI), &main).unwrap()), ["wiki", "second"]);
    assert_eq!(names(&with_file(Some(WIKI), main.trim_end()).unwrap()), ["wiki", "second"]);
    assert_eq!(names(&with_file(Some(WIKI), REQUIRED).unwrap()), ["second"]);
    // An error names the file and its line. The host of the other file is taken.
    let faults = with_file(Some(&WIKI.replace("second.example.com", "wiki.example.com")), &main).unwrap_err();
    assert!(faults[0].contains("is another application's host"), "{faults:?}");
    assert!(faults[0].ends_with("(applications.toml line 3)"), "{faults:?}");
    let faults = with_file(Some(WIKI), &format!("{}\n", with_app("host = ", "hosts = "))).unwrap_err();
    assert!(faults.iter().all(|fault| !fault.contains("applications.toml")), "{faults:?}");
}

#[test]
fn the_file_contains_only_applications() {
    for (text, told) in [
        ("[server]\nthreads = 1\n", "contains \"server\"; it may contain only [[app]] sections"),
        ("threads = 1\n", "contains \"threads\""),
        ("app = []\n", "contains \"app\""),
        ("[app]\nname = \"x\"\n", "contains \"app\""),
        ("[[app.route]]\npath = \"/\"\n", "contains \"app\""),
        ("app.name = \"x\"\n", "contains \"app\""),
        ("[[app]]\n[hsm]\n", "contains \"hsm\""),
        ("[[app]\n", "is not TOML"),
    ] {
        let faults = with_file(Some(text), &format!("{REQUIRED}{APP}")).unwrap_err();
        assert!(faults.len() == 1 && faults[0].starts_with("console.applications_file: "), "{text}: {faults:?}");
        assert!(faults[0].contains(told), "{text}: {faults:?}");
    }
    let large = format!("{WIKI}#{}\n", "x".repeat(1 << 20));
    let faults = with_file(Some(&large), REQUIRED).unwrap_err();
    assert!(faults[0].contains("has more than 1048576 bytes"), "{}", faults[0].len());
}

/// The line can have a secret, and auditors read the error in the console.
#[test]
fn an_error_of_the_syntax_does_not_show_the_line() {
    let text = format!("{WIKI}request_headers = {{ X-Key = \"s3cret }}\n");
    let faults = with_file(Some(&text), &format!("{REQUIRED}{APP}")).unwrap_err();
    assert!(faults.len() == 1 && faults[0].contains("applications.toml is not TOML: line 5: "), "{faults:?}");
    assert!(!faults[0].contains("s3cret") && !faults[0].contains('\n'), "{faults:?}");
}

#[test]
fn applications_can_be_edited_only_with_a_file() {
    let text = format!("console.edit_applications = true\n{REQUIRED}");
    let faults = lines(&Config::parse(&text, &super::base()).unwrap_err());
    assert!(faults[0].starts_with("console.applications_file: is missing; write the path"), "{faults:?}");
    let config = with_file(None, &text).unwrap();
    assert!(config.console.edit_applications && config.console.applications_file.is_some());
}
