//! How many there are of what is bounded in all. Whoever makes one takes a place first: were it counted afterwards, those who
//! come at the same moment would all find the last one.
//!
//! Alone on a store, a process counts at its start and knows from then on. In a fleet one node counts every few seconds and
//! publishes what it found ([`super::counts`]); a node goes by that and by what it has begun itself since. So the bound is
//! exceeded by no more than what others begin in that time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A number that was counted for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Published {
    /// Which count it is: the counting of one begins after the one before was published.
    pub(super) number: u64,
    pub(super) count: usize,
}

impl Published {
    /// Everything was counted anew.
    pub(super) fn counted(&mut self, count: usize) {
        *self = Self { number: self.number + 1, count };
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// What the bound is compared with.
    known: AtomicUsize,
    /// What this process has begun since its start, and of it what has ended: it is in the store, or never will be.
    begun: AtomicUsize,
    ended: AtomicUsize,
    followed: Mutex<Followed>,
}

/// What a process has read of the published numbers.
#[derive(Debug, Default)]
struct Followed {
    number: u64,
    /// What had ended just before the last look, and just before the last one that did not find this number yet.
    ended_at_last: usize,
    ended_before: usize,
}

/// Places that were taken. They stay taken unless they are given back, also where nobody waits any more for what becomes of it.
#[derive(Debug)]
#[must_use]
pub(super) struct Begun<'t> {
    tally: &'t Tally,
    places: usize,
    /// How many there were before.
    pub(super) before: usize,
}

impl Begun<'_> {
    /// Nothing has come of it.
    pub(super) fn give_back(self) {
        self.tally.less(self.places);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.tally.ended.fetch_add(self.places, Ordering::AcqRel);
    }
}

impl Tally {
    pub(super) fn known(&self) -> usize {
        self.known.load(Ordering::Acquire)
    }

    pub(super) fn begin(&self, places: usize) -> Begun<'_> {
        self.begun.fetch_add(places, Ordering::AcqRel);
        let before = self.known.fetch_add(places, Ordering::AcqRel);
        Begun { tally: self, places, before }
    }

    /// One has gone.
    pub(super) fn gone(&self) {
        self.less(1);
    }

    fn less(&self, by: usize) {
        // Never below zero: it may have been counted while one was being made.
        let _ = self.known.fetch_update(Ordering::AcqRel, Ordering::Acquire, |known| Some(known.saturating_sub(by)));
    }

    /// All were counted just now, by a process that is alone on the store.
    pub(super) fn set(&self, count: usize) {
        self.known.store(count, Ordering::Release);
    }

    /// What this process has begun that has ended: to be taken before the published numbers are read.
    pub(super) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether it has ever gone by a published number.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).number > 0
    }

    /// Goes by what was published. `ended`: from before it was read.
    ///
    /// A count has all that had ended when it began. It began after the one before it was published, and so after any look that
    /// did not find that one yet. What has not ended by then, and all since, is added: rather twice than not at all.
    pub(super) fn follow(&self, published: Published, ended: usize) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if published.number != followed.number {
            let is_next = published.number == followed.number + 1;
            let counted = if is_next { followed.ended_before } else { followed.ended_at_last };
            let known = self.known.load(Ordering::Acquire);
            let own = self.begun.load(Ordering::Acquire).saturating_sub(counted);
            let right = published.count.saturating_add(own);
            // By the difference, so that nothing is lost that comes at this very moment.
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

    fn look(tally: &Tally, number: u64, count: usize) {
        tally.follow(Published { number, count }, tally.ended());
    }

    #[test]
    fn places_are_taken_before_anything_is_written_and_given_back() {
        let tally = Tally::default();
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
    fn what_was_begun_here_since_a_count_began_is_added_to_it() {
        let tally = Tally::default();
        look(&tally, 7, 100);
        assert_eq!(tally.known(), 100);
        drop(tally.begin(5));
        look(&tally, 7, 100);
        assert_eq!(tally.known(), 105);
        // The eighth count began after the seventh was published, of which we learned late: it may lack our five.
        look(&tally, 8, 110);
        assert_eq!(tally.known(), 115);
        // The ninth began after we had seen the seventh and not the eighth: it has them.
        look(&tally, 9, 110);
        assert_eq!(tally.known(), 110);
    }

    #[test]
    fn what_is_being_written_while_others_are_counted_is_not_lost() {
        let tally = Tally::default();
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
        let tally = Tally::default();
        look(&tally, 1, 0);
        drop(tally.begin(4));
        // Two have begun since the last look: the second of them after it.
        look(&tally, 3, 0);
        assert_eq!(tally.known(), 4);
        look(&tally, 5, 4);
        assert_eq!(tally.known(), 4);
    }
}
