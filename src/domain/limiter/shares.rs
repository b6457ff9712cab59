//! Blocks of shared limits that this process has reserved.
//!
//! One query reserves a block of requests. The process counts the requests of the block without
//! further queries. Other modules implement the queries and the shared counts.
//!
//! The table has a fixed size, like that of [`super::Limiter`]. If a block is evicted, its unused
//! requests are lost, and the next request of the key needs another query.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limiter::{BUCKETS, LimitKey, Place, RateLimitStatus, Rule, SLOTS, least, shared_key};
use crate::time::UnixTime;

/// Maximum number of requests in one block.
const MAX_BLOCK: u32 = 16;
/// A block is at most the limit divided by this number.
const LIMIT_DIVISOR: u32 = 16;

/// Window of one key.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    mark: u64,
    /// End of the window, in seconds since 1970; 0 in an unused slot.
    ends: u64,
    limit: u32,
    /// Number of requests reserved by all processes, as of the last query.
    all: u32,
    /// Number of reserved requests that this process has not used.
    unused: u32,
}

/// Query for another block of a key's window.
#[derive(Debug)]
pub struct BlockQuery {
    place: Place,
    /// Name of the key, the same in all processes.
    pub key: [u8; 16],
    pub limit: u32,
    /// Number of requests to reserve. If fewer are left of the limit, only these are reserved.
    pub block: u32,
}

impl BlockQuery {
    /// Returns the end of the window, in seconds since 1970.
    pub fn ends(&self) -> u64 {
        self.place.ends
    }
}

/// Reserved blocks of this process. Exact under concurrency. Uses about 4 MiB for any number of
/// keys.
pub struct Shares {
    seed: [u8; 16],
    buckets: Box<[Mutex<[Slot; SLOTS]>]>,
}

impl Shares {
    /// Creates an empty table. All processes that share limits need the same seed.
    pub fn new(seed: [u8; 16]) -> Self {
        Self { seed, buckets: (0..BUCKETS).map(|_| Mutex::default()).collect() }
    }

    /// Counts a request, if the local state of the window suffices.
    ///
    /// # Errors
    /// Returns the query that the caller must make. The caller passes the result to
    /// [`Shares::answer`].
    pub fn take(&self, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> Result<RateLimitStatus, BlockQuery> {
        let place = Place::for_key(&self.seed, key, rule, now);
        let mut slots = self.bucket(&place);
        let known_slot = slots.iter_mut().find(|slot| slot.is(&place));
        if let Some(slot) = known_slot
            && (slot.unused > 0 || slot.all >= rule.limit)
        {
            return Ok(slot.take(rule, now));
        }
        drop(slots);
        let block = (rule.limit / LIMIT_DIVISOR).clamp(1, MAX_BLOCK);
        Err(BlockQuery { place, key: shared_key(&self.seed, key), limit: rule.limit, block })
    }

    /// Records the result of a query, and counts the request that caused it. `all` is the number of
    /// requests reserved by all processes. It includes `granted`, the number newly reserved for
    /// this process.
    pub fn answer(&self, query: &BlockQuery, rule: Rule, now: UnixTime, (all, granted): (u32, u32)) -> RateLimitStatus {
        let mut slots = self.bucket(&query.place);
        let slot = claim(&mut slots, &query.place, now);
        slot.limit = rule.limit;
        slot.all = slot.all.max(all);
        slot.unused = slot.unused.saturating_add(granted);
        slot.take(rule, now)
    }

    /// Returns the result that [`Shares::take`] would return, from local state. Counts nothing.
    pub fn peek(&self, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let place = Place::for_key(&self.seed, key, rule, now);
        let known_slot = self.bucket(&place).iter().find(|slot| slot.is(&place)).copied();
        let slot = known_slot.unwrap_or(Slot { ends: place.ends, ..Slot::default() });
        slot.reading(rule, now, slot.unused > 0 || slot.all < rule.limit)
    }

    fn bucket(&self, place: &Place) -> MutexGuard<'_, [Slot; SLOTS]> {
        self.buckets[place.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn is(&self, place: &Place) -> bool {
        self.mark == place.mark && self.ends == place.ends
    }

    fn take(&mut self, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let allowed = self.unused > 0;
        self.unused = self.unused.saturating_sub(1);
        self.reading(rule, now, allowed)
    }

    fn reading(&self, rule: Rule, now: UnixTime, allowed: bool) -> RateLimitStatus {
        let others_and_used = self.all.saturating_sub(self.unused);
        super::reading(others_and_used, rule, self.ends, now, allowed)
    }
}

/// Returns the slot of the window. If the window has no slot, evicts another window and returns its
/// slot.
///
/// Ended windows are evicted first, and then windows with the fewest unused requests. Exhausted
/// windows are evicted last: while such a window has a slot, its requests are refused without a
/// query.
fn claim<'s>(slots: &'s mut [Slot; SLOTS], place: &Place, now: UnixTime) -> &'s mut Slot {
    let now = now.seconds();
    let rank = |slot: &Slot| match slot {
        slot if slot.is(place) => (0, 0),
        slot if slot.mark == place.mark => (1, 0),
        slot if slot.ends <= now => (2, 0),
        slot if slot.all < slot.limit => (3, slot.unused),
        slot => (4, slot.unused),
    };
    let slot = least(slots, rank);
    if !slot.is(place) {
        *slot = Slot { mark: place.mark, ends: place.ends, ..Slot::default() };
    }
    slot
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_017);
    const RULE: Rule = Rule { limit: 50, window: Duration::from_mins(1) };
    const SEED: [u8; 16] = *b"sixteen bytes ok";

    fn wiki() -> LimitKey<'static> {
        LimitKey::text("token", b"wiki")
    }

    /// Shared counts of all windows, as a store would keep them.
    #[derive(Default)]
    struct Counts(HashMap<([u8; 16], u64), u32>);

    impl Counts {
        fn reserve(&mut self, query: &BlockQuery) -> (u32, u32) {
            let all = self.0.entry((query.key, query.ends())).or_default();
            let got = query.block.min(query.limit - *all);
            *all += got;
            (*all, got)
        }
    }

    fn take(shares: &Shares, counts: &mut Counts, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        shares.take(key, rule, now).unwrap_or_else(|query| shares.answer(&query, rule, now, counts.reserve(&query)))
    }

    #[test]
    fn three_processes_share_a_limit_and_a_window_exactly() {
        let (nodes, mut counts) = ([(); 3].map(|()| Shares::new(SEED)), Counts::default());
        let readings: Vec<_> =
            (0..300).map(|number| take(&nodes[number % 3], &mut counts, &wiki(), RULE, NOW)).collect();
        assert_eq!(readings.iter().filter(|reading| reading.allowed).count(), 50);
        assert!(readings.iter().all(|reading| reading.reset == readings[0].reset && reading.limit == 50));
        assert!(readings.iter().all(|reading| reading.allowed == reading.retry_after.is_none()));
        assert_eq!(readings[299].remaining, 0);
    }

    #[test]
    fn a_block_is_a_sixteenth_between_1_and_16() {
        let shares = Shares::new(SEED);
        let block = |limit| shares.take(&wiki(), Rule { limit, ..RULE }, NOW).unwrap_err().block;
        assert_eq!([1, 15, 31, 50, 256, 100_000].map(block), [1, 1, 1, 3, 16, 16]);
    }

    #[test]
    fn a_block_is_used_up_before_the_next_query() {
        let shares = Shares::new(SEED);
        let query = shares.take(&wiki(), RULE, NOW).unwrap_err();
        // Other processes have reserved ten requests in the meantime.
        assert_eq!(shares.answer(&query, RULE, NOW, (13, 3)).remaining, 39);
        assert_eq!(shares.take(&wiki(), RULE, NOW).unwrap().remaining, 38);
        assert_eq!(shares.peek(&wiki(), RULE, NOW).remaining, 38);
        assert_eq!(shares.take(&wiki(), RULE, NOW).unwrap().remaining, 37);
        assert!(shares.take(&wiki(), RULE, NOW).is_err());
    }

    #[test]
    fn an_exhausted_limit_refuses_without_a_query_until_the_window_ends() {
        let shares = Shares::new(SEED);
        let query = shares.take(&wiki(), RULE, NOW).unwrap_err();
        let refused = shares.answer(&query, RULE, NOW, (50, 0));
        assert_eq!((refused.allowed, refused.remaining), (false, 0));
        assert!(!shares.take(&wiki(), RULE, NOW).unwrap().allowed && !shares.peek(&wiki(), RULE, NOW).allowed);
        assert!(shares.take(&wiki(), RULE, refused.reset).is_err());
        assert!(shares.peek(&wiki(), RULE, refused.reset).allowed);
    }

    /// Two queries run concurrently, and their results arrive in reverse order.
    #[test]
    fn answers_in_any_order_add_up() {
        let shares = Shares::new(SEED);
        let (one, two) = (shares.take(&wiki(), RULE, NOW).unwrap_err(), shares.take(&wiki(), RULE, NOW).unwrap_err());
        assert!(shares.answer(&two, RULE, NOW, (6, 3)).allowed);
        assert_eq!(shares.answer(&one, RULE, NOW, (3, 3)).remaining, 48);
        let mut left = 0;
        while shares.take(&wiki(), RULE, NOW).is_ok() {
            left += 1;
        }
        assert_eq!(left, 4);
    }

    #[test]
    fn a_flood_of_keys_resets_no_limit() {
        let (shares, mut counts) = (Shares::new(SEED), Counts::default());
        for _ in 0..50 {
            assert!(take(&shares, &mut counts, &wiki(), RULE, NOW).allowed);
        }
        for number in 0..300_000_u32 {
            take(&shares, &mut counts, &LimitKey::text("token", &number.to_be_bytes()), RULE, NOW);
        }
        assert!(!take(&shares, &mut counts, &wiki(), RULE, NOW).allowed);
        assert!(size_of_val(&*shares.buckets) < 6 << 20);
    }

    #[test]
    fn keys_are_equal_only_with_the_same_seed() {
        let key = |seed: [u8; 16]| Shares::new(seed).take(&wiki(), RULE, NOW).unwrap_err().key;
        assert_eq!(key(SEED), key(SEED));
        assert_ne!(key(SEED), key([0; 16]));
    }
}
