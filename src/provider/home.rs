//! `/`: the applications that the signed-in user may open. Without a session, redirects to the
//! sign-in.

use http::StatusCode;

use crate::request::ProviderRequest as _;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_pages::{Asset, HomeApp, HomePage, html};

const PAGE: &str = "/";

pub(super) async fn home_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
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
