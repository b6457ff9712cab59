//! Returns responses of the authorization endpoint to the client: by a redirect, or in a form that
//! the browser posts (OAuth 2.0 Form Post Response Mode).

use http::StatusCode;
use url::Url;

use crate::web::context::RequestContext;
use crate::web::response::Response;
use sealgate_domain::oauth::authorize::AuthorizationRedirect;
use sealgate_domain::redirect_uri;
use sealgate_pages::{ReturnFormPage, html};

/// Creates the response to the browser.
pub fn respond(ctx: &RequestContext<'_>, way: &AuthorizationRedirect) -> Response {
    match way {
        AuthorizationRedirect::Redirect(location) => Response::redirect(StatusCode::FOUND, location),
        AuthorizationRedirect::Form { action, fields } => {
            // The URI is registered and was parsed before.
            let to = Url::parse(action).ok();
            let host = to.as_ref().and_then(Url::host_str).unwrap_or_default();
            let page = ReturnFormPage { frame: ctx.frame(), action, host, fields };
            Response::page(StatusCode::OK, html(&page), redirect_uri::form_action(action).as_deref())
        }
    }
}
