//! Upstreams that lead back to the installation: its own listeners, by whatever address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_config::Upstream;
use sealgate_edge::{LoopMark, Resolver};

use crate::harness::{Edge, Reply, legacy, soon, upstream};
use crate::port::free_port;

/// Returns the values of `CDN-Loop` that the application has received.
fn received(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let fields = reply.json()["headers"].as_array().unwrap().clone();
    let is_mark = |field: &&serde_json::Value| field[0].as_str().unwrap().eq_ignore_ascii_case("cdn-loop");
    fields.iter().filter(is_mark).map(|field| field[1].as_str().unwrap().to_owned()).collect()
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_request_to_the_gateways_own_listener_ends_at_once() {
    let own: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let edge = Edge::with(&[own], |parts| parts.server.listen = vec![own]);
    let began = Instant::now();
    for (number, method) in ["GET", "POST"].into_iter().enumerate() {
        let path = format!("/around-{number}");
        let reply = edge.ask(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((reply.status, reply.json()["error"].as_str()), (508, Some("loop_detected")), "{reply:?}");
        // Forwarded four times, and refused at the fifth arrival.
        let told = || edge.front.told.lock().unwrap().iter().filter(|told| told.path == path).count();
        soon(|| (told() == 5).then_some(()));
        let decided = edge.front.decided.lock().unwrap().iter().filter(|decided| **decided == path).count();
        assert_eq!(decided, 5);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "it waited for a timeout");
}

#[test]
fn an_application_receives_one_element_for_each_pass() {
    let edge = Edge::before(&[legacy()]);
    let mark = received(&edge.ask(&get("/json", ""))).remove(0);
    assert!(mark.starts_with("sealgate-") && mark.len() == "sealgate-".len() + 16, "{mark}");
    // Elements of other proxies and other installations stay.
    let other = "CDN-Loop: cloudflare; loops=1\r\nCDN-Loop: sealgate-0011223344556677\r\n";
    let all = received(&edge.ask(&get("/json", other)));
    assert_eq!(all, ["cloudflare; loops=1", "sealgate-0011223344556677", mark.as_str()]);
    // An application that is a proxy for another one may join the elements.
    let passed = |times: usize| format!("CDN-Loop: {}\r\n", vec![mark.as_str(); times].join(", "));
    assert_eq!(received(&edge.ask(&get("/json", &passed(3)))).len(), 2);
    let refused = edge.ask(&get("/json", &passed(4)));
    assert_eq!(refused.status, 508, "{refused:?}");
    let refused = edge.ask(&get("/json", &passed(1).repeat(4)));
    assert_eq!(refused.status, 508, "{refused:?}");
    // Only forwarded requests count. A client cannot make the front's own responses fail.
    assert_eq!(edge.ask(&get("/local/a", &passed(9))).status, 200);
    assert_eq!(edge.ask(&get("/json", "")).status, 200, "another request is not affected");
}

#[test]
fn nodes_of_an_installation_have_the_same_element() {
    let with = |issuer: &'static str| {
        let edge = Edge::with(&[legacy()], |parts| parts.loop_mark = LoopMark::new(issuer));
        received(&edge.ask(&get("/json", ""))).remove(0)
    };
    let one = with("https://id.one.example");
    assert_eq!(with("https://id.one.example"), one);
    assert_ne!(with("https://id.two.example"), one);
}

#[test]
fn a_websocket_handshake_has_the_element() {
    let head = Arc::new(std::sync::Mutex::new(String::new()));
    let seen = Arc::clone(&head);
    let server = upstream(move |head, _| seen.lock().unwrap().clone_from(&head.to_ascii_lowercase()));
    let edge = Edge::before(&[server]);
    edge.ask(crate::harness::HANDSHAKE);
    let head = head.lock().unwrap().clone();
    assert!(head.contains("\r\ncdn-loop: sealgate-") && head.contains("\r\nupgrade: websocket"), "{head}");
}

/// The configuration refuses addresses of the listener. Names, and the other addresses of the machine, are
/// refused by the listener.
#[test]
fn users_of_an_application_do_not_reach_the_admin_listener() {
    for admin in [[127, 0, 0, 1], [0, 0, 0, 0]] {
        let port = free_port();
        let edge = Edge::with(&["127.0.0.1:1".parse().unwrap()], |parts| {
            parts.admin = Some((admin, port).into());
            parts.apps[0].upstreams = vec![Upstream::Url(format!("http://metrics.internal:{port}").parse().unwrap())];
            let find = |_: &str, port| Ok(vec![SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port)]);
            parts.resolver = Resolver { find: Arc::new(find), ..Resolver::system() };
        });
        for path in ["/metrics", "/healthz", "/readyz"] {
            let reply = edge.ask(&get(path, ""));
            assert_eq!((reply.status, reply.json()["error"].as_str()), (508, Some("loop_detected")), "{reply:?}");
        }
        let mut direct = crate::harness::Client::to(([127, 0, 0, 1], port).into());
        direct.send(get("/metrics", "CDN-Loop: sealgate-0011223344556677\r\n").as_bytes());
        assert_eq!(direct.reply().status, 200);
    }
}
