//! Batches of commits, and the SQL statements of the transaction that applies a batch.
//!
//! The transaction locks keys, then reads, then writes. It locks hashes of the keys, all in one
//! statement and in ascending order, so that two transactions cannot deadlock. The next statement
//! has a newer snapshot, so it sees the writes of the previous lock holder. Unlike row locks, these
//! locks also cover absent keys.
//!
//! The transaction also inserts a row that identifies the batch. If the outcome is unknown, the
//! batch is run again under the same number. Then either the row already exists, or the batch is
//! applied now. If the first run was only delayed, the server rolls it back later, because it
//! conflicts with the row.

use std::collections::{BTreeMap, HashMap, VecDeque};

use sha2::{Digest, Sha256};

use crate::engine::{Changes, Counter, Expect, Key, Value};

/// Maximum number of commits in a batch. Each commit needs locks in the server's lock table, which
/// all nodes share.
pub(super) const BATCH_COMMITS: usize = 128;
/// Number of keys at which no further commit is added to a batch.
pub(super) const BATCH_KEYS: usize = 640;
/// Number of bytes at which no further commit is added to a batch.
const BATCH_BYTES: usize = 1 << 20;
/// Number of lock numbers that keys are hashed to. Must be the same in all versions of all nodes.
pub(super) const STRIPES: u16 = 4096;
/// First lock number of the counters. Each counter has its own lock.
const COUNTER_LOCKS: u16 = STRIPES;

pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// Takes the locks of a batch.
///
/// The first number of each lock is the OID of the store's table `record`, so that stores in
/// different schemas do not wait for each other. Locks of written keys are exclusive. Keys that
/// only have to remain unchanged have shared locks, because many commits expect the same client.
pub(super) const LOCK: &str = "SELECT count(CASE \
     WHEN exclusive THEN pg_advisory_xact_lock('record'::regclass::oid::integer, stripe)::text \
     ELSE pg_advisory_xact_lock_shared('record'::regclass::oid::integer, stripe)::text END) \
     FROM unnest($1::integer[], $2::boolean[]) AS s(stripe, exclusive)";
/// Applies a batch. Refuses each operation whose expectations do not hold. A null value is an
/// absent record.
///
/// All parts of the statement read the tables as they were before the statement. The statement
/// inserts the row of the batch if it writes a record, or if the run is a repetition.
pub(super) const APPLY: &str = "WITH \
     refused AS (SELECT DISTINCT e.operation FROM unnest($1::smallint[], $2::bytea[], $3::bytea[]) \
         AS e(operation, key, value) LEFT JOIN record r ON r.key = e.key WHERE r.value IS DISTINCT FROM e.value), \
     written AS (SELECT w.operation, w.key, w.value \
         FROM unnest($4::smallint[], $5::bytea[], $6::bytea[]) AS w(operation, key, value) \
         WHERE w.operation NOT IN (SELECT operation FROM refused)), \
     deleted AS (DELETE FROM record USING written w WHERE record.key = w.key AND w.value IS NULL), \
     put AS (INSERT INTO record (key, value) SELECT key, value FROM written WHERE value IS NOT NULL ORDER BY key \
         ON CONFLICT (key) DO UPDATE SET value = excluded.value), \
     moved AS (UPDATE counter SET n = n + 1 WHERE slot IN (SELECT m.slot \
         FROM unnest($10::smallint[], $11::smallint[]) AS m(operation, slot) \
         WHERE m.operation NOT IN (SELECT operation FROM refused))), \
     left_behind AS (INSERT INTO batch (writer, number, refused) \
         SELECT $7::bigint, $8::bigint, coalesce((SELECT array_agg(operation) FROM refused), '{}') \
         WHERE $9::boolean OR EXISTS (SELECT FROM written)), \
     forgotten AS (DELETE FROM batch WHERE writer = $7 AND number = $8 - 1) \
     SELECT coalesce(array_agg(operation), '{}') FROM refused";
/// Reads the row of a batch. The statement is an update, so that its result waits for the standby.
///
/// Otherwise, after a restart of the primary or a cancelled wait, the statement could report a
/// commit that no standby has.
pub(super) const LOOK_UP: &str =
    "UPDATE batch SET refused = refused WHERE writer = $1 AND number = $2 RETURNING refused";
/// Deletes the last row of each writer that no longer exists.
pub(super) const CLEAN_UP: &str = "DELETE FROM batch WHERE at < now() - interval '1 day'";

/// Commit in which each written key occurs once.
#[derive(Debug, Default)]
pub(super) struct Operation {
    pub(super) expect: Vec<(Key, Option<Value>)>,
    /// New value of each written key. `None` if the record is deleted.
    pub(super) writes: BTreeMap<Key, Option<Value>>,
    pub(super) moves: Vec<Counter>,
}

impl From<Changes> for Operation {
    fn from(changes: Changes) -> Self {
        let expect = changes.expect.into_iter().map(|expect| match expect {
            Expect::Absent(key) => (key, None),
            Expect::Value(key, value) => (key, Some(value)),
        });
        let puts = changes.put.into_iter().map(|(key, value)| (key, Some(value)));
        let writes = puts.chain(changes.delete.into_iter().map(|key| (key, None)));
        Self { expect: expect.collect(), writes: writes.collect(), moves: changes.moves }
    }
}

impl Operation {
    fn keys(&self) -> usize {
        self.expect.len() + self.writes.len() + self.moves.len()
    }

    fn bytes(&self) -> usize {
        let values = self.expect.iter().map(|(_, value)| value).chain(self.writes.values());
        values.flatten().map(Vec::len).sum()
    }
}

/// Takes the oldest commits from `waiting` that can be in one batch.
///
/// A statement does not see its own writes. Therefore a commit is left for the next batch if it
/// uses a key that the batch writes, or writes a key that the batch uses.
pub(super) fn take<T>(waiting: &mut VecDeque<T>, operation: impl Fn(&T) -> &Operation) -> Vec<T> {
    // Keys that the batch uses, and whether it writes them.
    let mut touched = HashMap::<Key, bool>::new();
    let (mut batch, mut left) = (Vec::new(), VecDeque::new());
    let (mut keys, mut bytes) = (0, 0);
    while let Some(next) = waiting.pop_front() {
        if batch.len() == BATCH_COMMITS || (!batch.is_empty() && (keys >= BATCH_KEYS || bytes >= BATCH_BYTES)) {
            left.push_back(next);
            break;
        }
        let wanted = operation(&next);
        let meets = wanted.writes.keys().any(|key| touched.contains_key(key))
            || wanted.expect.iter().any(|(key, _)| touched.get(key) == Some(&true));
        if meets {
            left.push_back(next);
            continue;
        }
        keys += wanted.keys();
        bytes += wanted.bytes();
        for (key, _) in &wanted.expect {
            touched.entry(key.clone()).or_insert(false);
        }
        for key in wanted.writes.keys() {
            touched.insert(key.clone(), true);
        }
        batch.push(next);
    }
    left.append(waiting);
    *waiting = left;
    batch
}

fn stripe(key: &[u8]) -> u16 {
    let digest = Sha256::digest(key);
    u16::from_be_bytes([digest[0], digest[1]]) % STRIPES
}

fn counter_slot(counter: Counter) -> u16 {
    u16::try_from(counter.slot()).unwrap_or_default()
}

/// Returns the lock numbers of a batch in ascending order, and whether each lock is exclusive.
pub(super) fn locks<'o>(operations: impl Iterator<Item = &'o Operation>) -> (Vec<i32>, Vec<bool>) {
    let mut stripes = BTreeMap::<u16, bool>::new();
    for operation in operations {
        for (key, _) in &operation.expect {
            stripes.entry(stripe(key)).or_insert(false);
        }
        for key in operation.writes.keys() {
            stripes.insert(stripe(key), true);
        }
        for counter in &operation.moves {
            stripes.insert(COUNTER_LOCKS + counter_slot(*counter), true);
        }
    }
    stripes.into_iter().map(|(stripe, exclusive)| (i32::from(stripe), exclusive)).unzip()
}

/// Rows of (operation, key, value), as one array for each column.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RowColumns<'o> {
    pub(super) operations: Vec<i16>,
    pub(super) keys: Vec<&'o [u8]>,
    pub(super) values: Vec<Option<&'o [u8]>>,
}

impl<'o> RowColumns<'o> {
    fn push(&mut self, operation: i16, key: &'o Key, value: Option<&'o Value>) {
        self.operations.push(operation);
        self.keys.push(key);
        self.values.push(value.map(Vec::as_slice));
    }

    /// Returns the rows that must match, and the rows to write.
    pub(super) fn from_operations(operations: impl Iterator<Item = &'o Operation>) -> (Self, Self) {
        let (mut expected, mut written) = (Self::default(), Self::default());
        for (number, operation) in (0..).zip(operations) {
            for (key, value) in &operation.expect {
                expected.push(number, key, value.as_ref());
            }
            for (key, value) in &operation.writes {
                written.push(number, key, value.as_ref());
            }
        }
        (expected, written)
    }
}

/// Returns the rows of (operation, counter), as one array for each column.
pub(super) fn moves<'o>(operations: impl Iterator<Item = &'o Operation>) -> (Vec<i16>, Vec<i16>) {
    let moves = |(number, operation): (i16, &'o Operation)| {
        operation.moves.iter().map(move |counter| (number, counter_slot(*counter).cast_signed()))
    };
    (0..).zip(operations).flat_map(moves).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(expect: &[&str], put: &[&str], delete: &[&str]) -> Operation {
        let key = |key: &&str| key.as_bytes().to_vec();
        Operation::from(Changes {
            expect: expect.iter().map(|word| Expect::Absent(key(word))).collect(),
            put: put.iter().map(|word| (key(word), b"v".to_vec())).collect(),
            delete: delete.iter().map(key).collect(),
            ..Changes::default()
        })
    }

    fn batches(operations: Vec<Operation>) -> Vec<Vec<usize>> {
        let mut waiting: VecDeque<(usize, Operation)> = operations.into_iter().enumerate().collect();
        let mut batches = Vec::new();
        while !waiting.is_empty() {
            batches.push(take(&mut waiting, |(_, one)| one).into_iter().map(|(number, _)| number).collect());
        }
        batches
    }

    #[test]
    fn commits_with_a_shared_written_key_are_applied_sequentially() {
        let put = || operation(&[], &["k"], &[]);
        assert_eq!(batches(vec![put(), operation(&[], &["other"], &[]), put(), put()]), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(batches(vec![put(), operation(&["k"], &["a"], &[])]), [[0], [1]]);
        assert_eq!(batches(vec![operation(&["k"], &["a"], &[]), operation(&[], &[], &["k"])]), [[0], [1]]);
    }

    #[test]
    fn commits_that_only_read_a_key_are_applied_together() {
        assert_eq!(batches(vec![operation(&["k"], &["a"], &[]), operation(&["k"], &["b"], &[])]), [[0, 1]]);
    }

    #[test]
    fn a_batch_is_bounded_by_commits_keys_and_bytes() {
        let names: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
        let single: Vec<_> = names.iter().map(|name| operation(&[], &[name], &[])).collect();
        assert!(batches(single).iter().take(7).all(|batch| batch.len() == BATCH_COMMITS));
        let many: Vec<&str> = names.iter().take(700).map(String::as_str).collect();
        // A single commit that exceeds the number of keys is its own batch.
        assert_eq!(batches(vec![operation(&[], &many, &[]), operation(&[], &["x"], &[])]), [[0], [1]]);
        let large = |name: &[u8]| {
            Operation::from(Changes { put: vec![(name.to_vec(), vec![0; BATCH_BYTES / 2])], ..Changes::default() })
        };
        assert_eq!(batches(vec![large(b"1"), large(b"2"), large(b"3")]), [vec![0, 1], vec![2]]);
    }

    #[test]
    fn locks_are_sorted_and_unique_and_exclusive_for_writes() {
        let operations = [operation(&["a", "b"], &["b"], &[]), operation(&["a"], &["c"], &["d"])];
        let (stripes, exclusive) = locks(operations.iter());
        assert!(stripes.is_sorted_by(|one, other| one < other));
        let of = |key: &str| {
            let at = stripes.iter().position(|one| *one == i32::from(stripe(key.as_bytes()))).unwrap();
            exclusive[at]
        };
        assert_eq!(["a", "b", "c", "d"].map(of), [false, true, true, true]);
    }

    /// All nodes must use the same lock numbers, so the numbers must never change.
    #[test]
    fn the_stripe_of_a_key_never_changes() {
        assert_eq!([&b""[..], b"k", b"\x01abc"].map(stripe), [944, 596, 3608]);
    }

    #[test]
    fn a_key_that_is_put_and_deleted_is_deleted() {
        let operation = operation(&[], &["k"], &["k"]);
        let (_, written) = RowColumns::from_operations(std::iter::once(&operation));
        assert_eq!(written, RowColumns { operations: vec![0], keys: vec![b"k"], values: vec![None] });
    }
}
