//! `sealgate backup` and `sealgate restore`, and the comparison of signing keys after a restore or
//! an import.
//!
//! The restored store may be older than the token. It may then lack new keys, and the removals of
//! compromised keys. Keys that are marked as removed in the token are also removed from the store.
//! New keys are only reported, and the operator decides on them: an attacker who can add a key to
//! the token must not be able to choose the signing key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::access::StoreAccess;
use crate::cli::command::counted;
use crate::cli::failure::CommandFailure;
use crate::cli::output::{Output, text_of};
use crate::cli::transfer::existing;
use sealgate_admin::command::Command;
use sealgate_config as config;
use sealgate_config::{PostgresConfig, SledConfig, StoreConfig};
use sealgate_domain::key_ring::{KeyFault, KeyState};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_signer as signer;
use sealgate_store::engine::Engine;
use sealgate_store::postgres::{PostgresSettings, members};
use sealgate_store::sled::{NewStore, OpenError, Options, SledEngine};
use sealgate_store::{Store, StoreError, sled};
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

/// Copy of the store that a server made.
#[derive(Debug, Args)]
pub(super) struct VerifyCopyArguments {
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Number of the store's batch after which the copy was made
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
    let text = |name: &str| answer.get(name).map(|value| text_of(name, value)).unwrap_or_default();
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
    let restored = access.block_on(async {
        let store = Store::open(Arc::clone(&engine) as _, access.config().sessions.max_interactions).await?;
        let restored = store.take_back_after_restore(SystemClock.now()).await?;
        Ok::<_, StoreError>((restored, compare_keys(&store, &access.config().hsm, SystemClock.now()).await?))
    });
    engine.close();
    drop(engine);
    let (restored, keys) = restored
        .map_err(|error| CommandFailure::line(format_args!("{}: {error}; nothing was restored", from.display())))?;
    new.finish().map_err(CommandFailure::line)?;
    let store = access.files()?.path.as_path();
    let result = json!({
        "directory": store,
        "codes_removed": restored.codes,
        "sessions_ended": restored.sessions,
        "grants_ended": restored.grants,
        "proven_whole": proven,
        "keys": keys.keys,
        "notices": keys.lines,
    });
    output.result(&result, || restored_text(store, restored.sessions, restored.grants, proven) + &keys_text(&keys))
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
    let (restored, keys) = access.block_on(async {
        let store = access.open_store().await?;
        let failed = |error: StoreError| {
            CommandFailure::line(format_args!("{error}; repeat this command before you start the server"))
        };
        let restored = store.take_back_after_restore(SystemClock.now()).await.map_err(failed)?;
        let keys = compare_keys(&store, &access.config().hsm, SystemClock.now()).await.map_err(failed)?;
        Ok::<_, CommandFailure>((restored, keys))
    })?;
    let result = json!({
        "codes_removed": restored.codes,
        "sessions_ended": restored.sessions,
        "grants_ended": restored.grants,
        "keys": keys.keys,
        "notices": keys.lines,
    });
    output.result(&result, || ended(restored.sessions, restored.grants) + &keys_text(&keys))
}

/// Returns an error while nodes serve, because these nodes have cached the previous state and would
/// continue with it.
fn refuse_beside_nodes(settings: &PostgresConfig, access: &StoreAccess) -> Result<(), CommandFailure> {
    let settings = PostgresSettings::from_config(settings, None).map_err(CommandFailure::line)?;
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

/// Copies a backup and verifies the copy, because sled writes to every store that it opens.
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

/// Opens the copy. Errors name the original path.
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

fn restored_text(store: &Path, sessions: usize, grants: usize, proven: bool) -> String {
    let doubt = if proven { "" } else { ", which could not be verified: the backup has no digest" };
    let store = store.display();
    format!("Restored {store}{doubt}. {}", ended(sessions, grants))
}

fn ended(sessions: usize, grants: usize) -> String {
    let (sessions, grants) = (counted(sessions as u64, "session"), counted(grants as u64, "grant"));
    format!("Revoked {sessions} and {grants}; users sign in again\n")
}

/// Result of comparing the keys.
pub(super) struct KeysReport {
    /// Keys with their states and their presence in the token. Empty if the token could not be
    /// read.
    pub(super) keys: Vec<Value>,
    /// Notes and necessary actions, one line each.
    pub(super) lines: Vec<String>,
}

/// Compares a store that is not in use yet with the token. Removes the keys that the token marks as
/// compromised.
///
/// If the token is unreadable, the report has a line about the error. This is not an error of the
/// function, because the server reads the token again when it starts.
///
/// # Errors
/// If the store fails.
pub(super) async fn compare_keys(store: &Store, hsm: &config::Hsm, now: UnixTime) -> Result<KeysReport, StoreError> {
    let key_reports = match signer::list(hsm) {
        Ok(key_reports) => key_reports,
        Err(error) => {
            let line = format!(
                "the keys were not compared with the token ({error}); before you start the server, run: sealgate check"
            );
            return Ok(KeysReport { keys: Vec::new(), lines: vec![line] });
        }
    };
    let with_label = |label: &dyn Fn(Algorithm) -> String| {
        let kids = key_reports.iter().filter(|key| key.label == label(key.alg)).map(|key| key.kid.to_string());
        kids.collect::<Vec<_>>()
    };
    let removed = with_label(&|algorithm| hsm.removed_label(algorithm));
    let mut present = with_label(&|algorithm| hsm.key_label_of(algorithm));
    present.retain(|kid| !removed.contains(kid));

    let mut lines = Vec::new();
    let before = store.key_ring().await?;
    let alive = before.keys().iter().filter(|key| before.state(key, now) != KeyState::Removed);
    let mut revived: Vec<&str> =
        alive.map(|key| key.kid.as_str()).filter(|kid| removed.iter().any(|own| own == kid)).collect();
    // The signing key is removed last, so that none of the other removed keys can replace it.
    let is_active = |kid: &str| before.find(kid).is_some_and(|key| before.state(key, now) == KeyState::Active);
    revived.sort_by_key(|kid| is_active(kid));
    for kid in revived {
        let usable = |kid: &str| present.iter().any(|own| own == kid);
        lines.push(match store.change_key_ring(|ring| ring.remove_now(kid, now, usable)).await? {
            Ok(_) => format!("the key {kid} was removed with --now or --emergency after the backup was made; it stays removed"),
            Err(KeyFault::NoSuccessor(_)) => format!(
                "the key {kid} was removed with --now or --emergency after the backup was made, and the store has no other \
                 key that can sign, so the server will not start. Announce a key of the token, then run: \
                 sealgate key remove --now {kid}"
            ),
            Err(fault) => fault.to_string(),
        });
    }

    let ring = store.key_ring().await?;
    let mut keys = Vec::new();
    let is_own = |kid: &String| ring.own_of_any_algorithm().any(|own| own.kid == *kid);
    for key in ring.keys() {
        let state = ring.state(key, now);
        let token = match &key.kid {
            kid if removed.contains(kid) => "removed",
            kid if present.contains(kid) => "present",
            // The key belongs to another node's token. That node compares it when it starts.
            kid if key.holder.is_some() && !is_own(kid) => continue,
            _ => "absent",
        };
        if token == "absent" && state == KeyState::Active {
            let kid = &key.kid;
            lines.push(format!("{}; until then the server will not start", KeyFault::Missing(kid.clone())));
        } else if token == "absent" && state != KeyState::Removed {
            lines.push(format!("the key {} is announced, but not in the token; it is not published", key.kid));
        }
        keys.push(json!({ "kid": key.kid, "state": state, "token": token }));
    }
    let begun = ring.all_unannounced_ids();
    let present: Vec<_> = key_reports.iter().filter(|key| present.contains(&key.kid.to_string())).collect();
    for key in &present {
        let kid = key.kid.to_string();
        let new = ring.keys().is_empty() && present.iter().filter(|other| other.alg == key.alg).count() == 1;
        if ring.find(&kid).is_none() && !new && !begun.contains(&key.id) {
            lines.push(format!(
                "the key {kid} is in the token, but not in the restored store; the server will not start \
                 until you announce the key (sealgate key announce {kid}), if it is yours, or delete the key from \
                 the token"
            ));
            keys.push(json!({ "kid": kid, "state": "unannounced", "token": "present" }));
        }
    }
    Ok(KeysReport { keys, lines })
}

pub(super) fn keys_text(report: &KeysReport) -> String {
    let word = |key: &Value, name: &str| key[name].as_str().unwrap_or_default().to_owned();
    let keys = report
        .keys
        .iter()
        .map(|key| format!("key {}: {}, {} in the token\n", word(key, "kid"), word(key, "state"), word(key, "token")));
    keys.chain(report.lines.iter().map(|line| format!("{line}\n"))).collect()
}
