//! Controls access to the module: whether calls are allowed, which workers are inside one, and what
//! the supervisor must repair.
//!
//! Finalizing a module during a call is undefined behaviour, and a call cannot be cancelled. Each
//! worker therefore enters the gate before it signs. The supervisor closes the gate and waits until
//! every worker has left. This module makes no calls itself.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cryptoki::slot::Slot;

use super::fault::ErrorClass;
use crate::pool::Observer;

/// The module state that a session or handle belongs to. Both numbers only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Epoch {
    /// Incremented by each finalize. All earlier sessions are void, and their handle numbers are
    /// reused.
    pub(super) incarnation: u64,
    /// Incremented by each login. All earlier key handles are void.
    pub(super) login: u64,
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignRefusal {
    /// The repair did not finish before the deadline.
    Timeout,
    /// The device has failed; the reason is for the log.
    Down(String),
    Closed,
}

/// The supervisor's next task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignerTask {
    /// A caller reported a failure of this class.
    Repair(ErrorClass),
    /// The keys in the token have changed: read them again.
    Look,
    /// No failure was reported for a while: test whether the token still signs.
    Probe,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HungCalls {
    /// Number of workers inside one call for longer than the given time.
    pub(super) workers: usize,
    pub(super) all_workers: bool,
    /// Whether the supervisor's repair has taken longer than the given time.
    pub(super) supervisor: bool,
}

#[derive(Debug)]
enum Phase {
    Up,
    /// A repair is in progress; callers wait for it within their deadline.
    Repairing(ErrorClass),
    /// The last repair failed; calls are refused at once.
    Down(String),
    Closed,
}

struct State {
    phase: Phase,
    epoch: Epoch,
    slot: Slot,
    /// Start time of each worker's current call.
    inside: Vec<Option<Instant>>,
    /// Start time of the supervisor's current call.
    supervisor: Option<Instant>,
    /// Whether the supervisor requires that no other call runs.
    alone: bool,
    /// Number of workers that wait for a free session.
    parked: usize,
    /// Whether the supervisor has to read the keys.
    look: bool,
    /// Set by the watchdog if calls do not return.
    hung: HungCalls,
    was_ready: bool,
}

pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    observer: Arc<dyn Observer>,
}

impl Gate {
    /// Creates an open gate for `workers` workers.
    pub(super) fn new(workers: usize, slot: Slot, observer: Arc<dyn Observer>) -> Self {
        observer.ready(true);
        let state = State {
            phase: Phase::Up,
            epoch: Epoch::default(),
            slot,
            inside: vec![None; workers],
            supervisor: None,
            alone: false,
            parked: 0,
            look: false,
            hung: HungCalls::default(),
            was_ready: true,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), observer }
    }

    /// Whether the signer can sign now.
    pub(super) fn ready(&self) -> bool {
        self.lock().ready()
    }

    /// Returns the current epoch.
    pub(super) fn epoch(&self) -> Epoch {
        self.lock().epoch
    }

    /// Returns why a new request should not be queued, if so.
    pub(super) fn refusal(&self) -> Option<SignRefusal> {
        let state = self.lock();
        match &state.phase {
            Phase::Down(reason) => Some(SignRefusal::Down(reason.clone())),
            Phase::Closed => Some(SignRefusal::Closed),
            Phase::Up if state.hung.all_workers || (state.alone && state.hung.supervisor) => {
                Some(SignRefusal::Down("calls into the module do not return".into()))
            }
            Phase::Repairing(_) if state.hung != HungCalls::default() => {
                Some(SignRefusal::Down("the repair waits for a call that does not return".into()))
            }
            Phase::Up | Phase::Repairing(_) => None,
        }
    }

    /// Admits worker number `worker` until the pass is dropped. Waits until `deadline` for a repair
    /// in progress.
    pub(super) fn enter(&self, worker: usize, deadline: Instant) -> Result<CallPermit<'_>, SignRefusal> {
        let mut state = self.lock();
        loop {
            match &state.phase {
                Phase::Up if state.alone => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                        return Err(SignRefusal::Timeout);
                    };
                    state = self.wait(state, left);
                }
                Phase::Up => {
                    let (epoch, slot) = (state.epoch, state.slot);
                    if let Some(place) = state.inside.get_mut(worker) {
                        *place = Some(Instant::now());
                    }
                    return Ok(CallPermit { gate: self, worker, epoch, slot });
                }
                Phase::Repairing(_) => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                        return Err(SignRefusal::Timeout);
                    };
                    state = self.wait(state, left);
                }
                Phase::Down(reason) => return Err(SignRefusal::Down(reason.clone())),
                Phase::Closed => return Err(SignRefusal::Closed),
            }
        }
    }

    /// Asks the supervisor to repair a failure of `epoch`. Does nothing if it was repaired or a
    /// repair is pending, so many workers that see one failure cause one repair.
    pub(super) fn report(&self, epoch: Epoch, class: ErrorClass) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Up) && state.epoch == epoch {
            state.phase = Phase::Repairing(class);
            self.announce(state);
        }
    }

    /// Blocks a worker without a session until a repair, until `patience` has passed, or until the
    /// gate is closed. Returns `false` at once if all other workers wait too; the caller must then
    /// report a failure.
    pub(super) fn park(&self, epoch: Epoch, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.lock();
        if state.parked + 1 >= state.inside.len() {
            return false;
        }
        state.parked += 1;
        while state.epoch == epoch && !matches!(state.phase, Phase::Closed) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            state = self.wait(state, left);
        }
        state.parked -= 1;
        true
    }

    /// Asks the supervisor to read the keys in the token, after a repair in progress.
    pub(super) fn ask_to_look(&self) {
        self.lock().look = true;
        self.changed.notify_all();
    }

    /// Waits for the supervisor's next task. Returns a probe after `interval` without one.
    pub(super) fn next_task(&self, interval: Duration) -> SignerTask {
        let until = Instant::now() + interval;
        let mut state = self.lock();
        loop {
            match &state.phase {
                Phase::Repairing(class) => return SignerTask::Repair(*class),
                Phase::Closed => return SignerTask::Close,
                Phase::Up if state.look => {
                    state.look = false;
                    return SignerTask::Look;
                }
                Phase::Up | Phase::Down(_) => {}
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else { return SignerTask::Probe };
            state = self.wait(state, left);
        }
    }

    /// Marks the supervisor as inside calls until the mark is dropped, for the watchdog. Returns
    /// `None` if the signer is closed.
    ///
    /// With one worker, waits until the worker has left its call and keeps it out: one session
    /// means one call at a time. Operators configure one session for modules that do not support
    /// two. (p11-kit's client blocks a thread forever when its server dies during two calls.)
    pub(super) fn supervise(&self) -> Option<Supervising<'_>> {
        self.supervise_long(Duration::ZERO)
    }

    /// Like [`Self::supervise`], for a call that may legitimately take `allowed`.
    pub(super) fn supervise_long(&self, allowed: Duration) -> Option<Supervising<'_>> {
        let mut state = self.lock();
        state.alone = state.inside.len() == 1;
        while state.alone && state.inside.iter().any(Option::is_some) && !matches!(state.phase, Phase::Closed) {
            state = self.wait(state, Duration::from_secs(1));
        }
        if matches!(state.phase, Phase::Closed) {
            state.alone = false;
            return None;
        }
        // Neither the wait nor the allowed time counts.
        state.supervisor = Some(Instant::now() + allowed);
        drop(state);
        Some(Supervising { gate: self })
    }

    /// Waits until no worker is inside a call. Returns `false` if the signer is closed meanwhile.
    /// The caller must have closed the gate to workers.
    pub(super) fn drain(&self) -> bool {
        let mut state = self.lock();
        loop {
            if matches!(state.phase, Phase::Closed) {
                return false;
            }
            if state.inside.iter().all(Option::is_none) {
                return true;
            }
            state = self.wait(state, Duration::from_secs(1));
        }
    }

    /// Waits up to `limit`, after closing, until no worker is inside a call. Returns whether this
    /// succeeded.
    pub(super) fn drain_closed(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        while state.inside.iter().any(Option::is_some) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            state = self.wait(state, left);
        }
        true
    }

    /// Reopens the gate after a repair. `finalized`: whether old sessions are void too.
    pub(super) fn open(&self, slot: Slot, finalized: bool) {
        let mut state = self.lock();
        state.epoch.login += 1;
        if finalized {
            state.epoch.incarnation += 1;
        }
        state.slot = slot;
        if !matches!(state.phase, Phase::Closed) {
            state.phase = Phase::Up;
        }
        self.announce(state);
    }

    /// Refuses calls at once from now on, for `reason`.
    pub(super) fn shut(&self, reason: &str) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Closed) {
            state.phase = Phase::Down(reason.to_owned());
        }
        self.announce(state);
    }

    /// Sleeps for `pause`. Returns `false` at once if the signer is closed.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut state = self.lock();
        loop {
            if matches!(state.phase, Phase::Closed) {
                return false;
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else { return true };
            state = self.wait(state, left);
        }
    }

    /// Closes the gate for good and wakes every waiter.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        self.announce(state);
    }

    /// Returns which threads have been inside one call for longer than `limit`.
    pub(super) fn stuck(&self, limit: Duration) -> HungCalls {
        let state = self.lock();
        let longer = |since: &Option<Instant>| since.is_some_and(|since| since.elapsed() >= limit);
        let workers = state.inside.iter().filter(|since| longer(since)).count();
        HungCalls { workers, all_workers: workers == state.inside.len(), supervisor: longer(&state.supervisor) }
    }

    /// Records the watchdog's result. Returns whether this is the start of a hang.
    pub(super) fn mark_hung(&self, hung: HungCalls) -> bool {
        let mut state = self.lock();
        let new = state.hung == HungCalls::default() && hung != HungCalls::default();
        if state.hung != hung {
            state.hung = hung;
            self.announce(state);
        }
        new
    }

    fn leave(&self, worker: usize) {
        let mut state = self.lock();
        if let Some(place) = state.inside.get_mut(worker) {
            *place = None;
        }
        // No thread waits for this while the gate is open, and every signature takes this path.
        if !matches!(state.phase, Phase::Up) || state.alone {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock. Even then, each field would be consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes every waiter, and notifies the observer if readiness changed. It does so under the
    /// lock: otherwise two threads could report in the wrong order and leave a gauge wrong.
    fn announce(&self, mut state: MutexGuard<'_, State>) {
        let ready = state.ready();
        if state.was_ready != ready {
            state.was_ready = ready;
            self.observer.ready(ready);
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    fn ready(&self) -> bool {
        matches!(self.phase, Phase::Up) && self.hung == HungCalls::default()
    }
}

/// Permission to make calls; returned when dropped.
pub(super) struct CallPermit<'a> {
    gate: &'a Gate,
    worker: usize,
    /// The module's epoch during these calls.
    pub(super) epoch: Epoch,
    pub(super) slot: Slot,
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        self.gate.leave(self.worker);
    }
}

/// Marks the supervisor as inside calls.
pub(super) struct Supervising<'a> {
    gate: &'a Gate,
}

impl Drop for Supervising<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.supervisor = None;
        if std::mem::take(&mut state.alone) {
            self.gate.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
