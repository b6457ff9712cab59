//! Limits of the route on an exchange: length of the request's body, and time without bytes of the
//! upstream.

use std::time::Duration;

use pingora::Result;
use pingora::protocols::http::ServerSession;

use super::body::announced_length;
use super::exchange::Exchange;
use super::fields::refused;
use sealgate_config::RouteLimits;

const BODY_TOO_LONG: &str = "The request's body is too long.";

impl Exchange {
    fn limits(&self) -> RouteLimits {
        self.forward.as_ref().map(|forward| forward.limits).unwrap_or_default()
    }

    /// Refuses a request that announces a longer body than its route permits. Must be called before
    /// an upstream is selected.
    ///
    /// # Errors
    /// 413 if the body is too long.
    pub(crate) fn check_announced_body(&self, session: &ServerSession) -> Result<()> {
        self.check_body(announced_length(session).unwrap_or_default())
    }

    /// Refuses a request if the received part of its body is longer than its route permits. Must be
    /// called for each part, before the part is forwarded.
    ///
    /// # Errors
    /// 413 if the body is too long.
    pub(crate) fn check_received_body(&self) -> Result<()> {
        self.check_body(self.uploaded)
    }

    fn check_body(&self, bytes: u64) -> Result<()> {
        match self.limits().max_body_bytes {
            Some(limit) if bytes > limit => Err(refused(413, BODY_TOO_LONG)),
            _ => Ok(()),
        }
    }

    /// Returns the maximum time without bytes of the upstream, for a WebSocket or an event stream if
    /// `is_stream` is true, otherwise for an ordinary response. `None` if no upstream is selected.
    pub(crate) fn upstream_timeout(&self, is_stream: bool) -> Option<Duration> {
        let server = self.server.as_ref()?;
        let limits = self.limits();
        Some(if is_stream {
            limits.stream_timeout.unwrap_or(server.stream_timeout)
        } else {
            limits.read_timeout.unwrap_or(server.read_timeout)
        })
    }

    /// Returns the timeout for Pingora, which is set before the kind of the response is known.
    ///
    /// [`super::read_timeout`] enforces the shorter of the two timeouts where it applies.
    pub(crate) fn longest_timeout(&self, is_upgrade: bool) -> Option<Duration> {
        let stream = self.upstream_timeout(true);
        if is_upgrade { stream } else { stream.max(self.upstream_timeout(false)) }
    }
}
