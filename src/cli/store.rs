//! `sealgate store`: a store in a database.

use clap::Subcommand;
use serde_json::json;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::Output;
use sealgate_config::StoreConfig;
use sealgate_store::postgres::{ClusterMember, FormatRaise, PostgresSettings, initialise, raise_format};

#[derive(Debug, Subcommand)]
pub(super) enum StoreVerb {
    /// Create the tables in the database that `store.url_file` names
    ///
    /// Existing tables stay. Run the command once with a role that may create tables. The role of
    /// the servers does not need this right. Run the command again with each new version of
    /// Sealgate, to add missing tables and columns. Nodes can continue to serve meanwhile.
    Init,
    /// Raise the store format to the newest that all nodes support
    ///
    /// Before this command, nodes of the older version and of this version can serve together.
    /// After this command, nodes that do not support the new format are refused. The format cannot
    /// be lowered again.
    Upgrade,
}

pub(super) fn run(verb: &StoreVerb, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let StoreConfig::Postgres(settings) = &access.config().store else {
        return Err(CommandFailure::line(
            "store.engine is \"sled\", whose files are created at the first start; this command requires \"postgres\"",
        ));
    };
    let settings = PostgresSettings::from_config(settings, None).map_err(CommandFailure::line)?;
    match verb {
        StoreVerb::Init => {
            access.block_on(initialise(&settings)).map_err(CommandFailure::line)?;
            output.result(&json!({ "initialised": true }), || "Created the missing tables of the store\n".to_owned())
        }
        StoreVerb::Upgrade => upgrade(&access.block_on(raise_format(&settings)).map_err(CommandFailure::line)?, output),
    }
}

fn upgrade(raise: &FormatRaise, output: &Output) -> Result<(), CommandFailure> {
    let FormatRaise { from, to, newest, holding } = raise;
    if to == from && to < newest {
        let mut lines = vec![format!("the store stays at format {to}: these nodes do not read format {newest}")];
        lines.extend(holding.iter().map(holder));
        lines.push(
            "start the newer version on them, or remove nodes that no longer exist: sealgate node remove NAME"
                .to_owned(),
        );
        return Err(CommandFailure::Failed(lines));
    }
    let names: Vec<&str> = holding.iter().map(|node| node.name.as_str()).collect();
    output.result(&json!({ "from": from, "format": to, "newest": newest, "holding": names }), || {
        let now = if from == to { "already" } else { "now; versions that do not support this format are refused" };
        let next = format!("these nodes do not support format {newest} yet: {}\n", names.join(", "));
        format!("the store has format {to} {now}\n") + if to < newest { &next } else { "" }
    })
}

fn holder(node: &ClusterMember) -> String {
    let ClusterMember { name, version, formats, .. } = node;
    let contact = match node.silent {
        _ if node.is_heard_of() => "serves now".to_owned(),
        silent if silent < 7200.0 => format!("last heartbeat {:.0} minutes ago", (silent / 60.0).max(1.0)),
        silent => format!("last heartbeat {:.0} hours ago", silent / 3600.0),
    };
    format!("{name}: version {version}, reads up to format {}, {contact}", formats.to)
}
