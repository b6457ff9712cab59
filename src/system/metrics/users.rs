//! Metrics of self-registration and of second factors.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::metrics::registry::SeriesRegistry;
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationMethod};

/// Stage that a self-registration reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// A message was put into the outbox.
    Begun,
    /// Rate limited by e-mail address, by network or globally; no message was sent.
    Throttled,
    /// The store of pending registrations was full.
    Dropped,
    WrongCode,
    /// The address was verified.
    Proven,
    /// Another account had acquired the address in the meantime.
    Taken,
    Created,
}

impl RegistrationOutcome {
    pub(super) const ALL: [Self; 7] =
        [Self::Begun, Self::Throttled, Self::Dropped, Self::WrongCode, Self::Proven, Self::Taken, Self::Created];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Throttled => "throttled",
            Self::Dropped => "dropped",
            Self::WrongCode => "wrong_code",
            Self::Proven => "proven",
            Self::Taken => "taken",
            Self::Created => "created",
        }
    }
}

pub(super) struct FactorSeries {
    levels: IntCounterVec,
    attempts: IntCounterVec,
    users: IntGaugeVec,
    resets: IntGauge,
}

/// Result of an attempt to verify a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorOutcome {
    Succeeded,
    Failed,
    /// The attempt was not verified, because the delay after earlier failures had not passed.
    Throttled,
    /// Rejected: the factor is blocked until an administrator unblocks it.
    Blocked,
}

impl FactorOutcome {
    const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::Throttled, Self::Blocked];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Throttled => "throttled",
            Self::Blocked => "blocked",
        }
    }
}

/// Numbers of enabled users by their strongest factor. Each user is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnrolmentShare {
    /// Users who have only a password.
    pub none: u64,
    /// Users who have an authenticator app and no security key or passkey.
    pub totp: u64,
    /// Users who have a security key and no passkey.
    pub security_key: u64,
    pub passkey: u64,
    /// Users whose factors were reset and who have not enrolled a factor since. The other numbers
    /// include these users too.
    pub reset: u64,
}

impl EnrolmentShare {
    /// Returns the number of all counted users.
    pub fn users(&self) -> u64 {
        self.none + self.enrolled()
    }

    /// Returns the number of users who have at least one factor.
    pub fn enrolled(&self) -> u64 {
        self.totp + self.security_key + self.passkey
    }

    fn by_factor(&self) -> [(&'static str, u64); 4] {
        [("none", self.none), ("totp", self.totp), ("security_key", self.security_key), ("passkey", self.passkey)]
    }
}

/// Returns the label of a factor. Returns `None` for passwords and OpenID providers, which
/// `sealgate_sign_ins_total` and `sealgate_upstream_sign_ins_total` count.
fn factor(method: AuthenticationMethod) -> Option<&'static str> {
    let is_first = matches!(method, AuthenticationMethod::Password | AuthenticationMethod::Upstream);
    (!is_first).then(|| method.as_str())
}

impl FactorSeries {
    pub(super) fn new(registry: &SeriesRegistry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, prometheus::Error> {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register("counter", &counters)?;
            Ok(counters)
        };
        let users = IntGaugeVec::new(
            Opts::new(
                "sealgate_people",
                "Enabled users by their strongest factor besides a password; counted every five minutes.",
            ),
            &["factor"],
        )?;
        registry.register("gauge", &users)?;
        let resets = IntGauge::new(
            "sealgate_people_reset",
            "Enabled users whose factors were reset and who have not enrolled a factor since; counted every five minutes.",
        )?;
        registry.register("gauge", &resets)?;
        Ok(Self {
            levels: counters(
                "sealgate_sign_in_levels_total",
                "Successful sign-ins and step-ups, by level reached (acr).",
                &["level"],
            )?,
            attempts: counters(
                "sealgate_factor_attempts_total",
                "Attempts with second factors and passkeys; throttled and blocked attempts were not verified.",
                &["factor", "outcome"],
            )?,
            users,
            resets,
        })
    }

    /// Sets series with fixed labels to zero.
    ///
    /// The numbers of users have no series until the first count, because zero would be wrong.
    pub(super) fn init_labels(&self) {
        for level in [AssuranceLevel::One, AssuranceLevel::Two, AssuranceLevel::PhishingResistant] {
            self.levels.with_label_values(&[level.as_str()]);
        }
        let methods = [
            AuthenticationMethod::Totp,
            AuthenticationMethod::RecoveryCode,
            AuthenticationMethod::SecurityKey,
            AuthenticationMethod::Passkey,
        ];
        for factor in methods.into_iter().filter_map(factor) {
            for outcome in FactorOutcome::ALL {
                self.attempts.with_label_values(&[factor, outcome.as_str()]);
            }
        }
    }

    pub(super) fn reached(&self, level: AssuranceLevel) {
        self.levels.with_label_values(&[level.as_str()]).inc();
    }

    pub(super) fn count_attempt(&self, method: AuthenticationMethod, outcome: FactorOutcome) {
        if let Some(factor) = factor(method) {
            self.attempts.with_label_values(&[factor, outcome.as_str()]).inc();
        }
    }

    pub(super) fn enrolled(&self, enrolment: &EnrolmentShare) {
        for (factor, users) in enrolment.by_factor() {
            self.users.with_label_values(&[factor]).set(i64::try_from(users).unwrap_or(i64::MAX));
        }
        self.resets.set(i64::try_from(enrolment.reset).unwrap_or(i64::MAX));
    }
}
