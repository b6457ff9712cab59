//! Requests to one provider, on a fixed number of threads.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::Url;

use crate::fault::{UpstreamFault, UpstreamFaultKind};
use sealgate_config::UpstreamSettings;
use sealgate_domain::oauth::upstream_metadata::MAX_METADATA_LENGTH;
use sealgate_domain::secret::Secret;
use sealgate_system::fetch::Web;

/// Maximum number of threads that wait for one provider. The runtime must have them in addition to those
/// for other work.
pub const MAX_THREADS: usize = 8;

/// Maximum number of operations that wait for one provider. Further operations fail at once.
const MAX_OPERATIONS: usize = 64;

/// Maximum length of an answer in bytes. Key sets and metadata have the same limit.
const MAX_ANSWER_LENGTH: usize = MAX_METADATA_LENGTH;

/// Client for the requests to one provider.
#[derive(Clone)]
pub(crate) struct Requests {
    web: Arc<Web>,
    threads: Arc<Semaphore>,
    operations: Arc<Semaphore>,
    timeout: Duration,
}

impl Requests {
    /// Reads the CA certificates.
    pub(crate) fn open(settings: &UpstreamSettings) -> Result<Self, UpstreamFault> {
        let host = Url::parse(&settings.issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        let ca_file = settings.ca_file.as_deref();
        let web = Web::for_issuer(settings.timeout, MAX_ANSWER_LENGTH as u64, ca_file, &host.unwrap_or_default())
            .map_err(|fault| UpstreamFault::new(UpstreamFaultKind::Settings, fault))?;
        Ok(Self {
            web: Arc::new(web),
            threads: Arc::new(Semaphore::new(MAX_THREADS)),
            operations: Arc::new(Semaphore::new(MAX_OPERATIONS)),
            timeout: settings.timeout,
        })
    }

    /// Runs an operation, which may consist of several requests. Refuses it if too many operations
    /// wait, and ends it at the timeout.
    pub(crate) async fn operation<T, E: From<UpstreamFault>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Ok(_place) = self.operations.try_acquire() else {
            let text = "too many sign-ins wait for the provider; they can be repeated when it answers again";
            return Err(UpstreamFault::new(UpstreamFaultKind::Busy, text).into());
        };
        let late = |_| {
            let text = format!(
                "no answer within {} seconds; check the network and the provider, or raise timeout_seconds",
                self.timeout.as_secs()
            );
            UpstreamFault::new(UpstreamFaultKind::Connect, text)
        };
        timeout(self.timeout, work).await.map_err(late)?
    }

    /// Runs blocking work on a thread. If the caller no longer waits, the thread ends at the timeout
    /// of its request, and keeps its place until then.
    pub(crate) async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Web) -> T + Send + 'static,
    ) -> Result<T, UpstreamFault> {
        let failed = |_| UpstreamFault::new(UpstreamFaultKind::Answer, "the task of a request failed");
        let place: OwnedSemaphorePermit = Arc::clone(&self.threads).acquire_owned().await.map_err(failed)?;
        let web = Arc::clone(&self.web);
        let work = move || {
            let result = work(&web);
            drop(place);
            result
        };
        let failed = |_| UpstreamFault::new(UpstreamFaultKind::Answer, "the task of a request failed");
        spawn_blocking(work).await.map_err(failed)
    }
}

/// Sends a form. Blocking.
pub(crate) fn post_form(
    web: &Web,
    url: &str,
    body: &Secret,
    authorization: Option<&Secret>,
) -> Result<Response<Vec<u8>>, UpstreamFault> {
    let mut request =
        Request::post(url).header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, sensitive(authorization)?);
    }
    send(web, url, request.body(body.expose().as_bytes().to_vec()))
}

/// Reads a document with an access token. Blocking.
pub(crate) fn get_with_token(web: &Web, url: &str, token: &Secret) -> Result<Response<Vec<u8>>, UpstreamFault> {
    let authorization = sensitive(&Secret::new(format!("Bearer {}", token.expose())))?;
    let request = Request::get(url).header(ACCEPT, "application/json").header(AUTHORIZATION, authorization);
    send(web, url, request.body(Vec::new()))
}

fn sensitive(text: &Secret) -> Result<HeaderValue, UpstreamFault> {
    let unusable = |_| UpstreamFault::new(UpstreamFaultKind::Answer, "a token has characters that no header can have");
    let mut value = HeaderValue::from_str(text.expose()).map_err(unusable)?;
    value.set_sensitive(true);
    Ok(value)
}

fn send(web: &Web, url: &str, request: http::Result<Request<Vec<u8>>>) -> Result<Response<Vec<u8>>, UpstreamFault> {
    let unusable =
        |error| UpstreamFault::new(UpstreamFaultKind::Metadata, format!("{url} is not a usable URL ({error})"));
    let unreachable = |fault: String| {
        let text = format!("{fault}; check the network, the provider and its certificate");
        UpstreamFault::new(UpstreamFaultKind::Connect, text)
    };
    web.exchange(request.map_err(unusable)?).map_err(unreachable)
}
