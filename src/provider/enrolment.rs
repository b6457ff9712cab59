//! The enrolment of a factor: begun in one place, a sign-in or a session, and confirmed in the same place within a quarter of an
//! hour. Until the app has shown one right code, or the key has answered, nothing of it is a factor.

use std::time::Duration;

use secrecy::SecretString;

use crate::domain::assurance::{AuthenticationMethod, AuthenticationStep, FactorId};
use crate::domain::time::UnixTime;
use crate::domain::totp::{TotpCode, TotpSecret, TotpVerdict};
use crate::domain::user::User;
use crate::factors::{FactorKind, FactorOrigin, Factors, PendingFactor, PendingKind, factor_name};
use crate::oauth::params::Params;
use crate::page::{EnrolProblem, FactorLineKind, Problem, default_factor_name};
use crate::provider::ceremony;
use crate::provider::factor_secrets::open_secret;
use crate::store::{FactorsChanged, Store};
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::webauthn::{
    CeremonyChallenge, CeremonyError, CreationOptions, CredentialKind, CredentialRecord, RegistrationResponse,
    RegistrationTerms, RelyingParty, UserEntity, UserHandle,
};

/// How long an enrolment that was begun can be confirmed.
pub(super) const TO_CONFIRM: Duration = Duration::from_mins(15);

/// How long a browser waits for a key.
const CEREMONY: Duration = Duration::from_mins(5);

/// Somebody who adds a factor to their account.
pub(super) struct Enrolling<'a, 'c> {
    pub(super) ctx: &'a RequestContext<'c>,
    /// Commits only while what the enrolment rests on holds: the session, or the password that was proven.
    pub(super) store: Store,
    pub(super) user: &'a User,
    /// Where it was begun.
    pub(super) origin: FactorOrigin,
}

/// A factor that was added.
pub(super) struct Enrolled {
    pub(super) id: FactorId,
    pub(super) kind: FactorKind,
    pub(super) name: String,
    /// The record with it.
    pub(super) factors: Box<Factors>,
}

impl Enrolled {
    /// What its owner has shown by adding it.
    pub(super) fn step(&self, now: UnixTime) -> AuthenticationStep {
        let method = match self.kind {
            FactorKind::Passkey => AuthenticationMethod::Passkey,
            FactorKind::SecurityKey => AuthenticationMethod::SecurityKey,
            FactorKind::Totp | FactorKind::RecoveryCodes => AuthenticationMethod::Totp,
        };
        AuthenticationStep { method, at: now, factor: Some(self.id) }
    }

    /// What the audit trail says of it.
    pub(super) fn detail(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.name)
    }
}

/// A key that has answered, and is no factor yet.
pub(super) struct VerifiedKey {
    pub(super) credential: CredentialRecord,
    /// [`Factors::generation`] when it was asked for.
    pub(super) generation: u64,
}

/// Options for `navigator.credentials.create()`, as JSON.
pub(super) struct KeyOptions {
    pub(super) security_key: String,
    pub(super) passkey: String,
}

impl Enrolling<'_, '_> {
    /// The secret for an app: the one that is waiting here for its first code, or a new one.
    ///
    /// # Errors
    /// When nothing seals here, and when the store fails.
    pub(super) async fn app(&self) -> Result<TotpSecret, Failure> {
        if let Some((_, secret)) = self.pending_app().await? {
            return Ok(secret);
        }
        let secret = TotpSecret::from_random(self.ctx.random());
        let id = FactorId::from_bytes(self.ctx.random());
        let sealed =
            self.store.seal_factor(self.user.sub, id, self.ctx.random(), secret.as_bytes()).map_err(|error| {
                tracing::error!(%error, "an authenticator app cannot be added");
                Failure::Unavailable
            })?;
        self.begin(&PendingKind::Totp { id, secret: sealed }).await?;
        Ok(secret)
    }

    /// What an app reads off the QR code.
    pub(super) fn uri(&self, secret: &TotpSecret) -> SecretString {
        let operator = &self.ctx.sealgate.config.pages.operator;
        SecretString::from(secret.uri(operator, self.user.email.as_str()).expose())
    }

    /// Adds the app that is waiting here, if this is a code of it.
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
        self.add(FactorKind::Totp, name, |factors, name| {
            if !factors.has_room_for_app() {
                return Err(EnrolProblem::Full);
            }
            factors.add_app(self.origin, name, step, self.ctx.now).ok_or(EnrolProblem::Expired)
        })
        .await
    }

    /// What a browser needs to make a key of either kind, under the challenge that is waiting here or a new one.
    ///
    /// # Errors
    /// A page where there are no keys; when the store fails.
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

    /// Looks at the browser's answer for a new key. The challenge is used up, whatever comes of it.
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
            tracing::warn!(%error, subject = %self.user.sub, "a key was not added");
            refusal(error)
        }))
    }

    /// Adds a key by the browser's answer. The challenge is used up, whatever comes of it.
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
        self.add(kind, name, |factors, name| {
            // What began before a reset, or before another factor came or went, ends with it.
            if factors.generation != generation {
                return Err(EnrolProblem::Expired);
            }
            if factors.key_of(&credential.id).is_some() {
                return Err(EnrolProblem::KeyKnown);
            }
            if !factors.has_room_for_key() {
                return Err(EnrolProblem::Full);
            }
            Ok(factors.add_key(name, credential.clone(), self.ctx.now))
        })
        .await
    }

    async fn add(
        &self,
        kind: FactorKind,
        typed: &str,
        mut add: impl FnMut(&mut Factors, &str) -> Result<FactorId, EnrolProblem> + Send,
    ) -> Result<Result<Enrolled, EnrolProblem>, Failure> {
        let changed = self.change(|factors| {
            let name = self.name(factors, kind, typed);
            add(factors, &name).map(|id| (id, name))
        });
        Ok(match changed.await? {
            FactorsChanged::CredentialTaken => Err(EnrolProblem::KeyKnown),
            FactorsChanged::Yes(Err(problem), _) => Err(problem),
            FactorsChanged::Yes(Ok((id, name)), factors) => Ok(Enrolled { id, kind, name, factors }),
        })
    }

    /// What a new factor is called beside these.
    pub(super) fn name(&self, factors: &Factors, kind: FactorKind, typed: &str) -> String {
        new_factor_name(self.ctx, factors, kind, typed)
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

/// What a browser needs to make a key, as JSON.
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

/// The key that a browser has made.
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

/// What somebody is told whose key was not taken.
pub(super) fn refusal(error: CeremonyError) -> EnrolProblem {
    if error == CeremonyError::NotVerified { EnrolProblem::NotVerified } else { EnrolProblem::KeyRefused }
}

/// What a new factor is called beside these.
pub(super) fn new_factor_name(ctx: &RequestContext<'_>, factors: &Factors, kind: FactorKind, typed: &str) -> String {
    let taken: Vec<&str> = names(factors).collect();
    factor_name(typed, &default_factor_name(&ctx.frame(), line_kind(kind), &taken))
}

/// What the form for a new key says that it is to be.
pub(super) fn kind_of(form: &Params) -> Result<CredentialKind, Failure> {
    match form.one("kind")? {
        Some("passkey") => Ok(CredentialKind::Passkey),
        Some("security_key") => Ok(CredentialKind::SecurityKey),
        _ => Err(Failure::page(Problem::InvalidRequest)),
    }
}

/// What a person calls their factors.
fn names(factors: &Factors) -> impl Iterator<Item = &str> {
    let apps = factors.totp.iter().map(|app| app.name.as_str());
    apps.chain(factors.keys.iter().map(|key| key.name.as_str()))
}

const fn line_kind(kind: FactorKind) -> FactorLineKind {
    match kind {
        FactorKind::SecurityKey => FactorLineKind::SecurityKey { synced: false },
        FactorKind::Passkey => FactorLineKind::Passkey { synced: false },
        FactorKind::Totp | FactorKind::RecoveryCodes => FactorLineKind::App,
    }
}
