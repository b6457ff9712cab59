//! The edge: sockets, TLS, HTTP framing and upstream connections.
//!
//! The edge reads a request and asks the [`Front`] for a [`RouteDecision`]. It then writes the
//! response of the front or forwards the request to an upstream. Deadlines and limits protect it
//! against slow clients, excessive use and malformed messages. The edge contains no access policy.
//!
//! Only this crate and `app::server` use Pingora.

mod body_stream;
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
mod upstream_session;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, Version, request};

pub use self::body_stream::{BodyParts, BodySender, BodyStream, Incomplete};
pub use self::listen::certificate::check_token_certificate;
pub use self::listen::challenges::{ChallengeAnswer, Challenges};
pub use self::listen::head::check as check_head;
pub use self::listen::inherited::inherited_sockets;
pub use self::listen::listeners::Listener;
pub use self::listen::quota::Quota;
pub use self::listen::service::{FailureChannels, HttpService, Limits, ThreadPings, Threads};
pub use self::listen::tls::{Tls, watch_tls};
pub use self::listen::token_key::TokenKeys;
pub use self::monitoring::{Phase, admin_service};
pub use self::probe::Probe;
pub use self::proxy::health_path::HealthPath;
pub use self::proxy::long_lived::{Cancellable, LongLived, watch_long_lived};
pub use self::proxy::loop_mark::LoopMark;
pub use self::proxy::read_timeout::Timers;
pub use self::proxy::service::Proxy;
pub use self::proxy::snapshot::EdgeUpdate;
pub use self::proxy::snapshot::EdgeUpdater;
pub use self::proxy::snapshot::{Snapshot, Snapshots, watch_upstreams};
pub use self::proxy::transport_security::TransportSecurity;
pub use self::request_id::RequestIds;
pub use crate::origin::{Origin, Reauthorization};
pub use crate::proxy::transport_security::Redirect;
pub use crate::rewrite::{AnswerRewrite, Rewrite};
pub use crate::upstream_session::{EndSign, SessionState, UpstreamSession};
pub use upstream::Resolver;

use sealgate_config::RouteLimits;

/// Application logic behind the edge: decides on each request, and answers those that are not
/// forwarded.
///
/// The extensions of each `head` contain the [`Origin`].
#[async_trait]
pub trait Front: EdgeObserver + Policy + 'static {
    /// Decides on a request from its head, before any byte of its body is read.
    ///
    /// `Host` is valid and occurs exactly once. `Cookie` occurs at most once, also over HTTP/2. If
    /// the extensions contain [`Reauthorization`], the request was permitted before and is still in
    /// progress.
    async fn decide(&self, head: &request::Parts) -> RouteDecision;

    /// Returns the response to a request that is not forwarded, or that its upstream did not
    /// answer.
    ///
    /// If the result is `None`, the edge sends a plain response of its own.
    async fn answer(&self, head: &request::Parts, occasion: AnswerReason) -> Option<Response<Bytes>>;
}

/// Receives events about requests, connections, certificates and upstreams, for metrics and the
/// access log.
///
/// The methods run while requests are processed and must not block.
pub trait EdgeObserver: Send + Sync {
    /// Reports the end of an exchange. Called once for each exchange.
    fn finished(&self, exchange: &Finished<'_>);

    /// Reports an event of a client connection. Does nothing by default.
    fn connection(&self, _event: ConnectionEvent) {}

    /// Reports the certificates in use, once a second. Each item is a certificate's file and its
    /// expiry in seconds since 1970.
    fn certificates(&self, _shown: &[(&Path, i64)]) {}

    /// Reports the health of the upstreams, every few seconds. Each item is an application, one of
    /// its servers, and whether that server is in the rotation.
    fn upstreams(&self, _states: Vec<(String, String, bool)>) {}
}

/// Policy of the edge that does not depend on a single request.
pub trait Policy {
    /// Returns a number that grows with every change that may revoke access.
    ///
    /// The edge asks [`Front::decide`] again about a permitted request when this number has grown.
    fn epoch(&self) -> u64 {
        0
    }

    /// Returns the public origin (scheme, host and port) of the service on `host`, or `None` for an
    /// unknown host.
    ///
    /// `host` is in lower case and may have a port.
    fn public_origin(&self, _host: &str) -> Option<String> {
        None
    }

    /// Returns the `Set-Cookie` value for the number of a server in a list of upstreams.
    fn server_cookie(&self, _list: usize, _number: u64) -> Option<HeaderValue> {
        None
    }

    /// Returns whether an application may set this cookie. `_line` is the value of the `Set-Cookie`
    /// field.
    fn may_set_cookie(&self, _line: &HeaderValue) -> bool {
        true
    }
}

/// Decision on a request.
#[derive(Debug)]
pub enum RouteDecision {
    /// Send this response and ignore the body of the request.
    Answer(Response<Bytes>),
    /// Read the body, then call [`Front::answer`] with `route`. A longer body is refused with 413.
    Local {
        /// Maximum length of the body, in bytes.
        body_limit: usize,
        route: RouteHandle,
    },
    Forward(Forward),
}

/// Opaque handle of a route. The front creates it, and receives it again in
/// [`AnswerReason::Local`].
pub type RouteHandle = &'static (dyn Any + Send + Sync);

/// Reason why the edge asks the front for a response.
#[derive(Debug)]
pub enum AnswerReason {
    /// The front returned [`RouteDecision::Local`], and the edge has read the body.
    Local(RouteHandle, Bytes),
    /// The front returned [`RouteDecision::Local`], but the body was too long (413) or did not
    /// arrive in time (408).
    ///
    /// The edge closes the connection after the response.
    NoBody(StatusCode),
    /// The upstream of the request did not answer: 502, 503 or 504.
    Unanswered(StatusCode),
}

/// Instructions for forwarding a request to an upstream.
///
/// The edge removes the client's hop-by-hop fields, then applies `rewrite`. It also sets
/// `X-Request-Id`, and `Host` if the application expects its own address in that field.
#[derive(Debug, Clone)]
pub struct Forward {
    /// Index of the application in the configuration.
    pub app: usize,
    /// Number of the list of upstreams in the application; see [`sealgate_config::RouteUpstream::list`].
    pub upstreams: usize,
    /// Which server of the list receives the request.
    pub affinity: Affinity,
    /// Changes to the heads of the request and of the response.
    pub rewrite: Rewrite,
    /// Whether a GET, HEAD or OPTIONS request may have a body.
    pub allow_get_body: bool,
    /// Limits on the size and the time of the exchange.
    pub limits: RouteLimits,
    /// Whether the response may be compressed.
    pub compression: bool,
    /// Session at the application. Its cookies replace those of the request, and the response sets
    /// none in the browser.
    pub session: Option<Arc<dyn UpstreamSession>>,
}

/// Choice of a request's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// The next server in turn.
    InTurn,
    /// The same server for all requests of a client address.
    Client,
    /// The same server for all requests with this number.
    User(u64),
    /// The same server for all requests with this number, which the request's cookie contains. If it
    /// has none, or if its server is out, the response sets the cookie of [`Policy::server_cookie`].
    Cookie(Option<u64>),
}

/// Report on an exchange that has ended.
#[derive(Debug)]
pub struct Finished<'a> {
    pub origin: &'a Origin,
    pub method: &'a Method,
    /// `Host` of the request; empty if it was missing or invalid.
    pub host: &'a str,
    /// Path of the request, without the query and without segments that may be secrets.
    pub path: &'a str,
    /// HTTP version of the client.
    pub version: Version,
    /// Status of the response; `None` if the client disconnected before it was sent.
    pub status: Option<StatusCode>,
    pub answered_by: AnsweredBy,
    /// Index of the application that the request was forwarded to.
    pub app: Option<usize>,
    /// Time from the head of the request to the last byte of the response.
    pub duration: Duration,
    /// Length of the request's body, in bytes.
    pub request_bytes: u64,
    /// Length of the response's body, in bytes.
    pub response_bytes: u64,
    /// Reason why the edge refused the request or why the upstream did not answer it, as a
    /// sentence, or the [`LoggedReason`] of the front.
    pub reason: Option<&'static str>,
    /// Id of the recorded trace, if there is one.
    pub trace: Option<u128>,
}

/// Reason of a response of the front, for the access log. The response contains it in its
/// extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedReason(pub &'static str);

/// Part that produced a response, as shown in the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnsweredBy {
    /// The edge, for example because the request is malformed or its upstream is down.
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
    /// A connection was refused because its client address has too many connections.
    TooManyFromPeer,
    /// An HTTP/2 request was refused because its client address or the server has too many
    /// requests.
    TooManyStreams,
    /// A load balancer sent no valid PROXY protocol header.
    ProxyHeaderInvalid,
    /// The TLS handshake failed or took too long.
    HandshakeFailed,
    /// The request head did not arrive before its deadline.
    HeadTooSlow,
    /// The request head exceeded the size limit.
    HeadTooLarge,
    /// The request head was not HTTP, or had a form that is used for request smuggling.
    HeadMalformed,
    /// An open exchange was aborted because its access was revoked or had expired.
    AccessEnded,
    /// A connection was closed because its client certificate is no longer valid.
    CertificateEnded,
}

/// Data for the listener with `/metrics`, `/healthz` and `/readyz`.
pub trait Health: Send + Sync + 'static {
    /// Returns all metrics in the Prometheus text format 0.0.4.
    fn metrics(&self) -> String;

    /// Checks whether the server can serve requests now.
    ///
    /// # Errors
    /// A sentence for the operator that names what is missing.
    fn ready(&self) -> Result<(), String>;

    /// Returns the host and path for the readiness probe, or `None` if there is nothing to probe.
    fn probe(&self) -> Option<(String, String)> {
        None
    }

    /// Returns problems that the operator should fix although the server is ready, one line each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Callback for connection events. Must not block.
pub type Watch = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;
