//! The few paths below `/.sealgate/` that are ours on every application's host.

use http::header::{ALLOW, CONTENT_SECURITY_POLICY};
use http::{Method, StatusCode};

use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::secret::SecretHash;
use crate::domain::session::SessionCookie;
use crate::gateway::answer::Answer;
use crate::gateway::context::{RequestContext, Sessions};
use crate::gateway::navigation;
use crate::gateway::path::CanonicalPath;
use crate::gateway::session;
use crate::gateway::sign_in::login::{self, First, SignInRequest};
use crate::gateway::sign_in::return_path::ReturnPath;
use crate::gateway::sign_in::saved_form;
use crate::oauth::params::Params;
use crate::page::{LOGO_POLICY, Problem, language_from_tag, language_tag};
use crate::store::StoreError;
use crate::tokens::clients::{CALLBACK, INTERNAL_CLIENT};
use crate::web::cookie;

/// How long a chosen language is remembered, seconds.
const LANGUAGE_REMEMBERED: u64 = 365 * 24 * 3600;

/// Answers on one of our own paths.
///
/// # Errors
/// When the store fails.
pub(super) async fn answer(ctx: &RequestContext<'_>, path: &CanonicalPath<'_>) -> Result<Answer, StoreError> {
    let (methods, name): (&[Method], _) = match path.as_bytes() {
        callback if callback == CALLBACK.as_bytes() => (&[Method::GET], Own::Callback),
        b"/.sealgate/logout" => (&[Method::GET, Method::POST], Own::Logout),
        b"/.sealgate/switch-account" => (&[Method::GET], Own::SwitchAccount),
        b"/.sealgate/form" => (&[Method::GET], Own::Form),
        b"/.sealgate/language" => (&[Method::GET], Own::Language),
        b"/.sealgate/style.css" => (&[Method::GET, Method::HEAD], Own::Stylesheet),
        b"/.sealgate/logo" if ctx.sealgate.pages.logo().is_some() => (&[Method::GET, Method::HEAD], Own::Logo),
        _ => {
            let refusal = Refusal::new(ErrorCode::NotFound, "There is nothing here.");
            return Ok(ctx.refuse(StatusCode::NOT_FOUND, &refusal, Problem::NotFound));
        }
    };
    if !methods.contains(&ctx.head.method) {
        let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
        let refusal = Refusal::new(ErrorCode::MethodNotAllowed, "The method is not allowed here.");
        let answer = ctx.refuse(StatusCode::METHOD_NOT_ALLOWED, &refusal, Problem::ForPrograms);
        return Ok(answer.with(ALLOW, &names.join(", ")));
    }
    match name {
        Own::Callback => login::callback(ctx).await,
        Own::Logout => logout(ctx).await,
        Own::SwitchAccount => login::begin(ctx, &then(ctx), SignInRequest::any(First::Chooser)).await,
        Own::Form => saved_form::show(ctx).await,
        Own::Language => Ok(language(ctx)),
        Own::Stylesheet => Ok(Answer::kept(ctx.sealgate.pages.stylesheet())),
        Own::Logo => Ok(match ctx.sealgate.pages.logo() {
            Some(logo) => Answer::kept(logo).with(CONTENT_SECURITY_POLICY, LOGO_POLICY),
            None => Answer::empty(StatusCode::NOT_FOUND),
        }),
    }
}

enum Own {
    Callback,
    Logout,
    SwitchAccount,
    Form,
    Language,
    Stylesheet,
    Logo,
}

/// Ends the application's session and goes on to the provider, which ends the rest. A link on a stranger's page ends
/// nothing here: the provider asks the person first.
async fn logout(ctx: &RequestContext<'_>) -> Result<Answer, StoreError> {
    let issuer = ctx.sealgate.config.issuer.as_str();
    let location = format!("{issuer}/oauth/logout?client_id={INTERNAL_CLIENT}{}", ctx.app.name);
    let status = if ctx.head.method == Method::POST { StatusCode::SEE_OTHER } else { StatusCode::FOUND };
    let answer = Answer::redirect(status, &location);
    if ctx.sessions == Sessions::OfProvider || navigation::is_cross_site(&ctx.head.headers) {
        return Ok(answer);
    }
    // Another site's form comes without the cookie (SameSite=Lax), but the browser would take our word that it is over.
    let Some(cookie) = ctx.cookie(ctx.cookies.session) else { return Ok(answer) };
    // What waits here to be sent, whoever wrote it, is not for whoever signs in next.
    if let Some(browser) = ctx.cookie(ctx.cookies.browser) {
        ctx.sealgate.store.drop_forms(&SecretHash::of(browser.as_bytes())).await?;
    }
    let mut left = None;
    if let Some(cookie) = SessionCookie::parse(cookie)
        && let Some(own) = session::of_app(ctx, &cookie).await?
    {
        ctx.sealgate.store.end_app_session(own.id).await?;
        left = Some(own.subject);
        let event = AuditEvent::new(ctx.now, AuditKind::SignedOut, Actor::Person).of(own.subject);
        let event = event.in_app(&own.app).in_session(own.parent);
        ctx.sealgate.audit.note(event.from_request(ctx.origin.address, &ctx.origin.request_id));
    }
    let answer = answer.with_cookie(cookie::expire(ctx.cookies.session, ctx.cookies.secure));
    if ctx.sealgate.store.keeps_forms() {
        return Ok(answer.with_cookie(ctx.cookies.left_by(&ctx.head.headers, left)));
    }
    Ok(answer)
}

/// Remembers the language that the person has chosen on one of our pages, and shows that page again.
fn language(ctx: &RequestContext<'_>) -> Answer {
    let query = ctx.query().unwrap_or_default();
    let answer = Answer::redirect(StatusCode::FOUND, then(ctx).as_str());
    match query.one("lang").ok().flatten().and_then(language_from_tag) {
        Some(chosen) => {
            let (name, secure) = (ctx.cookies.language, ctx.cookies.secure);
            answer.with_cookie(cookie::set_for(name, language_tag(chosen), secure, LANGUAGE_REMEMBERED))
        }
        None => answer,
    }
}

/// The page of the application that the parameter `then` names, or its first one.
fn then(ctx: &RequestContext<'_>) -> ReturnPath {
    let query: Params = ctx.query().unwrap_or_default();
    query.one("then").ok().flatten().and_then(ReturnPath::parse).unwrap_or_else(ReturnPath::home)
}
