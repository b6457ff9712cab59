//! Limits of routes: length of request bodies, and timeouts of upstreams.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sealgate_config::RouteLimits;
use sealgate_edge::AnsweredBy;

use crate::authority::Authority;
use crate::harness::{Client, Edge, HANDSHAKE, SLOW, soon, upstream};
use crate::http2::{ask, connect, request};

const LIMIT: usize = 100;
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

/// Bytes of each request that an application has received, and whether its connection has ended.
type Received = Arc<Mutex<Vec<(String, bool)>>>;

/// Starts an application that answers when it has received `end` after a head.
fn application(end: &'static str) -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let received = Received::default();
    let kept = Arc::clone(&received);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let received = Arc::clone(&kept);
            thread::spawn(move || {
                let (mut text, mut number, mut buffer) = (String::new(), None, [0; 4096]);
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    text.push_str(&String::from_utf8_lossy(&buffer[..length]));
                    let mut all = received.lock().unwrap();
                    let number = *number.get_or_insert_with(|| {
                        all.push((String::new(), false));
                        all.len() - 1
                    });
                    all[number].0.clone_from(&text);
                    if text.ends_with(end) {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                }
                // Health checks send nothing.
                if let Some(number) = number {
                    received.lock().unwrap()[number].1 = true;
                }
            });
        }
    });
    (address, received)
}

fn limit(edge: &Edge, limits: RouteLimits) {
    edge.front.limits.lock().unwrap().push(("/limited".to_owned(), limits));
}

fn body_limit(edge: &Edge) {
    limit(edge, RouteLimits { max_body_bytes: Some(LIMIT as u64), ..RouteLimits::default() });
}

fn post(path: &str, length: usize) -> String {
    let body = format!("{}!", "x".repeat(length - 1));
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
}

#[test]
fn an_announced_body_over_the_limit_never_reaches_the_application() {
    let (address, received) = application("!");
    let edge = Edge::before(&[address]);
    body_limit(&edge);
    let reply = edge.ask(&post("/limited", LIMIT + 1));
    assert_eq!((reply.status, &reply.json()["error"]), (413, &"request_too_large".into()));
    assert!(!reply.keeps());
    assert_eq!(edge.front.told_of("/limited").answered_by, AnsweredBy::Edge);
    assert!(received.lock().unwrap().is_empty());
    let page = edge.ask(&post("/limited", LIMIT + 1).replace("Host: a", "Host: a\r\nAccept: text/html"));
    assert!(String::from_utf8(page.body).unwrap().contains("Gönderilen veri çok büyük."));
    // A client that waits for permission to send gets none.
    let waiting =
        format!("POST /limited HTTP/1.1\r\nHost: a\r\nContent-Length: {LONG_BODY}\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(edge.ask(&waiting).status, 413);
    assert!(received.lock().unwrap().is_empty());
    assert_eq!(edge.ask(&post("/limited", LIMIT)).status, 200);
    assert_eq!(edge.ask(&post("/other", LIMIT + 1)).status, 200);
}

const LONG_BODY: usize = 1 << 20;

#[test]
fn a_chunked_body_is_counted_and_the_connection_to_the_application_is_closed() {
    let (address, received) = application("0\r\n\r\n");
    let edge = Edge::before(&[address]);
    body_limit(&edge);
    for (path, pieces, status) in [("/limited", 10, 200), ("/limited", 11, 413), ("/other", 11, 200)] {
        let before = received.lock().unwrap().len();
        let mut client = edge.client();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
        // The application receives the first part before the whole body has arrived.
        client.send(b"A\r\n0123456789\r\n");
        soon(|| received.lock().unwrap().get(before).filter(|(text, _)| text.contains("0123456789")).map(|_| ()));
        for _ in 1..pieces {
            client.send(b"A\r\n0123456789\r\n");
        }
        client.send(b"0\r\n\r\n");
        let reply = client.reply();
        assert_eq!(reply.status, status, "{path}, {pieces} pieces");
        if status == 413 {
            assert_eq!(reply.json()["error"], "request_too_large");
            soon(|| received.lock().unwrap()[before].1.then_some(()));
            assert!(!received.lock().unwrap()[before].0.ends_with("0\r\n\r\n"));
        }
    }
}

#[test]
fn a_client_that_continues_to_send_can_read_the_refusal() {
    let (address, _) = application("!");
    let edge = Edge::before(&[address]);
    body_limit(&edge);
    for framing in ["Transfer-Encoding: chunked".to_owned(), format!("Content-Length: {LONG_BODY}")] {
        let mut client = edge.client();
        client.send(format!("POST /limited HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").as_bytes());
        for _ in 0..20 {
            client.try_send(&[b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat());
        }
        assert_eq!(client.reply().status, 413, "{framing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_over_http_2_are_counted() {
    let (address, received) = application("0\r\n\r\n");
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
    let edge = Edge::with(&[address], |parts| parts.server.tls = vec![files.into()]);
    body_limit(&edge);
    let mut requests = connect(&edge, &authority).await;
    for (pieces, status) in [(10, 200), (11, 413)] {
        let body = vec![&b"0123456789"[..]; pieces];
        let outcome = ask(&mut requests, request("POST", &edge, "/limited"), &body, true).await.unwrap();
        assert_eq!(outcome.head.status(), status);
    }
    let announced = received.lock().unwrap().len();
    let mut too_long = request("POST", &edge, "/limited");
    too_long.headers_mut().insert("content-length", (LIMIT + 1).into());
    let outcome = ask(&mut requests, too_long, &[&[b'x'; LIMIT + 1]], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), &outcome.json()["error"]), (413, &"request_too_large".into()));
    assert_eq!(received.lock().unwrap().len(), announced);
}

/// A PUT is repeated if the application closes a kept connection before it answers.
#[test]
fn a_repeated_body_is_counted_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lost = Arc::new(AtomicBool::new(false));
    let has_lost = Arc::clone(&lost);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lost = Arc::clone(&has_lost);
            thread::spawn(move || {
                let mut client = Client::from_stream(stream);
                for number in 0.. {
                    let Some(head) = client.head() else { return };
                    if head.starts_with("PUT") {
                        client.bytes(LIMIT);
                        // The edge repeats a request only if it was sent on a connection from the pool.
                        if number > 0 && !lost.swap(true, Ordering::SeqCst) {
                            return;
                        }
                    }
                    client.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
        }
    });
    let edge = Edge::before(&[address]);
    body_limit(&edge);
    // The connection of the first request may return to the pool after the second one was sent.
    soon(|| {
        assert_eq!(edge.ask("GET /first HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
        assert_eq!(edge.ask(&post("/limited", LIMIT).replace("POST", "PUT")).status, 200);
        lost.load(Ordering::SeqCst).then_some(())
    });
}

/// Starts an application that switches protocols and then waits until the connection is closed. It
/// sends `answer` after `pause`.
fn websocket(pause: Duration) -> SocketAddr {
    upstream(move |_, stream| {
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            .unwrap();
        thread::sleep(pause);
        let _ = stream.write_all(b"late");
        let mut client = Client::from_stream(stream.try_clone().unwrap());
        let length = client.rest().len();
        let _ = length;
    })
}

fn handshake(edge: &Edge) -> Client {
    let mut client = edge.client();
    client.send(HANDSHAKE.replace("/ws", "/limited").as_bytes());
    assert_eq!(client.reply_head().status, 101);
    client
}

#[test]
fn messages_of_a_websocket_are_not_a_body() {
    let echo = upstream(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            .unwrap();
        let mut client = Client::from_stream(stream.try_clone().unwrap());
        let sent = client.bytes(3 * LIMIT);
        let _ = stream.write_all(&sent);
    });
    let edge = Edge::before(&[echo]);
    body_limit(&edge);
    let mut client = handshake(&edge);
    client.send(&[b'x'; 3 * LIMIT]);
    assert_eq!(client.bytes(3 * LIMIT).len(), 3 * LIMIT);
}

/// Starts an edge with timeouts of the application and of the route.
fn edge_with_timeouts(address: SocketAddr, of_app: Duration, of_route: Duration) -> Edge {
    let edge = Edge::with(&[address], |parts| {
        (parts.apps[0].read_timeout, parts.apps[0].stream_timeout) = (of_app, of_app);
    });
    limit(&edge, RouteLimits { read_timeout: Some(of_route), stream_timeout: Some(of_route), max_body_bytes: None });
    edge
}

/// Starts an application that answers each request after [`SLOW`].
fn late(answer: &'static str) -> SocketAddr {
    upstream(move |_, stream| {
        thread::sleep(SLOW);
        let _ = stream.write_all(answer.as_bytes());
    })
}

#[test]
fn the_read_timeout_of_a_route_replaces_the_applications() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (of_app, of_route, of_limited, of_other) in [(SHORT, LONG, 200, 504), (LONG, SHORT, 504, 200)] {
        for (path, status) in [("/limited", of_limited), ("/other", of_other)] {
            let edge = edge_with_timeouts(late(OK), of_app, of_route);
            assert_eq!(
                edge.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).status,
                status,
                "{path} {of_app:?}"
            );
        }
    }
}

#[test]
fn the_stream_timeout_of_a_route_replaces_the_applications() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let events = || {
        upstream(|_, stream| {
            stream.write_all(HEAD.as_bytes()).unwrap();
            thread::sleep(SLOW);
            let _ = stream.write_all(b"data: 2\n\n");
        })
    };
    for (of_app, of_route, has_second) in [(SHORT, LONG, true), (LONG, SHORT, false)] {
        let edge = edge_with_timeouts(events(), of_app, of_route);
        let mut client = edge.client();
        client.send(b"GET /limited HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
        let body = String::from_utf8(client.rest()).unwrap();
        assert!(body.contains("data: 1"), "{body}");
        assert_eq!(body.contains("data: 2"), has_second, "{of_app:?}: {body}");
    }
}

#[test]
fn the_stream_timeout_of_a_route_applies_to_its_websockets() {
    let edge = edge_with_timeouts(websocket(SLOW), SHORT, LONG);
    assert_eq!(handshake(&edge).bytes(4), b"late");
    let edge = edge_with_timeouts(websocket(LONG), LONG, SHORT);
    let start = Instant::now();
    assert!(handshake(&edge).rest().is_empty());
    assert!(start.elapsed() < LONG);
}
