//! Requests of a user, a client or a browser that get the same server.

use std::collections::BTreeMap;

use sealgate_config::App;

use crate::harness::{Edge, Reply, app, nobody, soon};
use crate::health_checks::{Server, check};

/// Starts an edge with these servers and no second one on a free port.
fn edge(servers: &[&Server]) -> Edge {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    Edge::with(&[nobody()], |parts| parts.apps[0] = App { health_check: Some(check()), ..app(&addresses) })
}

fn ask(edge: &Edge, affinity: &str) -> Reply {
    let reply = edge.ask(&format!("GET /page HTTP/1.1\r\nHost: a\r\nX-Affinity: {affinity}\r\n\r\n"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

/// Returns the name of the server that answers.
fn answering(edge: &Edge, affinity: &str) -> String {
    String::from_utf8(ask(edge, affinity).body).unwrap()
}

fn servers_of_users(edge: &Edge) -> BTreeMap<u64, String> {
    (0..20).map(|user| (user, answering(edge, &format!("user {user}")))).collect()
}

#[test]
fn a_user_has_one_server_and_another_one_while_it_is_out() {
    let servers = [Server::start("one", 200), Server::start("two", 200), Server::start("three", 200)];
    let edge = edge(&[&servers[0], &servers[1], &servers[2]]);
    soon(|| (edge.front.states() == [true; 3]).then_some(()));
    let before = servers_of_users(&edge);
    for _ in 0..3 {
        assert_eq!(servers_of_users(&edge), before);
    }
    for name in ["one", "two", "three"] {
        assert!(before.values().any(|server| server == name), "{before:?}");
    }
    servers[1].becomes(500);
    let without = soon(|| {
        let servers = servers_of_users(&edge);
        (!servers.values().any(|server| server == "two")).then_some(servers)
    });
    assert_eq!(servers_of_users(&edge), without);
    for (user, server) in &before {
        assert!(server == "two" || without[user] == *server, "only the users of the second server move");
    }
    servers[1].becomes(200);
    soon(|| (servers_of_users(&edge) == before).then_some(()));
}

#[test]
fn a_client_without_a_user_has_one_server() {
    let servers = [Server::start("one", 200), Server::start("two", 200)];
    let edge = edge(&[&servers[0], &servers[1]]);
    soon(|| (edge.front.states() == [true; 2]).then_some(()));
    let first = answering(&edge, "client");
    for _ in 0..6 {
        assert_eq!(answering(&edge, "client"), first);
    }
}

#[test]
fn a_user_whose_server_refuses_connections_gets_another_one() {
    let server = Server::start("one", 200);
    // The check of the dead server takes minutes.
    let edge = Edge::with(&[nobody()], |parts| parts.apps[0] = app(&[server.address, nobody()]));
    assert!(servers_of_users(&edge).values().all(|name| name == "one"));
}

#[test]
fn a_browser_keeps_its_server_and_its_new_server() {
    let servers = [Server::start("one", 200), Server::start("two", 200), Server::start("three", 200)];
    let edge = edge(&[&servers[0], &servers[1], &servers[2]]);
    soon(|| (edge.front.states() == [true; 3]).then_some(()));
    // Browsers without a cookie are distributed in turn.
    let mut cookies = BTreeMap::new();
    for _ in 0..3 {
        let reply = ask(&edge, "cookie");
        let cookie = reply.headers["set-cookie"].strip_prefix("server-0=").unwrap().to_owned();
        assert_eq!(reply.headers["cache-control"], "private");
        cookies.insert(String::from_utf8(reply.body).unwrap(), format!("cookie {cookie}"));
    }
    assert_eq!(cookies.len(), 3, "{cookies:?}");
    for (server, cookie) in &cookies {
        for _ in 0..3 {
            let reply = ask(&edge, cookie);
            assert_eq!(String::from_utf8(reply.body).unwrap(), *server);
            assert!(!reply.headers.contains_key("set-cookie") && !reply.headers.contains_key("cache-control"));
        }
    }
    servers[1].becomes(500);
    let moved = soon(|| Some(ask(&edge, &cookies["two"])).filter(|reply| reply.body != b"two"));
    let cookie = moved.headers["set-cookie"].strip_prefix("server-0=").unwrap();
    servers[1].becomes(200);
    soon(|| (answering(&edge, &cookies["two"]) == "two").then_some(()));
    assert_eq!(ask(&edge, &format!("cookie {cookie}")).body, moved.body, "the new server remains");
}
