//! The versions of records. A record keeps the version that it was written in until it is next written: whoever reads one of
//! an older version takes it through the steps that it lacks ([`missing`]), and writes today's. So a start takes as long
//! with a million records as with ten, and two versions of the program can read one store.
//!
//! What the store says of itself, its format, is the newest version that a record in it may have. A step belongs here only
//! where an older program would misread or lose something; a store that such a program must not open says so from the moment
//! that this one opens it. An index that is new starts empty: a step changes a record and writes no other, so an index that
//! older records belong in needs another way to find them.
//!
//! On a store that several nodes share a program writes the store's format, which may be one below its own newest: beside it
//! may run the program before it, which reads no newer one. So each step from [`OLDEST_SERVED`] on has its way back, and what
//! [`VersionStep::RefuseOlder`] is about is not written before the store has that format.

use std::sync::OnceLock;

use serde_json::{Map, Value as Json};

use crate::store::table::Table;

/// Changes a record of the version before, or says in a few words why it cannot. Pure. The words go to the log, so nothing
/// of the record may stand in them.
pub type RecordChange = fn(&mut Json) -> Result<(), &'static str>;

/// The difference between one version and the next.
#[derive(Debug, Clone, Copy)]
pub enum VersionStep {
    /// From a time when no store was shared: there is no way back.
    Forth(&'static [Table], RecordChange),
    /// `back` makes of a record what `forth` made it of, or refuses one that the version before cannot hold.
    Change { of: &'static [Table], forth: RecordChange, back: RecordChange },
    /// No record changes, and an older program must not open the store.
    RefuseOlder,
}

/// All differences so far: the first one leads from version 1 to version 2. Only ever append.
const STEPS: &[VersionStep] = &[
    // A sign-in of the gate came to say which context classes would do. Where it says nothing, any did.
    VersionStep::Forth(&[Table::SignInAttempt], |record| {
        members(record)?.entry("acr").or_insert_with(|| Json::Array(Vec::new()));
        Ok(())
    }),
    // A replaced cookie came to be kept with the sign-in that it stands for. One without it was good for half a minute.
    VersionStep::Forth(&[Table::Session], |record| {
        members(record)?.remove("previous_cookie");
        Ok(())
    }),
    // People came to have usernames, with an index that an older program does not keep: it would lose the names.
    VersionStep::RefuseOlder,
    // Older records came to stay as they are. An older program rewrote all when it opened the store, and reads none later.
    VersionStep::RefuseOlder,
    // A step of a sign-in came to have a time of its own, and a replaced cookie to stand for nothing. People came to have
    // factors, for which an older program would not ask.
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
    // Mails came to wait in the store. An older program would never send them, and knows none of their tables.
    VersionStep::RefuseOlder,
];

fn date_steps(sign_in: &mut Json) -> Result<(), &'static str> {
    let sign_in = members(sign_in)?;
    let at = sign_in.remove("at").ok_or("a sign-in without a time")?;
    // There was one method.
    sign_in.insert("steps".to_owned(), serde_json::json!([{ "method": "password", "at": at }]));
    Ok(())
}

/// Today's version.
#[expect(clippy::cast_possible_truncation, reason = "asserted below, when the program is built")]
const LAST: u8 = STEPS.len() as u8 + 1;
// With room for the one of `add_step`.
const _: () = assert!(STEPS.len() < u8::MAX as usize - 1, "a record's version is one byte");

/// The oldest format of a shared store that this program serves: it can write it. At least the one before the last, from the
/// first that a shared store had: 7.
const OLDEST_SERVED: u8 = 7;
const _: () = assert!(OLDEST_SERVED == 7 || OLDEST_SERVED < LAST, "nodes are replaced one after another");

/// One more than the program has.
static ADDED: OnceLock<VersionStep> = OnceLock::new();

/// Makes this process one of the next version, which differs by this step. Of a program for tests, before all else: the program
/// itself never does.
pub fn add_step(step: VersionStep) {
    let _ = ADDED.set(step);
}

fn steps() -> impl Iterator<Item = &'static VersionStep> {
    STEPS.iter().chain(ADDED.get())
}

/// The newest version of records, as this program writes them where it decides alone.
pub(super) fn newest() -> u8 {
    LAST + u8::from(ADDED.get().is_some())
}

/// Formats of a store that several nodes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatRange {
    pub from: u32,
    pub to: u32,
}

impl FormatRange {
    /// Those that this program serves: it reads all that is in such a store, and what it writes is read by all who serve it.
    pub(super) fn served() -> Self {
        Self { from: OLDEST_SERVED.into(), to: newest().into() }
    }

    /// Why a program that serves these does not serve a store of this format.
    pub(super) fn fault(self, found: u32) -> Option<String> {
        let Self { from, to } = self;
        if found > to {
            return Some(newer(found, to));
        }
        (found < from).then(|| {
            format!(
                "the store has format {found}, this program serves {from} to {to} in a fleet: start the version before \
                 it on all nodes first, and run its sealgate store upgrade"
            )
        })
    }
}

/// What is said of a store that a newer program has taken up.
pub(super) fn newer(found: u32, known: u32) -> String {
    format!("the store has format {found}, this program knows {known}: use the program that wrote it, or a newer one")
}

/// What the store says of its format has this version for ever: an older program must be able to read that it is too old.
const VERSION_OF_FORMAT: u8 = 1;

/// The record by which a store says that it has this format.
pub(super) fn format_record(format: u32) -> Vec<u8> {
    [&[VERSION_OF_FORMAT], format.to_string().as_bytes()].concat()
}

/// What such a record says; none where it cannot be read.
pub(super) fn format_of(record: &[u8]) -> Option<u32> {
    let (&version, json) = record.split_first()?;
    serde_json::from_slice(json).ok().filter(|_| version == VERSION_OF_FORMAT)
}

/// What a record of this table and version has to go through to be one of [`newest`]; nothing where it is one.
///
/// # Errors
/// Why this program cannot read it.
pub(super) fn missing(table: Table, version: u8) -> Result<Vec<RecordChange>, &'static str> {
    if version == 0 || version > newest() {
        return Err("its version is not known to this program: use the one that wrote it, or a newer one");
    }
    let of_table = steps().skip(usize::from(version) - 1).filter_map(|step| match step {
        VersionStep::Forth(of, forth) | VersionStep::Change { of, forth, .. } if of.contains(&table) => Some(*forth),
        _ => None,
    });
    Ok(of_table.collect())
}

/// What a record of this table and of [`newest`] has to go through to be one of an older version, in this order.
///
/// # Errors
/// There is no way back so far.
pub(super) fn back(table: Table, version: u8) -> Result<Vec<RecordChange>, &'static str> {
    if version < OLDEST_SERVED {
        return Err("this program does not write so old a format");
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
    record.as_object_mut().ok_or("it is not an object")
}
