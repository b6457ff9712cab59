//! Idle connections to an application with a low `max_requests`. It may have as many workers, and each of
//! them serves one connection.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::harness::{Client, Edge};

/// An application whose workers serve one connection each. It answers a request for `/both` when there
/// are two.
struct Application {
    both: Barrier,
    connections: Mutex<Vec<(TcpStream, Arc<AtomicBool>)>>,
    /// Maximum number of open connections with requests at the same time, and number of all of them.
    counted: Mutex<(usize, usize)>,
}

impl Application {
    fn start(workers: usize) -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let this = Arc::new(Self { both: Barrier::new(2), connections: Mutex::default(), counted: Mutex::default() });
        let (accept, accepted) = mpsc::channel::<(TcpStream, Arc<AtomicBool>)>();
        let accepted = Arc::new(Mutex::new(accepted));
        for _ in 0..workers {
            let (this, accepted) = (Arc::clone(&this), Arc::clone(&accepted));
            thread::spawn(move || {
                loop {
                    let Ok((stream, is_used)) = accepted.lock().unwrap().recv() else { return };
                    this.serve(stream, &is_used);
                }
            });
        }
        let acceptor = Arc::clone(&this);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let is_used = Arc::new(AtomicBool::new(false));
                let watched = stream.try_clone().unwrap();
                acceptor.connections.lock().unwrap().push((watched, Arc::clone(&is_used)));
                accept.send((stream, is_used)).unwrap();
            }
        });
        (this, address)
    }

    fn serve(&self, mut stream: TcpStream, is_used: &AtomicBool) {
        let mut client = Client::from_stream(stream.try_clone().unwrap());
        while let Some(head) = client.head() {
            let is_first = !is_used.swap(true, Ordering::SeqCst);
            let open = self.count_open();
            let mut counted = self.counted.lock().unwrap();
            counted.0 = counted.0.max(open);
            counted.1 += usize::from(is_first);
            drop(counted);
            if head.starts_with("GET /both ") {
                self.both.wait();
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }

    /// Returns the number of open connections that have or had a request, which those of health checks
    /// have not.
    fn count_open(&self) -> usize {
        let mut open = 0;
        self.connections.lock().unwrap().retain(|(stream, is_used)| {
            match recv(stream, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, 1..)) => open += 1,
                Err(Errno::AGAIN) => open += usize::from(is_used.load(Ordering::SeqCst)),
                _ => return false,
            }
            true
        });
        open
    }
}

/// Sends requests on four connections, which two threads of the edge serve.
fn load(edge: &Edge) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = edge.client();
                for _ in 0..50 {
                    client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
                    assert_eq!(client.reply().status, 200);
                }
            });
        }
    });
    start.elapsed()
}

#[test]
fn an_application_with_few_workers_is_never_blocked_by_idle_connections() {
    for workers in [1, 2, 8] {
        let (application, address) = Application::start(workers);
        let edge = Edge::with(&[address], |parts| parts.apps[0].max_requests = workers);
        // Two threads, and more clients than workers. An idle connection that stayed would block the
        // requests of the other thread for 30 seconds.
        let elapsed = load(&edge);
        assert!(elapsed < Duration::from_secs(20), "{workers} workers: {elapsed:?}");
        let (open, all) = *application.counted.lock().unwrap();
        assert!(open <= workers, "{open} connections to {workers} workers");
        // With a worker for each client, the connections are kept.
        assert!(workers < 8 || all <= 4, "{all} connections");
    }
}

#[test]
fn a_thread_closes_its_idle_connections_when_another_needs_the_permits() {
    let (application, address) = Application::start(2);
    let edge = Edge::with(&[address], |parts| parts.apps[0].max_requests = 2);
    // The clients are assigned to the two threads in turn.
    let [mut first, mut of_other, mut second, _of_other] = [(); 4].map(|()| edge.client());
    for client in [&mut first, &mut of_other] {
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.reply().status, 200);
    }
    // Two requests of one thread need both workers. One worker serves the idle connection of the other
    // thread.
    for client in [&mut first, &mut second] {
        client.send(b"GET /both HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in [&mut first, &mut second] {
        assert_eq!(client.reply().status, 200);
    }
    assert_eq!(*application.counted.lock().unwrap(), (2, 3));
}

#[test]
fn connections_are_kept_with_a_limit_of_64() {
    let (application, address) = Application::start(64);
    let edge = Edge::with(&[address], |parts| parts.apps[0].max_requests = 64);
    load(&edge);
    let (open, all) = *application.counted.lock().unwrap();
    assert!(open <= 4 && all <= 4, "{open} of {all} connections for four clients");
}

#[test]
fn a_reload_closes_idle_connections_of_the_former_settings() {
    let (application, address) = Application::start(1);
    let mut parts = None;
    let edge = Edge::with(&[address], |given| {
        given.apps[0].max_requests = 1;
        parts = Some((given.apps.clone(), given.server.clone(), Arc::clone(&given.front)));
    });
    let mut client = edge.client();
    let mut ask = || {
        client.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.reply().status, 200);
    };
    ask();
    let (mut apps, server, front) = parts.unwrap();
    apps[0].read_timeout += Duration::from_secs(1);
    edge.updater.apply(edge.updater.prepare(&apps, &server, front).map_err(|faults| faults.join("\n")).unwrap());
    let start = Instant::now();
    ask();
    assert!(start.elapsed() < Duration::from_secs(10), "the only worker serves the former connection");
    assert_eq!(*application.counted.lock().unwrap(), (1, 2));
}
