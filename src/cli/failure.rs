//! Failures of the program and their exit statuses.

use std::fmt::Display;
use std::io::{self, Write};

use crate::cli::output::printable;
use sealgate_system::log;

/// Exit status of a temporary failure (`EX_TEMPFAIL`). systemd restarts the service after it.
const TEMPORARY_FAILURE: i32 = 75;

/// Reason why a command line was not executed.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// The arguments are invalid, or they request help or the version.
    Usage(Box<clap::Error>),
    /// The command failed. One line per error.
    Failed(Vec<String>),
    /// The command failed because a device is unavailable, possibly temporarily. One line per
    /// error.
    Unavailable(Vec<String>),
    /// The check found no error, but could not prove everything.
    Unproven(String),
    /// The command succeeded and printed its result. The result has this exit status.
    Reported(i32),
}

impl CommandFailure {
    pub(super) fn line(line: impl Display) -> Self {
        Self::Failed(vec![line.to_string()])
    }

    /// Creates the failure for an answer of an unexpected type.
    pub(super) fn other_answer() -> Self {
        Self::line("the running server has another version; restart it")
    }

    pub(super) fn from_lines(lines: &[impl Display]) -> Self {
        Self::Failed(lines.iter().map(ToString::to_string).collect())
    }

    /// Prints the failure to standard error, or requested help to standard output. Returns the exit
    /// status.
    ///
    /// The status is 1 for a failure, 2 for wrong usage, 3 for an incomplete proof, 75
    /// (`EX_TEMPFAIL`) for a failure that may be temporary, and 0 for help.
    /// [`CommandFailure::Reported`] contains its own status.
    pub(crate) fn report(&self) -> i32 {
        match self {
            Self::Usage(error) => {
                // Standard error may be closed.
                let _ = error.print();
                error.exit_code()
            }
            Self::Failed(lines) => {
                print(lines);
                1
            }
            Self::Unavailable(lines) => {
                print(lines);
                TEMPORARY_FAILURE
            }
            Self::Reported(status) => *status,
            Self::Unproven(line) => {
                let _ = writeln!(io::stderr(), "not proven: {}", printable(line));
                3
            }
        }
    }
}

fn print(lines: &[String]) {
    let mut stderr = io::stderr().lock();
    let prefix = log::error_prefix();
    for line in lines {
        let _ = writeln!(stderr, "{prefix}error: {}", printable(line));
    }
}

impl From<clap::Error> for CommandFailure {
    fn from(error: clap::Error) -> Self {
        Self::Usage(Box::new(error))
    }
}
