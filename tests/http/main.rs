//! The provider over HTTP requests, in process: the memory engine, a clock that stands still, a SoftHSM token that signs.
//! The ids in the tests' names (`auth_09`, `tok_24`, …) are those of the cases that `docs/protocol.md` lists.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/softhsm.rs"]
mod softhsm;
mod support;

mod flow;

mod authorize;
mod discovery;
mod interaction;
mod jwks;
mod login;
mod logout;
mod pages;
mod pkce;
mod redirect_uri;
mod session;
mod steps;
