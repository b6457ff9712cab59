//! The store's format: the newest version that a record in it may have.

use crate::engine::{Changes, Expect, FormatRule};
use crate::record::Loaded;
use crate::versions;
use crate::versions::format_record;
use crate::{Committed, MAX_CONFLICTS, Store, StoreError, table};

impl Store {
    /// Loads the store's format.
    ///
    /// # Errors
    /// [`StoreError::Newer`]; when the store fails.
    pub(super) async fn format(&self) -> Result<Option<Loaded<u32>>, StoreError> {
        let known = u32::from(versions::newest());
        match self.load::<u32>(table::format()).await? {
            Some(Loaded { value: found, .. }) if found > known => Err(StoreError::Newer { found, known }),
            format => Ok(format),
        }
    }

    /// Returns the newest version that a record in this store may have.
    ///
    /// # Errors
    /// [`StoreError::Newer`]; when the store fails.
    pub async fn newest_format(&self) -> Result<u32, StoreError> {
        let format = self.format().await?;
        Ok(format.map_or_else(|| versions::newest().into(), |format| format.value))
    }

    /// Ensures that the store records its format before any other write.
    ///
    /// # Errors
    /// [`StoreError::Newer`], and nothing has changed; when the store fails.
    pub(super) async fn settle_format(&self) -> Result<(), StoreError> {
        match self.engine.format() {
            FormatRule::Own => self.raise_format().await,
            FormatRule::Shared(None) => Ok(self.engine.begin_format().await?),
            FormatRule::Shared(Some(_)) => Ok(()),
        }
    }

    /// Raises the store's format to this program's version. Older programs then refuse the store.
    ///
    /// # Errors
    /// [`StoreError::Newer`], and nothing has changed; when the store fails.
    async fn raise_format(&self) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let format = self.format().await?;
            let expect = match &format {
                Some(format) if format.value == u32::from(versions::newest()) => return Ok(()),
                Some(format) => format.unchanged(),
                None if self.engine.scan(b"", None, 1).await?.is_empty() => Expect::Absent(table::format()),
                // Another node may have written it since.
                None if self.format().await?.is_some() => continue,
                None => return Err(StoreError::Broken("it has records, but no format version".to_owned())),
            };
            let value = format_record(versions::newest().into());
            let changes = Changes { expect: vec![expect], put: vec![(table::format(), value)], ..Changes::default() };
            if self.commit(changes).await? == Committed::Yes {
                if let Some(Loaded { value: from, .. }) = format {
                    tracing::info!(
                        from,
                        to = versions::newest(),
                        "the store was upgraded to a newer format; older versions of sealgate refuse it"
                    );
                }
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }
}
