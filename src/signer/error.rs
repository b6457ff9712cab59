//! Errors of the signer. [`SignerOpenError`] says why the signer cannot start. [`SignError`] says
//! why a request was not signed.

use std::path::PathBuf;

use super::fault::{ErrorClass, TokenFault};
use crate::public_key::hex;
use sealgate_domain::oauth::jwk_set::Algorithm;

/// Reason why inputs were not signed.
///
/// After an error, the code, refresh token or session of the request stays unused: callers sign
/// before they commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The signing queue is full. Answer 503 with `Retry-After`.
    #[error("the signing queue is full")]
    Busy,
    /// The deadline passed before all signatures were made. Answer 503.
    #[error("no signature in the time allowed")]
    Timeout,
    /// The token cannot sign at present. The text is for the log. Answer 503.
    #[error("the token does not sign now: {0}")]
    Unavailable(String),
    /// A retry would fail too: the kid is unknown, or the token does not allow the key to sign.
    /// Answer 500.
    #[error("cannot sign: {0}")]
    Bug(String),
}

impl SignError {
    /// Every class that [`Self::class`] returns.
    pub const CLASSES: [ErrorClass; 4] = [ErrorClass::Busy, ErrorClass::Timeout, ErrorClass::Device, ErrorClass::Bug];

    /// Returns the class of the error for metrics.
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
    /// Returns whether a retry may succeed without an operator, because the device may be absent.
    ///
    /// PIN errors are never retried: each further attempt may lock the token.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Initialize { .. } | Self::NoToken { .. } | Self::Device { .. })
    }
}

/// Reason why the token cannot be used. Each message is one line with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerOpenError {
    #[error("hsm.pin_file: {} {reason}", path.display())]
    PinFile { path: PathBuf, reason: String },
    /// The module is missing or is not a PKCS#11 module.
    #[error("hsm.module: {} cannot be loaded ({reason}); install the token's PKCS#11 module or correct the path", path.display())]
    Module { path: PathBuf, reason: String },
    /// `C_Initialize` failed.
    #[error(
        "hsm.module: {} does not start ({reason}); check the module's own configuration (SoftHSM: the file that SOFTHSM2_CONF names)",
        path.display()
    )]
    Initialize { path: PathBuf, reason: String },
    /// No token has the configured label.
    #[error(
        "hsm.token_label: no token has the label \"{label}\" ({reason}); connect or initialize the token, or \
         correct the label"
    )]
    NoToken { label: String, reason: String },
    #[error(
        "hsm.token_label: {} tokens have the label \"{label}\" (serial numbers {}); give each token its own label",
        serials.len(), serials.join(", ")
    )]
    TwoTokens { label: String, serials: Vec<String> },
    /// The token rejected the PIN, or the signer did not try it.
    #[error("token \"{label}\": {problem}")]
    Pin { label: String, problem: PinProblem },
    /// No private key has the configured label.
    #[error("token \"{token}\" has no RSA private key labelled \"{label}\"; run: sealgate key generate --config FILE")]
    NoKey { token: String, label: String },
    /// No private key has the label of a configured further algorithm.
    #[error(
        "token \"{token}\" has no {algorithm} private key labelled \"{label}\", but keys.algorithms lists {algorithm}; \
         run: sealgate key generate --algorithm {algorithm} --config FILE"
    )]
    NoKeyFor { token: String, label: String, algorithm: Algorithm },
    /// A key was requested for an algorithm that is not configured.
    #[error("the server has no {0} keys; add {0} to keys.algorithms and restart it")]
    NotConfigured(Algorithm),
    /// Several private keys have the configured label and the same `CKA_ID`.
    #[error(
        "token \"{token}\" has several private keys labelled \"{label}\" with the CKA_ID {}; keep one: delete the others, for example with pkcs11-tool --delete-object --type privkey --id",
        hex(id)
    )]
    SameId { token: String, label: String, id: Vec<u8> },
    #[error(
        "token \"{token}\" has the key {kid} several times (CKA_ID {}); each copy can sign: delete all but one",
        ids.iter().map(|id| hex(id)).collect::<Vec<_>>().join(", ")
    )]
    SameKey {
        token: String,
        kid: String,
        /// The `CKA_ID`s of the copies.
        ids: Vec<Vec<u8>>,
    },
    /// The key lacks properties that a signing key must have.
    #[error(
        "key \"{label}\" (CKA_ID {}) is refused: {}; remove it from the token and run: sealgate key generate --config FILE",
        hex(id), faults.join(", ")
    )]
    UnfitKey { label: String, id: Vec<u8>, faults: Vec<String> },
    /// A key with the label already exists, so no key was generated.
    #[error("token \"{token}\" already has a private key labelled \"{label}\" (CKA_ID {}); nothing was generated. For a further key: sealgate key generate --next", ids.iter().map(|id| hex(id)).collect::<Vec<_>>().join(", "))]
    KeyExists {
        token: String,
        label: String,
        /// The `CKA_ID`s of the existing keys.
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
    /// A TLS key cannot be created or used.
    #[error("token \"{token}\", TLS key \"{label}\": {reason}")]
    TlsKey {
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
    /// A PKCS#11 function returned an error.
    #[error("token \"{label}\": {reason}; check that the device is connected and works")]
    Device {
        label: String,
        /// The function and the error code that it returned.
        reason: String,
    },
    /// The process could not start a thread.
    #[error("cannot start a signer thread: {0}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)")]
    Thread(String),
}

impl SignerOpenError {
    /// Creates the error for a failure of the token with this label.
    pub(super) fn device(label: &str, fault: &TokenFault) -> Self {
        Self::Device { label: label.to_owned(), reason: fault.text.clone() }
    }

    /// Returns whether an automatic retry could use up PIN attempts.
    pub(super) fn uses_up_pin_attempts(&self) -> bool {
        matches!(self, Self::Pin { .. })
    }
}

/// Reason why a login failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PinProblem {
    /// The token rejected the PIN.
    #[error("the PIN in hsm.pin_file is wrong; it was tried once, correct the file before starting again")]
    Incorrect,
    #[error("the user PIN is locked; unlock it with the security officer's PIN")]
    Locked,
    /// The next wrong PIN would lock the token, so the signer did not try the PIN.
    #[error("one more wrong PIN locks the token, so the PIN was not tried; log in once by hand with the right PIN")]
    FinalTry,
    /// The token has no user PIN, requires a new PIN, or rejects the form of the PIN.
    #[error("the token rejects the PIN in hsm.pin_file ({0}); set a new user PIN")]
    Unusable(String),
}
