//! Session cookies: each session has exactly one text form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::secret::base64url;
use sealgate_fuzz::domain::session::{SessionCookie, SessionId};

fuzz_target!(|raw: &[u8]| {
    if let Ok(text) = std::str::from_utf8(raw) {
        check(text);
        if let Some(id) = SessionId::parse(text) {
            assert_eq!(id.to_string(), text);
        }
    }
    check(&base64url(raw));
});

fn check(text: &str) {
    if let Some(cookie) = SessionCookie::parse(text) {
        assert_eq!(cookie.value().expose(), text);
    }
}
