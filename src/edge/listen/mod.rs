//! Everything between a socket and a parsed request: listeners, TLS, quotas and checks of the raw
//! head.

mod buffered_tls;
pub(crate) mod certificate;
pub(crate) mod challenges;
pub(crate) mod chunks;
pub(crate) mod client_certificate;
pub(crate) mod connection;
pub(crate) mod head;
pub(crate) mod inherited;
pub(crate) mod listeners;
mod proxy_protocol;
pub(crate) mod quota;
pub(crate) mod service;
pub(crate) mod tls;
pub(crate) mod token_key;
pub(crate) mod waiting;
mod workers;
mod write_buffer;
