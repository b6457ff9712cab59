//! How the program ends when it did not do what it was asked.

use std::fmt::Display;
use std::io::{self, Write};

use super::printable::printable;
use crate::log;

/// systemd tries again after this one, and not after a refusal.
const AWAY: i32 = 75;

/// Why a command line was not carried out.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// The arguments are wrong, or ask for help or the version.
    Usage(Box<clap::Error>),
    /// It failed: one line a fault.
    Failed(Vec<String>),
    /// It failed for want of a device that may come back by itself: one line a fault.
    Away(Vec<String>),
    /// Nothing is wrong, and what was to be proven is not.
    Unproven(String),
}

impl CommandFailure {
    pub(super) fn line(line: impl Display) -> Self {
        Self::Failed(vec![line.to_string()])
    }

    /// A server answered something else than was asked for.
    pub(super) fn other_answer() -> Self {
        Self::line("the running server answers in another version's words; restart it after an upgrade")
    }

    pub(super) fn from_lines(lines: &[impl Display]) -> Self {
        Self::Failed(lines.iter().map(ToString::to_string).collect())
    }

    /// Prints the failure to standard error, or the help that was asked for to standard output. Yields the exit status:
    /// 1 for a failure, 2 for wrong usage, 3 for what is not proven, 75 (`EX_TEMPFAIL`) for a failure that may pass by
    /// itself, 0 for help.
    pub(crate) fn report(&self) -> i32 {
        match self {
            Self::Usage(error) => {
                // Where nobody reads, nobody is told.
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
