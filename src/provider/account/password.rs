//! `/account/password`: change of the password by a user who knows the current one.
//!
//! Users change a password when an attacker may know it. The change therefore ends the account's
//! other sessions, its app passwords and the grants of its applications.

use std::time::Duration;

use http::{Method, StatusCode};
use secrecy::SecretString;

use crate::sign_in::guesses;
use crate::sign_in::guesses::Guesses;
use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::limits::LimitScope;
use sealgate_core::password::{PasswordError, QueueKey};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::{AuthenticationMethod, AuthenticationStep};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::grant::EndReason;
use sealgate_domain::limiter::{LimitKey, Rule};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::password_rules::{Owner, PasswordFault};
use sealgate_domain::secret::Secret;
use sealgate_domain::session::Session;
use sealgate_domain::user::User;
use sealgate_pages::{Done, PasswordPage, PasswordProblem, html};
use sealgate_store::Revocation;

const PAGE: &str = "/account/password";

/// Maximum number of password changes of one account on this page.
///
/// Each change invalidates the reset links that were mailed before. An attacker who knows the
/// password could otherwise change it in a loop and keep the owner out. Password resets do not
/// count.
const CHANGES: Rule = Rule { limit: 5, window: Duration::from_hours(24) };

pub(super) async fn password_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::with_factor(ctx, PAGE).await?;
    if ctx.head.method != Method::POST {
        return Ok(show(ctx, &visitor, StatusCode::OK, None));
    }
    let form = visitor.form(ctx, PAGE)?;
    if visitor.user.source.is_some() {
        return Ok(show(ctx, &visitor, StatusCode::FORBIDDEN, None));
    }
    let (current, new) = match typed(&form)? {
        Ok(passwords) => passwords,
        Err(problem) => return Ok(show(ctx, &visitor, StatusCode::OK, Some(problem))),
    };
    let known = guesses::find_known_browser(ctx, Some(&visitor.user)).await?;
    let guesses = match Guesses::in_session(ctx, visitor.session.value.id, known.as_ref()).await {
        Ok(Ok(guesses)) => guesses,
        Err(Failure::Unavailable) => return Ok(busy(ctx, &visitor)),
        Err(other) => return Err(other),
        Ok(Err(seconds)) => {
            let problem = PasswordProblem::Throttled { seconds };
            let page = show(ctx, &visitor, StatusCode::TOO_MANY_REQUESTS, Some(problem));
            return Ok(page.retry_after(seconds));
        }
    };
    // Check the new password only after counting the attempt: the check costs as much as verifying
    // the current password.
    match check_new(ctx, &visitor.user, &new).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => {
            guesses.give_back(ctx);
            return Ok(show(ctx, &visitor, StatusCode::OK, Some(PasswordProblem::New(fault))));
        }
        Err(_) => {
            guesses.give_back(ctx);
            return Ok(busy(ctx, &visitor));
        }
    }
    // The commit that sets the password also opens the revocation. After a crash, the store
    // finishes the revocation, so that sessions opened with the old password end in any case.
    let revocation = ctx.sealgate.store.new_revocation(visitor.user.sub, EndReason::PasswordChanged, ctx.now);
    match change(ctx, guesses.queue(ctx), &visitor.user, &revocation, (&current, &new)).await {
        Ok(PasswordChange::TooMany { seconds }) => {
            let page = show(ctx, &visitor, StatusCode::TOO_MANY_REQUESTS, Some(PasswordProblem::TooManyChanges));
            Ok(page.retry_after(seconds))
        }
        Ok(PasswordChange::Set) => {
            guesses.give_back(ctx);
            finish(ctx, &visitor, &revocation).await
        }
        Ok(PasswordChange::WrongCurrent) => {
            let event = visitor.event(ctx, AuditKind::SignInFailed).with_detail("wrong, at the password change");
            ctx.sealgate.audit.note(event);
            Ok(show(ctx, &visitor, StatusCode::OK, Some(PasswordProblem::WrongCurrent)))
        }
        Err(Failure::Unavailable) => {
            guesses.give_back(ctx);
            Ok(busy(ctx, &visitor))
        }
        Err(other) => Err(other),
    }
}

/// Returns the page for an overloaded server. The password was not checked.
fn busy(ctx: &RequestContext<'_>, visitor: &Visitor) -> Response {
    let page = show(ctx, visitor, StatusCode::SERVICE_UNAVAILABLE, Some(PasswordProblem::Busy));
    page.retry_after(1)
}

/// Returns the current and the new password, or the problem with the form.
fn typed(form: &Params) -> Result<Result<(Secret, Secret), PasswordProblem>, Failure> {
    let field = |name| -> Result<Secret, Failure> { Ok(Secret::new(form.one(name)?.unwrap_or_default())) };
    let (current, new, again) = (field("current")?, field("new")?, field("again")?);
    if new != again {
        return Ok(Err(PasswordProblem::Different));
    }
    if new == current {
        return Ok(Err(PasswordProblem::Unchanged));
    }
    Ok(Ok((current, new)))
}

/// Checks whether the new password is acceptable.
///
/// The check uses the queue of the client's network, so that repeated checks by one user do not
/// delay users in known browsers.
async fn check_new(
    ctx: &RequestContext<'_>,
    user: &User,
    new: &Secret,
) -> Result<Result<(), PasswordFault>, PasswordError> {
    let owner = Owner::of(user);
    ctx.sealgate.passwords.check(QueueKey::for_address(ctx.origin.address), new, &owner).await
}

/// Result of a password change.
enum PasswordChange {
    Set,
    WrongCurrent,
    /// The account exceeded [`CHANGES`]. The next change is allowed after this time.
    TooMany {
        seconds: u64,
    },
}

/// Sets the new password if the current one is correct.
async fn change(
    ctx: &RequestContext<'_>,
    queue: QueueKey,
    user: &User,
    revocation: &Revocation,
    (current, new): (&Secret, &Secret),
) -> Result<PasswordChange, Failure> {
    let passwords = &ctx.sealgate.passwords;
    let Some(old) = &user.password else { return Ok(PasswordChange::WrongCurrent) };
    if !passwords.verify(queue, Some(old), SecretString::from(current.expose())).await? {
        return Ok(PasswordChange::WrongCurrent);
    }
    let key = LimitKey::text("password_changes", user.sub.as_bytes());
    let status = ctx.sealgate.limits.take(LimitScope::Cluster, &key, CHANGES, ctx.now).await;
    if let Some(seconds) = status.retry_after {
        return Ok(PasswordChange::TooMany { seconds });
    }
    let hash = passwords.hash(SecretString::from(new.expose()), ctx.random()).await?;
    // If another request has stored a password in the meantime, keep that password.
    let replace = |user: &mut User| {
        if user.password.as_ref() == Some(old) {
            // A user manager who set the current password can make this change too.
            user.set_password(hash.clone(), user.by_manager.password);
        }
    };
    let changed = ctx.sealgate.store.change_user_with(revocation, replace).await?;
    let is_set = changed.is_some_and(|user| user.password.as_ref() == Some(&hash));
    if !is_set {
        ctx.sealgate.store.close_revocation(revocation).await?;
    }
    Ok(if is_set { PasswordChange::Set } else { PasswordChange::WrongCurrent })
}

/// Ends all access that the old password gave, and moves this browser to a new session.
///
/// An attacker may have copied the old session's cookie and opened applications with it.
async fn finish(ctx: &RequestContext<'_>, visitor: &Visitor, revocation: &Revocation) -> Result<Response, Failure> {
    let subject = visitor.user.sub;
    let change = |session: &mut Session| {
        let mut sign_in = visitor.sign_in.clone();
        sign_in.steps.add(AuthenticationStep::new(AuthenticationMethod::Password, ctx.now));
        session.renew(sign_in, session.cookie, None, ctx.now);
        session.expires_at = ctx.now.plus(ctx.sealgate.config.sessions.absolute);
    };
    // `for_server` commits even if another revocation has ended this session.
    let store = &ctx.sealgate.store.for_server();
    let cookie = visitor.keep_this_session_only(ctx, store, None, change).await?;
    store.forget_browsers(subject, None).await?;
    store.end_app_passwords(subject).await?;
    store.end_api_tokens(subject).await?;
    store.end_registration_tokens(subject).await?;
    store.end_grants_of_user(subject, EndReason::PasswordChanged, ctx.now).await?;
    store.close_revocation(revocation).await?;
    ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::PasswordChanged));
    let response = Response::see_other(&visitor::done(ctx, PAGE, Done::Password));
    let marked = guesses::learn_browser(ctx, subject, None).await;
    let cookies = cookie.into_iter().chain(marked.map(|marked| marked.cookie));
    Ok(cookies.fold(response, Response::with_cookie))
}

fn show(ctx: &RequestContext<'_>, visitor: &Visitor, status: StatusCode, problem: Option<PasswordProblem>) -> Response {
    let csrf = &visitor.csrf(ctx, PAGE);
    let (account, is_managed) = (visitor.user.sign_in_name(), visitor.user.source.is_some());
    let upstream = visitor.upstream_label(ctx);
    let page = PasswordPage { inside: visitor.inside(ctx), csrf, account, is_managed, upstream, problem };
    Response::page(status, html(&page), None)
}
