//! Browsers from which a user has signed in before.

use http::HeaderValue;

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_domain::known_browser::{KNOWN_FOR, KnownBrowser, Marks};
use sealgate_domain::secret::Secret;
use sealgate_domain::user::{Subject, User};
use sealgate_store::StoreError;

/// New mark for a browser and the cookie that contains it.
pub(super) struct Marked {
    pub(super) mark: Secret,
    pub(super) cookie: HeaderValue,
}

/// Returns the browser if the user has signed in from it before. Performs the same lookup if the
/// user does not exist.
pub(super) async fn find(ctx: &RequestContext<'_>, user: Option<&User>) -> Result<Option<KnownBrowser>, StoreError> {
    let marks = marks(ctx);
    if marks.is_empty() {
        return Ok(None);
    }
    let subject = user.map_or_else(|| Subject::from_random([0; 16]), |user| user.sub);
    let known = ctx.sealgate.store.known_browsers(subject).await?;
    Ok(known.find(&marks, ctx.now).cloned())
}

/// Records that the user has signed in from this browser, unless that was recorded recently. If the
/// store fails, the sign-in continues and the browser remains unknown.
pub(super) async fn learn(ctx: &RequestContext<'_>, subject: Subject, before: Option<&KnownBrowser>) -> Option<Marked> {
    if before.is_some_and(|known| !known.is_due(ctx.now)) {
        return None;
    }
    let mark = Secret::from_random(&ctx.random::<16>());
    let replaced = before.map(|known| known.mark);
    if let Err(error) = ctx.sealgate.store.learn_browser(subject, mark.hash(), replaced, ctx.now).await {
        tracing::warn!(%error, "cannot save a known browser");
        return None;
    }
    let value = marks(ctx).with(&mark, replaced);
    let cookie = cookie::set_for(ctx.cookies.known, value.expose(), ctx.cookies.secure, KNOWN_FOR.as_secs());
    Some(Marked { mark, cookie })
}

/// Returns the marks in this browser's cookie, of all users.
pub(super) fn marks(ctx: &RequestContext<'_>) -> Marks {
    ctx.cookie(ctx.cookies.known).map(Marks::parse).unwrap_or_default()
}
