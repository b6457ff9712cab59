//! Read timeouts of upstreams: event streams may be silent longer than other answers.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Client, Edge, SLOW, curl, upstream};
use crate::tls::certificate;

const EVENTS: &str = "Content-Type: text/event-stream\r\n\r\ndata: 1\n\n";

/// Starts an upstream that sends `answer`, then an event after more than the ordinary timeout.
fn pausing(answer: &'static str) -> SocketAddr {
    upstream(move |_, stream| {
        stream.write_all(answer.as_bytes()).unwrap();
        thread::sleep(SLOW);
        let _ = stream.write_all(b"data: 2\n\n");
    })
}

/// Starts an upstream that sends `answer` and waits until the edge closes the connection.
fn silent(answer: &'static str) -> SocketAddr {
    upstream(move |_, stream| {
        stream.write_all(answer.as_bytes()).unwrap();
        let mut client = Client::from_stream(stream.try_clone().unwrap());
        client.rest();
    })
}

#[test]
fn the_response_type_decides_that_a_stream_is_an_event_stream() {
    for head in ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n"] {
        let answer = Box::leak(format!("{head}{EVENTS}").into_boxed_str());
        for request in [
            "GET /events HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /events HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
            "POST /chat HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\nContent-Length: 2\r\n\r\n{}",
        ] {
            let edge = Edge::before(&[pausing(answer)]);
            let mut client = edge.client();
            client.send(request.as_bytes());
            let body = String::from_utf8(client.rest()).unwrap();
            assert!(body.contains("data: 2"), "{request:?}: {body:?}");
        }
    }
}

#[test]
fn an_event_stream_may_be_silent_over_http_2() {
    let dir = tempfile::tempdir().unwrap();
    let files = certificate(dir.path());
    let answer = Box::leak(format!("HTTP/1.1 200 OK\r\n{EVENTS}").into_boxed_str());
    let edge = Edge::with(&[pausing(answer)], |parts| parts.server.tls = vec![files.into()]);
    let body = curl(&["-kN", "--http2", &format!("https://{}/events", edge.address)]);
    assert!(body.contains("data: 2"), "{body:?}");
}

#[test]
fn an_event_stream_ends_at_its_own_timeout() {
    let answer = Box::leak(format!("HTTP/1.1 200 OK\r\n{EVENTS}").into_boxed_str());
    for (read, stream) in [(1, 2), (60, 1)] {
        let edge = Edge::with(&[silent(answer)], |parts| {
            parts.apps[0].read_timeout = Duration::from_secs(read);
            parts.apps[0].stream_timeout = Duration::from_secs(stream);
        });
        for accept in ["*/*", "text/event-stream"] {
            let mut client = edge.client();
            client.send(format!("GET /events HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n").as_bytes());
            let start = Instant::now();
            let body = client.rest();
            assert!(start.elapsed() >= Duration::from_secs(stream));
            assert!(!body.ends_with(b"0\r\n\r\n"), "it must not look complete");
        }
    }
}

#[test]
fn other_answers_end_at_the_ordinary_timeout_and_never_look_complete() {
    for head in ["Content-Length: 100\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "\r\nabc"] {
        for kind in ["text/event", "text/plain", "text/event-stre"] {
            let answer = Box::leak(format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{head}").into_boxed_str());
            let edge = Edge::before(&[silent(answer)]);
            let mut client = edge.client();
            client.send(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n");
            let body = client.rest();
            assert!(!body.ends_with(b"0\r\n\r\n"), "{head:?}: {}", String::from_utf8_lossy(&body));
            assert_eq!(edge.front.told_of("/page").status, Some(200));
        }
    }
}

/// Uses a reused connection, because Pingora retries a request if a reused connection ends.
#[test]
fn a_request_that_was_not_answered_in_time_is_not_repeated() {
    let requests = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let counted = Arc::clone(&requests);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                let mut client = Client::from_stream(stream);
                while let Some(head) = client.head() {
                    if head.starts_with("GET /first") {
                        client.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    } else {
                        counted.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let edge = Edge::before(&[address]);
    for _ in 0..2 {
        let mut client = edge.client();
        client.send(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.reply().status, 200);
        client.send(b"GET /silent HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.reply().status, 504);
    }
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

/// Uses many body lengths, so that the edge has read some answers completely but not sent them yet.
#[test]
fn an_answer_for_a_slow_client_stays_whole() {
    const STEP: usize = 256 * 1024;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut client = Client::from_stream(stream);
                while let Some(head) = client.head() {
                    let steps: usize = head.split(' ').nth(1).unwrap()[2..].parse().unwrap();
                    let _ = write!(client.stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", steps * STEP);
                    let _ = client.stream.write_all(&vec![b'x'; steps * STEP]);
                }
            });
        }
    });
    let edge = Edge::with(&[address], |parts| {
        parts.apps[0].read_timeout = SLOW;
        parts.apps[0].write_timeout = Duration::from_secs(20);
    });
    let mut clients: Vec<_> = (1..30)
        .map(|steps| {
            let mut client = edge.client();
            client.send(format!("GET /x{steps} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert_eq!(client.reply_head().status, 200);
            (steps, client)
        })
        .collect();
    thread::sleep(SLOW + Duration::from_secs(1));
    for (steps, client) in &mut clients {
        assert_eq!(client.bytes(*steps * STEP).len(), *steps * STEP);
    }
}
