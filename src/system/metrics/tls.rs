//! Metrics of TLS: certificates, key exchanges and ACME orders.

use std::path::Path;

use prometheus::{Histogram, HistogramOpts, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use super::registry::SeriesRegistry;
use crate::tls::take_key_exchanges;

/// Upper bounds of the buckets of signature times, in seconds. The range covers PKCS#11 tokens in
/// memory and failing tokens.
const SIGN_BUCKETS: [f64; 12] = [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.25, 1.0, 5.0];

pub(super) struct TlsSeries {
    certificates: IntGaugeVec,
    key_exchanges: IntCounterVec,
    sign_seconds: Histogram,
    sign_errors: IntCounterVec,
    acme_orders: IntCounterVec,
    acme_failing: IntGauge,
}

/// Result of an order at an ACME authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcmeOutcome {
    Issued,
    /// The authority refused the order or could not validate the host.
    Rejected,
    /// A rate limit of the authority was exceeded.
    Limited,
    /// The authority could not be reached, or failed with an internal error.
    Unreachable,
    /// Any other error: of the account or of this machine.
    Failed,
}

impl AcmeOutcome {
    const ALL: [Self; 5] = [Self::Issued, Self::Rejected, Self::Limited, Self::Unreachable, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Rejected => "rejected",
            Self::Limited => "limited",
            Self::Unreachable => "unreachable",
            Self::Failed => "failed",
        }
    }
}

impl TlsSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let certificates = Opts::new(
            "sealgate_tls_certificate_not_after_timestamp_seconds",
            "Expiry time of a TLS certificate in use.",
        );
        let certificates = IntGaugeVec::new(certificates, &["file"])?;
        registry.register("gauge", &certificates)?;
        let key_exchanges = Opts::new(
            "sealgate_tls_key_exchanges_total",
            "Completed TLS key exchanges. `client` is a client of the public listeners; `server` is an application, a mail \
             server or another server that Sealgate connects to. A resumed TLS 1.2 session has no key exchange.",
        );
        let key_exchanges = IntCounterVec::new(key_exchanges, &["peer", "group"])?;
        registry.register("counter", &key_exchanges)?;
        let sign_seconds = HistogramOpts::new(
            "sealgate_tls_sign_seconds",
            "Time of one signature of a TLS handshake with a key in the PKCS#11 token, including the wait for a session.",
        );
        let sign_seconds = Histogram::with_opts(sign_seconds.buckets(SIGN_BUCKETS.to_vec()))?;
        registry.register("histogram", &sign_seconds)?;
        let sign_errors = Opts::new(
            "sealgate_tls_sign_errors_total",
            "TLS handshakes that failed because the PKCS#11 token did not sign, by class.",
        );
        let sign_errors = IntCounterVec::new(sign_errors, &["class"])?;
        registry.register("counter", &sign_errors)?;
        let acme_orders = Opts::new("sealgate_acme_orders_total", "Orders of certificates by ACME, by result.");
        let acme_orders = IntCounterVec::new(acme_orders, &["result"])?;
        registry.register("counter", &acme_orders)?;
        let acme_failing = IntGauge::new(
            "sealgate_acme_failing_hosts",
            "Hosts whose last certificate order failed. Their current certificates stay in use.",
        )?;
        registry.register("gauge", &acme_failing)?;
        Ok(Self { certificates, key_exchanges, sign_seconds, sign_errors, acme_orders, acme_failing })
    }

    pub(super) fn init_labels(&self) {
        self.take_key_exchanges();
        for outcome in AcmeOutcome::ALL {
            self.acme_orders.with_label_values(&[outcome.as_str()]);
        }
    }

    pub(super) fn init_sign_errors(&self, class: &'static str) {
        self.sign_errors.with_label_values(&[class]);
    }

    pub(super) fn signed(&self, seconds: f64) {
        self.sign_seconds.observe(seconds);
    }

    pub(super) fn sign_failed(&self, class: &'static str) {
        self.sign_errors.with_label_values(&[class]).inc();
    }

    pub(super) fn acme_ordered(&self, outcome: AcmeOutcome) {
        self.acme_orders.with_label_values(&[outcome.as_str()]).inc();
    }

    pub(super) fn acme_failing(&self, hosts: usize) {
        self.acme_failing.set(i64::try_from(hosts).unwrap_or(i64::MAX));
    }

    pub(super) fn certificate(&self, file: &Path, ends: i64) {
        self.certificates.with_label_values(&[&file.to_string_lossy()]).set(ends);
    }

    pub(super) fn forget_certificate(&self, file: &Path) {
        // Fails only if the certificate has no series, which needs no handling.
        let _ = self.certificates.remove_label_values(&[&file.to_string_lossy()]);
    }

    /// Adds the key exchanges since the previous call. The first call creates the series.
    pub(super) fn take_key_exchanges(&self) {
        for (peer, group, completed) in take_key_exchanges() {
            self.key_exchanges.with_label_values(&[peer.as_str(), group.as_str()]).inc_by(completed);
        }
    }
}
