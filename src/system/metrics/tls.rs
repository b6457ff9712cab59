//! The series about TLS.

use std::path::Path;

use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use super::book::SeriesRegistry;
use crate::tls::take_key_exchanges;

pub(super) struct TlsSeries {
    certificates: IntGaugeVec,
    key_exchanges: IntCounterVec,
}

impl TlsSeries {
    pub(super) fn new(book: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let certificates = Opts::new(
            "sealgate_tls_certificate_not_after_timestamp_seconds",
            "Expiry time of a TLS certificate in use.",
        );
        let certificates = IntGaugeVec::new(certificates, &["file"])?;
        book.enter("gauge", &certificates)?;
        let key_exchanges = Opts::new(
            "sealgate_tls_key_exchanges_total",
            "Completed TLS key exchanges. `client` is a client of the public listeners; `server` is an application, a mail \
             server or another server that Sealgate connects to. A resumed TLS 1.2 session has no key exchange.",
        );
        let key_exchanges = IntCounterVec::new(key_exchanges, &["peer", "group"])?;
        book.enter("counter", &key_exchanges)?;
        Ok(Self { certificates, key_exchanges })
    }

    pub(super) fn certificate(&self, file: &Path, ends: i64) {
        self.certificates.with_label_values(&[&file.to_string_lossy()]).set(ends);
    }

    pub(super) fn forget_certificate(&self, file: &Path) {
        // Fails only if the certificate was never recorded.
        let _ = self.certificates.remove_label_values(&[&file.to_string_lossy()]);
    }

    /// Adds the key exchanges since the last call, and creates the series at the first.
    pub(super) fn take_key_exchanges(&self) {
        for (peer, group, completed) in take_key_exchanges() {
            self.key_exchanges.with_label_values(&[peer.as_str(), group.as_str()]).inc_by(completed);
        }
    }
}
