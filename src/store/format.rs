//! Versions of records, and the format of a store, which is the newest version of its records.
//!
//! A record keeps its version until it is written again. A reader converts an older record with the
//! [`missing`] steps, and a writer uses the current version. Therefore the number of records does
//! not affect the duration of startup, and two versions of the program can read the same store.
//!
//! A step is added here only if an older program would misread or lose data. Opening a store raises
//! its format, so that older programs refuse the store. A step changes only the record itself, and
//! cannot write other records. Therefore a new index starts empty, and other code must add the
//! older records to the index.
//!
//! Nodes that share a store write records in the store's format. It may be older than the newest
//! format that the nodes support, because nodes of the previous version must be able to read the
//! records. Therefore each step from [`OLDEST_SERVED`] on can be reversed. Data that
//! [`VersionStep::RefuseOlder`] protects is not written before the store has the format of that
//! step.

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
    /// [`StoreError::Newer`], or the store's error.
    pub(super) async fn format(&self) -> Result<Option<Loaded<u32>>, StoreError> {
        let known = u32::from(newest());
        match self.load::<u32>(table::format()).await? {
            Some(Loaded { value: format, .. }) if format > known => Err(StoreError::Newer { format, known }),
            format => Ok(format),
        }
    }

    /// Returns the newest version that a record in this store may have.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or the store's error.
    pub async fn newest_format(&self) -> Result<u32, StoreError> {
        let format = self.format().await?;
        Ok(format.map_or_else(|| newest().into(), |format| format.value))
    }

    /// Ensures that the store has a format, before anything else is written.
    ///
    /// # Errors
    /// [`StoreError::Newer`] if nothing may be written, or the store's error.
    pub(super) async fn settle_format(&self) -> Result<(), StoreError> {
        match self.engine.format() {
            FormatRule::Own => self.raise_format().await,
            FormatRule::Shared(None) => Ok(self.engine.begin_format().await?),
            FormatRule::Shared(Some(_)) => Ok(()),
        }
    }

    /// Raises the store's format to the newest format of this program, so that older programs
    /// refuse the store.
    ///
    /// # Errors
    /// [`StoreError::Newer`] if nothing may be written, or the store's error.
    async fn raise_format(&self) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let format = self.format().await?;
            let expect = match &format {
                Some(format) if format.value == u32::from(newest()) => return Ok(()),
                Some(format) => format.unchanged(),
                None if self.engine.scan(b"", None, 1).await?.is_empty() => Expect::Absent(table::format()),
                // Another node may have written the format in the meantime.
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

/// Converts a record from the previous version, or returns the reason why that is impossible.
///
/// The reason is logged, so it must not contain data of the record.
pub type RecordChange = fn(&mut Json) -> Result<(), &'static str>;

/// Difference between two consecutive versions.
#[derive(Debug, Clone, Copy)]
pub enum VersionStep {
    /// Conversion that cannot be reversed, from the time before stores were shared.
    Forth(&'static [Table], RecordChange),
    /// Conversion with its reverse. `back` returns an error if the previous version cannot
    /// represent the record.
    Change { of: &'static [Table], forth: RecordChange, back: RecordChange },
    /// No record changes, but older programs must not open the store.
    RefuseOlder,
}

/// All differences between consecutive versions. The first difference is between version 1 and
/// version 2. New differences must be appended.
const STEPS: &[VersionStep] = &[
    // Sign-ins at the gateway got required context classes. Older sign-ins accept any class.
    VersionStep::Forth(&[Table::SignInAttempt], |record| {
        members(record)?.entry("acr").or_insert_with(|| Json::Array(Vec::new()));
        Ok(())
    }),
    // Replaced cookies got the sign-in that they belong to. Older replaced cookies are dropped,
    // because they were valid for only half a minute.
    VersionStep::Forth(&[Table::Session], |record| {
        members(record)?.remove("previous_cookie");
        Ok(())
    }),
    // Users got usernames, with an index that an older program would not maintain.
    VersionStep::RefuseOlder,
    // Opening a store no longer converts older records, but older programs rely on that conversion.
    VersionStep::RefuseOlder,
    // Each step of a sign-in got its own time, and replaced cookies lost their sign-in. Users got
    // second factors, which an older program would not require.
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
    // E-mails are queued in tables that an older program does not know, so it would not send them.
    VersionStep::RefuseOlder,
];

fn date_steps(sign_in: &mut Json) -> Result<(), &'static str> {
    let sign_in = members(sign_in)?;
    let at = sign_in.remove("at").ok_or("a sign-in without a time")?;
    // Passwords were the only method.
    sign_in.insert("steps".to_owned(), serde_json::json!([{ "method": "password", "at": at }]));
    Ok(())
}

/// Newest version without [`add_step`].
#[expect(clippy::cast_possible_truncation, reason = "asserted below, when the program is built")]
const LAST: u8 = STEPS.len() as u8 + 1;
// Leave one version for `add_step`.
const _: () = assert!(STEPS.len() < u8::MAX as usize - 1, "a record's version is one byte");

/// Oldest format of a shared store that this program can write.
///
/// Nodes are upgraded one after another, so this format must be older than the newest format. 7 is
/// the first format of shared stores.
const OLDEST_SERVED: u8 = 7;
const _: () = assert!(OLDEST_SERVED == 7 || OLDEST_SERVED < LAST, "nodes are upgraded one after another");

/// Additional step for tests.
static ADDED: OnceLock<VersionStep> = OnceLock::new();

/// Adds a step, so that this process behaves like the next version of the program. Only for test
/// programs, at startup.
pub fn add_step(step: VersionStep) {
    let _ = ADDED.set(step);
}

fn steps() -> impl Iterator<Item = &'static VersionStep> {
    STEPS.iter().chain(ADDED.get())
}

/// Returns the newest version of records that this program supports. The program writes this
/// version, unless nodes share the store.
pub(super) fn newest() -> u8 {
    LAST + u8::from(ADDED.get().is_some())
}

/// Formats of a shared store that a program supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatRange {
    /// Oldest format.
    pub from: u32,
    /// Newest format.
    pub to: u32,
}

impl FormatRange {
    /// Returns the formats in which this program can read all records, and write records that other
    /// nodes can read.
    pub(super) fn served() -> Self {
        Self { from: OLDEST_SERVED.into(), to: newest().into() }
    }

    /// Returns the reason why a program with this range cannot serve a store in this format.
    pub(super) fn fault(self, format: u32) -> Option<String> {
        let Self { from, to } = self;
        if format > to {
            return Some(newer(format, to));
        }
        (format < from).then(|| {
            format!(
                "the store has format {format}, and this version serves {from} to {to} in a cluster; start \
                 the previous version on all nodes and run its `sealgate store upgrade` first"
            )
        })
    }
}

/// Returns the error text for a store that a newer program has written.
pub(super) fn newer(format: u32, known: u32) -> String {
    format!(
        "the store has format {format}, and this version reads up to {known}; use the version of sealgate \
         that wrote it, or a newer one"
    )
}

/// Version of the format record itself. It never changes, so that older programs can read the
/// format.
const VERSION_OF_FORMAT: u8 = 1;

/// Encodes the format record.
pub(super) fn format_record(format: u32) -> Vec<u8> {
    [&[VERSION_OF_FORMAT], format.to_string().as_bytes()].concat()
}

/// Decodes the format record. Returns `None` if it is unreadable.
pub(super) fn format_of(record: &[u8]) -> Option<u32> {
    let (&version, json) = record.split_first()?;
    serde_json::from_slice(json).ok().filter(|_| version == VERSION_OF_FORMAT)
}

/// Returns the conversions of a table's records from this version to [`newest`], in order.
///
/// # Errors
/// Returns the reason why this program cannot read the record.
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

/// Returns the conversions of a table's records from [`newest`] back to an older version, in order.
///
/// # Errors
/// Returns an error if the version is too old to be written.
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
