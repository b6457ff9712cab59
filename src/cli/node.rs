//! `sealgate node`: the nodes of a cluster.
//!
//! To admit a node with its own token, run `sealgate node request` on the new node, and
//! `sealgate node admit` with its output on a member.

use clap::Subcommand;
use serde_json::json;

use crate::cli::access::StoreAccess;
use crate::cli::failure::CommandFailure;
use crate::cli::output::Output;
use sealgate_admin::answer::Answer;
use sealgate_admin::command::{Command, KeyCommand, NodeCommand};
use sealgate_config::StoreConfig;
use sealgate_domain::admission::NodeRequest;
use sealgate_domain::key_ring::{Endorsement, KeyRing, KeyState, statement};
use sealgate_domain::secret::base64url;
use sealgate_signer as signer;
use sealgate_signer::EnrolmentKeys;
use sealgate_store::postgres::{ClusterMember, PostgresSettings, members, set_removed};
use sealgate_system::clock::{Clock, OsEntropy, SystemClock, random};

#[derive(Debug, Subcommand)]
pub(super) enum NodeVerb {
    /// List the nodes with state, version, store formats and last heartbeat
    List,
    /// Remove a node: it stops within 0.25 s and cannot rejoin by a restart
    Remove {
        /// Node name (`cluster.node`)
        name: String,
        /// The node's token may be compromised: within a second, refuse everything that its keys
        /// have signed [default: accept tokens until they expire]
        #[arg(long)]
        now: bool,
    },
    /// Request admission of this new node, which has its own token
    ///
    /// Prints the command to run on another node.
    Request {
        /// Signing key of the admitting node (see `sealgate key list` there)
        #[arg(long, value_name = "KID", allow_hyphen_values = true)]
        trust: String,
    },
    /// Admit a new node with its own token, or a removed node by name
    ///
    /// For a new node, pass the fingerprints that `node request` printed on the new node. Run this
    /// command on a serving node. Start the admitted node afterwards.
    Admit {
        /// Node name (`cluster.node`)
        name: String,
        /// Fingerprint of the new node's signing key
        #[arg(long, value_name = "FINGERPRINT", allow_hyphen_values = true, requires = "enrolment")]
        key: Option<String>,
        /// Fingerprint of the new node's enrolment key
        #[arg(long, value_name = "FINGERPRINT", allow_hyphen_values = true, requires = "key")]
        enrolment: Option<String>,
    },
}

pub(super) fn run(verb: &NodeVerb, access: &mut StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let StoreConfig::Postgres(settings) = &access.config().store else {
        return Err(CommandFailure::line(
            "store.engine is \"sled\": there is no cluster; nodes need store.engine = \"postgres\"",
        ));
    };
    let settings = PostgresSettings::from_config(settings, None).map_err(CommandFailure::line)?;
    let has_own_keys = access.config().token_holder().is_some();
    let (name, removed) = match verb {
        NodeVerb::List => {
            let members = access.block_on(members(&settings)).map_err(CommandFailure::line)?;
            let row = |member: &ClusterMember| {
                json!({
                    "name": member.name,
                    "state": state(member),
                    "version": member.version,
                    "starts": member.incarnation,
                    "reads_from": member.formats.from,
                    "reads_to": member.formats.to,
                    "silent_seconds": (member.silent.max(0.0) * 10.0).round() / 10.0,
                })
            };
            let rows: Vec<_> = members.iter().map(row).collect();
            return output.list(
                "nodes",
                &rows,
                &["name", "state", "version", "starts", "reads_from", "reads_to", "silent_seconds"],
            );
        }
        NodeVerb::Remove { name, .. } => (name, true),
        NodeVerb::Request { trust } => return request(trust, access, output),
        NodeVerb::Admit { name, key: Some(key), enrolment: Some(enrolment) } => {
            admit(name, key, enrolment, access)?;
            // A node that never started has no row in the database.
            access.block_on(set_removed(&settings, name, false)).map_err(CommandFailure::line)?;
            return output
                .result(&json!({ "name": name, "removed": false }), || format!("Admitted node {name}; start it\n"));
        }
        // The keys of a removed node were removed too. Without new keys, the node would serve but
        // could not sign.
        NodeVerb::Admit { .. } if has_own_keys => {
            return Err(CommandFailure::line(
                "a node with its own token needs --key and --enrolment: the fingerprints that `sealgate node \
                 request` prints on it (docs/how-to/cluster-nodes.md, \"Taking a node in\")",
            ));
        }
        NodeVerb::Admit { name, .. } => (name, false),
    };
    let mut is_known = access.block_on(set_removed(&settings, name, removed)).map_err(CommandFailure::line)?;
    if let NodeVerb::Remove { name, now } = verb
        && has_own_keys
    {
        // An admitted node that never started has keys but no row. A mistyped name has neither, and
        // must not create an audit event.
        is_known |= has_keys(name, access)?;
        if is_known {
            access.ask(&Command::Key(KeyCommand::RetireNode { node: name.clone(), at_once: *now }))?;
        }
    }
    if !is_known {
        return Err(CommandFailure::line(format_args!(
            "no node has the name {name}; `sealgate node list` shows all nodes"
        )));
    }
    output.result(&json!({ "name": name, "removed": removed }), || {
        if removed { format!("Removed node {name}\n") } else { format!("Admitted node {name}; restart it\n") }
    })
}

/// Returns whether the key ring has keys of this node.
fn has_keys(name: &str, access: &mut StoreAccess) -> Result<bool, CommandFailure> {
    let Answer::Keys(answer) = access.ask(&Command::Key(KeyCommand::List))? else {
        return Err(CommandFailure::other_answer());
    };
    Ok(answer.keys.iter().any(|key| key.life.holder.as_deref() == Some(name)))
}

fn state(member: &ClusterMember) -> &'static str {
    if member.removed {
        "removed"
    } else if member.is_heard_of() {
        "serving"
    } else {
        "away"
    }
}

/// Requests admission. `trust` is the signing key of the admitting node. The operator has read this
/// key on that node.
fn request(trust: &str, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let config = access.config();
    let Some(holder) = config.token_holder() else {
        return Err(CommandFailure::line(
            "hsm.shared is true: all nodes use the same keys, so a new node needs no admission; start it",
        ));
    };
    if access.is_served() {
        return Err(CommandFailure::line("the server of this node is running; stop it, then make the request"));
    }
    let id: [u8; 16] = random(&OsEntropy);
    let EnrolmentKeys { signing, enrolment, hash } =
        signer::enrolment_keys(&config.hsm, &id).map_err(CommandFailure::line)?;
    let no_key = || CommandFailure::line("the token reports an invalid key");
    let (key, enrolment_key) = (signing.thumbprint().ok_or_else(no_key)?, enrolment.thumbprint().ok_or_else(no_key)?);
    let store = access.block_on(access.open_store())?;
    let ring = access.block_on(store.key_ring()).map_err(CommandFailure::line)?;
    let life = ring.find(trust).filter(|life| ring.state(life, SystemClock.now()) != KeyState::Removed);
    let about_trusted = life.and_then(|life| statement(life, &holder.issuer));
    let about_trusted = about_trusted.ok_or_else(|| unknown(trust, &ring))?;
    let mut request = NodeRequest {
        node: holder.node.clone(),
        key: signing,
        enrolment,
        hash,
        trusted: trust.to_owned(),
        endorsement: Endorsement { by: key.clone(), signature: String::new() },
        signature: String::new(),
    };
    let statement = request.statement(&holder.issuer).ok_or_else(no_key)?;
    let signatures =
        signer::sign_apart(&config.hsm, &key, &[about_trusted, statement]).map_err(CommandFailure::line)?;
    if let [endorsement, own] = &signatures[..] {
        (request.endorsement.signature, request.signature) = (base64url(endorsement), base64url(own));
    }
    access.block_on(store.keep_node_request(&request)).map_err(CommandFailure::line)?;
    let node = &holder.node;
    let result = json!({ "node": node, "key": key, "enrolment": enrolment_key, "trusted": trust });
    output.result(&result, || {
        format!(
            "key:       {key}\nenrolment: {enrolment_key}\nOn the node that has the key {trust}, while it serves:\n  \
             sealgate node admit {node} --key={key} --enrolment={enrolment_key}\n"
        )
    })
}

fn unknown(trust: &str, ring: &KeyRing) -> CommandFailure {
    let now = SystemClock.now();
    let known_keys = ring.keys().iter().filter(|life| ring.state(life, now) != KeyState::Removed);
    let known_keys = known_keys.filter_map(|life| Some(format!("{} ({})", life.kid, life.holder.as_deref()?)));
    let known_keys = known_keys.collect::<Vec<_>>().join(", ");
    let known_keys =
        if known_keys.is_empty() { "none; the first node needs no admission".to_owned() } else { known_keys };
    CommandFailure::line(format_args!(
        "the cluster has no key {trust}. Run `sealgate key list` on the node that will admit this one, and \
         use that key. Do not rely on the database, which has {known_keys}"
    ))
}

/// Makes the server of this node admit another node.
fn admit(node: &str, key: &str, enrolment: &str, access: &StoreAccess) -> Result<(), CommandFailure> {
    let (node, key, enrolment) = (node.to_owned(), key.to_owned(), enrolment.to_owned());
    access.ask_server(&Command::Node(NodeCommand::Admit { node, key, enrolment })).map(drop)
}
