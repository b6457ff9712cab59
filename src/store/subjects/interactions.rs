//! Pending requests of users at the provider (interactions), and sign-ins that the gateway has
//! started.
//!
//! Unauthenticated clients can create both, so both are limited: in total, per browser, and per
//! user who has signed in or chosen an account. At the total limit, the oldest record without
//! progress is evicted. If all records have progress, the oldest record is evicted. A flood of
//! requests therefore shortens the time that users have to type a password, but does not block
//! users.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Changes, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::oauth::next_step::{Interaction, Progress};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum number of pending sign-ins of a browser, one for each tab. The oldest is evicted.
///
/// Interactions at the provider and sign-ins at the gateway are counted separately.
const MAX_TABS: usize = 8;

/// Maximum number of pending sign-ins of a user in all browsers. Without this limit, a single
/// account could use up the total.
const MAX_PENDING_OF_USER: usize = 32;

/// Time for which a request is kept after it has expired.
///
/// When a user returns to a sign-in page that was open overnight, the destination is still known
/// and a new request is started. Expired requests count towards the limits.
const RETENTION_AFTER_EXPIRY: Duration = Duration::from_hours(12);

/// Returns the time until which a request with this expiry is kept.
pub(crate) fn kept_until(expires_at: UnixTime) -> UnixTime {
    expires_at.plus(RETENTION_AFTER_EXPIRY)
}

/// Maximum number of entries of the expiry index that are read to find a record to evict.
const MAX_EXAMINED: usize = 256;

/// Number of oldest records from which one is chosen for eviction.
///
/// If the oldest were always evicted, concurrent evictions would conflict.
const CANDIDATES: usize = 32;

/// Sign-in that the gateway has started for a browser that requested a page of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInAttempt {
    /// Hash of the cookie that binds the sign-in to the browser.
    pub browser: SecretHash,
    pub app: String,
    /// Requested host, if the application's host is a wildcard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Requested path and query, unchanged.
    pub wanted: String,
    /// PKCE verifier (RFC 7636). It is useless without the code, which only the browser receives.
    pub verifier: String,
    pub expires_at: UnixTime,
    /// Context classes. The sign-in must reach one of them. If empty, every sign-in suffices.
    pub acr: Vec<String>,
    /// Token of the form that was stored for this sign-in. Only this browser can use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// Application to which the browser returns, if it is another one, and the session there.
    /// `wanted` is a path of that application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<(String, SessionId)>,
    /// Sequence number within the browser, assigned by the store. The lowest is evicted first.
    #[serde(default)]
    pub number: u32,
}

impl Store {
    /// Stores a pending request. Evicts the oldest requests of the browser or of the user if there
    /// are too many.
    ///
    /// # Errors
    /// [`StoreError::TooManyInteractions`] if the total limit is reached and nothing can be
    /// evicted. Other errors if the store fails.
    pub async fn begin_interaction(&self, id: &SecretHash, interaction: &Interaction) -> Result<(), StoreError> {
        let prefix = table::interactions(&interaction.browser);
        let mut open: Vec<Loaded<Interaction>> = self.page(&prefix, None, MAX_TABS * 2).await?;
        // Do not sort by time. After the clock was set back, the newest would look like the oldest.
        open.sort_by_key(|loaded| loaded.value.number);
        for oldest in open.iter().take((open.len() + 1).saturating_sub(MAX_TABS)) {
            // `Conflict`: another tab has just completed, and so deleted, this request.
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

    /// Stores a sign-in that the gateway has started. It counts towards the same total as
    /// interactions.
    ///
    /// Evicts the oldest sign-ins of the browser if there are too many.
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

    /// Increments the total and then writes the record. In the other order, concurrent requests
    /// could all pass the limit.
    async fn begin_waiting(
        &self,
        key: Key,
        record: &impl record::Record,
        expires_at: UnixTime,
        entry: Option<Key>,
        now: UnixTime,
    ) -> Result<(), StoreError> {
        let choice = key.last().copied().unwrap_or_default();
        let reservation = self.interactions.reserve(1);
        if reservation.before >= self.most_interactions
            && let Err(error) = self.make_room(choice, now).await
        {
            reservation.cancel();
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
            reservation.cancel();
        }
        written
    }

    /// Evicts one of the oldest records, if possible a record without progress.
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

    /// Returns the changes to delete each of the oldest records. Each change fails if the record
    /// has progressed in the meantime.
    ///
    /// The expiry index is ordered by minute and table. Entries of other tables are skipped without
    /// reading their records.
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

    /// Returns the changes to delete the record of this expiry entry, and whether the record has no
    /// progress or has expired.
    async fn removal_of_waiting(
        &self,
        entry: &Key,
        record: &[u8],
        now: UnixTime,
    ) -> Result<Option<(bool, Changes)>, StoreError> {
        let mut delete = vec![record.to_vec(), entry.clone()];
        let eviction = if record.first() == Some(&(Table::Interaction as u8)) {
            self.load::<Interaction>(record.to_vec()).await?.map(|interaction| {
                delete.extend(pending_entry(interaction.key(), &interaction.value));
                // Progress means that a user has signed in or chosen an account. This user would
                // have to start again.
                let is_idle = interaction.value.progress == Progress::default() || interaction.value.expires_at <= now;
                (is_idle, interaction.unchanged())
            })
        } else {
            self.load::<SignInAttempt>(record.to_vec()).await?.map(|attempt| (true, attempt.unchanged()))
        };
        Ok(eviction.map(|(is_idle, expect)| (is_idle, Changes { expect: vec![expect], delete, ..Changes::default() })))
    }

    /// Evicts the oldest pending sign-ins of a user, so that the limit permits one more sign-in.
    async fn make_room_for_user(&self, user: Subject) -> Result<(), StoreError> {
        let entries = self.engine.scan(&table::pending_sign_ins(user), None, MAX_PENDING_OF_USER * 2).await?;
        let superfluous = (entries.len() + 1).saturating_sub(MAX_PENDING_OF_USER);
        for (entry, _) in entries.into_iter().take(superfluous) {
            let interaction = match table::interaction_of_pending(&entry) {
                Some(key) => self.load::<Interaction>(key).await?,
                None => None,
            };
            match interaction {
                // A conflict means that the request has just progressed or was completed.
                Some(oldest) => drop(self.drop_interaction(&oldest).await?),
                // Nodes of an older version do not maintain these entries.
                None => self.write(Changes { delete: vec![entry], ..Changes::default() }).await?,
            }
        }
        Ok(())
    }

    /// Discards the completed steps of a user's pending sign-ins. These sign-ins then start again
    /// with the password.
    ///
    /// Ending all sessions does not end a sign-in that waits for its second step. Without this
    /// method, that sign-in could be completed afterwards.
    pub async fn end_partial_sign_ins(&self, user: Subject) -> Result<(), StoreError> {
        for (entry, _) in self.engine.scan(&table::pending_sign_ins(user), None, MAX_PENDING_OF_USER * 2).await? {
            let Some(key) = table::interaction_of_pending(&entry) else { continue };
            for _ in 0..MAX_CONFLICTS {
                let Some(interaction) = self.load::<Interaction>(key.clone()).await? else { break };
                let progress = Progress { partial: None, ..interaction.value.progress.clone() };
                if progress == interaction.value.progress {
                    break;
                }
                let next = Interaction { progress, ..interaction.value.clone() };
                if self.commit(progress_changes(&interaction, &next)?).await? == Committed::Yes {
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

    /// Deletes a request that was answered. Of two concurrent answers, only one succeeds.
    pub async fn drop_interaction(&self, loaded: &Loaded<Interaction>) -> Result<Committed, StoreError> {
        self.drop_waiting(loaded, loaded.value.expires_at, pending_entry(loaded.key(), &loaded.value)).await
    }

    /// Returns the sign-in that the gateway has started in this browser under this state.
    pub async fn attempt(
        &self,
        browser: &SecretHash,
        state: &SecretHash,
    ) -> Result<Option<Loaded<SignInAttempt>>, StoreError> {
        self.load(table::sign_in_attempt(browser, state)).await
    }

    /// Deletes a completed sign-in. Of two concurrent callbacks, only one succeeds.
    pub async fn finish_attempt(&self, loaded: &Loaded<SignInAttempt>) -> Result<Committed, StoreError> {
        self.drop_waiting(loaded, loaded.value.expires_at, None).await
    }

    /// Removes a record and its expiry entry.
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
        self.interactions.subtract_one();
    }

    /// Counts interactions and started sign-ins, which share one total.
    pub(crate) async fn count_interactions(&self) -> Result<usize, StoreError> {
        Ok(self.count(Table::Interaction).await? + self.count(Table::SignInAttempt).await?)
    }

    /// Returns the number of pending requests.
    pub fn open_interactions(&self) -> usize {
        self.interactions.total()
    }
}

/// Returns the user who has signed in for a request, or whose account was chosen for it.
fn user_of(progress: &Progress) -> Option<Subject> {
    progress.partial.as_ref().map(|partial| partial.subject).or(progress.account)
}

/// Returns the index entry of a user's pending sign-in, or `None` if its user is not known yet.
pub(crate) fn pending_entry(key: &Key, interaction: &Interaction) -> Option<Key> {
    let user = user_of(&interaction.progress)?;
    Some(table::pending_sign_in(user, interaction.created_at, key))
}

/// Returns the changes that replace the interaction with `next`, and update its index entry.
pub(crate) fn progress_changes(loaded: &Loaded<Interaction>, next: &Interaction) -> Result<Changes, StoreError> {
    let mut changes = record::replace(loaded, next)?;
    let (before, after) = (pending_entry(loaded.key(), &loaded.value), pending_entry(loaded.key(), next));
    if before != after {
        changes.delete.extend(before);
        changes.put.extend(after.map(|entry| (entry, Vec::new())));
    }
    Ok(changes)
}
