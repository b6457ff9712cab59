//! `/oauth/passkey`: signs in with a passkey, without a typed name. The form is on the sign-in
//! page.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::sign_in;
use crate::sign_in::guesses::Guesses;
use crate::sign_in::interaction::{RESUME, Waiting};
use crate::sign_in::login::{KEEP, Typed, show_login};
use crate::sign_in::{Proceeded, Proof, SIGN_IN};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::{AuthenticationMethod, AuthenticationSteps};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::factors::{FactorTrial, Factors};
use sealgate_domain::oauth::next_step::{CredentialMark, Interaction};
use sealgate_domain::user::User;
use sealgate_domain::webauthn::{AssertionPurpose, AssertionResponse, CeremonyChallenge, CeremonyError, RelyingParty};
use sealgate_pages::LoginProblem;
use sealgate_store::{Committed, Loaded};
use sealgate_system::metrics::{FactorOutcome, SignInOutcome};

/// Minimum time until a refused passkey is answered.
///
/// The response time then does not reveal whether the key is unknown, wrong, another user's or a
/// disabled user's.
const MIN_REFUSAL_DELAY: Duration = Duration::from_millis(150);

pub(crate) async fn passkey_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        // The user opened this address from the browser's history.
        let waiting = Waiting::find(ctx).await?;
        return Ok(Response::see_other(&waiting.address(ctx, RESUME)));
    }
    let arrived = tokio::time::Instant::now();
    let waiting = Waiting::find(ctx).await?;
    let form = waiting.form(ctx, SIGN_IN)?;
    let (credential_json, keep) = (form.one("credential")?.unwrap_or_default(), form.has(KEEP));
    let guesses = match Guesses::of_passkey(ctx).await? {
        Ok(guesses) => guesses,
        Err(seconds) => {
            ctx.sealgate.metrics.signed_in(SignInOutcome::Throttled);
            let problem = LoginProblem::Throttled { seconds };
            let page =
                show_login(ctx, &waiting, StatusCode::TOO_MANY_REQUESTS, Typed { email: "", keep }, Some(problem))?;
            return Ok(page.retry_after(seconds));
        }
    };
    let (waiting, proceeded) = Box::pin(sign_in_with(ctx, waiting, credential_json, keep)).await?;
    if let Some(response) = proceeded.respond(ctx, &waiting) {
        guesses.give_back(ctx);
        return Ok(response);
    }
    ctx.sealgate.metrics.signed_in(SignInOutcome::Failed);
    ctx.sealgate.metrics.factor_tried(AuthenticationMethod::Passkey, FactorOutcome::Failed);
    tokio::time::sleep_until(arrived + MIN_REFUSAL_DELAY).await;
    show_login(ctx, &waiting, StatusCode::OK, Typed { email: "", keep }, Some(LoginProblem::PasskeyRefused))
}

/// User that an assertion claims to come from, with the user's factors.
struct Claim {
    user: User,
    loaded: Loaded<Factors>,
    answer: AssertionResponse,
}

/// Reads the user that the assertion claims. A disabled user's key is treated as an unknown key.
async fn claim(ctx: &RequestContext<'_>, credential_json: &str) -> Result<Result<Claim, CeremonyError>, Failure> {
    let answer = match AssertionResponse::parse(credential_json) {
        Ok(answer) => answer,
        Err(error) => return Ok(Err(error)),
    };
    let store = &ctx.sealgate.store;
    let Some(owner) = store.owner_of_credential(answer.credential_id()).await? else {
        return Ok(Err(CeremonyError::NotTheirs));
    };
    let user = store.user(owner).await?.filter(User::is_enabled);
    let owner_and_factors = user.zip(store.factors(owner).await?);
    Ok(owner_and_factors.map(|(user, loaded)| Claim { user, loaded, answer }).ok_or(CeremonyError::NotTheirs))
}

/// Signs in the owner of the passkey. The challenge is used up even if the sign-in fails.
async fn sign_in_with(
    ctx: &RequestContext<'_>,
    waiting: Waiting,
    credential_json: &str,
    keep: bool,
) -> Result<(Waiting, Proceeded), Failure> {
    let Some((relying_party, challenge)) = relying_party(ctx).zip(waiting.interaction().challenge) else {
        return refused(ctx, waiting, None, CeremonyError::OtherChallenge).await;
    };
    let Claim { user, loaded, answer } = match claim(ctx, credential_json).await? {
        Ok(claim) => claim,
        Err(error) => return refused(ctx, waiting, None, error).await,
    };
    let store = &ctx.sealgate.store;
    let mut factors = loaded.value.clone();
    let trial = factors.try_key(&relying_party, &challenge, AssertionPurpose::SignIn, &answer, ctx.now);
    let step = match trial {
        FactorTrial::Proven(step) => step,
        FactorTrial::Refused(error) => {
            // Store the sign count even after a refusal. Otherwise a key whose count once failed to
            // increase would be refused forever.
            let _ = store.put_factors(Some(&loaded), &factors, None).await?;
            return refused(ctx, waiting, Some(&user), error).await;
        }
        _ => return Err(Failure::Internal),
    };
    // A directory did not take part in this sign-in, so ask it whether the user may still sign in.
    let Some(user) = ctx.sealgate.read_user_again(user).await? else {
        return refused(ctx, waiting, None, CeremonyError::NotTheirs).await;
    };
    let credentials = CredentialMark::for_user(&user, factors.generation);
    let steps = AuthenticationSteps::from_step(step);
    let proof = Proof { user, steps, credentials, is_step_up: false, keep, upstream: None };
    let next = Interaction { challenge: Some(new_challenge(ctx)), ..waiting.interaction().clone() };
    let written = store.put_factors(Some(&loaded), &factors, Some((&waiting.loaded, &next))).await?;
    let waiting = waiting.read_again(ctx).await?;
    if written == Committed::Conflict {
        // The same assertion was sent twice, or another tab continued the sign-in. One of the
        // requests completed the step.
        let again = waiting.address(ctx, RESUME);
        return Ok((waiting, Proceeded::Missing(again)));
    }
    ctx.sealgate.metrics.factor_tried(AuthenticationMethod::Passkey, FactorOutcome::Succeeded);
    let proceeded = sign_in::proceed(ctx, &waiting, proof, Some(&factors)).await?;
    Ok((waiting, proceeded))
}

/// Records the refusal and issues a new challenge.
async fn refused(
    ctx: &RequestContext<'_>,
    waiting: Waiting,
    user: Option<&User>,
    error: CeremonyError,
) -> Result<(Waiting, Proceeded), Failure> {
    tracing::info!(%error, "refused a passkey");
    let kind = match error {
        CeremonyError::SignCount { .. } => AuditKind::KeyMayBeCopied,
        _ => AuditKind::SignInFailed,
    };
    let event = ctx.event(kind, Actor::Stranger).with_client(&waiting.client.id).with_detail("passkey");
    ctx.sealgate.audit.note(user.into_iter().fold(event, |event, user| event.for_subject(user.sub)));
    let next = Interaction { challenge: Some(new_challenge(ctx)), ..waiting.interaction().clone() };
    // On a conflict, another tab has used the challenge up.
    let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    let waiting = waiting.read_again(ctx).await?;
    Ok((waiting, Proceeded::Gone))
}

/// Returns the relying party, or `None` if browsers allow no WebAuthn at the issuer's URL.
pub(crate) fn relying_party(ctx: &RequestContext<'_>) -> Option<RelyingParty> {
    let config = &ctx.sealgate.config;
    RelyingParty::new(config.issuer.url(), config.factors.rp_id.as_deref())
}

/// Returns a new random challenge.
pub(crate) fn new_challenge(ctx: &RequestContext<'_>) -> CeremonyChallenge {
    CeremonyChallenge::from_random(ctx.random())
}
