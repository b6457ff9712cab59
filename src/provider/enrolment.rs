//! Enrolment of a factor. It begins in a sign-in or a session and must be confirmed in the same one
//! within [`TO_CONFIRM`]. Until the app has produced a correct code, or the key has responded, the
//! factor is not active.

use std::time::Duration;

use secrecy::SecretString;

use crate::ceremony;
use crate::factor_secrets::open_secret;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::assurance::{AuthenticationMethod, AuthenticationStep, FactorId};
use sealgate_domain::factors::{FactorKind, FactorOrigin, Factors, PendingFactor, PendingKind, factor_name};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::time::UnixTime;
use sealgate_domain::totp::{TotpCode, TotpSecret, TotpVerdict};
use sealgate_domain::user::User;
use sealgate_domain::webauthn::{
    CeremonyChallenge, CeremonyError, CreationOptions, CredentialKind, CredentialRecord, RegistrationResponse,
    RegistrationTerms, RelyingParty, UserEntity, UserHandle,
};
use sealgate_pages::{EnrolProblem, FactorLineKind, Problem, UnnamedFactor, default_factor_name};
use sealgate_store::{FactorsChanged, Store};

/// Time within which a pending enrolment must be confirmed.
pub(super) const TO_CONFIRM: Duration = Duration::from_mins(15);

/// Time that the browser waits for the user's key.
const CEREMONY: Duration = Duration::from_mins(5);

/// User who adds a factor to their account.
pub(super) struct Enrolling<'a, 'c> {
    pub(super) ctx: &'a RequestContext<'c>,
    /// Store handle that commits only while the enrolment's basis is valid: the session, or the
    /// proven password.
    pub(super) store: Store,
    pub(super) user: &'a User,
    /// The sign-in or session in which the enrolment began.
    pub(super) origin: FactorOrigin,
}

/// Factor that was added.
pub(super) struct Enrolled {
    pub(super) id: FactorId,
    pub(super) kind: FactorKind,
    pub(super) name: String,
    /// Factors record that includes the new factor.
    pub(super) factors: Box<Factors>,
}

impl Enrolled {
    /// Returns the authentication step that the user completed by enrolling the factor.
    pub(super) fn step(&self, now: UnixTime) -> AuthenticationStep {
        let method = match self.kind {
            FactorKind::Passkey => AuthenticationMethod::Passkey,
            FactorKind::SecurityKey => AuthenticationMethod::SecurityKey,
            FactorKind::Totp | FactorKind::RecoveryCodes => AuthenticationMethod::Totp,
        };
        AuthenticationStep { method, at: now, factor: Some(self.id) }
    }

    /// Returns the detail text for the audit log.
    pub(super) fn detail(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.name)
    }
}

/// New key whose response was verified, but which has not been added as a factor.
pub(super) struct VerifiedKey {
    pub(super) credential: CredentialRecord,
    /// [`Factors::generation`] when the challenge was used up.
    pub(super) generation: u64,
}

/// Options for `navigator.credentials.create()`, as JSON.
pub(super) struct KeyOptions {
    pub(super) security_key: String,
    pub(super) passkey: String,
}

impl Enrolling<'_, '_> {
    /// Returns the secret for an authenticator app: the pending one that awaits its first code, or
    /// a new one.
    ///
    /// # Errors
    /// When the store has no data key or fails.
    pub(super) async fn app(&self) -> Result<TotpSecret, Failure> {
        if let Some((_, secret)) = self.pending_app().await? {
            return Ok(secret);
        }
        let secret = TotpSecret::from_random(self.ctx.random());
        let id = FactorId::from_bytes(self.ctx.random());
        let sealed =
            self.store.seal_factor(self.user.sub, id, self.ctx.random(), secret.as_bytes()).map_err(|error| {
                tracing::error!(%error, "cannot add an authenticator app");
                Failure::Unavailable
            })?;
        self.begin(&PendingKind::Totp { id, secret: sealed }).await?;
        Ok(secret)
    }

    /// Returns the URI that an app reads from the QR code.
    pub(super) fn uri(&self, secret: &TotpSecret) -> SecretString {
        let operator = &self.ctx.sealgate.config.pages.operator;
        SecretString::from(secret.uri(operator, self.user.email.as_str()).expose())
    }

    /// Adds the pending app if the typed code is correct.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn confirm_app(&self, typed: &str, name: &str) -> Result<Result<Enrolled, EnrolProblem>, Failure> {
        let Some((_, secret)) = self.pending_app().await? else { return Ok(Err(EnrolProblem::Expired)) };
        let Some(code) = TotpCode::parse(typed) else { return Ok(Err(EnrolProblem::WrongCode)) };
        let step = match secret.judge(&code, None, self.ctx.now) {
            TotpVerdict::Accepted(step) => step,
            TotpVerdict::ClockIsOff => return Ok(Err(EnrolProblem::ClockIsOff)),
            TotpVerdict::Wrong => return Ok(Err(EnrolProblem::WrongCode)),
        };
        self.add(FactorKind::Totp, |factors| {
            if !factors.has_room_for_app() {
                return Err(EnrolProblem::Full);
            }
            let name = new_factor_name(self.ctx, factors, None, name);
            let id = factors.add_app(self.origin, &name, step, self.ctx.now).ok_or(EnrolProblem::Expired)?;
            Ok((id, name))
        })
        .await
    }

    /// Returns the options for creating a key of either kind, with the pending challenge or a new
    /// one.
    ///
    /// # Errors
    /// When the issuer's URL does not allow WebAuthn; when the store fails.
    pub(super) async fn key(&self) -> Result<KeyOptions, Failure> {
        let relying_party = ceremony::relying_party(self.ctx).ok_or(Failure::Unavailable)?;
        let fresh = ceremony::fresh(self.ctx);
        let changed = self.change(|factors| {
            let waiting = factors.pending_key(self.origin, self.ctx.now);
            if waiting.is_none() {
                let kind = PendingKind::Key { challenge: fresh };
                factors.begin(PendingFactor { origin: self.origin, kind, until: self.until() }, self.ctx.now);
            }
            waiting.unwrap_or(fresh)
        });
        let FactorsChanged::Yes(challenge, factors) = changed.await? else { return Err(Failure::Internal) };
        let existing = factors.credentials();
        let options = |kind| {
            let user = UserEntity {
                id: factors.handle,
                name: self.user.email.as_str().to_owned(),
                display_name: self.user.name.clone(),
            };
            key_options(self.ctx, &relying_party, user, &challenge, kind, &existing)
        };
        Ok(KeyOptions {
            security_key: options(CredentialKind::SecurityKey)?,
            passkey: options(CredentialKind::Passkey)?,
        })
    }

    /// Verifies the browser's response for a new key. The challenge is used up in any case.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn verify_key(
        &self,
        kind: CredentialKind,
        answer: &str,
    ) -> Result<Result<VerifiedKey, EnrolProblem>, Failure> {
        let relying_party = ceremony::relying_party(self.ctx).ok_or(Failure::Unavailable)?;
        let taken = self.change(|factors| {
            let challenge = factors.pending_key(self.origin, self.ctx.now);
            let is_this = |pending: &PendingFactor| {
                pending.origin == self.origin && matches!(pending.kind, PendingKind::Key { .. })
            };
            factors.pending.retain(|pending| !is_this(pending));
            challenge.map(|challenge| (challenge, factors.generation))
        });
        let FactorsChanged::Yes(Some((challenge, generation)), _) = taken.await? else {
            return Ok(Err(EnrolProblem::Expired));
        };
        let verified = verified(&relying_party, &challenge, kind, answer);
        Ok(verified.map(|credential| VerifiedKey { credential, generation }).map_err(|error| {
            tracing::info!(%error, subject = %self.user.sub, "refused to add a security key");
            refusal(error)
        }))
    }

    /// Verifies the browser's response and adds the key. The challenge is used up in any case.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn confirm_key(
        &self,
        kind: CredentialKind,
        answer: &str,
        name: &str,
    ) -> Result<Result<Enrolled, EnrolProblem>, Failure> {
        let VerifiedKey { credential, generation } = match self.verify_key(kind, answer).await? {
            Ok(verified) => verified,
            Err(problem) => return Ok(Err(problem)),
        };
        let kind = match kind {
            CredentialKind::Passkey => FactorKind::Passkey,
            CredentialKind::SecurityKey => FactorKind::SecurityKey,
        };
        self.add(kind, |factors| {
            // A reset of the factors, or a factor added or removed meanwhile, ends pending
            // enrolments.
            if factors.generation != generation {
                return Err(EnrolProblem::Expired);
            }
            if factors.key_of(&credential.id).is_some() {
                return Err(EnrolProblem::KeyKnown);
            }
            if !factors.has_room_for_key() {
                return Err(EnrolProblem::Full);
            }
            let name = new_factor_name(self.ctx, factors, Some(&credential), name);
            Ok((factors.add_key(&name, credential.clone(), self.ctx.now), name))
        })
        .await
    }

    async fn add(
        &self,
        kind: FactorKind,
        add: impl FnMut(&mut Factors) -> Result<(FactorId, String), EnrolProblem> + Send,
    ) -> Result<Result<Enrolled, EnrolProblem>, Failure> {
        Ok(match self.change(add).await? {
            FactorsChanged::CredentialTaken => Err(EnrolProblem::KeyKnown),
            FactorsChanged::Yes(Err(problem), _) => Err(problem),
            FactorsChanged::Yes(Ok((id, name)), factors) => Ok(Enrolled { id, kind, name, factors }),
        })
    }

    async fn pending_app(&self) -> Result<Option<(FactorId, TotpSecret)>, Failure> {
        let Some(factors) = self.store.factors(self.user.sub).await? else { return Ok(None) };
        let Some((id, sealed)) = factors.value.pending_app(self.origin, self.ctx.now) else { return Ok(None) };
        Ok(open_secret(self.ctx, self.user.sub, id, sealed).map(|secret| (id, secret)))
    }

    async fn begin(&self, kind: &PendingKind) -> Result<(), Failure> {
        let pending = PendingFactor { origin: self.origin, kind: kind.clone(), until: self.until() };
        let _ = self.change(|factors| factors.begin(pending.clone(), self.ctx.now)).await?;
        Ok(())
    }

    async fn change<T: Send>(
        &self,
        change: impl FnMut(&mut Factors) -> T + Send,
    ) -> Result<FactorsChanged<T>, Failure> {
        let handle = UserHandle::from_random(self.ctx.random());
        Ok(self.store.change_factors(self.user.sub, handle, change).await?)
    }

    fn until(&self) -> UnixTime {
        self.ctx.now.plus(TO_CONFIRM)
    }
}

/// Returns the options for creating a key, as JSON.
pub(super) fn key_options(
    ctx: &RequestContext<'_>,
    relying_party: &RelyingParty,
    user: UserEntity,
    challenge: &CeremonyChallenge,
    kind: CredentialKind,
    existing: &[CredentialRecord],
) -> Result<String, Failure> {
    let operator = &ctx.sealgate.config.pages.operator;
    let options = CreationOptions::new(relying_party, operator, user, challenge, kind, existing, CEREMONY);
    serde_json::to_string(&options).map_err(|_| Failure::Internal)
}

/// Verifies the browser's response and returns the new key.
pub(super) fn verified(
    relying_party: &RelyingParty,
    challenge: &CeremonyChallenge,
    kind: CredentialKind,
    answer: &str,
) -> Result<CredentialRecord, CeremonyError> {
    let terms = RegistrationTerms { relying_party, challenge, kind };
    let verified = RegistrationResponse::parse(answer).and_then(|answer| answer.verify(&terms));
    verified.map(|verified| verified.credential)
}

/// Returns the problem to show when a new key is refused.
pub(super) fn refusal(error: CeremonyError) -> EnrolProblem {
    if error == CeremonyError::NotVerified { EnrolProblem::NotVerified } else { EnrolProblem::KeyRefused }
}

/// Returns the name of a new factor: the typed one, or a default that no other factor has.
///
/// `credential` is that of a key or a passkey.
pub(super) fn new_factor_name(
    ctx: &RequestContext<'_>,
    factors: &Factors,
    credential: Option<&CredentialRecord>,
    typed: &str,
) -> String {
    let taken: Vec<&str> = names(factors).collect();
    let kind = match credential.map(|credential| credential.kind) {
        Some(CredentialKind::Passkey) => FactorLineKind::Passkey { synced: false },
        Some(CredentialKind::SecurityKey) => FactorLineKind::SecurityKey { synced: false },
        None => FactorLineKind::App,
    };
    let model = credential.and_then(CredentialRecord::model);
    let unnamed = UnnamedFactor { kind, model, user_agent: &ctx.user_agent() };
    factor_name(typed, &default_factor_name(&ctx.frame(), unnamed, &taken))
}

/// Returns the kind of key that the form requests.
pub(super) fn kind_of(form: &Params) -> Result<CredentialKind, Failure> {
    match form.one("kind")? {
        Some("passkey") => Ok(CredentialKind::Passkey),
        Some("security_key") => Ok(CredentialKind::SecurityKey),
        _ => Err(Failure::page(Problem::InvalidRequest)),
    }
}

/// Returns the names of the user's factors.
fn names(factors: &Factors) -> impl Iterator<Item = &str> {
    let apps = factors.totp.iter().map(|app| app.name.as_str());
    apps.chain(factors.keys.iter().map(|key| key.name.as_str()))
}
