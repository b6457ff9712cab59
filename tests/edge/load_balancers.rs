//! Load balancers in front: PROXY protocol headers and health checks.

use std::io::Write;
use std::sync::Arc;

use sealgate::app::server::ServerParts;
use sealgate_edge::{ConnectionEvent, Health};

use crate::authority::Authority;
use crate::harness::{Client, Edge, HEADER_TIMEOUT, curl, legacy};

const HEADER: &str = "PROXY TCP4 198.51.100.7 10.0.0.1 4711 443\r\n";

/// Starts an edge that takes the client of the test for a load balancer.
fn balanced(change: impl FnOnce(&mut ServerParts)) -> Edge {
    Edge::with(&[legacy()], |parts| {
        parts.server.proxy_protocol = vec!["127.0.0.0/8".parse().unwrap()];
        change(parts);
    })
}

#[test]
fn the_client_address_is_read_from_the_proxy_header() {
    let edge = balanced(|_| {});
    let mut client = edge.client();
    client.send(format!("{HEADER}GET /local/o HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(client.reply().json()["address"], "198.51.100.7");
    // The address is that of the connection, not of its first request.
    client.send(b"GET /local/o HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().json()["address"], "198.51.100.7");
    let mut binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    binary.extend([198, 51, 100, 8, 10, 0, 0, 1, 18, 103, 1, 187]);
    let mut client = edge.client();
    client.send(&[&binary[..], b"GET /local/o HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    assert_eq!(client.reply().json()["address"], "198.51.100.8");
}

#[test]
fn without_an_address_in_the_header_the_client_is_in_no_network() {
    let edge = balanced(|_| {});
    let known = |header: &str| {
        let mut client = edge.client();
        client.send(format!("{header}GET /local/o HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        client.reply().json()["is_address_known"].clone()
    };
    assert_eq!((known(HEADER), known("PROXY UNKNOWN\r\n")), (true.into(), false.into()));
}

#[test]
fn a_client_behind_a_load_balancer_cannot_choose_its_address() {
    let edge = balanced(|_| {});
    let mut client = edge.client();
    let request = "GET /local/o HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n";
    client.send(format!("{HEADER}{request}").as_bytes());
    assert_eq!(client.reply().json()["address"], "198.51.100.7");
    // The second header is the client's first line, which is not HTTP.
    let mut client = edge.client();
    client.send(format!("{HEADER}PROXY TCP4 203.0.113.9 10.0.0.1 1 2\r\n{request}").as_bytes());
    assert_eq!(client.reply().status, 400);
    // Other clients connect without a header.
    let edge = Edge::with(&[], |parts| parts.server.proxy_protocol = vec!["192.0.2.0/24".parse().unwrap()]);
    let mut client = edge.client();
    client.send(format!("{HEADER}{request}").as_bytes());
    assert_eq!(client.reply().status, 400);
    assert_eq!(edge.ask(request).json()["address"], "127.0.0.1");
}

#[test]
fn a_forwarding_proxy_behind_the_load_balancer_is_trusted_by_its_own_address() {
    let edge = balanced(|parts| parts.server.trusted_proxies = vec!["198.51.100.7/32".parse().unwrap()]);
    let mut client = edge.client();
    let request = "GET /local/o HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n";
    client.send(format!("{HEADER}{request}").as_bytes());
    assert_eq!(client.reply().json()["address"], "203.0.113.9");
}

#[test]
fn a_connection_without_a_proxy_header_is_closed() {
    let edge = balanced(|_| {});
    let mut client = edge.client();
    client.send(b"GET /local/o HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head(), None);
    edge.front.saw(ConnectionEvent::ProxyHeaderInvalid);
    // A client that sends the header too slowly.
    let mut client = edge.client();
    client.send(b"PROXY TCP4 198.51.100.7");
    assert!(client.until_closed() < HEADER_TIMEOUT * 3);
}

#[test]
fn connections_are_limited_by_the_address_in_the_header() {
    let edge = balanced(|parts| parts.server.max_connections_per_peer = 2);
    let connect = |address: &str| {
        let mut client = edge.client();
        let request = format!("PROXY TCP4 {address} 10.0.0.1 1 2\r\nGET /local/o HTTP/1.1\r\nHost: a\r\n\r\n");
        let _ = client.stream.write_all(request.as_bytes());
        let is_served = client.head().is_some();
        (client, is_served)
    };
    let open: Vec<_> = (0..2).map(|_| connect("198.51.100.7")).collect();
    assert!(open.iter().all(|(_, is_served)| *is_served));
    assert!(!connect("198.51.100.7").1);
    edge.front.saw(ConnectionEvent::TooManyFromPeer);
    assert!(connect("198.51.100.8").1);
}

#[test]
fn tls_begins_after_the_proxy_header() {
    let authority = Authority::new();
    let files = authority.issue("server", "IP:127.0.0.1");
    let edge = balanced(|parts| parts.server.tls = vec![files.into()]);
    let (url, ca) = (format!("https://{}/local/o", edge.address), authority.file());
    for version in ["--http1.1", "--http2"] {
        let body = curl(&["--cacert", ca.to_str().unwrap(), "--haproxy-protocol", version, &url]);
        assert!(body.contains(r#""secure":true"#), "{body}");
    }
}

#[test]
fn the_monitoring_listener_expects_no_proxy_header() {
    let edge = balanced(|_| {});
    let mut client = Client::to(edge.admin);
    client.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().status, 200);
}

#[test]
fn a_health_check_is_answered_on_every_host_and_not_reported() {
    let edge = Edge::with(&[legacy()], |parts| parts.server.health_path = Some("/up".to_owned()));
    for request in [
        "OPTIONS /up HTTP/1.0\r\n\r\n",
        "GET /up HTTP/1.0\r\n\r\n",
        "GET /up HTTP/1.1\r\nHost: 10.0.0.7:8443\r\nUser-Agent: ELB-HealthChecker/2.0\r\n\r\n",
        "GET /up?from=lb HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let reply = edge.ask(request);
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"ready\n"[..]), "{request}");
    }
    // Other requests need a host, and other methods reach the application.
    assert_eq!(edge.ask("GET /other HTTP/1.0\r\n\r\n").status, 400);
    assert_eq!(edge.ask("GET /local/up HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    edge.ask("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(edge.front.told_of("/up").app, Some(0));
}

struct NotReady;

impl Health for NotReady {
    fn metrics(&self) -> String {
        String::new()
    }

    fn ready(&self) -> Result<(), String> {
        Err("the store accepts no writes".to_owned())
    }
}

#[test]
fn a_health_check_does_not_tell_the_reason() {
    let edge = Edge::with(&[], |parts| {
        parts.server.health_path = Some("/up".to_owned());
        parts.health = Arc::new(NotReady);
    });
    let reply = edge.ask("GET /up HTTP/1.0\r\n\r\n");
    assert_eq!((reply.status, reply.body.as_slice()), (503, &b"not ready\n"[..]));
}

#[test]
fn without_a_health_path_the_front_decides() {
    let edge = Edge::before(&[]);
    assert_eq!(edge.ask("GET /up HTTP/1.0\r\n\r\n").status, 400);
}
