//! Requests that the edge forwards to an application.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY};
use http::{HeaderName, HeaderValue};
use sealgate_config::FixedHeaders;
use sealgate_edge::AnsweredBy;

use crate::harness::{BODY_TIMEOUT, Client, Edge, GRACE, HANDSHAKE, Reply, app, curl, legacy, nobody, soon, upstream};

/// Returns the values of a header that the legacy application received.
fn received(reply: &Reply, name: &str) -> Vec<String> {
    let pairs = reply.json()["headers"].as_array().unwrap().clone();
    let same = pairs.iter().filter(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
    same.map(|pair| pair[1].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_upstream_receives_the_rewritten_request() {
    let edge = Edge::before(&[legacy()]);
    let mut client = edge.client();
    for _ in 0..2 {
        client.send(
            b"GET /api/x?a=%C4%B1&b HTTP/1.1\r\nHost: wiki.example\r\nX-Forged: 1\r\nX-Forwarded-User: root\r\n\
              X-Kept: yes\r\nX-Forwarded-User: root\r\nConnection: X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n\r\n",
        );
        let reply = client.reply();
        assert!(reply.keeps());
        assert_eq!((reply.status, &reply.json()["path"]), (200, &"/api/x?a=%C4%B1&b".into()));
        assert_eq!(received(&reply, "x-forwarded-user"), ["alice"]);
        assert_eq!(received(&reply, "host"), ["wiki.example"]);
        assert_eq!(received(&reply, "x-kept"), ["yes"]);
        assert_eq!(received(&reply, "x-request-id"), [reply.headers["x-request-id"].as_str()]);
        for gone in ["x-forged", "x-hop", "te"] {
            assert!(received(&reply, gone).is_empty(), "{gone}");
        }
    }
    let told = edge.front.told_of("/api/x");
    assert_eq!((told.status, told.answered_by, told.app), (Some(200), AnsweredBy::Upstream, Some(0)));
}

#[test]
fn the_upstream_receives_its_own_host_if_configured() {
    let address = legacy();
    let edge = Edge::with(&[address], |parts| parts.apps[0].preserve_host = false);
    let reply = edge.ask("GET /json HTTP/1.1\r\nHost: wiki.example\r\n\r\n");
    assert_eq!(received(&reply, "host"), [address.to_string()]);
}

#[test]
fn an_absolute_target_is_forwarded_as_a_path() {
    let edge = Edge::before(&[legacy()]);
    let reply = edge.ask("GET http://wiki.example/json?q HTTP/1.1\r\nHost: wiki.example\r\n\r\n");
    assert_eq!((reply.status, &reply.json()["path"]), (200, &"/json?q".into()));
}

#[test]
fn bodies_are_forwarded_completely() {
    let edge = Edge::before(&[legacy()]);
    let mut client = edge.client();
    client.send(b"POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.reply().json()["body_bytes"], 5);
    client.send(
        b"POST /json HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
    );
    assert_eq!(client.reply().json()["body_bytes"], 7);
    let large = vec![b'x'; 20 << 20];
    client.send(format!("PUT /json HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", large.len()).as_bytes());
    client.send(&large);
    assert_eq!(client.reply().json()["body_bytes"], large.len());
}

#[test]
fn a_large_response_is_forwarded_completely() {
    let address = upstream(|_, stream| {
        let body = vec![b'y'; 20 << 20];
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
        stream.write_all(&body).unwrap();
    });
    let edge = Edge::before(&[address]);
    let reply = edge.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply.body.len(), 20 << 20);
}

#[test]
fn head_requests_are_forwarded() {
    let edge = Edge::before(&[legacy()]);
    let mut client = edge.client();
    client.send(b"HEAD /json HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = client.reply_head();
    assert_eq!(reply.status, 200);
    assert!(reply.headers["content-length"].parse::<u64>().unwrap() > 0);
    client.send(b"GET /json HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().status, 200);
}

#[test]
fn expect_continue_is_forwarded() {
    let edge = Edge::before(&[legacy()]);
    let url = format!("http://{}/json", edge.address);
    let start = Instant::now();
    let body = curl(&["-H", "Expect: 100-continue", "--expect100-timeout", "5", "-d", "hello", &url]);
    assert!(body.contains(r#""body_bytes":5"#), "{body}");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_websocket_transfers_in_both_directions() {
    let address = upstream(|head, stream| {
        let head = head.to_ascii_lowercase();
        assert!(head.contains("upgrade: websocket") && head.contains("connection: upgrade"), "{head}");
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            .unwrap();
        let mut buffer = [0; 1024];
        while let Ok(length) = stream.read(&mut buffer)
            && length > 0
        {
            stream.write_all(&buffer[..length]).unwrap();
        }
    });
    let edge = Edge::with(&[address], |parts| {
        parts.apps[0].read_timeout = Duration::from_millis(200);
        // No connection of such an application stays idle.
        (parts.apps[0].max_requests, parts.apps[0].max_requests_per_client) = (10, 10);
    });
    let mut client = edge.client();
    client.send(HANDSHAKE.as_bytes());
    let reply = client.reply_head();
    assert_eq!((reply.status, reply.headers["upgrade"].as_str()), (101, "websocket"));
    for message in ["first", "second"] {
        client.send(message.as_bytes());
        assert_eq!(client.bytes(message.len()), message.as_bytes());
        // Wait longer than any timeout of an ordinary request.
        thread::sleep(BODY_TIMEOUT + Duration::from_millis(400));
    }
}

#[test]
fn a_websocket_works_with_a_fast_upstream() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // Send the answer before reading the request.
                let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
                let mut seen = Vec::new();
                let mut byte = [0];
                while !seen.ends_with(b"ping") && stream.read(&mut byte).is_ok_and(|length| length > 0) {
                    seen.extend_from_slice(&byte);
                }
                let _ = stream.write_all(b"pong");
            });
        }
    });
    let edge = Edge::before(&[address]);
    for _ in 0..50 {
        let mut client = edge.client();
        client.send(HANDSHAKE.as_bytes());
        assert_eq!(client.reply_head().status, 101);
        client.send(b"ping");
        assert_eq!(client.bytes(4), b"pong");
    }
}

#[test]
fn an_upstream_may_decline_an_upgrade() {
    let edge = Edge::before(&[legacy()]);
    for _ in 0..3 {
        let reply = edge.ask(&HANDSHAKE.replace("/ws", "/json"));
        assert_eq!((reply.status, received(&reply, "upgrade")), (200, vec!["websocket".to_owned()]));
    }
}

#[test]
fn hop_by_hop_headers_of_a_response_are_not_forwarded() {
    let address = upstream(|_, stream| {
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-End: 2\r\n\
                  Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nTrailer: x\r\nContent-Length: 2\r\n\r\nok",
            )
            .unwrap();
    });
    let edge = Edge::before(&[address]);
    let mut client = edge.client();
    for _ in 0..2 {
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let reply = client.reply();
        assert_eq!((reply.body.as_slice(), reply.headers["x-end"].as_str()), (&b"ok"[..], "2"));
        assert!(reply.keeps());
        for gone in ["x-hop", "keep-alive", "proxy-authenticate", "upgrade", "trailer"] {
            assert!(!reply.headers.contains_key(gone), "{gone}");
        }
    }
}

#[test]
fn an_unreachable_upstream_is_answered_with_502_at_once() {
    let address = nobody();
    let edge = Edge::before(&[address]);
    let start = Instant::now();
    let reply = edge.ask("GET /x?code=secret HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(start.elapsed() < Duration::from_millis(500));
    assert_eq!((reply.status, &reply.json()["error"]), (502, &"bad_gateway".into()));
    assert_eq!(reply.json()["request_id"], reply.headers["x-request-id"]);
    let text = String::from_utf8(reply.body.clone()).unwrap();
    assert!(!text.contains(&address.to_string()) && !text.contains("127.0.0.1"), "{text}");
    let told = edge.front.told_of("/x");
    assert_eq!((told.status, told.answered_by, told.app), (Some(502), AnsweredBy::Edge, Some(0)));
}

#[test]
fn browsers_get_a_page_when_the_upstream_is_down() {
    let edge = Edge::before(&[nobody()]);
    let reply = edge.ask("GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n");
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (502, "text/html; charset=utf-8"));
    let page = String::from_utf8(reply.body.clone()).unwrap();
    for part in [
        &reply.headers["x-request-id"],
        "Uygulamaya ulaşılamıyor.",
        "The application cannot be reached. Try again in a moment.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn one_failed_server_of_two_causes_no_error() {
    let edge = Edge::with(&[], |parts| parts.apps = vec![app(&[nobody(), legacy()])]);
    for _ in 0..6 {
        assert_eq!(edge.ask("POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").status, 200);
    }
}

#[test]
fn a_hanging_upstream_is_answered_with_504_at_its_deadline() {
    let address = upstream(|_, _| thread::sleep(Duration::from_secs(5)));
    let edge = Edge::with(&[address], |parts| parts.apps[0].read_timeout = Duration::from_millis(300));
    let start = Instant::now();
    assert_eq!(edge.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 504);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn an_invalid_upstream_response_is_answered_with_502() {
    let address = upstream(|_, stream| stream.write_all(b"SSH-2.0-OpenSSH\r\n\r\n").unwrap());
    let edge = Edge::before(&[address]);
    assert_eq!(edge.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 502);
}

#[test]
fn a_truncated_response_does_not_look_complete() {
    let address = upstream(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n").unwrap();
    });
    let edge = Edge::before(&[address]);
    let mut client = edge.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let text = String::from_utf8(client.rest()).unwrap();
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
}

#[test]
fn a_slow_upload_is_abandoned() {
    let edge = Edge::with(&[legacy()], |parts| parts.apps[0].read_timeout = Duration::from_secs(30));
    let mut client = edge.client();
    client.send(b"POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    let mut drip = client.stream.try_clone().unwrap();
    thread::spawn(move || {
        while drip.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let start = Instant::now();
    assert_eq!(client.reply().status, 408);
    assert!(start.elapsed() < BODY_TIMEOUT + GRACE, "{:?}", start.elapsed());
}

#[test]
fn an_event_stream_is_forwarded_without_delay() {
    // The upstream sends each event after the client has received the previous one.
    let (arrived, next) = mpsc::channel();
    let address = upstream(move |_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").unwrap();
        for number in 0..3 {
            // Write once: `write!` would write three times, and each part could become a separate
            // chunk.
            stream.write_all(format!("data: {number}\n\n").as_bytes()).unwrap();
            if next.recv().is_err() {
                return;
            }
        }
    });
    let edge = Edge::before(&[address]);
    let mut client: Client = edge.client();
    client.send(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply_head().status, 200);
    for number in 0..3 {
        let event = format!("9\r\ndata: {number}\n\n\r\n");
        assert_eq!(client.bytes(event.len()), event.as_bytes());
        arrived.send(()).unwrap();
    }
}

#[test]
fn log_lines_contain_no_query() {
    static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());
    struct Lines;
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            LINES.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(|| Lines).init();
    let rubbish = upstream(|_, stream| stream.write_all(b"rubbish\r\n\r\n").unwrap());
    let edge = Edge::before(&[nobody(), rubbish]);
    for path in ["/0", "/1", "/local/a", "/7"] {
        edge.ask(&format!("GET {path}?code=s3cr3t-c0de HTTP/1.1\r\nHost: a\r\n\r\n"));
        edge.front.told_of(path);
    }
    drop(edge);
    let lines = String::from_utf8(LINES.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("the request to the upstream failed") && lines.contains("the request failed"), "{lines}");
    assert!(!lines.contains("s3cr3t"), "{lines}");
}

#[test]
fn browsers_get_an_error_page_when_the_application_does_not_answer() {
    let edge = Edge::before(&[nobody()]);
    let reply = edge.ask("GET /page HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply.status, 502);
    assert!(str::from_utf8(&reply.body).unwrap().starts_with("<p lang=\"tr\">"));
    assert!(!reply.headers["x-request-id"].is_empty());
    let told = edge.front.told_of("/page");
    assert_eq!((told.status, told.answered_by), (Some(502), AnsweredBy::Edge));
}

#[test]
fn a_trusted_proxys_trace_is_passed_on_and_any_other_is_replaced() {
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trusting = Edge::with(&[legacy()], |parts| parts.server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]);
    let edge = Edge::before(&[legacy()]);
    let ask = |edge: &Edge, fields: &str| edge.ask(&format!("GET /json HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let sound = format!("traceparent: {given}\r\ntracestate: a=1\r\n");
    let later = format!("traceparent: 01{}-more\r\ntracestate: a=1\r\n", &given[2..]);
    for fields in [&sound, &later] {
        let passed = ask(&trusting, fields);
        assert_eq!(received(&passed, "traceparent"), [given]);
        assert_eq!(received(&passed, "tracestate"), ["a=1"]);
    }
    let broken = ["", "traceparent: rubbish\r\ntracestate: a=1\r\n", &sound.repeat(2)];
    for (edge, fields) in broken.map(|fields| (&trusting, fields)).into_iter().chain([(&edge, sound.as_str())]) {
        let begun = ask(edge, fields);
        let traces = received(&begun, "traceparent");
        assert!(traces.len() == 1 && traces[0].len() == given.len() && traces[0][..35] != given[..35], "{traces:?}");
        assert!(received(&begun, "tracestate").is_empty());
    }
}

#[test]
fn fixed_headers_are_set_in_requests_and_responses() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("authorization");
    let write = |text: &str| {
        let new = directory.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(new, &file).unwrap();
    };
    write("Basic Z2F0ZTpmaXJzdA==\n");
    let header = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let edge = Edge::with(&[legacy(), nobody()], |parts| {
        for app in &mut parts.apps {
            app.fixed_headers = FixedHeaders {
                request: vec![header("x-script-name", "/wiki")],
                request_files: vec![(AUTHORIZATION, file.clone())],
                response: vec![
                    (CONTENT_SECURITY_POLICY, Some(HeaderValue::from_static("default-src 'self'"))),
                    (CONTENT_LANGUAGE, None),
                ],
            };
        }
    });
    let ask = || {
        edge.ask("GET /json HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\nX-Script-Name: /x\r\nX-Script-Name: /y\r\n\r\n")
    };
    let reply = ask();
    assert_eq!(received(&reply, "authorization"), ["Basic Z2F0ZTpmaXJzdA=="]);
    assert_eq!(received(&reply, "x-script-name"), ["/wiki"]);
    assert_eq!(reply.headers["content-security-policy"], "default-src 'self'");
    // A page of the edge itself keeps its own policy.
    let own = edge.ask("GET /1 HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n");
    assert_eq!(own.status, 502);
    assert_ne!(own.headers.get("content-security-policy").map(String::as_str), Some("default-src 'self'"));

    // A changed file is used within seconds.
    write("Basic Z2F0ZTpzZWNvbmQ=\n");
    soon(|| (received(&ask(), "authorization") == ["Basic Z2F0ZTpzZWNvbmQ="]).then_some(()));
}
