//! `health_check` of an application: the HTTP request that checks each of its upstreams.

use std::time::Duration;

use super::App;
use super::issuer::authority;

/// `health_check` of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path and query of the request.
    pub path: String,
    /// Status that a healthy server answers with. `None` for any status of 200 to 399.
    pub status: Option<u16>,
    /// Time from the end of a check to the next one.
    pub interval: Duration,
    /// Maximum duration of a check, including the connection.
    pub timeout: Duration,
    /// Number of consecutive failed checks after which a server gets no requests.
    pub failures: u32,
    /// Number of consecutive successful checks after which it gets requests again.
    pub successes: u32,
}

impl HealthCheck {
    /// Returns whether a server that answers with this status is healthy.
    pub fn accepts(&self, status: u16) -> bool {
        self.status.map_or((200..400).contains(&status), |expected| status == expected)
    }
}

impl App {
    /// Returns the `Host` of requests that no client sent, if the client's `Host` is forwarded. `None`
    /// for a wildcard.
    pub fn public_authority(&self) -> Option<String> {
        let own = || self.url.as_ref().map_or_else(|| self.host.clone(), authority);
        (!self.is_wildcard()).then(own)
    }
}
