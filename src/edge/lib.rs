//! The edge: sockets, TLS and HTTP framing.
//!
//! It reads a request, asks the [`Front`] for a [`RouteDecision`], and either writes the answer or
//! forwards the request to an upstream. It limits slow, greedy and malformed peers (deadlines,
//! sizes, counts). It contains no access policy.
//!
//! This module and `app::server` are the only code that uses Pingora.

mod listen;
mod monitoring;
pub mod navigation;
pub mod origin;
mod probe;
mod proxy;
mod refusal;
mod request_id;
pub mod rewrite;
mod upstream;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, Version, request};

pub use self::listen::challenges::{ChallengeAnswer, Challenges};
pub use self::listen::head::check as check_head;
pub use self::listen::inherited::inherited_sockets;
pub use self::listen::listeners::Listener;
pub use self::listen::quota::Quota;
pub use self::listen::service::{HttpService, Limits};
pub use self::listen::tls::{Tls, watch_tls};
pub use self::monitoring::{Phase, admin_service};
pub use self::probe::Probe;
pub use self::proxy::long_lived::{Cancellable, LongLived, watch_long_lived};
pub use self::proxy::service::Proxy;
pub use self::proxy::snapshot::Change;
pub use self::proxy::snapshot::Changer;
pub use self::proxy::snapshot::{Snapshot, Snapshots, watch_upstreams};
pub use self::proxy::transport_security::TransportSecurity;
pub use self::request_id::RequestIds;
pub use crate::origin::{Origin, Reauthorization};
pub use crate::proxy::transport_security::Redirect;
pub use crate::rewrite::{AnswerRewrite, Rewrite};
pub use upstream::Resolver;

/// Decides on requests and answers them.
///
/// `head.extensions` holds the [`Origin`].
#[async_trait]
pub trait Front: EdgeObserver + Policy + 'static {
    /// Decides on a request from its head, before any byte of its body is read.
    ///
    /// `Host` is present exactly once and valid. `Cookie` is present at most once, also over
    /// HTTP/2. [`Reauthorization`] in the extensions marks a request that was permitted before and is still
    /// in progress.
    async fn decide(&self, head: &request::Parts) -> RouteDecision;

    /// Answers a request that was decided on.
    ///
    /// `None` makes the edge send its own plain response.
    async fn answer(&self, head: &request::Parts, occasion: AnswerReason) -> Option<Response<Bytes>>;
}

/// Receives events about requests, connections, certificates and upstreams, for metrics and the
/// access log.
///
/// Its methods run on the request path and must not block.
pub trait EdgeObserver: Send + Sync {
    /// Called once for each exchange, at its end.
    fn finished(&self, exchange: &Finished<'_>);

    fn connection(&self, _event: ConnectionEvent) {}

    /// Called every second with the file of each certificate in use and its expiry, in seconds
    /// since 1970.
    fn certificates(&self, _shown: &[(&Path, i64)]) {}

    /// Called every few seconds with the application, the server and whether the server accepts
    /// connections.
    fn upstreams(&self, _states: Vec<(String, String, bool)>) {}
}

/// Policy questions of the edge that concern no single request.
pub trait Policy {
    /// Returns a number that grows with every change that may revoke access.
    ///
    /// A permitted request stays permitted until the number grows or its access expires.
    fn epoch(&self) -> u64 {
        0
    }

    /// Returns the public origin (scheme, host and port) of the service that answers on `host`, or
    /// `None` for an unknown host.
    ///
    /// `host` is in lower case and may have a port.
    fn public_origin(&self, _host: &str) -> Option<String> {
        None
    }

    /// Returns whether an application may set this cookie, given the value of a `Set-Cookie` field.
    fn may_set_cookie(&self, _line: &HeaderValue) -> bool {
        true
    }
}

/// Decision on a request.
#[derive(Debug)]
pub enum RouteDecision {
    /// Answer the request with this response and ignore its body.
    Answer(Response<Bytes>),
    /// Read the body, at most `body_limit` bytes, and call [`Front::answer`] with the route.
    ///
    /// A longer body is refused with 413.
    Local {
        /// Maximum length of the body, in bytes.
        body_limit: usize,
        route: RouteHandle,
    },
    Forward(Forward),
}

/// Handle of the route that the front found for a request. Only the front knows its type.
pub type RouteHandle = &'static (dyn Any + Send + Sync);

/// Reason why the edge asks the front for an answer.
#[derive(Debug)]
pub enum AnswerReason {
    /// A request that [`RouteDecision::Local`] claimed, with its body.
    Local(RouteHandle, Bytes),
    /// A request that [`RouteDecision::Local`] claimed, whose body was too long (413) or too slow (408).
    ///
    /// The connection closes after the answer.
    NoBody(StatusCode),
    /// A request that its upstream did not answer: 502, 503 or 504.
    Unanswered(StatusCode),
}

/// Instructions for forwarding a request to an upstream.
///
/// In addition to the rewrite, the edge sets `X-Request-Id`, and `Host` where the application
/// expects its own address there. It removes the client's hop-by-hop fields first.
#[derive(Debug, Clone)]
pub struct Forward {
    /// Application, as an index into the configured ones.
    pub app: usize,
    /// Changes to the head of the request and of the answer.
    pub rewrite: Rewrite,
    /// Whether a GET, HEAD or OPTIONS may have a body.
    pub allow_get_body: bool,
}

/// An exchange that has ended.
#[derive(Debug)]
pub struct Finished<'a> {
    pub origin: &'a Origin,
    pub method: &'a Method,
    /// `Host` of the request; empty if it was missing or invalid.
    pub host: &'a str,
    /// Path of the request.
    ///
    /// It omits the query, which may contain codes and tokens, and path segments that look like
    /// secrets.
    pub path: &'a str,
    /// HTTP version of the client.
    pub version: Version,
    /// Status of the answer; `None` if the client disconnected before it was sent.
    pub status: Option<StatusCode>,
    pub answered_by: AnsweredBy,
    /// Application that the request was forwarded to, as an index into the configured ones.
    pub app: Option<usize>,
    /// Time from the head of the request to the last byte of the answer.
    pub duration: Duration,
    /// Length of the request's body, in bytes.
    pub request_bytes: u64,
    /// Length of the answer's body, in bytes.
    pub response_bytes: u64,
    /// Reason why the edge refused the request or the upstream did not answer it, as a sentence.
    pub reason: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnsweredBy {
    /// The edge: a malformed request, a body that is too long, or an upstream that is down.
    Edge,
    /// The [`Front`].
    Front,
    Upstream,
}

/// Event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionEvent {
    Opened,
    Closed,
    /// A connection was refused because its address has reached its limit.
    TooManyFromPeer,
    /// An HTTP/2 request was refused because its address, or the server, has reached its limit.
    TooManyStreams,
    /// The TLS handshake failed or took too long.
    HandshakeFailed,
    /// The request head did not arrive before its deadline.
    HeadTooSlow,
    /// The request head exceeded the size limit.
    HeadTooLarge,
    /// The request head was not HTTP, or had a form used for request smuggling.
    HeadMalformed,
    /// An open exchange was cut off because its access was revoked or expired.
    AccessEnded,
    /// A connection was closed because the certificate of its client is no longer valid.
    CertificateEnded,
}

/// Data that the admin listener reports.
pub trait Health: Send + Sync + 'static {
    /// Returns all metrics in the Prometheus text format 0.0.4.
    fn metrics(&self) -> String;

    /// Checks whether the server can serve requests now.
    ///
    /// # Errors
    /// A sentence for the operator that names the missing part.
    fn ready(&self) -> Result<(), String>;

    /// Returns the host and path to probe, or `None` to send no probe.
    fn probe(&self) -> Option<(String, String)> {
        None
    }

    /// Returns problems that the operator should fix although requests can be served, one line
    /// each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Callback for connection events. Must not block.
pub type Watch = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;
