//! Records on their way from one store to another, whatever the engines: all tables, indexes included, one object each.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::secret::{base64url, from_base64url};
use crate::store::engine::{Changes, Key};
use crate::store::migration::{self, VERSION};
use crate::store::table::{self, Table};
use crate::store::{PAGE, Store, StoreError};

/// Records in one step: see the sled engine on the size of a batch.
const STEP: usize = 64;

/// A record, as an export writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The table's name.
    pub table: String,
    /// The key in the table, base64url.
    pub key: String,
    /// The record's version; none for the entries of an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u8>,
    /// What the record holds; none for the entries of an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// The format that [`Store::import`] takes, and every older one.
pub const EXPORT_FORMAT: u32 = VERSION as u32;

/// A place in a store that is read from its start to its end.
#[derive(Debug, Clone, Default)]
pub struct Position(Option<Key>);

impl Store {
    /// The records that follow a position, and the position after them; none at the end. For a store that nobody changes
    /// meanwhile. What the store says about itself and kept forms
    /// are not among them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn export(&self, from: &Position) -> Result<Option<(Vec<Record>, Position)>, StoreError> {
        let rows = self.engine.scan(b"", from.0.as_deref(), PAGE).await?;
        let Some((last, _)) = rows.last() else { return Ok(None) };
        let position = Position(Some(last.clone()));
        let rows = rows.iter().filter(|(key, _)| travels(key));
        let records = rows.map(|(key, value)| record(key, value)).collect::<Result<_, _>>()?;
        Ok(Some((records, position)))
    }

    /// Keeps these records, older ones as the steps of a migration leave them, save those that [`Self::export`] leaves
    /// out.
    ///
    /// # Errors
    /// [`StoreError::Broken`] for one that this program cannot have written; else when the store fails.
    pub async fn import(&self, records: &[Record]) -> Result<(), StoreError> {
        for records in records.chunks(STEP) {
            let records = records.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
            let put = records.into_iter().filter(|(key, _)| travels(key)).collect();
            self.write(Changes { put, ..Changes::default() }).await?;
        }
        Ok(())
    }
}

/// Whether a record means anything in another store. Kept forms do not: their data key stays here.
fn travels(key: &[u8]) -> bool {
    ![table::all(Table::Meta), table::all(Table::Form), table::form_ages()].iter().any(|prefix| key.starts_with(prefix))
}

fn record(key: &[u8], value: &[u8]) -> Result<Record, StoreError> {
    let unknown = || StoreError::Broken("a record of an unknown table".to_owned());
    let (&byte, rest) = key.split_first().ok_or_else(unknown)?;
    let table = Table::from_byte(byte).ok_or_else(unknown)?.name().to_owned();
    let key = base64url(rest);
    let Some((&version, json)) = value.split_first() else {
        return Ok(Record { table, key, version: None, value: None });
    };
    let value = serde_json::from_slice(json)
        .map_err(|error| StoreError::Broken(format!("a record of table {table} cannot be read: {error}")))?;
    Ok(Record { table, key, version: Some(version), value: Some(value) })
}

fn bytes(record: &Record) -> Result<(Key, Vec<u8>), StoreError> {
    let broken = |what: &str| StoreError::Broken(format!("a record of table {}: {what}", record.table));
    let table = Table::from_name(&record.table).ok_or_else(|| broken("there is no such table"))?;
    let mut key = table::all(table);
    key.extend(from_base64url(&record.key).ok_or_else(|| broken("the key is not base64url"))?);
    let value = match (record.version, &record.value) {
        (None, None) => Vec::new(),
        (Some(version), Some(value)) => {
            let mut value = value.clone();
            migration::bring_up(table, version, &mut value).map_err(broken)?;
            table::encode(&value)?
        }
        _ => return Err(broken("a version without a value, or a value without a version")),
    };
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_table_has_a_name_of_its_own() {
        for table in Table::ALL {
            assert_eq!(Table::from_name(table.name()), Some(table));
            assert_eq!(Table::from_byte(table as u8), Some(table));
        }
    }

    #[test]
    fn a_record_survives_the_way() {
        let value = [&[VERSION][..], br#"{"a":1}"#].concat();
        for (key, value) in [(&b"u\x00\xff"[..], &value[..]), (b"x1", b""), (b"g", &value)] {
            assert_eq!(bytes(&record(key, value).unwrap()).unwrap(), (key.to_vec(), value.to_vec()));
        }
    }

    #[test]
    fn what_this_program_cannot_have_written_is_refused() {
        let record = |value| serde_json::from_value::<Record>(value).unwrap();
        for wrong in [
            json!({"table": "nothing", "key": ""}),
            json!({"table": "user", "key": "="}),
            json!({"table": "user", "key": "AA", "version": VERSION + 1, "value": {}}),
            json!({"table": "user", "key": "AA", "version": 0, "value": {}}),
            json!({"table": "user", "key": "AA", "value": {}}),
            json!({"table": "user", "key": "AA", "version": 1}),
        ] {
            assert!(matches!(bytes(&record(wrong)), Err(StoreError::Broken(_))));
        }
    }

    #[test]
    fn a_key_of_no_table_is_damage() {
        assert!(matches!(record(b"?", b""), Err(StoreError::Broken(_))));
        assert!(matches!(record(b"", b""), Err(StoreError::Broken(_))));
    }
}
