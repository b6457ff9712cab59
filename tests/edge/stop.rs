//! Start and stop of the edge.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sealgate::app::server::{Background, Server};

use crate::harness::{Client, Edge, GRACE, SLOW, TestFront, parts, soon};

#[test]
fn a_request_in_flight_finishes_and_then_all_ends() {
    let steps = Arc::new(AtomicUsize::new(0));
    let (task_step, hook_step) = (Arc::clone(&steps), Arc::clone(&steps));
    let mut edge = Edge::with(&[], |parts| {
        parts.background.push(Background::new("test", move |mut stop| async move {
            let _ = stop.wait_for(|stop| *stop).await;
            task_step.fetch_add(1, Ordering::SeqCst);
        }));
        parts.stopped = Box::new(move || {
            Box::pin(async move {
                // The background task must have ended before.
                hook_step.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst).unwrap();
            })
        });
    });
    let mut idle = edge.client();
    idle.send(b"GET /local/a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.reply().status, 200);
    let mut busy = edge.client();
    busy.send(b"GET /local/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    edge.front.is_busy();

    let start = Instant::now();
    edge.stop();
    assert!(idle.until_closed() < SLOW / 2);
    let address = edge.address;
    soon(|| std::net::TcpStream::connect(address).is_err().then_some(()));
    let reply = busy.reply();
    assert_eq!(reply.status, 200);
    assert!(!reply.keeps());
    edge.ended().unwrap();
    assert!(start.elapsed() < SLOW + GRACE, "{:?}", start.elapsed());
    assert_eq!(steps.load(Ordering::SeqCst), 2);
}

#[test]
fn requests_end_at_the_shutdown_timeout() {
    let mut edge = Edge::with(&[], |parts| parts.server.shutdown_timeout = Duration::from_millis(300));
    let mut busy = edge.client();
    busy.send(b"GET /local/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    edge.front.is_busy();
    let start = Instant::now();
    edge.stop();
    edge.ended().unwrap();
    assert!(start.elapsed() < SLOW / 2, "{:?}", start.elapsed());
    assert_eq!(busy.head(), None);
}

#[test]
fn a_stopping_server_is_not_ready_and_still_serves_metrics() {
    let mut edge = Edge::before(&[]);
    let mut busy = edge.client();
    busy.send(b"GET /local/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    edge.front.is_busy();
    edge.stop();
    let mut admin = Client::to(edge.admin);
    let ready = soon(|| {
        admin.stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        Some(admin.reply()).filter(|reply| reply.status != 200)
    });
    assert_eq!(ready.status, 503);
    admin.send(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(admin.reply().status, 200);
    edge.ended().unwrap();
}

#[test]
fn all_errors_are_reported_before_listeners_start() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let mut parts = parts(Arc::new(TestFront::default()), &[]);
    parts.server.listen = vec![taken];
    parts.apps = vec![crate::harness::app(&[])];
    let faults = Server::prepare(parts).err().unwrap();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("app wiki"), "{faults:?}");
    assert!(faults[1].starts_with(&format!("cannot listen on {taken}: ")), "{faults:?}");
}

#[test]
fn a_restart_with_a_passed_socket_fails_no_request() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let start = || {
        Edge::with(&[], |parts| {
            parts.server.listen = vec![address];
            parts.sockets = vec![socket.try_clone().unwrap()];
        })
    };
    let (over, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut edge = start();
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (over, served) = (Arc::clone(&over), Arc::clone(&served));
            std::thread::spawn(move || {
                while over.load(Ordering::SeqCst) == 0 {
                    // Each request uses its own connection. The test fails here if a request is
                    // refused or not answered.
                    let mut client = Client::to(address);
                    client.send(b"GET /local/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                    assert_eq!(client.reply().status, 200);
                    served.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let before = served.load(Ordering::SeqCst);
        soon(|| (served.load(Ordering::SeqCst) > before + 50).then_some(()));
        edge.stop();
        edge.ended().unwrap();
        edge = start();
    }
    let before = served.load(Ordering::SeqCst);
    soon(|| (served.load(Ordering::SeqCst) > before + 50).then_some(()));
    over.store(1, Ordering::SeqCst);
    for client in load {
        client.join().unwrap();
    }
}

#[test]
fn an_unexpected_passed_socket_prevents_the_start() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let mut parts = parts(Arc::new(TestFront::default()), &[]);
    parts.sockets = vec![socket];
    let faults = Server::prepare(parts).err().unwrap();
    assert_eq!(
        faults,
        [format!(
            "systemd passed a socket on {address}, which is not in server.listen, server.redirect_listen or \
             admin.listen; correct the .socket unit or the configuration"
        )]
    );
}
