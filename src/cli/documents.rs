//! `sealgate documents`, for packagers: generates man pages, completions, and the pages of
//! docs/reference that are derived from the program.

mod audit_events;
mod commands;
mod man_pages;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::CommandFailure;
use super::output::Output;
use sealgate_provider as provider;
use sealgate_system::metrics::Metrics;

/// Output location.
#[derive(Debug, Args)]
pub(super) struct DocumentsArguments {
    /// Output directory for man/, completions/ and reference/; created if absent
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(super) fn run(command: &Command, arguments: &DocumentsArguments, output: &Output) -> Result<(), CommandFailure> {
    let to = &arguments.to;
    write(command, to).map_err(|error| CommandFailure::line(format_args!("{}: {error}", to.display())))?;
    output.result(&serde_json::json!({ "directory": to }), || format!("{}\n", to.display()))
}

fn write(command: &Command, to: &Path) -> io::Result<()> {
    let (man, completions, reference) = (to.join("man"), to.join("completions"), to.join("reference"));
    for directory in [&man, &completions, &reference] {
        fs::create_dir_all(directory)?;
    }
    man_pages::write(command, &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), command.get_name(), &completions)?;
    }
    let metrics = Metrics::new().map_err(io::Error::other)?;
    fs::write(reference.join("metrics.md"), metrics.page())?;
    fs::write(reference.join("cli.md"), commands::page(command))?;
    fs::write(reference.join("audit-events.md"), audit_events::page())?;
    fs::write(reference.join("endpoints.md"), provider::endpoints_page())?;
    fs::write(reference.join("admin-api.md"), provider::api_page())?;
    // Package builds read the files from the disk, so the files are flushed.
    File::open(to)?.sync_all()
}
