//! Password rules of NIST SP 800-63B-4 §3.1.1.2: a minimum length, no common passwords, and no
//! names of the user.
//!
//! Digits or punctuation are not required, because such rules result in weaker passwords.

use icu_normalizer::ComposingNormalizerBorrowed;
use zeroize::Zeroizing;

use crate::profile::MAX_PASSWORD_LENGTH;
use crate::secret::Secret;
use crate::user::{Email, User, plain_letters};
use crate::username::Username;

/// Minimum length of a password in characters. This is NIST's minimum for passwords that may be the
/// only factor.
pub const MIN_PASSWORD_LENGTH: usize = 15;

/// Minimum length in characters of names that a password must not contain. Shorter names occur in
/// too many good passwords.
const MIN_NAME_LENGTH: usize = 4;

/// Minimum log10 of the guesses that a password must take (zxcvbn's score 3).
const MIN_GUESSES_LOG10: f64 = 8.0;

/// Maximum number of characters that zxcvbn judges at once.
///
/// zxcvbn tries substitutions of characters, so its work grows faster than the length. In a release
/// build, 24 characters of punctuation take 35 ms, about as long as a password hash; 100 take 600
/// ms.
const MAX_JUDGED_CHARS: usize = 24;

/// Maximum number of judged characters of a password, in all its parts.
const MAX_JUDGED_IN_ALL: usize = 4 * MAX_JUDGED_CHARS;

/// Reason to reject a new password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordFault {
    /// Fewer than [`MIN_PASSWORD_LENGTH`] characters.
    #[error("a password has at least {MIN_PASSWORD_LENGTH} characters; a few words are enough")]
    TooShort,
    /// More than [`MAX_PASSWORD_LENGTH`] bytes.
    #[error("a password has at most {MAX_PASSWORD_LENGTH} bytes")]
    TooLong,
    /// The password contains a name of the user.
    #[error("the password contains the user's name, username or e-mail address; choose another password")]
    Personal,
    /// The password is common or easy to guess.
    #[error(
        "the password is easy to guess (common, keys in a row, or repeated characters); choose a few unrelated words"
    )]
    Common,
}

/// User who owns the password, with the names that it must not contain.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub email: Option<&'a Email>,
    pub username: Option<&'a Username>,
    pub name: &'a str,
}

/// Checks the length, and that the password contains no name of the owner. This check is cheap, and
/// [`is_common`] is expensive.
///
/// # Errors
/// Returns the first violated rule.
pub fn check_form(password: &Secret, owner: &Owner<'_>) -> Result<(), PasswordFault> {
    let password = password.expose();
    if password.len() > MAX_PASSWORD_LENGTH {
        return Err(PasswordFault::TooLong);
    }
    // Count the characters of the composed form, because that form is hashed. A letter that a
    // keyboard sends as two code points is one character.
    let letters =
        ComposingNormalizerBorrowed::new_nfc().normalize_iter(password.chars()).take(MIN_PASSWORD_LENGTH).count();
    if letters < MIN_PASSWORD_LENGTH {
        return Err(PasswordFault::TooShort);
    }
    let plain = plain_letters(password);
    if owner.called().iter().any(|name| plain.contains(name)) {
        return Err(PasswordFault::Personal);
    }
    Ok(())
}

/// Returns whether the password is easy to guess. Takes up to 40 ms of CPU time, so callers run it
/// on the password threads.
///
/// A long password is judged in parts, and its strongest part counts.
pub fn is_common(password: &str) -> bool {
    parts(password).iter().all(|part| zxcvbn::zxcvbn(part, &[]).guesses_log10() < MIN_GUESSES_LOG10)
}

/// Splits a password into parts to judge, each of at most [`MAX_JUDGED_CHARS`] characters.
fn parts(password: &str) -> Vec<Zeroizing<String>> {
    let chars: Zeroizing<Vec<char>> = Zeroizing::new(password.chars().take(MAX_JUDGED_IN_ALL).collect());
    chars.chunks(MAX_JUDGED_CHARS).map(|part| Zeroizing::new(part.iter().collect())).collect()
}

impl<'a> Owner<'a> {
    /// Returns the owner of the user's password.
    pub fn of(user: &'a User) -> Self {
        Self { email: user.email.as_ref(), username: user.username.as_ref(), name: &user.name }
    }

    /// Returns the owner's names in lower case without diacritics: address, local part, username,
    /// full name and its words.
    fn called(&self) -> Vec<String> {
        let address = self.email.map(Email::as_str);
        let local = address.and_then(|address| address.split('@').next());
        let joined: String = self.name.split_whitespace().collect();
        let names = address.into_iter().chain(local).chain([self.name.trim(), &joined]);
        let names = names.chain(self.username.map(Username::as_str)).chain(self.name.split_whitespace());
        names.map(plain_letters).filter(|name| name.chars().count() >= MIN_NAME_LENGTH).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(password: &str) -> Result<(), PasswordFault> {
        let email = Email::parse("ayse.isik@example.test").unwrap();
        let username = Username::parse("aisik34").unwrap();
        let owner = Owner { email: Some(&email), username: Some(&username), name: "Ayşe Nur Işıkoğlu" };
        check_form(&Secret::new(password), &owner)?;
        if is_common(password) { Err(PasswordFault::Common) } else { Ok(()) }
    }

    #[test]
    fn the_minimum_length_is_in_characters_and_the_maximum_in_bytes() {
        assert_eq!(check("şifreleri sakla"), Ok(()));
        assert_eq!(check("şşşşşşşşşşşşşş"), Err(PasswordFault::TooShort));
        let words = "at zımba pil doğru ".repeat(60);
        assert_eq!(check(words.get(..64).unwrap()), Ok(()), "64 characters and more are accepted (NIST)");
        assert_eq!(check(&format!("zürafa kalem {}", "x".repeat(1025))), Err(PasswordFault::TooLong));
    }

    /// 100 characters of punctuation would take 17 times as long as 24 characters.
    #[test]
    fn no_more_than_24_characters_are_judged_at_once_and_96_in_all() {
        let crafted = "4@8({[<3691!|07$5+%2".repeat(50);
        let lengths: Vec<usize> = parts(&crafted).iter().map(|part| part.chars().count()).collect();
        assert_eq!(lengths, [24; 4]);
    }

    #[test]
    fn a_long_password_is_as_good_as_its_best_part() {
        assert_eq!(check(&format!("{}kkQ3-x9_aZ71-Lm0w", "a".repeat(MAX_JUDGED_CHARS))), Ok(()));
        assert_eq!(check(&"p4$$w0rd".repeat(9)), Err(PasswordFault::Common));
        assert_eq!(check(&"passwordpasswordabcdefgh".repeat(4)), Err(PasswordFault::Common));
    }

    #[test]
    fn common_passwords_are_refused() {
        for common in [
            "passwordpassword",
            "123456789012345",
            "qwertyuiopasdfghjkl",
            "aaaaaaaaaaaaaaaaaaaa",
            "Password12345678",
            "abcabcabcabcabcabc",
            "111111111111111111",
        ] {
            assert_eq!(check(common), Err(PasswordFault::Common), "{common}");
        }
        for good in ["correct horse battery staple", "doğru at pil zımba", "kkQ3-x9_aZ71-Lm0w"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn passwords_with_personal_data_are_refused() {
        for personal in [
            "benim adim ayse simdi",
            "BENİM ADIM AYŞE ŞİMDİ",
            "xx ISIKOGLU 1985 yaz",
            "ayse.isik@example.test!",
            "my name is aisik34, yes",
            "aysenurisikoglu2026",
        ] {
            assert_eq!(check(personal), Err(PasswordFault::Personal), "{personal}");
        }
        // Names of three letters occur in too many words.
        assert_eq!(check("nurtopu gibi bir sabah"), Ok(()));
    }
}
