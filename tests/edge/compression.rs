//! Tests compressed responses of paths below `/compressed/`.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use flate2::read::GzDecoder;
use http::HeaderName;

use crate::harness::{Edge, Reply, curl, upstream};
use crate::http2;

/// Starts an application that sends this head and a body of `length` bytes, with its length.
fn application(head: &'static str, length: usize) -> SocketAddr {
    upstream(move |_, stream| {
        let _ = stream.write_all(format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n").as_bytes());
        let _ = stream.write_all(&text(length));
    })
}

const HTML: &str = "200 OK\r\nContent-Type: text/html\r\nETag: \"a\"\r\nAccept-Ranges: bytes";

/// Returns a text that does not repeat.
fn text(length: usize) -> Vec<u8> {
    let words = (0_u64..).flat_map(|number| format!("{:x} ", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes());
    words.take(length).collect()
}

fn get(edge: &Edge, path: &str, fields: &str) -> Reply {
    edge.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

fn unpacked(body: &[u8]) -> Vec<u8> {
    let (mut decoder, mut text) = (GzDecoder::new(body), Vec::new());
    decoder.read_to_end(&mut text).unwrap();
    // `GzDecoder` stops after the end of the stream.
    assert!(decoder.into_inner().is_empty());
    text
}

const GZIP: &str = "Accept-Encoding: br, gzip;q=0.5\r\n";

#[test]
fn a_compressed_response_has_the_fields_of_its_new_form() {
    let length = 200_000;
    let edge = Edge::before(&[application(HTML, length)]);
    let reply = get(&edge, "/compressed/a", GZIP);
    let field = |name: &str| reply.headers.get(name).map(String::as_str);
    assert_eq!((reply.status, field("content-encoding"), field("etag")), (200, Some("gzip"), Some("W/\"a\"")));
    assert_eq!((field("vary"), field("content-length"), field("accept-ranges")), (Some("Accept-Encoding"), None, None));
    assert!(reply.body.len() < length);
    assert_eq!(unpacked(&reply.body), text(length));
}

#[test]
fn nothing_changes_without_the_setting() {
    let edge = Edge::before(&[application(HTML, 2000)]);
    let (plain, other) = (get(&edge, "/a", GZIP), get(&edge, "/a", ""));
    let lasting = |reply: &Reply| {
        let mut headers = reply.headers.clone();
        assert!(headers.remove("x-request-id").is_some());
        // The second may end between the requests.
        headers.remove("date");
        headers
    };
    assert_eq!(lasting(&plain), lasting(&other));
    assert_eq!(plain.headers["content-length"], "2000");
    assert_eq!((plain.headers["etag"].as_str(), plain.headers["accept-ranges"].as_str()), ("\"a\"", "bytes"));
    assert!(!plain.headers.contains_key("vary") && !plain.headers.contains_key("content-encoding"));
    assert_eq!(plain.body, text(2000));
}

#[test]
fn some_responses_stay_as_they_are() {
    for (head, length, request) in [
        ("200 OK\r\nContent-Type: text/html", 1023, GZIP),
        ("200 OK\r\nContent-Type: image/png", 2000, GZIP),
        ("200 OK", 2000, GZIP),
        ("200 OK\r\nContent-Type: text/html\r\nContent-Encoding: br", 2000, GZIP),
        ("200 OK\r\nContent-Type: text/html\r\nCache-Control: private, No-Transform", 2000, GZIP),
        ("200 OK\r\nContent-Type: text/html\r\nContent-Digest: sha-256=:AA==:", 2000, GZIP),
        ("206 Partial Content\r\nContent-Type: text/html\r\nContent-Range: bytes 0-1999/5000", 2000, GZIP),
        ("200 OK\r\nContent-Type: text/html", 2000, "Accept-Encoding: gzip\r\nRange: bytes=0-1999\r\n"),
        ("200 OK\r\nContent-Type: text/html", 2000, "Accept-Encoding: gzip\r\nCache-Control: no-transform\r\n"),
    ] {
        let edge = Edge::before(&[application(head, length)]);
        let reply = get(&edge, "/compressed/a", request);
        assert_eq!(reply.headers["content-length"], length.to_string(), "{head}");
        assert!(!reply.headers.contains_key("vary"), "{head}");
        assert_eq!(reply.body, text(length), "{head}");
    }
    // Caches must distinguish clients also if this client receives the body as it is.
    for request in ["", "Accept-Encoding: gzip;q=0, br\r\n", "Accept-Encoding: identity, gzip;q=0.9\r\n"] {
        let edge = Edge::before(&[application(HTML, 2000)]);
        let reply = get(&edge, "/compressed/a", request);
        assert_eq!((reply.headers["content-length"].as_str(), reply.headers["etag"].as_str()), ("2000", "\"a\""));
        assert_eq!(reply.headers["vary"], "Accept-Encoding");
        assert_eq!(reply.body, text(2000));
    }
}

#[test]
fn responses_without_a_body_get_none() {
    let edge = Edge::before(&[upstream(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n");
    })]);
    let reply = get(&edge, "/compressed/a", "Accept-Encoding: gzip\r\nIf-None-Match: W/\"a\"\r\n");
    assert_eq!((reply.status, reply.body.len()), (304, 0));
    // The fields are those of the compressed response.
    assert_eq!((reply.headers["etag"].as_str(), reply.headers["vary"].as_str()), ("W/\"a\"", "Accept-Encoding"));
    let edge = Edge::before(&[upstream(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2000\r\n\r\n");
    })]);
    let mut client = edge.client();
    client.send(b"HEAD /compressed/a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    let reply = client.reply_head();
    assert_eq!(reply.headers["content-length"], "2000");
    assert_eq!(client.rest(), b"");
}

#[test]
fn an_event_arrives_before_the_next_one() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = std::sync::Mutex::new(receiver);
    let edge = Edge::before(&[upstream(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        // Waits until the client has read the first event.
        let _ = receiver.lock().unwrap().recv();
        let _ = stream.write_all(b"data: 2\n\n");
    })]);
    let mut client = edge.client();
    client.send(b"GET /compressed/events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.reply_head();
    assert_eq!(head.headers["content-encoding"], "gzip");
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    let mut chunk = |client: &mut crate::harness::Client| {
        let mut size = String::new();
        while !size.ends_with("\r\n") {
            size.push(char::from(client.bytes(1)[0]));
        }
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let data = client.bytes(size + 2);
        decoder.write_all(&data[..size]).unwrap();
        decoder.flush().unwrap();
        (size, String::from_utf8(decoder.get_ref().clone()).unwrap())
    };
    while chunk(&mut client).1 != "data: 1\n\n" {}
    sender.send(()).unwrap();
    let mut all = String::new();
    while let (1.., received) = chunk(&mut client) {
        all = received;
    }
    assert_eq!(all, "data: 1\n\ndata: 2\n\n");
}

#[test]
fn an_interrupted_response_does_not_look_complete() {
    let edge = Edge::before(&[upstream(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n";
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&text(2000)));
    })]);
    let mut client = edge.client();
    client.send(b"GET /compressed/a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(client.reply_head().headers["content-encoding"], "gzip");
    assert!(!client.rest().ends_with(b"0\r\n\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_clients_receive_the_same_bytes() {
    let length = 200_000;
    let (edge, authority) = http2::edge(&[application(HTML, length)]);
    let mut requests = http2::connect(&edge, &authority).await;
    let mut request = http2::request("GET", &edge, "/compressed/a");
    request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
    let outcome = http2::ask(&mut requests, request, &[], true).await.unwrap();
    let field = |name: HeaderName| outcome.head.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!((field(http::header::CONTENT_ENCODING), field(http::header::CONTENT_LENGTH)), (Some("gzip"), None));
    assert_eq!(unpacked(&outcome.body.unwrap()), text(length));
    let plain = http2::ask(&mut requests, http2::request("GET", &edge, "/compressed/a"), &[], true).await.unwrap();
    assert_eq!(plain.body.unwrap(), text(length));
    let url = format!("https://{}/compressed/a", edge.address);
    let expected = String::from_utf8(text(length)).unwrap();
    for version in ["--http1.1", "--http2"] {
        let ca = authority.file();
        assert_eq!(curl(&["--cacert", ca.to_str().unwrap(), version, "--compressed", &url]), expected, "{version}");
        let head =
            curl(&["--cacert", ca.to_str().unwrap(), version, "--compressed", "-D", "-", "-o", "/dev/null", &url]);
        assert!(head.to_ascii_lowercase().contains("content-encoding: gzip\r\n"), "{head}");
    }
}

#[test]
fn http_1_0_clients_receive_the_body_as_it_is() {
    let edge = Edge::before(&[application(HTML, 2000)]);
    let mut client = edge.client();
    client.send(b"GET /compressed/a HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let reply = client.reply();
    assert!(!reply.headers.contains_key("content-encoding"));
    assert_eq!(reply.body, text(2000));
}
