//! `sealgate node`: the nodes of a cluster.

mod admission;

use clap::Subcommand;
use serde_json::json;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::Output;
use sealgate_admin::answer::Answer;
use sealgate_admin::command::{Command, KeyCommand};
use sealgate_config::StoreConfig;
use sealgate_store::postgres::{ClusterMember, PostgresSettings, members, set_removed};

#[derive(Debug, Subcommand)]
pub(super) enum NodeVerb {
    /// List the nodes with state, version, store formats and last heartbeat
    List,
    /// Remove a node: it stops within 0.25 s and cannot rejoin by a restart
    Remove {
        /// Node name (`cluster.node`)
        name: String,
        /// The node's token may be compromised: refuse everything its keys signed within a second [default: accept it
        /// until it expires]
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
    /// For a new node, pass the fingerprints that `node request` printed there; this node must be serving. Start the
    /// admitted node afterwards.
    Admit {
        /// Node name (`cluster.node`)
        name: String,
        /// Fingerprint of its signing key
        #[arg(long, value_name = "FINGERPRINT", allow_hyphen_values = true, requires = "enrolment")]
        key: Option<String>,
        /// Fingerprint of its enrolment key
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
    let settings = PostgresSettings::of(settings, None).map_err(CommandFailure::line)?;
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
        NodeVerb::Request { trust } => return admission::request(trust, access, output),
        NodeVerb::Admit { name, key: Some(key), enrolment: Some(enrolment) } => {
            admission::admit(name, key, enrolment, access)?;
            // A new node has no row yet.
            access.block_on(set_removed(&settings, name, false)).map_err(CommandFailure::line)?;
            return output
                .result(&json!({ "name": name, "removed": false }), || format!("Admitted node {name}; start it\n"));
        }
        // The node's keys were removed with it: it would serve but could not sign.
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
        // An admitted node that never started has keys but no row. A mistyped name must not create
        // an audit event.
        is_known |= has_keys(name, access)?;
        if is_known {
            access.ask(&Command::Key(KeyCommand::RetireNode { node: name.clone(), now: *now }))?;
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
