//! Imported password hashes of other programs.
//!
//! At the user's first sign-in, an argon2id hash replaces the imported hash. Parsing limits the
//! cost of each hash, so that a check occupies a thread for at most one to two seconds.

use std::num::NonZeroU32;
use std::str::FromStr;

use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA512};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use subtle::ConstantTimeEq;

use sealgate_domain::line_fault::HashFault;

/// Maximum length of a hash in bytes.
pub(super) const MAX_HASH_LENGTH: usize = 1024;

// The following limits permit the defaults of common programs and no more. At its limit, a check
// takes up to one second of a core, whether the password is right or wrong.
/// Maximum cost of bcrypt: Symfony's default. Most other programs use 10 to 12.
const MAX_BCRYPT_COST: u32 = 13;
/// Maximum rounds of SHA-crypt: passlib's default. The default of operating systems is 5,000.
const MAX_SHA_CRYPT_ROUNDS: u32 = 656_000;
/// Maximum product of iterations and output blocks. Django raises its default with each release:
/// 1,200,000 in 6.0.
const MAX_PBKDF2_ITERATIONS: u32 = 1_500_000;

/// Maximum length of a password for crypt(3), in bytes.
const MAX_SHA_CRYPT_PASSWORD_LENGTH: usize = 512;
/// Maximum product of rounds and password bytes.
///
/// Each round hashes the password again, so a long password must not cause more work.
const MAX_SHA_CRYPT_BYTES: usize = 128_000_000;

/// Scheme names that LDAP servers and Dovecot write before a complete hash.
const WRAPPERS: [&str; 7] = ["CRYPT", "ARGON2", "ARGON2I", "ARGON2ID", "BLF-CRYPT", "SHA256-CRYPT", "SHA512-CRYPT"];

/// Removes a redundant prefix such as `{CRYPT}` from a hash that itself names its scheme.
pub(super) fn unwrapped(text: &str) -> &str {
    let wrapped = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    match wrapped {
        Some((name, hash)) if WRAPPERS.iter().any(|wrapper| wrapper.eq_ignore_ascii_case(name)) => hash,
        _ => text,
    }
}

/// Parsed hash of a scheme other than argon2, within the limits.
pub(super) struct ForeignHash<'h> {
    pub(super) scheme: &'static str,
    kind: Kind<'h>,
}

enum Kind<'h> {
    Bcrypt(&'h str),
    ShaCrypt {
        hash: &'h str,
        /// Maximum length of the password in bytes. Longer passwords do not match.
        longest: usize,
    },
    /// Digest of password and salt.
    Digest {
        algorithm: &'static digest::Algorithm,
        salt: Vec<u8>,
        digest: Vec<u8>,
    },
    Pbkdf2 {
        algorithm: pbkdf2::Algorithm,
        iterations: NonZeroU32,
        salt: Vec<u8>,
        output: Vec<u8>,
    },
}

impl<'h> ForeignHash<'h> {
    /// Parses a hash.
    ///
    /// # Errors
    /// [`HashFault`].
    pub(super) fn parse(text: &'h str) -> Result<Self, HashFault> {
        if text.len() > MAX_HASH_LENGTH {
            return Err(HashFault::Unknown);
        }
        if let Some((name, value)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            return of_ldap(&name.to_ascii_uppercase(), value);
        }
        if let Some((name, rest)) = text.split_once('$').filter(|(name, _)| !name.is_empty()) {
            return of_django(name, rest);
        }
        let name = text.strip_prefix('$').and_then(|rest| rest.split_once('$')).map_or("", |(name, _)| name);
        match name {
            "2a" | "2b" | "2y" => bcrypt(text),
            "5" => sha_crypt(text, "sha256-crypt", 43),
            "6" => sha_crypt(text, "sha512-crypt", 86),
            "1" | "apr1" => Err(HashFault::Weak("MD5 ($1$, $apr1$)")),
            // Reject implementations with the sign-extension bug of 2011, where a non-ASCII
            // character overwrites the characters before it.
            "2" | "2x" => Err(HashFault::Weak("an early version of bcrypt ($2$, $2x$)")),
            _ => match name.strip_prefix("pbkdf2").map(|digest| digest.strip_prefix('-').unwrap_or(digest)) {
                Some(digest) => {
                    let algorithm = Pbkdf2::from_digest_name(if digest.is_empty() { "SHA1" } else { digest })?;
                    algorithm.hash(text.splitn(3, '$').nth(2).unwrap_or_default())
                }
                // A DES hash of crypt(3) consists of 13 such characters.
                None if name.is_empty() && text.len() == 13 && text.bytes().all(is_crypt_letter) => {
                    Err(HashFault::Weak("DES (crypt)"))
                }
                None => Err(HashFault::Unknown),
            },
        }
    }

    /// Returns whether this is a digest of the empty password.
    pub(super) fn is_of_empty_password(&self) -> bool {
        matches!(self.kind, Kind::Digest { .. }) && self.verify(b"") == Ok(true)
    }

    /// Returns whether the password matches.
    ///
    /// # Errors
    /// Returns an error if the library rejects the parsed hash, which should not happen.
    pub(super) fn verify(&self, password: &[u8]) -> Result<bool, ()> {
        match &self.kind {
            // Like other bcrypt implementations, this uses only the first 72 bytes of a password.
            Kind::Bcrypt(hash) => ::bcrypt::verify(password, hash).map_err(drop),
            Kind::ShaCrypt { longest, .. } if password.len() > *longest => Ok(false),
            Kind::ShaCrypt { hash, .. } => match ShaCrypt::default().verify_password(password, *hash) {
                Ok(()) => Ok(true),
                Err(sha_crypt::password_hash::Error::PasswordInvalid) => Ok(false),
                Err(_) => Err(()),
            },
            Kind::Digest { algorithm, salt, digest } => {
                let mut context = digest::Context::new(algorithm);
                context.update(password);
                context.update(salt);
                Ok(context.finish().as_ref().ct_eq(digest).into())
            }
            Kind::Pbkdf2 { algorithm, iterations, salt, output } => {
                Ok(pbkdf2::verify(*algorithm, *iterations, salt, password, output).is_ok())
            }
        }
    }
}

fn is_crypt_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/')
}

fn bcrypt(text: &str) -> Result<ForeignHash<'_>, HashFault> {
    let malformed = HashFault::Malformed("bcrypt");
    // The library's parser also accepts a sign before the cost.
    let cost = text.get(4..6).filter(|cost| cost.bytes().all(|byte| byte.is_ascii_digit())).ok_or(malformed)?;
    ::bcrypt::HashParts::from_str(text).map_err(|_| malformed)?;
    match cost.parse().map_err(|_| malformed)? {
        0..4 => Err(malformed),
        4..=MAX_BCRYPT_COST => Ok(ForeignHash { scheme: "bcrypt", kind: Kind::Bcrypt(text) }),
        _ => Err(HashFault::TooMuchWork("bcrypt with cost 13")),
    }
}

/// Parses `$6$[rounds=N$]SALT$HASH`.
fn sha_crypt<'h>(text: &'h str, scheme: &'static str, letters: usize) -> Result<ForeignHash<'h>, HashFault> {
    let malformed = HashFault::Malformed(scheme);
    let mut fields = text.split('$').skip(2).peekable();
    let mut rounds = sha_crypt::Params::RECOMMENDED_ROUNDS;
    if let Some(field) = fields.next_if(|field| field.starts_with("rounds=")) {
        // Implementations use at least 1000 rounds, and write that number if fewer were requested.
        rounds = decimal(field.strip_prefix("rounds=").unwrap_or_default()).ok_or(malformed)?;
        if rounds < sha_crypt::Params::ROUNDS_MIN {
            return Err(malformed);
        }
        if rounds > MAX_SHA_CRYPT_ROUNDS {
            return Err(HashFault::TooMuchWork("SHA-crypt with 656000 rounds"));
        }
    }
    let (Some(salt), Some(hash), None) = (fields.next(), fields.next(), fields.next()) else { return Err(malformed) };
    let is_valid = (1..=16).contains(&salt.len())
        && hash.len() == letters
        && salt.bytes().chain(hash.bytes()).all(is_crypt_letter)
        // The library would parse such a salt as the number of rounds.
        && !salt.starts_with("rounds=");
    if !is_valid {
        return Err(malformed);
    }
    let longest = (MAX_SHA_CRYPT_BYTES / rounds as usize).min(MAX_SHA_CRYPT_PASSWORD_LENGTH);
    Ok(ForeignHash { scheme, kind: Kind::ShaCrypt { hash: text, longest } })
}

/// Parses `{NAME}…`, as LDAP servers write it (RFC 2307 and `OpenLDAP`'s modules).
fn of_ldap(name: &str, value: &str) -> Result<ForeignHash<'static>, HashFault> {
    if let Some(digest) = name.strip_prefix("PBKDF2") {
        let algorithm =
            Pbkdf2::from_digest_name(if digest.is_empty() { "SHA1" } else { digest.strip_prefix('-').unwrap_or("") })?;
        return algorithm.hash(value);
    }
    let (scheme, algorithm, salted) = match name {
        "SHA" => ("{SHA}", &SHA1_FOR_LEGACY_USE_ONLY, false),
        "SSHA" => ("{SSHA}", &SHA1_FOR_LEGACY_USE_ONLY, true),
        "SHA256" => ("{SHA256}", &SHA256, false),
        "SSHA256" => ("{SSHA256}", &SHA256, true),
        "SHA512" => ("{SHA512}", &SHA512, false),
        "SSHA512" => ("{SSHA512}", &SHA512, true),
        "MD5" | "SMD5" => return Err(HashFault::Weak("MD5")),
        _ => return Err(HashFault::Unknown),
    };
    let malformed = HashFault::Malformed(scheme);
    let mut digest = from_base64(value).ok_or(malformed)?;
    if digest.len() < algorithm.output_len() {
        return Err(malformed);
    }
    let salt = digest.split_off(algorithm.output_len());
    if salt.is_empty() == salted {
        return Err(malformed);
    }
    Ok(ForeignHash { scheme, kind: Kind::Digest { algorithm, salt, digest } })
}

/// Parses Django's `pbkdf2_sha256$ITERATIONS$SALT$HASH`, where the salt is a string.
fn of_django(name: &str, rest: &str) -> Result<ForeignHash<'static>, HashFault> {
    let algorithm = Pbkdf2::from_digest_name(name.strip_prefix("pbkdf2_").ok_or(HashFault::Unknown)?)?;
    let mut fields = rest.split('$');
    let (Some(iterations), Some(salt), Some(output), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(HashFault::Malformed(algorithm.scheme));
    };
    algorithm.checked(decimal(iterations), Some(salt.as_bytes().to_vec()), from_base64(output))
}

/// PBKDF2 with a digest (RFC 8018).
struct Pbkdf2 {
    scheme: &'static str,
    algorithm: pbkdf2::Algorithm,
    block: usize,
}

impl Pbkdf2 {
    fn from_digest_name(digest: &str) -> Result<Self, HashFault> {
        let (scheme, algorithm, block) = match digest.to_ascii_uppercase().as_str() {
            "SHA1" => ("PBKDF2-SHA1", PBKDF2_HMAC_SHA1, 20),
            "SHA256" => ("PBKDF2-SHA256", PBKDF2_HMAC_SHA256, 32),
            "SHA512" => ("PBKDF2-SHA512", PBKDF2_HMAC_SHA512, 64),
            _ => return Err(HashFault::Unknown),
        };
        Ok(Self { scheme, algorithm, block })
    }

    /// Parses `ITERATIONS$SALT$HASH` of passlib and `OpenLDAP`, or
    /// `i=ITERATIONS,l=LENGTH$SALT$HASH` of the PHC format.
    fn hash(self, fields: &str) -> Result<ForeignHash<'static>, HashFault> {
        let malformed = HashFault::Malformed(self.scheme);
        let mut fields = fields.split('$');
        let (Some(params), Some(salt), Some(output), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(malformed);
        };
        let output = from_base64(output);
        let (mut iterations, mut length) = (decimal(params), None);
        for param in params.split(',').filter(|_| params.contains('=')) {
            match param.split_once('=') {
                Some(("i", number)) if iterations.is_none() => iterations = decimal(number),
                Some(("l", number)) if length.is_none() => length = Some(number),
                _ => return Err(malformed),
            }
        }
        if length.is_some_and(|length| length.parse() != Ok(output.as_ref().map_or(0, Vec::len))) {
            return Err(malformed);
        }
        self.checked(iterations, from_base64(salt), output)
    }

    fn checked(
        self,
        iterations: Option<u32>,
        salt: Option<Vec<u8>>,
        output: Option<Vec<u8>>,
    ) -> Result<ForeignHash<'static>, HashFault> {
        let Self { scheme, algorithm, block } = self;
        let malformed = HashFault::Malformed(scheme);
        let (Some(salt), Some(output)) = (salt, output) else { return Err(malformed) };
        let iterations = iterations.and_then(NonZeroU32::new).ok_or(malformed)?;
        // With a shorter output, other passwords would match too.
        if salt.is_empty() || output.len() < 16 {
            return Err(malformed);
        }
        let blocks = u32::try_from(output.len().div_ceil(block)).map_err(|_| malformed)?;
        if iterations.get().saturating_mul(blocks) > MAX_PBKDF2_ITERATIONS {
            return Err(HashFault::TooMuchWork("PBKDF2 with 1500000 iterations in all blocks of its output"));
        }
        Ok(ForeignHash { scheme, kind: Kind::Pbkdf2 { algorithm, iterations, salt, output } })
    }
}

/// Parses a number that consists of digits only. Returns `u32::MAX`, which exceeds every limit, for
/// numbers that are too large.
fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}

/// Decodes base64 with or without padding, or passlib's variant with a dot instead of the plus
/// sign.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD.decode(text.trim_end_matches('=').replace('.', "+")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::import_hash;

    fn fault(text: &str) -> HashFault {
        import_hash(text).map(|_| ()).unwrap_err()
    }

    const BCRYPT: &str = "$2y$05$pDxgKXJVyyzFE1ggU/xIy.ZLmy2WA7tZtd/V00ITmjkpbd5Ev7urG";
    const SHA512: &str =
        "$6$MLONQAWosi7BYGQY$tpr3mAgxqwGNEjrtfqOjeZS/1aaaGW7pipm2qGMg5OH75zw0OpC36lwRAciRjWl9xrJWYk3xj6vC.vf.krXeF0";
    const SSHA: &str = "{SSHA}3sziG0LBD8aJKms7qUVUc6jvnDlaSwlF";
    const PBKDF2: &str = "$pbkdf2-sha256$1000$d26tFUII4dwbQ6j1PifkfA$0bGcbV3Vlc7oEsx2QAkvGiEbagzHwMsVlTljXRkyI1U";
    const DJANGO: &str = "pbkdf2_sha256$1000$seasalt12345$YtOyTd8OUYnXnZ26vcksSMHyE7L/PId9xDjpPKK6Sb0=";
    const ARGON2: &str =
        "$argon2i$v=19$m=4096,t=2,p=1$xcYU/GkGjw/k6CXIq7BeIw$bueCKeEXsfie91+G75X6FSU9uJBKj9FU7P2mgEebNjY";

    #[test]
    fn hashes_that_are_too_expensive_are_refused() {
        for (text, small, large) in [
            (BCRYPT, "$05$", "$14$"),
            (BCRYPT, "$05$", "$31$"),
            (SHA512, "$6$", "$6$rounds=656001$"),
            (SHA512, "$6$", "$6$rounds=99999999999999$"),
            (PBKDF2, "$1000$", "$1500001$"),
            (PBKDF2, "$1000$", "$4294967296$"),
            (PBKDF2, "$1000$", "$i=1500001$"),
            (DJANGO, "$1000$", "$1500001$"),
            (ARGON2, "m=4096", "m=131073"),
            (ARGON2, "t=2", "t=17"),
            (ARGON2, "m=4096,t=2", "m=131072,t=5"),
            (ARGON2, "p=1", "p=17"),
        ] {
            assert!(import_hash(text).is_ok(), "{text}");
            let text = text.replacen(small, large, 1);
            assert!(matches!(fault(&text), HashFault::TooMuchWork(_)), "{text}");
        }
        for (text, small, large) in [
            (BCRYPT, "$05$", "$13$"),
            (SHA512, "$6$", "$6$rounds=656000$"),
            (PBKDF2, "$1000$", "$1500000$"),
            (PBKDF2, "$1000$", "$i=1500000,l=32$"),
            // Defaults of PHP, argon2-cffi, Django and passlib.
            (ARGON2, "m=4096,t=2", "m=65536,t=4"),
            (ARGON2, "m=4096,t=2,p=1", "m=102400,t=2,p=8"),
            (ARGON2, "m=4096,t=2", "m=131072,t=4"),
        ] {
            assert!(import_hash(&text.replacen(small, large, 1)).is_ok(), "{large}");
        }
        // Each block of the output takes all iterations again.
        let long = format!("$pbkdf2-sha256$750001$c2FsdHNhbHQ${}", "A".repeat(86));
        assert!(matches!(fault(&long), HashFault::TooMuchWork(_)));
    }

    #[test]
    fn weak_hashes_are_refused() {
        for weak in [
            "$apr1$QOvJoMi1$RMrlIWqejqBoLECOZktDo1",
            "$1$abcdefgh$E2IUOVGWn4QIROUcRm1wO/",
            "2y0daf4p3LVYc",
            "{CRYPT}2y0daf4p3LVYc",
            "{SMD5}WETcgC6TNeaHQKdPZd+7HIIwZsw=",
            "{MD5}iOTd0kAtktUOGHnW7Nn/1A==",
            &BCRYPT.replace("$2y$", "$2x$"),
        ] {
            assert!(matches!(fault(weak), HashFault::Weak(_)), "{weak}");
        }
        for unknown in [
            "correct horse battery",
            "{CLEARTEXT}secret",
            "{SASL}anna",
            "{PBKDF2_SHA256}AAAAAA",
            "$7$x",
            "$y$j9T$x$y",
            "{",
            "$",
            "$$",
        ] {
            assert_eq!(fault(unknown), HashFault::Unknown, "{unknown}");
            assert!(!fault(unknown).to_string().contains("secret"));
        }
        assert_eq!(fault(&"$6$".repeat(1000)), HashFault::Unknown);
    }

    #[test]
    fn truncated_and_altered_hashes_are_refused() {
        for whole in [BCRYPT, SHA512, SSHA, PBKDF2, DJANGO, ARGON2] {
            for length in 0..whole.len() {
                let cut = import_hash(&whole[..length]);
                // argon2 and PBKDF2 outputs may be shorter. The other hashes have a fixed length.
                let may_be_whole = whole != BCRYPT && whole != SHA512 && length + 30 > whole.len();
                assert!(cut.is_err() || may_be_whole, "{whole} {length}");
            }
        }
        for (text, good, bad) in [
            (BCRYPT, "$05$", "$+5$"),
            (BCRYPT, "$05$", "$03$"),
            (BCRYPT, ".ZLm", "~ZLm"),
            (SHA512, "$6$", "$6$rounds=999$"),
            (SHA512, "$6$", "$6$rounds=+5000$"),
            (SHA512, "$6$", "$6$rounds=5000$rounds=5000$"),
            (SHA512, "QWosi7BYGQY", ""),
            (SHA512, "MLON", "MLONMLON"),
            (SSHA, "{SSHA}", "{SHA}"),
            (SSHA, "{SSHA}", "{SSHA512}"),
            (PBKDF2, "$1000$", "$0$"),
            (PBKDF2, "$1000$", "$i=1000,l=31$"),
            (PBKDF2, "$1000$", "$i=1000,i=1000$"),
            (PBKDF2, "$1000$", "$l=32$"),
            (DJANGO, "$seasalt12345", "$"),
            (ARGON2, "v=19", "v=16"),
        ] {
            let altered = text.replacen(good, bad, 1);
            let is_valid = bad.is_empty();
            assert_eq!(import_hash(&altered).is_ok(), is_valid, "{altered}");
        }
    }

    #[test]
    fn a_long_password_does_not_cause_more_work() {
        let hash = ForeignHash::parse(SHA512).unwrap();
        assert_eq!(hash.verify(b"correct horse battery"), Ok(true));
        let longest = |text: &str| match ForeignHash::parse(text).unwrap().kind {
            Kind::ShaCrypt { longest, .. } => longest,
            _ => 0,
        };
        assert_eq!(longest(SHA512), MAX_SHA_CRYPT_PASSWORD_LENGTH);
        let costly = SHA512.replacen("$6$", "$6$rounds=656000$", 1);
        assert_eq!(longest(&costly), 195);
        let started = std::time::Instant::now();
        assert_eq!(ForeignHash::parse(&costly).unwrap().verify(&[b'x'; 196]), Ok(false));
        // A check would take several seconds.
        assert!(started.elapsed() < std::time::Duration::from_millis(500));
        // bcrypt uses the first 72 bytes of any password.
        assert_eq!(ForeignHash::parse(BCRYPT).unwrap().verify(&[b'x'; 1024]), Ok(false));
    }
}
