//! Log buffer of fixed size, with one writer thread.
//!
//! Each thread has a small buffer of its own for lines of the access log, so that requests on different
//! threads do not write to the same memory. The lines of a thread keep their order. Lines of different
//! threads may be a few milliseconds out of order.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thread_local::ThreadLocal;

use crate::own_line::OwnLine;

/// Size of the buffer of each thread, as a fraction of the whole buffer (1 / `OWN_FRACTION`).
const OWN_FRACTION: usize = 16;
/// Fraction of the buffer (1 / `RESERVED_FRACTION`) that only warnings and errors may use, so that
/// the access log cannot displace them.
const RESERVED_FRACTION: usize = 8;
/// Time for which the writer collects lines of the access log into one write. A system call and a
/// wake-up for each line would cost as much as the line itself.
const GATHER_TIMEOUT: Duration = Duration::from_millis(5);

/// Urgency of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// Written at once. May use the reserved part of the buffer.
    Urgent,
    /// Written at once.
    Soon,
    /// Written within [`GATHER_TIMEOUT`], together with other lines.
    Deferred,
}

/// Bounded buffer whose content a thread writes to a sink.
pub(super) struct LogQueue {
    state: Mutex<State>,
    /// Lines of each thread. A thread that holds its lock does not wait for `state`.
    of_threads: ThreadLocal<OwnLine<Mutex<Vec<u8>>>>,
    /// Signalled when the writer must wake up, or must write without waiting for more lines.
    filled: Condvar,
    /// Signalled when all lines are written.
    drained: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// Whether the writer sleeps until the next line.
    idle: bool,
    /// Whether the buffer contains a line that must be written at once.
    urgent: bool,
    /// Number of dropped lines that no log line has reported yet.
    unreported: u64,
    /// Number of dropped lines that `take_dropped` has not returned yet.
    dropped: u64,
}

impl LogQueue {
    /// Creates a queue of `capacity` bytes and starts the thread that writes it to `sink`.
    pub(super) fn start(sink: impl Write + Send + 'static, capacity: usize) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self {
            state: Mutex::default(),
            of_threads: ThreadLocal::new(),
            filled: Condvar::new(),
            drained: Condvar::new(),
            capacity,
        });
        let writing = Arc::clone(&queue);
        thread::Builder::new().name("log".to_owned()).spawn(move || writing.write_to(sink))?;
        Ok(queue)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line, or drops and counts it if the buffer is full. Never waits for the reader.
    pub(super) fn append(&self, prefix: &[u8], line: &[u8], priority: Priority) {
        if priority == Priority::Deferred && self.append_to_own(prefix, line) {
            return;
        }
        let reserved = if priority == Priority::Urgent { 0 } else { self.capacity / RESERVED_FRACTION };
        let room = self.capacity - reserved;
        let mut state = self.state();
        {
            // Keeps the order of the lines of this thread, unless the buffer is full.
            let mut own = self.own();
            if state.waiting.len() + own.len() <= self.capacity - self.capacity / RESERVED_FRACTION {
                state.waiting.append(&mut own);
            }
        }
        if state.waiting.len() + prefix.len() + line.len() > room {
            state.unreported += 1;
            state.dropped += 1;
            return;
        }
        state.waiting.extend_from_slice(prefix);
        state.waiting.extend_from_slice(line);
        let is_urgent = priority != Priority::Deferred || state.waiting.len() > self.capacity / 2;
        let wakes = is_urgent && !state.urgent;
        state.urgent |= is_urgent;
        if mem::take(&mut state.idle) || wakes {
            self.filled.notify_one();
        }
    }

    /// Appends a line to the buffer of this thread. Returns whether it had room.
    fn append_to_own(&self, prefix: &[u8], line: &[u8]) -> bool {
        let mut own = self.own();
        if own.len() + prefix.len() + line.len() > self.capacity / OWN_FRACTION {
            return false;
        }
        let is_first = own.is_empty();
        own.extend_from_slice(prefix);
        own.extend_from_slice(line);
        drop(own);
        // The writer empties all buffers together. So only the first line may have to wake it.
        if is_first && mem::take(&mut self.state().idle) {
            self.filled.notify_one();
        }
        true
    }

    fn own(&self) -> MutexGuard<'_, Vec<u8>> {
        self.of_threads.get_or_default().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no line waits. The caller holds the lock of `state`.
    fn is_empty(&self, state: &State) -> bool {
        let is_empty = |own: &OwnLine<Mutex<Vec<u8>>>| own.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        state.waiting.is_empty() && self.of_threads.iter().all(is_empty)
    }

    pub(super) fn take_dropped(&self) -> u64 {
        mem::take(&mut self.state().dropped)
    }

    /// Waits until all lines are written, for at most `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let end = Instant::now() + timeout;
        let mut state = self.state();
        state.urgent = true;
        self.filled.notify_one();
        while !(state.idle && state.waiting.is_empty()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.drained.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn write_to(&self, mut sink: impl Write) {
        let mut lines = Vec::new();
        loop {
            let mut state = self.state();
            while self.is_empty(&state) {
                state.idle = true;
                self.drained.notify_all();
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let gathered = self.filled.wait_timeout_while(state, GATHER_TIMEOUT, |state| !state.urgent);
            state = gathered.unwrap_or_else(PoisonError::into_inner).0;
            state.urgent = false;
            mem::swap(&mut lines, &mut state.waiting);
            for own in &self.of_threads {
                lines.append(&mut own.lock().unwrap_or_else(PoisonError::into_inner));
            }
            drop(state);
            let written = sink.write_all(&lines);
            lines.clear();
            let mut state = self.state();
            if written.is_err() {
                // The sink is closed, so no log line can report the loss. Only the metric can
                // report it.
                state.dropped += 1;
                continue;
            }
            let unreported = mem::take(&mut state.unreported);
            drop(state);
            if unreported > 0 {
                tracing::warn!(lines = unreported, "log lines were dropped because standard error is read too slowly");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Sink that passes each write to the test, after a permit.
    struct Sink {
        permits: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.permits.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.written.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn stalled(capacity: usize) -> (Arc<LogQueue>, Sender<()>, Receiver<Vec<u8>>) {
        let (permit, permits) = channel();
        let (written, writes) = channel();
        (LogQueue::start(Sink { permits, written }, capacity).unwrap(), permit, writes)
    }

    /// Waits until the writer blocks while it writes the first line.
    fn block_the_writer(queue: &LogQueue) {
        queue.append(b"", b"first\n", Priority::Soon);
        let end = Instant::now() + PATIENCE;
        while !queue.state().waiting.is_empty() {
            assert!(Instant::now() < end, "the writer does not take the line");
            thread::yield_now();
        }
    }

    #[test]
    fn dropped_lines_are_counted_and_the_rest_keeps_its_order() {
        let (queue, permit, writes) = stalled(64);
        block_the_writer(&queue);
        for _ in 0..20 {
            queue.append(b"<6>", b"line\n", Priority::Soon);
        }
        // Without the reserved eighth, 64 bytes have room for 7 lines of 8 bytes.
        assert_eq!(queue.take_dropped(), 13);
        queue.append(b"<3>", b"fault\n", Priority::Urgent);
        queue.append(b"<3>", b"fault\n", Priority::Urgent);
        assert_eq!(queue.take_dropped(), 2, "55 of 64 bytes are in use");
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        assert_eq!(writes.recv_timeout(PATIENCE).unwrap(), b"first\n");
        assert_eq!(writes.recv_timeout(PATIENCE).unwrap(), b"<6>line\n".repeat(7));
        queue.flush(PATIENCE);
        assert_eq!(queue.take_dropped(), 0);
    }

    #[test]
    fn an_error_uses_the_reserved_part_of_the_buffer() {
        let (queue, permit, writes) = stalled(64);
        block_the_writer(&queue);
        for _ in 0..20 {
            queue.append(b"", b"1234567\n", Priority::Soon);
        }
        queue.append(b"", b"fault\n", Priority::Urgent);
        assert_eq!(queue.take_dropped(), 13);
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        writes.recv_timeout(PATIENCE).unwrap();
        assert!(writes.recv_timeout(PATIENCE).unwrap().ends_with(b"fault\n"));
    }

    #[test]
    fn access_lines_are_written_after_a_delay_or_by_a_flush() {
        let (queue, permit, writes) = stalled(1 << 20);
        permit.send(()).unwrap();
        queue.append(b"", b"lone\n", Priority::Deferred);
        assert_eq!(writes.recv_timeout(PATIENCE).unwrap(), b"lone\n");
        for end in [Priority::Deferred, Priority::Soon, Priority::Urgent] {
            queue.append(b"", b"deferred\n", Priority::Deferred);
            queue.append(b"", b"last\n", end);
            // The writer may take the first line before the second is appended, and then writes
            // twice.
            permit.send(()).unwrap();
            permit.send(()).unwrap();
            queue.flush(PATIENCE);
            let written: Vec<u8> = writes.try_iter().flatten().collect();
            assert_eq!(written, b"deferred\nlast\n", "{end:?}");
        }
    }

    #[test]
    fn a_flush_ends_without_a_reader() {
        let (queue, _permit, _writes) = stalled(64);
        block_the_writer(&queue);
        let started = Instant::now();
        queue.flush(Duration::from_millis(50));
        assert!(started.elapsed() < PATIENCE);
    }

    #[test]
    fn a_closed_sink_is_tolerated() {
        let (queue, permit, _writes) = stalled(64);
        drop(permit);
        queue.append(b"", b"lost\n", Priority::Soon);
        queue.flush(PATIENCE);
        assert_eq!(queue.take_dropped(), 1);
    }
}
