//! In-process provider on the memory engine and a manual clock, and its two peers: a browser with a
//! cookie jar, and a client. All communication is by HTTP requests.

mod browser;
mod client;
mod provider;
mod response;
pub(crate) mod token_device;
mod wire;

pub(crate) use crate::records::{PASSWORD, REDIRECT_URI};
pub(crate) use browser::{Browser, form_action, hidden_fields, is_consent, is_login};
pub(crate) use client::{Client, Tokens, basic, challenge, jwt_claims, jwt_header};
pub(crate) use provider::{Provider, encode, settings};
pub(crate) use response::Reply;
pub(crate) use wire::{FORM, redemption};

/// Issuer of every provider here.
pub(crate) const ISSUER: &str = "https://id.test";
/// Redirect URI of clients after a logout.
pub(crate) const SIGNED_OUT_URI: &str = "https://rp.test/bye";
/// Well-formed verifier of 64 characters.
pub(crate) const VERIFIER: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.";
/// Asserts secrets of 256 random bits: each has 32 bytes, and no byte is the same in all of them.
#[track_caller]
pub(crate) fn assert_random(secrets: impl Iterator<Item = Vec<u8>>) {
    let secrets: Vec<Vec<u8>> = secrets.collect();
    assert!(secrets.len() >= 8 && secrets.iter().all(|secret| secret.len() == 32), "{secrets:?}");
    for at in 0..32 {
        assert!(secrets.iter().any(|secret| secret[at] != secrets[0][at]), "byte {at} is always the same: {secrets:?}");
    }
}
