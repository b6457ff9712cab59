//! What the pages load: `/oauth/style.css`, `/oauth/script.js`, `/oauth/logo`, `/oauth/icons/*`. Each address carries a version, so they may
//! be kept for ever.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::page::{Asset, LOGO_POLICY, Problem};
use crate::provider::context::RequestContext;
use crate::provider::failure::Failure;
use crate::provider::response::Response;

pub(super) fn stylesheet(ctx: &RequestContext<'_>) -> Response {
    kept(ctx.sealgate.pages.stylesheet())
}

pub(super) fn script(ctx: &RequestContext<'_>) -> Response {
    kept(ctx.sealgate.pages.script())
}

/// The operator's logo. Pages show it as an image, where no script in it runs; its own policy is for whoever opens its
/// address.
pub(super) fn logo(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let logo = ctx.sealgate.pages.logo().ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    Ok(kept(logo).with(CONTENT_SECURITY_POLICY, LOGO_POLICY))
}

/// The picture of an application, by its name.
pub(super) fn icon(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let name = ctx.request.uri().path().rsplit('/').next().unwrap_or_default();
    let icon = ctx.sealgate.config.apps.iter().find(|app| app.name == name).and_then(|app| app.icon.as_ref());
    let icon = icon.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    Ok(kept(&Asset::logo(icon)).with(CONTENT_SECURITY_POLICY, LOGO_POLICY))
}

fn kept(asset: &Asset) -> Response {
    Response::kept(asset.bytes.clone())
        .with(CONTENT_TYPE, asset.media_type)
        .with(CACHE_CONTROL, "public, max-age=31536000, immutable")
}
