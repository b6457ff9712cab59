//! Whether the person at the sign-in has signed in from this browser before, and noting that they have.

use http::HeaderValue;

use crate::domain::known_browser::{KNOWN_FOR, KnownBrowser, Marks};
use crate::domain::secret::Secret;
use crate::domain::user::{Subject, User};
use crate::provider::call::Call;
use crate::store::StoreError;
use crate::web::cookie;

/// A mark that was made for a browser, with the cookie that gives it to it.
pub(super) struct Marked {
    pub(super) mark: Secret,
    pub(super) cookie: HeaderValue,
}

/// The browser as it is known of this person. The same is looked up where there is no such person.
pub(super) async fn find(call: &Call<'_>, user: Option<&User>) -> Result<Option<KnownBrowser>, StoreError> {
    let marks = marks(call);
    if marks.is_empty() {
        return Ok(None);
    }
    let subject = user.map_or_else(|| Subject::from_random([0; 16]), |user| user.sub);
    let known = call.sealgate.store.known_browsers(subject).await?;
    Ok(known.find(&marks, call.now).cloned())
}

/// Notes that this person has signed in from this browser, unless that was noted today. A store that fails here stops no
/// sign-in: the browser stays unknown.
pub(super) async fn learn(call: &Call<'_>, subject: Subject, before: Option<&KnownBrowser>) -> Option<Marked> {
    if before.is_some_and(|known| !known.is_due(call.now)) {
        return None;
    }
    let mark = Secret::from_random(&call.random::<16>());
    let replaced = before.map(|known| known.mark);
    if let Err(error) = call.sealgate.store.learn_browser(subject, mark.hash(), replaced, call.now).await {
        tracing::warn!(%error, "a browser was not noted as known");
        return None;
    }
    let value = marks(call).with(&mark, replaced);
    let cookie = cookie::set_for(call.cookies.known, value.expose(), call.cookies.secure, KNOWN_FOR.as_secs());
    Some(Marked { mark, cookie })
}

fn marks(call: &Call<'_>) -> Marks {
    call.cookie(call.cookies.known).map(Marks::parse).unwrap_or_default()
}
