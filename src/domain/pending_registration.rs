//! Self-registration in progress: the address is being verified, or the user has yet to choose a
//! sign-in method.
//!
//! The person who verifies the address may not be the person who began the registration. The record
//! contains only the address, so that neither person sees data that the other typed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::account_links::{CODE_LIFE, MAX_CODE_TRIES};
use crate::secret::SecretHash;
use crate::time::UnixTime;
use crate::user::Email;

/// Maximum duration of a self-registration.
pub const REGISTRATION_LIFE: Duration = Duration::from_hours(1);

/// Registration in one browser, stored under the hash of the browser's cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRegistration {
    pub address: Email,
    pub step: RegistrationStep,
    pub expires_at: UnixTime,
}

/// Progress of a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationStep {
    /// The address is not verified yet.
    Code {
        /// Keyed hash of the code. A code has eight digits, so an unkeyed hash could be inverted by
        /// brute force.
        code: SecretHash,
        /// Number of wrong codes.
        failures: u32,
        good_until: UnixTime,
    },
    /// The address is verified.
    Proven {
        /// Passkey that is being created.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passkey: Option<PendingPasskey>,
    },
}

/// Random bytes for a passkey that is being created. Each answer, right or wrong, consumes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPasskey {
    pub challenge: [u8; 32],
    pub handle: [u8; 32],
}

/// Result of checking a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationVerdict {
    /// The code is correct and the address verified. Contains the updated record.
    Right(PendingRegistration),
    /// The code is wrong. Contains the record with one more failure.
    Wrong(PendingRegistration),
    /// The registration has ended: too many codes were wrong, or it has expired.
    Over,
}

impl PendingRegistration {
    /// Creates a registration that starts at `now`.
    pub fn new(address: Email, code: SecretHash, now: UnixTime) -> Self {
        let step = RegistrationStep::Code { code, failures: 0, good_until: now.plus(CODE_LIFE) };
        Self { address, step, expires_at: now.plus(REGISTRATION_LIFE) }
    }

    /// Returns whether the registration has not expired.
    pub fn is_live(&self, now: UnixTime) -> bool {
        now < self.expires_at
    }

    /// Returns whether the address is verified.
    pub fn is_proven(&self) -> bool {
        matches!(self.step, RegistrationStep::Proven { .. })
    }

    /// Returns the passkey that is being created.
    pub fn passkey(&self) -> Option<PendingPasskey> {
        match self.step {
            RegistrationStep::Proven { passkey } => passkey,
            RegistrationStep::Code { .. } => None,
        }
    }

    /// Returns the record with this pending passkey, or without a pending passkey. Before the
    /// address is verified, returns the record unchanged.
    #[must_use]
    pub fn with_passkey(&self, passkey: Option<PendingPasskey>) -> Self {
        match self.step {
            RegistrationStep::Proven { .. } => Self { step: RegistrationStep::Proven { passkey }, ..self.clone() },
            RegistrationStep::Code { .. } => self.clone(),
        }
    }

    /// Checks a code that the user typed.
    pub fn take_code(&self, typed: SecretHash, now: UnixTime) -> RegistrationVerdict {
        let RegistrationStep::Code { code, failures, good_until } = self.step else { return RegistrationVerdict::Over };
        if !self.is_live(now) || now >= good_until || failures >= MAX_CODE_TRIES {
            return RegistrationVerdict::Over;
        }
        if code == typed {
            let step = RegistrationStep::Proven { passkey: None };
            return RegistrationVerdict::Right(Self { step, ..self.clone() });
        }
        let failures = failures + 1;
        if failures >= MAX_CODE_TRIES {
            return RegistrationVerdict::Over;
        }
        let step = RegistrationStep::Code { code, failures, good_until };
        RegistrationVerdict::Wrong(Self { step, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn begun() -> PendingRegistration {
        PendingRegistration::new(Email::parse("ceren@example.test").unwrap(), hash(1), at(1000))
    }

    fn hash(number: u8) -> SecretHash {
        SecretHash::for_secret(&[number])
    }

    #[test]
    fn a_registration_code_is_valid_for_five_tries_and_fifteen_minutes() {
        let last = at(1000).plus(CODE_LIFE).seconds() - 1;
        let RegistrationVerdict::Right(proven) = begun().take_code(hash(1), at(last)) else { panic!() };
        assert!(proven.is_proven() && proven.is_live(at(1000 + 3599)) && !proven.is_live(at(1000 + 3600)));
        assert_eq!(begun().take_code(hash(1), at(last + 1)), RegistrationVerdict::Over);
        // The code has been used.
        assert_eq!(proven.take_code(hash(1), at(1001)), RegistrationVerdict::Over);
        let mut now = begun();
        for _ in 0..4 {
            let RegistrationVerdict::Wrong(next) = now.take_code(hash(2), at(1001)) else { panic!() };
            now = next;
        }
        assert!(matches!(now.take_code(hash(1), at(1001)), RegistrationVerdict::Right(_)));
        assert_eq!(now.take_code(hash(2), at(1001)), RegistrationVerdict::Over);
    }

    #[test]
    fn no_passkey_is_created_for_an_unverified_address() {
        let passkey = PendingPasskey { challenge: [1; 32], handle: [2; 32] };
        assert_eq!(begun().with_passkey(Some(passkey)), begun());
    }
}
