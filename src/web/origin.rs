//! Who sent a request, as far as it can be known: made once at the edge, carried in the request's extensions.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use http::request::Parts;

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The client's address; behind a trusted proxy the one that the proxy names.
    pub address: IpAddr,
    /// Who opened the connection that the request came on: the client, or a proxy before us.
    pub peer: IpAddr,
    /// Whether the client came over TLS, to us or to a trusted proxy.
    pub secure: bool,
    /// Names the request in logs, answers and towards the application.
    pub request_id: String,
}

impl Origin {
    /// What the edge knows of who sent this request.
    pub fn of(head: &Parts) -> Cow<'_, Self> {
        head.extensions.get::<Self>().map_or_else(|| Cow::Owned(Self::unknown()), Cow::Borrowed)
    }

    /// Of a request of which nothing is known.
    pub const fn unknown() -> Self {
        let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { address: nowhere, peer: nowhere, secure: false, request_id: String::new() }
    }
}

/// Stands in the extensions of a request that is asked about again while its exchange is open: nobody sent it anew, so it
/// counts as no use of a session and as no decision.
#[derive(Debug, Clone, Copy)]
pub struct Again;
