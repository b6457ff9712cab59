//! Recent sign-ins of each account at an application, and the pauses after failed sign-ins.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::Subject;

/// Maximum number of accounts.
const MAX_ACCOUNTS: usize = 10_000;

/// Pause after an error of the application.
const PAUSE: Duration = Duration::from_secs(5);

/// Pauses after failures that the application may have counted as a wrong password, by the number of
/// such failures in a row.
const UNCLEAR_PAUSES: [Duration; 3] = [Duration::from_secs(30), Duration::from_mins(2), Duration::from_mins(5)];

/// Pause after a refused password, doubled with each refusal up to [`LONGEST_PAUSE`].
const REFUSED_PAUSE: Duration = Duration::from_mins(5);

const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// Kind of a failed sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The application refused the name or the password.
    WrongPassword,
    /// The application may have counted the sign-in as a wrong password.
    Unclear,
    /// The password was not sent, or the application answered with a server error.
    Error,
}

/// Account at the application.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum AccountKey {
    /// The user's own account.
    OfUser(Subject),
    /// The service account with this username.
    Service(String),
}

#[derive(Debug)]
struct RecentSignIn {
    /// Hash of name and password. A changed password starts without a pause.
    fingerprint: SecretHash,
    has_worked: bool,
    failures: u32,
    failed: Option<(FailureKind, Instant)>,
}

/// Recent sign-ins by account.
#[derive(Debug, Default)]
pub(super) struct RecentSignIns(Mutex<HashMap<AccountKey, RecentSignIn>>);

impl RecentSignIns {
    /// Refuses a sign-in during the pause after a failed one. Returns the kind of that failure.
    pub(super) fn ensure_no_pause(&self, key: &AccountKey, fingerprint: &SecretHash) -> Result<(), FailureKind> {
        let recent = self.recent();
        match recent.get(key).filter(|recent| recent.fingerprint == *fingerprint).and_then(|recent| recent.failed) {
            Some((kind, until)) if Instant::now() < until => Err(kind),
            _ => Ok(()),
        }
    }

    pub(super) fn note_success(&self, key: AccountKey, fingerprint: SecretHash) {
        let recent = RecentSignIn { fingerprint, has_worked: true, failures: 0, failed: None };
        self.insert(key, recent);
    }

    /// Records a failed sign-in, after which a pause starts.
    ///
    /// Returns whether the password counts as wrong. A password that has worked before counts as
    /// wrong only after a second refusal, because applications also refuse correct passwords while
    /// an account or an address is locked.
    pub(super) fn note_failure(&self, key: AccountKey, fingerprint: SecretHash, kind: FailureKind) -> bool {
        let (has_worked, failures) = match self.recent().get(&key) {
            Some(known) if known.fingerprint == fingerprint => (known.has_worked, known.failures),
            _ => (false, 0),
        };
        let pause = match kind {
            FailureKind::Error => PAUSE,
            // The first unclear failure causes no pause: some applications lose sessions when an
            // account signs in several times at once.
            FailureKind::Unclear if has_worked && failures == 0 => Duration::ZERO,
            FailureKind::Unclear => {
                let [.., longest] = UNCLEAR_PAUSES;
                UNCLEAR_PAUSES.get(failures.saturating_sub(has_worked.into()) as usize).copied().unwrap_or(longest)
            }
            FailureKind::WrongPassword => {
                REFUSED_PAUSE.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(LONGEST_PAUSE)
            }
        };
        let failures = if kind == FailureKind::Error { failures } else { failures.saturating_add(1) };
        let failed = Some((kind, Instant::now() + pause));
        self.insert(key, RecentSignIn { fingerprint, has_worked, failures, failed });
        kind == FailureKind::WrongPassword && (!has_worked || failures > 1)
    }

    fn insert(&self, key: AccountKey, sign_in: RecentSignIn) {
        let mut recent = self.recent();
        if recent.len() >= MAX_ACCOUNTS && !recent.contains_key(&key) {
            let now = Instant::now();
            recent.retain(|_, recent| recent.failed.is_some_and(|(_, until)| now < until));
        }
        // If there are still too many entries, nearly all sign-ins fail. Further pauses would
        // change little.
        if recent.len() < MAX_ACCOUNTS || recent.contains_key(&key) {
            recent.insert(key, sign_in);
        }
    }

    fn recent(&self) -> MutexGuard<'_, HashMap<AccountKey, RecentSignIn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> SecretHash {
        SecretHash::for_secret(text.as_bytes())
    }

    fn service() -> AccountKey {
        AccountKey::Service("svc".to_owned())
    }

    #[test]
    fn a_password_that_has_worked_counts_as_wrong_after_a_second_refusal() {
        let recent = RecentSignIns::default();
        let other = AccountKey::OfUser(Subject::from_random([1; 16]));
        recent.note_success(service(), hash("a"));
        assert!(!recent.note_failure(service(), hash("a"), FailureKind::WrongPassword));
        assert!(matches!(recent.ensure_no_pause(&service(), &hash("a")), Err(FailureKind::WrongPassword)));
        assert!(recent.ensure_no_pause(&service(), &hash("b")).is_ok(), "a changed password");
        assert!(recent.ensure_no_pause(&other, &hash("a")).is_ok(), "another account");
        assert!(recent.note_failure(service(), hash("a"), FailureKind::WrongPassword));
        assert!(recent.note_failure(service(), hash("b"), FailureKind::WrongPassword), "it has never worked");
    }

    #[test]
    fn pauses_grow_with_each_failure_and_end_with_a_success() {
        let recent = RecentSignIns::default();
        let pause = |kind| {
            recent.note_failure(service(), hash("a"), kind);
            let (_, until) = recent.recent().get(&service()).unwrap().failed.unwrap();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() { 0 } else { left.as_secs() + 1 }
        };
        assert_eq!([FailureKind::Error, FailureKind::Error].map(pause), [5, 5]);
        assert_eq!([FailureKind::Unclear; 4].map(pause), [30, 120, 300, 300]);
        recent.note_success(service(), hash("a"));
        assert!(recent.ensure_no_pause(&service(), &hash("a")).is_ok());
        assert_eq!([FailureKind::Unclear; 5].map(pause), [0, 30, 120, 300, 300]);
        recent.note_success(service(), hash("a"));
        assert_eq!([FailureKind::WrongPassword; 6].map(pause), [300, 600, 1200, 2400, 3600, 3600]);
    }
}
