//! ACME data that the nodes of a cluster share, sealed with the data key.
//!
//! The data are the account, the challenge in progress, and the certificates with their keys.

use zeroize::Zeroizing;

use crate::cluster::leases::Fence;
use crate::engine::{Changes, Expect};
use crate::format::{record, table};
use crate::sealer::{NONCE_BYTES, SealError};
use crate::{Committed, Store, StoreError};
use sealgate_domain::secret::Sealed;

/// Part of the shared ACME data. Each part is one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificatePart<'a> {
    /// Account, failures and the challenge in progress.
    Orders,
    /// Certificate and private key of a host.
    Host(&'a str),
}

/// Reason why a part was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum CertificatePartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("certificates of the cluster: {0}")]
    Sealed(#[from] SealError),
    /// Another node orders the certificates now.
    #[error("another node orders certificates now")]
    LeaseLost,
}

impl Store {
    /// Reads a part of the shared ACME data. Returns `None` if it was never written.
    ///
    /// # Errors
    /// Returns an error if the store fails, or if there is no data key.
    pub async fn certificate_part(
        &self,
        part: CertificatePart<'_>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, CertificatePartError> {
        let key = table::certificate_part(part);
        let Some(loaded) = self.load::<Sealed>(key.clone()).await? else { return Ok(None) };
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        Ok(Some(sealing.sealer.open(&key, &loaded.value)?))
    }

    /// Replaces a part while the lease is held. `nonce` must be random.
    ///
    /// # Errors
    /// Returns an error if the store fails, there is no data key, or the lease was lost.
    pub async fn replace_certificate_part(
        &self,
        fence: &Fence,
        part: CertificatePart<'_>,
        nonce: [u8; NONCE_BYTES],
        plain: &[u8],
    ) -> Result<(), CertificatePartError> {
        let key = table::certificate_part(part);
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        let sealed = sealing.sealer.seal(&key, nonce, plain)?;
        let stored = self.engine.get(&key).await.map_err(StoreError::from)?;
        let expect = stored.map_or_else(|| Expect::Absent(key.clone()), |bytes| Expect::Value(key.clone(), bytes));
        let put = vec![(key, record::encode(&sealed)?)];
        let changes = fence.around(Changes { expect: vec![expect], put, ..Changes::default() });
        match self.commit(changes).await? {
            Committed::Yes => Ok(()),
            Committed::Conflict => Err(CertificatePartError::LeaseLost),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;
    use crate::sealer::Sealer;

    async fn store(engine: &Arc<MemoryEngine>, data_key: u8) -> Store {
        let store = Store::open(Arc::<MemoryEngine>::clone(engine), 10).await.unwrap();
        store.sealing_with(Sealer::new(&[data_key; 32]).unwrap(), 0).await.unwrap()
    }

    #[tokio::test]
    async fn a_part_is_read_only_with_its_data_key() {
        let engine = Arc::new(MemoryEngine::new());
        let store_7 = store(&engine, 7).await;
        let part = CertificatePart::Host("id.test");
        assert!(store_7.certificate_part(part).await.unwrap().is_none());
        for content in [b"first", b"again"] {
            let nonce = [content[0]; NONCE_BYTES];
            store_7.replace_certificate_part(&Fence::default(), part, nonce, content).await.unwrap();
            assert_eq!(store_7.certificate_part(part).await.unwrap().unwrap().as_slice(), content);
        }
        assert!(store_7.certificate_part(CertificatePart::Orders).await.unwrap().is_none());
        assert!(matches!(
            store(&engine, 8).await.certificate_part(part).await,
            Err(CertificatePartError::Sealed(SealError::OtherKey))
        ));
    }
}
