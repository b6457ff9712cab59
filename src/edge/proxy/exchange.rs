//! What is known of a request on its way, from its head to the line in the log.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, StatusCode, request};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use pingora::{Error, ErrorType, Result};
use tokio::time::timeout;

use super::long_lived::{Admitted, LONG_BODY, LongLived, LongLivedTicket, PATIENCE, Switch};
use super::shown_path::shown_path;
use super::snapshot::{Snapshot, Snapshots, Validity};
use crate::edge::upstream::{Handle, PinnedConnection, Turn, UpstreamServer};
use crate::edge::{Again, AnsweredBy, ConnectionEvent, Finished, Forward, Origin};

#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing of the exchange, and they do not exclude one another"
)]
pub(crate) struct Exchange {
    /// From the decision to the log line, whatever is set meanwhile.
    pub(in crate::edge) snapshot: Arc<Snapshot>,
    pub(in crate::edge) started: Instant,
    pub(in crate::edge) origin: Origin,
    /// Whether it is a probe of ours: nobody is told of it.
    pub(in crate::edge) is_own: bool,
    pub(in crate::edge) answered_by: AnsweredBy,
    pub(in crate::edge) forward: Option<Forward>,
    /// The upstream that the request goes to, or could not be sent to.
    pub(in crate::edge) server: Option<Arc<UpstreamServer>>,
    pub(in crate::edge) turn: Option<Turn>,
    /// By which front, at which epoch of it and when the request was judged last.
    judged: Judged,
    /// Whether the request has a body, and whether the last of it has gone on to the upstream.
    pub(in crate::edge) has_body: bool,
    pub(in crate::edge) body_sent: bool,
    /// The connection to the upstream, where a body goes on one that may be kept.
    pub(in crate::edge) connection: Option<Handle>,
    /// Its descriptor, as long as the upstream answers on it.
    pub(in crate::edge) descriptor: Option<RawFd>,
    /// The client's own upstream connection, where an application may authenticate it.
    pub(in crate::edge) pinned: Option<Arc<PinnedConnection>>,
    /// Whether the connection to the upstream ends with the answer, whatever follows.
    ends_connection: bool,
    /// Why the edge refused the request.
    pub(in crate::edge) reason: Option<&'static str>,
    /// Whether the upstream has answered before all of the body was sent.
    pub(in crate::edge) answered_early: bool,
    pub(in crate::edge) uploaded: u64,
    pub(in crate::edge) downloaded: u64,
    pub(in crate::edge) switch: Option<Arc<Switch>>,
    long_lived: Option<Box<Last>>,
}

/// When something was still so.
struct Judged {
    /// None: the exchange's own snapshot.
    snapshot: Option<Arc<Snapshot>>,
    epoch: u64,
    at: Instant,
}

/// An exchange that lasts: what is told of it should it be cut off.
struct Last {
    admitted: Arc<Admitted>,
    status: Option<StatusCode>,
    _ticket: LongLivedTicket,
}

impl Exchange {
    pub(in crate::edge) fn new(snapshot: Arc<Snapshot>) -> Self {
        let started = Instant::now();
        // Before the front decides: what changes meanwhile moves the epoch past this.
        let judged = Judged { snapshot: None, epoch: snapshot.front.epoch(), at: started };
        Self {
            snapshot,
            started,
            judged,
            origin: Origin::unknown(),
            is_own: false,
            answered_by: AnsweredBy::Edge,
            forward: None,
            server: None,
            turn: None,
            has_body: false,
            body_sent: false,
            connection: None,
            descriptor: None,
            pinned: None,
            ends_connection: false,
            reason: None,
            answered_early: false,
            uploaded: 0,
            downloaded: 0,
            switch: None,
            long_lived: None,
        }
    }

    /// The name of the application that the request was let through to.
    pub(in crate::edge) fn app(&self) -> Option<&str> {
        let forward = self.forward.as_ref()?;
        self.snapshot.upstreams.get(forward.app).map(|upstreams| upstreams.app())
    }

    /// Whether the connection to the upstream may carry another request after this one's body.
    pub(in crate::edge) fn keeps_connection(&self) -> bool {
        let upstreams = self.forward.as_ref().and_then(|forward| self.snapshot.upstreams.get(forward.app));
        upstreams.is_some_and(|upstreams| upstreams.read_bodies_whole())
    }

    /// The upstream's answer is here whole. If it came before the body had gone, nobody knows how much of that was read,
    /// and the connection ends; not before, since an application may well answer while it reads.
    pub(in crate::edge) fn end_of_answer(&mut self) {
        if (self.answered_early || self.ends_connection)
            && let Some(connection) = self.connection.take()
        {
            connection.end();
        }
    }

    /// Has the connection to the upstream end with the answer. To be called while the upstream answers.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(in crate::edge) fn end_connection_after_answer(&mut self) -> Result<()> {
        if self.connection.is_none() {
            let handle = self.descriptor.and_then(Handle::of);
            self.connection = Some(handle.ok_or_else(|| Error::new_in(ErrorType::HTTPStatus(503)))?);
        }
        self.ends_connection = true;
        Ok(())
    }

    /// The request as the front decided on it, for asking again.
    pub(in crate::edge) fn head_again(&self, session: &Session) -> request::Parts {
        let mut head = session.req_header().as_owned_parts();
        head.extensions.insert(self.origin.clone());
        head.extensions.insert(Again);
        head
    }

    /// Whether the request would be let through now, by the front that is set now. It is asked when something has changed
    /// since it was asked last, or when that is `long` ago: some things end by the clock alone.
    pub(in crate::edge) async fn validity(
        &mut self,
        session: &Session,
        snapshots: &Snapshots,
        long: Duration,
    ) -> Validity {
        let snapshot = snapshots.current();
        // Before it is asked: what changes meanwhile moves the epoch past this.
        let epoch = snapshot.front.epoch();
        let same = Arc::ptr_eq(self.judged.snapshot.as_ref().unwrap_or(&self.snapshot), &snapshot);
        if same && self.judged.epoch == epoch && self.judged.at.elapsed() <= long {
            return Validity::Valid;
        }
        Box::pin(self.judge_again(session, snapshot, epoch)).await
    }

    async fn judge_again(&mut self, session: &Session, snapshot: Arc<Snapshot>, epoch: u64) -> Validity {
        let head = self.head_again(session);
        let asked = snapshot.validity(&head, self.app().unwrap_or_default());
        let validity = timeout(PATIENCE, asked).await.unwrap_or(Validity::Unknown);
        if validity == Validity::Valid {
            self.judged = Judged { snapshot: Some(snapshot), epoch, at: Instant::now() };
        }
        validity
    }

    /// Whether it is taken down among those that last.
    pub(in crate::edge) const fn is_long_lived(&self) -> bool {
        self.long_lived.is_some()
    }

    /// Takes it down among those that last: with the head of its answer, where there is one, in place of what was known before.
    pub(in crate::edge) fn begin_to_last(
        &mut self,
        long_lived: &Arc<LongLived>,
        session: &Session,
        answer: Option<&ResponseHeader>,
    ) {
        if self.is_long_lived() && answer.is_none() {
            return;
        }
        let (Some(app), Some(switch)) = (self.app().map(str::to_owned), self.switch.clone()) else { return };
        let endless = answer.is_some_and(is_endless);
        let upstream = self.server.as_ref().map(|server| Arc::clone(&server.configured)).filter(|_| endless);
        let admitted = Arc::new(Admitted { head: self.head_again(session), app, upstream });
        let ticket = long_lived.begin(Arc::clone(&admitted), switch);
        // A body that is only on its way does not last yet.
        if answer.is_some() {
            self.turn_lasts();
        }
        let status = answer.map(|answer| answer.status);
        self.long_lived = Some(Box::new(Last { admitted, status, _ticket: ticket }));
    }

    /// What lasts leaves its client's share of the application.
    pub(in crate::edge) fn turn_lasts(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.lasts();
        }
    }

    /// All of the body has gone on. What is to come of the answer is judged when it comes.
    pub(in crate::edge) fn body_is_sent(&mut self) {
        self.body_sent = true;
        if self.long_lived.as_ref().is_some_and(|last| last.status.is_none()) {
            self.long_lived = None;
        }
    }

    /// Tells the front that it is over: once, not again when it is dropped.
    pub(in crate::edge) fn finish(&mut self, head: &request::Parts, status: Option<StatusCode>, lengths: Lengths) {
        self.long_lived = None;
        self.tell(head, status, self.answered_by, lengths);
    }

    fn tell(&self, head: &request::Parts, status: Option<StatusCode>, answered_by: AnsweredBy, lengths: Lengths) {
        if self.is_own {
            return;
        }
        let refused = status == Some(StatusCode::BAD_REQUEST) && answered_by != AnsweredBy::Upstream;
        self.snapshot.front.finished(&Finished {
            origin: &self.origin,
            method: &head.method,
            host: head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
            path: &shown_path(head.uri.path(), refused),
            version: head.version,
            status,
            answered_by,
            app: self.forward.as_ref().map(|forward| forward.app),
            duration: self.started.elapsed(),
            request_bytes: lengths.request,
            response_bytes: lengths.response,
            reason: self.reason,
        });
    }
}

/// How long the bodies were, bytes.
#[derive(Clone, Copy)]
pub(in crate::edge) struct Lengths {
    pub(in crate::edge) request: u64,
    pub(in crate::edge) response: u64,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Only one that was cut off has not been told of before, or one that went with its connection or the server.
        let Some(last) = self.long_lived.take() else { return };
        if self.switch.as_ref().is_some_and(|switch| switch.is_thrown()) {
            tracing::info!(request_id = self.origin.request_id, "access has ended; the open exchange was cut off");
            self.snapshot.front.connection(ConnectionEvent::AccessEnded);
        }
        let lengths = Lengths { request: self.uploaded, response: self.downloaded };
        self.tell(&last.admitted.head, last.status, AnsweredBy::Upstream, lengths);
    }
}

/// Whether an answer with this head has no end of its own.
fn is_endless(answer: &ResponseHeader) -> bool {
    let events = |kind: &HeaderValue| kind.as_bytes().to_ascii_lowercase().starts_with(b"text/event-stream");
    answer.status == StatusCode::SWITCHING_PROTOCOLS || answer.headers.get(CONTENT_TYPE).is_some_and(events)
}

/// How long an answer's body is going to be; none where its head does not say.
pub(in crate::edge) fn answer_length(session: &Session, response: &ResponseHeader) -> Option<u64> {
    let bodiless = matches!(response.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless || session.req_header().method == Method::HEAD {
        return Some(0);
    }
    response.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
}

/// Whether an answer with this head, and a body of this length as [`answer_length`] knows it, may last.
pub(in crate::edge) fn may_last(response: &ResponseHeader, length: Option<u64>) -> bool {
    response.status == StatusCode::SWITCHING_PROTOCOLS || length.is_none_or(|length| length > LONG_BODY)
}
