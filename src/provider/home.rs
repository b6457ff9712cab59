//! `/`: the applications that the signed-in user may open. Without a session, redirects to the
//! sign-in.

use http::StatusCode;

use crate::page::{Asset, HomeApp, HomePage, html};
use crate::provider::visitor::Visitor;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;

const PAGE: &str = "/";

pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    let config = &ctx.sealgate.config;
    let open = config.apps.iter().filter_map(|app| {
        let path = app.opens_to(&visitor.user)?;
        let icon = app.icon.as_ref().map(|icon| {
            let version = Asset::logo(icon).version;
            ctx.path(&format!("/oauth/icons/{}?v={version}", app.name))
        });
        let address = format!("{}{path}", app.origin(&config.issuer));
        Some(HomeApp { address, title: app.called(), description: app.description.as_deref(), icon })
    });
    let page = HomePage { inside: visitor.inside(ctx), apps: &open.collect::<Vec<_>>() };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
