//! Metrics of e-mail.

use prometheus::{IntCounterVec, IntGauge, Opts};

use super::registry::SeriesRegistry;
use sealgate_domain::mail::{DeadReason, MailKind};

pub(super) struct MailSeries {
    mails: IntCounterVec,
    waiting: IntGauge,
    oldest: IntGauge,
    dead: IntGauge,
    usable: IntGauge,
}

/// Outcome of an attempt to create or send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailOutcome {
    Sent,
    /// The mail server did not accept the message; the delivery will be retried.
    Postponed,
    /// No further attempt will be made.
    GivenUp(DeadReason),
    /// The outbox was full.
    Dropped,
}

impl MailOutcome {
    const ALL: [Self; 7] = [
        Self::Sent,
        Self::Postponed,
        Self::Dropped,
        Self::GivenUp(DeadReason::Expired),
        Self::GivenUp(DeadReason::Refused),
        Self::GivenUp(DeadReason::Unsendable),
        Self::GivenUp(DeadReason::Failed),
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Postponed => "postponed",
            Self::Dropped => "dropped",
            Self::GivenUp(reason) => reason.as_str(),
        }
    }
}

impl MailSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let mails = IntCounterVec::new(
            Opts::new(
                "sealgate_mails_total",
                "E-mails by result of a delivery attempt. `dropped`: the outbox was full; `expired`, `refused`, `unsendable` and `failed`: no further attempt is made.",
            ),
            &["kind", "outcome"],
        )?;
        registry.register("counter", &mails)?;
        let gauge = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let gauge = IntGauge::new(name, help)?;
            registry.register("gauge", &gauge)?;
            Ok(gauge)
        };
        Ok(Self {
            mails,
            waiting: gauge("sealgate_mails_waiting", "E-mails in the outbox; counted every 15 seconds.")?,
            oldest: gauge(
                "sealgate_mail_oldest_waiting_seconds",
                "Age of the oldest e-mail in the outbox; 0 when the outbox is empty.",
            )?,
            dead: gauge("sealgate_mails_dead", "E-mails that could not be delivered; they are kept for 30 days.")?,
            usable: gauge(
                "sealgate_mail_server_usable",
                "1 if the mail server was usable at the last attempt, else 0; 1 before the first attempt.",
            )?,
        })
    }

    /// Sets series with fixed labels to zero. The mail server counts as usable before the first
    /// attempt.
    pub(super) fn init_labels(&self) {
        self.usable.set(1);
        for kind in MailKind::ALL {
            for outcome in MailOutcome::ALL {
                self.mails.with_label_values(&[kind.as_str(), outcome.as_str()]);
            }
        }
    }

    pub(super) fn count(&self, kind: MailKind, outcome: MailOutcome) {
        self.mails.with_label_values(&[kind.as_str(), outcome.as_str()]).inc();
    }

    pub(super) fn usable(&self, usable: bool) {
        self.usable.set(i64::from(usable));
    }

    /// Records the size of the outbox. `oldest` is the age of the oldest message in the queue, in
    /// seconds.
    pub(super) fn outbox(&self, waiting: usize, dead: usize, oldest: u64) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.dead.set(i64::try_from(dead).unwrap_or(i64::MAX));
        self.oldest.set(i64::try_from(oldest).unwrap_or(i64::MAX));
    }
}
