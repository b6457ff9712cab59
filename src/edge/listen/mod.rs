//! From the socket to a request: listeners, TLS, quotas and checks of the raw head.

pub(in crate::edge) mod certificate;
pub(in crate::edge) mod chunks;
pub(in crate::edge) mod client_certificate;
pub(in crate::edge) mod connection;
mod gathering;
pub(in crate::edge) mod head;
pub(in crate::edge) mod inherited;
pub(in crate::edge) mod listeners;
pub(in crate::edge) mod quota;
pub(in crate::edge) mod service;
pub(in crate::edge) mod tls;
pub(in crate::edge) mod waiting;
