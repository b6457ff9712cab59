//! Verification that a store has lost no data.
//!
//! When sled finds damage in its log, it assumes that the log ends there because of a crash. It
//! then opens an earlier state, or omits a part, without an error. A revoked token could become
//! valid again. Therefore the writer numbers its batches and maintains a digest of all entries.
//! These values are stored in two places:
//!
//! - [`State`], in the tree: the number of the newest batch, and the digests before and after it.
//!   sled logs the state before the batch or as part of the batch. Therefore the entries match one
//!   of the two digests, wherever a crash truncates the log.
//! - [`Watermark`], in its own file: the number of the newest batch that may have been
//!   acknowledged. The file is written after the flush, and before the results are sent.
//!
//! Opening a store reads every entry. If their digest is not in the state, entries are missing or
//! altered. If the number of the newest batch is smaller than the watermark, acknowledged changes
//! are missing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::disk::sync;

/// Name of the watermark file in the store's directory.
const FILE: &str = "watermark";
/// Size of an entry in bytes. Disks write that many bytes atomically.
const SLOT_BYTES: usize = 512;
/// Distance between the two entries in bytes, so that each has its own page.
const SLOT_DISTANCE: u64 = 4096;
/// First line of an entry.
const TITLE: &str = "sealgate watermark 1";

/// Number of entries and sum of their hashes, independent of their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Digest {
    entries: u64,
    sum: u128,
}

impl Digest {
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries = self.entries.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash(key, value));
    }

    /// Removes an entry that was added.
    pub(super) fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.entries = self.entries.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(hash(key, value));
    }

    /// Returns the number of entries.
    pub(super) fn entries(self) -> u64 {
        self.entries
    }

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.entries.to_be_bytes());
        bytes.extend_from_slice(&self.sum.to_be_bytes());
    }

    /// Parses a digest and returns it with the remaining bytes.
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (entries, rest) = bytes.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        Some((Self { entries: u64::from_be_bytes(*entries), sum: u128::from_be_bytes(*sum) }, rest))
    }
}

fn hash(key: &[u8], value: &[u8]) -> u128 {
    let mut hash = Sha256::new();
    hash.update(key.len().to_be_bytes());
    hash.update(key);
    hash.update(value);
    hash.finalize().first_chunk().map_or(0, |half| u128::from_be_bytes(*half))
}

/// State of the tree after its newest batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) sequence: u64,
    /// Digest of the entries before the batch.
    pub(super) before: Digest,
    /// Digest of the entries after the batch.
    pub(super) after: Digest,
}

impl State {
    /// Encodes the state.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.sequence.to_be_bytes().to_vec();
        self.before.write(&mut bytes);
        self.after.write(&mut bytes);
        bytes
    }

    /// Decodes the state.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (sequence, rest) = bytes.split_first_chunk()?;
        let (before, rest) = Digest::read(rest)?;
        let (after, rest) = Digest::read(rest)?;
        rest.is_empty().then_some(Self { sequence: u64::from_be_bytes(*sequence), before, after })
    }

    /// Returns the number of the batch after which the store had this digest, or `None` if neither
    /// digest matches.
    pub(super) fn sequence_of(&self, digest: Digest) -> Option<u64> {
        if digest == self.after {
            return Some(self.sequence);
        }
        (digest == self.before).then(|| self.sequence.saturating_sub(1))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The file does not exist.
    Absent,
    Unreadable,
    /// Number of the newest batch that may have been acknowledged.
    Acknowledged(u64),
}

/// Watermark file. Its two entries are written in turn, so that an interrupted write can damage
/// only the older entry.
#[derive(Debug)]
pub(super) struct Watermark {
    file: File,
    older: u64,
}

impl Watermark {
    /// Reads the watermark of the store in this directory.
    pub(super) fn read(directory: &Path) -> io::Result<Mark> {
        let file = match File::open(directory.join(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Mark::Absent),
            Err(error) => return Err(error),
        };
        let slots = slots(&file)?;
        if slots.contains(&None) {
            tracing::warn!(
                "an entry of the store's file {FILE} cannot be read, after an interrupted write or a disk error"
            );
        }
        Ok(slots.into_iter().flatten().max().map_or(Mark::Unreadable, Mark::Acknowledged))
    }

    /// Opens the file for writing. If it is missing or invalid, creates it atomically.
    pub(super) fn open(directory: &Path, mark: Mark) -> io::Result<Self> {
        let path = directory.join(FILE);
        if !matches!(mark, Mark::Acknowledged(_)) {
            let new = directory.join("watermark.new");
            let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            for at in [0, SLOT_DISTANCE] {
                file.write_all_at(&line(0), at)?;
            }
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync(directory)?;
        }
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let [first, second] = slots(&file)?;
        Ok(Self { file, older: if first <= second { 0 } else { SLOT_DISTANCE } })
    }

    /// Records that this batch may be acknowledged. Durable when this returns.
    ///
    /// # Errors
    /// Errors of the operating system. The content of the file is then unknown.
    pub(super) fn raise(&mut self, sequence: u64) -> io::Result<()> {
        self.file.write_all_at(&line(sequence), self.older)?;
        self.older = SLOT_DISTANCE - self.older;
        // The length of the file does not change, so only this page is written.
        self.file.sync_data()
    }
}

/// Reads both entries. `None` is an unreadable entry.
fn slots(file: &File) -> io::Result<[Option<u64>; 2]> {
    let mut slots = [None; 2];
    for (slot, at) in slots.iter_mut().zip([0, SLOT_DISTANCE]) {
        let mut bytes = [0; SLOT_BYTES];
        *slot = match file.read_exact_at(&mut bytes, at) {
            Ok(()) => parse(&bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
    }
    Ok(slots)
}

fn line(sequence: u64) -> Vec<u8> {
    let text = format!("{TITLE}\nsequence {sequence}\n");
    let mut line = format!("{text}check {:032x}\n", hash(TITLE.as_bytes(), text.as_bytes())).into_bytes();
    line.resize(SLOT_BYTES, b'\n');
    line
}

fn parse(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let sequence = text.strip_prefix(TITLE)?.strip_prefix("\nsequence ")?.split('\n').next()?.parse().ok()?;
    (line(sequence) == bytes).then_some(sequence)
}

/// Progress of the writer, with its watermark.
pub(super) struct WriterProgress {
    /// Number of the newest batch.
    pub(super) sequence: u64,
    pub(super) digest: Digest,
    pub(super) watermark: Watermark,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flip(file: &Path, byte: u64) {
        let file = OpenOptions::new().read(true).write(true).open(file).unwrap();
        let mut one = [0];
        file.read_exact_at(&mut one, byte).unwrap();
        file.write_all_at(&[one[0] ^ 4], byte).unwrap();
    }

    #[test]
    fn the_newest_valid_entry_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE);
        assert_eq!(Watermark::read(directory.path()).unwrap(), Mark::Absent);
        let mut watermark = Watermark::open(directory.path(), Mark::Absent).unwrap();
        assert_eq!(Watermark::read(directory.path()).unwrap(), Mark::Acknowledged(0));
        // The entries are written in turn, independent of their numbers.
        for sequence in [1, 3, 5] {
            watermark.raise(sequence).unwrap();
            assert_eq!(Watermark::read(directory.path()).unwrap(), Mark::Acknowledged(sequence));
            watermark = Watermark::open(directory.path(), Mark::Acknowledged(sequence)).unwrap();
        }
        flip(&file, 31);
        assert_eq!(Watermark::read(directory.path()).unwrap(), Mark::Acknowledged(3));
        flip(&file, SLOT_DISTANCE + 500);
        assert_eq!(Watermark::read(directory.path()).unwrap(), Mark::Unreadable);
    }

    #[test]
    fn the_stored_state_is_read_back() {
        let mut after = Digest::default();
        after.add(b"key", b"value");
        let state = State { sequence: 7, before: Digest::default(), after };
        assert_eq!(State::read(&state.to_bytes()), Some(state));
        assert_eq!(State::read(&state.to_bytes()[1..]), None);
        assert_eq!(state.sequence_of(after), Some(7));
        assert_eq!(state.sequence_of(Digest::default()), Some(6));
        after.add(b"key2", b"value");
        assert_eq!(state.sequence_of(after), None);
    }

    #[test]
    fn a_digest_ignores_order_and_distinguishes_keys_from_values() {
        let (mut one, mut other) = (Digest::default(), Digest::default());
        one.add(b"a", b"1");
        one.add(b"b", b"2");
        one.remove(b"a", b"1");
        other.add(b"b", b"2");
        assert_eq!(one, other);
        let mut shifted = Digest::default();
        shifted.add(b"b2", b"");
        assert_ne!(shifted, other);
    }
}
