//! Cache of live sessions, so that the next request of the same browser reads nothing from the
//! store.
//!
//! As with access tokens, an entry has the user's access counter from before its reads. Anything
//! that can revoke the user's access changes the counter, and the session is then read again. The
//! counter does not change with time or when the session is used. So an entry expires at the first
//! time limit that it depends on, at the latest after `LONGEST`.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;

use crate::policy::SignedIn;
use crate::request::AppRequest;
use crate::session;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_store::StoreError;

/// Maximum number of cached sessions, about 2 KiB each.
const REMEMBERED: usize = 16_384;

/// Maximum lifetime of an entry, and so the maximum age of the last use in it.
const LONGEST: Duration = Duration::from_secs(30);

/// Sessions by application, id and the hash of the cookie's secret: an application's cookie is not
/// valid for another one.
pub(super) struct SessionCache(Cache<(usize, SessionId, [u8; 32]), Arc<CachedSession>>);

/// Live session.
#[derive(Debug)]
pub(super) struct CachedSession {
    pub signed_in: Arc<SignedIn>,
    /// Last use of the session according to the store.
    pub last_seen_at: UnixTime,
    access_counter: u64,
    until: UnixTime,
}

impl Default for SessionCache {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

impl SessionCache {
    /// Returns the user of the session cookie in a request to the application with this index.
    pub(super) async fn find(
        &self,
        ctx: &AppRequest<'_>,
        app: usize,
    ) -> Result<Option<Arc<CachedSession>>, StoreError> {
        let Some(cookie) = ctx.session_cookie() else { return Ok(None) };
        let key = (app, cookie.id, *cookie.hash().as_bytes());
        let store = &ctx.sealgate.store;
        let stands = |known: &CachedSession| known.access_counter == store.access_counter(known.signed_in.user.sub);
        if let Some(known) = self.0.get(&key).filter(|known| ctx.now < known.until && stands(known)) {
            return Ok(Some(known));
        }
        // Read before the session: a later revocation changes the counter, so that the entry is not
        // used. The counters of all users are read, because only the session names the user.
        let before = store.access_counters();
        let Some(found) = Box::pin(session::find(ctx)).await? else {
            self.0.remove(&key);
            return Ok(None);
        };
        let session::SessionSignIn { user, parent, steps, required, until } = found;
        let known = Arc::new(CachedSession {
            access_counter: before.of(user.sub),
            signed_in: Arc::new(SignedIn { user, session: parent.id, steps, required }),
            last_seen_at: parent.last_seen_at,
            until: until.min(ctx.now.plus(LONGEST)),
        });
        self.0.insert(key, Arc::clone(&known));
        Ok(Some(known))
    }
}
