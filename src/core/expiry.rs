//! Logs expiring certificates, once a day from two weeks before their expiry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sealgate_config::{ACME_SUFFIX, EXPIRES_SOON, days_left};

/// Days before its expiry from which a certificate that the server obtains itself is reported.
///
/// A certificate that is valid for 160 hours is renewed 80 hours before its end.
pub const ORDERED_EXPIRES_SOON: i64 = 2;

/// Served certificates by file, with the remaining days that were last logged.
#[derive(Debug, Default)]
pub struct Expiry(BTreeMap<PathBuf, Option<i64>>);

impl Expiry {
    /// Records the served certificates with their expiry, and logs those that expire soon.
    ///
    /// All times are seconds since 1970. Returns the files that are no longer served.
    pub fn tell(&mut self, shown: &[(&Path, i64)], now: i64) -> Vec<PathBuf> {
        let before = std::mem::take(&mut self.0);
        for (file, ends) in shown {
            let soon = if is_ordered(file) { ORDERED_EXPIRES_SOON } else { EXPIRES_SOON };
            let days = Some(days_left(*ends, now)).filter(|days| *days < soon);
            if let Some(days) = days
                && before.get(*file) != Some(&Some(days))
            {
                tell(file, days);
            }
            self.0.insert((*file).to_owned(), days);
        }
        before.into_keys().filter(|file| !self.0.contains_key(file)).collect()
    }
}

/// Returns whether the server obtains this certificate itself.
fn is_ordered(file: &Path) -> bool {
    file.to_string_lossy().ends_with(ACME_SUFFIX)
}

fn tell(file: &Path, days: i64) {
    let certificate = file.display();
    let renew = if is_ordered(file) {
        "earlier lines say why the certificate authority issued no new one"
    } else {
        "renew it; new files are loaded automatically"
    };
    if days < 0 {
        tracing::error!(%certificate, "a certificate has expired, and browsers reject it; {renew}");
    } else {
        tracing::warn!(%certificate, days, "a certificate expires soon; {renew}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_recorded_from_two_weeks_before_expiry() {
        const DAY: i64 = 86_400;
        let (mut expiry, file) = (Expiry::default(), Path::new("a.pem"));
        let mut told = |ends, now| {
            assert!(expiry.tell(&[(file, ends)], now).is_empty());
            expiry.0[file]
        };
        assert_eq!(told(20 * DAY, 0), None);
        assert_eq!(told(20 * DAY, 7 * DAY), Some(13));
        assert_eq!(told(20 * DAY, 8 * DAY - 1), Some(12));
        assert_eq!(told(20 * DAY, 20 * DAY + 1), Some(-1));
        assert_eq!(told(90 * DAY, 20 * DAY), None);
    }

    #[test]
    fn certificates_out_of_use_are_forgotten() {
        let mut expiry = Expiry::default();
        let (one, other) = (Path::new("2026.pem"), Path::new("2027.pem"));
        assert!(expiry.tell(&[(one, 0)], 0).is_empty());
        assert_eq!(expiry.tell(&[(other, 0)], 0), [one]);
        assert_eq!(expiry.0.len(), 1);
    }
}
