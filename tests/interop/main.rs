//! Compares second factors with third-party implementations in Node.js (listed in package.json).
//! Both must give the same results.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/authenticator.rs"]
mod authenticator;

mod mutate;
mod peer;
mod totp;
mod webauthn;
