//! The command that reads the audit log, and the CSV form of the log (RFC 4180).
//!
//! The columns are the members of `sealgate audit list --json`. The console exports the same
//! format.

use std::borrow::Cow;
use std::io;
use std::io::Write;

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::answer::{Answer, EventAnswer, ListPage, Rows};
use crate::command::{AuditCommand, EventFilter};
use crate::context::{CommandContext, CommandError, PAGE, cursor};
use crate::csv_cells::write_fields;
use crate::users;
use crate::users::UserRef;
use sealgate_domain::audit::{AuditFilter, AuditId};

pub(super) async fn execute(context: &CommandContext<'_>, command: AuditCommand) -> Result<Answer, CommandError> {
    let AuditCommand { filter: EventFilter { user, client, kinds, since, until, address }, limit, after } = command;
    let subject = match &user {
        // A deleted user is still in the audit log.
        Some(UserRef::Sub(sub)) => Some(*sub),
        Some(user) => Some(users::find(context, user).await?.sub),
        None => None,
    };
    let filter = AuditFilter { subject, client, kinds, since, until, address };
    let after = cursor(after.as_deref(), AuditId::parse)?;
    context.trail.store_pending(filter.subject).await;
    let page = context.store.audit_page(&filter, after, limit.clamp(1, PAGE)).await?;
    Ok(ListPage::answer(Rows::Events(page.records.into_iter().map(EventAnswer::from).collect()), page.next))
}

/// Writes an event as a line of JSON, as in `sealgate audit list --json`.
pub fn write_line(to: &mut impl Write, event: &EventAnswer) -> io::Result<()> {
    writeln!(to, "{}", json!(event))
}

/// Writes the header line with the names of the columns.
pub fn write_header(to: &mut impl Write) -> io::Result<()> {
    write_fields(to, COLUMNS.into_iter().map(Cow::Borrowed))
}

/// Writes an event as a line of CSV.
pub fn write_row(to: &mut impl Write, event: &EventAnswer) -> io::Result<()> {
    let event = json!(event);
    write_fields(to, COLUMNS.into_iter().map(|column| cell(column, &event)))
}

const COLUMNS: [&str; 13] = [
    "id",
    "happened_at",
    "kind",
    "actor",
    "sub",
    "client_id",
    "app",
    "sid",
    "grant",
    "address",
    "request_id",
    "detail",
    "count",
];

fn cell<'e>(column: &str, event: &'e Value) -> Cow<'e, str> {
    match event.get(column) {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(Value::Number(seconds)) if column == "happened_at" => {
            let instant = seconds.as_i64().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
            Cow::Owned(instant.map_or_else(String::new, |at| at.to_rfc3339_opts(SecondsFormat::Secs, true)))
        }
        Some(other) => Cow::Owned(other.to_string()),
    }
}
