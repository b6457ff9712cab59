//! Handling of one request in Pingora: check, decision, and answer or forwarding to an upstream.

pub(in crate::edge) mod answer_framing;
pub(in crate::edge) mod body;
pub(in crate::edge) mod caching;
pub(in crate::edge) mod client_address;
pub(in crate::edge) mod exchange;
pub(in crate::edge) mod fields;
pub(in crate::edge) mod headers;
pub(in crate::edge) mod long_lived;
pub(in crate::edge) mod redirect;
pub(in crate::edge) mod service;
pub(in crate::edge) mod shown_path;
pub(in crate::edge) mod silence;
pub(in crate::edge) mod snapshot;
pub(in crate::edge) mod transport_security;
pub(in crate::edge) mod upgrade;
pub(in crate::edge) mod upstream_name;
pub(in crate::edge) mod websocket;
