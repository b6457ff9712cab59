//! Metrics of the applications' servers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use prometheus::{IntGaugeVec, Opts};

use super::registry::SeriesRegistry;

pub(super) struct UpstreamSeries {
    up: IntGaugeVec,
    /// Labels of the current series.
    known: Mutex<BTreeMap<(String, String), bool>>,
}

impl UpstreamSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let up = Opts::new(
            "sealgate_upstream_up",
            "1 if a server of an application passes its health check, 0 if it gets no requests because it fails.",
        );
        let up = IntGaugeVec::new(up, &["app", "server"])?;
        registry.register("gauge", &up)?;
        Ok(Self { up, known: Mutex::default() })
    }

    /// Replaces the states. Each has an application, one of its servers, and whether that is up.
    ///
    /// Several lists of an application may contain the same server.
    pub(super) fn set(&self, states: &[(String, String, bool)]) {
        let mut current = BTreeMap::new();
        for (app, server, up) in states {
            *current.entry((app.clone(), server.clone())).or_insert(false) |= up;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (app, server) in known.keys().filter(|labels| !current.contains_key(labels)) {
            // Fails only if the series does not exist.
            let _ = self.up.remove_label_values(&[app, server]);
        }
        for ((app, server), up) in &current {
            self.up.with_label_values(&[app, server]).set(i64::from(*up));
        }
        *known = current;
    }
}
