//! Guesses of passwords, wherever they are typed: counted before any hashing, so that a flood of them costs us nothing and
//! a guesser little but time.
//!
//! Too many of them slow the next one down and shut nobody out. What a person types in a browser that they have signed in
//! from before, or in a session of theirs, has a count of its own: strangers cannot slow it down. All else counts
//!
//! - under the account and the sender together, with waits that grow to the whole window: a single guesser soon waits so
//!   long that the account is free again for everybody else;
//! - under the account, under the sender's address, and under its IPv6 /48 (ten times the address's limit), with short
//!   waits that hold the configured rate.
//!
//! An account that does not exist is counted like one that does. So an address and a username are counted apart, even where
//! they are one person's: a count that they shared would tell strangers that they are. Whoever knows both has twice the guesses.
//!
//! Nodes that share a store count together. While nobody counts, nobody guesses: the answer is 503, before any hashing.

use std::time::Duration;

use crate::domain::known_browser::KnownBrowser;
use crate::domain::pace::Pace;
use crate::domain::secret::SecretHash;
use crate::domain::session::SessionId;
use crate::limiter::LimitKey;
use crate::limits::Guess;
use crate::password::Line;
use crate::store::shared_counts::NotCounted;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;

/// Networks of one /48 that may use up their failures at once.
const SITE: u32 = 10;

/// What a guess is counted under.
pub(super) struct Guesses {
    by: By,
    counted: Guess,
}

enum By {
    /// Somebody at a browser that the person has signed in from before.
    Known(SecretHash),
    /// Somebody in a session of the person.
    Session(SessionId),
    /// Anybody, at an account as typed, whether or not it exists.
    Stranger(SecretHash),
    /// Anybody, with a passkey, which names its account by itself: nobody's is guessed, and only the sender is counted.
    Passkey,
}

impl Guesses {
    /// Counts a guess at an account as typed, from a browser that is known of it or not; or yields the seconds to wait before the
    /// next one.
    ///
    /// # Errors
    /// 503 while nobody counts.
    pub(super) async fn at_sign_in(
        ctx: &RequestContext<'_>,
        typed: &str,
        known: Option<&KnownBrowser>,
    ) -> Result<Result<Self, u64>, Failure> {
        let account = || SecretHash::of(typed.to_ascii_lowercase().as_bytes());
        Self::count(ctx, known.map_or_else(|| By::Stranger(account()), |known| By::Known(known.mark))).await
    }

    /// Counts a passkey.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(super) async fn of_passkey(ctx: &RequestContext<'_>) -> Result<Result<Self, u64>, Failure> {
        Self::count(ctx, By::Passkey).await
    }

    /// Counts a guess in a session of the person, from a browser that is known of them or not.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(super) async fn in_session(
        ctx: &RequestContext<'_>,
        session: SessionId,
        known: Option<&KnownBrowser>,
    ) -> Result<Result<Self, u64>, Failure> {
        Self::count(ctx, known.map_or(By::Session(session), |known| By::Known(known.mark))).await
    }

    /// Counts before the guess is judged: were it counted afterwards, guesses made at the same moment would all pass.
    async fn count(ctx: &RequestContext<'_>, by: By) -> Result<Result<Self, u64>, Failure> {
        let settings = &ctx.sealgate.config.login;
        let (most, window) = (settings.failures_per_account, settings.window.max(Duration::from_secs(1)));
        let address = ctx.origin.address;
        let sender = || {
            let (from_address, from_site) = (settings.failures_per_address, settings.failures_per_address * SITE);
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
            By::Passkey => sender(),
        };
        match ctx.sealgate.limits.count_guess(&keys, ctx.now).await {
            Ok(Ok(counted)) => Ok(Ok(Self { by, counted })),
            Ok(Err(seconds)) => Ok(Err(seconds)),
            Err(error) => Err(not_counted(&error)),
        }
    }

    /// Where the check of the guess waits: strangers by their network, so that none of them fills the queue.
    pub(super) fn line(&self, ctx: &RequestContext<'_>) -> Line {
        match self.by {
            By::Known(_) | By::Session(_) => Line::Trusted,
            By::Stranger(_) | By::Passkey => Line::of(ctx.origin.address),
        }
    }

    /// Takes the count of the guess back: it was right, or could not be judged.
    pub(super) fn give_back(self, ctx: &RequestContext<'_>) {
        ctx.sealgate.limits.give_back(self.counted, ctx.now);
    }
}

fn not_counted(error: &NotCounted) -> Failure {
    tracing::error!(%error, "a guess is not counted, and refused");
    Failure::Unavailable
}
