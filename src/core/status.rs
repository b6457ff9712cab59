//! Last results of background work, for pages, readiness and metrics.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use sealgate_domain::time::UnixTime;
use sealgate_system::clock::{Entropy, random};
use sealgate_system::metrics::EnrolmentShare;

/// Whether the applications' servers accept connections, as the edge last reported.
#[derive(Debug, Default)]
pub struct UpstreamStates(Mutex<Vec<(String, String, bool)>>);

impl UpstreamStates {
    /// Stores the current states: application, server, whether it accepts connections.
    pub fn tell(&self, states: Vec<(String, String, bool)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// Returns the servers of an application.
    pub fn for_app(&self, app: &str) -> Vec<(String, bool)> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_app = states.iter().filter(|(name, ..)| name == app);
        of_app.map(|(_, server, alive)| (server.clone(), *alive)).collect()
    }
}

/// Last count of users by factor.
#[derive(Debug, Default)]
pub struct EnrolmentStatus(Mutex<Option<(EnrolmentShare, UnixTime)>>);

impl EnrolmentStatus {
    /// Stores a count.
    pub fn tell(&self, enrolment: EnrolmentShare, now: UnixTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((enrolment, now));
    }

    /// Returns the last count and its time; `None` before the first one.
    pub fn last(&self) -> Option<(EnrolmentShare, UnixTime)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name of this server in the rotation of keys, and result of its last rotation.
#[derive(Debug)]
pub struct RotationStatus {
    server: String,
    fault: Mutex<Option<String>>,
    /// Kids of other nodes' keys that are not trusted.
    untrusted: Mutex<Vec<String>>,
}

impl RotationStatus {
    /// Creates the status with a new server name.
    pub fn new(entropy: &dyn Entropy) -> Self {
        Self {
            server: Uuid::from_bytes(random(entropy)).to_string(),
            fault: Mutex::new(None),
            untrusted: Mutex::default(),
        }
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the reason why a due rotation fails, in one line that says what to do.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a warning about keys of other nodes that this node's token has not endorsed, in one
    /// line.
    pub fn warning(&self) -> Option<String> {
        let kids = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner).join(", ");
        (!kids.is_empty()).then(|| {
            format!(
                "the key ring has keys that this node's token has not endorsed, and this node refuses their \
                 tokens: {kids}. If they belong to a node, admit it (sealgate node admit). If they belong to \
                 no node, an attacker may have write access to the database"
            )
        })
    }

    /// Stores the kids of untrusted keys. Returns whether they changed.
    pub fn set_untrusted(&self, kids: Vec<String>) -> bool {
        let mut known = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner);
        let are_others = *known != kids;
        *known = kids;
        are_others
    }

    /// Stores the result of the last rotation: `None` for success.
    pub fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}
