//! Hop-by-hop headers and retries: behaviour that depends on Pingora's request policy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Edge, GRACE, HANDSHAKE, legacy, upstream};

/// Returns the headers that the application received, with lower-case names.
fn received(edge: &Edge, request: &str) -> Vec<(String, String)> {
    let reply = edge.ask(request);
    assert_eq!(reply.status, 200, "{request}");
    let said = reply.json();
    let fields = said["headers"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    fields.map(|field| (text(&field[0]).to_ascii_lowercase(), text(&field[1]))).collect()
}

fn names(fields: &[(String, String)]) -> Vec<&str> {
    fields.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn connection_headers_are_not_forwarded() {
    let edge = Edge::before(&[legacy()]);
    let fields = received(
        &edge,
        "GET /json HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Hop, TE\r\nX-Hop: 1\r\nX-End: 2\r\nKeep-Alive: timeout=5\r\n\
         TE: trailers\r\nTrailer: X-T\r\nProxy-Authorization: Basic YTpi\r\nProxy-Authenticate: Basic\r\n\
         Proxy-Connection: keep-alive\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nUpgrade: h2c\r\n\r\n",
    );
    let names = names(&fields);
    assert!(names.contains(&"x-end"));
    for gone in [
        "connection",
        "x-hop",
        "keep-alive",
        "te",
        "trailer",
        "proxy-authorization",
        "proxy-authenticate",
        "proxy-connection",
        "http2-settings",
        "upgrade",
    ] {
        assert!(!names.contains(&gone), "{gone}");
    }
}

/// Tests each header alone, because the edge skips the check for an absent one.
#[test]
fn a_single_connection_header_is_not_forwarded() {
    let edge = Edge::before(&[legacy()]);
    for field in [
        "Connection: keep-alive",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
        "Keep-Alive: timeout=5",
        "Proxy-Authenticate: Basic",
        "Proxy-Authorization: Basic YTpi",
        "Proxy-Connection: keep-alive",
        "TE: trailers",
        "Trailer: X-T",
        "Upgrade: h2c",
        // Over HTTP/1.0 this is not an upgrade request, and no other rule removes the header.
        "Upgrade: websocket",
    ] {
        for version in ["1.0", "1.1"] {
            let request = format!("GET /json HTTP/{version}\r\nHost: a\r\nX-End: 2\r\n{field}\r\n\r\n");
            let fields = received(&edge, &request);
            let (name, _) = field.split_once(':').unwrap();
            assert!(names(&fields).contains(&"x-end"), "{request}");
            assert!(!names(&fields).contains(&name.to_ascii_lowercase().as_str()), "{request}");
        }
    }
    let chunked =
        edge.ask("POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    assert_eq!((chunked.status, &chunked.json()["body_bytes"]), (200, &5.into()));
}

#[test]
fn connection_options_cannot_remove_identity_headers() {
    let edge = Edge::before(&[legacy()]);
    let fields = received(
        &edge,
        "GET /json HTTP/1.1\r\nHost: a\r\nConnection: close, X-Forwarded-User, X-Request-Id, Traceparent, CDN-Loop\r\n\
         X-Forwarded-User: mallory\r\n\r\n",
    );
    let users: Vec<_> = fields.iter().filter(|(name, _)| name == "x-forwarded-user").collect();
    assert_eq!(users, [&("x-forwarded-user".to_owned(), "alice".to_owned())]);
    for kept in ["x-request-id", "traceparent", "cdn-loop"] {
        assert!(names(&fields).contains(&kept), "{kept}");
    }
}

#[test]
fn naming_content_length_in_connection_keeps_the_body_framed() {
    let edge = Edge::before(&[legacy()]);
    let reply =
        edge.ask("POST /json HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((reply.status, &reply.json()["body_bytes"]), (200, &5.into()));
}

#[test]
fn connection_options_that_name_required_headers_are_refused() {
    let edge = Edge::before(&[legacy()]);
    let many = ["x"; 12].join(", ");
    for nominated in
        ["Host", "X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto", "\"X-Hop\"", ":authority", &many]
    {
        let reply = edge.ask(&format!("GET /json HTTP/1.1\r\nHost: a\r\nConnection: {nominated}\r\n\r\n"));
        assert_eq!((reply.status, &reply.json()["error"]), (400, &"invalid_request".into()), "{nominated}");
    }
}

/// Starts an upstream that never answers. Returns its address and the heads that it read.
fn hangs() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    let address = upstream(move |head, stream| {
        seen.lock().unwrap().push(head.to_ascii_lowercase());
        // Wait until the edge closes the connection.
        while let Ok(1..) = stream.read(&mut [0; 16]) {}
    });
    (address, heads)
}

/// Returns the handshake with `from` replaced by `to`.
fn spoiled(from: &str, to: &str) -> String {
    assert!(HANDSHAKE.contains(from));
    HANDSHAKE.replace(from, to)
}

#[test]
fn an_invalid_upgrade_request_keeps_the_deadline() {
    let (address, heads) = hangs();
    let edge = Edge::with(&[address], |parts| parts.apps[0].read_timeout = Duration::from_millis(200));
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: anything\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: anything\r\nContent-Length: 2\r\n\r\nhi"
            .to_owned(),
        spoiled("Upgrade: websocket\r\n", "Upgrade: h2c\r\n"),
        spoiled("Connection: Upgrade\r\n", ""),
        spoiled("Sec-WebSocket-Version: 13\r\n", ""),
        spoiled("dGhlIHNhbXBsZSBub25jZQ==", "short"),
        HANDSHAKE.replace("GET ", "POST "),
        HANDSHAKE.replace("HTTP/1.1", "HTTP/1.0"),
        HANDSHAKE.replace("/ws", "/_search").replace("\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nhi"),
    ];
    for request in &requests {
        let start = Instant::now();
        assert_eq!(edge.ask(request).status, 504, "{request}");
        assert!(start.elapsed() < GRACE, "{request}");
    }
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), requests.len());
    for head in heads.iter() {
        assert!(!head.contains("\r\nupgrade:") && !head.contains("connection: upgrade"), "{head}");
    }
}

#[test]
fn an_invalid_upgrade_request_keeps_pooling() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(Mutex::new(0));
    let connections = Arc::clone(&count);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let connections = Arc::clone(&connections);
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                let mut first = true;
                while let Ok(1..) = stream.read(&mut buffer) {
                    *connections.lock().unwrap() += u32::from(std::mem::take(&mut first));
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
        }
    });
    let edge = Edge::before(&[address]);
    for _ in 0..20 {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\n";
        assert_eq!(edge.ask(request).status, 200);
    }
    // A request may arrive while the edge is returning the previous connection to the pool.
    assert!(*count.lock().unwrap() < 10, "{count:?}");
}

#[test]
fn an_unrequested_101_opens_no_tunnel() {
    let address = upstream(|_, stream| {
        let _ = stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\nHTTP/1.1");
        let _ = stream.read(&mut [0; 16]);
    });
    let edge = Edge::before(&[address]);
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: anything\r\n\r\n",
    ] {
        assert_eq!(edge.ask(request).status, 502, "{request}");
    }
}
