//! `/account/sessions`: everything that has access to the user's account, with buttons to end it.
//!
//! "Sign out everywhere else" ends all other sessions, the previous cookie of the current session,
//! and all grants. App passwords and factors stay valid. The page lists recently added factors with
//! buttons to remove them. "End everything" also ends the current session and the app passwords.
//!
//! Ending an access needs no recent sign-in, because it only takes access away.

use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};

use super::{app_logins, app_passwords, applications, security};
use crate::accesses;
use crate::accesses::AccessRows;
use crate::account::security::factor_lines;
use crate::request::ProviderRequest as _;
use crate::sign_in::guesses;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_admin::open_accesses;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::client::ClientId;
use sealgate_domain::grant::EndReason;
use sealgate_domain::open_access::AccessKind;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_pages::{Done, FactorLine, Problem, SessionsPage, html};

const PAGE: &str = "/account/sessions";

/// Maximum age of the factors that the page lists.
///
/// An attacker may have added a factor, and ending the sessions does not remove it.
const MAX_LISTED_AGE: Duration = Duration::from_hours(30 * 24);

pub(super) async fn sessions_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    if ctx.head.method != Method::POST {
        return show(ctx, &visitor).await;
    }
    let form = visitor.form(ctx, PAGE)?;
    if form.has("everything") {
        return end_everything(ctx, &visitor).await;
    }
    if form.has("others") {
        let cookie = end_others(ctx, &visitor).await?;
        ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::SessionsEnded).with_detail("all others"));
        let response = Response::see_other(&visitor::done(ctx, PAGE, Done::OtherSessions));
        return Ok(cookie.into_iter().fold(response, Response::with_cookie));
    }
    let invalid = || Failure::page(Problem::InvalidRequest);
    let (kind, id) = accesses::chosen(&form)?.ok_or_else(invalid)?;
    let mut is_own = false;
    let done = match kind {
        AccessKind::Session => {
            let id = SessionId::parse(id).ok_or_else(invalid)?;
            is_own = end_session(ctx, &visitor, id).await? && id == visitor.session.value.id;
            Done::Session
        }
        AccessKind::AppSession => {
            end_app_session(ctx, &visitor, SessionId::parse(id).ok_or_else(invalid)?).await?;
            Done::Session
        }
        AccessKind::Client => {
            applications::withdraw(ctx, &visitor, &ClientId::parse(id).ok_or_else(invalid)?).await?;
            Done::Withdrawn
        }
        AccessKind::AppPassword => {
            app_passwords::revoke(ctx, &visitor, id).await?;
            Done::AppPassword
        }
        AccessKind::AppLogin => {
            app_logins::remove(ctx, &visitor, id).await?;
            Done::AppLoginRemoved
        }
    };
    let response = Response::see_other(&visitor::done(ctx, PAGE, done));
    Ok(if is_own { response.clearing_cache() } else { response })
}

/// Ends the session if the user is signed in in it. Returns whether it was ended.
///
/// A session id is not secret, so the form may contain the id of another user's session.
async fn end_session(ctx: &RequestContext<'_>, visitor: &Visitor, id: SessionId) -> Result<bool, Failure> {
    let store = &ctx.sealgate.store;
    let theirs = store.session(id).await?.is_some_and(|session| session.value.sign_in_of(visitor.user.sub).is_some());
    if theirs {
        store.end_session(id).await?;
        let event = visitor.event(ctx, AuditKind::SessionsEnded);
        ctx.sealgate.audit.note(event.with_detail(format!("session {id}")));
    }
    Ok(theirs)
}

async fn end_app_session(ctx: &RequestContext<'_>, visitor: &Visitor, id: SessionId) -> Result<(), Failure> {
    if let Some(ended) = open_accesses::end_app_session(&ctx.sealgate.store, visitor.user.sub, id).await? {
        let event = visitor.event(ctx, AuditKind::SessionsEnded).in_app(&ended.app);
        ctx.sealgate.audit.note(event.with_detail(format!("session {}", ended.parent)));
    }
    Ok(())
}

/// Ends all sessions, grants and app passwords of the user, and signs this browser out.
async fn end_everything(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Response, Failure> {
    let ended = ctx.sealgate.store.revoke_user(visitor.user.sub, EndReason::Revoked, ctx.now).await?;
    ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::UserRevoked).with_detail(ended.to_string()));
    let response = Response::see_other(&ctx.path("/oauth/signed-out"));
    Ok(response.with_cookie(cookie::expire(ctx.cookies.session, ctx.cookies.secure)).clearing_cache())
}

/// Ends all grants and all other sessions of the user. Returns the new cookie of the current
/// session.
async fn end_others(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Option<HeaderValue>, Failure> {
    let (store, subject) = (&ctx.sealgate.store, visitor.user.sub);
    store.for_server().end_partial_sign_ins(subject).await?;
    // The commit that changes the last session also stores the revocation. After a crash, the store
    // finishes the revocation and ends all access of the user.
    let revocation = store.new_revocation(subject, EndReason::Revoked, ctx.now);
    let cookie = visitor.keep_this_session_only(ctx, store, Some(&revocation), |_| ()).await?;
    // Each session has now ended or changed its id, so the earlier sessions create no new grants.
    // End the grants of the current session too, because an attacker with a copy of its cookie may
    // have signed in to a client. `for_server` commits even if the current session has ended.
    let store = &store.for_server();
    store.end_grants_of_user(subject, EndReason::Revoked, ctx.now).await?;
    let known = guesses::find_known_browser(ctx, Some(&visitor.user)).await?;
    store.forget_browsers(subject, known.map(|known| known.mark)).await?;
    store.close_revocation(&revocation).await?;
    Ok(cookie)
}

fn is_new(ctx: &RequestContext<'_>, added_at: UnixTime) -> bool {
    ctx.now.since(added_at) < MAX_LISTED_AGE
}

async fn show(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Response, Failure> {
    let (subject, own) = (visitor.user.sub, Some(visitor.session.value.id));
    let accesses = AccessRows::find(ctx, subject, PAGE, own, &AccessKind::ALL).await?;
    let factors = ctx.sealgate.store.factors(subject).await?.map(|loaded| loaded.value);
    let factors = factor_lines(factors.as_ref());
    let new_factors: Vec<FactorLine<'_>> = factors.into_iter().filter(|factor| is_new(ctx, factor.added_at)).collect();
    let page = SessionsPage {
        inside: visitor.inside(ctx),
        csrf: &visitor.csrf(ctx, PAGE),
        own,
        accesses: accesses.table(),
        is_elsewhere: accesses.is_elsewhere,
        new_factors: &new_factors,
        factors_csrf: &visitor.csrf(ctx, security::PAGE),
        switch_account: &ctx.sign_in_address("/account", &[("prompt", "select_account")]),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
