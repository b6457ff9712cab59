//! Checks of `[mail]`.

use std::net::IpAddr;

use super::super::file::Section;
use super::super::{IssuerUrl, MailConfig, MailCredentials, MailTls, Mailbox};
use super::address;
use crate::check::address::MINUTE;
use crate::disk::Files;
use sealgate_domain::mail_address::MailAddress;
use sealgate_domain::profile::{MAX_NAME_LENGTH, is_line};
use sealgate_domain::user::Email;

/// Maximum length of the username for the mail server, in bytes.
const MAX_USERNAME_LENGTH: usize = 255;

pub(super) fn mail(mut section: Section<'_, '_>, files: &Files, issuer: Option<&IssuerUrl>) -> Option<MailConfig> {
    let server = "write the name of the mail server, such as \"smtp.example.com\"";
    let host = section.required_text("host", server, |text| {
        let problem = |_| format!("{text:?} is not a host; {server} (the port has its own key, port)");
        address::certificate_name(text).map_err(problem)
    });
    let kinds = [("starttls", MailTls::StartTls), ("implicit", MailTls::Implicit), ("none", MailTls::None)];
    let tls = section.choice("tls", &kinds).unwrap_or(MailTls::StartTls);
    if tls == MailTls::None && host.as_deref().is_some_and(|host| !is_this_machine(host)) {
        let problem = "is \"none\", but messages contain links that give access to accounts; write \
            \"starttls\" or \"implicit\", or use a server on this machine (localhost, 127.0.0.1 or ::1)";
        section.fault("tls", problem);
    }
    let default_port = match tls {
        MailTls::StartTls => 587,
        MailTls::Implicit => 465,
        MailTls::None => 25,
    };
    let port = section.number("port", default_port, 1..=u16::MAX);
    let written = "write an address such as \"no-reply@example.com\", or \"Example <no-reply@example.com>\"";
    let from = section.required_text("from", written, |text| mailbox(text, written));
    let reply_to = section.text("reply_to", written, |text| mailbox(text, written));
    let username = section.text("username", "write the username for the mail server", |text| {
        let is_valid = !text.is_empty() && text.len() <= MAX_USERNAME_LENGTH && !text.chars().any(char::is_control);
        let problem =
            || format!("is not a valid username; write 1 to {MAX_USERNAME_LENGTH} bytes without control characters");
        is_valid.then(|| text.to_owned()).ok_or_else(problem)
    });
    let password_file = section.text("password_file", "write the path of the file with the password", |text| {
        files.secret_file(text, "the password for the mail server")
    });
    section.require_both("username", "password_file");
    let hello = section.text("hello", "write the name of this machine, such as \"id.example.com\"", |text| {
        address::certificate_name(text).map_err(|_| {
            format!("{text:?} is not a host name; write the name of this machine, such as \"id.example.com\"")
        })
    });
    let timeout = section.seconds("timeout_seconds", 20, 1..=5 * MINUTE);
    let per_minute = section.number("per_minute", 60, 1..=6000);
    let ca_file = section.text("ca_file", "write the path of a PEM certificate", |text| files.authorities(text));
    if tls == MailTls::None && section.has("ca_file") {
        section.fault("ca_file", "has no effect with tls = \"none\"; leave it out");
    }
    let own = |issuer: &IssuerUrl| issuer.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let credentials =
        username.zip(password_file).map(|(username, password_file)| MailCredentials { username, password_file });
    Some(MailConfig {
        host: host?,
        port,
        tls,
        from: from?,
        reply_to,
        credentials,
        hello: hello.or_else(|| issuer.map(own))?,
        timeout,
        per_minute,
        ca_file,
    })
}

/// Returns whether the host is always this machine.
///
/// False for names under `.localhost`, because some resolvers query other servers for them.
fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Parses an e-mail address, either alone, or in angle brackets after a display name.
fn mailbox(text: &str, written: &str) -> Result<Mailbox, String> {
    let (name, address) = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => (name.trim(), address),
        None => ("", text),
    };
    let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
    if !name.is_empty() && !is_line(name, MAX_NAME_LENGTH) {
        return Err(format!("{text:?} has an invalid display name; set at most {MAX_NAME_LENGTH} visible characters"));
    }
    let address = Email::parse(address).and_then(|email| MailAddress::from_email(&email));
    let address = address.ok_or_else(|| format!("{text:?} is not an address that mail servers accept; {written}"))?;
    Ok(Mailbox { name: (!name.is_empty()).then(|| name.to_owned()), address })
}
