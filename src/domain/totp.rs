//! Time-based one-time passwords of authenticator apps (RFC 6238).
//!
//! The parameters are those that all apps support: SHA-1, 6 digits, 30 seconds. SHA-1 lacks
//! collision resistance, but HMAC does not need it.

use std::fmt;

use aws_lc_rs::hmac;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::secret::Secret;
use crate::time::UnixTime;

/// Validity of a code in seconds.
const PERIOD: u64 = 30;

/// Number of codes that are accepted before and after the current one, because clocks differ and
/// users type slowly (RFC 6238 §5.2).
const WINDOW: u64 = 1;

/// Number of past codes that are recognised but rejected, to tell the user that the clock is slow.
///
/// Future codes are not recognised. If the server told an attacker that a guessed code is a future
/// one, the attacker could wait and use the code when it becomes valid.
const RECOGNISED_PAST_CODES: u64 = 10;

/// Base32 alphabet (RFC 4648 §6).
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Characters to escape in labels and values of a URI: all except the unreserved ones (RFC 3986
/// §2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Secret shared with an app: 160 bits, as RFC 4226 §4 recommends.
#[derive(Clone)]
pub struct TotpSecret(Zeroizing<[u8; 20]>);

/// Time step of a code: the number of 30-second periods since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TotpStep(u64);

/// Code of six digits that a user typed.
#[derive(Clone)]
pub struct TotpCode(Zeroizing<[u8; 6]>);

/// Result of checking a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TotpVerdict {
    /// The code is correct. The caller must store the step as the last accepted step, in the commit
    /// that continues the sign-in.
    Accepted(TotpStep),
    /// The code has expired and is rejected. The clock of the device is probably slow.
    ClockIsOff,
    /// The code is wrong or was used before. The two are not distinguished, so that an attacker who
    /// saw the code learns nothing.
    Wrong,
}

impl TotpSecret {
    /// Creates the secret from random bytes.
    pub fn from_random(bytes: [u8; 20]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the 20 bytes, for encryption.
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Returns the secret as 32 characters, to type it into an app that cannot scan the QR code.
    pub(crate) fn base32(&self) -> Secret {
        let mut text = String::with_capacity(32);
        for group in self.0.chunks_exact(5) {
            let bits = group.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            // 40 bits are eight characters of 5 bits.
            text.extend((0..8).rev().map(|place| char::from(BASE32[(bits >> (place * 5) & 31) as usize])));
        }
        Secret::new(text)
    }

    /// Returns the secret in groups of four characters.
    pub fn grouped(&self) -> Secret {
        let text = self.base32();
        let groups: Vec<&str> = (0..8).filter_map(|group| text.expose().get(group * 4..group * 4 + 4)).collect();
        Secret::new(groups.join(" "))
    }

    /// Returns the content of the QR code, in the Key Uri Format of Google Authenticator, which all
    /// apps support.
    ///
    /// The issuer occurs twice, because older apps read only the label. Algorithm, digits and
    /// period are omitted, because they are the defaults and a shorter text is easier to scan.
    pub fn uri(&self, issuer: &str, account: &str) -> Secret {
        let (issuer, account) = (utf8_percent_encode(issuer, ESCAPED), utf8_percent_encode(account, ESCAPED));
        Secret::new(format!("otpauth://totp/{issuer}:{account}?secret={}&issuer={issuer}", self.base32().expose()))
    }

    /// Checks a code. `last` is the last accepted step of this secret.
    ///
    /// A code is accepted only one time. Afterwards, earlier codes are not accepted either (RFC
    /// 6238 §5.2).
    pub fn judge(&self, code: &TotpCode, last: Option<TotpStep>, now: UnixTime) -> TotpVerdict {
        let current = now.seconds() / PERIOD;
        let mut verdict = TotpVerdict::Wrong;
        // Compare all codes, so that the duration does not reveal which one matches. The nearest
        // steps come last, so that they take precedence.
        for distance in (0..=RECOGNISED_PAST_CODES).rev() {
            let future = current.checked_add(distance).filter(|_| distance <= WINDOW);
            for step in [current.checked_sub(distance), future].into_iter().flatten().map(TotpStep) {
                let right = bool::from(self.code_of(step).ct_eq(&*code.0));
                if right && last.is_none_or(|last| step > last) {
                    verdict = if distance <= WINDOW { TotpVerdict::Accepted(step) } else { TotpVerdict::ClockIsOff };
                }
            }
        }
        verdict
    }

    /// Returns the digits of a step (RFC 4226 §5.3).
    fn code_of(&self, step: TotpStep) -> [u8; 6] {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &*self.0);
        let tag = hmac::sign(&key, &step.0.to_be_bytes());
        let tag = tag.as_ref();
        // The last four bits are the offset of the number in the tag. The tag has 20 bytes, so the
        // offset is always in bounds.
        let offset = usize::from(tag[19] % 16);
        let number = u32::from_be_bytes([tag[offset] & 0x7f, tag[offset + 1], tag[offset + 2], tag[offset + 3]]);
        let mut digits = [b'0'; 6];
        let mut rest = number % 1_000_000;
        for digit in digits.iter_mut().rev() {
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
        digits
    }
}

impl TotpCode {
    /// Parses six digits with optional spaces or hyphens, as apps display them. Returns `None` for
    /// other text.
    pub fn parse(typed: &str) -> Option<Self> {
        let mut digits = Zeroizing::new([0; 6]);
        let mut places = digits.iter_mut();
        for char in typed.chars() {
            if char.is_whitespace() || char == '-' {
                continue;
            }
            // Other Unicode digits are not valid.
            *places.next()? = u8::try_from(char).ok().filter(u8::is_ascii_digit)?;
        }
        let is_whole = places.next().is_none();
        is_whole.then_some(Self(digits))
    }
}

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSecret(…)")
    }
}

impl fmt::Debug for TotpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpCode(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Times and codes of RFC 6238 appendix B. Only the last six digits are used.
    const RFC: [(u64, &str); 6] = [
        (59, "287082"),
        (1_111_111_109, "081804"),
        (1_111_111_111, "050471"),
        (1_234_567_890, "005924"),
        (2_000_000_000, "279037"),
        (20_000_000_000, "353130"),
    ];

    fn secret() -> TotpSecret {
        TotpSecret::from_random(*b"12345678901234567890")
    }

    fn code(step: u64) -> TotpCode {
        TotpCode(Zeroizing::new(secret().code_of(TotpStep(step))))
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    #[test]
    fn the_rfc_vectors_are_reproduced() {
        for (seconds, digits) in RFC {
            let code = TotpCode::parse(digits).unwrap();
            let accepted = TotpVerdict::Accepted(TotpStep(seconds / PERIOD));
            assert_eq!(secret().judge(&code, None, at(seconds)), accepted);
        }
    }

    #[test]
    fn a_code_is_accepted_in_its_step_and_the_adjacent_ones() {
        let step = 37_037_036;
        for (seconds, verdict) in [
            ((step - 11) * 30 + 29, TotpVerdict::Wrong),
            ((step - 10) * 30, TotpVerdict::Wrong),
            ((step - 1) * 30 - 1, TotpVerdict::Wrong),
            ((step - 1) * 30, TotpVerdict::Accepted(TotpStep(step))),
            (step * 30, TotpVerdict::Accepted(TotpStep(step))),
            ((step + 1) * 30 + 29, TotpVerdict::Accepted(TotpStep(step))),
            ((step + 2) * 30, TotpVerdict::ClockIsOff),
            ((step + 10) * 30 + 29, TotpVerdict::ClockIsOff),
            ((step + 11) * 30, TotpVerdict::Wrong),
        ] {
            assert_eq!(secret().judge(&code(step), None, at(seconds)), verdict, "{seconds}");
        }
    }

    #[test]
    fn a_totp_code_and_earlier_ones_are_accepted_once() {
        let now = 37_037_036;
        let last = Some(TotpStep(now));
        for (step, verdict) in [
            (now - 5, TotpVerdict::Wrong),
            (now - 1, TotpVerdict::Wrong),
            (now, TotpVerdict::Wrong),
            (now + 1, TotpVerdict::Accepted(TotpStep(now + 1))),
            (now + 2, TotpVerdict::Wrong),
        ] {
            assert_eq!(secret().judge(&code(step), last, at(now * 30)), verdict, "{step}");
        }
    }

    #[test]
    fn the_first_and_last_instants_have_codes() {
        assert_eq!(secret().judge(&code(0), None, at(0)), TotpVerdict::Accepted(TotpStep(0)));
        assert!(!matches!(secret().judge(&code(7), None, at(u64::MAX)), TotpVerdict::Accepted(_)));
    }

    #[test]
    fn codes_are_accepted_as_apps_display_them() {
        for typed in ["287082", "287 082", " 287-082\n", "28 70 82", "2\u{a0}8 7082"] {
            assert_eq!(*TotpCode::parse(typed).unwrap().0, *b"287082", "{typed}");
        }
        for wrong in ["", "28708", "2870820", "28708a", "+28708", "२८७०८२", "２８７０８２", "287_082", "287.082"]
        {
            assert!(TotpCode::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_secret_is_formatted_for_users_and_apps() {
        let secret = secret();
        assert_eq!(secret.base32().expose(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert_eq!(secret.grouped().expose(), "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ");
        assert_eq!(
            secret.uri("Çiçek: Gate & Co", "anna+test@example.test").expose(),
            "otpauth://totp/%C3%87i%C3%A7ek%3A%20Gate%20%26%20Co:anna%2Btest%40example.test\
             ?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=%C3%87i%C3%A7ek%3A%20Gate%20%26%20Co"
        );
    }

    #[test]
    fn no_secret_is_printed() {
        assert_eq!(format!("{:?} {:?}", secret(), code(1)), "TotpSecret(…) TotpCode(…)");
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(typed in ".{0,40}") {
            let _ = TotpCode::parse(&typed);
        }

        #[test]
        fn base32_is_the_secret(bytes in any::<[u8; 20]>()) {
            let text = TotpSecret::from_random(bytes).base32();
            let mut bits = text.expose().bytes().flat_map(|char| {
                let value = BASE32.iter().position(|known| *known == char).unwrap();
                (0..5).rev().map(move |bit| value >> bit & 1 == 1)
            });
            for byte in bytes {
                prop_assert_eq!((0..8).fold(0, |value, _| value << 1 | u8::from(bits.next().unwrap())), byte);
            }
            prop_assert_eq!(bits.next(), None);
        }
    }
}
