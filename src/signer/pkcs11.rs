//! The vendor's module and the one token in it: loading, starting, stopping, finding the token by its label, logging in.
//! Knows no keys and no threads.

use std::path::{Path, PathBuf};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;

use super::error::{PinProblem, SignerOpenError};
use super::fault::{ErrorClass, TokenFault, describe};

/// A loaded PKCS #11 module. Its state (initialized or not, logged in or not) is one for the whole process, whoever
/// loaded it; so one signer a process and a module is the rule.
#[derive(Debug, Clone)]
pub(super) struct Module {
    context: Pkcs11,
    path: PathBuf,
}

/// Who called `C_Initialize` first, and so who may call `C_Finalize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Initialized {
    Here,
    /// Another part of this process, which may still be using the module.
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

    /// Calls `C_Finalize`: every session and login of this process is gone. No other call may be under way.
    pub(super) fn finalize(&self) -> Result<(), TokenFault> {
        match self.context.clone().finalize() {
            Ok(()) | Err(Error::Pkcs11(RvError::CryptokiNotInitialized, _)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds the one token with this label and, where given, this serial number.
    pub(super) fn find_token(&self, label: &str, serial: Option<&str>) -> Result<Token, SignerOpenError> {
        let slots = self
            .context
            .get_slots_with_token()
            .map_err(|error| SignerOpenError::device(label, &TokenFault::from(error)))?;
        let mut matching = Vec::new();
        let mut others = Vec::new();
        for slot in slots {
            match self.context.get_token_info(slot) {
                Ok(found) if !found.token_initialized() => {}
                Ok(found) if found.label() == label && serial.is_none_or(|serial| found.serial_number() == serial) => {
                    matching.push(Token { slot, serial: found.serial_number().to_owned() });
                }
                Ok(found) => others.push(format!("\"{}\"", found.label())),
                // One broken token in the machine is no reason to refuse the one that is asked for.
                Err(error) => others.push(format!("slot {slot} unreadable: {}", describe(&error))),
            }
        }
        match matching.len() {
            1 => Ok(matching.swap_remove(0)),
            0 if others.is_empty() => Err(SignerOpenError::NoToken {
                label: label.to_owned(),
                found: "the module shows no token at all".into(),
            }),
            0 => Err(SignerOpenError::NoToken {
                label: label.to_owned(),
                found: format!("found: {}", others.join(", ")),
            }),
            _ => Err(SignerOpenError::TwoTokens {
                label: label.to_owned(),
                serials: matching.into_iter().map(|token| token.serial).collect(),
            }),
        }
    }

    /// Opens a read-only session that is not closed when dropped. After a reset the module deals out the same small
    /// handles again, so a late close of an old session could close somebody's new one.
    pub(super) fn open_session(&self, slot: Slot) -> Result<Session, TokenFault> {
        Ok(self.context.open_ro_session_no_drop(slot)?)
    }

    /// Opens a session that can write, closed when dropped: for generating keys.
    pub(super) fn open_writing_session(&self, slot: Slot) -> Result<Session, TokenFault> {
        Ok(self.context.open_rw_session(slot)?)
    }

    /// Logs the process in to the token, with one try at most.
    ///
    /// The flags are looked at before the PIN goes out: a token that is one try from its lock is left alone.
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

/// A token that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Where it is now; may differ after a reset.
    pub(super) slot: Slot,
    /// Its serial number, by which it is found again.
    pub(super) serial: String,
}

/// A session that is held open and unused by the workers: a token logs the process out when its last session closes.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) session: Session,
    pub(super) token: Token,
}

impl Anchor {
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
