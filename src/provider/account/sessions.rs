//! `/account/sessions`: the user's sessions, with buttons to end them.
//!
//! "Sign out everywhere else" ends all other sessions, the previous cookie of the current session,
//! and all grants. App passwords and factors stay valid. The page lists recently added ones with
//! buttons to remove them.

use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};

use super::{app_passwords, security};
use crate::account::security::factor_lines;
use crate::request::ProviderRequest as _;
use crate::sign_in::guesses;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::app_password::AppPassword;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::factors::Factors;
use sealgate_domain::grant::EndReason;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_pages::{Done, FactorLine, Problem, SessionsPage, html};

const PAGE: &str = "/account/sessions";

/// Age up to which app passwords and factors are listed on the page.
///
/// Ending sessions does not remove them, and an attacker may have added them.
const MAX_LISTED_AGE: Duration = Duration::from_hours(30 * 24);

pub(super) async fn sessions_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    if ctx.head.method != Method::POST {
        return show(ctx, &visitor).await;
    }
    let form = visitor.form(ctx, PAGE)?;
    let (store, subject) = (&ctx.sealgate.store, visitor.user.sub);
    let (mut cookie, mut is_own) = (None, false);
    let (done, said) = if form.has("others") {
        cookie = end_others(ctx, &visitor).await?;
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

/// Credentials of a user that stay valid when the user's sessions end.
struct Lasting {
    passwords: Vec<AppPassword>,
    factors: Option<Factors>,
}

impl Lasting {
    async fn find(ctx: &RequestContext<'_>, subject: Subject) -> Result<Self, Failure> {
        let store = &ctx.sealgate.store;
        let passwords = store.app_passwords(subject).await?.passwords;
        Ok(Self { passwords, factors: store.factors(subject).await?.map(|loaded| loaded.value) })
    }

    /// Returns the new app passwords with the titles of their applications, newest first.
    fn passwords<'a>(&'a self, ctx: &'a RequestContext<'_>) -> Vec<(&'a AppPassword, &'a str)> {
        let is_new = |password: &&AppPassword| is_new(ctx, password.created_at);
        self.passwords.iter().rev().filter(is_new).map(|one| (one, app_passwords::title(ctx, one))).collect()
    }

    /// Returns the new factors, oldest first.
    fn factors(&self, ctx: &RequestContext<'_>) -> Vec<FactorLine<'_>> {
        factor_lines(self.factors.as_ref()).into_iter().filter(|factor| is_new(ctx, factor.added_at)).collect()
    }
}

fn is_new(ctx: &RequestContext<'_>, added_at: UnixTime) -> bool {
    ctx.now.since(added_at) < MAX_LISTED_AGE
}

async fn show(ctx: &RequestContext<'_>, visitor: &Visitor) -> Result<Response, Failure> {
    let own = visitor.session.value.id;
    let mut sessions = visitor::live_sessions(ctx, visitor.user.sub).await?;
    sessions.sort_by_key(|session| (session.id != own, std::cmp::Reverse(session.last_seen_at)));
    let lasting = Lasting::find(ctx, visitor.user.sub).await?;
    let page = SessionsPage {
        inside: visitor.inside(ctx),
        new_passwords: &lasting.passwords(ctx),
        passwords_csrf: &visitor.csrf(ctx, app_passwords::PAGE),
        new_factors: &lasting.factors(ctx),
        factors_csrf: &visitor.csrf(ctx, security::PAGE),
        csrf: &visitor.csrf(ctx, PAGE),
        subject: visitor.user.sub,
        own,
        sessions: &sessions,
        switch_account: &ctx.sign_in_address("/account", &[("prompt", "select_account")]),
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}
