//! HTTP code shared by the provider and the gateway.
//!
//! The lower layer: cookies, origin of requests, and changes to requests and responses. Above the
//! shared state: the request's context, responses, and the conversion of errors to HTTP.

pub mod context;
pub mod cookie;
pub mod failure;
pub mod limits;
pub mod response;
