//! Rate limit of notifications: the first one is sent at once. After that, at most one per hour is
//! sent, with the number of events.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::Changes;
use crate::format::{record, table};
use crate::subjects::outbox::add_mails;
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::mail::{MailId, Notice, WaitingMail};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Minimum interval between two e-mails about the same kind of event.
const MIN_INTERVAL: Duration = Duration::from_hours(1);

/// State of the notifications of one kind to a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NoticeCount {
    subject: Subject,
    notice: Notice,
    /// Earliest time of the next e-mail.
    next_at: UnixTime,
    /// E-mail that is queued for `next_at`, and the number of events that it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting: Option<(MailId, u32)>,
    expires_at: UnixTime,
}

impl Store {
    /// Queues a notification to a user. Returns false if the outbox is full.
    ///
    /// `mail` creates the e-mail. Its arguments are the id of the queued e-mail to replace, if any,
    /// the due time and the number of events.
    ///
    /// # Errors
    /// The store's error, or the error of `mail`.
    pub async fn add_notice(
        &self,
        (subject, notice): (Subject, Notice),
        now: UnixTime,
        mut mail: impl FnMut(Option<MailId>, UnixTime, u32) -> Result<WaitingMail, StoreError> + Send,
    ) -> Result<bool, StoreError> {
        let name = serde_json::to_string(&notice).map_err(|error| StoreError::Broken(error.to_string()))?;
        let key = table::notice_count(subject, name.trim_matches('"'));
        for _ in 0..MAX_CONFLICTS {
            let loaded = self.load::<NoticeCount>(key.clone()).await?;
            let mut next_at = loaded.as_ref().map_or(now, |known| known.value.next_at);
            let known = loaded.as_ref().and_then(|known| known.value.waiting);
            let waiting = match known {
                Some((id, _)) => self.load::<WaitingMail>(table::waiting_mail(next_at, id)).await?,
                None => None,
            };
            let (mut changes, added, waits) = if let (Some((id, count)), Some(waiting)) = (known, &waiting) {
                let count = count.saturating_add(1);
                (record::replace(waiting, &mail(Some(id), next_at, count)?)?, None, Some((id, count)))
            } else {
                if known.is_some() {
                    // The queued e-mail has been sent.
                    next_at = next_at.plus(MIN_INTERVAL);
                }
                let is_first = now >= next_at;
                let one = mail(None, if is_first { now } else { next_at }, 1)?;
                if is_first {
                    next_at = now.plus(MIN_INTERVAL);
                }
                let mut changes = Changes::default();
                add_mails(&mut changes, std::slice::from_ref(&one))?;
                let waits = (!is_first).then_some((one.id, 1));
                (changes, Some(one), waits)
            };
            if let Some(added) = &added
                && !self.has_room_for_mail(1)
            {
                tracing::warn!(id = %added.id, %subject, "the outbox is full: an account notice was dropped");
                return Ok(false);
            }
            let expires_at = next_at.plus(MIN_INTERVAL);
            let next = NoticeCount { subject, notice, next_at, waiting: waits, expires_at };
            let of_count = if let Some(loaded) = &loaded {
                record::replace(loaded, &next)?
            } else {
                changes.put.push((table::expiry(expires_at, &key), Vec::new()));
                record::create(key.clone(), &next)?
            };
            changes.expect.extend(of_count.expect);
            changes.put.extend(of_count.put);
            if self.commit_with_mails(changes, added.as_slice()).await? == Committed::Yes {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::format::record::Loaded;
    use crate::memory::MemoryEngine;
    use crate::sealer::{NONCE_BYTES, Sealer};
    use sealgate_domain::language::Language;
    use sealgate_domain::mail::{Mail, MailMessage};

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    async fn notify(store: &Store, now: u64, number: u8) {
        let subject = Subject::from_random([1; 16]);
        let notify = store.add_notice((subject, Notice::FactorAdded), at(now), |id, due_at, count| {
            let id = id.unwrap_or(MailId::from_bytes([number; 16]));
            let mail = Mail::Notice { notice: Notice::FactorAdded, count };
            let message = MailMessage { to: None, language: Language::English, at: at(now), origin: None, mail };
            let mail = store.new_mail((id, [number; NONCE_BYTES]), Some(subject), &message, at(now))?;
            Ok(WaitingMail { due_at, ..mail })
        });
        notify.await.unwrap();
    }

    async fn waiting(store: &Store) -> Vec<(u64, u32)> {
        let mails = store.waiting_mails(None, 10).await.unwrap();
        let opened = |mail: Loaded<WaitingMail>| match store.open_mail(&mail.value).unwrap().mail {
            Mail::Notice { count, .. } => (mail.value.due_at.seconds(), count),
            _ => (0, 0),
        };
        mails.into_iter().map(opened).collect()
    }

    #[tokio::test]
    async fn the_first_notice_is_sent_at_once_and_others_hourly() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        let store = store.sealing_with(Sealer::new(&[7; 32]).unwrap(), 0).await.unwrap();
        for (number, now) in [(1, 1000), (2, 1001), (3, 1500), (4, 4599)] {
            notify(&store, now, number).await;
        }
        assert_eq!(waiting(&store).await, [(1000, 1), (4600, 3)]);
        // Both e-mails have been sent. The next hour begins with the second e-mail.
        for mail in store.waiting_mails(None, 10).await.unwrap() {
            assert_eq!(store.replace_mail(&mail, &[]).await.unwrap(), Committed::Yes);
        }
        notify(&store, 4700, 5).await;
        assert_eq!(waiting(&store).await, [(8200, 1)]);
        for mail in store.waiting_mails(None, 10).await.unwrap() {
            assert_eq!(store.replace_mail(&mail, &[]).await.unwrap(), Committed::Yes);
        }
        notify(&store, 20_000, 6).await;
        assert_eq!(waiting(&store).await, [(20_000, 1)]);
    }

    #[tokio::test]
    async fn the_first_notice_after_a_restore_is_sent_at_once() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        let store = store.sealing_with(Sealer::new(&[7; 32]).unwrap(), 0).await.unwrap();
        notify(&store, 1000, 1).await;
        notify(&store, 1001, 2).await;
        store.take_back_after_restore(at(1002)).await.unwrap();
        assert_eq!(waiting(&store).await, []);
        notify(&store, 1003, 3).await;
        assert_eq!(waiting(&store).await, [(1003, 1)]);
    }
}
