//! Files that pages load. Each URL contains a version, so that browsers can cache it forever.

use http::header::CONTENT_SECURITY_POLICY;

use crate::web::response::Response;
use sealgate_pages::{Asset, LOGO_POLICY, Pages};

pub fn stylesheet(pages: &Pages) -> Response {
    Response::kept(pages.stylesheet())
}

pub fn script(pages: &Pages) -> Response {
    Response::kept(pages.script())
}

pub fn return_script(pages: &Pages) -> Response {
    Response::kept(pages.return_script())
}

/// Returns the operator's logo, if configured.
pub fn logo(pages: &Pages) -> Option<Response> {
    pages.logo().map(picture)
}

/// Returns an operator-supplied picture.
///
/// Pages show it as an image, so its scripts do not run. Its own policy applies when a user opens
/// its URL.
pub fn picture(picture: &Asset) -> Response {
    Response::kept(picture).with(CONTENT_SECURITY_POLICY, LOGO_POLICY)
}
