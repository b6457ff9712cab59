//! Errors of operations on the key ring, with messages for operators.

use std::time::Duration;

use super::KeyState;
use crate::oauth::jwk_set::Algorithm;
use crate::time::UnixTime;

/// Reason why a key operation failed. Each message is one line for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The text is not a key thumbprint.
    #[error("{0} is not a kid: a kid has 43 characters; `sealgate key list` shows all kids")]
    NotAKid(String),
    #[error(
        "the token has keys that are not announced ({}); announce one with `sealgate key announce KID`, or delete it from the token",
        .0.join(", ")
    )]
    Unannounced(Vec<String>),
    /// The node has its own token, but the cluster has not admitted it.
    #[error(
        "the key of this node's token ({}) is not admitted to the cluster: run `sealgate node request` here. \
         Then run the printed command on a node that already serves. If all nodes use one token, write \
         hsm.shared = true",
        .0.join(", ")
    )]
    NotAdmitted(Vec<String>),
    /// Two nodes have the same token.
    #[error(
        "the key {kid} in this node's token belongs to the node {holder}: if all nodes use one token, write \
         hsm.shared = true; if not, give each node its own token"
    )]
    OfAnother { kid: String, holder: String },
    /// The label of a key in the token is for another algorithm than the ring.
    #[error(
        "the key {kid} is announced for {announced}, but has the label of {found} keys in the token; a key is for \
         one algorithm: change the label back, or generate another key with `sealgate key generate --algorithm {found}`"
    )]
    WrongAlgorithm { kid: String, announced: String, found: Algorithm },
    /// A key of a further algorithm was announced before the first start.
    #[error("no RS256 key is announced yet, so the first start publishes the keys of all algorithms; start the server")]
    NotStarted,
    /// The first key of a new node waits until verifiers know it.
    #[error(
        "the key {kid} of this node signs from {at}, because verifiers must fetch it first; startup waits \
         until then. To sign immediately, run on a serving node: `sealgate key activate --early {kid}`. \
         Verifiers with a cached key set then refuse its tokens until they fetch the key"
    )]
    Waiting { kid: String, at: UnixTime },
    /// Serving nodes do not trust the key yet, so they would reject its tokens.
    #[error(
        "the key {kid} is not trusted yet by {}, which would refuse its tokens. A node trusts a key \
         within seconds after a key that the node already trusts has endorsed it. /readyz of a node lists the \
         keys that the node does not trust. To activate the key without waiting, use --early",
        .nodes.join(", ")
    )]
    Distrusted { kid: String, nodes: Vec<String> },
    /// All keys of the node were retired.
    #[error(
        "no key of the node {0} is active, because the node was removed from the cluster. To add the node \
         again, delete the keys from its token, generate another key (`sealgate key generate`), and admit the \
         node again"
    )]
    NodeRetired(String),
    /// Neither the active key nor any scheduled key is in the token.
    #[error(
        "the active key {0} is not in the token; restore the token that has this key, or announce another \
         key and run `sealgate key remove --now {0}`"
    )]
    Missing(String),
    /// The active key is not in the token, but a scheduled key is.
    #[error(
        "the key {kid}, which signs until {at}, is not in the token, and the key {next} becomes active then. \
         The clock shows {now}: if the clock is behind, set it; if not, restore the token that has {kid}, or \
         let {next} sign now: `sealgate key remove --now {kid}`"
    )]
    NotYet { kid: String, next: String, at: UnixTime, now: UnixTime },
    #[error("the key {0} is already announced")]
    Known(String),
    /// The ring has no such key.
    #[error("no key {0} is announced; `sealgate key list` shows the keys")]
    Unknown(String),
    #[error(
        "the key ring is full; delete removed keys from the token, and use automatic rotation, which also \
         deletes them from the ring"
    )]
    TooMany,
    /// Another key is already scheduled.
    #[error("the key {kid} becomes active at {at}; cancel that activation first with `sealgate key retire {kid}`")]
    Scheduled { kid: String, at: UnixTime },
    /// The key is in a state that does not permit the operation.
    #[error("the key {kid} is {} and cannot be {target}", state_name(*.state))]
    State { kid: String, state: KeyState, target: &'static str },
    /// Verifiers may not know the key yet.
    #[error(
        "at that time the key will have been published for {published} seconds, but verifiers may need {} \
         seconds to fetch it; choose a later time, or use --early if tokens may be refused until then",
        .publish.as_secs()
    )]
    Early {
        /// Time from publication to the requested activation, in seconds.
        published: u64,
        /// Required time from publication to activation.
        publish: Duration,
    },
    #[error("the key {0} is active, and no other key can replace it; run `sealgate key generate --next` first")]
    NoSuccessor(String),
}

impl KeyFault {
    /// Creates the error for a key that these nodes do not trust yet.
    pub fn distrusted(kid: &str, nodes: &[&str]) -> Self {
        Self::Distrusted { kid: kid.to_owned(), nodes: nodes.iter().map(|node| (*node).to_owned()).collect() }
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
