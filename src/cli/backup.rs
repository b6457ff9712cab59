//! `sealgate backup` and `sealgate restore`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::access::Access;
use super::failure::Failure;
use super::output::Output;
use crate::admin::command::Command;
use crate::ambient::{Clock, SystemClock};
use crate::store::Store;
use crate::store::sled::{NewStore, SledEngine};

/// Where a backup goes.
#[derive(Debug, Args)]
pub(super) struct BackupArguments {
    /// A new directory for the copy; it is made by the server's user
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Where a backup is.
#[derive(Debug, Args)]
pub(super) struct RestoreArguments {
    /// The directory that `backup` made
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
}

pub(super) fn backup(arguments: &BackupArguments, access: &mut Access, output: &Output) -> Result<(), Failure> {
    let to = std::path::absolute(&arguments.to).map_err(Failure::line)?;
    output.only(&access.ask(&Command::Backup { to })?, &["directory", "records"])
}

pub(super) fn restore(arguments: &RestoreArguments, access: &Access, output: &Output) -> Result<(), Failure> {
    access.refuse_beside_server()?;
    let new = NewStore::copy_of(&arguments.from, &access.config().store).map_err(Failure::line)?;
    let engine = Arc::new(SledEngine::open(new.settings(), Arc::new(())).map_err(Failure::line)?);
    let taken = access.block_on(async {
        let store = Store::open(Arc::clone(&engine) as _, access.config().sessions.max_interactions).await?;
        store.take_back_after_restore(SystemClock.now()).await
    });
    engine.close();
    drop(engine);
    let taken = taken.map_err(Failure::line)?;
    new.finish().map_err(Failure::line)?;
    let store = access.config().store.path.as_path();
    let result = json!({
        "directory": store,
        "codes_removed": taken.codes,
        "sessions_ended": taken.sessions,
        "grants_ended": taken.grants,
    });
    output.result(&result, || said(store, taken.sessions, taken.grants))
}

fn said(store: &Path, sessions: usize, grants: usize) -> String {
    format!("{}: restored; {sessions} sessions and {grants} grants ended, people sign in anew\n", store.display())
}
