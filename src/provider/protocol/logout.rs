//! `GET` and `POST /oauth/logout` (OpenID Connect RP-Initiated Logout 1.0).
//!
//! The session ends at once if two conditions hold:
//!
//! - The hint is a valid ID token of a user who is signed in in this browser.
//! - The request is a POST or, according to the browser, a navigation by the user.
//!
//! Any other request may come from a link on another site, an image or a link scanner. For such a
//! request, the server asks the user first. Redirects go only to URIs that are registered for
//! logout.

use http::{Method, StatusCode};

use crate::protocol::upstream_logout;
use crate::protocol::upstream_logout::Onward;
use crate::request::ProviderRequest as _;
use sealgate_config::{App, host_name};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::client::{Client, ClientId, INTERNAL_CLIENT};
use sealgate_domain::oauth::logout::{AfterLogout, LogoutRequest};
use sealgate_domain::redirect_uri;
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_domain::session::Session;
use sealgate_domain::source::SourceName;
use sealgate_domain::user::{Subject, User};
use sealgate_edge::navigation;
use sealgate_pages::{ConfirmLogoutPage, Problem, SignedOutPage, html};
use sealgate_store::Loaded;

pub(crate) async fn end_session_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if let Some(address) = ctx.again_with_cookies() {
        return Ok(Response::see_other(&address));
    }
    let request = LogoutRequest::parse(&ctx.params()?).map_err(|_| Failure::page(Problem::InvalidRequest))?;
    ctx.set_ui_locales(request.ui_locales.as_deref());
    let hint = request.id_token_hint.as_deref().and_then(|hint| ctx.sealgate.issuer.id_token_hint(hint));
    let hint_client = hint.as_ref().and_then(|claims| ClientId::parse(&claims.aud));
    if let (Some(hint_client), Some(request_client)) = (&hint_client, &request.client)
        && hint_client != request_client
    {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let client = client(ctx, hint_client.as_ref().or(request.client.as_ref())).await?;
    let after = after(&request, client.as_ref())?;
    let session = ctx.session_to_end().await?;
    let subject = hint.as_ref().and_then(|claims| Subject::parse(&claims.sub));
    match (session, subject) {
        (Some(session), Some(subject))
            if session.value.sign_in_of(subject).is_some() && navigation::is_act_of_user(ctx.head) =>
        {
            end(ctx, &session, client.as_ref(), after.as_ref()).await
        }
        (Some(_), _) => Ok(Response::redirect(StatusCode::FOUND, &ask(ctx, &request, client.as_ref(), after.as_ref()))),
        // No user is signed in. Redirect only if the request has a hint, which shows that the
        // client has served this user. Without this rule, any site could use the endpoint as an
        // open redirector.
        (None, Some(_)) => Ok(leave(ctx, None, after.as_ref(), None)),
        (None, None) => Ok(leave(ctx, None, None, None)),
    }
}

/// Handles the confirmation page and its form.
pub(crate) async fn confirm(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let params = ctx.params()?;
    let request = LogoutRequest::parse(&params).map_err(|_| Failure::page(Problem::InvalidRequest))?;
    ctx.set_ui_locales(request.ui_locales.as_deref());
    let client = client(ctx, request.client.as_ref()).await?;
    let after = after(&request, client.as_ref())?;
    let Some(session) = ctx.session_to_end().await? else { return Ok(leave(ctx, None, None, None)) };
    let csrf = csrf(ctx);
    if ctx.head.method != Method::POST {
        return show(ctx, &session.value, client.as_ref(), after.as_ref(), &csrf).await;
    }
    if !ctx.is_own_form(&params, &csrf)? {
        return Err(Failure::page(Problem::ExpiredForm));
    }
    end(ctx, &session, client.as_ref(), after.as_ref()).await
}

/// Handles the page that confirms the sign-out. `app` names an application with a login form of its
/// own, from which the user signed out.
pub(crate) fn signed_out(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let query = ctx.query()?;
    let app = query.one("app").ok().flatten().and_then(|name| app_with_logout(ctx, name));
    let upstream = query.one("upstream").ok().flatten().and_then(SourceName::parse);
    let upstream = upstream.and_then(|name| ctx.sealgate.sources.upstream(&name));
    let page = SignedOutPage {
        frame: ctx.frame(),
        client: None,
        app_login: app.map(App::called),
        upstream: upstream.map(|source| source.settings().label.as_str()),
        sign_in: &ctx.path("/account"),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns the application with this name, if the gateway signs users in to its login form, and out
/// again when their session ends.
fn app_with_logout<'c>(ctx: &'c RequestContext<'_>, name: &str) -> Option<&'c App> {
    let has_logout = |app: &App| app.login.as_ref().is_some_and(|login| login.recipe.recipe.has_logout());
    ctx.sealgate.config.apps.iter().find(|app| app.name == name && has_logout(app))
}

/// Returns the address of the page that confirms the sign-out from this client.
pub(super) fn signed_out_address(ctx: &RequestContext<'_>, client: Option<&Client>) -> String {
    let name = client.and_then(|client| client.id.as_str().strip_prefix(INTERNAL_CLIENT));
    match name.and_then(|name| app_with_logout(ctx, name)) {
        Some(app) => ctx.path(&format!("/oauth/signed-out?app={}", app.name)),
        None => ctx.path("/oauth/signed-out"),
    }
}

pub(super) async fn client(ctx: &RequestContext<'_>, id: Option<&ClientId>) -> Result<Option<Client>, Failure> {
    match id {
        Some(id) => Ok(ctx.sealgate.client(id).await?.filter(Client::is_enabled)),
        None => Ok(None),
    }
}

/// Returns the redirect target after the logout. Ignores the URI if the client is unknown, because
/// the URI cannot be checked then.
fn after(request: &LogoutRequest, client: Option<&Client>) -> Result<Option<AfterLogout>, Failure> {
    match (&request.post_logout_redirect_uri, client) {
        (Some(uri), Some(client)) => AfterLogout::resolve(uri, request.state.as_deref(), client)
            .map(Some)
            .ok_or_else(|| Failure::page(Problem::LogoutRedirectUri)),
        _ => Ok(None),
    }
}

fn ask(
    ctx: &RequestContext<'_>,
    request: &LogoutRequest,
    client: Option<&Client>,
    after: Option<&AfterLogout>,
) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in hidden(client, after) {
        query.append_pair(name, value);
    }
    if let Some(locales) = &request.ui_locales {
        query.append_pair("ui_locales", locales);
    }
    ctx.path(&format!("/oauth/logout/confirm?{}", query.finish()))
}

/// Returns the hidden fields of the confirmation form. They are validated again when the form is
/// sent.
fn hidden<'a>(client: Option<&'a Client>, after: Option<&'a AfterLogout>) -> Vec<(&'static str, &'a str)> {
    let client = client.map(|client| ("client_id", client.id.as_str()));
    let uri = after.map(|after| ("post_logout_redirect_uri", after.uri()));
    let state = after.and_then(AfterLogout::state).map(|state| ("state", state));
    [client, uri, state].into_iter().flatten().collect()
}

async fn show(
    ctx: &RequestContext<'_>,
    session: &Session,
    client: Option<&Client>,
    after: Option<&AfterLogout>,
    csrf: &str,
) -> Result<Response, Failure> {
    let user: Option<User> = match session.current() {
        Some(sign_in) => ctx.sealgate.store.user(sign_in.subject).await?,
        None => None,
    };
    let page = ConfirmLogoutPage {
        frame: ctx.frame(),
        action: &ctx.path("/oauth/logout/confirm"),
        csrf,
        client: client.map(|client| client.name.as_str()),
        account: user.as_ref().map(User::sign_in_name),
        stay: &ctx.path("/account"),
        hidden: &hidden(client, after),
    };
    let then = after.and_then(|after| redirect_uri::form_action(after.uri()));
    Ok(Response::page(StatusCode::OK, html(&page), then.as_deref()))
}

async fn end(
    ctx: &RequestContext<'_>,
    session: &Loaded<Session>,
    client: Option<&Client>,
    after: Option<&AfterLogout>,
) -> Result<Response, Failure> {
    ctx.sealgate.store.end_session(session.value.id).await?;
    for sign_in in &session.value.sign_ins {
        let event = ctx.event(AuditKind::SignedOut, Actor::User).for_subject(sign_in.subject);
        ctx.sealgate.audit.note(event.in_session(session.value.id));
    }
    if let Some(browser) = ctx.cookie(ctx.cookies.browser).filter(|_| keeps_forms_here(ctx)) {
        // Drop the stored forms. The next user of this browser must not send them.
        ctx.sealgate.store.drop_forms(&SecretHash::for_secret(browser.as_bytes())).await?;
    }
    let only = match session.value.sign_ins.as_slice() {
        [only] => Some(only.subject),
        _ => None,
    };
    Ok(match upstream_logout::onward(ctx, &session.value, client, after).await {
        Onward::Provider { page, cookie } => {
            let page = cookie.into_iter().fold(page, Response::with_cookie);
            without_session(ctx, page, only)
        }
        Onward::StillSignedIn(source) if after.is_none() => {
            let address = signed_out_address(ctx, client);
            let separator = if address.contains('?') { '&' } else { '?' };
            let address = format!("{address}{separator}upstream={source}");
            without_session(ctx, Response::redirect(StatusCode::FOUND, &address), only)
        }
        Onward::StillSignedIn(_) | Onward::Nothing => leave(ctx, client, after, only),
    })
}

/// Redirects the browser and removes its session cookie.
///
/// `client` is the client that began the sign-out, if a session ended. `user` is the user who signed
/// out, if there is exactly one.
fn leave(
    ctx: &RequestContext<'_>,
    client: Option<&Client>,
    after: Option<&AfterLogout>,
    user: Option<Subject>,
) -> Response {
    let location = after.map_or_else(|| signed_out_address(ctx, client), AfterLogout::location);
    without_session(ctx, Response::redirect(StatusCode::FOUND, &location), user)
}

/// Adds to a response that it removes the browser's session cookie.
fn without_session(ctx: &RequestContext<'_>, response: Response, user: Option<Subject>) -> Response {
    // Expire the cookie only if the request contains it. Browsers send a form on another site
    // without the cookie (`SameSite=Lax`), but would obey a response that expires the cookie.
    if ctx.cookie(ctx.cookies.session).is_none() {
        return response;
    }
    let response = response.with_cookie(cookie::expire(ctx.cookies.session, ctx.cookies.secure)).clearing_cache();
    if keeps_forms_here(ctx) {
        response.with_cookie(ctx.cookies.mark_signed_out(&ctx.head.headers, user))
    } else {
        response
    }
}

/// Returns whether the store keeps forms of an application on the issuer's host. Such an
/// application shares the issuer's cookies.
fn keeps_forms_here(ctx: &RequestContext<'_>) -> bool {
    let config = &ctx.sealgate.config;
    let shares = |app: &App| host_name(&app.host) == config.issuer.host();
    ctx.sealgate.store.keeps_forms() && config.apps.iter().any(shares)
}

/// Returns the CSRF token of the confirmation form, bound to the session cookie.
fn csrf(ctx: &RequestContext<'_>) -> String {
    let cookie = ctx.cookie(ctx.cookies.session).unwrap_or_default();
    base64url(SecretHash::for_secret(format!("csrf logout {cookie}").as_bytes()).as_bytes())
}
