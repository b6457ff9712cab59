//! Signed assertions: JWTs about the user of a request. The application verifies them with the
//! published keys.
//!
//! The PKCS#11 token needs milliseconds for a signature, too long for every request. So assertions
//! are cached by claims and signing key, and are renewed before they expire. When an assertion must
//! be renewed, one request signs a new assertion. Concurrent requests use the old assertion. If the
//! old assertion has expired, they wait for the new assertion.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use crate::principal::Principal;
use crate::request::AppRequest;
use sealgate_config::App;
use sealgate_core::state::Sealgate;
use sealgate_domain::oauth::claims::AssertionClaims;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;

/// Lifetime of an assertion.
const LIFETIME: Duration = Duration::from_mins(5);
/// Minimum remaining lifetime of a forwarded assertion. The application's clock may be ahead of the
/// gateway's.
const MIN_REMAINING: Duration = Duration::from_mins(1);
/// Remaining lifetime below which a new assertion is signed.
const RENEWAL_REMAINING: Duration = Duration::from_mins(2);
/// Maximum number of cached assertions, about 1.5 KiB each.
const MAX_CACHED_ASSERTIONS: usize = 8192;

pub(super) struct Assertions(Cache<[u8; 32], Arc<CachedAssertion>>);

struct CachedAssertion {
    token: String,
    expires_at: UnixTime,
    renewing: AtomicBool,
}

impl CachedAssertion {
    fn remaining(&self, now: UnixTime) -> Duration {
        self.expires_at.since(now)
    }
}

impl Default for Assertions {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED_ASSERTIONS))
    }
}

impl Assertions {
    /// Returns an assertion about this user for the application of the request. Logs an error and returns `None`
    /// if the PKCS#11 token cannot sign.
    pub(super) async fn about(
        &self,
        ctx: &AppRequest<'_>,
        who: Principal<'_>,
        session: Option<SessionId>,
    ) -> Option<String> {
        let (sealgate, app, now) = (ctx.sealgate, ctx.app, ctx.now);
        let claims = claims(ctx, who, session);
        let key = key(sealgate, &claims, app.alg);
        if let Some(cached) = self.0.get(&key) {
            // If the clock was set back, the remaining time is longer than a whole lifetime. The
            // assertion is then not valid yet.
            if cached.remaining(now) < MIN_REMAINING || cached.remaining(now) > LIFETIME {
                // Another request may already have replaced the entry.
                self.0.remove_if(&key, |other| Arc::ptr_eq(other, &cached));
            } else if cached.remaining(now) > RENEWAL_REMAINING || cached.renewing.swap(true, Ordering::Relaxed) {
                return Some(cached.token.clone());
            } else if let Some(new) = sign(sealgate, app, &claims).await {
                self.0.insert(key, Arc::clone(&new));
                return Some(new.token.clone());
            } else {
                cached.renewing.store(false, Ordering::Relaxed);
                return Some(cached.token.clone());
            }
        }
        let made = self.0.get_or_insert_async(&key, async { sign(sealgate, app, &claims).await.ok_or(()) }).await;
        made.ok().map(|cached| cached.token.clone())
    }
}

fn claims(ctx: &AppRequest<'_>, who: Principal<'_>, session: Option<SessionId>) -> AssertionClaims {
    let (email, email_verified) = who.email().unzip();
    AssertionClaims {
        iss: ctx.sealgate.config.issuer.as_str().to_owned(),
        aud: ctx.public_origin(),
        sub: who.name(),
        email: email.map(str::to_owned),
        email_verified,
        name: Some(who.full_name().to_owned()).filter(|name| !name.is_empty()),
        preferred_username: who.username().map(str::to_owned),
        groups: who.groups().cloned().collect(),
        sid: session.map(|session| session.to_string()),
        iat: ctx.now,
        exp: ctx.now.plus(LIFETIME),
    }
}

/// Returns the cache key: a hash of the claims without the times, and of the id of the signing key.
fn key(sealgate: &Sealgate, claims: &AssertionClaims, algorithm: Algorithm) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    add(sealgate.issuer.signer().key_set().active_for(algorithm).map_or("", |key| key.kid().as_str()));
    add(&claims.aud);
    add(&claims.sub);
    add(claims.email.as_deref().unwrap_or_default());
    add(if claims.email_verified == Some(true) { "1" } else { "0" });
    add(claims.name.as_deref().unwrap_or_default());
    add(claims.preferred_username.as_deref().unwrap_or_default());
    add(claims.sid.as_deref().unwrap_or_default());
    for group in &claims.groups {
        add(group);
    }
    hash.finalize().into()
}

async fn sign(sealgate: &Sealgate, app: &App, claims: &AssertionClaims) -> Option<Arc<CachedAssertion>> {
    match sealgate.issuer.assert(claims, app.alg).await {
        Ok(token) => {
            Some(Arc::new(CachedAssertion { token, expires_at: claims.exp, renewing: AtomicBool::new(false) }))
        }
        Err(error) => {
            tracing::error!(app = app.name, %error, "cannot sign an assertion");
            None
        }
    }
}
