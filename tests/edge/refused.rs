//! Heads that the edge refuses. Each refusal has an error text, a request ID and a log line.

use crate::harness::{Edge, legacy};

#[test]
fn every_refusal_has_a_message_and_a_request_id() {
    let edge = Edge::before(&[legacy()]);
    let cases = [
        ("GET /a?x=\" HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET /a?x=<b> HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET /a<b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET /a`b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET ?a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET a:b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET http://A/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned(), 400),
        ("GET http://a\\b/ HTTP/1.1\r\nHost: a\\b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n".to_owned(), 400),
        ("GET http://a:99999/ HTTP/1.1\r\nHost: a:99999\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("TRACE /json HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 405),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n".to_owned(), 405),
    ];
    for (request, status) in &cases {
        let reply = edge.ask(request);
        assert_eq!(reply.status, *status, "{request}");
        let said = reply.json();
        assert_eq!(said["error"], "invalid_request", "{request}");
        assert!(!reply.headers.contains_key("server"), "{request}");
        let id = &reply.headers["x-request-id"];
        assert!(said["request_id"] == id.as_str() && !id.is_empty(), "{request}");
    }
    for request in [
        "GET /json?x={a}|b^c`d\\e HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:8080/json HTTP/1.1\r\nHost: a:8080\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(edge.ask(request).status, 200, "{request}");
    }
}
