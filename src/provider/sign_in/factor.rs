//! `/oauth/factor`: the second step of a sign-in, after the password or on top of a session.
//! Accepts the code of an authenticator app, a security key, a passkey or a recovery code.
//!
//! An attempt is judged and counted in the same commit that updates the pending request. A code, a
//! recovery code or a challenge is therefore accepted only once, even if concurrent requests send
//! it.

use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};

use crate::protocol::authorize;
use crate::request::ProviderRequest as _;
use crate::sign_in;
use crate::sign_in::guesses::Guesses;
use crate::sign_in::interaction::{RESUME, Waiting};
use crate::sign_in::passkey::{new_challenge, relying_party};
use crate::sign_in::{Proceeded, Proof, SIGN_IN};
use sealgate_core::tokens::clients::OWN_CLIENT;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationMethod, AuthenticationSteps, FactorId};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::factor_failures::FailureNotice;
use sealgate_domain::factors::{FactorTrial, Factors, OpenedTotp, TotpFactor};
use sealgate_domain::mail::Notice;
use sealgate_domain::oauth::next_step::{
    CredentialMark, Interaction, NextStep, Progress, requested_level, required_level,
};
use sealgate_domain::recovery_code::RecoveryCodes;
use sealgate_domain::secret::Sealed;
use sealgate_domain::session::OpenIdSession;
use sealgate_domain::totp::TotpSecret;
use sealgate_domain::user::{Subject, User};
use sealgate_domain::webauthn::{AssertionPurpose, AssertionResponse, CeremonyError, CredentialOwner, RequestOptions};
use sealgate_pages::{FactorChoice, FactorPage, FactorProblem, Problem, RecoveryUsedPage, html};
use sealgate_store::{Committed, Loaded};
use sealgate_system::metrics::FactorOutcome;

pub(crate) const PAGE: &str = "factor";

/// Maximum attempts to update factors that other requests change at the same time.
const MAX_TRIES: usize = 8;

/// Time that the browser waits for the user to touch their key.
const CEREMONY_TIMEOUT: Duration = Duration::from_mins(5);

/// User at the second step: their factors, the steps completed before, and the methods to offer.
struct Candidate {
    user: User,
    loaded: Loaded<Factors>,
    before: AuthenticationSteps,
    is_step_up: bool,
    /// Whether the user chose to stay signed in on the device.
    keep: bool,
    /// Session at the user's OpenID provider, if the user signed in there.
    upstream: Option<Box<OpenIdSession>>,
    offers: Vec<FactorChoice>,
}

pub(crate) async fn factor_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find(ctx).await?;
    let query = ctx.query()?;
    let Some(candidate) = find(ctx, &waiting).await? else {
        // The session or the pending sign-in is gone: decide the next step again.
        return Ok(Response::see_other(&waiting.address(ctx, RESUME)));
    };
    let form = if ctx.head.method == Method::POST { Some(waiting.form(ctx, PAGE)?) } else { None };
    let word = match &form {
        Some(form) => form.one("with")?,
        None => query.one("with")?,
    };
    let requested = word.and_then(FactorChoice::parse);
    let first = candidate.offers.first().copied().ok_or_else(|| Failure::page(Problem::NothingToDo))?;
    let chosen = requested.filter(|choice| candidate.offers.contains(choice)).unwrap_or(first);
    let Some(form) = form else { return show(ctx, &waiting, &candidate, chosen, None) };
    let field = if chosen == FactorChoice::Key { "credential" } else { "code" };
    let answer = form.one(field)?.unwrap_or_default();
    if chosen != FactorChoice::Key {
        return Ok(prove(ctx, waiting, candidate, chosen, answer).await?.1);
    }
    // A signature cannot be guessed. This limit only bounds the work of verifying signatures.
    let guesses = match Guesses::of_passkey(ctx).await? {
        Ok(guesses) => guesses,
        Err(seconds) => return show(ctx, &waiting, &candidate, chosen, Some(FactorProblem::Wait { seconds })),
    };
    let (proven, response) = prove(ctx, waiting, candidate, chosen, answer).await?;
    if proven {
        guesses.give_back(ctx);
    }
    Ok(response)
}

/// Returns the user for whom the second step is due. The step is added to the pending sign-in of
/// this browser, or to the session.
async fn find(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Option<Candidate>, Failure> {
    let interaction = waiting.interaction();
    let store = &ctx.sealgate.store;
    // Accept a second factor only if this is the next step, because a factor cannot replace a
    // required password.
    let NextStep::SecondFactor(subject) = authorize::next_of(ctx, waiting).await? else { return Ok(None) };
    let Some(user) = store.user(subject).await?.filter(User::is_enabled) else { return Ok(None) };
    let (before, is_step_up, keep, upstream) = match &interaction.progress.partial {
        Some(partial) => (partial.steps.clone(), false, partial.keep, partial.upstream.clone()),
        None => match ctx.session().await?.and_then(|session| session.value.sign_in_of(subject).cloned()) {
            Some(sign_in) => (sign_in.steps, true, false, sign_in.upstream),
            None => return Ok(None),
        },
    };
    let Some(loaded) = store.factors(user.sub).await? else { return Ok(None) };
    if let Some(partial) = &interaction.progress.partial
        && partial.credentials != CredentialMark::for_user(&user, loaded.value.generation)
    {
        return Ok(None);
    }
    let offers = offers(ctx, waiting, &user, &loaded.value);
    Ok(Some(Candidate { user, loaded, before, is_step_up, keep, upstream, offers }))
}

/// Returns the accepted methods, most recently used first and recovery codes last.
///
/// If a phishing-resistant method is required, authenticator apps are omitted, and recovery codes
/// are offered only for sign-ins to the provider's own pages.
fn offers(ctx: &RequestContext<'_>, waiting: &Waiting, user: &User, factors: &Factors) -> Vec<FactorChoice> {
    let terms = sign_in::terms(ctx, waiting.interaction(), user, Some(factors));
    // Offer the user's factors even if the factors cannot reach the required level. `/oauth/unmet`
    // reports the missing level after the sign-in.
    let required = required_level(waiting.interaction(), &waiting.client, &terms).min(terms.factors.reachable);
    let requested = requested_level(waiting.interaction(), &terms);
    let resistant = AssuranceLevel::PhishingResistant;
    let has_codes = factors.recovery.as_ref().is_some_and(|codes| codes.unused() > 0);
    let own = waiting.client.id.as_str() == OWN_CLIENT;
    let app_used = factors.totp.iter().filter_map(|app| app.last_used_at).max();
    let key_used = factors.keys.iter().map(|key| key.last_used_at.unwrap_or(key.added_at)).max();
    let app = (!factors.totp.is_empty() && !required.meets(resistant)).then_some(FactorChoice::App);
    let key = (!factors.keys.is_empty()).then_some(FactorChoice::Key);
    let keys_first = requested == Some(resistant) || key_used > app_used;
    let both = if keys_first { [key, app] } else { [app, key] };
    let recovery = (has_codes && (own || !required.meets(resistant))).then_some(FactorChoice::Recovery);
    both.into_iter().chain([recovery]).flatten().collect()
}

fn show(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    candidate: &Candidate,
    chosen: FactorChoice,
    problem: Option<FactorProblem>,
) -> Result<Response, Failure> {
    let options = if chosen == FactorChoice::Key { key_options(ctx, waiting, candidate)? } else { None };
    let (status, retry_after) = match problem {
        Some(FactorProblem::Wait { seconds }) => (StatusCode::TOO_MANY_REQUESTS, Some(seconds)),
        Some(FactorProblem::Busy) => (StatusCode::SERVICE_UNAVAILABLE, Some(1)),
        _ => (StatusCode::OK, None),
    };
    let page = FactorPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(PAGE),
        client: waiting.client_name(),
        account: candidate.user.sign_in_name(),
        chosen,
        offers: &candidate.offers,
        key_options: options.as_deref(),
        problem,
        start_over: &waiting.address(ctx, SIGN_IN),
    };
    let response = Response::page(status, html(&page), waiting.then().as_deref());
    Ok(match retry_after {
        Some(seconds) => response.retry_after(seconds),
        None => response,
    })
}

fn key_options(ctx: &RequestContext<'_>, waiting: &Waiting, candidate: &Candidate) -> Result<Option<String>, Failure> {
    let Some((relying_party, challenge)) = relying_party(ctx).zip(waiting.interaction().challenge) else {
        return Ok(None);
    };
    let factors = &candidate.loaded.value;
    let credentials = factors.credentials();
    let owner = CredentialOwner { handle: &factors.handle, credentials: &credentials };
    let purpose = AssertionPurpose::SecondFactor;
    let options = RequestOptions::of_account(&relying_party, &challenge, purpose, &owner, CEREMONY_TIMEOUT);
    serde_json::to_string(&options).map(Some).map_err(|_| Failure::Internal)
}

/// Checks the sent code or key, and tries again if the record changes at the same time.
///
/// Returns whether the code or key was correct, and the response.
async fn prove(
    ctx: &RequestContext<'_>,
    mut waiting: Waiting,
    mut candidate: Candidate,
    chosen: FactorChoice,
    answer: &str,
) -> Result<(bool, Response), Failure> {
    for _ in 0..MAX_TRIES {
        let mut factors = candidate.loaded.value.clone();
        let trial = try_one(ctx, &waiting, &mut factors, chosen, answer);
        if !trial.was_judged() {
            note(ctx, &waiting, &candidate, chosen, &trial);
            let page = show(ctx, &waiting, &candidate, chosen, Some(problem(ctx, &trial)))?;
            return Ok((false, page));
        }
        let proof = match &trial {
            FactorTrial::Proven(step) => {
                let mut steps = candidate.before.clone();
                steps.add(*step);
                let credentials = CredentialMark::for_user(&candidate.user, factors.generation);
                let Candidate { user, is_step_up, keep, upstream, .. } = &candidate;
                let (user, upstream) = (user.clone(), upstream.clone());
                Some(Proof { user, steps, credentials, is_step_up: *is_step_up, keep: *keep, upstream })
            }
            _ => None,
        };
        let mut next = Interaction { challenge: Some(new_challenge(ctx)), ..waiting.interaction().clone() };
        if let Some(proof) = &proof {
            let partial = (!proof.is_step_up).then(|| proof.partial());
            next.progress = Progress { partial, ..next.progress };
        }
        let store = &ctx.sealgate.store;
        let written = store.put_factors(Some(&candidate.loaded), &factors, Some((&waiting.loaded, &next))).await?;
        waiting = waiting.read_again(ctx).await?;
        if written == Committed::Conflict {
            match find(ctx, &waiting).await? {
                Some(again) if !waiting.interaction().progress.signed_in => candidate = again,
                // The same form was sent twice, and the earlier request completed the step.
                _ => return Ok((false, Response::see_other(&waiting.address(ctx, RESUME)))),
            }
            continue;
        }
        note(ctx, &waiting, &candidate, chosen, &trial);
        let Some(proof) = proof else {
            let problem = problem(ctx, &trial);
            let Some(candidate) = find(ctx, &waiting).await? else {
                return Ok((false, Response::see_other(&waiting.address(ctx, RESUME))));
            };
            return Ok((false, show(ctx, &waiting, &candidate, chosen, Some(problem))?));
        };
        let proceeded = sign_in::proceed(ctx, &waiting, proof, Some(&factors)).await?;
        if let (FactorChoice::Recovery, Proceeded::SignedIn(cookies)) = (chosen, &proceeded) {
            return Ok((true, recovery_used(ctx, &waiting, &candidate.user, &factors, cookies)));
        }
        return Ok((true, proceeded.respond_or_begin_again(ctx, &waiting)));
    }
    Ok((false, show(ctx, &waiting, &candidate, chosen, Some(FactorProblem::Busy))?))
}

/// Shows a user who signed in with a recovery code how many codes are left.
fn recovery_used(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    user: &User,
    factors: &Factors,
    cookies: &[HeaderValue],
) -> Response {
    let left = factors.recovery.as_ref();
    let page = RecoveryUsedPage {
        frame: ctx.frame(),
        account: user.sign_in_name(),
        left: left.map_or(0, |codes| codes.unused() as u64),
        few: left.is_none_or(RecoveryCodes::are_few),
        security: &ctx.path("/account/security"),
        next: &waiting.address(ctx, RESUME),
    };
    let page = Response::page(StatusCode::OK, html(&page), waiting.then().as_deref());
    cookies.iter().cloned().fold(page, Response::with_cookie)
}

fn try_one(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    factors: &mut Factors,
    chosen: FactorChoice,
    answer: &str,
) -> FactorTrial {
    match chosen {
        FactorChoice::App => {
            let apps = open_apps(ctx, factors);
            factors.try_totp(&apps, answer, ctx.now)
        }
        FactorChoice::Recovery => match ctx.sealgate.store.recovery_key() {
            Some(key) => factors.try_recovery_code(key, answer, ctx.now),
            None => FactorTrial::NoCode,
        },
        FactorChoice::Key => {
            let terms = relying_party(ctx).zip(waiting.interaction().challenge);
            let Some((relying_party, challenge)) = terms else {
                return FactorTrial::Refused(CeremonyError::OtherChallenge);
            };
            match AssertionResponse::parse(answer) {
                Ok(answer) => {
                    factors.try_key(&relying_party, &challenge, AssertionPurpose::SecondFactor, &answer, ctx.now)
                }
                Err(error) => FactorTrial::Refused(error),
            }
        }
    }
}

/// Returns the problem that the page reports.
///
/// The problem does not tell why a key was refused, so that an unknown key and another user's key
/// get the same response.
fn problem(ctx: &RequestContext<'_>, trial: &FactorTrial) -> FactorProblem {
    match trial {
        FactorTrial::Proven(_) | FactorTrial::Wrong(_) | FactorTrial::NoCode => FactorProblem::WrongCode,
        FactorTrial::ClockIsOff(_) => FactorProblem::ClockIsOff,
        FactorTrial::Wait(until) => FactorProblem::Wait { seconds: until.since(ctx.now).as_secs().max(1) },
        FactorTrial::Blocked => FactorProblem::Blocked,
        FactorTrial::Refused(CeremonyError::SignCount { .. }) => FactorProblem::KeyMayBeCopied,
        FactorTrial::Refused(_) => FactorProblem::KeyRefused,
    }
}

/// Records the attempt in the audit log and the metrics.
fn note(ctx: &RequestContext<'_>, waiting: &Waiting, candidate: &Candidate, chosen: FactorChoice, trial: &FactorTrial) {
    let (method, kind) = match chosen {
        FactorChoice::App => (AuthenticationMethod::Totp, "totp"),
        FactorChoice::Recovery => (AuthenticationMethod::RecoveryCode, "recovery_code"),
        FactorChoice::Key => (AuthenticationMethod::SecurityKey, "key"),
    };
    let event = |event: AuditKind, actor| {
        ctx.event(event, actor).for_subject(candidate.user.sub).with_client(&waiting.client.id).with_detail(kind)
    };
    let mut failure_notice = FailureNotice::None;
    let outcome = match trial {
        FactorTrial::Proven(step) => {
            if step.method == AuthenticationMethod::RecoveryCode {
                ctx.sealgate.audit.note(event(AuditKind::RecoveryCodeUsed, Actor::User));
            }
            ctx.sealgate.metrics.factor_tried(step.method, FactorOutcome::Succeeded);
            return;
        }
        FactorTrial::NoCode => return,
        FactorTrial::Wait(_) => FactorOutcome::Throttled,
        FactorTrial::Blocked => FactorOutcome::Blocked,
        FactorTrial::Wrong(notice) | FactorTrial::ClockIsOff(notice) => {
            failure_notice = *notice;
            if *notice == FailureNotice::Blocked {
                ctx.sealgate.audit.note(event(AuditKind::FactorBlocked, Actor::Stranger));
            }
            FactorOutcome::Failed
        }
        FactorTrial::Refused(error) => {
            tracing::info!(%error, "refused a security key as the second step");
            if matches!(error, CeremonyError::SignCount { .. }) {
                ctx.sealgate.audit.note(event(AuditKind::KeyMayBeCopied, Actor::Stranger));
            }
            FactorOutcome::Failed
        }
    };
    if outcome == FactorOutcome::Failed {
        let failed = event(AuditKind::FactorFailed, Actor::Stranger);
        let notice_context = (failure_notice == FailureNotice::TellOwner)
            .then(|| ctx.notice_context(Notice::FactorFailed, Actor::Stranger));
        ctx.sealgate.audit.note(AuditEvent { notice_context, ..failed });
    }
    ctx.sealgate.metrics.factor_tried(method, outcome);
}

/// Returns the apps whose secrets can be decrypted.
///
/// An app with an unreadable secret still counts as a factor, but accepts no code.
pub(crate) fn open_apps(ctx: &RequestContext<'_>, factors: &Factors) -> Vec<OpenedTotp> {
    let open = |app: &TotpFactor| {
        Some(OpenedTotp { id: app.id, secret: open_secret(ctx, factors.subject, app.id, &app.secret)? })
    };
    factors.totp.iter().filter_map(open).collect()
}

/// Decrypts the secret of an app. Logs a warning and returns `None` on failure.
pub(crate) fn open_secret(
    ctx: &RequestContext<'_>,
    subject: Subject,
    app: FactorId,
    sealed: &Sealed,
) -> Option<TotpSecret> {
    let opened = ctx.sealgate.store.open_factor(subject, app, sealed);
    let opened =
        opened.inspect_err(|error| tracing::warn!(%error, "cannot decrypt the secret of an authenticator app"));
    let bytes: [u8; 20] = opened.ok()?.as_slice().try_into().ok()?;
    Some(TotpSecret::from_random(bytes))
}
