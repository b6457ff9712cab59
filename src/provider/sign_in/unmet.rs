//! `/oauth/unmet`: page for a user who cannot reach the required authentication level.
//!
//! The page names the required level and links to the page where a factor can be added. If the
//! browser were redirected to the client at once, the client would often redirect it straight back.

use http::{Method, StatusCode};

use crate::protocol::authorize;
use crate::request::ProviderRequest as _;
use crate::sign_in;
use crate::sign_in::interaction::{RESUME, Waiting, finished};
use sealgate_core::tokens::clients::OWN_CLIENT;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::next_step::required_level;
use sealgate_pages::{UnmetPage, html};
use sealgate_store::Committed;

const PAGE: &str = "unmet";

pub(crate) async fn unmet_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find(ctx).await?;
    if ctx.head.method == Method::POST {
        waiting.form(ctx, PAGE)?;
        return refuse(ctx, &waiting).await;
    }
    let Some(user) = authorize::account(ctx, &waiting).await? else {
        return Ok(Response::see_other(&waiting.address(ctx, RESUME)));
    };
    let factors = ctx.sealgate.store.factors(user.sub).await?.map(|loaded| loaded.value);
    let terms = sign_in::terms(ctx, waiting.interaction(), &user, factors.as_ref());
    let needed = required_level(waiting.interaction(), &waiting.client, &terms);
    let own = waiting.client.id.as_str() == OWN_CLIENT;
    let may_add = terms.factors.has_any || terms.enrollable.meets(needed);
    let security = ctx.path("/account/security");
    let page = UnmetPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(PAGE),
        client: waiting.client_name(),
        account: user.sign_in_name(),
        needed,
        security: (may_add && !own).then_some(security.as_str()),
    };
    Ok(Response::page(StatusCode::FORBIDDEN, html(&page), waiting.then().as_deref()))
}

/// Returns the error to the client (OpenID Connect Core Unmet Authentication Requirements 1.0).
async fn refuse(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Response, Failure> {
    match ctx.sealgate.store.drop_interaction(&waiting.loaded).await? {
        Committed::Yes => {
            let code = ErrorCode::UnmetAuthenticationRequirements;
            let refusal = Refusal::new(code, "The user cannot reach the requested authentication level.");
            Err(Failure::Return(Box::new(waiting.interaction().request.return_to.clone()), refusal))
        }
        Committed::Conflict => Err(finished(ctx, waiting.interaction()).await?),
    }
}
