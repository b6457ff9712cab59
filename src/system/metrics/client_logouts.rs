//! Metrics of logout tokens to clients.

use prometheus::{IntCounterVec, IntGauge, Opts};

use super::registry::SeriesRegistry;

pub(super) struct ClientLogoutSeries {
    logouts: IntCounterVec,
    waiting: IntGauge,
    oldest: IntGauge,
}

/// Outcome of an attempt to send a logout token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientLogoutOutcome {
    Sent,
    /// The client did not accept the token; the logout will be retried.
    Failed,
    /// The client answered 400. No further attempt is made.
    Refused,
    /// The time for retries is over.
    Expired,
    /// The queue was full.
    Dropped,
    /// The client no longer receives logout tokens.
    Obsolete,
}

impl ClientLogoutOutcome {
    const ALL: [Self; 6] = [Self::Sent, Self::Failed, Self::Refused, Self::Expired, Self::Dropped, Self::Obsolete];

    /// Returns the label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Dropped => "dropped",
            Self::Obsolete => "obsolete",
        }
    }
}

impl ClientLogoutSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let logouts = IntCounterVec::new(
            Opts::new(
                "sealgate_client_logouts_total",
                "Logout tokens to clients by result. `failed`: the attempt is repeated; `refused`, `expired`, `dropped` (the queue was full) and `obsolete` (the client receives none any more): no further attempt is made.",
            ),
            &["outcome"],
        )?;
        registry.register("counter", &logouts)?;
        let gauge = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let gauge = IntGauge::new(name, help)?;
            registry.register("gauge", &gauge)?;
            Ok(gauge)
        };
        Ok(Self {
            logouts,
            waiting: gauge(
                "sealgate_client_logouts_waiting",
                "Logout tokens in the queue; counted every 15 seconds by the node that sends them.",
            )?,
            oldest: gauge(
                "sealgate_client_logout_oldest_waiting_seconds",
                "Time since the first attempt of the oldest logout token in the queue; 0 when there is none.",
            )?,
        })
    }

    /// Sets series with fixed labels to zero.
    pub(super) fn init_labels(&self) {
        for outcome in ClientLogoutOutcome::ALL {
            self.logouts.with_label_values(&[outcome.as_str()]);
        }
    }

    pub(super) fn count(&self, outcome: ClientLogoutOutcome, number: u64) {
        self.logouts.with_label_values(&[outcome.as_str()]).inc_by(number);
    }

    /// Records the size of the queue. `oldest` is in seconds.
    pub(super) fn queue(&self, waiting: usize, oldest: u64) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.oldest.set(i64::try_from(oldest).unwrap_or(i64::MAX));
    }

    /// Returns the recorded size of the queue, and the age of its oldest logout in seconds.
    pub(super) fn last_queue(&self) -> (u64, u64) {
        let value = |gauge: &IntGauge| u64::try_from(gauge.get()).unwrap_or_default();
        (value(&self.waiting), value(&self.oldest))
    }
}
