//! Requests that wait for a person, and sign-ins that the gate has started. Strangers make both, so both are bounded: in
//! all, a browser, and a user who has signed in or chosen an account for them. Where there is no room in all, the oldest that
//! nobody has gone on with gives way to the new one, and where there is none of these the oldest: a flood shortens the time
//! that people have to type their password, and keeps nobody out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;
use crate::oauth::next_step::{Interaction, Progress};
use crate::store::engine::{Changes, Key};
use crate::store::record::{self, Loaded};
use crate::store::table::{self, Table};
use crate::store::{Committed, Store, StoreError};

/// Sign-ins that one browser may have open, one a tab; the oldest gives way. A request at the provider and an attempt at
/// the gate count apart.
const MOST_TABS: usize = 8;

/// Pending sign-ins of one user, in all browsers: the oldest gives way, or one account would take everybody's places.
const MAX_PENDING_OF_USER: usize = 32;

/// How long beyond its time a request is kept: a sign-in page that was left open overnight still knows where its person
/// wanted to go, and goes on from there with a request begun anew. Such records count like all others.
const LINGER: Duration = Duration::from_hours(12);

/// Until when a request that can be gone on with until `expires_at` is kept.
pub(super) fn kept_until(expires_at: UnixTime) -> UnixTime {
    expires_at.plus(LINGER)
}

/// Entries of the expiry index that are looked at to make room: a few a minute of an interaction's life.
const MOST_LOOKED_AT: usize = 256;

/// Of the oldest, so many are chosen from: were it always the very oldest, those who need room at the same moment would
/// all reach for the same record.
const CANDIDATES: usize = 32;

/// A sign-in that the gate has started for a browser that wanted a page of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInAttempt {
    /// Of the browser's binding cookie.
    pub browser: SecretHash,
    pub app: String,
    /// Path and query that were wanted, byte for byte.
    pub wanted: String,
    /// Proves at the redemption that we asked (RFC 7636). Opens nothing by itself: the code goes to the browser only.
    pub verifier: String,
    pub expires_at: UnixTime,
    /// Context classes of which the sign-in must reach one; any when empty.
    pub acr: Vec<String>,
    /// What gets the form back that was kept for them, from this browser only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// Its place among those that the browser has open: the store gives it, and the lowest gives way first.
    #[serde(default)]
    pub number: u32,
}

impl Store {
    /// Keeps a request that waits for a person. The browser's oldest one gives way when it has too many.
    ///
    /// # Errors
    /// [`StoreError::TooManyInteractions`] when too many are open in all and none can give way; when the store fails.
    pub async fn begin_interaction(&self, id: &SecretHash, interaction: &Interaction) -> Result<(), StoreError> {
        let prefix = table::interactions(&interaction.browser);
        let mut open: Vec<Loaded<Interaction>> = self.page(&prefix, None, MOST_TABS * 2).await?;
        // Not by the time: a clock that was moved back would make the newest the oldest.
        open.sort_by_key(|loaded| loaded.value.number);
        for oldest in open.iter().take((open.len() + 1).saturating_sub(MOST_TABS)) {
            // A conflict means that the other tab has just finished with it: gone either way.
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

    /// Keeps a sign-in that the gate has started. It counts as an interaction, and the browser's oldest one gives way when
    /// it has too many.
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
        let mut open: Vec<Loaded<SignInAttempt>> = self.page(&prefix, None, MOST_TABS * 2).await?;
        open.sort_by_key(|loaded| loaded.value.number);
        for oldest in open.iter().take((open.len() + 1).saturating_sub(MOST_TABS)) {
            let _ = self.finish_attempt(oldest).await?;
        }
        let key = table::sign_in_attempt(&attempt.browser, state);
        let number = open.last().map_or(0, |newest| newest.value.number.saturating_add(1));
        let attempt = SignInAttempt { number, ..attempt.clone() };
        self.begin_waiting(key, &attempt, attempt.expires_at, None, now).await
    }

    /// Takes a place and then writes: were it taken afterwards, those who come at the same moment would all find one.
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

    /// Lets one of the oldest go: of those with which nobody has gone on, where there are any.
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

    /// How a few of the oldest that wait would go, if nobody goes on with them at this very moment. The expiry index has
    /// them by minute and table; what lies between is skipped and not read.
    async fn oldest(&self, now: UnixTime) -> Result<Vec<Changes>, StoreError> {
        let (mut idle, mut pending, mut after) = (Vec::new(), Vec::new(), None::<Key>);
        for _ in 0..MOST_LOOKED_AT {
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

    /// How the record of this entry would go, and whether nobody has gone on with it, or it is past its time.
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
                // Who has signed in or chosen an account for it is a person, who would be sent back to the start.
                let is_idle = found.value.progress == Progress::default() || found.value.expires_at <= now;
                (is_idle, found.unchanged())
            })
        } else {
            self.load::<SignInAttempt>(record.to_vec()).await?.map(|found| (true, found.unchanged()))
        };
        Ok(found.map(|(is_idle, expect)| (is_idle, Changes { expect: vec![expect], delete, ..Changes::default() })))
    }

    /// Lets the oldest pending sign-ins of a user go, until there is room for one more.
    async fn make_room_for_user(&self, user: Subject) -> Result<(), StoreError> {
        let entries = self.engine.scan(&table::pending_sign_ins(user), None, MAX_PENDING_OF_USER * 2).await?;
        let superfluous = (entries.len() + 1).saturating_sub(MAX_PENDING_OF_USER);
        for (entry, _) in entries.into_iter().take(superfluous) {
            let found = match table::interaction_of_pending(&entry) {
                Some(key) => self.load::<Interaction>(key).await?,
                None => None,
            };
            match found {
                // A conflict means that somebody has just gone on with it, or finished it.
                Some(oldest) => drop(self.drop_interaction(&oldest).await?),
                // Left over by a node that knows no such entries.
                None => self.write(Changes { delete: vec![entry], ..Changes::default() }).await?,
            }
        }
        Ok(())
    }

    /// The request that waits under this id in this browser.
    pub async fn interaction(
        &self,
        browser: &SecretHash,
        id: &SecretHash,
    ) -> Result<Option<Loaded<Interaction>>, StoreError> {
        self.load(table::interaction(browser, id)).await
    }

    /// Notes what the person did for it.
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

    /// Forgets a request that was answered. Only one of two racing answers wins.
    pub async fn drop_interaction(&self, loaded: &Loaded<Interaction>) -> Result<Committed, StoreError> {
        self.drop_waiting(loaded, loaded.value.expires_at, pending_entry(loaded.key(), &loaded.value)).await
    }

    /// The sign-in that the gate has started in this browser with this state.
    pub async fn attempt(
        &self,
        browser: &SecretHash,
        state: &SecretHash,
    ) -> Result<Option<Loaded<SignInAttempt>>, StoreError> {
        self.load(table::sign_in_attempt(browser, state)).await
    }

    /// Uses up a started sign-in. Only one of two racing callbacks wins.
    pub async fn finish_attempt(&self, loaded: &Loaded<SignInAttempt>) -> Result<Committed, StoreError> {
        self.drop_waiting(loaded, loaded.value.expires_at, None).await
    }

    /// Record and expiry entry go together: an entry that stayed would lie there uncounted until its time.
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

    pub(super) fn interaction_gone(&self) {
        self.interactions.gone();
    }

    /// Requests and attempts count together, and the sweeper takes both off again.
    pub(super) async fn count_interactions(&self) -> Result<usize, StoreError> {
        Ok(self.count(Table::Interaction).await? + self.count(Table::SignInAttempt).await?)
    }

    /// How many requests wait for a person.
    pub fn open_interactions(&self) -> usize {
        self.interactions.known()
    }
}

/// The user who has signed in, or was chosen, for a request.
fn user_of(progress: &Progress) -> Option<Subject> {
    progress.partial.as_ref().map(|partial| partial.subject).or(progress.account)
}

/// The entry by which a user's pending sign-ins are found; none where nobody has gone on with the request.
pub(super) fn pending_entry(key: &Key, interaction: &Interaction) -> Option<Key> {
    let user = user_of(&interaction.progress)?;
    Some(table::pending_sign_in(user, interaction.created_at, key))
}

/// What makes one record of the other, with its entry.
pub(super) fn progress_changes(loaded: &Loaded<Interaction>, next: &Interaction) -> Result<Changes, StoreError> {
    let mut changes = record::replace(loaded, next)?;
    let (before, after) = (pending_entry(loaded.key(), &loaded.value), pending_entry(loaded.key(), next));
    if before != after {
        changes.delete.extend(before);
        changes.put.extend(after.map(|entry| (entry, Vec::new())));
    }
    Ok(changes)
}
