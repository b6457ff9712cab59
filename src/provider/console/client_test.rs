//! `/console/try/{client_id}` and `/console/callback`: test sign-ins, which show a developer
//! the tokens that a client would receive.
//!
//! PKCE binds a test sign-in to the browser. The verifier is derived from the session's cookie and the
//! `state`, so the server stores nothing. A code from a test in another browser is rejected.
//! Redeeming the code creates no grant. The tokens on the page name a grant that does not exist, so
//! a leaked token is useless.

use super::actions::ClientTestAction;
use super::form::own_redirect_uri;
use crate::console::{ConsoleUser, last_segment};
use crate::request::ProviderRequest as _;
use http::{Method, StatusCode};
use sealgate_core::tokens::issuer::TokenAlgorithms;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::client_logout::SessionClient;
use sealgate_domain::code::Code;
use sealgate_domain::grant::GrantId;
use sealgate_domain::oauth::claims::{UserClaims, UserInfo};
use sealgate_domain::oauth::jwt::Unverified;
use sealgate_domain::oauth::token::Authorization;
use sealgate_domain::pkce::CodeVerifier;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::secret::{Secret, SecretHash, base64url};
use sealgate_pages::console::{ClientTestPage, ClientTestProblem};
use sealgate_pages::{Problem, html};
use sealgate_store::Committed;
use serde_json::Value;

pub(super) async fn client_test_page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
) -> Result<Response, Failure> {
    let client = console_user.client(ctx, ClientId::from_path_segment(last_segment(ctx))).await?;
    if ctx.head.method != Method::POST {
        return Ok(show(ctx, console_user, &client, None, None));
    }
    let form = console_user.form(ctx)?;
    match ClientTestAction::read(&form)? {
        ClientTestAction::SwitchOn => switch(ctx, console_user, &client, true).await,
        ClientTestAction::SwitchOff => switch(ctx, console_user, &client, false).await,
        ClientTestAction::Start if client.redirects_to(&own_redirect_uri(ctx)) => Ok(start(ctx, &client)),
        ClientTestAction::Start => Err(Failure::page(Problem::InvalidRequest)),
    }
}

/// Adds the console's redirect URI to a client, or removes it.
async fn switch(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    on: bool,
) -> Result<Response, Failure> {
    let own = own_redirect_uri(ctx);
    let change = |client: &mut Client| {
        if !console_user.may_change(client) {
            return;
        }
        client.redirect_uris.retain(|uri| uri.as_str() != own);
        if on {
            client.redirect_uris.push(RedirectUri::of_application(&own));
        }
    };
    let changed = ctx.sealgate.store.change_client(&client.id, change).await?;
    let changed = changed.filter(|client| console_user.may_change(client));
    changed.ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    let event = console_user.event(ctx, AuditKind::ClientChanged).with_client(&client.id);
    ctx.sealgate.audit.note(event.with_detail(if on { "test sign-in on" } else { "test sign-in off" }));
    Ok(Response::see_other(&ctx.path(&format!("/console/try/{}", client.id))))
}

fn start(ctx: &RequestContext<'_>, client: &Client) -> Response {
    let state = format!("{}.{}", base64url(&ctx.random::<16>()), client.id);
    let challenge = base64url(SecretHash::for_secret(verifier(ctx, &state).expose().as_bytes()).as_bytes());
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("client_id", client.id.as_str());
    query.append_pair("response_type", "code");
    query.append_pair("scope", &client.scope.to_string());
    query.append_pair("redirect_uri", &own_redirect_uri(ctx));
    query.append_pair("state", &state);
    query.append_pair("nonce", &base64url(&ctx.random::<16>()));
    query.append_pair("code_challenge", &challenge);
    query.append_pair("code_challenge_method", "S256");
    Response::see_other(&ctx.path(&format!("/oauth/authorize?{}", query.finish())))
}

/// Returns the PKCE verifier of a test sign-in, which depends on this browser's session cookie.
fn verifier(ctx: &RequestContext<'_>, state: &str) -> Secret {
    let cookie = ctx.cookie(ctx.cookies.session).unwrap_or_default();
    Secret::new(base64url(SecretHash::for_secret(format!("test sign-in {state} {cookie}").as_bytes()).as_bytes()))
}

/// Handles the authorization response.
pub(super) async fn callback(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let query = ctx.query()?;
    let state = query.one("state")?.unwrap_or_default();
    let id = state.split_once('.').and_then(|(_, id)| ClientId::parse(id));
    let client = console_user.client(ctx, id).await?;
    if let Some(error) = query.one("error")? {
        return Ok(show(ctx, console_user, &client, None, Some(ClientTestProblem::Refused(error))));
    }
    let code = Secret::new(query.one("code")?.unwrap_or_default());
    match claims(ctx, console_user, &client, &code, state).await? {
        Some(claims) => Ok(show(ctx, console_user, &client, Some(&claims), None)),
        None => Ok(show(ctx, console_user, &client, None, Some(ClientTestProblem::Unknown))),
    }
}

/// Returns the claims that the client would receive for the code: ID token, access token and
/// UserInfo.
///
/// Returns `None` if the code does not belong to a test sign-in of this browser.
async fn claims(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    code: &Secret,
    state: &str,
) -> Result<Option<[String; 3]>, Failure> {
    let Some(loaded) = ctx.sealgate.store.code(&code.hash()).await? else { return Ok(None) };
    let code = &loaded.value;
    let verifier = CodeVerifier::parse(verifier(ctx, state).expose());
    let is_valid = code.redeem(&client.id, &own_redirect_uri(ctx), verifier.as_ref(), ctx.now).is_ok();
    // Accept only codes of the current user and session: another tab may have switched the account.
    let own =
        code.sign_in.subject == console_user.visitor.user.sub && code.session == console_user.visitor.session.value.id;
    if !is_valid || !own || ctx.sealgate.store.use_code(&loaded).await? == Committed::Conflict {
        return Ok(None);
    }
    let user = &console_user.visitor.user;
    let authorization = without_stored_grant(ctx, client, code);
    let algorithms = TokenAlgorithms::of(&ctx.sealgate.config, authorization.resource.as_ref(), client);
    let jti = base64url(&ctx.random::<16>());
    let tokens = ctx.sealgate.issuer.mint(&authorization, algorithms, user, jti, ctx.now).await?;
    let userinfo =
        UserInfo { sub: user.sub.to_string(), claims: UserClaims::for_user(user, code.scope, &client.visible_groups) };
    let id_token = tokens.id_token.as_deref().and_then(decoded).unwrap_or_default();
    Ok(Some([id_token, decoded(&tokens.access_token).unwrap_or_default(), pretty(&userinfo)]))
}

/// Returns an authorization whose grant is not stored.
fn without_stored_grant(ctx: &RequestContext<'_>, client: &Client, code: &Code) -> Authorization {
    Authorization {
        grant: GrantId::from_bytes(ctx.random()),
        client: code.client.clone(),
        subject: code.sign_in.subject,
        scope: code.scope,
        resource: code.resource.clone(),
        nonce: code.nonce.clone(),
        auth_time: code.sign_in.at(),
        acr: code.sign_in.acr().to_owned(),
        amr: code.sign_in.amr(),
        sid: SessionClient::sid_for(client, code.sign_in.subject, code.session),
        visible_groups: client.visible_groups.clone(),
    }
}

fn decoded(token: &str) -> Option<String> {
    Unverified::parse(token)?.claims::<Value>().map(|claims| pretty(&claims))
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn show(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    client: &Client,
    claims: Option<&[String; 3]>,
    problem: Option<ClientTestProblem<'_>>,
) -> Response {
    let page = ClientTestPage {
        inside: console_user.inside(ctx),
        // The callback page also shows the forms of the client's test page. They post to that
        // page.
        csrf: &console_user.visitor.csrf(ctx, &ctx.path(&format!("/console/try/{}", client.id))),
        client,
        redirect_uri: &own_redirect_uri(ctx),
        claims,
        problem,
    };
    Response::page(StatusCode::OK, html(&page), None)
}
