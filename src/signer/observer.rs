//! What the signer tells whoever counts. It calls, and knows no metrics library.

use std::time::Duration;

use super::fault::ErrorClass;

/// Receives the signer's events. Called from the signer's threads on the path of each signature: an implementation must
/// be quick and must not block.
pub trait Observer: Send + Sync {
    /// A signature was made and verified: how long its job waited in the queue, and how long the token took.
    fn signed(&self, waited: Duration, took: Duration) {
        let _ = (waited, took);
    }

    /// The number of jobs that wait, seen when one enters or leaves the queue.
    fn queue_length(&self, jobs: usize) {
        let _ = jobs;
    }

    /// Something failed. A failure that a retry heals is counted too.
    fn failed(&self, class: ErrorClass) {
        let _ = class;
    }

    /// The module was finalized, initialized and found in order again.
    fn reset(&self) {}

    /// The signer became ready (`true`) or stopped being so. Called in the order in which it happened, under the
    /// signer's lock: do not call the signer from here.
    fn ready(&self, ready: bool) {
        let _ = ready;
    }
}

/// An observer that looks away: for the command line and for tests that count nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
