//! Background reads of directories: the users of each directory who have access are read again, so
//! that changes and disabled accounts take effect without a new sign-in.
//!
//! Each node of a cluster reads for itself, so each knows for how long a directory has been away.
//! Only differences are written, and two nodes that write the same difference do not conflict.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::app::server::Stop;
use sealgate_core::sources::DirectorySource;
use sealgate_core::state::Sealgate;
use sealgate_domain::source::{SourceId, SourceLink, is_mass_loss};
use sealgate_domain::time::UnixTime;
use sealgate_ldap::{LdapRead, USERS_PER_READ};
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
    let mut absence = Absence::restore(&sealgate, &source).await;
    loop {
        let pause = tokio::select! {
            biased;
            _ = stop.changed() => return,
            is_current = round(&sealgate, &source, &mut absence) => {
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

/// Whether the store has the time since which the directory has not been read.
///
/// It is written when the directory has been away for a quarter of `stale_seconds`, and removed when
/// the directory is back: a write in each round would empty the caches of all nodes. After a restart,
/// sessions continue for the rest of `stale_seconds`.
struct Absence {
    is_stored: bool,
}

impl Absence {
    /// Reads the time of the last complete round before this start.
    async fn restore(sealgate: &Sealgate, source: &DirectorySource) -> Self {
        match sealgate.store.unread_since(source.name()).await {
            Ok(at) => {
                if let Some(at) = at {
                    source.was_last_read(&sealgate.metrics, at);
                }
                Self { is_stored: at.is_some() }
            }
            Err(error) => {
                tracing::error!(directory = %source.name(), %error, "cannot read when the directory was last read");
                Self { is_stored: false }
            }
        }
    }

    /// Stores or removes the time after a round. A failed write is repeated after the next round.
    async fn store(&mut self, sealgate: &Sealgate, source: &DirectorySource, is_read: bool) {
        let last = source.read_at();
        let is_long = sealgate.clock.now().since(last) >= source.settings.stale / 4;
        let time = match (is_read, self.is_stored) {
            (true, true) => None,
            (false, false) if is_long => Some(last),
            _ => return,
        };
        match sealgate.store.set_unread_since(source.name(), time).await {
            Ok(()) => self.is_stored = time.is_some(),
            Err(error) => {
                tracing::error!(directory = %source.name(), %error, "cannot save when the directory was last read");
            }
        }
    }
}

/// Reads the users who have access, and applies the changes. Returns whether the round was complete
/// and nothing was held back.
async fn round(sealgate: &Sealgate, source: &DirectorySource, absence: &mut Absence) -> bool {
    let outcome = match read(sealgate, source).await {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::error!(directory = %source.name(), %error, "cannot save the changes of users in the directory");
            DirectoryReadOutcome::Failed
        }
    };
    sealgate.metrics.directory_was_read(source.name().as_str(), outcome);
    absence.store(sealgate, source, outcome != DirectoryReadOutcome::Failed).await;
    matches!(outcome, DirectoryReadOutcome::Complete { .. })
}

/// Reads the users in batches, and applies what the directory reports about them. Users who are gone
/// are signed out only after the last batch, if all batches were read.
async fn read(sealgate: &Sealgate, source: &DirectorySource) -> Result<DirectoryReadOutcome, StoreError> {
    // The time before the read, because later changes are not in the result.
    let at = sealgate.clock.now();
    let limit = source.round_timeout();
    let deadline = Instant::now() + limit;
    let users = sealgate.store.source_users_with_access(source.name()).await?;
    let mut round = source.directory.round();
    let (mut gone, mut unread) = (Vec::new(), Vec::new());
    for batch in users.chunks(USERS_PER_READ) {
        let ids: Vec<SourceId> = batch.iter().filter_map(|user| Some(user.source.as_ref()?.link.id.clone())).collect();
        let reports = match timeout_at(deadline, round.read(&ids)).await {
            Ok(Ok(reports)) => reports,
            Ok(Err(fault)) => return Ok(failed(source, at, &fault)),
            Err(_) => {
                let (count, limit) = (users.len(), limit.as_secs());
                let fault = format!(
                    "the round over {count} users did not end within {limit} seconds; see why the directory is slow, \
                     or raise stale_seconds"
                );
                return Ok(failed(source, at, &fault));
            }
        };
        for (user, (id, report)) in batch.iter().zip(reports) {
            match report {
                LdapRead::Found(entry) => sealgate.refresh_source_user(source, user, &entry).await.map(drop)?,
                LdapRead::Gone => gone.push(id),
                LdapRead::Unreadable => unread.push(id),
            }
        }
    }
    let is_held_back = is_mass_loss(users.len(), gone.len()) && !sealgate.store.accepts_loss(source.name(), at).await?;
    if is_held_back {
        tracing::error!(
            directory = %source.name(),
            gone = gone.len(),
            users = users.len(),
            "the directory no longer has many of the users, so these users are not signed out; if this is correct, \
                run sealgate directory revoke-gone {}",
            source.name()
        );
        unread.extend(gone);
    } else {
        for id in gone {
            sealgate.record_gone(&SourceLink { source: source.name().clone(), id }).await?;
        }
    }
    source.was_read(at, unread);
    if is_held_back {
        return Ok(DirectoryReadOutcome::HeldBack);
    }
    Ok(DirectoryReadOutcome::Complete { users: users.len(), at: at.seconds() })
}

/// Logs a round that said nothing about the remaining users.
fn failed(source: &DirectorySource, at: UnixTime, fault: &dyn Display) -> DirectoryReadOutcome {
    let seconds = at.since(source.read_at()).as_secs();
    tracing::error!(directory = %source.name(), %fault, seconds, "the directory cannot be read; the last complete read \
        was this many seconds ago");
    DirectoryReadOutcome::Failed
}
