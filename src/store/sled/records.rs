//! Layout of records in sled's only tree.
//!
//! sled moves a page of more than 128 KiB to a separate file, and never syncs that file. A power
//! failure would lose that page with all its records. A page has about 16 records, sometimes a few
//! more, so each entry must be short.
//!
//! A longer value is split into pieces. The keys of the pieces contain a hash of the record's key
//! and value, so pieces of different versions never mix. If a piece is missing, the record was
//! rewritten during the read, and the reader starts again.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use sled::{Batch, Db, IVec, Tree};

use super::watermark::{Digest, State};
use crate::engine::{EngineError, Key, Value};

/// First byte of the tree's keys for records.
const RECORD: u8 = 0;
/// First byte of the tree's keys for pieces. The hash and the number of the piece follow.
const PIECE: u8 = 1;
/// First byte of the engine's own keys, which sort after all other keys.
const OWN: u8 = 2;

/// First byte of an unsplit value. The value follows.
const WHOLE: u8 = 0;
/// First byte of a split value. The value's length and the hash in the keys of its pieces follow.
const CUT: u8 = 1;

/// Maximum length of an unsplit value and of a piece, in bytes.
const PIECE_BYTES: usize = 2048;
/// Maximum number of attempts to read a record that is being rewritten. Each rewrite takes the time
/// of a flush to disk. So if all these attempts fail, the record is damaged.
const READ_ATTEMPTS: usize = 8;

/// Keys of the tree and their new values. `None` deletes the key.
pub(super) type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Records in the tree. A clone is cheap.
#[derive(Clone)]
pub(super) struct Records {
    tree: Tree,
}

impl Records {
    /// Returns the records of `database`.
    pub(super) fn new(database: &Db) -> Self {
        Self { tree: (**database).clone() }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        for _ in 0..READ_ATTEMPTS {
            let Some(stored) = self.tree.get(record_key(key)).map_err(unreadable)? else { return Ok(None) };
            if let Some(value) = self.assemble(&stored)? {
                return Ok(Some(value));
            }
        }
        Err(EngineError::Damaged("parts of a record are missing".to_owned()))
    }

    /// Returns up to `limit` records whose keys start with `prefix` and are greater than `after`.
    pub(super) fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, EngineError> {
        let prefix = record_key(prefix);
        let start = match after.map(record_key) {
            // The smallest key that is greater than `after`.
            Some(mut after) if after >= prefix => {
                after.push(0);
                after
            }
            _ => prefix.clone(),
        };
        // Calling sled during the iteration could deadlock, so read pieces afterwards.
        let mut rows = Vec::new();
        for row in self.tree.range(start..).take(limit) {
            let (key, stored) = row.map_err(unreadable)?;
            if !key.starts_with(&prefix) {
                break;
            }
            rows.push((key, stored));
        }
        let mut records = Vec::with_capacity(rows.len());
        for (key, stored) in rows {
            let key = key.strip_prefix(&[RECORD]).unwrap_or_default().to_vec();
            let value = match self.assemble(&stored)? {
                Some(value) => Some(value),
                None => self.get(&key)?,
            };
            // Omit a record that was deleted since the scan.
            records.extend(value.map(|value| (key, value)));
        }
        Ok(records)
    }

    /// Counts the records.
    pub(super) fn count(&self) -> Result<usize, EngineError> {
        let mut count = 0;
        for key in self.tree.scan_prefix([RECORD]).keys() {
            key.map_err(unreadable)?;
            count += 1;
        }
        Ok(count)
    }

    /// Adds the writes that replace the value of `key`. With the value `None`, adds the writes that
    /// delete the record.
    pub(super) fn replace(&self, writes: &mut Writes, key: &[u8], value: Option<&Value>) -> Result<(), EngineError> {
        let record = record_key(key);
        let old = self.tree.get(&record).map_err(unreadable)?;
        if let Some(cut) = old.as_deref().and_then(Cut::read) {
            writes.extend((0..cut.pieces()).map(|number| (cut.piece_key(number), None)));
        }
        match value {
            None => writes.push((record, None)),
            Some(value) if value.len() <= PIECE_BYTES => writes.push((record, Some(with_first(WHOLE, value)))),
            Some(value) => {
                let cut = Cut::from_record(key, value);
                let pieces = (0..).zip(value.chunks(PIECE_BYTES));
                writes.extend(pieces.map(|(number, piece)| (cut.piece_key(number), Some(piece.to_vec()))));
                writes.push((record, Some(cut.write())));
            }
        }
        Ok(())
    }

    /// Returns the digest of all entries except the engine's own. Reads all entries.
    ///
    /// # Errors
    /// The error of sled if an entry cannot be read.
    pub(super) fn digest(&self) -> Result<Digest, sled::Error> {
        let mut digest = Digest::default();
        for entry in self.tree.range(..[OWN]) {
            let (key, value) = entry?;
            digest.add(&key, &value);
        }
        Ok(digest)
    }

    /// Returns the digest after these writes. `before` is the digest before them.
    pub(super) fn digest_after(&self, before: Digest, writes: &Writes) -> Result<Digest, EngineError> {
        // A piece may be deleted and written again. The last write counts.
        let last: HashMap<&[u8], Option<&Vec<u8>>> =
            writes.iter().map(|(key, value)| (key.as_slice(), value.as_ref())).collect();
        let mut digest = before;
        for (key, value) in last {
            if let Some(old) = self.tree.get(key).map_err(unreadable)? {
                digest.remove(key, &old);
            }
            if let Some(value) = value {
                digest.add(key, value);
            }
        }
        Ok(digest)
    }

    /// Applies all writes or none, in order, together with the state. They are durable after a
    /// flush.
    ///
    /// # Errors
    /// `Unavailable`. The content of the tree is then unknown.
    pub(super) fn write(&self, mut writes: Writes, state: State) -> Result<(), EngineError> {
        let keys: Vec<_> = writes.iter().map(|(key, _)| key.clone()).collect();
        if writes.len() == 1
            && let Some((key, value)) = writes.pop()
        {
            // A single write is atomic without a batch, and takes one disk barrier instead of two.
            // The state is logged first, so after a crash, the tree cannot have the write without
            // the state. If the tree has only the state, the next start accepts the previous
            // content, because the state also contains the digest of that content.
            self.tree.insert(own_key("state"), state.to_bytes()).map_err(unwritable)?;
            match value {
                Some(value) => self.tree.insert(key, value),
                None => self.tree.remove(key),
            }
            .map_err(unwritable)?;
        } else {
            let mut batch = Batch::default();
            batch.insert(own_key("state"), state.to_bytes());
            for (key, value) in writes {
                match value {
                    Some(value) => batch.insert(key, value),
                    None => batch.remove(key),
                }
            }
            self.tree.apply_batch(batch).map_err(unwritable)?;
        }
        // sled splits an overfull page at the next read of that page, and the split is a write.
        // Read the keys now, so that the next flush includes the split.
        for key in keys {
            self.tree.contains_key(key).map_err(unreadable)?;
        }
        Ok(())
    }

    /// Returns the value of a stored entry, or `None` if one of its pieces is missing.
    fn assemble(&self, stored: &IVec) -> Result<Option<Value>, EngineError> {
        match stored.split_first() {
            Some((&WHOLE, value)) => Ok(Some(value.to_vec())),
            Some((&CUT, _)) => {
                let Some(cut) = Cut::read(stored) else { return Err(malformed()) };
                let mut value = Vec::new();
                for number in 0..cut.pieces() {
                    let Some(piece) = self.tree.get(cut.piece_key(number)).map_err(unreadable)? else {
                        return Ok(None);
                    };
                    value.extend_from_slice(&piece);
                }
                Ok(Some(value))
            }
            _ => Err(malformed()),
        }
    }
}

/// Value that is split into pieces.
struct Cut {
    length: u32,
    hash: [u8; 32],
}

impl Cut {
    fn from_record(key: &[u8], value: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(length_of(key).to_be_bytes());
        hash.update(key);
        hash.update(value);
        Self { length: length_of(value), hash: hash.finalize().into() }
    }

    fn read(stored: &[u8]) -> Option<Self> {
        let (length, hash) = stored.strip_prefix(&[CUT])?.split_first_chunk()?;
        Some(Self { length: u32::from_be_bytes(*length), hash: hash.try_into().ok()? })
    }

    fn write(&self) -> Vec<u8> {
        [&[CUT], self.length.to_be_bytes().as_slice(), &self.hash].concat()
    }

    fn pieces(&self) -> u32 {
        self.length.div_ceil(length_of(&[0; PIECE_BYTES]))
    }

    fn piece_key(&self, number: u32) -> Vec<u8> {
        [&[PIECE], self.hash.as_slice(), &number.to_be_bytes()].concat()
    }
}

/// Keys and values are limited to far less than 4 GiB elsewhere.
fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Returns the engine's own key with this name.
pub(super) fn own_key(name: &str) -> Vec<u8> {
    with_first(OWN, name.as_bytes())
}

fn record_key(key: &[u8]) -> Vec<u8> {
    with_first(RECORD, key)
}

fn with_first(first: u8, rest: &[u8]) -> Vec<u8> {
    [&[first], rest].concat()
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
fn unreadable(error: sled::Error) -> EngineError {
    EngineError::Damaged(format!("it cannot be read: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err needs")]
fn unwritable(error: sled::Error) -> EngineError {
    EngineError::Unavailable(format!("it cannot be written: {error}"))
}

fn malformed() -> EngineError {
    EngineError::Damaged("a record has an unknown format".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(database: &Db, key: &[u8], value: Option<&Value>) {
        let (records, mut writes) = (Records::new(database), Vec::new());
        let before = records.digest().unwrap();
        records.replace(&mut writes, key, value).unwrap();
        let after = records.digest_after(before, &writes).unwrap();
        records.write(writes, State { sequence: 1, before, after }).unwrap();
        assert_eq!(records.digest().unwrap(), after);
    }

    fn entries(database: &Db) -> usize {
        database.range(..[OWN]).count()
    }

    fn database() -> (tempfile::TempDir, Db) {
        let directory = tempfile::tempdir().unwrap();
        let database = sled::Config::new().path(directory.path()).flush_every_ms(None).open().unwrap();
        (directory, database)
    }

    #[test]
    fn a_long_value_leaves_no_pieces_behind() {
        let (_directory, database) = database();
        let records = Records::new(&database);
        for value in [vec![1; 10_000], vec![2; 10_000], vec![2; 10_000], vec![3; 5_000], vec![4; 3]] {
            write(&database, b"k", Some(&value));
            assert_eq!(records.get(b"k").unwrap().unwrap(), value);
            assert_eq!(
                entries(&database),
                if value.len() <= PIECE_BYTES { 1 } else { 1 + value.len().div_ceil(PIECE_BYTES) }
            );
        }
        write(&database, b"k", Some(&vec![5; 10_000]));
        write(&database, b"k", None);
        assert_eq!(entries(&database), 0);
    }

    #[test]
    fn two_records_with_one_long_value_share_no_pieces() {
        let (_directory, database) = database();
        let value = vec![7; 5_000];
        write(&database, b"a", Some(&value));
        write(&database, b"b", Some(&value));
        write(&database, b"a", None);
        assert_eq!(Records::new(&database).get(b"b").unwrap(), Some(value));
    }

    #[test]
    fn a_record_with_a_missing_piece_is_an_error() {
        let (_directory, database) = database();
        write(&database, b"k", Some(&vec![1; 5_000]));
        let piece = database.scan_prefix([PIECE]).keys().next().unwrap().unwrap();
        database.remove(piece).unwrap();
        let records = Records::new(&database);
        assert!(matches!(records.get(b"k"), Err(EngineError::Damaged(_))));
        assert!(matches!(records.scan(b"k", None, 9), Err(EngineError::Damaged(_))));
    }

    #[test]
    fn a_value_of_an_unknown_form_is_an_error() {
        let (_directory, database) = database();
        for stored in [&[][..], &[9, 1], &[CUT, 1, 2]] {
            database.insert(record_key(b"k"), stored).unwrap();
            assert!(matches!(Records::new(&database).get(b"k"), Err(EngineError::Damaged(_))));
        }
    }
}
