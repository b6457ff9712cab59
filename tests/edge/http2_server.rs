//! An upstream that speaks HTTP/2 only.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response, request};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sealgate_config::TlsConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server whose answer depends on the path:
///
/// - `/echo` returns the body with trailers; `/chat` returns each part of the body at once.
/// - `/status` answers with a head only, which has a gRPC status.
/// - `/silent` never answers; `/first` sends a head and one part, and then nothing.
/// - `/reset` resets the stream; `/half` does so after a part of both bodies.
/// - `/close` and `/goaway` end the connection, unless the request is its first one.
/// - `/large` sends [`LARGE`] bytes.
/// - Any other path is answered with the number of the request on its connection.
pub(crate) struct Http2Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
}

/// What the server has received.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) heads: Mutex<Vec<request::Parts>>,
    /// Number of connections with a request.
    pub(crate) connections: AtomicUsize,
    /// Number of requests that were reset by the edge.
    pub(crate) resets: AtomicUsize,
    /// Number of requests for `/silent` that have arrived completely.
    pub(crate) whole: AtomicUsize,
}

pub(crate) const LARGE: usize = 4 << 20;

impl Http2Server {
    /// Starts the server without TLS.
    pub(crate) fn start() -> Self {
        Self::serve(None)
    }

    /// Starts the server with this certificate. It selects `h2` by ALPN.
    pub(crate) fn with_tls(files: &TlsConfig) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let certificates = CertificateDer::pem_file_iter(&files.certificate).unwrap().map(Result::unwrap).collect();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates, PrivateKeyDer::from_pem_file(&files.key).unwrap())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::serve(Some(TlsAcceptor::from(Arc::new(config))))
    }

    fn serve(tls: Option<TlsAcceptor>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, seen: Arc::default() };
        let seen = Arc::clone(&server.seen);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let (tls, seen) = (tls.clone(), Arc::clone(&seen));
                    tokio::spawn(async move {
                        match tls {
                            None => talk(stream, seen).await,
                            Some(tls) => {
                                if let Ok(stream) = tls.accept(stream).await {
                                    talk(stream, seen).await;
                                }
                            }
                        }
                    });
                }
            });
        });
        server
    }

    /// Returns the head of the last request with this path.
    pub(crate) fn head_of(&self, path: &str) -> request::Parts {
        self.seen.heads.lock().unwrap().iter().rfind(|head| head.uri.path() == path).unwrap().clone()
    }

    pub(crate) fn requests(&self, path: &str) -> usize {
        self.seen.heads.lock().unwrap().iter().filter(|head| head.uri.path() == path).count()
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, seen: Arc<Seen>) {
    // Checks of the upstream connect and disconnect.
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut number = 0;
    while let Some(Ok((request, answer))) = connection.accept().await {
        number += 1;
        if number == 1 {
            seen.connections.fetch_add(1, Ordering::SeqCst);
        }
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        seen.heads.lock().unwrap().push(head);
        match path.as_str() {
            "/close" if number > 1 => return,
            "/goaway" if number > 1 => connection.abrupt_shutdown(Reason::NO_ERROR),
            _ => {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move { respond(&path, number, body, answer, &seen).await });
            }
        }
    }
}

async fn respond(path: &str, number: usize, mut body: RecvStream, mut answer: SendResponse<Bytes>, seen: &Seen) {
    let head = |fields: &[(&str, &str)], ends: bool, answer: &mut SendResponse<Bytes>| {
        let mut head = Response::builder().status(200);
        for (name, value) in fields {
            head = head.header(*name, *value);
        }
        answer.send_response(head.body(()).unwrap(), ends).ok()
    };
    match path {
        "/echo" => {
            let mut read = Vec::new();
            while let Some(Ok(piece)) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.len());
                read.extend_from_slice(&piece);
            }
            // Not an error of the test: the edge resets streams.
            let Ok(trailers) = body.trailers().await else { return };
            let received = trailers.map_or(0, |trailers| trailers.len());
            let Some(mut stream) = head(&[], false, &mut answer) else { return };
            send(&mut stream, read.into()).await;
            let trailers = [
                ("grpc-status", "0"),
                ("grpc-message", "well%20done"),
                ("x-received-trailers", &received.to_string()),
                ("set-cookie", "__Host-sealgate=forged"),
                ("x-forwarded-user", "eve"),
                ("x-forged", "eve"),
                ("x-fixed", "of the application"),
                ("cache-control", "public"),
                ("access-control-allow-origin", "*"),
                ("strict-transport-security", "max-age=0"),
                ("content-type", "text/html"),
                ("location", "https://evil.example/"),
                ("x-request-id", "forged"),
                ("trailer", "x-own"),
                ("proxy-authenticate", "Basic"),
                ("x-own", "passes"),
            ];
            let trailers = trailers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            let _ = stream.send_trailers(HeaderMap::from_iter(trailers));
        }
        "/chat" => {
            let Some(mut stream) = head(&[("content-type", "application/grpc")], false, &mut answer) else { return };
            while let Some(piece) = body.data().await {
                let Ok(piece) = piece else {
                    seen.resets.fetch_add(1, Ordering::SeqCst);
                    return;
                };
                let _ = body.flow_control().release_capacity(piece.len());
                send(&mut stream, piece).await;
            }
            let _ =
                stream.send_trailers(HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]));
        }
        "/status" => {
            head(&[("content-type", "application/grpc"), ("grpc-status", "5")], true, &mut answer);
        }
        "/silent" => {
            while let Some(Ok(_)) = body.data().await {}
            seen.whole.fetch_add(1, Ordering::SeqCst);
            let _ = std::future::poll_fn(|cx| answer.poll_reset(cx)).await;
            seen.resets.fetch_add(1, Ordering::SeqCst);
        }
        "/first" => {
            let Some(mut stream) = head(&[], false, &mut answer) else { return };
            send(&mut stream, Bytes::from_static(b"first")).await;
            let _ = std::future::poll_fn(|cx| stream.poll_reset(cx)).await;
            seen.resets.fetch_add(1, Ordering::SeqCst);
        }
        "/reset" => answer.send_reset(Reason::ENHANCE_YOUR_CALM),
        "/half" => {
            let Some(mut stream) = head(&[], false, &mut answer) else { return };
            send(&mut stream, Bytes::from_static(b"half")).await;
            let _ = body.data().await;
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
        "/large" => {
            let Some(mut stream) = head(&[], false, &mut answer) else { return };
            send(&mut stream, vec![b'x'; LARGE].into()).await;
            let _ = stream.send_data(Bytes::new(), true);
        }
        _ => {
            let text = number.to_string();
            let Some(mut stream) = head(&[("content-length", &text.len().to_string())], false, &mut answer) else {
                return;
            };
            let _ = stream.send_data(text.into(), true);
        }
    }
}

/// Sends data when the client permits it.
async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes) {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let Some(Ok(room)) = room else { return };
        if stream.send_data(data.split_to(room.min(data.len())), false).is_err() {
            return;
        }
    }
}

/// Returns a request to the edge that expects trailers.
pub(crate) fn grpc(mut request: Request<()>) -> Request<()> {
    let fields = request.headers_mut();
    fields.insert("content-type", "application/grpc".parse().unwrap());
    fields.insert("te", "trailers".parse().unwrap());
    request
}
