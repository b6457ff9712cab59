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

use std::time::Duration;

use crate::domain::known_browser::KnownBrowser;
use crate::domain::secret::SecretHash;
use crate::domain::session::SessionId;
use crate::limiter::{Counted, LimitKey, Pace};
use crate::password::Line;
use crate::web::context::RequestContext;

/// Networks of one /48 that may use up their failures at once.
const SITE: u32 = 10;

/// What a guess is counted under.
pub(super) struct Guesses {
    by: By,
    counted: Vec<Counted>,
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
    /// Counts a guess at an account as typed, from a browser that is known of it or not.
    ///
    /// # Errors
    /// Seconds to wait before the next guess; nothing is counted then.
    pub(super) fn at_sign_in(ctx: &RequestContext<'_>, typed: &str, known: Option<&KnownBrowser>) -> Result<Self, u64> {
        let account = || SecretHash::of(typed.to_ascii_lowercase().as_bytes());
        Self::count(ctx, known.map_or_else(|| By::Stranger(account()), |known| By::Known(known.mark)))
    }

    /// Counts a passkey.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(super) fn of_passkey(ctx: &RequestContext<'_>) -> Result<Self, u64> {
        Self::count(ctx, By::Passkey)
    }

    /// Counts a guess in a session of the person, from a browser that is known of them or not.
    ///
    /// # Errors
    /// As [`Guesses::at_sign_in`].
    pub(super) fn in_session(
        ctx: &RequestContext<'_>,
        session: SessionId,
        known: Option<&KnownBrowser>,
    ) -> Result<Self, u64> {
        Self::count(ctx, known.map_or(By::Session(session), |known| By::Known(known.mark)))
    }

    /// Counts before the guess is judged: were it counted afterwards, guesses made at the same moment would all pass.
    fn count(ctx: &RequestContext<'_>, by: By) -> Result<Self, u64> {
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
        let counted = match &by {
            By::Known(mark) => {
                let key = LimitKey::text("login_browser", mark.as_bytes());
                ctx.sealgate.brake.take(&[(key, Pace::even(most, window))], ctx.now)
            }
            By::Session(id) => {
                let key = LimitKey::text("login_session", id.as_bytes());
                ctx.sealgate.brake.take(&[(key, Pace::even(most, window))], ctx.now)
            }
            By::Stranger(account) => {
                let account = account.as_bytes();
                let mut keys = vec![
                    (LimitKey::text_and_site("login_pair", account, address), Pace::steep(most, window)),
                    (LimitKey::text("login_account", account), Pace::even(most, window)),
                ];
                keys.extend(sender());
                ctx.sealgate.brake.take(&keys, ctx.now)
            }
            By::Passkey => ctx.sealgate.brake.take(&sender(), ctx.now),
        };
        counted.map(|counted| Self { by, counted })
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
        ctx.sealgate.brake.give_back(self.counted, ctx.now);
    }
}
