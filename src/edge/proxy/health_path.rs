//! Health check of load balancers on the public listeners (`server.health_path`).
//!
//! Load balancers often send no `Host`, or the server's address, so the check is answered on every
//! host. Details are only on the monitoring listener.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};
use pingora::http::RequestHeader;

use crate::Health;

/// Path of the health check, and the health that it reports.
#[derive(Clone)]
pub struct HealthPath {
    pub path: String,
    pub health: Arc<dyn Health>,
}

impl HealthPath {
    /// Returns whether the request is a health check. HAProxy sends `OPTIONS` by default.
    pub(super) fn matches(&self, request: &RequestHeader) -> bool {
        request.uri.path() == self.path && matches!(request.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// Returns 200 if the server can serve requests and is not stopping, otherwise 503.
    pub(super) fn answer(&self, is_stopping: bool) -> Response<Bytes> {
        let is_ready = !is_stopping && self.health.ready().is_ok();
        let mut response = Response::new(Bytes::from_static(if is_ready { b"ready\n" } else { b"not ready\n" }));
        if !is_ready {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}
