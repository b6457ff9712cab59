//! `sealgate documents`, for packagers: generates man pages, completions and the page about
//! metrics.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::CommandFailure;
use super::output::Output;
use crate::metrics::Metrics;

/// Output location.
#[derive(Debug, Args)]
pub(super) struct DocumentsArguments {
    /// Output directory for man/, completions/ and metrics.md; created if absent
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(super) fn run(command: &Command, arguments: &DocumentsArguments, output: &Output) -> Result<(), CommandFailure> {
    let to = &arguments.to;
    write(command, to).map_err(|error| CommandFailure::line(format_args!("{}: {error}", to.display())))?;
    output.result(&serde_json::json!({ "directory": to }), || format!("{}\n", to.display()))
}

fn write(command: &Command, to: &Path) -> io::Result<()> {
    let (man, completions) = (to.join("man"), to.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(command.clone(), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command.clone(), command.get_name(), &completions)?;
    }
    let metrics = Metrics::new().map_err(io::Error::other)?;
    fs::write(to.join("metrics.md"), metrics.page())?;
    // Package builds read the files from the disk.
    File::open(to)?.sync_all()
}
