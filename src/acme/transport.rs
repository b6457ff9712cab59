//! Adapter from the HTTP client of `sealgate_system` to the interface of the ACME library.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use sealgate_system::fetch::Web;

/// Longest pause that a `Retry-After` field can request.
const MAX_PAUSE: Duration = Duration::from_hours(24);

/// End of the pause that the authority requested.
#[derive(Debug, Default)]
pub(crate) struct Pause(Mutex<Option<Instant>>);

impl Pause {
    /// Returns the remaining time of the pause, or `None` without a pause.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let until = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        until.checked_duration_since(Instant::now())
    }

    fn note(&self, status: StatusCode, headers: &HeaderMap) {
        if ![StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status) {
            return;
        }
        let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(seconds);
        let Some(after) = after else { return };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + after.min(MAX_PAUSE));
    }
}

/// Parses the number of seconds in `Retry-After`. Dates are ignored: the caller waits after
/// failures anyway.
fn seconds(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

/// HTTP client for all requests to one authority.
#[derive(Clone)]
pub(crate) struct AcmeTransport {
    pub(crate) web: Arc<Web>,
    pub(crate) pause: Arc<Pause>,
}

impl HttpClient for AcmeTransport {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let Self { web, pause } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| Error::Other(error.into()))?.to_bytes();
            let exchange = tokio::task::spawn_blocking(move || web.exchange(Request::from_parts(parts, body.to_vec())));
            let answer: Response<Vec<u8>> = exchange
                .await
                .map_err(|error| Error::Other(error.into()))?
                .map_err(|fault| Error::Other(fault.into()))?;
            let (parts, body) = answer.into_parts();
            pause.note(parts.status, &parts.headers);
            Ok(BytesResponse { parts, body: Box::new(Bytes::from(body)) })
        })
    }
}
