//! The process and its machine: the limit of descriptors, the timers' thread, what systemd is told, what a panic does.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;

use crate::log;

/// Idle upstream connections kept, in all. Fewer than there are requests at once costs a third of the throughput.
pub(super) const UPSTREAM_POOL: usize = 1024;
/// Descriptors beside the connections: the store, the token, the log, listeners, idle connections to applications.
const OTHER_DESCRIPTORS: usize = UPSTREAM_POOL + 128;
/// The exit status of a Rust program that panics.
const EXIT_PANIC: i32 = 101;

/// Raises the limit of descriptors as far as the process may, and warns where it is too low for the connections that the
/// configuration allows: each may need one to its client and one to an application.
pub(super) fn allow_descriptors(max_connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let needed = (2 * max_connections).saturating_add(OTHER_DESCRIPTORS) as u64;
    // None is no limit.
    if let Some(allowed) = limit.current.filter(|allowed| *allowed < needed) {
        tracing::warn!(
            allowed,
            needed,
            "the limit of open files is too low for server.max_connections: raise LimitNOFILE= of the unit (ulimit -Hn), or \
             lower server.max_connections"
        );
    }
}

/// Has Pingora start the thread of its timers now. It does so at the first wait of the first connection otherwise, and
/// where no thread can be had then, every request of the process fails from there on.
pub(super) async fn start_timer() -> Result<(), String> {
    let waited = tokio::spawn(pingora::time::sleep(Duration::from_millis(1))).await;
    waited.map_err(|_| {
        "no thread can be started for the timers: raise TasksMax= or LimitNPROC= of the unit (ulimit -u)".to_owned()
    })
}

/// Tells systemd of our state, where it listens.
pub(crate) fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot tell systemd of our state");
    }
}

/// Sends panics to the log. For the program's start: the hook belongs to the whole process. One of the main thread, which
/// puts the program together, ends the process: unwinding would wait for the runtimes that stand already, for ever.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
        let place = panic.location().map(ToString::to_string);
        let thread = std::thread::current();
        // What libraries say where they find no thread: EAGAIN of the system's.
        let no_thread = text.contains("(os error 11)") || text.contains("code: 11,");
        let hint = if no_thread {
            "; no thread can be started: raise TasksMax= or LimitNPROC= of the unit (ulimit -u)"
        } else {
            ""
        };
        tracing::error!(place, thread = thread.name(), "panic: {text}{hint}");
        if thread.name() == Some("main") {
            log::fail(EXIT_PANIC, format_args!("the program cannot go on after a panic of its main thread"));
        }
    }));
}
