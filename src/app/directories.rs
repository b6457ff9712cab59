//! Background reads of directories: the users of each directory who have access are read again, so
//! that changes and disabled accounts take effect without a new sign-in.
//!
//! Each node of a cluster reads for itself, so each knows for how long a directory has been away.
//! Only differences are written, and two nodes that write the same difference do not conflict.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::app::server::Stop;
use sealgate_core::sources::DirectorySource;
use sealgate_core::state::Sealgate;
use sealgate_domain::source::{SourceEntry, SourceId, is_mass_loss};
use sealgate_domain::user::User;
use sealgate_store::StoreError;
use sealgate_system::metrics::DirectoryReadOutcome;

/// Pause after a failed round.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Reads all directories until `stop`.
pub(crate) async fn run(sealgate: Arc<Sealgate>, stop: Stop) {
    let mut tasks = JoinSet::new();
    for source in sealgate.sources.directories() {
        tasks.spawn(keep_current(Arc::clone(&sealgate), Arc::clone(source), stop.clone()));
    }
    tasks.join_all().await;
}

async fn keep_current(sealgate: Arc<Sealgate>, source: Arc<DirectorySource>, mut stop: Stop) {
    loop {
        let pause = tokio::select! {
            biased;
            _ = stop.changed() => return,
            is_current = round(&sealgate, &source) => {
                if is_current { source.settings.refresh } else { RETRY_INTERVAL.min(source.settings.refresh) }
            }
        };
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Reads the users who have access, and applies the changes. Returns whether the round was complete.
async fn round(sealgate: &Sealgate, source: &DirectorySource) -> bool {
    let outcome = match read(sealgate, source).await {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::error!(directory = %source.name(), %error, "cannot save the changes of users in the directory");
            DirectoryReadOutcome::Failed
        }
    };
    source.was_read(&sealgate.metrics, outcome);
    matches!(outcome, DirectoryReadOutcome::Complete { .. })
}

async fn read(sealgate: &Sealgate, source: &DirectorySource) -> Result<DirectoryReadOutcome, StoreError> {
    // The time before the read, because later changes are not in the result.
    let at = sealgate.clock.now();
    let users = sealgate.store.source_users_with_access(source.name()).await?;
    let ids: Vec<SourceId> = users.iter().filter_map(|user| Some(user.source.as_ref()?.link.id.clone())).collect();
    let entries = match source.directory.read(&ids).await {
        Ok(entries) => entries,
        Err(fault) => {
            let seconds = at.since(source.read_at()).as_secs();
            tracing::error!(directory = %source.name(), %fault, seconds, "the directory cannot be read; the last \
                complete read was this many seconds ago");
            return Ok(DirectoryReadOutcome::Failed);
        }
    };
    let entries: HashMap<SourceId, SourceEntry> =
        entries.into_iter().filter_map(|(id, entry)| Some((id, entry?))).collect();
    let gone = ids.iter().filter(|id| !entries.contains_key(id)).count();
    let is_held_back = is_mass_loss(ids.len(), gone) && !sealgate.store.accepts_loss(source.name(), at).await?;
    if is_held_back {
        tracing::error!(
            directory = %source.name(),
            gone,
            users = ids.len(),
            "the directory no longer has many of the users, so these users are not signed out; if this is correct, \
                run sealgate directory revoke-gone {}",
            source.name()
        );
    }
    for user in &users {
        apply(sealgate, source, user, &entries, is_held_back).await?;
    }
    if is_held_back {
        return Ok(DirectoryReadOutcome::HeldBack);
    }
    Ok(DirectoryReadOutcome::Complete { users: users.len(), at: at.seconds() })
}

/// Applies the directory's report about one user. If `is_held_back`, ignores that the user is gone.
async fn apply(
    sealgate: &Sealgate,
    source: &DirectorySource,
    user: &User,
    entries: &HashMap<SourceId, SourceEntry>,
    is_held_back: bool,
) -> Result<(), StoreError> {
    let Some(own) = &user.source else { return Ok(()) };
    match entries.get(&own.link.id) {
        Some(entry) => sealgate.refresh_source_user(source, user, entry).await.map(drop),
        None if is_held_back => Ok(()),
        None => sealgate.record_gone(&own.link).await,
    }
}
