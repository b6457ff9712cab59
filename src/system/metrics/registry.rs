//! Registry of all series. It also keeps the description of each series for the reference page.

use std::cell::RefCell;

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{IntGauge, Opts, Registry};

/// Bounds of the histogram buckets, in seconds.
pub(super) const SECONDS: [f64; 14] =
    [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0];

/// Description of one series: a row of the reference page.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) labels: Vec<String>,
    pub(super) help: String,
}

/// Prometheus registry, together with the descriptions of its series.
#[derive(Default)]
pub(super) struct SeriesRegistry {
    pub(super) registry: Registry,
    pub(super) series: RefCell<Vec<Series>>,
}

impl SeriesRegistry {
    /// Creates a registry with the series about the build and the process.
    pub(super) fn with_process_series() -> Result<Self, prometheus::Error> {
        let registry = Self::default();
        registry.register_build()?;
        registry.register_process()?;
        Ok(registry)
    }

    pub(super) fn register(
        &self,
        kind: &'static str,
        collector: &(impl Collector + Clone + 'static),
    ) -> Result<(), prometheus::Error> {
        self.note(kind, collector);
        self.registry.register(Box::new(collector.clone()))
    }

    fn register_build(&self) -> Result<(), prometheus::Error> {
        let build = IntGauge::with_opts(
            Opts::new("sealgate_build_info", "Always 1; the label contains the version.")
                .const_label("version", env!("CARGO_PKG_VERSION")),
        )?;
        build.set(1);
        self.register("gauge", &build)
    }

    /// Registers the process metrics, with the standard names of Prometheus clients.
    fn register_process(&self) -> Result<(), prometheus::Error> {
        let process = ProcessCollector::for_self();
        self.note("gauge", &process);
        self.registry.register(Box::new(process))
    }

    fn note(&self, kind: &'static str, collector: &impl Collector) {
        let mut series = self.series.borrow_mut();
        for desc in collector.desc() {
            let fixed = desc.const_label_pairs.iter().map(|pair| pair.name().to_owned());
            series.push(Series {
                name: desc.fq_name.clone(),
                kind: if desc.fq_name.ends_with("_total") { "counter" } else { kind },
                labels: fixed.chain(desc.variable_labels.iter().cloned()).collect(),
                help: desc.help.trim_end_matches('.').to_owned() + ".",
            });
        }
    }
}
