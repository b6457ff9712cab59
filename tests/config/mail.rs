//! The section `[mail]`, which configures the SMTP server.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use sealgate_config::{Config, MailConfig, MailTls};

use super::{REQUIRED, base, fault, lines, parse, starts};

const MAIL: &str = "[mail]\nhost = \"smtp.example.com\"\nfrom = \"no-reply@example.com\"\n";

fn mail(more: &str) -> MailConfig {
    parse(&format!("{REQUIRED}{MAIL}{more}")).mail.unwrap()
}

fn mail_fault(more: &str) -> String {
    fault(&format!("{REQUIRED}{MAIL}{more}"))
}

/// Returns the configuration with the line that begins with `key` replaced.
fn replaced(key: &str, line: &str) -> String {
    let lines = MAIL.lines().map(|old| if old.starts_with(key) { line } else { old });
    format!("{REQUIRED}{}", lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_mail_section_is_optional_and_needs_two_keys() {
    assert_eq!(parse(REQUIRED).mail, None);
    let mail = mail("");
    assert_eq!((mail.host.as_str(), mail.port, mail.tls), ("smtp.example.com", 587, MailTls::StartTls));
    assert_eq!((mail.from.name, mail.from.address.to_string()), (None, "no-reply@example.com".to_owned()));
    assert_eq!((mail.hello.as_str(), mail.timeout, mail.per_minute), ("id.example.com", Duration::from_secs(20), 60));
    assert!(mail.credentials.is_none() && mail.reply_to.is_none() && mail.ca_file.is_none());
}

#[test]
fn the_default_port_depends_on_the_tls_mode() {
    assert_eq!(mail("tls = \"implicit\"").port, 465);
    assert_eq!(mail("tls = \"starttls\"").port, 587);
    assert_eq!(mail("tls = \"implicit\"\nport = 4650").port, 4650);
    let local = |host: &str| replaced("host", &format!("host = \"{host}\"\ntls = \"none\""));
    for host in ["localhost", "127.0.0.1", "127.0.0.53", "::1"] {
        assert_eq!(parse(&local(host)).mail.unwrap().port, 25, "{host}");
    }
}

#[test]
fn mail_without_tls_to_another_machine_is_an_error() {
    // Some resolvers query DNS for the last name.
    for host in ["smtp.example.com", "192.0.2.1", "localhost.example.com", "smtp.localhost"] {
        let fault = fault(&replaced("host", &format!("host = \"{host}\"\ntls = \"none\"")));
        starts(
            &fault,
            "mail.tls: is \"none\", but messages contain links that give access to accounts; write \"starttls\"",
        );
    }
}

#[test]
fn self_registration_requires_mail() {
    let open = "[registration_of_people]\nmode = \"open\"\n";
    assert!(!parse(REQUIRED).registration_of_people.is_open());
    let config =
        parse(&format!("{REQUIRED}{MAIL}{open}domains = [\"Example.com\", \"örnek.test\"]")).registration_of_people;
    assert!(config.is_open());
    assert_eq!(config.domains, ["example.com", "xn--rnek-4qa.test"]);
    for none in ["", "domains = []"] {
        assert!(parse(&format!("{REQUIRED}{MAIL}{open}{none}")).registration_of_people.domains.is_empty());
    }
    let told = fault(&format!("{REQUIRED}{open}"));
    starts(&told, "registration_of_people.mode: is \"open\", which requires [mail] to verify addresses; add [mail]");
    for wrong in ["@example.com", "a@example.com", "127.0.0.1", "example..com", "", "ex ample.com"] {
        let told = fault(&format!("{REQUIRED}{MAIL}{open}domains = [\"{wrong}\"]"));
        starts(&told, &format!("registration_of_people.domains[0]: {wrong:?} is not a domain; write it without"));
    }
    starts(
        &fault(&format!("{REQUIRED}{MAIL}[registration_of_people]\nmode = \"token\"")),
        "registration_of_people.mode: ",
    );
}

#[test]
fn missing_mail_keys_are_reported() {
    starts(&fault(&replaced("host", "")), "mail.host: is missing; write the name of the mail server");
    starts(&fault(&replaced("from", "")), "mail.from: is missing; write an address such as");
    starts(&fault(&format!("{REQUIRED}mail = 5")), "mail: is an integer; write it as a table, [mail]");
}

#[test]
fn mail_hosts_are_host_names_or_addresses() {
    for host in ["smtp.example.com:587", "smtp://smtp.example.com", "", "a b", "*.example.com", "smtp_1.example.com"] {
        starts(&fault(&replaced("host", &format!("host = {host:?}"))), &format!("mail.host: {host:?} is not a host; "));
    }
    starts(&mail_fault("hello = \"my machine\""), "mail.hello: \"my machine\" is not a host name; write the name of");
    assert_eq!(mail("hello = \"192.0.2.1\"").hello, "192.0.2.1");
}

#[test]
fn senders_are_addresses_with_or_without_a_name() {
    for (text, name, address) in [
        ("Örnek A.Ş. <no-reply@example.com>", Some("Örnek A.Ş."), "no-reply@example.com"),
        ("\\\"Ex, Inc.\\\" <no-reply@example.com>", Some("Ex, Inc."), "no-reply@example.com"),
        ("<no-reply@example.com>", None, "no-reply@example.com"),
        ("no-reply@örnek.example", None, "no-reply@xn--rnek-4qa.example"),
    ] {
        let from = parse(&replaced("from", &format!("from = \"{text}\""))).mail.unwrap().from;
        assert_eq!((from.name.as_deref(), from.address.to_string().as_str()), (name, address));
    }
    for wrong in ["example.com", "", "a..b@example.com", "a@b@c", "Ex <a@example.com", "a@example.com, b@example.com"] {
        let fault = fault(&replaced("from", &format!("from = {wrong:?}")));
        starts(
            &fault,
            &format!("mail.from: {wrong:?} is not an address that mail servers accept; write an address such"),
        );
    }
    // A line break would end the header. An invisible character would reverse the displayed name.
    for wrong in ["Ex\\nBcc: x <a@example.com>", "Ex\\u202E <a@example.com>"] {
        let fault = fault(&replaced("from", &format!("from = \"{wrong}\"")));
        assert!(fault.starts_with("mail.from: ") && fault.contains("has an invalid display name"), "{fault}");
    }
    starts(&mail_fault("reply_to = \"help\""), "mail.reply_to: \"help\" is not an address that mail servers accept; ");
}

#[test]
fn mail_username_and_password_must_be_set_together() {
    let told = mail("username = \"id\"\npassword_file = \"mail-password\"").credentials.unwrap();
    assert_eq!((told.username.as_str(), told.password_file), ("id", base().join("mail-password")));
    starts(&mail_fault("username = \"id\""), "mail.username: requires password_file");
    starts(&mail_fault("password_file = \"p\""), "mail.password_file: requires username");
    starts(
        &mail_fault("username = \"\"\npassword_file = \"p\""),
        "mail.username: is not a valid username; write 1 to 255",
    );
}

#[test]
fn mail_settings_out_of_range_are_reported() {
    starts(&mail_fault("timeout_seconds = 301"), "mail.timeout_seconds: 301 is out of range; write a whole number of");
    starts(&mail_fault("timeout_seconds = 0"), "mail.timeout_seconds: 0 is out of range; ");
    starts(&mail_fault("per_minute = 0"), "mail.per_minute: 0 is out of range; write a whole number from 1 to 6000");
    starts(&mail_fault("port = 0"), "mail.port: 0 is out of range; write a whole number from 1 to 65535");
    starts(
        &mail_fault("tls = \"maybe\""),
        "mail.tls: \"maybe\" is not known; write \"starttls\", \"implicit\" or \"none\"",
    );
    let local = replaced("host", "host = \"localhost\"\ntls = \"none\"\nca_file = \"ca.pem\"");
    starts(&fault(&local), "mail.ca_file: has no effect with tls = \"none\"; leave it out");
}

#[test]
fn a_password_in_the_configuration_is_an_unknown_key_and_is_not_printed() {
    let fault = mail_fault("password = \"hunter2\"");
    assert!(fault.starts_with("mail.password: unknown key") && !fault.contains("hunter2"), "{fault}");
}

#[test]
fn the_mail_password_file_has_the_rules_of_the_pin_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, content: &str, mode: u32| {
        fs::write(path(name), content).unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
    };
    write("pin", "123456", 0o600);
    write("module.so", "a library", 0o600);
    let more = "username = \"id\"\npassword_file = \"word\"\n";
    write("sealgate.toml", &format!("{REQUIRED}{MAIL}{more}"), 0o600);
    let load = || Config::load(&path("sealgate.toml")).map_err(|faults| lines(&faults).join("\n"));
    let word = path("word").display().to_string();
    starts(&load().unwrap_err(), &format!("mail.password_file: {word} cannot be read ("));
    for mode in [0o640, 0o604, 0o644] {
        write("word", "hunter2", mode);
        let expected = format!(
            "mail.password_file: {word} can be accessed by other users (mode {mode:04o}); run: chmod 600 {word}"
        );
        starts(&load().unwrap_err(), &expected);
    }
    write("word", "", 0o600);
    starts(
        &load().unwrap_err(),
        &format!("mail.password_file: {word} is empty; write the password for the mail server"),
    );
    write("word", "hunter2", 0o400);
    assert!(!format!("{:?}", load().unwrap()).contains("hunter2"));
    // A CA file that contains no certificate.
    write("sealgate.toml", &format!("{REQUIRED}{MAIL}{more}ca_file = \"word\"\n"), 0o600);
    starts(&load().unwrap_err(), &format!("mail.ca_file: {word} contains no certificate"));
}
