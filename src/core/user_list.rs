//! List of all users in memory, for the console of this node.
//!
//! The list is built when an administrator first opens it, and brought up to date before each use:
//!
//! - Users whose access counter has changed are read again, see
//!   [`AccessCounters::may_have_changed`]. Every change that the list shows increments the counter.
//! - If a counter has changed, all users are also read to find new ones: at once if this process has
//!   added users, otherwise every few seconds. In a cluster, a user who was added on another node
//!   appears after this interval.
//! - Last sign-ins are read from the audit log, newest first. The first read continues in the
//!   background if the log is long.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, OwnedMutexGuard};

use sealgate_domain::audit::{AuditFilter, AuditId, AuditKind};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_domain::user_list::UserList;
use sealgate_store::engine::EngineError;
use sealgate_store::{AccessCounters, Store, StoreError, UserListRow};

/// Maximum number of users in the list, which then takes about 180 MB.
pub const MAX_LISTED_USERS: usize = 250_000;

/// Number of users, or of audit records, per read.
const ROWS_PER_READ: usize = 256;

/// Minimum interval between two reads of all users.
const MIN_SCAN_INTERVAL: Duration = Duration::from_secs(2);

/// Part of the time that reads of all users may take: one in this number.
const SCAN_SHARE: u32 = 20;

/// Maximum number of names of groups and sources. The list is built anew if there are more, because
/// names that no user has any more are not removed.
const MAX_NAMES: usize = 65_536;

/// Number of reads of the audit log that one request waits for. Each examines up to 4,096 records.
const SIGN_IN_READS: usize = 2;

/// Maximum number of sign-ins that one read of the audit log returns.
const SIGN_INS_PER_READ: usize = 4096;

/// Time before the start of the previous read from which the next read begins. Records are written
/// up to two seconds after the event, and a commit may take longer.
const SIGN_IN_OVERLAP: Duration = Duration::from_mins(1);

/// Pause between two reads of the audit log in the background.
const READ_PAUSE: Duration = Duration::from_millis(5);

/// List of all users. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct UserLists {
    state: Arc<Mutex<Option<ListState>>>,
    /// Whether a task reads the audit log in the background.
    is_reading: Arc<AtomicBool>,
}

/// List that is up to date, for one reader.
#[derive(Debug)]
pub struct CurrentList(OwnedMutexGuard<Option<ListState>>);

#[derive(Debug)]
struct ListState {
    list: UserList,
    /// Counters before the last read.
    counters: AccessCounters,
    /// Value of [`Store::user_additions`] before the last read of all users.
    additions: u64,
    scanned_at: Instant,
    scan_took: Duration,
    /// Whether a counter has changed since the last read of all users.
    may_lack_users: bool,
    sign_ins: SignIns,
}

/// Progress of reading the last sign-ins.
#[derive(Debug, Default)]
struct SignIns {
    /// Start of the last complete read.
    read_at: Option<UnixTime>,
    /// Read in progress.
    pass: Option<Pass>,
}

#[derive(Debug)]
struct Pass {
    started_at: UnixTime,
    /// Last record that was read.
    after: Option<AuditId>,
}

impl UserLists {
    /// Returns the list, brought up to date. Only for requests of administrators, because the first
    /// call reads all users.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn current(&self, store: &Store, now: UnixTime) -> Result<CurrentList, StoreError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        if state.as_ref().is_some_and(|state| state.list.names() > MAX_NAMES) {
            *state = None;
        }
        match &mut *state {
            Some(state) => state.refresh(store).await?,
            None => *state = Some(ListState::read(store).await?),
        }
        if let Some(state) = &mut *state
            && !self.is_reading.load(Ordering::Acquire)
            && !state.read_sign_ins(store, now, SIGN_IN_READS).await?
            && !self.is_reading.swap(true, Ordering::AcqRel)
        {
            tokio::spawn(self.clone().read_sign_ins(store.for_server(), now));
        }
        Ok(CurrentList(state))
    }

    /// Reads the last sign-ins until all are known.
    async fn read_sign_ins(self, store: Store, now: UnixTime) {
        loop {
            tokio::time::sleep(READ_PAUSE).await;
            let mut state = self.state.lock().await;
            let Some(state) = &mut *state else { break };
            match state.read_sign_ins(&store, now, 1).await {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the last sign-ins for the list of users");
                    break;
                }
            }
        }
        self.is_reading.store(false, Ordering::Release);
    }
}

impl CurrentList {
    /// Returns the result of a function of the list, which runs on a thread for blocking work.
    ///
    /// # Errors
    /// When the thread panics.
    pub async fn with<T: Send + 'static>(
        self,
        work: impl FnOnce(&UserList) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = move || work(self.0.as_ref().map_or(&UserList::default(), |state| &state.list));
        let failed = |error| EngineError::Unavailable(format!("a search in the list of users failed: {error}"));
        tokio::task::spawn_blocking(work).await.map_err(|error| failed(error).into())
    }

    /// Returns whether the last sign-ins of all users are known.
    pub fn has_sign_ins(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.sign_ins.read_at.is_some())
    }

    /// Returns whether there are more users than the list can contain.
    pub fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.list.len() >= MAX_LISTED_USERS)
    }
}

impl ListState {
    /// Reads all users.
    async fn read(store: &Store) -> Result<Self, StoreError> {
        let mut state = Self {
            list: UserList::default(),
            counters: store.access_counters(),
            additions: store.user_additions(),
            scanned_at: Instant::now(),
            scan_took: Duration::ZERO,
            may_lack_users: false,
            sign_ins: SignIns::default(),
        };
        state.scan(store).await?;
        Ok(state)
    }

    /// Reads the users that have changed since the last call.
    async fn refresh(&mut self, store: &Store) -> Result<(), StoreError> {
        // Read the counters before the records, so that a change in between is read by the next call.
        let (counters, additions) = (store.access_counters(), store.user_additions());
        let is_changed = counters.has_changes(&self.counters);
        self.may_lack_users |= is_changed;
        let interval = MIN_SCAN_INTERVAL.max(self.scan_took.saturating_mul(SCAN_SHARE));
        if additions != self.additions || (self.may_lack_users && self.scanned_at.elapsed() >= interval) {
            self.scan(store).await?;
            self.additions = additions;
        } else if is_changed {
            let subjects = self.list.subjects();
            let changed: Vec<Subject> =
                subjects.filter(|subject| counters.may_have_changed(&self.counters, *subject)).collect();
            for subjects in changed.chunks(ROWS_PER_READ) {
                let rows = store.user_rows_of(subjects).await?;
                self.replace(subjects, rows);
            }
        }
        self.counters = counters;
        Ok(())
    }

    /// Reads all users, and decodes those that have changed.
    async fn scan(&mut self, store: &Store) -> Result<(), StoreError> {
        let started = Instant::now();
        let mut after = None;
        let mut count = 0;
        loop {
            let most = ROWS_PER_READ.min(MAX_LISTED_USERS - count);
            let rows = if most == 0 { Vec::new() } else { store.user_rows(after, most).await? };
            count += rows.len();
            let last = rows.last().map(|row| row.subject);
            let known: Vec<Subject> = self.list.subjects_between(after, last).collect();
            self.replace(&known, rows);
            match last {
                Some(_) => after = last,
                None => break,
            }
        }
        (self.scanned_at, self.scan_took, self.may_lack_users) = (Instant::now(), started.elapsed(), false);
        Ok(())
    }

    /// Replaces the entries of these users by the rows. Removes the users that have no row.
    fn replace(&mut self, subjects: &[Subject], rows: Vec<UserListRow>) {
        let mut gone: HashSet<Subject> = subjects.iter().copied().collect();
        for row in rows {
            let (subject, mark) = (row.subject, row.mark);
            if self.list.mark(subject) == Some(mark) {
                gone.remove(&subject);
                continue;
            }
            match row.read() {
                Ok(records) => {
                    gone.remove(&subject);
                    self.list.put(mark, &records.user, records.factors.as_ref(), records.invitation.as_ref());
                }
                Err(error) => {
                    tracing::warn!(%subject, %error, "the list of users lacks a user whose record is damaged");
                }
            }
        }
        for subject in gone {
            self.list.remove(subject);
        }
    }

    /// Reads last sign-ins from the audit log, up to this number of reads. Returns whether all are
    /// known.
    async fn read_sign_ins(&mut self, store: &Store, now: UnixTime, reads: usize) -> Result<bool, StoreError> {
        let since = self.sign_ins.read_at.map(|at| at.minus(SIGN_IN_OVERLAP));
        let kinds = vec![AuditKind::SignedIn, AuditKind::AppSignedIn];
        let filter = AuditFilter { kinds, since, ..AuditFilter::default() };
        for _ in 0..reads {
            let pass = self.sign_ins.pass.get_or_insert(Pass { started_at: now, after: None });
            let page = store.audit_page(&filter, pass.after, SIGN_INS_PER_READ).await?;
            for record in page.records {
                if let Some(subject) = record.event.subject {
                    self.list.signed_in(subject, record.id.at());
                }
            }
            let Some(next) = page.next else {
                self.sign_ins = SignIns { read_at: Some(pass.started_at), pass: None };
                return Ok(true);
            };
            pass.after = Some(next);
        }
        Ok(false)
    }
}
