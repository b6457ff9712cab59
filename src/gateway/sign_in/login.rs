//! Sign-in of a browser to an application.
//!
//! Runs the authorization code flow (OpenID Connect Core §3.1) within the process, with the
//! internal client of the application, PKCE (RFC 7636), and a state that is bound to the browser
//! (RFC 9700 §4.7).
//!
//! The server stores the requested page under the hash of the state. The browser has the state, and
//! a cookie that binds the sign-in to this browser. All tabs of the browser use the same cookie.

use std::time::Duration;

use http::{Method, StatusCode};
use sha2::{Digest, Sha256};

use crate::principal::Principal;
use crate::request::{AppRequest, Sessions};
use crate::resource::challenge;
use crate::session;
use crate::sign_in::join::{self, Join};
use crate::sign_in::return_path::{RedirectLoop, ReturnPath};
use crate::sign_in::{replay, return_path};
use sealgate_config::EnrolmentChoice;
use sealgate_core::tokens::clients::CALLBACK;
use sealgate_core::web::cookie;
use sealgate_core::web::limits::Exceeded;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_domain::code::Code;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::limiter::{LimitKey, Rule};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::pkce::CodeVerifier;
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_domain::session::{AppSession, Session, SessionCookie, SessionId};
use sealgate_domain::user::User;
use sealgate_pages::{Problem, language_from_tag, language_tag};
use sealgate_store::{Committed, Form, Loaded, SignInAttempt, StoreError};

/// Limit of started sign-ins. Each sign-in is written to disk, and clients without credentials can
/// start sign-ins.
const SIGN_INS: SignInLimit = SignInLimit { name: "gate_sign_in", site_name: "gate_sign_in_site", divisor: 1 };
/// Limit of started sign-ins with a form. The store keeps only few forms, and evicts the oldest
/// forms.
const SIGN_INS_WITH_FORM: SignInLimit = SignInLimit { name: "gate_form", site_name: "gate_form_site", divisor: 10 };

/// Limit of the sign-ins that a client address (an IPv6 /64) may start per minute:
/// `rate_limits.sign_ins` divided by `divisor`.
///
/// One subscriber may have a whole IPv6 /48. So the addresses of a /48 together may start at most
/// twice that number.
struct SignInLimit {
    name: &'static str,
    site_name: &'static str,
    divisor: u32,
}

/// First page that the provider shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// The page that the sign-in requires. There is no page if the user is already signed in.
    Needed,
    Chooser,
    /// No page: the sign-in fails if it requires one.
    NoPage,
}

/// Requirements of a sign-in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignInRequest<'a> {
    pub first: First,
    /// Context classes. The sign-in must reach one of them. If empty, every level is sufficient.
    pub acr: &'a [String],
    /// Maximum age of the sign-in.
    pub max_age: Option<Duration>,
}

impl SignInRequest<'_> {
    /// Creates requirements that every sign-in meets. The provider shows the page `first` first.
    pub(crate) const fn any(first: First) -> Self {
        SignInRequest { first, acr: &[], max_age: None }
    }
}

/// Request of the browser after the sign-in.
pub(crate) enum Purpose<'a> {
    Page(&'a ReturnPath),
    /// The page of a form that must be stored first.
    NewForm(Form),
    /// The page of the form that is stored under this id.
    KeptForm(&'a str),
    /// A page of another application.
    Join(&'a Join),
}

/// Redirects the browser to the sign-in, and then to this page. Returns 429 if a rate limit is
/// exceeded.
///
/// # Errors
/// If the store fails, or if too many sign-ins are pending.
pub(crate) async fn begin(
    ctx: &AppRequest<'_>,
    wanted: &ReturnPath,
    demand: SignInRequest<'_>,
) -> Result<Response, StoreError> {
    begin_for(ctx, Purpose::Page(wanted), demand).await
}

/// Redirects the browser to the sign-in, and then to `purpose`. Returns 429 if a rate limit is
/// exceeded.
///
/// # Errors
/// If the store fails, or if too many sign-ins are pending.
pub(crate) async fn begin_for(
    ctx: &AppRequest<'_>,
    purpose: Purpose<'_>,
    demand: SignInRequest<'_>,
) -> Result<Response, StoreError> {
    let callback_count = match purpose {
        // The page's application counts its own callbacks.
        Purpose::Join(_) => RedirectLoop::read(None, ctx.now),
        _ => callback_count(ctx),
    };
    begin_unless_loop(ctx, purpose, demand, callback_count).await
}

async fn begin_unless_loop(
    ctx: &AppRequest<'_>,
    purpose: Purpose<'_>,
    demand: SignInRequest<'_>,
    callback_count: RedirectLoop,
) -> Result<Response, StoreError> {
    if callback_count.is_loop() {
        tracing::info!(request_id = ctx.origin.request_id, app = ctx.app.name, "stopped a redirect loop of a browser");
        return Ok(ctx.problem(StatusCode::BAD_REQUEST, Problem::SignInLoop));
    }
    let sealgate = ctx.sealgate;
    let mut counted =
        if matches!(purpose, Purpose::NewForm(_)) { count_sign_in(ctx, &SIGN_INS_WITH_FORM).await } else { Ok(()) };
    if counted.is_ok() {
        counted = count_sign_in(ctx, &SIGN_INS).await;
    }
    if let Err(Exceeded(seconds)) = counted {
        let refusal = Refusal::new(ErrorCode::RateLimitExceeded, "Too many sign-ins were started. Try again later.");
        let problem = Problem::TooManyRequests { seconds };
        let answer = ctx.refuse(StatusCode::TOO_MANY_REQUESTS, &refusal, problem);
        return Ok(answer.retry_after(seconds));
    }
    let (browser, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
    let form = match &purpose {
        Purpose::Page(_) | Purpose::Join(_) => None,
        Purpose::KeptForm(id) => Some((*id).to_owned()),
        Purpose::NewForm(form) => match replay::keep(ctx, &browser, form).await? {
            Some(id) => Some(id.expose().to_owned()),
            None => return Ok(challenge(ctx, None, None)),
        },
    };
    let home = ReturnPath::home();
    let (wanted, page) = match &purpose {
        Purpose::Page(wanted) => (wanted.as_str(), None),
        Purpose::Join(join) => (join.page(), Some(join.page_session())),
        Purpose::NewForm(_) | Purpose::KeptForm(_) => (home.as_str(), None),
    };
    let (state, verifier) = (Secret::from_random(&ctx.random::<32>()), Secret::from_random(&ctx.random::<32>()));
    let attempt = SignInAttempt {
        browser: SecretHash::for_secret(browser.as_bytes()),
        app: ctx.app.name.clone(),
        host: ctx.bound_host().map(str::to_owned),
        wanted: wanted.to_owned(),
        verifier: verifier.expose().to_owned(),
        expires_at: ctx.now.plus(sealgate.config.sessions.interaction),
        acr: demand.acr.to_vec(),
        form,
        page,
        number: 0,
    };
    sealgate.store.begin_attempt(&state.hash(), &attempt, ctx.now).await?;
    let status = if ctx.head.method == Method::POST { StatusCode::SEE_OTHER } else { StatusCode::FOUND };
    let answer = Response::redirect(status, &authorize(ctx, &state, &verifier, demand));
    Ok(match new_cookie {
        Some(cookie) => answer.with_cookie(cookie),
        None => answer,
    })
}

/// Counts a new sign-in against the limits of the client address.
async fn count_sign_in(ctx: &AppRequest<'_>, allowance: &SignInLimit) -> Result<(), Exceeded> {
    let Some(all) = ctx.sealgate.config.rate_limits.sign_ins.requests() else { return Ok(()) };
    let limit = (all / allowance.divisor).max(1);
    let rule = |limit| Rule { limit, window: Duration::from_mins(1) };
    let site = LimitKey::site(allowance.site_name, ctx.origin.address).map(|site| (site, rule(2 * limit)));
    let address = (LimitKey::address(allowance.name, ctx.origin.address), rule(limit));
    for (key, rule) in [address].into_iter().chain(site) {
        ctx.count(allowance.name, &key, rule).await?;
    }
    Ok(())
}

/// Returns the URL of the authorization request (OpenID Connect Core §3.1.2.1).
fn authorize(ctx: &AppRequest<'_>, state: &Secret, verifier: &Secret, demand: SignInRequest<'_>) -> String {
    let issuer = ctx.sealgate.config.issuer.as_str();
    let challenge = base64url(&Sha256::digest(verifier.expose().as_bytes()));
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs([
        ("client_id", ctx.client_id().as_str()),
        ("redirect_uri", &redirect_uri(ctx)),
        ("response_type", "code"),
        ("scope", "openid profile email"),
        ("state", state.expose()),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    match demand.first {
        First::Needed => {}
        First::Chooser => _ = query.append_pair("prompt", "select_account"),
        First::NoPage => _ = query.append_pair("prompt", "none"),
    }
    if !demand.acr.is_empty() {
        query.append_pair("acr_values", &demand.acr.join(" "));
    }
    if let Some(most) = demand.max_age {
        query.append_pair("max_age", &most.as_secs().to_string());
    }
    // The provider shows its pages in the language that the user chose on this host.
    if let Some(language) = ctx.cookie(ctx.cookies.language).and_then(language_from_tag) {
        query.append_pair("ui_locales", language_tag(language));
    }
    format!("{issuer}/oauth/authorize?{}", query.finish())
}

fn redirect_uri(ctx: &AppRequest<'_>) -> String {
    format!("{}{CALLBACK}", ctx.public_origin())
}

/// Request of the browser after the sign-in, as stored with the sign-in.
enum SignInTarget {
    Page(ReturnPath),
    /// The page of the form that is stored under this id.
    Form(String),
}

impl SignInTarget {
    fn home() -> Self {
        Self::Page(ReturnPath::home())
    }

    fn from_attempt(attempt: &SignInAttempt) -> Self {
        match &attempt.form {
            Some(id) => Self::Form(id.clone()),
            None => Self::Page(ReturnPath::parse(&attempt.wanted).unwrap_or_else(ReturnPath::home)),
        }
    }

    fn location(&self) -> String {
        match self {
            Self::Page(wanted) => wanted.as_str().to_owned(),
            Self::Form(id) => replay::address(id),
        }
    }

    fn purpose(&self) -> Purpose<'_> {
        match self {
            Self::Page(wanted) => Purpose::Page(wanted),
            Self::Form(id) => Purpose::KeptForm(id),
        }
    }
}

/// Parameters of the authorization response.
struct AuthorizationResponse {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
}

impl AuthorizationResponse {
    fn read(params: &Params, issuer: &str) -> Result<Self, Refusal> {
        let one = |name| params.one(name).map(|value| value.map(str::to_owned));
        // RFC 9207 §2.4: a response of another issuer must be rejected.
        if params.one("iss")?.is_some_and(|sent| sent != issuer) {
            return Err(Refusal::invalid_request("The response is not from this issuer."));
        }
        Ok(Self { state: one("state")?, code: one("code")?, error: one("error")? })
    }
}

/// Handles the authorization response. Starts another sign-in if necessary, and returns 429 if that
/// exceeds a rate limit.
///
/// # Errors
/// If the store fails, or if too many sign-ins are pending.
pub(crate) async fn callback(ctx: &AppRequest<'_>) -> Result<Response, StoreError> {
    let returned =
        ctx.query().and_then(|query| AuthorizationResponse::read(&query, ctx.sealgate.config.issuer.as_str()));
    let Ok(returned) = returned else { return Ok(ctx.problem(StatusCode::BAD_REQUEST, Problem::InvalidRequest)) };
    let Some(attempt) = attempt(ctx, returned.state.as_deref()).await? else {
        let page = return_path::read(ctx.cookie(ctx.cookies.last), returned.state.as_deref());
        let back = page.map_or_else(SignInTarget::home, SignInTarget::Page);
        return resume_or_restart(ctx, &back, returned.error.is_some()).await;
    };
    if attempt.value.page.is_some() {
        return finish_join(ctx, &attempt, &returned).await;
    }
    let back = SignInTarget::from_attempt(&attempt.value);
    if attempt.value.expires_at <= ctx.now {
        // The sign-in took too long, but the requested page is still known.
        let _ = ctx.sealgate.store.finish_attempt(&attempt).await?;
        return resume_or_restart(ctx, &back, returned.error.is_some()).await;
    }
    if ctx.sealgate.store.finish_attempt(&attempt).await? == Committed::Conflict {
        return resume_or_restart(ctx, &back, returned.error.is_some()).await;
    }
    if let Some(error) = returned.error {
        if error == ErrorCode::UnmetAuthenticationRequirements.as_str() {
            return too_weak(ctx, &attempt.value.acr, None, &back).await;
        }
        return Ok(provider_refused(ctx, &error));
    }
    let Some((code, parent)) = redeem(ctx, &attempt.value, &returned).await? else {
        return resume_or_restart(ctx, &back, false).await;
    };
    let demanded = &attempt.value.acr;
    let reached = demanded.is_empty() || code.sign_in.level().reaches_one_of(demanded);
    let user = session::enabled(ctx, code.sign_in.subject).await?;
    let (session, cookie) = match ctx.sessions {
        Sessions::OfApp => {
            let (session, cookie) = sign_in(ctx, &code, &parent).await?;
            (Some(session), cookie)
        }
        Sessions::OfProvider => (None, None),
    };
    let answer = if let Some(user) = user.filter(|_| !reached) {
        too_weak(ctx, demanded, Some(&user), &back).await?
    } else {
        let further = session.and_then(|session| join::first(ctx, session, &back.location()));
        let location = further.unwrap_or_else(|| back.location());
        with_last_page(ctx, Response::redirect(StatusCode::FOUND, &location), &returned, &back)
    };
    let answer = match cookie {
        Some(cookie) => answer.with_cookie(cookie),
        None => answer,
    };
    let count = if code.typed { None } else { Some(callback_count(ctx).incremented()) };
    Ok(with_callback_count(ctx, answer, count))
}

/// Completes the sign-in at a further application, see [`join`]. Redirects to the next application or
/// to the page, even if the sign-in failed.
async fn finish_join(
    ctx: &AppRequest<'_>,
    attempt: &Loaded<SignInAttempt>,
    returned: &AuthorizationResponse,
) -> Result<Response, StoreError> {
    let is_finished = ctx.sealgate.store.finish_attempt(attempt).await? == Committed::Conflict;
    // The configuration may have changed during the sign-in.
    let Some(join) = Join::from_attempt(ctx, &attempt.value) else {
        return Ok(Response::redirect(StatusCode::FOUND, "/"));
    };
    let answer = Response::redirect(StatusCode::FOUND, &join.next(ctx));
    if is_finished || attempt.value.expires_at <= ctx.now || ctx.sessions == Sessions::OfProvider {
        return Ok(answer);
    }
    let Some(page_session) = join.load(ctx).await? else { return Ok(answer) };
    match redeem(ctx, &attempt.value, returned).await? {
        // The link is of another browser.
        Some((_, parent)) if parent.id != page_session.parent => Ok(answer),
        Some((code, parent)) if code.sign_in.subject == page_session.subject => {
            Ok(match sign_in(ctx, &code, &parent).await?.1 {
                Some(cookie) => answer.with_cookie(cookie),
                None => answer,
            })
        }
        _ => leave_out(ctx, answer, &page_session).await,
    }
}

/// Continues without a sign-in at this further application. Ends an older session of another user than
/// the page's.
pub(crate) async fn leave_out(
    ctx: &AppRequest<'_>,
    answer: Response,
    page_session: &AppSession,
) -> Result<Response, StoreError> {
    tracing::info!(
        request_id = ctx.origin.request_id,
        app = ctx.app.name,
        page_app = page_session.app,
        "not signed in with the application of a page (also_sign_in)"
    );
    if let Some(cookie) = ctx.session_cookie()
        && let Some(old) = session::of_app(ctx, &cookie).await?
        && join::contradicts(&old, page_session)
    {
        ctx.sealgate.store.end_app_session(old.id).await?;
        return Ok(answer.with_cookie(cookie::expire(ctx.cookies.session, ctx.cookies.secure)));
    }
    Ok(answer)
}

/// Uses the code of an authorization response. Returns the code and the provider's session, or `None`
/// if the response is an error or the code cannot be used.
async fn redeem(
    ctx: &AppRequest<'_>,
    attempt: &SignInAttempt,
    returned: &AuthorizationResponse,
) -> Result<Option<(Code, Session)>, StoreError> {
    let Some(code) = code(ctx, attempt, returned.code.as_deref()).await? else { return Ok(None) };
    if ctx.sealgate.store.use_code(&code).await? == Committed::Conflict {
        return Ok(None);
    }
    Ok(parent(ctx, &code.value).await?.map(|parent| (code.value, parent)))
}

/// Responds to a sign-in that does not reach the required level. Starts no further sign-in, because
/// a further sign-in would not reach the level either.
async fn too_weak(
    ctx: &AppRequest<'_>,
    demanded: &[String],
    user: Option<&User>,
    back: &SignInTarget,
) -> Result<Response, StoreError> {
    let sealgate = ctx.sealgate;
    let policy = &sealgate.config.factors;
    let needed = match (AssuranceLevel::lowest_of(demanded), user) {
        (Some(level), _) => level,
        // The rule accepts only context classes of another issuer, and no sign-in to Sealgate
        // reaches these.
        (None, Some(user)) if !demanded.is_empty() => return Ok(ctx.forbidden(Principal::Local(user))),
        (None, _) => policy.level,
    };
    tracing::info!(
        request_id = ctx.origin.request_id,
        app = ctx.app.name,
        needed = needed.as_str(),
        "the sign-in did not reach the required level"
    );
    let factors = match user {
        Some(user) => sealgate.store.factors(user.sub).await?,
        None => None,
    };
    let has_some = factors.is_some_and(|factors| factors.value.has_any());
    let by_themselves = has_some || policy.enrolment == EnrolmentChoice::InSignIn;
    Ok(ctx.weak_sign_in(needed.max(AssuranceLevel::Two), by_themselves, &back.location()))
}

/// Returns the stored sign-in with this state, if this browser started it for this application. The
/// stored sign-in may have expired.
async fn attempt(ctx: &AppRequest<'_>, state: Option<&str>) -> Result<Option<Loaded<SignInAttempt>>, StoreError> {
    let (Some(state), Some(browser)) = (state, ctx.cookie(ctx.cookies.browser)) else { return Ok(None) };
    let browser = SecretHash::for_secret(browser.as_bytes());
    let found = ctx.sealgate.store.attempt(&browser, &SecretHash::for_secret(state.as_bytes())).await?;
    Ok(found.filter(|found| {
        let attempt = &found.value;
        attempt.app == ctx.app.name && attempt.host.as_deref() == ctx.bound_host() && attempt.browser == browser
    }))
}

/// Responds to an authorization response that cannot be completed, for one of these reasons:
///
/// - This browser has not started the sign-in, or the sign-in has expired.
/// - The code is invalid or used.
///
/// The response may belong to another tab, or arrive late or twice, or come from an attacker's
/// link. A signed-in user continues to the application. For other users, a new sign-in starts.
async fn resume_or_restart(ctx: &AppRequest<'_>, back: &SignInTarget, refused: bool) -> Result<Response, StoreError> {
    if session::find(ctx).await?.is_some() {
        let answer = Response::redirect(StatusCode::FOUND, &back.location());
        return Ok(with_callback_count(ctx, answer, Some(callback_count(ctx).incremented())));
    }
    if refused {
        return Ok(ctx.problem(StatusCode::BAD_REQUEST, Problem::InvalidRequest));
    }
    // A browser without this cookie rejects cookies. A new sign-in would lead back to this point
    // forever, because the counter of redirects is a cookie too.
    if ctx.cookie(ctx.cookies.browser).is_none() {
        return Ok(ctx.problem(StatusCode::BAD_REQUEST, Problem::CookieMissing));
    }
    let callback_count = callback_count(ctx).incremented();
    let answer = begin_unless_loop(ctx, back.purpose(), SignInRequest::any(First::Needed), callback_count).await?;
    Ok(with_callback_count(ctx, answer, Some(callback_count)))
}

/// Responds to an error of the provider. Starts no new sign-in, because a new sign-in would
/// probably fail in the same way.
fn provider_refused(ctx: &AppRequest<'_>, error: &str) -> Response {
    let known = [ErrorCode::TemporarilyUnavailable, ErrorCode::ServerError];
    let ours = known.into_iter().find(|code| code.as_str() == error);
    tracing::info!(
        request_id = ctx.origin.request_id,
        app = ctx.app.name,
        error = ours.map_or("another", ErrorCode::as_str),
        "the provider refused the sign-in"
    );
    match ours {
        Some(_) => ctx.problem(StatusCode::SERVICE_UNAVAILABLE, Problem::Unavailable),
        None => ctx.problem(StatusCode::BAD_REQUEST, Problem::InvalidRequest),
    }
}

/// Returns the code if it is valid for this sign-in (RFC 6749 §4.1.3, RFC 7636 §4.6).
async fn code(
    ctx: &AppRequest<'_>,
    attempt: &SignInAttempt,
    code: Option<&str>,
) -> Result<Option<Loaded<Code>>, StoreError> {
    let (Some(code), Some(client), Some(verifier)) =
        (code, ClientId::parse(&ctx.client_id()), CodeVerifier::parse(&attempt.verifier))
    else {
        return Ok(None);
    };
    let found = ctx.sealgate.store.code(&SecretHash::for_secret(code.as_bytes())).await?;
    let redirect_uri = redirect_uri(ctx);
    Ok(found.filter(|found| found.value.redeem(&client, &redirect_uri, Some(&verifier), ctx.now).is_ok()))
}

/// Returns the provider's session for the code, if the session is live and its user enabled.
async fn parent(ctx: &AppRequest<'_>, code: &Code) -> Result<Option<Session>, StoreError> {
    let subject = code.sign_in.subject;
    let found = ctx.sealgate.store.session(code.session).await?.map(|found| found.value);
    let keep = ctx.sealgate.config.sessions.keep_signed_in;
    let stands = found.filter(|parent| parent.is_live(ctx.now, keep) && parent.sign_in_of(subject).is_some());
    let enabled = session::enabled(ctx, subject).await?.is_some();
    Ok(stands.filter(|_| enabled))
}

/// Starts the application's session and returns its id and cookie.
///
/// Returns no cookie if another tab of the browser has already started the same session. A new cookie
/// would invalidate the cookie of that session, which other requests may be using at this moment.
async fn sign_in(
    ctx: &AppRequest<'_>,
    code: &Code,
    parent: &Session,
) -> Result<(SessionId, Option<http::HeaderValue>), StoreError> {
    let store = &ctx.sealgate.store;
    let old = match ctx.session_cookie() {
        Some(cookie) => session::of_app(ctx, &cookie).await?,
        None => None,
    };
    if let Some(old) = &old {
        let same = old.parent == parent.id && old.subject == code.sign_in.subject;
        if same && old.sign_in == code.sign_in {
            return Ok((old.id, None));
        }
        // A browser has one session per application. Ending the previous user's session prevents
        // session fixation.
        if !same {
            store.end_app_session(old.id).await?;
        }
    }
    let cookie = SessionCookie::new(SessionId::from_bytes(ctx.random()), ctx.random());
    let session = AppSession {
        id: cookie.id,
        cookie: cookie.hash(),
        app: ctx.app.name.clone(),
        host: ctx.bound_host().map(str::to_owned),
        parent: parent.id,
        subject: code.sign_in.subject,
        sign_in: code.sign_in.clone(),
        created_at: ctx.now,
        expires_at: parent.ends_at_latest(),
    };
    store.begin_app_session(&session).await?;
    let event = ctx.event(AuditKind::AppSignedIn, Actor::User).for_subject(session.subject);
    ctx.sealgate.audit.note(event.in_app(&session.app).in_session(session.parent));
    Ok((session.id, Some(cookie::set(ctx.cookies.session, cookie.value().expose(), ctx.cookies.secure))))
}

/// Adds the cookie that stores the page to which the sign-in leads. For a stored form, there is no
/// cookie, because its page can be shown only once.
fn with_last_page(
    ctx: &AppRequest<'_>,
    answer: Response,
    returned: &AuthorizationResponse,
    back: &SignInTarget,
) -> Response {
    let value = match (back, &returned.state) {
        (SignInTarget::Page(page), Some(state)) => return_path::cookie_value(state, page),
        _ => None,
    };
    let (name, secure) = (ctx.cookies.last, ctx.cookies.secure);
    match value {
        Some(value) => answer.with_cookie(cookie::set_for(name, &value, secure, cookie::DESTINATION_SECONDS)),
        None => answer,
    }
}

/// Counts a redirect that a page of the application may request again and again. Returns the page that
/// reports a loop instead of `answer` after too many.
pub(crate) fn unless_loop(ctx: &AppRequest<'_>, answer: Response) -> Response {
    let count = callback_count(ctx);
    if count.is_loop() {
        return ctx.problem(StatusCode::BAD_REQUEST, Problem::SignInLoop);
    }
    with_callback_count(ctx, answer, Some(count.incremented()))
}

fn callback_count(ctx: &AppRequest<'_>) -> RedirectLoop {
    RedirectLoop::read(ctx.cookie(callback_count_cookie(ctx)), ctx.now)
}

fn callback_count_cookie(ctx: &AppRequest<'_>) -> &'static str {
    if ctx.cookies.secure { "__Host-sealgate-rounds" } else { "sealgate-rounds" }
}

/// Adds the cookie that counts completed callbacks, see [`RedirectLoop`]. `None` deletes the
/// cookie: the user has typed credentials, so the redirects are not a loop.
fn with_callback_count(ctx: &AppRequest<'_>, answer: Response, callback_count: Option<RedirectLoop>) -> Response {
    let (name, secure) = (callback_count_cookie(ctx), ctx.cookies.secure);
    match callback_count {
        Some(callback_count) => answer.with_cookie(cookie::set_for(
            name,
            &callback_count.value(),
            secure,
            return_path::COUNT_PERIOD.as_secs(),
        )),
        None if ctx.cookie(name).is_some() => answer.with_cookie(cookie::expire(name, secure)),
        None => answer,
    }
}
