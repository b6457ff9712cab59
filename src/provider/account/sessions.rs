//! `/account/sessions`: the user's sessions, with buttons to end them.

use http::{Method, StatusCode};

use crate::known_browser;
use crate::request::ProviderRequest as _;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::grant::EndReason;
use sealgate_domain::session::SessionId;
use sealgate_pages::{Done, Problem, SessionsPage, html};

const PAGE: &str = "/account/sessions";

pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    if ctx.head.method != Method::POST {
        return show(ctx, &visitor).await;
    }
    let form = visitor.form(ctx, PAGE)?;
    let (store, subject) = (&ctx.sealgate.store, visitor.user.sub);
    let (mut cookie, mut is_own) = (None, false);
    let (done, said) = if form.has("others") {
        cookie = visitor.keep_this_session_only(ctx, store, |_| ()).await?;
        // The sessions have ended, so no new grants come from them. If this session has ended too,
        // its grants end as well, and the guard of the page would refuse the commits.
        let kept = cookie.is_some().then_some(visitor.session.value.id);
        store.for_server().end_other_grants_of_user(subject, kept, EndReason::Revoked, ctx.now).await?;
        let known = known_browser::find(ctx, Some(&visitor.user)).await?;
        store.forget_browsers(subject, known.map(|known| known.mark)).await?;
        (Done::OtherSessions, Some("all others".to_owned()))
    } else {
        let id = form.one("session")?.and_then(SessionId::parse);
        let id = id.ok_or(Failure::page(Problem::InvalidRequest))?;
        // A session id is not secret. The user may end a session only if they are signed in there.
        let theirs = store.session(id).await?.is_some_and(|session| session.value.sign_in_of(subject).is_some());
        if theirs {
            store.end_session(id).await?;
            is_own = id == visitor.session.value.id;
        }
        (Done::Session, theirs.then(|| format!("session {id}")))
    };
    if let Some(said) = said {
        ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::SessionsEnded).with_detail(said));
    }
    let response = Response::see_other(&visitor::done(ctx, PAGE, done));
    let response = if is_own { response.clearing_cache() } else { response };
    Ok(cookie.into_iter().fold(response, Response::with_cookie))
}

async fn show(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Response, Failure> {
    let own = visitor.session.value.id;
    let mut sessions = visitor::live_sessions(ctx, visitor.user.sub).await?;
    sessions.sort_by_key(|session| (session.id != own, std::cmp::Reverse(session.last_seen_at)));
    let page = SessionsPage {
        inside: visitor.inside(ctx),
        csrf: &visitor.csrf(ctx, PAGE),
        subject: visitor.user.sub,
        own,
        sessions: &sessions,
        switch_account: &ctx.sign_in_address("/account", &[("prompt", "select_account")]),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
