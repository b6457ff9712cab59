//! `/account/applications`: the clients with access to the user's account, and withdrawal of
//! consent.

use std::collections::BTreeMap;

use http::{Method, StatusCode};

use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::ClientId;
use sealgate_pages::{Application, ApplicationsPage, Done, Problem, html};
use sealgate_store::GrantFilter;

const PAGE: &str = "/account/applications";

/// Maximum number of consents, and of grants, that are read for the page.
const MAX_READ: usize = 500;

pub(super) async fn applications_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    if ctx.head.method != Method::POST {
        return show(ctx, &visitor).await;
    }
    let form = visitor.form(ctx, PAGE)?;
    let client = form.one("client")?.and_then(ClientId::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    let subject = visitor.user.sub;
    let ended = ctx.sealgate.store.withdraw_consent(subject, &client, ctx.now).await?;
    let event = visitor.event(ctx, AuditKind::ConsentWithdrawn).with_client(&client);
    ctx.sealgate.audit.note(event.with_detail(format!("grants {ended}")));
    Ok(Response::see_other(&visitor::done(ctx, PAGE, Done::Withdrawn)))
}

async fn show(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Response, Failure> {
    let mut applications: Vec<Application> = accesses(ctx, visitor).await?.into_values().collect();
    applications.sort_by(|one, other| one.name.cmp(&other.name));
    let page =
        ApplicationsPage { inside: visitor.inside(ctx), csrf: &visitor.csrf(ctx, PAGE), applications: &applications };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns the clients to which the user has given consent or which hold an unexpired grant.
///
/// A client that does not ask for consent has only a grant.
async fn accesses(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<BTreeMap<ClientId, Application>, Failure> {
    let (store, subject) = (&ctx.sealgate.store, visitor.user.sub);
    let mut found: BTreeMap<ClientId, Application> = BTreeMap::new();
    let consents = store.consents_page(subject, None, MAX_READ).await?;
    let of_user = GrantFilter { subject: Some(subject), ..GrantFilter::default() };
    let grants = store.grants(&of_user, None, MAX_READ).await?.grants;
    let live = grants.into_iter().filter(|grant| ctx.now < grant.expires_at);
    // Deleting a client ends its grants, so a live grant belongs to the current client of that id.
    let given = consents.into_iter().map(|consent| (consent.client.clone(), consent.scope, consent.at, Some(consent)));
    for (id, scope, at, consent) in given.chain(live.map(|grant| (grant.client, grant.scope, grant.created_at, None))) {
        if let Some(access) = found.get_mut(&id) {
            access.scope = access.scope.union(scope);
            access.since = access.since.min(at);
            continue;
        }
        // Skip a consent that was given to a deleted client with the same id.
        let client = ctx.sealgate.client(&id).await?;
        let client = client.filter(|client| consent.is_none_or(|consent| consent.is_for(client)));
        if let Some(client) = client {
            found.insert(id, Application { client: client.id, name: client.name, scope, since: at });
        }
    }
    Ok(found)
}
