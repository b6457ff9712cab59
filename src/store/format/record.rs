//! Encoding of records: a version byte and JSON. Exports contain the same JSON objects.
//!
//! [`super`] converts older records to the current version.

use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::engine::{Changes, Expect, Key, Value};
use crate::error::StoreError;
use crate::format;
use crate::format::RecordChange;
use crate::format::table::Table;

/// Decoded record, and the bytes from which it was decoded.
///
/// A commit that replaces the record expects these bytes. Therefore two writers cannot both decide
/// on the same state.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    pub value: T,
    key: Key,
    bytes: Value,
}

impl<T> Loaded<T> {
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn unchanged(&self) -> Expect {
        Expect::Value(self.key.clone(), self.bytes.clone())
    }
}

/// Type that can be stored: it can be serialized, read back and compared.
pub(crate) trait Record: Serialize + DeserializeOwned + PartialEq {}

impl<T: Serialize + DeserializeOwned + PartialEq> Record for T {}

/// Encodes a record, and checks that it can be decoded again.
///
/// A record that cannot be decoded would be lost together with its previous content. The check
/// takes a few microseconds, about 1% of the time of a write to disk.
pub(crate) fn encode<T: Record>(record: &T) -> Result<Value, StoreError> {
    let broken = |what: &str| StoreError::Broken(format!("{}: {what}", std::any::type_name::<T>()));
    let mut bytes = vec![format::newest()];
    serde_json::to_writer(&mut bytes, record).map_err(|error| broken(&error.to_string()))?;
    let json = bytes.split_first().map(|(_, json)| json).unwrap_or_default();
    match serde_json::from_slice::<T>(json) {
        Ok(read) if read == *record => Ok(bytes),
        Ok(_) => Err(broken("it does not decode to the same value; it was not written")),
        Err(error) => Err(broken(&format!("it does not decode ({error}); it was not written"))),
    }
}

/// Converts the result of [`encode`] to the format of the store.
///
/// A record of a newer version is converted back. Converting the result forward again must give the
/// same record. Other records are unchanged.
///
/// # Errors
/// [`StoreError::NotYet`] if the format cannot represent the record.
pub(crate) fn in_format(key: &[u8], mut bytes: Value, format: u8) -> Result<Value, StoreError> {
    let table = key.first().copied().and_then(Table::from_byte);
    let (Some((&version, json)), Some(table)) = (bytes.split_first(), table) else { return Ok(bytes) };
    if version <= format {
        return Ok(bytes);
    }
    let not_yet = |why: &dyn Display| {
        StoreError::NotYet(format!(
            "a record of table {} cannot be written in the store's format, {format} ({why}); once all nodes \
             run this version, run: sealgate store upgrade",
            table.name()
        ))
    };
    let changes = format::back(table, format).map_err(|why| not_yet(&why))?;
    if changes.is_empty() {
        bytes[0] = format;
        return Ok(bytes);
    }
    let newest: Json = serde_json::from_slice(json).map_err(|why| not_yet(&why))?;
    let missing = format::missing(table, format).map_err(|why| not_yet(&why))?;
    let older = go_back(&newest, changes, missing).map_err(|why| not_yet(&why))?;
    let mut bytes = vec![format];
    serde_json::to_writer(&mut bytes, &older).map_err(|why| not_yet(&why))?;
    Ok(bytes)
}

/// Converts a record back, and checks that converting the result forward gives the same record.
fn go_back(newest: &Json, back: Vec<RecordChange>, forth: Vec<RecordChange>) -> Result<Json, &'static str> {
    let mut older = newest.clone();
    back.into_iter().try_for_each(|change| change(&mut older))?;
    let mut again = older.clone();
    forth.into_iter().try_for_each(|change| change(&mut again))?;
    if again == *newest { Ok(older) } else { Err("it does not convert back to the same value") }
}

/// Decodes a record of any supported version.
///
/// Keeps the bytes as read, because a commit that replaces an older record must expect these bytes.
pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], bytes: Value) -> Result<Loaded<T>, StoreError> {
    let table = key.first().copied().and_then(Table::from_byte);
    let table = table.ok_or_else(|| StoreError::Broken("a record of an unknown table".to_owned()))?;
    let broken =
        |why: &dyn Display| StoreError::Broken(format!("a record of table {} cannot be read: {why}", table.name()));
    let (&version, json) = bytes.split_first().ok_or_else(|| broken(&"it is empty"))?;
    let missing = format::missing(table, version).map_err(|why| broken(&why))?;
    let value = if missing.is_empty() {
        serde_json::from_slice(json)
    } else {
        let mut record = serde_json::from_slice(json).map_err(|why| broken(&why))?;
        missing.into_iter().try_for_each(|change| change(&mut record)).map_err(|why| broken(&why))?;
        serde_json::from_value(record)
    };
    Ok(Loaded { value: value.map_err(|why| broken(&why))?, key: key.to_owned(), bytes })
}

/// Returns the changes that create a record. They expect that no record has the key.
pub(crate) fn create(key: Key, record: &impl Record) -> Result<Changes, StoreError> {
    let bytes = encode(record)?;
    Ok(Changes {
        expect: vec![Expect::Absent(key.clone())],
        put: vec![(key, bytes)],
        delete: Vec::new(),
        ..Changes::default()
    })
}

/// Returns the changes that replace a loaded record. They expect that the record is unchanged.
pub(crate) fn replace<T: Record>(loaded: &Loaded<T>, record: &T) -> Result<Changes, StoreError> {
    let put = vec![(loaded.key.clone(), encode(record)?)];
    Ok(Changes { expect: vec![loaded.unchanged()], put, delete: Vec::new(), ..Changes::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_would_be_read_back_differently_is_not_written() {
        #[derive(Serialize, serde::Deserialize, PartialEq)]
        struct Forgetful {
            #[serde(skip_serializing, default)]
            kept: u8,
        }
        #[derive(Serialize, serde::Deserialize, PartialEq)]
        struct Unreadable {
            #[serde(rename(serialize = "one", deserialize = "other"))]
            kept: u8,
        }
        assert!(encode(&Forgetful { kept: 0 }).is_ok());
        assert!(matches!(encode(&Forgetful { kept: 1 }), Err(StoreError::Broken(_))));
        assert!(matches!(encode(&Unreadable { kept: 1 }), Err(StoreError::Broken(_))));
    }
    #[test]
    fn a_record_is_downgraded_only_without_loss() {
        fn rename(record: &mut Json, from: &str, to: &str) -> Result<(), &'static str> {
            let members = record.as_object_mut().ok_or("it is not a JSON object")?;
            let value = members.remove(from).ok_or("a member is missing")?;
            members.insert(to.to_owned(), value);
            Ok(())
        }
        let (forth, back): (RecordChange, RecordChange) =
            (|record| rename(record, "old", "new"), |record| rename(record, "new", "old"));
        let newest = serde_json::json!({ "new": 1, "other": 2 });
        let older = go_back(&newest, vec![back], vec![forth]).unwrap();
        assert_eq!(older, serde_json::json!({ "old": 1, "other": 2 }));
        let lossy: RecordChange = |record| {
            record["other"] = Json::Null;
            rename(record, "new", "old")
        };
        assert!(go_back(&newest, vec![lossy], vec![forth]).unwrap_err().contains("does not convert back"));
        assert_eq!(go_back(&serde_json::json!([]), vec![back], vec![forth]), Err("it is not a JSON object"));
    }

    #[test]
    fn records_that_an_older_format_cannot_hold_are_refused() {
        let bytes = encode(&7_u32).unwrap();
        let key = [Table::Once as u8, 1];
        assert_eq!(in_format(&key, bytes.clone(), format::newest()).unwrap(), bytes);
        let refused = in_format(&key, bytes, 3).unwrap_err().to_string();
        assert!(refused.contains("the store's format, 3 (") && refused.contains("sealgate store upgrade"), "{refused}");
        // Index entries have no version, and older records are unchanged.
        assert_eq!(in_format(&key, Vec::new(), 3).unwrap(), Vec::<u8>::new());
        assert_eq!(in_format(&key, vec![2, b'0'], 3).unwrap(), [2, b'0']);
    }
}
