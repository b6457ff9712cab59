//! Errors of certificate orders, classified by when to retry.

use std::fmt;

use instant_acme::{Error, Problem};

/// Kind of an error, which determines when to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeFaultKind {
    /// The authority cannot be reached, or failed with an internal error.
    Unreachable,
    /// The authority refuses the order or could not validate the host.
    Rejected,
    /// A rate limit of the authority was exceeded.
    Limited,
    /// The authority does not know the account.
    NoAccount,
    /// The authority rejected nonces repeatedly (RFC 8555 §6.5).
    BadNonce,
    /// An error on this machine, in its files or keys.
    Local,
}

/// Error of a request to the authority, or of a file that the order needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeFault {
    pub kind: AcmeFaultKind,
    pub text: String,
}

impl fmt::Display for AcmeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl AcmeFault {
    pub(crate) fn new(kind: AcmeFaultKind, text: impl fmt::Display) -> Self {
        Self { kind, text: text.to_string() }
    }

    /// Creates an error that occurred on this machine.
    pub fn local(text: impl fmt::Display) -> Self {
        Self::new(AcmeFaultKind::Local, text)
    }

    pub(crate) fn rejected(text: impl fmt::Display) -> Self {
        Self::new(AcmeFaultKind::Rejected, text)
    }
}

impl From<Error> for AcmeFault {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Api(problem) => kind_of(problem),
            Error::Crypto | Error::KeyRejected => AcmeFaultKind::Local,
            Error::Unsupported(_) => AcmeFaultKind::Rejected,
            _ => AcmeFaultKind::Unreachable,
        };
        match &error {
            Error::Api(problem) if name(problem) == Some("externalAccountRequired") => {
                Self::new(kind, format!("{error}; write acme.external_account_id and acme.external_account_key_file"))
            }
            _ => Self::new(kind, error),
        }
    }
}

/// Returns the type of a problem without its prefix (RFC 8555 §6.7).
fn name(problem: &Problem) -> Option<&str> {
    problem.r#type.as_deref()?.strip_prefix("urn:ietf:params:acme:error:")
}

/// Returns the kind of an error that the authority has reported.
pub(crate) fn kind_of(problem: &Problem) -> AcmeFaultKind {
    match (name(problem), problem.status) {
        (Some("badNonce"), _) => AcmeFaultKind::BadNonce,
        (Some("accountDoesNotExist"), _) => AcmeFaultKind::NoAccount,
        (Some("rateLimited"), _) | (_, Some(429)) => AcmeFaultKind::Limited,
        (Some("serverInternal"), _) | (_, Some(500..)) => AcmeFaultKind::Unreachable,
        _ => AcmeFaultKind::Rejected,
    }
}
