//! Metrics of the export of traces.

use prometheus::{IntCounter, IntCounterVec, Opts};

use super::registry::SeriesRegistry;

pub(super) struct TraceSeries {
    spans: IntCounterVec,
    failures: IntCounter,
}

impl TraceSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let help = "Spans of requests. `exported`: the collector accepted them; `dropped`: the queue was full, or the \
            collector refused them.";
        let spans = IntCounterVec::new(Opts::new("sealgate_trace_spans_total", help), &["outcome"])?;
        registry.register("counter", &spans)?;
        let help = "Requests to the collector of traces that failed.";
        let failures = IntCounter::new("sealgate_trace_export_failures_total", help)?;
        registry.register("counter", &failures)?;
        Ok(Self { spans, failures })
    }

    /// Sets series with fixed labels to zero.
    pub(super) fn init_labels(&self) {
        self.exported(0);
        self.dropped(0);
    }

    pub(super) fn exported(&self, spans: usize) {
        self.spans.with_label_values(&["exported"]).inc_by(spans as u64);
    }

    pub(super) fn dropped(&self, spans: usize) {
        self.spans.with_label_values(&["dropped"]).inc_by(spans as u64);
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }
}
