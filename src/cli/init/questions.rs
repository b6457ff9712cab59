//! Questions on a terminal for missing arguments.

use std::io::{self, IsTerminal, Write};

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::cli::failure::CommandFailure;
use crate::cli::output::Output;

/// Asks questions on a terminal. Without a terminal, missing required arguments are errors.
#[derive(Clone, Copy)]
pub(super) struct Questions {
    is_interactive: bool,
}

impl Questions {
    pub(super) fn new(output: &Output) -> Self {
        Self { is_interactive: !output.is_json() && io::stdin().is_terminal() && io::stderr().is_terminal() }
    }

    /// Asks until the user answers. `argument` is the missing argument.
    pub(super) fn required(self, argument: &str, question: &str) -> Result<String, CommandFailure> {
        loop {
            if let Some(answer) = self.choice(argument, question)? {
                return Ok(answer);
            }
        }
    }

    /// Asks for one of several arguments. Returns `None` if the user enters nothing.
    pub(super) fn choice(self, argument: &str, question: &str) -> Result<Option<String>, CommandFailure> {
        if !self.is_interactive {
            let message = format!("give {argument}; on a terminal, this command asks for missing arguments");
            return Err(Cli::command().error(ErrorKind::MissingRequiredArgument, message).into());
        }
        self.optional(question)
    }

    /// Asks for an optional value.
    pub(super) fn optional(self, question: &str) -> Result<Option<String>, CommandFailure> {
        if !self.is_interactive {
            return Ok(None);
        }
        let failed = |error: io::Error| CommandFailure::line(format_args!("cannot ask on the terminal: {error}"));
        let mut stderr = io::stderr().lock();
        write!(stderr, "{question}: ").and_then(|()| stderr.flush()).map_err(failed)?;
        let mut answer = String::new();
        if io::stdin().read_line(&mut answer).map_err(failed)? == 0 {
            return Err(CommandFailure::line("the terminal was closed"));
        }
        let answer = answer.trim();
        Ok(Some(answer.to_owned()).filter(|answer| !answer.is_empty()))
    }
}
