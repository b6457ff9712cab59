//! Daily log messages about certificates that expire soon.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sealgate_config::{ACME_SUFFIX, EXPIRES_SOON, days_left};

/// Remaining days below which a certificate that the server obtains itself is reported.
///
/// Lower than for other certificates, because a certificate with the shortest lifetime, 160 hours,
/// is renewed only 80 hours before its end.
pub const ORDERED_EXPIRES_SOON: i64 = 2;

/// Remaining days that were last logged for each served certificate. `None` if the certificate does
/// not expire soon.
#[derive(Debug, Default)]
pub struct Expiry(BTreeMap<PathBuf, Option<i64>>);

impl Expiry {
    /// Logs the served certificates that expire soon. Does not log a certificate again with the
    /// same number of days. Times are in seconds since 1970.
    ///
    /// Returns the files that were served at the last call and are not served now.
    pub fn update(&mut self, certificates: &[(&Path, i64)], now: i64) -> Vec<PathBuf> {
        let before = std::mem::take(&mut self.0);
        for (file, ends) in certificates {
            let soon = if is_ordered(file) { ORDERED_EXPIRES_SOON } else { EXPIRES_SOON };
            let days = Some(days_left(*ends, now)).filter(|days| *days < soon);
            if let Some(days) = days
                && before.get(*file) != Some(&Some(days))
            {
                log_expiry(file, days);
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

fn log_expiry(file: &Path, days: i64) {
    let certificate = file.display();
    let renew = if is_ordered(file) {
        "earlier log lines say why the certificate authority issued no new certificate"
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
        let mut update = |ends, now| {
            assert!(expiry.update(&[(file, ends)], now).is_empty());
            expiry.0[file]
        };
        assert_eq!(update(20 * DAY, 0), None);
        assert_eq!(update(20 * DAY, 7 * DAY), Some(13));
        assert_eq!(update(20 * DAY, 8 * DAY - 1), Some(12));
        assert_eq!(update(20 * DAY, 20 * DAY + 1), Some(-1));
        assert_eq!(update(90 * DAY, 20 * DAY), None);
    }

    #[test]
    fn certificates_out_of_use_are_forgotten() {
        let mut expiry = Expiry::default();
        let (one, other) = (Path::new("2026.pem"), Path::new("2027.pem"));
        assert!(expiry.update(&[(one, 0)], 0).is_empty());
        assert_eq!(expiry.update(&[(other, 0)], 0), [one]);
        assert_eq!(expiry.0.len(), 1);
    }
}
