//! Processing of one request in Pingora: checks, decision, and the response or forwarding to an
//! upstream.

pub(crate) mod body;
pub(crate) mod caching;
pub(crate) mod client_address;
mod compression;
pub(crate) mod exchange;
pub(crate) mod fields;
pub(crate) mod headers;
pub(crate) mod health_path;
pub(crate) mod http2_upstream;
pub(crate) mod limits;
pub(crate) mod long_lived;
pub(crate) mod loop_mark;
pub(crate) mod prefix_translation;
pub(crate) mod queued_body;
pub(crate) mod read_timeout;
pub(crate) mod service;
pub(crate) mod shown_path;
pub(crate) mod snapshot;
pub(crate) mod trailers;
pub(crate) mod transport_security;
pub(crate) mod upgrade;
pub(crate) mod upstream_name;
