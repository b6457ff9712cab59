//! Redirects from plain HTTP to https.
//!
//! A configured host is answered with 308 to the same path, and any other with 421. Validations of a
//! certificate authority are answered. The host in `Location` is a configured one, so an attacker cannot choose another.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderValue, Response, StatusCode, request};

use super::snapshot::Snapshots;
use crate::listen::challenges::Challenges;
use crate::refusal::refusal;
use crate::{AnswerReason, ConnectionEvent, EdgeObserver, Finished, Front, Origin, Policy, RouteDecision};

/// Front that redirects to the public origins of the current front, and reports its exchanges to
/// it.
pub struct Redirect {
    pub snapshots: Arc<Snapshots>,
    /// Answered here, because a certificate authority validates hosts at port 80.
    pub challenges: Arc<Challenges>,
}

impl Redirect {
    fn redirected(&self, head: &request::Parts) -> Option<Response<Bytes>> {
        let host = head.headers.get(HOST)?.to_str().ok()?;
        let origin = self.snapshots.current().front.public_origin(&host.to_ascii_lowercase())?;
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
