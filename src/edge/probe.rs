//! Readiness probe: sends a request through the accept loop of each public listener, and a task to each
//! thread that serves connections.
//!
//! The request uses a socket pair of this process instead of TCP and TLS. The request passes
//! through the same threads, service and front as a client's request. The access log and the
//! connection metrics do not contain the request.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Health;
use super::listen::service::{LoopbackConnector, ThreadPings};

/// Timeout for the response of one listener, and of one thread.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a result is cached, so that frequent readiness checks cause no additional
/// requests.
const RESULT_LIFETIME: Duration = Duration::from_secs(1);
/// Length of the start of a status line, `HTTP/1.1 200`, in bytes.
const STATUS_END: usize = 12;

/// Sender of a test request through every public listener, and of a task to every thread.
pub struct Probe {
    connectors: Vec<LoopbackConnector>,
    threads: ThreadPings,
    health: Arc<dyn Health>,
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Probe {
    /// Creates a probe of the listeners with these connectors and of these threads. `health`
    /// determines the host and path of the request.
    pub fn new(connectors: Vec<LoopbackConnector>, threads: ThreadPings, health: Arc<dyn Health>) -> Self {
        Self { connectors, threads, health, last: Mutex::new(None) }
    }

    /// Checks that every thread and every listener answers. Returns the cached result if it is at
    /// most one second old.
    ///
    /// # Errors
    /// A sentence for the operator that names the thread or the listener that did not answer.
    pub async fn ask(&self) -> Result<(), String> {
        let Some((host, path)) = self.health.probe() else { return Ok(()) };
        // Concurrent callers wait for this lock and then use the same result.
        let mut last = self.last.lock().await;
        if let Some((at, outcome)) = &*last
            && at.elapsed() < RESULT_LIFETIME
        {
            return outcome.clone();
        }
        let outcome = self.ask_all(&host, &path).await;
        let before = last.as_ref().is_none_or(|(_, outcome)| outcome.is_ok());
        match &outcome {
            Err(why) if before => tracing::error!("not ready: {why}"),
            Ok(()) if !before => tracing::info!("the listeners answer requests again"),
            _ => {}
        }
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }

    async fn ask_all(&self, host: &str, path: &str) -> Result<(), String> {
        // The threads first. Each serves only some of the requests below, so a failure of one would not
        // name the thread.
        for thread in self.threads.get().into_iter().flatten() {
            thread.ask(RESPONSE_TIMEOUT).await?;
        }
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        for connector in &self.connectors {
            let answered = timeout(RESPONSE_TIMEOUT, probe_listener(connector, request.as_bytes()));
            let answered = answered.await.unwrap_or_else(|_| Err(format!("no response within {RESPONSE_TIMEOUT:?}")));
            answered.map_err(|why| format!("the listener on {} does not answer requests: {why}", connector.address))?;
        }
        Ok(())
    }
}

async fn probe_listener(connector: &LoopbackConnector, request: &[u8]) -> Result<(), String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed("cannot create a pair of sockets", error))?;
    ours.set_nonblocking(true).map_err(|error| failed("cannot set up a socket", error))?;
    let mut ours = tokio::net::UnixStream::from_std(ours).map_err(|error| failed("cannot set up a socket", error))?;
    connector.sender.send(theirs).await.map_err(|_| "the listener no longer accepts connections".to_owned())?;
    let broke_off = |_| "the connection closed before the response".to_owned();
    ours.write_all(request).await.map_err(broke_off)?;
    let mut head = [0; STATUS_END];
    ours.read_exact(&mut head).await.map_err(broke_off)?;
    // A refusal, for example because of too many requests, also counts as an answer.
    match head.get(9..) {
        Some([b'1'..=b'4', ..]) => Ok(()),
        status => Err(format!("the response is {}", String::from_utf8_lossy(status.unwrap_or_default()))),
    }
}
