//! Metadata and keys of a provider, and when they are read again.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::fault::{UpstreamFault, UpstreamFaultKind};
use crate::requests::Requests;
use sealgate_domain::oauth::jwk_set;
use sealgate_domain::oauth::jws::Jws;
use sealgate_domain::oauth::upstream_metadata::UpstreamMetadata;
use sealgate_domain::oauth::verifying_keys::VerifyingKeys;
use sealgate_domain::time::UnixTime;
use sealgate_system::fetch::{Unread, Web};

/// Path of the metadata, appended to the issuer (OpenID Connect Discovery §4.1).
const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// Age from which metadata and keys are read again.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Age from which metadata and keys are no longer used, although they could not be read again.
const MAX_STALE_AGE: Duration = Duration::from_hours(24);

/// Minimum time between two reads of the keys that are caused by tokens with an unknown key.
const KEY_THROTTLE: Duration = Duration::from_secs(30);

/// Time after a failure in which known metadata are not read again.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// Time after a failure in which unknown metadata are not read again.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Metadata and keys of one provider.
pub(crate) struct Discovery {
    issuer: String,
    known: RwLock<Option<Arc<KnownProvider>>>,
    /// Locked while the provider is read, so that only one request reads it.
    reading: Mutex<ReadPace>,
}

/// Metadata and keys that were read.
pub(crate) struct KnownProvider {
    pub(crate) metadata: UpstreamMetadata,
    pub(crate) keys: VerifyingKeys,
    read_at: UnixTime,
}

#[derive(Default)]
struct ReadPace {
    keys_read_at: Option<UnixTime>,
    failure: Option<(Instant, UpstreamFault)>,
}

/// Reason why the signature of a token does not count.
pub(crate) enum SignatureFault {
    UnknownKey,
    Signature,
    Unavailable(UpstreamFault),
}

impl From<UpstreamFault> for SignatureFault {
    fn from(fault: UpstreamFault) -> Self {
        Self::Unavailable(fault)
    }
}

impl Discovery {
    pub(crate) fn new(issuer: &str) -> Self {
        Self { issuer: issuer.to_owned(), known: RwLock::default(), reading: Mutex::default() }
    }

    /// Returns what was read before, if it may still be used.
    pub(crate) fn known(&self, now: UnixTime) -> Option<Arc<KnownProvider>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|known| now.since(known.read_at) < MAX_STALE_AGE).map(Arc::clone)
    }

    /// Returns what was read before, if it need not be read again.
    pub(crate) fn fresh(&self, now: UnixTime) -> Option<Arc<KnownProvider>> {
        self.known(now).filter(|known| now.since(known.read_at) < MAX_AGE)
    }

    /// Returns metadata and keys. Reads them if they are unknown or old.
    ///
    /// While one request reads old metadata again, the others use the old ones. If the read fails, all
    /// use the old ones.
    pub(crate) async fn current(
        &self,
        requests: &Requests,
        now: UnixTime,
    ) -> Result<Arc<KnownProvider>, UpstreamFault> {
        if let Some(known) = self.known(now) {
            if now.since(known.read_at) < MAX_AGE {
                return Ok(known);
            }
            let Ok(mut pace) = self.reading.try_lock() else { return Ok(known) };
            if pace.failed_within(RETRY_PAUSE).is_some() {
                return Ok(known);
            }
            return Ok(match self.read(requests, &mut pace, now).await {
                Ok(read) => read,
                Err(fault) => {
                    tracing::warn!(issuer = self.issuer, %fault, "cannot read a provider again; its last metadata stay in use");
                    known
                }
            });
        }
        let mut pace = self.reading.lock().await;
        // Another request may have read it while this one was waiting.
        if let Some(known) = self.known(now) {
            return Ok(known);
        }
        if let Some(fault) = pace.failed_within(FIRST_RETRY_PAUSE) {
            return Err(fault);
        }
        self.read(requests, &mut pace, now).await
    }

    /// Verifies the signature of a token. Reads the keys again if the token has an unknown key, or if
    /// the key may have been replaced, but not more often than [`KEY_THROTTLE`].
    pub(crate) async fn verify(&self, requests: &Requests, jws: &Jws<'_>, now: UnixTime) -> Result<(), SignatureFault> {
        let known = self.current(requests, now).await?;
        match verify_with(&known.keys, jws) {
            Ok(()) => Ok(()),
            Err(fault) => match self.reread_keys(requests, &known, now).await? {
                Some(known) => verify_with(&known.keys, jws),
                None => Err(fault),
            },
        }
    }

    /// Reads the keys again. `None` if they were read recently, and `seen` has the last ones.
    async fn reread_keys(
        &self,
        requests: &Requests,
        seen: &Arc<KnownProvider>,
        now: UnixTime,
    ) -> Result<Option<Arc<KnownProvider>>, UpstreamFault> {
        let mut pace = self.reading.lock().await;
        let current = self.known(now);
        if let Some(current) = current.filter(|current| !Arc::ptr_eq(current, seen)) {
            return Ok(Some(current));
        }
        if pace.keys_read_at.is_some_and(|at| now.since(at) < KEY_THROTTLE) {
            return Ok(None);
        }
        pace.keys_read_at = Some(now);
        let (metadata, read_at) = (seen.metadata.clone(), seen.read_at);
        let read = move |web: &Web| {
            let keys = read_keys(web, &metadata)?;
            Ok(KnownProvider { metadata, keys, read_at })
        };
        let read: Result<_, UpstreamFault> = requests.on_thread(read).await?;
        Ok(Some(self.replace(read?)))
    }

    async fn read(
        &self,
        requests: &Requests,
        pace: &mut ReadPace,
        now: UnixTime,
    ) -> Result<Arc<KnownProvider>, UpstreamFault> {
        let issuer = self.issuer.clone();
        let read = requests.on_thread(move |web| read_provider(web, &issuer, now)).await;
        match read.and_then(|read| read) {
            Ok(known) => {
                pace.failure = None;
                pace.keys_read_at = Some(known.read_at);
                Ok(self.replace(known))
            }
            Err(fault) => {
                pace.failure = Some((Instant::now(), fault.clone()));
                Err(fault)
            }
        }
    }

    fn replace(&self, known: KnownProvider) -> Arc<KnownProvider> {
        let known = Arc::new(known);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&known));
        known
    }
}

impl ReadPace {
    fn failed_within(&self, pause: Duration) -> Option<UpstreamFault> {
        let (at, fault) = self.failure.as_ref()?;
        (at.elapsed() < pause).then(|| fault.clone())
    }
}

fn verify_with(keys: &VerifyingKeys, jws: &Jws<'_>) -> Result<(), SignatureFault> {
    let key = keys.find(jws).ok_or(SignatureFault::UnknownKey)?;
    if key.verifies(jws) { Ok(()) } else { Err(SignatureFault::Signature) }
}

/// Reads metadata and keys. Blocking.
fn read_provider(web: &Web, issuer: &str, now: UnixTime) -> Result<KnownProvider, UpstreamFault> {
    let metadata = read_metadata(web, issuer)?;
    let keys = read_keys(web, &metadata)?;
    Ok(KnownProvider { metadata, keys, read_at: now })
}

/// Reads the metadata. Blocking.
pub(crate) fn read_metadata(web: &Web, issuer: &str) -> Result<UpstreamMetadata, UpstreamFault> {
    let url = metadata_url(issuer);
    let document = web.get(&url).map_err(|unread| match unread {
        Unread::Absent(line) => {
            let text = format!("{line}; write the issuer exactly as the provider states it");
            UpstreamFault::new(UpstreamFaultKind::Metadata, text)
        }
        Unread::Fault(line) => {
            let text = format!("{line}; check the issuer, the network and the provider's certificate");
            UpstreamFault::new(UpstreamFaultKind::Connect, text)
        }
    })?;
    UpstreamMetadata::parse(&document.body, issuer)
        .map_err(|fault| UpstreamFault::new(UpstreamFaultKind::Metadata, format!("{url}: {fault}")))
}

/// Reads the keys. Blocking.
pub(crate) fn read_keys(web: &Web, metadata: &UpstreamMetadata) -> Result<VerifyingKeys, UpstreamFault> {
    let url = &metadata.jwks_uri;
    let fault = |text: String| UpstreamFault::new(UpstreamFaultKind::Keys, text);
    let document = web.get(url).map_err(|unread| fault(format!("{}; check the provider", unread.into_line())))?;
    let jwks = jwk_set::read(&document.body).map_err(|error| fault(format!("{url}: {error}; check the provider")))?;
    let keys = VerifyingKeys::from_jwks(&jwks, &metadata.algorithms);
    if keys.is_empty() {
        return Err(fault(format!("{url}: the key set has no key for the provider's algorithms; check the provider")));
    }
    Ok(keys)
}

/// Returns the URL of an issuer's metadata.
pub(crate) fn metadata_url(issuer: &str) -> String {
    format!("{}{WELL_KNOWN}", issuer.trim_end_matches('/'))
}
