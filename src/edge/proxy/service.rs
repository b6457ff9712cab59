//! Pingora proxy service: processes one request.
//!
//! It checks the request and asks the [`Front`](crate::Front) for a decision. Then it responds or
//! forwards the request to an upstream. At the end it reports the exchange.

use std::any::Any;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, SET_COOKIE, STRICT_TRANSPORT_SECURITY,
    TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use ipnet::IpNet;
use memchr::memmem::Finder;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::protocols::Digest;
use pingora::protocols::http::ServerSession;
use pingora::proxy::{FailToProxy, ProxyHttp, ProxyWarnLogContext, Session};
use pingora::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use pingora::{Error, ErrorSource, ErrorType, Result};

use super::body::{
    BodyFault, INCOMPLETE_BODY, close_http1, discard_short_body, linger, read_body, refuse_body, respond,
};
use super::client_address::{ForwardedClient, client_address, peer};
use super::compression::Compressor;
use super::exchange::{Exchange, Lengths, answer_length, is_event_stream, may_be_long_lived};
use super::fields::{check_head, is_of_one_connection, join_cookies, normalize_host, refused};
use super::headers::{change_answer, change_fields, change_request, sift_cookies, strip_hop_by_hop};
use super::health_path::HealthPath;
use super::http2_upstream;
use super::long_lived::{CancelHandle, ConnectionContext, LONG_LIVED_AGE, LongLived};
use super::loop_mark::LoopMark;
use super::prefix_translation::PrefixTranslation;
use super::shown_path::shown_path;
use super::snapshot::{Snapshots, Validity};
use super::trailers::filter_trailers;
use super::transport_security::TransportSecurity;
use super::upstream_name::NameTranslation;
use crate::listen::{client_certificate, head};
use crate::proxy::body::{is_bodiless, is_chunked, normalize_framing};
use crate::proxy::upgrade::is_handshake;
use crate::refusal::{reason, refusal, status_of, why};
use crate::request_id::{REQUEST_ID, RequestIds, SAMPLED, TraceParent, is_request_id};
use crate::upstream::{Handle, PinnedConnection, QueueSlot, authenticates_connection, client_number};
use crate::{Affinity, AnswerReason, AnsweredBy, LoggedReason, Origin, RouteDecision, RouteHandle, SessionState};
use sealgate_config::PathPrefix;
use sealgate_system::trace::{SpanDescription, Trace, Tracer, span, text};

/// Maximum time for reading the rest of an unwanted body before the connection is closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum rate at which a forwarded body must arrive, in bytes per second. The total duration is
/// unlimited.
const MIN_BODY_RATE: u64 = 500;

/// Maximum age of the decision when data is sent to an upstream. If it is older, the front decides
/// again.
///
/// Time may have passed while the request waited for its turn or a connection, or while the process
/// was suspended.
const MAX_DECISION_AGE: Duration = Duration::from_millis(100);

const ACCESS_ENDED: &str = "Access was revoked during the request.";
const LOOP: &str = "The application's server leads back to this proxy.";
const SESSION_RENEWED: &str =
    "The session at the application had ended and was renewed. Open the page again and repeat the action.";
const SESSION_ENDED: &str = "The session at the application has ended and cannot be renewed. Open the page again.";

/// Number of fields to reserve in addition to the front's fields: request id, `Host`, `CDN-Loop`. A request
/// with a client certificate may need more.
const FURTHER_FIELDS: usize = 6;

/// The public proxy service.
pub struct Proxy {
    pub snapshots: Arc<Snapshots>,
    pub trusted_proxies: Vec<IpNet>,
    /// Load balancers that begin each connection with a PROXY protocol header.
    pub proxy_protocol: Vec<IpNet>,
    /// Maximum length of a request head, in bytes.
    pub header_bytes: usize,
    pub body_timeout: Duration,
    /// Maximum time for a client to accept a part of a response's body.
    pub write_timeout: Duration,
    pub request_ids: RequestIds,
    pub loop_mark: LoopMark,
    pub long_lived: Arc<LongLived>,
    /// `Strict-Transport-Security` to send; `None` if the server is not reached over https.
    pub transport_security: Option<TransportSecurity>,
    /// Recorder of traces, if they are exported.
    pub tracer: Option<Arc<Tracer>>,
    /// Health check on the public listeners. `None` if there is none.
    pub health_path: Option<HealthPath>,
}

impl Proxy {
    /// Returns a service for another thread, which writes to no memory that both use.
    #[must_use]
    pub fn for_thread(&self) -> Self {
        Self {
            snapshots: Arc::clone(&self.snapshots),
            trusted_proxies: self.trusted_proxies.clone(),
            proxy_protocol: self.proxy_protocol.clone(),
            request_ids: RequestIds::random(),
            loop_mark: self.loop_mark.for_thread(),
            long_lived: Arc::clone(&self.long_lived),
            transport_security: self.transport_security.as_ref().and_then(TransportSecurity::for_thread),
            tracer: self.tracer.clone(),
            health_path: self.health_path.clone(),
            ..*self
        }
    }

    fn origin(&self, session: &ServerSession) -> Origin {
        let peer = peer(session);
        let own_tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some());
        let headers = &session.req_header().headers;
        let ForwardedClient { address, is_known, secure } =
            client_address(peer, own_tls, headers, &self.trusted_proxies);
        // The connection has a load balancer's address only if its PROXY header has no address.
        let is_known = is_known && !self.proxy_protocol.iter().any(|network| network.contains(&peer.to_canonical()));
        let given = || headers.get(REQUEST_ID)?.to_str().ok().filter(|id| is_request_id(id)).map(str::to_owned);
        let request_id = self.is_trusted(peer).then(given).flatten().unwrap_or_else(|| self.request_ids.next());
        Origin { address, is_address_known: is_known, peer, secure, request_id }
    }

    fn is_health_check(&self, session: &ServerSession) -> bool {
        self.health_path.as_ref().is_some_and(|check| check.matches(session.req_header()))
    }

    fn is_trusted(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|net| net.contains(&peer.to_canonical()))
    }

    /// Starts the trace of a request.
    ///
    /// The id of a new trace is the request id, which the log lines of the request contain.
    fn begin_trace(&self, tracer: &Arc<Tracer>, session: &ServerSession, origin: &Origin) -> Option<Arc<Trace>> {
        match TraceParent::received(&session.req_header().headers, self.is_trusted(origin.peer)) {
            Some(TraceParent { trace, parent, flags }) => tracer.begin(trace, Some((parent, flags & SAMPLED != 0))),
            None => tracer.begin(self.request_ids.trace_id(&origin.request_id), None),
        }
    }

    async fn local(
        &self,
        session: &mut Session,
        limit: usize,
        route: RouteHandle,
        exchange: &mut Exchange,
    ) -> Result<()> {
        let body = match read_body(session, limit, self.body_timeout).await {
            Ok(body) => body,
            Err(BodyFault::TooLarge) => {
                discard_short_body(session).await;
                return self.body_refused(session, StatusCode::PAYLOAD_TOO_LARGE, exchange).await;
            }
            Err(BodyFault::TooSlow) => {
                return self.body_refused(session, StatusCode::REQUEST_TIMEOUT, exchange).await;
            }
            Err(BodyFault::Broken(error)) => {
                exchange.answered_by = AnsweredBy::Edge;
                return Err(error);
            }
        };
        let response = answer_of_front(session, exchange, AnswerReason::Local(route, body)).await;
        let response = response.ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(500)))?;
        self.answer(session, response, exchange).await
    }

    /// Checks that the request is still permitted, before its head or a part of its body is
    /// forwarded.
    ///
    /// If the front cannot decide, the request is refused with 503, because the upstream acts on a
    /// complete request. Upgraded connections are not checked here, because they have many
    /// messages. [`LongLived`] aborts them within a second.
    async fn ensure_still_permitted(&self, session: &Session, exchange: &mut Exchange) -> Result<()> {
        if session.was_upgraded() {
            return Ok(());
        }
        match exchange.validity(session, &self.snapshots, MAX_DECISION_AGE).await {
            Validity::Valid => Ok(()),
            Validity::Ended => Err(refused(401, ACCESS_ENDED)),
            Validity::Unknown => Err(Error::new_in(ErrorType::HTTPStatus(503))),
        }
    }

    /// Renews the session at the application if the response shows that it has ended.
    ///
    /// # Errors
    /// If the session has ended. A request that changes nothing is then sent again with the renewed
    /// session. Any other request is refused, because a form of the ended session contains its
    /// tokens.
    async fn ensure_session(session: &Session, response: &ResponseHeader, exchange: &mut Exchange) -> Result<()> {
        let Some(held) = exchange.forward.as_ref().and_then(|forward| forward.session.clone()) else { return Ok(()) };
        let sign = held.end_sign(response.status, &response.headers).filter(|_| !exchange.has_renewed_session);
        let Some(sign) = sign else { return Ok(()) };
        // The upstream has answered. It must not seem silent while the session is renewed.
        exchange.stop_read_timeout();
        match held.renew(exchange.sign_in, sign).await {
            SessionState::Open => {
                exchange.start_read_timeout(false);
                Ok(())
            }
            SessionState::Ended => Err(refused(503, SESSION_ENDED)),
            SessionState::Renewed => {
                exchange.has_renewed_session = true;
                let is_safe = matches!(session.req_header().method, Method::GET | Method::HEAD | Method::OPTIONS);
                if !is_safe || exchange.has_body || session.is_upgrade_req() {
                    return Err(refused(409, SESSION_RENEWED));
                }
                // The next attempt need not avoid this server.
                exchange.server = None;
                let mut error = Error::explain(ErrorType::InternalError, "the session was renewed").into_up();
                error.set_retry(true);
                Err(error)
            }
        }
    }

    /// Adds the fields of the front and of the edge to an upstream's response.
    fn finish_fields(&self, fields: &mut HeaderMap, exchange: &Exchange) {
        if let Some(forward) = &exchange.forward {
            change_answer(fields, &forward.rewrite.answer);
        }
        if let Some(security) = &self.transport_security {
            security.set(fields);
        }
        if let Ok(id) = HeaderValue::from_str(&exchange.origin.request_id) {
            fields.insert(REQUEST_ID, id);
        }
    }

    /// Returns the upstream's own host name, if `Host` was set to it, and the application's public
    /// origin.
    fn upstream_and_public_name(session: &Session, exchange: &Exchange) -> Option<(String, String)> {
        let own = exchange.server.as_ref()?.host.as_ref()?.to_str().ok()?;
        let host = session.req_header().headers.get(HOST)?.to_str().ok()?;
        let public = exchange.snapshot.front.public_origin(&host.to_ascii_lowercase())?;
        Some((own.to_owned(), public))
    }

    /// Returns the prefix that was replaced in the path for the upstream, and the names under which
    /// clients know the host.
    fn prefix_and_authorities(session: &Session, exchange: &Exchange) -> Option<(Arc<PathPrefix>, [String; 2])> {
        let prefix = exchange.forward.as_ref()?.rewrite.prefix.as_ref()?;
        let host = session.req_header().headers.get(HOST)?.to_str().ok()?.to_ascii_lowercase();
        let public = exchange.snapshot.front.public_origin(&host);
        let public = public.as_deref().and_then(|origin| origin.split_once("://")).map(|(_, name)| name.to_owned());
        Some((Arc::clone(prefix), [public.unwrap_or_default(), host]))
    }

    /// Writes a response of the front or of the edge.
    async fn answer(
        &self,
        session: &mut Session,
        mut response: http::Response<Bytes>,
        exchange: &Exchange,
    ) -> Result<()> {
        if session.is_process_shutting_down() {
            session.set_keepalive(None);
        }
        if let Some(security) = &self.transport_security {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, security.value().clone());
        }
        let id = HeaderValue::from_str(&exchange.origin.request_id).ok();
        respond(session, response, id.as_ref()).await
    }

    /// Writes the response to a request whose body was refused.
    ///
    /// Closes the connection afterwards, because the unread rest of the body must not be parsed as
    /// the next request.
    async fn body_refused(&self, session: &mut Session, status: StatusCode, exchange: &Exchange) -> Result<()> {
        session.set_keepalive(None);
        let response = answer_of_front(session, exchange, AnswerReason::NoBody(status)).await;
        let response = response.ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(status.as_u16())))?;
        self.answer(session, response, exchange).await
    }
}

/// Returns whether `Accept` names event streams. `EventSource` sends that in every browser (HTML
/// §9.2.2).
fn accepts_event_stream(fields: &HeaderMap) -> bool {
    static FINDER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"text/event-stream"));
    fields.get_all(ACCEPT).iter().any(|line| FINDER.find(line.as_bytes()).is_some())
}

/// Returns the response of the front to a request that is not forwarded.
async fn answer_of_front(
    session: &Session,
    exchange: &Exchange,
    occasion: AnswerReason,
) -> Option<http::Response<Bytes>> {
    let mut head = session.req_header().as_owned_parts();
    head.extensions.insert(exchange.origin.clone());
    let answer = exchange.snapshot.front.answer(&head, occasion);
    match &exchange.trace {
        Some(trace) => Box::pin(trace.within(answer)).await,
        None => answer.await,
    }
}

/// Describes a decision for its span.
fn describe(decision: &RouteDecision) -> SpanDescription {
    let decision = match decision {
        RouteDecision::Answer(_) => "answer",
        RouteDecision::Local { .. } => "local",
        RouteDecision::Forward(_) => "forward",
    };
    SpanDescription { attributes: vec![text("sealgate.decision", decision)], failed: false }
}

/// Returns the response of the front to a request that its upstream did not answer.
async fn unanswered(session: &Session, status: StatusCode, exchange: &Exchange) -> Option<http::Response<Bytes>> {
    // 501 and 505 concern the client's request.
    let is_of_client = matches!(status, StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    if exchange.forward.is_none() || !status.is_server_error() || is_of_client {
        return None;
    }
    answer_of_front(session, exchange, AnswerReason::Unanswered(status)).await
}

#[async_trait]
impl ProxyHttp for Proxy {
    // Boxed, because Pingora moves the context between futures. Each of them would reserve memory
    // for it, and Pingora copies the outermost future of each request.
    type CTX = Box<Exchange>;

    fn new_ctx(&self) -> Self::CTX {
        Box::new(Exchange::new(self.snapshots.current()))
    }

    /// Takes the context that the HTTP/1 connection provides for the next exchange. Over HTTP/2,
    /// the extensions of the request contain it.
    fn on_connection_reuse(
        &self,
        _session: &mut Session,
        exchange: &mut Self::CTX,
        context: Box<dyn Any + Send + Sync>,
    ) {
        if let Ok(context) = context.downcast::<ConnectionContext>() {
            exchange.switch = Some(context.switch);
            exchange.pinned = context.pinned;
        }
    }

    /// Keeps the client's own upstream connection for the next exchange on the same client
    /// connection.
    ///
    /// A trusted proxy's connection carries requests of many clients. There, and over HTTP/2, the
    /// upstream connection is closed after the exchange.
    fn persist_connection_context(
        &self,
        _session: &Session,
        exchange: &Self::CTX,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let pinned = exchange.pinned.as_ref().filter(|_| !self.is_trusted(exchange.origin.peer))?;
        Some(Box::new(Arc::clone(pinned)))
    }

    /// Installs no modules. The default of Pingora is a compressor, which ignores quality values and
    /// `no-transform`, and does not flush each part. [`Compressor`] compresses where a rule allows it.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn early_request_filter(&self, session: &mut Session, exchange: &mut Self::CTX) -> Result<()> {
        session.set_read_timeout(Some(self.body_timeout));
        if session.is_http2() {
            // Only for HTTP/2. Over HTTP/1 the connection enforces this timeout. A timer for each
            // write would cost more than the decision.
            session.set_write_timeout(Some(self.write_timeout));
        }
        session.set_total_drain_timeout(Some(DRAIN_TIMEOUT));
        exchange.origin = self.origin(session);
        let is_health_check = self.is_health_check(session);
        exchange.is_probe = is_health_check || session.client_addr().is_some_and(|address| address.as_unix().is_some());
        if let Some(tracer) = self.tracer.as_ref().filter(|_| !exchange.is_probe) {
            exchange.trace = self.begin_trace(tracer, session, &exchange.origin);
        }
        if let Some(switch) = session.req_header_mut().extensions_mut().remove::<Arc<CancelHandle>>() {
            exchange.switch = Some(switch);
        }
        // Over HTTP/1 the listener has already checked the length of the raw head.
        check_head(session.req_header(), session.is_http2().then_some(self.header_bytes))?;
        let is_http2 = session.is_http2();
        let request = session.req_header_mut();
        // Over HTTP/1 the listener has already checked this in the raw head.
        if is_http2 && request.headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
            return Err(refused(400, "The request has more than one Content-Length."));
        }
        if !request.raw_path_is_utf8() || !head::is_target(request.raw_path()) {
            return Err(refused(400, "The request's target is not valid."));
        }
        if !is_health_check {
            normalize_host(request)?;
        }
        join_cookies(request)?;
        // Drops the original spelling of field names, which is no longer needed, so that it is not
        // copied.
        change_request(request, |_| ());
        Ok(())
    }

    // Rarely needed futures are boxed where they are awaited, here and in the called functions.
    // Otherwise the future of each request would reserve memory for all of them.
    async fn request_filter(&self, session: &mut Session, exchange: &mut Self::CTX) -> Result<bool> {
        if let Some(check) = self.health_path.as_ref().filter(|_| self.is_health_check(session)) {
            Box::pin(discard_short_body(session)).await;
            Box::pin(self.answer(session, check.answer(session.is_process_shutting_down()), exchange)).await?;
            return Ok(true);
        }
        session.req_header_mut().extensions_mut().insert(exchange.origin.clone());
        let decision = exchange.snapshot.front.decide(session.req_header());
        let verdict = match &exchange.trace {
            Some(trace) => Box::pin(trace.within(span("decision", decision, describe))).await,
            None => decision.await,
        };
        // Nothing else is in the extensions here. Even an empty map would be copied with the head.
        *session.req_header_mut().extensions_mut() = Extensions::new();
        exchange.answered_by = AnsweredBy::Front;
        match verdict {
            RouteDecision::Answer(response) => {
                exchange.reason = response.extensions().get().map(|LoggedReason(reason)| *reason);
                Box::pin(discard_short_body(session)).await;
                Box::pin(self.answer(session, response, exchange)).await?;
            }
            RouteDecision::Local { body_limit, route } => {
                Box::pin(self.local(session, body_limit, route, exchange)).await?;
            }
            RouteDecision::Forward(forward) => {
                if self.loop_mark.shows_loop(&session.req_header().headers) {
                    return Err(refused(508, LOOP));
                }
                let method = &session.req_header().method;
                let needs_none = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
                if needs_none && !forward.allow_get_body && !session.is_body_empty() {
                    Box::pin(refuse_body(session, self.body_timeout)).await?;
                }
                exchange.forward = Some(forward);
                exchange.has_body = !session.is_body_empty();
                if exchange.has_body {
                    exchange.check_announced_body(session)?;
                    exchange.register_long_lived(&self.long_lived, session, None);
                }
                // A server may ignore `Upgrade` and not switch protocols (RFC 9110 §7.8). Pingora
                // would upgrade the connection, so only valid handshakes keep the field.
                if session.is_upgrade_req() && (exchange.has_body || !is_handshake(session.req_header())) {
                    session.req_header_mut().remove_header(&UPGRADE);
                }
                if exchange.upstreams().is_some_and(|upstreams| upstreams.use_http2()) {
                    Box::pin(http2_upstream::prepare(session, exchange)).await?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn upstream_peer(&self, session: &mut Session, exchange: &mut Self::CTX) -> Result<Box<HttpPeer>> {
        exchange.answered_by = AnsweredBy::Edge;
        exchange.stop_read_timeout();
        // Unreachable: a request is forwarded only after a decision of the front.
        let forward = exchange.forward.as_ref().ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(500)))?;
        let upstreams = exchange.snapshot.upstreams(forward);
        let upstreams = upstreams.ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(500)))?;
        // If a trusted proxy does not name its clients, its requests belong to many clients. So the
        // limit for one client does not apply, nor does the server of one client.
        let Origin { address, peer, .. } = exchange.origin;
        let client = (address != peer || !self.is_trusted(peer)).then_some(address);
        if exchange.turn.is_none() {
            let busy = || refused(503, "the application has too many concurrent requests");
            exchange.turn = Some(upstreams.turn(client).await.ok_or_else(busy)?);
        }
        if exchange.pinned.is_none() && authenticates_connection(&session.req_header().headers, &AUTHORIZATION) {
            exchange.pinned = Some(Arc::new(PinnedConnection::new()));
        }
        if let (Some(trace), None) = (&exchange.trace, exchange.upstream_span) {
            exchange.upstream_span = Some(trace.start_span());
        }
        // A retry sends the body from its start.
        exchange.uploaded = 0;
        // If a server is already set, this is a retry after the connection to that server failed.
        let avoid = exchange.server.as_ref();
        let pinned = exchange.pinned.as_ref().and_then(|pinned| upstreams.pinned(pinned, avoid));
        let number = match forward.affinity {
            Affinity::InTurn | Affinity::Cookie(None) => None,
            Affinity::Client => client.map(client_number),
            Affinity::User(number) | Affinity::Cookie(Some(number)) => Some(number),
        };
        let server = pinned.or_else(|| match number {
            Some(number) => upstreams.pick_for(number, avoid),
            None => upstreams.pick(avoid),
        });
        let unknown = || Error::explain(ErrorType::HTTPStatus(502), "the upstream has no known address").into_up();
        let server = exchange.server.insert(server.ok_or_else(unknown)?);
        let mut peer = server.peer(session.is_upgrade_req());
        peer.options.read_timeout = exchange.longest_timeout(session.is_upgrade_req());
        if let Some(pinned) = &exchange.pinned {
            pinned.restrict(&mut peer);
        }
        if let (Some(turn), Some(server)) = (&mut exchange.turn, &exchange.server)
            && !server.uses_http2
        {
            turn.begin_choice(server, session.is_upgrade_req(), exchange.pinned.is_some()).await;
        }
        // Few requests have a connection-specific field. For all other requests, Pingora need not
        // search for each of these fields.
        if !session.req_header().headers.keys().any(is_of_one_connection) {
            peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
        }
        Ok(peer)
    }

    async fn connected_to_upstream(
        &self,
        _session: &mut Session,
        reused: bool,
        peer: &HttpPeer,
        descriptor: RawFd,
        digest: Option<&Digest>,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        if let Some(turn) = &mut exchange.turn {
            turn.end_choice(descriptor);
        }
        let server = exchange.server.as_ref().ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(500)))?;
        if let Err(mut error) = server.check_certificate(peer, digest) {
            // Only one switch in each exchange, so that the two kinds of verification do not
            // alternate.
            error.set_retry(!std::mem::replace(&mut exchange.has_changed_verification, true));
            return Err(error);
        }
        exchange.connection = None;
        exchange.descriptor = Some(descriptor);
        if let (Some(pinned), Some(server), false) = (&exchange.pinned, &exchange.server, reused) {
            let handle = Handle::from_descriptor(descriptor);
            pinned.hold(server, handle.ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(503)))?);
        }
        if exchange.has_body && exchange.keeps_connection() && !exchange.uses_http2() {
            let handle = Handle::from_descriptor(descriptor);
            exchange.connection = Some(handle.ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(503)))?);
        }
        Ok(())
    }

    async fn request_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        let Some(piece) = body else {
            // The end of the body completes the request, and the upstream acts on complete
            // requests.
            if exchange.has_body && end_of_stream && !exchange.body_sent {
                self.ensure_still_permitted(session, exchange).await?;
                exchange.body_is_sent();
            }
            return Ok(());
        };
        exchange.uploaded += piece.len() as u64;
        // The messages of a WebSocket are not a body.
        if !session.was_upgraded() {
            exchange.check_received_body()?;
        }
        exchange.guard_queued_body(&self.snapshots);
        if let Some(read_timeout) = exchange.read_timeout() {
            read_timeout.renew();
        }
        let taken = exchange.started.elapsed();
        let too_slow = taken > self.body_timeout && exchange.uploaded / taken.as_secs().max(1) < MIN_BODY_RATE;
        if too_slow && !session.was_upgraded() && !exchange.is_grpc {
            return Err(refused(408, "The request's body arrived too slowly."));
        }
        if taken > LONG_LIVED_AGE {
            exchange.release_turn_share();
        }
        self.ensure_still_permitted(session, exchange).await?;
        if end_of_stream {
            exchange.body_is_sent();
        }
        Ok(())
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        self.ensure_still_permitted(session, exchange).await?;
        let forward = exchange.forward.as_ref().ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(500)))?;
        let rewrite = &forward.rewrite;
        // The client certificate of a trusted proxy identifies the proxy, not its client.
        let tls = session.digest().and_then(|digest| digest.ssl_digest.as_deref());
        let is_proxy = self.is_trusted(exchange.origin.peer);
        let tls = tls.filter(|_| !is_proxy);
        let recorded = exchange.trace.as_ref().zip(exchange.upstream_span);
        let recorded = recorded.map(|(trace, span)| TraceParent::recorded(trace.id(), span.id));
        let server = exchange.server.as_deref();
        let uses_http2 = exchange.uses_http2();
        if uses_http2 {
            http2_upstream::check_version(request)?;
        }
        let host = server.and_then(|server| server.host.as_ref());
        let held = forward.session.as_ref().map(|held| held.cookies(rewrite.path_and_query.path()));
        let fixed = server.map(|server| &server.fields);
        // An upstream that does not read the whole body would parse the rest as the next request.
        // The proxy cannot detect that, so it sends `Connection: close`, and Pingora closes the
        // connection (RFC 9112 §9.6). HTTP/2 separates requests by streams.
        let mut closes = exchange.has_body && !exchange.keeps_connection();
        closes |= exchange.pinned.is_none() && exchange.turn.as_ref().is_some_and(QueueSlot::closes_connection);
        // The connection of an upgrade is never used again.
        let closes = closes && !uses_http2 && !session.is_upgrade_req();
        // Some HTTP/1 servers answer 411 to a request without a length (RFC 9110 §8.6). HTTP/2
        // clients need not send one, because the head can end the stream.
        let expects_length = matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
        let is_empty = expects_length && !exchange.has_body;
        change_request(request, |request| {
            let fields = &mut request.headers;
            if uses_http2 {
                http2_upstream::strip_connection_fields(fields);
            }
            fields.reserve(rewrite.set.len() + FURTHER_FIELDS + fixed.map_or(0, |fixed| fixed.request_len()));
            for name in &rewrite.remove {
                fields.remove(name);
            }
            for (name, value) in &rewrite.set {
                fields.insert(name, value.clone());
            }
            if let Some(fixed) = fixed {
                fixed.set_in_request(fields);
            }
            if let Some((_, cookies)) = &held {
                fields.remove(COOKIE);
                fields.extend(cookies.iter().map(|cookies| (COOKIE, cookies.clone())));
            }
            if let Some(host) = host {
                fields.insert(HOST, host.clone());
            }
            self.request_ids.set_fields(fields, &exchange.origin.request_id, is_proxy, recorded);
            client_certificate::set_fields(fields, tls);
            self.loop_mark.add(fields);
            if is_empty {
                fields.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
            if closes {
                fields.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            request.uri = Uri::from(rewrite.path_and_query.clone());
        });
        exchange.sign_in = held.map_or(0, |(sign_in, _)| sign_in);
        if !session.is_upgrade_req() {
            // The head of an event stream may arrive only with its first event.
            exchange.start_read_timeout(exchange.is_grpc || accepts_event_stream(&session.req_header().headers));
        }
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        let switches = response.status == StatusCode::SWITCHING_PROTOCOLS;
        // The client requested no upgrade. A proxy in front might treat the rest of the connection
        // as a tunnel.
        if switches && !session.is_upgrade_req() {
            return Err(Error::explain(
                ErrorType::HTTPStatus(502),
                "the upstream sent 101 without a requested upgrade",
            )
            .into_up());
        }
        let is_last = switches || !response.status.is_informational();
        if is_last {
            Box::pin(Self::ensure_session(session, response, exchange)).await?;
        }
        // The response may have taken long, and access may have ended since.
        if exchange.validity(session, &self.snapshots, LONG_LIVED_AGE).await == Validity::Ended {
            return Err(refused(401, ACCESS_ENDED));
        }
        let status = response.status;
        let is_chunked = is_chunked(response)?;
        // Bytes after the head of a response without a body would be parsed as the next response.
        if is_chunked && is_bodiless(status) {
            exchange.end_connection_after_answer()?;
        }
        // The upstream may authenticate this connection next, so no other user may use it.
        if exchange.pinned.is_none() && authenticates_connection(&response.headers, &WWW_AUTHENTICATE) {
            exchange.end_connection_after_answer()?;
        }
        let uses_http2 = exchange.uses_http2();
        let limit = exchange.upstream_timeout(exchange.is_grpc || is_event_stream(response));
        if let (Some(read_timeout), Some(limit)) = (exchange.read_timeout(), limit) {
            read_timeout.extend(limit, uses_http2);
        }
        let length = answer_length(session, response);
        exchange.ends_with_connection = !is_chunked && length.is_none() && !uses_http2;
        if may_be_long_lived(response, length) {
            exchange.register_long_lived(&self.long_lived, session, Some(response));
        }
        let translated = if is_last { Self::upstream_and_public_name(session, exchange) } else { None };
        let prefix = if is_last { Self::prefix_and_authorities(session, exchange) } else { None };
        let server_cookie = if is_last { exchange.server_cookie() } else { None };
        let compresses = is_last && exchange.forward.as_ref().is_some_and(|forward| forward.compression);
        let mut compressor = None;
        change_fields(response, |fields| {
            normalize_framing(fields, status);
            if let Some((upstream, public_origin)) = &translated {
                NameTranslation { upstream, public_origin }.apply(fields);
            }
            if let Some((prefix, authorities)) = &prefix {
                PrefixTranslation { prefix, authorities }.apply(fields);
            }
            if let Some(forward) = &exchange.forward
                && let Some(held) = &forward.session
            {
                let (path, request) = (forward.rewrite.path_and_query.path(), &session.req_header().headers);
                let shared = held.store_cookies(exchange.sign_in, path, request, fields);
                fields.remove(SET_COOKIE);
                fields.extend(shared.into_iter().map(|line| (SET_COOKIE, line)));
            }
            // A 101 is included, because browsers accept cookies from a WebSocket handshake.
            sift_cookies(fields, |line| exchange.snapshot.front.may_set_cookie(line));
            fields.extend(server_cookie.map(|cookie| (SET_COOKIE, cookie)));
            if !switches {
                strip_hop_by_hop(fields);
            }
            if is_last {
                if let Some(server) = &exchange.server {
                    server.fields.set_in_response(fields);
                }
                self.finish_fields(fields, exchange);
            }
            if compresses && !switches {
                compressor = Compressor::for_response(session.req_header(), status, length, fields);
            }
        })?;
        exchange.compressor = compressor;
        if !is_last {
            return Ok(());
        }
        if switches {
            session.set_read_timeout(exchange.upstream_timeout(true));
        }
        exchange.answered_early = exchange.has_body && !exchange.body_sent;
        if !exchange.answered_early {
            exchange.end_registration_of_body();
        }
        if length == Some(0) {
            exchange.end_of_answer();
        }
        if session.is_process_shutting_down() {
            session.set_keepalive(None);
        }
        exchange.answered_by = AnsweredBy::Upstream;
        Ok(())
    }

    /// Removes `Transfer-Encoding` from responses to HTTP/1.0 clients, which do not support it.
    ///
    /// Pingora sets the field if the length is unknown. For these clients, closing the connection
    /// ends the body instead.
    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        _exchange: &mut Self::CTX,
    ) -> Result<()> {
        if session.req_header().version == Version::HTTP_10 && response.headers.contains_key(TRANSFER_ENCODING) {
            response.remove_header(&TRANSFER_ENCODING);
            session.set_keepalive(None);
        }
        Ok(())
    }

    fn response_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        end_of_stream: bool,
        exchange: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        exchange.downloaded += body.as_ref().map_or(0, |piece| piece.len() as u64);
        // The edge itself closed the upstream connection at the timeout. The client must not
        // mistake that for the end of the response.
        if let (true, true, Some(error)) = (end_of_stream, exchange.ends_with_connection, exchange.read_timeout_error())
        {
            return Err(error);
        }
        if let Some(read_timeout) = exchange.read_timeout() {
            read_timeout.renew();
        }
        if !end_of_stream && !exchange.has_long_lived_response() && exchange.started.elapsed() > LONG_LIVED_AGE {
            exchange.register_long_lived(&self.long_lived, session, session.response_written());
        }
        if end_of_stream {
            exchange.end_of_answer();
        }
        if let Some(compressor) = &mut exchange.compressor {
            *body = compressor.compress(body.take(), end_of_stream)?;
        }
        Ok(None)
    }

    fn upstream_response_trailer_filter(
        &self,
        _session: &mut Session,
        trailers: &mut HeaderMap,
        exchange: &mut Self::CTX,
    ) -> Result<()> {
        if let Some(forward) = &exchange.forward {
            filter_trailers(trailers, &forward.rewrite, exchange.server.as_deref());
        }
        exchange.end_of_answer();
        Ok(())
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        peer: &HttpPeer,
        exchange: &mut Self::CTX,
        mut error: Box<Error>,
    ) -> Box<Error> {
        let may_present_named = exchange.server.as_ref().is_some_and(|server| server.may_present_named(peer, &error))
            && !std::mem::replace(&mut exchange.has_changed_verification, true);
        // The request was not sent, so a retry at another server is safe for every method. The same
        // server may have closed an idle connection.
        let upstreams = exchange.upstreams();
        let has_closed = exchange.uses_http2() && *error.etype() == ErrorType::H2Error;
        error.set_retry(may_present_named || has_closed || upstreams.is_some_and(|upstreams| upstreams.has_choice()));
        error
    }

    fn error_while_proxy(
        &self,
        peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        exchange: &mut Self::CTX,
        client_reused: bool,
    ) -> Box<Error> {
        let timeout_error = exchange.read_timeout_error().filter(|_| *error.esource() == ErrorSource::Upstream);
        exchange.stop_read_timeout();
        let error = if exchange.uses_http2() { http2_upstream::with_hint(error) } else { error };
        let mut error = timeout_error.unwrap_or(error).more_context(format!("Peer: {peer}"));
        // A request must not take effect twice. Pingora's default is the same.
        if !session.req_header().method.is_idempotent() || session.as_ref().retry_buffer_truncated() {
            error.set_retry(false);
        } else {
            error.retry.decide_reuse(client_reused);
        }
        error
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, exchange: &mut Self::CTX) -> FailToProxy {
        let status = status_of(error);
        exchange.reason = status.map(|status| reason(error, status));
        if let Some(status) = status
            && session.response_written().is_none_or(|head| head.status.is_informational() && head.status != 101)
        {
            exchange.answered_by = AnsweredBy::Edge;
            session.set_keepalive(None);
            let mut response = unanswered(session, status, exchange).await.unwrap_or_else(|| {
                refusal(status, why(error), &session.req_header().headers, &exchange.origin.request_id)
            });
            // Add the headers of the decision, which include CORS headers. Without them, a page of
            // another origin could not read the error.
            if let Some(forward) = &exchange.forward {
                let changes = &forward.rewrite.answer;
                response.headers_mut().extend(changes.set.iter().chain(&changes.append).cloned());
            }
            // Fails only if the client has disconnected.
            let _ = self.answer(session, response, exchange).await;
        }
        FailToProxy { error_code: status.map_or(0, |status| status.as_u16()), can_reuse_downstream: false }
    }

    async fn logging(&self, session: &mut Session, error: Option<&Error>, exchange: &mut Self::CTX) {
        // Lets the next request proceed before the remaining work for this exchange.
        exchange.turn = None;
        exchange.stop_read_timeout();
        let request = session.req_header();
        let (id, app) = (&exchange.origin.request_id, exchange.app());
        match error.map(|error| (error, error.esource())) {
            None => {}
            Some((error, ErrorSource::Downstream)) => tracing::debug!(request_id = id, %error, "the \
                connection to the client failed"),
            Some((error, ErrorSource::Upstream)) => tracing::warn!(request_id = id, app, %error, "the \
                request to the upstream failed"),
            Some((error, _)) => tracing::error!(request_id = id, app, %error, "the request failed"),
        }
        let status = session.response_written().map(|head| head.status);
        let lengths = Lengths { request: session.body_bytes_read() as u64, response: session.body_bytes_sent() as u64 };
        exchange.finish(request, status, lengths);
        // A truncated response must not be ended like a complete one.
        let is_cut = error
            .is_some_and(|error| exchange.answered_by == AnsweredBy::Upstream || *error.etype() == INCOMPLETE_BODY);
        if !is_cut && status.is_some() {
            if session.is_http2() {
                Box::pin(linger(session)).await;
            }
            if error.is_some() {
                Box::pin(close_http1(session)).await;
            }
        }
    }

    /// Returns the description of a request for Pingora's log lines.
    ///
    /// It omits the query, which may contain codes and tokens.
    fn request_summary(&self, session: &Session, exchange: &Self::CTX) -> String {
        let request = session.req_header();
        let path = shown_path(request.uri.path(), true);
        format!("{} {path}, request {}", request.method, exchange.origin.request_id)
    }

    /// Suppresses Pingora's error log.
    ///
    /// [`Self::logging`] logs each error once, at a level at which clients cannot fill the log.
    fn suppress_error_log(&self, _session: &Session, _exchange: &Self::CTX, _error: &Error) -> bool {
        true
    }

    fn suppress_proxy_warn_log(&self, _: &Session, _: &Self::CTX, _: &Error, _: ProxyWarnLogContext) -> bool {
        true
    }
}
