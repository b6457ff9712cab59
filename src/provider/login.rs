//! `/oauth/login`: a person proves who they are, and the browser gets a session.
//!
//! A wrong password and an unknown address or username look and take the same. Guesses are counted before any hashing, see
//! [`Guesses`].

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};
use secrecy::SecretString;

use crate::domain::audit::{Actor, AuditKind};
use crate::domain::known_browser::KnownBrowser;
use crate::domain::session::{Session, SessionCookie, SessionId, SignIn, Step};
use crate::domain::user::{PasswordHash, User};
use crate::metrics::SignInOutcome;
use crate::oauth::next_step::{Interaction, Progress};
use crate::page::{Login, LoginProblem};
use crate::password::{self, Line};
use crate::provider::authorize::RESUME;
use crate::provider::call::Call;
use crate::provider::failure::Failure;
use crate::provider::guesses::Guesses;
use crate::provider::interaction::Waiting;
use crate::provider::known_browser;
use crate::provider::response::Response;
use crate::store::{Committed, Loaded};
use crate::web::cookie;

const PAGE: &str = "login";

/// How often a session that changes at the same moment is read again.
const MOST_TRIES: usize = 8;

pub(super) async fn answer(call: &Call<'_>) -> Result<Response, Failure> {
    if call.request.method() != Method::POST {
        let waiting = Waiting::find(call).await?;
        let email = waiting.interaction().request.login_hint.as_deref().unwrap_or_default();
        return Ok(show(call, &waiting, StatusCode::OK, email, None));
    }
    let waiting = Waiting::find_at_any_time(call).await?;
    let form = waiting.form(call, PAGE)?;
    // A page that was left open for too long is as good as a new one, in the browser that it was shown to.
    let waiting = waiting.in_time(call).await?;
    let typed = form.one("email")?.unwrap_or_default().trim();
    let password = SecretString::from(form.one("password")?.unwrap_or_default());
    let user = call.sealgate.store.user_by_sign_in_name(typed).await?;
    let known = known_browser::find(call, user.as_ref()).await?;
    let guesses = match Guesses::at_sign_in(call, typed, known.as_ref()) {
        Ok(guesses) => guesses,
        Err(seconds) => {
            failed(call, &waiting, user.as_ref(), "throttled");
            call.sealgate.metrics.signed_in(SignInOutcome::Throttled);
            let problem = LoginProblem::Throttled { seconds };
            let page = show(call, &waiting, StatusCode::TOO_MANY_REQUESTS, typed, Some(problem));
            return Ok(page.with(RETRY_AFTER, &seconds.to_string()));
        }
    };
    match is_right(call, guesses.line(call), user.as_ref(), password.clone()).await {
        Ok(Some(user)) => {
            guesses.give_back(call);
            let Some(signed_in) = sign_in(call, &waiting, user, known.as_ref()).await? else {
                return Ok(wrong(call, &waiting, typed, Some(user)));
            };
            rehash(call, user, password).await;
            call.sealgate.metrics.signed_in(SignInOutcome::Succeeded);
            Ok(signed_in)
        }
        Ok(None) => Ok(wrong(call, &waiting, typed, user.as_ref())),
        Err(Failure::Unavailable) => {
            guesses.give_back(call);
            let page = show(call, &waiting, StatusCode::SERVICE_UNAVAILABLE, typed, Some(LoginProblem::Busy));
            Ok(page.with(RETRY_AFTER, "1"))
        }
        Err(other) => Err(other),
    }
}

fn show(
    call: &Call<'_>,
    waiting: &Waiting,
    status: StatusCode,
    email: &str,
    problem: Option<LoginProblem>,
) -> Response {
    let content = Login {
        action: &waiting.address(call, PAGE),
        csrf: &waiting.csrf(PAGE),
        client: waiting.client_name(),
        email,
        problem,
    };
    let html = call.with_chrome(|chrome| call.sealgate.pages.login(chrome, &content));
    Response::page(status, html, waiting.then().as_deref())
}

fn wrong(call: &Call<'_>, waiting: &Waiting, typed: &str, user: Option<&User>) -> Response {
    call.sealgate.metrics.signed_in(SignInOutcome::Failed);
    failed(call, waiting, user, "wrong");
    show(call, waiting, StatusCode::OK, typed, Some(LoginProblem::WrongCredentials))
}

/// Takes a failure down, for the person whom it concerns if there is one. What was typed is not kept: people type
/// passwords into the wrong field.
fn failed(call: &Call<'_>, waiting: &Waiting, user: Option<&User>, why: &str) {
    let event = call.event(AuditKind::SignInFailed, Actor::Stranger).with_client(&waiting.client.id).with_detail(why);
    call.sealgate.audit.note(user.into_iter().fold(event, |event, user| event.of(user.sub)));
}

/// The person whose address was typed, if the password is theirs and they may come in.
async fn is_right<'u>(
    call: &Call<'_>,
    line: Line,
    user: Option<&'u User>,
    password: SecretString,
) -> Result<Option<&'u User>, Failure> {
    // Without an account, or with a disabled one, the same work is done on a hash that no password meets.
    let user = user.filter(|user| user.is_enabled());
    let hash = user.and_then(|user| user.password.as_ref());
    let right = call.sealgate.passwords.verify(line, hash, password).await?;
    Ok(user.filter(|_| right))
}

/// Brings a hash with yesterday's parameters up to today's, while the password is at hand. Where that fails, the next
/// sign-in tries again: this one stands, and its answer carries the session's cookie.
async fn rehash(call: &Call<'_>, user: &User, password: SecretString) {
    let Some(old) = user.password.as_ref().filter(|hash| password::needs_rehash(hash)) else { return };
    if let Err(error) = try_rehash(call, user, old, password).await {
        tracing::warn!(?error, "a password's hash was not brought up to today's parameters");
    }
}

async fn try_rehash(call: &Call<'_>, user: &User, old: &PasswordHash, password: SecretString) -> Result<(), Failure> {
    let new = call.sealgate.passwords.hash(password, call.random()).await?;
    // The password may have been changed at this very moment: then that one stands.
    let replace = |user: &mut User| {
        if user.password.as_ref() == Some(old) {
            user.password = Some(new.clone());
        }
    };
    call.sealgate.store.change_user(user.sub, replace).await?;
    Ok(())
}

/// Signs in whoever has shown this person's password; `None` when it is not theirs any more.
async fn sign_in(
    call: &Call<'_>,
    waiting: &Waiting,
    user: &User,
    known: Option<&KnownBrowser>,
) -> Result<Option<Response>, Failure> {
    let sign_in = SignIn { subject: user.sub, at: call.now, steps: vec![Step::Password] };
    let cookie = match call.session().await? {
        Some(session) => renew(call, session, sign_in).await?,
        None => begin(call, sign_in).await?,
    };
    let marked = known_browser::learn(call, user.sub, known).await;
    // Whoever disabled the account or set another password while this one was checked has ended the sessions that there
    // were. This one came after.
    let same = |now: &User| now.is_enabled() && now.password == user.password;
    if !call.sealgate.store.user(user.sub).await?.is_some_and(|now| same(&now)) {
        call.sealgate.store.end_session(cookie.id).await?;
        if let Some(marked) = &marked {
            call.sealgate.store.forget_browser(user.sub, marked.mark.hash()).await?;
        }
        return Ok(None);
    }
    let event = call.event(AuditKind::SignedIn, Actor::Person).of(user.sub).in_session(cookie.id);
    call.sealgate.audit.note(event.with_client(&waiting.client.id));
    let interaction = waiting.interaction();
    let progress = Progress { account: Some(user.sub), signed_in: true, allowed: None };
    let next = Interaction { progress, ..interaction.clone() };
    // A conflict means that another tab has gone on with the same request: what it did stands.
    let _ = call.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    let set = cookie::set(call.cookies.session, cookie.value().expose(), call.cookies.secure);
    let response = Response::see_other(&waiting.address(call, RESUME)).with_cookie(set);
    Ok(Some(marked.into_iter().fold(response, |response, marked| response.with_cookie(marked.cookie))))
}

/// A session is never carried over a sign-in under its old cookie: whoever planted that cookie would be signed in too.
async fn renew(call: &Call<'_>, session: Loaded<Session>, sign_in: SignIn) -> Result<SessionCookie, Failure> {
    let id = session.value.id;
    let presented = call.cookie(call.cookies.session).and_then(SessionCookie::parse);
    let mut found = Some(session);
    for _ in 0..MOST_TRIES {
        let Some(session) = found.filter(|session| session.value.is_live(call.now)) else { break };
        let cookie = SessionCookie::new(id, call.random());
        let mut next = session.value.clone();
        next.renew(sign_in.clone(), cookie.hash(), call.now);
        // Only the cookie that this browser has shown may live on for a moment, not one that somebody got meanwhile.
        if !presented.as_ref().is_some_and(|presented| presented.hash() == session.value.cookie) {
            next.previous = None;
        }
        // The end counts from the latest password; the sweeper finds by itself that the record lives longer than it knew.
        next.expires_at = call.now.plus(call.sealgate.config.sessions.absolute);
        if call.sealgate.store.update_session(&session, &next).await? == Committed::Yes {
            return Ok(cookie);
        }
        // Somebody signed in or out in another tab at this very moment.
        found = call.sealgate.store.session(id).await?;
    }
    // The browser forgets the old session with its new cookie: it must not go on without a browser.
    call.sealgate.store.end_session(id).await?;
    begin(call, sign_in).await
}

async fn begin(call: &Call<'_>, sign_in: SignIn) -> Result<SessionCookie, Failure> {
    let settings = &call.sealgate.config.sessions;
    let cookie = SessionCookie::new(SessionId::from_random(call.random()), call.random());
    let session = Session {
        id: cookie.id,
        cookie: cookie.hash(),
        previous: None,
        sign_ins: vec![sign_in],
        created_at: call.now,
        last_seen_at: call.now,
        expires_at: call.now.plus(settings.absolute),
        idle_seconds: settings.idle.as_secs(),
        address: call.origin.address,
        user_agent: call.user_agent(),
    };
    call.sealgate.store.begin_session(&session).await?;
    Ok(cookie)
}
