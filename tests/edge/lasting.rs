//! Exchanges that are in progress when access is revoked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sealgate_config::TlsConfig;
use sealgate_edge::{AnsweredBy, ConnectionEvent};

use crate::harness::{Client, Edge, GRACE, HANDSHAKE, curl, legacy, soon, upstream};
use crate::tls::certificate;

/// Maximum time between a revocation and its effect.
const SOON: Duration = Duration::from_secs(1);

fn echo(head: &str, stream: &mut TcpStream) {
    assert!(head.contains("websocket"), "{head}");
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

/// Starts an upstream that sends this head and one event, and then stays silent.
fn silent_after(head: &'static str) -> SocketAddr {
    upstream(move |_, stream| {
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"data: first\n\n").unwrap();
        // Wait until the edge closes the connection.
        let _ = stream.read(&mut [0; 16]);
    })
}

fn open_websocket(edge: &Edge) -> Client {
    let mut client = edge.client();
    client.send(HANDSHAKE.as_bytes());
    assert_eq!(client.reply_head().status, 101);
    client.send(b"ping");
    assert_eq!(client.bytes(4), b"ping");
    client
}

#[test]
fn a_silent_websocket_is_cut_off_when_access_ends() {
    let edge = Edge::before(&[upstream(echo)]);
    let mut client = open_websocket(&edge);
    // A revocation for another path does not affect this connection.
    edge.front.end("/other");
    soon(|| edge.front.asked.lock().unwrap().contains(&"/ws".to_owned()).then_some(()));
    client.send(b"pong");
    assert_eq!(client.bytes(4), b"pong");

    edge.front.end("/ws");
    assert!(client.until_closed() < SOON);
    edge.front.saw(ConnectionEvent::AccessEnded);
    let told = edge.front.told_of("/ws");
    assert_eq!((told.status, told.answered_by, told.app), (Some(101), AnsweredBy::Upstream, Some(0)));
    assert_eq!((told.request_bytes, told.response_bytes), (8, 8));
    assert_eq!(edge.front.told.lock().unwrap().len(), 1);
}

#[test]
fn connections_end_when_access_expires() {
    let edge = Edge::before(&[upstream(echo)]);
    let mut client = open_websocket(&edge);
    edge.front.ended.lock().unwrap().push("/ws".to_owned());
    assert!(client.until_closed() < SOON + GRACE);
}

#[test]
fn a_silent_event_stream_is_cut_off_when_access_ends() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let edge = Edge::with(&[silent_after(head)], |parts| parts.apps[0].read_timeout = Duration::from_secs(20));
    let mut client = edge.client();
    client.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply_head().status, 200);
    // Let the stream be silent for a while.
    thread::sleep(Duration::from_millis(300));
    edge.front.end("/events");
    let start = Instant::now();
    let rest = client.rest();
    assert!(start.elapsed() < SOON);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "it must not look complete");
    assert_eq!(edge.front.told_of("/events").status, Some(200));
}

#[test]
fn a_long_download_stops_when_access_ends() {
    let address = upstream(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n").unwrap();
        while stream.write_all(&[b'x'; 1000]).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let edge = Edge::before(&[address]);
    let mut client = edge.client();
    client.send(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply_head().status, 200);
    client.bytes(5000);
    edge.front.end("/file");
    assert!(client.until_closed() < SOON);
    assert!(edge.front.told_of("/file").response_bytes >= 5000);
}

#[test]
fn a_slow_short_response_stops_when_access_ends() {
    let address = upstream(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").unwrap();
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    let edge = Edge::before(&[address]);
    let mut client = edge.client();
    client.send(b"GET /drip HTTP/1.1\r\nHost: a\r\n\r\n");
    // Long enough for the edge to treat the exchange as long-lived.
    thread::sleep(Duration::from_millis(1300));
    edge.front.end("/drip");
    assert!(client.until_closed() < SOON);
}

#[test]
fn a_response_after_the_end_of_access_is_not_forwarded() {
    let address = upstream(|_, stream| {
        thread::sleep(Duration::from_millis(1400));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    });
    let edge = Edge::with(&[address], |parts| parts.apps[0].read_timeout = Duration::from_secs(5));
    let mut client = edge.client();
    client.send(b"GET /poll HTTP/1.1\r\nHost: a\r\n\r\n");
    // Revoke access while the edge waits, before the upstream sends the head of its answer.
    thread::sleep(Duration::from_millis(300));
    edge.front.end("/poll");
    let reply = client.reply();
    assert_eq!((reply.status, &reply.json()["error"]), (401, &"access_ended".into()));
}

#[test]
fn short_requests_are_authorized_only_once() {
    let edge = Edge::before(&[legacy()]);
    let mut client = edge.client();
    for _ in 0..20 {
        client.send(b"GET /json HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.reply().status, 200);
    }
    edge.front.end("/json");
    // The test expects that nothing happens, so there is no event to wait for.
    thread::sleep(Duration::from_millis(300));
    assert!(edge.front.asked.lock().unwrap().is_empty());
    client.send(b"GET /json HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().status, 200, "the connection is as good as before");
}

#[test]
fn ending_one_http_2_stream_keeps_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let files: TlsConfig = certificate(dir.path());
    let events = silent_after("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    let edge = Edge::with(&[legacy(), events], |parts| {
        parts.server.tls = vec![files.into()];
        parts.apps[1].read_timeout = Duration::from_secs(20);
    });
    let url = |path: &str| format!("https://{}{path}", edge.address);
    let mut open = Command::new("curl")
        .args(["-skN", "--http2", "--max-time", "10", &url("/1/events")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    soon(|| edge.front.asked.lock().unwrap().contains(&"/1/events".to_owned()).then_some(()));
    let start = Instant::now();
    edge.front.end("/1/events");
    let status = open.wait().unwrap();
    assert!(start.elapsed() < SOON);
    assert_eq!(status.code(), Some(92), "curl's word for a stream that was reset");
    assert_eq!(edge.front.told_of("/1/events").status, Some(200));
    assert!(curl(&["-k", "--http2", &url("/json")]).contains("GET"));
}
