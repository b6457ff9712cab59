//! Export and import of all tables, between stores with any engine. Each record is one object.

use std::collections::HashSet;

use crate::engine::{Changes, Expect, Key};
use crate::format::intake::ExportRecord;
use crate::format::table::Table;
use crate::format::{intake, table};
use crate::{Committed, PAGE, Store, StoreError, format};
use sealgate_domain::secret::base64url;

/// Number of records per commit. The sled engine limits the size of a batch.
const RECORDS_PER_COMMIT: usize = 64;

/// Returns the newest format that [`Store::import`] accepts. Older formats are also accepted.
pub fn export_format() -> u32 {
    format::newest().into()
}

/// Position in an export.
#[derive(Debug, Clone, Default)]
pub struct Position(Option<Key>);

impl Store {
    /// Returns the records after a position, and the next position. Returns `None` at the end.
    ///
    /// The store must be a snapshot, or must not change during the export. Most metadata, stored
    /// forms and e-mails are omitted.
    pub async fn export(&self, from: &Position) -> Result<Option<(Vec<ExportRecord>, Position)>, StoreError> {
        let rows = self.engine.scan(b"", from.0.as_deref(), PAGE).await?;
        let Some((last, _)) = rows.last() else { return Ok(None) };
        let position = Position(Some(last.clone()));
        let rows = rows.iter().filter(|(key, _)| is_exported(key));
        let records = rows.map(|(key, value)| record(key, value)).collect::<Result<_, _>>()?;
        Ok(Some((records, position)))
    }

    /// Imports records: converts those of older formats, and builds the indexes. Must be called
    /// before the store is served.
    ///
    /// Ignores records that [`Self::export`] omits.
    ///
    /// # Errors
    /// [`StoreError::Broken`] for a record that this program cannot have written, or whose key,
    /// e-mail address or username is repeated. Other errors if the store fails.
    pub async fn import(&self, records: &[ExportRecord]) -> Result<(), StoreError> {
        for records in records.chunks(RECORDS_PER_COMMIT) {
            let (mut claims, mut claimants, mut changes) = (HashSet::new(), Vec::new(), Changes::default());
            for record in records {
                let Some(entry) = intake::read(record)? else { continue };
                for claim in entry.claims {
                    if !claims.insert(claim.clone()) {
                        return Err(duplicate(record));
                    }
                    changes.expect.push(Expect::Absent(claim.clone()));
                    claimants.push((claim, record));
                }
                changes.put.extend(entry.put);
            }
            if !changes.put.is_empty() && self.commit(changes).await? == Committed::Conflict {
                return Err(self.first_duplicate(&claimants).await?);
            }
        }
        Ok(())
    }

    /// Returns the error for the first record whose keys an earlier commit has used.
    async fn first_duplicate(&self, claimants: &[(Key, &ExportRecord)]) -> Result<StoreError, StoreError> {
        for (claim, record) in claimants {
            if self.engine.get(claim).await?.is_some() {
                return Ok(duplicate(record));
            }
        }
        Ok(StoreError::Contended)
    }
}

fn duplicate(record: &ExportRecord) -> StoreError {
    let table = &record.table;
    StoreError::Broken(format!(
        "a record of table {table}: another record has the same key, e-mail address or username (key {})",
        record.key
    ))
}

/// Returns whether a record is exported.
///
/// Stored forms are omitted, because they would expire before their users could fetch them. E-mails
/// are omitted, because both stores would send them.
fn is_exported(key: &[u8]) -> bool {
    let mails = [Table::Outbox, Table::DeadMail, Table::SentMail, Table::NoticeCount, Table::PendingRegistration];
    // Results of submitted forms cannot be unsealed in new sessions.
    let stays = [table::all(Table::Meta), table::all(Table::Form), table::form_ages(), table::all(Table::Submission)];
    let mut stays = stays.into_iter().chain(mails.map(table::all));
    table::is_meta_that_travels(key) || !stays.any(|prefix| key.starts_with(&prefix))
}

fn record(key: &[u8], value: &[u8]) -> Result<ExportRecord, StoreError> {
    let unknown = || StoreError::Broken("a record of an unknown table".to_owned());
    let (&byte, rest) = key.split_first().ok_or_else(unknown)?;
    let table = Table::from_byte(byte).ok_or_else(unknown)?.name().to_owned();
    let key = base64url(rest);
    let Some((&version, json)) = value.split_first() else {
        return Ok(ExportRecord { table, key, version: None, value: None });
    };
    let value = serde_json::from_slice(json)
        .map_err(|error| StoreError::Broken(format!("a record of table {table} cannot be read: {error}")))?;
    Ok(ExportRecord { table, key, version: Some(version), value: Some(value) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use sealgate_domain::secret::from_base64url;

    #[test]
    fn every_table_has_a_unique_name() {
        for table in Table::ALL {
            assert_eq!(Table::from_name(table.name()), Some(table));
            assert_eq!(Table::from_byte(table as u8), Some(table));
        }
    }

    #[test]
    fn a_record_is_unchanged_after_export_and_import() {
        let value = [&[format::newest()][..], br#"{"a":1}"#].concat();
        for (key, value) in [(&b"u\x00\xff"[..], &value[..]), (b"x1", b""), (b"g", &value)] {
            let record = record(key, value).unwrap();
            let json = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<ExportRecord>(&json).unwrap(), record);
            assert_eq!(from_base64url(&record.key).unwrap(), key[1..]);
        }
    }

    #[test]
    fn invalid_export_records_are_refused() {
        let record = |value| serde_json::from_value::<ExportRecord>(value).unwrap();
        for wrong in [
            json!({"table": "nothing", "key": ""}),
            json!({"table": "user", "key": "="}),
            json!({"table": "user", "key": "AA", "version": format::newest() + 1, "value": {}}),
            json!({"table": "user", "key": "AA", "version": 0, "value": {}}),
            json!({"table": "user", "key": "AA", "value": {}}),
            json!({"table": "user", "key": "AA", "version": 1}),
        ] {
            assert!(matches!(intake::read(&record(wrong)), Err(StoreError::Broken(_))));
        }
    }

    #[test]
    fn a_key_of_no_table_is_damage() {
        assert!(matches!(record(b"?", b""), Err(StoreError::Broken(_))));
        assert!(matches!(record(b"", b""), Err(StoreError::Broken(_))));
    }
}
