//! Which answers to refreshes came late, or never.
//!
//! A refresh token works once, and whoever presents it again ends the grant: there are two who hold it. But a client whose
//! answer did not come asks again with the only token that it has. That is our doing where the answer was late: the process
//! was stopped, the disk or the token device stalled, the store did not say in time what became of the commit. So each
//! rotation is remembered for a moment, and one whose answer was late for as long again as it was late: then its parent
//! gives the same child once more, as long as nobody has used that. An answer in time opens no such window.
//!
//! A request can be late as well. A client that gave up on it and asked again may have used the child before we come to the
//! first request, whose token looks stolen then. It is [overtaken](Lateness::is_overtaken), and no replay.
//!
//! Time here is what a clock of the machine that never goes back says. A process that was stopped does not see when a
//! request came; it sees that its own heart did not beat, and takes what comes in the next seconds for as old as that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::grant::{GrantId, Salt};
use crate::domain::secret::SecretHash;

/// How often the heart beats.
pub(crate) const BEAT: Duration = Duration::from_millis(100);
/// From here on an answer, or a beat, is late: patient clients wait for longer, impatient ones hardly for less.
const LATE: Duration = Duration::from_secs(1);
/// What comes so soon after a stop may have waited all through it.
const BACKLOG: Duration = Duration::from_secs(5);
/// An answer may not have left when a stop begins so soon after it.
const LEAVING: Duration = Duration::from_millis(250);
/// The longest window.
const LONGEST: Duration = Duration::from_mins(1);
/// Rotations that are remembered; beyond, the oldest are forgotten.
const MOST: usize = 8192;
const MOST_STOPS: usize = 8;

/// The rotations of the last moments.
#[derive(Debug, Default)]
pub struct Lateness(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The last beat; none where nobody makes it beat.
    beat: Option<Instant>,
    stops: VecDeque<Stop>,
    rotations: VecDeque<Arc<Rotation>>,
    late: VecDeque<Arc<Rotation>>,
}

/// A time in which the process did nothing.
#[derive(Debug, Clone, Copy)]
struct Stop {
    from: Instant,
    to: Instant,
}

#[derive(Debug)]
struct Rotation {
    grant: GrantId,
    parent: SecretHash,
    salt: Salt,
    begun: Instant,
    end: Mutex<End>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    /// The answer is not ready.
    Open,
    Answered(Instant),
    /// There will be no answer, or one that says nothing: the client went away, or the store did not tell.
    Unanswered(Instant),
}

/// A rotation that is going on. Dropped without [`Answering::answered`], it counts as never answered.
#[derive(Debug)]
pub struct Answering(Arc<Rotation>);

impl Answering {
    /// The answer is ready to leave.
    pub fn answered(self) {
        self.end(End::Answered(Instant::now()));
    }

    fn end(&self, end: End) {
        let mut known = self.0.end.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*known, End::Open) {
            *known = end;
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.end(End::Unanswered(Instant::now()));
    }
}

impl Lateness {
    /// Beats. To be called every [`BEAT`].
    pub fn beat(&self) {
        self.beat_at(Instant::now());
    }

    /// Beats no more: the server stops.
    pub fn rest(&self) {
        self.seen().beat = None;
    }

    fn beat_at(&self, now: Instant) {
        let mut seen = self.seen();
        if let Some(stop) = seen.stop_until(now) {
            tracing::warn!(
                seconds = (stop.to - stop.from).as_secs_f64(),
                "the process was stopped; its answers were late"
            );
            if seen.stops.len() == MOST_STOPS {
                seen.stops.pop_front();
            }
            seen.stops.push_back(stop);
        }
        seen.beat = Some(now);
    }

    /// A refresh token of this grant, the parent, is about to be rotated with this salt, in a request that was begun then.
    pub fn rotating(&self, grant: GrantId, parent: SecretHash, salt: Salt, begun: Instant) -> Answering {
        let rotation = Arc::new(Rotation { grant, parent, salt, begun, end: Mutex::new(End::Open) });
        let mut seen = self.seen();
        seen.tidy(begun);
        seen.rotations.push_back(Arc::clone(&rotation));
        Answering(rotation)
    }

    /// The salts of the children that this parent may be given again now.
    pub fn due(&self, grant: GrantId, parent: &SecretHash) -> Vec<Salt> {
        self.due_at(grant, parent, Instant::now())
    }

    /// Whether a request that was begun then, and presents this parent now, is so late that the parent may have been rotated
    /// after it was sent. It proves no second holder then. It gets nothing either: who holds the token may ask again, and is
    /// told apart when no request is late any more.
    pub fn is_overtaken(&self, grant: GrantId, parent: &SecretHash, begun: Instant) -> bool {
        self.is_overtaken_at(grant, parent, begun, Instant::now())
    }

    fn is_overtaken_at(&self, grant: GrantId, parent: &SecretHash, begun: Instant, now: Instant) -> bool {
        let seen = self.seen();
        let asked = asked(begun, &seen.stops_until(now));
        let mut of_parent = seen.of_parent(grant, parent);
        now.saturating_duration_since(asked) > LATE && of_parent.any(|rotation| rotation.end_or(now) >= asked)
    }

    fn due_at(&self, grant: GrantId, parent: &SecretHash, now: Instant) -> Vec<Salt> {
        let seen = self.seen();
        let due = seen.of_parent(grant, parent).filter(|rotation| seen.is_due(rotation, now));
        due.map(|rotation| rotation.salt.clone()).collect()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rotation {
    fn end(&self) -> End {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it ended, or `now`.
    fn end_or(&self, now: Instant) -> Instant {
        match self.end() {
            End::Open => now,
            End::Answered(at) | End::Unanswered(at) => at,
        }
    }
}

/// When a request that we saw at `begun` may have been sent: it may have waited all through a stop before we saw it.
fn asked(begun: Instant, stops: &[Stop]) -> Instant {
    let waited = |stop: &&Stop| stop.from <= begun && begun < stop.to + BACKLOG;
    stops.iter().filter(waited).map(|stop| stop.from).min().unwrap_or(begun)
}

impl Seen {
    /// The stop that ends at `now`, or goes on.
    fn stop_until(&self, now: Instant) -> Option<Stop> {
        let from = self.beat.filter(|beat| now.saturating_duration_since(*beat) > LATE)?;
        Some(Stop { from, to: now })
    }

    fn stops_until(&self, now: Instant) -> Vec<Stop> {
        self.stops.iter().copied().chain(self.stop_until(now)).collect()
    }

    fn of_parent(&self, grant: GrantId, parent: &SecretHash) -> impl Iterator<Item = &Arc<Rotation>> {
        let all = self.rotations.iter().chain(&self.late);
        all.filter(move |rotation| rotation.grant == grant && rotation.parent == *parent)
    }

    fn is_due(&self, rotation: &Rotation, now: Instant) -> bool {
        if let End::Unanswered(at) = rotation.end() {
            return now.saturating_duration_since(at) < LONGEST;
        }
        let stops = self.stops_until(now);
        let (asked, ready) = (asked(rotation.begun, &stops), rotation.end_or(now));
        // The answer may have waited through a stop after it was ready.
        let held = |stop: &&Stop| stop.from <= ready + LEAVING && stop.to > ready;
        let left = stops.iter().filter(held).map(|stop| stop.to).max().unwrap_or(ready);
        let late_by = left.saturating_duration_since(asked);
        late_by > LATE && now.saturating_duration_since(left) < late_by.min(LONGEST)
    }

    /// Forgets rotations that were answered in time, and puts those aside that were not.
    fn tidy(&mut self, now: Instant) {
        let old = |rotation: &Rotation, age: Duration| now.saturating_duration_since(rotation.begun) > age;
        while let Some(first) = self.rotations.front() {
            if !old(first, LATE + BACKLOG) && self.rotations.len() < MOST {
                break;
            }
            let Some(first) = self.rotations.pop_front() else { break };
            if self.is_due(&first, now) {
                self.late.push_back(first);
            }
        }
        while self.late.len() > MOST || self.late.front().is_some_and(|first| old(first, 4 * LONGEST)) {
            self.late.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct World {
        lateness: Lateness,
        start: Instant,
    }

    impl World {
        fn new() -> Self {
            let world = Self { lateness: Lateness::default(), start: Instant::now() };
            world.beats(0, 0);
            world
        }

        fn at(&self, milliseconds: u64) -> Instant {
            self.start + Duration::from_millis(milliseconds)
        }

        fn beats(&self, from: u64, to: u64) {
            (from..=to).step_by(100).for_each(|beat| self.lateness.beat_at(self.at(beat)));
        }

        fn rotated(&self, begun: u64, end: Option<End>) -> Answering {
            let answering = self.lateness.rotating(grant(), parent(), Salt::from_random([7; 32]), self.at(begun));
            if let Some(end) = end {
                answering.end(end);
            }
            answering
        }

        fn is_due(&self, at: u64) -> bool {
            !self.lateness.due_at(grant(), &parent(), self.at(at)).is_empty()
        }
    }

    fn grant() -> GrantId {
        GrantId::from_bytes([1; 16])
    }

    fn parent() -> SecretHash {
        SecretHash::of(b"parent")
    }

    #[test]
    fn an_answer_in_time_opens_no_window() {
        let world = World::new();
        let _answering = world.rotated(100, Some(End::Answered(world.at(900))));
        world.beats(100, 3000);
        for now in [500, 901, 1500, 3000] {
            assert!(!world.is_due(now), "{now}");
        }
        assert!(world.lateness.due_at(grant(), &SecretHash::of(b"another"), world.at(901)).is_empty());
    }

    #[test]
    fn a_late_answer_opens_one_for_as_long_as_it_was_late() {
        let world = World::new();
        let answering = world.rotated(0, None);
        world.beats(100, 4000);
        assert!(!world.is_due(900) && world.is_due(1500), "while the answer is not there");
        answering.end(End::Answered(world.at(4000)));
        world.beats(4100, 9000);
        assert!(world.is_due(4001) && world.is_due(7900) && !world.is_due(8100));
        assert!(world.lateness.due_at(GrantId::from_bytes([2; 16]), &parent(), world.at(5000)).is_empty());
    }

    #[test]
    fn what_comes_after_a_stop_is_as_old_as_the_stop() {
        let world = World::new();
        // Nothing beats until 20 s. The request is seen then, and so is its repetition.
        let _answering = world.rotated(20_000, Some(End::Answered(world.at(20_005))));
        assert!(world.is_due(20_010), "before the heart has beaten");
        world.lateness.beat_at(world.at(20_020));
        world.beats(20_100, 40_000);
        assert!(world.is_due(20_030) && world.is_due(39_000) && !world.is_due(40_100));
        // What comes long after it is not.
        let late = world.lateness.rotating(grant(), SecretHash::of(b"b"), Salt::from_random([8; 32]), world.at(29_000));
        late.end(End::Answered(world.at(29_005)));
        assert!(world.lateness.due_at(grant(), &SecretHash::of(b"b"), world.at(29_010)).is_empty());
    }

    #[test]
    fn an_answer_that_a_stop_caught_on_its_way_was_late() {
        let world = World::new();
        world.beats(0, 1000);
        let _answering = world.rotated(900, Some(End::Answered(world.at(990))));
        world.lateness.beat_at(world.at(11_000));
        assert!(world.is_due(11_010) && !world.is_due(21_200));
    }

    #[test]
    fn a_request_of_before_a_stop_is_overtaken_by_its_repetition() {
        let world = World::new();
        let overtaken = |begun, now| world.lateness.is_overtaken_at(grant(), &parent(), world.at(begun), world.at(now));
        // Nothing beats until 4 s. Three requests with one token came meanwhile; the last is the first to be answered.
        let _answering = world.rotated(4_000, Some(End::Answered(world.at(4_010))));
        world.lateness.beat_at(world.at(4_020));
        world.beats(4_100, 20_000);
        assert!(overtaken(4_000, 4_030) && overtaken(8_900, 9_000));
        assert!(!overtaken(9_100, 9_200), "nothing of before the stop comes so long after it");
        let another = SecretHash::of(b"another");
        assert!(!world.lateness.is_overtaken_at(grant(), &another, world.at(4_000), world.at(4_030)));
    }

    #[test]
    fn a_request_that_took_long_is_overtaken_by_a_rotation_after_it_began() {
        let world = World::new();
        world.beats(100, 9_000);
        let _answering = world.rotated(2_000, Some(End::Answered(world.at(2_100))));
        let overtaken = |begun, now| world.lateness.is_overtaken_at(grant(), &parent(), world.at(begun), world.at(now));
        assert!(overtaken(500, 3_000));
        assert!(!overtaken(1_900, 2_800), "a race of two, as ever");
        assert!(!overtaken(2_200, 4_000), "begun after the rotation: a replay");
    }

    #[test]
    fn what_was_never_answered_may_be_asked_for_at_once() {
        let lateness = Lateness::default();
        drop(lateness.rotating(grant(), parent(), Salt::from_random([7; 32]), Instant::now()));
        assert_eq!(lateness.due(grant(), &parent()), [Salt::from_random([7; 32])]);
        assert!(lateness.due_at(grant(), &parent(), Instant::now() + 61 * SECOND).is_empty());
    }

    #[test]
    fn what_was_answered_in_time_is_forgotten_and_what_was_not_is_kept() {
        let world = World::new();
        world.beats(100, 20_000);
        drop(world.rotated(0, Some(End::Unanswered(world.at(0)))));
        for number in 1..10_000 {
            world.rotated(1_000 + number, Some(End::Answered(world.at(1_000 + number))));
        }
        world.rotated(20_000, None);
        let seen = world.lateness.seen();
        assert_eq!((seen.rotations.len(), seen.late.len()), (1, 1));
    }
}
