//! Keys in the token that sign client assertions for upstream providers.

use std::sync::{Arc, Mutex, PoisonError};

use sealgate_signer::{Pkcs11Signer, TlsKey};
use sealgate_upstream::AssertionSigner;

/// Client keys of this server in the PKCS#11 token.
pub struct ClientKeys {
    signer: Arc<Pkcs11Signer>,
    /// Keys that were found, at most one for each configured label.
    found: Mutex<Vec<Arc<TlsKey>>>,
}

impl ClientKeys {
    /// Finds and signs with the keys in the token of this signer.
    pub fn new(signer: Arc<Pkcs11Signer>) -> Self {
        Self { signer, found: Mutex::default() }
    }

    fn key(&self, label: &str) -> Result<Arc<TlsKey>, String> {
        let known = |keys: &[Arc<TlsKey>]| keys.iter().find(|key| key.label() == label).map(Arc::clone);
        if let Some(key) = known(&self.found.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(key);
        }
        let key = Arc::new(self.signer.tls_key(label)?);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if known(&found).is_none() {
            found.push(Arc::clone(&key));
        }
        Ok(key)
    }
}

impl AssertionSigner for ClientKeys {
    fn public_point(&self, label: &str) -> Result<Vec<u8>, String> {
        self.key(label).map(|key| key.point().to_vec())
    }

    fn sign(&self, label: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        let key = self.key(label)?;
        self.signer.sign_assertion(&key, message).map_err(|error| {
            // The key may have been replaced in the token.
            self.found.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| !Arc::ptr_eq(known, &key));
            format!("client key \"{label}\": {error}")
        })
    }
}
