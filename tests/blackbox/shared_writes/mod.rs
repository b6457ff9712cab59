//! Tests that requests on different threads write to almost no common memory.
//!
//! A processor core that writes to memory takes its cache line away from the other cores. If each request
//! wrote to memory of all threads, such as a counter of references, more threads would not serve more
//! requests. The test runs the threads one instruction at a time and compares the cache lines of their
//! atomic writes. Plain writes to common memory are either under a lock, whose atomic writes are found, or
//! a defect of another kind.

mod decoder;
mod tracer;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::gate::access_token;
use crate::support::{Instance, Settings, Upstream};
use tracer::{AtomicWrite, trace};

/// Size of a cache line in bytes.
const LINE: u64 = 64;
/// Requests on each connection before the measurement, so that every thread has its own copies.
const WARM_UP: usize = 30;
/// Measured requests on each connection.
const REQUESTS: usize = 4;

/// Connection of a client. Two connections are on different threads.
struct Client(TcpStream);

impl Client {
    fn new(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(stream)
    }

    fn ask(&mut self, path: &str, token: Option<&str>) {
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: app.localhost\r\n");
        if let Some(token) = token {
            let _ = write!(request, "Authorization: Bearer {token}\r\n");
        }
        self.0.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        let mut read = Vec::new();
        loop {
            let mut piece = [0; 16 * 1024];
            let length = self.0.read(&mut piece).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&piece[..length]);
            let text = String::from_utf8_lossy(&read);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) || body.ends_with("0\r\n\r\n") {
                return;
            }
        }
    }
}

/// Returns the ids of the threads that serve clients.
fn workers(process: u32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let ids = tasks.map(|task| task.unwrap().file_name().to_str().unwrap().parse::<i32>().unwrap());
    let name = |id: &i32| fs::read_to_string(format!("/proc/{process}/task/{id}/comm")).unwrap();
    ids.filter(|id| name(id).starts_with("public")).collect()
}

/// Returns the atomic writes of [`REQUESTS`] requests on each client to cache lines that several threads
/// write.
fn shared_writes(instance: &Instance, clients: &mut [Client], path: &str, token: Option<&str>) -> Vec<AtomicWrite> {
    let ask = |clients: &mut [Client]| clients.iter_mut().for_each(|client| client.ask(path, token));
    (0..WARM_UP).for_each(|_| ask(clients));
    let (process, done) = (instance.process(), AtomicBool::new(false));
    let (ready, is_ready) = std::sync::mpsc::channel();
    let writes = std::thread::scope(|scope| {
        let tracing = scope.spawn(|| trace(process, &workers(process), || ready.send(()).unwrap(), &done));
        is_ready.recv().unwrap();
        (0..REQUESTS).for_each(|_| ask(clients));
        // The last response arrives before its request has ended.
        std::thread::sleep(Duration::from_millis(500));
        done.store(true, Ordering::Release);
        tracing.join().unwrap()
    });
    let mut threads_of: BTreeMap<u64, BTreeSet<i32>> = BTreeMap::new();
    for write in &writes {
        threads_of.entry(write.address / LINE).or_default().insert(write.thread);
    }
    writes.into_iter().filter(|write| threads_of[&(write.address / LINE)].len() > 1).collect()
}

/// Returns the source lines of the writes, with the number of writes in each request.
fn places(instance: &Instance, writes: &[AtomicWrite], requests: usize) -> String {
    let process = instance.process();
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let program = fs::canonicalize(&instance.program).unwrap();
    let start = maps.lines().find(|line| line.ends_with(program.to_str().unwrap())).unwrap();
    let start = u64::from_str_radix(start.split('-').next().unwrap(), 16).unwrap();
    let mut counts: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for write in writes {
        *counts.entry((write.address / LINE, write.instruction)).or_default() += 1;
    }
    let mut text = String::new();
    for ((line, instruction), count) in counts {
        let place = format!("{:#x}", instruction.wrapping_sub(start));
        let told = Command::new("addr2line").args(["-Cfipe", program.to_str().unwrap(), &place]).output();
        let told = told.map_or(place, |told| String::from_utf8_lossy(&told.stdout).trim().replace('\n', "\n      "));
        let _ = writeln!(text, "line {:x}: {:.1} a request: {told}", line * LINE, count as f64 / requests as f64);
    }
    text
}

async fn measured(filter: &str, path: &str, is_gated: bool) -> (f64, String) {
    let upstream = Upstream::start();
    let sections = format!("[log]\nfilter = \"{filter}\"");
    let mut instance = Instance::prepare(&Settings { upstream: Some(upstream.url()), sections, ..Settings::default() });
    if let Ok(program) = std::env::var("PROGRAM") {
        instance.program = program.into();
    }
    let secret = instance.add_confidential_client("web");
    instance.start();
    let token = if is_gated { Some(access_token(&instance, &secret, "openid profile").await) } else { None };
    let mut clients = [Client::new(instance.port), Client::new(instance.port)];
    let writes = shared_writes(&instance, &mut clients, path, token.as_deref());
    let requests = REQUESTS * clients.len();
    (writes.len() as f64 / requests as f64, places(&instance, &writes, requests))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gated_request_writes_almost_nothing_that_other_threads_write() {
    let (writes, places) = measured("warn", "/api/json", true).await;
    println!("{writes:.1} shared writes a request\n{places}");
    assert!(writes <= 4.0, "{writes} shared writes a request\n{places}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_adds_few_shared_writes() {
    let (writes, places) = measured("info", "/public/json", false).await;
    println!("{writes:.1} shared writes a request\n{places}");
    assert!(writes <= 12.0, "{writes} shared writes a request\n{places}");
}
