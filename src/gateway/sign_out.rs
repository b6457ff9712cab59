//! Sign-out at an application, and the way back.
//!
//! `then` of `/.sealgate/logout` is a page of the application, or one of its `after_sign_out`. The
//! provider redirects to registered URIs only, byte for byte. So for a page, the URI is
//! `/.sealgate/signed-out` on the same host, and the page is the `state`. That path redirects to
//! pages of its own host only.

use http::{Method, StatusCode};
use url::Url;

use crate::request::{AppRequest, Sessions};
use crate::session;
use crate::sign_in::return_path::ReturnPath;
use sealgate_core::tokens::clients::SIGNED_OUT;
use sealgate_core::web::cookie;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::SessionCookie;
use sealgate_edge::navigation;
use sealgate_store::StoreError;

/// Maximum length of `then`, in bytes. It is part of several URLs, and encoded in them.
const MAX_THEN_BYTES: usize = 2048;

/// Place at which the browser arrives after the sign-out.
enum Place {
    /// A URI of `after_sign_out`.
    Configured(String),
    /// A page of the application.
    Page(ReturnPath),
}

/// Ends the application's session, and redirects to the provider. The provider then ends the user's
/// other sessions.
///
/// Keeps the session if the request is cross-site, or if the user did not navigate to the page (for
/// example, an image or a link scanner). The provider then asks the user for confirmation.
pub(super) async fn logout(ctx: &AppRequest<'_>) -> Result<Response, StoreError> {
    let status = if ctx.head.method == Method::POST { StatusCode::SEE_OTHER } else { StatusCode::FOUND };
    let answer = Response::redirect(status, &location(ctx));
    let is_meant = navigation::is_act_of_user(ctx.head) && !navigation::is_cross_site(&ctx.head.headers);
    if ctx.sessions == Sessions::OfProvider || !is_meant {
        return Ok(answer);
    }
    // A form of another site arrives without the cookie (SameSite=Lax). Without this check, the
    // response to such a form would still delete the cookie.
    let Some(cookie) = ctx.cookie(ctx.cookies.session) else { return Ok(answer) };
    // Removes the stored forms, because the next user of this browser must not see them.
    if let Some(browser) = ctx.cookie(ctx.cookies.browser) {
        ctx.sealgate.store.drop_forms(&SecretHash::for_secret(browser.as_bytes())).await?;
    }
    let mut left = None;
    if let Some(cookie) = SessionCookie::parse(cookie)
        && let Some(own) = session::of_app(ctx, &cookie).await?
    {
        ctx.sealgate.store.end_app_session(own.id).await?;
        left = Some(own.subject);
        let event = ctx.event(AuditKind::SignedOut, Actor::User).for_subject(own.subject);
        ctx.sealgate.audit.note(event.in_app(&own.app).in_session(own.parent));
    }
    let answer = answer.with_cookie(cookie::expire(ctx.cookies.session, ctx.cookies.secure)).clearing_cache();
    if ctx.sealgate.store.keeps_forms() {
        return Ok(answer.with_cookie(ctx.cookies.mark_signed_out(&ctx.head.headers, left)));
    }
    Ok(answer)
}

/// Redirects to the page in `state`, or to the provider's page that confirms the sign-out.
pub(super) fn signed_out(ctx: &AppRequest<'_>) -> Response {
    let query: Params = ctx.query().unwrap_or_default();
    if let Some(page) = query.one("state").ok().flatten().and_then(ReturnPath::parse) {
        return Response::redirect(StatusCode::FOUND, page.as_str());
    }
    let issuer = ctx.sealgate.config.issuer.as_str();
    Response::redirect(StatusCode::FOUND, &format!("{issuer}/oauth/signed-out"))
}

/// Returns the URL of the logout request at the provider (OpenID Connect RP-Initiated Logout 1.0).
fn location(ctx: &AppRequest<'_>) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("client_id", &ctx.client_id());
    match place(ctx) {
        Some(Place::Configured(uri)) => _ = query.append_pair("post_logout_redirect_uri", &uri),
        Some(Place::Page(page)) => {
            let uri = format!("{}{SIGNED_OUT}", ctx.public_origin());
            query.append_pair("post_logout_redirect_uri", &uri).append_pair("state", page.as_str());
        }
        None => {}
    }
    format!("{}/oauth/logout?{}", ctx.sealgate.config.issuer.as_str(), query.finish())
}

/// Returns the place in `then` if it is allowed, or else the first of `after_sign_out`.
fn place(ctx: &AppRequest<'_>) -> Option<Place> {
    let mut configured = ctx.app.sign_out_uris(&ctx.sealgate.config.issuer, ctx.covered_host.as_ref());
    let query: Params = ctx.query().unwrap_or_default();
    let then = query.one("then").ok().flatten().filter(|then| then.len() <= MAX_THEN_BYTES);
    if let Some(then) = then {
        // The configured spelling is used, so that a different reading of `then` has no effect.
        let is_then = |uri: &String| Url::parse(then).is_ok_and(|url| url.as_str() == uri);
        if let Some(at) = configured.iter().position(is_then) {
            return Some(Place::Configured(configured.swap_remove(at)));
        }
        let own = then.strip_prefix(&ctx.public_origin()).filter(|rest| rest.starts_with('/'));
        if let Some(page) = ReturnPath::parse(own.unwrap_or(then)) {
            return Some(Place::Page(page));
        }
    }
    configured.into_iter().next().map(Place::Configured)
}
