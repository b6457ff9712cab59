//! Plain HTTP listeners, which only redirect to https.

use std::sync::Arc;

use sealgate_edge::{AnsweredBy, Challenges};

use crate::authority::Authority;
use crate::harness::{Client, Edge, Reply, legacy};
use crate::tls::challenge;

fn edge() -> Edge {
    Edge::with(&[legacy()], |parts| {
        parts.https = true;
        parts.server.redirect_listen = vec!["127.0.0.1:0".parse().unwrap()];
    })
}

fn ask(edge: &Edge, request: &str) -> Reply {
    let mut client = Client::to(edge.redirect.unwrap());
    client.send(request.as_bytes());
    client.reply()
}

#[test]
fn a_host_of_ours_is_redirected_to_the_same_place_over_https() {
    let edge = edge();
    for (request, place) in [
        ("GET / HTTP/1.1\r\nHost: wiki.example\r\n\r\n", "/"),
        ("GET /a/b?c=%C4%B1&d HTTP/1.1\r\nHost: WIKI.example:80\r\n\r\n", "/a/b?c=%C4%B1&d"),
        ("GET //evil.example/ HTTP/1.1\r\nHost: wiki.example\r\n\r\n", "//evil.example/"),
        ("GET /\\evil.example HTTP/1.1\r\nHost: wiki.example\r\n\r\n", "/\\evil.example"),
        ("GET http://wiki.example/a?b HTTP/1.1\r\nHost: wiki.example\r\n\r\n", "/a?b"),
        ("POST /local/a HTTP/1.1\r\nHost: wiki.example\r\nContent-Length: 5\r\n\r\nhello", "/local/a"),
        ("GET /answer HTTP/1.0\r\nHost: wiki.example\r\n\r\n", "/answer"),
    ] {
        let reply = ask(&edge, request);
        assert_eq!(reply.status, 308, "{request}");
        assert_eq!(reply.headers["location"], format!("https://wiki.example:8443{place}"), "{request}");
        assert!(reply.body.is_empty() && !reply.headers.contains_key("strict-transport-security"), "{request}");
    }
    let told = edge.front.told_of("/a/b");
    assert_eq!((told.status, told.answered_by), (Some(308), AnsweredBy::Front));
}

#[test]
fn no_other_host_is_redirected_anywhere() {
    let edge = edge();
    for host in ["evil.example", "plain.example", "127.0.0.1", "wiki.example.evil.example", "evilwiki.example"] {
        for path in ["/", "/answer", "/.well-known/openid-configuration"] {
            let reply = ask(&edge, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!((reply.status, &reply.json()["error"]), (421, &"invalid_request".into()), "{host}");
            assert!(!reply.headers.contains_key("location"), "{host}");
        }
    }
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: wiki.example\r\nHost: wiki.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: wiki.example@evil.example\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: wiki.example\r\n\r\n",
    ] {
        assert_eq!(ask(&edge, request).status, 400, "{request}");
    }
    assert_eq!(ask(&edge, "OPTIONS * HTTP/1.1\r\nHost: wiki.example\r\n\r\n").status, 421);
}

#[test]
fn redirecting_listeners_have_the_limits_of_public_listeners() {
    let edge = edge();
    let mut client = Client::to(edge.redirect.unwrap());
    client.send(b"GET / HTTP/1.1\r\nHost: wiki.ex");
    assert_eq!(client.reply().status, 408);
    let long = "x".repeat(17 * 1024);
    assert_eq!(ask(&edge, &format!("GET /{long} HTTP/1.1\r\nHost: wiki.example\r\n\r\n")).status, 431);
    let mut client = Client::to(edge.redirect.unwrap());
    for _ in 0..3 {
        client.send(b"GET / HTTP/1.1\r\nHost: wiki.example\r\n\r\n");
        assert!(client.reply().keeps());
    }
}

#[test]
fn a_validation_of_a_certificate_authority_is_answered_for_its_token_only() {
    let challenges = Arc::<Challenges>::default();
    let edge = Edge::with(&[legacy()], |parts| {
        parts.https = true;
        parts.server.redirect_listen = vec!["127.0.0.1:0".parse().unwrap()];
        parts.challenges = Arc::clone(&challenges);
    });
    let validation = |token: &str, host: &str| {
        ask(&edge, &format!("GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    assert_eq!(validation("t0ken", "wiki.example").status, 308);
    challenges.set(vec![challenge(&Authority::new())]);
    for host in ["wiki.example", "192.0.2.1"] {
        let reply = validation("t0ken", host);
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"t0ken.key"[..]), "{host}");
    }
    for token in ["", "t0ke", "t0ken/", "t0ken?", "T0KEN"] {
        let expected = if token == "t0ken?" { 200 } else { 308 };
        assert_eq!(validation(token, "wiki.example").status, expected, "{token}");
    }
    challenges.set(Vec::new());
    assert_eq!(validation("t0ken", "192.0.2.1").status, 421);
}
