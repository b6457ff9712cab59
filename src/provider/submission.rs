//! Forms that take effect once and whose result is shown once.
//!
//! Each page has a random token in the field `once` of its forms
//! ([`Inside::once`](sealgate_pages::Inside)). The token, the path and the other fields of a form are a
//! submission: the first request does the work and is answered with a redirect (303). Later
//! requests, from a second click or a retry, are redirected to the same result and change nothing.
//! Another form of the same page, or the same form with other values, is another submission.
//!
//! If the work creates a secret, the next page shows the secret once. Reloading this page is a GET,
//! which creates nothing. The stored submission is bound to the session cookie. The key that seals
//! the secret is derived from that cookie.

use std::time::Duration;

use http::Method;
use tokio::time::{Instant, sleep};
use url::form_urlencoded;

use crate::request::ProviderRequest as _;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_edge::navigation;
use sealgate_pages::{Done, Inside};
use sealgate_store::SubmissionState;

/// Query parameter that names a submission on the page that shows its result.
const MADE: &str = "made";

/// Maximum length of a form's token. The server's tokens have 22 characters.
const MAX_TOKEN_CHARS: usize = 64;

/// Maximum time that a second request waits for the first one.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Result of the work behind a form.
pub(super) enum Effect {
    /// The work is done. `page` is the path of the next page, without the issuer's prefix. That
    /// page shows `secret` once.
    Done { page: String, secret: Option<Secret> },
    /// The form changed nothing and is answered with this response.
    Refused(Response),
}

/// Result that the next page shows.
#[derive(Default)]
pub(super) enum ShownResult {
    /// No submission: the page was opened directly.
    #[default]
    Nothing,
    Secret(Secret),
    /// The submission created a secret that was already shown.
    AlreadyShown,
}

impl ShownResult {
    /// Returns the secret, if there is one to show.
    pub(super) fn secret(&self) -> Option<&Secret> {
        if let Self::Secret(secret) = self { Some(secret) } else { None }
    }
}

/// Does the work of a form, unless another request with the same form has done it.
///
/// # Errors
/// Errors of the work; [`Failure::Unavailable`] when another request does the work and does not
/// finish in time; when the store fails.
pub(super) async fn once(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    form: &Params,
    work: impl Future<Output = Result<Effect, Failure>>,
) -> Result<Response, Failure> {
    let once = form.one("once")?.filter(|token| is_token(token));
    // A client that is not a browser may omit the token; each of its requests is then separate.
    let token = once.map_or_else(|| base64url(&ctx.random::<16>()), str::to_owned);
    let token = name_of(ctx, form, &token);
    let submission = Submission::new(ctx, visitor, &token);
    let store = &ctx.sealgate.store;
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        match store.begin_submission(&submission.id, ctx.now).await? {
            SubmissionState::First => break,
            SubmissionState::Done(page) => return Ok(Response::see_other(&address(ctx, &page, &token))),
            SubmissionState::Running if Instant::now() < deadline => sleep(POLL_INTERVAL).await,
            SubmissionState::Running => return Err(Failure::Unavailable),
        }
    }
    match work.await {
        Ok(Effect::Done { page, secret }) => {
            let key = submission.key.as_bytes();
            store.finish_submission(&submission.id, &page, secret.as_ref(), key, ctx.random()).await?;
            Ok(Response::see_other(&address(ctx, &page, &token)))
        }
        Ok(Effect::Refused(response)) => {
            store.abandon_submission(&submission.id).await?;
            Ok(response)
        }
        Err(failure) => {
            // Return the original failure even if the store fails again.
            let _ = store.abandon_submission(&submission.id).await;
            Err(failure)
        }
    }
}

/// Returns whether the request follows the redirect after a form.
///
/// The user's sign-in may then be older than the page otherwise allows.
pub(super) fn is_awaited(ctx: &RequestContext<'_>) -> bool {
    ctx.head.method == Method::GET && ctx.query().is_ok_and(|query| query.has(MADE))
}

/// Returns the result of the submission that the query names, if `page` shows this result.
///
/// # Errors
/// When the store fails.
pub(super) async fn take_result(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    page: &str,
) -> Result<ShownResult, Failure> {
    let query = ctx.query()?;
    let Some(token) = query.one(MADE)?.filter(|token| is_token(token)) else { return Ok(ShownResult::Nothing) };
    // A prefetch or HEAD request must not use up the secret.
    if ctx.head.method != Method::GET || navigation::is_preload(ctx.head) {
        return Ok(ShownResult::Nothing);
    }
    let submission = Submission::new(ctx, visitor, token);
    let store = &ctx.sealgate.store;
    let result = store.take_submission_result(&submission.id, submission.key.as_bytes(), ctx.now).await?;
    Ok(match result.filter(|result| path_of(&result.page) == page) {
        Some(result) => match result.secret {
            Some(secret) => ShownResult::Secret(secret),
            None if result.was_shown => ShownResult::AlreadyShown,
            None => ShownResult::Nothing,
        },
        None => ShownResult::Nothing,
    })
}

/// Adds a hint to the page's layout if the secret was already shown, for instance before a reload.
pub(super) fn with_hint<'a>(inside: Inside<'a>, result: Option<&ShownResult>) -> Inside<'a> {
    let is_repeated = result.is_some_and(|result| matches!(result, ShownResult::AlreadyShown));
    if is_repeated { Inside { done: Some(Done::ShownBefore), ..inside } } else { inside }
}

/// Fields that are not part of the name. A confirmation adds `sure`, and the tokens are not input.
const NOT_NAMED: [&str; 3] = ["csrf", "once", "sure"];

/// Returns the name of a submission: a digest of the token, the path and the fields of the form in any
/// order. A form and its confirmation, which repeats the fields, have the same name.
fn name_of(ctx: &RequestContext<'_>, form: &Params, token: &str) -> String {
    let mut fields: Vec<(&str, &str)> = form.pairs().filter(|(name, _)| !NOT_NAMED.contains(name)).collect();
    fields.sort_unstable();
    let path = ctx.head.uri.path();
    let text = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("once", token), ("path", path)])
        .extend_pairs(fields)
        .finish();
    base64url(&SecretHash::for_secret(text.as_bytes()).as_bytes()[..16])
}

/// Keys of a submission, derived from its name, the user and the session cookie.
struct Submission {
    /// Key of the record in the store.
    id: SecretHash,
    /// Key that seals the secret. The store has only the hash of the cookie, so it cannot derive
    /// this key.
    key: SecretHash,
}

impl Submission {
    fn new(ctx: &RequestContext<'_>, visitor: &Visitor, token: &str) -> Self {
        let cookie = ctx.cookie(ctx.cookies.session).unwrap_or_default();
        let derived = |what: &str| {
            SecretHash::for_secret(format!("submission {what} {} {token} {cookie}", visitor.user.sub).as_bytes())
        };
        Self { id: derived("id"), key: derived("key") }
    }
}

fn is_token(token: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_TOKEN_CHARS).contains(&token.len()) && token.bytes().all(allowed)
}

fn path_of(page: &str) -> &str {
    page.split('?').next().unwrap_or_default()
}

fn address(ctx: &RequestContext<'_>, page: &str, token: &str) -> String {
    let joint = if page.contains('?') { '&' } else { '?' };
    ctx.path(&format!("{page}{joint}{MADE}={token}"))
}
