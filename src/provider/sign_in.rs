//! What a proof leads to, whichever page it came by: the next step, or a session. And the terms on which somebody signs in.

use http::HeaderValue;

use crate::config::EnrolmentChoice;
use crate::domain::assurance::{AssuranceLevel, AuthenticationStep, AuthenticationSteps};
use crate::domain::audit::{Actor, AuditKind};
use crate::domain::secret::Secret;
use crate::domain::session::{Session, SessionCookie, SessionId, SignIn};
use crate::domain::user::User;
use crate::factors::{FactorSummary, Factors};
use crate::metrics::SignInOutcome;
use crate::oauth::next_step::{
    CredentialMark, Interaction, PartialSignIn, PersonTerms, Progress, ProofStep, after_proof, level_for,
    required_level,
};
use crate::provider::ceremony::{fresh, relying_party};
use crate::provider::interaction::{RESUME, Waiting};
use crate::provider::{interaction, known_browser};
use crate::store::{Committed, Loaded, StoreError};
use crate::web::context::RequestContext;
use crate::web::cookie;
use crate::web::failure::Failure;
use crate::web::response::Response;

/// The page on which a sign-in begins.
pub(super) const SIGN_IN: &str = "login";

/// How often a session that changes at the same moment is read again.
const MOST_TRIES: usize = 8;

/// What somebody has proven for a waiting request.
#[derive(Debug, Clone)]
pub(super) struct Proof {
    pub(super) user: User,
    pub(super) steps: AuthenticationSteps,
    /// As they were when it was proven.
    pub(super) credentials: CredentialMark,
    /// Whether it adds to a session that there is; that session lasts no longer by it.
    pub(super) is_step_up: bool,
}

impl Proof {
    /// The half of a sign-in that the waiting request keeps.
    pub(super) fn partial(&self) -> PartialSignIn {
        PartialSignIn { subject: self.user.sub, steps: self.steps.clone(), credentials: self.credentials }
    }
}

/// What came of a proof.
pub(super) enum Proceeded {
    /// They are signed in: these cookies go with the answer.
    SignedIn(Vec<HeaderValue>),
    /// Something is missing; the waiting request at this address knows what was done.
    Missing(String),
    /// What it was proven with has been taken away meanwhile.
    Gone,
}

impl Proceeded {
    /// The way on: to the sign-in from its beginning, where the proof is worth nothing any more.
    pub(super) fn respond_or_begin_again(self, ctx: &RequestContext<'_>, waiting: &Waiting) -> Response {
        self.respond(ctx, waiting).unwrap_or_else(|| Response::see_other(&waiting.address(ctx, SIGN_IN)))
    }

    /// The way on, unless the proof is worth nothing any more.
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

/// The factors of somebody who may never have had any.
pub(super) fn summary(factors: Option<&Factors>, user: &User) -> FactorSummary {
    let none = FactorSummary { has_any: false, reachable: AssuranceLevel::One, is_reset: false, generation: 0 };
    factors.map_or(none, |factors| factors.summary(user))
}

/// On which terms this person signs in for this request.
pub(super) fn terms(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    user: &User,
    factors: Option<&Factors>,
) -> PersonTerms {
    let policy = &ctx.sealgate.config.factors;
    let summary = summary(factors, user);
    let by_link = |factors: &Factors| interaction.enrolment.is_some_and(|link| factors.opens_reset(&link, ctx.now));
    let may_enrol =
        if summary.is_reset { factors.is_some_and(by_link) } else { policy.enrolment == EnrolmentChoice::InSignIn };
    PersonTerms {
        factors: summary,
        credentials: CredentialMark::of(user, summary.generation),
        policy: policy.policy_for(user, ctx.now),
        enrollable: match (may_enrol, relying_party(ctx)) {
            (true, Some(_)) => AssuranceLevel::PhishingResistant,
            (true, None) if ctx.sealgate.store.seals() => AssuranceLevel::Two,
            _ => AssuranceLevel::One,
        },
    }
}

/// Goes on after a proof: signs in, or leaves what was done with the waiting request. The half of a sign-in lies under a name that
/// only this answer tells: whoever had planted the browser's cookie and the page's address, on a shared computer for instance, would
/// go on with it otherwise, and add a second step of their own. The request stays under its old name as it was, for a form that comes
/// twice and for the way back.
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
    let next = Interaction { progress, ..waiting.interaction().clone() };
    let before = waiting.interaction().progress.partial.as_ref();
    if before.is_some_and(|before| before.subject == proof.user.sub) {
        // A conflict means that another tab has gone on with the same request: what it did stands.
        let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
        return Ok(Proceeded::Missing(waiting.address(ctx, RESUME)));
    }
    let (id, next) = (Secret::from_random(&ctx.random::<16>()), Interaction { challenge: Some(fresh(ctx)), ..next });
    ctx.sealgate.store.begin_interaction(&id.hash(), &next).await?;
    Ok(Proceeded::Missing(interaction::address(ctx, RESUME, id.expose(), &waiting.client.id)))
}

/// Signs somebody in with all that they have proven.
pub(super) async fn complete(ctx: &RequestContext<'_>, waiting: &Waiting, proof: &Proof) -> Result<Proceeded, Failure> {
    let user = &proof.user;
    let sign_in = SignIn { subject: user.sub, steps: proof.steps.clone() };
    let cookie = match ctx.session().await? {
        Some(session) => renew(ctx, session, &sign_in, proof.is_step_up).await?,
        None if proof.is_step_up => None,
        None => Some(begin(ctx, sign_in.clone()).await?),
    };
    let Some(cookie) = cookie else { return Ok(Proceeded::Gone) };
    let known = known_browser::find(ctx, Some(user)).await?;
    let marked = known_browser::learn(ctx, user.sub, known.as_ref()).await;
    // Whoever disabled the account, set another password or changed its factors while this was proven has ended the sessions
    // that there were. This one came after.
    if !stands(ctx, proof).await? {
        ctx.sealgate.store.end_session(cookie.id).await?;
        if let Some(marked) = &marked {
            ctx.sealgate.store.forget_browser(user.sub, marked.mark.hash()).await?;
        }
        return Ok(Proceeded::Gone);
    }
    let event = ctx.event(AuditKind::SignedIn, Actor::Person).of(user.sub).in_session(cookie.id);
    ctx.sealgate.audit.note(event.with_client(&waiting.client.id).with_detail(methods(&sign_in.steps)));
    ctx.sealgate.metrics.signed_in(SignInOutcome::Succeeded);
    ctx.sealgate.metrics.level_reached(sign_in.level());
    let progress = Progress { account: Some(user.sub), signed_in: true, ..Progress::default() };
    let next = Interaction { progress, ..waiting.interaction().clone() };
    // A conflict means that another tab has gone on with the same request: what it did stands.
    let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    let set = cookie::set(ctx.cookies.session, cookie.value().expose(), ctx.cookies.secure);
    Ok(Proceeded::SignedIn(std::iter::once(set).chain(marked.map(|marked| marked.cookie)).collect()))
}

/// Adds a step to the session of somebody who has just proven it on one of our own pages, and yields the new cookie; none where
/// the session has ended meanwhile.
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
    let Some(cookie) = renew(ctx, session, &sign_in, true).await? else { return Ok(None) };
    ctx.sealgate.metrics.level_reached(sign_in.level());
    Ok(Some(cookie::set(ctx.cookies.session, cookie.value().expose(), ctx.cookies.secure)))
}

/// Whether the person may still come in with what they have proven.
pub(super) async fn stands(ctx: &RequestContext<'_>, proof: &Proof) -> Result<bool, StoreError> {
    let store = &ctx.sealgate.store;
    let Some(now) = store.user(proof.user.sub).await?.filter(User::is_enabled) else { return Ok(false) };
    let factors = store.factors(now.sub).await?;
    let generation = factors.map_or(0, |factors| factors.value.generation);
    Ok(CredentialMark::of(&now, generation) == proof.credentials)
}

/// How somebody signed in, for the trail: the methods, in the order in which they were used.
fn methods(steps: &AuthenticationSteps) -> String {
    let words: Vec<&str> = steps.all().iter().map(|step| step.method.as_str()).collect();
    words.join(" ")
}

/// A session is never carried over a sign-in under its old cookie: whoever planted that cookie would be signed in too. `None`
/// where a step was to be added to it and it has ended, or its person has signed out: a step alone is no sign-in, and whoever
/// ended the session meant whoever was about to take it.
async fn renew(
    ctx: &RequestContext<'_>,
    session: Loaded<Session>,
    sign_in: &SignIn,
    is_step_up: bool,
) -> Result<Option<SessionCookie>, Failure> {
    let id = session.value.id;
    let presented = ctx.cookie(ctx.cookies.session).and_then(SessionCookie::parse);
    let mut found = Some(session);
    for _ in 0..MOST_TRIES {
        let Some(session) = found.filter(|session| session.value.is_live(ctx.now)) else { break };
        if is_step_up && session.value.sign_in_of(sign_in.subject).is_none() {
            return Ok(None);
        }
        let cookie = SessionCookie::new(id, ctx.random());
        let mut next = session.value.clone();
        next.renew(sign_in.clone(), cookie.hash(), ctx.now);
        // Only the cookie that this browser has shown may still end the session, not one that somebody got meanwhile.
        if !presented.as_ref().is_some_and(|presented| presented.hash() == session.value.cookie) {
            next.previous = None;
        }
        if !is_step_up {
            // The end counts from the latest sign-in; the sweeper finds by itself that the record lives longer than it knew.
            next.expires_at = ctx.now.plus(ctx.sealgate.config.sessions.absolute);
        }
        if ctx.sealgate.store.update_session(&session, &next).await? == Committed::Yes {
            return Ok(Some(cookie));
        }
        // Somebody signed in or out in another tab at this very moment.
        found = ctx.sealgate.store.session(id).await?;
    }
    // The browser forgets the old session with its new cookie: it must not go on without a browser.
    ctx.sealgate.store.end_session(id).await?;
    if is_step_up {
        return Ok(None);
    }
    begin(ctx, sign_in.clone()).await.map(Some)
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
