//! Guesses of passwords, wherever they are typed: counted by account and by address before any hashing, so that a flood of
//! them costs us nothing and a guesser little but time.

use std::time::Duration;

use crate::endpoint::call::Call;
use crate::limiter::{Key, Rule};
use crate::protocol::secret::SecretHash;

/// What a guess is counted under: the account that was typed, whether or not it exists, and the sender's address.
pub(super) struct Guesses {
    account: [u8; 32],
    per_account: Rule,
    per_address: Rule,
}

impl Guesses {
    /// The counts for an account as typed.
    pub(super) fn of(call: &Call<'_>, typed: &str) -> Self {
        let settings = &call.sealgate.config.login;
        let account = SecretHash::of(typed.to_ascii_lowercase().as_bytes());
        let rule = |limit| Rule { limit, window: Duration::from_secs(settings.window.as_secs().max(1)) };
        Self {
            account: *account.as_bytes(),
            per_account: rule(settings.failures_per_account),
            per_address: rule(settings.failures_per_address),
        }
    }

    fn keys<'a>(&'a self, call: &Call<'_>) -> [(Key<'a>, Rule); 2] {
        [
            (Key::text("login_account", &self.account), self.per_account),
            (Key::address("login_address", call.origin.address), self.per_address),
        ]
    }

    /// Counts a guess before it is judged: were it counted afterwards, guesses made at the same moment would all pass.
    ///
    /// # Errors
    /// Seconds to wait before the next guess; nothing is counted then.
    pub(super) fn count(&self, call: &Call<'_>) -> Result<(), u64> {
        let [account, address] = self.keys(call);
        let take = |(key, rule): &(Key<'_>, Rule)| {
            let reading = call.sealgate.limiter.take(key, *rule, call.now);
            if reading.allowed { Ok(()) } else { Err(reading.retry_after.unwrap_or(1)) }
        };
        take(&account)?;
        take(&address).inspect_err(|_| call.sealgate.limiter.give_back(&account.0, account.1, call.now))
    }

    /// Takes the count of a guess back: it was right, or could not be judged.
    pub(super) fn give_back(&self, call: &Call<'_>) {
        for (key, rule) in self.keys(call) {
            call.sealgate.limiter.give_back(&key, rule, call.now);
        }
    }
}
