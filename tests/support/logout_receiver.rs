//! Client that receives logout tokens, with answers that a test determines.

#![allow(dead_code, reason = "each program of tests uses a part of this")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Answer of the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// A redirect to this URL.
    Redirect(String),
    /// No answer while the test holds the receiver.
    Nothing,
}

/// Request with a logout token.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedLogout {
    pub(crate) path: String,
    pub(crate) content_type: String,
    pub(crate) token: String,
}

impl ReceivedLogout {
    /// Returns a part of the token, unverified: 0 is the header, 1 the claims.
    pub(crate) fn part(&self, number: usize) -> Value {
        let part = self.token.split('.').nth(number).expect("a token has three parts");
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    pub(crate) fn claims(&self) -> Value {
        self.part(1)
    }
}

/// HTTP server that collects logout tokens.
pub(crate) struct LogoutReceiver {
    pub(crate) port: u16,
    answer: Arc<Mutex<Answer>>,
    received: Arc<Mutex<Vec<ReceivedLogout>>>,
    connections: Arc<AtomicUsize>,
}

impl LogoutReceiver {
    /// Starts a receiver that accepts all tokens.
    pub(crate) fn start() -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Starts a receiver on this socket.
    pub(crate) fn at(listener: TcpListener) -> Self {
        let own = Self {
            port: listener.local_addr().unwrap().port(),
            answer: Arc::new(Mutex::new(Answer::Status(200))),
            received: Arc::default(),
            connections: Arc::default(),
        };
        let (answer, received) = (Arc::clone(&own.answer), Arc::clone(&own.received));
        let connections = Arc::clone(&own.connections);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, received) = (Arc::clone(&answer), Arc::clone(&received));
                std::thread::spawn(move || serve(stream.unwrap(), &answer, &received));
            }
        });
        own
    }

    /// Returns the URI that receives the tokens.
    pub(crate) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}/logout", self.port)
    }

    pub(crate) fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Returns the requests so far, also those without an answer.
    pub(crate) fn received(&self) -> Vec<ReceivedLogout> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(mut stream: TcpStream, answer: &Mutex<Answer>, received: &Mutex<Vec<ReceivedLogout>>) {
    let Some((head, body)) = read(&mut stream) else { return };
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let token = body.strip_prefix("logout_token=").unwrap_or_default().to_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    received.lock().unwrap().push(ReceivedLogout { path, content_type: header("content-type"), token });
    let answer = answer.lock().unwrap().clone();
    let head = match answer {
        Answer::Status(status) => format!("HTTP/1.1 {status} S\r\n"),
        Answer::Redirect(url) => format!("HTTP/1.1 302 Found\r\nLocation: {url}\r\n"),
        // Returns when the server gives up and closes the connection.
        Answer::Nothing => return drop(stream.read(&mut [0; 1])),
    };
    let _ = stream.write_all(format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes());
}

/// Reads the head and the body of a request.
fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut buffer).ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let stated =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= stated.unwrap_or(0) {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}
