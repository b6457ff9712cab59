//! Untrusted signed tokens, before their signature is verified.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::secret::base64url;
use sealgate_fuzz::oauth::jwt::{ACCESS_TOKEN, ID_TOKEN, Unverified};
use sealgate_fuzz::two;

fuzz_target!(|text: &str| {
    check(text);
    // The fuzzer does not discover base64 by itself, so also encode a plain header and claims.
    let (header, claims) = two(text);
    check(&format!("{}.{}.c2ln", base64url(header.as_bytes()), base64url(claims.as_bytes())));
});

fn check(token: &str) {
    let Some(read) = Unverified::parse(token) else { return };
    let (input, signature) = token.rsplit_once('.').expect("three parts");
    assert_eq!(read.signing_input, input);
    assert_eq!(base64url(&read.signature), signature);
    assert!(!(read.is(ACCESS_TOKEN) && read.is(ID_TOKEN)));
    let _ = read.claims::<serde_json::Value>();
}
