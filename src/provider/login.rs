//! `/oauth/login`: a person proves who they are, and the browser gets a session.
//!
//! A wrong password and an unknown address or username look and take the same. Guesses are counted before any hashing, see
//! [`Guesses`].

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};
use secrecy::SecretString;

use crate::domain::audit::{Actor, AuditKind};
use crate::domain::known_browser::KnownBrowser;
use crate::domain::session::{Session, SessionCookie, SessionId, SignIn};
use crate::domain::user::{PasswordHash, User};
use crate::metrics::SignInOutcome;
use crate::oauth::next_step::{Interaction, Progress};
use crate::page::{LoginPage, LoginProblem, html};
use crate::password::{self, Line};
use crate::provider::guesses::Guesses;
use crate::provider::interaction::{RESUME, Waiting};
use crate::provider::known_browser;
use crate::store::{Committed, Loaded};
use crate::web::context::RequestContext;
use crate::web::cookie;
use crate::web::failure::Failure;
use crate::web::response::Response;

const PAGE: &str = "login";

/// How often a session that changes at the same moment is read again.
const MOST_TRIES: usize = 8;

pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        let waiting = Waiting::find(ctx).await?;
        let email = waiting.interaction().request.login_hint.as_deref().unwrap_or_default();
        return Ok(show(ctx, &waiting, StatusCode::OK, email, None));
    }
    let waiting = Waiting::find_at_any_time(ctx).await?;
    let form = waiting.form(ctx, PAGE)?;
    // A page that was left open for too long is as good as a new one, in the browser that it was shown to.
    let waiting = waiting.in_time(ctx).await?;
    let typed = form.one("email")?.unwrap_or_default().trim();
    let password = SecretString::from(form.one("password")?.unwrap_or_default());
    let user = ctx.sealgate.store.user_by_sign_in_name(typed).await?;
    let known = known_browser::find(ctx, user.as_ref()).await?;
    let guesses = match Guesses::at_sign_in(ctx, typed, known.as_ref()) {
        Ok(guesses) => guesses,
        Err(seconds) => {
            failed(ctx, &waiting, user.as_ref(), "throttled");
            ctx.sealgate.metrics.signed_in(SignInOutcome::Throttled);
            let problem = LoginProblem::Throttled { seconds };
            let page = show(ctx, &waiting, StatusCode::TOO_MANY_REQUESTS, typed, Some(problem));
            return Ok(page.with(RETRY_AFTER, &seconds.to_string()));
        }
    };
    match is_right(ctx, guesses.line(ctx), user.as_ref(), password.clone()).await {
        Ok(Some(user)) => {
            guesses.give_back(ctx);
            let Some(signed_in) = sign_in(ctx, &waiting, user, known.as_ref()).await? else {
                return Ok(wrong(ctx, &waiting, typed, Some(user)));
            };
            rehash(ctx, user, password).await;
            ctx.sealgate.metrics.signed_in(SignInOutcome::Succeeded);
            Ok(signed_in)
        }
        Ok(None) => Ok(wrong(ctx, &waiting, typed, user.as_ref())),
        Err(Failure::Unavailable) => {
            guesses.give_back(ctx);
            let page = show(ctx, &waiting, StatusCode::SERVICE_UNAVAILABLE, typed, Some(LoginProblem::Busy));
            Ok(page.with(RETRY_AFTER, "1"))
        }
        Err(other) => Err(other),
    }
}

fn show(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    status: StatusCode,
    email: &str,
    problem: Option<LoginProblem>,
) -> Response {
    let page = LoginPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(PAGE),
        client: waiting.client_name(),
        email,
        passkey: None,
        problem,
    };
    Response::page(status, html(&page), waiting.then().as_deref())
}

fn wrong(ctx: &RequestContext<'_>, waiting: &Waiting, typed: &str, user: Option<&User>) -> Response {
    ctx.sealgate.metrics.signed_in(SignInOutcome::Failed);
    failed(ctx, waiting, user, "wrong");
    show(ctx, waiting, StatusCode::OK, typed, Some(LoginProblem::WrongCredentials))
}

/// Takes a failure down, for the person whom it concerns if there is one. What was typed is not kept: people type
/// passwords into the wrong field.
fn failed(ctx: &RequestContext<'_>, waiting: &Waiting, user: Option<&User>, why: &str) {
    let event = ctx.event(AuditKind::SignInFailed, Actor::Stranger).with_client(&waiting.client.id).with_detail(why);
    ctx.sealgate.audit.note(user.into_iter().fold(event, |event, user| event.of(user.sub)));
}

/// The person whose address was typed, if the password is theirs and they may come in.
async fn is_right<'u>(
    ctx: &RequestContext<'_>,
    line: Line,
    user: Option<&'u User>,
    password: SecretString,
) -> Result<Option<&'u User>, Failure> {
    // Without an account, or with a disabled one, the same work is done on a hash that no password meets.
    let user = user.filter(|user| user.is_enabled());
    let hash = user.and_then(|user| user.password.as_ref());
    let right = ctx.sealgate.passwords.verify(line, hash, password).await?;
    Ok(user.filter(|_| right))
}

/// Brings a hash with yesterday's parameters up to today's, while the password is at hand. Where that fails, the next
/// sign-in tries again: this one stands, and its answer carries the session's cookie.
async fn rehash(ctx: &RequestContext<'_>, user: &User, password: SecretString) {
    let Some(old) = user.password.as_ref().filter(|hash| password::needs_rehash(hash)) else { return };
    if let Err(error) = try_rehash(ctx, user, old, password).await {
        tracing::warn!(?error, "a password's hash was not brought up to today's parameters");
    }
}

async fn try_rehash(
    ctx: &RequestContext<'_>,
    user: &User,
    old: &PasswordHash,
    password: SecretString,
) -> Result<(), Failure> {
    let new = ctx.sealgate.passwords.hash(password, ctx.random()).await?;
    // The password may have been changed at this very moment: then that one stands.
    let replace = |user: &mut User| {
        if user.password.as_ref() == Some(old) {
            user.password = Some(new.clone());
        }
    };
    ctx.sealgate.store.change_user(user.sub, replace).await?;
    Ok(())
}

/// Signs in whoever has shown this person's password; `None` when it is not theirs any more.
async fn sign_in(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    user: &User,
    known: Option<&KnownBrowser>,
) -> Result<Option<Response>, Failure> {
    let sign_in = SignIn::by_password(user.sub, ctx.now);
    let cookie = match ctx.session().await? {
        Some(session) => renew(ctx, session, sign_in).await?,
        None => begin(ctx, sign_in).await?,
    };
    let marked = known_browser::learn(ctx, user.sub, known).await;
    // Whoever disabled the account or set another password while this one was checked has ended the sessions that there
    // were. This one came after.
    let same = |now: &User| now.is_enabled() && now.password == user.password;
    if !ctx.sealgate.store.user(user.sub).await?.is_some_and(|now| same(&now)) {
        ctx.sealgate.store.end_session(cookie.id).await?;
        if let Some(marked) = &marked {
            ctx.sealgate.store.forget_browser(user.sub, marked.mark.hash()).await?;
        }
        return Ok(None);
    }
    let event = ctx.event(AuditKind::SignedIn, Actor::Person).of(user.sub).in_session(cookie.id);
    ctx.sealgate.audit.note(event.with_client(&waiting.client.id));
    let interaction = waiting.interaction();
    let progress = Progress { account: Some(user.sub), signed_in: true, allowed: None };
    let next = Interaction { progress, ..interaction.clone() };
    // A conflict means that another tab has gone on with the same request: what it did stands.
    let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    let set = cookie::set(ctx.cookies.session, cookie.value().expose(), ctx.cookies.secure);
    let response = Response::see_other(&waiting.address(ctx, RESUME)).with_cookie(set);
    Ok(Some(marked.into_iter().fold(response, |response, marked| response.with_cookie(marked.cookie))))
}

/// A session is never carried over a sign-in under its old cookie: whoever planted that cookie would be signed in too.
async fn renew(ctx: &RequestContext<'_>, session: Loaded<Session>, sign_in: SignIn) -> Result<SessionCookie, Failure> {
    let id = session.value.id;
    let presented = ctx.cookie(ctx.cookies.session).and_then(SessionCookie::parse);
    let mut found = Some(session);
    for _ in 0..MOST_TRIES {
        let Some(session) = found.filter(|session| session.value.is_live(ctx.now)) else { break };
        let cookie = SessionCookie::new(id, ctx.random());
        let mut next = session.value.clone();
        next.renew(sign_in.clone(), cookie.hash(), ctx.now);
        // Only the cookie that this browser has shown may live on for a moment, not one that somebody got meanwhile.
        if !presented.as_ref().is_some_and(|presented| presented.hash() == session.value.cookie) {
            next.previous = None;
        }
        // The end counts from the latest password; the sweeper finds by itself that the record lives longer than it knew.
        next.expires_at = ctx.now.plus(ctx.sealgate.config.sessions.absolute);
        if ctx.sealgate.store.update_session(&session, &next).await? == Committed::Yes {
            return Ok(cookie);
        }
        // Somebody signed in or out in another tab at this very moment.
        found = ctx.sealgate.store.session(id).await?;
    }
    // The browser forgets the old session with its new cookie: it must not go on without a browser.
    ctx.sealgate.store.end_session(id).await?;
    begin(ctx, sign_in).await
}

async fn begin(ctx: &RequestContext<'_>, sign_in: SignIn) -> Result<SessionCookie, Failure> {
    let settings = &ctx.sealgate.config.sessions;
    let cookie = SessionCookie::new(SessionId::from_bytes(ctx.random()), ctx.random());
    let session = Session {
        id: cookie.id,
        cookie: cookie.hash(),
        previous: None,
        sign_ins: vec![sign_in],
        created_at: ctx.now,
        last_seen_at: ctx.now,
        expires_at: ctx.now.plus(settings.absolute),
        idle_seconds: settings.idle.as_secs(),
        address: ctx.origin.address,
        user_agent: ctx.user_agent(),
    };
    ctx.sealgate.store.begin_session(&session).await?;
    Ok(cookie)
}
