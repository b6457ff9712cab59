//! Metrics of OpenID providers whose users sign in.

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};

use crate::metrics::registry::{SECONDS, SeriesRegistry};

/// Result of a sign-in at an OpenID provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamSignInOutcome {
    Succeeded,
    /// The user or the provider denied the sign-in, or the provider returned an error.
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

/// Result of a logout token that an OpenID provider has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamLogoutOutcome {
    Accepted,
    /// The token is not valid, or was accepted before.
    Refused,
    /// The provider's keys could not be read.
    Unavailable,
}

impl UpstreamLogoutOutcome {
    const ALL: [Self; 3] = [Self::Accepted, Self::Refused, Self::Unavailable];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Result of confirming a sign-in with its refresh token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamRefreshOutcome {
    Confirmed,
    /// The provider has ended the user's access, so the sign-in has ended.
    Ended,
    /// The refresh token was lost with the answer to an earlier request.
    Lost,
    /// The answer does not describe an admitted user.
    Refused,
    /// The provider did not decide.
    Unavailable,
}

impl UpstreamRefreshOutcome {
    const ALL: [Self; 5] = [Self::Confirmed, Self::Ended, Self::Lost, Self::Refused, Self::Unavailable];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Ended => "ended",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        }
    }
}

pub(super) struct OpenIdProviderSeries {
    sign_ins: IntCounterVec,
    sign_in_seconds: HistogramVec,
    logouts: IntCounterVec,
    refreshes: IntCounterVec,
    answered_at: IntGaugeVec,
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
        let logouts = IntCounterVec::new(
            Opts::new("sealgate_upstream_logout_tokens_total", "Logout tokens that arrived for an OpenID provider."),
            &["upstream", "outcome"],
        )?;
        registry.register("counter", &logouts)?;
        let refreshes = IntCounterVec::new(
            Opts::new("sealgate_upstream_refreshes_total", "Sign-ins that were confirmed with a refresh token."),
            &["upstream", "outcome"],
        )?;
        registry.register("counter", &refreshes)?;
        let answered_at = Opts::new(
            "sealgate_upstream_answer_timestamp_seconds",
            "Time at which an OpenID provider last answered, or at which there was nothing to ask, seconds since 1970; \
             at first the time of the start.",
        );
        let answered_at = IntGaugeVec::new(answered_at, &["upstream"])?;
        registry.register("gauge", &answered_at)?;
        Ok(Self { sign_ins, sign_in_seconds, logouts, refreshes, answered_at })
    }

    /// Sets the series of a provider to their initial values. `now` is in seconds since 1970.
    pub(super) fn init_labels(&self, upstream: &str, now: u64) {
        self.answered(upstream, now);
        for outcome in UpstreamRefreshOutcome::ALL {
            self.refreshes.with_label_values(&[upstream, outcome.as_str()]);
        }
        for outcome in UpstreamSignInOutcome::ALL {
            self.sign_ins.with_label_values(&[upstream, outcome.as_str()]);
        }
        for outcome in UpstreamLogoutOutcome::ALL {
            self.logouts.with_label_values(&[upstream, outcome.as_str()]);
        }
    }

    pub(super) fn refreshed(&self, upstream: &str, outcome: UpstreamRefreshOutcome) {
        self.refreshes.with_label_values(&[upstream, outcome.as_str()]).inc();
    }

    pub(super) fn answered(&self, upstream: &str, at: u64) {
        self.answered_at.with_label_values(&[upstream]).set(i64::try_from(at).unwrap_or(i64::MAX));
    }

    pub(super) fn logged_out(&self, upstream: &str, outcome: UpstreamLogoutOutcome) {
        self.logouts.with_label_values(&[upstream, outcome.as_str()]).inc();
    }

    pub(super) fn signed_in(&self, upstream: &str, outcome: UpstreamSignInOutcome, seconds: f64) {
        self.sign_ins.with_label_values(&[upstream, outcome.as_str()]).inc();
        self.sign_in_seconds.with_label_values(&[upstream]).observe(seconds);
    }
}
