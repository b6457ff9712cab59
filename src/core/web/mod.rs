//! HTTP code shared by the provider and the gateway: request context, cookies, rate limits,
//! responses, and the conversion of errors to responses.

pub mod context;
pub mod cookie;
pub mod failure;
pub mod limits;
pub mod response;
pub mod server_cookie;
