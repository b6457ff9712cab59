//! `/oauth/passkey`: a passkey signs in, with nothing typed. The page is the sign-in's.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};

use crate::domain::assurance::{AuthenticationMethod, AuthenticationSteps};
use crate::domain::audit::{Actor, AuditKind};
use crate::domain::user::User;
use crate::factors::FactorTrial;
use crate::metrics::{FactorOutcome, SignInOutcome};
use crate::oauth::next_step::{CredentialMark, Interaction, Progress};
use crate::page::LoginProblem;
use crate::provider::enrolment::relying_party;
use crate::provider::guesses::Guesses;
use crate::provider::interaction::{RESUME, Waiting};
use crate::provider::login;
use crate::provider::sign_in::{self, Proceeded, Proof};
use crate::store::Committed;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;
use crate::webauthn::{
    AssertionPurpose, AssertionResponse, CeremonyChallenge, CeremonyError, RelyingParty, RequestOptions,
};

pub(super) const PAGE: &str = "passkey";

/// How long after its arrival an answer is refused, at the earliest: whether the key is unknown, somebody else's, wrong, or of
/// somebody who may not come in, the time does not tell.
const REFUSED_AFTER: Duration = Duration::from_millis(150);

/// What the page of the sign-in hands to the browser for a passkey: the options as JSON, where passkeys can be.
pub(super) fn options(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Option<String>, Failure> {
    let interaction = waiting.interaction();
    let Some((relying_party, challenge)) = relying_party(ctx).zip(interaction.challenge) else {
        return Ok(None);
    };
    let left = interaction.expires_at.since(ctx.now);
    let options = RequestOptions::of_anybody(&relying_party, &challenge, left);
    serde_json::to_string(&options).map(Some).map_err(|_| Failure::Internal)
}

pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        // Somebody came back to it by the browser's history.
        let waiting = Waiting::find(ctx).await?;
        return Ok(Response::see_other(&waiting.address(ctx, RESUME)));
    }
    let arrived = tokio::time::Instant::now();
    let waiting = Waiting::find(ctx).await?;
    let form = waiting.form(ctx, login::PAGE)?;
    let sent = form.one("credential")?.unwrap_or_default();
    let guesses = match Guesses::of_passkey(ctx) {
        Ok(guesses) => guesses,
        Err(seconds) => {
            ctx.sealgate.metrics.signed_in(SignInOutcome::Throttled);
            let problem = LoginProblem::Throttled { seconds };
            let page = login::show(ctx, &waiting, StatusCode::TOO_MANY_REQUESTS, "", Some(problem))?;
            return Ok(page.with(RETRY_AFTER, &seconds.to_string()));
        }
    };
    let (waiting, proceeded) = sign_in_with(ctx, waiting, sent).await?;
    if let Some(response) = proceeded.respond(ctx, &waiting) {
        guesses.give_back(ctx);
        return Ok(response);
    }
    ctx.sealgate.metrics.signed_in(SignInOutcome::Failed);
    ctx.sealgate.metrics.factor_tried(AuthenticationMethod::Passkey, FactorOutcome::Failed);
    tokio::time::sleep_until(arrived + REFUSED_AFTER).await;
    login::show(ctx, &waiting, StatusCode::OK, "", Some(LoginProblem::PasskeyRefused))
}

/// Signs in whoever's passkey this is. Whatever the answer, its challenge is used up.
async fn sign_in_with(ctx: &RequestContext<'_>, waiting: Waiting, sent: &str) -> Result<(Waiting, Proceeded), Failure> {
    let found = find(ctx, &waiting, sent).await;
    let (user, error) = match found? {
        Found::Theirs(user, answer, challenge, relying_party) => {
            let Some(loaded) = ctx.sealgate.store.factors(user.sub).await? else {
                return refused(ctx, waiting, None, CeremonyError::NotTheirs).await;
            };
            let mut factors = loaded.value.clone();
            let trial = factors.try_key(&relying_party, &challenge, AssertionPurpose::SignIn, &answer, ctx.now);
            let FactorTrial::Proven(step) = trial else {
                let FactorTrial::Refused(error) = trial else { return Err(Failure::Internal) };
                // Its count is kept, or a key whose count once stood still would be refused for ever.
                let _ = ctx.sealgate.store.put_factors(Some(&loaded), &factors, None).await?;
                return refused(ctx, waiting, Some(&user), error).await;
            };
            let credentials = CredentialMark::of(&user, factors.generation);
            let steps = AuthenticationSteps::of(step);
            let proof = Proof { user: *user, steps, credentials, is_step_up: false };
            let progress = Progress { partial: Some(proof.partial()), ..Progress::default() };
            let next = Interaction { progress, challenge: Some(fresh(ctx)), ..waiting.interaction().clone() };
            let written =
                ctx.sealgate.store.put_factors(Some(&loaded), &factors, Some((&waiting.loaded, &next))).await?;
            if written == Committed::Conflict {
                // The same answer came twice, or another tab went on: one of them did it.
                let waiting = waiting.read_again(ctx).await?;
                return Ok((waiting, Proceeded::Missing));
            }
            ctx.sealgate.metrics.factor_tried(AuthenticationMethod::Passkey, FactorOutcome::Succeeded);
            let waiting = waiting.read_again(ctx).await?;
            let proceeded = sign_in::proceed(ctx, &waiting, proof, Some(&factors)).await?;
            return Ok((waiting, proceeded));
        }
        Found::Nobody(user, error) => (user, error),
    };
    refused(ctx, waiting, user.as_deref(), error).await
}

enum Found {
    Theirs(Box<User>, AssertionResponse, CeremonyChallenge, RelyingParty),
    Nobody(Option<Box<User>>, CeremonyError),
}

/// Whose passkey the answer claims to be of.
async fn find(ctx: &RequestContext<'_>, waiting: &Waiting, sent: &str) -> Result<Found, Failure> {
    let Some((relying_party, challenge)) = relying_party(ctx).zip(waiting.interaction().challenge) else {
        return Ok(Found::Nobody(None, CeremonyError::OtherChallenge));
    };
    let answer = match AssertionResponse::parse(sent) {
        Ok(answer) => answer,
        Err(error) => return Ok(Found::Nobody(None, error)),
    };
    let store = &ctx.sealgate.store;
    let Some(owner) = store.owner_of_credential(answer.credential_id()).await? else {
        return Ok(Found::Nobody(None, CeremonyError::NotTheirs));
    };
    Ok(match store.user(owner).await? {
        Some(user) if user.is_enabled() => Found::Theirs(Box::new(user), answer, challenge, relying_party),
        gone => Found::Nobody(gone.map(Box::new), CeremonyError::NotTheirs),
    })
}

/// Takes a refusal down, and gives the page another challenge.
async fn refused(
    ctx: &RequestContext<'_>,
    waiting: Waiting,
    user: Option<&User>,
    error: CeremonyError,
) -> Result<(Waiting, Proceeded), Failure> {
    tracing::info!(%error, "a passkey was refused");
    let kind = match error {
        CeremonyError::SignCount { .. } => AuditKind::KeyMayBeCopied,
        _ => AuditKind::SignInFailed,
    };
    let event = ctx.event(kind, Actor::Stranger).with_client(&waiting.client.id).with_detail("passkey");
    ctx.sealgate.audit.note(user.into_iter().fold(event, |event, user| event.of(user.sub)));
    let next = Interaction { challenge: Some(fresh(ctx)), ..waiting.interaction().clone() };
    // A conflict means that another tab has used the challenge up.
    let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    let waiting = waiting.read_again(ctx).await?;
    Ok((waiting, Proceeded::Gone))
}

/// Another challenge.
pub(super) fn fresh(ctx: &RequestContext<'_>) -> CeremonyChallenge {
    CeremonyChallenge::from_random(ctx.random())
}
