//! Access revoked while a request body is incomplete: the application receives no more of it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use sealgate_edge::ConnectionEvent;

use crate::harness::{Edge, GRACE, soon};
use crate::http2;

/// Maximum time between a revocation and its effect.
const SOON: Duration = Duration::from_secs(1);

/// The bytes that an application has read, and whether a connection has ended.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<(String, bool)>>);

impl Record {
    fn has(&self, text: &str) -> bool {
        self.0.lock().unwrap().0.contains(text)
    }

    fn has_ended(&self) -> bool {
        self.0.lock().unwrap().1
    }
}

/// Starts an application that reads until it has received `world` and then answers.
fn application() -> (SocketAddr, Record) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let record = Record::default();
    let kept = record.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let record = kept.clone();
            thread::spawn(move || {
                let mut buffer = [0; 1024];
                let mut read_any = false;
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    read_any = true;
                    record.0.lock().unwrap().0.push_str(&String::from_utf8_lossy(&buffer[..length]));
                    if record.has("world") {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    }
                }
                // Ignore health checks, which send no data.
                record.0.lock().unwrap().1 |= read_any;
            });
        }
    });
    (address, record)
}

const HEAD: &str = "POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";

/// Starts an edge whose body timeouts exceed the duration of the tests.
fn edge(address: SocketAddr) -> Edge {
    Edge::with(&[address], |parts| {
        parts.apps[0].read_timeout = Duration::from_secs(20);
        parts.server.body_timeout = Duration::from_secs(20);
    })
}

#[test]
fn a_body_that_is_halfway_when_access_ends_is_cut_off() {
    for begun in ["hello", ""] {
        let (address, record) = application();
        let edge = edge(address);
        let mut client = edge.client();
        client.send(format!("{HEAD}{begun}").as_bytes());
        soon(|| record.has(&format!("\r\n\r\n{begun}")).then_some(()));
        edge.front.end("/post");
        let start = Instant::now();
        soon(|| record.has_ended().then_some(()));
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        let _ = client.stream.write_all(b"world");
        client.rest();
        assert!(!record.has("world"));
        edge.front.saw(ConnectionEvent::AccessEnded);
        edge.front.told_of("/post");
    }
}

#[test]
fn the_next_piece_of_a_body_is_not_forwarded_after_access_ends() {
    // The edge checks for revocations periodically. Some of these pieces arrive before a check.
    for rest in [&b"world"[..], b"w"] {
        for _ in 0..5 {
            let (address, record) = application();
            let edge = edge(address);
            let mut client = edge.client();
            client.send(format!("{HEAD}hello").as_bytes());
            soon(|| record.has("hello").then_some(()));
            edge.front.end("/post");
            let _ = client.stream.write_all(rest);
            let answer = String::from_utf8(client.rest()).unwrap();
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 401 "), "{answer}");
            soon(|| record.has_ended().then_some(()));
            assert!(!record.has("hellow"));
        }
    }
}

#[test]
fn a_piece_after_the_expiry_of_access_is_not_forwarded() {
    let (address, record) = application();
    let edge = edge(address);
    let mut client = edge.client();
    client.send(format!("{HEAD}hello").as_bytes());
    soon(|| record.has("hello").then_some(()));
    edge.front.ended.lock().unwrap().push("/post".to_owned());
    assert!(client.until_closed() < SOON + GRACE);
    assert!(!record.has("world"));
}

#[test]
fn the_end_of_a_chunked_body_is_not_forwarded_after_access_ends() {
    let (address, record) = application();
    let edge = edge(address);
    let mut client = edge.client();
    client.send(b"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    soon(|| record.has("hello").then_some(()));
    edge.front.end("/post");
    let _ = client.stream.write_all(b"0\r\n\r\n");
    client.rest();
    soon(|| record.has_ended().then_some(()));
    assert!(!record.has("\r\n0\r\n"), "the application has it whole");
}

#[test]
fn other_requests_do_not_affect_an_upload() {
    let (address, record) = application();
    let edge = edge(address);
    let mut client = edge.client();
    client.send(format!("{HEAD}hello").as_bytes());
    soon(|| record.has("hello").then_some(()));
    edge.front.end("/other");
    soon(|| edge.front.asked.lock().unwrap().contains(&"/post".to_owned()).then_some(()));
    client.send(b"world");
    assert_eq!(client.reply().status, 200);
    assert_eq!(edge.front.told_of("/post").request_bytes, 10);
}

#[test]
fn a_complete_body_is_refused_with_a_message() {
    let (address, record) = application();
    let edge = edge(address);
    let mut client = edge.client();
    // The application waits for more bytes than the client sends.
    client.send(b"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    soon(|| record.has("hello").then_some(()));
    edge.front.end("/post");
    // The test expects that nothing happens, so there is no event to wait for.
    thread::sleep(Duration::from_millis(500));
    assert!(!record.has_ended(), "it is cut off no more");
}

/// Behaviour of an application that reads no request body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Application {
    /// Reads the body when the revocation has had its effect.
    Stopped,
    /// Sends the start of its answer, and reads the body as soon as access was revoked.
    Answers,
    /// Reads the body as soon as access was revoked.
    ReadsAtOnce,
}

/// Uploads to an application that starts to read after access was revoked. Returns its bytes.
///
/// Without a length, the client sends as much as the edge takes. The last byte of a body with a
/// length is `z`.
fn received_after_the_revocation(kind: Application, length: Option<usize>) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let edge = Edge::with(&[listener.local_addr().unwrap()], |parts| {
        let timeout = Duration::from_secs(30);
        parts.server.body_timeout = timeout;
        (parts.apps[0].read_timeout, parts.apps[0].write_timeout) = (timeout, timeout);
    });
    let (go, may_go) = mpsc::channel::<()>();
    let application = thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Health checks send no data.
            if stream.peek(&mut [0]).is_ok_and(|length| length > 0) {
                if kind == Application::Answers {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n{}", "y".repeat(10_000));
                    stream.write_all(head.as_bytes()).unwrap();
                }
                may_go.recv().unwrap();
                let (mut received, mut buffer) = (Vec::new(), [0; 16 * 1024]);
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    received.extend_from_slice(&buffer[..length]);
                    if received.ends_with(b"z") {
                        break;
                    }
                }
                return received;
            }
        }
        Vec::new()
    });
    let mut client = edge.client();
    let announced = length.unwrap_or(100_000_000);
    client.send(format!("POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: {announced}\r\n\r\n").as_bytes());
    if let Some(length) = length {
        let mut body = vec![b'x'; length];
        body[length - 1] = b'z';
        client.send(&body[..1]);
        // Before the rest: while Pingora waits to write to the application, it does not read the answer.
        if kind == Application::Answers {
            client.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            assert_eq!(client.stream.peek(&mut [0]).unwrap(), 1, "the start of the answer");
        }
        client.send(&body[1..]);
    } else {
        client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        while client.stream.write(&[b'x'; 16 * 1024]).is_ok() {}
    }
    // Wait until the queue of the edge is full. No event shows this.
    thread::sleep(Duration::from_millis(500));
    client.stream.set_read_timeout(Some(SOON + SOON)).unwrap();
    edge.front.end("/post");
    if kind != Application::Stopped {
        go.send(()).unwrap();
    }
    let mut answer = Vec::new();
    let end = client.stream.read_to_end(&mut answer);
    assert_eq!(answer.starts_with(b"HTTP/1.1 200 "), kind == Application::Answers);
    assert!(answer.len() < 20_000);
    if kind == Application::Stopped {
        go.send(()).unwrap();
    }
    let received = application.join().unwrap();
    assert!(!received.ends_with(b"z"), "the application has it whole");
    assert!(end.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true), "the connection ends");
    edge.front.saw(ConnectionEvent::AccessEnded);
    edge.front.told_of("/post");
    received
}

#[test]
fn the_end_of_a_body_that_an_application_does_not_read_is_discarded() {
    let taken_by_the_kernel = received_after_the_revocation(Application::Stopped, None).len();
    for kind in [Application::Stopped, Application::Answers, Application::ReadsAtOnce] {
        received_after_the_revocation(kind, Some(taken_by_the_kernel + 130_000));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_received_http_2_stream_is_reset() {
    let (address, record) = application();
    let (edge, authority) = http2::edge(&[address]);
    let mut requests = http2::connect(&edge, &authority).await;
    let request = http2::request("POST", &edge, "/post");
    let (response, mut body) = requests.send_request(request, false).unwrap();
    body.send_data(bytes::Bytes::from_static(b"hello"), false).unwrap();
    let half = record.clone();
    tokio::task::spawn_blocking(move || soon(|| half.has("hello").then_some(()))).await.unwrap();
    edge.front.end("/post");
    let _ = body.send_data(bytes::Bytes::from_static(b"world"), true);
    let outcome = tokio::time::timeout(SOON + GRACE, response).await.unwrap();
    assert!(outcome.is_err() || outcome.unwrap().status() == 401);
    tokio::task::spawn_blocking(move || {
        soon(|| record.has_ended().then_some(()));
        assert!(!record.has("world"));
    })
    .await
    .unwrap();
}
