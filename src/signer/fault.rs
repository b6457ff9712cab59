//! Classification of token failures.
//!
//! Tokens return different codes for the same event. For a lost login, three tokens return three
//! different codes. The signer therefore decides by class, never by a single code.

use std::fmt;

use cryptoki::error::{Error, RvError};

/// Class of a failure, for metrics and for the decision how to recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The queue was full.
    Busy,
    /// The deadline passed before the signature was made.
    Timeout,
    /// The session is unusable. A new session may work.
    Session,
    /// The login or the key handles were lost. A new login may work.
    Login,
    /// The device or its module failed. The module must be finalized and initialized. That succeeds
    /// when the device is available again.
    Device,
    /// The token has no session left for this thread. Other threads continue.
    Capacity,
    /// The PIN was rejected. Never retried without the operator, because tokens lock after few
    /// attempts.
    Pin,
    /// The token returned a signature that does not verify with its own public key.
    WrongSignature,
    /// A call into the module did not return in time.
    Hang,
    /// The key cannot sign this request with this mechanism. A retry would fail too.
    Bug,
}

impl ErrorClass {
    /// Every class, for metrics that create their series at start.
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

    /// Returns the label of the class in metrics.
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
            // The module violated PKCS#11.
            _ => Self::Device,
        }
    }

    /// Returns the class of a login failure. An error that may mean a rejected PIN counts as `Pin`.
    ///
    /// A vendor-defined code can mean anything, and a token locks after repeated wrong PINs. For an
    /// absent device, modules return standard codes.
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
            // SLOT_ID_INVALID, HOST_MEMORY, vendor codes and codes of later versions. A reset
            // resolves most of their causes.
            _ => Self::Device,
        }
    }
}

/// Failure of the token, with a text for the log.
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

/// Returns the function and the error code by their PKCS#11 names, as the vendor's manual lists
/// them.
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
    fn every_pin_error_has_the_class_that_is_never_retried() {
        for code in [RvError::PinIncorrect, RvError::PinLocked, RvError::PinExpired, RvError::PinLenRange] {
            assert_eq!(class(code), ErrorClass::Pin);
        }
    }

    #[test]
    fn unknown_codes_have_the_class_device() {
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
