//! Errors of the signer: why it could not start, in one line with the remedy, and why a request was
//! not signed.

use std::path::PathBuf;

use super::fault::{ErrorClass, TokenFault};
use crate::public_key::hex;

/// Why inputs were not signed. None of these consumes a code, token or session: callers sign before
/// they commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The signing queue is full. Answer 503 with `Retry-After`.
    #[error("the signing queue is full")]
    Busy,
    /// The signatures were not made in time. Answer 503.
    #[error("no signature in the time allowed")]
    Timeout,
    /// The token cannot sign at present; the text is for the log. Answer 503.
    #[error("the token does not sign now: {0}")]
    Unavailable(String),
    /// The request can never be signed: the kid is unknown, or the token does not allow the key to
    /// sign. Answer 500.
    #[error("cannot sign: {0}")]
    Bug(String),
}

impl SignError {
    /// Returns the class for metrics.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Busy => ErrorClass::Busy,
            Self::Timeout => ErrorClass::Timeout,
            Self::Unavailable(_) => ErrorClass::Device,
            Self::Bug(_) => ErrorClass::Bug,
        }
    }
}

impl SignerOpenError {
    /// Whether the error may resolve without an operator: a device that is absent or does not
    /// answer. Never for PIN errors, because each retry brings the token closer to being locked.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Initialize { .. } | Self::NoToken { .. } | Self::Device { .. })
    }
}

/// Why the token cannot be used. Each error is one line for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerOpenError {
    #[error("hsm.pin_file: {} {reason}", path.display())]
    PinFile { path: PathBuf, reason: String },
    /// The module is missing or is no PKCS #11 module.
    #[error("hsm.module: {} cannot be loaded ({reason}); install the token's PKCS#11 module or correct the path", path.display())]
    Module { path: PathBuf, reason: String },
    /// The module cannot be initialized.
    #[error(
        "hsm.module: {} does not start ({reason}); check the module's own configuration (SoftHSM: the file that SOFTHSM2_CONF names)",
        path.display()
    )]
    Initialize { path: PathBuf, reason: String },
    /// No token has the label.
    #[error(
        "hsm.token_label: no token has the label \"{label}\" ({found}); connect or initialize the token, or \
         correct the label"
    )]
    NoToken { label: String, found: String },
    #[error(
        "hsm.token_label: {} tokens have the label \"{label}\" (serial numbers {}); give each token its own label",
        serials.len(), serials.join(", ")
    )]
    TwoTokens { label: String, serials: Vec<String> },
    /// The PIN was refused or must not be tried.
    #[error("token \"{label}\": {problem}")]
    Pin { label: String, problem: PinProblem },
    /// No key has the label.
    #[error("token \"{token}\" has no RSA private key labelled \"{label}\"; run: sealgate key generate --config FILE")]
    NoKey { token: String, label: String },
    /// Several keys have the label and the same id.
    #[error(
        "token \"{token}\" has several private keys labelled \"{label}\" with the CKA_ID {}; keep one: delete the others, for example with pkcs11-tool --delete-object --type privkey --id",
        hex(id)
    )]
    SameId {
        token: String,
        label: String,
        /// Their `CKA_ID`.
        id: Vec<u8>,
    },
    #[error(
        "token \"{token}\" has the key {kid} several times (CKA_ID {}); a copy signs as well: delete all but one",
        ids.iter().map(|id| hex(id)).collect::<Vec<_>>().join(", ")
    )]
    SameKey {
        token: String,
        kid: String,
        /// The `CKA_ID`s under which it is there.
        ids: Vec<Vec<u8>>,
    },
    /// The key lacks properties that a signing key must have.
    #[error(
        "key \"{label}\" (CKA_ID {}) is refused: {}; remove it from the token and run: sealgate key generate --config FILE",
        hex(id), faults.join(", ")
    )]
    UnfitKey {
        label: String,
        /// Its `CKA_ID`.
        id: Vec<u8>,
        faults: Vec<String>,
    },
    /// A key with the label already exists, so none was generated.
    #[error("token \"{token}\" already has a private key labelled \"{label}\" (CKA_ID {}); nothing was generated. For a further key: sealgate key generate --next", ids.iter().map(|id| hex(id)).collect::<Vec<_>>().join(", "))]
    KeyExists {
        token: String,
        label: String,
        /// The `CKA_ID`s of the keys that exist.
        ids: Vec<Vec<u8>>,
    },
    /// The wrapping key cannot be created or used.
    #[error("token \"{token}\", wrapping key \"{label}\": {reason}")]
    WrappingKey {
        token: String,
        label: String,
        /// The problem and its remedy.
        reason: String,
    },
    /// A new node cannot request or receive the data key with this token.
    #[error("token \"{token}\": {reason}")]
    Enrolment {
        token: String,
        /// The problem and its remedy.
        reason: String,
    },
    /// The token answered with an error.
    #[error("token \"{label}\": {reason}; check that the device is connected and works")]
    Device {
        label: String,
        /// The failed function and the token's answer.
        reason: String,
    },
    /// The process could not start a thread.
    #[error("cannot start a signer thread: {0}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)")]
    Thread(String),
}

impl SignerOpenError {
    /// Creates the error for a device failure while opening the token `label`.
    pub(super) fn device(label: &str, fault: &TokenFault) -> Self {
        Self::Device { label: label.to_owned(), reason: fault.text.clone() }
    }

    /// Whether an automatic retry could use up PIN tries.
    pub(super) fn latches(&self) -> bool {
        matches!(self, Self::Pin { .. })
    }
}

/// Why a login was refused, by the token or by the signer itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinProblem {
    /// The token refused the PIN, after one try.
    #[error("the PIN in hsm.pin_file is wrong; it was tried once, correct the file before starting again")]
    Incorrect,
    #[error("the user PIN is locked; unlock it with the security officer's PIN")]
    Locked,
    /// One more wrong try would lock the token, so it was not tried.
    #[error("one more wrong PIN locks the token, so it was not tried; log in once by hand with the right PIN")]
    FinalTry,
    /// The token has no user PIN, requires a new one, or rejects its form.
    #[error("the token rejects the PIN in hsm.pin_file ({0}); set a new user PIN")]
    Unusable(String),
}
