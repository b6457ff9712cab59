//! Refusals over HTTP/2: clients receive the same errors as over HTTP/1.1.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::authority::Authority;
use crate::harness::{Edge, curl, legacy, nobody, soon, upstream};

/// Starts an edge with TLS in front of these applications.
pub(crate) fn edge(upstreams: &[SocketAddr]) -> (Edge, Authority) {
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
    let edge = Edge::with(upstreams, |parts| {
        parts.server.tls = vec![files.into()];
        for app in &mut parts.apps {
            app.read_timeout = Duration::from_millis(300);
        }
    });
    (edge, authority)
}

/// Opens an HTTP/2 connection.
pub(crate) async fn connect(edge: &Edge, authority: &Authority) -> SendRequest<Bytes> {
    let mut roots = RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(edge.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    requests.ready().await.unwrap()
}

/// The result of a request: the head, and the body or the error that interrupted it.
pub(crate) struct Outcome {
    pub(crate) head: Response<()>,
    pub(crate) body: Result<Vec<u8>, h2::Error>,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(self.body.as_ref().unwrap()).unwrap()
    }
}

/// Sends a request and waits for the answer.
///
/// Sends the body in these pieces, and ends the stream if `ends` is true.
pub(crate) async fn ask(
    requests: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: &[&'static [u8]],
    ends: bool,
) -> Result<Outcome, h2::Error> {
    let nothing_follows = body.is_empty() && ends;
    let (response, mut sending) = requests.send_request(request, nothing_follows)?;
    let pieces: Vec<_> = body.to_vec();
    let upload = tokio::spawn(async move {
        for (number, piece) in pieces.iter().enumerate() {
            let mut rest = Bytes::from_static(piece);
            if rest.is_empty() && sending.send_data(Bytes::new(), ends && number + 1 == pieces.len()).is_err() {
                return;
            }
            while !rest.is_empty() {
                sending.reserve_capacity(rest.len());
                let room = std::future::poll_fn(|cx| sending.poll_capacity(cx)).await;
                let Some(Ok(room)) = room else { return };
                let now = rest.split_to(room.min(rest.len()));
                let last = ends && rest.is_empty() && number + 1 == pieces.len();
                if sending.send_data(now, last).is_err() {
                    return;
                }
            }
        }
        // Without an end, the stream stays open until the answer is complete.
        if !ends {
            std::future::pending::<()>().await;
        }
    });
    let outcome = async {
        let (head, mut body) = response.await?.into_parts();
        let mut read = Vec::new();
        let body = loop {
            match body.data().await {
                Some(Ok(piece)) => {
                    let _ = body.flow_control().release_capacity(piece.len());
                    read.extend_from_slice(&piece);
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(read),
            }
        };
        Ok(Outcome { head: Response::from_parts(head, ()), body })
    };
    let outcome = tokio::time::timeout(Duration::from_secs(10), outcome).await.expect("an answer");
    upload.abort();
    outcome
}

pub(crate) fn request(method: &str, edge: &Edge, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("https://{}{path}", edge.address)).body(()).unwrap()
}

static MEGABYTE: [u8; 1 << 20] = [b'x'; 1 << 20];

/// Method, path, body, whether the body ends, expected status, expected error.
type Case<'a> = (&'a str, &'a str, &'a [&'static [u8]], bool, u16, &'a str);

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_same_text_over_http_1_and_http_2() {
    let hangs = upstream(|_, _| thread::sleep(Duration::from_secs(2)));
    let (edge, authority) = edge(&[legacy(), nobody(), hangs]);
    let mut requests = connect(&edge, &authority).await;
    let long: &[&'static [u8]] = &[&MEGABYTE];
    let cases: [Case<'_>; 10] = [
        ("GET", "/answer", &[], true, 401, "unauthorized"),
        ("POST", "/answer", &[b"hello"], true, 401, "unauthorized"),
        ("POST", "/answer", long, true, 401, "unauthorized"),
        ("POST", "/answer", long, false, 401, "unauthorized"),
        ("POST", "/local/long", long, true, 413, "the body did not come"),
        ("POST", "/local/late", &[b"x"], false, 408, "the body did not come"),
        ("GET", "/1", &[], true, 502, "bad_gateway"),
        ("POST", "/1", long, true, 502, "bad_gateway"),
        ("GET", "/2", &[], true, 504, "gateway_timeout"),
        ("GET", "/7", &[], true, 500, "server_error"),
    ];
    for (method, path, body, ends, status, error) in cases {
        let outcome = ask(&mut requests, request(method, &edge, path), body, ends).await.unwrap();
        let case = format!("{method} {path} {}", body.len());
        assert_eq!((outcome.head.status().as_u16(), &outcome.json()["error"]), (status, &error.into()), "{case}");
        assert_eq!(outcome.head.headers()["content-type"], "application/json", "{case}");
        assert!(!outcome.head.headers()["x-request-id"].is_empty(), "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_get_the_same_pages_over_http_1_and_http_2() {
    let (edge, authority) = edge(&[nobody()]);
    let mut requests = connect(&edge, &authority).await;
    let mut wanted = request("GET", &edge, "/");
    wanted.headers_mut().insert("accept", "text/html".parse().unwrap());
    let outcome = ask(&mut requests, wanted, &[], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), outcome.body.unwrap().starts_with(b"<!doctype html>")), (502, true));
    let outcome = ask(&mut requests, request("GET", &edge, "/page"), &[], true).await.unwrap();
    assert!(outcome.body.unwrap().starts_with(b"<p lang=\"tr\">"));
}

#[test]
fn curl_shows_the_refusal_of_an_unread_upload() {
    let refuses = upstream(|_, stream| {
        let answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\nConnection: close\r\n\r\nrefused";
        let _ = stream.write_all(answer.as_bytes());
        thread::sleep(Duration::from_millis(500));
    });
    let (edge, authority) = edge(&[nobody(), refuses]);
    let file = authority.path("upload");
    std::fs::write(&file, MEGABYTE).unwrap();
    let (data, ca) = (format!("@{}", file.display()), authority.file());
    let cases =
        [("/answer", "unauthorized"), ("/local/a", "the body did not come"), ("/x", "bad_gateway"), ("/1", "refused")];
    for (path, error) in cases {
        let url = format!("https://{}{path}", edge.address);
        let body = curl(&["--cacert", ca.to_str().unwrap(), "--http2", "--data-binary", &data, &url]);
        assert!(body.contains(error), "{path}: {body:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_is_refused_with_a_message() {
    let (edge, authority) = edge(&[legacy()]);
    let mut requests = connect(&edge, &authority).await;
    let tunnel = Request::builder().method("CONNECT").uri("evil.example:443").body(()).unwrap();
    let outcome = ask(&mut requests, tunnel, &[], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), &outcome.json()["error"]), (405, &"invalid_request".into()));
    assert!(edge.front.asked.lock().unwrap().is_empty());
    soon(|| (edge.front.told.lock().unwrap().len() == 1).then_some(()));
    let next = ask(&mut requests, request("GET", &edge, "/json"), &[], true).await.unwrap();
    assert_eq!(next.head.status(), 200, "the connection is as good as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_long_is_refused_with_a_message() {
    let (edge, authority) = edge(&[legacy()]);
    let mut requests = connect(&edge, &authority).await;
    let long = |length: usize| {
        let mut long = request("GET", &edge, "/json");
        long.headers_mut().insert("x-long", "x".repeat(length).parse().unwrap());
        long
    };
    // The limit is 16 KiB.
    let fits = ask(&mut requests, long(15 * 1024), &[], true).await.unwrap();
    assert_eq!(fits.head.status(), 200);
    let outcome = ask(&mut requests, long(17 * 1024), &[], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), &outcome.json()["error"]), (431, &"request_header_too_large".into()));
    let mut many = request("GET", &edge, "/json");
    for number in 0..500 {
        many.headers_mut().append("a", number.to_string().parse().unwrap());
    }
    assert_eq!(
        ask(&mut requests, many, &[], true).await.unwrap().head.status(),
        431,
        "each field counts 32 bytes more"
    );
    // Pingora does not read far longer heads, and answers without a body.
    let outcome = ask(&mut requests, long(40 * 1024), &[], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), outcome.body.unwrap().len()), (431, 0));
    let next = ask(&mut requests, request("GET", &edge, "/json"), &[], true).await.unwrap();
    assert_eq!(next.head.status(), 200, "the connection is as good as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_two_hosts_is_refused() {
    let (edge, authority) = edge(&[legacy()]);
    let mut requests = connect(&edge, &authority).await;
    let mut two = request("GET", &edge, "/json");
    two.headers_mut().insert("host", "other.example".parse().unwrap());
    // Pingora refuses the request itself. RFC 9113 §8.1.1 calls it malformed and requires no body.
    let outcome = ask(&mut requests, two, &[], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), outcome.body.unwrap().len()), (400, 0));
    assert!(edge.front.told.lock().unwrap().is_empty());
    let next = ask(&mut requests, request("GET", &edge, "/json"), &[], true).await.unwrap();
    assert_eq!(next.head.status(), 200, "the connection is as good as before");
}
