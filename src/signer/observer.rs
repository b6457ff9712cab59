//! Observer interface for signer events. Independent of any metrics library.

use std::time::Duration;

use super::fault::ErrorClass;

/// Receives the signer's events. The signer's threads call it for each signature, so an
/// implementation must be fast and must not block.
pub trait Observer: Send + Sync {
    /// A signature was made and verified. `waited` is its time in the queue, `took` the time in the
    /// token.
    fn signed(&self, waited: Duration, took: Duration) {
        let _ = (waited, took);
    }

    /// Number of queued jobs, reported when a job enters or leaves the queue.
    fn queue_length(&self, jobs: usize) {
        let _ = jobs;
    }

    /// A failure occurred. Failures that a retry resolves count too.
    fn failed(&self, class: ErrorClass) {
        let _ = class;
    }

    /// The module was finalized and initialized again, and works.
    fn reset(&self) {}

    /// The signer became ready (`true`) or unavailable (`false`). Called in order and under the
    /// signer's lock: do not call the signer from here.
    fn ready(&self, ready: bool) {
        let _ = ready;
    }
}

/// An observer that ignores all events, for the command line and for tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
