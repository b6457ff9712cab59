//! Request to an application, and the pages and errors that the gateway returns for it.

use std::ops::Deref;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};

use crate::decide::{GateReply, host};
use crate::principal::Principal;
use crate::route::Rule;
use crate::sign_in::return_path::ReturnPath;
use sealgate_config::{App, CoveredHost};
use sealgate_core::state::Sealgate;
use sealgate_core::tokens::clients;
use sealgate_core::web::context::{Body, PageHost, Recipient, RequestContext};
use sealgate_core::web::failure::{Failure, error};
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::user::User;
use sealgate_edge::navigation;
use sealgate_edge::navigation::Requester;
use sealgate_pages::{ForbiddenPage, LinkTarget, MaintenancePage, Problem, WeakSignInPage, html};
use sealgate_store::StoreError;

/// Kind of session cookie that an application accepts.
///
/// Browsers send cookies to all ports of a host (RFC 6265 §8.5). An application on the issuer's
/// host name therefore uses the provider's cookie. Its own cookie would overwrite the provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sessions {
    OfApp,
    OfProvider,
}

/// Request to an application.
pub(super) struct AppRequest<'a> {
    context: RequestContext<'a>,
    pub app: &'a App,
    /// Scopes that a client must request, so that the application accepts its token.
    pub scopes: &'a [String],
    pub sessions: Sessions,
    /// Host of the request, if the application's host is a wildcard.
    pub covered_host: Option<CoveredHost>,
}

impl<'a> Deref for AppRequest<'a> {
    type Target = RequestContext<'a>;

    fn deref(&self) -> &RequestContext<'a> {
        &self.context
    }
}

/// Settings of the gateway's pages on an application's host. They have no input fields and need no
/// script.
static PAGES: PageHost = PageHost {
    assets: |_| "/.sealgate/".to_owned(),
    has_script: false,
    form_action: "'none'",
    in_language,
    error_link,
};

fn in_language(ctx: &RequestContext<'_>, language: &str) -> String {
    own_path("language", &[("lang", language), ("then", here(ctx).as_str())])
}

fn error_link<'c>(ctx: &'c RequestContext<'_>, problem: Problem) -> (String, LinkTarget<'c>) {
    let waiting_helps = matches!(
        problem,
        Problem::TooManyRequests { .. } | Problem::Upstream | Problem::Unavailable | Problem::Internal
    );
    match ctx.head.uri.path() {
        // An empty link reloads the page with its query.
        path if waiting_helps && ctx.head.method == Method::GET && !path.starts_with("/.sealgate/") => {
            (String::new(), LinkTarget::Again)
        }
        "/" => (format!("{}/account", ctx.sealgate.config.issuer.as_str()), LinkTarget::Account),
        _ => ("/".to_owned(), LinkTarget::Start),
    }
}

/// Returns the path of the requested page, or the start page if that path cannot be a return path.
fn here(ctx: &RequestContext<'_>) -> ReturnPath {
    let target = ctx.head.uri.path_and_query().map(PathAndQuery::as_str);
    target.and_then(ReturnPath::parse).unwrap_or_else(ReturnPath::home)
}

impl<'a> AppRequest<'a> {
    /// Creates the context of a new request.
    pub(super) fn new(
        sealgate: &'a Sealgate,
        head: &'a Parts,
        body: Body,
        app: &'a App,
        scopes: &'a [String],
        sessions: Sessions,
    ) -> Self {
        let context = RequestContext::new(sealgate, head, body, Recipient::Sender, &PAGES);
        let covered_host = app.covered_host(host(head));
        Self { context, app, scopes, sessions, covered_host }
    }

    /// Returns the public origin at which the application was requested.
    pub(super) fn public_origin(&self) -> String {
        self.app.origin_at(&self.sealgate.config.issuer, self.covered_host.as_ref())
    }

    /// Returns the host to which a session at a wildcard is bound. `None` if the application has an
    /// exact host.
    pub(super) fn bound_host(&self) -> Option<&str> {
        self.covered_host.as_ref().map(CoveredHost::as_str)
    }

    /// Returns the id of the internal client for sign-ins at this host.
    pub(super) fn client_id(&self) -> String {
        clients::id_of_app(self.app, self.covered_host.as_ref())
    }

    /// Returns the path of the request, to which the user can return.
    pub(super) fn here(&self) -> ReturnPath {
        here(self)
    }

    /// Returns whether the rule accepts application passwords over HTTP Basic.
    pub(super) fn takes_basic(&self, rule: &Rule) -> bool {
        rule.app_passwords && self.app.identity.app_password_header.is_none()
    }

    /// Returns a page whose form is submitted to the application.
    ///
    /// The page's security policy has no `form-action`, because browsers would also apply it to a
    /// redirect of the application. The page's referrer policy is `same-origin`. With a stricter
    /// policy, the browser would send the form without the application's `Origin`, which many
    /// applications check.
    pub(super) fn page_with_form(html: String) -> Response {
        Response::html(StatusCode::OK, html, None).with(http::header::REFERRER_POLICY, "same-origin")
    }

    /// Returns 403 for an authenticated user. Browsers get a page that names the account and offers
    /// to switch accounts.
    pub(super) fn forbidden(&self, who: Principal<'_>) -> Response {
        if !self.answers_with_pages() {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "This account has no access to this resource.");
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

    /// Returns 403 for a sign-in below the required level, if signing in again would not reach that
    /// level.
    ///
    /// Browsers get a page with the required level and a link back. If users may add factors
    /// themselves, the page also links to the security page.
    pub(super) fn weak_sign_in(&self, needed: AssuranceLevel, by_themselves: bool, again: &str) -> Response {
        if !self.answers_with_pages() {
            let refusal = Refusal::new(ErrorCode::AccessDenied, "This resource requires a stronger sign-in.");
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

    /// Returns 503 for a request to an application in maintenance. Browsers get a page with the
    /// operator's message. If some groups can use the application, the page offers to sign in with
    /// another account.
    pub(super) fn in_maintenance(&self) -> Response {
        const STATUS: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        let (settings, now) = (self.app.maintenance.as_ref(), self.now);
        let answer = if self.answers_with_pages() {
            let switch_account = own_path("switch-account", &[("then", here(self).as_str())]);
            let page = MaintenancePage {
                frame: self.frame(),
                app: self.app.called(),
                message: settings.and_then(|settings| settings.message.as_deref()),
                until: settings.and_then(|settings| settings.expected_end(now)),
                // An empty link reloads the page with its query.
                again: if self.head.method == Method::GET { "" } else { "/" },
                switch_account: settings
                    .is_some_and(|settings| !settings.groups.is_empty())
                    .then_some(&*switch_account),
                request_id: &self.origin.request_id,
            };
            let page = Response::html(STATUS, html(&page), Some(PAGES.form_action));
            if self.is_in_frame() { page.framed_by_own_origin() } else { page }
        } else {
            const REFUSAL: Refusal = Refusal::new(
                ErrorCode::TemporarilyUnavailable,
                "The application is under maintenance. Try again later.",
            );
            error(STATUS, &REFUSAL)
        };
        answer.retry_after(settings.map_or(0, |settings| settings.retry_seconds(now))).because("maintenance")
    }

    fn is_in_frame(&self) -> bool {
        Requester::from_headers(&self.head.headers) == Requester::Frame
    }

    /// Replaces the JSON of a refusal with a page, if the client shows pages. The application's
    /// pages may show this page in a frame.
    pub(super) fn as_page(&self, refused: Response, problem: Problem) -> Response {
        if !self.answers_with_pages() {
            return refused;
        }
        let page = self.problem(refused.status(), problem).with_challenges_of(&refused);
        if self.is_in_frame() { page.framed_by_own_origin() } else { page }
    }

    /// Returns whether the user's directory has not been read for so long that it is unknown
    /// whether the user still has access.
    pub(super) fn is_unknown(&self, user: &User) -> bool {
        self.sealgate.sources.is_stale(user, self.now)
    }

    /// Returns 503 for a user whose directory has not been read for too long.
    pub(super) fn directory_away(&self) -> GateReply {
        GateReply::new("directory_away", self.as_page(Failure::Unavailable.into_response(self), Problem::Unavailable))
    }

    /// Returns 503 for a failure of the store, or 500 if a retry would not help.
    pub(super) fn failed(&self, error: &StoreError) -> GateReply {
        if error.is_stale() {
            return GateReply::new("stale", Failure::Unavailable.into_response(self));
        }
        let (request_id, app) = (&self.origin.request_id, &self.app.name);
        if error.is_overload() {
            tracing::debug!(request_id, app, %error, "the store rejected a request");
        } else {
            tracing::error!(request_id, app, %error, "the store failed");
        }
        GateReply::new("failed", Failure::of_store(error).into_response(self))
    }

    /// Returns an error page for an application that did not respond. `None` if the client does not
    /// show pages.
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

/// Returns the path and query of one of Sealgate's own pages on an application's host.
pub(super) fn own_path(name: &str, parameters: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("/.sealgate/{name}?{query}")
}
