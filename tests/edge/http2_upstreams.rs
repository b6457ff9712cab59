//! Upstreams over HTTP/2 (`upstream_protocol = "h2"`), trailers and gRPC.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use sealgate_config::{App, FixedHeaders, UpstreamProtocol};
use sealgate_edge::{AnsweredBy, ConnectionEvent, Front};

use crate::authority::Authority;
use crate::harness::{BODY_TIMEOUT, Edge, HANDSHAKE, SLOW, TestFront, app, legacy, nobody, parts, soon};
use crate::health_checks::check;
use crate::http2::{ask, connect, request};
use crate::http2_server::{Http2Server, LARGE, grpc};
use crate::upstreams::{https, tls_server, trusting};

fn app_of(address: SocketAddr) -> App {
    App { upstream_protocol: UpstreamProtocol::Http2, ..app(&[address]) }
}

/// Starts an edge without TLS in front of this server.
fn plain(server: &Http2Server, change: impl FnOnce(&mut App)) -> Edge {
    Edge::with(&[server.address], |parts| {
        parts.apps = vec![app_of(server.address)];
        change(&mut parts.apps[0]);
    })
}

/// Starts an edge with TLS in front of this server.
fn secure(server: &Http2Server, change: impl FnOnce(&mut App)) -> (Edge, Authority) {
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
    let edge = Edge::with(&[server.address], |parts| {
        parts.server.tls = vec![files.into()];
        parts.apps = vec![app_of(server.address)];
        change(&mut parts.apps[0]);
    });
    (edge, authority)
}

/// Begins a request whose body does not end.
async fn begin(requests: &mut SendRequest<Bytes>, request: Request<()>) -> (SendStream<Bytes>, Response<RecvStream>) {
    let (response, sending) = requests.send_request(request, false).unwrap();
    (sending, within(response).await.unwrap())
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(15), future).await.expect("in time")
}

/// Reads to the end of a response, or to its error.
async fn rest(body: &mut RecvStream) -> Result<(Vec<u8>, Option<HeaderMap>), h2::Error> {
    let mut read = Vec::new();
    while let Some(piece) = within(body.data()).await {
        let piece = piece?;
        let _ = body.flow_control().release_capacity(piece.len());
        read.extend_from_slice(&piece);
    }
    Ok((read, within(body.trailers()).await?))
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: wiki.example\r\n\r\n")
}

#[test]
fn an_http_1_client_uses_an_upstream_over_http_2() {
    let server = Http2Server::start();
    let edge = plain(&server, |_| {});
    let mut client = edge.client();
    for number in ["1", "2"] {
        client.send(b"GET /a?b=c HTTP/1.1\r\nHost: wiki.example\r\nX-Forged: 1\r\nConnection: x-own\r\nX-Own: 1\r\n");
        client.send(b"TE: trailers\r\nProxy-Authorization: Basic eA==\r\n\r\n");
        assert_eq!(client.reply().body, number.as_bytes(), "the connection is used again");
    }
    let head = server.head_of("/a");
    assert_eq!(head.version, http::Version::HTTP_2);
    assert_eq!(head.uri.to_string(), "http://wiki.example/a?b=c");
    let mut names: Vec<_> = head.headers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["cdn-loop", "traceparent", "x-forwarded-user", "x-request-id"]);
    // Of the trailers, HTTP/1.1 clients get none. The body is complete.
    client.send(b"POST /echo HTTP/1.1\r\nHost: wiki.example\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(b"2\r\nhi\r\n0\r\nX-Forwarded-User: eve\r\n\r\n");
    assert_eq!(client.reply().body, b"hi");
    client.send(get("/last").as_bytes());
    assert_eq!(client.reply().body, b"4", "a body does not end the connection");
    let mut client = edge.client();
    client.send(b"POST /echo HTTP/1.1\r\nHost: wiki.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.reply_head().status, 100);
    client.send(b"hello");
    assert_eq!(client.reply().body, b"hello");
    assert!(!server.head_of("/echo").headers.contains_key("expect"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_upstreams_must_select_http_2() {
    let of_servers = Authority::new();
    let files = of_servers.issue("upstream", "IP:127.0.0.1");
    let server = Http2Server::with_tls(&files);
    let http_1 = tls_server(&files, None);
    let (edge, authority) = secure(&server, |_| {});
    drop(edge);
    let own = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
    let edge = Edge::with(&[nobody(), nobody(), legacy()], |parts| {
        parts.server.tls = vec![own.into()];
        https(parts, 0, server.address, trusting(&of_servers));
        https(parts, 1, http_1, trusting(&of_servers));
        for app in &mut parts.apps {
            app.upstream_protocol = UpstreamProtocol::Http2;
        }
    });
    let mut requests = connect(&edge, &authority).await;
    let outcome = ask(&mut requests, request("POST", &edge, "/echo"), &[b"hello"], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), outcome.body.unwrap()), (200, b"hello".to_vec()));
    assert_eq!(server.head_of("/echo").uri.scheme_str(), Some("https"));
    // A server with HTTP/1.1 only, over TLS and without.
    for path in ["/1", "/2"] {
        let outcome = ask(&mut requests, request("GET", &edge, path), &[], true).await.unwrap();
        assert_eq!((outcome.head.status().as_u16(), &outcome.json()["error"]), (502, &"bad_gateway".into()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_arrive_without_the_names_that_control_clients() {
    let server = Http2Server::start();
    let (edge, authority) = secure(&server, |app| {
        let fixed = vec![("x-fixed".parse().unwrap(), Some(HeaderValue::from_static("of the gateway")))];
        app.fixed_headers = FixedHeaders { response: fixed, ..FixedHeaders::default() };
    });
    let mut requests = connect(&edge, &authority).await;
    let mut call = grpc(request("POST", &edge, "/echo"));
    call.headers_mut().insert("proxy-authorization", HeaderValue::from_static("Basic eA=="));
    let (response, mut sending) = requests.send_request(call, false).unwrap();
    sending.send_data(Bytes::from_static(b"message"), false).unwrap();
    let own = [("x-forwarded-user", "eve"), ("x-own", "1")];
    let own = own.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    sending.send_trailers(HeaderMap::from_iter(own)).unwrap();
    let mut response = within(response).await.unwrap();
    assert_eq!(response.headers()["x-fixed"], "of the gateway");
    let (body, trailers) = rest(response.body_mut()).await.unwrap();
    assert_eq!(body, b"message");
    let trailers = trailers.unwrap();
    let mut names: Vec<_> = trailers.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["grpc-message", "grpc-status", "x-own", "x-received-trailers"]);
    assert_eq!(trailers["x-received-trailers"], "0", "trailers of requests are not forwarded");
    let head = server.head_of("/echo").headers;
    assert_eq!(head["te"], "trailers");
    assert!(!head.contains_key("proxy-authorization"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_without_a_body_arrives_in_the_head() {
    let server = Http2Server::start();
    let (edge, authority) = secure(&server, |_| {});
    let mut requests = connect(&edge, &authority).await;
    let (response, _sending) = requests.send_request(grpc(request("POST", &edge, "/status")), true).unwrap();
    let mut response = within(response).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "5");
    assert!(response.body().is_end_stream());
    assert_eq!(rest(response.body_mut()).await.unwrap(), (Vec::new(), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_directions_stream_until_access_ends() {
    let server = Http2Server::start();
    let (edge, authority) = secure(&server, |_| {});
    let mut requests = connect(&edge, &authority).await;
    let (mut sending, mut response) = begin(&mut requests, grpc(request("POST", &edge, "/chat"))).await;
    let mut say = async |text: &'static [u8]| {
        sending.send_data(Bytes::from_static(text), false).unwrap();
        let piece = within(response.body_mut().data()).await.unwrap().unwrap();
        let _ = response.body_mut().flow_control().release_capacity(piece.len());
        assert_eq!(piece, text);
    };
    say(b"one").await;
    // Longer than the timeouts of a request that is no call: the read timeout, and the time in which a
    // body must arrive.
    tokio::time::sleep(BODY_TIMEOUT + Duration::from_millis(500)).await;
    say(b"two").await;
    edge.front.end("/chat");
    let error = rest(response.body_mut()).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::CANCEL));
    edge.front.saw(ConnectionEvent::AccessEnded);
    soon(|| (server.seen.resets.load(Ordering::SeqCst) == 1).then_some(()));
    let told = edge.front.told_of("/chat");
    assert_eq!((told.status, told.answered_by, told.request_bytes), (Some(200), AnsweredBy::Upstream, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_with_access_before_its_head() {
    let server = Http2Server::start();
    let (edge, authority) = secure(&server, |_| {});
    let mut requests = connect(&edge, &authority).await;
    let (response, mut sending) = requests.send_request(grpc(request("POST", &edge, "/silent")), false).unwrap();
    sending.send_data(Bytes::from_static(b"message"), true).unwrap();
    soon(|| (server.seen.whole.load(Ordering::SeqCst) == 1).then_some(()));
    edge.front.end("/silent");
    assert_eq!(within(response).await.unwrap_err().reason(), Some(Reason::CANCEL));
    soon(|| (server.seen.resets.load(Ordering::SeqCst) == 1).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_the_upstream_is_an_error() {
    let server = Http2Server::start();
    let (edge, authority) = secure(&server, |_| {});
    let mut requests = connect(&edge, &authority).await;
    for method in ["GET", "POST"] {
        let outcome = ask(&mut requests, request(method, &edge, "/reset"), &[], true).await.unwrap();
        assert_eq!((outcome.head.status().as_u16(), &outcome.json()["error"]), (502, &"bad_gateway".into()));
    }
    let (mut sending, mut response) = begin(&mut requests, request("POST", &edge, "/half")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(within(response.body_mut().data()).await.unwrap().unwrap(), "half");
    sending.send_data(Bytes::from_static(b"reset"), false).unwrap();
    assert!(rest(response.body_mut()).await.unwrap_err().is_reset(), "it must not look complete");
}

#[test]
fn a_reset_of_the_upstream_truncates_a_response_over_http_1() {
    let server = Http2Server::start();
    let edge = plain(&server, |_| {});
    let mut client = edge.client();
    client.send(b"POST /half HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.reply_head().status, 200);
    client.send(b"5\r\nreset\r\n");
    assert_eq!(client.rest(), b"4\r\nhalf\r\n", "it must not look complete");
}

#[test]
fn only_safe_requests_are_repeated_after_a_connection_has_ended() {
    let server = Http2Server::start();
    let edge = plain(&server, |_| {});
    let mut client = edge.client();
    let mut asked = |method: &str, path: &str| {
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").as_bytes());
        let reply = client.reply();
        if !reply.keeps() {
            client = edge.client();
        }
        reply.status
    };
    for path in ["/close", "/goaway"] {
        assert_eq!(asked("GET", "/first-of-connection"), 200);
        assert_eq!((asked("GET", path), server.requests(path)), (200, 2), "{path}");
        assert_eq!((asked("POST", path), server.requests(path)), (502, 3), "{path}");
    }
}

#[test]
fn a_connection_has_one_stream_at_a_time() {
    let server = Http2Server::start();
    let edge = plain(&server, |_| {});
    let mut waiting: Vec<_> = (0..3)
        .map(|_| {
            let mut client = edge.client();
            client.send(get("/first").as_bytes());
            assert_eq!(client.reply_head().status, 200);
            client
        })
        .collect();
    assert_eq!(server.seen.connections.load(Ordering::SeqCst), 3);
    assert_eq!(edge.ask(&get("/")).body, b"1");
    // A connection becomes idle shortly after its response, and is used again.
    soon(|| (edge.ask(&get("/")).body != b"1").then_some(()));
    // A stream that its client ends does not affect the others.
    drop(waiting.pop());
    soon(|| (server.seen.resets.load(Ordering::SeqCst) == 1).then_some(()));
}

#[test]
fn requests_that_http_2_cannot_carry_are_refused() {
    let server = Http2Server::start();
    let edge = plain(&server, |_| {});
    for (sent, status) in [(HANDSHAKE, 501), ("GET /old HTTP/1.0\r\nHost: a\r\n\r\n", 505)] {
        let reply = edge.ask(sent);
        assert_eq!((reply.status, &reply.json()["error"]), (status, &"not_implemented".into()));
    }
    assert_eq!(server.seen.heads.lock().unwrap().len(), 0);
    assert_eq!(edge.front.told_of("/ws").status, Some(501));
}

#[test]
fn a_health_check_uses_http_2() {
    let server = Http2Server::start();
    let http_1 = legacy();
    let edge = Edge::with(&[server.address, http_1], |parts| {
        for app in &mut parts.apps {
            app.upstream_protocol = UpstreamProtocol::Http2;
            app.health_check = Some(check());
        }
    });
    soon(|| (edge.front.states() == [true, false]).then_some(()));
    let head = server.head_of("/health");
    assert_eq!(head.uri.to_string(), "http://wiki.example/health?full=1");
    assert_eq!(head.headers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(), ["user-agent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_apply() {
    let server = Http2Server::start();
    let (edge, authority) = secure(&server, |app| {
        app.max_body_bytes = Some(10);
        app.read_timeout = Duration::from_millis(500);
        app.stream_timeout = Duration::from_millis(500);
    });
    let limits = sealgate_config::RouteLimits { max_body_bytes: Some(10), ..Default::default() };
    edge.front.limits.lock().unwrap().push(("/echo".to_owned(), limits));
    let mut requests = connect(&edge, &authority).await;
    let outcome =
        ask(&mut requests, request("POST", &edge, "/echo"), &[b"more than", b"ten bytes"], true).await.unwrap();
    assert_eq!((outcome.head.status().as_u16(), &outcome.json()["error"]), (413, &"request_too_large".into()));
    let outcome = ask(&mut requests, request("GET", &edge, "/silent"), &[], true).await.unwrap();
    assert_eq!(outcome.head.status(), 504);
    let outcome = ask(&mut requests, request("GET", &edge, "/first"), &[], true).await.unwrap();
    assert!(outcome.body.unwrap_err().is_reset(), "it must not look complete");
    let (_sending, mut response) = begin(&mut requests, grpc(request("POST", &edge, "/chat"))).await;
    assert!(rest(response.body_mut()).await.is_err(), "the stream timeout ends an idle call");
    assert_eq!(server.requests("/silent"), 1, "a request is not repeated after its timeout");
}

#[test]
fn an_answer_for_a_slow_client_stays_whole_over_http_2() {
    let server = Http2Server::start();
    let edge = plain(&server, |app| {
        app.read_timeout = Duration::from_millis(500);
        app.write_timeout = Duration::from_secs(20);
    });
    let mut client = edge.client();
    client.send(get("/large").as_bytes());
    let start = Instant::now();
    let reply = client.reply_head();
    assert_eq!(reply.status, 200);
    let mut read = 0;
    // Slower than the window, so that the upstream often waits for the client.
    while start.elapsed() < SLOW {
        thread::sleep(Duration::from_millis(100));
        read += client.bytes(LARGE / 100).len();
    }
    assert!(read < LARGE);
    let rest = client.until_chunks_end();
    assert!(read + rest > LARGE, "with the lengths of the chunks");
}

#[test]
fn a_reload_changes_the_protocol_of_new_requests() {
    let server = Http2Server::start();
    let http_1 = legacy();
    let edge = Edge::with(&[server.address], |_| {});
    assert_eq!(edge.ask(&get("/")).status, 502, "the server does not speak HTTP/1.1");
    let reload = |apps: &[App]| {
        let front: Arc<dyn Front> = Arc::new(TestFront::default());
        let change = edge.updater.prepare(apps, &parts(Arc::default(), &[]).server, front);
        edge.updater.apply(change.map_err(|faults| faults.join("\n")).unwrap());
    };
    reload(&[app_of(server.address)]);
    assert_eq!(edge.ask(&get("/")).status, 200);
    // The idle connection over HTTP/1.1 to the same address is not used for HTTP/2.
    reload(&[app(&[http_1])]);
    assert_eq!(edge.ask(&get("/json")).status, 200);
    reload(&[app_of(http_1)]);
    assert_eq!(edge.ask(&get("/json")).status, 502);
}
