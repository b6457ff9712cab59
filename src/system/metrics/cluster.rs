//! Metrics of clusters. With another store than PostgreSQL they stay at zero.

use prometheus::{Gauge, Histogram, HistogramOpts, IntCounterVec, IntGauge, Opts};

use super::registry::{SECONDS, SeriesRegistry};

const CONNECTED: &str = "ok";
const FAILED: &str = "failed";

pub(super) struct ClusterSeries {
    beat_seconds: Histogram,
    last_beat: Gauge,
    nodes: IntGauge,
    clock_offset: Gauge,
    reruns: IntCounterVec,
    connects: IntCounterVec,
    timeline: IntGauge,
}

impl ClusterSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| -> Result<Gauge, prometheus::Error> {
            let gauge = Gauge::new(name, help)?;
            registry.register("gauge", &gauge)?;
            Ok(gauge)
        };
        let options = HistogramOpts::new(
            "sealgate_cluster_heartbeat_seconds",
            "Duration of one heartbeat of this node to the database.",
        );
        let beat_seconds = Histogram::with_opts(options.buckets(SECONDS.to_vec()))?;
        registry.register("histogram", &beat_seconds)?;
        let nodes = IntGauge::new("sealgate_cluster_nodes", "Nodes with a heartbeat in the last five seconds.")?;
        registry.register("gauge", &nodes)?;
        let counters = |name: &str, help: &str, label: &str| -> Result<IntCounterVec, prometheus::Error> {
            let counters = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register("counter", &counters)?;
            Ok(counters)
        };
        let help = "PostgreSQL timeline of the server that receives commits. It grows with each failover. Nodes with different values write to different servers.";
        let timeline = IntGauge::new("sealgate_store_timeline", help)?;
        registry.register("gauge", &timeline)?;
        Ok(Self {
            reruns: counters(
                "sealgate_store_reruns_total",
                "Retried batches of commits. `unknown`: the result was lost; `cancelled_wait`: the wait for the standby was cancelled; \
                 `rolled_back`: the server rolled the transaction back because of a conflict.",
                "cause",
            )?,
            connects: counters(
                "sealgate_store_connects_total",
                "Searches for a database server that accepts commits; `failed`: no such server was found.",
                "result",
            )?,
            timeline,
            beat_seconds,
            nodes,
            last_beat: gauge(
                "sealgate_cluster_last_heartbeat_timestamp_seconds",
                "Time of the last confirmed heartbeat, by the database's clock; gated requests are answered with 503 when the heartbeat is more than one second old.",
            )?,
            clock_offset: gauge(
                "sealgate_cluster_clock_offset_seconds",
                "Seconds by which the database's clock is ahead of this machine's; beyond two seconds this node refuses gated requests.",
            )?,
        })
    }

    /// Sets the counters of these retry causes, and of the connection results, to zero.
    pub(super) fn init_labels(&self, causes: impl IntoIterator<Item = &'static str>) {
        for cause in causes {
            self.reruns.with_label_values(&[cause]);
        }
        for result in [CONNECTED, FAILED] {
            self.connects.with_label_values(&[result]);
        }
    }

    pub(super) fn rerun(&self, cause: &'static str) {
        self.reruns.with_label_values(&[cause]).inc();
    }

    pub(super) fn connected(&self, timeline: Option<u32>) {
        self.connects.with_label_values(&[if timeline.is_some() { CONNECTED } else { FAILED }]).inc();
        if let Some(timeline) = timeline {
            self.timeline.set(i64::from(timeline));
        }
    }

    pub(super) fn clock_offset(&self) -> f64 {
        self.clock_offset.get()
    }

    pub(super) fn beat(&self, seconds: f64, at: f64, nodes: u32, clock_offset: f64) {
        self.beat_seconds.observe(seconds);
        self.nodes.set(i64::from(nodes));
        self.clock_offset.set(clock_offset);
        self.last_beat.set(at);
    }
}
