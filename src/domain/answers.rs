//! Classification of answers to refresh requests: in time or late.
//!
//! A refresh token can be used once. A client that did not receive the answer to a refresh presents
//! the same token again: the parent of the current token. If the answer did arrive, a second use of
//! the parent means that another party has the parent too. To distinguish the two cases, each
//! process numbers its rotations and stores the number in the grant ([`RotationId`]). The process
//! classifies each of its answers ([`AnswerLedger`]) and writes the result to the store
//! ([`AnswerReport`]). Therefore all processes make the same decision, even about rotations of a
//! process that was suspended or killed.
//!
//! Times are durations since a common start, on a monotonic clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::time::UnixTime;

/// Interval between two calls of [`AnswerLedger::heartbeat`].
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);
/// Delay beyond which an answer, a request or a heartbeat is late. Clients rarely time out earlier.
pub(crate) const LATE_AFTER: Duration = Duration::from_secs(1);
/// Time after a rotation in which a doubtful answer is repeated. Later, presenting the parent token
/// ends the grant.
pub(crate) const REPEAT_WINDOW: Duration = Duration::from_mins(1);
/// Time after which a process that has not reported an answer is assumed to be suspended or dead.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum difference between the clocks of two nodes, because each may differ from the database's
/// clock by two seconds.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(4);
/// Time after the end of a suspension. Requests that arrive in this time may have been sent before
/// the end.
const BACKLOG_TIME: Duration = Duration::from_secs(5);
/// Time that sending an answer may take. If a suspension begins within this time after an answer is
/// ready, the answer may not have been sent.
const SENDING_TIME: Duration = Duration::from_millis(250);
/// Lifetime of a report after its last change.
const REPORT_LIFETIME: Duration = Duration::from_hours(1);
/// Maximum number of unclassified answers. If there are more, the oldest are classified as late.
const MAX_OPEN_ANSWERS: usize = 65_536;
/// Maximum number of ranges of late answers in a report. If there are more, the two oldest ranges
/// are merged.
const MAX_LATE_RANGES: usize = 1_024;
/// Maximum number of remembered suspensions. The oldest is evicted first.
const MAX_SUSPENSIONS: usize = 8;

/// Id of a process that rotates refresh tokens, chosen at random when the process starts.
pub type ProcessId = Id<'P'>;

/// Id of a rotation: the process that performed it, and its number within the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationId {
    pub process: ProcessId,
    pub number: u64,
    pub at: UnixTime,
}

/// Outcome of an answer to a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer was ready in time, and the process continued to run.
    InTime,
    /// The answer was late or was not sent, or its process no longer reports.
    Doubtful,
    /// The process has not reported the answer yet.
    Pending,
}

/// Report of a process about its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerReport {
    /// Number below which all answers are classified.
    pub classified: u64,
    /// First and last numbers of ranges of late answers. All other classified answers were in time.
    pub late: Vec<(u64, u64)>,
    pub expires_at: UnixTime,
}

impl AnswerReport {
    /// Returns the expiry of a report that is written at `now`. All reports that are written in the
    /// same hour have the same expiry.
    pub fn expiry(now: UnixTime) -> UnixTime {
        let hour = REPORT_LIFETIME.as_secs();
        UnixTime::from_seconds((now.seconds() / hour).saturating_add(2).saturating_mul(hour))
    }

    /// Returns the outcome of another process's answer, from the last report of that process.
    pub fn outcome(report: Option<&Self>, rotation: &RotationId, now: UnixTime) -> AnswerOutcome {
        match report {
            Some(report) if rotation.number < report.classified => {
                let is_late = report.late.iter().any(|(first, last)| (*first..=*last).contains(&rotation.number));
                if is_late { AnswerOutcome::Doubtful } else { AnswerOutcome::InTime }
            }
            _ if now < rotation.at.plus(REPORT_TIMEOUT) => AnswerOutcome::Pending,
            _ => AnswerOutcome::Doubtful,
        }
    }
}

/// Returns whether a request that waited this long may have been sent before the last rotation of
/// its grant.
pub fn may_precede_rotation(waited: Duration, rotated_at: Option<UnixTime>, now: UnixTime) -> bool {
    let precedes_request = |at: UnixTime| at.plus(MAX_CLOCK_DIFFERENCE).plus(waited) < now;
    waited > LATE_AFTER && !rotated_at.is_some_and(precedes_request)
}

/// Ledger of the answers of one process.
#[derive(Debug, Default)]
pub struct AnswerLedger {
    next: u64,
    open: BTreeMap<u64, OpenAnswer>,
    /// Ranges of late answers, in ascending order. Adjacent ranges are merged.
    late: VecDeque<LateRange>,
    /// Time of the last heartbeat. `None` before the first.
    heartbeat: Option<Duration>,
    suspensions: VecDeque<Suspension>,
}

#[derive(Debug, Clone, Copy)]
struct OpenAnswer {
    received: Duration,
    ready: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct LateRange {
    first: u64,
    last: u64,
    /// Time at which the newest answer in the range was classified.
    at: Duration,
}

/// Period in which the process did not run.
#[derive(Debug, Clone, Copy)]
pub struct Suspension {
    from: Duration,
    to: Duration,
}

impl Suspension {
    /// Returns the time for which the process did not run.
    pub fn length(self) -> Duration {
        self.to.saturating_sub(self.from)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Open,
    Late,
    /// Ready in time. A suspension may still delay the answer.
    Ready,
    Sent,
}

impl AnswerLedger {
    /// Records that the process is running, and classifies answers. Returns the suspension that has
    /// just ended, if any.
    ///
    /// Must be called every [`HEARTBEAT_INTERVAL`].
    pub fn heartbeat(&mut self, now: Duration) -> Option<Suspension> {
        let ended = self.suspension_until(now);
        if let Some(suspension) = ended {
            if self.suspensions.len() == MAX_SUSPENSIONS {
                self.suspensions.pop_front();
            }
            self.suspensions.push_back(suspension);
        }
        self.heartbeat = Some(now);
        self.classify(now, false);
        while self.late.front().is_some_and(|range| range.at + 2 * REPEAT_WINDOW < now) {
            self.late.pop_front();
        }
        ended
    }

    /// Records that no more heartbeats follow, because the process is shutting down. The process
    /// may still answer requests.
    pub fn rest(&mut self) {
        self.heartbeat = None;
    }

    /// Classifies the remaining answers at shutdown. An answer that is ready counts as sent.
    pub fn close(&mut self, now: Duration) {
        self.rest();
        self.classify(now, true);
    }

    /// Returns a number for the rotation of a request that was received at this time.
    pub fn begin(&mut self, received: Duration) -> u64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        self.open.insert(number, OpenAnswer { received, ready: None });
        if self.open.len() > MAX_OPEN_ANSWERS
            && let Some((oldest, _)) = self.open.pop_first()
        {
            self.mark_late(oldest, received);
        }
        number
    }

    /// Records that the answer is ready to send.
    pub fn ready(&mut self, number: u64, now: Duration) {
        if let Some(answer) = self.open.get_mut(&number) {
            answer.ready.get_or_insert(now);
        }
    }

    /// Records that the answer will not be sent, because the request was cancelled or the outcome
    /// of the commit is unknown.
    pub fn abandon(&mut self, number: u64, now: Duration) {
        if self.open.get(&number).is_some_and(|answer| answer.ready.is_none()) {
            self.open.remove(&number);
            self.mark_late(number, now);
        }
    }

    /// Removes the number of a rotation that was not committed, so that no grant contains it.
    pub fn withdraw(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Returns the outcome of an answer of this process.
    pub fn outcome(&self, number: u64, now: Duration) -> AnswerOutcome {
        let is_late = || self.late.iter().any(|range| (range.first..=range.last).contains(&number));
        match self.open.get(&number).map(|answer| self.class(*answer, now)) {
            Some(Class::Open) => AnswerOutcome::Pending,
            Some(Class::Late) => AnswerOutcome::Doubtful,
            None if is_late() => AnswerOutcome::Doubtful,
            Some(Class::Ready | Class::Sent) | None => AnswerOutcome::InTime,
        }
    }

    /// Returns the longest time that may have passed since the client sent the request. It includes
    /// a suspension before the request was received.
    pub fn waited(&self, received: Duration, now: Duration) -> Duration {
        now.saturating_sub(self.first_sent_at(received, now))
    }

    /// Returns the report without its expiry: the number below which answers are classified, and
    /// the ranges of late answers.
    pub fn report(&self) -> (u64, Vec<(u64, u64)>) {
        let classified = self.open.first_key_value().map_or(self.next, |(number, _)| *number);
        // If a late answer follows an unclassified answer, it is reported later, when all answers
        // before it are classified.
        let late = self.late.iter().filter(|range| range.first < classified);
        (classified, late.map(|range| (range.first, range.last)).collect())
    }

    fn classify(&mut self, now: Duration, at_end: bool) {
        let classes = self.open.iter().map(|(number, answer)| (*number, self.class(*answer, now)));
        let classes: Vec<_> = classes.filter(|(_, class)| *class != Class::Open).collect();
        for (number, class) in classes {
            if class == Class::Late {
                self.mark_late(number, now);
            }
            if class != Class::Ready || at_end {
                self.open.remove(&number);
            }
        }
    }

    fn class(&self, answer: OpenAnswer, now: Duration) -> Class {
        let sent_at = self.first_sent_at(answer.received, now);
        let ready = answer.ready.unwrap_or(now);
        if ready.saturating_sub(sent_at) > LATE_AFTER {
            return Class::Late;
        }
        if answer.ready.is_none() {
            return Class::Open;
        }
        let caught = |suspension: Suspension| suspension.from <= ready + SENDING_TIME && suspension.to > ready;
        if self.suspensions_until(now).any(caught) {
            return Class::Late;
        }
        if now >= ready + SENDING_TIME { Class::Sent } else { Class::Ready }
    }

    /// Returns the earliest time at which the client may have sent a request that was received at
    /// `received`.
    fn first_sent_at(&self, received: Duration, now: Duration) -> Duration {
        let waited = |it: &Suspension| it.from <= received && received < it.to + BACKLOG_TIME;
        self.suspensions_until(now).filter(waited).map(|suspension| suspension.from).min().unwrap_or(received)
    }

    /// Returns the suspension that ends at `now`, if it is not recorded yet.
    fn suspension_until(&self, now: Duration) -> Option<Suspension> {
        let from = self.heartbeat.filter(|heartbeat| now.saturating_sub(*heartbeat) > LATE_AFTER)?;
        Some(Suspension { from, to: now })
    }

    fn suspensions_until(&self, now: Duration) -> impl Iterator<Item = Suspension> {
        self.suspensions.iter().copied().chain(self.suspension_until(now))
    }

    fn mark_late(&mut self, number: u64, now: Duration) {
        let place = self.late.partition_point(|range| range.last < number);
        if self.late.get(place).is_some_and(|range| range.first <= number) {
            return;
        }
        self.late.insert(place, LateRange { first: number, last: number, at: now });
        self.join_next(place);
        if let Some(before) = place.checked_sub(1) {
            self.join_next(before);
        }
        if self.late.len() > MAX_LATE_RANGES
            && let Some(oldest) = self.late.pop_front()
            && let Some(next) = self.late.front_mut()
        {
            next.first = oldest.first;
        }
    }

    /// Merges this range with the next range if they are adjacent.
    fn join_next(&mut self, place: usize) {
        let (Some(range), Some(next)) = (self.late.get(place), self.late.get(place + 1)) else { return };
        if range.last.checked_add(1) == Some(next.first) {
            let joined = LateRange { first: range.first, last: next.last, at: range.at.max(next.at) };
            self.late.remove(place + 1);
            if let Some(range) = self.late.get_mut(place) {
                *range = joined;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROCESS: ProcessId = ProcessId::from_bytes([7; 16]);
    const NOW: UnixTime = UnixTime::from_seconds(1_000_000);

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// Simulated process whose heartbeats the test controls.
    #[derive(Default)]
    struct World {
        ledger: AnswerLedger,
        now: Duration,
    }

    impl World {
        fn new() -> Self {
            let mut world = Self::default();
            world.run(0);
            world
        }

        /// Runs the process for this time, with a heartbeat in each step.
        fn run(&mut self, milliseconds: u64) {
            let end = self.now + ms(milliseconds);
            self.ledger.heartbeat(self.now);
            while self.now < end {
                self.now = end.min(self.now + HEARTBEAT_INTERVAL);
                self.ledger.heartbeat(self.now);
            }
        }

        fn suspend(&mut self, milliseconds: u64) {
            self.now += ms(milliseconds);
        }

        fn begin(&mut self) -> u64 {
            self.ledger.begin(self.now)
        }

        fn answered(&mut self) -> u64 {
            let number = self.begin();
            self.ledger.ready(number, self.now);
            number
        }

        fn own(&self, number: u64) -> AnswerOutcome {
            self.ledger.outcome(number, self.now)
        }

        /// Returns the outcome that other processes read from the report.
        fn reported(&self, number: u64) -> AnswerOutcome {
            let (classified, late) = self.ledger.report();
            let report = AnswerReport { classified, late, expires_at: NOW };
            AnswerReport::outcome(Some(&report), &RotationId { process: PROCESS, number, at: NOW }, NOW)
        }
    }

    #[test]
    fn an_answer_in_time_is_known_at_once_and_reported_a_moment_later() {
        let mut world = World::new();
        let number = world.begin();
        assert_eq!(world.own(number), AnswerOutcome::Pending);
        world.run(900);
        world.ledger.ready(number, world.now);
        assert_eq!((world.own(number), world.reported(number)), (AnswerOutcome::InTime, AnswerOutcome::Pending));
        world.run(300);
        assert_eq!((world.own(number), world.reported(number)), (AnswerOutcome::InTime, AnswerOutcome::InTime));
    }

    #[test]
    fn a_late_answer_is_reported_before_it_is_ready_and_delays_no_other() {
        let mut world = World::new();
        let number = world.begin();
        let other = world.answered();
        world.run(900);
        assert_eq!((world.own(number), world.reported(other)), (AnswerOutcome::Pending, AnswerOutcome::Pending));
        world.run(200);
        world.ledger.ready(number, world.now);
        world.run(1000);
        assert_eq!((world.own(number), world.reported(number)), (AnswerOutcome::Doubtful, AnswerOutcome::Doubtful));
        assert_eq!((world.own(other), world.reported(other)), (AnswerOutcome::InTime, AnswerOutcome::InTime));
    }

    #[test]
    fn a_suspension_makes_unsent_answers_and_waiting_requests_late() {
        let mut world = World::new();
        let earlier = world.answered();
        world.run(1000);
        let leaving = world.answered();
        let open = world.begin();
        world.suspend(4000);
        assert_eq!((world.own(leaving), world.own(open)), (AnswerOutcome::Doubtful, AnswerOutcome::Doubtful));
        // The request arrives right after the suspension, so the client may have sent it earlier.
        let queued = world.answered();
        assert_eq!((world.own(queued), world.ledger.waited(world.now, world.now)), (AnswerOutcome::Doubtful, ms(4000)));
        world.run(300);
        assert_eq!([leaving, open, queued].map(|number| world.reported(number)), [AnswerOutcome::Doubtful; 3]);
        assert_eq!(world.reported(earlier), AnswerOutcome::InTime);
        world.run(5000);
        assert_eq!(world.ledger.waited(world.now, world.now), Duration::ZERO);
        let later = world.answered();
        world.run(300);
        assert_eq!(world.reported(later), AnswerOutcome::InTime);
    }

    #[test]
    fn an_abandoned_answer_is_doubtful_and_a_withdrawn_one_is_removed() {
        let mut world = World::new();
        let (abandoned, withdrawn, ready) = (world.begin(), world.begin(), world.answered());
        world.ledger.abandon(abandoned, world.now);
        world.ledger.withdraw(withdrawn);
        world.ledger.abandon(ready, world.now);
        world.run(300);
        assert_eq!(world.ledger.report(), (3, vec![(0, 0)]));
    }

    #[test]
    fn an_orderly_stop_reports_all_ready_answers() {
        let mut world = World::new();
        let (number, open) = (world.answered(), world.begin());
        world.ledger.rest();
        world.now += ms(500);
        world.ledger.close(world.now);
        assert_eq!((world.reported(number), world.reported(open)), (AnswerOutcome::InTime, AnswerOutcome::Pending));
    }

    #[test]
    fn an_unreported_answer_is_doubtful_after_three_seconds() {
        let rotation = RotationId { process: PROCESS, number: 5, at: NOW };
        let report = |classified| AnswerReport { classified, late: vec![(3, 4)], expires_at: NOW };
        let at = |seconds| NOW.plus(Duration::from_secs(seconds));
        for unreported in [None, Some(report(5))] {
            assert_eq!(AnswerReport::outcome(unreported.as_ref(), &rotation, at(2)), AnswerOutcome::Pending);
            assert_eq!(AnswerReport::outcome(unreported.as_ref(), &rotation, at(3)), AnswerOutcome::Doubtful);
        }
        assert_eq!(AnswerReport::outcome(Some(&report(6)), &rotation, at(50)), AnswerOutcome::InTime);
        let late = RotationId { number: 4, ..rotation };
        assert_eq!(AnswerReport::outcome(Some(&report(6)), &late, NOW), AnswerOutcome::Doubtful);
    }

    #[test]
    fn only_a_waiting_request_may_precede_a_recent_rotation() {
        let rotated = Some(NOW);
        let at = |seconds| NOW.plus(Duration::from_secs(seconds));
        assert!(!may_precede_rotation(ms(1000), rotated, NOW) && may_precede_rotation(ms(1001), rotated, NOW));
        assert!(may_precede_rotation(ms(2000), rotated, at(6)) && !may_precede_rotation(ms(2000), rotated, at(7)));
        assert!(may_precede_rotation(ms(1001), None, at(100)) && !may_precede_rotation(ms(1000), None, at(100)));
    }

    #[test]
    fn the_ledger_is_bounded_and_excess_answers_are_late() {
        let mut world = World::new();
        for _ in 0..MAX_OPEN_ANSWERS + 10 {
            world.answered();
        }
        assert_eq!((world.ledger.open.len(), world.own(9)), (MAX_OPEN_ANSWERS, AnswerOutcome::Doubtful));
        assert_eq!(world.own(10), AnswerOutcome::InTime);
        let mut world = World::new();
        for number in 0..3_000 {
            world.begin();
            if number % 2 == 0 {
                world.ledger.abandon(number, world.now);
            } else {
                world.ledger.withdraw(number);
            }
        }
        let (classified, late) = world.ledger.report();
        assert_eq!((classified, late.len(), late[0].0), (3_000, MAX_LATE_RANGES, 0));
        assert!((0..3_000).step_by(2).all(|number| world.own(number) == AnswerOutcome::Doubtful));
        world.run(121_000);
        assert!(world.ledger.report().1.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Run(u64),
        Suspend(u64),
        /// Receives a request. If a suspension has just ended, the client may have sent it when the
        /// suspension began.
        Begin {
            waited: bool,
        },
        Ready(usize),
        Abandon(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u64..1500).prop_map(Step::Run),
            1 => (1_001_u64..9_000).prop_map(Step::Suspend),
            4 => any::<bool>().prop_map(|waited| Step::Begin { waited }),
            4 => (0_usize..4).prop_map(Step::Ready),
            1 => (0_usize..4).prop_map(Step::Abandon),
        ]
    }

    /// State of a request from the client's point of view.
    #[derive(Debug)]
    struct Seen {
        number: u64,
        first_sent_at: Duration,
        received: Duration,
        ready: Option<Duration>,
        abandoned: bool,
    }

    proptest! {
        /// Checks that an answer is reported as in time only if the client was certainly still
        /// waiting for it. An answer without delay is always reported as in time.
        #[test]
        fn no_late_answer_is_reported_in_time(steps in prop::collection::vec(step(), 1..60)) {
            let mut world = World::new();
            let (mut seen, mut suspensions): (Vec<Seen>, Vec<Suspension>) = Default::default();
            let mut reported_in_time = Vec::new();
            for step in steps {
                match step {
                    Step::Run(milliseconds) => world.run(milliseconds),
                    Step::Suspend(milliseconds) => {
                        world.run(0);
                        let from = world.now;
                        world.suspend(milliseconds);
                        suspensions.push(Suspension { from, to: world.now });
                    }
                    Step::Begin { waited } => {
                        let latest = suspensions.last().filter(|_| waited);
                        let latest = latest.filter(|suspension| world.now < suspension.to + BACKLOG_TIME);
                        let (first_sent_at, received) = (latest.map_or(world.now, |it| it.from), world.now);
                        let number = world.begin();
                        seen.push(Seen { number, first_sent_at, received, ready: None, abandoned: false });
                    }
                    Step::Ready(back) => {
                        let open = seen.iter_mut().rev().nth(back);
                        if let Some(open) = open.filter(|open| open.ready.is_none() && !open.abandoned) {
                            open.ready = Some(world.now);
                            world.ledger.ready(open.number, world.now);
                        }
                    }
                    Step::Abandon(back) => {
                        let open = seen.iter_mut().rev().nth(back);
                        if let Some(open) = open.filter(|open| open.ready.is_none() && !open.abandoned) {
                            open.abandoned = true;
                            world.ledger.abandon(open.number, world.now);
                        }
                    }
                }
                let in_time = |one: &&Seen| world.reported(one.number) == AnswerOutcome::InTime;
                reported_in_time.extend(seen.iter().filter(in_time).map(|one| one.number));
            }
            world.run(1500);
            for one in &seen {
                let caught = suspensions.iter().filter(|it| {
                    one.ready.is_some_and(|ready| it.from < ready + SENDING_TIME && it.to > ready)
                });
                let left = caught.map(|it| it.to).max().or(one.ready);
                let is_late = left.is_none_or(|left| left.saturating_sub(one.first_sent_at) > LATE_AFTER);
                let outcome = world.reported(one.number);
                if is_late {
                    prop_assert_eq!(outcome, AnswerOutcome::Doubtful, "{:?} {:?}", one, suspensions);
                    prop_assert!(!reported_in_time.contains(&one.number), "{:?} {:?}", one, suspensions);
                }
                let is_near = |it: &Suspension| {
                    let ready = one.ready.unwrap_or(world.now);
                    it.from <= ready + SENDING_TIME + HEARTBEAT_INTERVAL && one.received < it.to + BACKLOG_TIME
                };
                let is_prompt = one.ready.is_some_and(|ready| ready.saturating_sub(one.received) <= LATE_AFTER);
                if is_prompt && !suspensions.iter().any(is_near) {
                    prop_assert_eq!(outcome, AnswerOutcome::InTime, "{:?} {:?}", one, suspensions);
                }
            }
        }
    }
}
