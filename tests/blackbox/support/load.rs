//! Load from clients that count the outcomes of their requests, and applications that answer with
//! one word.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::instance::wait_until;

/// Maximum duration of a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts an application that answers every request with this word, on kept connections. Returns
/// its URL.
pub(crate) fn application_saying(word: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{word}", word.len());
                while head(&mut stream).is_ok_and(|head| !head.is_empty()) {
                    if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

/// Reads a message's head; empty at the end of the connection.
fn head(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return if head.is_empty() { Ok(head) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
    }
    Ok(head)
}

/// Client connection.
pub(crate) struct Connection(BufReader<TcpStream>);

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// Whether the connection stays open.
    pub(crate) keeps: bool,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Changes the maximum duration of a request.
    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.0.get_ref().set_read_timeout(Some(patience))
    }

    pub(crate) fn ask(&mut self, host: &str, path: &str) -> io::Result<Answer> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes())?;
        let head = head(&mut self.0)?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(ErrorKind::UnexpectedEof)?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.ok_or_else(|| io::Error::other(format!("an answer without a length: {head}")))?];
        self.0.read_exact(&mut body)?;
        let keeps = !head.contains("connection: close");
        Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned(), keeps })
    }
}

/// Use of connections by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// One connection serves all requests. Its end is a failure.
    Holds,
    /// A connection that is kept as long as the server keeps it. If a used connection ends before
    /// the first byte of an answer, the request is repeated once, as HTTP allows (RFC 9112 §9.3.1).
    Keeps,
    /// A new connection for each request; every failure counts.
    Opens,
}

/// Outcomes of a client's requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answered: usize,
    /// Requests that were repeated because a kept connection had ended.
    pub(crate) repeated: usize,
    pub(crate) failures: Vec<String>,
    /// Longest duration of an answer.
    pub(crate) longest: Duration,
}

/// Clients that send requests without a pause until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<(Manner, JoinHandle<Tally>)>,
    /// Number of requests that each client has finished.
    finished: Vec<Arc<AtomicUsize>>,
}

impl Load {
    /// Starts a client for each of `manners`, which requests `path` of `host` and expects this
    /// word.
    pub(crate) fn start(
        address: SocketAddr,
        host: &str,
        path: &'static str,
        word: &'static str,
        manners: &[Manner],
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let finished: Vec<Arc<AtomicUsize>> = manners.iter().map(|_| Arc::default()).collect();
        let client = |(manner, finished): (&Manner, &Arc<AtomicUsize>)| {
            let (manner, host, stop) = (*manner, host.to_owned(), Arc::clone(&stop));
            let finished = Arc::clone(finished);
            let client = thread::spawn(move || {
                let mut client =
                    Client { address, host, path, word, manner, connection: None, tally: Tally::default() };
                while !stop.load(Ordering::Relaxed) {
                    client.request();
                    finished.fetch_add(1, Ordering::Relaxed);
                }
                client.tally
            });
            (manner, client)
        };
        let clients = manners.iter().zip(&finished).map(client).collect();
        Self { stop, clients, finished }
    }

    /// Waits until each client has finished this many further requests.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        for finished in &self.finished {
            let until = finished.load(Ordering::Relaxed) + count;
            wait_until("requests of every client", || finished.load(Ordering::Relaxed) >= until);
        }
    }

    /// Stops the clients, and returns their results.
    pub(crate) fn stop(self) -> Vec<(Manner, Tally)> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().map(|(manner, client)| (manner, client.join().unwrap())).collect()
    }
}

struct Client {
    address: SocketAddr,
    host: String,
    path: &'static str,
    word: &'static str,
    manner: Manner,
    connection: Option<Connection>,
    tally: Tally,
}

impl Client {
    fn request(&mut self) {
        let begun = Instant::now();
        let reused = self.connection.is_some();
        let mut outcome = self.exchange();
        if reused && self.manner == Manner::Keeps && outcome.as_ref().is_err_and(has_ended) {
            self.tally.repeated += 1;
            outcome = self.exchange();
        }
        match outcome {
            Ok(answer) if answer.status == 200 && answer.body == self.word => {
                self.tally.answered += 1;
                self.tally.longest = self.tally.longest.max(begun.elapsed());
                if self.manner == Manner::Opens || self.manner == Manner::Keeps && !answer.keeps {
                    self.connection = None;
                }
            }
            other => {
                self.tally.failures.push(format!("{:?}, reused {reused}: {other:?}", self.manner));
                self.connection = None;
            }
        }
    }

    /// Sends the request once. A failed connection is dropped.
    fn exchange(&mut self) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.address)?,
        };
        let answer = connection.ask(&self.host, self.path)?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

/// Returns whether the error is a closed connection.
fn has_ended(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
