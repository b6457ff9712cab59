//! Connection to a server: socket, TLS, and a task that sends requests and sorts answers.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sealgate_config::{DirectorySecurity, DirectoryServer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::entry::LdapEntry;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::message::{
    OperationResult, ResponseMessage, ResponseOperation, SearchRequest, abandon_request, bind_request, message_length,
    response, search_request, start_tls_request, unbind_request,
};

/// Maximum length of all messages of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of bytes that a connection keeps for answers that are not complete.
const MAX_KEPT_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of requests that wait to be sent.
const MAX_QUEUED_REQUESTS: usize = 64;
/// Time after which a server that accepts no data is considered unreachable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the notice that ends a connection.
const UNBIND_TIMEOUT: Duration = Duration::from_secs(1);
/// Last message number. A connection with more requests is closed.
const LAST_ID: i32 = i32::MAX - 1024;

/// Complete answer to a request.
#[derive(Debug, Default)]
pub(crate) struct SearchAnswer {
    pub(crate) entries: Vec<LdapEntry>,
    /// URLs of other servers that have a part of the subtree. They are never contacted.
    pub(crate) references: Vec<String>,
    pub(crate) result: OperationResult,
}

/// Connection that may carry several requests at once. It is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct LdapConnection {
    requests: mpsc::Sender<Zeroizing<Vec<u8>>>,
    shared: Arc<Shared>,
    /// Turn for searches of several pages. OpenLDAP keeps the position of one such search only.
    pub(crate) paging: tokio::sync::Mutex<()>,
    /// Name of the server for messages.
    server: String,
}

/// State of a connection that its task and its callers share.
#[derive(Debug)]
struct Shared {
    answers: Mutex<Answers>,
    last_id: AtomicI32,
    has_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Answers {
    pending: HashMap<i32, PendingAnswer>,
    kept_bytes: usize,
    /// Time of the oldest request since which the server has sent nothing.
    silent_since: Option<Instant>,
    /// Why the connection has ended.
    end: Option<LdapFault>,
}

#[derive(Debug)]
struct PendingAnswer {
    answer: SearchAnswer,
    bytes: usize,
    complete: oneshot::Sender<Result<SearchAnswer, LdapFault>>,
}

impl Shared {
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection for all callers. The first reason is kept.
    fn end(&self, fault: &LdapFault) {
        self.has_ended.store(true, Ordering::Release);
        let mut answers = self.answers();
        let fault = answers.end.get_or_insert_with(|| fault.clone()).clone();
        answers.kept_bytes = 0;
        for (_, pending) in answers.pending.drain() {
            let _ = pending.complete.send(Err(fault.clone()));
        }
    }
}

impl Answers {
    fn remove(&mut self, id: i32) -> Option<PendingAnswer> {
        let pending = self.pending.remove(&id)?;
        self.kept_bytes = self.kept_bytes.saturating_sub(pending.bytes);
        Some(pending)
    }
}

/// Removes a request when its caller no longer waits, and tells the server.
struct Waiting<'c> {
    connection: &'c LdapConnection,
    id: i32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let was_pending = self.connection.shared.answers().remove(self.id).is_some();
        if was_pending && let Some(id) = self.connection.next_id() {
            let _ = self.connection.requests.try_send(Zeroizing::new(abandon_request(id, self.id)));
        }
    }
}

impl LdapConnection {
    /// Connects to a server, and completes TLS. The connection is anonymous.
    ///
    /// # Errors
    /// If the server cannot be reached before the deadline, or TLS fails.
    pub(crate) async fn open(
        server: &DirectoryServer,
        tls: Option<&Arc<ClientConfig>>,
        deadline: Instant,
    ) -> Result<Self, LdapFault> {
        let late = |_| {
            let text = format!("{server}: no connection in time; check that the directory runs, and the network to it");
            LdapFault::new(LdapFaultKind::Connect, text)
        };
        timeout_at(deadline, Self::connect(server, tls)).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
    }

    async fn connect(server: &DirectoryServer, tls: Option<&Arc<ClientConfig>>) -> Result<Self, LdapFault> {
        let mut socket = dial(server).await?;
        if server.security == DirectorySecurity::None {
            return Ok(Self::start(socket, server));
        }
        if server.security == DirectorySecurity::StartTls {
            start_tls(&mut socket, server).await?;
        }
        let fault = |problem: &str| LdapFault::new(LdapFaultKind::Tls, format!("{server}: {problem}"));
        let tls = tls.ok_or_else(|| fault("TLS is not set up"))?;
        let name = ServerName::try_from(server.host.clone());
        let name = name.map_err(|_| fault("the host cannot be in a certificate; write its name in servers"))?;
        match TlsConnector::from(Arc::clone(tls)).connect(name, socket).await {
            Ok(stream) => Ok(Self::start(stream, server)),
            Err(error) => Err(fault(&tls_problem(&error, server))),
        }
    }

    /// Starts the task of the connection.
    fn start(stream: impl AsyncRead + AsyncWrite + Send + 'static, server: &DirectoryServer) -> Self {
        let (requests, queue) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let shared = Arc::new(Shared {
            answers: Mutex::default(),
            last_id: AtomicI32::new(0),
            has_ended: AtomicBool::new(false),
        });
        let server = server.to_string();
        let (reader, writer) = tokio::io::split(stream);
        let (task_shared, task_server) = (Arc::clone(&shared), server.clone());
        tokio::spawn(async move {
            let fault = |text: &str| {
                LdapFault::new(LdapFaultKind::Connect, format!("{task_server}: {text}; see the log of the directory"))
            };
            let end = tokio::select! {
                end = send(writer, queue, &task_shared) => end,
                end = receive(reader, &task_shared) => end,
            };
            task_shared.end(&fault(&end));
        });
        Self { requests, shared, paging: tokio::sync::Mutex::default(), server }
    }

    /// Returns the URL of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns whether the connection is open.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.has_ended.load(Ordering::Acquire)
    }

    /// Returns whether the server has sent nothing for this time while it should have answered.
    pub(crate) fn is_silent(&self, patience: Duration) -> bool {
        self.shared.answers().silent_since.is_some_and(|since| since.elapsed() >= patience)
    }

    /// Sends a simple bind, and returns its result.
    ///
    /// # Errors
    /// If the password is empty, because servers accept such a bind as an anonymous one (RFC 4513
    /// §5.1.2). If the connection ends.
    pub(crate) async fn bind(&self, dn: &[u8], password: &[u8]) -> Result<OperationResult, LdapFault> {
        if password.is_empty() || dn.is_empty() {
            return Err(LdapFault::new(LdapFaultKind::Settings, "a bind without a name or password is never sent"));
        }
        Ok(self.call(|id| bind_request(id, dn, password)).await?.result)
    }

    /// Sends a search, and returns its complete answer.
    ///
    /// # Errors
    /// If the answer is too long, or the connection ends.
    pub(crate) async fn search(&self, search: &SearchRequest<'_>) -> Result<SearchAnswer, LdapFault> {
        self.call(|id| Zeroizing::new(search_request(id, search))).await
    }

    async fn call(&self, request: impl FnOnce(i32) -> Zeroizing<Vec<u8>>) -> Result<SearchAnswer, LdapFault> {
        let id = self.next_id().ok_or_else(|| self.ended())?;
        let (complete, answer) = oneshot::channel();
        {
            let mut answers = self.shared.answers();
            if let Some(end) = &answers.end {
                return Err(end.clone());
            }
            answers.pending.insert(id, PendingAnswer { answer: SearchAnswer::default(), bytes: 0, complete });
            answers.silent_since.get_or_insert_with(Instant::now);
        }
        let _waiting = Waiting { connection: self, id };
        if self.requests.send(request(id)).await.is_err() {
            return Err(self.ended());
        }
        answer.await.unwrap_or_else(|_| Err(self.ended()))
    }

    /// Returns the next message number, or `None` if there are no more.
    fn next_id(&self) -> Option<i32> {
        let next = |id: i32| (id < LAST_ID).then_some(id + 1);
        self.shared.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|id| id + 1)
    }

    fn ended(&self) -> LdapFault {
        let end = self.shared.answers().end.clone();
        end.unwrap_or_else(|| {
            LdapFault::new(LdapFaultKind::Connect, format!("{}: the connection was closed; try again", self.server))
        })
    }
}

/// Connects the socket. Tries all addresses of the host.
async fn dial(server: &DirectoryServer) -> Result<TcpStream, LdapFault> {
    let fault = |problem: &dyn std::fmt::Display| {
        let text = format!("{server}: {problem}; check servers, that the directory runs, and the network to it");
        LdapFault::new(LdapFaultKind::Connect, text)
    };
    let addresses = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
    let addresses: Vec<SocketAddr> = addresses.map_err(|error| fault(&error))?.collect();
    let mut last: Option<io::Error> = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(socket) => {
                // Without it, each request would wait for the acknowledgement of the previous one.
                socket.set_nodelay(true).map_err(|error| fault(&error))?;
                return Ok(socket);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| fault(&"the name has no address"), |error| fault(&error)))
}

/// Asks the server for TLS. Any byte after the answer was not protected by TLS, and is refused.
async fn start_tls(socket: &mut TcpStream, server: &DirectoryServer) -> Result<(), LdapFault> {
    let fault = |problem: &str| LdapFault::new(LdapFaultKind::Tls, format!("{server}: {problem}"));
    let refused = "set up TLS in the directory, or write ldaps:// in servers";
    let exchange = async {
        socket.write_all(&start_tls_request(1)).await?;
        let mut bytes = Vec::new();
        loop {
            let length = message_length(&bytes).map_err(|_| io::Error::other("the answer is not LDAP"))?;
            match length {
                Some(length) if bytes.len() > length => return Err(io::Error::other("data before TLS")),
                Some(length) if bytes.len() == length => break,
                _ if socket.read_buf(&mut bytes).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
        response(&bytes).map_err(|_| io::Error::other("the answer is not LDAP"))
    };
    let answer = exchange.await.map_err(|error| fault(&format!("StartTLS failed ({error}); {refused}")))?;
    match answer.operation {
        ResponseOperation::Done(OperationResult { code: 0, .. }) if answer.id == 1 => Ok(()),
        ResponseOperation::Done(result) => {
            Err(fault(&format!("the server refuses StartTLS (code {}: {}); {refused}", result.code, result.diagnostic)))
        }
        _ => Err(fault(&format!("StartTLS failed; {refused}"))),
    }
}

fn tls_problem(error: &io::Error, server: &DirectoryServer) -> String {
    let cause = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(problem)) => format!(
            "the certificate of the server is not accepted ({problem}); set ca_file to the certificate of its \
             authority, and use the name in the certificate instead of {}",
            server.host
        ),
        _ => format!("the TLS handshake failed ({error}); check the port, and that the server speaks TLS on it"),
    }
}

/// Sends requests until all handles of the connection are dropped. Returns why it stopped.
async fn send<S: AsyncWrite>(
    mut writer: WriteHalf<S>,
    mut queue: mpsc::Receiver<Zeroizing<Vec<u8>>>,
    shared: &Shared,
) -> String {
    while let Some(request) = queue.recv().await {
        let write = async {
            writer.write_all(&request).await?;
            writer.flush().await
        };
        match timeout(WRITE_TIMEOUT, write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return format!("the connection failed ({error})"),
            Err(_) => return "the server accepts no data".to_owned(),
        }
    }
    let id = shared.last_id.load(Ordering::Relaxed).saturating_add(1);
    let end = async {
        writer.write_all(&unbind_request(id)).await?;
        writer.shutdown().await
    };
    // The connection is closed in any case.
    let _ = timeout(UNBIND_TIMEOUT, end).await;
    "the connection was closed".to_owned()
}

/// Receives responses until the connection ends. Returns why it ended.
async fn receive<S: AsyncRead>(mut reader: ReadHalf<S>, shared: &Shared) -> String {
    let mut bytes: Vec<u8> = Vec::with_capacity(4096);
    loop {
        let mut rest = bytes.as_slice();
        let needed = loop {
            let Ok(length) = message_length(rest) else {
                return "the answer is not LDAP, or a message is too long".to_owned();
            };
            let Some((message, after)) = length.and_then(|length| rest.split_at_checked(length)) else {
                break length.unwrap_or_default();
            };
            rest = after;
            match response(message) {
                Ok(ResponseMessage { id: 0, operation }) => return notice(operation),
                Ok(ResponseMessage { id, operation }) => accept(shared, id, operation, message.len()),
                Err(_) => return "the answer is not valid LDAP".to_owned(),
            }
        };
        let read = bytes.len() - rest.len();
        bytes.drain(..read);
        bytes.reserve(needed.saturating_sub(bytes.len()).max(1));
        match reader.read_buf(&mut bytes).await {
            Ok(0) => return "the server closed the connection".to_owned(),
            Ok(_) => {}
            Err(error) => return format!("the connection failed ({error})"),
        }
    }
}

/// Returns the text of a notice of disconnection.
fn notice(operation: ResponseOperation) -> String {
    match operation {
        ResponseOperation::Done(result) => {
            format!("the server ends the connection (code {}: {})", result.code, result.diagnostic)
        }
        _ => "the answer belongs to no request".to_owned(),
    }
}

/// Adds a response to its answer. Responses to abandoned requests are ignored.
fn accept(shared: &Shared, id: i32, operation: ResponseOperation, length: usize) {
    let mut answers = shared.answers();
    answers.silent_since = None;
    let kept = answers.kept_bytes;
    let Some(pending) = answers.pending.get_mut(&id) else { return };
    let is_done = match operation {
        ResponseOperation::Entry(entry) => {
            pending.answer.entries.push(entry);
            false
        }
        ResponseOperation::Reference(urls) => {
            pending.answer.references.extend(urls);
            false
        }
        ResponseOperation::Intermediate => false,
        ResponseOperation::Done(result) => {
            pending.answer.result = result;
            true
        }
    };
    pending.bytes += length;
    let is_too_long = pending.bytes > MAX_ANSWER_BYTES || kept + length > MAX_KEPT_BYTES;
    answers.kept_bytes += length;
    if is_done || is_too_long {
        let Some(PendingAnswer { answer, complete, .. }) = answers.remove(id) else { return };
        let text = "the answer of the directory is too long; narrow users.filter, or the base";
        let answer = if is_too_long { Err(LdapFault::new(LdapFaultKind::Limit, text)) } else { Ok(answer) };
        let _ = complete.send(answer);
    }
    // Requests that remain are waiting for a server that has just answered.
    if !answers.pending.is_empty() {
        answers.silent_since = Some(Instant::now());
    }
}
