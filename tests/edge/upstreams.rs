//! Upstreams over TLS, over Unix sockets and by name, and retries.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::kx_group::{X25519, X25519MLKEM768};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{HandshakeKind, NamedGroup, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use sealgate::app::server::ServerParts;
use sealgate_config::{TlsConfig, Upstream, UpstreamTls};
use sealgate_edge::Resolver;

use crate::authority::Authority;
use crate::harness::{Edge, HANDSHAKE, app, nobody, soon};

const GET: &str = "GET /json HTTP/1.1\r\nHost: a\r\n\r\n";

/// Answers requests on a kept connection with the request line and `note`.
///
/// Accepts a request to switch protocols, and then echoes all data.
fn talk(mut stream: impl Read + Write, note: &str) {
    while let Some(head) = head(&mut stream) {
        if head.to_ascii_lowercase().contains("upgrade: websocket") {
            let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
            let mut buffer = [0; 1024];
            while let Ok(length) = stream.read(&mut buffer)
                && length > 0
                && stream.write_all(&buffer[..length]).is_ok()
            {}
            return;
        }
        let mut body = vec![0; length(&head)];
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ").or_else(|| line.strip_prefix("host: ")));
        let said = serde_json::json!({ "line": head.lines().next(), "note": note, "host": host }).to_string();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len());
        if stream.read_exact(&mut body).is_err() || stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
        let _ = stream.flush();
    }
}

pub(crate) fn head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

fn length(head: &str) -> usize {
    let line =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    line.map_or(0, |length| length.parse().unwrap())
}

/// Starts a TLS server that reports the requested server name and whether it received a
/// certificate.
///
/// With `clients`, it requires a client certificate of that authority.
pub(crate) fn tls_server(files: &TlsConfig, clients: Option<&Authority>) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificates = CertificateDer::pem_file_iter(&files.certificate).unwrap().map(Result::unwrap).collect();
    let verifier = match clients {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap()
        }
        None => Arc::new(NoClientAuth),
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, PrivateKeyDer::from_pem_file(&files.key).unwrap())
        .unwrap();
    serve_tls(config)
}

/// Starts a server with these TLS settings that reports the same as [`tls_server`].
pub(crate) fn serve_tls(config: ServerConfig) -> SocketAddr {
    serve_tls_and_note(config, Arc::default())
}

/// Does the same, and writes the key exchange and the kind of the last handshake to `last`.
fn serve_tls_and_note(config: ServerConfig, last: Arc<Mutex<Option<(NamedGroup, HandshakeKind)>>>) -> SocketAddr {
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (config, last) = (Arc::clone(&config), Arc::clone(&last));
            thread::spawn(move || {
                let mut connection = ServerConnection::new(config).unwrap();
                while connection.is_handshaking() {
                    if connection.complete_io(&mut stream).is_err() {
                        return;
                    }
                }
                let name = connection.server_name().unwrap_or("none").to_owned();
                let shown = connection.peer_certificates().is_some();
                let group = connection.negotiated_key_exchange_group().unwrap().name();
                let kind = connection.handshake_kind().unwrap();
                last.lock().unwrap().replace((group, kind));
                talk(StreamOwned::new(connection, stream), &format!("{name} {shown}"));
            });
        }
    });
    address
}

pub(crate) fn https(parts: &mut ServerParts, app: usize, address: SocketAddr, tls: UpstreamTls) {
    parts.apps[app].upstreams = vec![Upstream::Url(format!("https://{address}").parse().unwrap())];
    parts.apps[app].upstream_tls = tls;
}

pub(crate) fn trusting(authority: &Authority) -> UpstreamTls {
    UpstreamTls { ca: Some(authority.file()), ..UpstreamTls::default() }
}

#[test]
fn only_an_upstream_with_a_valid_certificate_is_used() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let right = tls_server(&authority.issue("right", "IP:127.0.0.1"), None);
    let misnamed = tls_server(&authority.issue("misnamed", "DNS:other.internal,IP:127.0.0.2"), None);
    let forged = tls_server(&stranger.issue("forged", "IP:127.0.0.1"), None);
    let edge = Edge::with(&[nobody(); 5], |parts| {
        https(parts, 0, right, trusting(&authority));
        https(parts, 1, misnamed, trusting(&authority));
        https(parts, 2, forged, trusting(&authority));
        // The system's certificate authorities do not include the test authority.
        https(parts, 3, right, UpstreamTls::default());
        https(parts, 4, right, trusting(&stranger));
    });
    // Send each request twice: a connection of the first round must not serve the other
    // applications.
    for _ in 0..2 {
        let statuses = (0..5).map(|app| edge.ask(&format!("GET /{app} HTTP/1.1\r\nHost: a\r\n\r\n")).status);
        assert_eq!(statuses.collect::<Vec<_>>(), [200, 502, 502, 502, 502]);
    }
}

#[test]
fn an_upstream_may_have_another_name_on_its_certificate_than_in_its_address() {
    let authority = Authority::new();
    let address = tls_server(&authority.issue("wiki", "DNS:wiki.internal"), None);
    let edge = Edge::with(&[nobody()], |parts| {
        let tls = UpstreamTls { server_name: Some("wiki.internal".to_owned()), ..trusting(&authority) };
        https(parts, 0, address, tls);
    });
    assert_eq!(edge.ask(GET).json()["note"], "wiki.internal false");
}

#[test]
fn an_upstream_that_requires_a_certificate_gets_ours() {
    let authority = Authority::new();
    let address = tls_server(&authority.issue("wiki", "IP:127.0.0.1"), Some(&authority));
    let (ours, others) = (authority.issue("gate", "DNS:gate"), Authority::new().issue("gate", "DNS:gate"));
    let edge = Edge::with(&[nobody(); 2], |parts| {
        https(parts, 0, address, UpstreamTls { client: Some(ours), ..trusting(&authority) });
        https(parts, 1, address, trusting(&authority));
    });
    assert_eq!(edge.ask(GET).json()["note"], "none true");
    assert_eq!(edge.ask("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").status, 502);
    // The temporary directory of the client certificate was deleted.
    let mut parts = crate::harness::parts(Arc::default(), &[nobody()]);
    https(&mut parts, 0, address, UpstreamTls { client: Some(others), ..trusting(&authority) });
    let faults = sealgate::app::server::Server::prepare(parts).err().unwrap();
    assert!(faults.len() == 1 && faults[0].starts_with("app wiki: cannot read "), "{faults:?}");
}

#[test]
fn the_hybrid_key_exchange_is_offered_to_an_upstream_and_needs_no_second_round_trip() {
    for (groups, expected) in
        [(vec![X25519MLKEM768, X25519], NamedGroup::X25519MLKEM768), (vec![X25519], NamedGroup::X25519)]
    {
        let authority = Authority::new();
        let files = authority.issue("wiki", "IP:127.0.0.1");
        let provider = CryptoProvider { kx_groups: groups, ..rustls::crypto::aws_lc_rs::default_provider() };
        let certificates = CertificateDer::pem_file_iter(&files.certificate).unwrap().map(Result::unwrap).collect();
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates, PrivateKeyDer::from_pem_file(&files.key).unwrap())
            .unwrap();
        let last = Arc::default();
        let address = serve_tls_and_note(config, Arc::clone(&last));
        let edge = Edge::with(&[nobody()], |parts| https(parts, 0, address, trusting(&authority)));
        assert_eq!(edge.ask(GET).status, 200);
        assert_eq!(*last.lock().unwrap(), Some((expected, HandshakeKind::Full)));
    }
}

#[test]
fn a_websocket_is_forwarded_over_tls() {
    let authority = Authority::new();
    let address = tls_server(&authority.issue("wiki", "IP:127.0.0.1"), None);
    let edge = Edge::with(&[nobody()], |parts| https(parts, 0, address, trusting(&authority)));
    says_back(&edge);
}

/// Opens a WebSocket and checks the echo.
pub(crate) fn says_back(edge: &Edge) {
    let mut client = edge.client();
    client.send(HANDSHAKE.as_bytes());
    assert_eq!(client.reply_head().status, 101);
    for message in ["first", "second"] {
        client.send(message.as_bytes());
        assert_eq!(client.bytes(message.len()), message.as_bytes());
    }
}

#[test]
fn a_renewed_authority_is_used_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let address = tls_server(&new.issue("wiki", "IP:127.0.0.1"), None);
    let edge = Edge::with(&[nobody()], |parts| https(parts, 0, address, trusting(&old)));
    assert_eq!(edge.ask(GET).status, 502);
    std::fs::write(old.file(), "half of a file").unwrap();
    std::fs::copy(new.file(), old.file()).unwrap();
    let end = Instant::now() + Duration::from_secs(15);
    while edge.ask(GET).status != 200 {
        assert!(Instant::now() < end, "the new authority does not count");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Starts a server on a Unix socket. Returns its path and the number of connections with data.
pub(crate) fn socket_server() -> (PathBuf, Arc<AtomicUsize>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let used = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&used);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || talk(Counting { stream, count, used: false }, "unix"));
        }
    });
    (path, used, directory)
}

/// Counts a connection once it delivers data. Health checks send none.
struct Counting<S> {
    stream: S,
    count: Arc<AtomicUsize>,
    used: bool,
}

impl<S: Read> Read for Counting<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(buffer)?;
        if length > 0 && !std::mem::replace(&mut self.used, true) {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        Ok(length)
    }
}

impl<S: Write> Write for Counting<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[test]
fn a_unix_socket_serves_requests_over_kept_connections() {
    let (path, used, _directory) = socket_server();
    let edge = Edge::with(&[nobody()], |parts| {
        parts.apps[0].upstreams = vec![Upstream::Socket(path)];
        parts.apps[0].preserve_host = false;
        parts.apps[0].reads_bodies_whole = true;
    });
    for _ in 0..20 {
        let reply = edge.ask("POST /json?a HTTP/1.1\r\nHost: wiki.example\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!((&reply.json()["line"], &reply.json()["note"]), (&"POST /json?a HTTP/1.1".into(), &"unix".into()));
        assert_eq!(reply.json()["host"], "localhost");
    }
    // A request may arrive while the edge is returning the previous connection to the pool.
    assert!(used.load(Ordering::SeqCst) < 10, "{used:?}");
}

#[test]
fn a_websocket_is_forwarded_over_a_unix_socket() {
    let (path, _used, _directory) = socket_server();
    let edge = Edge::with(&[nobody()], |parts| parts.apps[0].upstreams = vec![Upstream::Socket(path)]);
    says_back(&edge);
}

#[test]
fn a_missing_unix_socket_is_answered_with_502_until_it_exists() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let edge = Edge::with(&[nobody()], |parts| parts.apps[0].upstreams = vec![Upstream::Socket(path.clone())]);
    assert_eq!(edge.ask(GET).status, 502);
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || talk(stream, "unix"));
        }
    });
    assert_eq!(edge.ask(GET).status, 200);
}

#[test]
fn requests_use_another_server_when_one_is_down() {
    let authority = Authority::new();
    let address = tls_server(&authority.issue("wiki", "IP:127.0.0.1"), None);
    let misnamed = tls_server(&authority.issue("misnamed", "DNS:other.internal"), None);
    let (path, _used, directory) = socket_server();
    let edge = Edge::with(&[nobody()], |parts| {
        let url = |url: String| Upstream::Url(url.parse().unwrap());
        parts.apps[0].upstreams = vec![
            url(format!("https://{misnamed}")),
            Upstream::Socket(path),
            Upstream::Socket(directory.path().join("nobody.sock")),
            url(format!("https://{address}")),
        ];
        parts.apps[0].upstream_tls = trusting(&authority);
    });
    let mut notes = std::collections::BTreeSet::new();
    let post = "POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for _ in 0..12 {
        let reply = edge.ask(post);
        // Two failing upstreams may be adjacent in the order, so that the retry fails too.
        if reply.status == 200 {
            notes.insert(reply.json()["note"].to_string());
        }
    }
    assert_eq!(notes.len(), 2, "{notes:?}");
}

#[test]
fn a_name_lookup_does_not_block_requests() {
    let known: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    let answer = Arc::clone(&known);
    let find = move |host: &str, _port| {
        assert_eq!(host, "wiki.internal");
        answer.lock().unwrap().map(|address| vec![address]).ok_or_else(|| io::ErrorKind::NotFound.into())
    };
    let edge = Edge::with(&[nobody()], |parts| {
        parts.apps[0].upstreams = vec![Upstream::Url("http://wiki.internal:8081".parse().unwrap())];
        parts.resolver = Resolver { find: Arc::new(find), every: Duration::from_millis(50) };
    });
    let reply = edge.ask("GET /page HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply.status, 502);
    assert!(str::from_utf8(&reply.body).unwrap().starts_with("<p lang=\"tr\">"));
    let answered = |note: &str| {
        soon(|| {
            let reply = edge.ask(GET);
            (reply.status == 200 && reply.json()["note"] == note).then_some(())
        });
    };
    let serve = |note: &'static str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || talk(stream, note));
            }
        });
        address
    };
    *known.lock().unwrap() = Some(serve("first"));
    answered("first");
    *known.lock().unwrap() = None;
    // The test expects that the next DNS query changes nothing, so there is no event to wait for.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(edge.ask(GET).json()["note"], "first");
    *known.lock().unwrap() = Some(serve("second"));
    answered("second");
}

/// Starts an upstream that answers the first request per connection and closes after the second.
fn forgetful(seen: &Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                for last in [false, true] {
                    let Some(head) = head(&mut stream) else { return };
                    let mut body = vec![0; length(&head)];
                    let _ = stream.read_exact(&mut body);
                    seen.lock().unwrap().push(head.lines().next().unwrap().to_owned());
                    if !last {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                }
            });
        }
    });
    address
}

#[test]
fn only_repeatable_requests_are_retried_on_another_connection() {
    let seen = Arc::default();
    let edge = Edge::before(&[forgetful(&seen)]);
    let say = |method: &str, rest: &str| {
        // The client may see the end of the answer before the edge has pooled the upstream
        // connection.
        thread::sleep(Duration::from_millis(200));
        edge.ask(&format!("{method} /x HTTP/1.1\r\nHost: a\r\n{rest}")).status
    };
    assert_eq!([say("GET", "\r\n"), say("GET", "\r\n")], [200, 200]);
    assert_eq!(seen.lock().unwrap().len(), 3, "the second was said twice");
    seen.lock().unwrap().clear();
    // The remaining connection has answered one request.
    assert_eq!(say("POST", "Content-Length: 2\r\n\r\nhi"), 502);
    assert_eq!(*seen.lock().unwrap(), ["POST /x HTTP/1.1"], "the application has seen it once");
}

#[test]
fn a_started_response_is_not_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&count);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if head(&mut stream).is_some() {
                asked.fetch_add(1, Ordering::SeqCst);
                let begun = "begun".repeat(20_000);
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{begun}");
                thread::sleep(Duration::from_millis(300));
            }
        }
    });
    let edge = Edge::with(&[], |parts| parts.apps = vec![app(&[address, address])]);
    let mut client = edge.client();
    client.send(GET.as_bytes());
    let text = String::from_utf8(client.rest()).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("begun") && text.len() < 200_000, "{}", text.len());
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
