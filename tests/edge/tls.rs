//! TLS, HTTP/2 and resumed sessions.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, SupportedProtocolVersion};
use sealgate_config::TlsConfig;
use sealgate_edge::{ChallengeAnswer, Challenges, ConnectionEvent};
use sealgate_system::named_certificate::NamedOrIssued;
use tempfile::TempDir;

use crate::authority::Authority;
use crate::harness::{BODY_LIMIT, Edge, GRACE, HEADER_TIMEOUT, curl, legacy, nobody, parts, soon, upstream};

/// Starts an edge with TLS. The directory holds its certificate.
fn edge() -> (Edge, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let files = certificate(dir.path());
    (Edge::with(&[legacy()], |parts| parts.server.tls = vec![files.into()]), dir)
}

pub(crate) fn certificate(dir: &Path) -> TlsConfig {
    let files = TlsConfig { certificate: dir.join("chain.pem"), key: dir.join("key.pem") };
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .arg("-out")
        .arg(&files.certificate)
        .arg("-keyout")
        .arg(&files.key)
        .stderr(Stdio::null())
        .status()
        .expect("openssl");
    assert!(made.success());
    files
}

fn url(edge: &Edge, path: &str) -> String {
    format!("https://{}{path}", edge.address)
}

#[test]
fn http_1_and_http_2_work_over_tls() {
    let (edge, dir) = edge();
    let chain = dir.path().join("chain.pem");
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let chain = chain.to_str().unwrap();
        let text = curl(&["--cacert", chain, option, "-w", "\n%{http_version}", &url(&edge, "/local/a")]);
        let (body, spoken) = text.split_once('\n').unwrap();
        assert_eq!(spoken, version);
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["secure"], &body["host"]), (&true.into(), &edge.address.to_string().into()));
    }
}

#[test]
fn tls_1_2_is_supported() {
    let (edge, _dir) = edge();
    let body = curl(&["-k", "--tls-max", "1.2", &url(&edge, "/local/a")]);
    assert!(body.contains(r#""secure":true"#), "{body}");
}

#[test]
fn http_2_requests_reach_the_upstream() {
    let (edge, _dir) = edge();
    let body = curl(&["-k", "--http2", "-H", "X-Forged: 1", "-d", "hello", &url(&edge, "/json?q")]);
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["path"], &body["body_bytes"]), (&"/json?q".into(), &5.into()));
    let fields = body["headers"].to_string().to_ascii_lowercase();
    assert!(fields.contains(r#"["x-forwarded-user","alice"]"#) && !fields.contains("x-forged"), "{fields}");
    assert!(fields.contains(&format!(r#"["host","{}"]"#, edge.address)), "{fields}");
}

#[test]
fn a_large_http_2_upload_is_forwarded_completely() {
    let (edge, dir) = edge();
    let file = dir.path().join("large");
    std::fs::write(&file, vec![b'x'; 8 << 20]).unwrap();
    let data = format!("@{}", file.display());
    let body = curl(&["-k", "--http2", "--data-binary", &data, &url(&edge, "/json")]);
    assert!(body.contains(r#""body_bytes":8388608"#), "{body}");
}

#[test]
fn split_cookie_headers_are_joined() {
    let (edge, _dir) = edge();
    let cookies = ["-k", "--http2", "-H", "Cookie: a=1", "-H", "Cookie: b=2"];
    let body = curl(&[&cookies[..], &[&url(&edge, "/local/a")]].concat());
    assert!(body.contains(r#""cookies":["a=1; b=2"]"#), "{body}");
    let body = curl(&[&cookies[..], &[&url(&edge, "/json")]].concat());
    assert!(body.to_ascii_lowercase().contains(r#"["cookie","a=1; b=2"]"#), "{body}");
}

#[test]
fn a_long_body_over_http_2_is_refused() {
    let (edge, _dir) = edge();
    let long = "x".repeat(BODY_LIMIT + 1);
    let status =
        curl(&["-k", "--http2", "-o", "/dev/null", "-w", "%{http_code}", "-d", &long, &url(&edge, "/local/a")]);
    assert_eq!(status, "413");
}

#[test]
fn head_over_http_2_has_no_body() {
    let (edge, _dir) = edge();
    let head = curl(&["-k", "--http2", "-I", &url(&edge, "/answer")]);
    assert!(head.starts_with("HTTP/2 401") && head.contains("content-length: 24"), "{head}");
}

#[test]
fn an_incomplete_tls_handshake_is_closed_at_the_deadline() {
    let (edge, _dir) = edge();
    let mut client = edge.client();
    assert!(client.until_closed() < HEADER_TIMEOUT + GRACE);
    edge.front.saw(ConnectionEvent::HandshakeFailed);
}

#[test]
fn plain_http_on_a_tls_port_is_closed() {
    let (edge, _dir) = edge();
    let mut client = edge.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.until_closed();
    edge.front.saw(ConnectionEvent::HandshakeFailed);
}

/// Tests how the edge closes silent clients over TLS.
#[test]
fn a_silent_connection_is_closed_after_the_handshake_with_every_protocol() {
    let (edge, _dir) = edge();
    for protocol in ["h2", "http/1.1"] {
        let mut client = Command::new("openssl")
            .args(["s_client", "-quiet", "-alpn", protocol, "-connect", &edge.address.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        let start = Instant::now();
        soon(|| client.try_wait().unwrap());
        assert!(start.elapsed() < HEADER_TIMEOUT + GRACE, "{protocol}: {:?}", start.elapsed());
    }
}

#[test]
fn an_idle_http_2_connection_is_closed() {
    let (edge, _dir) = edge();
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-alpn", "h2", "-connect", &edge.address.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let start = Instant::now();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    Write::write_all(client.stdin.as_mut().unwrap(), preface).unwrap();
    soon(|| client.try_wait().unwrap());
    assert!(start.elapsed() > HEADER_TIMEOUT, "{:?}", start.elapsed());
    assert!(start.elapsed() < HEADER_TIMEOUT + GRACE, "{:?}", start.elapsed());
}

#[test]
fn a_private_key_that_does_not_match_is_reported_on_one_line() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = TlsConfig { key: certificate(second.path()).key, ..certificate(first.path()) };
    let mut parts = parts(Arc::default(), &[]);
    parts.server.tls = vec![files.into()];
    let faults = sealgate::app::server::Server::prepare(parts).err().unwrap();
    assert!(faults.len() == 1 && faults[0].starts_with("cannot use certificate "), "{faults:?}");
}

/// Returns the serial number of the certificate that the edge presents.
fn shown(edge: &Edge) -> String {
    shown_for(edge, &["-servername", "localhost"])
}

/// Returns the serial number that a client with these `openssl s_client` options receives.
pub(crate) fn shown_for(edge: &Edge, options: &[&str]) -> String {
    let address = edge.address.to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &address])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let chain = client.stdout.take().unwrap();
    let serial = Command::new("openssl").args(["x509", "-noout", "-serial"]).stdin(chain).output().unwrap();
    client.wait().unwrap();
    String::from_utf8(serial.stdout).unwrap()
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart() {
    let (edge, dir) = edge();
    let old = shown(&edge);
    assert!(old.starts_with("serial="), "{old}");
    let end = || edge.front.certificates.lock().unwrap().get(&dir.path().join("chain.pem")).copied();
    let first_end = soon(end);
    // An incomplete renewal: the key does not match the certificate, so the old pair stays in use.
    let key = dir.path().join("key.pem");
    let kept = std::fs::read(&key).unwrap();
    std::fs::write(&key, "half of a key").unwrap();
    // Wait longer than the watch interval. The certificate must not change.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(shown(&edge), old);
    std::fs::write(&key, kept).unwrap();
    certificate(dir.path());
    soon(|| (shown(&edge) != old).then_some(()));
    soon(|| (end()? > first_end).then_some(()));
    assert!(
        curl(&["--cacert", dir.path().join("chain.pem").to_str().unwrap(), &url(&edge, "/local/a")]).contains("secure")
    );
}

/// Connects to `address`, sends `request` and reads to the end.
///
/// Returns the result, the bytes read and the kind of handshake. An end without a `close_notify` is
/// a failure.
fn exchange(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    request: &str,
) -> (io::Result<usize>, Vec<u8>, HandshakeKind) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = rustls::Stream::new(&mut connection, &mut stream);
    stream.write_all(request.as_bytes()).unwrap();
    // The TLS 1.3 tickets arrive before the answer.
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    (ended, answer, connection.handshake_kind().unwrap())
}

/// Returns the kind of handshake of a client that may resume its last session.
fn handshake(config: &Arc<ClientConfig>, address: SocketAddr) -> HandshakeKind {
    let request = "GET /local/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (ended, answer, handshake) = exchange(config, address, request);
    ended.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    handshake
}

/// Starts an edge. Returns it and a constructor of configurations of clients that trust it.
fn trusted(
    upstreams: &[SocketAddr],
) -> (Edge, impl Fn(&'static SupportedProtocolVersion) -> Arc<ClientConfig> + use<>) {
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost");
    let edge = Edge::with(upstreams, |parts| parts.server.tls = vec![files.into()]);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let client = move |version| {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        Arc::new(builder.with_root_certificates(roots.clone()).with_no_client_auth())
    };
    (edge, client)
}

#[test]
fn a_complete_response_ends_with_close_notify() {
    let (edge, client) = trusted(&[nobody()]);
    let version = &TLS13;
    for (request, status) in [
        ("GET /local/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"),
        ("GET /local/a HTTP/1.0\r\n\r\n", "400"),
        ("GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "405"),
        ("GET /0 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\na", "400"),
        ("GET /0 HTTP/1.1\r\nHost: localhost\r\n\r\n", "502"),
        ("GET /0/page HTTP/1.1\r\nHost: localhost\r\n\r\n", "502"),
    ] {
        let (ended, answer, _) = exchange(&client(version), edge.address, request);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        assert!(ended.is_ok(), "{request}: {ended:?}");
    }
}

#[test]
fn a_truncated_response_ends_without_close_notify() {
    let halved = upstream(|_, stream| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").unwrap());
    let (edge, client) = trusted(&[halved]);
    let request = "GET /0 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (ended, answer, _) = exchange(&client(&TLS13), edge.address, request);
    assert!(answer.ends_with(b"\r\n\r\nhalf") || answer.is_empty(), "{answer:?}");
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_client_resumes_its_session_after_many_others() {
    let (edge, client) = trusted(&[legacy()]);
    for version in [&TLS12, &TLS13] {
        let first = client(version);
        assert_eq!(handshake(&first, edge.address), HandshakeKind::Full);
        // More sessions than a server-side session store would hold.
        for _ in 0..300 {
            assert_eq!(handshake(&client(version), edge.address), HandshakeKind::Full);
        }
        assert_eq!(handshake(&first, edge.address), HandshakeKind::Resumed, "{version:?}");
    }
}

/// Returns the kind of handshake and the key exchange of a client that offers these groups.
fn key_exchange(
    version: &'static SupportedProtocolVersion,
    groups: &[&'static dyn SupportedKxGroup],
) -> (HandshakeKind, NamedGroup) {
    let (edge, dir) = edge();
    let provider = CryptoProvider { kx_groups: groups.to_vec(), ..rustls::crypto::aws_lc_rs::default_provider() };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(dir.path().join("chain.pem")).unwrap()).unwrap();
    let named = vec![CertificateDer::from_pem_file(dir.path().join("chain.pem")).unwrap()];
    let provider = Arc::new(provider);
    let verifier = NamedOrIssued::new(roots, named, Arc::clone(&provider)).unwrap();
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let config = Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    let mut stream = TcpStream::connect(edge.address).unwrap();
    let mut connection = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).unwrap();
    }
    (connection.handshake_kind().unwrap(), connection.negotiated_key_exchange_group().unwrap().name())
}

#[test]
fn a_hybrid_key_exchange_is_used_if_the_client_offers_it() {
    let hybrid = (HandshakeKind::Full, NamedGroup::X25519MLKEM768);
    assert_eq!(key_exchange(&TLS13, &[X25519MLKEM768, X25519]), hybrid);
}

#[test]
fn a_client_without_the_hybrid_key_exchange_is_served_in_one_round_trip() {
    for (version, group, name) in [
        (&TLS13, X25519, NamedGroup::X25519),
        (&TLS13, SECP256R1, NamedGroup::secp256r1),
        (&TLS12, X25519, NamedGroup::X25519),
        (&TLS12, SECP384R1, NamedGroup::secp384r1),
    ] {
        assert_eq!(key_exchange(version, &[group]), (HandshakeKind::Full, name));
    }
}

/// Returns the answer to a challenge for `localhost`.
pub(crate) fn challenge(authority: &Authority) -> ChallengeAnswer {
    let files = authority.issue("challenge", "DNS:localhost");
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap().to_vec();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap().secret_der().to_vec();
    ChallengeAnswer::new("localhost".to_owned(), certificate, key, "t0ken".to_owned(), "t0ken.key".to_owned()).unwrap()
}

#[test]
fn a_validation_gets_the_certificate_of_its_challenge_and_no_answer_to_a_request() {
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost");
    let challenges = Arc::<Challenges>::default();
    let edge = Edge::with(&[legacy()], |parts| {
        parts.server.tls = vec![files.into()];
        parts.challenges = Arc::clone(&challenges);
    });
    let validation = ["-servername", "localhost", "-alpn", "acme-tls/1"];
    assert_eq!(shown_for(&edge, &validation), "");
    challenges.set(vec![challenge(&authority)]);
    let (own, validated) = (shown(&edge), shown_for(&edge, &validation));
    assert!(own.starts_with("serial=") && validated.starts_with("serial=") && own != validated, "{own} {validated}");
    assert_eq!(shown_for(&edge, &["-servername", "other.test", "-alpn", "acme-tls/1"]), "");
    assert_eq!(shown_for(&edge, &["-servername", "localhost", "-alpn", "h2,acme-tls/1"]), own);

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let mut socket = TcpStream::connect(edge.address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).unwrap();
    }
    assert_eq!(connection.alpn_protocol(), Some(&b"acme-tls/1"[..]));
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    // The server may have closed the connection already.
    let _ = stream.write_all(b"GET /local/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
}
