//! Large heads and bodies, `WebSockets`, event streams and HTTP/2 through the documented proxies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sealgate_admin::hex;
use sha2::{Digest, Sha256};

use super::site::{Kind, Site, status};

/// Maximum time for bytes to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
const KIB: usize = 1024;

/// State of the application that the test checks.
struct Application {
    url: String,
    /// Makes an open event stream send this text.
    say: Sender<String>,
    /// Receives a message when a body begins to arrive.
    begun: Receiver<()>,
}

impl Application {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let ((say, said), (begins, begun)) = (channel(), channel());
        let said = Arc::new(Mutex::new(said));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (said, begins) = (Arc::clone(&said), begins.clone());
                // A proxy may close its connection at any time.
                thread::spawn(move || serve(stream, &said, &begins).ok());
            }
        });
        Self { url, say, begun }
    }
}

fn serve(mut out: TcpStream, said: &Mutex<Receiver<String>>, begins: &Sender<()>) -> std::io::Result<()> {
    let mut reader = BufReader::new(out.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    // The application accepts every protocol, and reports the offered one.
    let offered = head.lines().filter_map(|line| line.split_once(": "));
    let offered = offered.filter(|(name, _)| name.eq_ignore_ascii_case("upgrade")).map(|(_, value)| value);
    let protocols = offered.collect::<Vec<_>>().join(", ");
    if !protocols.is_empty() {
        // The answer to the key that the client sends (RFC 6455 §1.3).
        let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocols}\r\n{accept}\r\nX-Application: 101\r\n\r\n"
        );
        out.write_all(answer.as_bytes())?;
        let mut piece = [0; 4096];
        loop {
            let length = reader.read(&mut piece)?;
            if length == 0 {
                return Ok(());
            }
            out.write_all(&piece[..length])?;
        }
    }
    if head.contains("/events ") {
        out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(text) = said.recv_timeout(PATIENCE) {
            out.write_all(format!("data: {text}\n\n").as_bytes())?;
        }
        return Ok(());
    }
    let mut body = Vec::new();
    if let Some(length) = field("content-length") {
        body.resize(length.parse().unwrap(), 0);
        if !body.is_empty() {
            reader.fill_buf()?;
            let _ = begins.send(());
        }
        reader.read_exact(&mut body)?;
    } else if field("transfer-encoding").is_some() {
        reader.fill_buf()?;
        let _ = begins.send(());
        body = dechunked(&mut reader)?;
    }
    let told = format!("{head}{}", digest(&body));
    let cookie = if head.starts_with("GET /cookie ") { "s".repeat(7 * KIB) } else { String::new() };
    write!(
        out,
        "HTTP/1.1 200 OK\r\nSet-Cookie: large={cookie}; Max-Age=0\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{told}",
        told.len()
    )
}

fn dechunked(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut piece = vec![0; size + 2];
        reader.read_exact(&mut piece)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&piece[..size]);
    }
}

fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

/// Carries connections to Sealgate and counts the bytes that the proxy sends. Returns its port.
fn counted(sealgate: u16, bytes: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", sealgate)).unwrap();
            let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let bytes = Arc::clone(&bytes);
            thread::spawn(move || carry(from_client, to_server, &bytes));
            thread::spawn(move || carry(server, client, &AtomicUsize::new(0)));
        }
    });
    port
}

fn carry(mut from: TcpStream, mut to: TcpStream, bytes: &AtomicUsize) {
    let mut piece = vec![0; 16 * KIB];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        bytes.fetch_add(length, Ordering::SeqCst);
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Signed-in client, or one without a session.
struct Client<'a> {
    site: &'a Site,
    application: &'a Application,
    cookies: &'a str,
}

impl Client<'_> {
    /// Sends a head with these additional lines.
    fn send(&self, request: &str, lines: &str) -> TcpStream {
        let port = self.site.port;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let cookies = self.cookies;
        let head = format!("{request} HTTP/1.1\r\nHost: app.localhost:{port}\r\nCookie: {cookies}\r\n{lines}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    fn ask(&self, request: &str, lines: &str) -> String {
        rest(self.send(request, &format!("Connection: close\r\n{lines}")))
    }

    /// Opens a WebSocket and exchanges messages. Returns the failure, or the echo.
    fn websocket(&self, lines: &str) -> String {
        let handshake = "Connection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let mut stream = self.send("GET /ws", &format!("{handshake}{lines}"));
        let head = until(&mut stream, "\r\n\r\n");
        if status(&head) != 101 {
            return status(&head).to_string();
        }
        let mut echoes = String::new();
        for message in ["one.", "two."] {
            let _ = stream.write_all(message.as_bytes());
            echoes += &until(&mut stream, ".");
        }
        format!("101 {echoes}")
    }

    /// Sends the first part of a body, and the rest when the application has received some of it.
    fn upload(&self, body: &[u8], is_chunked: bool) -> String {
        while self.application.begun.try_recv().is_ok() {}
        let encoding =
            if is_chunked { "Transfer-Encoding: chunked".into() } else { format!("Content-Length: {}", body.len()) };
        let mut stream = self.send("POST /upload", &format!("Connection: close\r\n{encoding}\r\n"));
        let (first, second) = body.split_at(body.len() / 2);
        let write = |stream: &mut TcpStream, piece: &[u8]| {
            if !is_chunked {
                return stream.write_all(piece);
            }
            write!(stream, "{:x}\r\n", piece.len())?;
            stream.write_all(piece)?;
            stream.write_all(b"\r\n")
        };
        let _ = write(&mut stream, first);
        let arrived = self.application.begun.recv_timeout(PATIENCE).is_ok();
        let _ = write(&mut stream, second);
        if is_chunked {
            let _ = stream.write_all(b"0\r\n\r\n");
        }
        let answer = rest(stream);
        let whole = answer.ends_with(&digest(body));
        format!("{}, unbuffered {arrived}, whole {whole}", status(&answer))
    }

    fn events(&self) -> String {
        let mut stream = self.send("GET /events", "Accept: text/event-stream\r\n");
        let mut heard = String::new();
        for text in ["one.", "two.", "three."] {
            self.application.say.send(text.into()).unwrap();
            let part = until(&mut stream, text);
            if !part.contains(text) {
                return format!("nothing arrived before {text}");
            }
            heard += text;
        }
        heard
    }

    /// Sends a request over HTTP/2, as browsers do: each cookie in a field of its own.
    async fn over_http2(&self, method: &str, body: &'static [u8]) -> String {
        let site = self.site;
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", site.http2)).await.unwrap();
        let Ok((mut client, connection)) = h2::client::handshake(stream).await else { return "no HTTP/2".into() };
        tokio::spawn(connection);
        let mut request = http::Request::builder().method(method).uri(site.url("/json")).version(http::Version::HTTP_2);
        for cookie in self.cookies.split("; ").chain(["own=1"]) {
            request = request.header("cookie", cookie);
        }
        let request = request.header("x-large", "l".repeat(7 * KIB)).body(()).unwrap();
        let (answer, mut upload) = client.send_request(request, false).unwrap();
        upload.send_data(body.into(), true).unwrap();
        let answer = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            failed => return format!("{failed:?}"),
        };
        let (head, mut stream) = answer.into_parts();
        let mut told = Vec::new();
        while let Some(Ok(piece)) = stream.data().await {
            let _ = stream.flow_control().release_capacity(piece.len());
            told.extend_from_slice(&piece);
        }
        let told = String::from_utf8_lossy(&told);
        let large = told.contains(&"l".repeat(7 * KIB));
        let whole = told.ends_with(&digest(body));
        let cookies = told.contains("ookie: own=1\r\n");
        format!("{}, head {large}, cookies {cookies}, whole {whole}", head.status.as_u16())
    }
}

/// Reads until this text, the end, or a timeout.
fn until(stream: &mut TcpStream, text: &str) -> String {
    let (mut read, mut byte) = (Vec::new(), [0]);
    while !read.ends_with(text.as_bytes()) && stream.read(&mut byte).is_ok_and(|length| length > 0) {
        read.push(byte[0]);
    }
    String::from_utf8_lossy(&read).into_owned()
}

fn rest(mut stream: TcpStream) -> String {
    let mut read = Vec::new();
    // A proxy that resets the connection has answered too.
    let _ = stream.read_to_end(&mut read);
    String::from_utf8_lossy(&read).into_owned()
}

/// Sends what applications exchange with browsers, and compares all outcomes at once.
pub(super) async fn passes(kind: Kind) {
    let (application, to_sealgate) = (Application::start(), Arc::new(AtomicUsize::new(0)));
    let other = super::Upstream::start();
    let counter = Arc::clone(&to_sealgate);
    let site = Site::before(kind, &[application.url.clone(), other.url()], |port| counted(port, counter));
    let (browser, _) = site.signed_in("/").await;
    let cookies = browser.cookies(&site.url("/"));
    let client = Client { site: &site, application: &application, cookies: &cookies };
    let outcomes = tokio::task::block_in_place(|| checked(&client, &to_sealgate));
    let large: &'static [u8] = vec![b'x'; 3 << 20].leak();
    let over_http2 = [
        ("GET over HTTP/2", client.over_http2("GET", b"").await),
        ("POST over HTTP/2", client.over_http2("POST", large).await),
    ];
    let whole = || "200, head true, cookies true, whole true".to_owned();
    let expected_over_http2 = [("GET over HTTP/2", whole()), ("POST over HTTP/2", whole())];
    let wrong: Vec<_> = outcomes.into_iter().filter(|(_, outcome, expected)| outcome != expected).collect();
    assert!(wrong.is_empty() && over_http2 == expected_over_http2, "{kind:?}: {wrong:#?} {over_http2:#?}");
}

type Outcome = (&'static str, String, &'static str);

fn checked(client: &Client<'_>, to_sealgate: &AtomicUsize) -> Vec<Outcome> {
    let Client { site, application, cookies } = *client;
    let own = format!("Origin: {}\r\n", site.url(""));
    let stranger = Client { cookies: "own=1", ..*client };
    let socket = |client: &Client<'_>, lines: &str| client.websocket(&format!("Upgrade: websocket\r\n{own}{lines}"));
    let head = |cookie: usize, field: usize| {
        let cookie = "c".repeat(cookie);
        let field = "f".repeat(field);
        let large = Client { site, application, cookies: &format!("{cookies}; large={cookie}") };
        let answer = large.ask("GET /json", &format!("X-Large: {field}\r\n"));
        let arrived = answer.contains(&format!("large={cookie}\r\n")) && answer.contains(&field);
        format!("{}, {arrived}", status(&answer))
    };
    let too_long = || {
        let field = "f".repeat(14 * KIB);
        let lines: String = ["A", "B", "C"].map(|name| format!("X-{name}: {field}\r\n")).concat();
        status(&client.ask("GET /json", &lines)).to_string()
    };
    let response = || {
        let answer = client.ask("GET /cookie", "");
        format!("{}, {}", status(&answer), answer.contains(&"s".repeat(7 * KIB)))
    };
    let tunnel = |protocols: &[&str]| {
        let lines: String = protocols.iter().flat_map(|protocol| ["Upgrade: ", protocol, "\r\n"]).collect();
        let settings = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
        let mut head = client.send("GET /x", &format!("{settings}{lines}"));
        let head = until(&mut head, "\r\n\r\n").to_ascii_lowercase();
        // The proxy may speak HTTP/2 itself.
        let is_the_applications = head.contains("\r\nx-application: 101\r\n");
        let only_websocket = head.contains("\r\nupgrade: websocket\r\n");
        if is_the_applications && !only_websocket { "a tunnel" } else { "none" }.to_owned()
    };
    let body: Vec<u8> = (0..20_u32 << 20).map(|at| (at % 251) as u8).collect();
    let before = to_sealgate.load(Ordering::SeqCst);
    let uploads = [
        ("3 MB", client.upload(&body[..3 << 20], false), "200, unbuffered true, whole true"),
        ("20 MB", client.upload(&body, false), "200, unbuffered true, whole true"),
        ("20 MB in chunks", client.upload(&body, true), "200, unbuffered true, whole true"),
    ];
    let asked = to_sealgate.load(Ordering::SeqCst) - before;
    let mut outcomes = vec![
        ("3.6 KB of cookies", head(3600, 10), "200, true"),
        ("3.6 KB of a field", head(10, 3600), "200, true"),
        ("7 KB of cookies", head(7 * KIB, 10), "200, true"),
        ("7 KB of both", head(7 * KIB, 7 * KIB), "200, true"),
        ("12 KB of cookies", head(12 * KIB, 10), "200, true"),
        ("more than server.header_bytes", too_long(), "431"),
        ("7 KB of cookies in the response", response(), "200, true"),
        ("WebSocket", socket(client, ""), "101 one.two."),
        (
            "WebSocket with large cookies",
            socket(client, &format!("X-Large: {}\r\n", "w".repeat(7 * KIB))),
            "101 one.two.",
        ),
        ("WebSocket without a session", socket(&stranger, ""), "401"),
        ("WebSocket of another origin", client.websocket("Upgrade: websocket\r\nOrigin: https://evil.test\r\n"), "403"),
        ("h2c", tunnel(&["h2c"]), "none"),
        ("h2c and a WebSocket", tunnel(&["h2c", "websocket"]), "none"),
        ("another protocol", tunnel(&["tls/1.0"]), "none"),
        ("a list of protocols", tunnel(&["websocket, tls/1.0"]), "none"),
        ("bodies are not sent to Sealgate", (asked < 64 * KIB).to_string(), "true"),
        ("event stream", client.events(), "one.two.three."),
    ];
    outcomes.extend(uploads);
    outcomes
}
