//! Sessions of browsers: the user of a session cookie, a cache of live sessions, and the record of
//! their last use.
//!
//! A cache entry contains the user's access counter. The counter is read before everything else.
//! Every revocation of the user's access changes the counter, and the session is then read again.
//! The counter does not change when time passes or when the session is used. So an entry also
//! expires at the first time limit of the session, and after [`MAX_ENTRY_AGE`] at the latest.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::task::JoinSet;

use crate::policy::SignedIn;
use crate::request::{AppRequest, Sessions};
use sealgate_core::local_cache::LocalCache;
use sealgate_core::state::Sealgate;
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationSteps};
use sealgate_domain::session::{AppSession, Session, SessionCookie, SessionId};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};
use sealgate_store::{Loaded, StoreError};
use sealgate_system::read_mostly::LocalRef;

/// User of a live session, with the session.
#[derive(Debug)]
pub(super) struct SessionSignIn {
    pub user: User,
    pub parent: Session,
    /// Session at the application. `None` if the cookie belongs to `parent`.
    pub own: Option<SessionId>,
    /// Authentication steps that the cookie proves.
    pub steps: AuthenticationSteps,
    /// Level that `[factors]` requires of each sign-in of the user.
    pub required: AssuranceLevel,
    /// Time at which the session must be read again, even if nothing was revoked.
    pub until: UnixTime,
}

/// Returns the user of the request's session cookie.
///
/// Reads everything that the session depends on: the application's session, the provider's session
/// from which it was created, and the user. A sign-out or a disabled account therefore takes effect
/// at the next request, on every host.
pub(super) async fn find(ctx: &AppRequest<'_>) -> Result<Option<SessionSignIn>, StoreError> {
    let Some(cookie) = ctx.session_cookie() else { return Ok(None) };
    let (store, keep) = (&ctx.sealgate.store, ctx.sealgate.config.sessions.keep_signed_in);
    let mut known = None;
    let (own, parent) = match ctx.sessions {
        Sessions::OfApp => {
            let Some(own) = of_app(ctx, &cookie).await? else { return Ok(None) };
            let (parent, user) = store.session_and_user(own.parent, own.sign_in.subject).await?;
            known = Some(user);
            (Some(own), parent)
        }
        Sessions::OfProvider => {
            let parent = store.session(cookie.id).await?;
            (None, parent.filter(|parent| parent.value.accepts(&cookie)))
        }
    };
    let Some(Loaded { value: parent, .. }) = parent.filter(|parent| parent.value.is_live(ctx.now, keep)) else {
        return Ok(None);
    };
    let sign_in = match &own {
        // The sign-in that set this cookie. After a newer sign-in, the browser has a new cookie.
        Some(own) => parent.sign_in_of(own.subject).map(|_| &own.sign_in),
        None => parent.current(),
    };
    let Some(sign_in) = sign_in else { return Ok(None) };
    let user = match known {
        Some(user) => user,
        None => store.user(sign_in.subject).await?,
    };
    let Some(user) = user.filter(User::is_enabled) else { return Ok(None) };
    let (steps, required) = (sign_in.steps.clone(), ctx.level_in_force(&user).await?);
    let until = own.iter().map(|own| own.expires_at).fold(parent.ends_at(keep), UnixTime::min);
    let own = own.map(|own| own.id);
    Ok(Some(SessionSignIn { user, parent, own, steps, required, until }))
}

/// Returns the application's session of a cookie. Does not check the provider's session.
pub(super) async fn of_app(ctx: &AppRequest<'_>, cookie: &SessionCookie) -> Result<Option<AppSession>, StoreError> {
    let found = ctx.sealgate.store.app_session(cookie.id).await?.map(|found| found.value);
    let opens = |own: &AppSession| is_of_cookie(ctx, own, cookie) && ctx.now < own.expires_at;
    Ok(found.filter(opens))
}

/// Returns whether the cookie belongs to this session at the application and, for a wildcard, at the
/// host of the request. The session may have expired.
pub(super) fn is_of_cookie(ctx: &AppRequest<'_>, own: &AppSession, cookie: &SessionCookie) -> bool {
    own.cookie == cookie.hash() && own.app == ctx.app.name && own.host.as_deref() == ctx.bound_host()
}

/// Returns the user, or `None` if the user is disabled or does not exist.
pub(super) async fn enabled(ctx: &AppRequest<'_>, subject: Subject) -> Result<Option<User>, StoreError> {
    Ok(ctx.sealgate.store.user(subject).await?.filter(User::is_enabled))
}

/// Queue of used sessions whose last use is not yet written to the store. Requests do not wait for
/// the write. If the queue is full, a new use is dropped. Then the next request of the session
/// tries again to add its use.
#[derive(Debug, Default)]
pub(super) struct SessionUses(Mutex<HashSet<SessionId>>);

/// Maximum number of queued sessions.
const MAX_USES: usize = 10_000;

/// Maximum number of concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 64;

/// Time after a recorded use in which further uses of the same session are not recorded.
const LAST_USE_PRECISION: Duration = Duration::from_mins(1);

impl SessionUses {
    /// Queues the use of a session.
    pub(super) fn note(&self, session: SessionId, last_seen_at: UnixTime, now: UnixTime) {
        if now.since(last_seen_at) < LAST_USE_PRECISION {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_USES {
            waiting.insert(session);
        }
    }

    /// Writes the queued uses to the store. Concurrent writes share one flush to disk.
    pub(super) async fn write(&self, sealgate: &Sealgate) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let waiting: Vec<SessionId> = waiting.into_iter().collect();
        let (now, keep) = (sealgate.clock.now(), sealgate.config.sessions.keep_signed_in);
        for batch in waiting.chunks(MAX_CONCURRENT_WRITES) {
            let sessions = match sealgate.store.sessions(batch).await {
                Ok(sessions) => sessions,
                // The next requests of these sessions queue them again.
                Err(error) => {
                    tracing::warn!(%error, "cannot save the last use of sessions");
                    return;
                }
            };
            let mut noting = JoinSet::new();
            for session in sessions.into_iter().filter(|session| session.value.is_live(now, keep)) {
                let store = Arc::clone(&sealgate.store);
                noting.spawn(async move { store.touch_session(&session, now).await });
            }
            noting.join_all().await;
        }
    }
}

/// Maximum number of cached sessions, about 2 KiB each.
const MAX_CACHED_SESSIONS: usize = 16_384;

/// Maximum age of a cache entry. The time of the last use in an entry may be that much older than
/// the actual last use.
const MAX_ENTRY_AGE: Duration = Duration::from_secs(30);

/// Cache of live sessions. The key contains the index of the application, because the cookie of one
/// application is not valid for another. It also contains the session id and the hash of the
/// cookie's secret.
pub(super) struct SessionCache {
    shared: Cache<SessionKey, Arc<CachedSession>>,
    local: LocalCache<SessionKey, LocalRef<CachedSession>>,
}

type SessionKey = (usize, SessionId, [u8; 32]);

/// Cached live session.
#[derive(Debug)]
pub(super) struct CachedSession {
    pub signed_in: LocalRef<SignedIn>,
    /// Last use of the session according to the store.
    pub last_seen_at: UnixTime,
    /// Host of the session at a wildcard.
    host: Option<String>,
    access_counter: u64,
    until: UnixTime,
}

impl CachedSession {
    /// Returns a copy for this thread's cache.
    fn copy(&self) -> LocalRef<Self> {
        let signed_in = LocalRef::new(Arc::clone(self.signed_in.shared()));
        Self { signed_in, host: self.host.clone(), ..*self }.into()
    }
}

impl SessionCache {
    /// Creates the cache. `threads` is the number of threads that serve requests.
    pub(super) fn new(threads: usize) -> Self {
        let local = LocalCache::new(MAX_CACHED_SESSIONS, threads);
        Self { shared: Cache::new(MAX_CACHED_SESSIONS), local }
    }

    /// Returns the session of the request's cookie. `app` is the index of the application.
    pub(super) async fn find(
        &self,
        ctx: &AppRequest<'_>,
        app: usize,
    ) -> Result<Option<LocalRef<CachedSession>>, StoreError> {
        let Some(cookie) = ctx.session_cookie() else { return Ok(None) };
        let key = (app, cookie.id, *cookie.hash().as_bytes());
        let store = &ctx.sealgate.store;
        let is_current = |known: &CachedSession| {
            ctx.now < known.until
                && known.host.as_deref() == ctx.bound_host()
                && known.access_counter == store.access_counter(known.signed_in.user.sub)
        };
        if let Some(known) = self.local.get(&key).filter(|known| is_current(known)) {
            return Ok(Some(known));
        }
        if let Some(known) = self.shared.get(&key).filter(|known| is_current(known)) {
            return Ok(Some(self.copy(key, &known)));
        }
        // The counters are read before the session. If access is revoked afterwards, the user's
        // counter no longer matches and the entry is not used. The counters of all users are read,
        // because the user is not known yet.
        let before = store.access_counters();
        let Some(found) = Box::pin(find(ctx)).await? else {
            self.shared.remove(&key);
            return Ok(None);
        };
        let SessionSignIn { user, parent, own, steps, required, until } = found;
        let known = Arc::new(CachedSession {
            access_counter: before.get(user.sub),
            signed_in: SignedIn { user, session: parent.id, app_session: own, steps, required }.into(),
            last_seen_at: parent.last_seen_at,
            host: ctx.bound_host().map(str::to_owned),
            until: until.min(ctx.now.plus(MAX_ENTRY_AGE)),
        });
        self.shared.insert(key, Arc::clone(&known));
        Ok(Some(self.copy(key, &known)))
    }

    /// Copies an entry to this thread's cache.
    fn copy(&self, key: SessionKey, known: &CachedSession) -> LocalRef<CachedSession> {
        let copy = known.copy();
        self.local.insert(key, copy.clone());
        copy
    }
}
