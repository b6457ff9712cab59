//! Rate limits for password guesses, on all pages that accept a password.
//!
//! Guesses are counted before any hashing, so that a flood costs the server little. Exceeding a
//! limit delays the next guess; it never locks a user out.
//!
//! A browser is known if the user has signed in in it before. Guesses in a known browser, or in a
//! session of the user, have a separate count, which an attacker elsewhere cannot use up. All other
//! guesses have these counts:
//!
//! - One count for the account together with the sender's IPv4 address or IPv6 /48. The waits of
//!   this count grow up to the whole window. An attacker in one network is soon refused by this
//!   count, and then no longer delays the account's owner.
//! - One count each for the account, for the sender's IPv4 address or IPv6 /64, and for the
//!   sender's IPv6 /48 (with ten times the limit of an address). The waits of these counts are
//!   short, and enforce the configured rate.
//!
//! Guesses for accounts that do not exist are counted in the same way. The e-mail address and the
//! username of one user are therefore counted separately: a shared count would reveal that they
//! belong together. An attacker who knows both has twice the guesses.
//!
//! The nodes of a cluster share the counts. While guesses cannot be counted, they are refused with
//! 503.

use std::time::Duration;

use http::HeaderValue;

use sealgate_core::limits::Guess;
use sealgate_core::password::QueueKey;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::cookie;
use sealgate_core::web::failure::Failure;
use sealgate_domain::known_browser::{KNOWN_FOR, KnownBrowser, Marks};
use sealgate_domain::limiter::LimitKey;
use sealgate_domain::pace::Pace;
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_domain::session::SessionId;
use sealgate_domain::source::SourceLink;
use sealgate_domain::user::{Subject, User};
use sealgate_store::StoreError;
use sealgate_store::cluster::shared_counts::NotCounted;

/// Factor by which the limit of a /48 exceeds the limit of one /64 network in it.
const SITE_LIMIT_FACTOR: u32 = 10;

/// Counted guess, which can be removed from the count again.
pub(crate) struct Guesses {
    by: By,
    counted: Vec<Guess>,
}

/// Origin of a guess. It determines the counts that apply.
enum By {
    /// From a browser in which the user has signed in before.
    Known(SecretHash),
    /// In a session of the user.
    Session(SessionId),
    /// From any other sender. The hash identifies the account by the typed name, whether or not the
    /// account exists.
    Stranger(SecretHash),
    /// With a passkey, or with the answer of an OpenID provider. Neither can be guessed, so only the
    /// sender is counted.
    Unguessable,
}

impl Guesses {
    /// Counts a guess on the sign-in page.
    ///
    /// `typed` names the account. `known` is the browser's mark, if the user has signed in in this
    /// browser before. Returns the seconds to wait if the guess is refused.
    ///
    /// # Errors
    /// 503 while guesses cannot be counted.
    pub(crate) async fn at_sign_in(
        ctx: &RequestContext<'_>,
        typed: &str,
        known: Option<&KnownBrowser>,
    ) -> Result<Result<Self, u64>, Failure> {
        let account = || SecretHash::for_secret(typed.to_ascii_lowercase().as_bytes());
        Self::count(ctx, known.map_or_else(|| By::Stranger(account()), |known| By::Known(known.mark))).await
    }

    /// Counts the guess for a user of a directory too, whichever name was typed. Directories accept
    /// several names of a user, and may lock the account after a few wrong passwords.
    ///
    /// At most `failures_per_account` guesses are permitted in any window, so that a directory with a
    /// higher limit does not lock the account. Guesses in a known browser are not counted here.
    /// Returns the seconds to wait if the guess is refused.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(crate) async fn count_directory_user(
        &mut self,
        ctx: &RequestContext<'_>,
        link: &SourceLink,
    ) -> Result<Result<(), u64>, Failure> {
        if !matches!(self.by, By::Stranger(_)) {
            return Ok(Ok(()));
        }
        let settings = &ctx.sealgate.config.login;
        let pace = Pace::strict(settings.failures_per_account, settings.window);
        let user = link.lookup_key();
        let key = LimitKey::text("login_directory", user.as_bytes());
        let counted = ctx.sealgate.limits.count_guess(&[(key, pace)], ctx.now).await;
        Ok(counted.map_err(|error| not_counted(&error))?.map(|counted| self.counted.push(counted)))
    }

    /// Counts an attempt with a passkey.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(crate) async fn of_passkey(ctx: &RequestContext<'_>) -> Result<Result<Self, u64>, Failure> {
        Self::count(ctx, By::Unguessable).await
    }

    /// Counts an answer of an OpenID provider. The limit bounds the requests that a sender causes to
    /// the provider.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(crate) async fn of_upstream(ctx: &RequestContext<'_>) -> Result<Result<Self, u64>, Failure> {
        Self::count(ctx, By::Unguessable).await
    }

    /// Counts a guess in a session of the user. `known` is the browser's mark, if the user has
    /// signed in in this browser before.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(crate) async fn in_session(
        ctx: &RequestContext<'_>,
        session: SessionId,
        known: Option<&KnownBrowser>,
    ) -> Result<Result<Self, u64>, Failure> {
        Self::count(ctx, known.map_or(By::Session(session), |known| By::Known(known.mark))).await
    }

    /// Counts the guess before it is checked. Otherwise concurrent guesses would all pass.
    async fn count(ctx: &RequestContext<'_>, by: By) -> Result<Result<Self, u64>, Failure> {
        let settings = &ctx.sealgate.config.login;
        let (most, window) = (settings.failures_per_account, settings.window.max(Duration::from_secs(1)));
        let address = ctx.origin.address;
        let sender = || {
            let (from_address, from_site) =
                (settings.failures_per_address, settings.failures_per_address * SITE_LIMIT_FACTOR);
            let mut keys = vec![(LimitKey::address("login_address", address), Pace::even(from_address, window))];
            let site = LimitKey::site("login_site", address);
            keys.extend(site.map(|site| (site, Pace::even(from_site, window))));
            keys
        };
        let keys = match &by {
            By::Known(mark) => vec![(LimitKey::text("login_browser", mark.as_bytes()), Pace::even(most, window))],
            By::Session(id) => vec![(LimitKey::text("login_session", id.as_bytes()), Pace::even(most, window))],
            By::Stranger(account) => {
                let account = account.as_bytes();
                let mut keys = vec![
                    (LimitKey::text_and_site("login_pair", account, address), Pace::steep(most, window)),
                    (LimitKey::text("login_account", account), Pace::even(most, window)),
                ];
                keys.extend(sender());
                keys
            }
            By::Unguessable => sender(),
        };
        match ctx.sealgate.limits.count_guess(&keys, ctx.now).await {
            Ok(Ok(counted)) => Ok(Ok(Self { by, counted: vec![counted] })),
            Ok(Err(seconds)) => Ok(Err(seconds)),
            Err(error) => Err(not_counted(&error)),
        }
    }

    /// Returns the queue in which the password check waits.
    ///
    /// The guesses of unknown senders are queued by network, so that no single network fills the
    /// queue.
    pub(crate) fn queue(&self, ctx: &RequestContext<'_>) -> QueueKey {
        match self.by {
            By::Known(_) | By::Session(_) => QueueKey::Trusted,
            By::Stranger(_) | By::Unguessable => QueueKey::for_address(ctx.origin.address),
        }
    }

    /// Removes the guess from the count, because it was correct or could not be checked.
    pub(crate) fn give_back(self, ctx: &RequestContext<'_>) {
        for counted in self.counted {
            ctx.sealgate.limits.give_back(counted, ctx.now);
        }
    }
}

fn not_counted(error: &NotCounted) -> Failure {
    tracing::error!(%error, "cannot count a password guess, so the guess is refused");
    Failure::Unavailable
}

/// New mark for a browser and the cookie that contains it.
pub(crate) struct Marked {
    pub(crate) mark: Secret,
    pub(crate) cookie: HeaderValue,
}

/// Returns the record of this browser if the user has signed in in it before.
///
/// If the user does not exist, performs the same lookup, so that the response time does not reveal
/// this.
pub(crate) async fn find_known_browser(
    ctx: &RequestContext<'_>,
    user: Option<&User>,
) -> Result<Option<KnownBrowser>, StoreError> {
    let marks = browser_marks(ctx);
    if marks.is_empty() {
        return Ok(None);
    }
    let subject = user.map_or_else(|| Subject::from_random([0; 16]), |user| user.sub);
    let browsers = ctx.sealgate.store.known_browsers(subject).await?;
    Ok(browsers.find(&marks, ctx.now).cloned())
}

/// Records that the user has signed in from this browser, unless that was recorded recently.
///
/// If the store fails, the sign-in continues and the browser remains unknown.
pub(crate) async fn learn_browser(
    ctx: &RequestContext<'_>,
    subject: Subject,
    before: Option<&KnownBrowser>,
) -> Option<Marked> {
    if before.is_some_and(|known| !known.is_due(ctx.now)) {
        return None;
    }
    let mark = Secret::from_random(&ctx.random::<16>());
    let replaced = before.map(|known| known.mark);
    if let Err(error) = ctx.sealgate.store.learn_browser(subject, mark.hash(), replaced, ctx.now).await {
        tracing::warn!(%error, "cannot save a known browser");
        return None;
    }
    let value = browser_marks(ctx).with(&mark, replaced);
    let cookie = cookie::set_for(ctx.cookies.known, value.expose(), ctx.cookies.secure, KNOWN_FOR.as_secs());
    Some(Marked { mark, cookie })
}

/// Returns the marks of all users in this browser's cookie.
pub(crate) fn browser_marks(ctx: &RequestContext<'_>) -> Marks {
    ctx.cookie(ctx.cookies.known).map(Marks::parse).unwrap_or_default()
}
