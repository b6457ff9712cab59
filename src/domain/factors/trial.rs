//! Verification of factors. Each attempt is verified, counted and recorded in one step.

use crate::assurance::{AuthenticationMethod, AuthenticationStep, FactorId};
use crate::factor_failures::{FactorFailures, FailureNotice, TryVerdict};
use crate::factors::Factors;
use crate::recovery_code::{RecoveryCode, RecoveryKey};
use crate::time::UnixTime;
use crate::totp::{TotpCode, TotpSecret, TotpVerdict};
use crate::webauthn::{
    AssertionPurpose, AssertionResponse, AssertionTerms, CeremonyChallenge, CeremonyError, CredentialOwner,
    RelyingParty,
};

/// Authenticator app with its decrypted secret.
#[derive(Debug, Clone)]
pub struct OpenedTotp {
    pub id: FactorId,
    pub secret: TotpSecret,
}

/// Result of an attempt. If [`FactorTrial::was_judged`] is true, the caller must store the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactorTrial {
    /// The factor is valid.
    Proven(AuthenticationStep),
    Wrong(FailureNotice),
    /// The typed text does not have the form of a code. This is a typing mistake, so it is not
    /// counted.
    NoCode,
    /// The code has expired, probably because the clock of the device is slow.
    ClockIsOff(FailureNotice),
    /// The attempt was not verified. Further attempts are refused until this time.
    Wait(UnixTime),
    /// The attempt was not verified. Attempts are refused until another factor, a recovery code or
    /// an administrator unblocks the factor.
    Blocked,
    /// The answer of the key was rejected.
    Refused(CeremonyError),
}

impl FactorTrial {
    /// Returns whether the attempt was verified. If not, the record is unchanged.
    pub const fn was_judged(&self) -> bool {
        !matches!(self, Self::NoCode | Self::Wait(_) | Self::Blocked)
    }
}

impl Factors {
    /// Verifies a code of an authenticator app. `apps` are the apps whose secrets could be
    /// decrypted.
    pub fn try_totp(&mut self, apps: &[OpenedTotp], typed: &str, now: UnixTime) -> FactorTrial {
        match self.totp_failures.verdict(now) {
            TryVerdict::Free => {}
            TryVerdict::Wait(until) => return FactorTrial::Wait(until),
            TryVerdict::Blocked => return FactorTrial::Blocked,
        }
        let Some(code) = TotpCode::parse(typed) else { return FactorTrial::NoCode };
        let mut clock_is_off = false;
        let mut accepted = None;
        for app in apps {
            let Some(stored_app) = self.totp.iter().find(|stored_app| stored_app.id == app.id) else { continue };
            match app.secret.judge(&code, Some(stored_app.last_step), now) {
                TotpVerdict::Accepted(step) => accepted = accepted.or(Some((app.id, step))),
                TotpVerdict::ClockIsOff => clock_is_off = true,
                TotpVerdict::Wrong => {}
            }
        }
        let Some((id, step)) = accepted else {
            let (failures, notice) = self.totp_failures.failed(now);
            self.totp_failures = failures;
            return if clock_is_off { FactorTrial::ClockIsOff(notice) } else { FactorTrial::Wrong(notice) };
        };
        if let Some(app) = self.totp.iter_mut().find(|app| app.id == id) {
            (app.last_step, app.last_used_at) = (step, Some(now));
        }
        self.record_success(AuthenticationMethod::Totp, Some(id), now)
    }

    /// Verifies a recovery code. A correct code is consumed.
    pub fn try_recovery_code(&mut self, key: &RecoveryKey, typed: &str, now: UnixTime) -> FactorTrial {
        match self.recovery_failures.verdict(now) {
            TryVerdict::Free => {}
            TryVerdict::Wait(until) => return FactorTrial::Wait(until),
            TryVerdict::Blocked => return FactorTrial::Blocked,
        }
        let Some(code) = RecoveryCode::parse(typed) else { return FactorTrial::NoCode };
        let left = self.recovery.as_ref().and_then(|codes| codes.without(key, self.subject, &code));
        let Some(left) = left else {
            let (failures, notice) = self.recovery_failures.failed(now);
            self.recovery_failures = failures;
            return FactorTrial::Wrong(notice);
        };
        self.recovery = Some(left);
        self.recovery_used_at = Some(now);
        self.record_success(AuthenticationMethod::RecoveryCode, None, now)
    }

    /// Verifies the answer of a security key or passkey.
    ///
    /// Callers must respond identically to all rejections. The response must not reveal whether the
    /// key exists, whose it is, or whether its signature is valid.
    pub fn try_key(
        &mut self,
        relying_party: &RelyingParty,
        challenge: &CeremonyChallenge,
        purpose: AssertionPurpose,
        answer: &AssertionResponse,
        now: UnixTime,
    ) -> FactorTrial {
        let credentials = self.credentials();
        let owner = CredentialOwner { handle: &self.handle, credentials: &credentials };
        let verified = answer.verify(&AssertionTerms { relying_party, challenge, purpose }, &owner);
        let key = self.keys.iter_mut().find(|key| key.credential.id == *answer.credential_id());
        match (verified, key) {
            (Ok(verified), Some(key)) => {
                key.credential.sign_count = verified.sign_count;
                key.credential.backup = verified.backup;
                key.last_used_at = Some(now);
                let method = if verified.user_verified {
                    AuthenticationMethod::Passkey
                } else {
                    AuthenticationMethod::SecurityKey
                };
                let id = key.id;
                self.record_success(method, Some(id), now)
            }
            (Ok(_), None) => FactorTrial::Refused(CeremonyError::NotTheirs),
            (Err(error), key) => {
                // Store the presented counter, which may be lower. Otherwise all later answers of
                // the owner's key would be rejected too.
                if let (CeremonyError::SignCount { presented }, Some(key)) = (error, key) {
                    key.credential.sign_count = presented;
                }
                FactorTrial::Refused(error)
            }
        }
    }

    /// Resets the failures of all factors, because the user has proved possession of a factor.
    fn record_success(&mut self, method: AuthenticationMethod, factor: Option<FactorId>, now: UnixTime) -> FactorTrial {
        self.totp_failures = FactorFailures::default();
        self.recovery_failures = FactorFailures::default();
        FactorTrial::Proven(AuthenticationStep { factor, ..AuthenticationStep::new(method, now) })
    }
}
