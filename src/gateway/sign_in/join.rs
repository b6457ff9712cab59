//! Sign-in at further applications (`also_sign_in`): a page and its API on two hosts.
//!
//! A page that calls another host sends the session cookie of that host. After a sign-in, the browser
//! is therefore redirected to `/.sealgate/join` of each further application. There, a sign-in that
//! shows no page (`prompt=none`) starts the session of that application, and the browser continues to
//! the next one and at last to the requested page. An application that cannot be signed in to is left
//! out: it answers the requests of the page with 401.

use http::StatusCode;

use crate::request::AppRequest;
use crate::sign_in::login::{self, First, Purpose, SignInRequest};
use crate::sign_in::return_path::ReturnPath;
use sealgate_config::{App, host_name};
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::params::Params;
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
    page: ReturnPath,
}

impl Join {
    /// Reads the parameters `app` and `then`. Returns `None` if the application does not list the one
    /// of the request, so that a link cannot lead the browser from one application to another.
    fn from_query(ctx: &AppRequest<'_>) -> Option<Self> {
        let query: Params = ctx.query().ok()?;
        let page_app = query.one("app").ok()??;
        let then = query.one("then").ok().flatten();
        Self::new(ctx, page_app, then.unwrap_or("/"))
    }

    pub(crate) fn from_attempt(ctx: &AppRequest<'_>, attempt: &SignInAttempt) -> Option<Self> {
        Self::new(ctx, attempt.page_app.as_deref()?, &attempt.wanted)
    }

    fn new(ctx: &AppRequest<'_>, page_app: &str, page: &str) -> Option<Self> {
        let lists_this = app(ctx, page_app)?.also_sign_in.contains(&ctx.app.name);
        let page = ReturnPath::parse(page).unwrap_or_else(ReturnPath::home);
        lists_this.then(|| Self { page_app: page_app.to_owned(), page })
    }

    pub(crate) fn page_app(&self) -> &str {
        &self.page_app
    }

    pub(crate) fn page(&self) -> &ReturnPath {
        &self.page
    }

    /// Returns the path and query of this request after the browser's cookie was set.
    fn again(&self) -> String {
        format!("{JOIN}?{}&{COOKIE_SET}=1", query(&self.page_app, &self.page))
    }

    /// Returns the URL after the sign-in at the application of the request: that of the next
    /// application, or the page.
    pub(crate) fn next(&self, ctx: &AppRequest<'_>) -> String {
        let Some(app) = app(ctx, &self.page_app) else { return "/".to_owned() };
        let rest = app.also_sign_in.iter().skip_while(|name| **name != ctx.app.name).skip(1);
        first_of(ctx, rest, app, &self.page)
            .unwrap_or_else(|| format!("{}{}", app.origin(&ctx.sealgate.config.issuer), self.page.as_str()))
    }
}

/// Returns the URL of the first further application after a sign-in. `None` if there is none.
pub(crate) fn first(ctx: &AppRequest<'_>, page: &ReturnPath) -> Option<String> {
    first_of(ctx, ctx.app.also_sign_in.iter(), ctx.app, page)
}

fn first_of<'n>(
    ctx: &AppRequest<'_>,
    mut names: impl Iterator<Item = &'n String>,
    page_app: &App,
    page: &ReturnPath,
) -> Option<String> {
    let issuer = &ctx.sealgate.config.issuer;
    // An application on the issuer's host uses the session of the provider.
    let has_session = |app: &&App| host_name(&app.host) != issuer.host();
    let next = names.find_map(|name| app(ctx, name).filter(has_session))?;
    Some(format!("{}{JOIN}?{}", next.origin(issuer), query(&page_app.name, page)))
}

fn query(page_app: &str, page: &ReturnPath) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("app", page_app).append_pair("then", page.as_str()).finish()
}

fn app<'a>(ctx: &AppRequest<'a>, name: &str) -> Option<&'a App> {
    ctx.sealgate.config.apps.iter().find(|app| app.name == name)
}

/// Responds to a request for [`JOIN`].
///
/// The sign-in runs even if the browser has a session here, because that session may be of another
/// user than the page's.
pub(crate) async fn begin(ctx: &AppRequest<'_>) -> Result<Response, StoreError> {
    let Some(join) = Join::from_query(ctx) else {
        return Ok(ctx.problem(StatusCode::BAD_REQUEST, Problem::InvalidRequest));
    };
    // Without the cookie that binds the sign-in to the browser, the way back to the page would be lost.
    let (_, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
    if let Some(cookie) = new_cookie {
        let is_second = ctx.query().is_ok_and(|query| query.has(COOKIE_SET));
        if is_second {
            return Ok(Response::redirect(StatusCode::FOUND, &join.next(ctx)));
        }
        return Ok(Response::redirect(StatusCode::FOUND, &join.again()).with_cookie(cookie));
    }
    let answer = login::begin_for(ctx, Purpose::Join(&join), SignInRequest::any(First::NoPage)).await?;
    if answer.status() == StatusCode::TOO_MANY_REQUESTS {
        return login::leave_out(ctx, Response::redirect(StatusCode::FOUND, &join.next(ctx))).await;
    }
    Ok(answer)
}
