//! The versions of records. A record keeps the version that it was written in until it is next written: whoever reads one of
//! an older version takes it through the steps that it lacks ([`missing`]), and writes today's. So a start takes as long
//! with a million records as with ten, and two versions of the program can read one store.
//!
//! What the store says of itself, its format, is the newest version that a record in it may have. A step belongs here only
//! where an older program would misread or lose something; a store that such a program must not open says so from the moment
//! that this one opens it. An index that is new starts empty: a step changes a record and writes no other, so an index that
//! older records belong in needs another way to find them.

use serde_json::{Map, Value as Json};

use crate::store::table::Table;

/// Changes a record of the version before, or says in a few words why it cannot. Pure. The words go to the log, so nothing
/// of the record may stand in them.
pub(super) type RecordChange = fn(&mut Json) -> Result<(), &'static str>;

/// The difference between one version and the next.
enum VersionStep {
    Change(&'static [Table], RecordChange),
    /// No record changes, and an older program must not open the store.
    RefuseOlder,
}

/// All differences so far: the first one leads from version 1 to version 2. Only ever append.
const STEPS: &[VersionStep] = &[
    // A sign-in of the gate came to say which context classes would do. Where it says nothing, any did.
    VersionStep::Change(&[Table::SignInAttempt], |record| {
        members(record)?.entry("acr").or_insert_with(|| Json::Array(Vec::new()));
        Ok(())
    }),
    // A replaced cookie came to be kept with the sign-in that it stands for. One without it was good for half a minute.
    VersionStep::Change(&[Table::Session], |record| {
        members(record)?.remove("previous_cookie");
        Ok(())
    }),
    // People came to have usernames, with an index that an older program does not keep: it would lose the names.
    VersionStep::RefuseOlder,
    // Older records came to stay as they are. An older program rewrote all when it opened the store, and reads none later.
    VersionStep::RefuseOlder,
    // A step of a sign-in came to have a time of its own, and a replaced cookie to stand for nothing. People came to have
    // factors, for which an older program would not ask.
    VersionStep::Change(&[Table::Session, Table::AppSession, Table::Code], |record| {
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

/// The version that records are written in.
#[expect(clippy::cast_possible_truncation, reason = "asserted below, when the program is built")]
pub(super) const VERSION: u8 = STEPS.len() as u8 + 1;
const _: () = assert!(STEPS.len() < u8::MAX as usize, "a record's version is one byte");

/// What a record of this table and version has to go through to be one of [`VERSION`]; nothing where it is one.
///
/// # Errors
/// Why this program cannot read it.
pub(super) fn missing(table: Table, version: u8) -> Result<Vec<RecordChange>, &'static str> {
    if version == 0 || version > VERSION {
        return Err("its version is not known to this program: use the one that wrote it, or a newer one");
    }
    let since = STEPS.iter().skip(usize::from(version) - 1);
    let of_table = since.filter_map(|step| match step {
        VersionStep::Change(of, change) if of.contains(&table) => Some(*change),
        _ => None,
    });
    Ok(of_table.collect())
}

fn members(record: &mut Json) -> Result<&mut Map<String, Json>, &'static str> {
    record.as_object_mut().ok_or("it is not an object")
}
