//! A running edge, a test front, upstreams and a client.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, HOST};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Response, StatusCode, request};
use sealgate::app::server::{Server, ServerParts, StopSignal};
use sealgate_config::{
    App, FixedHeaders, RouteLimits, RouteUpstream, ServerConfig, Upstream, UpstreamProtocol, UpstreamTls,
};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_edge::{
    Affinity, AnswerReason, AnswerRewrite, AnsweredBy, ConnectionEvent, EdgeObserver, EdgeUpdater, Finished, Forward,
    Front, Health, LoopMark, Origin, Policy, Reauthorization, Resolver, Rewrite, RouteDecision,
};
use tokio::sync::oneshot;

use crate::port::free_port;

/// Maximum body size of `/local/` in bytes.
pub(crate) const BODY_LIMIT: usize = 1000;
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_millis(1500);
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_millis(1100);
pub(crate) const SLOW: Duration = Duration::from_secs(3);
/// Maximum delay of an event after its deadline on a busy machine.
pub(crate) const GRACE: Duration = Duration::from_secs(4);

/// A WebSocket handshake.
pub(crate) const HANDSHAKE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A report to the front about a finished exchange.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) path: String,
    pub(crate) status: Option<u16>,
    pub(crate) answered_by: AnsweredBy,
    pub(crate) app: Option<usize>,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
}

/// A front whose verdict depends on the path.
///
/// - `/answer` is refused immediately.
/// - `/local/…` echoes; `/local/slow` takes [`SLOW`].
/// - `/panic` panics.
/// - Any other path is forwarded to the application whose number it begins with (`/0`, `/1`, …), or
///   to the first one.
#[derive(Default)]
pub(crate) struct TestFront {
    pub(crate) told: Mutex<Vec<Told>>,
    pub(crate) events: Mutex<Vec<ConnectionEvent>>,
    /// The expiry of each certificate, as last reported.
    pub(crate) certificates: Mutex<BTreeMap<PathBuf, i64>>,
    pub(crate) epoch: AtomicU64,
    /// Number of requests received for `/local/slow`.
    pub(crate) slow: AtomicUsize,
    /// Paths of the requests whose first decision was made.
    pub(crate) decided: Mutex<Vec<String>>,
    /// Paths to which access was revoked.
    pub(crate) ended: Mutex<Vec<String>>,
    /// Paths for which the edge asked again whether access is still allowed.
    pub(crate) asked: Mutex<Vec<String>>,
    /// Whether each upstream passes its check, as last reported.
    states: Mutex<Vec<bool>>,
    /// Upstreams of the first application's paths, by the start of the path.
    pub(crate) routes: Mutex<Vec<(String, RouteUpstream)>>,
    /// Limits of paths, by the start of the path.
    pub(crate) limits: Mutex<Vec<(String, RouteLimits)>>,
}

#[async_trait]
impl Front for TestFront {
    async fn decide(&self, head: &request::Parts) -> RouteDecision {
        assert!(head.extensions.get::<Origin>().is_some() && head.headers.get_all(HOST).iter().count() == 1);
        let again = head.extensions.get::<Reauthorization>().is_some();
        let path = head.uri.path().to_owned();
        if again {
            let has_ended = self.ended.lock().unwrap().contains(&path);
            self.asked.lock().unwrap().push(path);
            if has_ended {
                let mut response = Response::new(Bytes::new());
                *response.status_mut() = StatusCode::UNAUTHORIZED;
                return RouteDecision::Answer(response);
            }
        } else {
            self.decided.lock().unwrap().push(path);
        }
        match head.uri.path() {
            "/answer" => {
                let mut response = Response::new(Bytes::from_static(br#"{"error":"unauthorized"}"#));
                *response.status_mut() = StatusCode::UNAUTHORIZED;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                RouteDecision::Answer(response)
            }
            "/panic" => panic!("asked to"),
            path if path.starts_with("/local/") => RouteDecision::Local { body_limit: BODY_LIMIT, route: &"local" },
            path => {
                // The applications share one name. After a reload there may be only one.
                let app = path.chars().nth(1).and_then(|digit| digit.to_digit(10)).filter(|_| !again).unwrap_or(0);
                let routes = self.routes.lock().unwrap();
                let of_route = routes.iter().find(|(start, _)| path.starts_with(start)).map(|(_, upstream)| upstream);
                let prefix = of_route.and_then(|upstream| upstream.prefix.clone());
                let target = head.uri.path_and_query().unwrap();
                let limits = self.limits.lock().unwrap();
                let limits = limits.iter().find(|(start, _)| path.starts_with(start));
                RouteDecision::Forward(Forward {
                    app: app as usize,
                    upstreams: of_route.map_or(0, |upstream| upstream.list),
                    rewrite: Rewrite {
                        remove: vec![HeaderName::from_static("x-forged")],
                        set: vec![(HeaderName::from_static("x-forwarded-user"), HeaderValue::from_static("alice"))],
                        path_and_query: prefix.as_ref().map_or(target.clone(), |prefix| {
                            PathAndQuery::try_from(prefix.to_upstream(target.as_str())).unwrap()
                        }),
                        prefix,
                        answer: AnswerRewrite::default(),
                    },
                    allow_get_body: path.ends_with("/_search"),
                    limits: limits.map_or_else(RouteLimits::default, |(_, limits)| *limits),
                    compression: path.starts_with("/compressed/"),
                    affinity: affinity(head),
                    session: None,
                })
            }
        }
    }

    async fn answer(&self, head: &request::Parts, occasion: AnswerReason) -> Option<Response<Bytes>> {
        let origin = head.extensions.get::<Origin>().unwrap();
        match occasion {
            AnswerReason::NoBody(status) => {
                let mut response = Response::new(Bytes::from_static(br#"{"error":"the body did not come"}"#));
                *response.status_mut() = status;
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Some(response)
            }
            AnswerReason::Unanswered(status) => {
                let page = b"<p lang=\"tr\">Uygulamaya ula\xc5\x9f\xc4\xb1lam\xc4\xb1yor.</p>";
                let mut response = Response::new(Bytes::from_static(page));
                *response.status_mut() = status;
                (head.uri.path() == "/page").then_some(response)
            }
            AnswerReason::Local(route, body) => {
                assert_eq!(route.downcast_ref::<&str>(), Some(&"local"), "the route that was found comes back");
                if head.uri.path() == "/local/slow" {
                    self.slow.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(SLOW).await;
                }
                let cookies = head.headers.get_all(COOKIE).iter().map(|cookie| cookie.to_str().unwrap());
                let body = serde_json::json!({
                    "method": head.method.as_str(),
                    "path": head.uri.path(),
                    "host": head.headers[HOST].to_str().unwrap(),
                    "address": origin.address.to_string(),
                    "is_address_known": origin.is_address_known,
                    "secure": origin.secure,
                    "request_id": origin.request_id,
                    "cookies": cookies.collect::<Vec<_>>(),
                    "body": body.len(),
                });
                Some(Response::new(Bytes::from(body.to_string())))
            }
        }
    }
}

impl Policy for TestFront {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn server_cookie(&self, list: usize, number: u64) -> Option<HeaderValue> {
        Some(HeaderValue::try_from(format!("server-{list}={number}")).unwrap())
    }

    fn public_origin(&self, host: &str) -> Option<String> {
        match host.split(':').next()? {
            "wiki.example" => Some("https://wiki.example:8443".to_owned()),
            "plain.example" => Some("http://plain.example".to_owned()),
            _ => None,
        }
    }
}

impl EdgeObserver for TestFront {
    fn finished(&self, exchange: &Finished<'_>) {
        self.told.lock().unwrap().push(Told {
            path: exchange.path.to_owned(),
            status: exchange.status.map(|status| status.as_u16()),
            answered_by: exchange.answered_by,
            app: exchange.app,
            request_bytes: exchange.request_bytes,
            response_bytes: exchange.response_bytes,
        });
    }

    fn connection(&self, event: ConnectionEvent) {
        self.events.lock().unwrap().push(event);
    }

    fn upstreams(&self, states: Vec<(String, String, bool)>) {
        *self.states.lock().unwrap() = states.into_iter().map(|(_, _, passes)| passes).collect();
    }

    fn certificates(&self, shown: &[(&Path, i64)]) {
        *self.certificates.lock().unwrap() = shown.iter().map(|(file, ends)| ((*file).to_owned(), *ends)).collect();
    }
}

impl TestFront {
    /// Waits for the report of an exchange with this path.
    pub(crate) fn told_of(&self, path: &str) -> Told {
        soon(|| self.told.lock().unwrap().iter().find(|told| told.path == path).cloned())
    }

    /// Waits until a request for `/local/slow` is in progress.
    pub(crate) fn is_busy(&self) {
        soon(|| (self.slow.load(Ordering::SeqCst) > 0).then_some(()));
    }

    /// Revokes access to a path.
    pub(crate) fn end(&self, path: &str) {
        self.ended.lock().unwrap().push(path.to_owned());
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether each upstream passes its check, as last reported.
    pub(crate) fn states(&self) -> Vec<bool> {
        self.states.lock().unwrap().clone()
    }

    pub(crate) fn saw(&self, event: ConnectionEvent) {
        soon(|| self.events.lock().unwrap().contains(&event).then_some(()));
    }
}

/// Returns the affinity that the field `X-Affinity` asks for: `client`, `user NUMBER` or `cookie NUMBER`.
fn affinity(head: &request::Parts) -> Affinity {
    let asked = head.headers.get("x-affinity").map_or("", |asked| asked.to_str().unwrap());
    let (kind, number) = asked.split_once(' ').unwrap_or((asked, ""));
    match kind {
        "" => Affinity::InTurn,
        "client" => Affinity::Client,
        "user" => Affinity::User(number.parse().unwrap()),
        _ => Affinity::Cookie(number.parse().ok()),
    }
}

/// Polls until `look` returns a value. Panics after 15 seconds.
pub(crate) fn soon<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(15);
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(Instant::now() < end, "it did not happen"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

struct TestHealth;

impl Health for TestHealth {
    fn metrics(&self) -> String {
        "test_total 1\n".to_owned()
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A running edge. It stops when dropped.
pub(crate) struct Edge {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The listener that redirects to https, if there is one.
    pub(crate) redirect: Option<SocketAddr>,
    pub(crate) front: Arc<TestFront>,
    pub(crate) updater: EdgeUpdater,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Edge {
    /// Starts an edge with one application per upstream.
    pub(crate) fn before(upstreams: &[SocketAddr]) -> Self {
        Self::with(upstreams, |_| {})
    }

    pub(crate) fn with(upstreams: &[SocketAddr], change: impl FnOnce(&mut ServerParts)) -> Self {
        let front = Arc::new(TestFront::default());
        let mut parts = parts(Arc::clone(&front), upstreams);
        change(&mut parts);
        let server = Server::prepare(parts).map_err(|faults| faults.join("\n")).unwrap();
        let (address, admin) = (server.addresses()[0], server.admin_address().unwrap());
        let redirect = server.redirect_addresses().first().copied();
        let updater = server.edge_updater();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || server.run(StopSignal::Channel(stopped)));
        Self { address, admin, redirect, front, updater, stop: Some(stop), thread: Some(thread) }
    }

    /// Requests the stop without waiting for it.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Waits until a requested stop is complete.
    pub(crate) fn ended(mut self) -> Result<(), String> {
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.address)
    }

    /// Sends one request and reads its response.
    pub(crate) fn ask(&self, request: &str) -> Reply {
        let mut client = self.client();
        client.send(request.as_bytes());
        client.reply()
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn parts(front: Arc<TestFront>, upstreams: &[SocketAddr]) -> ServerParts {
    ServerParts {
        server: ServerConfig {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            tls: Vec::new(),
            client_certificates: None,
            redirect_listen: Vec::new(),
            hsts: Duration::from_secs(1000),
            trusted_proxies: Vec::new(),
            proxy_protocol: Vec::new(),
            health_path: None,
            threads: 2,
            huge_pages: true,
            header_timeout: HEADER_TIMEOUT,
            header_bytes: 16 * 1024,
            body_timeout: BODY_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            max_connections: 100,
            max_connections_per_peer: 100,
            shutdown_timeout: Duration::from_secs(20),
        },
        https: false,
        admin: Some("127.0.0.1:0".parse().unwrap()),
        sockets: Vec::new(),
        apps: upstreams.iter().map(|address| app(&[*address])).collect(),
        loop_mark: LoopMark::new("https://id.example"),
        resolver: Resolver::system(),
        challenges: Arc::default(),
        token_keys: None,
        waiting_threads: 0,
        front,
        health: Arc::new(TestHealth),
        tracer: None,
        background: Vec::new(),
        stopped: Box::new(|| Box::pin(async {})),
    }
}

pub(crate) fn app(upstreams: &[SocketAddr]) -> App {
    let upstream = |address: &SocketAddr| Upstream::Url(format!("http://{address}").parse().unwrap());
    App {
        name: "wiki".to_owned(),
        url: None,
        host: "wiki.example".to_owned(),
        upstreams: upstreams.iter().map(upstream).collect(),
        upstream_protocol: UpstreamProtocol::Http1,
        upstream_tls: UpstreamTls::default(),
        health_check: None,
        sticky: None,
        maintenance: None,
        routes: Vec::new(),
        login: None,
        after_sign_out: Vec::new(),
        also_sign_in: Vec::new(),
        audience: None,
        scopes: Vec::new(),
        issuer_audience: true,
        agents: false,
        alg: Algorithm::Rs256,
        clients: None,
        client_hosts: Vec::new(),
        trusted_issuers: Vec::new(),
        acr: Vec::new(),
        title: None,
        description: None,
        icon: None,
        identity: Arc::default(),
        fixed_headers: FixedHeaders::default(),
        preserve_host: true,
        max_requests: 1024,
        max_requests_per_client: 128,
        reads_bodies_whole: false,
        max_body_bytes: None,
        compression: false,
        connect_timeout: Duration::from_secs(1),
        read_timeout: Duration::from_secs(1),
        stream_timeout: Duration::from_hours(1),
        write_timeout: Duration::from_secs(1),
    }
}

/// Starts the legacy application on its own port.
pub(crate) fn legacy() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || crate::legacy::serve(&listener));
    address
}

/// Starts an upstream that reads one head per connection and then calls `talk`.
pub(crate) fn upstream(talk: impl Fn(&str, &mut TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Health checks connect and disconnect without sending a request.
            let mut client = Client { stream: stream.try_clone().unwrap(), unread: Vec::new() };
            if let Some(head) = client.head() {
                talk(&head, &mut stream);
            }
        }
    });
    address
}

/// Returns an address on which no process listens.
pub(crate) fn nobody() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// A client connection that sends arbitrary bytes.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn keeps(&self) -> bool {
        self.headers.get("connection").is_none_or(|value| value == "keep-alive")
    }
}

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// Wraps an accepted connection. Its reads and writes have no deadline.
    pub(crate) fn from_stream(stream: TcpStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends bytes to a server that may have closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Reads the next head without its empty line. Returns `None` at the end of the connection.
    pub(crate) fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = self.unread.split_off(end + 4);
                let mut head = std::mem::replace(&mut self.unread, rest);
                head.truncate(end);
                return Some(String::from_utf8(head).unwrap());
            }
            if !self.more() {
                return None;
            }
        }
    }

    pub(crate) fn reply(&mut self) -> Reply {
        let mut reply = self.reply_head();
        let length = reply.headers.get("content-length").map(|length| length.parse::<usize>().unwrap());
        if reply.headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            reply.body = self.chunks();
            return reply;
        }
        while length.is_none_or(|length| self.unread.len() < length) && self.more() {}
        let rest = self.unread.split_off(length.unwrap_or(self.unread.len()).min(self.unread.len()));
        reply.body = std::mem::replace(&mut self.unread, rest);
        reply
    }

    /// Reads the head of a response that has no body, or whose body the test does not read.
    pub(crate) fn reply_head(&mut self) -> Reply {
        let head = self.head().expect("a response");
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let field = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.into()));
        let headers = lines.map(|line| field(line).unwrap()).collect();
        Reply { status, headers, body: Vec::new() }
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let Some(end) = self.unread.windows(2).position(|window| window == b"\r\n") else {
                assert!(self.more(), "the body breaks off");
                continue;
            };
            let size = usize::from_str_radix(str::from_utf8(&self.unread[..end]).unwrap(), 16).unwrap();
            while self.unread.len() < end + 2 + size + 2 {
                assert!(self.more(), "the body breaks off");
            }
            body.extend_from_slice(&self.unread[end + 2..end + 2 + size]);
            self.unread.drain(..end + 2 + size + 2);
            if size == 0 {
                return body;
            }
        }
    }

    /// Reads to the end of a chunked body. Returns the number of bytes, with those of the framing.
    pub(crate) fn until_chunks_end(&mut self) -> usize {
        let mut length = 0;
        while !self.unread.ends_with(b"\r\n0\r\n\r\n") {
            let kept = self.unread.len().min(6);
            length += self.unread.drain(..self.unread.len() - kept).count();
            assert!(self.more(), "the body breaks off");
        }
        length + std::mem::take(&mut self.unread).len()
    }

    /// Reads exactly `length` bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(self.more(), "the connection ends early");
        }
        self.unread.drain(..length).collect()
    }

    /// Reads until the edge closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.unread)
    }

    /// Returns how long it takes until the edge closes the connection. Discards the data.
    pub(crate) fn until_closed(&mut self) -> Duration {
        let start = Instant::now();
        self.rest();
        start.elapsed()
    }

    /// Reads more bytes. Returns false at the end of the connection.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                self.unread.extend_from_slice(&buffer[..length]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no more bytes, and no end: {error}"),
        }
    }
}

/// Runs `curl` and returns its standard output.
pub(crate) fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "--max-time", "20"]).args(arguments).output().expect("curl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
