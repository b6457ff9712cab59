//! The program with an additional store format, in which some records differ.
//!
//! The test of rolling upgrades (`tests/blackbox/rolling.rs`) runs it together with nodes of the current
//! version.

use sealgate_store::{Table, VersionStep, add_step};
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Member of these records that the next version removes.
const MEMBER: &str = "until_format_8";

/// `Meta` includes the key times and leases.
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
