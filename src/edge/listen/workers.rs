//! Threads that serve connections.
//!
//! Each thread has its own runtime and serves a connection from its start to its end, with upstream
//! connections of its own. So the requests of two threads write to no common memory. A connection is
//! assigned to the thread with the fewest open connections.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pingora::server::ShutdownWatch;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc as tokio_mpsc, oneshot, watch};
use tokio::time::timeout;

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
    ping: ThreadPing,
    runtime: Handle,
    pub(super) handler: Arc<H>,
    /// Number of connections.
    open: Arc<AtomicUsize>,
    /// The thread ends when this is dropped.
    running: oneshot::Sender<()>,
}

/// Test of a thread for the readiness probe.
#[derive(Debug, Clone)]
pub struct ThreadPing {
    name: String,
    runtime: Handle,
}

impl ThreadPing {
    /// Checks that the thread runs a new task.
    ///
    /// # Errors
    /// A sentence for the operator that names the thread.
    pub(crate) async fn ask(&self, limit: Duration) -> Result<(), String> {
        match timeout(limit, self.runtime.spawn(async {})).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(format!("the thread {} has ended", self.name)),
            Err(_) => {
                Err(format!("the thread {} does not serve its connections: no answer within {limit:?}", self.name))
            }
        }
    }
}

/// Reports the end of a thread by a panic. Dropped when the thread ends.
struct DeathReporter {
    name: String,
    failed: tokio_mpsc::Sender<String>,
}

impl Drop for DeathReporter {
    fn drop(&mut self) {
        if thread::panicking() {
            // The channel holds one message. The end of a second thread adds nothing.
            let _ = self.failed.try_send(format!("the thread {} has ended, and its connections with it", self.name));
        }
    }
}

impl<H: Send + Sync + 'static> Workers<H> {
    /// Starts `count` threads. `blocking_threads` is the maximum number of threads for blocking work,
    /// for each of them. `failed` receives a message if a thread panics outside a task, for example in
    /// its event loop.
    ///
    /// # Errors
    /// If a thread or its runtime cannot be started.
    pub(super) fn start(
        name: &str,
        count: usize,
        blocking_threads: usize,
        stop: &ShutdownWatch,
        create: &Create<H>,
        failed: &tokio_mpsc::Sender<String>,
    ) -> io::Result<Self> {
        let starting: Vec<_> = (0..count)
            .map(|number| {
                let death = DeathReporter { name: format!("{name}-{number}"), failed: failed.clone() };
                WorkerThread::start(death, blocking_threads, stop.clone(), Arc::clone(create))
            })
            .collect::<io::Result<_>>()?;
        let ended = |_| io::Error::other("a thread ended while it started");
        let all = starting.into_iter().map(|started| started.recv().map_err(ended)?);
        Ok(Self { all: all.collect::<io::Result<_>>()?, next: AtomicUsize::new(0) })
    }

    pub(super) fn all(&self) -> &[WorkerThread<H>] {
        &self.all
    }

    /// Returns a test of each thread.
    pub(super) fn pings(&self) -> Vec<ThreadPing> {
        self.all.iter().map(|worker| worker.ping.clone()).collect()
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
        death: DeathReporter,
        blocking_threads: usize,
        stop: ShutdownWatch,
        create: Create<H>,
    ) -> io::Result<mpsc::Receiver<io::Result<Self>>> {
        let (report, started) = mpsc::sync_channel(1);
        let name = death.name.clone();
        thread::Builder::new().name(name.clone()).spawn(move || {
            let _death = death;
            let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(blocking_threads).build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(report.send(Err(error))),
            };
            let (running, ended) = oneshot::channel();
            let handler = Arc::new(create(local_stop(&runtime, stop)));
            let open = Arc::new(AtomicUsize::new(0));
            let handle = runtime.handle().clone();
            let ping = ThreadPing { name, runtime: handle.clone() };
            let _ = report.send(Ok(Self { ping, runtime: handle, handler, open, running }));
            let _ = runtime.block_on(ended);
            // Does not wait for blocking work.
            runtime.shutdown_background();
        })?;
        Ok(started)
    }

    /// Serves a connection on this thread. The future must keep the [`OpenConnection`] until its end.
    ///
    /// The future is not wrapped into another one, which would reserve its memory twice.
    pub(super) fn spawn<F: Future<Output = ()> + Send + 'static>(&self, connection: impl FnOnce(OpenConnection) -> F) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.runtime.spawn(connection(OpenConnection(Arc::clone(&self.open))));
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
pub(super) struct OpenConnection(Arc<AtomicUsize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start<H: Send + Sync + 'static>(count: usize, stopping: &ShutdownWatch, create: &Create<H>) -> Workers<H> {
        Workers::start("test", count, 1, stopping, create, &tokio_mpsc::channel(1).0).unwrap()
    }

    fn workers(count: usize) -> (Workers<()>, watch::Sender<bool>) {
        let (stop, stopping) = watch::channel(false);
        let create: Create<()> = Arc::new(|_| ());
        (start(count, &stopping, &create), stop)
    }

    #[test]
    fn a_connection_goes_to_the_thread_with_the_fewest() {
        let (workers, _stop) = workers(3);
        let mut threads = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..6 {
            let (name, named) = mpsc::channel();
            let (end, ended) = oneshot::channel::<()>();
            workers.least_busy().unwrap().spawn(|open| async move {
                let _open = open;
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
        workers.in_turn().unwrap().spawn(|open| async move {
            let _open = open;
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
        let workers = start(2, &stopping, &create);
        stop.send_replace(true);
        for worker in workers.all() {
            let mut signal = worker.handler.as_ref().clone();
            let (done, waited) = mpsc::channel();
            worker.spawn(|open| async move {
                let _open = open;
                let _ = done.send(signal.wait_for(|stop| *stop).await.is_ok());
            });
            assert!(waited.recv_timeout(Duration::from_secs(30)).unwrap());
        }
    }
}
