//! Current totals of bounded records.
//!
//! A request reserves a place before it writes. If it counted afterwards, concurrent requests would
//! all see the last free place.
//!
//! Alone on a store, a process counts at its start and tracks changes. In a cluster, one node
//! counts every few seconds and publishes the result ([`super::counts`]). The others use it and add
//! what they began since. So the limit is exceeded at most by what other nodes begin in that time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A published total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Published {
    /// Sequence number: a count begins after the previous one was published.
    pub(super) number: u64,
    pub(super) count: usize,
}

impl Published {
    /// Records a new count.
    pub(super) fn counted(&mut self, count: usize) {
        *self = Self { number: self.number + 1, count };
    }
}

#[derive(Debug, Default)]
pub(super) struct BoundedCount {
    /// The total that is compared with the limit.
    known: AtomicUsize,
    /// Places that this process began since its start; `ended` of them are written or failed.
    begun: AtomicUsize,
    ended: AtomicUsize,
    followed: Mutex<Followed>,
}

/// State of following the published totals.
#[derive(Debug, Default)]
struct Followed {
    number: u64,
    /// `ended` just before the last read, and just before the last read that did not see this
    /// number.
    ended_at_last: usize,
    ended_before: usize,
}

/// Reserved places. They stay reserved until given back, even if the caller no longer waits.
#[derive(Debug)]
#[must_use]
pub(super) struct Reservation<'t> {
    tally: &'t BoundedCount,
    places: usize,
    /// The total before.
    pub(super) before: usize,
}

impl Reservation<'_> {
    /// Returns the places after a failure.
    pub(super) fn give_back(self) {
        self.tally.less(self.places);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.tally.ended.fetch_add(self.places, Ordering::AcqRel);
    }
}

impl BoundedCount {
    pub(super) fn known(&self) -> usize {
        self.known.load(Ordering::Acquire)
    }

    pub(super) fn begin(&self, places: usize) -> Reservation<'_> {
        self.begun.fetch_add(places, Ordering::AcqRel);
        let before = self.known.fetch_add(places, Ordering::AcqRel);
        Reservation { tally: self, places, before }
    }

    /// Removes one.
    pub(super) fn gone(&self) {
        self.less(1);
    }

    fn less(&self, by: usize) {
        // Never below zero: a count may have missed one that was being created.
        let _ = self.known.fetch_update(Ordering::AcqRel, Ordering::Acquire, |known| Some(known.saturating_sub(by)));
    }

    /// Sets a fresh count, for a process that is alone on the store.
    pub(super) fn set(&self, count: usize) {
        self.known.store(count, Ordering::Release);
    }

    /// Returns the ended places of this process. Read it before the published total.
    pub(super) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether a published total was ever applied.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).number > 0
    }

    /// Applies a published total. `ended`: from before it was read.
    ///
    /// A count includes all places that had ended when it began. It began after the previous one
    /// was published, and so after any read that did not see the previous one yet. Places that had
    /// not ended by then, and all later ones, are added: counting twice is safer than not at all.
    pub(super) fn follow(&self, published: Published, ended: usize) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if published.number != followed.number {
            let is_next = published.number == followed.number + 1;
            let counted = if is_next { followed.ended_before } else { followed.ended_at_last };
            let known = self.known.load(Ordering::Acquire);
            let own = self.begun.load(Ordering::Acquire).saturating_sub(counted);
            let right = published.count.saturating_add(own);
            // By the difference, so that concurrent additions are not lost.
            if right >= known {
                self.known.fetch_add(right - known, Ordering::AcqRel);
            } else {
                self.less(known - right);
            }
            followed.number = published.number;
            followed.ended_before = followed.ended_at_last;
        }
        followed.ended_at_last = ended;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(tally: &BoundedCount, number: u64, count: usize) {
        tally.follow(Published { number, count }, tally.ended());
    }

    #[test]
    fn places_are_taken_before_anything_is_written_and_given_back() {
        let tally = BoundedCount::default();
        tally.set(3);
        let begun = tally.begin(2);
        assert_eq!((begun.before, tally.known()), (3, 5));
        begun.give_back();
        drop(tally.begin(1));
        assert_eq!(tally.known(), 4);
        for _ in 0..9 {
            tally.gone();
        }
        assert_eq!(tally.known(), 0);
    }

    #[test]
    fn records_added_during_a_count_are_included() {
        let tally = BoundedCount::default();
        look(&tally, 7, 100);
        assert_eq!(tally.known(), 100);
        drop(tally.begin(5));
        look(&tally, 7, 100);
        assert_eq!(tally.known(), 105);
        // The eighth count began after the seventh was published, which was read late: it may lack
        // the five.
        look(&tally, 8, 110);
        assert_eq!(tally.known(), 115);
        // The ninth began after the seventh was read and before the eighth: it has them.
        look(&tally, 9, 110);
        assert_eq!(tally.known(), 110);
    }

    #[test]
    fn concurrent_writes_are_not_lost_from_a_count() {
        let tally = BoundedCount::default();
        look(&tally, 1, 0);
        let writing = tally.begin(1);
        for number in 2..9 {
            look(&tally, number, 0);
            assert_eq!(tally.known(), 1, "{number}");
        }
        drop(writing);
        look(&tally, 9, 0);
        assert_eq!(tally.known(), 1);
        look(&tally, 10, 1);
        look(&tally, 11, 1);
        assert_eq!(tally.known(), 1);
    }

    #[test]
    fn counts_that_were_missed_do_no_harm() {
        let tally = BoundedCount::default();
        look(&tally, 1, 0);
        drop(tally.begin(4));
        // Two began since the last read: the second of them after it.
        look(&tally, 3, 0);
        assert_eq!(tally.known(), 4);
        look(&tally, 5, 4);
        assert_eq!(tally.known(), 4);
    }
}
