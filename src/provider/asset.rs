//! What the pages load: `/oauth/style.css`, `/oauth/script.js`, `/oauth/logo`, `/oauth/icons/*`. Each address carries a version, so they may
//! be kept for ever.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::page::{Asset, LOGO_POLICY, Problem};
use crate::provider::call::Call;
use crate::provider::failure::Failure;
use crate::provider::response::Response;

pub(super) fn stylesheet(call: &Call<'_>) -> Response {
    kept(call.sealgate.pages.stylesheet())
}

pub(super) fn script(call: &Call<'_>) -> Response {
    kept(call.sealgate.pages.script())
}

/// The operator's logo. Pages show it as an image, where no script in it runs; its own policy is for whoever opens its
/// address.
pub(super) fn logo(call: &Call<'_>) -> Result<Response, Failure> {
    let logo = call.sealgate.pages.logo().ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    Ok(kept(logo).with(CONTENT_SECURITY_POLICY, LOGO_POLICY))
}

/// The picture of an application, by its name.
pub(super) fn icon(call: &Call<'_>) -> Result<Response, Failure> {
    let name = call.request.uri().path().rsplit('/').next().unwrap_or_default();
    let icon = call.sealgate.config.apps.iter().find(|app| app.name == name).and_then(|app| app.icon.as_ref());
    let icon = icon.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    Ok(kept(&Asset::logo(icon)).with(CONTENT_SECURITY_POLICY, LOGO_POLICY))
}

fn kept(asset: &Asset) -> Response {
    Response::kept(asset.bytes.clone())
        .with(CONTENT_TYPE, asset.media_type)
        .with(CACHE_CONTROL, "public, max-age=31536000, immutable")
}
