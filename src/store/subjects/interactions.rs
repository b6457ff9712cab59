//! Pending requests of users, and sign-ins that the gate has started.
//!
//! Anyone can create both, so both are bounded: in total, per browser, and per user who has signed
//! in or chosen an account. At the total limit, the oldest one without progress is evicted, or else
//! the oldest. A flood shortens the time that users have to type their password, but blocks no one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Changes, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::oauth::next_step::{Interaction, Progress};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum number of open sign-ins per browser, one per tab. The oldest is evicted.
///
/// Requests at the provider and attempts at the gate count separately.
const MAX_TABS: usize = 8;

/// Maximum number of a user's pending sign-ins in all browsers. Otherwise one account could use up
/// the total.
const MAX_PENDING_OF_USER: usize = 32;

/// How long a request is retained after its expiry.
///
/// A sign-in page left open overnight still finds the user's destination, and starts a new request.
/// Retained records count like all others.
const LINGER: Duration = Duration::from_hours(12);

/// Returns until when a request with this expiry is retained.
pub(crate) fn kept_until(expires_at: UnixTime) -> UnixTime {
    expires_at.plus(LINGER)
}

/// Maximum number of expiry entries read to evict one: a few per minute of an interaction's life.
const MAX_EXAMINED: usize = 256;

/// Number of the oldest ones from which one is chosen for eviction.
///
/// With only the oldest, concurrent evictions would conflict over the same record.
const CANDIDATES: usize = 32;

/// A sign-in that the gate has started for a browser that requested an application's page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInAttempt {
    /// Hash of the browser's binding cookie.
    pub browser: SecretHash,
    pub app: String,
    /// Requested path and query, unchanged.
    pub wanted: String,
    /// PKCE verifier (RFC 7636). Useless alone: only the browser gets the code.
    pub verifier: String,
    pub expires_at: UnixTime,
    /// Context classes of which the sign-in must reach one; any when empty.
    pub acr: Vec<String>,
    /// Token for the form stored for this sign-in; valid only in this browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// Sequence number within the browser, set by the store. The lowest is evicted first.
    #[serde(default)]
    pub number: u32,
}

impl Store {
    /// Stores a pending request. Evicts the browser's oldest one if it has too many.
    ///
    /// # Errors
    /// [`StoreError::TooManyInteractions`] when the total limit is reached and none can be evicted;
    /// when the store fails.
    pub async fn begin_interaction(&self, id: &SecretHash, interaction: &Interaction) -> Result<(), StoreError> {
        let prefix = table::interactions(&interaction.browser);
        let mut open: Vec<Loaded<Interaction>> = self.page(&prefix, None, MAX_TABS * 2).await?;
        // Not by time: after a clock was set back, the newest would appear as the oldest.
        open.sort_by_key(|loaded| loaded.value.number);
        for oldest in open.iter().take((open.len() + 1).saturating_sub(MAX_TABS)) {
            // A conflict means that the other tab has just finished it, which removes it too.
            let _ = self.drop_interaction(oldest).await?;
        }
        let key = table::interaction(&interaction.browser, id);
        let number = open.last().map_or(0, |newest| newest.value.number.saturating_add(1));
        let interaction = Interaction { number, ..interaction.clone() };
        if let Some(user) = user_of(&interaction.progress) {
            self.make_room_for_user(user).await?;
        }
        let entry = pending_entry(&key, &interaction);
        self.begin_waiting(key, &interaction, interaction.expires_at, entry, interaction.created_at).await
    }

    /// Stores a sign-in started by the gate. It counts as an interaction.
    ///
    /// Evicts the browser's oldest one if it has too many.
    ///
    /// # Errors
    /// As [`Store::begin_interaction`].
    pub async fn begin_attempt(
        &self,
        state: &SecretHash,
        attempt: &SignInAttempt,
        now: UnixTime,
    ) -> Result<(), StoreError> {
        let prefix = table::sign_in_attempts(&attempt.browser);
        let mut open: Vec<Loaded<SignInAttempt>> = self.page(&prefix, None, MAX_TABS * 2).await?;
        open.sort_by_key(|loaded| loaded.value.number);
        for oldest in open.iter().take((open.len() + 1).saturating_sub(MAX_TABS)) {
            let _ = self.finish_attempt(oldest).await?;
        }
        let key = table::sign_in_attempt(&attempt.browser, state);
        let number = open.last().map_or(0, |newest| newest.value.number.saturating_add(1));
        let attempt = SignInAttempt { number, ..attempt.clone() };
        self.begin_waiting(key, &attempt, attempt.expires_at, None, now).await
    }

    /// Reserves a place, then writes. In the other order, concurrent requests would all see the
    /// last free place.
    async fn begin_waiting(
        &self,
        key: Key,
        record: &impl record::Record,
        expires_at: UnixTime,
        entry: Option<Key>,
        now: UnixTime,
    ) -> Result<(), StoreError> {
        let choice = key.last().copied().unwrap_or_default();
        let begun = self.interactions.begin(1);
        if begun.before >= self.most_interactions
            && let Err(error) = self.make_room(choice, now).await
        {
            begun.give_back();
            return Err(error);
        }
        let written = async {
            let mut changes = record::create(key.clone(), record)?;
            changes.put.push((table::expiry(kept_until(expires_at), &key), Vec::new()));
            changes.put.extend(entry.map(|entry| (entry, Vec::new())));
            self.write(changes).await
        };
        let written = written.await;
        if written.is_err() {
            begun.give_back();
        }
        written
    }

    /// Evicts one of the oldest, preferably one without progress.
    async fn make_room(&self, choice: u8, now: UnixTime) -> Result<(), StoreError> {
        let candidates = self.oldest(now).await?;
        let start = usize::from(choice) % candidates.len().max(1);
        for changes in candidates.iter().cycle().skip(start).take(candidates.len()) {
            if self.commit(changes.clone()).await? == Committed::Yes {
                self.interaction_gone();
                return Ok(());
            }
        }
        Err(StoreError::TooManyInteractions)
    }

    /// Returns the removals of a few of the oldest, conditional on no concurrent progress.
    ///
    /// The expiry index orders them by minute and table; other tables' entries are skipped without
    /// reading.
    async fn oldest(&self, now: UnixTime) -> Result<Vec<Changes>, StoreError> {
        let (mut idle, mut pending, mut after) = (Vec::new(), Vec::new(), None::<Key>);
        for _ in 0..MAX_EXAMINED {
            let rows = self.engine.scan(&table::all(Table::Expiry), after.as_deref(), 1).await?;
            let Some((entry, _)) = rows.into_iter().next() else { break };
            let Some((minute, record)) = table::expiry_of(&entry) else { break };
            let table = record.first().copied().and_then(Table::from_byte);
            let waits = matches!(table, Some(Table::Interaction | Table::SignInAttempt));
            if waits {
                match self.removal_of_waiting(&entry, record, now).await? {
                    Some((true, changes)) => idle.push(changes),
                    Some((false, changes)) if pending.len() < CANDIDATES => pending.push(changes),
                    _ => {}
                }
                if idle.len() == CANDIDATES {
                    break;
                }
            }
            after = Some(if waits { entry } else { table::expiry_skip(minute, record) });
        }
        Ok(if idle.is_empty() { pending } else { idle })
    }

    /// Returns the removal of this entry's record, and whether it has no progress or has expired.
    async fn removal_of_waiting(
        &self,
        entry: &Key,
        record: &[u8],
        now: UnixTime,
    ) -> Result<Option<(bool, Changes)>, StoreError> {
        let mut delete = vec![record.to_vec(), entry.clone()];
        let found = if record.first() == Some(&(Table::Interaction as u8)) {
            self.load::<Interaction>(record.to_vec()).await?.map(|found| {
                delete.extend(pending_entry(found.key(), &found.value));
                // A user has signed in or chosen an account, and would have to start again.
                let is_idle = found.value.progress == Progress::default() || found.value.expires_at <= now;
                (is_idle, found.unchanged())
            })
        } else {
            self.load::<SignInAttempt>(record.to_vec()).await?.map(|found| (true, found.unchanged()))
        };
        Ok(found.map(|(is_idle, expect)| (is_idle, Changes { expect: vec![expect], delete, ..Changes::default() })))
    }

    /// Evicts a user's oldest pending sign-ins until there is room for one more.
    async fn make_room_for_user(&self, user: Subject) -> Result<(), StoreError> {
        let entries = self.engine.scan(&table::pending_sign_ins(user), None, MAX_PENDING_OF_USER * 2).await?;
        let superfluous = (entries.len() + 1).saturating_sub(MAX_PENDING_OF_USER);
        for (entry, _) in entries.into_iter().take(superfluous) {
            let found = match table::interaction_of_pending(&entry) {
                Some(key) => self.load::<Interaction>(key).await?,
                None => None,
            };
            match found {
                // A conflict means that it has just progressed or finished.
                Some(oldest) => drop(self.drop_interaction(&oldest).await?),
                // Left over by a node that does not maintain these entries.
                None => self.write(Changes { delete: vec![entry], ..Changes::default() }).await?,
            }
        }
        Ok(())
    }

    /// Takes back the proofs of a user's pending sign-ins, which start again with the password.
    ///
    /// A sign-in that waits for its second step is no session, and would otherwise be completed
    /// after all sessions have ended.
    pub async fn end_partial_sign_ins(&self, user: Subject) -> Result<(), StoreError> {
        for (entry, _) in self.engine.scan(&table::pending_sign_ins(user), None, MAX_PENDING_OF_USER * 2).await? {
            let Some(key) = table::interaction_of_pending(&entry) else { continue };
            for _ in 0..MAX_CONFLICTS {
                let Some(found) = self.load::<Interaction>(key.clone()).await? else { break };
                let progress = Progress { partial: None, ..found.value.progress.clone() };
                if progress == found.value.progress {
                    break;
                }
                let next = Interaction { progress, ..found.value.clone() };
                if self.commit(progress_changes(&found, &next)?).await? == Committed::Yes {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the pending request with this ID in this browser.
    pub async fn interaction(
        &self,
        browser: &SecretHash,
        id: &SecretHash,
    ) -> Result<Option<Loaded<Interaction>>, StoreError> {
        self.load(table::interaction(browser, id)).await
    }

    /// Stores the progress of a request.
    pub async fn update_interaction(
        &self,
        loaded: &Loaded<Interaction>,
        next: &Interaction,
    ) -> Result<Committed, StoreError> {
        let is_pending_of = |user| user_of(&loaded.value.progress) == Some(user);
        if let Some(user) = user_of(&next.progress).filter(|user| !is_pending_of(*user)) {
            self.make_room_for_user(user).await?;
        }
        self.commit(progress_changes(loaded, next)?).await
    }

    /// Removes an answered request. Of two racing answers, one succeeds.
    pub async fn drop_interaction(&self, loaded: &Loaded<Interaction>) -> Result<Committed, StoreError> {
        self.drop_waiting(loaded, loaded.value.expires_at, pending_entry(loaded.key(), &loaded.value)).await
    }

    /// Returns the sign-in that the gate has started in this browser with this state.
    pub async fn attempt(
        &self,
        browser: &SecretHash,
        state: &SecretHash,
    ) -> Result<Option<Loaded<SignInAttempt>>, StoreError> {
        self.load(table::sign_in_attempt(browser, state)).await
    }

    /// Consumes a started sign-in. Of two racing callbacks, one succeeds.
    pub async fn finish_attempt(&self, loaded: &Loaded<SignInAttempt>) -> Result<Committed, StoreError> {
        self.drop_waiting(loaded, loaded.value.expires_at, None).await
    }

    /// Removes a record with its expiry entry. A remaining entry would be uncounted until its time.
    async fn drop_waiting<T: Sync>(
        &self,
        loaded: &Loaded<T>,
        expires_at: UnixTime,
        pending: Option<Key>,
    ) -> Result<Committed, StoreError> {
        let mut delete = vec![loaded.key().clone(), table::expiry(kept_until(expires_at), loaded.key())];
        delete.extend(pending);
        let changes = Changes { expect: vec![loaded.unchanged()], put: Vec::new(), delete, ..Changes::default() };
        let committed = self.commit(changes).await?;
        if committed == Committed::Yes {
            self.interaction_gone();
        }
        Ok(committed)
    }

    pub(crate) fn interaction_gone(&self) {
        self.interactions.gone();
    }

    /// Counts requests and attempts together; garbage collection decrements for both.
    pub(crate) async fn count_interactions(&self) -> Result<usize, StoreError> {
        Ok(self.count(Table::Interaction).await? + self.count(Table::SignInAttempt).await?)
    }

    /// Returns the number of pending requests.
    pub fn open_interactions(&self) -> usize {
        self.interactions.known()
    }
}

/// The user who has signed in, or was chosen, for a request.
fn user_of(progress: &Progress) -> Option<Subject> {
    progress.partial.as_ref().map(|partial| partial.subject).or(progress.account)
}

/// Returns the index entry of a user's pending sign-in; `None` without progress.
pub(crate) fn pending_entry(key: &Key, interaction: &Interaction) -> Option<Key> {
    let user = user_of(&interaction.progress)?;
    Some(table::pending_sign_in(user, interaction.created_at, key))
}

/// Returns the changes from one state to the other, with the index entry.
pub(crate) fn progress_changes(loaded: &Loaded<Interaction>, next: &Interaction) -> Result<Changes, StoreError> {
    let mut changes = record::replace(loaded, next)?;
    let (before, after) = (pending_entry(loaded.key(), &loaded.value), pending_entry(loaded.key(), next));
    if before != after {
        changes.delete.extend(before);
        changes.put.extend(after.map(|entry| (entry, Vec::new())));
    }
    Ok(changes)
}
