//! `sealgate check`: what a start would refuse.

use std::path::Path;

use clap::Args;
use serde_json::json;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::key;
use super::output::Output;
use crate::admin::Answer;
use crate::admin::command::Command;
use crate::app::{relying_party, sealing};
use crate::clock::{Clock, OsEntropy, SystemClock};
use crate::config::Config;

/// How much is looked at.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Look at the file and the files that it names alone, not at the token and the store
    #[arg(long)]
    file_only: bool,
}

pub(super) fn run(
    arguments: &CheckArguments,
    config: Config,
    file: &Path,
    output: &Output,
) -> Result<(), CommandFailure> {
    let now = i64::try_from(SystemClock.now().seconds()).unwrap_or(i64::MAX);
    let mut warnings: Vec<_> = config.warnings.iter().chain(&config.expiring(now)).map(ToString::to_string).collect();
    if !arguments.file_only {
        let access = StoreAccess::open(config)?;
        let keys = key::check::find(&access)?;
        if !keys.faults.is_empty() {
            return Err(CommandFailure::Failed(keys.faults));
        }
        warnings.extend(keys.warnings);
        data_key_opens(&access)?;
        keys_stay_usable(&access)?;
    }
    output.result(&json!({ "config": file.display().to_string(), "ok": true, "warnings": warnings }), || {
        let lines = warnings.iter().map(|line| format!("warning: {line}")).chain([format!("{}: ok\n", file.display())]);
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// Whether people's security keys and passkeys work under the issuer of the file.
fn keys_stay_usable(access: &StoreAccess) -> Result<(), CommandFailure> {
    let fault = |fault: &dyn std::fmt::Display| CommandFailure::line(fault);
    if access.is_served() {
        let Answer::Status(status) = access.ask_server(&Command::Status)? else {
            return Err(CommandFailure::other_answer());
        };
        return relying_party::compare(access.config(), status.keys_of, None).map_err(|error| fault(&error));
    }
    access.block_on(async {
        let Some(store) = access.store_as_it_lies().await? else { return Ok(()) };
        relying_party::check(access.config(), &store).await.map_err(|error| fault(&error))
    })
}

/// A server that runs has opened it.
fn data_key_opens(access: &StoreAccess) -> Result<(), CommandFailure> {
    if access.is_served() {
        return Ok(());
    }
    access.block_on(async {
        let Some(store) = access.store_as_it_lies().await? else { return Ok(()) };
        sealing::check(&access.config().hsm, &store, &OsEntropy).await.map_err(CommandFailure::line)
    })
}
