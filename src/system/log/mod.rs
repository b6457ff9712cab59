//! The program's log: lines on standard error, written by a separate thread.
//!
//! A caller appends a line to a buffer of fixed size and continues. A line of the access log goes to a
//! small buffer of the caller's thread. The thread writes the buffer
//! with few system calls: if the buffer contains only lines of the access log, the thread waits a
//! few milliseconds for more lines. If the reader blocks, for instance journald on a full disk,
//! lines are lost, but no request waits. Lines that do not fit are dropped, counted
//! ([`take_dropped`]), and reported in one line when writing resumes.
//!
//! If the journal reads standard error, each line starts with its severity (`<4>` for a warning;
//! see sd-daemon(3)), so that `journalctl -p warning` finds warnings.

mod access;
mod exit;
mod filter;
mod queue;

use std::env;
use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::fmt::format;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

use self::access::{ACCESS, AccessLines};
use self::filter::ChangeableFilter;
use self::queue::{LogQueue, Priority};
use sealgate_config::{Log, LogFormat};

/// Function that changes the log filter. Its error says why the filter is invalid.
pub type SetFilter = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Size of the buffer in bytes: about 5,000 lines of the access log.
const CAPACITY: usize = 1024 * 1024;
/// Timeout of the last flush before the process ends.
const LAST_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static LOG: OnceLock<Arc<LogQueue>> = OnceLock::new();

/// Starts the log. Returns a function that changes the filter.
///
/// Lines are coloured only on a terminal.
///
/// # Errors
/// One line, if the filter is invalid, the thread cannot be started, or a log is already running.
pub fn start(log: &Log) -> Result<SetFilter, String> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|error| format!("log.filter: {error}"))?;
    let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let queue = LogQueue::start(io::stderr(), CAPACITY).map_err(|error| {
        format!("cannot start the log's thread: {error}; raise TasksMax= or LimitNPROC= of the unit (ulimit -u)")
    })?;
    let writer = LineWriter { queue: Arc::clone(&queue), prefixed: is_journal(io::stderr()) };
    let lines = fmt::layer().with_writer(writer).with_ansi(colours);
    let changeable = ChangeableFilter::new(filter);
    let filters = changeable.clone();
    let started = match log.format {
        LogFormat::Text => {
            let lines = lines.event_format(AccessLines(format()));
            registry().with(lines).with(filters).with(unconditional_filter()).try_init()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            registry().with(lines).with(filters).with(unconditional_filter()).try_init()
        }
    };
    started.map_err(|error| format!("cannot start the log: {error}"))?;
    // `try_init` succeeds only once, so `LOG` is empty.
    let _ = LOG.set(queue);
    Ok(Box::new(move |filter| {
        changeable.set(EnvFilter::try_new(filter).map_err(|error| error.to_string())?);
        Ok(())
    }))
}

/// Returns a filter that applies in addition to the configured filter.
///
/// Below INFO, the libraries log heads and bodies of HTTP messages, which contain cookies, tokens
/// and codes. Only the program's own lines are written at these levels.
///
/// TLS warnings of the libraries are excluded too. A client that sends an IP address as host name,
/// or disconnects early, would cause a line for each connection. The code that opens outgoing
/// connections logs failures of those connections itself.
fn unconditional_filter() -> FilterFn {
    filter_fn(|line| {
        let is_tls_warning = is_of_tls(line.target()) && *line.level() > Level::ERROR;
        (*line.level() <= Level::INFO || is_ours(line.target())) && !is_tls_warning
    })
}

fn is_of_tls(target: &str) -> bool {
    ["rustls", "pingora_core::protocols::tls"].iter().any(|name| target.starts_with(name))
}

fn is_ours(target: &str) -> bool {
    target
        .strip_prefix("sealgate")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('_'))
}

/// Returns the number of lines dropped since the previous call.
pub(crate) fn take_dropped() -> u64 {
    LOG.get().map_or(0, |queue| queue.take_dropped())
}

/// Waits until all lines are written, for at most a second. Call it before the process ends.
pub fn flush() {
    if let Some(queue) = LOG.get() {
        queue.flush(LAST_FLUSH_TIMEOUT);
    }
}

/// Flushes standard output and ends the process with this status.
///
/// Runs no exit handlers. The exit handlers of a PKCS#11 module with live threads have crashed with
/// SIGSEGV, after failures and after orderly stops. The crash hid the exit status.
pub fn exit(status: i32) -> ! {
    // An error means that standard output is closed; the process ends anyway.
    let _ = io::stdout().flush();
    exit::exit(status)
}

/// Reports the cause and ends the process with this status. Like [`exit()`], it runs no exit
/// handlers.
pub fn exit_with_error(status: i32, cause: Arguments<'_>) -> ! {
    if LOG.get().is_some() {
        tracing::error!("{cause}");
        flush();
    } else {
        // Commands start no log.
        let _ = writeln!(io::stderr(), "{}error: {cause}", error_prefix());
    }
    exit::exit(status)
}

/// Returns the prefix for an error line that bypasses the log: its severity if the journal reads
/// standard error, otherwise nothing.
pub fn error_prefix() -> &'static str {
    if is_journal(io::stderr()) { "<3>" } else { "" }
}

/// Returns whether the stream is connected to the journal (systemd.exec(5), `JOURNAL_STREAM`).
fn is_journal(stream: impl AsFd) -> bool {
    let Some(journal_stream) = env::var("JOURNAL_STREAM").ok() else { return false };
    let Some((device, inode)) = journal_stream.split_once(':') else { return false };
    let Ok(status) = rustix::fs::fstat(stream) else { return false };
    device.parse() == Ok(status.st_dev) && inode.parse() == Ok(status.st_ino)
}

/// Creates a [`Line`] for each event.
struct LineWriter {
    queue: Arc<LogQueue>,
    prefixed: bool,
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { queue: &self.queue, level: Level::INFO, priority: Priority::Soon, prefixed: self.prefixed }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        let priority = match *event.level() {
            Level::ERROR | Level::WARN => Priority::Urgent,
            _ if event.target() == ACCESS => Priority::Deferred,
            _ => Priority::Soon,
        };
        Line { level: *event.level(), priority, ..self.make_writer() }
    }
}

/// Writer of one event. The formatter passes the whole line in one call.
struct Line<'a> {
    queue: &'a LogQueue,
    level: Level,
    priority: Priority,
    prefixed: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let prefix: &[u8] = if self.prefixed { severity(self.level) } else { b"" };
        self.queue.append(prefix, line, self.priority);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the severity prefix of the journal (sd-daemon(3)).
fn severity(level: Level) -> &'static [u8] {
    match level {
        Level::ERROR => b"<3>",
        Level::WARN => b"<4>",
        Level::INFO => b"<6>",
        _ => b"<7>",
    }
}
