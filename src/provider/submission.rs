//! Forms that take effect once, and whose result is shown once.
//!
//! Each such form carries a random token in the field `once` ([`Inside::once`](crate::page::Inside)). The first request with
//! it does the work and is answered with a redirect (303); each later one, from a second click or a repeated request, is
//! redirected to the same result and changes nothing. The page that follows shows the secret that was made, once: a reload
//! is a GET that makes nothing. The record is bound to the session's cookie, with which the secret is sealed.

use std::time::Duration;

use http::Method;
use tokio::time::{Instant, sleep};

use crate::domain::secret::{Secret, SecretHash, base64url};
use crate::oauth::params::Params;
use crate::page::{Done, Inside};
use crate::provider::visitor::Visitor;
use crate::store::SubmissionState;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::navigation;
use crate::web::response::Response;

/// The query parameter that names a submission on the page that shows its result.
const MADE: &str = "made";

/// The longest token of a form; ours have 22 characters.
const MAX_TOKEN_CHARS: usize = 64;

/// How long a second request waits for the first one, and how often it looks.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What the work behind a form has come to.
pub(super) enum Effect {
    /// It is done. `page`: the path of the page that follows, without the issuer's prefix; `secret`: what it shows once.
    Done { page: String, secret: Option<Secret> },
    /// It has changed nothing, and this is the answer.
    Refused(Response),
}

/// What the page that follows shows.
#[derive(Default)]
pub(super) enum ShownResult {
    /// Nothing: the page was opened by itself.
    #[default]
    Nothing,
    Secret(Secret),
    /// There was a secret, and it was shown already.
    Before,
}

impl ShownResult {
    /// The secret, where there is one.
    pub(super) fn secret(&self) -> Option<&Secret> {
        if let Self::Secret(secret) = self { Some(secret) } else { None }
    }
}

/// Does the work of a form, unless a request with the same form has done it.
///
/// # Errors
/// Those of the work; [`Failure::Unavailable`] when another request has begun the work and does not end it; when the store
/// fails.
pub(super) async fn once(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    form: &Params,
    work: impl Future<Output = Result<Effect, Failure>>,
) -> Result<Response, Failure> {
    let sent = form.one("once")?.filter(|token| is_token(token));
    // A program that sends no token sends each form for its own sake.
    let token = sent.map_or_else(|| base64url(&ctx.random::<16>()), str::to_owned);
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
            // The failure is what matters, also where the store fails once more.
            let _ = store.abandon_submission(&submission.id).await;
            Err(failure)
        }
    }
}

/// Whether the request comes from the redirect after a form: it may be answered where the same page, opened by itself, would
/// ask for a more recent sign-in.
pub(super) fn is_awaited(ctx: &RequestContext<'_>) -> bool {
    ctx.head.method == Method::GET && ctx.query().is_ok_and(|query| query.has(MADE))
}

/// What the page at `page` shows of the submission that its address names.
///
/// # Errors
/// When the store fails.
pub(super) async fn shown(ctx: &RequestContext<'_>, visitor: &Visitor, page: &str) -> Result<ShownResult, Failure> {
    let query = ctx.query()?;
    let Some(token) = query.one(MADE)?.filter(|token| is_token(token)) else { return Ok(ShownResult::Nothing) };
    // A page that nobody looks at must not use up the secret.
    if ctx.head.method != Method::GET || navigation::is_look_ahead(ctx.head) {
        return Ok(ShownResult::Nothing);
    }
    let submission = Submission::new(ctx, visitor, token);
    let store = &ctx.sealgate.store;
    let result = store.take_submission_result(&submission.id, submission.key.as_bytes(), ctx.now).await?;
    Ok(match result.filter(|result| path_of(&result.page) == page) {
        Some(result) => match result.secret {
            Some(secret) => ShownResult::Secret(secret),
            None if result.was_shown => ShownResult::Before,
            None => ShownResult::Nothing,
        },
        None => ShownResult::Nothing,
    })
}

/// The surroundings of that page: they tell a reader who has reloaded it that nothing is shown again.
pub(super) fn told<'a>(inside: Inside<'a>, shown: Option<&ShownResult>) -> Inside<'a> {
    let before = shown.is_some_and(|shown| matches!(shown, ShownResult::Before));
    if before { Inside { done: Some(Done::ShownBefore), ..inside } } else { inside }
}

/// A submission of this user in this session.
struct Submission {
    /// What its record lies under.
    id: SecretHash,
    /// What its secret is sealed with. The store knows the cookie's hash only, so it cannot derive this.
    key: SecretHash,
}

impl Submission {
    fn new(ctx: &RequestContext<'_>, visitor: &Visitor, token: &str) -> Self {
        let cookie = ctx.cookie(ctx.cookies.session).unwrap_or_default();
        let derived =
            |what: &str| SecretHash::of(format!("submission {what} {} {token} {cookie}", visitor.user.sub).as_bytes());
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
