//! Bounded and fair queue of the password threads.
//!
//! Each network has its own queue, and the threads serve these queues in turn. If the capacity is
//! reached, a job of a shorter queue displaces the newest job of the longest queue. A single
//! network can use the whole capacity, but cannot block other networks.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::oneshot;

use sealgate_domain::profile::MAX_PASSWORD_LENGTH;
use sealgate_domain::user::PasswordHash;

/// Reason why a password was not hashed or checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// The queue is full, so the load is shed.
    #[error("too many passwords are waiting to be verified")]
    Busy,
    /// The request timed out in the queue.
    #[error("the password was not verified in time")]
    Timeout,
    /// A new password is longer than [`crate::password::MAX_PASSWORD_BYTES`].
    #[error("the password is longer than {MAX_PASSWORD_LENGTH} bytes")]
    TooLong,
    /// argon2 rejected its parameters, or the threads have ended. This is a bug.
    #[error("passwords cannot be verified")]
    Broken,
}

impl PasswordError {
    /// Logs the error.
    ///
    /// Only `Broken` is logged as an error, because clients can cause the other errors with each
    /// request.
    pub fn log(self, what: &str) {
        match self {
            Self::Broken => tracing::error!(error = %self, "{what}"),
            Self::Busy | Self::Timeout | Self::TooLong => tracing::debug!(error = %self, "{what}"),
        }
    }
}

/// Key of the queue to which a job belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKey {
    /// Clients that attackers cannot impersonate. Their jobs come first; rate limits bound their
    /// number.
    Trusted,
    /// Network of an unknown client: an IPv4 address or an IPv6 /48.
    Stranger([u8; 16]),
}

impl QueueKey {
    /// Returns the key for an unknown client with this address.
    pub fn for_address(address: IpAddr) -> Self {
        Self::Stranger(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => (u128::from(address) & !(u128::MAX >> 48)).to_be_bytes(),
        })
    }
}

/// Job for a password thread, with the channel for its result.
pub(super) enum PasswordJob {
    Hash {
        password: SecretString,
        salt: [u8; 16],
        reply: oneshot::Sender<Result<PasswordHash, PasswordError>>,
    },
    Verify {
        hash: Option<PasswordHash>,
        password: SecretString,
        reply: oneshot::Sender<Result<bool, PasswordError>>,
    },
    /// Checks whether a new password is easy to guess.
    Judge {
        password: SecretString,
        reply: oneshot::Sender<Result<bool, PasswordError>>,
    },
}

impl PasswordJob {
    /// Returns whether the request was cancelled, so that its job need not be done.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Hash { reply, .. } => reply.is_closed(),
            Self::Verify { reply, .. } | Self::Judge { reply, .. } => reply.is_closed(),
        }
    }

    pub(super) fn refuse(self, why: PasswordError) {
        match self {
            Self::Hash { reply, .. } => drop(reply.send(Err(why))),
            Self::Verify { reply, .. } | Self::Judge { reply, .. } => drop(reply.send(Err(why))),
        }
    }
}

pub(super) struct PasswordQueue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct Waiting {
    trusted: VecDeque<PasswordJob>,
    /// Queues of networks, the next to be served first. No queue is empty.
    strangers: VecDeque<([u8; 16], VecDeque<PasswordJob>)>,
    count: usize,
    closed: bool,
}

impl PasswordQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { waiting: Mutex::default(), filled: Condvar::new(), capacity }
    }

    /// Adds a job to the end of the queue with this key.
    ///
    /// # Errors
    /// `Busy` if the capacity is reached and no other queue is longer; `Broken` if this queue is
    /// closed.
    pub(super) fn push(&self, key: QueueKey, job: PasswordJob) -> Result<(), PasswordError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(PasswordError::Broken);
        }
        if waiting.count >= self.capacity {
            waiting.drop_abandoned();
        }
        if waiting.count >= self.capacity && !waiting.make_room(key) {
            return Err(PasswordError::Busy);
        }
        waiting.count += 1;
        match key {
            QueueKey::Trusted => waiting.trusted.push_back(job),
            QueueKey::Stranger(network) => match waiting.strangers.iter_mut().find(|(known, _)| *known == network) {
                Some((_, jobs)) => jobs.push_back(job),
                None => waiting.strangers.push_back((network, VecDeque::from([job]))),
            },
        }
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for the next job and returns it. Returns `None` if the queue is closed and empty.
    ///
    /// Calls `rest` each time that no job has arrived for `idle`.
    pub(super) fn pop(&self, idle: Duration, mut rest: impl FnMut()) -> Option<PasswordJob> {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.next() {
                return Some(job);
            }
            if waiting.closed {
                return None;
            }
            let outcome;
            (waiting, outcome) = self.filled.wait_timeout(waiting, idle).unwrap_or_else(PoisonError::into_inner);
            if outcome.timed_out() {
                drop(waiting);
                rest();
                waiting = self.lock();
            }
        }
    }

    /// Rejects further jobs. Queued jobs are still returned.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.lock().count >= self.capacity
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn next(&mut self) -> Option<PasswordJob> {
        let job = self.trusted.pop_front().or_else(|| {
            let (network, mut jobs) = self.strangers.pop_front()?;
            let job = jobs.pop_front();
            if !jobs.is_empty() {
                self.strangers.push_back((network, jobs));
            }
            job
        });
        self.count -= usize::from(job.is_some());
        job
    }

    /// Drops the newest job of the longest queue, if that queue is longer than the queue of `key`
    /// with one more job. Returns whether there is room.
    fn make_room(&mut self, key: QueueKey) -> bool {
        let own = match key {
            QueueKey::Trusted => 0,
            QueueKey::Stranger(network) => {
                let own = self.strangers.iter().find(|(known, _)| *known == network);
                1 + own.map_or(0, |(_, jobs)| jobs.len())
            }
        };
        let Some(at) = (0..self.strangers.len()).max_by_key(|at| self.strangers[*at].1.len()) else { return false };
        let longest = &mut self.strangers[at].1;
        if longest.len() <= own {
            return false;
        }
        if let Some(job) = longest.pop_back() {
            job.refuse(PasswordError::Busy);
            self.count -= 1;
        }
        if longest.is_empty() {
            self.strangers.remove(at);
        }
        true
    }

    fn drop_abandoned(&mut self) {
        self.trusted.retain(|job| !job.is_abandoned());
        self.strangers.retain_mut(|(_, jobs)| {
            jobs.retain(|job| !job.is_abandoned());
            !jobs.is_empty()
        });
        self.count = self.trusted.len() + self.strangers.iter().map(|(_, jobs)| jobs.len()).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use secrecy::{ExposeSecret, SecretString};
    use tokio::sync::oneshot::{self, Receiver};

    use super::*;

    type Answer = Receiver<Result<bool, PasswordError>>;

    fn job(name: &str) -> (PasswordJob, Answer) {
        let (reply, answer) = oneshot::channel();
        (PasswordJob::Verify { hash: None, password: SecretString::from(name), reply }, answer)
    }

    fn key(network: u8) -> QueueKey {
        QueueKey::Stranger([network; 16])
    }

    fn push(queue: &PasswordQueue, key: QueueKey, name: &str) -> Result<Answer, PasswordError> {
        let (job, answer) = job(name);
        queue.push(key, job).map(|()| answer)
    }

    fn names(queue: &PasswordQueue) -> String {
        queue.close();
        let mut names = String::new();
        while let Some(PasswordJob::Verify { password, .. }) = queue.pop(Duration::from_mins(1), || ()) {
            names.push_str(password.expose_secret());
        }
        names
    }

    #[test]
    fn queues_take_turns_and_trusted_jobs_come_first() {
        let queue = PasswordQueue::new(10);
        let jobs =
            [(key(1), "a"), (key(1), "b"), (key(1), "c"), (key(2), "x"), (QueueKey::Trusted, "t"), (key(2), "y")];
        let _answers = jobs.map(|(key, name)| push(&queue, key, name).unwrap());
        assert_eq!(names(&queue), "taxbyc");
    }

    #[test]
    fn only_a_shorter_queue_displaces_a_job_of_the_longest() {
        let queue = PasswordQueue::new(4);
        let mut flood: Vec<_> = (0..4).map(|_| push(&queue, key(1), "a").unwrap()).collect();
        assert_eq!(push(&queue, key(1), "a").unwrap_err(), PasswordError::Busy);
        let _x = push(&queue, key(2), "x").unwrap();
        assert_eq!(flood[3].try_recv(), Ok(Err(PasswordError::Busy)));
        let _y = push(&queue, key(3), "y").unwrap();
        // The queue has two jobs of the flood and one each of networks 2 and 3. It admits a new
        // network, but not a second job of network 2.
        assert_eq!(push(&queue, key(2), "x").unwrap_err(), PasswordError::Busy);
        let _z = push(&queue, key(4), "z").unwrap();
        assert_eq!(push(&queue, key(5), "w").unwrap_err(), PasswordError::Busy);
        let _t = push(&queue, QueueKey::Trusted, "t").unwrap();
        let left = names(&queue);
        assert!(left.starts_with('t') && left.len() == 4, "{left}");
    }

    #[test]
    fn abandoned_jobs_are_evicted_first() {
        let queue = PasswordQueue::new(2);
        drop(push(&queue, key(1), "a").unwrap());
        let _b = push(&queue, key(1), "b").unwrap();
        let _c = push(&queue, key(1), "c").unwrap();
        assert_eq!(names(&queue), "bc");
    }
}
