//! How a store is opened.

use std::time::Duration;

/// What an operator may not normally choose.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Opens on file systems that forget or that live elsewhere (tmpfs, NFS). For tests.
    pub allow_volatile: bool,
    /// The longest that a commit waits for its turn, and three times as long for the disk once it has had it.
    pub commit_timeout: Duration,
    /// Takes up a store that has lost saved changes, as it now is.
    pub accept_loss: bool,
    /// The store is only being built: a failure of the disk removes it.
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

/// Which process looks through a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyVerifier {
    Here,
    /// One of its own, of this program.
    Apart,
}
