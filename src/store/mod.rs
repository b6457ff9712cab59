//! The store: operations in the domain's words, each atomic and durable when it returns, written once over a small
//! [`engine::Engine`]. Nothing of any engine leaks out of here, and nothing of HTTP comes in.
//!
//! A rule that must hold under races (a code is used once, a refresh token rotates once) is one commit that expects the
//! bytes it decided on. The loser of a race gets [`Committed::Conflict`], loads again and decides again.

mod access;
mod account_links;
mod admission;
mod answers;
mod app_passwords;
mod audit;
pub(crate) mod barrier;
mod browsers;
mod commit_guard;
mod commit_turn;
mod counts;
mod data_keys;
pub(crate) mod engine;
mod error;
mod factor_secrets;
mod factors;
mod format;
mod forms;
mod grants;
mod guarded;
mod intake;
mod interactions;
mod keys;
mod leases;
mod limit_seed;
pub(crate) mod memory;
mod notices;
mod outbox;
mod pending_registrations;
pub(crate) mod postgres;
mod record;
mod registrations;
mod registry;
mod relying_party;
mod restored;
mod revocations;
pub(crate) mod sealer;
mod sessions;
pub(crate) mod shared_counts;
pub(crate) mod sled;
mod standing;
mod submissions;
mod sweep;
mod table;
mod tally;
mod transfer;
mod versions;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::domain::key_ring::TokenHolder;
use crate::domain::user::Subject;
use crate::store::commit_guard::CommitGuard;
use crate::store::engine::{Changes, Engine, EngineError, Key, Outcome, Value};
use crate::store::sealer::Sealer;
use crate::store::tally::Tally;

pub(crate) use account_links::AddressLeft;
pub use app_passwords::AppPasswordAdded;
pub(crate) use audit::AuditPage;
pub use audit::AuditRecord;
pub(crate) use counts::PeopleCount;
pub use error::{Committed, StoreError};
pub(crate) use factors::FactorsChanged;
pub use forms::{Form, MAX_FORM_BYTES};
pub(crate) use grants::Ended;
pub use grants::GrantFilter;
pub use intake::ExportRecord;
pub(crate) use interactions::SignInAttempt;
pub use leases::{Fence, LEASE_LENGTH, Lease, LeaseName};
pub(crate) use record::Loaded;
pub(crate) use registrations::Registered;
pub(crate) use registry::UsersFound;
pub use registry::{AddOutcome, RenameOutcome};
pub(crate) use revocations::Revocation;
pub(crate) use submissions::SubmissionState;
pub use sweep::{SweepPlace, Swept};
pub use table::Table;
pub use transfer::Position;
pub(crate) use transfer::export_format;
pub use versions::{FormatRange, RecordChange, VersionStep, add_step};

/// How many conflicts in a row a change may meet before it gives up: each means that somebody else got through.
const MOST_CONFLICTS: usize = 64;

/// How many records an operation on many looks at in one step.
const PAGE: usize = 256;

/// Everybody's access counter at one moment: see [`Store::access_counters`].
#[derive(Debug)]
pub struct AccessCounters(engine::CounterReading);

impl AccessCounters {
    pub fn of(&self, subject: Subject) -> u64 {
        self.0.sum(access::of_person(subject))
    }
}

/// What a decision rests on: see [`Store::basis`].
#[derive(Debug)]
pub struct Basis {
    current: engine::Current,
    epoch: u64,
}

/// What seals, and how many forms may lie here.
#[derive(Debug)]
struct Sealing {
    sealer: Sealer,
    most_forms: usize,
}

/// What the store knows of its trail without looking.
#[derive(Debug, Default)]
struct AuditCounts {
    /// Records kept: by age index, as they were counted last and since.
    kept: [AtomicUsize; 2],
    counted: Mutex<Option<Instant>>,
}

/// Handle to the store. Clones share all state.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    /// What must hold for each commit through this handle.
    guard: Option<Arc<CommitGuard>>,
    /// Whether the commit is the server's own work, which the guard does not stop.
    is_for_server: bool,
    /// Interactions that are open, and how many may be.
    interactions: Arc<Tally>,
    most_interactions: usize,
    /// Forms that are kept.
    forms: Arc<Tally>,
    sealing: Option<Arc<Sealing>>,
    registrations: Arc<Tally>,
    /// Accounts that strangers have asked for.
    pending_registrations: Arc<Tally>,
    /// Mails that wait.
    outbox: Arc<Tally>,
    /// The number of the next revocation that this process begins.
    revocations: Arc<AtomicU64>,
    trail: Arc<AuditCounts>,
    /// The node whose keys are its own in the ring of keys, where each has a token of its own.
    node: Option<String>,
    /// Why nothing is decided here though the store answers.
    held_back: Arc<ArcSwapOption<String>>,
}

impl Store {
    /// The store over this engine. No older program opens it from here on, unless nodes share it.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or when the engine cannot be read or written.
    pub async fn open(engine: Arc<dyn Engine>, most_interactions: usize) -> Result<Self, StoreError> {
        let store = Self::over(engine, most_interactions);
        store.settle_format().await?;
        if store.is_shared() {
            store.follow_counts().await?;
        }
        if !store.interactions.is_followed() {
            store.interactions.set(store.count_interactions().await?);
            store.outbox.set(store.count(Table::Outbox).await?);
            store.pending_registrations.set(store.count(Table::PendingRegistration).await?);
        }
        Ok(store)
    }

    /// The store as it lies, for whoever only reads it: the program that wrote it can open it afterwards.
    ///
    /// # Errors
    /// [`StoreError::Newer`], or when the engine cannot be read.
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
            // Another process may begin one of the same person in the same second.
            revocations: Arc::new(AtomicU64::new(RandomState::new().build_hasher().finish())),
            trail: Arc::default(),
            node: None,
            held_back: Arc::default(),
        }
    }

    /// The store as a node has it whose token has keys of its own: see [`Store::key_ring`].
    #[must_use]
    pub fn of_node(self, holder: Option<&TokenHolder>) -> Self {
        Self { node: holder.map(|holder| holder.node.clone()), ..self }
    }

    /// Whether writes would be taken now.
    ///
    /// # Errors
    /// What a write would meet.
    pub async fn ping(&self) -> Result<(), StoreError> {
        Ok(self.engine.ping().await?)
    }

    /// Makes a copy of everything in a new directory, and yields how many records it has: see [`Engine::copy_to`].
    ///
    /// # Errors
    /// When the engine makes none.
    pub async fn copy_to(&self, directory: &Path) -> Result<usize, StoreError> {
        Ok(self.engine.copy_to(directory).await?)
    }

    /// The number that grows whenever access may have been taken away, whosever.
    pub fn epoch(&self) -> u64 {
        self.engine.counters().total()
    }

    /// The number that grows whenever access may have been taken away from this person, or from everybody. Whoever caches
    /// a positive decision about them takes it before the look-ups that it rests on, keeps it beside the decision, and looks
    /// again once it has moved.
    pub fn access_counter(&self, subject: Subject) -> u64 {
        self.engine.counters().sum(access::of_person(subject))
    }

    /// What [`Store::access_counter`] says of everybody at this moment: for whoever learns by their look-ups only whom they
    /// are about.
    pub fn access_counters(&self) -> AccessCounters {
        AccessCounters(self.engine.counters().snapshot())
    }

    /// What this process knows at the moment, for a decision that rests on it: taken before the first look at anything
    /// remembered or stored, and handed to [`Store::acts_on`] when the decision is made.
    ///
    /// # Errors
    /// [`EngineError::Stale`]: no decision can be made now.
    pub fn basis(&self) -> Result<Basis, StoreError> {
        if let Some(cause) = &*self.held_back.load() {
            return Err(EngineError::Stale(cause.to_string()).into());
        }
        // In this order: what moves between the two is seen.
        let epoch = self.epoch();
        Ok(Basis { current: self.engine.current()?, epoch })
    }

    /// From now on nothing is decided here, for this cause; without one it is again. Yields whether that is new.
    pub fn hold_back(&self, cause: Option<String>) -> bool {
        let next = cause.map(Arc::new);
        self.held_back.swap(next.clone()) != next
    }

    /// Whether a decision on this basis may be acted on. Asked last: between the look at the counters and now the process
    /// may have been stopped for minutes, and the beat that it finds then tells nothing of what was looked at before.
    ///
    /// # Errors
    /// [`EngineError::Stale`]: it may not; access may have been taken away meanwhile.
    pub fn acts_on(&self, basis: &Basis) -> Result<(), StoreError> {
        if basis.current.holds() {
            return Ok(());
        }
        self.engine.current()?;
        if self.epoch() == basis.epoch {
            return Ok(());
        }
        Err(EngineError::Stale("access has changed while it was decided upon".to_owned()).into())
    }

    /// How many processes share the store now, this one among them.
    pub fn nodes(&self) -> u32 {
        self.engine.nodes()
    }

    async fn load<T: DeserializeOwned>(&self, key: Key) -> Result<Option<Loaded<T>>, StoreError> {
        let bytes = self.engine.get(&key).await?;
        bytes.map(|bytes| record::decode(&key, bytes)).transpose()
    }

    /// Whether other nodes have the same store.
    pub fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    /// The one way of a change to the engine, beside [`Store::commit_unguarded`]: see [`access`] and [`guarded`].
    async fn commit(&self, changes: Changes) -> Result<Committed, StoreError> {
        match &self.guard {
            Some(guard) if !self.is_for_server => self.commit_under(guard, changes).await,
            _ => self.commit_unguarded(changes).await,
        }
    }

    /// A commit of the server's own, whatever has become of the session in which it was caused.
    async fn commit_unguarded(&self, changes: Changes) -> Result<Committed, StoreError> {
        commit_to(self.engine.as_ref(), changes).await
    }

    /// The bytes of a record as a commit lays them down: for whoever expects them afterwards.
    fn as_kept(&self, key: &[u8], bytes: Value) -> Result<Value, StoreError> {
        record::in_format(key, bytes, self.engine.format().written(versions::newest()))
    }

    /// Several commits at once, so that they go to the disk or over the network together. Their outcomes, in their order.
    async fn commit_all(&self, all: Vec<Changes>) -> Result<Vec<Committed>, StoreError> {
        let mut outcomes = vec![Committed::Conflict; all.len()];
        let mut committing = JoinSet::new();
        for (number, changes) in all.into_iter().enumerate() {
            let store = self.clone();
            committing.spawn(async move { (number, store.commit(changes).await) });
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

    /// A commit that expects nothing and so cannot conflict.
    async fn write(&self, changes: Changes) -> Result<(), StoreError> {
        match self.commit(changes).await? {
            Committed::Yes => Ok(()),
            Committed::Conflict => Err(StoreError::Contended),
        }
    }

    /// One page of a table: up to `limit` records after the key of the last one.
    async fn page<T: DeserializeOwned>(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Loaded<T>>, StoreError> {
        let rows = self.engine.scan(prefix, after, limit).await?;
        rows.into_iter().map(|(key, bytes)| record::decode(&key, bytes)).collect()
    }

    async fn count(&self, table: Table) -> Result<usize, StoreError> {
        Ok(self.engine.count(&table::all(table)).await?)
    }
}

async fn commit_to(engine: &dyn Engine, mut changes: Changes) -> Result<Committed, StoreError> {
    changes.moves = access::moves(&changes);
    let format = engine.format().written(versions::newest());
    if format < versions::newest() {
        for (key, value) in &mut changes.put {
            *value = record::in_format(key, std::mem::take(value), format)?;
        }
    }
    Ok(match engine.commit(changes).await? {
        Outcome::Committed => Committed::Yes,
        Outcome::Conflict => Committed::Conflict,
    })
}
