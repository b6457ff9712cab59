//! Sealed secrets of authenticator apps, and the key of the recovery codes' hashes.
//!
//! Each secret is bound to its user and app. Copied to another user's record or to another app of
//! the same user, it cannot be unsealed.

use zeroize::Zeroizing;

use crate::sealer::{NONCE_BYTES, SealError};
use crate::{Store, table};
use sealgate_domain::assurance::FactorId;
use sealgate_domain::recovery_code::RecoveryKey;
use sealgate_domain::sealed::Sealed;
use sealgate_domain::user::Subject;

impl Store {
    /// Seals the secret of this user's app. `nonce`: random, never used again.
    ///
    /// # Errors
    /// [`SealError::NoKey`] without a data key.
    pub fn seal_factor(
        &self,
        subject: Subject,
        factor: FactorId,
        nonce: [u8; NONCE_BYTES],
        secret: &[u8],
    ) -> Result<Sealed, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        sealing.sealer.seal(&table::factor_secret(subject, factor), nonce, secret)
    }

    /// Unseals the secret of this user's app. On an error the factor remains; use another factor.
    ///
    /// # Errors
    /// [`SealError::NoKey`] without a data key; [`SealError::OtherKey`], [`SealError::Altered`].
    pub fn open_factor(
        &self,
        subject: Subject,
        factor: FactorId,
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        sealing.sealer.open(&table::factor_secret(subject, factor), sealed)
    }

    /// Returns the key of the recovery codes' hashes; `None` without a data key.
    ///
    /// It is derived from the data key, so codes made under another token's data key do not match.
    pub fn recovery_key(&self) -> Option<&RecoveryKey> {
        self.sealing.as_ref().map(|sealing| sealing.sealer.recovery_key())
    }

    /// Returns whether authenticator apps and recovery codes can be stored.
    pub fn seals(&self) -> bool {
        self.sealing.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;
    use crate::sealer::Sealer;
    use sealgate_domain::recovery_code::{RECOVERY_CODE_BYTES, RECOVERY_CODES, RecoveryCodes};
    use sealgate_domain::time::UnixTime;

    const SECRET: [u8; 20] = [0x5e; 20];
    const APP: FactorId = FactorId::from_bytes([1; 16]);

    fn anna() -> Subject {
        Subject::from_random([1; 16])
    }

    async fn store(data_key: u8) -> Store {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        store.sealing_with(Sealer::new(&[data_key; 32]).unwrap(), 0).await.unwrap()
    }

    #[tokio::test]
    async fn a_secret_opens_for_its_owner_its_app_and_its_data_key_only() {
        let sealed = store(7).await.seal_factor(anna(), APP, [3; NONCE_BYTES], &SECRET).unwrap();
        assert_eq!(store(7).await.open_factor(anna(), APP, &sealed).unwrap().as_slice(), SECRET);

        let ben = Subject::from_random([2; 16]);
        assert_eq!(store(7).await.open_factor(ben, APP, &sealed), Err(SealError::Altered));
        let other_app = FactorId::from_bytes([2; 16]);
        assert_eq!(store(7).await.open_factor(anna(), other_app, &sealed), Err(SealError::Altered));
        assert_eq!(store(8).await.open_factor(anna(), APP, &sealed), Err(SealError::OtherKey));
    }

    #[tokio::test]
    async fn a_secret_is_no_kept_form_and_no_other_record() {
        let sealer = Sealer::new(&[7; 32]).unwrap();
        let record = [&b"p"[..], anna().as_bytes(), APP.as_bytes()].concat();
        let form = sealer.seal(&record, [3; NONCE_BYTES], &SECRET).unwrap();
        assert_eq!(store(7).await.open_factor(anna(), APP, &form), Err(SealError::Altered));
    }

    #[tokio::test]
    async fn without_a_data_key_nothing_is_sealed_or_opened() {
        let sealed = store(7).await.seal_factor(anna(), APP, [3; NONCE_BYTES], &SECRET).unwrap();
        let bare = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        assert_eq!(bare.seal_factor(anna(), APP, [3; NONCE_BYTES], &SECRET), Err(SealError::NoKey));
        assert_eq!(bare.open_factor(anna(), APP, &sealed), Err(SealError::NoKey));
        assert!(bare.recovery_key().is_none() && !bare.seals());
        assert!(store(7).await.seals());
    }

    #[tokio::test]
    async fn recovery_codes_are_those_of_their_data_key() {
        let random = [[9; RECOVERY_CODE_BYTES]; RECOVERY_CODES];
        let (store_7, again, store_8) = (store(7).await, store(7).await, store(8).await);
        let (kept, codes) =
            RecoveryCodes::new(store_7.recovery_key().unwrap(), anna(), &random, UnixTime::from_seconds(1));
        assert!(kept.without(again.recovery_key().unwrap(), anna(), &codes[0]).is_some());
        assert!(kept.without(store_8.recovery_key().unwrap(), anna(), &codes[0]).is_none());
        // The codes' key is derived, not the data key itself.
        assert!(kept.without(&RecoveryKey::new(&[7; 32]), anna(), &codes[0]).is_none());
    }
}
