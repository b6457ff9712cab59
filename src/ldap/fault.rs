//! Reasons why a directory cannot answer now.

use std::fmt;

/// Reason why a directory gave no complete answer. Such a failure says nothing about users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapFault {
    kind: LdapFaultKind,
    text: String,
}

/// Kind of a [`LdapFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LdapFaultKind {
    /// The CA file or the password file cannot be used.
    Settings,
    /// No server accepts connections.
    Connect,
    /// The TLS handshake or StartTLS failed.
    Tls,
    /// The answer is late.
    Deadline,
    /// The server refused the account for searches.
    ServiceBind,
    /// The answer exceeds a limit of the server or of this client.
    Limit,
    /// The server answered with an error, with a referral, or not in LDAP.
    Answer,
    /// The entry of one user cannot be used. Says nothing about other users.
    Entry,
    /// Too many sign-ins are waiting for this directory.
    Busy,
}

impl LdapFaultKind {
    /// Returns the label value of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Deadline => "deadline",
            Self::ServiceBind => "service_bind",
            Self::Limit => "limit",
            Self::Answer => "answer",
            Self::Entry => "entry",
            Self::Busy => "busy",
        }
    }
}

impl LdapFault {
    /// `text` states what failed, and then what to do.
    pub(crate) fn new(kind: LdapFaultKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Returns the kind, for metrics.
    pub fn kind(&self) -> LdapFaultKind {
        self.kind
    }
}

impl fmt::Display for LdapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LdapFault {}
