//! Authentication of requests to the admin API.
//!
//! Only `Authorization: Bearer` counts; cookies never do. A token works while it is stored and has not
//! expired, and while its creator is an enabled administrator. Each commit checks this again: see
//! [`Store::for_api_token`](sealgate_store::Store::for_api_token).

use std::time::Duration;

use super::problem::ApiProblem;
use crate::request::ProviderRequest as _;
use sealgate_config::Console;
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::api_token::{ApiScope, ApiToken};
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::limiter::LimitKey;
use sealgate_domain::pace::Pace;
use sealgate_domain::user::User;
use sealgate_store::{ProtectedUsers, UserRule};

/// Returns the token of a request.
///
/// # Errors
/// 401 without a working token, 429 if the address has sent too many wrong tokens, 503 if the store
/// fails.
pub(super) async fn authenticate(ctx: &RequestContext<'_>) -> Result<ApiToken, ApiProblem> {
    let presented = match ctx.bearer() {
        Ok(presented) => presented,
        Err(Failure::Bearer(Some(_))) => return Err(ApiProblem::malformed("The Authorization header is malformed.")),
        Err(_) => return Err(ApiProblem::no_token()),
    };
    let store = &ctx.sealgate.store;
    let basis = store.basis()?;
    let token = match ApiToken::hash_of(presented) {
        Some(hash) => store.api_token(&hash).await?,
        None => None,
    };
    let token = token.filter(|token| token.is_live(ctx.now));
    let creator = match token.as_ref().and_then(|token| token.creator) {
        Some(subject) => Some(store.user(subject).await?),
        None => None,
    };
    store.ensure_current(&basis)?;
    let console = &ctx.sealgate.config.console;
    let may_use =
        |user: &Option<User>| user.as_ref().is_some_and(|user| user.is_enabled() && console.is_administrator(user));
    match (token, creator) {
        (Some(token), None) => Ok(token),
        (Some(token), Some(user)) if may_use(&user) => Ok(token),
        _ => Err(refuse(ctx)),
    }
}

/// Refuses a wrong token: 401, or 429 if the address has sent too many wrong tokens.
///
/// The limit bounds the growth of the log and the audit log. It does not have to prevent guessing,
/// because a token has 256 random bits, and it never applies to a working token.
fn refuse(ctx: &RequestContext<'_>) -> ApiProblem {
    let settings = &ctx.sealgate.config.login;
    let key = LimitKey::address("api_token", ctx.origin.address);
    let pace = Pace::even(settings.failures_per_address, settings.window.max(Duration::from_secs(1)));
    if let Err(seconds) = ctx.sealgate.limits.count_failure_here(key, pace, ctx.now) {
        return ApiProblem::too_many(seconds, "Too many wrong tokens came from this address.");
    }
    ctx.sealgate.audit.note(ctx.event(AuditKind::SignInFailed, Actor::Stranger).with_detail("api token"));
    ApiProblem::invalid_token()
}

/// Returns the state for a request with this token. Its store refuses commits that the token does not permit.
///
/// A client that is disabled or deleted loses its grants of all users. Therefore `clients:write` is the
/// only scope that ends access of administrators too.
pub(super) fn guarded(ctx: &RequestContext<'_>, token: &ApiToken, scope: ApiScope) -> Sealgate {
    let console = ctx.sealgate.config.console.clone();
    let creator = UserRule::new(move |user| console.is_administrator(user));
    let console = ctx.sealgate.config.console.clone();
    let access = scope != ApiScope::ClientsWrite;
    let protected = (!token.has(ApiScope::AdminsWrite))
        .then(|| ProtectedUsers { rule: UserRule::new(move |user| has_role(&console, user)), access });
    ctx.sealgate.for_api_token(token, creator, protected)
}

/// Records the use of a token, at most once an hour.
pub(super) async fn note_use(ctx: &RequestContext<'_>, token: &ApiToken) {
    if token.is_use_due(ctx.now)
        && let Err(error) = ctx.sealgate.store.note_api_token(&token.hash, ctx.now).await
    {
        // The next request tries again.
        tracing::warn!(token = %token.id(), %error, "cannot save the last use of an API token");
    }
}

/// Returns whether the user has a console role, or would have one if the console were enabled.
pub(super) fn has_role(console: &Console, user: &User) -> bool {
    !user.roles.is_empty() || console.role_groups().any(|(group, _)| user.is_in_group(group))
}
