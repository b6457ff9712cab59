//! Sessions that were found live a moment ago, so that the next request of the same browser reads nothing from the store.
//!
//! As with access tokens, an entry carries the person's standing from before its look-ups: once anything of theirs was
//! revoked or changed that can take access away, it has moved and the session is looked up again. What moves it not is only
//! the clock, and that a session was used: an entry ends with the first of the times that it rests on, and is short.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;

use crate::domain::session::SessionId;
use crate::domain::time::UnixTime;
use crate::gateway::policy::SignedIn;
use crate::gateway::request::AppRequest;
use crate::gateway::session;
use crate::store::StoreError;

/// Sessions that are remembered, 2 KiB each or so.
const REMEMBERED: usize = 16_384;

/// How long one is remembered at most: so old may the last use be by which it is judged.
const LONGEST: Duration = Duration::from_secs(30);

/// Sessions by application, id and the hash of the cookie's secret: an application's cookie opens no other one.
pub(super) struct Remembered(Cache<(usize, SessionId, [u8; 32]), Arc<Known>>);

/// A session that was found live.
#[derive(Debug)]
pub(super) struct Known {
    pub signed_in: Arc<SignedIn>,
    /// When the session was last used, as the store has it.
    pub last_seen_at: UnixTime,
    access_counter: u64,
    until: UnixTime,
}

impl Default for Remembered {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

impl Remembered {
    /// The person whose cookie came with a request to the application of this index.
    pub(super) async fn find(&self, ctx: &AppRequest<'_>, app: usize) -> Result<Option<Arc<Known>>, StoreError> {
        let Some(cookie) = ctx.session_cookie() else { return Ok(None) };
        let key = (app, cookie.id, *cookie.hash().as_bytes());
        let store = &ctx.sealgate.store;
        let stands = |known: &Known| known.access_counter == store.access_counter(known.signed_in.user.sub);
        if let Some(known) = self.0.get(&key).filter(|known| ctx.now < known.until && stands(known)) {
            return Ok(Some(known));
        }
        // Before any look-up: a revocation that comes after this line moves the number past what the entry will carry. Of
        // everybody, since only the look-ups tell whose session it is.
        let before = store.access_counters();
        let Some(found) = Box::pin(session::find(ctx)).await? else {
            self.0.remove(&key);
            return Ok(None);
        };
        let session::SessionSignIn { user, parent, steps, required, until } = found;
        let known = Arc::new(Known {
            access_counter: before.of(user.sub),
            signed_in: Arc::new(SignedIn { user, session: parent.id, steps, required }),
            last_seen_at: parent.last_seen_at,
            until: until.min(ctx.now.plus(LONGEST)),
        });
        self.0.insert(key, Arc::clone(&known));
        Ok(Some(known))
    }
}
