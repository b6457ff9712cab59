//! Requests to an application where the gateway signs users in with the application's login form.

use http::header::{RETRY_AFTER, USER_AGENT};
use http::{Method, StatusCode};

use crate::decide::GateReply;
use crate::policy::{AccessRequest, Permit, SignedIn};
use crate::request::{AppRequest, own_path};
use crate::upstream_session::{LoginRefusal, SharedSession, UpstreamSessions};
use sealgate_core::web::failure::error;
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_edge::navigation;
use sealgate_pages::{AppLoginPage, AppLoginProblem, Problem, html};

/// Value of `Retry-After`, in seconds, when the sign-in to the application failed or took too long.
const RETRY_SECONDS: &str = "5";

/// Adds the user's session at the application to the permit. Signs the user in first if necessary.
pub(super) async fn add_session(
    ctx: &AppRequest<'_>,
    asked: &AccessRequest<'_>,
    sessions: &UpstreamSessions,
    signed_in: &SignedIn,
    permit: Permit,
) -> Result<Permit, GateReply> {
    if let Some(refused) = refuse_other_origin(ctx) {
        return Err(refused);
    }
    if sessions.is_sign_out(&ctx.head.method, asked.path_and_query) {
        let status = if ctx.head.method == Method::GET { StatusCode::FOUND } else { StatusCode::SEE_OTHER };
        return Err(GateReply::new("app_sign_out", Response::redirect(status, "/.sealgate/logout")));
    }
    let (address, user_agent) = (ctx.origin.address_text(), ctx.head.headers.get(USER_AGENT));
    match sessions.open(ctx.sealgate, signed_in, &address, user_agent, ctx.now).await {
        Ok(session) => Ok(permit.with_session(SharedSession(session))),
        Err(refusal) => Err(refuse(ctx, &refusal)),
    }
}

/// Refuses a request that may change state, unless the browser reports that a page of the
/// application's own origin or the user caused the request.
///
/// The gateway keeps the application's cookies, and the browser does not have them. So the cookies'
/// `SameSite` attribute cannot prevent such a request.
fn refuse_other_origin(ctx: &AppRequest<'_>) -> Option<GateReply> {
    let is_safe = matches!(ctx.head.method, Method::GET | Method::HEAD | Method::OPTIONS);
    if is_safe || navigation::is_of_own_origin(&ctx.head.headers, &ctx.public_origin()) {
        return None;
    }
    tracing::info!(request_id = ctx.origin.request_id, app = ctx.app.name, reason = "cross_origin", "refused");
    let refusal = Refusal::new(ErrorCode::AccessDenied, "A page of another origin may not send this request.");
    Some(GateReply::new("cross_origin", ctx.refuse(StatusCode::FORBIDDEN, &refusal, Problem::InvalidRequest)))
}

fn refuse(ctx: &AppRequest<'_>, refusal: &LoginRefusal) -> GateReply {
    let problem = match refusal {
        LoginRefusal::Store(error) => return ctx.failed(error),
        LoginRefusal::Failed | LoginRefusal::Late => {
            let unavailable = Refusal::new(ErrorCode::TemporarilyUnavailable, "The sign-in to the application failed.");
            let answer = ctx.refuse(StatusCode::SERVICE_UNAVAILABLE, &unavailable, Problem::Upstream);
            return GateReply::new(refusal.as_str(), answer.with(RETRY_AFTER, RETRY_SECONDS));
        }
        LoginRefusal::NoCredential => AppLoginProblem::Missing,
        LoginRefusal::WrongPassword => AppLoginProblem::Refused,
        LoginRefusal::WrongServicePassword => AppLoginProblem::ServiceAccount,
    };
    if !navigation::reads_pages(ctx.head) {
        let description = "The application needs the user's sign-in data. Open the application in a browser.";
        return GateReply::new(
            refusal.as_str(),
            error(StatusCode::FORBIDDEN, &Refusal::new(ErrorCode::AccessDenied, description)),
        );
    }
    let app = [("app", ctx.app.name.as_str())];
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(app).finish();
    let here = ctx.here();
    let page = AppLoginPage {
        frame: ctx.frame(),
        app: ctx.app.called(),
        problem,
        account_page: &format!("{}/account/app-logins?{query}", ctx.sealgate.config.issuer.as_str()),
        again: here.as_str(),
        switch_account: &own_path("switch-account", &[("then", here.as_str())]),
    };
    GateReply::new(refusal.as_str(), Response::html(StatusCode::FORBIDDEN, html(&page), None))
}
