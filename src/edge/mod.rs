//! The edge: sockets, TLS and HTTP on the wire, and nothing else. It reads a request, asks the [`Front`] what to do with
//! it, and does that: writes an answer, or carries the request to an application's upstream. It keeps slow, greedy and
//! malformed peers out (deadlines, sizes, counts) and holds no policy of who may do what.
//!
//! With [`crate::app::server`] this is the only place that names Pingora.

mod listen;
mod monitoring;
mod probe;
mod proxy;
mod refusal;
mod request_id;
mod upstream;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, Version, request};

pub use self::listen::head::check as check_head;
pub(crate) use self::listen::inherited::inherited_sockets;
pub(crate) use self::listen::listeners::Listener;
pub(crate) use self::listen::quota::Quota;
pub(crate) use self::listen::service::{HttpService, Limits};
pub(crate) use self::listen::tls::{Tls, watch_tls};
pub(crate) use self::monitoring::{Phase, admin_service};
pub(crate) use self::probe::Probe;
pub(crate) use self::proxy::long_lived::{LongLived, Severable, watch_long_lived};
pub(crate) use self::proxy::redirect::Redirect;
pub(crate) use self::proxy::service::Proxy;
pub(crate) use self::proxy::snapshot::Change;
pub use self::proxy::snapshot::Changer;
pub(crate) use self::proxy::snapshot::{Snapshot, Snapshots, watch_upstreams};
pub(crate) use self::proxy::transport_security::TransportSecurity;
pub(crate) use self::request_id::RequestIds;
pub use crate::web::origin::{Again, Origin};
pub use crate::web::rewrite::{AnswerRewrite, Rewrite};
pub use upstream::Resolver;

/// What stands behind the edge: it decides on requests, and answers them. `head.extensions` holds the [`Origin`].
#[async_trait]
pub trait Front: EdgeObserver + Policy + 'static {
    /// Decides on a request from its head, before any byte of its body is read. `Host` is there exactly once and valid, and
    /// `Cookie` at most once, over HTTP/2 too. With [`Again`] in the extensions, the request was let through before and is
    /// still under way.
    async fn decide(&self, head: &request::Parts) -> Verdict;

    /// Answers a request that was decided on. `None` leaves it to the edge, which has plain words of its own.
    async fn answer(&self, head: &request::Parts, occasion: Occasion) -> Option<Response<Bytes>>;
}

/// Is told what becomes of requests, connections, certificates and upstreams: for metrics and the access log. Runs on the
/// request's path, so nothing here may block.
pub trait EdgeObserver: Send + Sync {
    /// Every exchange, when it is over.
    fn finished(&self, exchange: &Finished<'_>);

    fn connection(&self, _event: ConnectionEvent) {}

    /// Every second: which certificates we show, by their files, and until when each is good, seconds since 1970.
    fn certificates(&self, _shown: &[(&Path, i64)]) {}

    /// Every few seconds, whether the servers of the applications take connections: application, server, whether it does.
    fn upstreams(&self, _states: Vec<(String, String, bool)>) {}
}

/// What the edge asks that is about no single request.
pub trait Policy {
    /// A number that grows with every change that may take access away. Whoever was let through keeps it until then, or
    /// until the clock ends it.
    fn epoch(&self) -> u64 {
        0
    }

    /// Where browsers reach what answers on this host (lower case, perhaps with a port): scheme, host and port. None for a
    /// host that is nobody's.
    fn public_origin(&self, _host: &str) -> Option<String> {
        None
    }

    /// Whether an application may set this cookie, the value of a `Set-Cookie`.
    fn may_set_cookie(&self, _line: &HeaderValue) -> bool {
        true
    }
}

/// What to do with a request.
#[derive(Debug)]
pub enum Verdict {
    /// This is the answer; the body is not wanted.
    Answer(Response<Bytes>),
    /// Read the body, at most this many bytes, and call [`Front::answer`] with the route. A longer one is refused with 413.
    Local {
        /// The longest body, bytes.
        body_limit: usize,
        route: RouteHandle,
    },
    Forward(Forward),
}

/// What the front has found for a request: of a type that only the front knows.
pub(crate) type RouteHandle = &'static (dyn Any + Send + Sync);

/// What an answer is wanted for.
#[derive(Debug)]
pub enum Occasion {
    /// A request that [`Verdict::Local`] claimed, with its body.
    Local(RouteHandle, Bytes),
    /// The same, whose body did not come: it was too long (413) or too slow (408). The connection closes after it.
    NoBody(StatusCode),
    /// A request whose application did not answer: 502, 503 or 504.
    Unanswered(StatusCode),
}

/// How a request goes to an upstream. Beside the changes, the edge sets `X-Request-Id`, and `Host` where the application
/// wants its own address there; hop-by-hop fields of the client are gone before.
#[derive(Debug, Clone)]
pub struct Forward {
    /// Which application, an index into the configured ones.
    pub app: usize,
    /// How its head is changed, and the answer's.
    pub rewrite: Rewrite,
    /// Whether a GET, HEAD or OPTIONS may have a body.
    pub allow_get_body: bool,
}

/// An exchange that is over.
#[derive(Debug)]
pub struct Finished<'a> {
    pub origin: &'a Origin,
    pub method: &'a Method,
    /// The request's `Host`; empty when it had none that is valid.
    pub host: &'a str,
    /// The request's path, without the query, where codes and tokens live, nor what may be one.
    pub path: &'a str,
    /// The client's HTTP version.
    pub version: Version,
    /// The answer's status; none when the client left before there was one.
    pub status: Option<StatusCode>,
    pub answered_by: AnsweredBy,
    /// The application that the request was let through to, an index into the configured ones.
    pub app: Option<usize>,
    /// From the request's head to the answer's last byte.
    pub duration: Duration,
    /// Bytes of the request's body.
    pub request_bytes: u64,
    /// Bytes of the answer's body.
    pub response_bytes: u64,
    /// Why the edge refused the request, or the application did not answer it: a sentence.
    pub reason: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnsweredBy {
    /// The edge itself: a malformed request, a body too long, an upstream that is down.
    Edge,
    /// [`Front`].
    Front,
    Upstream,
}

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionEvent {
    Opened,
    Closed,
    /// Turned away: its address has as many as it may have.
    TooManyFromPeer,
    /// A request over HTTP/2 was turned away: its address, or all together, have as many as they may have.
    TooManyStreams,
    /// The TLS handshake failed or took too long.
    HandshakeFailed,
    /// The request head did not come within its time.
    HeadTooSlow,
    /// The request head was longer than allowed.
    HeadTooLarge,
    /// The request head was not HTTP, or a shape that requests are smuggled with.
    HeadMalformed,
    /// An open exchange was cut off: what let it through stands no more.
    AccessEnded,
    /// A connection was closed: the certificate that its client has shown is not good any more.
    CertificateEnded,
}

/// What the admin listener tells of.
pub trait Health: Send + Sync + 'static {
    /// Every series, in the Prometheus text format 0.0.4.
    fn metrics(&self) -> String;

    /// Whether requests can be served right now.
    ///
    /// # Errors
    /// A sentence for the operator: what is missing.
    fn ready(&self) -> Result<(), String>;

    /// The host and the path of a request whose answer shows that requests are answered; none where nothing is asked.
    fn probe(&self) -> Option<(String, String)> {
        None
    }

    /// What a person should see to though requests can be served, one line each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Told what becomes of connections. May not block.
pub(crate) type Watch = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;
