//! Process setup: descriptor limit, timer thread, systemd notifications, panics.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;

use sealgate_config::ServerConfig;
use sealgate_system::log;

/// Maximum number of idle upstream connections of all threads in total. If it is lower than the number
/// of concurrent requests, throughput drops by a third.
pub(super) const UPSTREAM_POOL: usize = 1024;
/// Number of descriptors in addition to connections: store, token, log, listeners, idle upstream
/// connections.
const OTHER_DESCRIPTORS: usize = UPSTREAM_POOL + 128;
/// Number of descriptors of a thread that serves connections: its event loop, the wake-up of the loop,
/// and its copy of the signal socket.
const DESCRIPTORS_PER_THREAD: usize = 4;
/// Exit status of a Rust program that panics.
const EXIT_PANIC: i32 = 101;

/// Returns the descriptors that a server with these settings may need.
pub(crate) const fn needed_descriptors(server: &ServerConfig) -> u64 {
    let of_threads = server.threads.saturating_mul(DESCRIPTORS_PER_THREAD).saturating_add(OTHER_DESCRIPTORS);
    server.max_connections.saturating_mul(2).saturating_add(of_threads) as u64
}

/// Raises the descriptor limit to the maximum, and warns if it is too low for the configuration.
///
/// Each connection may need one descriptor for its client and one for an upstream.
pub(super) fn allow_descriptors(server: &ServerConfig) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let needed = needed_descriptors(server);
    // `None` means no limit.
    if let Some(allowed) = limit.current.filter(|allowed| *allowed < needed) {
        tracing::warn!(
            allowed,
            needed,
            "the limit of open files is too low for server.max_connections; raise LimitNOFILE= of the unit \
             (ulimit -Hn), or lower server.max_connections"
        );
    }
}

/// Makes Pingora start its timer thread now.
///
/// Otherwise Pingora starts the thread when a connection first waits. If no thread is available at
/// that time, every later request of the process fails.
pub(super) async fn start_timer() -> Result<(), String> {
    let waited = tokio::spawn(pingora::time::sleep(Duration::from_millis(1))).await;
    waited.map_err(|_| {
        "cannot start a thread for timers; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)".to_owned()
    })
}

/// Reports the state to systemd, if systemd started the process.
pub(crate) fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot report the state to systemd");
    }
}

/// Logs panics. Call it once at startup, because the hook applies to the whole process.
///
/// A panic of the main thread ends the process. This thread assembles the program, and unwinding
/// would wait forever for the existing runtimes.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
        let place = panic.location().map(ToString::to_string);
        let thread = std::thread::current();
        // Texts of a library's panic if no thread is available (EAGAIN).
        let no_thread = text.contains("(os error 11)") || text.contains("code: 11,");
        let hint = if no_thread {
            "; cannot start a thread: raise TasksMax= or LimitNPROC= of the unit (ulimit -u)"
        } else {
            ""
        };
        tracing::error!(place, thread = thread.name(), "panic: {text}{hint}");
        if thread.name() == Some("main") {
            log::exit_with_error(
                EXIT_PANIC,
                format_args!("the program cannot continue after a panic of its main thread"),
            );
        }
    }));
}
