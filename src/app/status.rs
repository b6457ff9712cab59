//! What the work beside requests last came to, for pages, readiness and metrics.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::clock::{Entropy, random};
use crate::domain::time::UnixTime;
use crate::metrics::EnrolmentShare;

/// Whether the applications' servers take connections, as the edge last told.
#[derive(Debug, Default)]
pub struct UpstreamStates(Mutex<Vec<(String, String, bool)>>);

impl UpstreamStates {
    /// Takes in what is known now: application, server, whether it takes connections.
    pub fn tell(&self, states: Vec<(String, String, bool)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// The servers of an application.
    pub fn of(&self, app: &str) -> Vec<(String, bool)> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_app = states.iter().filter(|(name, ..)| name == app);
        of_app.map(|(_, server, alive)| (server.clone(), *alive)).collect()
    }
}

/// Who has which factor, as people were last counted.
#[derive(Debug, Default)]
pub struct EnrolmentStatus(Mutex<Option<(EnrolmentShare, UnixTime)>>);

impl EnrolmentStatus {
    /// Takes in what was counted now.
    pub fn tell(&self, enrolment: EnrolmentShare, now: UnixTime) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((enrolment, now));
    }

    /// What was counted, and when; none before the first count has ended.
    pub fn last(&self) -> Option<(EnrolmentShare, UnixTime)> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who this server is among those that rotate, and how its last try went.
#[derive(Debug)]
pub struct RotationStatus {
    server: String,
    fault: Mutex<Option<String>>,
    /// Kids of other nodes' keys that are not believed here.
    untrusted: Mutex<Vec<String>>,
}

impl RotationStatus {
    /// A server of a new name.
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

    /// Why the rotation that is due does not come about, one line that says what to do.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What keys of other nodes nobody vouches for, one line.
    pub fn warning(&self) -> Option<String> {
        let kids = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner).join(", ");
        (!kids.is_empty()).then(|| {
            format!(
                "the ring has keys that no key of this node's token has endorsed, and their tokens are refused here: {kids}. If \
                 they are a node's, have it admitted (sealgate node admit); if they are nobody's, somebody writes the database"
            )
        })
    }

    /// Notes those keys. Whether they are others than before.
    pub fn set_untrusted(&self, kids: Vec<String>) -> bool {
        let mut known = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner);
        let are_others = *known != kids;
        *known = kids;
        are_others
    }

    /// Notes how the last try went.
    pub fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }
}
