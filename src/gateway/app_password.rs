//! Application passwords at the gate: HTTP Basic (RFC 7617) for programs that can do nothing else, on routes that allow it.
//! Such a program is never sent to a page, and what it sent never reaches the application.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::task::JoinSet;

use crate::app::state::Sealgate;
use crate::domain::audit::{Actor, AuditKind};
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::pace::Pace;
use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::user::{Subject, User};
use crate::gateway::outcome::GateReply;
use crate::gateway::policy::Credential;
use crate::gateway::request::AppRequest;
use crate::limiter::LimitKey;
use crate::oauth::credentials::{self, NamedPassword};
use crate::web::failure::error;
use crate::web::navigation;
use crate::web::response::Response;

const WRONG: Refusal = Refusal::new(
    ErrorCode::LoginRequired,
    "The name or the application password is not right. People make application passwords on their account page.",
);

/// Who presents an application password; where it is none of this application's, a refusal that tells no more than that.
pub(super) async fn credential(ctx: &AppRequest<'_>, noted: &AppPasswordUses) -> Result<Credential, GateReply> {
    let field = ctx.head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some(NamedPassword { name, password }) = field.and_then(credentials::named_password) else {
        return Err(wrong(ctx, None));
    };
    let store = &ctx.sealgate.store;
    // The same look-ups whether or not there is such a person, so that the time tells little.
    // No address and no username has blanks around it; the keyboards of phones write one behind a name.
    let user = store.user_by_sign_in_name(name.trim()).await.map_err(|error| ctx.failed(&error))?;
    let whose = user.as_ref().map_or(nobody(), |user| user.sub);
    let passwords = store.app_passwords(whose).await.map_err(|error| ctx.failed(&error))?;
    let hash = password.hash();
    let Some(found) = passwords.find(&ctx.app.name, &hash) else { return Err(wrong(ctx, user.as_ref())) };
    match user {
        Some(user) if user.is_enabled() => {
            if !ctx.is_again() {
                noted.note(user.sub, &hash, found.last_used_at, ctx.now);
            }
            Ok(Credential::Program(Arc::new(user)))
        }
        user => Err(wrong(ctx, user.as_ref())),
    }
}

fn nobody() -> Subject {
    Subject::from_random([0; 16])
}

/// 401, or 429 to an address that goes on and on. Nobody guesses 160 bits: this keeps the trail and the log short, and shuts
/// out nobody who has a right one. So each node counts for itself.
fn wrong(ctx: &AppRequest<'_>, user: Option<&User>) -> GateReply {
    let refused = || error(StatusCode::UNAUTHORIZED, &WRONG).with(WWW_AUTHENTICATE, &challenge(ctx));
    if ctx.is_again() {
        return GateReply::new("wrong_password", refused());
    }
    let settings = &ctx.sealgate.config.login;
    let key = LimitKey::address("basic_address", ctx.origin.address);
    let pace = Pace::even(settings.failures_per_address, settings.window.max(Duration::from_secs(1)));
    if let Err(seconds) = ctx.sealgate.limits.count_failure_here(key, pace, ctx.now) {
        let refusal = Refusal::new(ErrorCode::RateLimitExceeded, "Too many wrong passwords came from this address.");
        let answer = error(StatusCode::TOO_MANY_REQUESTS, &refusal);
        return GateReply::new("throttled", answer.with(RETRY_AFTER, &seconds.to_string()));
    }
    let event = ctx.event(AuditKind::SignInFailed, Actor::Stranger).in_app(&ctx.app.name);
    let event = event.with_detail("application password");
    ctx.sealgate.audit.note(user.into_iter().fold(event, |event, user| event.of(user.sub)));
    GateReply::new("wrong_password", refused())
}

fn challenge(ctx: &AppRequest<'_>) -> String {
    format!("Basic realm=\"{}\", charset=\"UTF-8\"", ctx.app.name)
}

/// Offers Basic in place of what an answer offers. Container tools (skopeo, Docker) take the realm of a Bearer challenge for the
/// address of a token service and fail. OAuth clients find the protected-resource metadata at its well-known path. A browser
/// is not offered Basic, or it would put up a window of its own that asks for a password: browsers say which kind of request it
/// is (Fetch Metadata), programs do not.
pub(super) fn offered(ctx: &AppRequest<'_>, answer: Response) -> Response {
    if navigation::is_by_browser(&ctx.head.headers) {
        return answer;
    }
    match HeaderValue::try_from(challenge(ctx)) {
        Ok(value) => answer.with_value(WWW_AUTHENTICATE, value),
        Err(_) => answer,
    }
}

/// Whether a request presents something by Basic, whatever it is worth. Two of them are refused like two tokens.
pub(super) fn is_presented(headers: &HeaderMap) -> bool {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let first = fields.next().is_some_and(|field| credentials::is_basic(field.as_bytes()));
    first && fields.next().is_none()
}

/// Application passwords that were used and are to be noted so. Those that find no room are noted at their next request.
#[derive(Debug, Default)]
pub(super) struct AppPasswordUses(Mutex<HashMap<Used, UnixTime>>);

/// Whose, and its hash.
type Used = (Subject, [u8; 32]);

/// Those that may wait to be noted.
const MOST_USES: usize = 10_000;

/// Those that are noted at once.
const AT_ONCE: usize = 64;

/// How exactly the last use is known.
const EXACT: Duration = Duration::from_mins(1);

impl AppPasswordUses {
    fn note(&self, subject: Subject, hash: &SecretHash, last_used_at: Option<UnixTime>, now: UnixTime) {
        if last_used_at.is_some_and(|last| now.since(last) < EXACT) {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST_USES {
            waiting.insert((subject, *hash.as_bytes()), now);
        }
    }

    /// Writes what was taken down to the store: many at once, since a disk takes as long for one as for all that wait.
    pub(super) async fn write(&self, sealgate: &Sealgate) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let waiting: Vec<(Used, UnixTime)> = waiting.into_iter().collect();
        for batch in waiting.chunks(AT_ONCE) {
            let mut noting = JoinSet::new();
            for &((subject, hash), at) in batch {
                let store = Arc::clone(&sealgate.store);
                noting.spawn(async move { store.note_app_password(subject, &hash, at).await });
            }
            for noted in noting.join_all().await {
                // Their next request takes them down again.
                if let Err(error) = noted {
                    tracing::warn!(%error, "that application passwords are in use could not be noted");
                    return;
                }
            }
        }
    }
}
