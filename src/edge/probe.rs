//! Whether requests are answered: one of our own, asked through the loops that accept the public connections and answered
//! on their threads, by the same service, the same front and the same decision as everybody's. Only TCP and TLS are left out:
//! it comes on a pair of sockets of this process. Neither the access log nor the metrics of connections tell of it.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Health;
use super::listen::service::Door;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an outcome holds: asking for readiness in a loop asks for nothing more.
const KEPT: Duration = Duration::from_secs(1);
/// As long as the head's first line up to the status, `HTTP/1.1 200`.
const STATUS_END: usize = 12;

pub(crate) struct Probe {
    doors: Vec<Door>,
    health: Arc<dyn Health>,
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Probe {
    /// A probe of these doors, for what `health` asks for.
    pub(crate) fn new(doors: Vec<Door>, health: Arc<dyn Health>) -> Self {
        Self { doors, health, last: Mutex::new(None) }
    }

    /// Whether every door leads to an answer, now or a moment ago.
    ///
    /// # Errors
    /// A sentence for the operator: which one does not.
    pub(crate) async fn ask(&self) -> Result<(), String> {
        let Some((host, path)) = self.health.probe() else { return Ok(()) };
        // Who comes meanwhile waits for the same outcome.
        let mut last = self.last.lock().await;
        if let Some((at, outcome)) = &*last
            && at.elapsed() < KEPT
        {
            return outcome.clone();
        }
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut outcome = Ok(());
        for door in &self.doors {
            let answered = timeout(PATIENCE, through(door, request.as_bytes()));
            let answered = answered.await.unwrap_or_else(|_| Err(format!("no answer came within {PATIENCE:?}")));
            if let Err(why) = answered {
                outcome = Err(format!("requests are not answered on {}: {why}", door.address));
                break;
            }
        }
        let before = last.as_ref().is_none_or(|(_, outcome)| outcome.is_ok());
        match &outcome {
            Err(why) if before => tracing::error!("not ready: {why}"),
            Ok(()) if !before => tracing::info!("requests are answered again"),
            _ => {}
        }
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }
}

async fn through(door: &Door, request: &[u8]) -> Result<(), String> {
    let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed("no pair of sockets", error))?;
    ours.set_nonblocking(true).map_err(|error| failed("a socket of our own", error))?;
    let mut ours = tokio::net::UnixStream::from_std(ours).map_err(|error| failed("a socket of our own", error))?;
    door.knock.send(theirs).await.map_err(|_| "nothing is accepted any more".to_owned())?;
    let broke_off = |_| "the connection broke off before an answer".to_owned();
    ours.write_all(request).await.map_err(broke_off)?;
    let mut head = [0; STATUS_END];
    ours.read_exact(&mut head).await.map_err(broke_off)?;
    // What is refused with a word, such as too many at once, is answered.
    match head.get(9..) {
        Some([b'1'..=b'4', ..]) => Ok(()),
        status => Err(format!("the answer is {}", String::from_utf8_lossy(status.unwrap_or_default()))),
    }
}
