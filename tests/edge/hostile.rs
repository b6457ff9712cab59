//! Responses and chunks that parsers interpret differently, connections that an application
//! authenticates, and differences between HTTP/1 and HTTP/2.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::harness::{Client, Edge, SLOW, legacy, soon, upstream};
use crate::http2;

/// Heads that an application has read, each with the number of its connection.
type Heads = Arc<Mutex<Vec<(usize, String)>>>;

/// Starts an application that answers each head with the result of `answer`.
///
/// It accepts any number of connections.
fn application(heads: &Heads, answer: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, answer) = (Arc::clone(heads), Arc::new(answer));
    thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            let (heads, answer) = (Arc::clone(&heads), Arc::clone(&answer));
            thread::spawn(move || {
                while let Some(head) = read_head(&mut stream) {
                    let answer = answer(number, &head);
                    heads.lock().unwrap().push((number, head));
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
                heads.lock().unwrap().push((number, "closed".to_owned()));
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

fn connection_of(heads: &Heads, path: &str) -> usize {
    let start = format!("GET {path} ");
    heads.lock().unwrap().iter().find(|(_, head)| head.starts_with(&start)).unwrap().0
}

fn get(client: &mut Client, path: &str, fields: &str) -> u16 {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    client.reply().status
}

#[test]
fn a_request_that_waited_for_a_connection_is_authorized_again() {
    let heads = Heads::default();
    let (enter, entered) = std::sync::mpsc::channel::<()>();
    let entered = Mutex::new(entered);
    let (arrive, arrived) = std::sync::mpsc::channel::<()>();
    let address = application(&heads, move |_, head| {
        if head.starts_with("GET /first ") {
            arrive.send(()).unwrap();
            entered.lock().unwrap().recv().unwrap();
        }
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
    });
    let edge = Edge::with(&[address], |parts| {
        let app = &mut parts.apps[0];
        (app.max_requests, app.max_requests_per_client) = (1, 1);
        app.read_timeout = Duration::from_secs(20);
    });
    let mut first = edge.client();
    first.send(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    arrived.recv_timeout(Duration::from_secs(15)).unwrap();
    let mut waiting = edge.client();
    waiting.send(b"DELETE /thing HTTP/1.1\r\nHost: a\r\n\r\n");
    soon(|| edge.front.decided.lock().unwrap().iter().any(|path| path == "/thing").then_some(()));
    edge.front.end("/thing");
    enter.send(()).unwrap();
    assert_eq!(first.reply().status, 200);
    assert_eq!(waiting.reply().status, 401);
    assert!(!heads.lock().unwrap().iter().any(|(_, head)| head.starts_with("DELETE")), "it reached the application");
}

#[test]
fn an_authenticated_upstream_connection_serves_one_client() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    const CHALLENGE: &str = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM TlRM\r\nContent-Length: 0\r\n\r\n";
    let heads = Heads::default();
    let address = application(&heads, |_, head| if head.contains("NTLM one") { CHALLENGE } else { OK }.to_owned());
    let edge = Edge::before(&[address]);
    let (mut anna, mut other) = (edge.client(), edge.client());
    assert_eq!(get(&mut anna, "/open", ""), 200);
    assert_eq!(get(&mut anna, "/one", "Authorization: NTLM one\r\n"), 401);
    assert_eq!(get(&mut anna, "/two", "Authorization: NTLM two\r\n"), 200);
    assert_eq!(get(&mut other, "/other", ""), 200);
    assert_eq!(get(&mut anna, "/mine", ""), 200);
    let own = connection_of(&heads, "/one");
    assert_eq!(own, connection_of(&heads, "/two"), "the handshake needs one connection");
    assert_eq!(own, connection_of(&heads, "/mine"));
    assert_ne!(own, connection_of(&heads, "/open"));
    assert_ne!(own, connection_of(&heads, "/other"));
    drop(anna);
    soon(|| heads.lock().unwrap().contains(&(own, "closed".to_owned())).then_some(()));
}

#[test]
fn a_connection_with_a_challenge_is_not_shared() {
    let heads = Heads::default();
    let address = application(&heads, |_, _| {
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x, Negotiate\r\nContent-Length: 1\r\n\r\nx"
            .to_owned()
    });
    let edge = Edge::before(&[address]);
    assert_eq!(get(&mut edge.client(), "/one", ""), 401);
    assert_eq!(get(&mut edge.client(), "/two", ""), 401);
    assert_ne!(connection_of(&heads, "/one"), connection_of(&heads, "/two"));
}

#[test]
fn answers_with_an_ambiguous_framing_are_502() {
    for head in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let edge = Edge::before(&[upstream(move |_, stream| stream.write_all(head.as_bytes()).unwrap())]);
        assert_eq!(edge.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 502, "{head:?}");
    }
}

#[test]
fn a_response_without_a_body_has_no_framing() {
    let edge = Edge::before(&[upstream(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
    })]);
    let reply = edge.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply.status, 204);
    assert!(!reply.headers.contains_key("content-length") && !reply.headers.contains_key("transfer-encoding"));
}

#[test]
fn a_client_of_http_1_0_gets_no_chunks() {
    let edge = Edge::before(&[upstream(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n").unwrap();
    })]);
    let mut client = edge.client();
    client.send(b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    let reply = client.reply_head();
    assert!(!reply.headers.contains_key("transfer-encoding"));
    assert_eq!(reply.headers["connection"], "close");
    assert_eq!(client.rest(), b"hello");
}

#[test]
fn ambiguous_chunk_lines_are_refused() {
    let edge = Edge::before(&[legacy()]);
    for path in ["/echo", "/local/echo"] {
        for chunks in ["5;a\nhello\r\n0\r\n\r\n", "\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n"] {
            for is_split in [false, true] {
                let mut client = edge.client();
                let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
                if is_split {
                    client.send(head.as_bytes());
                    thread::sleep(Duration::from_millis(50));
                    client.send(chunks.as_bytes());
                } else {
                    client.send(format!("{head}{chunks}").as_bytes());
                }
                assert_eq!(client.reply().status, 400, "{path} {chunks:?} {is_split}");
            }
        }
    }
    // The connection stays open after valid chunks.
    let mut client = edge.client();
    for _ in 0..3 {
        client.send(
            b"POST /local/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n",
        );
        assert_eq!(client.reply().json()["body"], 5);
    }
}

/// The cost of a body must depend on its bytes, and not on the number of its chunks.
#[test]
fn small_chunks_are_forwarded_together() {
    const CHUNKS: usize = 10_000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let edge = Edge::before(&[listener.local_addr().unwrap()]);
    let receiving = thread::spawn(move || {
        let mut request = Vec::new();
        // Health checks connect and disconnect without sending a request.
        let mut streams = listener.incoming().flatten().filter(|stream| stream.peek(&mut [0]).unwrap() > 0);
        let mut stream = streams.next().unwrap();
        while !request.ends_with(b"\r\n0\r\n\r\n") {
            let mut bytes = vec![0; 1 << 16];
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the body is incomplete");
            request.extend_from_slice(&bytes[..length]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        String::from_utf8(request).unwrap()
    });
    let mut client = edge.client();
    let chunks = "1\r\na\r\n1;x=y\r\nb\r\n".repeat(CHUNKS / 2);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}{chunks}0\r\n\r\n").as_bytes());
    assert_eq!(client.reply().status, 204);
    let request = receiving.join().unwrap();
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    let data: String = body.split("\r\n").skip(1).step_by(2).collect();
    assert!(data.starts_with(&"ab".repeat(CHUNKS / 2)), "{}", data.len());
    assert!(body.matches("\r\n").count() < CHUNKS / 10, "{}", body.matches("\r\n").count());
}

#[test]
fn long_chunk_extensions_are_refused() {
    let edge = Edge::before(&[legacy()]);
    for path in ["/echo", "/local/echo"] {
        let mut client = edge.client();
        let chunks = format!("1;{}\r\na\r\n", "x".repeat(100)).repeat(1000);
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(format!("{head}{chunks}0\r\n\r\n").as_bytes());
        assert_eq!(client.reply().status, 400, "{path}");
    }
}

#[test]
fn a_head_does_not_wait_for_its_body() {
    let edge = Edge::with(
        &[upstream(|_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap();
            // Wait until the client closes the connection; it has already received the head.
            let _ = stream.read(&mut [0; 16]);
        })],
        |parts| parts.apps[0].read_timeout = 5 * SLOW,
    );
    let mut client = edge.client();
    client.stream.set_read_timeout(Some(SLOW)).unwrap();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply_head().headers["content-length"], "5");
}

#[test]
fn an_upstreams_own_name_becomes_the_public_one() {
    let heads = Heads::default();
    let address = application(&heads, |_, head| {
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap().to_owned();
        format!("HTTP/1.1 302 Found\r\nLocation: http://{host}/next?a\r\nContent-Length: 0\r\n\r\n")
    });
    let edge = Edge::with(&[address], |parts| parts.apps[0].preserve_host = false);
    let reply = edge.ask("GET / HTTP/1.1\r\nHost: wiki.example\r\n\r\n");
    assert_eq!(reply.headers["location"], "https://wiki.example:8443/next?a");
}

#[test]
fn a_query_in_another_encoding_is_forwarded_percent_encoded() {
    let heads = Heads::default();
    let address = application(&heads, |_, _| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned());
    let edge = Edge::before(&[address]);
    let mut client = edge.client();
    client.send(b"GET /a?q=\xfe HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().status, 200);
    // A health check may have connected before.
    assert!(heads.lock().unwrap().iter().any(|(_, head)| head.starts_with("GET /a?q=%FE HTTP/1.1\r\n")));
    let mut client = edge.client();
    client.send(b"GET /\xfe HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = client.reply();
    assert_eq!(reply.status, 400);
    assert!(reply.json()["error_description"].as_str().unwrap().contains("percent-encoded"));
}

#[test]
fn an_event_stream_may_be_silent_for_longer_than_other_answers() {
    let edge = Edge::before(&[upstream(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n").unwrap();
        thread::sleep(SLOW);
        let _ = stream.write_all(b"data: 2\n\n");
    })]);
    let mut client = edge.client();
    client.send(b"GET /events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
    assert_eq!(client.reply_head().status, 200);
    let body = String::from_utf8(client.rest()).unwrap();
    assert!(body.contains("data: 2"), "{body:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_has_exactly_one_length_in_both_directions() {
    let heads = Heads::default();
    let address = application(&heads, |_, head| {
        let body = if head.starts_with("GET /twice") { "Content-Length: 2\r\n\r\nok" } else { "\r\n" };
        let status = if body.len() > 2 { "200 OK\r\nContent-Length: 2" } else { "204 No Content\r\nContent-Length: 0" };
        format!("HTTP/1.1 {status}\r\n{body}")
    });
    let (edge, authority) = http2::edge(&[address]);
    let mut requests = http2::connect(&edge, &authority).await;
    let twice = http2::ask(&mut requests, http2::request("GET", &edge, "/twice"), &[], true).await.unwrap();
    assert_eq!((twice.head.status().as_u16(), twice.body.unwrap()), (200, b"ok".to_vec()));
    let empty = http2::ask(&mut requests, http2::request("POST", &edge, "/empty"), &[], true).await.unwrap();
    assert_eq!(empty.head.status().as_u16(), 204);
    let said = heads.lock().unwrap().iter().any(|(_, head)| {
        head.starts_with("POST /empty") && head.to_ascii_lowercase().contains("content-length: 0\r\n")
    });
    assert!(said, "an empty POST says its length");
    let mut double = http2::request("POST", &edge, "/double");
    for _ in 0..2 {
        double.headers_mut().append("content-length", "2".parse().unwrap());
    }
    let double = http2::ask(&mut requests, double, &[b"ok"], true).await;
    assert!(double.is_err() || double.unwrap().head.status() == 400);
    assert!(!heads.lock().unwrap().iter().any(|(_, head)| head.starts_with("POST /double")));
}
