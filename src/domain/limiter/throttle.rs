//! Throttle for guesses in this process, with the delays of [`Pace`].
//!
//! The table has a fixed size, like that of [`super::Limiter`]. In a flood of keys, new keys evict
//! other new keys first.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limiter::{LimitKey, hash, least};
use crate::pace::{Failures, Moved, Pace};
use crate::time::UnixTime;

/// Number of buckets, a power of two.
const BUCKETS: usize = 1 << 13;
const SLOTS: usize = 8;

/// Counted attempt. Unless the attempt failed, the caller must pass it to
/// [`FailureThrottle::give_back`].
#[derive(Debug)]
#[must_use]
pub struct Counted {
    bucket: u64,
    mark: u64,
    moved: Moved,
}

/// Throttle for guesses. Exact under concurrency. Uses about 3 MiB for any number of keys.
pub struct FailureThrottle {
    seed: [u8; 16],
    buckets: Box<[Mutex<[Slot; SLOTS]>]>,
}

/// Failure count of one key.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    mark: u64,
    failures: Failures,
}

impl FailureThrottle {
    /// Creates an empty table. `seed` must be unpredictable to clients.
    pub fn new(seed: [u8; 16]) -> Self {
        Self { seed, buckets: (0..BUCKETS).map(|_| Mutex::default()).collect() }
    }

    /// Counts an attempt under each of these keys. Must be called before the attempt is made,
    /// because otherwise all concurrent attempts would be allowed.
    ///
    /// # Errors
    /// Returns the seconds to wait before the next attempt: the longest wait of the keys. In this
    /// case, nothing is counted.
    pub fn take(&self, keys: &[(LimitKey<'_>, Pace)], now: UnixTime) -> Result<Vec<Counted>, u64> {
        let longest = keys.iter().map(|(key, pace)| self.wait(key, *pace, now)).max().unwrap_or(0);
        if longest > 0 {
            return Err(longest);
        }
        let mut counted = Vec::with_capacity(keys.len());
        for (key, pace) in keys {
            match self.take_one(key, *pace, now) {
                Ok(one) => counted.push(one),
                Err(wait) => {
                    // A concurrent attempt was counted since the check.
                    self.give_back(counted, now);
                    return Err(wait);
                }
            }
        }
        Ok(counted)
    }

    /// Removes an attempt from the count, because it was not a failure or could not be verified.
    pub fn give_back(&self, counted: Vec<Counted>, now: UnixTime) {
        for one in counted {
            let mut slots = self.bucket(one.bucket);
            let Some(slot) = slots.iter_mut().find(|slot| slot.mark == one.mark) else { continue };
            slot.failures.give_back(one.moved, now.seconds());
        }
    }

    /// Returns the seconds until the next attempt with this key, or 0 if an attempt is allowed.
    fn wait(&self, key: &LimitKey<'_>, pace: Pace, now: UnixTime) -> u64 {
        let [bucket, mark, _] = hash(&self.seed, key);
        let mut slots = self.bucket(bucket);
        let known_slot = slots.iter_mut().find(|slot| slot.mark == mark);
        known_slot.map_or(0, |slot| slot.failures.wait(pace, now.seconds()))
    }

    fn take_one(&self, key: &LimitKey<'_>, pace: Pace, now: UnixTime) -> Result<Counted, u64> {
        let [bucket, mark, _] = hash(&self.seed, key);
        let now = now.seconds();
        let mut slots = self.bucket(bucket);
        let moved = claim(&mut slots, mark, now).failures.take(pace, now)?;
        Ok(Counted { bucket, mark, moved })
    }

    fn bucket(&self, bucket: u64) -> MutexGuard<'_, [Slot; SLOTS]> {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is below BUCKETS")]
        let index = (bucket % BUCKETS as u64) as usize;
        self.buckets[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the slot of the key. If there is none, evicts a slot for it.
///
/// Slots whose failures have expired are evicted first, then slots with the fewest failures.
/// Blocked slots are evicted last.
fn claim(slots: &mut [Slot; SLOTS], mark: u64, now: u64) -> &mut Slot {
    let rank = |slot: &Slot| {
        let mut failures = slot.failures;
        failures.forget(now);
        match failures {
            _ if slot.mark == mark => (0, 0),
            failures if failures.count < failures.free || failures.free == 0 => (1, failures.count),
            failures => (2, failures.count),
        }
    };
    let slot = least(slots, rank);
    if slot.mark != mark {
        *slot = Slot { mark, failures: Failures::none(now) };
    }
    slot
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: u64 = 1_800_000_000;
    const WINDOW: Duration = Duration::from_mins(15);

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(NOW + seconds)
    }

    fn throttle() -> FailureThrottle {
        FailureThrottle::new(*b"sixteen bytes ok")
    }

    /// Fails `times` times, each time as early as allowed. Returns the waits between the failures.
    fn waits(throttle: &FailureThrottle, key: &LimitKey<'_>, pace: Pace, times: usize) -> Vec<u64> {
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..times {
            loop {
                match throttle.take(&[(*key, pace)], at(now)) {
                    Ok(_) => break,
                    Err(wait) => {
                        waits.push(wait);
                        now += wait;
                    }
                }
            }
        }
        waits
    }

    #[test]
    fn waits_double_up_to_the_maximum_and_decrease_over_time() {
        let key = LimitKey::text("login", b"ada");
        assert_eq!(waits(&throttle(), &key, Pace::even(10, WINDOW), 20), [1, 2, 4, 8, 16, 32, 64, 64, 64, 90]);
        let steep = waits(&throttle(), &key, Pace::steep(2, WINDOW), 13);
        assert_eq!(steep, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512]);
    }

    #[test]
    fn failures_do_not_exceed_the_limit_per_window_in_the_long_run() {
        let (throttle, key, pace) = (throttle(), LimitKey::text("login", b"ada"), Pace::even(10, WINDOW));
        let mut failures = 0;
        for second in 0..100 * 900 {
            failures += u32::from(throttle.take(&[(key, pace)], at(second)).is_ok());
        }
        assert!((1000..=1020).contains(&failures), "{failures}");
    }

    /// With a limit above one per second, all failures are forgotten after a window.
    #[test]
    fn a_high_limit_is_forgotten_within_its_window_too() {
        let (throttle, key, pace) = (throttle(), LimitKey::text("login", b"ada"), Pace::even(100_000, WINDOW));
        let burst = |second| (0..200_000).take_while(|_| throttle.take(&[(key, pace)], at(second)).is_ok()).count();
        assert_eq!(burst(0), 100_000);
        assert!((100..=120).contains(&burst(1)), "a second's share");
        assert!((49_000..=52_000).contains(&burst(1 + 450)), "half of a window's");
        assert!((99_000..=100_000).contains(&burst(1 + 450 + 900)));
    }

    #[test]
    fn an_unused_key_has_no_wait() {
        let (throttle, key, pace) = (throttle(), LimitKey::text("login", b"ada"), Pace::even(10, WINDOW));
        let last = waits(&throttle, &key, pace, 200).iter().sum::<u64>();
        assert!(throttle.take(&[(key, pace)], at(last)).is_err());
        let mut free = 0;
        while throttle.take(&[(key, pace)], at(last + 2 * 900)).is_ok() {
            free += 1;
        }
        assert_eq!(free, 10);
    }

    #[test]
    fn a_returned_attempt_causes_no_wait() {
        let (throttle, key, pace) = (throttle(), LimitKey::text("login", b"ada"), Pace::even(3, WINDOW));
        for _ in 0..2 {
            let _ = throttle.take(&[(key, pace)], at(0)).unwrap();
        }
        for _ in 0..100 {
            let right = throttle.take(&[(key, pace)], at(0)).unwrap();
            throttle.give_back(right, at(0));
        }
        let _ = throttle.take(&[(key, pace)], at(0)).unwrap();
        assert_eq!(throttle.take(&[(key, pace)], at(0)).unwrap_err(), 1);
        // Afterwards the counts are the same as before.
        for _ in 0..100 {
            let right = throttle.take(&[(key, pace)], at(1)).unwrap();
            throttle.give_back(right, at(1));
        }
    }

    #[test]
    fn nothing_is_counted_if_one_key_waits() {
        let throttle = throttle();
        let (ada, ben) = (LimitKey::text("login", b"ada"), LimitKey::text("login", b"ben"));
        let pace = Pace::even(1, WINDOW);
        let _ = throttle.take(&[(ada, pace)], at(0)).unwrap();
        for _ in 0..10 {
            assert_eq!(throttle.take(&[(ben, pace), (ada, pace)], at(0)).unwrap_err(), 1);
        }
        assert!(throttle.take(&[(ben, pace)], at(0)).is_ok());
    }

    #[test]
    fn a_clock_set_back_does_not_extend_a_wait() {
        let (throttle, key, pace) = (throttle(), LimitKey::text("login", b"ada"), Pace::even(1, WINDOW));
        let _ = throttle.take(&[(key, pace)], at(0)).unwrap();
        let before = UnixTime::from_seconds(NOW - 1_000_000);
        let wait = throttle.take(&[(key, pace)], before).unwrap_err();
        assert!(wait <= 900, "{wait}");
        assert!(throttle.take(&[(key, pace)], before.plus(Duration::from_secs(wait))).is_ok());
    }

    #[test]
    fn eight_threads_share_the_free_attempts_exactly() {
        let (throttle, pace) = (throttle(), Pace::even(1000, WINDOW));
        let passed: usize = std::thread::scope(|scope| {
            let count = || {
                let take = || throttle.take(&[(LimitKey::text("login", b"ada"), pace)], at(0));
                (0..400).filter(|_| take().is_ok()).count()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(passed, 1000);
    }

    #[test]
    fn a_flood_of_keys_resets_no_limit_and_uses_no_more_memory() {
        let throttle = throttle();
        let (ada, pace) = (LimitKey::text("login", b"ada"), Pace::even(10, WINDOW));
        for _ in 0..10 {
            let _ = throttle.take(&[(ada, pace)], at(0)).unwrap();
        }
        for number in 0..500_000_u32 {
            let _ = throttle.take(&[(LimitKey::text("login", &number.to_be_bytes()), pace)], at(0));
        }
        assert!(throttle.take(&[(ada, pace)], at(0)).is_err());
        assert!(size_of_val(&*throttle.buckets) < 4 << 20, "{}", size_of_val(&*throttle.buckets));
    }
}
