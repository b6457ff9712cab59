//! Sealgate's own paths below `/.sealgate/` on every application's host.

use http::{Method, StatusCode};

use crate::path::CanonicalPath;
use crate::request::AppRequest;
use crate::sign_in::form;
use crate::sign_in::join::{self, JOIN};
use crate::sign_in::login;
use crate::sign_in::login::{First, SignInRequest};
use crate::sign_in::return_path::ReturnPath;
use crate::sign_out;
use sealgate_core::tokens::clients::{CALLBACK, SIGNED_OUT};
use sealgate_core::web::cookie;
use sealgate_core::web::failure::{Failure, error};
use sealgate_core::web::response;
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::params::Params;
use sealgate_edge::navigation;
use sealgate_pages::{Problem, language_from_tag, language_tag};
use sealgate_store::StoreError;

/// Responds to a request for one of Sealgate's own paths.
pub(super) async fn answer(ctx: &AppRequest<'_>, path: &CanonicalPath<'_>) -> Result<Response, StoreError> {
    let (methods, name): (&'static [Method], _) = match path.as_bytes() {
        callback if callback == CALLBACK.as_bytes() => (&[Method::GET], Own::Callback),
        b"/.sealgate/logout" => (&[Method::GET, Method::POST], Own::Logout),
        path if path == SIGNED_OUT.as_bytes() => (&[Method::GET], Own::SignedOut),
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
        Own::Logout => sign_out::logout(ctx).await,
        Own::SignedOut => Ok(sign_out::signed_out(ctx)),
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
    SignedOut,
    SwitchAccount,
    Join,
    Form,
    Language,
    Stylesheet,
    Logo,
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
