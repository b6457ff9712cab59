//! Slow, greedy and malformed clients.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use sealgate_edge::ConnectionEvent;

use crate::harness::{Client, Edge, GRACE, HEADER_TIMEOUT, IDLE_TIMEOUT, legacy, soon};

const REQUEST: &[u8] = b"GET /local/a HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_slow_head_is_answered_with_408_at_its_deadline() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    let mut drip = client.stream.try_clone().unwrap();
    thread::spawn(move || {
        for byte in b"GET /local/a HTTP/1.1\r\nHost: a\r\nX-Long: ".iter().chain([b'x'; 400].iter()) {
            if drip.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(25));
        }
    });
    let start = Instant::now();
    let reply = client.reply();
    assert_eq!(reply.status, 408);
    assert_eq!(reply.json()["error"], "request_timeout");
    assert!(start.elapsed() < HEADER_TIMEOUT + GRACE);
    client.until_closed();
    edge.front.saw(ConnectionEvent::HeadTooSlow);
}

#[test]
fn an_incomplete_second_head_is_closed_at_its_deadline() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(REQUEST);
    client.reply();
    client.send(b"GET /loc");
    let start = Instant::now();
    assert_eq!(client.reply().status, 408);
    assert!(start.elapsed() < HEADER_TIMEOUT + GRACE);
}

#[test]
fn a_silent_connection_is_closed_without_a_response() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    let start = Instant::now();
    assert_eq!(client.head(), None);
    assert!(start.elapsed() < HEADER_TIMEOUT + GRACE);
    edge.front.saw(ConnectionEvent::Closed);
}

#[test]
fn an_idle_connection_is_closed() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(REQUEST);
    assert!(client.reply().keeps());
    let idle = client.until_closed();
    assert!(idle > IDLE_TIMEOUT / 2 && idle < IDLE_TIMEOUT + GRACE, "{idle:?}");
}

#[test]
fn a_head_of_20_kb_is_answered_431() {
    let edge = Edge::before(&[]);
    let reply = edge.ask(&format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(20_000)));
    assert_eq!(reply.status, 431);
    assert_eq!(reply.json()["error"], "request_header_too_large");
    edge.front.saw(ConnectionEvent::HeadTooLarge);
}

#[test]
fn a_head_of_15_kb_passes() {
    let edge = Edge::before(&[]);
    let long = "x".repeat(15_000);
    assert_eq!(edge.ask(&format!("GET /local/a HTTP/1.1\r\nHost: a\r\nX-Long: {long}\r\n\r\n")).status, 200);
}

#[test]
fn ambiguous_heads_are_refused() {
    let edge = Edge::before(&[]);
    for head in [
        "GET /local/a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /local/a HTTP/1.1\r\n\r\n",
        "GET /local/a HTTP/1.1\r\nHost: \r\n\r\n",
        "GET http://b/local/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /local/a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /local/a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /local/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /local/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "POST /local/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /local/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /local/a HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        "POST /local/a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /local/a HTTP/1.1\nHost: a\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
    ] {
        let reply = edge.ask(head);
        assert_eq!(reply.status, 400, "{head:?}");
        assert!(!reply.keeps(), "{head:?}");
    }
}

#[test]
fn empty_lines_before_a_request_are_ignored() {
    let edge = Edge::before(&[]);
    assert_eq!(edge.ask("\r\n\r\nGET /local/a HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
}

#[test]
fn a_head_may_arrive_in_pieces() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    for piece in ["GET /local/a HT", "TP/1.1\r\nHost: a\r", "\n\r", "\n"] {
        client.send(piece.as_bytes());
        // Pause, so that each piece arrives separately.
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.reply().status, 200);
}

#[test]
fn a_peer_gets_no_more_connections_than_its_share() {
    let edge = Edge::with(&[], |parts| parts.server.max_connections_per_peer = 2);
    let (mut first, mut second) = (edge.client(), edge.client());
    for client in [&mut first, &mut second] {
        client.send(REQUEST);
        assert_eq!(client.reply().status, 200);
    }
    assert_eq!(edge.client().head(), None);
    edge.front.saw(ConnectionEvent::TooManyFromPeer);
    drop(first);
    soon(|| {
        let mut client = edge.client();
        client.stream.write_all(REQUEST).ok()?;
        client.head()
    });
}

#[test]
fn connections_over_the_limit_wait_their_turn() {
    let edge = Edge::with(&[], |parts| parts.server.max_connections = 1);
    let mut first = edge.client();
    first.send(REQUEST);
    assert_eq!(first.reply().status, 200);
    let mut second = edge.client();
    second.send(REQUEST);
    second.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(second.stream.peek(&mut [0]).is_err());
    drop(first);
    second.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(second.reply().status, 200);
}

#[test]
fn five_hundred_slow_connections_do_not_keep_others_out() {
    let edge = Edge::with(&[], |parts| {
        parts.server.max_connections = 1000;
        parts.server.max_connections_per_peer = 1000;
    });
    let mut slow: Vec<Client> = (0..500).map(|_| edge.client()).collect();
    for (number, client) in slow.iter_mut().enumerate() {
        match number % 4 {
            0 => client.send(b"GET /"),
            1 => client.send(b"POST /local/a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"),
            2 => client.send(REQUEST),
            _ => {}
        }
    }
    let start = Instant::now();
    for _ in 0..20 {
        let asked = Instant::now();
        assert_eq!(edge.ask("GET /local/b HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
        assert!(asked.elapsed() < HEADER_TIMEOUT, "{:?}", asked.elapsed());
    }
    for client in &mut slow {
        client.until_closed();
    }
    assert!(start.elapsed() < IDLE_TIMEOUT + 2 * GRACE, "{:?}", start.elapsed());
}

#[test]
fn malformed_heads_are_refused_in_json() {
    let edge = Edge::before(&[legacy()]);
    for (head, status) in [
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
        ("POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: +4\r\n\r\nbody", 400),
        ("POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 4, 5\r\n\r\nbody", 400),
        ("POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
        ("POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        ("POST /json HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("GET /json HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET http://b/json HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /json HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400),
    ] {
        let reply = edge.ask(head);
        assert_eq!((reply.status, &reply.json()["error"]), (status, &"invalid_request".into()), "{head:?}");
        assert!(!reply.keeps(), "{head:?}");
    }
    edge.front.saw(ConnectionEvent::HeadMalformed);
}
