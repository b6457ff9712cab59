//! Cookie with the destination of a browser's last sign-in. Pure.
//!
//! A sign-in form may be sent again after its request was finished, for instance with the Back
//! button, a second click or a reload. The browser then continues to the same destination. A cookie
//! with a lifetime of one minute has it, so the server stores nothing. The caller must validate the
//! destination: the cookie's value may be forged.

use sealgate_domain::secret::{base64url, from_base64url};

/// Lifetime of the cookie.
pub const LIFETIME_SECONDS: u64 = 60;

/// Maximum length of a destination in bytes. Browsers refuse cookies of more than 4096 bytes, and
/// the encoding adds a third.
pub const MAX_DESTINATION_BYTES: usize = 2048;

/// Returns the value of the cookie for the sign-in `of`, or `None` if the destination is too long.
pub fn cookie_value(of: &str, destination: &str) -> Option<String> {
    (destination.len() <= MAX_DESTINATION_BYTES).then(|| format!("{of}.{}", base64url(destination.as_bytes())))
}

/// Returns the destination from the cookie's value. That of another sign-in than `of` is not
/// returned.
pub fn read(cookie: Option<&str>, of: Option<&str>) -> Option<String> {
    let (known, destination) = cookie?.split_once('.')?;
    if of.is_some_and(|of| of != known) {
        return None;
    }
    String::from_utf8(from_base64url(destination)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_read_for_its_own_sign_in_or_for_any() {
        let cookie = cookie_value("s", "/a?b=c").unwrap();
        for of in [None, Some("s")] {
            assert_eq!(read(Some(&cookie), of).as_deref(), Some("/a?b=c"));
        }
        assert_eq!(read(Some(&cookie), Some("t")), None);
        for cookie in ["", ".", "s", "s.*", "s._w"] {
            assert_eq!(read(Some(cookie), None).filter(|text| !text.is_empty()), None, "{cookie}");
        }
        assert_eq!(read(None, None), None);
    }

    #[test]
    fn the_longest_destination_fits_into_a_cookie() {
        let name = "__Host-sealgate-last=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=60";
        let value = cookie_value(&"s".repeat(43), &"a".repeat(MAX_DESTINATION_BYTES)).unwrap();
        assert!(value.len() + name.len() <= 4096, "{}", value.len());
        assert_eq!(cookie_value("s", &"a".repeat(MAX_DESTINATION_BYTES + 1)), None);
    }
}
