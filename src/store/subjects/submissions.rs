//! Submitted forms that take effect only once, and whose result is shown only once, such as forms
//! that create a client secret or a password.
//!
//! Each submission has a record. Its id is a hash that the caller derives from the session's cookie
//! and the form's token. The record is written before the work begins, so that a second request
//! with the same form finds it.
//!
//! The result is sealed with a key that the caller derives from the same cookie. Therefore the
//! store alone does not suffice to unseal the result, and the PKCS#11 token needs no wrapping key.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::Changes;
use crate::format::record::Loaded;
use crate::format::{record, table};
use crate::sealer::{NONCE_BYTES, Sealer};
use crate::{Committed, Store, StoreError};
use sealgate_domain::secret::Sealed;
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_domain::time::UnixTime;

/// Time for which a submission and its result are kept.
const SUBMISSION_LIFE: Duration = Duration::from_hours(1);

/// State of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum SubmissionState {
    /// This request is the first, so it does the work.
    First,
    /// Another request is doing the work.
    Running,
    /// The work is done. The value is the path of the page that shows the result.
    Done(String),
}

/// Result of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionResult {
    /// Path of the page that shows the result.
    pub page: String,
    /// Secret to show. `None` if there is none, or if it was shown before.
    pub secret: Option<Secret>,
    /// Whether there was a secret that was shown before.
    pub was_shown: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct SubmissionRecord {
    expires_at: UnixTime,
    /// Path of the page that shows the result. `None` until the work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Sealed>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    was_shown: bool,
}

impl Store {
    /// Assigns the submission to this request if no earlier request has begun it. Otherwise returns
    /// the state of the submission.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn begin_submission(&self, id: &SecretHash, now: UnixTime) -> Result<SubmissionState, StoreError> {
        let key = table::submission(id);
        let expires_at = now.plus(SUBMISSION_LIFE);
        let submission = SubmissionRecord { expires_at, page: None, secret: None, was_shown: false };
        let mut changes = record::create(key.clone(), &submission)?;
        changes.put.push((table::expiry(expires_at, &key), Vec::new()));
        if self.commit(changes).await? == Committed::Yes {
            return Ok(SubmissionState::First);
        }
        // If the other request has abandoned the submission, the caller tries again.
        let page = self.submission(id).await?.and_then(|loaded| loaded.value.page);
        Ok(page.map_or(SubmissionState::Running, SubmissionState::Done))
    }

    /// Stores the result of a submission that this request has begun. The secret is sealed with
    /// `key` and `nonce`.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn finish_submission(
        &self,
        id: &SecretHash,
        page: &str,
        secret: Option<&Secret>,
        key: &[u8; 32],
        nonce: [u8; NONCE_BYTES],
    ) -> Result<(), StoreError> {
        let Some(loaded) = self.submission(id).await? else { return Ok(()) };
        let sealed = match secret {
            Some(secret) => Some(Sealer::new(key)?.seal(&table::submission(id), nonce, secret.expose().as_bytes())?),
            None => None,
        };
        let done = SubmissionRecord { page: Some(page.to_owned()), secret: sealed, ..loaded.value.clone() };
        self.write(record::replace(&loaded, &done)?).await
    }

    /// Deletes a submission that has changed nothing, so that the same form can be submitted again.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn abandon_submission(&self, id: &SecretHash) -> Result<(), StoreError> {
        let Some(loaded) = self.submission(id).await? else { return Ok(()) };
        let key = table::submission(id);
        let delete = vec![table::expiry(loaded.value.expires_at, &key), key];
        let changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
        // A conflict means that garbage collection has deleted the record.
        self.commit(changes).await.map(|_| ())
    }

    /// Returns the result of a submission. Of two concurrent requests, only one gets the secret.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn take_submission_result(
        &self,
        id: &SecretHash,
        key: &[u8; 32],
        now: UnixTime,
    ) -> Result<Option<SubmissionResult>, StoreError> {
        let Some(loaded) = self.submission(id).await? else { return Ok(None) };
        let SubmissionRecord { expires_at, page: Some(page), secret, was_shown } = loaded.value.clone() else {
            return Ok(None);
        };
        if expires_at <= now {
            return Ok(None);
        }
        let Some(sealed) = secret else { return Ok(Some(SubmissionResult { page, secret: None, was_shown })) };
        let next = SubmissionRecord { secret: None, was_shown: true, ..loaded.value.clone() };
        if self.commit(record::replace(&loaded, &next)?).await? == Committed::Conflict {
            return Ok(Some(SubmissionResult { page, secret: None, was_shown: true }));
        }
        let plain = Sealer::new(key)?.open(&table::submission(id), &sealed)?;
        let text =
            std::str::from_utf8(&plain).map_err(|_| StoreError::Broken("a form result is not UTF-8".to_owned()))?;
        Ok(Some(SubmissionResult { page, secret: Some(Secret::new(text)), was_shown: false }))
    }

    async fn submission(&self, id: &SecretHash) -> Result<Option<Loaded<SubmissionRecord>>, StoreError> {
        self.load(table::submission(id)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::Engine;
    use crate::memory::MemoryEngine;

    const KEY: [u8; 32] = [7; 32];

    fn id() -> SecretHash {
        SecretHash::for_secret(b"id")
    }

    fn now() -> UnixTime {
        UnixTime::from_seconds(1_800_000_000)
    }

    #[tokio::test]
    async fn a_result_is_encrypted_and_returned_once_with_its_key() {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine.clone(), 10).await.unwrap();
        assert_eq!(store.begin_submission(&id(), now()).await.unwrap(), SubmissionState::First);
        assert_eq!(store.begin_submission(&id(), now()).await.unwrap(), SubmissionState::Running);
        assert_eq!(store.take_submission_result(&id(), &KEY, now()).await.unwrap(), None);
        let secret = Secret::new("geheim-4711");
        store.finish_submission(&id(), "/page", Some(&secret), &KEY, [1; NONCE_BYTES]).await.unwrap();
        let state = store.begin_submission(&id(), now()).await.unwrap();
        assert_eq!(state, SubmissionState::Done("/page".to_owned()));
        for (_, value) in engine.scan(b"", None, usize::MAX).await.unwrap() {
            assert!(!value.windows(6).any(|window| window == b"geheim"));
        }
        let result = store.take_submission_result(&id(), &KEY, now()).await.unwrap().unwrap();
        assert_eq!((result.secret, result.was_shown), (Some(secret), false));
        let result = store.take_submission_result(&id(), &KEY, now()).await.unwrap().unwrap();
        assert_eq!((result.secret, result.was_shown), (None, true));
    }

    #[tokio::test]
    async fn another_key_fails_and_an_abandoned_submission_restarts() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        assert_eq!(store.begin_submission(&id(), now()).await.unwrap(), SubmissionState::First);
        store.abandon_submission(&id()).await.unwrap();
        assert_eq!(store.begin_submission(&id(), now()).await.unwrap(), SubmissionState::First);
        store.finish_submission(&id(), "/page", Some(&Secret::new("x")), &KEY, [1; NONCE_BYTES]).await.unwrap();
        assert!(store.take_submission_result(&id(), &[8; 32], now()).await.is_err());
    }

    #[tokio::test]
    async fn a_submission_is_forgotten_after_an_hour() {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine.clone(), 10).await.unwrap();
        let before = engine.scan(b"", None, usize::MAX).await.unwrap();
        assert_eq!(store.begin_submission(&id(), now()).await.unwrap(), SubmissionState::First);
        store.finish_submission(&id(), "/page", Some(&Secret::new("x")), &KEY, [1; NONCE_BYTES]).await.unwrap();
        let late = now().plus(SUBMISSION_LIFE);
        assert_eq!(store.take_submission_result(&id(), &KEY, late).await.unwrap(), None);
        while store.sweep(late.plus(Duration::from_mins(12)), 10).await.unwrap().more {}
        assert_eq!(engine.scan(b"", None, usize::MAX).await.unwrap(), before);
    }
}
