//! Errors of key life cycle operations, with messages for operators.

use std::time::Duration;

use super::KeyState;
use crate::time::UnixTime;

/// Reason why a key's schedule was not changed. Each message is one line for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// Not a thumbprint.
    #[error("{0} is no kid: a kid has 43 characters, as `sealgate key list` shows them")]
    NotAKid(String),
    #[error(
        "the token has keys that are not announced ({}); announce one with `sealgate key announce KID`, or delete it from the token",
        .0.join(", ")
    )]
    Unannounced(Vec<String>),
    /// A node with its own token that the cluster has not admitted.
    #[error(
        "the key of this node's token ({}) is not admitted to the cluster: run `sealgate node request` here, and `sealgate node admit` with what it prints on a node that serves. If all nodes reach one token, write hsm.shared = true",
        .0.join(", ")
    )]
    NotAdmitted(Vec<String>),
    /// Two nodes with the same token.
    #[error(
        "the key {kid} in this node's token belongs to the node {holder}: if all nodes reach one token, write hsm.shared = true; if not, each needs a token of its own"
    )]
    OfAnother { kid: String, holder: String },
    /// A new node's first key, which verifiers may not know yet.
    #[error(
        "the key {kid} of this node signs from {at} on, when verifiers know it, and this start waits until then. To let it sign at once, and have its tokens refused by who knows the key set of before, run on a node that serves: `sealgate key activate --early {kid}`"
    )]
    Waiting { kid: String, at: UnixTime },
    /// Serving nodes would reject its tokens.
    #[error(
        "the key {kid} is not taken yet by {}, where its tokens would be refused. A node takes within seconds what is endorsed by a key that it knows, and /readyz of a node tells which keys it does not take; --early does not wait for that",
        .nodes.join(", ")
    )]
    Untaken { kid: String, nodes: Vec<String> },
    /// A node whose keys were retired.
    #[error(
        "no key of the node {0} signs any more: it was removed from the cluster. To have it back: delete its keys from its token, make another one (`sealgate key generate`), and have it admitted anew"
    )]
    NodeRetired(String),
    /// The active key is not in the token, and no key in the token is scheduled.
    #[error(
        "the key {0} signs now and is not in the token; bring the token back that has it, or have another one take over: announce it and run `sealgate key remove --now {0}`"
    )]
    Missing(String),
    /// The active key is not in the token, but a scheduled one is.
    #[error(
        "the key {next} is in the token and becomes active at {at}, and the key {kid}, which signs until then, is not. The clock shows {now}: if it is behind, set it; if not, bring the token back that has {kid}, or let {next} sign at once: `sealgate key remove --now {kid}`"
    )]
    NotYet { kid: String, next: String, at: UnixTime, now: UnixTime },
    #[error("the key {0} is announced already")]
    Known(String),
    /// The ring has no such key.
    #[error("no key {0} is announced; `sealgate key list` shows the keys")]
    Unknown(String),
    #[error(
        "so many keys are remembered that no more are taken; delete removed keys from the token, and rotate by the server, which forgets them then"
    )]
    TooMany,
    /// Another key is already scheduled.
    #[error("the key {kid} is to become active at {at}; withdraw it first with `sealgate key retire {kid}`")]
    Scheduled { kid: String, at: UnixTime },
    /// The operation is not possible in this state.
    #[error("the key {kid} is {} and cannot be {wanted}", state_name(*.state))]
    State { kid: String, state: KeyState, wanted: &'static str },
    /// Verifiers may not know the key yet.
    #[error(
        "the key was published {published} seconds before that time, and verifiers may not know it for {} seconds; choose a later time, or --early if tokens may be refused until then",
        .publish.as_secs()
    )]
    Early {
        /// How long it would have been published, in seconds.
        published: u64,
        /// The required duration.
        publish: Duration,
    },
    #[error("the key {0} signs, and no other one is there to take over; run `sealgate key generate --next` first")]
    NoSuccessor(String),
}

impl KeyFault {
    pub fn untaken(kid: &str, nodes: &[&str]) -> Self {
        Self::Untaken { kid: kid.to_owned(), nodes: nodes.iter().map(|node| (*node).to_owned()).collect() }
    }
}

fn state_name(state: KeyState) -> &'static str {
    match state {
        KeyState::PrePublished => "pre-published",
        KeyState::Active => "active",
        KeyState::Retired => "retired",
        KeyState::Removed => "removed",
    }
}
