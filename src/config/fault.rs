//! What is wrong in a configuration file, in words for whoever wrote it.

use std::fmt;

/// One thing that is wrong in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    line: Option<usize>,
    path: String,
    problem: String,
}

impl ConfigFault {
    /// A fault in the value at `path`, such as `app[0].route[2].access`. `problem` says what is wrong, then what is
    /// allowed.
    pub(super) fn new(path: String, line: Option<usize>, problem: String) -> Self {
        Self { line, path, problem }
    }

    /// Where it is: a TOML path, or `line 3, column 5` where the text is no TOML, or the file's name where it cannot be
    /// read.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The line in the file, from 1; none when the key or its table is missing.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// One line: `path: what is wrong; what is allowed (line n)`.
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
