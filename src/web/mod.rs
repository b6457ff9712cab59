//! What the provider and the gate share of HTTP: cookies, where a request comes from, and which header fields clients cannot
//! send.

pub mod cookie;
pub mod origin;
pub(crate) mod request_fields;
