//! The queue before the password threads: bounded in all, and fair. Each line waits by itself and the lines take turns;
//! where the queue is full, the longest line gives up its newest job for a line that is shorter. So one network has all of
//! the queue while nobody else wants it, and keeps nobody out when somebody does.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::oneshot;

use crate::domain::profile::LONGEST_PASSWORD;
use crate::domain::user::PasswordHash;

/// Why a password was not hashed or checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Too many checks wait already: shed load.
    #[error("too many passwords wait to be checked")]
    Busy,
    /// Its turn did not come in time.
    #[error("the password was not checked in time")]
    Timeout,
    /// A new password is longer than [`crate::password::MAX_PASSWORD_BYTES`].
    #[error("the password is longer than {LONGEST_PASSWORD} bytes")]
    TooLong,
    /// argon2 refused its parameters, or its threads are gone: a fault of the program.
    #[error("passwords cannot be checked")]
    Broken,
}

/// Who waits for a check. Each network of strangers has a line of its own, and the lines take turns, so that no network can
/// keep the others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Somebody whom strangers cannot imitate: their checks come first. Whoever may wait here is bounded elsewhere.
    Trusted,
    /// A stranger's network: an IPv4 address, an IPv6 /48.
    Stranger([u8; 16]),
}

impl Line {
    /// The line of a stranger at this address.
    pub fn of(address: IpAddr) -> Self {
        Self::Stranger(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => (u128::from(address) & !(u128::MAX >> 48)).to_be_bytes(),
        })
    }
}

/// What a thread does, and who waits for it.
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
    /// Whether a new password is easy to guess.
    Judge {
        password: SecretString,
        reply: oneshot::Sender<Result<bool, PasswordError>>,
    },
}

impl PasswordJob {
    /// Whether nobody waits for it any more: it would only keep others waiting.
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
    most: usize,
}

#[derive(Default)]
struct Waiting {
    trusted: VecDeque<PasswordJob>,
    /// None of them empty; the one whose turn it is comes first.
    strangers: VecDeque<([u8; 16], VecDeque<PasswordJob>)>,
    count: usize,
    closed: bool,
}

impl PasswordQueue {
    pub(super) fn new(most: usize) -> Self {
        Self { waiting: Mutex::default(), filled: Condvar::new(), most }
    }

    /// Puts a job at the end of its line.
    ///
    /// # Errors
    /// `Busy` when the queue is full and no line is longer; `Broken` when it is closed.
    pub(super) fn push(&self, line: Line, job: PasswordJob) -> Result<(), PasswordError> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(PasswordError::Broken);
        }
        if waiting.count >= self.most {
            waiting.drop_abandoned();
        }
        if waiting.count >= self.most && !waiting.make_room(line) {
            return Err(PasswordError::Busy);
        }
        waiting.count += 1;
        match line {
            Line::Trusted => waiting.trusted.push_back(job),
            Line::Stranger(network) => match waiting.strangers.iter_mut().find(|(known, _)| *known == network) {
                Some((_, jobs)) => jobs.push_back(job),
                None => waiting.strangers.push_back((network, VecDeque::from([job]))),
            },
        }
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    /// The next job; waits for one, and calls `rest` whenever none has come for as long as `idle`. `None` when the queue is
    /// closed and empty.
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

    /// Takes no more jobs; those that wait are still handed out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    #[cfg(test)]
    pub(super) fn is_full(&self) -> bool {
        self.lock().count >= self.most
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

    /// Lets the newest job of the longest line of strangers go, if that line is longer than `line` would be.
    fn make_room(&mut self, line: Line) -> bool {
        let own = match line {
            Line::Trusted => 0,
            Line::Stranger(network) => {
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

    fn line(network: u8) -> Line {
        Line::Stranger([network; 16])
    }

    fn push(queue: &PasswordQueue, line: Line, name: &str) -> Result<Answer, PasswordError> {
        let (job, answer) = job(name);
        queue.push(line, job).map(|()| answer)
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
    fn lines_take_turns_and_the_trusted_come_first() {
        let queue = PasswordQueue::new(10);
        let jobs =
            [(line(1), "a"), (line(1), "b"), (line(1), "c"), (line(2), "x"), (Line::Trusted, "t"), (line(2), "y")];
        let _answers = jobs.map(|(line, name)| push(&queue, line, name).unwrap());
        assert_eq!(names(&queue), "taxbyc");
    }

    #[test]
    fn the_longest_line_makes_room_for_others_and_for_itself_never() {
        let queue = PasswordQueue::new(4);
        let mut flood: Vec<_> = (0..4).map(|_| push(&queue, line(1), "a").unwrap()).collect();
        assert_eq!(push(&queue, line(1), "a").unwrap_err(), PasswordError::Busy);
        let _x = push(&queue, line(2), "x").unwrap();
        assert_eq!(flood[3].try_recv(), Ok(Err(PasswordError::Busy)));
        let _y = push(&queue, line(3), "y").unwrap();
        // Two of the flood are left, one each of the others: a fourth network is still let in, a second of theirs is not.
        assert_eq!(push(&queue, line(2), "x").unwrap_err(), PasswordError::Busy);
        let _z = push(&queue, line(4), "z").unwrap();
        assert_eq!(push(&queue, line(5), "w").unwrap_err(), PasswordError::Busy);
        let _t = push(&queue, Line::Trusted, "t").unwrap();
        let left = names(&queue);
        assert!(left.starts_with('t') && left.len() == 4, "{left}");
    }

    #[test]
    fn what_nobody_waits_for_makes_room_first() {
        let queue = PasswordQueue::new(2);
        drop(push(&queue, line(1), "a").unwrap());
        let _b = push(&queue, line(1), "b").unwrap();
        let _c = push(&queue, line(1), "c").unwrap();
        assert_eq!(names(&queue), "bc");
    }
}
