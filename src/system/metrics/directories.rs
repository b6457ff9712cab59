//! Metrics of LDAP directories.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};

use crate::metrics::registry::{SECONDS, SeriesRegistry};

/// Result of a sign-in that a directory decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectorySignInOutcome {
    Succeeded,
    /// The name is unknown or the password is wrong.
    Wrong,
    /// The password is correct, and the directory does not admit the account.
    Refused,
    /// Another user has the address or username of the account, or the account has neither.
    NameRefused,
    /// The directory did not decide.
    Unavailable,
}

impl DirectorySignInOutcome {
    const ALL: [Self; 5] = [Self::Succeeded, Self::Wrong, Self::Refused, Self::NameRefused, Self::Unavailable];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Wrong => "wrong",
            Self::Refused => "refused",
            Self::NameRefused => "name_refused",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Result of reading the signed-in users of a directory again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryReadOutcome {
    Complete {
        /// Number of users that were read.
        users: usize,
        /// Time of the read, in seconds since 1970.
        at: u64,
    },
    /// So many accounts were gone that their users were not signed out.
    HeldBack,
    Failed,
}

impl DirectoryReadOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Complete { .. } => "complete",
            Self::HeldBack => "held_back",
            Self::Failed => "failed",
        }
    }
}

pub(super) struct DirectorySeries {
    sign_ins: IntCounterVec,
    sign_in_seconds: HistogramVec,
    reads: IntCounterVec,
    read_at: IntGaugeVec,
    users: IntGaugeVec,
    held_back: IntGaugeVec,
}

impl DirectorySeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str| -> Result<IntCounterVec, prometheus::Error> {
            let counters = IntCounterVec::new(Opts::new(name, help), &["directory", "outcome"])?;
            registry.register("counter", &counters)?;
            Ok(counters)
        };
        let gauges = |name: &str, help: &str| -> Result<IntGaugeVec, prometheus::Error> {
            let gauges = IntGaugeVec::new(Opts::new(name, help), &["directory"])?;
            registry.register("gauge", &gauges)?;
            Ok(gauges)
        };
        let options = HistogramOpts::new(
            "sealgate_directory_sign_in_seconds",
            "Time in which a directory decided a sign-in, with the searches.",
        );
        let sign_in_seconds = HistogramVec::new(options.buckets(SECONDS.to_vec()), &["directory"])?;
        registry.register("histogram", &sign_in_seconds)?;
        Ok(Self {
            sign_ins: counters("sealgate_directory_sign_ins_total", "Passwords that a directory was asked to check.")?,
            sign_in_seconds,
            reads: counters(
                "sealgate_directory_reads_total",
                "Rounds in which the signed-in users of a directory were read again.",
            )?,
            read_at: gauges(
                "sealgate_directory_read_timestamp_seconds",
                "Time of the last complete round, seconds since 1970; at first the time of the start.",
            )?,
            users: gauges("sealgate_directory_users", "Users of a directory who have access, in the last round.")?,
            held_back: gauges(
                "sealgate_directory_held_back",
                "1 while so many accounts are gone that nobody is signed out.",
            )?,
        })
    }

    /// Sets the series of a directory to their initial values. `now` is in seconds since 1970.
    pub(super) fn init_labels(&self, directory: &str, now: u64) {
        for outcome in DirectorySignInOutcome::ALL {
            self.sign_ins.with_label_values(&[directory, outcome.as_str()]);
        }
        for outcome in [
            DirectoryReadOutcome::Complete { users: 0, at: now },
            DirectoryReadOutcome::HeldBack,
            DirectoryReadOutcome::Failed,
        ] {
            self.reads.with_label_values(&[directory, outcome.as_str()]);
        }
        self.read_at.with_label_values(&[directory]).set(i64::try_from(now).unwrap_or(i64::MAX));
        self.users.with_label_values(&[directory]).set(0);
        self.held_back.with_label_values(&[directory]).set(0);
    }

    pub(super) fn signed_in(&self, directory: &str, outcome: DirectorySignInOutcome, seconds: f64) {
        self.sign_ins.with_label_values(&[directory, outcome.as_str()]).inc();
        self.sign_in_seconds.with_label_values(&[directory]).observe(seconds);
    }

    pub(super) fn was_read(&self, directory: &str, outcome: DirectoryReadOutcome) {
        self.reads.with_label_values(&[directory, outcome.as_str()]).inc();
        if let DirectoryReadOutcome::Complete { users, at } = outcome {
            self.users.with_label_values(&[directory]).set(i64::try_from(users).unwrap_or(i64::MAX));
            self.read_at.with_label_values(&[directory]).set(i64::try_from(at).unwrap_or(i64::MAX));
        }
        // A failed read says nothing about lost accounts.
        if outcome != DirectoryReadOutcome::Failed {
            let held_back = i64::from(outcome == DirectoryReadOutcome::HeldBack);
            self.held_back.with_label_values(&[directory]).set(held_back);
        }
    }
}
