//! Sign-in at an OpenID provider: the browser leaves for the provider and returns with a code.
//!
//! The pending request stores the trip. Only the browser that has begun the trip can end it, and
//! only once. The `state` is stored as a hash. The nonce and the PKCE verifier are derived from the
//! `state` and the browser's cookie, so nothing in the store completes a trip.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::secret::{Secret, SecretHash, base64url};
use crate::source::SourceName;
use crate::time::UnixTime;

/// Trip of a pending request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamTrip {
    /// The browser has left for the provider.
    Begun(BegunTrip),
    /// The provider did not sign the user in. The sign-in page reports the problem.
    Failed { source: SourceName, problem: UpstreamProblem },
}

/// Trip whose answer is outstanding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunTrip {
    pub source: SourceName,
    /// Hash of the parameter `state`.
    pub state: SecretHash,
    pub at: UnixTime,
    /// Whether the user chose to stay signed in on the device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

/// Reason why a user was not signed in after a trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamProblem {
    /// The user or the provider denied the sign-in (`access_denied`).
    Denied,
    /// The provider returned an error. The sign-in can be repeated.
    ProviderError,
    /// The provider cannot be reached. The sign-in can be repeated.
    Unavailable,
    /// The answer of the provider is not valid.
    Invalid,
    /// The provider did not list the user's groups, because there are too many.
    GroupsOverage,
    /// A required claim is missing, or has another value.
    NotAllowed,
    /// The user is unknown, and the provider creates no users here.
    NotLinked,
    /// Another user has the address or the username of the account.
    NameTaken,
    /// The account has neither an address nor a valid username.
    Nameless,
    /// The account is disabled, here or at the provider.
    Disabled,
    /// The request requires a recent sign-in, and the provider did not prove one.
    NotRecent,
    /// The user's id comes from another issuer or claim than the configured ones.
    OtherOrigin,
}

impl UpstreamProblem {
    /// All problems.
    pub const ALL: [Self; 12] = [
        Self::Denied,
        Self::ProviderError,
        Self::Unavailable,
        Self::Invalid,
        Self::GroupsOverage,
        Self::NotAllowed,
        Self::NotLinked,
        Self::NameTaken,
        Self::Nameless,
        Self::Disabled,
        Self::NotRecent,
        Self::OtherOrigin,
    ];

    /// Returns the name of the problem in the audit log and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::ProviderError => "provider_error",
            Self::Unavailable => "unavailable",
            Self::Invalid => "invalid",
            Self::GroupsOverage => "groups_overage",
            Self::NotAllowed => "not_allowed",
            Self::NotLinked => "not_linked",
            Self::NameTaken => "name_taken",
            Self::Nameless => "nameless",
            Self::Disabled => "disabled",
            Self::NotRecent => "not_recent",
            Self::OtherOrigin => "other_origin",
        }
    }
}

/// Age of the sign-in that a request requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recency {
    /// Whether the user must sign in again (`prompt=login`).
    pub login: bool,
    /// Maximum age in seconds.
    pub max_age: Option<u64>,
}

/// Maximum difference between the clocks of this server and of a provider.
const CLOCK_SKEW: Duration = Duration::from_mins(1);

impl BegunTrip {
    /// Returns whether a sign-in at the provider is recent enough. `auth_time` is the claim of the
    /// ID token. Without it, the age of the sign-in is unknown.
    pub fn is_recent(&self, required: Recency, auth_time: Option<UnixTime>, now: UnixTime) -> bool {
        if !required.login && required.max_age.is_none() {
            return true;
        }
        let Some(at) = auth_time else { return false };
        let is_of_trip = at.plus(CLOCK_SKEW) >= self.at;
        let is_young = |max_age: u64| max_age > 0 && now.since(at) <= Duration::from_secs(max_age);
        is_of_trip || (!required.login && required.max_age.is_some_and(is_young))
    }

    /// Returns whether an answer with this `state` at the callback of this provider ends the trip.
    pub fn is_of(&self, source: &SourceName, state: &str) -> bool {
        self.source == *source && self.state == SecretHash::for_secret(state.as_bytes())
    }
}

/// Secrets of a trip, which only the browser that has begun it can derive again.
#[derive(Debug)]
pub struct TripSecrets {
    pub state: Secret,
    pub nonce: Secret,
    pub code_verifier: Secret,
}

impl TripSecrets {
    /// Derives the secrets of a trip to this provider. `browser` is the value of the browser's
    /// cookie, which the provider does not receive.
    pub fn derive(source: &SourceName, state: &str, browser: &str) -> Self {
        let derived = |purpose: &str| {
            let text = format!("upstream {purpose} {source} {state} {browser}");
            Secret::new(base64url(SecretHash::for_secret(text.as_bytes()).as_bytes()))
        };
        Self { state: Secret::new(state), nonce: derived("nonce"), code_verifier: derived("verifier") }
    }
}

/// Returns a new parameter `state`: 256 random bits, and the parameter `interaction` of the pending
/// request. The id of the request is useless without the browser's cookie.
pub fn new_state(random: [u8; 32], interaction: &str) -> String {
    format!("{}.{interaction}", base64url(&random))
}

/// Returns the parameter `interaction` of the pending request to which a `state` belongs.
pub fn interaction_of(state: &str) -> Option<&str> {
    let (random, interaction) = state.split_once('.')?;
    (random.len() == 43 && !interaction.is_empty()).then_some(interaction)
}

/// Part of a `state` that stands for the account page instead of a pending request. Parameters of
/// pending requests contain a dot.
pub const LINKING: &str = "link";

/// Returns whether a `state` belongs to a trip that proves an account for a link. Such a trip signs
/// nobody in.
pub fn is_linking(state: &str) -> bool {
    interaction_of(state) == Some(LINKING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SourceName {
        SourceName::parse(text).unwrap()
    }

    #[test]
    fn a_state_names_its_request_and_ends_only_its_trip() {
        let state = new_state([7; 32], "id.client");
        assert_eq!(interaction_of(&state), Some("id.client"));
        for wrong in ["", ".", "id.client", &state[..44], &state[1..]] {
            assert_eq!(interaction_of(wrong), None, "{wrong}");
        }
        let (source, at) = (name("acme"), UnixTime::from_seconds(100));
        let trip = BegunTrip { source, state: SecretHash::for_secret(state.as_bytes()), at, keep: false };
        assert!(trip.is_of(&name("acme"), &state));
        assert!(!trip.is_of(&name("other"), &state));
        assert!(!trip.is_of(&name("acme"), &new_state([8; 32], "id.client")));
    }

    #[test]
    fn a_trip_for_a_link_belongs_to_no_request() {
        assert!(is_linking(&new_state([7; 32], LINKING)));
        assert!(!is_linking(&new_state([7; 32], "link.client")) && !is_linking("link"));
    }

    #[test]
    fn secrets_depend_on_the_provider_the_state_and_the_browser() {
        let of = |source: &str, state: &str, browser: &str| {
            let secrets = TripSecrets::derive(&name(source), state, browser);
            [secrets.nonce.expose().to_owned(), secrets.code_verifier.expose().to_owned()]
        };
        let one = of("acme", "s", "b");
        assert_eq!(one, of("acme", "s", "b"));
        assert!(one[0] != one[1] && one.iter().all(|secret| secret.len() == 43));
        for other in [of("other", "s", "b"), of("acme", "t", "b"), of("acme", "s", "c")] {
            assert!(one.iter().all(|secret| !other.contains(secret)));
        }
    }

    #[test]
    fn only_the_time_of_the_provider_proves_a_recent_sign_in() {
        let at = UnixTime::from_seconds;
        let trip = BegunTrip { source: name("acme"), state: SecretHash::for_secret(b"s"), at: at(1000), keep: false };
        let (login, any) = (Recency { login: true, max_age: None }, Recency { login: false, max_age: None });
        let aged = |max_age| Recency { login: false, max_age: Some(max_age) };
        for (recency, auth_time, expected) in [
            (any, None, true),
            (any, Some(at(1)), true),
            (login, None, false),
            (login, Some(at(939)), false),
            (login, Some(at(940)), true),
            (login, Some(at(1005)), true),
            (aged(0), None, false),
            (aged(0), Some(at(939)), false),
            (aged(0), Some(at(1001)), true),
            (aged(300), None, false),
            (aged(300), Some(at(709)), false),
            (aged(300), Some(at(710)), true),
            (Recency { login: true, max_age: Some(300) }, Some(at(710)), false),
        ] {
            assert_eq!(trip.is_recent(recency, auth_time, at(1010)), expected, "{recency:?} {auth_time:?}");
        }
    }
}
