//! Sign-ins at OpenID providers: the browser leaves from the sign-in page, and returns to
//! `/oauth/upstream/NAME/callback`.
//!
//! The answer is accepted only from the browser and the pending request that began the trip, only at
//! the callback of the provider to which the browser was sent, and only once. The problem of a trip
//! is stored with the request, and the sign-in page shows it. So the code disappears from the
//! address of the page.

use http::StatusCode;

use crate::sign_in;
use crate::sign_in::guesses::Guesses;
use crate::sign_in::interaction::Waiting;
use crate::sign_in::login::Typed;
use crate::sign_in::{Proof, SIGN_IN};
use sealgate_core::password::QueueKey;
use sealgate_core::sources::{OpenIdSource, UpstreamArrived, UpstreamAttempt, UpstreamRejection};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::INTERNAL_CLIENT;
use sealgate_domain::oauth::next_step::{CredentialMark, Interaction};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::source::SourceName;
use sealgate_domain::upstream_trip::{BegunTrip, Recency, TripSecrets, UpstreamProblem, UpstreamTrip};
use sealgate_domain::upstream_trip::{interaction_of, new_state};
use sealgate_pages::{LeavePage, LinkTarget, Problem, html};
use sealgate_store::Committed;
use sealgate_system::metrics::SignInOutcome;
use sealgate_upstream::{CallbackAnswer, Trip, TripPrompt};

/// Maximum attempts to store a trip while other tabs change the request.
const MAX_TRIES: usize = 4;

/// Sends the browser to a provider.
///
/// The password field of the form is ignored. The typed name goes only to the provider that is
/// responsible for its domain.
pub(super) async fn leave(
    ctx: &RequestContext<'_>,
    mut waiting: Waiting,
    source: &OpenIdSource,
    typed: Typed<'_>,
) -> Result<Response, Failure> {
    let state = new_state(ctx.random(), &waiting.parameter());
    let secrets = waiting.trip_secrets(source.name(), &state);
    let interaction = waiting.interaction();
    let hinted = if typed.email.is_empty() { interaction.request.login_hint.as_deref() } else { Some(typed.email) };
    let is_own = |name: &&str| name.rsplit_once('@').is_some_and(|(_, domain)| source.settings().has_domain(domain));
    let redirect_uri = redirect_uri(ctx, source);
    let acr_values = source.acr_values(requested_level(&waiting));
    let trip = Trip {
        login_hint: hinted.filter(is_own),
        acr_values: acr_values.as_deref(),
        ..trip(&secrets, &redirect_uri, interaction)
    };
    let sender = QueueKey::for_address(ctx.origin.address);
    let Ok(url) = ctx.sealgate.upstream_url(source, sender, &trip).await else {
        return failed(ctx, &waiting, source.name(), UpstreamProblem::Unavailable.into()).await;
    };
    let state = SecretHash::for_secret(state.as_bytes());
    let begun = BegunTrip { source: source.name().clone(), state, at: ctx.now, keep: typed.keep };
    for _ in 0..MAX_TRIES {
        let next = Interaction { upstream: Some(UpstreamTrip::Begun(begun.clone())), ..waiting.interaction().clone() };
        if ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await? == Committed::Yes {
            let label = &source.settings().label;
            let page = LeavePage { frame: ctx.frame(), label, url: &url, is_sign_out: false };
            return Ok(Response::page(StatusCode::OK, html(&page), None));
        }
        waiting = waiting.read_again(ctx).await?;
    }
    Err(Failure::Unavailable)
}

/// Handles the return of a browser from a provider.
pub(crate) async fn callback(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let path = ctx.head.uri.path();
    let name = path.rsplit('/').nth(1).and_then(SourceName::parse);
    let source = name.as_ref().and_then(|name| ctx.sealgate.sources.upstream(name));
    let source = source.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    let query = ctx.query()?;
    let over = || Failure::page(Problem::UpstreamTrip);
    let state = query.one("state")?.unwrap_or_default();
    let answer = CallbackAnswer { code: query.one("code")?, error: query.one("error")?, iss: query.one("iss")? };
    let parameter = interaction_of(state).ok_or_else(over)?;
    let waiting = Waiting::find_named(ctx, parameter).await?.filter(|waiting| !waiting.is_late(ctx));
    let Some(waiting) = waiting else { return Err(over()) };
    let begun = match &waiting.interaction().upstream {
        Some(UpstreamTrip::Begun(begun)) if begun.is_of(source.name(), state) => begun.clone(),
        _ => return Ok(begin_again(ctx, &waiting)),
    };
    let guesses = Guesses::of_upstream(ctx).await?.map_err(Failure::RateLimited)?;
    // End the trip before the code is redeemed, so that no other request can repeat the answer.
    let ended = Interaction { upstream: None, ..waiting.interaction().clone() };
    if ctx.sealgate.store.update_interaction(&waiting.loaded, &ended).await? == Committed::Conflict {
        return Ok(begin_again(ctx, &waiting));
    }
    let waiting = waiting.read_again(ctx).await?;
    let secrets = waiting.trip_secrets(source.name(), state);
    let (redirect_uri, required) = (redirect_uri(ctx, source), recency(waiting.interaction()));
    let sender = QueueKey::for_address(ctx.origin.address);
    let attempt = UpstreamAttempt { source, sender, begun: &begun, required };
    // `arrive` checks the age of the sign-in, because the user may have spent time at the provider.
    let trip = Trip { max_age: None, ..trip(&secrets, &redirect_uri, waiting.interaction()) };
    let event = |kind| ctx.event(kind, Actor::Server);
    let arrived = match ctx.sealgate.arrive(&attempt, &answer, &trip, event).await? {
        Ok(arrived) => arrived,
        Err(rejection) => {
            // The browser determines these outcomes.
            if !matches!(
                rejection.problem,
                UpstreamProblem::Invalid | UpstreamProblem::Denied | UpstreamProblem::ProviderError
            ) {
                guesses.give_back(ctx);
            }
            return failed(ctx, &waiting, source.name(), rejection).await;
        }
    };
    guesses.give_back(ctx);
    proceed(ctx, &waiting, arrived, begun.keep).await
}

/// Continues the sign-in of a user who has signed in at a provider.
async fn proceed(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    arrived: UpstreamArrived,
    keep: bool,
) -> Result<Response, Failure> {
    let UpstreamArrived { user, steps, session } = arrived;
    let factors = ctx.sealgate.store.factors(user.sub).await?.map(|loaded| loaded.value);
    let generation = factors.as_ref().map_or(0, |factors| factors.generation);
    let credentials = CredentialMark::for_user(&user, generation);
    let proof = Proof { user: *user, steps, credentials, is_step_up: false, keep, upstream: Some(Box::new(session)) };
    let proceeded = sign_in::proceed(ctx, waiting, proof, factors.as_ref()).await?;
    Ok(proceeded.respond_or_begin_again(ctx, waiting))
}

/// Stores and records the problem of a trip. Returns the redirect to the sign-in page, which shows
/// it.
async fn failed(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    source: &SourceName,
    UpstreamRejection { problem, user }: UpstreamRejection,
) -> Result<Response, Failure> {
    ctx.sealgate.metrics.signed_in(SignInOutcome::Failed);
    let event = ctx.event(AuditKind::SignInFailed, Actor::Stranger).with_client(&waiting.client.id);
    let event = event.with_detail(format!("upstream {source}: {}", problem.as_str()));
    ctx.sealgate.audit.note(user.into_iter().fold(event, AuditEvent::for_subject));
    let failed = UpstreamTrip::Failed { source: source.clone(), problem };
    let next = Interaction { upstream: Some(failed), ..waiting.interaction().clone() };
    // On a conflict, another tab has continued the same request. The result of that tab is kept.
    let _ = ctx.sealgate.store.update_interaction(&waiting.loaded, &next).await?;
    Ok(Response::see_other(&waiting.address(ctx, SIGN_IN)))
}

/// Returns the page for an answer that does not end the current trip of this request. The page links
/// to the sign-in page of the request.
fn begin_again(ctx: &RequestContext<'_>, waiting: &Waiting) -> Response {
    let address = waiting.address(ctx, SIGN_IN);
    ctx.problem_with_link(StatusCode::BAD_REQUEST, Problem::UpstreamTrip, &address, LinkTarget::Again)
}

/// Returns the URL to which the provider returns browsers.
pub(crate) fn redirect_uri(ctx: &RequestContext<'_>, source: &OpenIdSource) -> String {
    format!("{}{}", ctx.sealgate.config.issuer.as_str(), source.settings().callback_path())
}

/// Returns the age of the sign-in at the provider that the request requires.
fn recency(interaction: &Interaction) -> Recency {
    Recency { login: interaction.request.prompt.login, max_age: interaction.request.max_age }
}

/// Returns the level that the request requires of every user.
fn requested_level(waiting: &Waiting) -> AssuranceLevel {
    let named = waiting.interaction().request.acr_values.as_deref().unwrap_or_default();
    let is_internal = waiting.client.id.as_str().starts_with(INTERNAL_CLIENT);
    let named = named.split(' ').filter_map(AssuranceLevel::parse);
    let requested = if is_internal { named.min() } else { named.max() };
    requested.max(waiting.client.level).unwrap_or(AssuranceLevel::One)
}

/// Returns the values of a trip that are the same when the browser leaves and returns.
///
/// With `max_age`, the provider must send `auth_time` (OpenID Connect Core §2). A new sign-in is
/// therefore requested with both parameters.
fn trip<'a>(secrets: &'a TripSecrets, redirect_uri: &'a str, interaction: &Interaction) -> Trip<'a> {
    let Recency { login, max_age } = recency(interaction);
    let prompt = match (login, interaction.request.prompt.select_account) {
        (true, _) => Some(TripPrompt::Login),
        (false, true) => Some(TripPrompt::SelectAccount),
        (false, false) => None,
    };
    let max_age = if login { Some(0) } else { max_age };
    Trip {
        redirect_uri,
        state: &secrets.state,
        nonce: &secrets.nonce,
        code_verifier: &secrets.code_verifier,
        prompt,
        max_age: max_age.map(std::time::Duration::from_secs),
        login_hint: None,
        acr_values: None,
    }
}
