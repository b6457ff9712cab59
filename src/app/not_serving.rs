//! Why a start ended.

use crate::store::StoreError;
use crate::store::postgres::PostgresFault;

/// Why serving could not start.
#[derive(Debug)]
pub struct NotServing {
    pub lines: Vec<String>,
    /// Whether the same start may succeed later although nobody has done anything: a token device that is away, a database
    /// that fails over. The unit has it tried again.
    pub may_pass: bool,
}

impl From<Vec<String>> for NotServing {
    fn from(lines: Vec<String>) -> Self {
        Self { lines, may_pass: false }
    }
}

impl From<StoreError> for NotServing {
    fn from(error: StoreError) -> Self {
        Self { lines: vec![format!("store: {error}")], may_pass: error.may_pass() }
    }
}

impl From<PostgresFault> for NotServing {
    fn from(fault: PostgresFault) -> Self {
        Self { lines: vec![fault.to_string()], may_pass: fault.may_pass() }
    }
}
