//! `Strict-Transport-Security` (RFC 6797), and redirects from plain HTTP to https.
//!
//! The field makes browsers use only https after their first visit over https. The redirect front
//! answers requests to a configured host with 308 to the same path, and others with 421. The host
//! in `Location` is one from the configuration, so an attacker cannot choose it. HTTP-01
//! validations of an ACME authority are answered too.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, LOCATION, STRICT_TRANSPORT_SECURITY};
use http::{HeaderMap, HeaderValue, Response, StatusCode, request};

use crate::listen::challenges::Challenges;
use crate::proxy::snapshot::Snapshots;
use crate::refusal::refusal;
use crate::{AnswerReason, ConnectionEvent, EdgeObserver, Finished, Front, Origin, Policy, RouteDecision};

/// Value of the field. It has no `includeSubDomains`, because other parties may own subdomains.
#[derive(Debug, Clone)]
pub struct TransportSecurity {
    seconds: u64,
    value: HeaderValue,
}

impl TransportSecurity {
    /// Creates the value for this duration. `None` if it is shorter than a second.
    pub fn for_time(time: Duration) -> Option<Self> {
        let seconds = time.as_secs();
        let value = HeaderValue::from_str(&format!("max-age={seconds}")).ok()?;
        (seconds > 0).then_some(Self { seconds, value })
    }

    /// Returns the field for another thread. Copies of one value would count their uses together.
    pub(crate) fn for_thread(&self) -> Option<Self> {
        Self::for_time(Duration::from_secs(self.seconds))
    }

    pub(crate) const fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Sets the field. Keeps a field of the application with at least the same duration, because it
    /// may have more directives.
    ///
    /// A shorter duration, or `max-age=0`, would allow attacks on the sign-in cookies.
    pub(crate) fn set(&self, fields: &mut HeaderMap) {
        // Browsers use only the first occurrence of the field (RFC 6797 §8.1).
        let first = fields.get(STRICT_TRANSPORT_SECURITY);
        let given = first.filter(|given| max_age(given).is_some_and(|seconds| seconds >= self.seconds)).cloned();
        fields.insert(STRICT_TRANSPORT_SECURITY, given.unwrap_or_else(|| self.value.clone()));
    }
}

/// Returns the duration in a field, in seconds. `None` if browsers would ignore the field.
fn max_age(field: &HeaderValue) -> Option<u64> {
    let directives = field.to_str().ok()?.split(';').filter_map(|directive| directive.split_once('='));
    let mut times = directives.filter(|(name, _)| name.trim().eq_ignore_ascii_case("max-age"));
    let (_, seconds) = times.next()?;
    // A repeated directive is invalid (RFC 6797 §6.1).
    if times.next().is_some() { None } else { seconds.trim().trim_matches('"').parse().ok() }
}

/// Front that redirects to the public origins of the current front, and passes its reports to that
/// front.
pub struct Redirect {
    pub snapshots: Arc<Snapshots>,
    /// Answers to HTTP-01 validations, which use port 80.
    pub challenges: Arc<Challenges>,
}

impl Redirect {
    fn redirected(&self, head: &request::Parts) -> Option<Response<Bytes>> {
        let host = head.headers.get(HOST)?.to_str().ok()?;
        let origin = self.snapshots.current().front.public_origin(&host.to_ascii_lowercase())?;
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        // The target of `OPTIONS *` has no path.
        if !origin.starts_with("https://") || !target.starts_with('/') {
            return None;
        }
        let location = HeaderValue::from_str(&format!("{origin}{target}")).ok()?;
        let mut response = Response::new(Bytes::new());
        // 308 keeps the method and so the form data. The data may have been intercepted in this
        // request, but the next request uses https.
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        response.headers_mut().insert(LOCATION, location);
        // Without a limit, caches would redirect to an application that was moved or removed.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
        Some(response)
    }

    fn validated(&self, head: &request::Parts) -> Option<Response<Bytes>> {
        let body = self.challenges.key_authorization(head.uri.path())?;
        let mut response = Response::new(Bytes::from(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(response)
    }

    fn refused(head: &request::Parts) -> Response<Bytes> {
        let id = head.extensions.get::<Origin>().map_or("", |origin| origin.request_id.as_str());
        refusal(StatusCode::MISDIRECTED_REQUEST, None, &head.headers, id)
    }
}

#[async_trait]
impl Front for Redirect {
    async fn decide(&self, head: &request::Parts) -> RouteDecision {
        let answer = self.validated(head).or_else(|| self.redirected(head));
        RouteDecision::Answer(answer.unwrap_or_else(|| Self::refused(head)))
    }

    /// Never called: `decide` requests no body and forwards nothing.
    async fn answer(&self, _head: &request::Parts, _occasion: AnswerReason) -> Option<Response<Bytes>> {
        None
    }
}

impl Policy for Redirect {}

impl EdgeObserver for Redirect {
    fn finished(&self, exchange: &Finished<'_>) {
        self.snapshots.current().front.finished(exchange);
    }

    fn connection(&self, event: ConnectionEvent) {
        self.snapshots.current().front.connection(event);
    }
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
    fn an_application_can_only_lengthen_the_duration() {
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
    fn a_zero_duration_sends_no_field() {
        assert!(TransportSecurity::for_time(Duration::ZERO).is_none());
    }
}
