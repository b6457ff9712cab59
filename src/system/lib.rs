//! Log, metrics, traces, clock, TLS cryptography and outgoing HTTPS requests.

pub mod clock;
pub mod clock_discipline;
pub mod fetch;
pub mod file_version;
mod guarded_resolver;
pub mod log;
pub mod login_exchange;
pub mod metrics;
pub mod named_certificate;
pub mod own_line;
pub mod presented;
pub mod read_mostly;
pub mod tls;
pub mod trace;
pub mod unique;
