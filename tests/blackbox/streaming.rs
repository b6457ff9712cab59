//! Tests large bodies in both directions: they are forwarded as they arrive, and not buffered.
//!
//! `STREAM_MIB=1024 cargo test --test blackbox streaming -- --nocapture`

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::support::{Instance, Settings};

const PIECE: usize = 64 * 1024;

/// Returns the size of a body in bytes; 256 MiB by default.
fn length() -> usize {
    std::env::var("STREAM_MIB").map_or(256, |text| text.parse().unwrap()) << 20
}

/// Reads a head, including the empty line.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).unwrap())
}

/// Reads and discards this number of bytes. Returns how many arrived.
fn drain(stream: &mut TcpStream, length: usize) -> usize {
    let (mut read, mut piece) = (0, vec![0; PIECE]);
    while read < length {
        match stream.read(&mut piece) {
            Ok(bytes) if bytes > 0 => read += bytes,
            _ => break,
        }
    }
    read
}

fn pour(stream: &mut TcpStream, length: usize) -> io::Result<()> {
    let piece = vec![b'x'; PIECE];
    (0..length / PIECE).try_for_each(|_| stream.write_all(&piece))
}

/// Starts an application that receives and sends bodies of that size.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let Ok(head) = head(&mut stream) else { return };
                let (taken, given) =
                    if head.starts_with("PUT ") { (drain(&mut stream, length()), 0) } else { (0, length()) };
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nX-Taken: {taken}\r\nContent-Length: {given}\r\nConnection: close\r\n\r\n"
                );
                let _ = stream.write_all(answer.as_bytes()).and_then(|()| pour(&mut stream, given));
            });
        }
    });
    format!("http://{address}")
}

fn connect(instance: &Instance) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", instance.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream.set_write_timeout(Some(Duration::from_mins(1))).unwrap();
    stream
}

#[test]
fn large_uploads_and_downloads_are_not_buffered() {
    let instance = Instance::started(&Settings { upstream: Some(upstream()), ..Settings::default() });
    let host = format!("Host: app.localhost:{}\r\nConnection: close\r\n", instance.port);
    let idle = instance.peak_memory();

    let mut up = connect(&instance);
    write!(up, "PUT /public/up HTTP/1.1\r\n{host}Content-Length: {}\r\n\r\n", length()).unwrap();
    pour(&mut up, length()).unwrap();
    let answer = head(&mut up).unwrap().to_ascii_lowercase();
    assert!(answer.contains(&format!("x-taken: {}\r\n", length())), "{answer}");

    // Four concurrent downloads. One client reads slowly: its unread data must wait at the
    // application, not in the program.
    let readers: Vec<_> = (0..4)
        .map(|number| {
            let mut down = connect(&instance);
            write!(down, "GET /public/down HTTP/1.1\r\n{host}\r\n").unwrap();
            thread::spawn(move || {
                assert!(head(&mut down).unwrap().starts_with("HTTP/1.1 200"));
                if number == 0 {
                    thread::sleep(Duration::from_secs(2));
                }
                drain(&mut down, length())
            })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), length());
    }
    let peak = instance.peak_memory();
    println!("{} MiB a body: {idle} MiB before, {peak} MiB at the most", length() >> 20);
    assert!(peak < idle + 40, "{idle} MiB before, {peak} MiB at the most");
}
