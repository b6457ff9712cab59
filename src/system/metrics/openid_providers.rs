//! Metrics of OpenID providers whose users sign in.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

use crate::metrics::registry::{SECONDS, SeriesRegistry};

/// Result of a sign-in at an OpenID provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamSignInOutcome {
    Succeeded,
    /// The user or the provider denied the sign-in.
    Denied,
    /// The account is not admitted here: its claims, its groups, its state or its age.
    Refused,
    /// Another user has the address or username of the account, or the account has neither.
    NameRefused,
    /// The answer is not valid, for instance because it belongs to another provider.
    Invalid,
    /// The provider did not answer.
    Unavailable,
}

impl UpstreamSignInOutcome {
    const ALL: [Self; 6] =
        [Self::Succeeded, Self::Denied, Self::Refused, Self::NameRefused, Self::Invalid, Self::Unavailable];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::NameRefused => "name_refused",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
        }
    }
}

pub(super) struct OpenIdProviderSeries {
    sign_ins: IntCounterVec,
    sign_in_seconds: HistogramVec,
}

impl OpenIdProviderSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let sign_ins = IntCounterVec::new(
            Opts::new("sealgate_upstream_sign_ins_total", "Answers of an OpenID provider to sign-ins."),
            &["upstream", "outcome"],
        )?;
        registry.register("counter", &sign_ins)?;
        let options = HistogramOpts::new(
            "sealgate_upstream_sign_in_seconds",
            "Time in which a code of an OpenID provider was redeemed, with all requests to the provider.",
        );
        let sign_in_seconds = HistogramVec::new(options.buckets(SECONDS.to_vec()), &["upstream"])?;
        registry.register("histogram", &sign_in_seconds)?;
        Ok(Self { sign_ins, sign_in_seconds })
    }

    /// Sets the series of a provider to zero.
    pub(super) fn init_labels(&self, upstream: &str) {
        for outcome in UpstreamSignInOutcome::ALL {
            self.sign_ins.with_label_values(&[upstream, outcome.as_str()]);
        }
    }

    pub(super) fn signed_in(&self, upstream: &str, outcome: UpstreamSignInOutcome, seconds: f64) {
        self.sign_ins.with_label_values(&[upstream, outcome.as_str()]).inc();
        self.sign_in_seconds.with_label_values(&[upstream]).observe(seconds);
    }
}
