//! `maintenance` of an application.

use sealgate_config::Maintenance;
use sealgate_domain::time::UnixTime;

use super::{fault, lines, parse, starts, with_app};

fn with(table: &str) -> String {
    with_app("host = ", &format!("maintenance = {table}\nhost = "))
}

#[test]
fn every_key_of_a_maintenance_is_optional() {
    assert_eq!(parse(&with_app("host = ", "host = ")).apps[0].maintenance, None);
    assert_eq!(parse(&with("{}")).apps[0].maintenance, Some(Maintenance::default()));
    let all = "{ message = \"Sürüm 2'ye <geçiliyor>.\", until = \"2026-12-01T09:00:00+03:00\", groups = [\"admins\"] }";
    let maintenance = parse(&with(all)).apps[0].maintenance.clone().unwrap();
    assert_eq!(maintenance.message.as_deref(), Some("Sürüm 2'ye <geçiliyor>."));
    assert_eq!(maintenance.until, Some(UnixTime::from_seconds(1_796_104_800)));
    assert_eq!(maintenance.groups, ["admins"]);
}

#[test]
fn a_maintenance_has_bounded_values() {
    let long = format!("{{ message = \"{}\" }}", "ş".repeat(301));
    assert!(parse(&with(&long.replacen('ş', "", 1))).apps[0].maintenance.is_some());
    for (table, expected) in [
        ("true", ": is a boolean; write, for example, { message = "),
        ("{ message = \"\" }", ".message: \"\" is not one line of 1 to 300 visible characters"),
        ("{ message = \"a\\nb\" }", ".message: \"a\\nb\" is not one line of 1 to 300 visible characters"),
        ("{ message = \"\\u202Eabc\" }", ".message: \"\\u{202e}abc\" is not one line"),
        (&long, ".message: \"şş"),
        ("{ until = \"2026-12-01\" }", ".until: \"2026-12-01\" is not a time since 1970; write a time such as "),
        ("{ until = \"2026-12-01T06:00:00\" }", ".until: \"2026-12-01T06:00:00\" is not a time since 1970"),
        ("{ until = \"1969-12-31T23:59:59Z\" }", ".until: \"1969-12-31T23:59:59Z\" is not a time since 1970"),
        ("{ until = 2026-12-01T06:00:00Z }", ".until: is a datetime; write a time such as "),
        ("{ groups = \"admins\" }", ".groups: is a string; write a list of group names"),
        ("{ groups = [\" a\"] }", ".groups[0]: \" a\" is not a name"),
        ("{ reason = \"x\" }", ".reason: unknown key"),
    ] {
        starts(&fault(&with(table)), &format!("app[0].maintenance{expected}"));
    }
}

#[test]
fn a_maintenance_after_its_end_is_reported() {
    let config = parse(&with("{ until = \"2026-12-01T06:00:00Z\" }"));
    let end = 1_796_104_800;
    assert_eq!(config.overdue_maintenance(UnixTime::from_seconds(end - 1)), []);
    let warned = lines(&config.overdue_maintenance(UnixTime::from_seconds(end)));
    assert_eq!(warned.len(), 1, "{warned:?}");
    starts(&warned[0], "app[0].maintenance.until: has passed, but wiki stays in maintenance; write a later time, or");
    assert_eq!(parse(&with("{}")).overdue_maintenance(UnixTime::from_seconds(end)), []);
}
