//! Options of opening a store.

use std::time::Duration;

/// Options outside the operator's configuration.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Allows volatile and network file systems (tmpfs, NFS). For tests.
    pub allow_volatile: bool,
    /// Maximum time of a commit in the queue, and three times as long for the disk afterwards.
    pub commit_timeout: Duration,
    /// Accepts a store that has lost saved changes, as it is.
    pub accept_loss: bool,
    /// The store is under construction: a failure of the disk removes it.
    pub discard: bool,
    pub verifier: CopyVerifier,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_volatile: false,
            commit_timeout: Duration::from_secs(10),
            accept_loss: false,
            discard: false,
            verifier: CopyVerifier::Here,
        }
    }
}

/// Process that verifies a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyVerifier {
    Here,
    /// A separate one, of this program.
    Apart,
}
