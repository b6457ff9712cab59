//! The signer that follows the keys' times, as far as commands need it.

use async_trait::async_trait;

use crate::app::state::Sealgate;
use crate::domain::key_ring::{KeyRing, PublicJwk};

/// Whoever signs with the keys.
#[async_trait]
pub trait KeyHolder: Send + Sync {
    /// Looks which keys are in the token, and yields their kids; `None` where nobody is there to look.
    ///
    /// # Errors
    /// One line: why the token does not show them.
    async fn look(&self) -> Result<Option<Vec<String>>, String>;

    /// Goes by these times from now on.
    fn follow(&self, ring: KeyRing);

    /// Signs with a key in the token; `None` where it has no such key, or nobody is there to sign.
    ///
    /// # Errors
    /// One line: why the token does not sign.
    async fn sign(&self, _kid: &str, _message: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    /// Whether the key with these members has signed the message; `signature` is base64url.
    fn has_signed(&self, _key: &PublicJwk, _message: &[u8], _signature: &str) -> bool {
        false
    }

    /// Why the automatic rotation that is due does not come about.
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

/// Nobody signs: the store is not served.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodySigns;

#[async_trait]
impl KeyHolder for NobodySigns {
    async fn look(&self) -> Result<Option<Vec<String>>, String> {
        Ok(None)
    }

    fn follow(&self, _ring: KeyRing) {}
}
