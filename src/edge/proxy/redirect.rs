//! Plain HTTP, where it is answered with the way to https and with nothing else: 308 to the same path on a host of ours,
//! 421 for everybody else's. The host in the answer is one that was configured, so that nobody can have it point elsewhere.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HOST, LOCATION};
use http::{HeaderValue, Response, StatusCode, request};

use super::snapshot::Snapshots;
use crate::edge::refusal::refusal;
use crate::edge::{ConnectionEvent, EdgeObserver, Finished, Front, Occasion, Origin, Policy, Verdict};

/// Redirects to what the front that is set has behind https, and tells it of what it did.
pub(crate) struct Redirect(pub(crate) Arc<Snapshots>);

impl Redirect {
    fn redirected(&self, head: &request::Parts) -> Option<Response<Bytes>> {
        let host = head.headers.get(HOST)?.to_str().ok()?;
        let origin = self.0.current().front.public_origin(&host.to_ascii_lowercase())?;
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        // `OPTIONS *` is about no path.
        if !origin.starts_with("https://") || !target.starts_with('/') {
            return None;
        }
        let location = HeaderValue::from_str(&format!("{origin}{target}")).ok()?;
        let mut response = Response::new(Bytes::new());
        // The method stays. What a form holds has been read by whoever listens by then; the next time it is https.
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        response.headers_mut().insert(LOCATION, location);
        // An application that moves or goes is not redirected to from caches for ever.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
        Some(response)
    }

    fn refused(head: &request::Parts) -> Response<Bytes> {
        let id = head.extensions.get::<Origin>().map_or("", |origin| origin.request_id.as_str());
        refusal(StatusCode::MISDIRECTED_REQUEST, None, &head.headers, id)
    }
}

#[async_trait]
impl Front for Redirect {
    async fn decide(&self, head: &request::Parts) -> Verdict {
        Verdict::Answer(self.redirected(head).unwrap_or_else(|| Self::refused(head)))
    }

    /// Never asked: no body is wanted, and nothing goes to an application.
    async fn answer(&self, _head: &request::Parts, _occasion: Occasion) -> Option<Response<Bytes>> {
        None
    }
}

impl Policy for Redirect {}

impl EdgeObserver for Redirect {
    fn finished(&self, exchange: &Finished<'_>) {
        self.0.current().front.finished(exchange);
    }

    fn connection(&self, event: ConnectionEvent) {
        self.0.current().front.connection(event);
    }
}
