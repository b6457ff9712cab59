//! `sealgate store`: a store that lies in a database.

use clap::Subcommand;
use serde_json::json;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::Output;
use crate::config::StoreConfig;
use crate::store::postgres::{PostgresSettings, initialise};

#[derive(Debug, Subcommand)]
pub(super) enum StoreVerb {
    /// Make the tables of a store in the database that `store.url_file` names; what is there already stays. Once, by a role that
    /// may make tables: the servers' role need not
    Init,
}

pub(super) fn run(verb: &StoreVerb, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let StoreConfig::Postgres(settings) = &access.config().store else {
        return Err(CommandFailure::line(
            "store.engine is \"sled\", whose files are made at the first start; this is for \"postgres\"",
        ));
    };
    let StoreVerb::Init = verb;
    let settings = PostgresSettings::of(settings, None).map_err(CommandFailure::line)?;
    access.block_on(initialise(&settings)).map_err(CommandFailure::line)?;
    output.result(&json!({ "initialised": true }), || "the database holds a store\n".to_owned())
}
