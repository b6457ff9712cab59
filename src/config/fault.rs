//! Errors in a configuration file, written for its author.

use std::fmt;

/// An error in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    line: Option<usize>,
    path: String,
    problem: String,
}

impl ConfigFault {
    /// Creates an error in the value at `path`, such as `app[0].route[2].access`.
    ///
    /// `problem` states the problem, then the allowed values.
    pub(super) fn new(path: String, line: Option<usize>, problem: String) -> Self {
        Self { line, path, problem }
    }

    /// Returns the location of the error.
    ///
    /// This is a TOML path; `line 3, column 5` if the text is not TOML; or the file's name if it
    /// cannot be read.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line in the file, from 1; none if the key or its table is missing.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// Formats one line: `path: problem; allowed values (line n)`.
impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)?;
        match self.line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigFault {}
