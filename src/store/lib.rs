//! The store: atomic, durable operations on domain objects, over an [`engine::Engine`].
//!
//! The crate hides the engine from its callers and does not depend on HTTP.
//!
//! A single commit enforces a rule that must hold under concurrency, such as the single use of a
//! code. The commit expects the bytes on which the decision was based. If another commit has
//! changed them, the result is [`Committed::Conflict`]. The caller then loads the records and
//! decides again.

mod access;
pub mod barrier;
mod certificates;
pub mod cluster;
mod commit_turn;
pub mod engine;
mod error;
mod format;
mod guarded;
pub mod memory;
pub mod postgres;
pub mod sealer;
pub mod sled;
mod subjects;
mod sweep;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::cluster::counts::BoundedCount;
use crate::engine::{Changes, Counter, Engine, EngineError, Key, Outcome, Value};
use crate::guarded::CommitGuard;
use crate::sealer::Sealer;
use sealgate_domain::key_ring::TokenHolder;
use sealgate_domain::user::Subject;
use sealgate_system::trace::{self, SpanDescription, inherit, span};

pub use certificates::{CertificatePart, CertificatePartError};
pub use cluster::counts::UserCounts;
pub use cluster::leases::{Fence, LEASE_LENGTH, Lease, LeaseName};
pub use error::{Committed, StoreError};
pub use format::intake::ExportRecord;
pub use format::record::Loaded;
pub use format::table::Table;
pub use format::transfer::Position;
pub use format::transfer::export_format;
pub use format::{FormatRange, RecordChange, VersionStep, add_step};
pub use guarded::{ProtectedUsers, UserRule};
pub use subjects::account_links::{EndedLinks, Promotion};
pub use subjects::app_credentials::{AppCredentialSet, AppSite, OpenedAppCredential};
pub use subjects::app_passwords::AppPasswordAdded;
pub use subjects::audit::AuditPage;
pub use subjects::audit::AuditRecord;
pub use subjects::client_logouts::{ClientLogoutCounts, MAX_WAITING_LOGOUTS, MAX_WAITING_LOGOUTS_OF_CLIENT};
pub use subjects::console_counts::{ConsoleCounts, SessionsAtApp};
pub use subjects::definitions::{ClientDefinition, ClientsDefined, DefineOutcome};
pub use subjects::factors::FactorsChanged;
pub use subjects::forms::{Form, MAX_FORM_BYTES};
pub use subjects::grants::Ended;
pub use subjects::grants::GrantFilter;
pub use subjects::interactions::SignInAttempt;
pub use subjects::registration_tokens::PresentedInitialToken;
pub use subjects::registrations::Registered;
pub use subjects::registry::{AddOutcome, RenameOutcome};
pub use subjects::revocations::Revocation;
pub use subjects::sources::{LinkOutcome, ProvenAccount, SourceOutcome, UpstreamTokenKind};
pub use subjects::submissions::SubmissionState;
pub use subjects::upstream_sign_ins::SignInPlace;
pub use subjects::user_rows::{UserListRow, UserRecords};
pub use sweep::{SweepPlace, Swept};

/// Maximum number of consecutive conflicts before a change fails. Each conflict means that another
/// commit has succeeded.
const MAX_CONFLICTS: usize = 64;

/// Number of records in one scan by an operation on many records.
const PAGE: usize = 256;

/// Access counters of all users at one time: see [`Store::access_counters`].
#[derive(Debug)]
pub struct AccessCounters(engine::CounterReading);

impl AccessCounters {
    /// Returns the access counter of this user: see [`Store::access_counter`].
    pub fn get(&self, subject: Subject) -> u64 {
        self.0.sum(access::counter_of_user(subject))
    }

    /// Returns whether records of this user may have changed since an earlier reading: the user, the
    /// kind of the strongest factor, the invitation, or access.
    pub fn may_have_changed(&self, earlier: &Self, subject: Subject) -> bool {
        let counter = Counter::User(access::counter_of_user(subject));
        self.0.value(counter) != earlier.0.value(counter)
    }

    /// Returns whether records of any user may have changed since an earlier reading. New users
    /// count as changed.
    pub fn has_changes(&self, earlier: &Self) -> bool {
        (0..=u8::MAX).map(Counter::User).any(|counter| self.0.value(counter) != earlier.0.value(counter))
    }
}

/// State on which a decision is based: see [`Store::basis`].
#[derive(Debug)]
pub struct ReadSnapshot {
    current: engine::Current,
    epoch: u64,
}

/// Sealer, with the maximum number of stored forms.
#[derive(Debug)]
struct Sealing {
    sealer: Sealer,
    most_forms: usize,
}

/// Cached sizes of the audit log.
#[derive(Debug, Default)]
struct AuditCounts {
    /// Number of stored events per age index, from the last count and the events added since.
    event_counts: [AtomicUsize; 2],
    counted_at: Mutex<Option<Instant>>,
}

/// Handle to the store. Clones share all state.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    /// Condition of every commit through this handle.
    guard: Option<Arc<CommitGuard>>,
    /// Whether commits are the server's own work, which the guard does not apply to.
    is_for_server: bool,
    /// Number of pending interactions. `most_interactions` is its maximum.
    interactions: Arc<BoundedCount>,
    most_interactions: usize,
    /// Number of stored forms.
    forms: Arc<BoundedCount>,
    sealing: Option<Arc<Sealing>>,
    registrations: Arc<BoundedCount>,
    /// Number of self-registrations whose e-mail address is not confirmed yet.
    pending_registrations: Arc<BoundedCount>,
    /// Number of queued e-mails.
    outbox: Arc<BoundedCount>,
    /// Number of queued logouts at clients.
    client_logouts: Arc<BoundedCount>,
    /// Number of logouts that were dropped since the last report, because the queue was full.
    dropped_logouts: Arc<AtomicU64>,
    /// Number of the next revocation that this process opens.
    revocations: Arc<AtomicU64>,
    trail: Arc<AuditCounts>,
    /// Number of commits of this process that have added users.
    user_additions: Arc<AtomicU64>,
    /// Name of this node, if each node has its own token. The key ring then has keys of all nodes.
    node: Option<String>,
    /// Reason why this process must not make decisions, although the store responds.
    held_back: Arc<ArcSwapOption<String>>,
}

impl Store {
    /// Opens the store on this engine.
    ///
    /// Older programs cannot open the store afterwards, unless nodes share it.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or the engine's error.
    pub async fn open(engine: Arc<dyn Engine>, most_interactions: usize) -> Result<Self, StoreError> {
        let store = Self::over(engine, most_interactions);
        store.settle_format().await?;
        if store.is_shared() {
            store.follow_counts().await?;
        }
        if !store.interactions.is_followed() {
            store.interactions.set(store.count_interactions().await?);
            store.outbox.set(store.count(Table::Outbox).await?);
            store.client_logouts.set(store.count(Table::ClientLogout).await?);
            store.pending_registrations.set(store.count(Table::PendingRegistration).await?);
        }
        Ok(store)
    }

    /// Opens the store for reading only. Does not raise its format, so that the program that wrote
    /// the store can still open it.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or the engine's error.
    pub async fn open_for_export(engine: Arc<dyn Engine>) -> Result<Self, StoreError> {
        let store = Self::over(engine, 0);
        store.format().await?;
        Ok(store)
    }

    fn over(engine: Arc<dyn Engine>, most_interactions: usize) -> Self {
        Self {
            engine,
            guard: None,
            is_for_server: false,
            interactions: Arc::default(),
            most_interactions,
            forms: Arc::default(),
            sealing: None,
            registrations: Arc::default(),
            pending_registrations: Arc::default(),
            outbox: Arc::default(),
            client_logouts: Arc::default(),
            dropped_logouts: Arc::default(),
            // Start at random, because another process may open a revocation of the same user in
            // the same second.
            revocations: Arc::new(AtomicU64::new(RandomState::new().build_hasher().finish())),
            trail: Arc::default(),
            user_additions: Arc::default(),
            node: None,
            held_back: Arc::default(),
        }
    }

    /// Returns the store for a node whose token has its own keys: see [`Store::key_ring`].
    #[must_use]
    pub fn of_node(self, holder: Option<&TokenHolder>) -> Self {
        Self { node: holder.map(|holder| holder.node.clone()), ..self }
    }

    /// Checks whether the store currently accepts writes.
    ///
    /// # Errors
    /// The error that a write would return.
    pub async fn ping(&self) -> Result<(), StoreError> {
        Ok(self.engine.ping().await?)
    }

    /// Copies all records to a new directory and returns their number: see [`Engine::copy_to`].
    ///
    /// # Errors
    /// If the engine makes no copy.
    pub async fn copy_to(&self, directory: &Path) -> Result<usize, StoreError> {
        Ok(self.engine.copy_to(directory).await?)
    }

    /// Returns a number that increases whenever access of any user may have been revoked.
    pub fn epoch(&self) -> u64 {
        self.engine.counters().total()
    }

    /// Returns a number that increases whenever access of this user may have been revoked.
    ///
    /// A cache must read the number before the records, and keep the number with the decision. If
    /// the number has changed, the records must be read again.
    pub fn access_counter(&self, subject: Subject) -> u64 {
        self.engine.counters().sum(access::counter_of_user(subject))
    }

    /// Returns the values of [`Store::access_counter`] for all users at this time.
    ///
    /// For callers that read records before they know the user.
    pub fn access_counters(&self) -> AccessCounters {
        AccessCounters(self.engine.counters().snapshot())
    }

    /// Returns a number that increases whenever this process adds users.
    pub fn user_additions(&self) -> u64 {
        self.user_additions.load(Ordering::Acquire)
    }

    /// Returns the state on which a decision is based. Must be called before cached or stored data
    /// is read.
    ///
    /// The caller passes the returned state to [`Store::ensure_current`] after the decision.
    ///
    /// # Errors
    /// [`EngineError::Stale`] if no decision can be made at present.
    pub fn basis(&self) -> Result<ReadSnapshot, StoreError> {
        if let Some(cause) = &*self.held_back.load() {
            return Err(EngineError::Stale(cause.to_string()).into());
        }
        // Read in this order, so that a change between the two reads is detected.
        let epoch = self.epoch();
        Ok(ReadSnapshot { current: self.engine.current()?, epoch })
    }

    /// Blocks decisions of this process, for the given cause. `None` permits them again.
    ///
    /// Returns whether the cause has changed.
    pub fn hold_back(&self, cause: Option<String>) -> bool {
        let next = cause.map(Arc::new);
        self.held_back.swap(next.clone()) != next
    }

    /// Checks whether a decision on this basis may still be applied.
    ///
    /// Must be called as the last step. The process may have been suspended for minutes after it
    /// read the records, and a later heartbeat proves nothing about these records.
    ///
    /// # Errors
    /// [`EngineError::Stale`] if access may have been revoked in the meantime.
    pub fn ensure_current(&self, basis: &ReadSnapshot) -> Result<(), StoreError> {
        if basis.current.holds() {
            return Ok(());
        }
        self.engine.current()?;
        if self.epoch() == basis.epoch {
            return Ok(());
        }
        Err(EngineError::Stale("access rights changed during the decision".to_owned()).into())
    }

    /// Returns the number of processes that share the store, including this process.
    pub fn nodes(&self) -> u32 {
        self.engine.nodes()
    }

    async fn load<T: DeserializeOwned>(&self, key: Key) -> Result<Option<Loaded<T>>, StoreError> {
        let bytes = self.engine.get(&key).await?;
        bytes.map(|bytes| format::record::decode(&key, bytes)).transpose()
    }

    /// Returns whether other nodes may use the store too.
    pub fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    /// Commits changes, if the guard of this handle holds.
    ///
    /// [`access`] determines the counters that the commit increments.
    async fn commit(&self, changes: Changes) -> Result<Committed, StoreError> {
        match &self.guard {
            Some(guard) if !self.is_for_server => self.commit_under(guard, changes).await,
            _ => self.commit_unguarded(changes).await,
        }
    }

    /// Commits changes without checking the guard, even if the session that caused them has ended.
    async fn commit_unguarded(&self, changes: Changes) -> Result<Committed, StoreError> {
        let adds_users = access::adds_users(&changes);
        let outcome = self.commit_in_span(changes).await;
        // A commit with an unknown outcome may have added the users.
        if adds_users && !matches!(outcome, Ok(Committed::Conflict)) {
            self.user_additions.fetch_add(1, Ordering::AcqRel);
        }
        outcome
    }

    async fn commit_in_span(&self, changes: Changes) -> Result<Committed, StoreError> {
        span("commit", commit_to(self.engine.as_ref(), changes), |outcome| {
            let outcome = match outcome {
                Ok(Committed::Yes) => "committed",
                Ok(Committed::Conflict) => "conflict",
                Err(_) => "failed",
            };
            let attributes = vec![trace::text("sealgate.outcome", outcome)];
            SpanDescription { attributes, failed: outcome == "failed" }
        })
        .await
    }

    /// Returns the bytes that a commit stores for a record, for later expectations.
    fn to_stored_format(&self, key: &[u8], bytes: Value) -> Result<Value, StoreError> {
        format::record::in_format(key, bytes, self.engine.format().written(format::newest()))
    }

    /// Runs several commits concurrently, so that the engine can batch them.
    ///
    /// Returns their outcomes in the same order.
    async fn commit_all(&self, all: Vec<Changes>) -> Result<Vec<Committed>, StoreError> {
        let mut outcomes = vec![Committed::Conflict; all.len()];
        let mut committing = JoinSet::new();
        for (number, changes) in all.into_iter().enumerate() {
            let store = self.clone();
            committing.spawn(inherit(async move { (number, store.commit(changes).await) }));
        }
        let mut failed = None;
        while let Some(ended) = committing.join_next().await {
            match ended {
                Ok((number, Ok(outcome))) => outcomes[number] = outcome,
                Ok((_, Err(error))) => failed = Some(error),
                Err(error) => failed = Some(EngineError::Unavailable(error.to_string()).into()),
            }
        }
        failed.map_or(Ok(outcomes), Err)
    }

    /// Commits changes that have no expectations, and therefore no conflicts.
    async fn write(&self, changes: Changes) -> Result<(), StoreError> {
        match self.commit(changes).await? {
            Committed::Yes => Ok(()),
            Committed::Conflict => Err(StoreError::Contended),
        }
    }

    /// Returns up to `limit` records whose keys start with `prefix` and are greater than `after`.
    async fn page<T: DeserializeOwned>(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Loaded<T>>, StoreError> {
        let rows = self.engine.scan(prefix, after, limit).await?;
        rows.into_iter().map(|(key, bytes)| format::record::decode(&key, bytes)).collect()
    }

    async fn count(&self, table: Table) -> Result<usize, StoreError> {
        Ok(self.engine.count(&format::table::all(table)).await?)
    }
}

async fn commit_to(engine: &dyn Engine, mut changes: Changes) -> Result<Committed, StoreError> {
    changes.moves = access::moves(&changes);
    let format = engine.format().written(format::newest());
    if format < format::newest() {
        for (key, value) in &mut changes.put {
            *value = format::record::in_format(key, std::mem::take(value), format)?;
        }
    }
    Ok(match engine.commit(changes).await? {
        Outcome::Committed => Committed::Yes,
        Outcome::Conflict => Committed::Conflict,
    })
}
