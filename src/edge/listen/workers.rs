//! Threads that serve connections.
//!
//! Each thread has its own runtime and serves a connection from its start to its end, with upstream
//! connections of its own. So the requests of two threads write to no common memory. A connection is
//! assigned to the thread with the fewest open connections.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use pingora::server::ShutdownWatch;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{oneshot, watch};

/// Creates what a thread needs to serve connections. The thread itself calls it, so that no other
/// thread uses the memory.
pub(super) type Create<H> = Arc<dyn Fn(ShutdownWatch) -> H + Send + Sync>;

/// The threads of a service. Dropping them ends their connections.
pub(super) struct Workers<H> {
    all: Vec<WorkerThread<H>>,
    next: AtomicUsize,
}

/// A thread with its runtime.
pub(super) struct WorkerThread<H> {
    runtime: Handle,
    pub(super) handler: Arc<H>,
    /// Number of connections.
    open: Arc<AtomicUsize>,
    /// The thread ends when this is dropped.
    running: oneshot::Sender<()>,
}

impl<H: Send + Sync + 'static> Workers<H> {
    /// Starts `count` threads. `blocking_threads` is the maximum number of threads for blocking work,
    /// for each of them.
    ///
    /// # Errors
    /// If a thread or its runtime cannot be started.
    pub(super) fn start(
        name: &str,
        count: usize,
        blocking_threads: usize,
        stop: &ShutdownWatch,
        create: &Create<H>,
    ) -> io::Result<Self> {
        let starting: Vec<_> = (0..count)
            .map(|number| {
                WorkerThread::start(format!("{name}-{number}"), blocking_threads, stop.clone(), Arc::clone(create))
            })
            .collect::<io::Result<_>>()?;
        let ended = |_| io::Error::other("a thread ended while it started");
        let all = starting.into_iter().map(|started| started.recv().map_err(ended)?);
        Ok(Self { all: all.collect::<io::Result<_>>()?, next: AtomicUsize::new(0) })
    }

    pub(super) fn all(&self) -> &[WorkerThread<H>] {
        &self.all
    }

    /// Returns the thread with the fewest connections. `None` if no thread runs.
    pub(super) fn least_busy(&self) -> Option<&WorkerThread<H>> {
        let running = self.all.iter().filter(|worker| !worker.running.is_closed());
        running.min_by_key(|worker| worker.open.load(Ordering::Relaxed))
    }

    /// Returns the threads in turn. `None` if there are none.
    pub(super) fn in_turn(&self) -> Option<&WorkerThread<H>> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.all.get(next.checked_rem(self.all.len())?)
    }
}

impl<H: Send + Sync + 'static> WorkerThread<H> {
    fn start(
        name: String,
        blocking_threads: usize,
        stop: ShutdownWatch,
        create: Create<H>,
    ) -> io::Result<mpsc::Receiver<io::Result<Self>>> {
        let (report, started) = mpsc::sync_channel(1);
        thread::Builder::new().name(name).spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(blocking_threads).build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(report.send(Err(error))),
            };
            let (running, ended) = oneshot::channel();
            let handler = Arc::new(create(local_stop(&runtime, stop)));
            let open = Arc::new(AtomicUsize::new(0));
            let _ = report.send(Ok(Self { runtime: runtime.handle().clone(), handler, open, running }));
            let _ = runtime.block_on(ended);
            // Does not wait for blocking work.
            runtime.shutdown_background();
        })?;
        Ok(started)
    }

    /// Serves a connection on this thread.
    pub(super) fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let open = OpenConnection(Arc::clone(&self.open));
        self.runtime.spawn(async move {
            let _open = open;
            connection.await;
        });
    }
}

/// Returns a copy of the stop signal for the connections of one thread. They wait for it before each
/// request, which writes to the signal's memory.
fn local_stop(runtime: &Runtime, mut stop: ShutdownWatch) -> ShutdownWatch {
    let (local, watch) = watch::channel(false);
    runtime.spawn(async move {
        // An error means that the sender was dropped, which is a shutdown too.
        let _ = stop.wait_for(|stop| *stop).await;
        local.send_replace(true);
    });
    watch
}

/// Counts a connection until it is dropped, even after a panic.
struct OpenConnection(Arc<AtomicUsize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn workers(count: usize) -> (Workers<()>, watch::Sender<bool>) {
        let (stop, stopping) = watch::channel(false);
        let create: Create<()> = Arc::new(|_| ());
        (Workers::start("test", count, 1, &stopping, &create).unwrap(), stop)
    }

    #[test]
    fn a_connection_goes_to_the_thread_with_the_fewest() {
        let (workers, _stop) = workers(3);
        let mut threads = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..6 {
            let (name, named) = mpsc::channel();
            let (end, ended) = oneshot::channel::<()>();
            workers.least_busy().unwrap().spawn(async move {
                let _ = name.send(thread::current().name().map(str::to_owned));
                let _ = ended.await;
            });
            threads.push(named.recv().unwrap().unwrap());
            ends.push(end);
        }
        threads.sort_unstable();
        assert_eq!(threads, ["test-0", "test-0", "test-1", "test-1", "test-2", "test-2"]);
        drop(ends);
        while workers.all().iter().any(|worker| worker.open.load(Ordering::Relaxed) > 0) {
            thread::yield_now();
        }
    }

    #[test]
    fn dropping_the_threads_ends_their_connections() {
        let (workers, _stop) = workers(1);
        let (alive, gone) = mpsc::channel::<()>();
        workers.in_turn().unwrap().spawn(async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        drop(workers);
        assert_eq!(gone.recv_timeout(Duration::from_secs(30)), Err(mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn every_thread_gets_the_stop_signal() {
        let (stop, stopping) = watch::channel(false);
        let create: Create<ShutdownWatch> = Arc::new(|stop| stop);
        let workers = Workers::start("test", 2, 1, &stopping, &create).unwrap();
        stop.send_replace(true);
        for worker in workers.all() {
            let mut signal = worker.handler.as_ref().clone();
            let (done, waited) = mpsc::channel();
            worker.spawn(async move {
                let _ = done.send(signal.wait_for(|stop| *stop).await.is_ok());
            });
            assert!(waited.recv_timeout(Duration::from_secs(30)).unwrap());
        }
    }
}
