//! `GET /oauth/style.css`: the one stylesheet of the pages. Its address carries its version, so it may be kept for ever.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::endpoint::response::Response;
use crate::page::STYLESHEET;

pub(super) fn answer() -> Response {
    Response::empty(StatusCode::OK)
        .body(STYLESHEET)
        .with(CONTENT_TYPE, "text/css; charset=utf-8")
        .with(CACHE_CONTROL, "public, max-age=31536000, immutable")
}
