//! Why a signing key's life cannot go on as asked, in words for an operator.

use std::time::Duration;

use super::KeyState;
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
    /// A node with a token of its own that the others do not know.
    #[error(
        "the key of this node's token ({}) is not admitted to the fleet: run `sealgate node request` here, and `sealgate node admit` with what it prints on a node that serves. If all nodes reach one token, write hsm.shared = true",
        .0.join(", ")
    )]
    NotAdmitted(Vec<String>),
    /// Two nodes with one token.
    #[error(
        "the key {kid} in this node's token belongs to the node {holder}: if all nodes reach one token, write hsm.shared = true; if not, each needs a token of its own"
    )]
    OfAnother { kid: String, holder: String },
    /// A new node's first key, which verifiers do not know for long enough.
    #[error(
        "the key {kid} of this node signs from {at} on, when verifiers know it, and this start waits until then. To let it sign at once, and have its tokens refused by who knows the key set of before, run on a node that serves: `sealgate key activate --early --kid {kid}`"
    )]
    Waiting { kid: String, at: UnixTime },
    /// Nodes that serve would refuse its tokens.
    #[error(
        "the key {kid} is not taken yet by {}, where its tokens would be refused. A node takes within seconds what is endorsed by a key that it knows, and /readyz of a node tells which keys it does not take; --early does not wait for that",
        .nodes.join(", ")
    )]
    Untaken { kid: String, nodes: Vec<String> },
    /// A node whose keys were taken out.
    #[error(
        "no key of the node {0} signs any more: it was removed from the fleet. To have it back: delete its keys from its token, make another one (`sealgate key generate`), and have it admitted anew"
    )]
    NodeRetired(String),
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
        "so many keys are remembered that no more are taken; delete removed keys from the token, and rotate by the server, which forgets them then"
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
