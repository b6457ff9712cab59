//! What this process holds of allowances that several share: blocks of requests, asked for together and used up one by one.
//! Who keeps the counts of all, and how they are asked, is not known here.
//!
//! The table is fixed like that of [`super::Limiter`]. What a flood displaces is asked for again; of what it held, nobody has
//! the rest.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::time::UnixTime;
use crate::limiter::{BUCKETS, LimitKey, Place, Reading, Rule, SLOTS, least, shared_key};

/// Requests that are asked for at once, at most.
const LARGEST_BLOCK: u32 = 16;
/// A block is this part of the limit.
const PART: u32 = 16;

/// One key's window.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    mark: u64,
    /// When the window ends, seconds since 1970; 0 in a slot never used.
    ends: u64,
    limit: u32,
    /// Taken by all, when this process last asked.
    all: u32,
    /// Of these, what this process may still use.
    unused: u32,
}

/// A question for more of a key's window.
#[derive(Debug)]
pub(crate) struct Ask {
    place: Place,
    /// The key, as all name it.
    pub(crate) key: [u8; 16],
    pub(crate) limit: u32,
    /// How many to ask for while much is left.
    pub(crate) block: u32,
}

impl Ask {
    /// When the window ends, seconds since 1970.
    pub(crate) fn ends(&self) -> u64 {
        self.place.ends
    }
}

/// The blocks of this process. Exact under concurrency; some 4 MiB, however many keys it meets.
pub(crate) struct Shares {
    seed: [u8; 16],
    buckets: Box<[Mutex<[Slot; SLOTS]>]>,
}

impl Shares {
    /// An empty table. All who share must have the same seed.
    pub(crate) fn new(seed: [u8; 16]) -> Self {
        Self { seed, buckets: (0..BUCKETS).map(|_| Mutex::default()).collect() }
    }

    /// Counts a request, if what is held or known of the window decides it.
    ///
    /// # Errors
    /// What has to be asked; the answer goes to [`Shares::answer`].
    pub(crate) fn take(&self, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> Result<Reading, Ask> {
        let place = Place::of(&self.seed, key, rule, now);
        let mut slots = self.bucket(&place);
        let found = slots.iter_mut().find(|slot| slot.is(&place));
        if let Some(slot) = found
            && (slot.unused > 0 || slot.all >= rule.limit)
        {
            return Ok(slot.take(rule, now));
        }
        drop(slots);
        let block = (rule.limit / PART).clamp(1, LARGEST_BLOCK);
        Err(Ask { place, key: shared_key(&self.seed, key), limit: rule.limit, block })
    }

    /// Counts the request that asked. `all`: taken by all, with the `got` that this process may use.
    pub(crate) fn answer(&self, ask: &Ask, rule: Rule, now: UnixTime, (all, got): (u32, u32)) -> Reading {
        let mut slots = self.bucket(&ask.place);
        let slot = claim(&mut slots, &ask.place, now);
        slot.limit = rule.limit;
        slot.all = slot.all.max(all);
        slot.unused = slot.unused.saturating_add(got);
        slot.take(rule, now)
    }

    /// Where the key stands, as far as it is known here: what [`Shares::take`] would answer to `allowed`, without counting.
    pub(crate) fn peek(&self, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> Reading {
        let place = Place::of(&self.seed, key, rule, now);
        let found = self.bucket(&place).iter().find(|slot| slot.is(&place)).copied();
        let slot = found.unwrap_or(Slot { ends: place.ends, ..Slot::default() });
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

    fn take(&mut self, rule: Rule, now: UnixTime) -> Reading {
        let allowed = self.unused > 0;
        self.unused = self.unused.saturating_sub(1);
        self.reading(rule, now, allowed)
    }

    fn reading(&self, rule: Rule, now: UnixTime, allowed: bool) -> Reading {
        let others_and_used = self.all.saturating_sub(self.unused);
        super::reading(others_and_used, rule, self.ends, now, allowed)
    }
}

/// The window's own slot, or one emptied for it: one that is over, else the one that holds least, and last one of a key whose
/// allowance is used up: to ask once more would get it nothing.
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

    /// What all share: requests taken of each window.
    #[derive(Default)]
    struct Counts(HashMap<([u8; 16], u64), u32>);

    impl Counts {
        fn reserve(&mut self, ask: &Ask) -> (u32, u32) {
            let all = self.0.entry((ask.key, ask.ends())).or_default();
            let got = ask.block.min(ask.limit - *all);
            *all += got;
            (*all, got)
        }
    }

    fn take(shares: &Shares, counts: &mut Counts, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> Reading {
        shares.take(key, rule, now).unwrap_or_else(|ask| shares.answer(&ask, rule, now, counts.reserve(&ask)))
    }

    #[test]
    fn three_share_a_limit_exactly_and_agree_on_the_window() {
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
    fn a_block_is_used_up_before_more_is_asked_for() {
        let shares = Shares::new(SEED);
        let ask = shares.take(&wiki(), RULE, NOW).unwrap_err();
        // Others have ten of it by then.
        assert_eq!(shares.answer(&ask, RULE, NOW, (13, 3)).remaining, 39);
        assert_eq!(shares.take(&wiki(), RULE, NOW).unwrap().remaining, 38);
        assert_eq!(shares.peek(&wiki(), RULE, NOW).remaining, 38);
        assert_eq!(shares.take(&wiki(), RULE, NOW).unwrap().remaining, 37);
        assert!(shares.take(&wiki(), RULE, NOW).is_err());
    }

    #[test]
    fn what_is_used_up_is_refused_without_a_question_until_the_window_ends() {
        let shares = Shares::new(SEED);
        let ask = shares.take(&wiki(), RULE, NOW).unwrap_err();
        let refused = shares.answer(&ask, RULE, NOW, (50, 0));
        assert_eq!((refused.allowed, refused.remaining), (false, 0));
        assert!(!shares.take(&wiki(), RULE, NOW).unwrap().allowed && !shares.peek(&wiki(), RULE, NOW).allowed);
        assert!(shares.take(&wiki(), RULE, refused.reset).is_err());
        assert!(shares.peek(&wiki(), RULE, refused.reset).allowed);
    }

    /// Two that asked at the same moment; the answers come the other way round.
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
    fn a_flood_of_keys_frees_nobody() {
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
    fn keys_are_named_alike_by_all_who_share_a_seed_and_by_nobody_else() {
        let key = |seed: [u8; 16]| Shares::new(seed).take(&wiki(), RULE, NOW).unwrap_err().key;
        assert_eq!(key(SEED), key(SEED));
        assert_ne!(key(SEED), key([0; 16]));
    }
}
