//! Health of upstream servers: the checks, and their effect on the rotation.
//!
//! Pingora's `HttpHealthCheck` has no deadline for a whole check, reads bodies of any length, and
//! knows neither unresolved names nor the certificates of [`super::trust`].

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use http::header::{CONNECTION, HOST, USER_AGENT};
use http::uri::{Scheme, Uri};
use http::{HeaderValue, StatusCode};
use pingora::connectors::http::Connector;
use pingora::http::RequestHeader;
use pingora::protocols::http::client::HttpSession;
use pingora::{Error, ErrorType, OrErr, Result as PingoraResult};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};

use super::super::proxy::headers::change_request;
use super::server::UpstreamServer;
use super::source::Address;
use sealgate_config::{App, HealthCheck};

/// Deadline and thresholds of the check that only opens a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// A single failure may be due to a lost packet.
const CONNECTION_FAILURES: u32 = 2;
const CONNECTION_SUCCESSES: u32 = 1;

/// Maximum number of bytes that are read from the body of a response to a check.
///
/// The connection is closed afterwards. Many servers log an error if a client closes a connection
/// before it has read the response.
const MAX_READ_BODY: usize = 64 * 1024;

/// Settings of the check of an application's servers.
pub(super) struct ServerCheck {
    /// `None` to open a connection only.
    http: Option<HealthCheck>,
    /// `Host` of the request, unless it is the server's own. `None` for a wildcard, which has no host
    /// of its own.
    host: Option<HeaderValue>,
}

impl ServerCheck {
    /// # Errors
    /// If the application's host cannot be sent.
    pub(super) fn new(app: &App) -> Result<Self, String> {
        let host = app.public_authority().map(|host| HeaderValue::from_str(&host)).transpose();
        let host = host.map_err(|error| error.to_string())?;
        Ok(Self { http: app.health_check.clone(), host })
    }
}

/// Whether a server is in the rotation, as its last checks decided.
#[derive(Default)]
pub(super) struct UpstreamHealth {
    is_out: AtomicBool,
    /// Whether the server was checked at all.
    is_checked: AtomicBool,
    /// Number of consecutive results that contradict `is_out`.
    contradictions: AtomicU32,
}

impl UpstreamHealth {
    pub(super) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    fn is_checked(&self) -> bool {
        self.is_checked.load(Ordering::Relaxed)
    }

    /// Records the result of a check. Returns whether the server leaves or enters the rotation.
    ///
    /// Only one task checks a server, so no other result is recorded meanwhile.
    fn record(&self, passed: bool, failures: u32, successes: u32) -> bool {
        self.is_checked.store(true, Ordering::Relaxed);
        let is_out = self.is_out();
        if passed != is_out {
            self.contradictions.store(0, Ordering::Relaxed);
            return false;
        }
        let count = self.contradictions.load(Ordering::Relaxed).saturating_add(1);
        let changes = count >= if is_out { successes } else { failures };
        self.contradictions.store(if changes { 0 } else { count }, Ordering::Relaxed);
        if changes {
            self.is_out.store(!is_out, Ordering::Relaxed);
        }
        changes
    }

    /// Copies the state of `other`, the same server in an earlier list.
    pub(super) fn inherit(&self, other: &Self) {
        self.is_out.store(other.is_out(), Ordering::Relaxed);
        self.is_checked.store(other.is_checked(), Ordering::Relaxed);
        self.contradictions.store(other.contradictions.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl UpstreamServer {
    /// Checks the server, and logs if it leaves or enters the rotation.
    pub(super) async fn check(&self, app: &str) {
        let (outcome, failures, successes) = match &self.check.http {
            None => (self.check_connection().await, CONNECTION_FAILURES, CONNECTION_SUCCESSES),
            // The first check decides alone: a server that does not work yet gets no requests.
            Some(check) => {
                let failures = if self.health.is_checked() { check.failures } else { 1 };
                (self.check_http(check).await, failures, check.successes)
            }
        };
        if !self.health.record(outcome.is_ok(), failures, successes) {
            return;
        }
        let server = &self.address;
        match (outcome, self.check.http.is_some()) {
            (Ok(()), false) => tracing::info!(app, %server, "the upstream accepts connections again"),
            (Ok(()), true) => tracing::info!(app, %server, "the upstream passes its health check again"),
            (Err(error), false) => tracing::warn!(app, %server, error, "the upstream does not accept connections"),
            (Err(error), true) => tracing::warn!(app, %server, error, "the upstream fails its health check"),
        }
    }

    async fn check_connection(&self) -> Result<(), String> {
        let connected = async {
            match &self.address {
                Address::Ip(address) => TcpStream::connect(address).await.map(drop),
                Address::Socket(path) => UnixStream::connect(path).await.map(drop),
            }
        };
        let outcome = timeout_at(Instant::now() + CONNECTION_TIMEOUT, connected).await;
        outcome.map_err(|_| "no connection in time".to_owned())?.map_err(|error| error.to_string())
    }

    async fn check_http(&self, check: &HealthCheck) -> Result<(), String> {
        let deadline = Instant::now() + check.timeout;
        let answer = timeout_at(deadline, self.request(&check.path)).await;
        let answer =
            answer.map_err(|_| format!("no answer to {} in {} seconds", check.path, check.timeout.as_secs()))?;
        let (status, mut session) = answer.map_err(|error| error.to_string())?;
        if !check.accepts(status.as_u16()) {
            return Err(format!("{} answers {}", check.path, status.as_u16()));
        }
        let read = async {
            let mut length = 0;
            while length < MAX_READ_BODY
                && let Ok(Some(piece)) = session.read_response_body().await
            {
                length += piece.len();
            }
        };
        // The status has decided.
        let _ = timeout_at(deadline, read).await;
        Ok(())
    }

    /// Sends the request of a check. Returns the status of the response, and its connection.
    async fn request(&self, path: &str) -> PingoraResult<(StatusCode, HttpSession)> {
        // Separate from the connections of requests. No connection is returned to its pool.
        static CONNECTOR: LazyLock<Connector> = LazyLock::new(|| Connector::new(None));
        let mut peer = self.peer(false);
        let mut connected = CONNECTOR.get_http_session(&*peer).await;
        if let Err(error) = &connected
            && self.may_present_named(&peer, error)
        {
            peer = self.peer(false);
            connected = CONNECTOR.get_http_session(&*peer).await;
        }
        let (mut session, _) = connected?;
        self.check_certificate(&peer, session.digest())?;
        if self.uses_http2 && session.as_http2().is_none() {
            return Err(Error::explain(ErrorType::H2Error, "the upstream does not accept HTTP/2").into_up());
        }
        let host = self.host.as_ref().or(self.check.host.as_ref()).unwrap_or(&self.own_host);
        let mut request = RequestHeader::build_no_case("GET", path.as_bytes(), None)?;
        change_request(&mut request, |head| {
            head.headers.insert(USER_AGENT, HeaderValue::from_static("sealgate-health-check"));
            self.fields.set_in_request(&mut head.headers);
            head.headers.insert(HOST, host.clone());
            head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        });
        if self.uses_http2 {
            request.remove_header(&HOST);
            request.remove_header(&CONNECTION);
            request.set_uri(target(peer.is_tls(), host, path)?);
        }
        session.write_request_header(Box::new(request)).await?;
        session.finish_request_body().await?;
        loop {
            session.read_response_header().await?;
            let status = session.response_header().map(|head| head.status);
            // 101 is final: the check did not request an upgrade, so no status accepts it.
            if let Some(status) = status.filter(|status| !status.is_informational() || status.as_u16() == 101) {
                return Ok((status, session));
            }
        }
    }
}

/// Returns the target of an HTTP/2 request, which contains the host.
fn target(is_tls: bool, host: &HeaderValue, path: &str) -> PingoraResult<Uri> {
    let scheme = if is_tls { Scheme::HTTPS } else { Scheme::HTTP };
    let uri = Uri::builder().scheme(scheme).authority(host.as_bytes()).path_and_query(path).build();
    uri.or_err(ErrorType::InvalidHTTPHeader, "the host or the path is not valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_results_change_the_rotation() {
        let health = UpstreamHealth::default();
        let record = |passed| {
            health.record(passed, 3, 2);
            !health.is_out()
        };
        assert_eq!([false, false, true, false, false].map(record), [true; 5], "no three failures in a row");
        assert!(!record(false));
        assert_eq!([true, false, true].map(record), [false; 3], "no two successes in a row");
        assert!(record(true));
    }
}
