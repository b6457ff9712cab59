//! Why a signing key's life cannot go on as asked, in words for an operator.

use std::time::Duration;

use super::{KeyState, MOST_KEYS};
use crate::domain::time::UnixTime;

/// Why a key's life was not changed. Each is one line for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Not a thumbprint.
    #[error("{0} is no kid: a kid has 43 characters, as `sealgate key list` shows them")]
    NotAKid(String),
    #[error(
        "the token has keys that are not announced ({}); announce one with `sealgate key announce --kid KID`, or delete it from the token",
        .0.join(", ")
    )]
    Unannounced(Vec<String>),
    /// The active key is not in the token, and none that is becomes active later.
    #[error(
        "the key {0} signs now and is not in the token; bring the token back that has it, or have another one take over: announce it and run `sealgate key remove --now --kid {0}`"
    )]
    Missing(String),
    /// The active key is not in the token; one that becomes active later is.
    #[error(
        "the key {next} is in the token and becomes active at {at}, and the key {kid}, which signs until then, is not. The clock shows {now}: if it is behind, set it; if not, bring the token back that has {kid}, or let {next} sign at once: `sealgate key remove --now --kid {kid}`"
    )]
    NotYet { kid: String, next: String, at: UnixTime, now: UnixTime },
    #[error("the key {0} is announced already")]
    Known(String),
    /// Not known.
    #[error("no key {0} is announced; `sealgate key list` shows the keys")]
    Unknown(String),
    #[error(
        "{MOST_KEYS} keys are remembered, and no more are taken; delete removed keys from the token, and rotate by the server, which forgets them then"
    )]
    TooMany,
    /// Another key is about to become active.
    #[error("the key {kid} is to become active at {at}; withdraw it first with `sealgate key retire --kid {kid}`")]
    Scheduled { kid: String, at: UnixTime },
    /// Not in a state from which this can be done.
    #[error("the key {kid} is {} and cannot be {wanted}", state_name(*.state))]
    State { kid: String, state: KeyState, wanted: &'static str },
    /// Verifiers might not know the key yet.
    #[error(
        "the key was published {published} seconds before that time, and verifiers may not know it for {} seconds; choose a later time, or --early if tokens may be refused until then",
        .publish.as_secs()
    )]
    Early {
        /// For how long it would have been published, seconds.
        published: u64,
        /// For how long it should have been.
        publish: Duration,
    },
    #[error("the key {0} signs, and no other one is there to take over; run `sealgate key generate --next` first")]
    NoSuccessor(String),
}

fn state_name(state: KeyState) -> &'static str {
    match state {
        KeyState::PrePublished => "pre-published",
        KeyState::Active => "active",
        KeyState::Retired => "retired",
        KeyState::Removed => "removed",
    }
}
