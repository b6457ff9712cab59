//! Applications that answer without reading the body.
//!
//! The rest of the body in the upstream connection must not become another client's request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Edge, soon};
use crate::http2;

/// An attacker's prefix for the next request on the connection. Its last header absorbs that
/// request.
const STOLEN: &str = "GET /stolen HTTP/1.1\r\nHost: a\r\nX-Forwarded-User: admin\r\nX-Rest: ";

/// Heads that an upstream has read, each with the number of its connection.
type Heads = Arc<Mutex<Vec<(usize, String)>>>;

/// Starts an upstream that answers each head with its path and parses the body as the next head.
fn careless(heads: &Heads) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::clone(heads);
    thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            let heads = Arc::clone(&heads);
            thread::spawn(move || {
                while let Some(head) = read_head(&mut stream) {
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    heads.lock().unwrap().push((number, head));
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Python's `http.server` with a handler that ignores bodies.
struct Python(Child, SocketAddr);

impl Python {
    fn start() -> Self {
        const PROGRAM: &str = r#"
import http.server
class Careless(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = (self.path + " " + self.headers.get("X-Forwarded-User", "")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_PUT = do_DELETE = do_GET
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless)
print(server.server_port, flush=True)
server.serve_forever()
"#;
        let mut child = Command::new("python3").args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn().expect("python3");
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self(child, (Ipv4Addr::LOCALHOST, port.trim().parse().unwrap()).into())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends requests whose body is another request, and three requests of another client after each.
fn attack(edge: &Edge, framings: &[String]) {
    for framing in framings {
        for method in ["POST", "PUT", "DELETE"] {
            assert_eq!(edge.ask(&format!("{method} /left HTTP/1.1\r\nHost: a\r\n{framing}")).status, 200);
            for _ in 0..3 {
                let mine = edge.ask("GET /mine HTTP/1.1\r\nHost: a\r\n\r\n");
                let body = String::from_utf8(mine.body).unwrap();
                assert!(body.starts_with("/mine"), "somebody else's answer: {body:?}");
            }
        }
    }
}

fn framings() -> [String; 2] {
    [
        format!("Content-Length: {}\r\n\r\n{STOLEN}", STOLEN.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{STOLEN}\r\n0\r\n\r\n", STOLEN.len()),
    ]
}

#[test]
fn an_unread_body_never_becomes_a_request() {
    let heads = Heads::default();
    let edge = Edge::before(&[careless(&heads)]);
    attack(&edge, &framings());
    let heads = heads.lock().unwrap();
    assert_eq!(heads.iter().filter(|(_, head)| head.contains(" /left ")).count(), 6);
    for (number, head) in heads.iter().filter(|(_, head)| head.contains(" /left ")) {
        let closes = head.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
        assert!(closes, "the head announces no body: {head}");
        let after = heads.iter().skip_while(|one| one.1 != *head).filter(|one| one.0 == *number);
        assert!(after.clone().all(|one| !one.1.starts_with("GET /mine")), "the connection was used again");
    }
    assert!(
        !heads.iter().any(|(_, head)| head.starts_with("GET /mine") && head.to_ascii_lowercase().contains("close"))
    );
}

#[test]
fn an_unread_body_never_becomes_a_request_of_pythons_server() {
    let python = Python::start();
    let edge = Edge::before(&[python.1]);
    attack(&edge, &framings());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_body_never_becomes_a_request_over_http_2() {
    let python = Python::start();
    let (edge, authority) = http2::edge(&[python.1]);
    let mut requests = http2::connect(&edge, &authority).await;
    for _ in 0..5 {
        let left = http2::request("POST", &edge, "/left");
        http2::ask(&mut requests, left, &[STOLEN.as_bytes()], true).await.unwrap();
        for _ in 0..3 {
            let mine = http2::ask(&mut requests, http2::request("GET", &edge, "/mine"), &[], true).await.unwrap();
            let body = String::from_utf8(mine.body.unwrap()).unwrap();
            assert!(body.starts_with("/mine"), "somebody else's answer: {body:?}");
        }
    }
}

#[test]
fn requests_without_a_body_share_a_connection() {
    let heads = Heads::default();
    let edge = Edge::before(&[careless(&heads)]);
    for number in 0..10 {
        edge.ask(&format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        edge.ask("POST /empty HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        edge.front.told_of(&format!("/{number}"));
    }
    let connections: std::collections::BTreeSet<_> = heads.lock().unwrap().iter().map(|(number, _)| *number).collect();
    // A request may arrive while the edge is returning the previous connection to the pool.
    assert!(connections.len() < 10, "{connections:?}");
}

/// Starts an upstream that records the data of each connection, until it ends or the test ends.
fn recording(answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let records: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&records);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let records = Arc::clone(&kept);
            thread::spawn(move || {
                let Some(head) = read_head(&mut stream) else { return };
                let place = {
                    let mut records = records.lock().unwrap();
                    records.push(head);
                    records.len() - 1
                };
                let _ = stream.write_all(answer.as_bytes());
                let mut buffer = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    records.lock().unwrap()[place].push_str(&String::from_utf8_lossy(&buffer[..length]));
                }
                records.lock().unwrap()[place].push_str("<end>");
            });
        }
    });
    (address, records)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn an_application_that_reads_all_bodies_keeps_its_connections() {
    let (address, records) = recording(OK);
    let edge = Edge::with(&[address], |parts| parts.apps[0].reads_bodies_whole = true);
    edge.ask("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    // The edge keeps this connection until the server stops.
    thread::sleep(Duration::from_millis(500));
    let record = records.lock().unwrap().join("");
    assert!(record.ends_with("hello") && !record.to_ascii_lowercase().contains("connection: close"), "{record}");
}

#[test]
fn a_response_before_the_whole_body_closes_the_connection() {
    for answer in [
        OK,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let (address, records) = recording(answer);
        let edge = Edge::with(&[address], |parts| parts.apps[0].reads_bodies_whole = true);
        let mut client = edge.client();
        client.send(b"POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
        assert!(client.reply_head().status < 500, "{answer}");
        client.send(b"world");
        soon(|| records.lock().unwrap()[0].ends_with("<end>").then_some(()));
        edge.ask("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(records.lock().unwrap()[1].starts_with("GET /next "), "{answer}");
    }
}

#[test]
fn an_application_may_respond_while_it_reads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Health checks connect and disconnect without sending a request.
            if read_head(&mut stream).is_none() {
                continue;
            }
            // Send chunks: Pingora flushes a body with a Content-Length only once it is complete.
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            let mut buffer = [0; 5];
            for _ in 0..2 {
                stream.read_exact(&mut buffer).unwrap();
                stream.write_all(&[&b"5\r\n"[..], &buffer, b"\r\n"].concat()).unwrap();
            }
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
    });
    for sound in [false, true] {
        let edge = Edge::with(&[address], |parts| parts.apps[0].reads_bodies_whole = sound);
        let mut client = edge.client();
        client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
        assert_eq!(client.reply_head().status, 200);
        assert_eq!(client.bytes(10), b"5\r\nhello\r\n");
        client.send(b"world");
        assert_eq!(client.bytes(15), b"5\r\nworld\r\n0\r\n\r\n");
    }
}

#[test]
fn get_head_and_options_may_have_no_body() {
    let heads = Heads::default();
    let edge = Edge::before(&[careless(&heads)]);
    let ask = |method: &str, path: &str, framing: &str| {
        let mut client = edge.client();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{framing}").as_bytes());
        client.reply_head()
    };
    for method in ["GET", "HEAD", "OPTIONS"] {
        for framing in framings() {
            let reply = ask(method, "/x", &framing);
            assert_eq!(reply.status, 400, "{method} {framing}");
            assert!(!reply.keeps() && !reply.headers["x-request-id"].is_empty());
            assert_eq!(ask(method, "/_search", &framing).status, 200, "{method} {framing}");
        }
        for empty in ["Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "\r\n"] {
            assert_eq!(ask(method, "/empty", empty).status, 200, "{method} {empty}");
        }
    }
    let heads = heads.lock().unwrap();
    assert!(!heads.iter().any(|(_, head)| head.contains(" /x ")), "nothing of it has reached the application");
    // The edge must remove the framing of an empty body, so that no upstream waits for a body.
    for (_, head) in heads.iter().filter(|(_, head)| head.contains(" /empty ")) {
        assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{head}");
    }
    let told = edge.front.told_of("/x");
    assert_eq!(told.status, Some(400));
}

#[test]
fn the_wait_for_an_empty_bodys_end_has_a_deadline() {
    let edge = Edge::before(&[careless(&Heads::default())]);
    for (framing, status) in [
        ("Transfer-Encoding: chunked\r\n\r\n", 408),
        ("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", 400),
        ("Content-Length: 5\r\n\r\n", 400),
    ] {
        let reply = edge.ask(&format!("GET /x HTTP/1.1\r\nHost: a\r\n{framing}"));
        assert_eq!(reply.status, status, "{framing}");
        assert_eq!(reply.json()["error"], if status == 408 { "request_timeout" } else { "invalid_request" });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn get_may_have_no_body_over_http_2() {
    let heads = Heads::default();
    let (edge, authority) = http2::edge(&[careless(&heads)]);
    let mut requests = http2::connect(&edge, &authority).await;
    let cases: [(&str, &[&'static [u8]], u16); 5] = [
        ("/x", &[STOLEN.as_bytes()], 400),
        ("/_search", &[STOLEN.as_bytes()], 200),
        ("/x", &[b"hel", b"lo"], 400),
        // The request announces no length and has no body.
        ("/empty", &[b""], 200),
        ("/empty", &[], 200),
    ];
    for (path, body, status) in cases {
        let outcome = http2::ask(&mut requests, http2::request("GET", &edge, path), body, true).await.unwrap();
        assert_eq!(outcome.head.status(), status, "{path} {body:?}");
    }
    let heads = heads.lock().unwrap();
    assert!(!heads.iter().any(|(_, head)| head.contains(" /x ")));
}

/// Returns the processor time of this process so far, in milliseconds.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_ascii_whitespace().collect();
    // utime and stime, in hundredths of a second.
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

/// Measures the cost of closing connections after bodies.
///
/// Run `POSTS=20000 cargo test --test edge cost_of -- --nocapture`. The figures include client,
/// edge and application.
#[test]
fn the_cost_of_ending_connections_after_bodies() {
    let posts: usize = std::env::var("POSTS").map_or(200, |posts| posts.parse().unwrap());
    for sound in [true, false, true, false] {
        let heads = Heads::default();
        let address = reading(&heads);
        let edge = Edge::with(&[address], |parts| parts.apps[0].reads_bodies_whole = sound);
        let (begun, used) = (Instant::now(), processor_time());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut client = edge.client();
                    for _ in 0..posts / 8 {
                        client.send(b"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
                        assert_eq!(client.reply().status, 200);
                    }
                });
            }
        });
        let (seconds, used) = (begun.elapsed().as_secs_f64(), processor_time() - used);
        let connections = heads.lock().unwrap().iter().map(|(number, _)| *number).max().unwrap() + 1;
        let count = u32::try_from(posts).unwrap();
        println!(
            "reads_bodies_whole = {sound}: {:.0} POSTs a second, {connections} connections, {:.0} µs of processor time a POST",
            f64::from(count) / seconds,
            f64::from(u32::try_from(used).unwrap()) * 1000.0 / f64::from(count),
        );
        assert!(if sound { connections < posts / 2 } else { connections >= posts }, "{connections}");
    }
}

/// Starts an upstream that reads a five-byte body per request and answers.
fn reading(heads: &Heads) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::clone(heads);
    thread::spawn(move || {
        // Health checks connect and disconnect. They add one connection per five seconds.
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let heads = Arc::clone(&heads);
            thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
                    if line == "\r\n" {
                        if reader.read_exact(&mut [0; 5]).is_err() || (&stream).write_all(OK.as_bytes()).is_err() {
                            return;
                        }
                        heads.lock().unwrap().push((number, String::new()));
                    }
                    line.clear();
                }
            });
        }
    });
    address
}
