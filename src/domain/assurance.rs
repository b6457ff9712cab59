//! Authentication assurance: the steps of a sign-in, and the level that the steps reach.
//!
//! Levels are ordered, and a higher level satisfies a request for a lower level:
//!
//! - `1` is one factor.
//! - `2` is two factors.
//! - `3` is two factors that resist phishing. Its other name is `phr` (OpenID Extended
//!   Authentication Profile ACR Values 1.0 §2).
//!
//! Level 3 is neither AAL3 of NIST SP 800-63B, which requires keys that cannot be exported, nor
//! `phrh`, which requires attested hardware.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::amr::AmrValues;
use crate::id::Id;
use crate::time::UnixTime;

/// Supported values of `acr` (`acr_values_supported`).
pub(crate) const ACR_VALUES: [&str; 4] = ["1", "2", "3", "phr"];

/// Assurance level, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AssuranceLevel {
    One,
    Two,
    /// Two factors that a phishing site cannot relay.
    PhishingResistant,
}

impl AssuranceLevel {
    /// Parses a value of `acr`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "1" => Some(Self::One),
            "2" => Some(Self::Two),
            "3" | "phr" => Some(Self::PhishingResistant),
            _ => None,
        }
    }

    /// Returns the claim `acr`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::PhishingResistant => "3",
        }
    }

    /// Returns whether this level is at least `demanded`.
    pub fn meets(self, demanded: Self) -> bool {
        self >= demanded
    }

    /// Returns whether this level satisfies at least one of these context classes.
    ///
    /// Unknown values belong to other issuers. No sign-in at this issuer satisfies them.
    pub fn reaches_one_of(self, demanded: &[String]) -> bool {
        Self::lowest_of(demanded).is_some_and(|lowest| self.meets(lowest))
    }

    /// Returns the lowest level among these context classes.
    pub fn lowest_of(classes: &[String]) -> Option<Self> {
        classes.iter().filter_map(|class| Self::parse(class)).min()
    }

    /// Returns the first level in `acr_values` that the user can reach.
    ///
    /// `acr_values` is in order of preference. Unknown values are ignored (OpenID Connect Core
    /// §3.1.2.1).
    pub fn requested(acr_values: &str, reachable: Self) -> Option<Self> {
        acr_values.split(' ').filter_map(Self::parse).find(|level| reachable.meets(*level))
    }
}

impl fmt::Display for AssuranceLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for AssuranceLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AssuranceLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?)
            .ok_or_else(|| serde::de::Error::custom("a level is \"1\", \"2\" or \"3\" (\"phr\")"))
    }
}

/// Id of one of a user's factors.
pub type FactorId = Id<'f'>;

impl FactorId {
    /// Returns the id of the key with this credential id. The factor id is a hash, because a
    /// credential id may have 1,023 bytes.
    pub(crate) fn of_credential(id: &[u8]) -> Self {
        let hash: [u8; 32] = Sha256::digest(id).into();
        Self::from_bytes(std::array::from_fn(|at| hash[at]))
    }
}

/// Authentication method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthenticationMethod {
    Password,
    /// Code of an authenticator app.
    Totp,
    RecoveryCode,
    /// Security key, or a passkey without user verification.
    SecurityKey,
    /// Passkey with user verification: two factors at once.
    Passkey,
    /// Sign-in at the user's OpenID provider.
    Upstream,
}

impl AuthenticationMethod {
    /// Returns the name of the method in the audit log, in metrics and in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Totp => "totp",
            Self::RecoveryCode => "recovery_code",
            Self::SecurityKey => "security_key",
            Self::Passkey => "passkey",
            Self::Upstream => "upstream",
        }
    }

    /// Returns the values of `amr` (RFC 8176 §2; `pop` of the ACR values profile §3).
    ///
    /// Authenticators are not attested, so no value claims a kind of hardware, a PIN or a
    /// fingerprint. The values of an OpenID provider are in the step.
    const fn amr(self) -> &'static [&'static str] {
        match self {
            Self::Password => &["pwd"],
            Self::Totp | Self::RecoveryCode => &["otp"],
            Self::SecurityKey | Self::Passkey => &["pop", "user"],
            Self::Upstream => &[],
        }
    }
}

/// Use of an authentication method in a sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthenticationStep {
    pub method: AuthenticationMethod,
    /// Time of the step. For a sign-in at an OpenID provider, the provider's `auth_time`, or 1970 if
    /// the provider did not report it. A sign-in of unknown age exceeds every maximum age.
    pub at: UnixTime,
    /// Authenticator app or key that was used. `None` for a method of which a user can have only
    /// one factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<FactorId>,
    /// Report of the OpenID provider. `None` for other methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamAssurance>,
}

impl AuthenticationStep {
    /// Creates a step with a method of which a user can have only one factor.
    pub const fn new(method: AuthenticationMethod, at: UnixTime) -> Self {
        Self { method, at, factor: None, upstream: None }
    }

    /// Creates the step of a sign-in at an OpenID provider. `at` is its `auth_time`, if reported.
    pub fn at_upstream(assurance: UpstreamAssurance, at: Option<UnixTime>) -> Self {
        let at = at.unwrap_or(UnixTime::from_seconds(0));
        Self { upstream: Some(assurance), ..Self::new(AuthenticationMethod::Upstream, at) }
    }
}

/// Report of an OpenID provider about how a user has signed in there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamAssurance {
    /// Level that the operator grants the sign-in.
    pub level: AssuranceLevel,
    #[serde(default, skip_serializing_if = "AmrValues::is_empty")]
    pub amr: AmrValues,
}

/// Steps of a sign-in: the latest step of each method.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AuthenticationSteps(Vec<AuthenticationStep>);

impl AuthenticationSteps {
    /// Creates the steps of a sign-in that has begun with this step.
    pub fn from_step(step: AuthenticationStep) -> Self {
        Self(vec![step])
    }

    /// Adds a step. It replaces the earlier step of the same method, which a step-up repeats.
    pub fn add(&mut self, step: AuthenticationStep) {
        self.0.retain(|known| known.method != step.method);
        self.0.push(step);
    }

    /// Returns the steps in chronological order.
    pub fn all(&self) -> &[AuthenticationStep] {
        &self.0
    }

    /// Returns the highest level that the steps reach. Returns `None` if there are no steps.
    pub fn level(&self) -> Option<AssuranceLevel> {
        self.level_with(RecoveryCodeWorth::SecondFactor)
    }

    /// Returns the highest level that the steps reach, if recovery codes count as `worth`.
    pub(crate) fn level_with(&self, worth: RecoveryCodeWorth) -> Option<AssuranceLevel> {
        let higher = [AssuranceLevel::PhishingResistant, AssuranceLevel::Two];
        let reached = higher.into_iter().find(|level| self.since_with(*level, worth).is_some());
        reached.or((!self.0.is_empty()).then_some(AssuranceLevel::One))
    }

    /// Returns the claim `auth_time` for a level: the time of the oldest step that the level
    /// requires. `max_age` is counted from this time.
    ///
    /// If several combinations of steps reach the level, the most recent combination counts.
    /// Returns `None` if no combination reaches it.
    pub fn since(&self, level: AssuranceLevel) -> Option<UnixTime> {
        self.since_with(level, RecoveryCodeWorth::SecondFactor)
    }

    /// Returns the time at which the level was reached, if recovery codes count as `worth`.
    ///
    /// Every level requires a step with the password, with a passkey or at the user's OpenID
    /// provider, and the level is never newer than that step. A new code therefore does not make an
    /// old password step recent.
    fn since_with(&self, level: AssuranceLevel, worth: RecoveryCodeWorth) -> Option<UnixTime> {
        use crate::assurance::AuthenticationMethod::{Passkey, Password, RecoveryCode, SecurityKey, Totp, Upstream};

        let last = |method| self.0.iter().filter(|step| step.method == method).map(|step| step.at).max();
        let granted = |level: AssuranceLevel| {
            let grants = |step: &&AuthenticationStep| step.upstream.is_some_and(|upstream| upstream.level.meets(level));
            self.0.iter().filter(grants).map(|step| step.at).max()
        };
        // A sign-in at an OpenID provider counts as the knowledge, like a password.
        let known = last(Password).max(last(Upstream));
        // Two factors must be knowledge and possession. Two possessions count as one factor.
        let with_password = |method| Some(known?.min(last(method)?));
        let recovered = with_password(RecoveryCode);
        let resistant = last(Passkey).max(with_password(SecurityKey)).max(granted(AssuranceLevel::PhishingResistant));
        match level {
            AssuranceLevel::PhishingResistant if worth == RecoveryCodeWorth::LostFactor => resistant.max(recovered),
            AssuranceLevel::PhishingResistant => resistant,
            AssuranceLevel::Two => resistant.max(with_password(Totp)).max(recovered).max(granted(AssuranceLevel::Two)),
            AssuranceLevel::One => known.max(last(Passkey)),
        }
    }

    /// Returns the claim `amr`.
    pub fn amr(&self) -> Vec<String> {
        let mut names: Vec<&str> = Vec::new();
        let several = self.level().is_some_and(|level| level.meets(AssuranceLevel::Two));
        let of_step = |step: &AuthenticationStep| {
            let reported = step.upstream.map(|upstream| upstream.amr).unwrap_or_default();
            step.method.amr().iter().copied().chain(reported.iter())
        };
        for name in self.0.iter().flat_map(of_step).chain(several.then_some("mfa")) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.into_iter().map(str::to_owned).collect()
    }
}

/// Level that a password and a recovery code reach together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryCodeWorth {
    /// Counts as a second factor like the code of an app: level 2.
    SecondFactor,
    /// Counts as the lost factor, whatever the level of that factor. Used only on the account's own
    /// pages, so that a user who lost a security key can add another key.
    LostFactor,
}

/// Required level and age of a sign-in.
///
/// All checks of level and age use this type: access rules of the gateway, clients of the provider,
/// account pages and console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssuranceRequirement {
    pub level: AssuranceLevel,
    /// Maximum age of the steps that the level requires.
    pub max_age: Option<Duration>,
    pub recovery_codes: RecoveryCodeWorth,
}

/// Unmet part of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssuranceShortfall {
    Level(AssuranceLevel),
    /// The sign-in is older than this duration.
    Age(Duration),
}

impl AssuranceRequirement {
    /// Creates a requirement of a level. The sign-in may have any age, and a recovery code is a
    /// second factor.
    pub const fn level(level: AssuranceLevel) -> Self {
        Self { level, max_age: None, recovery_codes: RecoveryCodeWorth::SecondFactor }
    }

    /// Checks the steps of a sign-in.
    ///
    /// # Errors
    /// Returns the unmet part of the requirement. The level is checked first.
    pub fn judge(&self, steps: &AuthenticationSteps, now: UnixTime) -> Result<(), AssuranceShortfall> {
        let since = || steps.since_with(self.level, self.recovery_codes);
        self.judge_reached(steps.level_with(self.recovery_codes), since, now)
    }

    /// Checks a credential that states a level and its time instead of the steps.
    ///
    /// A credential without a time exceeds every maximum age.
    ///
    /// # Errors
    /// Returns the unmet part of the requirement. The level is checked first.
    pub fn judge_reached(
        &self,
        reached: Option<AssuranceLevel>,
        since: impl FnOnce() -> Option<UnixTime>,
        now: UnixTime,
    ) -> Result<(), AssuranceShortfall> {
        if !reached.is_some_and(|reached| reached.meets(self.level)) {
            return Err(AssuranceShortfall::Level(self.level));
        }
        match self.max_age {
            Some(max_age) if since().is_none_or(|since| now.since(since) > max_age) => {
                Err(AssuranceShortfall::Age(max_age))
            }
            _ => Ok(()),
        }
    }
}

/// Level that `[factors]` requires for a user's sign-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelPolicy {
    pub level: AssuranceLevel,
    /// Whether a user who has no factor yet may sign in below this level.
    pub may_postpone: bool,
}

impl LevelPolicy {
    /// Returns the level that applies to a user.
    pub fn in_force(self, has_factor: bool) -> AssuranceLevel {
        if self.may_postpone && !has_factor { AssuranceLevel::One } else { self.level }
    }
}

#[cfg(test)]
mod tests {
    use super::AuthenticationMethod::{Passkey, Password, RecoveryCode, SecurityKey, Totp};
    use super::*;

    fn steps(done: &[(AuthenticationMethod, u64)]) -> AuthenticationSteps {
        let mut steps = AuthenticationSteps::default();
        for (method, at) in done {
            steps.add(AuthenticationStep::new(*method, UnixTime::from_seconds(*at)));
        }
        steps
    }

    fn since(steps: &AuthenticationSteps, level: AssuranceLevel) -> Option<u64> {
        steps.since(level).map(UnixTime::seconds)
    }

    #[test]
    fn levels_have_names_and_an_order() {
        for name in ACR_VALUES {
            let level = AssuranceLevel::parse(name).unwrap();
            assert_eq!(level.as_str(), if name == "phr" { "3" } else { name });
            let stored = serde_json::to_string(&level).unwrap();
            assert_eq!(serde_json::from_str::<AssuranceLevel>(&stored).unwrap(), level);
        }
        for wrong in ["", "0", "4", "phrh", "PHR", "mfa", "1 ", "01", "aal2"] {
            assert_eq!(AssuranceLevel::parse(wrong), None, "{wrong}");
            assert!(serde_json::from_value::<AssuranceLevel>(wrong.into()).is_err());
        }
        let [one, two, three] = ["1", "2", "3"].map(|name| AssuranceLevel::parse(name).unwrap());
        assert!(three.meets(one) && three.meets(two) && three.meets(three) && two.meets(one));
        assert!(!one.meets(two) && !two.meets(three));
    }

    #[test]
    fn each_sign_in_has_its_level_and_amr_values() {
        for (methods, level, amr) in [
            (&[Password][..], "1", &["pwd"][..]),
            (&[Password, Totp], "2", &["pwd", "otp", "mfa"]),
            (&[Password, RecoveryCode], "2", &["pwd", "otp", "mfa"]),
            (&[Password, SecurityKey], "3", &["pwd", "pop", "user", "mfa"]),
            (&[Passkey], "3", &["pop", "user", "mfa"]),
            (&[Password, Totp, Passkey], "3", &["pwd", "otp", "mfa", "pop", "user"]),
            // Two possessions count as one factor.
            (&[Totp, SecurityKey], "1", &["otp", "pop", "user"]),
            (&[SecurityKey], "1", &["pop", "user"]),
            (&[Totp, RecoveryCode], "1", &["otp"]),
        ] {
            let done: Vec<_> = methods.iter().map(|method| (*method, 1)).collect();
            let steps = steps(&done);
            assert_eq!(steps.level().unwrap().as_str(), level, "{methods:?}");
            let (mut amr_values, mut expected) = (steps.amr(), amr.to_vec());
            amr_values.sort_unstable();
            expected.sort_unstable();
            assert_eq!(amr_values, expected, "{methods:?}");
        }
        assert_eq!(AuthenticationSteps::default().level(), None);
        assert!(AuthenticationSteps::default().amr().is_empty());
    }

    #[test]
    fn a_level_is_as_old_as_its_oldest_required_step() {
        let (one, two, three) = (AssuranceLevel::One, AssuranceLevel::Two, AssuranceLevel::PhishingResistant);
        let stepped_up = steps(&[(Password, 100), (Totp, 500)]);
        assert_eq!([one, two, three].map(|level| since(&stepped_up, level)), [Some(100), Some(100), None]);
        // The user types the password again, which makes the code the oldest step.
        let again = steps(&[(Password, 100), (Totp, 500), (Password, 900)]);
        assert_eq!(since(&again, two), Some(500));
        // The user adds a key. Level 2 uses the more recent combination of password and key.
        let with_key = steps(&[(Totp, 100), (Password, 300), (SecurityKey, 400)]);
        assert_eq!([two, three].map(|level| since(&with_key, level)), [Some(300), Some(300)]);
        // A passkey alone reaches the level. Earlier steps do not matter.
        let passkey = steps(&[(Password, 100), (SecurityKey, 200), (Passkey, 700)]);
        assert_eq!([one, two, three].map(|level| since(&passkey, level)), [Some(700); 3]);
    }

    #[test]
    fn only_a_password_or_a_passkey_makes_a_sign_in_recent() {
        let now = UnixTime::from_seconds(1000);
        let max_age = Duration::from_mins(5);
        for (done, level, recovery_codes, lacks) in [
            // At any level and on any page, a new code does not make an old password step recent.
            (&[(Password, 100), (RecoveryCode, 999)][..], "1", RecoveryCodeWorth::LostFactor, Some("age")),
            (&[(Password, 100), (RecoveryCode, 999)], "2", RecoveryCodeWorth::LostFactor, Some("age")),
            (&[(Password, 100), (RecoveryCode, 999)], "3", RecoveryCodeWorth::LostFactor, Some("age")),
            (&[(Password, 100), (RecoveryCode, 999)], "1", RecoveryCodeWorth::SecondFactor, Some("age")),
            (&[(Password, 100), (Totp, 999)], "1", RecoveryCodeWorth::SecondFactor, Some("age")),
            (&[(Password, 100), (SecurityKey, 999)], "3", RecoveryCodeWorth::SecondFactor, Some("age")),
            // Both steps are recent. On the account's own pages the code counts as the lost factor.
            (&[(Password, 700), (RecoveryCode, 999)], "3", RecoveryCodeWorth::LostFactor, None),
            (&[(Password, 700), (RecoveryCode, 999)], "3", RecoveryCodeWorth::SecondFactor, Some("level")),
            (&[(Password, 700), (RecoveryCode, 999)], "2", RecoveryCodeWorth::SecondFactor, None),
            (&[(Password, 700), (RecoveryCode, 600)], "2", RecoveryCodeWorth::LostFactor, Some("age")),
            // Without a password, there is no knowledge factor.
            (&[(RecoveryCode, 999)], "1", RecoveryCodeWorth::LostFactor, Some("age")),
            (&[(RecoveryCode, 999)], "3", RecoveryCodeWorth::LostFactor, Some("level")),
            (&[(Password, 100), (Passkey, 700)], "1", RecoveryCodeWorth::SecondFactor, None),
            (&[(Password, 699)], "1", RecoveryCodeWorth::SecondFactor, Some("age")),
            (&[(Password, 700)], "1", RecoveryCodeWorth::SecondFactor, None),
            (&[], "1", RecoveryCodeWorth::SecondFactor, Some("level")),
        ] {
            let level = AssuranceLevel::parse(level).unwrap();
            let lacks = lacks.map(|lacks| match lacks {
                "age" => AssuranceShortfall::Age(max_age),
                _ => AssuranceShortfall::Level(level),
            });
            let required = AssuranceRequirement { level, max_age: Some(max_age), recovery_codes };
            assert_eq!(required.judge(&steps(done), now).err(), lacks, "{done:?} {required:?}");
        }
    }

    #[test]
    fn an_openid_provider_reaches_the_level_that_the_operator_grants() {
        let (one, two, three) = (AssuranceLevel::One, AssuranceLevel::Two, AssuranceLevel::PhishingResistant);
        let at = |level, at| {
            let assurance = UpstreamAssurance { level, amr: AmrValues::registered(["pwd", "otp"]) };
            AuthenticationStep::at_upstream(assurance, at)
        };
        for level in [one, two, three] {
            let steps = AuthenticationSteps::from_step(at(level, Some(UnixTime::from_seconds(100))));
            assert_eq!(steps.level(), Some(level));
            assert_eq!(since(&steps, level), Some(100));
            assert_eq!(steps.amr(), if level == one { vec!["otp", "pwd"] } else { vec!["otp", "pwd", "mfa"] });
        }
        // Own factors count in addition, as after a password.
        let mut stepped_up = AuthenticationSteps::from_step(at(one, Some(UnixTime::from_seconds(100))));
        stepped_up.add(AuthenticationStep::new(Totp, UnixTime::from_seconds(200)));
        assert_eq!([one, two, three].map(|level| since(&stepped_up, level)), [Some(100), Some(100), None]);
        stepped_up.add(AuthenticationStep::new(SecurityKey, UnixTime::from_seconds(300)));
        assert_eq!(stepped_up.level(), Some(three));
        // Without `auth_time`, no maximum age is met.
        let undated = AuthenticationSteps::from_step(at(two, None));
        let required =
            AssuranceRequirement { max_age: Some(Duration::from_hours(1)), ..AssuranceRequirement::level(one) };
        assert!(AssuranceRequirement::level(two).judge(&undated, UnixTime::from_seconds(1_800_000_000)).is_ok());
        assert!(required.judge(&undated, UnixTime::from_seconds(1_800_000_000)).is_err());
        let stored = serde_json::to_string(&stepped_up).unwrap();
        assert_eq!(serde_json::from_str::<AuthenticationSteps>(&stored).unwrap(), stepped_up);
    }

    #[test]
    fn only_users_without_a_factor_may_postpone_a_level() {
        let (one, two) = (AssuranceLevel::One, AssuranceLevel::Two);
        for (may_postpone, has_factor, in_force) in
            [(false, false, two), (false, true, two), (true, false, one), (true, true, two)]
        {
            assert_eq!(LevelPolicy { level: two, may_postpone }.in_force(has_factor), in_force);
        }
    }

    #[test]
    fn a_repeated_step_replaces_the_earlier_one() {
        let many: Vec<_> = (0..100).map(|at| (Totp, at)).collect();
        assert_eq!(steps(&many).all().len(), 1);
        let step = AuthenticationStep {
            factor: Some(FactorId::of_credential(b"credential")),
            ..AuthenticationStep::new(SecurityKey, UnixTime::from_seconds(7))
        };
        let stored = serde_json::to_string(&AuthenticationSteps::from_step(step)).unwrap();
        assert_eq!(serde_json::from_str::<AuthenticationSteps>(&stored).unwrap().all(), [step]);
    }

    #[test]
    fn the_lowest_of_several_requested_classes_is_sufficient() {
        let (one, two, three) = (AssuranceLevel::One, AssuranceLevel::Two, AssuranceLevel::PhishingResistant);
        for (demanded, enough, weak) in [
            (&["2"][..], &[two, three][..], &[one][..]),
            (&["3", "2"], &[two, three], &[one]),
            (&["urn:corp:mfa", "phr"], &[three], &[one, two]),
            (&["urn:corp:mfa"], &[], &[one, two, three]),
            (&[], &[], &[one, two, three]),
        ] {
            let demanded: Vec<String> = demanded.iter().map(ToString::to_string).collect();
            for (levels, are_enough) in [(enough, true), (weak, false)] {
                for level in levels {
                    assert_eq!(level.reaches_one_of(&demanded), are_enough, "{level} {demanded:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_reachable_requested_level_is_used() {
        let (one, two, three) = (AssuranceLevel::One, AssuranceLevel::Two, AssuranceLevel::PhishingResistant);
        for (values, reachable, requested) in [
            ("3 2", three, Some(three)),
            ("3 2", two, Some(two)),
            ("2 3", three, Some(two)),
            ("phr", three, Some(three)),
            ("phr", two, None),
            ("urn:x 2", two, Some(two)),
            ("urn:x", three, None),
            ("", three, None),
            ("1", one, Some(one)),
        ] {
            assert_eq!(AssuranceLevel::requested(values, reachable), requested, "{values} {reachable}");
        }
    }

    #[test]
    fn each_credential_has_its_own_id() {
        let id = FactorId::of_credential(&[9; 1023]);
        assert_eq!(id, FactorId::of_credential(&[9; 1023]));
        assert_ne!(id, FactorId::of_credential(&[8; 1023]));
    }
}
