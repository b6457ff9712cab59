//! Client certificates that expire, or whose authority is removed, while the client is connected.
//!
//! Covers resumed TLS sessions and kept connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned, SupportedProtocolVersion};
use sealgate_config::{ClientCertificates, Presence, ServerConfig, TlsConfig};
use sealgate_edge::{ConnectionEvent, Front};
use tokio_rustls::TlsConnector;

use crate::authority::Authority;
use crate::harness::{Edge, TestFront, app, legacy, parts, soon};

/// Lifetime of a short-lived certificate in seconds. A test must finish its first phase within it.
const LIFE: u64 = 6;

static VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// An edge that requests client certificates from an authority.
struct World {
    edge: Edge,
    authority: Authority,
    server: TlsConfig,
}

impl World {
    fn new(demand: Presence) -> Self {
        Self::before(demand, legacy())
    }

    fn before(demand: Presence, upstream: std::net::SocketAddr) -> Self {
        let authority = Authority::new();
        let server = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
        let edge = Edge::with(&[upstream], |parts| {
            parts.server.tls = vec![server.clone().into()];
            parts.server.client_certificates = Some(ClientCertificates { ca: authority.file(), demand });
            parts.server.idle_timeout = Duration::from_mins(1);
            parts.apps[0].read_timeout = Duration::from_mins(1);
        });
        Self { edge, authority, server }
    }

    /// Issues a certificate that is valid for [`LIFE`]. Returns it and its last valid second.
    fn short_lived(&self) -> (TlsConfig, u64) {
        let end = UnixTime::now().as_secs() + LIFE;
        (self.authority.issue_until("anna", end), end)
    }

    /// Returns a client configuration for these TLS versions that resumes sessions.
    ///
    /// The client presents the certificate `shown`, if any.
    fn client(&self, versions: &[&'static SupportedProtocolVersion], shown: Option<&TlsConfig>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.authority.file()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = match shown {
            Some(files) => {
                let chain = vec![CertificateDer::from_pem_file(&files.certificate).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::in_memory_sessions(16);
        config
    }

    fn connect(&self, config: &ClientConfig) -> Open {
        let stream = TcpStream::connect(self.edge.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config.clone()), name).unwrap();
        Open(StreamOwned::new(connection, stream))
    }

    /// Reloads the configuration with other authorities or another requirement for certificates.
    fn reload(&self, clients: Option<ClientCertificates>) {
        let own = parts(Arc::default(), &[]).server;
        let server = ServerConfig { tls: vec![self.server.clone().into()], client_certificates: clients, ..own };
        let front: Arc<dyn Front> = Arc::new(TestFront::default());
        let change = self.edge.updater.prepare(&[app(&[legacy()])], &server, front);
        self.edge.updater.apply(change.map_err(|faults| faults.join("\n")).unwrap());
    }
}

/// An HTTP/1.1 connection over TLS.
struct Open(StreamOwned<ClientConnection, TcpStream>);

impl Open {
    /// Sends a request and returns the answer, or `None` if the connection ends first.
    fn ask(&mut self) -> Option<String> {
        self.send(b"GET /json HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let mut read = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&read).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let mut lines = head.lines().map(str::to_ascii_lowercase);
                let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
                if body.len() >= length {
                    return Some(text);
                }
            }
            read.extend(self.piece()?);
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Option<()> {
        self.0.write_all(bytes).and_then(|()| self.0.flush()).ok()
    }

    /// Reads the next bytes, or returns `None` at the end of the connection.
    fn piece(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 4096];
        match self.0.read(&mut buffer) {
            Ok(length @ 1..) => Some(buffer[..length].to_vec()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the connection stays open")
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// Waits for the end of the connection and returns its time in seconds since 1970.
    fn until_closed(&mut self) -> u64 {
        while self.piece().is_some() {}
        UnixTime::now().as_secs()
    }
}

fn wait_until_after(end: u64) {
    soon(|| (UnixTime::now().as_secs() > end).then_some(()));
}

const TOLD: &str = "CN=anna";

/// Runs the check for both settings in parallel, because each waits for a certificate to expire.
fn for_each_demand(check: impl Fn(Presence) + Sync) {
    let check = &check;
    thread::scope(|scope| {
        for demand in [Presence::Required, Presence::Optional] {
            scope.spawn(move || check(demand));
        }
    });
}

#[test]
fn an_expired_certificate_is_refused_on_a_resumed_session() {
    for_each_demand(|demand| {
        let world = World::new(demand);
        let (anna, end) = world.short_lived();
        let clients = VERSIONS.map(|version| world.client(&[version], Some(&anna)));
        for config in &clients {
            // Connect twice, so that the second connection has a session to resume.
            for _ in 0..2 {
                let mut open = world.connect(config);
                assert!(open.ask().expect("an answer").contains(TOLD));
                assert_eq!(open.0.conn.handshake_kind(), Some(HandshakeKind::Full));
            }
        }
        wait_until_after(end);
        for config in &clients {
            for _ in 0..2 {
                assert_eq!(world.connect(config).ask(), None, "{demand:?}");
            }
        }
    });
}

#[test]
fn openssl_cannot_resume_a_session_without_its_certificate() {
    let world = World::new(Presence::Required);
    let (anna, end) = world.short_lived();
    let session = world.authority.path("session");
    let ask = |version: &str, with_session: bool| {
        let (address, session) = (world.edge.address.to_string(), session.to_str().unwrap());
        let mut command = Command::new("openssl");
        command.args(["s_client", "-ign_eof", "-connect", &address, version]);
        if with_session {
            // Resume without the certificate and its key. A session would replace both.
            command.args(["-sess_in", session]);
        } else {
            let (certificate, key) = (anna.certificate.to_str().unwrap(), anna.key.to_str().unwrap());
            command.args(["-sess_out", session, "-cert", certificate, "-key", key]);
        }
        let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let request = b"GET /json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let _ = client.stdin.take().unwrap().write_all(request);
        String::from_utf8_lossy(&client.wait_with_output().unwrap().stdout).into_owned()
    };
    for version in ["-tls1_2", "-tls1_3"] {
        let _ = std::fs::remove_file(&session);
        let before = ask(version, false);
        assert!(before.contains("New, ") && before.contains("HTTP/1.1 200"), "{version}: {before}");
        // OpenSSL writes a TLS 1.3 session only if the server sent a ticket.
        if session.exists() {
            let resumed = ask(version, true);
            assert!(!resumed.contains("Reused, ") && !resumed.contains("HTTP/1.1 200"), "{version}: {resumed}");
        }
    }
    wait_until_after(end);
    for version in ["-tls1_2", "-tls1_3"] {
        assert!(!ask(version, false).contains("HTTP/1.1 200"), "{version}");
    }
}

#[test]
fn a_kept_connection_ends_with_the_certificate() {
    for_each_demand(|demand| {
        let world = World::new(demand);
        let lasting = world.authority.issue("ben", "DNS:ben");
        let mut ben = world.connect(&world.client(&VERSIONS, Some(&lasting)));
        let (anna, end) = world.short_lived();
        let mut opens = VERSIONS.map(|version| world.connect(&world.client(&[version], Some(&anna))));
        for open in &mut opens {
            assert!(open.ask().expect("an answer").contains(TOLD));
        }
        assert!(ben.ask().unwrap().contains("CN=ben"));
        for open in &mut opens {
            let closed = open.until_closed();
            assert!(closed > end, "it ended {} s before the certificate", end - closed);
            assert_eq!(open.ask(), None);
        }
        world.edge.front.saw(ConnectionEvent::CertificateEnded);
        assert!(ben.ask().unwrap().contains("CN=ben"), "others stay");
    });
}

/// Starts an upstream that switches protocols, streams or reads, depending on the path.
///
/// Returns its address and a record of the bytes that it reads after the head.
fn lasting_upstream() -> (std::net::SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let read = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&read);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let taken = Arc::clone(&taken);
            thread::spawn(move || {
                let (mut before, mut buffer) = (Vec::new(), [0; 1024]);
                let mut answered = false;
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    before.extend_from_slice(&buffer[..length]);
                    let Some(end) = before.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
                    if std::mem::replace(&mut answered, true) {
                        taken.lock().unwrap().extend_from_slice(&buffer[..length]);
                    } else {
                        stream.write_all(answer_to(&before[..end])).unwrap();
                        taken.lock().unwrap().extend_from_slice(&before[end + 4..]);
                    }
                }
            });
        }
    });
    (address, read)
}

fn answer_to(head: &[u8]) -> &'static [u8] {
    let head = String::from_utf8_lossy(head);
    if head.contains(" /ws ") {
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello"
    } else if head.contains(" /upload ") {
        b""
    } else {
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: hello\n\n"
    }
}

const WEBSOCKET: &[u8] = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const EVENTS: &[u8] = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\nfirst half";

#[test]
fn open_exchanges_end_with_the_certificate() {
    let (address, read) = lasting_upstream();
    let world = World::before(Presence::Required, address);
    let (anna, end) = world.short_lived();
    let config = world.client(&VERSIONS, Some(&anna));
    let mut opens = [WEBSOCKET, EVENTS, UPLOAD].map(|request| {
        let mut open = world.connect(&config);
        open.send(request).unwrap();
        open
    });
    for open in &mut opens[..2] {
        let mut text = String::new();
        while !text.contains("hello") {
            text += &String::from_utf8_lossy(&open.piece().expect("an answer"));
        }
    }
    soon(|| (read.lock().unwrap().as_slice() == b"first half").then_some(()));
    for open in &mut opens {
        assert!(open.until_closed() > end);
    }
    let _ = opens[2].send(b"other half");
    assert_eq!(read.lock().unwrap().as_slice(), b"first half");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_http_2_end_with_the_certificate() {
    let (address, read) = lasting_upstream();
    let world = World::before(Presence::Required, address);
    let (anna, end) = world.short_lived();
    let mut config = world.client(&VERSIONS, Some(&anna));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(world.edge.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(async move { drop(connection.await) });
    let mut requests = requests.ready().await.unwrap();
    let mut send = |method: &str, path: &str, ends: bool| {
        let request = Request::builder().method(method).uri(format!("https://localhost{path}")).body(()).unwrap();
        requests.send_request(request, ends).unwrap()
    };
    let (events, _) = send("GET", "/events", true);
    let (upload, mut body) = send("POST", "/upload", false);
    body.send_data(Bytes::from_static(b"first half"), false).unwrap();
    let mut events = events.await.unwrap().into_body();
    assert!(events.data().await.unwrap().unwrap().starts_with(b"data: hello"));
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while !String::from_utf8_lossy(&read.lock().unwrap()).contains("first half") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap();
    let over = async {
        assert!(events.data().await.is_none_or(|piece| piece.is_err()));
        let ended = UnixTime::now().as_secs();
        let _ = body.send_data(Bytes::from_static(b"other half"), true);
        assert!(upload.await.is_err());
        connection.await.unwrap();
        ended
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), over).await.expect("the connection stays open") > end);
    assert!(!String::from_utf8_lossy(&read.lock().unwrap()).contains("other half"));
}

#[test]
fn a_kept_connection_ends_with_its_authority() {
    let other = Authority::new();
    let both = |world: &World| {
        [world.authority.file(), other.file()].map(|file| std::fs::read_to_string(file).unwrap()).concat()
    };
    // Remove the authority from the file, or reload the configuration with another file.
    for by_reload in [false, true] {
        let world = World::new(Presence::Required);
        let file = world.authority.path("clients.pem");
        let clients = || Some(ClientCertificates { ca: file.clone(), demand: Presence::Required });
        std::fs::write(&file, both(&world)).unwrap();
        world.reload(clients());
        let (anna, ben) = (world.authority.issue("anna", "DNS:anna"), other.issue("ben", "DNS:ben"));
        let [mut anna, mut halfway, mut ben] = [&anna, &anna, &ben].map(|shown| {
            let mut open = world.connect(&world.client(&VERSIONS, Some(shown)));
            open.ask().expect("an answer");
            open
        });
        halfway.send(b"POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\nfirst half").unwrap();
        if by_reload {
            world.reload(Some(ClientCertificates { ca: other.file(), demand: Presence::Required }));
        } else {
            std::fs::copy(other.file(), &file).unwrap();
        }
        anna.until_closed();
        halfway.until_closed();
        assert!(ben.ask().expect("whose authority stays goes on").contains("CN=ben"));
        // An unrelated change closes no connection.
        world.reload(Some(ClientCertificates { ca: other.file(), demand: Presence::Optional }));
        assert!(ben.ask().unwrap().contains("CN=ben"));
        // The edge stops requesting certificates, so no authority vouches for the presented one.
        world.reload(None);
        ben.until_closed();
    }
}

#[test]
fn connections_without_a_certificate_close_when_one_becomes_required() {
    let world = World::new(Presence::Optional);
    let anna = world.authority.issue("anna", "DNS:anna");
    let mut nobody = world.connect(&world.client(&VERSIONS, None));
    let mut anna = world.connect(&world.client(&VERSIONS, Some(&anna)));
    assert!(!nobody.ask().expect("an answer").contains("X-Sealgate-Client"));
    assert!(anna.ask().unwrap().contains(TOLD));
    world.reload(Some(ClientCertificates { ca: world.authority.file(), demand: Presence::Required }));
    nobody.until_closed();
    assert!(anna.ask().unwrap().contains(TOLD));
}
