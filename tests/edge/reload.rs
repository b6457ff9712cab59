//! Configuration changes while the edge runs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sealgate_config::{ClientCertificates, Presence, ServerConfig, TlsConfig};
use sealgate_edge::Front;

use crate::harness::{Client, Edge, HANDSHAKE, TestFront, app, curl, legacy, parts, soon, upstream};
use crate::tls::certificate;

/// Starts an upstream that answers with this word.
fn saying(word: &'static str) -> SocketAddr {
    upstream(move |_, stream| {
        let length = word.len();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{word}");
    })
}

/// Reloads the edge with these applications and a new front, and returns the front.
fn reload(edge: &Edge, upstreams: &[SocketAddr]) -> Arc<TestFront> {
    let front = Arc::new(TestFront::default());
    let apps: Vec<_> = upstreams.iter().map(|address| app(&[*address])).collect();
    let server = parts(Arc::default(), &[]).server;
    let change = edge.updater.prepare(&apps, &server, Arc::clone(&front) as Arc<dyn Front>);
    edge.updater.apply(change.map_err(|faults| faults.join("\n")).unwrap());
    front
}

#[test]
fn a_reload_applies_to_the_next_request_of_a_connection() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let edge = Edge::before(&[upstream(move |_, stream| {
        count.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(600));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nold");
    })]);
    let mut client = edge.client();
    client.send(b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    soon(|| (asked.load(Ordering::SeqCst) == 1).then_some(()));
    let front = reload(&edge, &[saying("new")]);
    assert_eq!(client.reply().body, b"old");
    client.send(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().body, b"new");
    // Each front receives only the reports of its own exchanges.
    edge.front.told_of("/first");
    front.told_of("/second");
    let of = |front: &TestFront| front.told.lock().unwrap().iter().map(|told| told.path.clone()).collect::<Vec<_>>();
    assert_eq!((of(&edge.front), of(&front)), (vec!["/first".to_owned()], vec!["/second".to_owned()]));
}

#[test]
fn a_request_in_progress_finishes_after_its_application_was_removed() {
    let edge = Edge::before(&[legacy(), legacy()]);
    let mut client = edge.client();
    client.send(b"POST /1/json HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    // The request is in progress: its body is incomplete, so the edge asks the front again.
    soon(|| edge.front.asked.lock().unwrap().contains(&"/1/json".to_owned()).then_some(()));
    reload(&edge, &[legacy()]);
    client.send(b"world");
    let reply = client.reply();
    assert_eq!(reply.status, 200);
    client.send(b"GET /1/json HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.reply().status, 500, "this front names an application that is not there any more");
}

/// Starts an upstream that counts its connections.
fn counting() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for _ in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, count)
}

#[test]
fn health_checks_follow_the_served_upstreams() {
    let ((stays, staying), (goes, gone), (comes, coming)) = (counting(), counting(), counting());
    let checked = |count: &AtomicUsize, times: usize| soon(|| (count.load(Ordering::SeqCst) >= times).then_some(()));
    let edge = Edge::before(&[stays, goes]);
    soon(|| (staying.load(Ordering::SeqCst) == 1 && gone.load(Ordering::SeqCst) == 1).then_some(()));
    reload(&edge, &[stays, comes]);
    soon(|| (coming.load(Ordering::SeqCst) == 1).then_some(()));
    checked(&staying, 2);
    checked(&coming, 2);
    assert_eq!(gone.load(Ordering::SeqCst), 1, "an unused upstream is not checked");
}

#[test]
fn a_reload_applies_other_certificate_files_and_rejects_invalid_ones() {
    let (first, second, broken) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = certificate(first.path());
    let edge = Edge::with(&[legacy()], |parts| parts.server.tls = vec![files.into()]);
    let url = format!("https://{}/local/a", edge.address);
    let trusting = |directory: &tempfile::TempDir| directory.path().join("chain.pem").to_str().unwrap().to_owned();
    assert!(curl(&["--cacert", &trusting(&first), &url]).contains("\"secure\":true"));

    let front = || Arc::clone(&edge.front) as Arc<dyn Front>;
    let showing = |files: TlsConfig| ServerConfig { tls: vec![files.into()], ..parts(Arc::default(), &[]).server };
    let mut mixed = certificate(broken.path());
    mixed.key = first.path().join("key.pem");
    let faults = edge.updater.prepare(&[app(&[legacy()])], &showing(mixed), front()).err().unwrap();
    assert!(faults[0].contains("chain.pem") && faults[0].contains("key.pem"), "{faults:?}");
    assert!(curl(&["--cacert", &trusting(&first), &url]).contains("\"secure\":true"));

    let files = certificate(second.path());
    let change = edge.updater.prepare(&[app(&[legacy()])], &showing(files), front()).unwrap();
    edge.updater.apply(change);
    assert!(curl(&["--cacert", &trusting(&second), &url]).contains("\"secure\":true"));
    // The edge now watches the new files and ignores changes to the old ones.
    certificate(first.path());
    certificate(second.path());
    // Wait longer than the watch interval. The pair in use must still be valid after both checks.
    thread::sleep(Duration::from_millis(2200));
    assert!(curl(&["--cacert", &trusting(&second), &url]).contains("\"secure\":true"));
}

#[test]
fn a_reload_enables_client_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let files = certificate(directory.path());
    let shown = vec![files.clone().into()];
    let edge = Edge::with(&[legacy()], |parts| parts.server.tls = shown);
    let url = format!("https://{}/local/a", edge.address);
    assert!(curl(&["-k", &url]).contains("\"secure\":true"));

    let client_certificates = Some(ClientCertificates { ca: files.certificate.clone(), demand: Presence::Required });
    let server = ServerConfig { tls: vec![files.into()], client_certificates, ..parts(Arc::default(), &[]).server };
    let front = Arc::clone(&edge.front) as Arc<dyn Front>;
    edge.updater.apply(edge.updater.prepare(&[app(&[legacy()])], &server, front).unwrap());
    let refused = Command::new("curl").args(["-sk", "--max-time", "10", &url]).output().unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
}

#[test]
fn a_reload_applies_another_https_redirect() {
    let edge = Edge::with(&[legacy()], |parts| {
        parts.https = true;
        parts.server.redirect_listen = vec!["127.0.0.1:0".parse().unwrap()];
    });
    let front = reload(&edge, &[legacy()]);
    let mut client = Client::to(edge.redirect.unwrap());
    client.send(b"GET /a HTTP/1.1\r\nHost: wiki.example\r\n\r\n");
    assert_eq!(client.reply().status, 308);
    front.told_of("/a");
}

/// Starts an upstream that accepts each WebSocket handshake and otherwise starts an event stream.
///
/// It then stays silent.
fn grants() -> SocketAddr {
    upstream(|head, stream| {
        let answer = if head.contains("websocket") {
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        } else {
            "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream\r\n\r\ndata: first\n\n"
        };
        let mut stream = stream.try_clone().unwrap();
        let _ = stream.write_all(answer.as_bytes());
        thread::spawn(move || stream.read(&mut [0; 16]));
    })
}

#[test]
fn open_streams_end_when_their_upstream_is_removed() {
    let (goes, stays) = (grants(), grants());
    let edge = Edge::with(&[goes], |parts| parts.apps[0].read_timeout = Duration::from_secs(30));
    let open = |request: &str, status: u16| {
        let mut client = edge.client();
        client.send(request.as_bytes());
        assert_eq!(client.reply_head().status, status);
        client
    };
    let mut gone = [open(HANDSHAKE, 101), open("GET /events HTTP/1.1\r\nHost: a\r\n\r\n", 200)];
    reload(&edge, &[stays]);
    for client in &mut gone {
        assert!(client.until_closed() < Duration::from_secs(5));
    }
    // Connections to an upstream that is still configured stay open.
    let mut kept = open(HANDSHAKE, 101);
    let front = reload(&edge, &[stays]);
    soon(|| front.asked.lock().unwrap().contains(&"/ws".to_owned()).then_some(()));
    kept.stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(kept.stream.read(&mut [0; 1]).is_err(), "it is open, and says nothing");
}
