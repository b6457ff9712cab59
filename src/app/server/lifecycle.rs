//! Order of the start and the stop.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use sealgate_edge::{Phase, Quota};

use super::Task;
use super::process::{notify, start_timer};

/// Timeout of the background tasks at a stop.
const BACKGROUND_STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the stop hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// Trigger of the program's stop.
pub enum StopSignal {
    /// SIGTERM or SIGINT. A second signal ends the wait for requests in progress.
    Unix,
    /// A message on this channel, or the drop of its sender.
    Channel(oneshot::Receiver<()>),
}

/// Inputs of [`Lifecycle`] that are consumed by the run.
pub(super) struct Startup {
    pub(super) signal: StopSignal,
    pub(super) readiness: mpsc::Receiver<String>,
    /// Receives the reason why a running service cannot go on.
    pub(super) failures: mpsc::Receiver<String>,
    pub(super) background: oneshot::Receiver<()>,
    /// Hook to run last.
    pub(super) stopped: Box<dyn FnOnce() -> Task + Send + Sync>,
    pub(super) listening: Vec<SocketAddr>,
}

/// Starts and stops the program in order.
///
/// Pingora's own graceful stop always sleeps for its whole grace period. So the services watch
/// [`Self::stop`] instead of Pingora's signal. This type waits for the services, and then makes
/// Pingora shut down immediately.
pub(super) struct Lifecycle {
    pub(super) startup: Mutex<Option<Startup>>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) quota: Arc<Quota>,
    /// Maximum time to wait for requests in progress.
    pub(super) drain_timeout: Duration,
    pub(super) failure: Arc<Mutex<Option<String>>>,
}

#[async_trait]
impl ShutdownSignalWatch for Lifecycle {
    async fn recv(&self) -> ShutdownSignal {
        let startup = self.startup.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Pingora calls this method only once.
        let Some(startup) = startup else { return std::future::pending().await };
        if let Err(why) = self.run(startup).await {
            tracing::error!(error = why, "cannot serve");
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
        ShutdownSignal::FastShutdown
    }
}

impl Lifecycle {
    async fn run(&self, mut startup: Startup) -> Result<(), String> {
        let mut signals = StopRequests::new(startup.signal)?;
        start_timer().await?;
        let mut outcome = tokio::select! {
            // A message reports a failure. The channel closes when all services accept connections.
            fault = startup.readiness.recv() => fault.map_or(Ok(()), Err),
            () = signals.next() => Ok(()),
        };
        if outcome.is_ok() {
            tracing::info!(addresses = ?startup.listening, "serving");
            self.phase.send_replace(Phase::Serving);
            notify(&[NotifyState::Ready]);
            if !signals.is_stop_requested() {
                tokio::select! {
                    () = signals.next() => {}
                    // The service manager starts the program again. Until then, the requests in
                    // progress are completed.
                    Some(why) = startup.failures.recv() => {
                        tracing::error!("{why}; the server stops");
                        outcome = Err(why);
                    }
                }
            }
        }
        notify(&[NotifyState::Stopping]);
        self.phase.send_replace(Phase::Stopping);
        tracing::info!(connections = self.quota.open_connections(), "stopping");
        let _ = self.stop.send(true);
        tokio::select! {
            () = self.quota.wait_until_empty() => {}
            () = tokio::time::sleep(self.drain_timeout) => {
                tracing::warn!(connections = self.quota.open_connections(), "closing the remaining connections");
            }
            () = signals.next() => {
                tracing::warn!(connections = self.quota.open_connections(), "second signal: closing the remaining connections");
            }
        }
        if timeout(BACKGROUND_STOP_TIMEOUT, startup.background).await.is_err() {
            tracing::warn!("a background task did not end in time; stopping without it");
        }
        if timeout(HOOK_TIMEOUT, (startup.stopped)()).await.is_err() {
            tracing::error!("the last step of the stop did not end in time");
        }
        tracing::info!("stopped");
        outcome
    }
}

/// Source of stop requests.
enum StopRequests {
    Unix { terminate: Signal, interrupt: Signal, count: u32 },
    Channel(Option<oneshot::Receiver<()>>),
}

impl StopRequests {
    fn new(signal: StopSignal) -> Result<Self, String> {
        let listen = |kind| self::signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        Ok(match signal {
            StopSignal::Unix => Self::Unix {
                terminate: listen(SignalKind::terminate())?,
                interrupt: listen(SignalKind::interrupt())?,
                count: 0,
            },
            StopSignal::Channel(channel) => Self::Channel(Some(channel)),
        })
    }

    async fn next(&mut self) {
        match self {
            Self::Unix { terminate, interrupt, count } => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                *count += 1;
            }
            Self::Channel(channel) => match channel {
                Some(message) => {
                    // A dropped sender is a stop request too.
                    let _ = message.await;
                    *channel = None;
                }
                None => std::future::pending().await,
            },
        }
    }

    /// Returns whether a stop was requested.
    const fn is_stop_requested(&self) -> bool {
        match self {
            Self::Unix { count, .. } => *count > 0,
            Self::Channel(channel) => channel.is_none(),
        }
    }
}
