//! What the pages load. Each address carries a version, so that it may be kept for ever.

use http::header::CONTENT_SECURITY_POLICY;

use crate::page::{Asset, LOGO_POLICY, Pages};
use crate::web::response::Response;

pub(crate) fn stylesheet(pages: &Pages) -> Response {
    Response::kept(pages.stylesheet())
}

pub(crate) fn script(pages: &Pages) -> Response {
    Response::kept(pages.script())
}

pub(crate) fn return_script(pages: &Pages) -> Response {
    Response::kept(pages.return_script())
}

/// The operator's logo, where there is one.
pub(crate) fn logo(pages: &Pages) -> Option<Response> {
    pages.logo().map(picture)
}

/// A picture from a file of the operator's. Pages show it as an image, where no script in it runs; its own policy is for
/// whoever opens its address.
pub(crate) fn picture(picture: &Asset) -> Response {
    Response::kept(picture).with(CONTENT_SECURITY_POLICY, LOGO_POLICY)
}
