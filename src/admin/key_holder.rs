//! The part of the signer that commands use.

use async_trait::async_trait;

use sealgate_core::state::Sealgate;
use sealgate_domain::key_ring::{KeyRing, PublicJwk};

/// The holder of the signing keys.
#[async_trait]
pub trait KeyHolder: Send + Sync {
    /// Returns the key ids in the token; `None` if no signer runs.
    ///
    /// # Errors
    /// One line: why the token cannot be read.
    async fn look(&self) -> Result<Option<Vec<String>>, String>;

    /// Applies this schedule.
    fn follow(&self, ring: KeyRing);

    /// Signs with a key in the token; `None` if the token lacks the key or no signer runs.
    ///
    /// # Errors
    /// One line: why the token does not sign.
    async fn sign(&self, _kid: &str, _message: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    /// Returns whether the key signed the message; `signature` is base64url.
    fn has_signed(&self, _key: &PublicJwk, _message: &[u8], _signature: &str) -> bool {
        false
    }

    /// Returns why the automatic rotation that is due fails.
    fn rotation_fault(&self) -> Option<String> {
        None
    }
}

#[async_trait]
impl KeyHolder for Sealgate {
    async fn look(&self) -> Result<Option<Vec<String>>, String> {
        let signer = self.issuer.signer();
        signer.look().await?;
        Ok(Some(signer.found().iter().map(|key| key.kid.to_string()).collect()))
    }

    fn follow(&self, ring: KeyRing) {
        self.follow_ring(ring);
    }

    async fn sign(&self, kid: &str, message: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        let signer = self.issuer.signer();
        let Some(key) = signer.found().into_iter().find(|key| key.kid.as_str() == kid) else { return Ok(None) };
        let signatures = signer.sign(&key.kid, vec![message]).await.map_err(|error| error.to_string())?;
        Ok(signatures.first().map(|signature| signature.as_bytes().to_vec()))
    }

    fn has_signed(&self, key: &PublicJwk, message: &[u8], signature: &str) -> bool {
        self.has_signed(key, message, signature)
    }

    fn rotation_fault(&self) -> Option<String> {
        self.rotation.fault()
    }
}

/// Implementation for a store that is not served: no signer runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodySigns;

#[async_trait]
impl KeyHolder for NobodySigns {
    async fn look(&self) -> Result<Option<Vec<String>>, String> {
        Ok(None)
    }

    fn follow(&self, _ring: KeyRing) {}
}
