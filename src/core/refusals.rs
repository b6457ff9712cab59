//! Recent refusals of the gateway, for the console of this node.
//!
//! Each application has two lists: refusals of known users and clients, and all others. Requests
//! without an identity therefore cannot displace the refusals of users.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use sealgate_domain::time::UnixTime;

/// Maximum number of refusals of known users and clients per application.
const MAX_OF_USERS: usize = 50;

/// Maximum number of other refusals per application.
const MAX_OF_OTHERS: usize = 20;

/// Maximum number of applications. A reload can rename applications any number of times.
const MAX_APPS: usize = 1024;

/// Maximum length of a path, in characters.
const MAX_PATH_LENGTH: usize = 200;

/// Refusal by the gateway, with the number of equal refusals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentRefusal {
    /// Time of the last refusal.
    pub at: UnixTime,
    pub method: String,
    /// Path without the query, which may contain secrets.
    pub path: String,
    /// Reason, as in the log.
    pub reason: &'static str,
    /// User or client, as in the log. `None` if the request has no valid credential.
    pub subject: Option<String>,
    /// Number of equal refusals.
    pub count: u64,
}

impl RecentRefusal {
    /// Creates a refusal. Shortens the path.
    pub fn new(at: UnixTime, method: &str, path: &str, reason: &'static str, subject: Option<String>) -> Self {
        // The longest registered method has 18 characters.
        let method = method.chars().take(20).collect();
        Self { at, method, path: path.chars().take(MAX_PATH_LENGTH).collect(), reason, subject, count: 1 }
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.method, &self.path, self.reason, &self.subject)
            == (&other.method, &other.path, other.reason, &other.subject)
    }
}

/// Recent refusals by application, newest first. The number is limited.
#[derive(Debug, Default)]
pub struct RecentRefusals(Mutex<BTreeMap<String, [VecDeque<RecentRefusal>; 2]>>);

impl RecentRefusals {
    /// Adds a refusal by an application. Equal refusals are counted.
    pub fn add(&self, app: &str, refusal: RecentRefusal) {
        let mut apps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !apps.contains_key(app) {
            if apps.len() >= MAX_APPS {
                return;
            }
            apps.insert(app.to_owned(), Default::default());
        }
        let Some([of_users, of_others]) = apps.get_mut(app) else { return };
        let (list, most) =
            if refusal.subject.is_some() { (of_users, MAX_OF_USERS) } else { (of_others, MAX_OF_OTHERS) };
        let known = list.iter().position(|known| known.is_like(&refusal)).and_then(|at| list.remove(at));
        let count = known.map_or(1, |known| known.count.saturating_add(1));
        list.push_front(RecentRefusal { count, ..refusal });
        list.truncate(most);
    }

    /// Returns the refusals by an application, newest first.
    pub fn of_app(&self, app: &str) -> Vec<RecentRefusal> {
        let apps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refusals: Vec<RecentRefusal> = apps.get(app).into_iter().flatten().flatten().cloned().collect();
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.at));
        refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(seconds: u64, path: &str, subject: Option<&str>) -> RecentRefusal {
        RecentRefusal::new(UnixTime::from_seconds(seconds), "GET", path, "group", subject.map(str::to_owned))
    }

    #[test]
    fn equal_refusals_are_counted() {
        let refusals = RecentRefusals::default();
        refusals.add("wiki", refusal(1, "/", Some("ben")));
        refusals.add("wiki", refusal(2, "/", Some("anna")));
        refusals.add("wiki", refusal(3, "/", Some("ben")));
        let known = refusals.of_app("wiki");
        assert_eq!(known, [RecentRefusal { count: 2, ..refusal(3, "/", Some("ben")) }, refusal(2, "/", Some("anna"))]);
        assert_eq!(refusals.of_app("chat"), []);
    }

    #[test]
    fn requests_without_an_identity_do_not_displace_users() {
        let refusals = RecentRefusals::default();
        refusals.add("wiki", refusal(1, "/", Some("ben")));
        for number in 0..1000 {
            refusals.add("wiki", refusal(2, &format!("/{number}"), None));
        }
        let known = refusals.of_app("wiki");
        assert_eq!(known.len(), MAX_OF_OTHERS + 1);
        assert!(known.iter().any(|refusal| refusal.subject.as_deref() == Some("ben")));
        for number in 0..1000 {
            refusals.add("wiki", refusal(3, &format!("/{number}{}", "x".repeat(1000)), Some("ben")));
        }
        let known = refusals.of_app("wiki");
        assert_eq!(known.len(), MAX_OF_OTHERS + MAX_OF_USERS);
        assert!(known.iter().all(|refusal| refusal.path.len() <= MAX_PATH_LENGTH));
    }
}
