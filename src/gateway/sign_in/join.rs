//! Sign-in at further applications (`also_sign_in`): a page and its API on two hosts.
//!
//! A page that calls another host sends the session cookie of that host. After a sign-in, the browser
//! is therefore redirected to `/.sealgate/join` of each further application. There, a sign-in that
//! shows no page (`prompt=none`) starts the session of that application, and the browser continues to
//! the next one and at last to the requested page. An application that cannot be signed in to is left
//! out: it answers the requests of the page with 401.
//!
//! The URL names the session at the page's application. The new session must be of the same user and
//! depend on the same session at the provider. So a link of another site changes nothing, and the
//! sessions are of one user even if several users are signed in at the provider.

use http::StatusCode;

use crate::request::{AppRequest, Sessions};
use crate::session;
use crate::sign_in::login::{self, First, Purpose, SignInRequest};
use crate::sign_in::replay;
use crate::sign_in::return_path::ReturnPath;
use sealgate_config::App;
use sealgate_core::web::failure::error;
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::session::{AppSession, SessionId};
use sealgate_edge::navigation;
use sealgate_pages::Problem;
use sealgate_store::{SignInAttempt, StoreError};

/// Path on every application's host.
pub(crate) const JOIN: &str = "/.sealgate/join";
/// Parameter of the second request of a browser that had no cookie at the first.
const COOKIE_SET: &str = "cookie";

/// The page to which the browser returns from the sign-in at a further application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Join {
    /// Name of the page's application. It lists the application of the request in `also_sign_in`.
    page_app: String,
    /// Session at the page's application.
    session: SessionId,
    /// Path and query of the page, or of the page that shows a stored form.
    page: String,
}

impl Join {
    /// Reads the parameters `app`, `session` and `then`. Returns `None` if the application does not
    /// list the one of the request, so that a link cannot lead the browser from one application to
    /// another.
    fn from_query(ctx: &AppRequest<'_>, query: &Params) -> Option<Self> {
        let (page_app, session) = (query.one("app").ok()??, query.one("session").ok()??);
        Self::new(ctx, page_app, SessionId::parse(session)?, query.one("then").ok().flatten().unwrap_or("/"))
    }

    pub(crate) fn from_attempt(ctx: &AppRequest<'_>, attempt: &SignInAttempt) -> Option<Self> {
        let (page_app, session) = attempt.page.as_ref()?;
        Self::new(ctx, page_app, *session, &attempt.wanted)
    }

    fn new(ctx: &AppRequest<'_>, page_app: &str, session: SessionId, page: &str) -> Option<Self> {
        let lists_this = app(ctx, page_app)?.also_sign_in.contains(&ctx.app.name);
        let is_page = ReturnPath::parse(page).is_some() || replay::is_address(page);
        let page = if is_page { page } else { "/" }.to_owned();
        lists_this.then(|| Self { page_app: page_app.to_owned(), session, page })
    }

    /// Returns the name of the page's application, and the session there.
    pub(crate) fn page_session(&self) -> (String, SessionId) {
        (self.page_app.clone(), self.session)
    }

    pub(crate) fn page(&self) -> &str {
        &self.page
    }

    /// Returns the live session at the page's application.
    pub(crate) async fn load(&self, ctx: &AppRequest<'_>) -> Result<Option<AppSession>, StoreError> {
        let found = ctx.sealgate.store.app_session(self.session).await?.map(|found| found.value);
        Ok(found.filter(|session| session.app == self.page_app && ctx.now < session.expires_at))
    }

    /// Returns the path and query of this request after the browser's cookie was set.
    fn again(&self) -> String {
        format!("{JOIN}?{}&{COOKIE_SET}=1", query(&self.page_app, self.session, &self.page))
    }

    /// Returns the URL after the sign-in at the application of the request: that of the next
    /// application, or the page.
    pub(crate) fn next(&self, ctx: &AppRequest<'_>) -> String {
        let Some(app) = app(ctx, &self.page_app) else { return "/".to_owned() };
        let mut rest = app.also_sign_in.iter().skip_while(|name| **name != ctx.app.name).skip(1);
        let next = rest.next().and_then(|name| address(ctx, name, &self.page_app, self.session, &self.page));
        // A wildcard cannot have `also_sign_in`.
        let origin = app.origin(&ctx.sealgate.config.issuer).unwrap_or_default();
        next.unwrap_or_else(|| format!("{origin}{}", self.page))
    }
}

/// Returns the URL of the first further application after a sign-in with this session. `None` if
/// there is none.
pub(crate) fn first(ctx: &AppRequest<'_>, session: SessionId, page: &str) -> Option<String> {
    address(ctx, ctx.app.also_sign_in.first()?, &ctx.app.name, session, page)
}

/// Returns the URL of a further application.
fn address(ctx: &AppRequest<'_>, name: &str, page_app: &str, session: SessionId, page: &str) -> Option<String> {
    let origin = app(ctx, name)?.origin(&ctx.sealgate.config.issuer)?;
    Some(format!("{origin}{JOIN}?{}", query(page_app, session, page)))
}

fn query(page_app: &str, session: SessionId, page: &str) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("app", page_app).append_pair("session", &session.to_string());
    query.append_pair("then", page).finish()
}

fn app<'a>(ctx: &AppRequest<'a>, name: &str) -> Option<&'a App> {
    ctx.sealgate.config.apps.iter().find(|app| app.name == name)
}

/// Responds to a request for [`JOIN`]: at the page's application, which has no parameter `app`, and
/// at a further one.
pub(crate) async fn answer(ctx: &AppRequest<'_>) -> Result<Response, StoreError> {
    // An image or a frame of a page must not start or end sessions.
    if !navigation::is_navigation(ctx.head) {
        let refusal = Refusal::new(ErrorCode::AccessDenied, "Only a user who opens a page may send this request.");
        return Ok(error(StatusCode::FORBIDDEN, &refusal));
    }
    let query: Params = ctx.query().unwrap_or_default();
    if !query.has("app") {
        return start(ctx, &query).await;
    }
    let Some(join) = Join::from_query(ctx, &query).filter(|_| ctx.sessions == Sessions::OfApp) else {
        return Ok(ctx.problem(StatusCode::BAD_REQUEST, Problem::InvalidRequest));
    };
    let onward = Response::redirect(StatusCode::FOUND, &join.next(ctx));
    let Some(page_session) = join.load(ctx).await? else { return Ok(onward) };
    // Without the cookie that binds the sign-in to the browser, the way back to the page would be lost.
    let (_, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
    match new_cookie {
        Some(_) if query.has(COOKIE_SET) => return Ok(onward),
        Some(cookie) => return Ok(Response::redirect(StatusCode::FOUND, &join.again()).with_cookie(cookie)),
        None => {}
    }
    match login::begin_for(ctx, Purpose::Join(&join), SignInRequest::any(First::NoPage)).await {
        Ok(answer) if answer.status() != StatusCode::TOO_MANY_REQUESTS => Ok(answer),
        // A limit must not keep the browser from the page.
        Ok(_) | Err(StoreError::TooManyInteractions) => login::leave_out(ctx, onward, &page_session).await,
        Err(error) => Err(error),
    }
}

/// Starts the way through the further applications again, for a page whose API answers 401. A browser
/// without a session signs in first.
async fn start(ctx: &AppRequest<'_>, query: &Params) -> Result<Response, StoreError> {
    let page = query.one("then").ok().flatten().and_then(ReturnPath::parse).unwrap_or_else(ReturnPath::home);
    let Some(session) = session::find(ctx).await?.and_then(|session| session.own) else {
        return login::begin(ctx, &page, SignInRequest::any(First::Needed)).await;
    };
    let location = first(ctx, session, page.as_str()).unwrap_or_else(|| page.as_str().to_owned());
    Ok(login::unless_loop(ctx, Response::redirect(StatusCode::FOUND, &location)))
}

/// Returns whether a session at a further application may not stay next to the page's: it depends on
/// the same session at the provider, and is of another user.
pub(crate) fn contradicts(own: &AppSession, page_session: &AppSession) -> bool {
    own.parent == page_session.parent && own.subject != page_session.subject
}
