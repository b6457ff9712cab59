//! Failures of the program and their exit statuses.

use std::fmt::Display;
use std::io::{self, Write};

use crate::cli::output::printable;
use sealgate_system::log;

/// Exit status after which systemd restarts the service; it does not after a refusal.
const AWAY: i32 = 75;

/// Reason why a command line was not executed.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// Invalid arguments, or a request for help or the version.
    Usage(Box<clap::Error>),
    /// The command failed; one line per error.
    Failed(Vec<String>),
    /// The command failed because a device is unavailable, possibly temporarily; one line per
    /// error.
    Away(Vec<String>),
    /// No error was found, but the proof is incomplete.
    Unproven(String),
    /// The command succeeded and printed its result, which has this exit status.
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

    /// Prints the failure to standard error, or requested help to standard output, and returns the
    /// exit status.
    ///
    /// 1 for a failure, 2 for wrong usage, 3 for an incomplete proof, 75 (`EX_TEMPFAIL`) for a
    /// failure that may be temporary, 0 for help, another one as reported.
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
            Self::Away(lines) => {
                print(lines);
                AWAY
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
