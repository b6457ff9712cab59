//! HTTP code shared by the provider and the gateway.
//!
//! The lower layer: cookies, origin of requests, and changes to requests and responses. Above the
//! shared state: the request's context, responses, and the conversion of errors to HTTP.

pub mod asset;
pub mod context;
pub mod cookie;
pub mod failure;
pub mod last_sign_in;
pub mod limits;
pub mod pages;
pub mod response;
pub mod way_back;
