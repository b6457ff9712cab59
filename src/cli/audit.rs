//! `sealgate audit`.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::Output;
use sealgate_admin::answer::{EventAnswer, ListPage, Rows};
use sealgate_admin::audit;
use sealgate_admin::command::{AuditCommand, Command, EventFilter};

#[derive(Debug, Subcommand)]
pub(super) enum AuditVerb {
    /// List events, newest first
    List(AuditCommand),
    /// Export events, newest first
    Export(Export),
}

#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    wanted: EventFilter,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Ndjson)]
    format: Format,
    /// New file, or - for standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    to: PathBuf,
}

pub(super) fn run(verb: &AuditVerb, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let mut wanted = match verb {
        AuditVerb::List(wanted) => wanted.clone(),
        AuditVerb::Export(export) => return export.run(access, output),
    };
    let mut events = Vec::new();
    while wanted.limit > 0 {
        let (more, next) = page(access, &wanted)?;
        wanted.limit = wanted.limit.saturating_sub(more.len());
        events.extend(more);
        wanted.after = next;
        if wanted.after.is_none() {
            break;
        }
    }
    let columns = ["happened_at", "kind", "actor", "sub", "client_id", "app", "address", "count", "detail"];
    output.list("events", &events, &columns)
}

/// Returns a page of events, and the cursor of the next page.
fn page(access: &mut StoreAccess, wanted: &AuditCommand) -> Result<(Vec<EventAnswer>, Option<String>), CommandFailure> {
    match access.ask_page(&Command::Audit(Box::new(wanted.clone())))? {
        ListPage { rows: Rows::Events(events), next } => Ok((events, next)),
        _ => Err(CommandFailure::other_answer()),
    }
}

impl Export {
    /// Exports page by page, so that memory use does not depend on the length of the log.
    fn run(&self, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
        if self.to == Path::new("-") {
            self.write(access, BufWriter::new(io::stdout().lock()))?;
            return Ok(());
        }
        let to = &self.to;
        let file_failure = |error: io::Error| CommandFailure::line(format_args!("{}: {error}", to.display()));
        // Only the owner may read the file, because it contains users, their actions and their
        // addresses.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(file_failure)?;
        let written = self.write(access, BufWriter::new(&file)).and_then(|events| {
            file.sync_all().map_err(file_failure)?;
            Ok(events)
        });
        if written.is_err() {
            // Remove the file, because a partial export is useless. This function has created the
            // file.
            let _ = fs::remove_file(to);
        }
        let events = written?;
        output.result(&json!({ "file": to, "events": events }), || {
            format!("Exported {events} events to {}\n", to.display())
        })
    }

    fn write(&self, access: &mut StoreAccess, mut to: impl Write) -> Result<usize, CommandFailure> {
        let failed = |error: io::Error| CommandFailure::line(format_args!("cannot write the events: {error}"));
        if self.format == Format::Csv {
            audit::write_header(&mut to).map_err(failed)?;
        }
        let mut written = 0;
        let mut wanted = AuditCommand { filter: self.wanted.clone(), limit: usize::MAX, after: None };
        loop {
            let (events, next) = page(access, &wanted)?;
            for event in &events {
                match self.format {
                    Format::Ndjson => audit::write_line(&mut to, event),
                    Format::Csv => audit::write_row(&mut to, event),
                }
                .map_err(failed)?;
            }
            written += events.len();
            wanted.after = next;
            if wanted.after.is_none() {
                to.flush().map_err(failed)?;
                return Ok(written);
            }
        }
    }
}

/// Format of exported events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object a line
    Ndjson,
    /// Comma-separated values with a header (RFC 4180)
    Csv,
}
