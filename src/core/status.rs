//! Last results of background work, for pages, readiness and metrics.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use sealgate_domain::time::UnixTime;
use sealgate_system::clock::{Entropy, random};
use sealgate_system::metrics::EnrolmentShare;

/// Whether the servers of each application pass their health checks, as last reported by the edge.
#[derive(Debug, Default)]
pub struct UpstreamStates(Mutex<Vec<(String, String, bool)>>);

impl UpstreamStates {
    /// Replaces the states. Each has the application, the server, and whether it passes its health
    /// check.
    pub fn set(&self, states: Vec<(String, String, bool)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// Returns each server of an application, and whether it passes its health check.
    pub fn for_app(&self, app: &str) -> Vec<(String, bool)> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_app = states.iter().filter(|(name, ..)| name == app);
        let mut servers: Vec<(String, bool)> = Vec::new();
        for (_, server, alive) in of_app {
            // Several lists of an application may contain the same server.
            match servers.iter_mut().find(|(known, _)| known == server) {
                Some((_, known)) => *known |= alive,
                None => servers.push((server.clone(), *alive)),
            }
        }
        servers
    }
}

/// Certificates that the listeners present, each with its file and expiry, as last reported by the
/// edge.
#[derive(Debug, Default)]
pub struct ServedCertificates(Mutex<Vec<(PathBuf, i64)>>);

impl ServedCertificates {
    /// Replaces the certificates. The expiry is in seconds since 1970.
    pub fn set(&self, served: Vec<(PathBuf, i64)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = served;
    }

    /// Returns the certificates.
    pub fn all(&self) -> Vec<(PathBuf, i64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Number of users with each second factor, as last counted.
#[derive(Debug, Default)]
pub struct EnrolmentStatus(Mutex<Option<(EnrolmentShare, UnixTime)>>);

impl EnrolmentStatus {
    /// Replaces the count.
    pub fn set(&self, enrolment: EnrolmentShare, now: UnixTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((enrolment, now));
    }

    /// Returns the last count and its time, or `None` before the first count.
    pub fn last(&self) -> Option<(EnrolmentShare, UnixTime)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of automatic key rotation: the last result, and the name under which this server claims a
/// rotation.
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

    /// Returns this server's name as the holder of a rotation.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns why a due rotation fails, in one line that includes the remedy.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a warning, in one line, about keys of other nodes that this node does not trust.
    pub fn warning(&self) -> Option<String> {
        let kids = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner).join(", ");
        (!kids.is_empty()).then(|| {
            format!(
                "the key ring has keys that this node has not endorsed: {kids}. This node refuses tokens that \
                 are signed with these keys. If the keys belong to a node, admit the node (sealgate node \
                 admit). If they belong to no node, an attacker may have write access to the database"
            )
        })
    }

    /// Replaces the kids of untrusted keys. Returns whether they changed.
    pub fn set_untrusted(&self, kids: Vec<String>) -> bool {
        let mut untrusted = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner);
        let are_others = *untrusted != kids;
        *untrusted = kids;
        are_others
    }

    /// Replaces the result of the last rotation. `None` means success.
    pub fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}
