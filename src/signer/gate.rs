//! Gate for all calls into the module. It decides whether calls are allowed, counts the workers
//! inside a call, and gives the supervisor its next task.
//!
//! Finalizing a module during a call is undefined behaviour, and a call cannot be cancelled. So
//! each worker enters the gate before a call and leaves it afterwards. The supervisor closes the
//! gate and waits until every worker has left, and then finalizes the module. The gate itself makes
//! no calls.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cryptoki::slot::Slot;

use super::fault::ErrorClass;
use crate::pool::Observer;

/// Identifies the period in which sessions and handles of the module stay valid. Both numbers only
/// grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Epoch {
    /// Incremented by each finalize. A finalize ends all sessions, and new sessions may have the
    /// same handles.
    pub(super) incarnation: u64,
    /// Incremented by each login. Key handles of earlier logins are invalid.
    pub(super) login: u64,
}

/// Reason why the gate admits no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignRefusal {
    /// The deadline passed during a repair.
    Timeout,
    /// The token failed and is not repaired yet. The text is for the log.
    Down(String),
    Closed,
}

/// The supervisor's next task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignerTask {
    /// Repair the connection, because a caller has reported a failure of this class.
    Repair(ErrorClass),
    /// Read the keys in the token, because they may have changed.
    Scan,
    /// Test whether the token still signs, because no failure was reported for a while.
    Probe,
    Close,
}

/// Threads whose call into the module has not returned in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HungCalls {
    /// Number of hung workers.
    pub(super) workers: usize,
    /// Whether every worker hangs.
    pub(super) all_workers: bool,
    /// Whether the supervisor hangs.
    pub(super) supervisor: bool,
}

#[derive(Debug)]
enum Phase {
    Up,
    /// A repair is in progress. Callers wait for it until their deadline.
    Repairing(ErrorClass),
    /// The last repair failed. Calls are refused at once.
    Down(String),
    Closed,
}

struct State {
    phase: Phase,
    epoch: Epoch,
    slot: Slot,
    /// Start time of each worker's current call; `None` outside a call.
    inside: Vec<Option<Instant>>,
    /// Start of the supervisor's current call, plus the time that the call may take.
    supervisor: Option<Instant>,
    /// Whether the supervisor excludes all calls of workers.
    alone: bool,
    /// Number of workers that wait because the token has no session for them.
    parked: usize,
    /// Whether the supervisor must read the keys in the token.
    is_scan_requested: bool,
    /// Last result of the watchdog.
    hung: HungCalls,
    was_ready: bool,
}

/// Synchronizes the workers, the supervisor and the watchdog of one signer.
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
            is_scan_requested: false,
            hung: HungCalls::default(),
            was_ready: true,
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), observer }
    }

    /// Returns whether the signer can sign now.
    pub(super) fn ready(&self) -> bool {
        self.lock().ready()
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.lock().epoch
    }

    /// Returns why a new request must not be queued, or `None` if it may be queued.
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

    /// Admits a worker until the permit is dropped. Waits until `deadline` for a repair in
    /// progress.
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

    /// Requests a repair of a failure that occurred in `epoch`.
    ///
    /// Does nothing if a repair is pending, or was completed after `epoch`. Therefore a failure
    /// that several workers report causes only one repair.
    pub(super) fn report(&self, epoch: Epoch, class: ErrorClass) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Up) && state.epoch == epoch {
            state.phase = Phase::Repairing(class);
            self.announce(state);
        }
    }

    /// Blocks a worker for which the token has no session, until a repair, the end of `timeout`, or
    /// the closing of the gate.
    ///
    /// Returns `false` at once if all other workers are blocked here. The caller must then report a
    /// failure.
    pub(super) fn park(&self, epoch: Epoch, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
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

    /// Requests that the supervisor reads the keys in the token, after a repair in progress.
    pub(super) fn request_scan(&self) {
        self.lock().is_scan_requested = true;
        self.changed.notify_all();
    }

    /// Waits for the supervisor's next task. Returns `Probe` after `interval` without a task.
    pub(super) fn next_task(&self, interval: Duration) -> SignerTask {
        let until = Instant::now() + interval;
        let mut state = self.lock();
        loop {
            match &state.phase {
                Phase::Repairing(class) => return SignerTask::Repair(*class),
                Phase::Closed => return SignerTask::Close,
                Phase::Up if state.is_scan_requested => {
                    state.is_scan_requested = false;
                    return SignerTask::Scan;
                }
                Phase::Up | Phase::Down(_) => {}
            }
            let Some(left) = until.checked_duration_since(Instant::now()) else { return SignerTask::Probe };
            state = self.wait(state, left);
        }
    }

    /// Marks the supervisor as inside a call until the result is dropped. Returns `None` if the
    /// signer is closed.
    ///
    /// If there is only one worker, the supervisor and the worker exclude each other: operators
    /// configure one session for modules that do not support two calls at a time. (One such module
    /// is the client of p11-kit: it blocks a thread forever if its server dies during two calls.)
    pub(super) fn supervise(&self) -> Option<SupervisorPermit<'_>> {
        self.supervise_long(Duration::ZERO)
    }

    /// Like [`Self::supervise`], for calls that may take `allowed` before they count as hung.
    pub(super) fn supervise_long(&self, allowed: Duration) -> Option<SupervisorPermit<'_>> {
        let mut state = self.lock();
        state.alone = state.inside.len() == 1;
        while state.alone && state.inside.iter().any(Option::is_some) && !matches!(state.phase, Phase::Closed) {
            state = self.wait(state, Duration::from_secs(1));
        }
        if matches!(state.phase, Phase::Closed) {
            state.alone = false;
            return None;
        }
        // The time that the watchdog measures starts after the wait above and the allowed time.
        state.supervisor = Some(Instant::now() + allowed);
        drop(state);
        Some(SupervisorPermit { gate: self })
    }

    /// Waits until no worker is inside a call. Returns `false` if the signer is closed in the
    /// meantime.
    ///
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

    /// Waits until no worker is inside a call, for at most `limit`. Returns whether all workers
    /// have left.
    ///
    /// Used after [`Self::close`].
    pub(super) fn drain_closed(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        while state.inside.iter().any(Option::is_some) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            state = self.wait(state, left);
        }
        true
    }

    /// Reopens the gate after a repair. `finalized` says whether the repair ended the old sessions.
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

    /// Refuses calls with this reason, because the token cannot be repaired now.
    pub(super) fn refuse_calls(&self, reason: &str) {
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

    /// Closes the gate permanently and wakes every waiting thread.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        self.announce(state);
    }

    /// Returns which threads have been inside one call for longer than `limit`.
    pub(super) fn hung_calls(&self, limit: Duration) -> HungCalls {
        let state = self.lock();
        let longer = |since: &Option<Instant>| since.is_some_and(|since| since.elapsed() >= limit);
        let workers = state.inside.iter().filter(|since| longer(since)).count();
        HungCalls { workers, all_workers: workers == state.inside.len(), supervisor: longer(&state.supervisor) }
    }

    /// Records the watchdog's result. Returns true if this result has a hung call and the previous
    /// result had none.
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
        // While the gate is open, no thread waits for a worker to leave. Every signature takes this
        // path, so unnecessary wake-ups are avoided.
        if !matches!(state.phase, Phase::Up) || state.alone {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock. Even after a panic, each field is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes every waiting thread, and notifies the observer if the readiness changed.
    ///
    /// The observer is called under the lock, so that two threads cannot notify it in the wrong
    /// order.
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

/// Permission to call the module, until it is dropped.
pub(super) struct CallPermit<'a> {
    gate: &'a Gate,
    worker: usize,
    /// Epoch of the module during these calls.
    pub(super) epoch: Epoch,
    pub(super) slot: Slot,
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        self.gate.leave(self.worker);
    }
}

/// Marks the supervisor as inside a call, until it is dropped.
pub(super) struct SupervisorPermit<'a> {
    gate: &'a Gate,
}

impl Drop for SupervisorPermit<'_> {
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
