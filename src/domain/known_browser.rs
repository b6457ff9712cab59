//! Known browsers: browsers in which a user has signed in before ("device cookies", OWASP).
//!
//! Wrong passwords from known browsers are counted separately. Therefore an attacker who guesses
//! passwords elsewhere does not delay the user.
//!
//! The cookie contains a random mark for each user who has signed in. The store has the hash of
//! each mark, with its user. A mark grants no access and does not identify the user. Only the
//! server creates marks, when a user signs in, so an attacker cannot make a browser known.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::secret::{Secret, SecretHash};
use crate::time::UnixTime;
use crate::user::Subject;

/// Time for which a browser is known after its last sign-in.
pub const KNOWN_FOR: Duration = Duration::from_hours(180 * 24);

/// Interval at which the mark of an active browser is replaced and its expiry extended.
const RENEWED_AFTER: Duration = Duration::from_hours(24);

/// Maximum number of known browsers per user. The least recently used is evicted first.
const MAX_BROWSERS: usize = 16;

/// Maximum number of users for whom a browser has a mark.
const MAX_MARKS: usize = 5;

/// Length of a mark: 16 random bytes in base64url.
const MARK_LENGTH: usize = 22;

/// Marks in a browser's cookie, newest first.
#[derive(Debug, Clone, Default)]
pub struct Marks(Vec<Secret>);

impl Marks {
    /// Parses a cookie's value. Ignores invalid marks.
    pub fn parse(value: &str) -> Self {
        let is_valid = |text: &&str| text.len() == MARK_LENGTH;
        Self(value.split('.').take(MAX_MARKS).filter(is_valid).map(Secret::new).collect())
    }

    /// Returns whether there are no marks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the hashes of the marks, newest first.
    pub fn hashes(&self) -> Vec<SecretHash> {
        self.0.iter().map(Secret::hash).collect()
    }

    /// Returns the cookie's value with the new mark added and the replaced mark removed.
    pub fn with(&self, fresh: &Secret, replaced: Option<SecretHash>) -> Secret {
        let others = self.0.iter().filter(|mark| replaced != Some(mark.hash()));
        let marks: Vec<&str> = std::iter::once(fresh).chain(others).take(MAX_MARKS).map(Secret::expose).collect();
        Secret::new(marks.join("."))
    }
}

/// Stored entry of a known browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownBrowser {
    pub mark: SecretHash,
    pub at: UnixTime,
}

impl KnownBrowser {
    /// Returns whether the mark is due to be replaced.
    pub fn is_due(&self, now: UnixTime) -> bool {
        now.since(self.at) >= RENEWED_AFTER
    }
}

/// Known browsers of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownBrowsers {
    /// User who signed in with the browsers.
    pub subject: Subject,
    /// Known browsers, newest first.
    pub browsers: Vec<KnownBrowser>,
    /// Time at which the last of the browsers expires.
    pub expires_at: UnixTime,
}

impl KnownBrowsers {
    /// Creates an empty record.
    pub fn none(subject: Subject) -> Self {
        Self { subject, browsers: Vec::new(), expires_at: UnixTime::from_seconds(0) }
    }

    /// Returns the known browser with one of these marks.
    pub fn find(&self, marks: &Marks, now: UnixTime) -> Option<&KnownBrowser> {
        self.find_kept(&marks.hashes(), now)
    }

    /// Returns the known browser whose mark has one of these hashes.
    pub fn find_kept(&self, hashes: &[SecretHash], now: UnixTime) -> Option<&KnownBrowser> {
        self.browsers.iter().find(|known| hashes.contains(&known.mark) && now.since(known.at) < KNOWN_FOR)
    }

    /// Adds a browser with its new mark, and removes the replaced mark.
    pub fn learn(&mut self, mark: SecretHash, replaced: Option<SecretHash>, now: UnixTime) {
        self.browsers.retain(|known| replaced != Some(known.mark) && now.since(known.at) < KNOWN_FOR);
        self.browsers.insert(0, KnownBrowser { mark, at: now });
        self.browsers.truncate(MAX_BROWSERS);
        self.expires_at = now.plus(KNOWN_FOR);
    }

    /// Removes all browsers except the one with this mark.
    pub fn keep(&mut self, mark: SecretHash) {
        self.browsers.retain(|known| known.mark == mark);
    }

    /// Removes the browser with this mark.
    pub fn forget(&mut self, mark: SecretHash) {
        self.browsers.retain(|known| known.mark != mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn mark(byte: u8) -> Secret {
        Secret::from_random(&[byte; 16])
    }

    fn anna() -> KnownBrowsers {
        KnownBrowsers::none(Subject::from_random([1; 16]))
    }

    #[test]
    fn a_browser_is_known_by_any_of_its_marks_for_half_a_year() {
        let mut known = anna();
        known.learn(mark(1).hash(), None, NOW);
        let cookie = Marks::parse(mark(1).expose()).with(&mark(2), None);
        let marks = Marks::parse(cookie.expose());
        assert_eq!(known.find(&marks, NOW).unwrap().mark, mark(1).hash());
        assert!(known.find(&marks, UnixTime::from_seconds(NOW.seconds() - 9)).is_some(), "the clock was set back");
        assert!(known.find(&marks, NOW.plus(KNOWN_FOR)).is_none());
        assert!(known.find(&Marks::parse(mark(3).expose()), NOW).is_none());
    }

    #[test]
    fn a_new_mark_replaces_the_old_one() {
        let mut known = anna();
        known.learn(mark(1).hash(), None, NOW);
        known.learn(mark(2).hash(), Some(mark(1).hash()), NOW);
        assert_eq!(known.browsers.len(), 1);
        let cookie = Marks::parse(mark(1).expose()).with(&mark(2), Some(mark(1).hash()));
        assert_eq!(cookie.expose(), mark(2).expose());
    }

    #[test]
    fn users_and_cookies_have_a_maximum_number() {
        let (mut known, mut marks) = (anna(), Marks::default());
        for byte in 0..40 {
            known.learn(mark(byte).hash(), None, NOW);
            marks = Marks::parse(marks.with(&mark(byte), None).expose());
        }
        assert_eq!((known.browsers.len(), marks.0.len()), (MAX_BROWSERS, MAX_MARKS));
        assert_eq!(known.find(&marks, NOW).unwrap().mark, mark(39).hash());
        let long = vec![mark(1).expose().to_owned(); 1000].join(".");
        assert_eq!(Marks::parse(&long).0.len(), MAX_MARKS);
        assert!(Marks::parse("x.y").is_empty());
    }
}
