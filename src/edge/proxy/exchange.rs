//! State of one exchange (a request and its response), until its access log line is written.

use std::borrow::Cow;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode, request};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};
use tokio::time::timeout;

use super::compression::Compressor;
use super::long_lived::{Admitted, CancelHandle, DECISION_TIMEOUT, LONG_LIVED_BODY_BYTES, LongLived, LongLivedTicket};
use super::queued_body::Decision;
use super::read_timeout::ReadTimeout;
use super::shown_path::shown_path;
use super::snapshot::{Snapshot, Snapshots, Validity};
use crate::upstream::{Handle, PinnedConnection, QueueSlot, ServerRef, Upstreams};
use crate::{Affinity, AnsweredBy, ConnectionEvent, Finished, Forward, Origin, Reauthorization};
use sealgate_config::Upstream;
use sealgate_system::read_mostly::LocalRef;
use sealgate_system::trace::{OpenSpan, SpanDescription, SpanKind, Trace, integer, text};

/// Length of a body that the kernel's send buffer always accepts, in bytes. A body up to this
/// length never waits in Pingora's queue.
const BUFFERED_BODY: u64 = 8 * 1024;

/// State of one request and its response.
#[expect(clippy::struct_excessive_bools, reason = "independent properties of the exchange")]
pub struct Exchange {
    /// Snapshot at the start of the request. A later reload does not change it.
    pub(crate) snapshot: LocalRef<Snapshot>,
    pub(crate) started: Instant,
    pub(crate) origin: Origin,
    /// Whether the request is a readiness probe or the health check of a load balancer. Such a
    /// request is not reported.
    pub(crate) is_probe: bool,
    pub(crate) answered_by: AnsweredBy,
    pub(crate) forward: Option<Forward>,
    /// Server that the request was sent to, or to which connecting failed.
    pub(crate) server: Option<ServerRef>,
    pub(crate) turn: Option<QueueSlot>,
    /// The last decision that permitted the request.
    last_decision: LastDecision,
    /// Whether the request has a body.
    pub(crate) has_body: bool,
    /// Whether the request is a gRPC call to an upstream over HTTP/2. Both of its streams may be idle
    /// like a WebSocket.
    pub(crate) is_grpc: bool,
    pub(crate) body_sent: bool,
    /// Handle of the upstream connection, if the connection may be reused after the request's body.
    pub(crate) connection: Option<Handle>,
    /// Descriptor of the upstream connection. Valid until the upstream's response is complete.
    pub(crate) descriptor: Option<RawFd>,
    /// Upstream connection of this client alone, if the application may authenticate the
    /// connection.
    pub(crate) pinned: Option<Arc<PinnedConnection>>,
    /// Whether the upstream connection must be closed after the response.
    ends_connection: bool,
    /// Number of the sign-in at the application whose cookies were sent.
    pub(crate) sign_in: u64,
    /// Whether the user was signed in to the application again during the exchange.
    pub(crate) has_renewed_session: bool,
    /// Whether the exchange has already switched between Pingora's verification of the upstream's
    /// certificate and our own.
    pub(crate) has_changed_verification: bool,
    /// Reason why the edge or the front refused the request.
    pub(crate) reason: Option<&'static str>,
    /// Whether the response started before the whole request body was sent.
    pub(crate) answered_early: bool,
    /// Whether the response has neither a length nor chunks, so that the end of the connection ends
    /// it.
    pub(crate) ends_with_connection: bool,
    /// Compressor of the response, if it is compressed.
    pub(crate) compressor: Option<Compressor>,
    pub(crate) uploaded: u64,
    pub(crate) downloaded: u64,
    pub(crate) switch: Option<Arc<CancelHandle>>,
    long_lived: Option<Box<Registration>>,
    /// Recorded trace of the request, if it is sampled.
    pub(crate) trace: Option<Arc<Trace>>,
    /// Span of the exchange with the upstream.
    pub(crate) upstream_span: Option<OpenSpan>,
}

/// Snapshot, epoch and time of a decision that permitted the request.
struct LastDecision {
    /// Snapshot that made the decision. `None` means the snapshot of the exchange.
    snapshot: Option<LocalRef<Snapshot>>,
    epoch: u64,
    at: Instant,
}

/// Registration as long-lived, with the data to report if the exchange is aborted.
struct Registration {
    admitted: Arc<Admitted>,
    status: Option<StatusCode>,
    _ticket: LongLivedTicket,
}

impl Exchange {
    pub(crate) fn new(snapshot: LocalRef<Snapshot>) -> Self {
        let started = Instant::now();
        // Read before the front decides. If access changes afterwards, the front's epoch exceeds
        // this value.
        let last_decision = LastDecision { snapshot: None, epoch: snapshot.front.epoch(), at: started };
        Self {
            snapshot,
            started,
            last_decision,
            origin: Origin::unknown(),
            is_probe: false,
            answered_by: AnsweredBy::Edge,
            forward: None,
            server: None,
            turn: None,
            has_body: false,
            is_grpc: false,
            body_sent: false,
            connection: None,
            descriptor: None,
            pinned: None,
            ends_connection: false,
            sign_in: 0,
            has_renewed_session: false,
            has_changed_verification: false,
            reason: None,
            answered_early: false,
            ends_with_connection: false,
            compressor: None,
            uploaded: 0,
            downloaded: 0,
            switch: None,
            long_lived: None,
            trace: None,
            upstream_span: None,
        }
    }

    /// Returns the upstreams of the request, if it is forwarded.
    pub(crate) fn upstreams(&self) -> Option<&Arc<Upstreams>> {
        self.snapshot.upstreams(self.forward.as_ref()?)
    }

    /// Returns the name of the application that the request was forwarded to.
    pub(crate) fn app(&self) -> Option<&str> {
        self.upstreams().map(|upstreams| upstreams.app())
    }

    /// Returns the cookie that the response must set, so that later requests get the same server.
    ///
    /// No shared cache may store such a response.
    pub(crate) fn server_cookie(&mut self) -> Option<HeaderValue> {
        let forward = self.forward.as_mut()?;
        let Affinity::Cookie(known) = forward.affinity else { return None };
        let number = self.snapshot.upstreams(forward)?.new_number(self.server.as_ref()?, known)?;
        let cookie = self.snapshot.front.server_cookie(forward.upstreams, number)?;
        forward.rewrite.answer.private = true;
        Some(cookie)
    }

    /// Returns the path and query for the upstream.
    fn target(&self) -> Option<&PathAndQuery> {
        self.forward.as_ref().map(|forward| &forward.rewrite.path_and_query)
    }

    /// Returns whether the upstream connection may carry another request although this request has
    /// a body.
    pub(crate) fn keeps_connection(&self) -> bool {
        self.upstreams().is_some_and(|upstreams| upstreams.reads_bodies_whole())
    }

    /// Returns whether the request's server uses HTTP/2.
    pub(crate) fn uses_http2(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.uses_http2)
    }

    /// Starts the timeout of an upstream that sends nothing. `is_stream` is as in
    /// [`Self::upstream_timeout`].
    pub(crate) fn start_read_timeout(&self, is_stream: bool) {
        let limit = self.upstream_timeout(is_stream);
        if let (Some(switch), Some(descriptor), Some(limit)) = (&self.switch, self.descriptor, limit) {
            switch.read_timeout.begin(descriptor, limit);
        }
    }

    /// Returns the timeout of an upstream that sends nothing.
    pub(crate) fn read_timeout(&self) -> Option<&ReadTimeout> {
        self.switch.as_deref().map(|switch| &switch.read_timeout)
    }

    /// Ends the timeout of the upstream. Must be called before the upstream connection is reused or
    /// closed.
    pub(crate) fn stop_read_timeout(&self) {
        if let Some(read_timeout) = self.read_timeout() {
            read_timeout.end();
        }
    }

    /// Returns the error of an upstream whose timeout has passed.
    pub(crate) fn read_timeout_error(&self) -> Option<Box<Error>> {
        let is_over = self.read_timeout().is_some_and(ReadTimeout::is_over);
        is_over.then(|| Error::explain(ErrorType::ReadTimedout, "the upstream sent nothing in time").into_up())
    }

    /// Closes the upstream connection if it must not be reused. Must be called when the response is
    /// complete.
    ///
    /// If the response started before the whole request body was sent, the upstream may not have
    /// read the body completely. The connection is not closed earlier, because some applications
    /// respond while they still read.
    pub(crate) fn end_of_answer(&mut self) {
        self.stop_read_timeout();
        if (self.answered_early || self.ends_connection)
            && let Some(connection) = self.connection.take()
        {
            connection.end();
        }
    }

    /// Closes the upstream connection after the response. Must be called while the upstream
    /// responds.
    ///
    /// # Errors
    /// If the process has no free descriptors.
    pub(crate) fn end_connection_after_answer(&mut self) -> Result<()> {
        if self.connection.is_none() {
            let handle = self.descriptor.and_then(Handle::from_descriptor);
            self.connection = Some(handle.ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(503)))?);
        }
        self.ends_connection = true;
        Ok(())
    }

    /// Returns the request head that the front decided on, marked with [`Reauthorization`].
    pub(crate) fn head_for_new_decision(&self, session: &Session) -> request::Parts {
        let mut head = session.req_header().as_owned_parts();
        head.extensions.insert(self.origin.clone());
        head.extensions.insert(Reauthorization);
        head
    }

    /// Returns whether the current front would permit the request now.
    ///
    /// The last decision remains valid while the front and its epoch are unchanged, but for at most
    /// `long`, because access may expire. Otherwise the front decides again.
    pub(crate) async fn validity(&mut self, session: &Session, snapshots: &Snapshots, long: Duration) -> Validity {
        let snapshot = snapshots.current();
        // Read before the front decides. If access changes afterwards, the front's epoch exceeds
        // this value.
        let epoch = snapshot.front.epoch();
        let same = self.last_decision.snapshot.as_ref().unwrap_or(&self.snapshot).is_same(&snapshot);
        if same && self.last_decision.epoch == epoch && self.last_decision.at.elapsed() <= long {
            return Validity::Valid;
        }
        Box::pin(self.decide_again(session, snapshot, epoch)).await
    }

    async fn decide_again(&mut self, session: &Session, snapshot: LocalRef<Snapshot>, epoch: u64) -> Validity {
        let head = self.head_for_new_decision(session);
        let Some((app, target)) = self.app().zip(self.target()) else { return Validity::Ended };
        let asked = snapshot.validity(&head, app, target, None);
        let validity = timeout(DECISION_TIMEOUT, asked).await.unwrap_or(Validity::Unknown);
        if validity == Validity::Valid {
            self.last_decision = LastDecision { snapshot: Some(snapshot), epoch, at: Instant::now() };
            if let Some(switch) = &self.switch {
                switch.queued_body.decided(|| self.decision());
            }
        }
        validity
    }

    /// Returns whether the exchange is registered as long-lived because of its response.
    pub(crate) fn has_long_lived_response(&self) -> bool {
        self.long_lived.as_ref().is_some_and(|last| last.status.is_some())
    }

    /// Registers the exchange as long-lived. A registration with a response head replaces one
    /// without.
    pub(crate) fn register_long_lived(
        &mut self,
        long_lived: &Arc<LongLived>,
        session: &Session,
        answer: Option<&ResponseHeader>,
    ) {
        if self.long_lived.is_some() && answer.is_none() {
            return;
        }
        let Some((app, target)) = self.app().map(str::to_owned).zip(self.target().cloned()) else { return };
        let Some(switch) = self.switch.clone() else { return };
        let endless = answer.is_some_and(is_endless);
        let upstream = self.server.as_ref().map(|server| Arc::clone(&server.configured)).filter(|_| endless);
        let admitted = Arc::new(Admitted { head: self.head_for_new_decision(session), app, target, upstream });
        let ticket = long_lived.begin(Arc::clone(&admitted), switch);
        // A request whose body is still arriving counts towards the client's limit on requests.
        if answer.is_some() {
            self.release_turn_share();
        }
        let status = answer.map(|answer| answer.status);
        self.long_lived = Some(Box::new(Registration { admitted, status, _ticket: ticket }));
    }

    /// Stops counting the exchange towards the client's limit on requests, because it is
    /// long-lived.
    pub(crate) fn release_turn_share(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.become_long_lived();
        }
    }

    /// Requires a check before each further step of the exchange, if parts of its body may be
    /// queued in Pingora.
    pub(crate) fn guard_queued_body(&self, snapshots: &Arc<Snapshots>) {
        let (Some(switch), Some(last)) = (&self.switch, &self.long_lived) else { return };
        if self.has_body && self.uploaded > BUFFERED_BODY && !switch.queued_body.is_begun() {
            switch.queued_body.begin(Arc::clone(&last.admitted), Arc::clone(snapshots), self.decision());
        }
    }

    fn decision(&self) -> Decision {
        let LastDecision { snapshot, epoch, at } = &self.last_decision;
        let snapshot = snapshot.as_ref().unwrap_or(&self.snapshot);
        Decision { snapshot: snapshot.clone(), epoch: *epoch, at: *at }
    }

    /// Records that the whole body was passed to Pingora.
    pub(crate) fn body_is_sent(&mut self) {
        self.body_sent = true;
        self.end_registration_of_body();
    }

    /// Ends the registration of a request body. The response may be registered again.
    ///
    /// If the upstream does not read, the end of a long body may still be in Pingora's queue when
    /// the response starts. Then the registration remains, so that the end of the body is discarded
    /// if access is revoked.
    pub(crate) fn end_registration_of_body(&mut self) {
        // A gRPC call may wait for the head of its response as long as for a message.
        if self.is_grpc {
            return;
        }
        if self.uploaded <= BUFFERED_BODY && !self.has_long_lived_response() {
            self.long_lived = None;
        }
    }

    /// Reports the end of the exchange. Also ends the registration, so that `drop` does not report
    /// it again.
    pub(crate) fn finish(&mut self, head: &request::Parts, status: Option<StatusCode>, lengths: Lengths) {
        self.long_lived = None;
        self.report(head, status, self.answered_by, lengths);
    }

    fn report(&self, head: &request::Parts, status: Option<StatusCode>, answered_by: AnsweredBy, lengths: Lengths) {
        if self.is_probe {
            return;
        }
        let refused = status == Some(StatusCode::BAD_REQUEST) && answered_by != AnsweredBy::Upstream;
        let path = shown_path(head.uri.path(), refused);
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if let Some(trace) = &self.trace {
            self.end_trace(trace, head, host, &path, status, answered_by);
        }
        self.snapshot.front.finished(&Finished {
            origin: &self.origin,
            method: &head.method,
            host,
            path: &path,
            version: head.version,
            status,
            answered_by,
            app: self.forward.as_ref().map(|forward| forward.app),
            duration: self.started.elapsed(),
            request_bytes: lengths.request,
            response_bytes: lengths.response,
            reason: self.reason,
            trace: self.trace.as_ref().map(|trace| trace.id()),
        });
    }

    /// Records the spans of the upstream and of the request, and queues the trace.
    ///
    /// The attributes follow the semantic conventions of OpenTelemetry for HTTP. They contain no
    /// query, field or address of a client.
    fn end_trace(
        &self,
        trace: &Trace,
        head: &request::Parts,
        host: &str,
        path: &str,
        status: Option<StatusCode>,
        answered_by: AnsweredBy,
    ) {
        let status = status.map(|status| i64::from(status.as_u16()));
        let code = |limit| {
            (
                status.map(|status| integer("http.response.status_code", status)),
                status.is_none_or(|status| status >= limit),
            )
        };
        let method = text("http.request.method", method_name(&head.method));
        let app = self.app().map(|app| text("sealgate.app", app.to_owned()));
        if let Some(span) = self.upstream_span {
            let (code, failed) = if answered_by == AnsweredBy::Upstream { code(400) } else { (None, true) };
            let server = self.server.as_ref().map(|server| text("server.address", upstream_name(&server.configured)));
            let attributes = [Some(method.clone()), app.clone(), server, code].into_iter().flatten().collect();
            trace.end_span(span, "upstream", SpanKind::Client, SpanDescription { attributes, failed });
        }
        let (code, failed) = code(500);
        let by = match answered_by {
            AnsweredBy::Edge => "edge",
            AnsweredBy::Front => "sealgate",
            AnsweredBy::Upstream => "upstream",
        };
        let known = [
            method,
            text("url.path", path.to_owned()),
            text("url.scheme", if self.origin.secure { "https" } else { "http" }),
            text("server.address", host.to_owned()),
            text("sealgate.answered_by", by),
            text("sealgate.request_id", self.origin.request_id.clone()),
        ];
        let attributes = known.into_iter().chain(app).chain(code).collect();
        trace.end("edge", SpanDescription { attributes, failed });
    }
}

/// Returns the host of an upstream for a span, or the path of its socket.
fn upstream_name(upstream: &Upstream) -> String {
    match upstream {
        Upstream::Url(url) => url.host_str().unwrap_or_default().to_owned(),
        Upstream::Socket(path) => path.display().to_string(),
    }
}

/// Returns the method for a span. All unknown methods have one name, because clients may invent any
/// number of them.
fn method_name(method: &Method) -> Cow<'static, str> {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH") => {
            known.to_owned().into()
        }
        _ => "_OTHER".into(),
    }
}

/// Lengths of the bodies of an exchange, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    pub(crate) request: u64,
    pub(crate) response: u64,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // `finish` was not called: the exchange was aborted, or its connection or the server ended.
        let Some(last) = self.long_lived.take() else { return };
        if self.switch.as_ref().is_some_and(|switch| switch.is_cancelled()) {
            tracing::info!(request_id = self.origin.request_id, "access was revoked; the open exchange was aborted");
            self.snapshot.front.connection(ConnectionEvent::AccessEnded);
        }
        let lengths = Lengths { request: self.uploaded, response: self.downloaded };
        self.report(&last.admitted.head, last.status, AnsweredBy::Upstream, lengths);
    }
}

/// Returns whether a response with this head never ends by itself.
fn is_endless(answer: &ResponseHeader) -> bool {
    answer.status == StatusCode::SWITCHING_PROTOCOLS || is_event_stream(answer)
}

/// Returns whether the response is a stream of server-sent events (HTML §9.2).
pub(crate) fn is_event_stream(answer: &ResponseHeader) -> bool {
    let events = |kind: &HeaderValue| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream");
    answer.headers.get(CONTENT_TYPE).is_some_and(events)
}

/// Returns the length of the response's body, or `None` if its head does not contain the length.
pub(crate) fn answer_length(session: &Session, response: &ResponseHeader) -> Option<u64> {
    let bodiless = matches!(response.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless || session.req_header().method == Method::HEAD {
        return Some(0);
    }
    response.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
}

/// Returns whether a response may be long-lived. `length` is its [`answer_length`].
pub(crate) fn may_be_long_lived(response: &ResponseHeader, length: Option<u64>) -> bool {
    response.status == StatusCode::SWITCHING_PROTOCOLS || length.is_none_or(|length| length > LONG_LIVED_BODY_BYTES)
}
