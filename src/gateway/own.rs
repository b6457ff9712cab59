//! Sealgate's own paths below `/.sealgate/` on every application's host.

use http::{Method, StatusCode};

use crate::path::CanonicalPath;
use crate::request::{AppRequest, Sessions};
use crate::session;
use crate::sign_in::form;
use crate::sign_in::join::{self, JOIN};
use crate::sign_in::login;
use crate::sign_in::login::{First, SignInRequest};
use crate::sign_in::return_path::ReturnPath;
use sealgate_core::tokens::clients::CALLBACK;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::{Failure, error};
use sealgate_core::web::response;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::SessionCookie;
use sealgate_edge::navigation;
use sealgate_pages::{Problem, language_from_tag, language_tag};
use sealgate_store::StoreError;

/// Responds to a request for one of Sealgate's own paths.
pub(super) async fn answer(ctx: &AppRequest<'_>, path: &CanonicalPath<'_>) -> Result<Response, StoreError> {
    let (methods, name): (&'static [Method], _) = match path.as_bytes() {
        callback if callback == CALLBACK.as_bytes() => (&[Method::GET], Own::Callback),
        b"/.sealgate/logout" => (&[Method::GET, Method::POST], Own::Logout),
        b"/.sealgate/switch-account" => (&[Method::GET], Own::SwitchAccount),
        path if path == JOIN.as_bytes() => (&[Method::GET], Own::Join),
        b"/.sealgate/form" => (&[Method::GET, Method::POST], Own::Form),
        b"/.sealgate/language" => (&[Method::GET], Own::Language),
        b"/.sealgate/style.css" => (&[Method::GET, Method::HEAD], Own::Stylesheet),
        b"/.sealgate/logo" if ctx.sealgate.pages.logo().is_some() => (&[Method::GET, Method::HEAD], Own::Logo),
        _ => {
            let refusal = Refusal::new(ErrorCode::NotFound, "There is no resource at this path.");
            return Ok(ctx.refuse(StatusCode::NOT_FOUND, &refusal, Problem::NotFound));
        }
    };
    if !methods.contains(&ctx.head.method) {
        return Ok(Failure::Method(methods).into_response(ctx));
    }
    if !matches!(name, Own::Stylesheet | Own::Logo) && navigation::is_preload(ctx.head) {
        return Ok(error(StatusCode::FORBIDDEN, &navigation::PRELOAD_REFUSAL));
    }
    match name {
        Own::Callback => login::callback(ctx).await,
        Own::Logout => logout(ctx).await,
        Own::SwitchAccount => login::begin(ctx, &then(ctx), SignInRequest::any(First::Chooser)).await,
        Own::Join => join::answer(ctx).await,
        Own::Form => form::show(ctx).await,
        Own::Language => Ok(language(ctx)),
        Own::Stylesheet => Ok(response::stylesheet(&ctx.sealgate.pages)),
        Own::Logo => Ok(response::logo(&ctx.sealgate.pages).unwrap_or_else(|| Response::empty(StatusCode::NOT_FOUND))),
    }
}

enum Own {
    Callback,
    Logout,
    SwitchAccount,
    Join,
    Form,
    Language,
    Stylesheet,
    Logo,
}

/// Ends the application's session, and redirects to the provider. The provider then ends the user's
/// other sessions.
///
/// Keeps the session if the request is cross-site, or if the user did not navigate to the page (for
/// example, an image or a link scanner). The provider then asks the user for confirmation.
async fn logout(ctx: &AppRequest<'_>) -> Result<Response, StoreError> {
    let issuer = &ctx.sealgate.config.issuer;
    let mut location = format!("{}/oauth/logout?client_id={}", issuer.as_str(), ctx.client_id());
    if let Some(after) = ctx.app.sign_out_uri(issuer, ctx.covered_host.as_ref()) {
        location.push_str("&post_logout_redirect_uri=");
        location.extend(url::form_urlencoded::byte_serialize(after.as_bytes()));
    }
    let status = if ctx.head.method == Method::POST { StatusCode::SEE_OTHER } else { StatusCode::FOUND };
    let answer = Response::redirect(status, &location);
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

/// Stores the language that the user chose on a page of the gateway, and redirects back to that
/// page.
fn language(ctx: &AppRequest<'_>) -> Response {
    let query = ctx.query().unwrap_or_default();
    let answer = Response::redirect(StatusCode::FOUND, then(ctx).as_str());
    match query.one("lang").ok().flatten().and_then(language_from_tag) {
        Some(chosen) => {
            let (name, secure) = (ctx.cookies.language, ctx.cookies.secure);
            answer.with_cookie(cookie::set_for(name, language_tag(chosen), secure, cookie::LANGUAGE_SECONDS))
        }
        None => answer,
    }
}

/// Returns the path in the parameter `then`, or the application's start page.
fn then(ctx: &AppRequest<'_>) -> ReturnPath {
    let query: Params = ctx.query().unwrap_or_default();
    query.one("then").ok().flatten().and_then(ReturnPath::parse).unwrap_or_else(ReturnPath::home)
}
