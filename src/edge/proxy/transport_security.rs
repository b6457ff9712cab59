//! `Strict-Transport-Security` (RFC 6797): makes browsers use only https after their first visit
//! over https.

use std::time::Duration;

use http::header::STRICT_TRANSPORT_SECURITY;
use http::{HeaderMap, HeaderValue};

/// Value of the field. It omits `includeSubDomains`, because subdomains may belong to others.
#[derive(Debug, Clone)]
pub struct TransportSecurity {
    seconds: u64,
    value: HeaderValue,
}

impl TransportSecurity {
    /// Creates the value for this duration, or returns `None` if it is less than a second.
    pub fn for_time(time: Duration) -> Option<Self> {
        let seconds = time.as_secs();
        let value = HeaderValue::from_str(&format!("max-age={seconds}")).ok()?;
        (seconds > 0).then_some(Self { seconds, value })
    }

    pub(crate) const fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Sets the field, unless the application has set one with at least the same duration, which
    /// may have more directives.
    ///
    /// A shorter duration, or `max-age=0`, would allow attacks on the sign-in cookies. The
    /// application must not decide that.
    pub(crate) fn set(&self, fields: &mut HeaderMap) {
        // Browsers use the first field only (RFC 6797 §8.1).
        let first = fields.get(STRICT_TRANSPORT_SECURITY);
        let given = first.filter(|given| max_age(given).is_some_and(|seconds| seconds >= self.seconds)).cloned();
        fields.insert(STRICT_TRANSPORT_SECURITY, given.unwrap_or_else(|| self.value.clone()));
    }
}

/// Returns the duration in a field, in seconds, or `None` if browsers would ignore the field.
fn max_age(field: &HeaderValue) -> Option<u64> {
    let directives = field.to_str().ok()?.split(';').filter_map(|directive| directive.split_once('='));
    let mut times = directives.filter(|(name, _)| name.trim().eq_ignore_ascii_case("max-age"));
    let (_, seconds) = times.next()?;
    // A repeated directive is invalid (RFC 6797 §6.1).
    if times.next().is_some() { None } else { seconds.trim().trim_matches('"').parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(given: &[&str]) -> Vec<String> {
        let mut fields = HeaderMap::new();
        for given in given {
            fields.append(STRICT_TRANSPORT_SECURITY, given.parse().unwrap());
        }
        TransportSecurity::for_time(Duration::from_secs(1000)).unwrap().set(&mut fields);
        let left = fields.get_all(STRICT_TRANSPORT_SECURITY);
        left.iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn an_application_may_say_more_and_not_less() {
        for (given, left) in [
            (&[][..], "max-age=1000"),
            (&["max-age=0"], "max-age=1000"),
            (&["max-age=999; includeSubDomains"], "max-age=1000"),
            (&["includeSubDomains; Max-Age = \"1000\"; preload"], "includeSubDomains; Max-Age = \"1000\"; preload"),
            (&["max-age=63072000; includeSubDomains"], "max-age=63072000; includeSubDomains"),
            (&["max-age=0", "max-age=63072000"], "max-age=1000"),
            (&["max-age=2000; max-age=0"], "max-age=1000"),
            (&["nonsense"], "max-age=1000"),
        ] {
            assert_eq!(after(given), [left], "{given:?}");
        }
    }

    #[test]
    fn no_time_is_no_field() {
        assert!(TransportSecurity::for_time(Duration::ZERO).is_none());
    }
}
