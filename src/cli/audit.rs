//! `sealgate audit`.

use chrono::{DateTime, NaiveDate, NaiveTime};
use clap::Args;
use serde_json::Value;

use super::access::Access;
use super::arguments;
use super::failure::Failure;
use super::output::Output;
use crate::admin::command::{AuditCommand, Command, Person};
use crate::protocol::audit::{AuditId, AuditKind};
use crate::protocol::client::ClientId;
use crate::protocol::time::UnixTime;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// About this person
    #[arg(long, value_name = "SUB|EMAIL|USERNAME", value_parser = arguments::person)]
    user: Option<Person>,
    /// With or about this client
    #[arg(long, value_name = "ID", value_parser = arguments::client_id, allow_hyphen_values = true)]
    client: Option<ClientId>,
    /// Of this kind, such as `sign_in_failed`; can be repeated
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<AuditKind>,
    /// From this day or instant on, such as 2026-11-21 or 2026-11-21T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = instant)]
    since: Option<UnixTime>,
    /// Before this day or instant
    #[arg(long, value_name = "TIME", value_parser = instant)]
    until: Option<UnixTime>,
    /// Events at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
}

fn kind(text: &str) -> Result<AuditKind, String> {
    AuditKind::parse(text).ok_or_else(|| {
        let known: Vec<_> = AuditKind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("the kinds are {}", known.join(", "))
    })
}

/// A day in UTC, or an instant (RFC 3339).
fn instant(text: &str) -> Result<UnixTime, &'static str> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    let instant = day.or_else(|| DateTime::parse_from_rfc3339(text).ok().map(Into::into));
    let seconds = instant.and_then(|instant| u64::try_from(instant.timestamp()).ok());
    seconds.map(UnixTime::from_seconds).ok_or("write a day, 2026-11-21, or an instant, 2026-11-21T08:00:00Z")
}

pub(super) fn run(arguments: &Arguments, access: &mut Access, output: &Output) -> Result<(), Failure> {
    let (mut events, mut after) = (Vec::new(), None);
    while events.len() < arguments.limit {
        let command = AuditCommand {
            person: arguments.user.clone(),
            client: arguments.client.clone(),
            kinds: arguments.kind.clone(),
            since: arguments.since,
            until: arguments.until,
            after,
            limit: arguments.limit - events.len(),
        };
        let mut page = access.ask(&Command::Audit(Box::new(command)))?;
        if let Some(Value::Array(more)) = page.take("events") {
            events.extend(more);
        }
        after = page.take("next").and_then(|next| AuditId::parse(next.as_str()?));
        if after.is_none() {
            break;
        }
    }
    let columns = ["happened_at", "kind", "actor", "sub", "client_id", "app", "address", "count", "detail"];
    output.list("events", &events, &columns)
}
