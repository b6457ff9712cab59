//! Log, metrics, clock, TLS cryptography and outgoing HTTPS requests.

pub mod clock;
pub mod fetch;
pub mod log;
pub mod metrics;
pub mod named_certificate;
pub mod tls;
