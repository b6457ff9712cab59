//! Authentication with application passwords. Programs send the password with HTTP Basic (RFC
//! 7617), or in the header that the application's configuration names.
//!
//! Only rules with `app_passwords` accept application passwords. A request with an application
//! password is never redirected to the sign-in page. The application never receives the password.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::task::JoinSet;

use crate::credential;
use crate::decide::GateReply;
use crate::policy::{Credential, Program};
use crate::refusal::refuse_repeated;
use crate::request::AppRequest;
use sealgate_config::IdentityHeaders;
use sealgate_core::state::Sealgate;
use sealgate_core::web::failure::error;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::limiter::LimitKey;
use sealgate_domain::oauth::credentials;
use sealgate_domain::oauth::credentials::NamedPassword;
use sealgate_domain::pace::Pace;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};
use sealgate_edge::navigation;

const WRONG_PASSWORD: Refusal = Refusal::new(
    ErrorCode::LoginRequired,
    "The username or the application password is wrong. Users create application passwords on their account page.",
);

/// Verifies the application password of a request. A wrong name, a wrong password and the password
/// of another application get the same refusal.
pub(super) async fn credential(ctx: &AppRequest<'_>, noted: &AppPasswordUses) -> Result<Credential, GateReply> {
    let headers = &ctx.head.headers;
    // If there are two `Authorization` headers, the gateway and the application could read
    // different ones.
    if credential::is_repeated(headers) {
        return Err(refuse_repeated(ctx, &AUTHORIZATION));
    }
    let given = match &ctx.app.identity.app_password_header {
        Some(name) => only_value(headers, name).and_then(credentials::unencoded_password),
        None => headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).and_then(credentials::named_password),
    };
    let Some(NamedPassword { name, password }) = given else {
        return Err(refuse_wrong_password(ctx, None));
    };
    let store = &ctx.sealgate.store;
    // For an unknown name, the store is read in the same way, so that the response time hardly
    // shows whether the name exists. The name is trimmed, because phone keyboards append a space.
    // E-mail addresses and usernames never begin or end with a space.
    let user = store.user_by_sign_in_name(name.trim()).await.map_err(|error| ctx.failed(&error))?;
    let whose = user.as_ref().map_or(unused_subject(), |user| user.sub);
    let passwords = store.app_passwords(whose).await.map_err(|error| ctx.failed(&error))?;
    let hash = password.hash();
    let Some(found) = passwords.find(&ctx.app.name, &hash) else {
        return Err(refuse_wrong_password(ctx, user.as_ref()));
    };
    match user {
        Some(user) if user.is_enabled() => {
            if !ctx.is_again() {
                noted.note(user.sub, &hash, found.last_used_at, ctx.now);
            }
            let required = ctx.level_in_force(&user).await.map_err(|error| ctx.failed(&error))?;
            Ok(Credential::Program(Arc::new(Program { user, level: found.level, required })))
        }
        user => Err(refuse_wrong_password(ctx, user.as_ref())),
    }
}

/// Returns the value of a header. `None` if the header is missing or repeated.
fn only_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut fields = headers.get_all(name).iter();
    let only = fields.next()?;
    fields.next().is_none().then_some(only.as_bytes())
}

fn unused_subject() -> Subject {
    Subject::from_random([0; 16])
}

/// Refuses a wrong password: 401, or 429 if the client address has sent too many wrong passwords.
///
/// The limit bounds the growth of the log and the audit log. It does not have to prevent guessing,
/// because passwords have 160 random bits. Each node counts separately. That is sufficient, because
/// the limit never applies to a valid password.
fn refuse_wrong_password(ctx: &AppRequest<'_>, user: Option<&User>) -> GateReply {
    let refused = || {
        let answer = error(StatusCode::UNAUTHORIZED, &WRONG_PASSWORD);
        let by_basic = ctx.app.identity.app_password_header.is_none();
        if by_basic { answer.with(WWW_AUTHENTICATE, &challenge(ctx)) } else { answer }
    };
    if ctx.is_again() {
        return GateReply::new("wrong_password", refused());
    }
    let settings = &ctx.sealgate.config.login;
    let key = LimitKey::address("basic_address", ctx.origin.address);
    let pace = Pace::even(settings.failures_per_address, settings.window.max(Duration::from_secs(1)));
    if let Err(seconds) = ctx.sealgate.limits.count_failure_here(key, pace, ctx.now) {
        let refusal = Refusal::new(ErrorCode::RateLimitExceeded, "Too many wrong passwords came from this address.");
        let answer = error(StatusCode::TOO_MANY_REQUESTS, &refusal);
        return GateReply::new("throttled", answer.retry_after(seconds));
    }
    let event = ctx.event(AuditKind::SignInFailed, Actor::Stranger).in_app(&ctx.app.name);
    let event = event.with_detail("application password");
    ctx.sealgate.audit.note(user.into_iter().fold(event, |event, user| event.for_subject(user.sub)));
    GateReply::new("wrong_password", refused())
}

fn challenge(ctx: &AppRequest<'_>) -> String {
    format!("Basic realm=\"{}\", charset=\"UTF-8\"", ctx.app.name)
}

/// Replaces the challenge of a refusal with a Basic challenge, except for browsers.
///
/// Container tools such as skopeo and Docker treat the realm of a Bearer challenge as the address
/// of a token service, and fail. OAuth clients do not need the Bearer challenge, because the
/// protected-resource metadata has a well-known path. Browsers get no Basic challenge, because they
/// would show a password prompt. Browsers are recognized by Fetch Metadata headers, which programs
/// do not send.
pub(super) fn with_basic_challenge(ctx: &AppRequest<'_>, answer: Response) -> Response {
    if navigation::is_by_browser(&ctx.head.headers) {
        return answer;
    }
    match HeaderValue::try_from(challenge(ctx)) {
        Ok(value) => answer.with_value(WWW_AUTHENTICATE, value),
        Err(_) => answer,
    }
}

/// Returns whether a request has an application password. Does not verify the password.
pub(super) fn is_presented(headers: &HeaderMap, identity: &IdentityHeaders) -> bool {
    match &identity.app_password_header {
        Some(name) => headers.contains_key(name),
        None => is_basic(headers),
    }
}

/// Returns whether `Authorization` has an application password. Does not verify the password.
pub(super) fn is_in_authorization(headers: &HeaderMap, identity: &IdentityHeaders) -> bool {
    identity.app_password_header.is_none() && is_basic(headers)
}

/// Returns whether the only `Authorization` header of a request has the Basic scheme.
fn is_basic(headers: &HeaderMap) -> bool {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let first = fields.next().is_some_and(|field| credentials::is_basic(field.as_bytes()));
    first && fields.next().is_none()
}

/// Queue of uses of application passwords that are not yet written to the store. If the queue is
/// full, a new use is dropped. Then the next request with the same password tries again to add its
/// use.
#[derive(Debug, Default)]
pub(super) struct AppPasswordUses(Mutex<HashMap<PasswordId, UnixTime>>);

/// Owner and hash of an application password.
type PasswordId = (Subject, [u8; 32]);

/// Maximum number of queued uses.
const MAX_USES: usize = 10_000;

/// Maximum number of concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 64;

/// Time after a recorded use in which further uses of the same password are not recorded.
const LAST_USE_PRECISION: Duration = Duration::from_mins(1);

impl AppPasswordUses {
    fn note(&self, subject: Subject, hash: &SecretHash, last_used_at: Option<UnixTime>, now: UnixTime) {
        if last_used_at.is_some_and(|last| now.since(last) < LAST_USE_PRECISION) {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_USES {
            waiting.insert((subject, *hash.as_bytes()), now);
        }
    }

    /// Writes the queued uses to the store. Concurrent writes share one flush to disk.
    pub(super) async fn write(&self, sealgate: &Sealgate) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let waiting: Vec<(PasswordId, UnixTime)> = waiting.into_iter().collect();
        for batch in waiting.chunks(MAX_CONCURRENT_WRITES) {
            let mut noting = JoinSet::new();
            for &((subject, hash), at) in batch {
                let store = Arc::clone(&sealgate.store);
                noting.spawn(async move { store.note_app_password(subject, &hash, at).await });
            }
            for noted in noting.join_all().await {
                // The next requests with these passwords queue the uses again.
                if let Err(error) = noted {
                    tracing::warn!(%error, "cannot save the last use of application passwords");
                    return;
                }
            }
        }
    }
}
