//! Metrics of rate limits.

use prometheus::{IntCounterVec, Opts};

use super::registry::SeriesRegistry;

pub(super) struct LimitSeries {
    decisions: IntCounterVec,
    blocks: IntCounterVec,
}

/// Result of a request for a share of a cluster-wide limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOutcome {
    Granted,
    /// The node received less than it requested, or nothing.
    Short,
    /// The node received no response and uses its own count.
    Local,
}

impl BlockOutcome {
    const ALL: [Self; 3] = [Self::Granted, Self::Short, Self::Local];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Short => "short",
            Self::Local => "local",
        }
    }
}

impl LimitSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, prometheus::Error> {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register("counter", &counters)?;
            Ok(counters)
        };
        Ok(Self {
            decisions: counters(
                "sealgate_rate_limit_decisions_total",
                "Rate limit decisions.",
                &["endpoint", "decision"],
            )?,
            blocks: counters(
                "sealgate_limit_blocks_total",
                "Requests of this node for a share of a cluster-wide limit. `short`: the node received \
                 less than it requested; `local`: the node received no answer and counted the request \
                 against its own share.",
                &["result"],
            )?,
        })
    }

    pub(super) fn init_labels(&self) {
        for outcome in BlockOutcome::ALL {
            self.blocks.with_label_values(&[outcome.as_str()]);
        }
    }

    pub(super) fn decided(&self, endpoint: &str, allowed: bool) {
        let decision = if allowed { "allowed" } else { "limited" };
        self.decisions.with_label_values(&[endpoint, decision]).inc();
    }

    pub(super) fn block_requested(&self, outcome: BlockOutcome) {
        self.blocks.with_label_values(&[outcome.as_str()]).inc();
    }
}
