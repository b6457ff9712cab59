//! The vendor's PKCS#11 module and its token: loads and initializes the module, finds the token by
//! label, reads the PIN and logs in.
//!
//! The user PIN is read from a file that only its owner can read. It is zeroized when dropped and
//! never printed.

use std::path::{Path, PathBuf};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;

use crate::error::{PinProblem, SignerOpenError};
use crate::fault::{ErrorClass, TokenFault, describe};
use sealgate_config::read_secret_file;

/// A loaded PKCS#11 module.
///
/// Its state (initialized, logged in) is global to the process, so a process must open only one
/// signer for a module.
#[derive(Debug, Clone)]
pub(super) struct Module {
    context: Pkcs11,
    path: PathBuf,
}

/// Code of this process that called `C_Initialize` first. Only that code may call `C_Finalize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Initialized {
    /// This code.
    Here,
    /// Other code in this process, which may still use the module.
    Elsewhere,
}

impl Module {
    /// Loads the shared library at `path`.
    pub(super) fn load(path: &Path) -> Result<Self, SignerOpenError> {
        let context = Pkcs11::new(path).map_err(|error| {
            let reason = match error {
                Error::LibraryLoading(error) => error.to_string(),
                other => describe(&other),
            };
            SignerOpenError::Module { path: path.to_owned(), reason }
        })?;
        Ok(Self { context, path: path.to_owned() })
    }

    /// Calls `C_Initialize`, allowing calls from several threads.
    pub(super) fn initialize(&self) -> Result<Initialized, SignerOpenError> {
        match self.context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
            Ok(()) => Ok(Initialized::Here),
            Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => Ok(Initialized::Elsewhere),
            Err(error) => Err(SignerOpenError::Initialize { path: self.path.clone(), reason: describe(&error) }),
        }
    }

    /// Calls `C_Finalize`, which ends every session and login of this process. No other call may be
    /// in progress.
    pub(super) fn finalize(&self) -> Result<(), TokenFault> {
        match self.context.clone().finalize() {
            Ok(()) | Err(Error::Pkcs11(RvError::CryptokiNotInitialized, _)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Finalizes the module if [`Self::initialize`] initialized it. Errors are only logged.
    pub(super) fn finalize_if(&self, initialized: Initialized) {
        if initialized == Initialized::Here
            && let Err(fault) = self.finalize()
        {
            tracing::warn!(error = %fault, "the PKCS#11 module failed to finalize");
        }
    }

    /// Initialises the token of a free slot (`C_InitToken`, `C_InitPIN`), unless a token with this
    /// label has a user PIN. Returns whether the token was changed.
    pub(super) fn init_token(&self, label: &str, so_pin: &AuthPin, pin: &AuthPin) -> Result<bool, SignerOpenError> {
        let device = |error: Error| SignerOpenError::device(label, &TokenFault::from(error));
        let slot = match self.find_token(label, None) {
            Ok(token) => {
                if self.context.get_token_info(token.slot).map_err(device)?.user_pin_initialized() {
                    return Ok(false);
                }
                token.slot
            }
            Err(SignerOpenError::NoToken { reason, .. }) => {
                let slots = self.context.get_slots_with_token().map_err(device)?;
                let is_free =
                    |slot: &Slot| self.context.get_token_info(*slot).is_ok_and(|token| !token.token_initialized());
                let slot = slots.into_iter().find(is_free);
                let slot = slot.ok_or(SignerOpenError::NoToken { label: label.to_owned(), reason })?;
                self.context.init_token(slot, so_pin, label).map_err(device)?;
                slot
            }
            Err(error) => return Err(error),
        };
        let session = self.open_writing_session(slot).map_err(|fault| SignerOpenError::device(label, &fault))?;
        session.login(UserType::So, Some(so_pin)).map_err(device)?;
        session.init_pin(pin).map_err(device)?;
        Ok(true)
    }

    /// Finds the only token with this label and, if given, this serial number.
    pub(super) fn find_token(&self, label: &str, serial: Option<&str>) -> Result<Token, SignerOpenError> {
        let slots = self
            .context
            .get_slots_with_token()
            .map_err(|error| SignerOpenError::device(label, &TokenFault::from(error)))?;
        let mut matching = Vec::new();
        let mut others = Vec::new();
        for slot in slots {
            match self.context.get_token_info(slot) {
                Ok(token) if !token.token_initialized() => {}
                Ok(token) if token.label() == label && serial.is_none_or(|serial| token.serial_number() == serial) => {
                    matching.push(Token { slot, serial: token.serial_number().to_owned() });
                }
                Ok(token) => others.push(format!("\"{}\"", token.label())),
                // The requested token may work although another token does not.
                Err(error) => others.push(format!("slot {slot} unreadable: {}", describe(&error))),
            }
        }
        match matching.len() {
            1 => Ok(matching.swap_remove(0)),
            0 if others.is_empty() => {
                Err(SignerOpenError::NoToken { label: label.to_owned(), reason: "the module lists no tokens".into() })
            }
            0 => Err(SignerOpenError::NoToken {
                label: label.to_owned(),
                reason: format!("found: {}", others.join(", ")),
            }),
            _ => Err(SignerOpenError::TwoTokens {
                label: label.to_owned(),
                serials: matching.into_iter().map(|token| token.serial).collect(),
            }),
        }
    }

    /// Opens a read-only session that stays open when it is dropped.
    ///
    /// After a reset, the module reuses handles. Closing an old session late could close a new
    /// session with the same handle.
    pub(super) fn open_session(&self, slot: Slot) -> Result<Session, TokenFault> {
        Ok(self.context.open_ro_session_no_drop(slot)?)
    }

    /// Opens a writable session for generating keys. It is closed when dropped.
    pub(super) fn open_writing_session(&self, slot: Slot) -> Result<Session, TokenFault> {
        Ok(self.context.open_rw_session(slot)?)
    }

    /// Logs the process in to the token with at most one attempt.
    ///
    /// Checks the token's flags first, and does not send the PIN if the next wrong PIN would lock
    /// the token.
    pub(super) fn login(
        &self,
        label: &str,
        slot: Slot,
        session: &Session,
        pin: &AuthPin,
    ) -> Result<(), SignerOpenError> {
        let refused = |problem| SignerOpenError::Pin { label: label.to_owned(), problem };
        let token = self.context.get_token_info(slot).map_err(|error| SignerOpenError::device(label, &error.into()))?;
        if token.user_pin_locked() {
            return Err(refused(PinProblem::Locked));
        }
        if token.user_pin_final_try() {
            return Err(refused(PinProblem::FinalTry));
        }
        match session.login(UserType::User, Some(pin)) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(Error::Pkcs11(RvError::PinIncorrect, _)) => Err(refused(PinProblem::Incorrect)),
            Err(Error::Pkcs11(RvError::PinLocked, _)) => Err(refused(PinProblem::Locked)),
            Err(error) => {
                let class = ErrorClass::of_login(&error);
                let fault = TokenFault::from(error);
                Err(match class {
                    ErrorClass::Pin => refused(PinProblem::Unusable(fault.text)),
                    _ => SignerOpenError::device(label, &fault),
                })
            }
        }
    }
}

/// A token found in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Current slot of the token. It may change with a reset.
    pub(super) slot: Slot,
    /// Serial number, which identifies the token after a reset.
    pub(super) serial: String,
}

/// Session that keeps the process logged in. A token logs the process out when its last session
/// closes.
#[derive(Debug)]
pub(super) struct LoginSession {
    pub(super) session: Session,
    pub(super) token: Token,
}

impl LoginSession {
    /// Finds the token, opens the session and logs in.
    pub(super) fn open(
        module: &Module,
        label: &str,
        serial: Option<&str>,
        pin: &AuthPin,
    ) -> Result<Self, SignerOpenError> {
        let token = module.find_token(label, serial)?;
        let session = module.open_session(token.slot).map_err(|fault| SignerOpenError::device(label, &fault))?;
        module.login(label, token.slot, &session, pin)?;
        Ok(Self { session, token })
    }
}

/// Reads the PIN from a file, without one trailing newline.
///
/// # Errors
/// [`SignerOpenError::PinFile`] if the file is absent, accessible to other users, empty, or not a
/// PIN.
pub(super) fn read_pin(path: &Path) -> Result<AuthPin, SignerOpenError> {
    let pin = read_secret_file(path, "the token's user PIN")
        .map_err(|reason| SignerOpenError::PinFile { path: path.to_owned(), reason })?;
    Ok(AuthPin::from(Box::<str>::from(pin.as_str())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    fn pin_of(content: &[u8], mode: u32) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        read_pin(&path).map(|pin| pin.expose_secret().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_trailing_newline_is_removed_from_the_pin() {
        assert_eq!(pin_of(b"123456\n", 0o600).unwrap(), "123456");
        assert_eq!(pin_of(b"123456\r\n", 0o400).unwrap(), "123456");
        assert_eq!(pin_of(b" 12 34 ", 0o600).unwrap(), " 12 34 ");
        assert_eq!(pin_of(b"1234\n\n", 0o600).unwrap(), "1234\n");
    }

    #[test]
    fn file_that_group_or_others_can_use_is_refused() {
        for mode in [0o640, 0o604, 0o660, 0o610, 0o644] {
            let error = pin_of(b"123456", mode).unwrap_err();
            assert!(error.contains("chmod 600"), "{error}");
            assert!(!error.contains("123456"), "{error}");
        }
    }

    #[test]
    fn empty_long_or_binary_content_is_refused() {
        assert!(pin_of(b"\n", 0o600).unwrap_err().contains("is empty"));
        assert!(pin_of(&[b'1'; 256], 0o600).unwrap_err().contains("more than 255"));
        assert_eq!(pin_of(&[b'1'; 255], 0o600).unwrap().len(), 255);
        assert!(pin_of(&[0xff, 0xfe], 0o600).unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn absent_file_and_directory_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let absent = read_pin(&directory.path().join("pin")).unwrap_err().to_string();
        assert!(absent.contains("cannot be read"), "{absent}");
        assert!(read_pin(directory.path()).unwrap_err().to_string().contains("not a regular file"));
    }
}
