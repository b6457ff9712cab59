//! `sealgate audit`.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, NaiveTime};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::access::Access;
use super::arguments;
use super::failure::CommandFailure;
use super::output::Output;
use crate::admin::audit_file;
use crate::admin::command::{AuditCommand, Command, Person};
use crate::domain::audit::{AuditId, AuditKind};
use crate::domain::client::ClientId;
use crate::domain::time::UnixTime;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    wanted: EventFilter,
    /// Events at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write all events of a time, the newest first, for another program
    Export(Export),
}

#[derive(Debug, Args)]
struct Export {
    #[command(flatten)]
    wanted: EventFilter,
    /// How they are written
    #[arg(long, value_enum, default_value_t = Format::Ndjson)]
    format: Format,
    /// A new file, or - for standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    to: PathBuf,
}

/// Which events are wanted.
#[derive(Debug, Args)]
struct EventFilter {
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
}

impl EventFilter {
    /// The command for what comes after an event.
    fn page(&self, after: Option<AuditId>, limit: usize) -> Command {
        Command::Audit(Box::new(AuditCommand {
            person: self.user.clone(),
            client: self.client.clone(),
            kinds: self.kind.clone(),
            since: self.since,
            until: self.until,
            after,
            limit,
        }))
    }
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

pub(super) fn run(arguments: &Arguments, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
    if let Some(Verb::Export(export)) = &arguments.verb {
        return export.run(access, output);
    }
    let (mut events, mut after) = (Vec::new(), None);
    while events.len() < arguments.limit {
        let (more, next) = page(access, &arguments.wanted.page(after, arguments.limit - events.len()))?;
        events.extend(more);
        after = next;
        if after.is_none() {
            break;
        }
    }
    let columns = ["happened_at", "kind", "actor", "sub", "client_id", "app", "address", "count", "detail"];
    output.list("events", &events, &columns)
}

/// A page of events, and after which event to go on.
fn page(access: &mut Access, command: &Command) -> Result<(Vec<Value>, Option<AuditId>), CommandFailure> {
    let mut page = access.ask(command)?;
    let events = match page.take("events") {
        Some(Value::Array(events)) => events,
        _ => Vec::new(),
    };
    Ok((events, page.take("next").and_then(|next| AuditId::parse(next.as_str()?))))
}

impl Export {
    /// Page by page, so that a long trail needs no more memory than a short one.
    fn run(&self, access: &mut Access, output: &Output) -> Result<(), CommandFailure> {
        if self.to == Path::new("-") {
            self.write(access, BufWriter::new(io::stdout().lock()))?;
            return Ok(());
        }
        let to = &self.to;
        let named = |error: io::Error| CommandFailure::line(format_args!("{}: {error}", to.display()));
        // It says who did what from where.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(named)?;
        let written = self.write(access, BufWriter::new(&file)).and_then(|events| {
            file.sync_all().map_err(named)?;
            Ok(events)
        });
        if written.is_err() {
            // Made above; part of a trail is none.
            let _ = fs::remove_file(to);
        }
        let events = written?;
        output.result(&json!({ "file": to, "events": events }), || format!("{}: {events} events\n", to.display()))
    }

    fn write(&self, access: &mut Access, mut to: impl Write) -> Result<usize, CommandFailure> {
        let failed = |error: io::Error| CommandFailure::line(format_args!("the events cannot be written: {error}"));
        if self.format == Format::Csv {
            audit_file::write_header(&mut to).map_err(failed)?;
        }
        let (mut written, mut after) = (0, None);
        loop {
            let (events, next) = page(access, &self.wanted.page(after, usize::MAX))?;
            for event in &events {
                match self.format {
                    Format::Ndjson => writeln!(to, "{event}"),
                    Format::Csv => audit_file::write_row(&mut to, event),
                }
                .map_err(failed)?;
            }
            written += events.len();
            after = next;
            if after.is_none() {
                to.flush().map_err(failed)?;
                return Ok(written);
            }
        }
    }
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object a line
    Ndjson,
    /// Comma-separated values with a header (RFC 4180)
    Csv,
}
