//! Sign-in of a user: the pages, and the code that they share.
//!
//! After each proof, [`proceed`] continues with the next step or opens a session. [`terms`] returns
//! the sign-in requirements of a user.

pub(crate) mod account_chooser;
pub(crate) mod consent;
pub(crate) mod enrol;
pub(crate) mod enrolment;
pub(crate) mod factor;
pub(crate) mod guesses;
pub(crate) mod interaction;
pub(crate) mod login;
pub(crate) mod passkey;
pub(crate) mod unmet;
pub(crate) mod upstream;

use http::HeaderValue;

use crate::request::ProviderRequest as _;
use crate::sign_in::interaction::{RESUME, Waiting};
use crate::sign_in::passkey::{new_challenge, relying_party};
use sealgate_config::EnrolmentChoice;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationMethod, AuthenticationStep, AuthenticationSteps};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::factors::{FactorSummary, Factors};
use sealgate_domain::oauth::next_step::{
    CredentialMark, Interaction, PartialSignIn, Progress, ProofStep, UserRequirements, after_proof, level_for,
    required_level,
};
use sealgate_domain::secret::Secret;
use sealgate_domain::session::{OpenIdSession, Session, SessionCookie, SessionId, SignIn};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_store::{Committed, Loaded, StoreError};
use sealgate_system::metrics::SignInOutcome;

/// Name of the page on which a sign-in begins.
pub(super) const SIGN_IN: &str = "login";

/// Maximum attempts to update a session that other requests change at the same time.
const MAX_TRIES: usize = 8;

/// Authentication steps that a user has completed for a pending request.
#[derive(Debug, Clone)]
pub(super) struct Proof {
    pub(super) user: User,
    pub(super) steps: AuthenticationSteps,
    /// Mark of the user's credentials at the time of the proof.
    pub(super) credentials: CredentialMark,
    /// Whether the proof adds a step to an existing session. Such a step does not extend the
    /// session's lifetime.
    pub(super) is_step_up: bool,
    /// Whether the user chose to stay signed in on the device.
    pub(super) keep: bool,
    /// Session at the user's OpenID provider, if the user signed in there.
    pub(super) upstream: Option<Box<OpenIdSession>>,
}

impl Proof {
    /// Returns the pending sign-in to store with the pending request.
    pub(super) fn partial(&self) -> PartialSignIn {
        let (subject, steps) = (self.user.sub, self.steps.clone());
        let upstream = self.upstream.clone();
        PartialSignIn { subject, steps, credentials: self.credentials, keep: self.keep, upstream }
    }
}

/// Result of [`proceed`] and [`complete`].
pub(super) enum Proceeded {
    /// The user is signed in. The response must set these cookies.
    SignedIn(Vec<HeaderValue>),
    /// Another step is required. The address names the pending request, which stores the completed
    /// steps.
    Missing(String),
    /// The proof is no longer valid: the credentials changed or the session ended.
    Gone,
}

impl Proceeded {
    /// Returns the redirect to the next step, or to the start of the sign-in if the proof is no
    /// longer valid.
    pub(super) fn respond_or_begin_again(self, ctx: &RequestContext<'_>, waiting: &Waiting) -> Response {
        self.respond(ctx, waiting).unwrap_or_else(|| Response::see_other(&waiting.address(ctx, SIGN_IN)))
    }

    /// Returns the redirect to the next step, or `None` if the proof is no longer valid.
    pub(super) fn respond(self, ctx: &RequestContext<'_>, waiting: &Waiting) -> Option<Response> {
        match self {
            Self::SignedIn(cookies) => {
                let response = Response::see_other(&waiting.address(ctx, RESUME));
                Some(cookies.into_iter().fold(response, Response::with_cookie))
            }
            Self::Missing(address) => Some(Response::see_other(&address)),
            Self::Gone => None,
        }
    }
}

/// Returns the factor summary of a user who may have no factors record.
pub(super) fn summary(factors: Option<&Factors>, user: &User) -> FactorSummary {
    let none = FactorSummary { has_any: false, reachable: AssuranceLevel::One, is_reset: false, generation: 0 };
    factors.map_or(none, |factors| factors.summary(user))
}

/// Returns the sign-in requirements of the user for this request.
pub(super) fn terms(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    user: &User,
    factors: Option<&Factors>,
) -> UserRequirements {
    let policy = &ctx.sealgate.config.factors;
    let summary = summary(factors, user);
    let by_link = |factors: &Factors| interaction.enrolment.is_some_and(|link| factors.opens_reset(&link, ctx.now));
    let may_enrol =
        if summary.is_reset { factors.is_some_and(by_link) } else { policy.enrolment == EnrolmentChoice::InSignIn };
    UserRequirements {
        factors: summary,
        credentials: CredentialMark::for_user(user, summary.generation),
        policy: policy.policy_for(user, ctx.now),
        enrollable: match (may_enrol, relying_party(ctx)) {
            (true, Some(_)) => AssuranceLevel::PhishingResistant,
            (true, None) if ctx.sealgate.store.can_encrypt() => AssuranceLevel::Two,
            _ => AssuranceLevel::One,
        },
    }
}

/// Continues after a proof: signs the user in, or stores the pending sign-in.
///
/// A new pending sign-in is stored under a new id that only this response contains. An attacker may
/// have planted the browser cookie and know the page's address, for instance on a shared computer.
/// With the old id, the attacker could continue the sign-in and enrol a factor. The request also
/// remains under its old id, because forms may be sent twice and users press the Back button.
pub(super) async fn proceed(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    proof: Proof,
    factors: Option<&Factors>,
) -> Result<Proceeded, Failure> {
    let terms = terms(ctx, waiting.interaction(), &proof.user, factors);
    let required = required_level(waiting.interaction(), &waiting.client, &terms);
    let level = level_for(&waiting.client, &proof.steps);
    if after_proof(level, required, &terms) == ProofStep::Complete {
        return complete(ctx, waiting, &proof).await;
    }
    let progress = Progress { partial: Some(proof.partial()), ..Progress::default() };
    let next = Interaction { progress, upstream: None, ..waiting.interaction().clone() };
    let before = waiting.interaction().progress.partial.as_ref();
    if before.is_some_and(|before| before.subject == proof.user.sub) {
        // On a conflict, another tab has continued the same request. The result of that tab is
        // kept.
        let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
        return Ok(Proceeded::Missing(waiting.address(ctx, RESUME)));
    }
    let (id, next) =
        (Secret::from_random(&ctx.random::<16>()), Interaction { challenge: Some(new_challenge(ctx)), ..next });
    ctx.sealgate.store.begin_interaction(&id.hash(), &next).await?;
    Ok(Proceeded::Missing(interaction::address(ctx, RESUME, id.expose(), &waiting.client.id)))
}

/// Signs the user in with the completed steps.
pub(super) async fn complete(ctx: &RequestContext<'_>, waiting: &Waiting, proof: &Proof) -> Result<Proceeded, Failure> {
    let user = &proof.user;
    let sign_in = SignIn { subject: user.sub, steps: proof.steps.clone(), upstream: proof.upstream.clone() };
    let settings = &ctx.sealgate.config.sessions;
    let kept_until = settings.keep_signed_in.applies(proof.keep).then(|| ctx.now.plus(settings.kept_session));
    let opened = match ctx.session().await? {
        Some(session) if proof.is_step_up => renew(ctx, session, &sign_in, Renewal::StepUp).await?,
        Some(session) => renew(ctx, session, &sign_in, Renewal::SignIn { kept_until }).await?,
        None if proof.is_step_up => None,
        None => Some(begin(ctx, sign_in.clone(), kept_until).await?),
    };
    let Some(Opened { id: session, cookie }) = opened else { return Ok(Proceeded::Gone) };
    let known_browser = guesses::find_known_browser(ctx, Some(user)).await?;
    let marked = guesses::learn_browser(ctx, user.sub, known_browser.as_ref()).await;
    // If the account was disabled, a password or factor changed, or the OpenID provider ended the user's
    // session during the proof, all sessions that existed then have ended. This session is newer, so
    // end it here.
    if !is_still_valid(ctx, proof).await? {
        ctx.sealgate.store.end_session(session).await?;
        if let Some(marked) = &marked {
            ctx.sealgate.store.forget_browser(user.sub, marked.mark.hash()).await?;
        }
        return Ok(Proceeded::Gone);
    }
    let event = ctx.event(AuditKind::SignedIn, Actor::User).for_subject(user.sub).in_session(session);
    ctx.sealgate.audit.note(event.with_client(&waiting.client.id).with_detail(methods(&sign_in)));
    ctx.sealgate.metrics.signed_in(SignInOutcome::Succeeded);
    ctx.sealgate.metrics.level_reached(sign_in.level());
    let progress = Progress { account: Some(user.sub), signed_in: true, ..Progress::default() };
    let next = Interaction { progress, upstream: None, ..waiting.interaction().clone() };
    // On a conflict, another tab has continued the same request. The result of that tab is kept.
    let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    Ok(Proceeded::SignedIn(std::iter::once(cookie).chain(marked.map(|marked| marked.cookie)).collect()))
}

/// Adds an authentication step to the user's session. The user has just completed the step on an
/// account or console page.
///
/// Returns the new session cookie, or `None` if the session has ended meanwhile.
///
/// # Errors
/// When the store fails.
pub(super) async fn step_up(
    ctx: &RequestContext<'_>,
    session: Loaded<Session>,
    before: &SignIn,
    step: AuthenticationStep,
) -> Result<Option<HeaderValue>, Failure> {
    let mut sign_in = before.clone();
    sign_in.steps.add(step);
    let Some(opened) = renew(ctx, session, &sign_in, Renewal::StepUp).await? else { return Ok(None) };
    ctx.sealgate.metrics.level_reached(sign_in.level());
    Ok(Some(opened.cookie))
}

/// Returns the header that sets the cookie of a session. Browsers delete the cookie when they are
/// closed, unless the session is kept.
pub(super) fn session_cookie(
    ctx: &RequestContext<'_>,
    cookie: &SessionCookie,
    kept_until: Option<UnixTime>,
) -> HeaderValue {
    let (name, value, secure) = (ctx.cookies.session, cookie.value(), ctx.cookies.secure);
    match kept_until.filter(|until| ctx.now < *until) {
        Some(until) => cookie::set_for(name, value.expose(), secure, until.since(ctx.now).as_secs()),
        None => cookie::set(name, value.expose(), secure),
    }
}

/// Session that a sign-in has opened or renewed.
struct Opened {
    id: SessionId,
    /// Header that sets the session's cookie.
    cookie: HeaderValue,
}

impl Opened {
    fn new(ctx: &RequestContext<'_>, session: &Session, cookie: &SessionCookie) -> Self {
        let kept_until = session.effective_kept_until(ctx.sealgate.config.sessions.keep_signed_in);
        Self { id: session.id, cookie: session_cookie(ctx, cookie, kept_until) }
    }
}

/// Kind of a sign-in in an existing session.
#[derive(Debug, Clone, Copy)]
enum Renewal {
    SignIn {
        kept_until: Option<UnixTime>,
    },
    /// A further step, which does not extend the session's lifetime.
    StepUp,
}

/// Returns whether the user is enabled, their credentials have not changed since the proof, and their
/// OpenID provider still admits them.
pub(super) async fn is_still_valid(ctx: &RequestContext<'_>, proof: &Proof) -> Result<bool, StoreError> {
    let store = &ctx.sealgate.store;
    let Some(now) = store.user(proof.user.sub).await?.filter(User::is_enabled) else { return Ok(false) };
    if ctx.sealgate.sources.needs_sign_in(&now, ctx.now) {
        return Ok(false);
    }
    if let Some(own) = &proof.upstream
        && store.has_ended(own).await?
    {
        return Ok(false);
    }
    let factors = store.factors(now.sub).await?;
    let generation = factors.map_or(0, |factors| factors.value.generation);
    Ok(CredentialMark::for_user(&now, generation) == proof.credentials)
}

/// Returns the authentication methods in order of use, as text in the audit log. The name of an
/// OpenID provider follows its method: `upstream:NAME`.
fn methods(sign_in: &SignIn) -> String {
    let word = |step: &AuthenticationStep| match (step.method, &sign_in.upstream) {
        (AuthenticationMethod::Upstream, Some(upstream)) => format!("upstream:{}", upstream.source),
        (method, _) => method.as_str().to_owned(),
    };
    sign_in.steps.all().iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Moves the session to a new cookie and adds the sign-in.
///
/// The cookie always changes, so that an attacker who planted the old cookie is not signed in too
/// (session fixation).
///
/// For a step-up, returns `None` if the session has ended or the user has signed out of it. A
/// second step alone is not a sign-in, and the session may have been ended to lock an attacker out.
async fn renew(
    ctx: &RequestContext<'_>,
    session: Loaded<Session>,
    sign_in: &SignIn,
    renewal: Renewal,
) -> Result<Option<Opened>, Failure> {
    let (id, settings) = (session.value.id, &ctx.sealgate.config.sessions);
    let (is_step_up, kept_until) = match renewal {
        Renewal::SignIn { kept_until } => (false, kept_until),
        Renewal::StepUp => (true, None),
    };
    let presented = ctx.cookie(ctx.cookies.session).and_then(SessionCookie::parse);
    let mut current = Some(session);
    for _ in 0..MAX_TRIES {
        let Some(session) = current.filter(|session| session.value.is_live(ctx.now, settings.keep_signed_in)) else {
            break;
        };
        if is_step_up && session.value.sign_in_of(sign_in.subject).is_none() {
            return Ok(None);
        }
        let cookie = SessionCookie::new(id, ctx.random());
        let mut next = session.value.clone();
        next.renew(sign_in.clone(), cookie.hash(), kept_until, ctx.now);
        // Keep the previous cookie only if this browser presented it. Any other cookie may be an
        // attacker's, who must not be able to end the session.
        if !presented.as_ref().is_some_and(|presented| presented.hash() == session.value.cookie) {
            next.previous = None;
        }
        if !is_step_up {
            // The absolute lifetime counts from the latest sign-in. Garbage collection reads the
            // new expiry from the record.
            next.expires_at = ctx.now.plus(settings.absolute);
        }
        if ctx.sealgate.store.update_session(&session, &next).await? == Committed::Yes {
            return Ok(Some(Opened::new(ctx, &next, &cookie)));
        }
        // Another tab signed in or out at the same time.
        current = ctx.sealgate.store.session(id).await?;
    }
    // The response replaces the old session's cookie. Without this call, that session would live on,
    // and no browser could end it.
    ctx.sealgate.store.end_session(id).await?;
    if is_step_up {
        return Ok(None);
    }
    begin(ctx, sign_in.clone(), kept_until).await.map(Some)
}

async fn begin(ctx: &RequestContext<'_>, sign_in: SignIn, kept_until: Option<UnixTime>) -> Result<Opened, Failure> {
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
        kept_until,
        address: ctx.origin.address,
        user_agent: ctx.user_agent(),
        clients: Vec::new(),
    };
    ctx.sealgate.store.begin_session(&session).await?;
    Ok(Opened::new(ctx, &session, &cookie))
}
