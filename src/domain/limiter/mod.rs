//! Rate limits. Counts requests in fixed windows, in a table of fixed size.
//!
//! Decisions depend only on the counts and the given time. The caller chooses the key and creates
//! the response.
//!
//! The table consists of buckets with a few slots each. A keyed hash of the key selects the bucket
//! and identifies the slot, so attackers cannot choose the bucket of a key. A full bucket evicts a
//! slot whose window has ended. If there is none, it evicts the slot with the lowest count. Slots
//! that have reached their limit are evicted last. Therefore, in a flood of new keys, the keys
//! evict each other, and blocked clients stay blocked. A map instead of the table would grow with
//! the flood.
//!
//! Processes with the same seed have the same windows and can share counts: see [`Shares`].

mod shares;
mod throttle;

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};

pub use shares::Shares;
pub use throttle::{Counted, FailureThrottle};

use crate::rate_limit::RateLimit;
use crate::time::UnixTime;

/// Number of buckets, a power of two.
const BUCKETS: usize = 1 << 14;
const SLOTS: usize = 8;

/// Number of requests allowed per key and window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub limit: u32,
    /// Length of the window in whole seconds, at least one.
    pub window: Duration,
}

impl Rule {
    /// Converts a configured limit. Returns `None` if the limit is unlimited.
    pub fn from_limit(limit: RateLimit) -> Option<Self> {
        limit.requests().map(|limit| Self { limit, window: Duration::from_mins(1) })
    }
}

/// State of a key's window after a request, as shown in the rate limit headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitStatus {
    pub limit: u32,
    pub remaining: u32,
    /// End of the window, at most the length of a window from now.
    pub reset: UnixTime,
    pub allowed: bool,
    /// Seconds to wait, at least 1. `None` if the request is allowed.
    pub retry_after: Option<u64>,
}

/// Key under which requests are counted. Keys of different buckets or kinds never collide.
#[derive(Debug, Clone, Copy)]
pub struct LimitKey<'a> {
    bucket: &'static str,
    address: Option<[u8; 16]>,
    text: Option<&'a [u8]>,
}

impl<'a> LimitKey<'a> {
    /// Creates the key of a client address. The addresses of an IPv6 /64 share a key, because a
    /// subscriber has at least a /64.
    pub fn address(bucket: &'static str, address: IpAddr) -> LimitKey<'static> {
        LimitKey { bucket, address: Some(network(address)), text: None }
    }

    /// Creates the key of the /48 of an IPv6 address, because a subscriber may have a whole /48.
    /// Returns `None` for IPv4 addresses, which are scarce.
    pub fn site(bucket: &'static str, address: IpAddr) -> Option<LimitKey<'static>> {
        let IpAddr::V6(address) = address.to_canonical() else { return None };
        let site = u128::from(address) & !(u128::MAX >> 48);
        Some(LimitKey { bucket, address: Some(site.to_be_bytes()), text: None })
    }

    /// Creates the key of a name, such as a client id or a token.
    pub fn text(bucket: &'static str, text: &'a [u8]) -> Self {
        Self { bucket, address: None, text: Some(text) }
    }

    /// Creates the key of a name that is used from an address.
    pub fn text_and_address(bucket: &'static str, text: &'a [u8], address: IpAddr) -> Self {
        Self { bucket, address: Some(network(address)), text: Some(text) }
    }

    /// Creates the key of a name that is used from an IPv4 address or an IPv6 /48.
    pub fn text_and_site(bucket: &'static str, text: &'a [u8], address: IpAddr) -> Self {
        let site = LimitKey::site(bucket, address).and_then(|site| site.address);
        Self { bucket, address: Some(site.unwrap_or_else(|| network(address))), text: Some(text) }
    }
}

/// Returns an IPv4 address in its IPv6-mapped form (RFC 4291 §2.5.5.2), or the first 64 bits of an
/// IPv6 address.
fn network(address: IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => (u128::from(address) & !u128::from(u64::MAX)).to_be_bytes(),
    }
}

/// Counter of requests. Exact under concurrency. Uses about 3 MiB for any number of keys.
pub struct Limiter {
    seed: [u8; 16],
    buckets: Box<[Mutex<[Slot; SLOTS]>]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    mark: u64,
    /// End of the window, in seconds since 1970. 0 in an unused slot.
    ends: u64,
    count: u32,
    limit: u32,
}

/// Position of a key in the table, and its window.
#[derive(Debug)]
struct Place {
    bucket: u64,
    mark: u64,
    ends: u64,
}

impl Place {
    fn for_key(seed: &[u8; 16], key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> Self {
        let [bucket, mark, phase] = hash(seed, key);
        let window = rule.window.as_secs().max(1);
        let phase = phase % window;
        // Each window of a key begins when the previous window ends. The first begins at the key's
        // phase. Keys have different phases, so that blocked clients do not all return in the same
        // second.
        let elapsed = (now.seconds() % window + window - phase) % window;
        let ends = now.seconds().saturating_add(window - elapsed);
        Self { bucket, mark, ends }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below BUCKETS")]
    fn index(&self) -> usize {
        (self.bucket % BUCKETS as u64) as usize
    }
}

impl Limiter {
    /// Creates an empty table. `seed` must be unpredictable to clients. Limiters with the same seed
    /// have the same windows.
    pub fn new(seed: [u8; 16]) -> Self {
        let buckets = (0..BUCKETS).map(|_| Mutex::default()).collect();
        Self { seed, buckets }
    }

    /// Counts a request and returns whether it is allowed. A refused request is not counted.
    pub fn take(&self, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let place = Place::for_key(&self.seed, key, rule, now);
        let mut slots = self.bucket(&place);
        let slot = Self::claim(&mut slots, &place, now);
        slot.limit = rule.limit;
        let allowed = slot.count < rule.limit;
        if allowed {
            slot.count += 1;
        }
        reading(slot.count, rule, place.ends, now, allowed)
    }

    /// Returns the result that [`Limiter::take`] would return. Counts nothing.
    pub fn peek(&self, key: &LimitKey<'_>, rule: Rule, now: UnixTime) -> RateLimitStatus {
        let place = Place::for_key(&self.seed, key, rule, now);
        let count = self.bucket(&place).iter().find(|slot| slot.is(&place)).map_or(0, |slot| slot.count);
        reading(count, rule, place.ends, now, count < rule.limit)
    }

    fn bucket(&self, place: &Place) -> MutexGuard<'_, [Slot; SLOTS]> {
        self.buckets[place.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the slot of the key. If there is none, evicts a slot for it.
    fn claim<'s>(slots: &'s mut [Slot; SLOTS], place: &Place, now: UnixTime) -> &'s mut Slot {
        let now = now.seconds();
        // Prefer a slot of the same key with another window. If the clock was set back, that window
        // may not have ended.
        let rank = |slot: &Slot| match slot {
            slot if slot.is(place) => (0, 0),
            slot if slot.mark == place.mark => (1, 0),
            slot if slot.ends <= now => (2, 0),
            slot if slot.count < slot.limit => (3, slot.count),
            slot => (4, slot.count),
        };
        let slot = least(slots, rank);
        if !slot.is(place) {
            *slot = Slot { mark: place.mark, ends: place.ends, count: 0, limit: 0 };
        }
        slot
    }
}

/// Returns the slot with the lowest rank.
fn least<S, R: Ord>(slots: &mut [S; SLOTS], rank: impl Fn(&S) -> R) -> &mut S {
    let mut best = 0;
    for index in 1..SLOTS {
        if rank(&slots[index]) < rank(&slots[best]) {
            best = index;
        }
    }
    &mut slots[best]
}

/// Returns a hash of the key that is the same in all processes with the seed. Without the seed, the
/// hash can neither be predicted nor inverted.
pub fn shared_key(seed: &[u8; 16], key: &LimitKey<'_>) -> [u8; 16] {
    let [bucket, mark, _] = hash(seed, key);
    (u128::from(bucket) << 64 | u128::from(mark)).to_be_bytes()
}

/// Returns three numbers that are unpredictable without the seed.
fn hash(seed: &[u8; 16], key: &LimitKey<'_>) -> [u64; 3] {
    let mut hash = Sha256::new();
    hash.update(seed);
    hash.update([u8::from(key.address.is_some()), u8::from(key.text.is_some())]);
    hash.update(key.address.unwrap_or_default());
    hash.update((key.bucket.len() as u64).to_be_bytes());
    hash.update(key.bucket);
    hash.update(key.text.unwrap_or_default());
    let hash: [u8; 32] = hash.finalize().into();
    let (words, _) = hash.as_chunks::<8>();
    let word = |index: usize| words.get(index).map_or(0, |bytes| u64::from_be_bytes(*bytes));
    [word(0), word(1), word(2)]
}

impl Slot {
    fn is(&self, place: &Place) -> bool {
        self.mark == place.mark && self.ends == place.ends
    }
}

fn reading(count: u32, rule: Rule, ends: u64, now: UnixTime, allowed: bool) -> RateLimitStatus {
    RateLimitStatus {
        limit: rule.limit,
        remaining: rule.limit.saturating_sub(count),
        reset: UnixTime::from_seconds(ends),
        allowed,
        retry_after: (!allowed).then(|| ends.saturating_sub(now.seconds()).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_017);
    const RULE: Rule = Rule { limit: 50, window: Duration::from_mins(1) };

    fn limiter() -> Limiter {
        Limiter::new(*b"sixteen bytes ok")
    }

    fn address(text: &str) -> LimitKey<'static> {
        LimitKey::address("authorize", text.parse().unwrap())
    }

    #[test]
    fn remaining_falls_by_one_until_requests_are_refused() {
        let limiter = limiter();
        let key = LimitKey::text("token", b"wiki");
        for left in (0..50).rev() {
            let reading = limiter.take(&key, RULE, NOW);
            assert_eq!((reading.allowed, reading.remaining, reading.retry_after), (true, left, None));
        }
        let refused = limiter.take(&key, RULE, NOW);
        assert_eq!((refused.allowed, refused.remaining, refused.limit), (false, 0, 50));
        assert_eq!(refused.retry_after, Some(refused.reset.seconds() - NOW.seconds()));
    }

    #[test]
    fn the_window_ends_when_reset_says() {
        let limiter = limiter();
        let key = LimitKey::text("token", b"wiki");
        let reset = limiter.take(&key, Rule { limit: 1, ..RULE }, NOW).reset;
        let last = UnixTime::from_seconds(reset.seconds() - 1);
        let refused = limiter.take(&key, Rule { limit: 1, ..RULE }, last);
        assert_eq!((refused.allowed, refused.retry_after), (false, Some(1)));
        let next = limiter.take(&key, Rule { limit: 1, ..RULE }, reset);
        assert!(next.allowed);
        assert_eq!(next.reset, reset.plus(RULE.window));
    }

    #[test]
    fn reset_lies_within_one_window_after_now_and_differs_by_key() {
        let limiter = limiter();
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..10_000_u32 {
            let reading = limiter.peek(&LimitKey::text("token", &number.to_be_bytes()), RULE, NOW);
            let wait = reading.reset.seconds() - NOW.seconds();
            assert!((1..=60).contains(&wait), "{wait}");
            seen.insert(wait);
        }
        assert_eq!(seen.len(), 60);
    }

    #[test]
    fn a_refused_request_is_not_counted() {
        let limiter = limiter();
        let key = LimitKey::text("token", b"wiki");
        for _ in 0..500 {
            limiter.take(&key, RULE, NOW);
        }
        // After the limit was raised by one, exactly one more request is allowed.
        let raised = Rule { limit: 51, ..RULE };
        assert!(limiter.take(&key, raised, NOW).allowed);
        assert!(!limiter.take(&key, raised, NOW).allowed);
    }

    #[test]
    fn peeking_does_not_count() {
        let limiter = limiter();
        let key = LimitKey::text("token", b"wiki");
        limiter.take(&key, RULE, NOW);
        for _ in 0..100 {
            assert_eq!(limiter.peek(&key, RULE, NOW).remaining, 49);
        }
        assert_eq!(limiter.take(&key, RULE, NOW).remaining, 48);
    }

    #[test]
    fn peeking_at_a_blocked_key_returns_the_wait() {
        let limiter = limiter();
        let key = LimitKey::text("login", b"ada");
        let rule = Rule { limit: 1, ..RULE };
        limiter.take(&key, rule, NOW);
        let reading = limiter.peek(&key, rule, NOW);
        assert!(!reading.allowed);
        assert_eq!(reading.retry_after, Some(reading.reset.seconds() - NOW.seconds()));
    }

    #[test]
    fn eight_threads_share_a_limit_exactly() {
        let limiter = limiter();
        let rule = Rule { limit: 1000, ..RULE };
        let allowed: usize = thread::scope(|scope| {
            let count =
                || (0..400).filter(|_| limiter.take(&LimitKey::text("token", b"wiki"), rule, NOW).allowed).count();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(allowed, 1000);
    }

    #[test]
    fn a_flood_of_keys_resets_no_limit() {
        let limiter = limiter();
        let wiki = LimitKey::text("token", b"wiki");
        // With a limit of one, the blocked key has the same count as the keys of the flood.
        let new_client = LimitKey::text("register", b"wiki");
        let single = Rule { limit: 1, ..RULE };
        for _ in 0..50 {
            limiter.take(&wiki, RULE, NOW);
        }
        limiter.take(&new_client, single, NOW);
        for number in 0..1_000_000_u32 {
            limiter.take(&LimitKey::text("token", &number.to_be_bytes()), RULE, NOW);
        }
        assert!(!limiter.peek(&wiki, RULE, NOW).allowed);
        assert!(!limiter.peek(&new_client, single, NOW).allowed);
        let is_known = |number: &u32| {
            limiter.peek(&LimitKey::text("token", &number.to_be_bytes()), RULE, NOW).remaining < RULE.limit
        };
        assert!((0..1_000_000_u32).filter(is_known).count() < 200_000, "most displaced one another");
    }

    /// The boxed slice is the limiter's only heap allocation, so the limiter cannot grow.
    #[test]
    fn the_table_is_small() {
        let bytes = size_of_val(&*limiter().buckets);
        assert!(bytes < 4 << 20, "{bytes}");
    }

    #[test]
    fn short_lived_keys_displace_no_other_key() {
        let (limiter, mut forgotten) = (limiter(), 0);
        for minute in 0..20_u32 {
            let now = NOW.plus(Duration::from_secs(60 * u64::from(minute)));
            let keys: Vec<[u8; 4]> = (0..10_000).map(|number: u32| (minute * 10_000 + number).to_be_bytes()).collect();
            for key in &keys {
                limiter.take(&LimitKey::text("token", key), RULE, now);
            }
            let is_known =
                |key: &&[u8; 4]| limiter.peek(&LimitKey::text("token", *key), RULE, now).remaining < RULE.limit;
            forgotten += keys.len() - keys.iter().filter(is_known).count();
        }
        // 10,000 keys in 131,072 slots: about one bucket in ten thousand overflows.
        assert!(forgotten < 200, "{forgotten}");
    }

    #[test]
    fn an_ipv6_subscriber_is_one_key() {
        let limiter = limiter();
        limiter.take(&address("2001:db8:1:2::1"), RULE, NOW);
        assert_eq!(limiter.peek(&address("2001:db8:1:2:ffff:ffff:ffff:ffff"), RULE, NOW).remaining, 49);
        assert_eq!(limiter.peek(&address("2001:db8:1:3::1"), RULE, NOW).remaining, 50);
    }

    #[test]
    fn an_ipv6_site_is_one_key_and_ipv4_has_none() {
        let limiter = limiter();
        let site = |text: &str| LimitKey::site("authorize", text.parse().unwrap());
        limiter.take(&site("2001:db8:1:2::1").unwrap(), RULE, NOW);
        assert_eq!(limiter.peek(&site("2001:db8:1:ffff::1").unwrap(), RULE, NOW).remaining, 49);
        assert_eq!(limiter.peek(&site("2001:db8:2:2::1").unwrap(), RULE, NOW).remaining, 50);
        assert!(site("192.0.2.1").is_none() && site("::ffff:192.0.2.1").is_none());
    }

    #[test]
    fn every_spelling_of_an_ipv4_address_is_one_key() {
        let limiter = limiter();
        limiter.take(&address("192.0.2.1"), RULE, NOW);
        assert_eq!(limiter.peek(&address("::ffff:192.0.2.1"), RULE, NOW).remaining, 49);
        assert_eq!(limiter.peek(&address("192.0.2.2"), RULE, NOW).remaining, 50);
    }

    #[test]
    fn keys_of_different_kinds_never_collide() {
        let limiter = limiter();
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let bytes = network(ip);
        let keys = [
            LimitKey::text("token", b"wiki"),
            LimitKey::text("revoke", b"wiki"),
            LimitKey::text("tokenw", b"iki"),
            LimitKey::address("token", ip),
            LimitKey::text("token", b""),
            LimitKey::text("token", &bytes),
            LimitKey::text_and_address("token", b"wiki", ip),
            LimitKey::text_and_address("token", b"", ip),
        ];
        for key in &keys {
            assert_eq!(limiter.take(key, RULE, NOW).remaining, 49, "{key:?}");
        }
    }

    #[test]
    fn a_clock_set_back_starts_a_new_window() {
        let limiter = limiter();
        let key = LimitKey::text("token", b"wiki");
        limiter.take(&key, RULE, NOW);
        let earlier = UnixTime::from_seconds(NOW.seconds() - 3600);
        assert_eq!(limiter.take(&key, RULE, earlier).remaining, 49);
        assert_eq!(limiter.take(&key, RULE, earlier).remaining, 48);
    }

    #[test]
    fn a_limit_above_sixteen_bits_is_exact() {
        let limiter = limiter();
        let (key, rule) = (LimitKey::text("token", b"wiki"), Rule { limit: 70_000, ..RULE });
        let allowed = (0..70_010).filter(|_| limiter.take(&key, rule, NOW).allowed).count();
        assert_eq!(allowed, 70_000);
    }

    #[test]
    fn a_limit_of_zero_refuses_everything() {
        let reading = limiter().take(&LimitKey::text("token", b"wiki"), Rule { limit: 0, ..RULE }, NOW);
        assert_eq!((reading.allowed, reading.remaining), (false, 0));
    }
}
