//! The program as it could be one version later: its store has one format more, in which some records are other than now. Nodes
//! of both are run side by side by a test of a rolling upgrade (`tests/blackbox/rolling.rs`).

use sealgate::facade::store::{Table, VersionStep, add_step};
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the version of now has in these records, and the next one no more.
const MEMBER: &str = "until_format_8";

/// Among the records about the store are keys' times and leases.
const TABLES: &[Table] = &[Table::Grant, Table::Session, Table::Code, Table::AppSession, Table::Client, Table::Meta];

#[expect(clippy::unnecessary_wraps, reason = "other steps refuse some records")]
fn forth(record: &mut Value) -> Result<(), &'static str> {
    if let Some(members) = record.as_object_mut() {
        members.remove(MEMBER);
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "other steps refuse some records")]
fn back(record: &mut Value) -> Result<(), &'static str> {
    if let Some(members) = record.as_object_mut() {
        members.insert(MEMBER.to_owned(), Value::Null);
    }
    Ok(())
}

fn main() {
    add_step(VersionStep::Change { of: TABLES, forth, back });
    sealgate::main();
}
