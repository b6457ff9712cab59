//! `/console/keys`: the signing keys with their schedule, and their rotation.

use http::{Method, StatusCode};

use crate::console::client::{command_context, failure_of};
use crate::console::{ConsoleUser, confirmation, kept_form};
use crate::submission::{self, Effect};
use sealgate_admin::{CommandError, rotate_key};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::console::{KeyPlanPage, KeysPage, RotationLine};
use sealgate_pages::{Done, Problem, html};

const PAGE: &str = "/console/keys";

/// Shows the keys (GET), or the plan of a rotation, or rotates the key (POST).
pub(super) async fn keys_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        return match kept_form::take(ctx, console_user, PAGE).await? {
            Some(form) => plan(ctx, console_user, &form).await,
            None => show(ctx, console_user, None).await,
        };
    }
    let form = console_user.form(ctx)?;
    if !confirmation::is_confirmed(&form) {
        return plan(ctx, console_user, &form).await;
    }
    let algorithm = algorithm(ctx, &form)?;
    let work = Box::pin(async {
        match rotate_key(&command_context(ctx, console_user), algorithm).await {
            Ok(()) => Ok(Effect::Done { page: format!("{PAGE}?done={}", Done::KeyRotated.as_str()), secret: None }),
            Err(CommandError::Invalid(lines)) => {
                Ok(Effect::Refused(show(ctx, console_user, Some(&lines.join("; "))).await?))
            }
            Err(error) => Err(failure_of(error)),
        }
    });
    submission::once(ctx, &console_user.visitor, &form, work).await
}

/// Returns the algorithm that the form names. Without a name it is RS256, which always has keys.
fn algorithm(ctx: &RequestContext<'_>, form: &Params) -> Result<Algorithm, Failure> {
    let algorithm = match form.one("algorithm")? {
        Some(name) => Algorithm::parse(name),
        None => Some(Algorithm::Rs256),
    };
    let configured = &ctx.sealgate.config.keys.algorithms;
    algorithm.filter(|algorithm| configured.contains(algorithm)).ok_or(Failure::page(Problem::InvalidRequest))
}

async fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    problem: Option<&str>,
) -> Result<Response, Failure> {
    let ring = ctx.sealgate.store.key_ring().await?;
    let keys = &ctx.sealgate.config.keys;
    let algorithms: Vec<RotationLine> = keys
        .algorithms
        .iter()
        .map(|algorithm| {
            let ring = ring.clone().of_algorithm(*algorithm);
            let next = keys.rotate.and_then(|every| ring.next_rotation(every, keys.times, ctx.now));
            RotationLine {
                name: algorithm.name(),
                next_rotation: next.map(|next| next.activate_at),
                is_rotating: ring.next_to_sign(ctx.now, |_| true).is_some(),
            }
        })
        .collect();
    let page = KeysPage {
        inside: console_user.inside(ctx),
        csrf: &console_user.csrf(ctx),
        ring: &ring,
        now: ctx.now,
        algorithms: &algorithms,
        problem,
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Shows the plan of a rotation, which asks for confirmation.
async fn plan(ctx: &RequestContext<'_>, console_user: &ConsoleUser, form: &Params) -> Result<Response, Failure> {
    let algorithm = algorithm(ctx, form)?;
    let ring = ctx.sealgate.store.key_ring().await?.of_algorithm(algorithm);
    let times = ctx.sealgate.config.keys.times;
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let waiting = ring.waiting(ctx.now, |_| true);
    let now = ring.at(ctx.now);
    let activate_at = waiting.map_or(now, |key| key.published_at).plus(times.publish).max(now);
    let page = KeyPlanPage {
        inside,
        csrf: &console_user.csrf(ctx),
        algorithm: (ctx.sealgate.config.keys.algorithms.len() > 1).then_some(algorithm.name()),
        active_key: ring.active(ctx.now, |_| true).map(|key| key.kid.as_str()),
        waiting_key: waiting.map(|key| key.kid.as_str()),
        activate_at,
        remove_at: activate_at.plus(times.keep),
        fields: &confirmation::fields(form, &once),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
