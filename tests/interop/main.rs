//! Second factors beside implementations that we did not write, in Node.js (package.json names them): both must say the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/authenticator.rs"]
mod authenticator;

mod mutate;
mod peer;
mod totp;
mod webauthn;
