//! The store's format: the newest version that a record in it may have.

use crate::store::engine::{Changes, Expect};
use crate::store::record::Loaded;
use crate::store::versions::VERSION;
use crate::store::{Committed, MOST_CONFLICTS, Store, StoreError, table};

/// What the store says of its format has this version for ever: an older program must be able to read that it is too old.
const VERSION_OF_FORMAT: u8 = 1;

impl Store {
    /// The store's format.
    ///
    /// # Errors
    /// [`StoreError::Newer`]; when the store fails.
    pub(super) async fn format(&self) -> Result<Option<Loaded<u32>>, StoreError> {
        let known = u32::from(VERSION);
        match self.load::<u32>(table::format()).await? {
            Some(Loaded { value: found, .. }) if found > known => Err(StoreError::Newer { found, known }),
            format => Ok(format),
        }
    }

    /// Says in the store that its records may have today's version, so that no older program takes it from here on.
    ///
    /// # Errors
    /// [`StoreError::Newer`], and nothing has changed; when the store fails.
    pub(super) async fn raise_format(&self) -> Result<(), StoreError> {
        for _ in 0..MOST_CONFLICTS {
            let format = self.format().await?;
            let expect = match &format {
                Some(format) if format.value == u32::from(VERSION) => return Ok(()),
                Some(format) => format.unchanged(),
                None if self.engine.scan(b"", None, 1).await?.is_empty() => Expect::Absent(table::format()),
                // Another node may have said it since.
                None if self.format().await?.is_some() => continue,
                None => return Err(StoreError::Broken("it has records and does not say its version".to_owned())),
            };
            let value = [&[VERSION_OF_FORMAT], VERSION.to_string().as_bytes()].concat();
            let changes = Changes { expect: vec![expect], put: vec![(table::format(), value)], ..Changes::default() };
            if self.commit(changes).await? == Committed::Yes {
                if let Some(Loaded { value: from, .. }) = format {
                    tracing::info!(
                        from,
                        to = VERSION,
                        "the store has a newer format now, and older programs refuse it"
                    );
                }
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }
}
