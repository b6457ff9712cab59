//! The admin listener.

use std::sync::Arc;

use sealgate::edge::Health;

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

/// Asks for a path, to see that requests are answered.
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
fn readiness_is_an_answer_to_a_request_of_our_own() {
    let readiness = |path| {
        let edge = Edge::with(&[], |parts| parts.health = Arc::new(Asking(path)));
        let reply = soon(|| {
            let reply = ask(&edge, "GET /readyz");
            let body = String::from_utf8(reply.body.clone()).unwrap();
            (!body.contains("starting")).then_some((reply.status, body))
        });
        assert!(edge.front.told.lock().unwrap().is_empty(), "nobody is told of it");
        let answered = format!("requests are not answered on {}: ", edge.address);
        (reply.0, reply.1.replace(&answered, "… "))
    };
    assert_eq!(readiness("/local/a"), (200, "ready\n".to_owned()));
    assert_eq!(readiness("/answer").0, 200, "a refusal is an answer");
    for (path, why) in [
        ("/panic", "… the connection broke off before an answer"),
        ("/local/slow", "… no answer came within 2s"),
        ("/0/an-application-that-is-not-there", "… the answer is 50"),
    ] {
        let (status, body) = readiness(path);
        assert!(status == 503 && body.contains(why), "{path}: {status} {body}");
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
