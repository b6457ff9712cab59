//! A request to an application, and how the gate speaks to whoever sent it.

use std::ops::Deref;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};

use crate::app::state::Sealgate;
use crate::config::App;
use crate::domain::assurance::AssuranceLevel;
use crate::domain::error::{ErrorCode, Refusal};
use crate::gateway::outcome::GateReply;
use crate::gateway::principal::Principal;
use crate::gateway::sign_in::return_path::ReturnPath;
use crate::page::{ForbiddenPage, Problem, WayTo, WeakSignInPage, html};
use crate::store::StoreError;
use crate::web::context::{Body, PageHost, Recipient, RequestContext};
use crate::web::failure::{Failure, error};
use crate::web::navigation::{self, Requester};
use crate::web::response::Response;

/// Whose session cookie opens an application. Cookies do not tell ports apart (RFC 6265 §8.5), so an application on the
/// issuer's host name gets the provider's own, and one of its own would overwrite that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sessions {
    OfApp,
    OfProvider,
}

/// A request to an application.
pub(super) struct AppRequest<'a> {
    context: RequestContext<'a>,
    pub app: &'a App,
    /// What a client asks the provider for to get a token that the application takes.
    pub scopes: &'a [String],
    pub sessions: Sessions,
}

impl<'a> Deref for AppRequest<'a> {
    type Target = RequestContext<'a>;

    fn deref(&self) -> &RequestContext<'a> {
        &self.context
    }
}

/// The gate's pages, on the application's host. They have no fields, and so no script.
static PAGES: PageHost =
    PageHost { assets: |_| "/.sealgate/".to_owned(), has_script: false, form_action: "'none'", in_language, way };

fn in_language(ctx: &RequestContext<'_>, language: &str) -> String {
    own_path("language", &[("lang", language), ("then", here(ctx).as_str())])
}

fn way<'c>(ctx: &'c RequestContext<'_>, problem: Problem) -> (String, WayTo<'c>) {
    let waiting_helps = matches!(
        problem,
        Problem::TooManyRequests { .. } | Problem::Upstream | Problem::Unavailable | Problem::Internal
    );
    match ctx.head.uri.path() {
        // The same address once more, with its query.
        path if waiting_helps && ctx.head.method == Method::GET && !path.starts_with("/.sealgate/") => {
            (String::new(), WayTo::Again)
        }
        "/" => (format!("{}/account", ctx.sealgate.config.issuer.as_str()), WayTo::Account),
        _ => ("/".to_owned(), WayTo::Start),
    }
}

/// The page that was asked for, or the first one where this is not a page of the application.
fn here(ctx: &RequestContext<'_>) -> ReturnPath {
    let target = ctx.head.uri.path_and_query().map(PathAndQuery::as_str);
    target.and_then(ReturnPath::parse).unwrap_or_else(ReturnPath::home)
}

impl<'a> AppRequest<'a> {
    /// A request that has just come.
    pub(super) fn new(
        sealgate: &'a Sealgate,
        head: &'a Parts,
        body: Body,
        app: &'a App,
        scopes: &'a [String],
        sessions: Sessions,
    ) -> Self {
        let context = RequestContext::new(sealgate, head, body, Recipient::Sender, &PAGES);
        Self { context, app, scopes, sessions }
    }

    /// A page whose form goes to the application. No `form-action`: browsers hold that also against the redirect with which
    /// the application may answer. Nor may the page hide where it stands, or the form would come without the `Origin` by
    /// which many applications know their own.
    pub(super) fn page_with_form(html: String) -> Response {
        Response::html(StatusCode::OK, html, None).with(http::header::REFERRER_POLICY, "same-origin")
    }

    /// 403 to somebody whom we know: to a person a page that names the account and offers another one.
    pub(super) fn forbidden(&self, who: Principal<'_>) -> Response {
        if !self.speaks_to_people() {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "This account may not use this.");
            return error(StatusCode::FORBIDDEN, &refusal);
        }
        let page = ForbiddenPage {
            frame: self.frame(),
            app: self.app.called(),
            account: &who.account(),
            switch_account: &own_path("switch-account", &[("then", here(self).as_str())]),
        };
        Response::html(StatusCode::FORBIDDEN, html(&page), Some(PAGES.form_action))
    }

    /// 403 to somebody whose sign-in is weaker than this level, which signing in once more would not change: to a person a page
    /// that says what is needed, with the way there where they may take it themselves, and back to what they wanted.
    pub(super) fn weak_sign_in(&self, needed: AssuranceLevel, by_themselves: bool, again: &str) -> Response {
        if !self.speaks_to_people() {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "The sign-in is not strong enough for this.");
            return error(StatusCode::FORBIDDEN, &refusal);
        }
        let security = format!("{}/account/security", self.sealgate.config.issuer.as_str());
        let page = WeakSignInPage {
            frame: self.frame(),
            app: self.app.called(),
            needed,
            security: by_themselves.then_some(security.as_str()),
            again,
            switch_account: &own_path("switch-account", &[("then", again)]),
        };
        Response::html(StatusCode::FORBIDDEN, html(&page), Some(PAGES.form_action))
    }

    /// The refusal, with a page in the place of its JSON for who reads pages: a form or a frame that needs a sign-in. Frames of the
    /// application's own pages show it.
    pub(super) fn as_page(&self, refused: Response, problem: Problem) -> Response {
        if !self.speaks_to_people() {
            return refused;
        }
        let page = self.problem(refused.status(), problem).with_challenges_of(&refused);
        if Requester::of(&self.head.headers) == Requester::Frame { page.framed_by_own_origin() } else { page }
    }

    /// 503, or 500 where waiting will not help.
    pub(super) fn failed(&self, error: &StoreError) -> GateReply {
        if error.is_stale() {
            return GateReply::new("stale", Failure::Unavailable.into_response(self));
        }
        tracing::error!(request_id = self.origin.request_id, app = self.app.name, %error, "the store failed");
        GateReply::new("failed", Failure::of_store(error).into_response(self))
    }

    /// In the place of an application that did not answer: a page to whoever reads pages, none of our words to a program.
    pub(super) fn unanswered(&self, status: StatusCode) -> Option<Response> {
        let problem = match status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Problem::Upstream
            }
            _ => Problem::Internal,
        };
        navigation::reads_pages(self.head).then(|| self.problem(status, problem))
    }
}

/// The address of one of our own paths on the application's host.
pub(super) fn own_path(name: &str, parameters: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("/.sealgate/{name}?{query}")
}
