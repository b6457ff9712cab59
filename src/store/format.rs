//! The store's format: the newest version that a record in it may have.
//!
//! Versions of records.
//!
//! A record keeps its version until it is next written. A reader converts an older record through
//! the missing steps ([`missing`]); a writer stores the current version. So the duration of a start
//! does not depend on the number of records, and two versions of the program can read one store.
//!
//! The store's format is the newest version that a record in it may have. A step belongs here only
//! if an older program would misread or lose data. Opening a store marks it, so that such a program
//! refuses it. A new index starts empty: a step changes a record and writes no other. If older
//! records belong in the index, they need another way to get there.
//!
//! On a store shared by several nodes, a program writes the store's format, which may be one below
//! its own newest: nodes of the previous version may run concurrently and cannot read a newer one.
//! So each step from [`OLDEST_SERVED`] on can be reversed, and data that
//! [`VersionStep::RefuseOlder`] protects is not written before the store has that format.

pub(crate) mod intake;
pub(crate) mod record;
pub(crate) mod restored;
pub(crate) mod table;
pub(crate) mod transfer;

use std::sync::OnceLock;

use serde_json::{Map, Value as Json};

use crate::engine::{Changes, Expect, FormatRule};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};

impl Store {
    /// Loads the store's format.
    ///
    /// # Errors
    /// [`StoreError::Newer`]; when the store fails.
    pub(super) async fn format(&self) -> Result<Option<Loaded<u32>>, StoreError> {
        let known = u32::from(newest());
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
        Ok(format.map_or_else(|| newest().into(), |format| format.value))
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
                Some(format) if format.value == u32::from(newest()) => return Ok(()),
                Some(format) => format.unchanged(),
                None if self.engine.scan(b"", None, 1).await?.is_empty() => Expect::Absent(table::format()),
                // Another node may have written it since.
                None if self.format().await?.is_some() => continue,
                None => return Err(StoreError::Broken("it has records, but no format version".to_owned())),
            };
            let value = format_record(newest().into());
            let changes = Changes { expect: vec![expect], put: vec![(table::format(), value)], ..Changes::default() };
            if self.commit(changes).await? == Committed::Yes {
                if let Some(Loaded { value: from, .. }) = format {
                    tracing::info!(
                        from,
                        to = newest(),
                        "the store was upgraded to a newer format; older versions of sealgate refuse it"
                    );
                }
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }
}

/// Converts a record from the previous version, or returns a short reason why it cannot. Pure.
///
/// The reason is logged, so it must not contain the record's data.
pub type RecordChange = fn(&mut Json) -> Result<(), &'static str>;

/// A difference between consecutive versions.
#[derive(Debug, Clone, Copy)]
pub enum VersionStep {
    /// From before stores were shared: it cannot be reversed.
    Forth(&'static [Table], RecordChange),
    /// `back` reverses `forth`, or rejects a record that the previous version cannot represent.
    Change { of: &'static [Table], forth: RecordChange, back: RecordChange },
    /// No record changes, but an older program must not open the store.
    RefuseOlder,
}

/// All differences: the first one leads from version 1 to version 2. Only ever append.
const STEPS: &[VersionStep] = &[
    // The gate's sign-ins got required context classes. If absent, any was accepted.
    VersionStep::Forth(&[Table::SignInAttempt], |record| {
        members(record)?.entry("acr").or_insert_with(|| Json::Array(Vec::new()));
        Ok(())
    }),
    // A replaced cookie was stored with its sign-in. Without one it was valid for half a minute.
    VersionStep::Forth(&[Table::Session], |record| {
        members(record)?.remove("previous_cookie");
        Ok(())
    }),
    // Users got usernames, with an index that an older program does not maintain: it would lose the
    // names.
    VersionStep::RefuseOlder,
    // Older records are no longer rewritten. An older program rewrote all on opening, and reads
    // none later.
    VersionStep::RefuseOlder,
    // Each step of a sign-in got its own time, and replaced cookies no longer carry a sign-in.
    // Users got factors, which an older program would not require.
    VersionStep::Forth(&[Table::Session, Table::AppSession, Table::Code], |record| {
        let record = members(record)?;
        if let Some(previous) = record.get_mut("previous").and_then(Json::as_object_mut) {
            previous.remove("sign_in");
        }
        if let Some(several) = record.get_mut("sign_ins").and_then(Json::as_array_mut) {
            return several.iter_mut().try_for_each(date_steps);
        }
        record.get_mut("sign_in").map_or(Ok(()), date_steps)
    }),
    // E-mails are queued in the store. An older program would never send them and lacks their
    // tables.
    VersionStep::RefuseOlder,
];

fn date_steps(sign_in: &mut Json) -> Result<(), &'static str> {
    let sign_in = members(sign_in)?;
    let at = sign_in.remove("at").ok_or("a sign-in without a time")?;
    // There was one method.
    sign_in.insert("steps".to_owned(), serde_json::json!([{ "method": "password", "at": at }]));
    Ok(())
}

/// The current version.
#[expect(clippy::cast_possible_truncation, reason = "asserted below, when the program is built")]
const LAST: u8 = STEPS.len() as u8 + 1;
// Leaves room for `add_step`.
const _: () = assert!(STEPS.len() < u8::MAX as usize - 1, "a record's version is one byte");

/// Oldest format of a shared store that this program can write.
///
/// At least the format before the current one, starting with 7, the first one of a shared store.
const OLDEST_SERVED: u8 = 7;
const _: () = assert!(OLDEST_SERVED == 7 || OLDEST_SERVED < LAST, "nodes are upgraded one after another");

/// An additional step, for tests.
static ADDED: OnceLock<VersionStep> = OnceLock::new();

/// Adds a step, which makes this process one of the next version. Only for test programs, at their
/// start.
pub fn add_step(step: VersionStep) {
    let _ = ADDED.set(step);
}

fn steps() -> impl Iterator<Item = &'static VersionStep> {
    STEPS.iter().chain(ADDED.get())
}

/// Returns the newest version of records, as written if this program decides alone.
pub(super) fn newest() -> u8 {
    LAST + u8::from(ADDED.get().is_some())
}

/// Supported formats of a shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatRange {
    pub from: u32,
    pub to: u32,
}

impl FormatRange {
    /// Returns the formats that this program serves: it reads all of their records, and every other
    /// node reads its own.
    pub(super) fn served() -> Self {
        Self { from: OLDEST_SERVED.into(), to: newest().into() }
    }

    /// Returns why a program with this range does not serve a store of this format.
    pub(super) fn fault(self, found: u32) -> Option<String> {
        let Self { from, to } = self;
        if found > to {
            return Some(newer(found, to));
        }
        (found < from).then(|| {
            format!(
                "the store has format {found}, and this version serves {from} to {to} in a cluster; start \
                 the previous version on all nodes and run its `sealgate store upgrade` first"
            )
        })
    }
}

/// Returns the error for a store used by a newer program.
pub(super) fn newer(found: u32, known: u32) -> String {
    format!(
        "the store has format {found}, and this version reads up to {known}; use the version of sealgate \
         that wrote it, or a newer one"
    )
}

/// Fixed version of the format record: an older program must be able to read that it is too old.
const VERSION_OF_FORMAT: u8 = 1;

/// Encodes the format record.
pub(super) fn format_record(format: u32) -> Vec<u8> {
    [&[VERSION_OF_FORMAT], format.to_string().as_bytes()].concat()
}

/// Decodes a format record; `None` if it is unreadable.
pub(super) fn format_of(record: &[u8]) -> Option<u32> {
    let (&version, json) = record.split_first()?;
    serde_json::from_slice(json).ok().filter(|_| version == VERSION_OF_FORMAT)
}

/// Returns the conversions from this version of a table's record to [`newest`], in order.
///
/// # Errors
/// Why this program cannot read it.
pub(super) fn missing(table: Table, version: u8) -> Result<Vec<RecordChange>, &'static str> {
    if version == 0 || version > newest() {
        return Err("this version cannot read its format; use the version of sealgate that wrote it, or a newer one");
    }
    let of_table = steps().skip(usize::from(version) - 1).filter_map(|step| match step {
        VersionStep::Forth(of, forth) | VersionStep::Change { of, forth, .. } if of.contains(&table) => Some(*forth),
        _ => None,
    });
    Ok(of_table.collect())
}

/// Returns the conversions from [`newest`] back to an older version, in order.
///
/// # Errors
/// The format is too old to be written.
pub(super) fn back(table: Table, version: u8) -> Result<Vec<RecordChange>, &'static str> {
    if version < OLDEST_SERVED {
        return Err("this version cannot write a format this old");
    }
    let of_table = steps().skip(usize::from(version) - 1).filter_map(|step| match step {
        VersionStep::Change { of, back, .. } if of.contains(&table) => Some(*back),
        _ => None,
    });
    let mut changes: Vec<_> = of_table.collect();
    changes.reverse();
    Ok(changes)
}

fn members(record: &mut Json) -> Result<&mut Map<String, Json>, &'static str> {
    record.as_object_mut().ok_or("it is not a JSON object")
}
