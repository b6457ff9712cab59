//! Signed assertions to applications: who sent a request, as a JWT that the application can verify with our published keys.
//!
//! A signature in the token device takes milliseconds, a request must not: an assertion is kept for as long as it says the
//! same of the same session to the same application, and renewed a good while before it expires. Of several requests that
//! need a new one, one asks the device, and the others wait for it or still use the old one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use crate::app::state::Sealgate;
use crate::config::App;
use crate::domain::session::SessionId;
use crate::domain::time::UnixTime;
use crate::gateway::principal::Principal;
use crate::oauth::claims::AssertionClaims;

/// How long an assertion is valid.
const LIFETIME: Duration = Duration::from_mins(5);
/// What must be left of it when it goes to an application, whose clock may be behind ours.
const LEFT: Duration = Duration::from_mins(1);
/// What is left of it when a new one is made beside it.
const RENEWED: Duration = Duration::from_mins(2);
/// Assertions that are kept, about 1.5 KiB each.
const KEPT: usize = 8192;

pub(super) struct Assertions(Cache<[u8; 32], Arc<Kept>>);

struct Kept {
    token: String,
    expires_at: UnixTime,
    renewing: AtomicBool,
}

impl Kept {
    fn left(&self, now: UnixTime) -> Duration {
        self.expires_at.since(now)
    }
}

impl Default for Assertions {
    fn default() -> Self {
        Self(Cache::new(KEPT))
    }
}

impl Assertions {
    /// An assertion for this application about somebody known. None when the token device does not sign, which is logged.
    pub(super) async fn about(
        &self,
        sealgate: &Sealgate,
        app: &App,
        who: Principal<'_>,
        session: Option<SessionId>,
        now: UnixTime,
    ) -> Option<String> {
        let claims = claims(sealgate, app, who, session, now);
        let key = key(sealgate, &claims);
        if let Some(kept) = self.0.get(&key) {
            // One with more than its whole time left was made before the clock was moved back: it is not valid yet.
            if kept.left(now) < LEFT || kept.left(now) > LIFETIME {
                // Only the one that all have found: another request may have replaced it by now.
                self.0.remove_if(&key, |other| Arc::ptr_eq(other, &kept));
            } else if kept.left(now) > RENEWED || kept.renewing.swap(true, Ordering::Relaxed) {
                return Some(kept.token.clone());
            } else if let Some(new) = sign(sealgate, app, &claims).await {
                self.0.insert(key, Arc::clone(&new));
                return Some(new.token.clone());
            } else {
                kept.renewing.store(false, Ordering::Relaxed);
                return Some(kept.token.clone());
            }
        }
        let made = self.0.get_or_insert_async(&key, async { sign(sealgate, app, &claims).await.ok_or(()) }).await;
        made.ok().map(|kept| kept.token.clone())
    }
}

fn claims(
    sealgate: &Sealgate,
    app: &App,
    who: Principal<'_>,
    session: Option<SessionId>,
    now: UnixTime,
) -> AssertionClaims {
    let (email, email_verified) = who.email().unzip();
    AssertionClaims {
        iss: sealgate.config.issuer.as_str().to_owned(),
        aud: app.origin(&sealgate.config.issuer),
        sub: who.name(),
        email: email.map(str::to_owned),
        email_verified,
        name: Some(who.full_name().to_owned()).filter(|name| !name.is_empty()),
        preferred_username: who.username().map(str::to_owned),
        groups: who.groups().iter().cloned().collect(),
        sid: session.map(|session| session.to_string()),
        iat: now,
        exp: now.plus(LIFETIME),
    }
}

/// What an assertion says, but for its times, and the key that signs: a change of either needs a new one.
fn key(sealgate: &Sealgate, claims: &AssertionClaims) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    add(sealgate.issuer.signer().key_set().active().kid().as_str());
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

async fn sign(sealgate: &Sealgate, app: &App, claims: &AssertionClaims) -> Option<Arc<Kept>> {
    match sealgate.issuer.assert(claims).await {
        Ok(token) => Some(Arc::new(Kept { token, expires_at: claims.exp, renewing: AtomicBool::new(false) })),
        Err(error) => {
            tracing::error!(app = app.name, %error, "an assertion could not be signed");
            None
        }
    }
}
