//! The admin listener.

use crate::harness::{Client, Edge, Reply, soon};

fn ask(edge: &Edge, line: &str) -> Reply {
    let mut client = Client::to(edge.admin);
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    client.reply()
}

#[test]
fn metrics_health_and_readiness_are_told_and_nothing_else() {
    let edge = Edge::before(&[]);
    let metrics = ask(&edge, "GET /metrics");
    assert_eq!((metrics.status, metrics.body.as_slice()), (200, &b"test_total 1\n"[..]));
    assert!(metrics.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    assert_eq!(ask(&edge, "GET /healthz").status, 200);
    // It is ready once every listener accepts.
    soon(|| (ask(&edge, "GET /readyz").status == 200).then_some(()));
    for line in ["GET /", "GET /local/a", "GET /metrics/", "POST /other"] {
        let reply = ask(&edge, line);
        assert_eq!((reply.status, reply.json()["error"].as_str()), (404, Some("not_found")), "{line}");
    }
    let reply = ask(&edge, "DELETE /metrics");
    assert_eq!((reply.status, reply.headers["allow"].as_str()), (405, "GET, HEAD"));
}

#[test]
fn admin_connections_are_kept() {
    let edge = Edge::before(&[]);
    let mut client = Client::to(edge.admin);
    for _ in 0..2 {
        client.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.reply().keeps());
    }
}
