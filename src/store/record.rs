//! Records: one version byte and JSON; an export is made of the very same objects. How older ones become today's, [`versions`]
//! says.

use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::engine::{Changes, Expect, Key, Value};
use crate::store::error::StoreError;
use crate::store::table::Table;
use crate::store::versions::{self, VERSION};

/// A record with the bytes it was read from: committing over it expects exactly those, so that two writers cannot both
/// decide on the same state.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    pub value: T,
    key: Key,
    bytes: Value,
}

impl<T> Loaded<T> {
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn unchanged(&self) -> Expect {
        Expect::Value(self.key.clone(), self.bytes.clone())
    }
}

/// What can be a record: it is written, read back, and compared.
pub(super) trait Record: Serialize + DeserializeOwned + PartialEq {}

impl<T: Serialize + DeserializeOwned + PartialEq> Record for T {}

/// The bytes of a record, which its own reader has read: one that nobody can read again would be lost with the commit, and
/// with it all that it was. Costs a few microseconds a write, of which a disk takes a hundred times that.
pub(super) fn encode<T: Record>(record: &T) -> Result<Value, StoreError> {
    let broken = |what: &str| StoreError::Broken(format!("{}: {what}", std::any::type_name::<T>()));
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, record).map_err(|error| broken(&error.to_string()))?;
    let json = bytes.split_first().map(|(_, json)| json).unwrap_or_default();
    match serde_json::from_slice::<T>(json) {
        Ok(read) if read == *record => Ok(bytes),
        Ok(_) => Err(broken("it would be read back as something else, and was not written")),
        Err(error) => Err(broken(&format!("it could not be read back ({error}), and was not written"))),
    }
}

/// Reads a record of any version up to today's. The bytes stay those that were read: a commit over an older record expects
/// it as it lies.
pub(super) fn decode<T: DeserializeOwned>(key: &[u8], bytes: Value) -> Result<Loaded<T>, StoreError> {
    let table = key.first().copied().and_then(Table::from_byte);
    let table = table.ok_or_else(|| StoreError::Broken("a record of an unknown table".to_owned()))?;
    let broken =
        |why: &dyn Display| StoreError::Broken(format!("a record of table {} cannot be read: {why}", table.name()));
    let (&version, json) = bytes.split_first().ok_or_else(|| broken(&"it is empty"))?;
    let missing = versions::missing(table, version).map_err(|why| broken(&why))?;
    let value = if missing.is_empty() {
        serde_json::from_slice(json)
    } else {
        let mut record = serde_json::from_slice(json).map_err(|why| broken(&why))?;
        missing.into_iter().try_for_each(|change| change(&mut record)).map_err(|why| broken(&why))?;
        serde_json::from_value(record)
    };
    Ok(Loaded { value: value.map_err(|why| broken(&why))?, key: key.to_owned(), bytes })
}

/// A step that makes one record that does not exist yet.
pub(super) fn create(key: Key, record: &impl Record) -> Result<Changes, StoreError> {
    let bytes = encode(record)?;
    Ok(Changes {
        expect: vec![Expect::Absent(key.clone())],
        put: vec![(key, bytes)],
        delete: Vec::new(),
        ..Changes::default()
    })
}

/// A step that puts another record in the place of one that was loaded.
pub(super) fn replace<T: Record>(loaded: &Loaded<T>, record: &T) -> Result<Changes, StoreError> {
    let put = vec![(loaded.key.clone(), encode(record)?)];
    Ok(Changes { expect: vec![loaded.unchanged()], put, delete: Vec::new(), ..Changes::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_would_not_be_read_back_as_it_is_is_not_written() {
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
}
