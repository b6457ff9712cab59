//! An account that somebody wants to make for themselves, while its address is being proven and until they have chosen with what
//! they sign in. It has nothing but the address, so whoever proves the address later takes nothing over from somebody who has not.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::account_links::{CODE_LIFE, MOST_CODE_TRIES};
use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::user::Email;

/// How long all of it may take.
pub const REGISTRATION_LIFE: Duration = Duration::from_hours(1);

/// What one browser has begun. It lies under the hash of what that browser has in its cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRegistration {
    pub address: Email,
    pub step: RegistrationStep,
    pub expires_at: UnixTime,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationStep {
    /// Nobody has shown yet that they read the address's mail.
    Code {
        /// A keyed hash: eight digits are soon tried out.
        code: SecretHash,
        /// Wrong codes so far.
        failures: u32,
        good_until: UnixTime,
    },
    /// The address is proven.
    Proven {
        /// The passkey that is being made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passkey: Option<PendingPasskey>,
    },
}

/// The random bytes of what a passkey is made for. Each answer, right or wrong, uses them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingPasskey {
    pub challenge: [u8; 32],
    pub handle: [u8; 32],
}

/// What comes of a code that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationVerdict {
    /// The address is proven: the record as it goes on.
    Right(PendingRegistration),
    /// The record with one try fewer.
    Wrong(PendingRegistration),
    /// There was one wrong code too many, or the time is over.
    Over,
}

impl PendingRegistration {
    /// One that begins now.
    pub fn new(address: Email, code: SecretHash, now: UnixTime) -> Self {
        let step = RegistrationStep::Code { code, failures: 0, good_until: now.plus(CODE_LIFE) };
        Self { address, step, expires_at: now.plus(REGISTRATION_LIFE) }
    }

    /// Whether there is time left.
    pub fn is_live(&self, now: UnixTime) -> bool {
        now < self.expires_at
    }

    pub fn is_proven(&self) -> bool {
        matches!(self.step, RegistrationStep::Proven { .. })
    }

    /// The passkey that is being made.
    pub fn passkey(&self) -> Option<PendingPasskey> {
        match self.step {
            RegistrationStep::Proven { passkey } => passkey,
            RegistrationStep::Code { .. } => None,
        }
    }

    /// The same with another passkey that is being made, or none; nothing changes before the address is proven.
    #[must_use]
    pub fn with_passkey(&self, passkey: Option<PendingPasskey>) -> Self {
        match self.step {
            RegistrationStep::Proven { .. } => Self { step: RegistrationStep::Proven { passkey }, ..self.clone() },
            RegistrationStep::Code { .. } => self.clone(),
        }
    }

    /// Takes a code that was typed.
    pub fn take_code(&self, typed: SecretHash, now: UnixTime) -> RegistrationVerdict {
        let RegistrationStep::Code { code, failures, good_until } = self.step else { return RegistrationVerdict::Over };
        if !self.is_live(now) || now >= good_until || failures >= MOST_CODE_TRIES {
            return RegistrationVerdict::Over;
        }
        if code == typed {
            let step = RegistrationStep::Proven { passkey: None };
            return RegistrationVerdict::Right(Self { step, ..self.clone() });
        }
        let failures = failures + 1;
        if failures >= MOST_CODE_TRIES {
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
        SecretHash::of(&[number])
    }

    #[test]
    fn a_code_is_good_for_five_tries_and_a_quarter_of_an_hour() {
        let last = at(1000).plus(CODE_LIFE).seconds() - 1;
        let RegistrationVerdict::Right(proven) = begun().take_code(hash(1), at(last)) else { panic!() };
        assert!(proven.is_proven() && proven.is_live(at(1000 + 3599)) && !proven.is_live(at(1000 + 3600)));
        assert_eq!(begun().take_code(hash(1), at(last + 1)), RegistrationVerdict::Over);
        // Used up.
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
    fn no_passkey_is_made_for_an_address_that_is_not_proven() {
        let passkey = PendingPasskey { challenge: [1; 32], handle: [2; 32] };
        assert_eq!(begun().with_passkey(Some(passkey)), begun());
    }
}
