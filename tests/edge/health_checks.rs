//! HTTP health checks of upstreams.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue};
use sealgate_config::{Access, App, FixedHeaders, HealthCheck, Route, RouteUpstream, Upstream, UpstreamTls};
use sealgate_edge::{Front, Resolver};

use crate::authority::Authority;
use crate::harness::{Edge, app, nobody, parts, soon, upstream};
use crate::upstreams::{socket_server, tls_server, trusting};

const GET: &str = "GET /page HTTP/1.1\r\nHost: a\r\n\r\n";
/// Status with which [`Server`] does not answer at all.
const SILENT: u16 = 0;

pub(crate) fn check() -> HealthCheck {
    HealthCheck {
        path: "/health?full=1".to_owned(),
        status: None,
        interval: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
        failures: 1,
        successes: 1,
    }
}

/// An upstream whose health the test sets.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    health: Arc<AtomicU16>,
    /// Heads of the checks.
    checks: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts an upstream that answers checks with this status, and other requests with its name.
    pub(crate) fn start(name: &'static str, health: u16) -> Self {
        let (health, checks) = (Arc::new(AtomicU16::new(health)), Arc::new(Mutex::new(Vec::new())));
        let (status, heads) = (Arc::clone(&health), Arc::clone(&checks));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            // Open connections of checks without an answer.
            let mut open = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let Some(head) = crate::upstreams::head(&mut stream) else { continue };
                let status = if head.starts_with("GET /health") {
                    heads.lock().unwrap().push(head);
                    status.load(Ordering::SeqCst)
                } else {
                    200
                };
                if status == SILENT {
                    open.push(stream);
                    continue;
                }
                let length = name.len();
                let fields = format!("Content-Length: {length}\r\nLocation: /\r\nConnection: close");
                let _ = write!(stream, "HTTP/1.1 {status} Status\r\n{fields}\r\n\r\n{name}");
            }
        });
        Self { address, health, checks }
    }

    pub(crate) fn becomes(&self, health: u16) {
        self.health.store(health, Ordering::SeqCst);
    }

    fn checks(&self) -> usize {
        self.checks.lock().unwrap().len()
    }
}

fn edge(servers: &[&Server], check: HealthCheck) -> Edge {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    Edge::with(&[nobody()], |parts| parts.apps[0] = App { health_check: Some(check), ..app(&addresses) })
}

/// Returns the names of the servers that answer the next requests.
fn answering(edge: &Edge) -> Vec<String> {
    let mut names: Vec<_> = (0..6).map(|_| String::from_utf8(edge.ask(GET).body).unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn become_answering(edge: &Edge, names: &[&str]) {
    soon(|| (answering(edge) == names).then_some(()));
}

#[test]
fn a_server_that_fails_its_check_gets_no_requests_until_it_passes_again() {
    let (one, other) = (Server::start("one", 200), Server::start("other", 204));
    let edge = edge(&[&one, &other], check());
    become_answering(&edge, &["one", "other"]);
    for status in [404, 500, 503, SILENT] {
        other.becomes(status);
        become_answering(&edge, &["one"]);
        other.becomes(302);
        become_answering(&edge, &["one", "other"]);
    }
}

#[test]
fn one_failed_check_changes_nothing_if_more_are_required() {
    let (one, other) = (Server::start("one", 200), Server::start("other", 200));
    let edge = edge(&[&one, &other], HealthCheck { failures: 1000, ..check() });
    soon(|| (other.checks() > 0).then_some(()));
    other.becomes(500);
    let seen = other.checks();
    soon(|| (other.checks() > seen + 5).then_some(()));
    assert_eq!(answering(&edge), ["one", "other"]);
}

#[test]
fn a_server_that_fails_its_first_check_gets_no_requests() {
    let (one, other) = (Server::start("one", 200), Server::start("other", 500));
    let edge = edge(&[&one, &other], HealthCheck { failures: 1000, successes: 1000, ..check() });
    become_answering(&edge, &["one"]);
    other.becomes(200);
    let seen = other.checks();
    soon(|| (other.checks() > seen + 5).then_some(()));
    assert_eq!(answering(&edge), ["one"], "more checks must succeed");
}

#[test]
fn only_the_configured_status_is_healthy() {
    let (one, other) = (Server::start("one", 204), Server::start("other", 200));
    let edge = edge(&[&one, &other], HealthCheck { status: Some(204), ..check() });
    become_answering(&edge, &["one"]);
    other.becomes(204);
    become_answering(&edge, &["one", "other"]);
}

#[test]
fn requests_are_sent_in_turn_if_every_server_fails() {
    let (one, other) = (Server::start("one", 500), Server::start("other", 500));
    let edge = edge(&[&one, &other], check());
    soon(|| (edge.front.states() == [false, false]).then_some(()));
    assert_eq!(answering(&edge), ["one", "other"]);
}

#[test]
fn no_request_waits_for_a_check() {
    let (one, other) = (Server::start("one", SILENT), Server::start("other", SILENT));
    let edge = edge(&[&one, &other], HealthCheck { timeout: Duration::from_mins(1), ..check() });
    soon(|| (one.checks() == 1 && other.checks() == 1).then_some(()));
    let start = Instant::now();
    assert_eq!(answering(&edge), ["one", "other"]);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    // The stop does not wait for the checks in progress either.
    drop(edge);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn a_check_has_the_applications_host_and_fixed_headers_and_no_identity() {
    let server = Server::start("one", 200);
    let edge = Edge::with(&[nobody()], |parts| {
        let field = (HeaderName::from_static("x-key"), HeaderValue::from_static("secret"));
        let fixed_headers = FixedHeaders { request: vec![field], ..FixedHeaders::default() };
        parts.apps[0] = App { health_check: Some(check()), fixed_headers, ..app(&[server.address]) };
    });
    let head = soon(|| server.checks.lock().unwrap().first().cloned());
    let mut lines: Vec<_> = head.lines().filter(|line| !line.is_empty()).map(str::to_ascii_lowercase).collect();
    lines[1..].sort_unstable();
    assert_eq!(
        lines,
        [
            "get /health?full=1 http/1.1",
            "connection: close",
            "host: wiki.example",
            "user-agent: sealgate-health-check",
            "x-key: secret"
        ]
    );
    drop(edge);
    let server = Server::start("one", 200);
    let _edge = Edge::with(&[nobody()], |parts| {
        parts.apps[0] = App { health_check: Some(check()), preserve_host: false, ..app(&[server.address]) };
    });
    let head = soon(|| server.checks.lock().unwrap().first().cloned());
    assert!(head.to_ascii_lowercase().contains(&format!("\r\nhost: {}\r\n", server.address)), "{head}");
}

#[test]
fn checks_use_the_tls_settings_of_the_application() {
    let authority = Authority::new();
    let valid = authority.issue("right", "IP:127.0.0.1");
    let right = tls_server(&valid, Some(&authority));
    let misnamed = tls_server(&authority.issue("misnamed", "DNS:other.internal"), Some(&authority));
    let client = Some(authority.issue("gate", "DNS:gate"));
    let url = |address: SocketAddr| Upstream::Url(format!("https://{address}").parse().unwrap());
    let edge = Edge::with(&[nobody(); 3], |parts| {
        parts.apps[0] = App {
            upstreams: vec![url(right), url(misnamed)],
            upstream_tls: UpstreamTls { client, ..trusting(&authority) },
            health_check: Some(check()),
            ..app(&[])
        };
        // This server requires a certificate, and gets none.
        parts.apps[1] = App {
            upstreams: vec![url(right)],
            upstream_tls: trusting(&authority),
            health_check: Some(check()),
            ..app(&[])
        };
        // The server's own certificate is listed instead of its authority's.
        parts.apps[2] = App {
            upstreams: vec![url(tls_server(&valid, None))],
            upstream_tls: UpstreamTls { ca: Some(valid.certificate.clone()), ..UpstreamTls::default() },
            health_check: Some(check()),
            ..app(&[])
        };
    });
    soon(|| (edge.front.states() == [true, false, false, true]).then_some(()));
}

#[test]
fn unix_sockets_resolved_addresses_and_upstreams_of_routes_are_checked() {
    let (path, _used, directory) = socket_server();
    let (own, of_route) = (Server::start("own", 200), Server::start("route", 500));
    let (port, counted) = (own.address.port(), own.address);
    let edge = Edge::with(&[nobody()], |parts| {
        let servers = [Upstream::Url(format!("http://{}", of_route.address).parse().unwrap())];
        let upstream = RouteUpstream { list: 1, servers: Some(servers.into()), protocol: None, prefix: None };
        parts.apps[0] = App {
            upstreams: vec![
                Upstream::Socket(path),
                Upstream::Socket(directory.path().join("nobody.sock")),
                Upstream::Url(format!("http://wiki.internal:{port}").parse().unwrap()),
            ],
            routes: vec![Route { upstream, ..Route::plain("/route/", Access::Public) }],
            health_check: Some(check()),
            ..app(&[])
        };
        // No server listens on the second address.
        let find = move |_: &str, port| Ok(vec![counted, SocketAddr::from(([127, 0, 0, 2], port))]);
        parts.resolver = Resolver { find: Arc::new(find), every: Duration::from_secs(10) };
    });
    soon(|| (edge.front.states() == [true, false, true, false, false]).then_some(()));
}

#[test]
fn checks_follow_a_reload() {
    let (stays, goes) = (Server::start("stays", 200), Server::start("goes", 200));
    let edge = edge(&[&stays, &goes], check());
    become_answering(&edge, &["goes", "stays"]);
    let reload = |apps: &[App]| {
        let front = Arc::clone(&edge.front) as Arc<dyn Front>;
        edge.updater.apply(edge.updater.prepare(apps, &parts(Arc::default(), &[]).server, front).unwrap());
    };
    let other_check = HealthCheck { path: "/health/other".to_owned(), ..check() };
    reload(&[App { health_check: Some(other_check.clone()), ..app(&[stays.address]) }]);
    let is_other = |head: &String| head.starts_with("GET /health/other ");
    soon(|| stays.checks.lock().unwrap().last().is_some_and(is_other).then_some(()));
    let (gone, seen) = (goes.checks(), stays.checks());
    soon(|| (stays.checks() > seen + 5).then_some(()));
    // One check may have been in progress.
    assert!(goes.checks() <= gone + 1, "a removed server is not checked");
    // The `Host` of the checks follows the host of the application.
    reload(&[App { health_check: Some(other_check), host: "new.example".to_owned(), ..app(&[stays.address]) }]);
    let has_host = |head: &String| head.to_ascii_lowercase().contains("\r\nhost: new.example\r\n");
    soon(|| stays.checks.lock().unwrap().last().is_some_and(has_host).then_some(()));
    // Without a check, only connections are opened.
    reload(&[app(&[stays.address])]);
    soon(|| {
        let seen = stays.checks();
        thread::sleep(Duration::from_millis(300));
        (stays.checks() == seen).then_some(())
    });
}

#[test]
fn an_endless_response_to_a_check_ends_with_its_deadline() {
    let endings = Arc::new(AtomicUsize::new(0));
    let ended = Arc::clone(&endings);
    let address = upstream(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while stream.write_all(b"1\r\na\r\n").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
        ended.fetch_add(1, Ordering::SeqCst);
    });
    let edge = Edge::with(&[nobody()], |parts| {
        parts.apps[0] = App { health_check: Some(check()), ..app(&[address]) };
    });
    soon(|| (endings.load(Ordering::SeqCst) >= 2).then_some(()));
    soon(|| (edge.front.states() == [true]).then_some(()));
}
