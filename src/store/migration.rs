//! Bringing a store that an older program wrote to this program's version, before anybody is served.
//!
//! A version differs from the one before by one [`MigrationStep`]: what becomes of each record of one table. Records of other tables
//! stay as they lie, and are read as they are. Every record is tried before the first one is written, so that one that
//! cannot be brought over leaves the store as it was, for the program that wrote it. From the first write on the store
//! says that it has the new version, so that no older program takes it up, and has a cursor until the last record is done.
//! Each batch and the cursor's next place are one commit: a killed process goes on where it was.
//!
//! Knows nothing of what records mean; the steps do.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::domain::secret::{base64url, from_base64url};
use crate::store::StoreError;
use crate::store::engine::{Changes, Engine, Expect, Key, MAX_VALUE_BYTES, Outcome, Value};
use crate::store::table::{self, Table};

/// Records that are read at once, and the most in one commit: see the sled engine on the size of a batch.
const BATCH: usize = 64;
/// A commit's last record is the one that makes it so large, bytes.
const BATCH_BYTES: usize = 1 << 20;
/// How often the log says how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// What the store says about itself has this version for ever: an older program must be able to read that it is too old.
const OWN_VERSION: u8 = 1;

/// The difference between one version and the next.
#[derive(Debug, Clone, Copy)]
pub struct MigrationStep {
    /// The table whose records change.
    pub table: Table,
    /// Changes a record of the version before, or says in a few words why it cannot. Pure: it may run any number of times.
    /// The words go to the log, so nothing of the record may stand in them.
    pub change: fn(&mut Json) -> Result<(), &'static str>,
}

/// All differences so far: the first one leads from version 1 to version 2. Only ever append.
pub const STEPS: &[MigrationStep] = &[
    // A sign-in of the gate came to say which context classes would do. Where it says nothing, any did.
    MigrationStep { table: Table::SignInAttempt, change: |record| add(record, "acr", Json::Array(Vec::new())) },
    // A replaced cookie came to be kept with the sign-in that it stands for. One without it was good for half a minute.
    MigrationStep { table: Table::Session, change: |record| take(record, "previous_cookie") },
    // People came to have usernames, with an index that this program is the first to keep. No record changes: an older
    // program would lose the names, and must not open the store.
    MigrationStep { table: Table::Username, change: |_| Ok(()) },
];

/// The version that new records are written in.
#[expect(clippy::cast_possible_truncation, reason = "asserted below, when the program is built")]
pub(super) const VERSION: u8 = STEPS.len() as u8 + 1;
const _: () = assert!(STEPS.len() < u8::MAX as usize, "a record's version is one byte");

/// Is called at every batch, so that whoever waits for the start sees that it goes on.
pub type MigrationWatch<'a> = &'a (dyn Fn() + Send + Sync);

/// The version of a store.
pub(super) type Format = u32;

/// How far a migration is, in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// The version at which it began.
    from: Format,
    /// The version to which it leads.
    to: Format,
    /// The key up to which all is done, base64url; none before the first batch.
    after: Option<String>,
}

/// Brings a store to the version that `steps` lead to; a new one gets that version, and one that has it stays as it is.
/// Yields how many records changed.
///
/// # Errors
/// [`StoreError::Newer`]; [`StoreError::Unmigratable`], and this call changed nothing; when the store fails, and the next
/// call goes on where this one was.
pub async fn migrate(
    engine: &dyn Engine,
    steps: &[MigrationStep],
    watch: MigrationWatch<'_>,
) -> Result<usize, StoreError> {
    let to = Format::from(version_after(steps)?);
    let format = Own::<Format>::read(engine, table::format()).await?;
    let cursor = Own::<Cursor>::read(engine, table::migration()).await?;
    let (found, from) = match (format.value, &cursor.value) {
        (None, None) => return lay_down(engine, &format, to).await,
        (None, Some(_)) => return Err(StoreError::Broken("it does not say its version".to_owned())),
        (Some(found), _) if found > to => return Err(StoreError::Newer { found, known: to }),
        (Some(found), None) if found == to => return Ok(0),
        (Some(found), None) => (found, found),
        (Some(found), Some(cursor)) => (found, cursor.from),
    };
    let mut pass = Pass { engine, migration: Migration::new(steps, from, to), cursor, watch };
    let records = pass.try_all().await?;
    tracing::info!(from, to, records, "migrating the store");
    // A cursor that leads to another version: records behind it lack the steps that came since.
    if found != to || pass.cursor.value.as_ref().is_none_or(|cursor| cursor.to != to) {
        pass.begin(&format).await?;
    }
    let changed = pass.write_all(records).await?;
    tracing::info!(from, to, records = changed, "migrated the store");
    Ok(changed)
}

/// Refuses a store that a newer program wrote.
///
/// # Errors
/// [`StoreError::Newer`]; when the store fails.
pub(super) async fn refuse_newer(engine: &dyn Engine) -> Result<(), StoreError> {
    let known = Format::from(VERSION);
    match Own::<Format>::read(engine, table::format()).await?.value {
        Some(found) if found > known => Err(StoreError::Newer { found, known }),
        _ => Ok(()),
    }
}

/// What becomes of one record of an export: `record` as it is in `version`, made one of [`VERSION`].
///
/// # Errors
/// Why it cannot, in a few words.
pub(super) fn bring_up(table: Table, version: u8, record: &mut Json) -> Result<(), &'static str> {
    if version == 0 || version > VERSION {
        return Err("its version is not known to this program");
    }
    later(STEPS, table, version).try_for_each(|step| (step.change)(record))
}

/// The oldest version in which a record of this table looks as it does today.
pub(super) fn oldest_readable(table: Table) -> u8 {
    (1..=VERSION).find(|&version| later(STEPS, table, version).next().is_none()).unwrap_or(VERSION)
}

/// The steps for a table that a record of this version has not had.
fn later(steps: &[MigrationStep], table: Table, version: u8) -> impl Iterator<Item = &MigrationStep> {
    steps.iter().skip(usize::from(version).saturating_sub(1)).filter(move |step| step.table == table)
}

fn version_after(steps: &[MigrationStep]) -> Result<u8, StoreError> {
    let version = u8::try_from(steps.len()).ok().and_then(|steps| steps.checked_add(1));
    version.ok_or_else(|| StoreError::Broken("there are more steps than versions".to_owned()))
}

/// A new store says at once what it is.
async fn lay_down(engine: &dyn Engine, format: &Own<Format>, to: Format) -> Result<usize, StoreError> {
    if !engine.scan(b"", None, 1).await?.is_empty() {
        return Err(StoreError::Broken("it has records and does not say its version".to_owned()));
    }
    let changes = Changes {
        expect: vec![format.unchanged()],
        put: vec![format.next(&to)?],
        delete: Vec::new(),
        ..Changes::default()
    };
    commit(engine, changes).await.map(|()| 0)
}

/// Nobody else may write to the store meanwhile; two programs that migrate one store at once get in each other's way, and
/// the one that loses stops.
async fn commit(engine: &dyn Engine, changes: Changes) -> Result<(), StoreError> {
    match engine.commit(changes).await? {
        Outcome::Committed => Ok(()),
        Outcome::Conflict => Err(StoreError::Contended),
    }
}

/// A record that the store keeps about itself, as it was read.
struct Own<T> {
    key: Key,
    bytes: Option<Value>,
    value: Option<T>,
}

impl<T: Serialize + DeserializeOwned> Own<T> {
    async fn read(engine: &dyn Engine, key: Key) -> Result<Self, StoreError> {
        let bytes = engine.get(&key).await?;
        let value = match bytes.as_deref().map(<[u8]>::split_first) {
            Some(Some((&OWN_VERSION, json))) => serde_json::from_slice(json).ok(),
            None | Some(_) => None,
        };
        if value.is_none() && bytes.is_some() {
            return Err(StoreError::Broken("what it says about its version cannot be read".to_owned()));
        }
        Ok(Self { key, bytes, value })
    }

    fn unchanged(&self) -> Expect {
        match &self.bytes {
            Some(bytes) => Expect::Value(self.key.clone(), bytes.clone()),
            None => Expect::Absent(self.key.clone()),
        }
    }

    fn next(&self, value: &T) -> Result<(Key, Value), StoreError> {
        let mut bytes = vec![OWN_VERSION];
        serde_json::to_writer(&mut bytes, value).map_err(|error| StoreError::Broken(error.to_string()))?;
        Ok((self.key.clone(), bytes))
    }

    fn was_written(&mut self, bytes: Value, value: T) {
        (self.bytes, self.value) = (Some(bytes), Some(value));
    }
}

/// What is to be done to which records.
struct Migration<'s> {
    steps: &'s [MigrationStep],
    from: Format,
    to: Format,
    /// In the order of their keys.
    tables: Vec<Table>,
}

impl<'s> Migration<'s> {
    fn new(steps: &'s [MigrationStep], from: Format, to: Format) -> Self {
        let missing = steps.iter().skip(usize::try_from(from).unwrap_or(usize::MAX).saturating_sub(1));
        let mut tables: Vec<Table> = missing.map(|step| step.table).collect();
        tables.sort_by_key(|table| *table as u8);
        tables.dedup();
        Self { steps, from, to, tables }
    }

    /// The record as the steps leave it; `None` when it is so already.
    fn rewrite(&self, table: Table, key: &[u8], bytes: &[u8]) -> Result<Option<Value>, StoreError> {
        if *key == table::format() || *key == table::migration() {
            return Ok(None);
        }
        let refuse = |reason| StoreError::Unmigratable {
            table: table.name(),
            key: hash(key),
            from: self.from,
            to: self.to,
            reason,
        };
        let (&version, json) = bytes.split_first().ok_or_else(|| refuse("it is empty"))?;
        if version == 0 || Format::from(version) > self.to {
            return Err(refuse("its version is not known to this program"));
        }
        let mut steps = later(self.steps, table, version).peekable();
        if steps.peek().is_none() {
            return Ok(None);
        }
        let mut record: Json = serde_json::from_slice(json).map_err(|_| refuse("it is not JSON"))?;
        steps.try_for_each(|step| (step.change)(&mut record)).map_err(refuse)?;
        let mut changed = vec![version_after(self.steps)?];
        serde_json::to_writer(&mut changed, &record).map_err(|_| refuse("it cannot be written"))?;
        if changed.len() > MAX_VALUE_BYTES {
            return Err(refuse("it would become too large"));
        }
        Ok(Some(changed))
    }

    /// The changes of the first of these rows, as many as one commit takes, and the key of the last one of them.
    fn batch(&self, table: Table, rows: Vec<(Key, Value)>) -> Result<(Changes, Option<Key>), StoreError> {
        let (mut changes, mut size, mut last) = (Changes::default(), 0, None);
        for (key, bytes) in rows {
            if let Some(changed) = self.rewrite(table, &key, &bytes)? {
                size += bytes.len() + changed.len();
                changes.expect.push(Expect::Value(key.clone(), bytes));
                changes.put.push((key.clone(), changed));
            }
            last = Some(key);
            if size >= BATCH_BYTES {
                break;
            }
        }
        Ok((changes, last))
    }
}

/// A way through the records from the cursor on.
struct Pass<'e> {
    engine: &'e dyn Engine,
    migration: Migration<'e>,
    cursor: Own<Cursor>,
    watch: MigrationWatch<'e>,
}

impl Pass<'_> {
    /// The key up to which all is done.
    fn done(&self) -> Result<Option<Key>, StoreError> {
        let cursor = self.cursor.value.as_ref().filter(|cursor| cursor.to == self.migration.to);
        let after = cursor.and_then(|cursor| cursor.after.as_deref()).map(from_base64url);
        match after {
            Some(None) => Err(StoreError::Broken("what it says about its migration cannot be read".to_owned())),
            after => Ok(after.flatten()),
        }
    }

    /// Tries every record and writes none. Yields how many would change.
    async fn try_all(&self) -> Result<usize, StoreError> {
        let (mut records, mut after) = (0, self.done()?);
        for &table in &self.migration.tables {
            loop {
                let rows = self.engine.scan(&table::all(table), after.as_deref(), BATCH).await?;
                let (changes, Some(last)) = self.migration.batch(table, rows)? else { break };
                records += changes.put.len();
                after = Some(last);
                (self.watch)();
            }
        }
        Ok(records)
    }

    /// From here on the store has the new version.
    async fn begin(&mut self, format: &Own<Format>) -> Result<(), StoreError> {
        let Migration { from, to, .. } = self.migration;
        let cursor = Cursor { from, to, after: None };
        let (key, bytes) = self.cursor.next(&cursor)?;
        let changes = Changes {
            expect: vec![format.unchanged(), self.cursor.unchanged()],
            put: vec![format.next(&to)?, (key, bytes.clone())],
            ..Changes::default()
        };
        commit(self.engine, changes).await?;
        self.cursor.was_written(bytes, cursor);
        Ok(())
    }

    async fn write_all(&mut self, of: usize) -> Result<usize, StoreError> {
        let (mut migrated, mut after, mut reported) = (0, self.done()?, Instant::now());
        for table in self.migration.tables.clone() {
            loop {
                let rows = self.engine.scan(&table::all(table), after.as_deref(), BATCH).await?;
                let (changes, Some(last)) = self.migration.batch(table, rows)? else { break };
                migrated += changes.put.len();
                if !changes.put.is_empty() {
                    self.write(changes, &last).await?;
                }
                after = Some(last);
                (self.watch)();
                if reported.elapsed() > REPORT_EVERY {
                    tracing::info!(migrated, of, "migrating the store");
                    reported = Instant::now();
                }
            }
        }
        let delete = vec![self.cursor.key.clone()];
        commit(
            self.engine,
            Changes { expect: vec![self.cursor.unchanged()], put: Vec::new(), delete, ..Changes::default() },
        )
        .await?;
        Ok(migrated)
    }

    /// Writes a batch, and in the same commit that all is done up to `last`.
    async fn write(&mut self, mut changes: Changes, last: &[u8]) -> Result<(), StoreError> {
        let Migration { from, to, .. } = self.migration;
        let cursor = Cursor { from, to, after: Some(base64url(last)) };
        let (key, bytes) = self.cursor.next(&cursor)?;
        changes.expect.push(self.cursor.unchanged());
        changes.put.push((key, bytes.clone()));
        commit(self.engine, changes).await?;
        self.cursor.was_written(bytes, cursor);
        Ok(())
    }
}

/// What a log may say of a key: enough to find it by, and nothing that opens anything.
fn hash(key: &[u8]) -> String {
    base64url(&Sha256::digest(key)[..12])
}

/// Gives an object a member, unless it has it.
fn add(record: &mut Json, name: &str, value: Json) -> Result<(), &'static str> {
    let object = record.as_object_mut().ok_or("it is not an object")?;
    object.entry(name).or_insert(value);
    Ok(())
}

/// Takes a member from an object, if it has it.
fn take(record: &mut Json, name: &str) -> Result<(), &'static str> {
    let object = record.as_object_mut().ok_or("it is not an object")?;
    object.remove(name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_older_record_of_an_export_gets_the_steps_that_it_lacks() {
        let mut record = json!({ "app": "wiki" });
        bring_up(Table::SignInAttempt, 1, &mut record).unwrap();
        assert_eq!(record, json!({ "app": "wiki", "acr": [] }));
        let mut session = json!({ "id": "x", "previous_cookie": ["hash", 7] });
        bring_up(Table::Session, 1, &mut session).unwrap();
        assert_eq!(session, json!({ "id": "x" }));
        let mut record = json!({ "app": "wiki" });
        bring_up(Table::Grant, 1, &mut record).unwrap();
        assert_eq!(record, json!({ "app": "wiki" }));
        assert!(bring_up(Table::SignInAttempt, 1, &mut json!(7)).is_err());
        for unknown in [0, VERSION + 1] {
            assert!(bring_up(Table::Grant, unknown, &mut json!({})).is_err());
        }
    }

    #[test]
    fn a_table_is_readable_from_its_last_step_on() {
        for table in Table::ALL {
            let last = STEPS.iter().rposition(|step| step.table == table);
            assert_eq!(usize::from(oldest_readable(table)), last.map_or(1, |at| at + 2), "{}", table.name());
        }
    }
}
