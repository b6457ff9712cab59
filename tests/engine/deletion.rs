//! Deletion of a user: nothing of the user remains, even if the process stops in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use sealgate_domain::language::Language;
use sealgate_domain::mail::{Mail, MailId, MailMessage, Notice};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_store::engine::{Changes, Counters, Engine, EngineError, Key, Outcome, Value};
use sealgate_store::memory::MemoryEngine;
use sealgate_store::sealer::Sealer;
use sealgate_store::{AddOutcome, Store};

use crate::records;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// Engine that refuses commits after a number of them, as if the process had stopped.
struct StoppingEngine {
    records: Arc<MemoryEngine>,
    commits: AtomicUsize,
}

#[async_trait]
impl Engine for StoppingEngine {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.records.get(key).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        self.records.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        let left = self.commits.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_err(|_| EngineError::Unavailable("it has stopped".to_owned()))?;
        self.records.commit(changes).await
    }

    fn counters(&self) -> &Counters {
        self.records.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

async fn over(engine: Arc<dyn Engine>) -> Store {
    let store = Store::open(engine, 10).await.unwrap();
    store.sealing_with(Sealer::new(&[7; 32]).unwrap(), 10).await.unwrap()
}

/// Adds Anna, with a message to her in the queue.
async fn with_anna(store: &Store) -> User {
    let anna = records::person(1, "anna@example.test", "Anna", NOW);
    assert_eq!(store.add_user(&anna).await.unwrap(), AddOutcome::Added);
    let mail = Mail::Notice { notice: Notice::AdministratorActed, count: 1 };
    let (to, language) = (anna.email.clone(), Language::English);
    let message = MailMessage { to, language, at: NOW, origin: None, mail };
    let waiting = store.new_mail((MailId::from_bytes([1; 16]), [2; 12]), Some(anna.sub), &message, NOW).unwrap();
    store.change_account_links(anna.sub, &[waiting], |_| ()).await.unwrap();
    assert_eq!(store.waiting_mails(None, 9).await.unwrap().len(), 1);
    anna
}

#[tokio::test]
async fn a_deleted_user_receives_no_mail() {
    let store = over(Arc::new(MemoryEngine::new())).await;
    let anna = with_anna(&store).await;
    assert!(store.delete_user(anna.sub, NOW).await.unwrap());
    assert!(store.waiting_mails(None, 9).await.unwrap().is_empty());
    assert!(!store.delete_user(anna.sub, NOW).await.unwrap());
}

#[tokio::test]
async fn an_interrupted_deletion_is_completed() {
    let records = Arc::new(MemoryEngine::new());
    let anna = with_anna(&over(Arc::clone(&records) as Arc<dyn Engine>).await).await;
    let stopping = Arc::new(StoppingEngine { records: Arc::clone(&records), commits: AtomicUsize::new(100) });
    let store = over(Arc::clone(&stopping) as Arc<dyn Engine>).await;
    stopping.commits.store(1, Ordering::SeqCst);
    store.delete_user(anna.sub, NOW).await.unwrap_err();
    // The next start of the process completes the deletion.
    let store = over(records).await;
    assert_eq!(store.user(anna.sub).await.unwrap(), None);
    assert_eq!(store.waiting_mails(None, 9).await.unwrap().len(), 1);
    assert_eq!(store.carry_out_open_revocations(NOW).await.unwrap(), 1);
    assert!(store.waiting_mails(None, 9).await.unwrap().is_empty());
}
