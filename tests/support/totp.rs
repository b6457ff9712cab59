//! Independent implementation of an authenticator app.

use aws_lc_rs::hmac;

/// Returns the code of a base32 secret, with or without spaces, at a time in seconds since 1970
/// (RFC 6238).
pub(crate) fn code(secret: &str, seconds: u64) -> String {
    let digits = secret.chars().filter(|char| *char != ' ');
    let bits = digits.fold(String::new(), |bits, char| {
        let value = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".find(char).unwrap();
        format!("{bits}{value:05b}")
    });
    let bytes: Vec<u8> = bits
        .as_bytes()
        .chunks_exact(8)
        .map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 2).unwrap())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes);
    let tag = hmac::sign(&key, &(seconds / 30).to_be_bytes());
    let at = usize::from(tag.as_ref()[19] & 15);
    let number = u32::from_be_bytes(tag.as_ref()[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

/// Returns the secret that an enrolment page shows.
pub(crate) fn secret(page: &str) -> String {
    let (_, rest) = page.split_once("id=\"totp-secret\"").unwrap_or_else(|| panic!("no secret: {page}"));
    rest.split_once('>').unwrap().1.split_once('<').unwrap().0.to_owned()
}
