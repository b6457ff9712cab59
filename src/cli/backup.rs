//! `sealgate backup` and `sealgate restore`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::access::StoreAccess;
use super::failure::CommandFailure;
use super::output::{Output, shown};
use super::restored_keys;
use super::sentence::counted;
use super::transfer::existing;
use sealgate_admin::command::Command;
use sealgate_config::{PostgresConfig, SledConfig, StoreConfig};
use sealgate_store::engine::Engine;
use sealgate_store::postgres::{PostgresSettings, members};
use sealgate_store::sled;
use sealgate_store::sled::{NewStore, OpenError, Options, SledEngine};
use sealgate_store::{Store, StoreError};
use sealgate_system::clock::{Clock, SystemClock};

/// Destination of a backup.
#[derive(Debug, Args)]
pub(super) struct BackupArguments {
    /// New directory for the copy; the server's user must be able to create it
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Location of a backup.
#[derive(Debug, Args)]
pub(super) struct RestoreArguments {
    /// Directory that `backup` created
    #[arg(long, value_name = "DIR", required_unless_present = "in_place")]
    from: Option<PathBuf>,
    /// Revoke all sessions and grants in the configured store, which other tools have put back to an earlier state
    ///
    /// For a restored snapshot of the machine or the database, or a database that lost acknowledged writes.
    #[arg(long, conflicts_with_all = ["from", "check", "accept_loss"])]
    in_place: bool,
    /// Verify the backup without restoring it; works while a server runs
    #[arg(long, conflicts_with = "accept_loss")]
    check: bool,
    /// Restore a store or backup that has lost saved changes
    #[arg(long)]
    accept_loss: bool,
}

/// A copy that a server made.
#[derive(Debug, Args)]
pub(super) struct VerifyCopyArguments {
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// The store's batch after which it was made
    #[arg(long, value_name = "NUMBER")]
    sequence: u64,
}

pub(super) fn verify_copy(arguments: &VerifyCopyArguments, output: &Output) -> Result<(), CommandFailure> {
    let records = sled::verify_copy(&arguments.directory, arguments.sequence).map_err(CommandFailure::line)?;
    output.result(&json!({ "records": records }), || format!("{records}\n"))
}

pub(super) fn backup(
    arguments: &BackupArguments,
    access: &mut StoreAccess,
    output: &Output,
) -> Result<(), CommandFailure> {
    access.files()?;
    let to = std::path::absolute(&arguments.to).map_err(CommandFailure::line)?;
    let answer = access.ask(&Command::Backup { to })?.members();
    let text = |name: &str| answer.get(name).map(|value| shown(name, value)).unwrap_or_default();
    let sentence = format!("Copied {} records to {} and verified the copy", text("records"), text("directory"));
    output.done(&answer, &sentence, &[])
}

pub(super) fn restore(
    arguments: &RestoreArguments,
    access: &StoreAccess,
    output: &Output,
) -> Result<(), CommandFailure> {
    let Some(from) = &arguments.from else { return restore_in_place(access, output) };
    if arguments.check {
        return check(from, access, output);
    }
    access.refuse_beside_server()?;
    let new = NewStore::copy_of(from, access.files()?).map_err(CommandFailure::line)?;
    let options = Options { accept_loss: arguments.accept_loss, discard: true, ..Options::default() };
    let engine = Arc::new(open_copy(from, &new, options)?);
    let proven = engine.is_proven();
    let taken = access.block_on(async {
        let store = Store::open(Arc::clone(&engine) as _, access.config().sessions.max_interactions).await?;
        let taken = store.take_back_after_restore(SystemClock.now()).await?;
        Ok::<_, StoreError>((taken, restored_keys::settle(&store, &access.config().hsm, SystemClock.now()).await?))
    });
    engine.close();
    drop(engine);
    let (taken, keys) = taken
        .map_err(|error| CommandFailure::line(format_args!("{}: {error}; nothing was restored", from.display())))?;
    new.finish().map_err(CommandFailure::line)?;
    let store = access.files()?.path.as_path();
    let result = json!({
        "directory": store,
        "codes_removed": taken.codes,
        "sessions_ended": taken.sessions,
        "grants_ended": taken.grants,
        "proven_whole": proven,
        "keys": keys.keys,
        "notices": keys.lines,
    });
    output.result(&result, || said(store, taken.sessions, taken.grants, proven) + &restored_keys::said(&keys))
}

/// Revokes sessions and grants in a store that other tools rolled back, as a restore does.
///
/// Can be repeated after a failure.
fn restore_in_place(access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    access.refuse_beside_server()?;
    match &access.config().store {
        StoreConfig::Sled(settings) => drop(existing(&settings.path)?),
        StoreConfig::Postgres(settings) => refuse_beside_nodes(settings, access)?,
    }
    let (taken, keys) = access.block_on(async {
        let store = access.open_store().await?;
        let failed = |error: StoreError| {
            CommandFailure::line(format_args!("{error}; repeat this command before you start the server"))
        };
        let taken = store.take_back_after_restore(SystemClock.now()).await.map_err(failed)?;
        let keys = restored_keys::settle(&store, &access.config().hsm, SystemClock.now()).await.map_err(failed)?;
        Ok::<_, CommandFailure>((taken, keys))
    })?;
    let result = json!({
        "codes_removed": taken.codes,
        "sessions_ended": taken.sessions,
        "grants_ended": taken.grants,
        "keys": keys.keys,
        "notices": keys.lines,
    });
    output.result(&result, || ended(taken.sessions, taken.grants) + &restored_keys::said(&keys))
}

/// Serving nodes have cached the previous state and would continue with it.
fn refuse_beside_nodes(settings: &PostgresConfig, access: &StoreAccess) -> Result<(), CommandFailure> {
    let settings = PostgresSettings::of(settings, None).map_err(CommandFailure::line)?;
    let members = access.block_on(members(&settings)).map_err(CommandFailure::line)?;
    let serving: Vec<_> = members.iter().filter(|node| node.is_heard_of()).map(|node| node.name.as_str()).collect();
    if serving.is_empty() {
        return Ok(());
    }
    Err(CommandFailure::line(format_args!(
        "these nodes sent a heartbeat in the last five seconds: {}; stop all nodes first",
        serving.join(", ")
    )))
}

/// Verifies a backup on a copy of it, because sled writes to every store that it opens.
fn check(from: &Path, access: &StoreAccess, output: &Output) -> Result<(), CommandFailure> {
    let store = access.files()?;
    let mut name = store.path.file_name().unwrap_or_default().to_owned();
    name.push(".check");
    let trial = SledConfig { path: store.path.with_file_name(name), ..store.clone() };
    let new = NewStore::copy_of(from, &trial).map_err(CommandFailure::line)?;
    let engine = open_copy(from, &new, Options { discard: true, ..Options::default() })?;
    let records = engine.count().map_err(|error| CommandFailure::line(format_args!("{}: {error}", from.display())))?;
    let proven = engine.is_proven();
    drop(engine);
    if !proven {
        return Err(CommandFailure::Unproven(format!(
            "{}: {records} records can be read, but the backup has no digest, because an older version of \
             sealgate made it",
            from.display()
        )));
    }
    output.result(&json!({ "directory": from, "records": records }), || {
        format!("{}: verified, {records} records\n", from.display())
    })
}

/// Opens the copy; errors name the original path.
fn open_copy(from: &Path, new: &NewStore, options: Options) -> Result<SledEngine, CommandFailure> {
    let from = from.display();
    SledEngine::open_with(new.settings(), options, Arc::new(())).map_err(|error| match error {
        OpenError::Lost { loss, .. } => CommandFailure::line(format_args!(
            "{from} has lost committed changes ({loss}); nothing was restored: use another backup, or \
             restore the rest with --accept-loss"
        )),
        OpenError::Damaged { cause, .. } => {
            CommandFailure::line(format_args!("{from} is damaged ({cause}); nothing was restored: use another backup"))
        }
        error => CommandFailure::line(error),
    })
}

fn said(store: &Path, sessions: usize, grants: usize, proven: bool) -> String {
    let doubt = if proven { "" } else { ", which could not be verified: the backup has no digest" };
    let store = store.display();
    format!("Restored {store}{doubt}. {}", ended(sessions, grants))
}

fn ended(sessions: usize, grants: usize) -> String {
    let (sessions, grants) = (counted(sessions as u64, "session"), counted(grants as u64, "grant"));
    format!("Revoked {sessions} and {grants}; users sign in again\n")
}
