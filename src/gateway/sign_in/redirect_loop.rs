//! Detection of redirect loops between gateway and provider. Pure.
//!
//! A browser that keeps no session (a wrong clock, a cookie policy) would be redirected forever. A
//! cookie with a lifetime of seconds has the count, so the server stores nothing. A forged count
//! affects only the client that forged it.
//!
//! Returns are counted, not departures: ten restored tabs all depart at once, and none of them
//! loops.

use std::time::Duration;

use sealgate_domain::time::UnixTime;

/// Period in which rounds are counted.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// Number of rounds in that period after which a browser is not redirected again.
const MOST: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedirectLoop {
    since: UnixTime,
    count: u32,
}

impl RedirectLoop {
    /// Reads the count from the cookie. Starts at zero if it is missing, malformed or too old.
    pub(crate) fn read(cookie: Option<&str>, now: UnixTime) -> Self {
        let parsed = || {
            let (since, count) = cookie?.split_once('-')?;
            let since = UnixTime::from_seconds(since.parse().ok()?);
            (since <= now && now.since(since) < WINDOW).then_some(Self { since, count: count.parse().ok()? })
        };
        parsed().unwrap_or(Self { since: now, count: 0 })
    }

    #[must_use]
    pub(crate) fn and_one(self) -> Self {
        Self { count: self.count.saturating_add(1), ..self }
    }

    /// Returns whether the browser is in a redirect loop.
    pub(crate) const fn is_loop(self) -> bool {
        self.count >= MOST
    }

    /// Returns the value of the cookie.
    pub(crate) fn value(self) -> String {
        format!("{}-{}", self.since.seconds(), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn after(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(NOW.seconds() + seconds)
    }

    #[test]
    fn the_third_round_in_ten_seconds_is_a_loop() {
        let mut rounds = RedirectLoop::read(None, NOW);
        for second in 1..=2 {
            rounds = RedirectLoop::read(Some(&rounds.and_one().value()), after(second));
            assert!(!rounds.is_loop());
        }
        rounds = RedirectLoop::read(Some(&rounds.and_one().value()), after(9));
        assert!(rounds.is_loop());
        assert!(!RedirectLoop::read(Some(&rounds.value()), after(10)).is_loop());
    }

    #[test]
    fn an_invalid_counter_is_ignored() {
        for cookie in ["", "-", "x-3", "3", "1800000000-", "1800000000--3", "99999999999-3", "1799999990-9", "-1-3"] {
            assert_eq!(RedirectLoop::read(Some(cookie), NOW), RedirectLoop::read(None, NOW), "{cookie}");
        }
        assert!(RedirectLoop::read(Some("1800000000-4294967295"), NOW).and_one().is_loop());
    }
}
