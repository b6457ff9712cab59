//! `[mail]`: the mail server and the sender.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use sealgate_domain::mail_address::MailAddress;

/// `[mail]`: the mail server and the sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailConfig {
    /// Host name or IP address of the server. The server's certificate must be valid for it.
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub from: Mailbox,
    /// Mailbox for replies; `None` if replies go to the sender.
    #[serde(serialize_with = "super::serialize::as_debug", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Mailbox>,
    /// Credentials for the server; `None` if it needs no authentication.
    #[serde(flatten)]
    pub credentials: Option<MailCredentials>,
    /// Name that the EHLO command sends.
    pub hello: String,
    /// Timeout for one delivery attempt, from connecting to the last response.
    pub timeout: Duration,
    /// Maximum number of messages per minute.
    pub per_minute: u32,
    /// PEM file with CA certificates. These authorities may sign the server's certificate, in
    /// addition to the authorities of the machine.
    #[serde(serialize_with = "super::serialize::as_debug", skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// TLS mode of the connection to the mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum MailTls {
    /// STARTTLS (RFC 3207). No mail is sent to a server that does not offer STARTTLS.
    StartTls,
    /// TLS from the first byte (RFC 8314 §3.3).
    Implicit,
    /// No TLS. Only allowed for a server on this machine.
    None,
}

/// Username, and the file that contains the password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailCredentials {
    pub username: String,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub password_file: PathBuf,
}

/// E-mail address with an optional display name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    pub name: Option<String>,
    pub address: MailAddress,
}
