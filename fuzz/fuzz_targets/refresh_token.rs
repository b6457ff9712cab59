//! Refresh tokens: each token has one text form, and its successor belongs to the same grant.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::grant::{RefreshToken, Salt};
use sealgate_fuzz::domain::secret::base64url;

fuzz_target!(|raw: &[u8]| {
    if let Ok(text) = std::str::from_utf8(raw) {
        check(text);
    }
    check(&format!("RT_{}", base64url(raw)));
});

fn check(text: &str) {
    let Some(token) = RefreshToken::parse(text) else { return };
    assert_eq!(token.to_wire().expose(), text);
    let next = token.next(&Salt::from_random([7; 32]));
    assert!(next.grant() == token.grant());
    let read = RefreshToken::parse(next.to_wire().expose()).expect("what we write we can read");
    assert!(read.hash() == next.hash() && (read.hash() != token.hash() || text == next.to_wire().expose()));
}
