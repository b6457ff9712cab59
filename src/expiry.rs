//! Tells the log of certificates that expire: once a day from two weeks before on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::{EXPIRES_SOON, days_left};

/// What was told of which file: the days that were left.
#[derive(Debug, Default)]
pub struct Expiry(BTreeMap<PathBuf, i64>);

impl Expiry {
    /// Tells of a certificate that is good until `ends`, where there is something to tell; both times are seconds since 1970.
    pub fn tell(&mut self, file: &Path, ends: i64, now: i64) {
        let days = days_left(ends, now);
        if days >= EXPIRES_SOON {
            self.0.remove(file);
        } else if self.0.get(file) != Some(&days) {
            self.0.insert(file.to_owned(), days);
            let certificate = file.display();
            let renew = "renew it: new files are taken up by themselves";
            if days < 0 {
                tracing::error!(%certificate, "a certificate has expired, and browsers refuse it; {renew}");
            } else {
                tracing::warn!(%certificate, days, "a certificate expires soon; {renew}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_is_told_once_and_a_renewal_ends_it() {
        const DAY: i64 = 86_400;
        let (mut expiry, file) = (Expiry::default(), Path::new("a.pem"));
        let mut told = |ends, now| {
            expiry.tell(file, ends, now);
            expiry.0.get(file).copied()
        };
        assert_eq!(told(20 * DAY, 0), None);
        assert_eq!(told(20 * DAY, 7 * DAY), Some(13));
        assert_eq!(told(20 * DAY, 8 * DAY - 1), Some(12));
        assert_eq!(told(20 * DAY, 20 * DAY + 1), Some(-1));
        assert_eq!(told(90 * DAY, 20 * DAY), None);
    }
}
