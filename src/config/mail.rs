//! How mails leave: the server that takes them, and from whom they are.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::domain::mail_address::MailAddress;

/// `[mail]`: the server that takes our mails, and from whom they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailConfig {
    /// Name or address of the server, as it stands on its certificate.
    pub host: String,
    pub port: u16,
    pub tls: MailTls,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub from: Mailbox,
    /// Where answers go; to `from` when absent.
    #[serde(serialize_with = "super::serialize::as_debug", skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Mailbox>,
    /// What the server is signed in to with; it asks for nothing when absent.
    #[serde(flatten)]
    pub credentials: Option<MailCredentials>,
    /// What we call ourselves to the server (EHLO).
    pub hello: String,
    /// The longest that one attempt lasts, from the connection to the server's last word.
    pub timeout: Duration,
    /// The most mails a minute.
    pub per_minute: u32,
    /// Authorities that may have signed the server's certificate, beside the machine's own.
    #[serde(serialize_with = "super::serialize::as_debug", skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// How the connection to the mail server is kept from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum MailTls {
    /// TLS after a greeting in clear (RFC 3207); a server that does not offer it gets no mail.
    StartTls,
    /// TLS from the first byte (RFC 8314 §3.3).
    Implicit,
    /// None, to a server on this machine.
    None,
}

/// A name and the file that holds the password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailCredentials {
    pub username: String,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub password_file: PathBuf,
}

/// An address, and the name that is shown with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    pub name: Option<String>,
    pub address: MailAddress,
}
