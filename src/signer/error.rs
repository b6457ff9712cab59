//! What callers of the signer are told: why it could not start, in one line that says what to do, and why a request was
//! not signed.

use std::path::PathBuf;

use super::encoding::hex;
use super::fault::{ErrorClass, TokenFault};

/// Why inputs were not signed. No code, token or session is used up by any of these: a caller signs before it commits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// As many signatures wait as may wait. Answer 503 with `Retry-After`.
    #[error("the signing queue is full")]
    Busy,
    /// The signatures were not made in the time allowed. Answer 503.
    #[error("no signature in the time allowed")]
    Timeout,
    /// The token does not sign at present; the text is for the log. Answer 503.
    #[error("the token does not sign at present: {0}")]
    Unavailable(String),
    /// The request can never be signed: an unknown kid, or a key that the token does not let sign. Answer 500.
    #[error("cannot be signed: {0}")]
    Bug(String),
}

impl SignError {
    /// The class under which the error is counted.
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
    /// Whether it may pass by itself, without an operator: a device that is away or does not answer. Never for anything
    /// about the PIN, since each further try brings the token nearer to being locked.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Initialize { .. } | Self::NoToken { .. } | Self::Device { .. })
    }
}

/// Why the token cannot be used. Each is one line for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerOpenError {
    #[error("hsm.pin_file: {} {reason}", path.display())]
    PinFile { path: PathBuf, reason: String },
    /// The module is not there or is no PKCS #11 module.
    #[error("hsm.module: {} cannot be loaded ({reason}); install the token's PKCS#11 module or correct the path", path.display())]
    Module { path: PathBuf, reason: String },
    /// The module is there but does not start.
    #[error(
        "hsm.module: {} does not start ({reason}); check the module's own configuration (SoftHSM: the file that SOFTHSM2_CONF names)",
        path.display()
    )]
    Initialize { path: PathBuf, reason: String },
    /// No token has the label.
    #[error(
        "hsm.token_label: no token is labelled \"{label}\" ({found}); connect or make the token, or correct the label"
    )]
    NoToken { label: String, found: String },
    #[error(
        "hsm.token_label: {} tokens are labelled \"{label}\" (serial numbers {}); give each token a label of its own",
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
    /// The key does not have the properties that a signing key must have.
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
    /// A key with the label exists already, so none was generated.
    #[error("token \"{token}\" already has a private key labelled \"{label}\" (CKA_ID {}); nothing was generated. For a further key: sealgate key generate --next", ids.iter().map(|id| hex(id)).collect::<Vec<_>>().join(", "))]
    KeyExists {
        token: String,
        label: String,
        /// The `CKA_ID`s of the keys that exist.
        ids: Vec<Vec<u8>>,
    },
    /// The key that wraps the store's data key cannot be made or used.
    #[error("token \"{token}\", wrapping key \"{label}\": {reason}")]
    WrappingKey {
        token: String,
        label: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A new node cannot ask for the data key with this token, or not take it.
    #[error("token \"{token}\": {reason}")]
    Enrolment {
        token: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The token answered with an error.
    #[error("token \"{label}\": {reason}; check that the device is connected and works")]
    Device {
        label: String,
        /// What was asked and what it answered.
        reason: String,
    },
    /// The process could not start a thread.
    #[error("cannot start a signer thread: {0}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)")]
    Thread(String),
}

impl SignerOpenError {
    /// A fault of the device while `label` was being opened.
    pub(super) fn device(label: &str, fault: &TokenFault) -> Self {
        Self::Device { label: label.to_owned(), reason: fault.text.clone() }
    }

    /// Whether trying again by itself could cost PIN tries.
    pub(super) fn latches(&self) -> bool {
        matches!(self, Self::Pin { .. })
    }
}

/// Why a login was refused, by the token or by us.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinProblem {
    /// The token refused the PIN. It was tried once.
    #[error("the PIN in hsm.pin_file is wrong; it was tried once, correct the file before starting again")]
    Incorrect,
    #[error("the user PIN is locked; unlock it with the security officer's PIN")]
    Locked,
    /// One more wrong try would lock the token, so it was not tried.
    #[error("one more wrong PIN locks the token, so it was not tried; log in once by hand with the right PIN")]
    FinalTry,
    /// The token has no user PIN, or wants it changed, or refuses its form.
    #[error("the token does not take the PIN in hsm.pin_file ({0}); set the user PIN anew")]
    Unusable(String),
}
