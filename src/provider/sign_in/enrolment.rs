//! Enrolment of factors and creation of recovery codes.
//!
//! An enrolment begins in a sign-in or a session. The user must confirm it in the same sign-in or
//! session within [`CONFIRMATION_TIMEOUT`], by a correct code of the app or a response of the key.
//! Until then, the factor is not active.
//!
//! Recovery codes are shown only once.

use std::time::Duration;

use http::StatusCode;
use secrecy::SecretString;
use zeroize::Zeroizing;

use crate::sign_in::factor::open_secret;
use crate::sign_in::passkey;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::{AuthenticationMethod, AuthenticationStep, FactorId};
use sealgate_domain::factors::{FactorKind, FactorOrigin, Factors, PendingFactor, PendingKind, factor_name};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::recovery_code::{RECOVERY_CODES, RecoveryCode, RecoveryCodes};
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::totp::{TotpCode, TotpSecret, TotpVerdict};
use sealgate_domain::user::User;
use sealgate_domain::webauthn::{
    CeremonyChallenge, CeremonyError, CreationOptions, CredentialKind, CredentialRecord, RegistrationResponse,
    RegistrationTerms, RelyingParty, UserEntity, UserHandle,
};
use sealgate_pages::{EnrolProblem, Problem, RecoveryCodesPage, UnnamedFactor, default_factor_name, html};
use sealgate_store::{FactorsChanged, Store};

/// Time within which a pending enrolment must be confirmed.
pub(crate) const CONFIRMATION_TIMEOUT: Duration = Duration::from_mins(15);

/// Time that the browser waits for the user to touch their key.
const CEREMONY_TIMEOUT: Duration = Duration::from_mins(5);

/// User who adds a factor to their account.
pub(crate) struct Enrolling<'a, 'c> {
    pub(crate) ctx: &'a RequestContext<'c>,
    /// Store handle that commits only while the enrolment's basis is valid: the session, or the
    /// proven password.
    pub(crate) store: Store,
    pub(crate) user: &'a User,
    /// The sign-in or session in which the enrolment began.
    pub(crate) origin: FactorOrigin,
}

/// Factor that the user has added.
pub(crate) struct Enrolled {
    pub(crate) id: FactorId,
    pub(crate) kind: FactorKind,
    pub(crate) name: String,
    /// All factors of the user, including the new one.
    pub(crate) factors: Box<Factors>,
}

impl Enrolled {
    /// Returns the authentication step that the user completed by enrolling the factor.
    pub(crate) fn step(&self, now: UnixTime) -> AuthenticationStep {
        let method = match self.kind {
            FactorKind::Passkey => AuthenticationMethod::Passkey,
            FactorKind::SecurityKey => AuthenticationMethod::SecurityKey,
            FactorKind::Totp | FactorKind::RecoveryCodes => AuthenticationMethod::Totp,
        };
        AuthenticationStep { factor: Some(self.id), ..AuthenticationStep::new(method, now) }
    }

    /// Returns the detail text for the audit log.
    pub(crate) fn detail(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.name)
    }
}

/// New key whose response was verified. It is not a factor yet.
pub(crate) struct VerifiedKey {
    pub(crate) credential: CredentialRecord,
    /// [`Factors::generation`] when the challenge was used up.
    pub(crate) generation: u64,
}

/// Options for `navigator.credentials.create()`, as JSON.
pub(crate) struct KeyOptions {
    pub(crate) security_key: String,
    pub(crate) passkey: String,
}

impl Enrolling<'_, '_> {
    /// Returns the secret for an authenticator app: the secret of the pending enrolment, or a new
    /// secret.
    ///
    /// # Errors
    /// When the store has no data key or fails.
    pub(crate) async fn app(&self) -> Result<TotpSecret, Failure> {
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
    pub(crate) fn uri(&self, secret: &TotpSecret) -> SecretString {
        let operator = &self.ctx.sealgate.config.pages.operator;
        SecretString::from(secret.uri(operator, self.user.sign_in_name()).expose())
    }

    /// Adds the pending app if the typed code is correct.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn confirm_app(&self, typed: &str, name: &str) -> Result<Result<Enrolled, EnrolProblem>, Failure> {
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
    /// challenge.
    ///
    /// # Errors
    /// When the issuer's URL does not allow WebAuthn; when the store fails.
    pub(crate) async fn key(&self) -> Result<KeyOptions, Failure> {
        let relying_party = passkey::relying_party(self.ctx).ok_or(Failure::Unavailable)?;
        let fresh = passkey::new_challenge(self.ctx);
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
                name: self.user.sign_in_name().to_owned(),
                display_name: self.user.name.clone(),
            };
            key_options(self.ctx, &relying_party, user, &challenge, kind, &existing)
        };
        Ok(KeyOptions {
            security_key: options(CredentialKind::SecurityKey)?,
            passkey: options(CredentialKind::Passkey)?,
        })
    }

    /// Verifies the browser's response for a new key. The challenge is used up even if the
    /// verification fails.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn verify_key(
        &self,
        kind: CredentialKind,
        answer: &str,
    ) -> Result<Result<VerifiedKey, EnrolProblem>, Failure> {
        let relying_party = passkey::relying_party(self.ctx).ok_or(Failure::Unavailable)?;
        let pending_key = self.change(|factors| {
            let challenge = factors.pending_key(self.origin, self.ctx.now);
            let is_this = |pending: &PendingFactor| {
                pending.origin == self.origin && matches!(pending.kind, PendingKind::Key { .. })
            };
            factors.pending.retain(|pending| !is_this(pending));
            challenge.map(|challenge| (challenge, factors.generation))
        });
        let FactorsChanged::Yes(Some((challenge, generation)), _) = pending_key.await? else {
            return Ok(Err(EnrolProblem::Expired));
        };
        let verified = verified(&relying_party, &challenge, kind, answer);
        Ok(verified.map(|credential| VerifiedKey { credential, generation }).map_err(|error| {
            tracing::info!(%error, subject = %self.user.sub, "refused to add a security key");
            refusal(error)
        }))
    }

    /// Verifies the browser's response and adds the key. The challenge is used up even if the
    /// verification fails.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn confirm_key(
        &self,
        kind: CredentialKind,
        answer: &str,
        name: &str,
    ) -> Result<Result<Enrolled, EnrolProblem>, Failure> {
        let VerifiedKey { credential, generation } = match self.verify_key(kind, answer).await? {
            Ok(verified) => verified,
            Err(problem) => return Ok(Err(problem)),
        };
        self.add(FactorKind::of_credential(kind), |factors| {
            // The pending enrolment has ended if the factors were reset, or if a factor was added
            // or removed, after the enrolment began.
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
        self.ctx.now.plus(CONFIRMATION_TIMEOUT)
    }
}

/// Returns the options for creating a key, as JSON.
pub(crate) fn key_options(
    ctx: &RequestContext<'_>,
    relying_party: &RelyingParty,
    user: UserEntity,
    challenge: &CeremonyChallenge,
    kind: CredentialKind,
    existing: &[CredentialRecord],
) -> Result<String, Failure> {
    let operator = &ctx.sealgate.config.pages.operator;
    let options = CreationOptions::new(relying_party, operator, user, challenge, kind, existing, CEREMONY_TIMEOUT);
    serde_json::to_string(&options).map_err(|_| Failure::Internal)
}

/// Verifies the browser's response and returns the new key.
pub(crate) fn verified(
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
pub(crate) fn refusal(error: CeremonyError) -> EnrolProblem {
    if error == CeremonyError::NotVerified { EnrolProblem::NotVerified } else { EnrolProblem::KeyRefused }
}

/// Returns the name of a new factor: the typed name, or a default name that no other factor has.
///
/// `credential` is `None` for an authenticator app.
pub(crate) fn new_factor_name(
    ctx: &RequestContext<'_>,
    factors: &Factors,
    credential: Option<&CredentialRecord>,
    typed: &str,
) -> String {
    let other_names: Vec<&str> = names(factors).collect();
    let kind = credential.map_or(FactorKind::Totp, |credential| FactorKind::of_credential(credential.kind));
    let model = credential.and_then(CredentialRecord::model);
    let unnamed = UnnamedFactor { kind, model, user_agent: &ctx.user_agent() };
    factor_name(typed, &default_factor_name(&ctx.frame(), unnamed, &other_names))
}

/// Returns the kind of key that the form requests.
pub(crate) fn kind_of(form: &Params) -> Result<CredentialKind, Failure> {
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

/// Replaces all recovery codes of the user. Returns the new codes as text for
/// [`recovery_codes_page`].
///
/// Returns `None` if the user cannot have recovery codes, or the store has no data key.
///
/// # Errors
/// When the store fails.
pub(crate) async fn new_recovery_codes(
    ctx: &RequestContext<'_>,
    store: &Store,
    user: &User,
) -> Result<Option<Secret>, Failure> {
    let Some(key) = store.recovery_key() else { return Ok(None) };
    let random = std::array::from_fn(|_| ctx.random());
    let (stored_codes, codes) = RecoveryCodes::new(key, user.sub, &random, ctx.now);
    let handle = UserHandle::from_random(ctx.random());
    let changed = store.change_factors(user.sub, handle, |factors| {
        let replaced = factors.recovery.is_some();
        let may = factors.may_have_recovery_codes(user);
        may.then(|| factors.set_recovery_codes(stored_codes.clone())).map(|()| replaced)
    });
    Ok(match changed.await? {
        FactorsChanged::Yes(Some(replaced), _) => Some(format_codes(&codes, replaced)),
        _ => None,
    })
}

/// First line of the text if the new codes replace earlier ones, which are now invalid.
const REPLACED: &str = "replaced";

/// Formats the codes, one on each line. The first line is [`REPLACED`] or empty.
fn format_codes(codes: &[RecoveryCode; RECOVERY_CODES], replaced: bool) -> Secret {
    let mut text = Zeroizing::new(if replaced { REPLACED.to_owned() } else { String::new() });
    for code in codes {
        text.push('\n');
        text.push_str(code.text().expose());
    }
    Secret::new(text.as_str())
}

/// Returns the page that shows the new codes and links to `next`.
///
/// `then` are the sources for the `form-action` directive during a sign-in.
pub(crate) fn recovery_codes_page(
    ctx: &RequestContext<'_>,
    user: &User,
    made: &Secret,
    next: &str,
    then: Option<&str>,
) -> Response {
    let mut lines = made.expose().split('\n');
    let replaced = lines.next() == Some(REPLACED);
    let codes: Vec<&str> = lines.collect();
    let page = RecoveryCodesPage { frame: ctx.frame(), account: user.sign_in_name(), codes: &codes, replaced, next };
    Response::page(StatusCode::OK, html(&page), then)
}
