//! `/account/applications`: the clients with access to the user's account, and withdrawal of
//! consent.

use http::{Method, StatusCode};

use crate::visitor;
use crate::visitor::Visitor;
use sealgate_admin::open_accesses;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::ClientId;
use sealgate_pages::{ApplicationsPage, Done, Problem, html};

const PAGE: &str = "/account/applications";

pub(super) async fn applications_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    if ctx.head.method != Method::POST {
        return show(ctx, &visitor).await;
    }
    let form = visitor.form(ctx, PAGE)?;
    let client = form.one("client")?.and_then(ClientId::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    withdraw(ctx, &visitor, &client).await?;
    Ok(Response::see_other(&visitor::done(ctx, PAGE, Done::Withdrawn)))
}

/// Deletes the user's consent to a client and ends its grants.
pub(super) async fn withdraw(ctx: &RequestContext<'_>, visitor: &Visitor, client: &ClientId) -> Result<(), Failure> {
    let ended = ctx.sealgate.store.withdraw_consent(visitor.user.sub, client, ctx.now).await?;
    let event = visitor.event(ctx, AuditKind::ConsentWithdrawn).with_client(client);
    ctx.sealgate.audit.note(event.with_detail(format!("grants {ended}")));
    Ok(())
}

async fn show(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Response, Failure> {
    let applications = open_accesses::of_clients(&ctx.sealgate.store, visitor.user.sub, ctx.now).await?;
    let page =
        ApplicationsPage { inside: visitor.inside(ctx), csrf: &visitor.csrf(ctx, PAGE), applications: &applications };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
