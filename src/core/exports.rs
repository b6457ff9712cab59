//! Places for exports of the audit log and of users, which run after their requests were answered.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use sealgate_domain::user::Subject;

/// Maximum number of exports that run at the same time on a node. Each is of another user, so that one
/// user with slow downloads does not prevent the exports of others.
const MAX_EXPORTS: usize = 4;

/// Users whose exports run.
#[derive(Debug, Default)]
pub struct Exports(Mutex<BTreeSet<Subject>>);

/// Place of a running export. Dropping it makes the place available.
#[derive(Debug)]
pub struct ExportPlace {
    exports: Arc<Exports>,
    user: Subject,
}

impl Exports {
    /// Takes a place for an export of this user. Returns `None` if the user has a running export, or
    /// all places are taken.
    pub fn begin(self: &Arc<Self>, user: Subject) -> Option<ExportPlace> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_place = running.len() < MAX_EXPORTS && running.insert(user);
        has_place.then(|| ExportPlace { exports: Arc::clone(self), user })
    }

    /// Returns the number of running exports.
    pub fn running(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for ExportPlace {
    fn drop(&mut self) {
        self.exports.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.user);
    }
}
