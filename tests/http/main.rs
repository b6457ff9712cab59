//! The provider over HTTP requests, in process: the memory engine, a clock that stands still, a SoftHSM token that signs.
//! The ids in the tests' names (`auth_09`, `tok_24`, …) are those of the cases that `docs/protocol.md` lists.

#[path = "../support/softhsm.rs"]
mod softhsm;
mod support;

mod flow;

mod client_auth;
mod jwt;
mod rate_limit;
mod refresh;
mod register;
mod registration;
mod revoke;
mod robustness;
mod token;
mod userinfo;
