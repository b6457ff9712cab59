//! Outbox: queued e-mails, undeliverable e-mails, and records of sent e-mails.
//!
//! An e-mail is committed together with the change that causes it. Before a sender sends an e-mail,
//! it leases the e-mail by moving the due time. If the sender stops, another sender retries at the
//! new due time. Therefore an e-mail is sent at least once. All its copies have the same
//! `Message-ID`.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::engine::{Changes, Expect, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::sealer::{NONCE_BYTES, SealError};
use crate::{Committed, PAGE, Store, StoreError};
use sealgate_domain::mail::{DeadMail, MailId, MailKind, MailMessage, SentMail, WaitingMail};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum number of queued e-mails.
pub(crate) const MAX_WAITING: usize = 10_000;

/// Maximum number of undeliverable e-mails. The oldest are deleted first.
const MAX_UNDELIVERABLE: usize = 1_000;

/// Number of queued e-mails, and the age of the oldest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxCounts {
    pub waiting: usize,
    pub dead: usize,
    /// Creation time of the oldest queued e-mail.
    pub oldest: Option<UnixTime>,
}

/// Used and free capacity of the outbox, as numbers of e-mails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxRoom {
    pub waiting: usize,
    pub free: usize,
}

impl Store {
    /// Creates a sealed e-mail that is due at once. The nonce must be random.
    ///
    /// # Errors
    /// [`SealError::NoKey`] if there is no data key.
    pub fn new_mail(
        &self,
        (id, nonce): (MailId, [u8; NONCE_BYTES]),
        subject: Option<Subject>,
        message: &MailMessage,
        now: UnixTime,
    ) -> Result<WaitingMail, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        let plain = zeroize::Zeroizing::new(serde_json::to_vec(message).map_err(|_| SealError::Refused)?);
        let sealed = sealing.sealer.seal(&table::mail_text(id), nonce, &plain)?;
        Ok(WaitingMail::new(id, message.mail.kind(), subject, sealed, now))
    }

    /// Unseals the text of an e-mail.
    ///
    /// # Errors
    /// Returns an error if the text cannot be unsealed or parsed.
    pub fn open_mail(&self, mail: &WaitingMail) -> Result<MailMessage, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        let plain = sealing.sealer.open(&table::mail_text(mail.id), &mail.message)?;
        serde_json::from_slice(&plain).map_err(|_| SealError::Altered)
    }

    /// Returns the keyed hash of an e-mailed code. `bound_to` contains the user and the purpose of
    /// the code.
    ///
    /// # Errors
    /// [`SealError::NoKey`] if there is no data key.
    pub fn code_hash(&self, bound_to: &[u8], code: &str) -> Result<SecretHash, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        Ok(sealing.sealer.code_hash(bound_to, code))
    }

    /// Returns whether `more` e-mails can be queued.
    pub fn has_room_for_mail(&self, more: usize) -> bool {
        more <= self.outbox_room().free
    }

    /// Returns the used and free capacity of the outbox.
    pub fn outbox_room(&self) -> OutboxRoom {
        let waiting = self.outbox.total();
        OutboxRoom { waiting, free: MAX_WAITING.saturating_sub(waiting) }
    }

    /// Queues e-mails without any other change. Returns false if the outbox is full.
    pub async fn add_mail(&self, mails: &[WaitingMail]) -> Result<bool, StoreError> {
        if !self.has_room_for_mail(mails.len()) {
            return Ok(false);
        }
        let mut changes = Changes::default();
        add_mails(&mut changes, mails)?;
        Ok(self.commit_with_mails(changes, mails).await? == Committed::Yes)
    }

    /// Does the work of [`Store::add_mail`] without storing anything, so that the duration does not
    /// reveal that no e-mail is sent.
    pub async fn add_no_mail(&self, mail: &WaitingMail) -> Result<(), StoreError> {
        record::encode(mail)?;
        let key = table::waiting_mail(mail.due_at, mail.id);
        let expect = vec![Expect::Absent(key.clone())];
        self.write(Changes { expect, delete: vec![key], ..Changes::default() }).await
    }

    /// Commits changes that include these e-mails, and counts the e-mails.
    pub(crate) async fn commit_with_mails(
        &self,
        changes: Changes,
        mails: &[WaitingMail],
    ) -> Result<Committed, StoreError> {
        let reservation = self.outbox.reserve(mails.len());
        let committed = self.commit(changes).await;
        if !matches!(committed, Ok(Committed::Yes)) {
            reservation.cancel();
        }
        committed
    }

    /// Returns up to `most` due e-mails, in the order of their due times.
    pub async fn due_mail(&self, now: UnixTime, most: usize) -> Result<Vec<Loaded<WaitingMail>>, StoreError> {
        let mut rows = self.engine.scan(&table::all(Table::Outbox), None, most).await?;
        rows.retain(|(key, _)| table::mail_due_at(key).is_some_and(|due| due <= now));
        let mut due = Vec::with_capacity(rows.len());
        for (key, bytes) in rows {
            match record::decode::<WaitingMail>(&key, bytes) {
                Ok(mail) => due.push(mail),
                // An e-mail that cannot be decoded would block the head of the queue forever.
                Err(error) => {
                    tracing::error!(%error, "removed a message from the outbox that cannot be decoded");
                    self.write(Changes { delete: vec![key], ..Changes::default() }).await?;
                }
            }
        }
        Ok(due)
    }

    /// Returns up to `most` due e-mails behind `after` that users are waiting for.
    ///
    /// May read all due e-mails.
    pub async fn awaited_mail_behind(
        &self,
        after: &Loaded<WaitingMail>,
        now: UnixTime,
        most: usize,
    ) -> Result<Vec<Loaded<WaitingMail>>, StoreError> {
        let (mut awaited, mut after) = (Vec::new(), after.value.clone());
        loop {
            let page = self.waiting_mails(Some(&after), PAGE).await?;
            let Some(last) = page.last() else { return Ok(awaited) };
            after = last.value.clone();
            let is_end = after.due_at > now;
            awaited.extend(page.into_iter().filter(|mail| mail.value.due_at <= now && mail.value.kind.is_awaited()));
            if is_end || awaited.len() >= most {
                awaited.truncate(most);
                return Ok(awaited);
            }
        }
    }

    /// Leases an e-mail to one sender for the duration `lease`. Returns `None` if another sender
    /// has leased it.
    pub async fn take_mail(
        &self,
        mail: &Loaded<WaitingMail>,
        now: UnixTime,
        lease: Duration,
    ) -> Result<Option<Loaded<WaitingMail>>, StoreError> {
        self.move_mail(mail, mail.value.leased(now, lease)).await
    }

    /// Replaces a queued e-mail, possibly with another due time. Returns `None` if another sender
    /// has leased it.
    pub async fn move_mail(
        &self,
        mail: &Loaded<WaitingMail>,
        next: WaitingMail,
    ) -> Result<Option<Loaded<WaitingMail>>, StoreError> {
        let key = table::waiting_mail(next.due_at, next.id);
        let mut changes = if key == *mail.key() {
            record::replace(mail, &next)?
        } else {
            Changes { delete: vec![mail.key().clone()], ..record::create(key.clone(), &next)? }
        };
        if key != *mail.key() {
            changes.expect.push(mail.unchanged());
        }
        let Some((_, bytes)) = changes.put.first_mut() else { return Ok(None) };
        *bytes = self.to_stored_format(&key, std::mem::take(bytes))?;
        let bytes = bytes.clone();
        match self.commit(changes).await? {
            Committed::Yes => Ok(Some(record::decode(&key, bytes)?)),
            Committed::Conflict => Ok(None),
        }
    }

    /// Replaces an e-mail with others, after its recipient was determined.
    pub async fn replace_mail(
        &self,
        mail: &Loaded<WaitingMail>,
        others: &[WaitingMail],
    ) -> Result<Committed, StoreError> {
        let mut changes = removal(mail);
        add_mails(&mut changes, others)?;
        self.commit_without_mail(changes, others).await
    }

    /// Commits changes that delete an e-mail and add `others`, and counts the e-mails.
    pub(crate) async fn commit_without_mail(
        &self,
        changes: Changes,
        others: &[WaitingMail],
    ) -> Result<Committed, StoreError> {
        let committed = self.commit_with_mails(changes, others).await?;
        if committed == Committed::Yes {
            self.mail_gone();
        }
        Ok(committed)
    }

    /// Deletes a sent e-mail from the outbox, and stores a record of it.
    pub async fn mail_was_sent(&self, mail: &Loaded<WaitingMail>, sent: &SentMail) -> Result<Committed, StoreError> {
        let key = table::sent_mail(sent.at, sent.id);
        let mut changes = removal(mail);
        changes.put.push((table::expiry(sent.expires_at, &key), Vec::new()));
        changes.put.push((key, record::encode(sent)?));
        self.commit_without_mail(changes, &[]).await
    }

    /// Moves an e-mail to the undeliverable e-mails. If there are too many of those, deletes the
    /// oldest ones.
    pub async fn abandon_mail(&self, mail: &Loaded<WaitingMail>, dead: &DeadMail) -> Result<Committed, StoreError> {
        let dead_mails = self.engine.scan(&table::all(Table::DeadMail), None, MAX_UNDELIVERABLE).await?;
        let key = table::dead_mail(dead.at, dead.mail.id);
        let mut changes = removal(mail);
        if dead_mails.len() >= MAX_UNDELIVERABLE
            && let Some((oldest, _)) = dead_mails.into_iter().next()
        {
            changes.delete.push(oldest);
        }
        changes.put.push((table::expiry(dead.expires_at, &key), Vec::new()));
        changes.put.push((key, record::encode(dead)?));
        self.commit_without_mail(changes, &[]).await
    }

    /// Returns up to `limit` queued e-mails after `after`, in the order of their due times.
    pub async fn waiting_mails(
        &self,
        after: Option<&WaitingMail>,
        limit: usize,
    ) -> Result<Vec<Loaded<WaitingMail>>, StoreError> {
        self.waiting_mails_after(after.map(|mail| (mail.due_at, mail.id)), limit).await
    }

    /// Returns up to `limit` queued e-mails after this due time and ID, in the same order.
    pub async fn waiting_mails_after(
        &self,
        after: Option<(UnixTime, MailId)>,
        limit: usize,
    ) -> Result<Vec<Loaded<WaitingMail>>, StoreError> {
        let after = after.map(|(due_at, id)| table::waiting_mail(due_at, id));
        self.readable(&table::all(Table::Outbox), after, limit).await
    }

    /// Returns up to `limit` undeliverable e-mails after this time and ID, oldest first.
    pub async fn dead_mails(
        &self,
        after: Option<(UnixTime, MailId)>,
        limit: usize,
    ) -> Result<Vec<DeadMail>, StoreError> {
        let after = after.map(|(at, id)| table::dead_mail(at, id));
        let page: Vec<Loaded<DeadMail>> = self.readable(&table::all(Table::DeadMail), after, limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// Returns up to `limit` records of sent e-mails after this time and ID, newest first.
    pub async fn sent_mails(
        &self,
        after: Option<(UnixTime, MailId)>,
        limit: usize,
    ) -> Result<Vec<SentMail>, StoreError> {
        let after = after.map(|(at, id)| table::sent_mail(at, id));
        let page: Vec<Loaded<SentMail>> = self.readable(&table::all(Table::SentMail), after, limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// Makes a queued or undeliverable e-mail due at once. Returns false if there is no such e-mail
    /// with this id.
    pub async fn retry_mail(&self, id: MailId, now: UnixTime) -> Result<bool, StoreError> {
        if let Some(waiting) = self.find_waiting(id).await? {
            let next = WaitingMail { due_at: now, ..waiting.value.clone() };
            return Ok(self.move_mail(&waiting, next).await?.is_some());
        }
        let Some(dead) = self.find_dead(id).await? else { return Ok(false) };
        let mail = dead.value.revived(now);
        let mut changes = Changes::default();
        add_mails(&mut changes, std::slice::from_ref(&mail))?;
        changes.expect.push(dead.unchanged());
        changes.delete.push(dead.key().clone());
        Ok(self.commit_with_mails(changes, std::slice::from_ref(&mail)).await? == Committed::Yes)
    }

    /// Deletes a queued or undeliverable e-mail. Returns false if there is no such e-mail with this
    /// id.
    pub async fn drop_mail(&self, id: MailId) -> Result<bool, StoreError> {
        if let Some(waiting) = self.find_waiting(id).await? {
            return Ok(self.commit_without_mail(removal(&waiting), &[]).await? == Committed::Yes);
        }
        let Some(dead) = self.find_dead(id).await? else { return Ok(false) };
        Ok(self.commit(removal(&dead)).await? == Committed::Yes)
    }

    /// Deletes the queued e-mails of this kind to a user, because their content is no longer valid.
    ///
    /// Reads the whole outbox, so unauthenticated requests must not call it.
    pub async fn drop_mails_of(&self, subject: Subject, kind: MailKind) -> Result<(), StoreError> {
        let mut after = None::<WaitingMail>;
        loop {
            let page = self.waiting_mails(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.value.clone());
            for mail in page.iter().filter(|mail| mail.value.subject == Some(subject) && mail.value.kind == kind) {
                // A conflict means that another process has sent or deleted the e-mail.
                let _ = self.commit_without_mail(removal(mail), &[]).await?;
            }
        }
    }

    /// Deletes the queued and the undeliverable e-mails to a user who no longer exists, and the
    /// records of sent e-mails.
    ///
    /// Reads the whole outbox, so unauthenticated requests must not call it.
    pub(crate) async fn drop_all_mails_of(&self, subject: Subject) -> Result<(), StoreError> {
        let mut after = None::<WaitingMail>;
        loop {
            let page = self.waiting_mails(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.value.clone());
            for mail in page.iter().filter(|mail| mail.value.subject == Some(subject)) {
                // A conflict means that another process has sent or deleted the e-mail.
                let _ = self.commit_without_mail(removal(mail), &[]).await?;
            }
        }
        let dead = |dead: DeadMail| dead.mail.subject == Some(subject);
        let sent = |sent: SentMail| sent.subject == Some(subject);
        let mut delete = self.keys_where(Table::DeadMail, dead).await?;
        delete.extend(self.keys_where(Table::SentMail, sent).await?);
        for keys in delete.chunks(PAGE) {
            self.write(Changes { delete: keys.to_vec(), ..Changes::default() }).await?;
        }
        Ok(())
    }

    /// Returns the keys of the readable records of a table that match.
    async fn keys_where<T: DeserializeOwned>(
        &self,
        table: Table,
        matches: impl Fn(T) -> bool + Send,
    ) -> Result<Vec<Key>, StoreError> {
        let (mut keys, mut after) = (Vec::new(), None::<Key>);
        loop {
            let rows = self.engine.scan(&table::all(table), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(keys) };
            after = Some(last.clone());
            for (key, bytes) in rows {
                if record::decode::<T>(&key, bytes).is_ok_and(|loaded| matches(loaded.value)) {
                    keys.push(key);
                }
            }
        }
    }

    async fn find_waiting(&self, id: MailId) -> Result<Option<Loaded<WaitingMail>>, StoreError> {
        let mut after = None::<WaitingMail>;
        loop {
            let page = self.waiting_mails(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(None) };
            after = Some(last.value.clone());
            if let Some(mail) = page.into_iter().find(|mail| mail.value.id == id) {
                return Ok(Some(mail));
            }
        }
    }

    async fn find_dead(&self, id: MailId) -> Result<Option<Loaded<DeadMail>>, StoreError> {
        let page: Vec<Loaded<DeadMail>> = self.readable(&table::all(Table::DeadMail), None, MAX_UNDELIVERABLE).await?;
        Ok(page.into_iter().find(|dead| dead.value.mail.id == id))
    }

    /// Counts the queued e-mails. Reads all of them, so requests must not call it.
    ///
    /// If only this process uses the store, also corrects the total, because a command may have
    /// queued or sent e-mails.
    pub async fn count_outbox(&self) -> Result<OutboxCounts, StoreError> {
        let (mut waiting, mut oldest, mut after) = (0, None::<UnixTime>, None::<Key>);
        loop {
            let rows = self.engine.scan(&table::all(Table::Outbox), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(last.clone());
            waiting += rows.len();
            let mails = rows.into_iter().filter_map(|(key, bytes)| record::decode::<WaitingMail>(&key, bytes).ok());
            oldest = mails.map(|mail| mail.value.created_at).chain(oldest).min();
        }
        if !self.is_shared() {
            self.outbox.set(waiting);
        }
        let dead = self.count(Table::DeadMail).await?;
        Ok(OutboxCounts { waiting, dead, oldest })
    }

    /// Returns up to `limit` records with this prefix, without unreadable ones.
    ///
    /// A damaged e-mail must not block other e-mails or the start of the program.
    async fn readable<T: DeserializeOwned>(
        &self,
        prefix: &[u8],
        mut after: Option<Key>,
        limit: usize,
    ) -> Result<Vec<Loaded<T>>, StoreError> {
        loop {
            let rows = self.engine.scan(prefix, after.as_deref(), limit).await?;
            let Some((last, _)) = rows.last() else { return Ok(Vec::new()) };
            after = Some(last.clone());
            let readable = rows.into_iter().filter_map(|(key, bytes)| record::decode(&key, bytes).ok());
            let readable: Vec<Loaded<T>> = readable.collect();
            if !readable.is_empty() {
                return Ok(readable);
            }
        }
    }

    pub(crate) fn mail_gone(&self) {
        self.outbox.subtract_one();
    }
}

/// Adds e-mails to the changes of a commit.
pub(crate) fn add_mails(changes: &mut Changes, mails: &[WaitingMail]) -> Result<(), StoreError> {
    for mail in mails {
        let key = table::waiting_mail(mail.due_at, mail.id);
        changes.expect.push(Expect::Absent(key.clone()));
        changes.put.push((key, record::encode(mail)?));
    }
    Ok(())
}

pub(crate) fn removal<T>(loaded: &Loaded<T>) -> Changes {
    let delete: Vec<Key> = vec![loaded.key().clone()];
    Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;
    use crate::sealer::Sealer;
    use sealgate_domain::language::Language;
    use sealgate_domain::mail::{DeadReason, Mail};

    const LEASE: Duration = Duration::from_mins(1);

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    async fn store() -> Store {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        store.sealing_with(Sealer::new(&[7; 32]).unwrap(), 0).await.unwrap()
    }

    fn message() -> MailMessage {
        let mail = Mail::Reset { token: "hunter2".to_owned() };
        MailMessage { to: None, language: Language::English, at: at(1), origin: None, mail }
    }

    fn waiting(store: &Store, number: u8, now: UnixTime) -> WaitingMail {
        let id = MailId::from_bytes([number; 16]);
        store.new_mail((id, [number; NONCE_BYTES]), None, &message(), now).unwrap()
    }

    #[tokio::test]
    async fn a_mail_is_leased_by_one_sender_and_due_again_after_the_lease() {
        let store = store().await;
        assert!(store.add_mail(&[waiting(&store, 1, at(100)), waiting(&store, 2, at(50))]).await.unwrap());
        assert!(store.due_mail(at(49), 10).await.unwrap().is_empty());
        let due = store.due_mail(at(100), 10).await.unwrap();
        assert_eq!(due.iter().map(|mail| mail.value.created_at).collect::<Vec<_>>(), [at(50), at(100)]);
        assert_eq!(store.open_mail(&due[0].value).unwrap(), message());

        let leased_mail = store.take_mail(&due[0], at(100), LEASE).await.unwrap().unwrap();
        assert!(store.take_mail(&due[0], at(100), LEASE).await.unwrap().is_none(), "somebody has it");
        assert_eq!(store.due_mail(at(159), 10).await.unwrap().len(), 1);
        let again = store.due_mail(at(160), 10).await.unwrap().pop().unwrap();
        assert_eq!(again.value.id, leased_mail.value.id);
        let again = store.take_mail(&again, at(160), LEASE).await.unwrap().unwrap();
        // The lease of the first sender has expired, so it can no longer change the e-mail.
        let sent = SentMail::new(&leased_mail.value, "250 ok", at(161));
        assert_eq!(store.mail_was_sent(&leased_mail, &sent).await.unwrap(), Committed::Conflict);
        assert_eq!(store.mail_was_sent(&again, &sent).await.unwrap(), Committed::Yes);
        assert_eq!(store.sent_mails(None, 10).await.unwrap(), [sent]);
        let counts = store.count_outbox().await.unwrap();
        assert_eq!(counts, OutboxCounts { waiting: 1, dead: 0, oldest: Some(at(100)) });
    }

    #[tokio::test]
    async fn awaited_mails_are_found_behind_other_due_mails() {
        let store = store().await;
        let notice = |number: u64| {
            let id = MailId::from_bytes((1000 + u128::from(number)).to_be_bytes());
            WaitingMail { id, kind: MailKind::Notice, ..waiting(&store, 1, at(100 + number)) }
        };
        let notices: Vec<WaitingMail> = (0..250).map(notice).collect();
        assert!(store.add_mail(&notices).await.unwrap());
        let awaited = [waiting(&store, 1, at(100)), waiting(&store, 2, at(345)), waiting(&store, 3, at(400))];
        assert!(store.add_mail(&awaited).await.unwrap());
        assert!(store.add_mail(&[waiting(&store, 4, at(501))]).await.unwrap());
        let due = store.due_mail(at(500), 32).await.unwrap();
        let behind = store.awaited_mail_behind(due.last().unwrap(), at(500), 10).await.unwrap();
        assert_eq!(behind.iter().map(|mail| mail.value.id).collect::<Vec<_>>(), [awaited[1].id, awaited[2].id]);
        let behind = store.awaited_mail_behind(due.last().unwrap(), at(500), 1).await.unwrap();
        assert_eq!(behind.len(), 1);
    }

    #[tokio::test]
    async fn the_hash_of_a_code_depends_on_account_and_data_key() {
        let here = store().await;
        let other = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        let other = other.sealing_with(Sealer::new(&[8; 32]).unwrap(), 0).await.unwrap();
        let hash = here.code_hash(b"anna", "12345678").unwrap();
        assert_eq!(hash, store().await.code_hash(b"anna", "12345678").unwrap());
        assert_ne!(hash, here.code_hash(b"ben", "12345678").unwrap());
        assert_ne!(hash, here.code_hash(b"anna", "12345679").unwrap());
        assert_ne!(hash, other.code_hash(b"anna", "12345678").unwrap());
    }

    #[tokio::test]
    async fn an_unreadable_mail_does_not_block_others() {
        let engine = Arc::new(MemoryEngine::new());
        let before = Store::open(Arc::<MemoryEngine>::clone(&engine), 10).await.unwrap();
        let id = MailId::from_bytes([9; 16]);
        let keys = [
            table::waiting_mail(at(1), id),
            table::waiting_mail(at(5000), id),
            table::dead_mail(at(1), id),
            table::sent_mail(at(9000), id),
        ];
        let put = keys.into_iter().map(|key| (key, b"?".to_vec())).collect();
        before.write(Changes { put, ..Changes::default() }).await.unwrap();
        // A new store on the same engine simulates a restart.
        let store = Store::open(engine, 10).await.unwrap();
        let store = store.sealing_with(Sealer::new(&[7; 32]).unwrap(), 0).await.unwrap();
        assert!(store.add_mail(&[waiting(&store, 1, at(50)), waiting(&store, 2, at(60))]).await.unwrap());
        let counts = store.count_outbox().await.unwrap();
        assert_eq!(counts, OutboxCounts { waiting: 4, dead: 1, oldest: Some(at(50)) });
        // Unreadable e-mails are skipped even if they fill a page.
        assert_eq!(store.waiting_mails(None, 1).await.unwrap()[0].value.created_at, at(50));
        let due = store.due_mail(at(100), 10).await.unwrap();
        let sent = SentMail::new(&due[0].value, "250 ok", at(100));
        assert_eq!(store.mail_was_sent(&due[0], &sent).await.unwrap(), Committed::Yes);
        let dead = DeadMail::new(due[1].value.clone(), DeadReason::Refused, None, at(100));
        assert_eq!(store.abandon_mail(&due[1], &dead).await.unwrap(), Committed::Yes);
        assert_eq!(store.sent_mails(None, 1).await.unwrap(), [sent]);
        assert_eq!(store.dead_mails(None, 1).await.unwrap(), [dead]);
        assert!(store.retry_mail(due[1].value.id, at(200)).await.unwrap());
    }

    #[tokio::test]
    async fn an_undeliverable_mail_can_be_retried_or_deleted() {
        let store = store().await;
        let _ = store.add_mail(&[waiting(&store, 1, at(100)), waiting(&store, 2, at(100))]).await.unwrap();
        for mail in store.due_mail(at(100), 10).await.unwrap() {
            let dead = DeadMail::new(mail.value.clone(), DeadReason::Refused, Some("550 no"), at(101));
            assert_eq!(store.abandon_mail(&mail, &dead).await.unwrap(), Committed::Yes);
        }
        let (first, second) = (MailId::from_bytes([1; 16]), MailId::from_bytes([2; 16]));
        assert_eq!(store.count_outbox().await.unwrap(), OutboxCounts { waiting: 0, dead: 2, oldest: None });
        assert!(store.retry_mail(first, at(9000)).await.unwrap() && store.drop_mail(second).await.unwrap());
        assert!(!store.retry_mail(second, at(9000)).await.unwrap() && !store.drop_mail(second).await.unwrap());
        let due = store.due_mail(at(9000), 10).await.unwrap();
        assert_eq!(due.len(), 1);
        assert_eq!((due[0].value.attempts, due[0].value.not_after), (0, at(9000 + 1800)));
        assert_eq!(store.open_mail(&due[0].value).unwrap(), message());
    }

    #[tokio::test]
    async fn waiting_and_failed_mails_have_limits() {
        let store = store().await;
        store.outbox.set(MAX_WAITING);
        assert!(!store.add_mail(&[waiting(&store, 1, at(1))]).await.unwrap());
        assert_eq!(store.count_outbox().await.unwrap().waiting, 0);
        for number in 0..=MAX_UNDELIVERABLE {
            let id = MailId::from_bytes(u128::try_from(number).unwrap().to_be_bytes());
            let mail = WaitingMail { id, ..waiting(&store, 1, at(1)) };
            let _ = store.add_mail(std::slice::from_ref(&mail)).await.unwrap();
            let mail = store.due_mail(at(1), 1).await.unwrap().pop().unwrap();
            let when = at(10 + u64::try_from(number).unwrap());
            let dead = DeadMail::new(mail.value.clone(), DeadReason::Failed, None, when);
            let _ = store.abandon_mail(&mail, &dead).await.unwrap();
        }
        assert_eq!(store.count_outbox().await.unwrap().dead, MAX_UNDELIVERABLE);
        assert_eq!(store.dead_mails(None, 1).await.unwrap()[0].at, at(11));
    }
}
