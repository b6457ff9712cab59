//! Required authentication levels and the enrolment deadline.

use sealgate_config::EnrolmentChoice;

use super::{APP, REQUIRED, fault, parse, starts, warnings};

fn with(section: &str) -> String {
    format!("{REQUIRED}[factors]\n{section}\n")
}

#[test]
fn one_factor_is_sufficient_by_default() {
    let factors = parse(REQUIRED).factors;
    assert_eq!((factors.level.as_str(), factors.groups.len(), factors.enrol_by), ("1", 0, None));
    assert_eq!(factors.enrolment, EnrolmentChoice::InSignIn);
    let text = with(
        "level = \"2\"\ngroups = { admins = \"phr\", \"iç denetim\" = \"2\" }\nenrol_by = \"2027-01-31\"\n\
         enrolment = \"administrator\"\nabandon_keys_of = \"old.test\"",
    );
    let config = parse(&text);
    let groups: Vec<_> = config.factors.groups.iter().map(|(name, level)| (name.as_str(), level.as_str())).collect();
    assert_eq!((config.factors.level.as_str(), groups), ("2", vec![("admins", "3"), ("iç denetim", "2")]));
    assert_eq!(config.factors.enrolment, EnrolmentChoice::ByLink);
    assert_eq!(config.factors.abandon_keys_of.as_deref(), Some("old.test"));
    assert_eq!(config.factors.enrol_by.unwrap().to_string(), "2027-02-01T00:00:00Z");
    assert_eq!(warnings(&config), [""; 0]);
}

#[test]
fn the_earlier_host_of_the_issuer_needs_https_and_a_place_for_its_file() {
    let rp_id = "[factors]\nrp_id = \"wiki.example.com\"\n";
    let plain = REQUIRED.replace("https://id.example.com", "http://localhost");
    starts(&fault(&format!("{plain}{rp_id}")), "factors.rp_id: requires an issuer with https");
    let config = parse(&format!("{REQUIRED}{rp_id}{APP}"));
    assert_eq!(config.rp_id(), "wiki.example.com");
    let warnings = warnings(&config);
    assert!(warnings[0].starts_with("factors.rp_id: is the host of the application wiki"), "{warnings:?}");
}

#[test]
fn invalid_levels_groups_and_days_are_errors() {
    for (section, start) in [
        ("level = 2", "factors.level: is an integer; write \"1\", \"2\" or \"3\""),
        ("level = \"aal2\"", "factors.level: \"aal2\" is not a level; write \"1\", \"2\" or \"3\""),
        ("groups = { admins = \"phrh\" }", "factors.groups.admins: \"phrh\" is not a level; "),
        ("groups = { \"a,b\" = \"2\" }", "factors.groups.a,b: \"a,b\" is not a group; "),
        ("groups = {}", "factors.groups: is empty; "),
        ("groups = [\"admins\"]", "factors.groups: is an array; write, for example, { admins = \"3\" }"),
        (
            "level = \"2\"\ngroups = { staff = \"1\" }",
            "factors.groups.staff: \"1\" is lower than \"2\", the level for all users; ",
        ),
        (
            "level = \"2\"\nenrol_by = 2027-01-31",
            "factors.enrol_by: is a datetime; write a date such as \"2027-01-31\"",
        ),
        ("level = \"2\"\nenrol_by = \"2027-02-29\"", "factors.enrol_by: \"2027-02-29\" is not a date since 1970; "),
        ("level = \"2\"\nenrol_by = \"2027-1-31\"", "factors.enrol_by: \"2027-1-31\" is not a date since 1970; "),
        ("level = \"2\"\nenrol_by = \"1960-01-31\"", "factors.enrol_by: \"1960-01-31\" is not a date since 1970; "),
        ("level = \"2\"\nenrol_by = \"31.01.2027\"", "factors.enrol_by: \"31.01.2027\" is not a date since 1970; "),
        ("enrolment = \"admin\"", "factors.enrolment: \"admin\" is not known; write \"self\" or \"administrator\""),
        ("rp_id = \"127.0.0.1\"", "factors.rp_id: \"127.0.0.1\" is an address; "),
        ("rp_id = \"Login.test\"", "factors.rp_id: \"Login.test\" is not the form that browsers send; "),
        (
            "required = true",
            "factors.required: unknown key; the keys here are abandon_keys_of, enrol_by, enrolment, groups, level, rp_id",
        ),
    ] {
        starts(&fault(&with(section)), start);
    }
}

#[test]
fn an_enrolment_day_without_effect_causes_a_warning() {
    for (section, warned) in [
        ("enrol_by = \"2027-01-31\"", true),
        ("enrol_by = \"2027-01-31\"\ngroups = { staff = \"1\" }", true),
        ("enrol_by = \"2027-01-31\"\ngroups = { staff = \"2\" }", false),
        ("enrol_by = \"2027-01-31\"\nlevel = \"2\"", false),
    ] {
        let found = warnings(&parse(&with(section)));
        assert_eq!(!found.is_empty(), warned, "{section}: {found:?}");
        for warning in found {
            starts(&warning, "factors.enrol_by: has no effect");
        }
    }
}

#[test]
fn a_level_that_needs_keys_is_a_warning_if_browsers_support_none() {
    let at = |issuer: &str, section: &str| with(section).replacen("https://id.example.com", issuer, 1);
    for issuer in ["https://192.0.2.7", "https://[2001:db8::7]"] {
        for (section, key) in [("level = \"3\"", "level"), ("groups = { admins = \"3\" }", "groups")] {
            let found = warnings(&parse(&at(issuer, section)));
            let [warning] = &found[..] else { panic!("{issuer} {section}: {found:?}") };
            starts(warning, &format!("factors.{key}: no user can reach level \"3\": "));
        }
        assert_eq!(warnings(&parse(&at(issuer, "level = \"2\""))), [""; 0]);
    }
    for issuer in ["https://id.example.com", "http://localhost:8080", "http://id.localhost:8080"] {
        assert_eq!(warnings(&parse(&at(issuer, "level = \"3\""))), [""; 0], "{issuer}");
    }
}
