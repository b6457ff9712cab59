//! HTTP code shared by the provider and the gateway.
//!
//! The lower layer: cookies, origin of requests, and changes to requests and responses. Above the
//! shared state: the request's context, responses, and the conversion of errors to HTTP.

pub(crate) mod asset;
pub(crate) mod context;
pub(crate) mod cookie;
pub(crate) mod failure;
pub(crate) mod limits;
pub(crate) mod navigation;
pub(crate) mod origin;
pub(crate) mod pages;
pub(crate) mod request_fields;
pub(crate) mod response;
pub(crate) mod rewrite;
pub(crate) mod way_back;
