//! Limits per client over HTTP/2, where each connection allows 100 concurrent requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use sealgate::app::server::ServerParts;
use sealgate_edge::ConnectionEvent;
use tokio::task::JoinSet;

use crate::authority::Authority;
use crate::harness::{Edge, soon};
use crate::http2::connect;

/// An application that answers the requests of a connection in order.
///
/// It answers `OK` after a delay, or when the test permits it.
struct Application {
    address: SocketAddr,
    /// Number of requests received but not yet answered.
    waiting: Arc<AtomicUsize>,
    /// Highest value of `waiting`.
    most: Arc<AtomicUsize>,
    /// Channel of permissions. Each message permits one answer.
    answers: Sender<()>,
}

impl Application {
    /// Starts the application. With a delay, it answers without permission.
    fn start(after: Option<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (waiting, most) = (Arc::<AtomicUsize>::default(), Arc::default());
        let (answers, told) = channel();
        let told: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(told));
        let (counted, highest) = (Arc::clone(&waiting), Arc::<AtomicUsize>::clone(&most));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (waiting, told) = (Arc::clone(&counted), Arc::clone(&told));
                let highest = Arc::clone(&highest);
                thread::spawn(move || {
                    let mut read = Vec::new();
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        read.extend_from_slice(&buffer[..length]);
                        while let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                            read.drain(..end + 4);
                            // Connections are not counted: one that the gateway has closed may still be
                            // open here.
                            highest.fetch_max(waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            match after {
                                Some(time) => thread::sleep(time),
                                None => drop(told.lock().unwrap().recv()),
                            }
                            waiting.fetch_sub(1, Ordering::SeqCst);
                            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
                        }
                    }
                });
            }
        });
        Self { address, waiting, most, answers }
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}

fn edge(application: &Application, change: impl FnOnce(&mut ServerParts)) -> (Edge, Authority) {
    let authority = Authority::new();
    let files = authority.issue("server", "DNS:localhost,IP:127.0.0.1");
    let edge = Edge::with(&[application.address], |parts| {
        parts.server.tls = vec![files.into()];
        parts.server.idle_timeout = Duration::from_secs(30);
        parts.apps[0].read_timeout = Duration::from_secs(30);
        change(parts);
    });
    (edge, authority)
}

fn send(requests: &mut SendRequest<Bytes>, edge: &Edge) -> ResponseFuture {
    let request = Request::builder().uri(format!("https://{}/x", edge.address)).body(()).unwrap();
    requests.send_request(request, true).unwrap().0
}

/// Returns how many requests were answered with 200 and how many streams were refused.
async fn outcomes(responses: Vec<ResponseFuture>) -> (usize, usize) {
    let mut set: JoinSet<_> = responses.into_iter().collect();
    let (mut answered, mut refused) = (0, 0);
    while let Some(outcome) = set.join_next().await {
        match outcome.unwrap() {
            Ok(response) => {
                assert_eq!(response.status(), 200);
                answered += 1;
            }
            Err(error) => {
                assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM), "{error}");
                refused += 1;
            }
        }
    }
    (answered, refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_concurrent_requests_of_a_browser_are_all_answered() {
    let application = Application::start(Some(Duration::from_millis(20)));
    let (edge, authority) = edge(&application, |parts| {
        parts.server.max_connections = 200;
        parts.server.max_connections_per_peer = 200;
        parts.apps[0].max_requests_per_client = 10;
    });
    let mut requests = connect(&edge, &authority).await;
    for _ in 0..3 {
        let responses = (0..100).map(|_| send(&mut requests, &edge)).collect();
        assert_eq!(outcomes(responses).await, (100, 0));
        requests = requests.ready().await.unwrap();
    }
    assert!(application.most.load(Ordering::SeqCst) <= 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_connections_are_counted() {
    let application = Application::start(None);
    let (edge, authority) = edge(&application, |parts| parts.server.max_connections_per_peer = 42);
    let (mut one, mut two) = (connect(&edge, &authority).await, connect(&edge, &authority).await);
    let mut responses: Vec<_> = (0..30).map(|_| send(&mut one, &edge)).collect();
    soon(|| (application.waiting() == 30).then_some(()));
    // The client has two connections and a total of 40 requests.
    responses.extend((0..30).map(|_| send(&mut two, &edge)));
    soon(|| (application.waiting() == 40).then_some(()));
    edge.front.saw(ConnectionEvent::TooManyStreams);
    // The edge also refuses another connection.
    drop(edge.client());
    edge.front.saw(ConnectionEvent::TooManyFromPeer);
    for _ in 0..40 {
        application.answers.send(()).unwrap();
    }
    assert_eq!(outcomes(responses).await, (40, 20));
    // The answered requests no longer count towards the limit.
    let next = (0..20).map(|_| send(&mut two, &edge)).collect();
    for _ in 0..20 {
        application.answers.send(()).unwrap();
    }
    assert_eq!(outcomes(next).await, (20, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_limit_per_client_covers_all_its_connections() {
    let application = Application::start(None);
    let (edge, authority) = edge(&application, |parts| {
        parts.server.max_connections = 1000;
        parts.server.max_connections_per_peer = 1000;
        parts.apps[0].max_requests_per_client = 40;
    });
    let mut responses = Vec::new();
    for _ in 0..5 {
        let mut requests = connect(&edge, &authority).await;
        responses.extend((0..100).map(|_| send(&mut requests, &edge)));
    }
    soon(|| (application.waiting() == 40).then_some(()));
    for _ in 0..500 {
        application.answers.send(()).unwrap();
    }
    assert_eq!(outcomes(responses).await, (500, 0), "the others have waited their turn");
    assert_eq!(application.most.load(Ordering::SeqCst), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_request_counts_until_it_has_ended() {
    let application = Application::start(None);
    let (edge, authority) = edge(&application, |parts| parts.server.max_connections_per_peer = 50);
    let mut requests = connect(&edge, &authority).await;
    for _ in 0..40 {
        for _ in 0..25 {
            let request = Request::builder().uri(format!("https://{}/x", edge.address)).body(()).unwrap();
            let Ok((_, mut stream)) = requests.send_request(request, true) else { break };
            stream.send_reset(Reason::CANCEL);
        }
        // The edge may have sent GOAWAY; then open another connection.
        match requests.ready().await {
            Ok(ready) => requests = ready,
            Err(_) => requests = connect(&edge, &authority).await,
        }
    }
    assert!(application.most.load(Ordering::SeqCst) <= 50, "{:?}", application.most);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_too_long_is_answered() {
    let application = Application::start(None);
    let (edge, authority) = edge(&application, |parts| parts.apps[0].max_requests = 1);
    let mut requests = connect(&edge, &authority).await;
    let first = send(&mut requests, &edge);
    soon(|| (application.waiting() == 1).then_some(()));
    let second = send(&mut requests, &edge);
    assert_eq!(second.await.unwrap().status(), 503);
    application.answers.send(()).unwrap();
    assert_eq!(first.await.unwrap().status(), 200);
}
