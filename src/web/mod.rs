//! What the provider and the gate share of HTTP. At the bottom: cookies, where a request comes from, and the changes to a
//! request and its answer. Above the shared state: the request's context, responses, and the one place where an error becomes
//! HTTP.

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
