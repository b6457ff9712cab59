//! Recovery codes: ten codes that are shown once. Each replaces a lost second factor once.
//!
//! A code has 80 random bits, too few to store a plain hash (NIST SP 800-63B requires 112).
//! Therefore an HMAC is stored. Its key is not in the store, so a stolen store does not suffice to
//! guess codes.

use std::fmt;

use aws_lc_rs::hmac;
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use crate::secret::{Secret, base64url_bytes};
use crate::time::UnixTime;
use crate::user::Subject;

/// Number of codes per user.
pub const RECOVERY_CODES: usize = 10;

/// Number of random bytes of a code.
pub const RECOVERY_CODE_BYTES: usize = 10;

/// Number of unused codes at which the user is asked to create new codes.
const FEW_CODES: usize = 3;

const CODE_LENGTH: usize = 16;

/// Crockford's base32 alphabet, which omits I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// HMAC key, derived from the data key.
pub struct RecoveryKey(hmac::Key);

impl RecoveryKey {
    /// Creates the key from these bytes, which must have no other use.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns the hash of a code to store. The hash includes the owner, so a hash that is copied
    /// to another user's record does not match.
    fn hash(&self, owner: Subject, code: &RecoveryCode) -> RecoveryHash {
        let mut context = hmac::Context::with_key(&self.0);
        for part in [b"recovery code", &owner.as_bytes()[..], &code.0[..]] {
            context.update(part);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.sign().as_ref());
        RecoveryHash(hash)
    }
}

impl fmt::Debug for RecoveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryKey(…)")
    }
}

/// Recovery code in clear text.
#[derive(Clone)]
pub struct RecoveryCode(Zeroizing<[u8; CODE_LENGTH]>);

impl RecoveryCode {
    fn from_random(bytes: [u8; RECOVERY_CODE_BYTES]) -> Self {
        let bits = bytes.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        let mut text = Zeroizing::new([0; CODE_LENGTH]);
        for (place, char) in text.iter_mut().rev().enumerate() {
            *char = ALPHABET[(bits >> (place * 5) & 31) as usize];
        }
        Self(text)
    }

    /// Parses a typed code, in any letter case and with spaces and hyphens anywhere.
    ///
    /// The alphabet omits O, I and L, which resemble digits. A typed O is parsed as 0, and a typed
    /// I or L as 1.
    pub fn parse(typed: &str) -> Option<Self> {
        let mut text = Zeroizing::new([0; CODE_LENGTH]);
        let mut places = text.iter_mut();
        for char in typed.chars() {
            if char.is_whitespace() || char == '-' {
                continue;
            }
            let read = match char.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                other => other,
            };
            *places.next()? = u8::try_from(read).ok().filter(|byte| ALPHABET.contains(byte))?;
        }
        let is_whole = places.next().is_none();
        is_whole.then_some(Self(text))
    }

    /// Returns the code in groups of four, for display.
    pub fn text(&self) -> Secret {
        let groups: Vec<&str> = self.0.chunks(4).map(|group| str::from_utf8(group).unwrap_or_default()).collect();
        Secret::new(groups.join("-"))
    }
}

impl fmt::Debug for RecoveryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryCode(…)")
    }
}

/// HMAC-SHA-256 of a code.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct RecoveryHash(#[serde(with = "base64url_bytes")] [u8; 32]);

impl fmt::Debug for RecoveryHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryHash(…)")
    }
}

/// Stored hashes of a user's unused recovery codes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryCodes {
    hashes: Vec<RecoveryHash>,
    pub created_at: UnixTime,
}

impl RecoveryCodes {
    /// Creates ten codes that replace all earlier codes. Also returns their text, which is not
    /// stored.
    pub fn new(
        key: &RecoveryKey,
        owner: Subject,
        random: &[[u8; RECOVERY_CODE_BYTES]; RECOVERY_CODES],
        now: UnixTime,
    ) -> (Self, [RecoveryCode; RECOVERY_CODES]) {
        let codes = random.map(RecoveryCode::from_random);
        let hashes = codes.iter().map(|code| key.hash(owner, code)).collect();
        (Self { hashes, created_at: now }, codes)
    }

    /// Returns the record without this code, or `None` if the code is wrong. The caller stores the
    /// record in the commit that completes the sign-in.
    ///
    /// Compares all hashes, so that the duration does not reveal which one matches.
    #[must_use]
    pub fn without(&self, key: &RecoveryKey, owner: Subject, code: &RecoveryCode) -> Option<Self> {
        let hash = key.hash(owner, code);
        let (mut is_known, mut place) = (Choice::from(0), 0_u64);
        for (at, stored_hash) in (0..).zip(&self.hashes) {
            let same = stored_hash.0.ct_eq(&hash.0);
            place = u64::conditional_select(&place, &at, same);
            is_known |= same;
        }
        if !bool::from(is_known) {
            return None;
        }
        let mut left = self.clone();
        left.hashes.remove(usize::try_from(place).ok()?);
        Some(left)
    }

    /// Returns the number of unused codes.
    pub fn unused(&self) -> usize {
        self.hashes.len()
    }

    /// Returns whether the user should create new codes, because few are left.
    pub fn are_few(&self) -> bool {
        self.hashes.len() <= FEW_CODES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> RecoveryKey {
        RecoveryKey::new(&[byte; 32])
    }

    fn anna() -> Subject {
        Subject::from_random([1; 16])
    }

    fn codes() -> (RecoveryCodes, [RecoveryCode; RECOVERY_CODES]) {
        let random = std::array::from_fn(|at| [u8::try_from(at * 25).unwrap(); RECOVERY_CODE_BYTES]);
        RecoveryCodes::new(&key(7), anna(), &random, UnixTime::from_seconds(1))
    }

    #[test]
    fn a_code_is_written_in_crockfords_base32() {
        let written = |bytes| RecoveryCode::from_random(bytes).text().expose().to_owned();
        assert_eq!(written([0; 10]), "0000-0000-0000-0000");
        assert_eq!(written([0xff; 10]), "ZZZZ-ZZZZ-ZZZZ-ZZZZ");
        // 0x0123456789 in groups of five bits is 0, 4, 17, 20, 10, 25, 28, 9.
        assert_eq!(written([1, 0x23, 0x45, 0x67, 0x89, 1, 0x23, 0x45, 0x67, 0x89]), "04HM-ASW9-04HM-ASW9");
    }

    #[test]
    fn each_of_ten_codes_is_valid_once() {
        let (mut kept, codes) = codes();
        assert_eq!(kept.unused(), 10);
        let order = [6, 9, 0, 3, 8, 1, 7, 2, 5, 4].map(|at: usize| &codes[at]);
        for (used, code) in order.into_iter().enumerate() {
            assert_eq!(kept.are_few(), used >= 7);
            let left = kept.without(&key(7), anna(), code).unwrap();
            assert_eq!(left.unused(), 9 - used);
            assert_eq!(left.without(&key(7), anna(), code), None);
            for later in &order[used + 1..] {
                assert!(left.without(&key(7), anna(), later).is_some());
            }
            kept = left;
        }
    }

    #[test]
    fn a_code_is_valid_only_for_its_owner_under_its_key() {
        let (kept, codes) = codes();
        assert_eq!(kept.without(&key(7), Subject::from_random([2; 16]), &codes[0]), None);
        assert_eq!(kept.without(&key(8), anna(), &codes[0]), None);
        assert_eq!(kept.without(&key(7), anna(), &RecoveryCode::from_random([9; 10])), None);
    }

    #[test]
    fn a_typed_code_is_accepted_in_any_format() {
        let code = RecoveryCode::from_random([1, 0x23, 0x45, 0x67, 0x89, 0, 0x42, 0x10, 0x84, 0x21]);
        assert_eq!(code.text().expose(), "04HM-ASW9-0111-1111");
        for typed in ["04HM-ASW9-0111-1111", "04hm asw9 0111 1111", "04hmasw901111111", " o4HM-aSw9-OilL-1i1l \n"] {
            assert_eq!(*RecoveryCode::parse(typed).unwrap().0, *code.0, "{typed}");
        }
        for wrong in [
            "",
            "04HM-ASW9-0111-111",
            "04HM-ASW9-0111-11111",
            "04HM-ASW9-0111-111U",
            "04HM_ASW9_0111_1111",
            "04HMASW90111111ı",
        ] {
            assert!(RecoveryCode::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn stored_recovery_codes_are_hashed_and_readable() {
        let (kept, codes) = codes();
        let stored = serde_json::to_string(&kept).unwrap();
        assert_eq!(serde_json::from_str::<RecoveryCodes>(&stored).unwrap(), kept);
        let shown = format!("{stored} {kept:?} {:?} {:?}", codes[1], key(7));
        let plain = String::from_utf8(codes[1].0.to_vec()).unwrap();
        assert!(!shown.contains(&plain) && !shown.contains(codes[1].text().expose()));
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(typed in ".{0,60}") {
            let _ = RecoveryCode::parse(&typed);
        }

        #[test]
        fn a_displayed_code_can_be_parsed(bytes in any::<[u8; 10]>()) {
            let code = RecoveryCode::from_random(bytes);
            prop_assert_eq!(&*RecoveryCode::parse(code.text().expose()).unwrap().0, &*code.0);
        }
    }
}
