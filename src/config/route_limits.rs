//! Limits of a route on the size and the time of an exchange.

use std::time::Duration;

/// Limits of a route on the requests to it and on its upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteLimits {
    /// Maximum length of a request's body, in bytes. `None` if it is unlimited.
    ///
    /// The value of the application is already copied to the routes without one of their own.
    pub max_body_bytes: Option<u64>,
    /// Maximum time without bytes from an upstream, instead of [`crate::App::read_timeout`].
    pub read_timeout: Option<Duration>,
    /// Timeout for an idle WebSocket or event stream, instead of [`crate::App::stream_timeout`].
    pub stream_timeout: Option<Duration>,
}
