//! Directories: accepted values, errors and defaults.

use std::time::Duration;

use sealgate_config::{DirectoryKind, DirectorySecurity, DirectorySettings, GroupSource};
use sealgate_domain::search_filter::{AttributeName, SearchFilter};

use super::{APP, REQUIRED, fault, faults, parse};

const DIRECTORY: &str = r#"
    [[directory]]
    name = "corp"
    servers = ["ldaps://ldap.corp.test"]
    domains = ["corp.test"]
    bind = { dn = "cn=sealgate,dc=corp,dc=test", password_file = "password" }
"#;

fn text(more: &str) -> String {
    format!("{REQUIRED}{DIRECTORY}{more}\n{APP}")
}

fn directory(more: &str) -> DirectorySettings {
    parse(&text(more)).directories.into_iter().next().unwrap()
}

fn names(names: &[AttributeName]) -> Vec<&str> {
    names.iter().map(AttributeName::as_str).collect()
}

#[test]
fn defaults_follow_from_the_kind() {
    let ldap = directory("kind = \"ldap\"\nusers = { base = \"dc=corp,dc=test\" }\ngroups = { base = \"ou=g\" }");
    assert_eq!((ldap.kind, ldap.id.as_str()), (DirectoryKind::Ldap, "entryUUID"));
    assert_eq!(names(&ldap.users.names), ["uid", "mail"]);
    assert_eq!(ldap.users.filter, SearchFilter::parse("(objectClass=person)").unwrap());
    let groups = ldap.groups.unwrap();
    assert_eq!((groups.from, groups.prefix.as_str()), (GroupSource::Members, "corp:"));
    let times = [ldap.refresh, ldap.stale, ldap.timeout];
    assert_eq!(times, [60, 3600, 3].map(Duration::from_secs));
    assert!(!ldap.is_default && ldap.ca_file.is_none());
    let server = &ldap.servers[0];
    assert_eq!(
        (server.to_string().as_str(), server.security),
        ("ldaps://ldap.corp.test:636", DirectorySecurity::Ldaps)
    );
    assert_eq!(ldap.bind.password_file, std::path::Path::new("/etc/sealgate/password"));

    let users = "kind = \"active_directory\"\nusers = { base = \"dc=corp,dc=test\" }";
    let windows = directory(&format!("{users}\ngroups = {{ base = \"dc=corp\" }}"));
    assert_eq!(windows.id.as_str(), "objectGUID");
    assert_eq!(names(&windows.users.names), ["userPrincipalName", "sAMAccountName", "mail"]);
    assert_eq!(windows.groups.unwrap().from, GroupSource::TokenGroups);
    assert_eq!(directory(users).groups, None);
}

#[test]
fn a_server_without_tls_is_on_this_machine() {
    let server = |url: &str, more: &str| {
        let text = text(&format!("kind = \"ldap\"\nusers = {{ base = \"dc=x\" }}\n{more}"));
        parse(&text.replace("ldaps://ldap.corp.test", url)).directories[0].servers[0].clone()
    };
    for url in ["ldap://localhost", "ldap://127.0.0.1", "ldap://[::1]:1389"] {
        assert_eq!(server(url, "").security, DirectorySecurity::None, "{url}");
    }
    assert_eq!(server("ldap://[::1]:1389", "").to_string(), "ldap://[::1]:1389");
    let started = server("ldap://ldap.corp.test", "starttls = true");
    assert_eq!((started.security, started.port), (DirectorySecurity::StartTls, 389));
    assert_eq!(server("ldap://127.0.0.1", "starttls = true").security, DirectorySecurity::StartTls);
    for (url, part) in [
        ("ldap://ldap.corp.test", "would send passwords without encryption; write ldaps://"),
        ("ldap://10.0.0.1", "would send passwords without encryption"),
        ("ldap://localhost.corp.test", "would send passwords without encryption"),
        ("https://ldap.corp.test", "is not ldaps:// or ldap://"),
        ("ldap.corp.test", "is not a URL"),
        ("ldaps://", "has no valid host"),
        ("ldaps://ldap.corp.test/dc=corp", "has other parts"),
        ("ldaps://user@ldap.corp.test", "has other parts"),
        ("ldaps://ldap.corp.test?uid", "has other parts"),
    ] {
        let text = text("kind = \"ldap\"\nusers = { base = \"dc=x\" }").replace("ldaps://ldap.corp.test", url);
        let fault = fault(&text);
        assert!(fault.starts_with("directory[0].servers[0]: ") && fault.contains(part), "{fault}");
    }
}

#[test]
fn errors_say_what_to_write() {
    for (more, start) in [
        ("kind = \"openldap\"", "directory[0].kind: \"openldap\" is not known; write \"active_directory\" or \"ldap\""),
        ("kind = \"ldap\"\nstarttls = true", "directory[0].starttls: has no effect on ldaps://"),
        ("kind = \"ldap\"\ndefalt = true", "directory[0].defalt: unknown key; did you mean default?"),
        ("kind = \"ldap\"\nid = \"a b\"", "directory[0].id: \"a b\" is not the name of an attribute"),
        (
            "kind = \"ldap\"\nstale_seconds = 59",
            "directory[0].stale_seconds: is shorter than refresh_seconds; set at least 60",
        ),
        ("kind = \"ldap\"\ngroups = { base = \"x\" }", "directory[0].groups.base: \"x\" is not a distinguished name"),
        (
            "kind = \"ldap\"\ngroups = { base = \"o=x\", from = \"token_groups\" }",
            "directory[0].groups.from: is \"token_groups\", which only Active Directory has",
        ),
        (
            "kind = \"ldap\"\ngroups = { base = \"o=x\", prefix = \"a,b\" }",
            "directory[0].groups.prefix: \"a,b\" is not a valid prefix",
        ),
    ] {
        let fault = fault(&text(&format!("users = {{ base = \"dc=x\" }}\n{more}")));
        assert!(fault.starts_with(start), "{fault}");
    }
    for (users, start) in [
        (
            "{ base = \"dc=x\", filter = \"uid=*\" }",
            "directory[0].users.filter: \"uid=*\" is not a filter: expected '('",
        ),
        (
            "{ base = \"dc=x\", filter = \"(uid=*\" }",
            "directory[0].users.filter: \"(uid=*\" is not a filter: expected ')'",
        ),
        ("{ base = \"dc=x\", names = [] }", "directory[0].users.names: is empty; "),
        ("{ base = \"corp.test\" }", "directory[0].users.base: \"corp.test\" is not a distinguished name"),
        ("{}", "directory[0].users.base: is missing; "),
    ] {
        let fault = fault(&text(&format!("kind = \"ldap\"\nusers = {users}")));
        assert!(fault.starts_with(start), "{fault}");
    }
    let anonymous = text("kind = \"ldap\"\nusers = { base = \"dc=x\" }").replace("cn=sealgate,dc=corp,dc=test", "");
    assert!(fault(&anonymous).starts_with("directory[0].bind.dn: is empty"), "{}", fault(&anonymous));
    let nowhere = text("kind = \"ldap\"\nusers = { base = \"dc=x\" }").replace("domains = [\"corp.test\"]", "");
    assert!(fault(&nowhere).starts_with("directory[0].domains: is missing, so nobody could sign in"));
}

#[test]
fn names_domains_and_the_default_are_unique() {
    let one = "kind = \"ldap\"\nusers = { base = \"dc=x\" }\ndefault = true\n";
    let found = faults(&format!("{REQUIRED}{DIRECTORY}{one}{DIRECTORY}{one}{APP}"));
    let starts = [
        "directory[1].name: \"corp\" is another directory's or upstream's name",
        "directory[1].domains[0]: \"corp.test\" is listed twice",
        "directory[1].default: another directory is the default",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for start in starts {
        assert!(found.iter().any(|fault| fault.starts_with(start)), "{start}: {found:#?}");
    }
}

#[test]
fn every_missing_key_is_reported() {
    let found = faults(&format!("{REQUIRED}[[directory]]\n{APP}"));
    for key in ["name", "kind", "servers", "domains", "bind.dn", "bind.password_file", "users.base"] {
        let start = format!("directory[0].{key}: is missing");
        assert!(found.iter().any(|fault| fault.starts_with(&start)), "{key}: {found:#?}");
    }
    assert_eq!(found.len(), 7, "{found:#?}");
}
