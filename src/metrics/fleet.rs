//! The series about a store that several nodes share. All are there with other stores too, and stay at zero.

use prometheus::{Gauge, Histogram, HistogramOpts, IntGauge};

use super::book::{Book, SECONDS};

pub(super) struct FleetSeries {
    beat_seconds: Histogram,
    last_beat: Gauge,
    nodes: IntGauge,
    clock_offset: Gauge,
}

impl FleetSeries {
    pub(super) fn new(book: &Book) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| -> Result<Gauge, prometheus::Error> {
            let gauge = Gauge::new(name, help)?;
            book.enter("gauge", &gauge)?;
            Ok(gauge)
        };
        let options =
            HistogramOpts::new("sealgate_fleet_beat_seconds", "Time of one beat of this node to the database.");
        let beat_seconds = Histogram::with_opts(options.buckets(SECONDS.to_vec()))?;
        book.enter("histogram", &beat_seconds)?;
        let nodes = IntGauge::new("sealgate_fleet_nodes", "Nodes that have beaten in the last five seconds.")?;
        book.enter("gauge", &nodes)?;
        Ok(Self {
            beat_seconds,
            nodes,
            last_beat: gauge(
                "sealgate_fleet_last_beat_timestamp_seconds",
                "When the last beat came back, by the database's clock; gated requests are answered 503 when that is a second ago.",
            )?,
            clock_offset: gauge(
                "sealgate_fleet_clock_offset_seconds",
                "How far the database's clock is ahead of this machine's; beyond two seconds this node decides nothing.",
            )?,
        })
    }

    pub(super) fn beat(&self, seconds: f64, at: f64, nodes: u32, clock_offset: f64) {
        self.beat_seconds.observe(seconds);
        self.nodes.set(i64::from(nodes));
        self.clock_offset.set(clock_offset);
        self.last_beat.set(at);
    }
}
