//! HTTP health checks of upstreams, and sticky upstreams.

use std::time::Duration;

use sealgate_config::Sticky;

use super::{fault, parse, starts, with_app};

#[test]
fn a_health_check_has_a_path_and_defaults() {
    let with = |table: &str| with_app("host = ", &format!("health_check = {table}\nhost = "));
    assert_eq!(parse(&with_app("host = ", "host = ")).apps[0].health_check, None);
    let check = parse(&with("{ path = \"/health?full=1\" }")).apps[0].health_check.clone().unwrap();
    assert_eq!((check.path.as_str(), check.status, check.failures, check.successes), ("/health?full=1", None, 3, 2));
    assert_eq!((check.interval, check.timeout), (Duration::from_secs(5), Duration::from_secs(2)));
    assert_eq!([199, 200, 399, 400].map(|status| check.accepts(status)), [false, true, true, false]);
    let check = parse(&with("{ path = \"/\", status = 401 }")).apps[0].health_check.clone().unwrap();
    assert!(check.accepts(401) && !check.accepts(200));
    for (table, expected) in [
        ("\"/health\"", ": is a string; write, for example, { path = \"/health\" }"),
        ("{}", ".path: is missing; write the path of the check"),
        ("{ path = \"health\" }", ".path: \"health\" is not a path; write the path of the check"),
        ("{ path = \"/a b\" }", ".path: \"/a b\" is not a path; "),
        ("{ path = \"/a#b\" }", ".path: \"/a#b\" is not a path; "),
        ("{ path = \"/\", status = 100 }", ".status: 100 is out of range; write a whole number from 200 to 599"),
        ("{ path = \"/\", interval_seconds = 0 }", ".interval_seconds: 0 is out of range; "),
        ("{ path = \"/\", timeout_seconds = 61 }", ".timeout_seconds: 61 is out of range; "),
        ("{ path = \"/\", failures = 0 }", ".failures: 0 is out of range; "),
        ("{ path = \"/\", successes = 101 }", ".successes: 101 is out of range; "),
        ("{ path = \"/\", fails = 1 }", ".fails: unknown key; did you mean failures?"),
    ] {
        starts(&fault(&with(table)), &format!("app[0].health_check{expected}"));
    }
}

#[test]
fn requests_stick_to_a_server_by_user_or_by_cookie() {
    let with = |sticky: &str| with_app("host = ", &format!("sticky = {sticky}\nhost = "));
    assert_eq!(parse(&with_app("host = ", "host = ")).apps[0].sticky, None);
    assert_eq!(parse(&with("\"user\"")).apps[0].sticky, Some(Sticky::User));
    assert_eq!(parse(&with("\"cookie\"")).apps[0].sticky, Some(Sticky::Cookie));
    for (value, expected) in [
        ("\"address\"", "\"address\" is not known; write \"user\" or \"cookie\""),
        ("true", "is a boolean; write \"user\" or \"cookie\""),
    ] {
        starts(&fault(&with(value)), &format!("app[0].sticky: {expected}"));
    }
}
