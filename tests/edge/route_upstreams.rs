//! Upstreams of routes that receive other paths than clients see.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use sealgate_config::{Access, App, PathPrefix, Route, RouteUpstream, Upstream};
use sealgate_edge::Front;

use crate::authority::Authority;
use crate::harness::{Client, Edge, HANDSHAKE, Reply, TestFront, app, parts, upstream};
use crate::http2::{ask, connect, request};

/// Returns an upstream that answers with its name and the request's target, and with these fields.
///
/// It accepts a request to switch protocols, and then sends the target.
fn echoing(name: &'static str, fields: &'static str) -> SocketAddr {
    upstream(move |head, stream| {
        let target = head.split(' ').nth(1).unwrap();
        let fields = fields.replace('\n', "\r\n");
        let body = format!("{name} {target}");
        if head.to_ascii_lowercase().contains("upgrade: websocket") {
            let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
            let _ = write!(stream, "{answer}{fields}\r\n{body}");
            Client::from_stream(stream.try_clone().unwrap()).rest();
            return;
        }
        let length = body.len();
        let _ =
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n{fields}\r\n{body}");
    })
}

fn of_route(public: &str, upstream_path: &str, address: SocketAddr) -> (String, RouteUpstream) {
    let servers: Arc<[Upstream]> = [Upstream::Url(format!("http://{address}").parse().unwrap())].into();
    let prefix = PathPrefix { public: public.to_owned(), upstream: upstream_path.to_owned() };
    (
        public.to_owned(),
        RouteUpstream { list: 1, servers: Some(servers), protocol: None, prefix: Some(Arc::new(prefix)) },
    )
}

fn with_route(own: SocketAddr, route: &(String, RouteUpstream)) -> App {
    let rule = Route { upstream: route.1.clone(), ..Route::plain(&route.0, Access::Public) };
    App { routes: vec![rule], ..app(&[own]) }
}

/// Starts an edge whose first application has a route with its own upstream.
fn edge(own: SocketAddr, route: &(String, RouteUpstream), change: impl FnOnce(&mut App)) -> Edge {
    let edge = Edge::with(&[own], |parts| {
        parts.apps = vec![with_route(own, route)];
        change(&mut parts.apps[0]);
    });
    edge.front.routes.lock().unwrap().push(route.clone());
    edge
}

fn get(edge: &Edge, path: &str) -> Reply {
    edge.ask(&format!("GET {path} HTTP/1.1\r\nHost: wiki.example:8443\r\n\r\n"))
}

#[test]
fn a_route_receives_its_path_and_its_answer_is_changed_back() {
    let fields = "Location: /a?b=/c#d\nContent-Location: http://WIKI.example:8443/a\nRefresh: 5; url='/x'\n\
                  Set-Cookie: one=1; Path=/; HttpOnly\nLink: </next>; rel=next\n";
    let route = of_route("/wiki/", "/", echoing("route", fields));
    let edge = edge(echoing("own", fields), &route, |_| ());
    let reply = get(&edge, "/wiki/a%2Fb/..c?d=/wiki/%2e%2e//");
    assert_eq!(reply.body, b"route /a%2Fb/..c?d=/wiki/%2e%2e//");
    for (name, value) in [
        ("location", "/wiki/a?b=/c#d"),
        ("content-location", "http://WIKI.example:8443/wiki/a"),
        ("refresh", "5; url='/wiki/x'"),
        ("set-cookie", "one=1; Path=/wiki/; HttpOnly"),
        ("link", "</next>; rel=next"),
    ] {
        assert_eq!(reply.headers[name], value);
    }
    // Other paths go to the application, and nothing of their answers changes.
    let reply = get(&edge, "/other/a");
    assert_eq!((reply.body.as_slice(), reply.headers["location"].as_str()), (&b"own /other/a"[..], "/a?b=/c#d"));
    assert_eq!(reply.headers["set-cookie"], "one=1; Path=/; HttpOnly");
    edge.front.told_of("/wiki/a%2Fb/..c");
}

#[test]
fn public_paths_and_other_hosts_in_answers_are_unchanged() {
    let fields = "Location: https://other.example/a\nContent-Location: /wiki/a\nRefresh: 5\n\
                  Set-Cookie: __Host-one=1; Path=/; Secure\n";
    let route = of_route("/wiki/", "/", echoing("route", fields));
    let reply = get(&edge(echoing("own", ""), &route, |_| ()), "/wiki/");
    assert_eq!(reply.body, b"route /");
    for (name, value) in [
        ("location", "https://other.example/a"),
        ("content-location", "/wiki/a"),
        ("refresh", "5"),
        ("set-cookie", "__Host-one=1; Path=/; Secure"),
    ] {
        assert_eq!(reply.headers[name], value);
    }
}

#[test]
fn the_name_and_the_prefix_of_an_upstream_are_both_replaced() {
    let address = upstream(|head, stream| {
        let host = head.lines().find_map(|line| line.strip_prefix("host: ").or(line.strip_prefix("Host: ")));
        let host = host.unwrap();
        let _ = write!(
            stream,
            "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: http://{host}/w/a\r\n\r\n"
        );
    });
    let route = of_route("/wiki/", "/w/", address);
    let edge = edge(echoing("own", ""), &route, |app| app.preserve_host = false);
    assert_eq!(get(&edge, "/wiki/").headers["location"], "https://wiki.example:8443/wiki/a");
}

/// Opens a WebSocket below `/wiki/`.
fn websocket(edge: &Edge) -> Client {
    let mut client = edge.client();
    client.send(HANDSHAKE.replace("/ws", "/wiki/ws").as_bytes());
    let head = client.reply_head();
    assert_eq!(head.status, 101);
    assert_eq!(head.headers["set-cookie"], "one=1; Path=/wiki/");
    client
}

#[test]
fn a_websocket_of_a_route_receives_the_path_of_its_upstream() {
    let route = of_route("/wiki/", "/", echoing("route", "Set-Cookie: one=1; Path=/\n"));
    let edge = edge(echoing("own", ""), &route, |_| ());
    assert_eq!(websocket(&edge).bytes(9), b"route /ws");
}

#[test]
fn a_websocket_ends_when_its_route_has_another_upstream() {
    let fields = "Set-Cookie: one=1; Path=/\n";
    let (first, second) = (echoing("first", fields), echoing("second", fields));
    let edge = edge(first, &of_route("/wiki/", "/", first), |_| ());
    let mut client = websocket(&edge);
    // The application itself keeps the old upstream.
    reload(&edge, first, &of_route("/wiki/", "/", second));
    client.until_closed();
    assert_eq!(get(&edge, "/wiki/a").body, b"second /a");
    assert_eq!(get(&edge, "/a").body, b"first /a");
}

#[test]
fn a_websocket_ends_when_its_route_leads_to_another_path() {
    let own = echoing("own", "Set-Cookie: one=1; Path=/\n");
    let edge = edge(own, &of_route("/wiki/", "/", own), |_| ());
    let mut client = websocket(&edge);
    reload(&edge, own, &of_route("/wiki/", "/w/", own));
    client.until_closed();
    assert_eq!(get(&edge, "/wiki/a").body, b"own /w/a");
}

/// Replaces the route of the application with the upstream `own`.
fn reload(edge: &Edge, own: SocketAddr, route: &(String, RouteUpstream)) {
    let front = Arc::new(TestFront::default());
    front.routes.lock().unwrap().push(route.clone());
    let server = parts(Arc::default(), &[]).server;
    let change = edge.updater.prepare(&[with_route(own, route)], &server, front as Arc<dyn Front>);
    edge.updater.apply(change.map_err(|faults| faults.join("\n")).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_clients_reach_the_same_upstreams() {
    let route = of_route("/wiki/", "/", echoing("route", "Location: /a\nSet-Cookie: one=1; Path=/\n"));
    let own = echoing("own", "");
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
    let edge = Edge::with(&[own], |parts| {
        parts.server.tls = vec![files.into()];
        parts.apps = vec![with_route(own, &route)];
    });
    edge.front.routes.lock().unwrap().push(route);
    let mut requests = connect(&edge, &authority).await;
    let outcome = ask(&mut requests, request("GET", &edge, "/wiki/a?b"), &[], true).await.unwrap();
    assert_eq!(outcome.body.unwrap(), b"route /a?b");
    assert_eq!(outcome.head.headers()["location"], "/wiki/a");
    assert_eq!(outcome.head.headers()["set-cookie"], "one=1; Path=/wiki/");
}
