//! Sample application without authentication, which shows the requests that it receives.
//!
//! It supports HTTP/1.1 with keep-alive and only uses the standard library.
//!
//! `cargo run --example legacy -- 127.0.0.1:8081`
//!
//! `/json` and all paths below `/api/` return one JSON object: `method`, `path` (with the query),
//! `headers` (a list of [name, value] in order) and `body_bytes`. All other paths, such as `/public/…`,
//! return the same as an HTML page. Browsers may cache the responses of `/kept/…` for ten minutes, and
//! no others.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const LINE: u64 = 16 * 1024;
const LINES: usize = 128;
const BODY: u64 = 4 << 30;
const CONNECTIONS: usize = 512;
const SILENCE: Duration = Duration::from_mins(1);

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own, for people")]
fn main() -> ExitCode {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: legacy ADDRESS:PORT");
        return ExitCode::FAILURE;
    };
    match TcpListener::bind(&address) {
        Ok(listener) => {
            println!("the legacy application listens on http://{address}");
            serve(&listener);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot listen on {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Accepts connections forever, with one thread per connection.
pub(crate) fn serve(listener: &TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let open = Arc::clone(&open);
        thread::spawn(move || {
            // Clients may disconnect at any time.
            let _ = talk(&stream);
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

struct Request {
    method: String,
    path: String,
    version: String,
    headers: Vec<(String, String)>,
    body_bytes: u64,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        let mut same = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        same.next().map(|(_, value)| value.as_str())
    }

    fn says(&self, name: &str, word: &str) -> bool {
        self.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    }
}

fn talk(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let Some(mut request) = read_head(&mut reader)? else { return Ok(()) };
        if request.says("expect", "100-continue") {
            (&*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        request.body_bytes = read_body(&mut reader, &request)?;
        let keep = request.version == "HTTP/1.1" && !request.says("connection", "close");
        (&*stream).write_all(&answer(&request, keep))?;
        if !keep {
            return Ok(());
        }
    }
}

/// Reads a request. Returns `None` at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let line = read_line(reader)?;
    if line.is_empty() {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok(Some(Request { method, path, version, headers, body_bytes: 0 }));
        }
        let Some((name, value)) = line.split_once(':') else { return Err(io::ErrorKind::InvalidData.into()) };
        headers.push((name.to_owned(), value.trim().to_owned()));
        if headers.len() > LINES {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Reads a line without its terminator. Also returns an empty line at the end of the connection.
fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(LINE).read_until(b'\n', &mut line)?;
    if line.len() as u64 == LINE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads and discards the body.
fn read_body(reader: &mut impl BufRead, request: &Request) -> io::Result<u64> {
    if request.says("transfer-encoding", "chunked") {
        let mut total = 0;
        loop {
            let line = read_line(reader)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            total += skip(reader, size)?;
            read_line(reader)?;
            if size == 0 {
                return Ok(total);
            }
            if total > BODY {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
    let length = request.header("content-length").map_or(Ok(0), str::parse).map_err(|_| io::ErrorKind::InvalidData)?;
    skip(reader, length)
}

fn skip(reader: &mut impl BufRead, length: u64) -> io::Result<u64> {
    if length > BODY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let read = io::copy(&mut reader.take(length), &mut io::sink())?;
    if read == length { Ok(read) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn answer(request: &Request, keep: bool) -> Vec<u8> {
    let path = request.path.split('?').next().unwrap_or_default();
    let json = path == "/json" || path.starts_with("/api/");
    let (content_type, body) =
        if json { ("application/json", as_json(request)) } else { ("text/html; charset=utf-8", as_page(request)) };
    let connection = if keep { "keep-alive" } else { "close" };
    let caching = if path.starts_with("/kept/") { "max-age=600" } else { "no-store" };
    let length = body.len();
    let sent = if request.method == "HEAD" { "" } else { &body };
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: {caching}\r\n\
         Connection: {connection}\r\n\r\n{sent}"
    )
    .into_bytes()
}

fn as_json(request: &Request) -> String {
    let headers: Vec<String> =
        request.headers.iter().map(|(name, value)| format!("[{},{}]", quoted(name), quoted(value))).collect();
    let (method, path, headers) = (quoted(&request.method), quoted(&request.path), headers.join(","));
    format!(r#"{{"method":{method},"path":{path},"headers":[{headers}],"body_bytes":{}}}"#, request.body_bytes)
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(char));
            }
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

fn as_page(request: &Request) -> String {
    let row =
        |(name, value): &(String, String)| format!("<tr><th>{}</th><td>{}</td></tr>", escaped(name), escaped(value));
    let rows = request.headers.iter().map(row).collect::<Vec<_>>().join("\n");
    let (method, path) = (escaped(&request.method), escaped(&request.path));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <link rel=\"icon\" href=\"data:,\"><title>Legacy application</title>\n\
         <style>body{{font:16px sans-serif;margin:2em}}th{{text-align:left;padding-right:1em}}</style></head>\n\
         <body><h1>Legacy application</h1>\n<p>This application knows nothing of OAuth. It received:</p>\n\
         <p><code id=\"request\">{method} {path}</code>, <span id=\"body\">{} bytes of body</span></p>\n\
         <table id=\"headers\">\n{rows}</table></body></html>\n",
        request.body_bytes
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
