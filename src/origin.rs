//! Who sent a request, as far as it can be known: made once at the edge, carried in the request's extensions.

use std::net::IpAddr;

/// Who opened the connection that a request came on: a client, or a proxy before us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The client's address; behind a trusted proxy the one that the proxy names.
    pub address: IpAddr,
    /// Whether the client came over TLS, to us or to a trusted proxy.
    pub secure: bool,
    /// Names the request in logs, answers and towards the application.
    pub request_id: String,
}

/// Stands in the extensions of a request that is asked about again while its exchange is open: nobody sent it anew, so it
/// counts as no use of a session and as no decision.
#[derive(Debug, Clone, Copy)]
pub struct Again;
