//! The admin listener.

use std::sync::Arc;

use sealgate_edge::Health;

use crate::harness::{Client, Edge, Reply, soon};

fn ask(edge: &Edge, line: &str) -> Reply {
    let mut client = Client::to(edge.admin);
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    client.reply()
}

#[test]
fn only_metrics_health_and_readiness_are_served() {
    let edge = Edge::before(&[]);
    let metrics = ask(&edge, "GET /metrics");
    assert_eq!((metrics.status, metrics.body.as_slice()), (200, &b"test_total 1\n"[..]));
    assert!(metrics.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    assert_eq!(ask(&edge, "GET /healthz").status, 200);
    // The edge reports ready once every listener accepts connections.
    soon(|| (ask(&edge, "GET /readyz").status == 200).then_some(()));
    for line in ["GET /", "GET /local/a", "GET /metrics/", "POST /other"] {
        let reply = ask(&edge, line);
        assert_eq!((reply.status, reply.json()["error"].as_str()), (404, Some("not_found")), "{line}");
    }
    let reply = ask(&edge, "DELETE /metrics");
    assert_eq!((reply.status, reply.headers["allow"].as_str()), (405, "GET, HEAD"));
}

/// A health check that requests this path from the edge's own listener.
struct Asking(&'static str);

impl Health for Asking {
    fn metrics(&self) -> String {
        String::new()
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn probe(&self) -> Option<(String, String)> {
        Some(("a".to_owned(), self.0.to_owned()))
    }
}

#[test]
fn readiness_requires_an_answer_to_an_internal_request() {
    for (path, status, body) in [
        ("/local/a", 200, "ready\n"),
        // A refusal counts as an answer.
        ("/answer", 200, ""),
        ("/panic", 503, "… the connection closed before the response"),
        ("/local/slow", 503, "… no response within 2s"),
        ("/0/an-application-that-is-not-there", 503, "… the response is 50"),
    ] {
        let edge = Edge::with(&[], |parts| parts.health = Arc::new(Asking(path)));
        let not_answered = format!("the listener on {} does not answer requests: ", edge.address);
        // On a busy machine, the edge's request to itself may time out once.
        soon(|| {
            let reply = ask(&edge, "GET /readyz");
            let said = String::from_utf8(reply.body.clone()).unwrap().replace(&not_answered, "… ");
            (reply.status == status && said.contains(body)).then_some(())
        });
        assert!(edge.front.told.lock().unwrap().is_empty(), "the client gets no notice of it");
    }
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
