//! A token session for a single operation.

use cryptoki::session::Session;

use super::error::SignerOpenError;
use super::pin;
use super::pkcs11::Module;
use sealgate_config as config;

/// Runs `work` in a logged-in writable session.
pub(super) fn with_session<T>(
    hsm: &config::Hsm,
    work: impl FnOnce(&Session) -> Result<T, SignerOpenError>,
) -> Result<T, SignerOpenError> {
    let pin = pin::read(&hsm.pin_file)?;
    let module = Module::load(&hsm.module)?;
    let initialized = module.initialize()?;
    let outcome = module.find_token(&hsm.token_label, None).and_then(|token| {
        let session = module
            .open_writing_session(token.slot)
            .map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
        module.login(&hsm.token_label, token.slot, &session, &pin)?;
        work(&session)
    });
    module.finalize_if(initialized);
    outcome
}
