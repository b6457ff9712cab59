//! Answers of the edge itself.

use std::io::Write;
use std::time::{Duration, Instant};

use sealgate_edge::AnsweredBy;

use crate::harness::{BODY_LIMIT, BODY_TIMEOUT, Edge, GRACE, curl};

#[test]
fn local_answers_keep_the_connection() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    let mut ids = Vec::new();
    for _ in 0..3 {
        client.send(b"POST /local/a?code=secret HTTP/1.1\r\nHost: id.example\r\nContent-Length: 5\r\n\r\nhello");
        let reply = client.reply();
        assert_eq!(reply.status, 200);
        assert!(reply.keeps());
        let body = reply.json();
        assert_eq!((&body["method"], &body["path"], &body["body"]), (&"POST".into(), &"/local/a".into(), &5.into()));
        assert_eq!((&body["address"], &body["secure"]), (&"127.0.0.1".into(), &false.into()));
        assert_eq!(body["request_id"], reply.headers["x-request-id"]);
        ids.push(reply.headers["x-request-id"].clone());
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn each_exchange_is_reported_without_its_query() {
    let edge = Edge::before(&[]);
    let reply = edge.ask("POST /local/b?code=secret HTTP/1.1\r\nHost: id.example\r\nContent-Length: 5\r\n\r\nhello");
    let told = edge.front.told_of("/local/b");
    assert_eq!((told.status, told.answered_by, told.app), (Some(200), AnsweredBy::Front, None));
    assert_eq!((told.request_bytes, told.response_bytes), (5, reply.body.len() as u64));
}

#[test]
fn secrets_in_a_path_are_not_reported() {
    let edge = Edge::before(&[]);
    for (path, told) in [
        ("/local/1;token=secret", "/local/1…"),
        ("/local/2%3Fcode=secret", "/local/2…"),
        ("/local/3/eyJhbGci.eyJpc3M.c2ln/x", "/local/3/…/x"),
    ] {
        assert_eq!(edge.ask(&format!("GET {path} HTTP/1.1\r\nHost: id.example\r\n\r\n")).status, 200);
        assert_eq!(edge.front.told_of(told).status, Some(200));
    }
}

#[test]
fn a_target_that_is_neither_a_path_nor_a_url_is_refused() {
    let edge = Edge::before(&[]);
    for target in
        ["http:local/a", "http:/local/a", "id.example:80/local/a", "local/a", "?a", "ftp://id.example/local/a"]
    {
        let reply = edge.ask(&format!("GET {target} HTTP/1.1\r\nHost: id.example\r\n\r\n"));
        assert_eq!(reply.status, 400, "{target}");
    }
    let absolute = edge.ask("GET http://id.example/local/a HTTP/1.1\r\nHost: id.example\r\n\r\n");
    assert_eq!(absolute.status, 200);
}

#[test]
fn head_responses_have_the_length_and_no_body() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"HEAD /answer HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = client.reply_head();
    assert_eq!((reply.status, reply.headers["content-length"].as_str()), (401, "24"));
    client.send(b"GET /local/c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().status, 200);
}

#[test]
fn an_announced_body_over_the_limit_is_refused_before_it_arrives() {
    let edge = Edge::before(&[]);
    let length = BODY_LIMIT + 1;
    let reply = edge.ask(&format!("POST /local/d HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
    assert_eq!(reply.status, 413);
    assert!(!reply.keeps());
    assert_eq!(reply.json()["error"], "the body did not come", "the front has its own words for it");
    assert_eq!(edge.front.told_of("/local/d").answered_by, AnsweredBy::Front);
}

#[test]
fn a_body_at_the_limit_passes() {
    let edge = Edge::before(&[]);
    let (length, body) = (BODY_LIMIT, "b".repeat(BODY_LIMIT));
    let reply = edge.ask(&format!("POST /local/e HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"));
    assert_eq!((reply.status, &reply.json()["body"]), (200, &BODY_LIMIT.into()));
}

#[test]
fn a_client_that_continues_to_send_can_read_the_refusal() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"POST /local/f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..20 {
        let chunk = [b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat();
        client.send(&chunk);
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(client.reply().status, 413);
}

/// Each chunk is far below the limit, and the client announces no total length.
#[test]
fn a_chunked_body_over_the_limit_is_refused() {
    let edge = Edge::before(&[]);
    for (pieces, status) in [(10, 200), (11, 413)] {
        let mut client = edge.client();
        client.send(b"POST /local/m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..pieces {
            client.send(&[b"64\r\n", &[b'x'; 0x64][..], b"\r\n"].concat());
        }
        client.send(b"0\r\n\r\n");
        assert_eq!(client.reply().status, status, "{pieces} pieces");
    }
}

#[test]
fn a_missing_body_is_abandoned_at_the_deadline() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"POST /local/g HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    let start = Instant::now();
    assert_eq!(client.reply().status, 408);
    assert!(start.elapsed() < BODY_TIMEOUT + GRACE);
}

#[test]
fn a_slow_body_is_abandoned_at_the_deadline() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"POST /local/h HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    let start = Instant::now();
    let mut drip = client.stream.try_clone().unwrap();
    std::thread::spawn(move || {
        while drip.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(client.reply().status, 408);
    assert!(start.elapsed() < BODY_TIMEOUT + GRACE);
}

#[test]
fn a_malformed_chunk_is_answered_with_400() {
    let edge = Edge::before(&[]);
    let reply = edge.ask("POST /local/i HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nrubbish\r\n\r\n");
    assert_eq!(reply.status, 400);
}

#[test]
fn a_refusal_without_the_body_keeps_the_connection() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    for _ in 0..2 {
        client.send(b"POST /answer HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        let reply = client.reply();
        assert_eq!(reply.status, 401);
        assert!(reply.keeps());
    }
}

#[test]
fn expect_continue_is_answered() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"POST /local/j HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().unwrap(), "HTTP/1.1 100 Continue");
    client.send(b"hello");
    assert_eq!(client.reply().json()["body"], 5);
}

#[test]
fn curl_need_not_wait_for_expect_continue() {
    let edge = Edge::before(&[]);
    let url = format!("http://{}/local/k", edge.address);
    let start = Instant::now();
    let body = curl(&["-H", "Expect: 100-continue", "--expect100-timeout", "5", "-d", "hello", &url]);
    assert!(body.contains(r#""body":5"#), "{body}");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn an_announced_body_over_the_limit_gets_no_100_continue() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"POST /local/l HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.reply().status, 413);
}

#[test]
fn an_http_1_0_connection_closes_after_the_response() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"GET /local/m HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().status, 200);
    assert!(client.until_closed() < Duration::from_millis(500));
}

#[test]
fn a_panicking_handler_closes_only_its_connection() {
    let edge = Edge::before(&[]);
    let mut client = edge.client();
    client.send(b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head(), None);
    assert_eq!(edge.ask("GET /local/n HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
}

#[test]
fn a_trusted_proxy_sets_the_client_address() {
    let request = "GET /local/o HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.7\r\nX-Forwarded-Proto: https\r\n\
                   X-Request-Id: from-the-proxy\r\n\r\n";
    let trusting = Edge::with(&[], |parts| parts.server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]);
    let body = trusting.ask(request).json();
    assert_eq!((&body["address"], &body["secure"]), (&"198.51.100.7".into(), &true.into()));
    assert_eq!(body["request_id"], "from-the-proxy");
    let body = Edge::before(&[]).ask(request).json();
    assert_eq!((&body["address"], &body["secure"]), (&"127.0.0.1".into(), &false.into()));
    assert_ne!(body["request_id"], "from-the-proxy");
    // A malformed entry before the client address does not hide the address.
    let mut client = trusting.client();
    client.send(b"GET /local/o HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: \xff, 198.51.100.7\r\n\r\n");
    assert_eq!(client.reply().json()["address"], "198.51.100.7");
}
