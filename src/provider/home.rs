//! `/`: the applications that somebody who is signed in may open; the sign-in for everybody else.

use http::StatusCode;

use crate::config::{App, Config};
use crate::page::{Asset, Home, HomeApp};
use crate::provider::visitor::Visitor;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::response::Response;

const PAGE: &str = "/";

/// Whether there is such a page: where an application shares the issuer's host, its root is the application's.
pub(super) fn is_shown(config: &Config) -> bool {
    let authority = config.issuer.authority();
    !config.apps.iter().any(|app| app.answers_to(&authority))
}

/// What a page needs of an application, as texts that it borrows.
struct Shown<'c> {
    app: &'c App,
    address: String,
    icon: Option<String>,
}

pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    let config = &ctx.sealgate.config;
    let open = config.apps.iter().filter_map(|app| {
        let path = app.opens_to(&visitor.user)?;
        let icon = app.icon.as_ref().map(|icon| {
            let version = Asset::logo(icon).version;
            ctx.path(&format!("/oauth/icons/{}?v={version}", app.name))
        });
        Some(Shown { app, address: format!("{}{path}", app.origin(&config.issuer)), icon })
    });
    let open: Vec<Shown<'_>> = open.collect();
    let mut apps = Vec::with_capacity(open.len());
    for Shown { app, address, icon } in &open {
        let (title, description) = (app.called(), app.description.as_deref());
        apps.push(HomeApp { address, title, description, icon: icon.as_deref() });
    }
    let content = Home { apps: &apps };
    let html = visitor.page(ctx, |chrome, shell| ctx.sealgate.pages.home(chrome, shell, &content));
    Ok(Response::page(StatusCode::OK, html, None))
}
