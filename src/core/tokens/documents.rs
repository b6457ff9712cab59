//! Metadata documents of clients whose identifier is the URL of the document.
//!
//! A document is fetched when a sign-in for the client begins, and is cached for as long as the
//! response permits, between five minutes and a day. Only requests for the same client wait for a
//! fetch. Waiting requests, cached documents, and fetches per minute are limited, because
//! unauthenticated clients choose the URLs. Hosts that the operator does not list are never
//! contacted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::task::spawn_blocking;

use sealgate_config::Config;
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::client_document;
use sealgate_domain::oauth::client_document::MAX_DOCUMENT_LENGTH;
use sealgate_domain::oauth::registration::ClientMetadata;
use sealgate_domain::time::UnixTime;
use sealgate_system::fetch::{Document, Unread, Web};

/// Maximum time to fetch a document.
const TIMEOUT: Duration = Duration::from_secs(5);
const MIN_AGE: Duration = Duration::from_mins(5);
const MAX_AGE: Duration = Duration::from_hours(24);
/// Time for which a failure is cached.
const FAILURE_AGE: Duration = Duration::from_mins(1);
/// Maximum number of requests, and so of threads, that wait for documents. Further requests are refused
/// at once.
pub const MAX_WAITING: usize = 64;
/// Maximum number of cached documents and failures.
const MAX_CACHED: usize = 1000;
/// Maximum number of fetches in a minute.
const MAX_FETCHES: u32 = 30;
const MINUTE: Duration = Duration::from_mins(1);

/// Source of documents. Blocking I/O.
pub trait DocumentFetcher: Send + Sync {
    /// Fetches the document at a URL.
    ///
    /// # Errors
    /// One line with the reason.
    fn fetch(&self, url: &str) -> Result<Document, String>;
}

/// Fetches documents from public addresses.
struct Internet;

impl DocumentFetcher for Internet {
    fn fetch(&self, url: &str) -> Result<Document, String> {
        Web::for_strangers(TIMEOUT, MAX_DOCUMENT_LENGTH)?.get(url).map_err(Unread::into_line)
    }
}

/// Reason why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// The document cannot be fetched, or is not valid.
    #[error("{0}")]
    Invalid(String),
    /// Too many requests wait, or too many documents were fetched.
    #[error("too many metadata documents are requested")]
    Busy,
}

/// Cache of metadata documents.
pub struct ClientDocuments {
    fetcher: Arc<dyn DocumentFetcher>,
    known: Mutex<Known>,
    waiting: Semaphore,
}

#[derive(Default)]
struct Known {
    slots: HashMap<ClientId, Arc<Slot>>,
    /// Start of the current minute, and fetches in it.
    minute: Option<UnixTime>,
    fetches: u32,
}

/// Last outcome of a client's document. The lock is held during a fetch.
type Slot = AsyncMutex<Option<Outcome>>;

struct Outcome {
    until: UnixTime,
    metadata: Result<Arc<ClientMetadata>, DocumentFault>,
}

impl Default for ClientDocuments {
    fn default() -> Self {
        Self::with(Arc::new(Internet))
    }
}

impl ClientDocuments {
    /// Creates an empty cache with this source of documents.
    pub fn with(fetcher: Arc<dyn DocumentFetcher>) -> Self {
        Self { fetcher, known: Mutex::default(), waiting: Semaphore::new(MAX_WAITING) }
    }

    /// Returns the metadata of a client from its document. The caller must have checked that the
    /// operator lists the host.
    ///
    /// # Errors
    /// [`DocumentFault`]. Failures are cached too.
    pub async fn metadata(
        &self,
        id: &ClientId,
        config: &Config,
        now: UnixTime,
    ) -> Result<Arc<ClientMetadata>, DocumentFault> {
        let _place = self.waiting.try_acquire().map_err(|_| DocumentFault::Busy)?;
        let slot = self.slot(id, now)?;
        let mut slot = slot.lock().await;
        if let Some(outcome) = slot.as_ref().filter(|outcome| now < outcome.until) {
            return outcome.metadata.clone();
        }
        self.take_fetch(now)?;
        let (source, url) = (Arc::clone(&self.fetcher), id.as_str().to_owned());
        let fetched = spawn_blocking(move || source.fetch(&url)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(format!("{id}: the fetch failed")));
        let parsed = fetched.and_then(|document| {
            let metadata = client_document::parse(id, &document.body, config);
            metadata.map(|metadata| (metadata, document.max_age)).map_err(|fault| format!("{id}: the document {fault}"))
        });
        let (metadata, age) = match parsed {
            Ok((metadata, age)) => (Ok(Arc::new(metadata)), age.unwrap_or(MIN_AGE).clamp(MIN_AGE, MAX_AGE)),
            Err(fault) => (Err(DocumentFault::Invalid(fault)), FAILURE_AGE),
        };
        *slot = Some(Outcome { until: now.plus(age), metadata: metadata.clone() });
        metadata
    }

    fn slot(&self, id: &ClientId, now: UnixTime) -> Result<Arc<Slot>, DocumentFault> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = known.slots.get(id) {
            return Ok(Arc::clone(slot));
        }
        if known.slots.len() >= MAX_CACHED {
            // A locked slot is in use.
            let is_fresh = |slot: &Arc<Slot>| {
                slot.try_lock().map_or(true, |outcome| outcome.as_ref().is_some_and(|outcome| now < outcome.until))
            };
            known.slots.retain(|_, slot| is_fresh(slot));
        }
        if known.slots.len() >= MAX_CACHED {
            return Err(DocumentFault::Busy);
        }
        Ok(Arc::clone(known.slots.entry(id.clone()).or_default()))
    }

    /// Counts a fetch.
    fn take_fetch(&self, now: UnixTime) -> Result<(), DocumentFault> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.minute.is_none_or(|start| now.since(start) >= MINUTE) {
            (known.minute, known.fetches) = (Some(now), 0);
        }
        if known.fetches >= MAX_FETCHES {
            return Err(DocumentFault::Busy);
        }
        known.fetches += 1;
        Ok(())
    }
}
