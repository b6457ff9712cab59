//! HTTP client for sign-ins to applications.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use sealgate_app_login::{LoginExchange, LoginRequest, MAX_PAGE_BYTES};

use crate::fetch::Web;

/// Maximum time for a request without its own timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Client whose requests run on threads that may block.
#[derive(Debug, Clone)]
pub struct WebExchange(Arc<Web>);

impl WebExchange {
    /// Creates a client that trusts the certificate authorities of this machine and those in a PEM
    /// file.
    ///
    /// # Errors
    /// One line, if the authorities cannot be read.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let limit = u64::try_from(MAX_PAGE_BYTES).unwrap_or(u64::MAX);
        Ok(Self(Arc::new(Web::with_authorities(TIMEOUT, limit, ca_file)?)))
    }
}

impl LoginExchange for WebExchange {
    async fn exchange(&self, request: LoginRequest) -> Result<Response<Vec<u8>>, String> {
        let web = Arc::clone(&self.0);
        let send = move || {
            let LoginRequest { method, url, headers, body, timeout } = request;
            let mut builder = Request::builder().method(method).uri(url.as_str());
            if let Some(all) = builder.headers_mut() {
                *all = headers;
            }
            let http_request = builder.body(body.as_slice()).map_err(|error| error.to_string())?;
            web.send_secret(http_request, timeout)
        };
        tokio::task::spawn_blocking(send).await.unwrap_or_else(|error| Err(error.to_string()))
    }
}
