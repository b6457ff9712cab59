//! `upstream_protocol`: the HTTP version for connections to upstreams.

/// HTTP version for the connections to an application's upstreams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpstreamProtocol {
    #[default]
    Http1,
    /// HTTP/2 only: with prior knowledge without TLS, by ALPN with TLS (RFC 9113 §3.2, §3.3).
    Http2,
}

impl UpstreamProtocol {
    pub(crate) const CHOICES: [(&'static str, Self); 2] = [("http/1.1", Self::Http1), ("h2", Self::Http2)];

    /// Returns the value as written in the configuration file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
        }
    }
}
