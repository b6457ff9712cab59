//! HTTP service of a listener: accepts connections within the quota, and passes each request to an
//! HTTP application.
//!
//! A peer has deadlines for the TLS handshake, for each request head, and for the pause between
//! requests. Heads are limited in size and checked for ambiguous forms. The application limits
//! request bodies. [`Connection`] limits the time for writing.

use std::future::poll_fn;
use std::io;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use http::StatusCode;
use ipnet::IpNet;
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::l4::{self, socket};
use pingora::protocols::{ALPN, GetSocketDigest, Shutdown, SocketDigest, Ssl, Stream};
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use tokio::io::{AsyncRead as _, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::buffered_tls::BufferedTlsStream;
use super::chunks::{CheckedChunks, ChunkChecker};
use super::connection::{Connection, WRITE_BUFFER};
use super::head::{self, BodyFraming, HeadFault, HeadSearch};
use super::listeners::Listener;
use super::proxy_protocol::read_client_address;
use super::quota::{ConnectionPermit, Quota};
use super::tls::Tls;
use super::waiting::{Deadline, ShutdownSubscription};
use super::workers::{Create, OpenConnection, ThreadPing, Workers};
use crate::refusal::raw_refusal;
use crate::request_id::RequestIds;
use crate::{ConnectionEvent, Watch};

/// Size of the buffer for the start of a head, in bytes. Most heads fit into this buffer.
const HEAD_BUFFER: usize = 4096;
/// Pause after a failed accept. An accept usually fails because descriptors or memory are
/// exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time that a shutdown waits for the first request on a new connection.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
/// First bytes that an HTTP/2 client sends (connection preface, RFC 9113 §3.4).
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Limits for each client connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Load balancers that begin each connection with a PROXY protocol header.
    pub proxy_protocol: Vec<IpNet>,
    /// Timeout for the TLS handshake, and for each request head. The timeout for the first head
    /// starts with the connection. The timeout for a later head starts with the first byte of the
    /// head.
    pub header_timeout: Duration,
    /// Maximum length of a request head, in bytes.
    pub header_bytes: usize,
    pub idle_timeout: Duration,
    /// Maximum time in which a client accepts no byte of a response.
    pub write_timeout: Duration,
}

/// Sender of connections from within this process to the accept loop of one listener.
pub struct LoopbackConnector {
    pub address: SocketAddr,
    /// Sends one end of a socket pair to the accept loop, which serves it like a client's
    /// connection.
    pub sender: mpsc::Sender<UnixStream>,
}

/// Tests of the worker threads of a service. Empty until the threads run.
pub type ThreadPings = Arc<OnceLock<Vec<ThreadPing>>>;

/// Channels for the failures of a service.
#[derive(Debug, Clone)]
pub struct FailureChannels {
    /// Dropped as soon as the service accepts connections. If it cannot, it sends the reason.
    pub ready: mpsc::Sender<String>,
    /// Receives the reason why the service cannot go on.
    pub failed: mpsc::Sender<String>,
}

/// Threads of a service.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    /// Number of threads that serve the connections assigned to them. If it is 0, the shared threads
    /// serve all connections.
    pub workers: usize,
    /// Number of threads that share the other work: accepting connections, and serving those whose TLS
    /// key is in the token. While such a handshake waits for the token, another thread takes over.
    pub shared: usize,
    /// Maximum number of threads for blocking work, for each worker.
    pub blocking: usize,
}

impl Threads {
    /// One thread. For services with few connections.
    pub const ONE: Self = Self { workers: 0, shared: 1, blocking: 1 };
}

/// Service that runs an HTTP application on bound listeners.
pub struct HttpService<A> {
    name: &'static str,
    threads: Threads,
    listeners: Vec<(Listener, mpsc::Receiver<UnixStream>)>,
    connectors: Vec<LoopbackConnector>,
    create: Create<ConnectionHandler<A>>,
    quota: Arc<Quota>,
    watch: Watch,
    stop: ShutdownWatch,
    ready: Option<mpsc::Sender<String>>,
    failed: mpsc::Sender<String>,
    pings: ThreadPings,
}

impl<A: HttpServerApp + Send + Sync + 'static> HttpService<A> {
    /// Creates a service that passes requests to the applications that `app` creates: one for each
    /// worker, and one for the shared threads.
    ///
    /// The service stops accepting connections when `stop` becomes true.
    #[expect(clippy::too_many_arguments, reason = "called in two places, which name each argument")]
    pub fn new(
        name: &'static str,
        threads: Threads,
        app: impl Fn() -> A + Send + Sync + 'static,
        listeners: Vec<Listener>,
        limits: Limits,
        quota: Arc<Quota>,
        watch: Watch,
        stop: ShutdownWatch,
        failures: FailureChannels,
    ) -> Self {
        let of_handlers = Arc::clone(&watch);
        let create: Create<_> = Arc::new(move |stop| ConnectionHandler {
            app: Arc::new(app()),
            limits: limits.clone(),
            watch: Arc::clone(&of_handlers),
            request_ids: RequestIds::random(),
            stop,
        });
        let (mut connectors, mut with_receivers) = (Vec::new(), Vec::new());
        for listener in listeners {
            let (sender, loopback_receiver) = mpsc::channel(1);
            connectors.push(LoopbackConnector { address: listener.address, sender });
            with_receivers.push((listener, loopback_receiver));
        }
        let FailureChannels { ready, failed } = failures;
        let (listeners, ready, pings) = (with_receivers, Some(ready), ThreadPings::default());
        Self { name, threads, listeners, connectors, create, quota, watch, stop, ready, failed, pings }
    }

    /// Reports why the service cannot serve.
    fn cannot(&mut self, why: String) {
        if let Some(ready) = self.ready.take() {
            // The channel holds one message. A second failure adds nothing.
            let _ = ready.try_send(why);
        }
    }

    /// Returns the [`LoopbackConnector`] of each listener. Later calls return an empty list.
    ///
    /// The readiness probe connects with them.
    pub fn connectors(&mut self) -> Vec<LoopbackConnector> {
        std::mem::take(&mut self.connectors)
    }

    /// Returns the [`ThreadPing`] of each worker thread. The readiness probe calls them.
    pub fn pings(&self) -> ThreadPings {
        Arc::clone(&self.pings)
    }
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> Service for HttpService<A> {
    async fn start_service(&mut self, _fds: Option<ListenFds>, _shutdown: ShutdownWatch, _listeners_per_fd: usize) {
        let Threads { workers, blocking, .. } = self.threads;
        let workers = match Workers::start(self.name, workers, blocking, &self.stop, &self.create, &self.failed) {
            Ok(workers) => Arc::new(workers),
            Err(error) => {
                return self.cannot(format!(
                    "cannot start the threads that serve connections: {error}; raise TasksMax= or LimitNPROC= of the \
                     unit (ulimit -u)"
                ));
            }
        };
        let _ = self.pings.set(workers.pings());
        let shared = Arc::new((self.create)(self.stop.clone()));
        let mut loops = JoinSet::new();
        for (listener, loopback_receiver) in std::mem::take(&mut self.listeners) {
            let socket = match Listener::accepting(listener.socket) {
                Ok(socket) => socket,
                Err(error) => return self.cannot(format!("cannot accept on {}: {error}", listener.address)),
            };
            let acceptor = Acceptor {
                tls: listener.tls,
                shared: Arc::clone(&shared),
                workers: Arc::clone(&workers),
                quota: Arc::clone(&self.quota),
                watch: Arc::clone(&self.watch),
            };
            loops.spawn(acceptor.run(socket, loopback_receiver, self.stop.clone()));
        }
        self.ready = None;
        loops.join_all().await;
        // Makes requests in progress close their connections.
        shared.app.http_cleanup().await;
        for worker in workers.all() {
            worker.handler.app.http_cleanup().await;
        }
        // The workers serve until the runtime of the service ends, as the shared threads do.
        std::future::pending::<()>().await;
    }

    fn name(&self) -> &str {
        self.name
    }

    fn threads(&self) -> Option<usize> {
        Some(self.threads.shared)
    }
}

/// Accept loop of a listener.
struct Acceptor<A> {
    tls: Option<Arc<Tls>>,
    shared: Arc<ConnectionHandler<A>>,
    workers: Arc<Workers<ConnectionHandler<A>>>,
    quota: Arc<Quota>,
    watch: Watch,
}

impl<A: HttpServerApp + Send + Sync + 'static> Acceptor<A> {
    /// Accepts connections until the server stops.
    async fn run(self, socket: TcpListener, mut loopback_receiver: mpsc::Receiver<UnixStream>, stop: ShutdownWatch) {
        let mut stopping = ShutdownSubscription::new(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = stopping.wait() => return,
                Some(own) = loopback_receiver.recv() => {
                    self.serve_internal(own);
                    continue;
                }
                accepted = async { (self.quota.wait_for_capacity().await, socket.accept().await) } => accepted,
            };
            let (room, (stream, peer)) = match accepted {
                (room, Ok(accepted)) => (room, accepted),
                (_, Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match self.quota.admit(room, peer.ip()) {
                Some(ticket) => self.serve(stream, peer, ticket),
                None => (self.watch)(ConnectionEvent::TooManyFromPeer),
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, ticket: ConnectionPermit) {
        let tls = self.tls.clone();
        let stream = stream.into_std();
        let serve = move |handler: Arc<ConnectionHandler<A>>, open: Option<OpenConnection>| async move {
            let _open = open;
            // Registers the socket with the runtime of the thread that serves it.
            let Ok(stream) = stream.and_then(TcpStream::from_std) else { return };
            (handler.watch)(ConnectionEvent::Opened);
            let _closed = CloseReporter(Arc::clone(&handler.watch));
            handler.serve(stream, peer, ticket, tls).await;
        };
        let signs_in_token = self.tls.as_ref().is_some_and(|tls| tls.signs_in_token());
        match self.workers.least_busy().filter(|_| !signs_in_token) {
            Some(worker) => worker.spawn(|open| serve(Arc::clone(&worker.handler), Some(open))),
            None => drop(tokio::spawn(serve(Arc::clone(&self.shared), None))),
        }
    }

    /// Serves a request of this process, on each worker in turn.
    fn serve_internal(&self, own: UnixStream) {
        let serve = |handler: Arc<ConnectionHandler<A>>, open: Option<OpenConnection>| async move {
            let _open = open;
            handler.serve_internal(own).await;
        };
        match self.workers.in_turn() {
            Some(worker) => worker.spawn(|open| serve(Arc::clone(&worker.handler), Some(open))),
            None => drop(tokio::spawn(serve(Arc::clone(&self.shared), None))),
        }
    }
}

/// Reports the end of a connection when it is dropped, even after a panic.
struct CloseReporter(Watch);

impl Drop for CloseReporter {
    fn drop(&mut self) {
        (self.0)(ConnectionEvent::Closed);
    }
}

/// Reads the first bytes of a head. An idle connection has no buffer: the bytes are read onto the
/// stack and then copied.
async fn read_first(stream: &mut Stream) -> io::Result<BytesMut> {
    poll_fn(|cx| {
        let mut bytes = [MaybeUninit::uninit(); HEAD_BUFFER];
        let mut read = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut read))?;
        Poll::Ready(Ok(BytesMut::from(read.filled())))
    })
    .await
}

/// Complete head, with the bytes that were read after it.
struct RequestHead {
    bytes: BytesMut,
    length: usize,
    framing: BodyFraming,
}

/// Reason why a connection has no further request head.
#[derive(Debug)]
enum ReadHeadError {
    /// The client disconnected, the idle timeout passed, or the server is stopping. No response is
    /// sent.
    Gone,
    TooSlow,
    TooLarge,
    Malformed(HeadFault),
}

/// Serves the connections of one worker, or those of the shared threads.
struct ConnectionHandler<A> {
    app: Arc<A>,
    limits: Limits,
    watch: Watch,
    request_ids: RequestIds,
    stop: ShutdownWatch,
}

impl<A: HttpServerApp + Send + Sync + 'static> ConnectionHandler<A> {
    async fn serve(
        &self,
        mut socket: TcpStream,
        mut peer: SocketAddr,
        mut ticket: ConnectionPermit,
        tls: Option<Arc<Tls>>,
    ) {
        let deadline = Instant::now() + self.limits.header_timeout;
        let _ = socket.set_nodelay(true);
        let is_balancer = |network: &IpNet| network.contains(&peer.ip().to_canonical());
        if self.limits.proxy_protocol.iter().any(is_balancer) {
            let client = Box::pin(self.read_client_address(&mut socket, peer, deadline)).await;
            let Some(client) = client else { return };
            if !ticket.count_for(client.ip()) {
                return (self.watch)(ConnectionEvent::TooManyFromPeer);
            }
            peer = client;
        }
        let buffer = if tls.is_some() { 0 } else { WRITE_BUFFER };
        let connection = Connection::new(socket, peer, ticket, self.limits.write_timeout, buffer);
        let Some(tls) = tls else { return self.serve_http1(Box::new(connection), deadline).await };
        let terms = tls.terms();
        // Boxed, so that idle connections do not keep room for the state of a handshake, nor several
        // times for the stream, which is moved.
        let Ok(Ok(mut stream)) =
            timeout_at(deadline, Box::pin(terms.handshake(connection))).await.map(|made| made.map(Box::new))
        else {
            return (self.watch)(ConnectionEvent::HandshakeFailed);
        };
        // A TLS-ALPN-01 validation ends with the handshake (RFC 8737 §3).
        if matches!(stream.selected_alpn_proto(), Some(ALPN::Custom(_))) {
            return Shutdown::shutdown(&mut *stream).await;
        }
        let digest = stream.get_ssl_digest();
        let served = async {
            if matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
                self.serve_http2(stream, deadline).await;
            } else {
                let stream = BufferedTlsStream::http1(stream);
                self.serve_http1(Box::new(stream), deadline).await;
            }
        };
        // When the client certificate is no longer valid, the connection and all its HTTP/2 streams
        // are closed.
        tokio::select! {
            biased;
            () = tls.wait_until_refused(terms, digest) => {
                tracing::info!(address = %peer, "the client's certificate is no longer valid; the connection \
                    was closed");
                (self.watch)(ConnectionEvent::CertificateEnded);
            }
            () = served => {}
        }
    }

    /// Reads the PROXY protocol header of a load balancer. Returns the client's address. If the
    /// load balancer itself has opened the connection, returns the load balancer's address. `None`
    /// if there is no valid header.
    async fn read_client_address(
        &self,
        socket: &mut TcpStream,
        peer: SocketAddr,
        deadline: Instant,
    ) -> Option<SocketAddr> {
        match timeout_at(deadline, read_client_address(socket)).await {
            Ok(Ok(client)) => return Some(client.unwrap_or(peer)),
            // Some load balancers connect for a health check and then disconnect without sending a
            // header.
            Ok(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => {}
            Ok(Err(_)) | Err(_) => {
                tracing::info!(address = %peer, "the load balancer's connection does not begin with a PROXY \
                    protocol header and was closed");
                (self.watch)(ConnectionEvent::ProxyHeaderInvalid);
            }
        }
        None
    }

    /// Serves a request of this process. The proxy recognizes such a request by its Unix socket,
    /// because clients connect by TCP.
    async fn serve_internal(&self, own: UnixStream) {
        let Ok(peer) = own.peer_addr() else { return };
        let Ok(own) = own.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(own)) else { return };
        let digest = SocketDigest::from_raw_fd(own.as_raw_fd());
        let _ = digest.peer_addr.set(Some(socket::SocketAddr::Unix(peer)));
        let mut stream = l4::stream::Stream::from(own);
        stream.set_socket_digest(digest);
        self.serve_http1(Box::new(stream), Instant::now() + self.limits.header_timeout).await;
    }

    /// Serves HTTP/2. This function limits only the wait for the preface. The HTTP application
    /// limits everything else.
    async fn serve_http2(&self, mut stream: Stream, deadline: Instant) {
        let mut preface = BytesMut::zeroed(H2_PREFACE.len());
        match timeout_at(deadline, stream.read_exact(&mut preface)).await {
            Ok(Ok(_)) if preface == H2_PREFACE => {}
            Ok(Ok(_)) => return (self.watch)(ConnectionEvent::HeadMalformed),
            Ok(Err(_)) => return,
            Err(_) => return (self.watch)(ConnectionEvent::HeadTooSlow),
        }
        self.app.process_new(Box::new(BufferedTlsStream::http2(preface, stream)), &self.stop).await;
    }

    async fn serve_http1(&self, mut stream: Stream, deadline: Instant) {
        let mut kept: Option<HttpPersistentSettings> = None;
        let (mut deadline, mut stopping) = (Deadline::new(deadline), ShutdownSubscription::new(self.stop.clone()));
        let mut is_first = true;
        loop {
            let mut head = match self.read_head(&mut stream, is_first, &mut deadline, &mut stopping).await {
                Ok(head) => head,
                Err(why) => return self.refuse(stream, &why).await,
            };
            is_first = false;
            let has_chunks = head.framing == BodyFraming::Chunked;
            if has_chunks {
                let mut checker = ChunkChecker::new();
                match checker.merge(head.bytes.get(head.length..).unwrap_or_default()) {
                    Ok(None) => {}
                    Ok(Some(merged)) => {
                        head.bytes.truncate(head.length);
                        head.bytes.extend_from_slice(&merged);
                    }
                    Err(_) => return self.refuse(stream, &ReadHeadError::Malformed(HeadFault::Chunk)).await,
                }
                stream = Box::new(CheckedChunks::new(stream, checker));
            }
            let Some(reused) = self.exchange(stream, head.bytes, kept).await else { return };
            (stream, kept) = reused.consume();
            if has_chunks {
                let Ok(checked) = stream.into_any().downcast::<CheckedChunks>() else { return };
                stream = checked.into_inner();
            }
        }
    }

    /// Starts the exchange of a request whose head was read.
    ///
    /// This is not an `async fn`, in which the session, several kilobytes, would remain part of the
    /// connection's future while the connection is idle.
    fn exchange(
        &self,
        stream: Stream,
        head: BytesMut,
        kept: Option<HttpPersistentSettings>,
    ) -> Pin<Box<dyn Future<Output = Option<ReusedHttpStream>> + Send + '_>> {
        let mut session = ServerSession::new_http1(stream);
        // Timeout of each read, in case Pingora's parser waits for more bytes although the head is
        // complete.
        session.set_keepalive(Some(self.limits.header_timeout.as_secs().max(1)));
        if let Some(settings) = kept {
            settings.apply_to_session(&mut session);
        }
        session.set_pipelined_prefix(head);
        self.app.process_new_http(session, &self.stop)
    }

    /// Reads a complete head, and possibly the start of the body.
    async fn read_head(
        &self,
        stream: &mut Stream,
        is_first: bool,
        deadline: &mut Deadline,
        stopping: &mut ShutdownSubscription,
    ) -> Result<RequestHead, ReadHeadError> {
        let mut buffer = BytesMut::new();
        if !is_first {
            deadline.set(Instant::now() + self.limits.idle_timeout);
        }
        let mut read = tokio::select! {
            biased;
            read = read_first(stream) => read.map(|bytes| {
                buffer = bytes;
                buffer.len()
            }),
            () = deadline.wait() => return Err(ReadHeadError::Gone),
            () = async {
                stopping.wait().await;
                // On a new connection, the first request may still be in transit. On a connection
                // that has already served a request, clients expect that the server may close it at
                // any time.
                if is_first {
                    sleep(FIRST_REQUEST_TIMEOUT).await;
                }
            } => return Err(ReadHeadError::Gone),
        };
        let (mut seen, mut is_late) = (0, is_first);
        loop {
            match read {
                Ok(bytes) if bytes > 0 => {}
                _ => return Err(ReadHeadError::Gone),
            }
            // Empty lines before a request line are ignored (RFC 9112 §2.2).
            while buffer.starts_with(b"\r\n") {
                buffer.advance(2);
                seen = 0;
            }
            match head::find_end(&buffer, seen) {
                HeadSearch::Complete(length) if length <= self.limits.header_bytes => {
                    let head = buffer.get(..length).unwrap_or_default();
                    return match head::inspect(head) {
                        Ok(framing) => Ok(RequestHead { bytes: buffer, length, framing }),
                        Err(fault) => self.with_encoded_query(&buffer, length).ok_or(ReadHeadError::Malformed(fault)),
                    };
                }
                HeadSearch::Partial if buffer.len() <= self.limits.header_bytes => {}
                HeadSearch::Complete(_) | HeadSearch::Partial => return Err(ReadHeadError::TooLarge),
            }
            seen = buffer.len();
            buffer.reserve(HEAD_BUFFER);
            if !is_late {
                // The deadline of the first head was already set when the connection was accepted.
                is_late = true;
                deadline.set(Instant::now() + self.limits.header_timeout);
            }
            read = tokio::select! {
                biased;
                read = stream.read_buf(&mut buffer) => read,
                () = deadline.wait() => return Err(ReadHeadError::TooSlow),
            };
        }
    }

    /// Returns the head with its query percent-encoded, if the encoded head is acceptable.
    fn with_encoded_query(&self, bytes: &BytesMut, length: usize) -> Option<RequestHead> {
        let (head, rest) = bytes.split_at_checked(length)?;
        let head = head::encode_query(head).filter(|head| head.len() <= self.limits.header_bytes)?;
        let framing = head::inspect(&head).ok()?;
        let length = head.len();
        let bytes = [&head[..], rest].concat().as_slice().into();
        Some(RequestHead { bytes, length, framing })
    }

    async fn refuse(&self, mut stream: Stream, why: &ReadHeadError) {
        let (event, status) = match why {
            ReadHeadError::Gone => return Shutdown::shutdown(&mut *stream).await,
            ReadHeadError::TooSlow => (ConnectionEvent::HeadTooSlow, StatusCode::REQUEST_TIMEOUT),
            ReadHeadError::TooLarge => (ConnectionEvent::HeadTooLarge, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            ReadHeadError::Malformed(HeadFault::Method) => {
                (ConnectionEvent::HeadMalformed, StatusCode::METHOD_NOT_ALLOWED)
            }
            ReadHeadError::Malformed(_) => (ConnectionEvent::HeadMalformed, StatusCode::BAD_REQUEST),
        };
        let (reason, sentence) = match why {
            ReadHeadError::Malformed(fault) => (fault.reason().0, Some(fault.reason().1)),
            ReadHeadError::TooSlow => ("head_too_slow", None),
            ReadHeadError::TooLarge | ReadHeadError::Gone => ("head_too_large", None),
        };
        (self.watch)(event);
        // This request is logged here, because it does not reach the front, which logs all other
        // requests.
        let address = stream.get_socket_digest().and_then(|socket| socket.peer_addr().map(ToString::to_string));
        let request_id = self.request_ids.next();
        let status_code = status.as_u16();
        tracing::info!(target: "sealgate::access", request_id, address, status = status_code, by = "edge", reason);
        if stream.write_all(raw_refusal(status, sentence, &request_id).as_bytes()).await.is_ok() {
            let _ = stream.flush().await;
        }
        Shutdown::shutdown(&mut *stream).await;
    }
}
