//! The signer that follows the keys' times, as far as commands need it.

use std::sync::Arc;

use async_trait::async_trait;

use crate::app::state::Sealgate;
use crate::domain::key_ring::KeyRing;

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
        self.issuer.signer().follow(ring, Arc::clone(&self.clock));
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
