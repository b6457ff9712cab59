//! Errors of a start.

use sealgate_store::StoreError;
use sealgate_store::postgres::PostgresFault;

/// Reason why the server did not start.
#[derive(Debug)]
pub struct NotServing {
    pub lines: Vec<String>,
    /// Whether a retry may succeed without intervention: an absent token device, a database
    /// failover.
    ///
    /// The systemd unit retries it.
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
