//! Redirects from plain HTTP to https.
//!
//! A configured host is answered with 308 to the same path, and any other with 421. The host in
//! `Location` is a configured one, so an attacker cannot choose another.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, HOST, LOCATION};
use http::{HeaderValue, Response, StatusCode, request};

use super::snapshot::Snapshots;
use crate::refusal::refusal;
use crate::{AnswerReason, ConnectionEvent, EdgeObserver, Finished, Front, Origin, Policy, RouteDecision};

/// Front that redirects to the public origins of the current front, and reports its exchanges to
/// it.
pub struct Redirect(pub Arc<Snapshots>);

impl Redirect {
    fn redirected(&self, head: &request::Parts) -> Option<Response<Bytes>> {
        let host = head.headers.get(HOST)?.to_str().ok()?;
        let origin = self.0.current().front.public_origin(&host.to_ascii_lowercase())?;
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        // `OPTIONS *` has no path.
        if !origin.starts_with("https://") || !target.starts_with('/') {
            return None;
        }
        let location = HeaderValue::from_str(&format!("{origin}{target}")).ok()?;
        let mut response = Response::new(Bytes::new());
        // 308 keeps the method. Form data of this request may have been intercepted, but the next
        // request uses https.
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        response.headers_mut().insert(LOCATION, location);
        // The limit prevents caches from redirecting forever to an application that moved or was
        // removed.
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
    async fn decide(&self, head: &request::Parts) -> RouteDecision {
        RouteDecision::Answer(self.redirected(head).unwrap_or_else(|| Self::refused(head)))
    }

    /// Never called: `decide` requests no body and forwards nothing.
    async fn answer(&self, _head: &request::Parts, _occasion: AnswerReason) -> Option<Response<Bytes>> {
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
