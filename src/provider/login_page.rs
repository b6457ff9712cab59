//! The sign-in page, with a password form and the option to use a passkey.

use http::StatusCode;

use crate::ceremony::relying_party;
use crate::create_account;
use crate::forgot_password;
use crate::interaction::Waiting;
use crate::sign_in::SIGN_IN;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::webauthn::RequestOptions;
use sealgate_pages::{LoginPage, LoginProblem, PasskeyOffer, html};

/// Name of the page to which a passkey is sent.
const PASSKEY: &str = "passkey";

/// Returns the sign-in page, with the problem of the last attempt if there is one.
pub(super) fn show(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    status: StatusCode,
    email: &str,
    problem: Option<LoginProblem>,
) -> Result<Response, Failure> {
    let options = options(ctx, waiting)?;
    let action = waiting.address(ctx, PASSKEY);
    let left = waiting.interaction().expires_at.since(ctx.now).as_secs();
    let offer = options.as_deref().map(|options| PasskeyOffer { action: &action, options, seconds: left });
    let forgot = forgot_password::address(ctx, waiting);
    let create = create_account::address(ctx, waiting);
    let page = LoginPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, SIGN_IN),
        csrf: &waiting.csrf(SIGN_IN),
        client: waiting.client_name(),
        email,
        forgot: forgot.as_deref(),
        create: create.as_deref(),
        passkey: offer,
        problem,
    };
    Ok(Response::page(status, html(&page), waiting.then().as_deref()))
}

/// Returns the options for a passkey as JSON, if passkeys are available.
fn options(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Option<String>, Failure> {
    let interaction = waiting.interaction();
    let Some((relying_party, challenge)) = relying_party(ctx).zip(interaction.challenge) else {
        return Ok(None);
    };
    let left = interaction.expires_at.since(ctx.now);
    let options = RequestOptions::of_anybody(&relying_party, &challenge, left);
    serde_json::to_string(&options).map(Some).map_err(|_| Failure::Internal)
}
