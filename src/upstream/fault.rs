//! Reasons why a provider cannot answer now.

use std::fmt;

/// Reason why a provider gave no usable answer. Such a failure says nothing about users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamFault {
    kind: UpstreamFaultKind,
    text: String,
}

/// Kind of an [`UpstreamFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamFaultKind {
    /// The secret file, the client key or the CA file cannot be used.
    Settings,
    /// The provider's metadata cannot be read or used.
    Metadata,
    /// The provider's keys cannot be read or used.
    Keys,
    /// The provider cannot be reached, or its answer is late.
    Connect,
    /// The provider refused this server: the client id, the credential or the request.
    Client,
    /// The provider answered with an error or with an unusable document.
    Answer,
    /// Too many sign-ins wait for this provider.
    Busy,
}

impl UpstreamFaultKind {
    /// Returns the label value of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Metadata => "metadata",
            Self::Keys => "keys",
            Self::Connect => "connect",
            Self::Client => "client",
            Self::Answer => "answer",
            Self::Busy => "busy",
        }
    }
}

impl UpstreamFault {
    /// `text` states what failed, and then what to do.
    pub(crate) fn new(kind: UpstreamFaultKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Returns the kind, for metrics.
    pub fn kind(&self) -> UpstreamFaultKind {
        self.kind
    }
}

impl fmt::Display for UpstreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for UpstreamFault {}
