//! Classification of token failures. Tokens return different codes for the same event (three
//! tokens, three codes for a logout), so the signer decides by class and never by a single code.

use std::fmt;

use cryptoki::error::{Error, RvError};

/// Failure classes for metrics and the signer's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The queue was full; the caller answers 503.
    Busy,
    /// The deadline passed first.
    Timeout,
    /// One session is unusable; open a new one.
    Session,
    /// The login or the key handles are lost; log in again.
    Login,
    /// The device or its module failed. Finalize and initialize it; this succeeds once the device
    /// is back.
    Device,
    /// The token has no session left for this thread; the others continue.
    Capacity,
    /// The PIN was refused. Never retried without the operator: tokens lock after few tries.
    Pin,
    /// The token returned a signature that does not verify with its own public key.
    WrongSignature,
    /// A call into the module did not return in time.
    Hang,
    /// This key cannot sign the request with this mechanism; a retry would fail too.
    Bug,
}

impl ErrorClass {
    /// Every class, for metrics that declare their series in advance.
    pub const ALL: [Self; 10] = [
        Self::Busy,
        Self::Timeout,
        Self::Session,
        Self::Login,
        Self::Device,
        Self::Capacity,
        Self::Pin,
        Self::WrongSignature,
        Self::Hang,
        Self::Bug,
    ];

    /// The class as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Session => "session",
            Self::Login => "login",
            Self::Device => "device",
            Self::Capacity => "capacity",
            Self::Pin => "pin",
            Self::WrongSignature => "wrong_signature",
            Self::Hang => "hang",
            Self::Bug => "bug",
        }
    }

    /// Returns the class of an error that the module returned.
    fn from_error(error: &Error) -> Self {
        match error {
            Error::Pkcs11(code, _) => Self::of_code(*code),
            // Answers that violate PKCS #11: the module is broken.
            _ => Self::Device,
        }
    }

    /// Returns the class of a login failure. Errors that may mean a refused PIN count as such.
    ///
    /// A vendor's own code can mean anything, and a token locks permanently after repeated wrong
    /// PINs. A device that is absent returns standard PKCS #11 codes.
    pub(super) fn of_login(error: &Error) -> Self {
        match error {
            Error::Pkcs11(RvError::VendorDefined(_) | RvError::UnknownErrorCode(_) | RvError::FunctionRejected, _) => {
                Self::Pin
            }
            other => Self::from_error(other),
        }
    }

    fn of_code(code: RvError) -> Self {
        match code {
            RvError::DataInvalid
            | RvError::DataLenRange
            | RvError::MechanismInvalid
            | RvError::MechanismParamInvalid
            | RvError::KeyTypeInconsistent
            | RvError::KeyFunctionNotPermitted
            | RvError::KeySizeRange
            | RvError::ArgumentsBad => Self::Bug,
            RvError::OperationActive
            | RvError::OperationNotInitialized
            | RvError::SessionHandleInvalid
            | RvError::SessionClosed
            | RvError::FunctionCanceled
            | RvError::BufferTooSmall => Self::Session,
            RvError::UserNotLoggedIn | RvError::ObjectHandleInvalid | RvError::KeyHandleInvalid => Self::Login,
            RvError::SessionCount => Self::Capacity,
            RvError::PinIncorrect
            | RvError::PinInvalid
            | RvError::PinLenRange
            | RvError::PinExpired
            | RvError::PinLocked
            | RvError::UserPinNotInitialized => Self::Pin,
            // DEVICE_*, TOKEN_*, GENERAL_ERROR, FUNCTION_FAILED, CRYPTOKI_NOT_INITIALIZED,
            // SLOT_ID_INVALID, HOST_MEMORY, vendor codes and codes of later versions: a reset
            // covers most causes.
            _ => Self::Device,
        }
    }
}

/// A failure of the token: its class and its text for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenFault {
    pub(super) class: ErrorClass,
    pub(super) text: String,
}

impl TokenFault {
    pub(super) fn new(class: ErrorClass, text: impl Into<String>) -> Self {
        Self { class, text: text.into() }
    }
}

impl fmt::Display for TokenFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl From<Error> for TokenFault {
    fn from(error: Error) -> Self {
        Self { class: ErrorClass::from_error(&error), text: describe(&error) }
    }
}

/// Returns the function and code by their PKCS #11 names, which fit on one line and appear in the
/// vendor's manual.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::Pkcs11(code, function) => format!("C_{function:?} answered {code:?}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cryptoki::context::Function;

    fn class(code: RvError) -> ErrorClass {
        TokenFault::from(Error::Pkcs11(code, Function::Sign)).class
    }

    #[test]
    fn the_three_codes_of_a_lost_login_are_one_class() {
        for code in [RvError::UserNotLoggedIn, RvError::ObjectHandleInvalid, RvError::KeyHandleInvalid] {
            assert_eq!(class(code), ErrorClass::Login);
        }
    }

    #[test]
    fn every_answer_about_the_pin_is_of_the_class_that_is_never_retried() {
        for code in [RvError::PinIncorrect, RvError::PinLocked, RvError::PinExpired, RvError::PinLenRange] {
            assert_eq!(class(code), ErrorClass::Pin);
        }
    }

    #[test]
    fn unknown_codes_are_the_devices() {
        assert_eq!(class(RvError::VendorDefined(0x8000_0001)), ErrorClass::Device);
        assert_eq!(class(RvError::UnknownErrorCode(0x7777)), ErrorClass::Device);
        assert_eq!(TokenFault::from(Error::InvalidValue).class, ErrorClass::Device);
    }

    #[test]
    fn labels_are_distinct() {
        let labels: std::collections::HashSet<_> = ErrorClass::ALL.iter().map(|class| class.as_str()).collect();
        assert_eq!(labels.len(), ErrorClass::ALL.len());
    }

    #[test]
    fn description_names_function_and_code() {
        let fault = TokenFault::from(Error::Pkcs11(RvError::DeviceError, Function::Sign));
        assert_eq!(fault.to_string(), "C_Sign answered DeviceError");
    }
}
