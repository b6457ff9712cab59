//! OpenID providers as sources of users.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use secrecy::ExposeSecret;
use url::Url;

use crate::password::QueueKey;
use crate::sources::places::Places;
use crate::sources::{SourceAccess, SourceSignIn, SourceTerms};
use crate::state::{NotServing, Sealgate};
use crate::web::failure::Failure;
use sealgate_config::{UpstreamArrival, UpstreamSettings};
use sealgate_domain::amr::AmrValues;
use sealgate_domain::assurance::{AssuranceLevel, AuthenticationStep, AuthenticationSteps, UpstreamAssurance};
use sealgate_domain::audit::{AuditEvent, AuditKind};
use sealgate_domain::secret::Sealed;
use sealgate_domain::session::OpenIdSession;
use sealgate_domain::source::{ProviderTerms, SourceEntry, SourceIdOrigin, SourceName, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::upstream_trip::{BegunTrip, Recency, UpstreamProblem};
use sealgate_domain::user::{Subject, User};
use sealgate_store::UpstreamTokenKind;
use sealgate_system::clock::{Clock, random};
use sealgate_system::metrics::{Metrics, UpstreamSignInOutcome};
use sealgate_upstream::{AssertionSigner, CallbackAnswer, OpenIdProvider, Trip, UpstreamRefusal, UpstreamSignIn};

/// Maximum length of a token that a session keeps, in bytes. A session has at most five sign-ins,
/// and is written again while it is used.
const MAX_TOKEN_LENGTH: usize = 16 * 1024;

/// OpenID provider whose users sign in.
pub struct OpenIdSource {
    pub provider: OpenIdProvider,
    pub(super) places: Places,
    /// Origin of the ids of its users.
    origin: SourceIdOrigin,
    /// Time at which the provider last answered a background read, in seconds since 1970. At first the time of the start, so that sessions survive a restart while the provider is away.
    answered_at: AtomicU64,
}

/// The provider cannot be reached now. The sign-in can be repeated.
#[derive(Debug)]
pub struct UpstreamUnavailable;

/// User who has signed in at an OpenID provider.
pub struct UpstreamArrived {
    pub user: Box<User>,
    pub steps: AuthenticationSteps,
    pub session: OpenIdSession,
}

/// Reason why a user who returned from an OpenID provider is not signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamRejection {
    pub problem: UpstreamProblem,
    /// User of the account. `None` if unknown.
    pub user: Option<Subject>,
}

impl From<UpstreamProblem> for UpstreamRejection {
    fn from(problem: UpstreamProblem) -> Self {
        Self { problem, user: None }
    }
}

/// Sign-in at an OpenID provider, as far as its answer is judged.
pub struct UpstreamAttempt<'a> {
    pub source: &'a OpenIdSource,
    /// Queue of the sender's network.
    pub sender: QueueKey,
    pub begun: &'a BegunTrip,
    pub required: Recency,
}

impl OpenIdSource {
    /// Opens a provider. Does not connect to it.
    ///
    /// # Errors
    /// [`NotServing`] if a file of the provider cannot be read.
    pub(super) fn open(
        settings: &UpstreamSettings,
        client_keys: &Arc<dyn AssertionSigner>,
        metrics: &Metrics,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, NotServing> {
        let provider = OpenIdProvider::open(settings, Arc::clone(client_keys), Arc::clone(clock))
            .map_err(|fault| NotServing::from(vec![fault.to_string()]))?;
        let now = clock.now().seconds();
        metrics.init_openid_provider(settings.name.as_str(), now);
        let origin = SourceIdOrigin { issuer: settings.issuer.clone(), subject_claim: settings.claims.subject.clone() };
        Ok(Self { provider, places: Places::default(), origin, answered_at: AtomicU64::new(now) })
    }

    /// Returns the name in the configuration.
    pub fn name(&self) -> &SourceName {
        &self.settings().name
    }

    /// Returns the configuration.
    pub fn settings(&self) -> &UpstreamSettings {
        self.provider.settings()
    }

    /// Returns the values of `acr_values` that request at least this level from the provider.
    pub fn acr_values(&self, level: AssuranceLevel) -> Option<String> {
        if level == AssuranceLevel::One {
            return None;
        }
        let granting = self.settings().claims.levels.iter().filter(|(_, granted)| granted.meets(level));
        let values: Vec<&str> = granting.map(|(acr, _)| acr.as_str()).collect();
        (!values.is_empty()).then(|| values.join(" "))
    }

    /// Returns whether a user of this provider still has access.
    ///
    /// The provider's last confirmation is valid for `session_seconds`, while the provider answers.
    pub(super) fn access(&self, user: &UserSource, now: UnixTime) -> SourceAccess {
        if !self.is_origin_of(user) || !user.is_confirmed(now, self.settings().session) {
            SourceAccess::SignInNeeded
        } else if now.since(self.answered_at()) >= self.settings().stale {
            SourceAccess::Unknown
        } else {
            SourceAccess::Current
        }
    }

    /// Returns whether the id of a user comes from the configured issuer and claim. If not, the user may
    /// be another one, whose tokens belong to another provider.
    pub(super) fn is_origin_of(&self, user: &UserSource) -> bool {
        user.may_be_of(&self.origin)
    }

    /// Returns whether the claim `sub` is the id of a user.
    pub(super) fn has_sub_as_id(&self) -> bool {
        self.settings().claims.subject == "sub"
    }

    /// Returns the time at which the provider last answered.
    pub fn answered_at(&self) -> UnixTime {
        UnixTime::from_seconds(self.answered_at.load(Ordering::Relaxed))
    }

    /// Records that the provider has answered, or that there was nothing to ask.
    pub fn has_answered(&self, metrics: &Metrics, at: UnixTime) {
        let before = self.answered_at.fetch_max(at.seconds(), Ordering::Relaxed);
        metrics.upstream_answered(self.name().as_str(), before.max(at.seconds()));
    }

    /// Returns the terms of the provider's report about a user who has signed in.
    pub fn provider_terms(&self) -> ProviderTerms<'_> {
        ProviderTerms { valid_for: self.settings().session, origin: &self.origin, is_sign_in: true }
    }

    pub(super) fn terms(&self) -> SourceTerms<'_> {
        let provider = Some(self.provider_terms());
        SourceTerms { kind: "upstream", name: self.name(), provider, may_create: true }
    }

    /// Returns the terms of the answer to a background request. A user who was deleted or unlinked in the
    /// meantime must not be created again.
    pub(super) fn refresh_terms(&self) -> SourceTerms<'_> {
        let provider = Some(ProviderTerms { is_sign_in: false, ..self.provider_terms() });
        SourceTerms { provider, ..self.terms().of_known_user() }
    }
}

impl Sealgate {
    /// Returns the URL at the provider to which the browser is redirected.
    ///
    /// # Errors
    /// [`UpstreamUnavailable`] if the provider does not answer, or if the sender's network has too
    /// many sign-ins at once.
    pub async fn upstream_url(
        &self,
        source: &OpenIdSource,
        sender: QueueKey,
        trip: &Trip<'_>,
    ) -> Result<String, UpstreamUnavailable> {
        let begun = Instant::now();
        let Some(_place) = source.places.take(sender) else {
            self.report_upstream(source, &CROWDED, begun);
            return Err(UpstreamUnavailable);
        };
        let url = source.provider.authorization_url(trip).await.map_err(|fault| {
            self.report_upstream(source, &fault, begun);
            UpstreamUnavailable
        })?;
        // Without a data key, a refresh token cannot be kept.
        Ok(if self.store.can_encrypt() { url } else { without_offline_access(&url) })
    }

    /// Redeems the answer of a provider, and stores the provider's report about the user.
    ///
    /// The caller has compared `state`, and has ended the trip.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn arrive(
        &self,
        attempt: &UpstreamAttempt<'_>,
        answer: &CallbackAnswer<'_>,
        trip: &Trip<'_>,
        event: impl Fn(AuditKind) -> AuditEvent + Send + Sync,
    ) -> Result<Result<UpstreamArrived, UpstreamRejection>, Failure> {
        let (source, begun, requested_at) = (attempt.source, Instant::now(), self.clock.now());
        let redeemed = self.redeem(source, attempt.sender, answer, trip).await;
        let seconds = begun.elapsed().as_secs_f64();
        let arrived = match redeemed {
            Ok(signed_in) => self.admit(attempt, signed_in, requested_at, &event).await?,
            Err(problem) => Err(problem.into()),
        };
        let outcome =
            arrived.as_ref().map_or_else(|rejection| outcome(rejection.problem), |_| UpstreamSignInOutcome::Succeeded);
        self.metrics.upstream_signed_in(source.name().as_str(), outcome, seconds);
        Ok(arrived)
    }

    /// Redeems the answer of a provider to a trip that proves an account for a link. Signs nobody in,
    /// and stores nothing.
    ///
    /// The caller has compared `state`, and has ended the trip.
    ///
    /// # Errors
    /// The problem that the user sees.
    pub async fn prove_at_provider(
        &self,
        source: &OpenIdSource,
        sender: QueueKey,
        answer: &CallbackAnswer<'_>,
        trip: &Trip<'_>,
    ) -> Result<Box<SourceEntry>, UpstreamProblem> {
        let begun = Instant::now();
        let redeemed = self.redeem(source, sender, answer, trip).await;
        let outcome = redeemed.as_ref().map_or_else(|problem| outcome(*problem), |_| UpstreamSignInOutcome::Succeeded);
        self.metrics.upstream_signed_in(source.name().as_str(), outcome, begun.elapsed().as_secs_f64());
        redeemed.map(|signed_in| Box::new(signed_in.entry))
    }

    async fn redeem(
        &self,
        source: &OpenIdSource,
        sender: QueueKey,
        answer: &CallbackAnswer<'_>,
        trip: &Trip<'_>,
    ) -> Result<UpstreamSignIn, UpstreamProblem> {
        let Some(_place) = source.places.take(sender) else {
            tracing::error!(upstream = %source.name(), fault = CROWDED, "the OpenID provider cannot sign a user in");
            return Err(UpstreamProblem::Unavailable);
        };
        // A sign-in says nothing about the users who are signed in, so it is no answer about them.
        source.provider.sign_in(answer, trip).await.map_err(|refusal| refused(source, &refusal))
    }

    /// Stores the provider's report about a user who has signed in there, if the user is admitted.
    async fn admit(
        &self,
        attempt: &UpstreamAttempt<'_>,
        signed_in: UpstreamSignIn,
        requested_at: UnixTime,
        event: &(impl Fn(AuditKind) -> AuditEvent + Send + Sync),
    ) -> Result<Result<UpstreamArrived, UpstreamRejection>, Failure> {
        let (source, now) = (attempt.source, self.clock.now());
        let UpstreamSignIn { entry, auth_time, level, amr, sub, sid, id_token, refresh_token } = signed_in;
        if !attempt.begun.is_recent(attempt.required, auth_time, now) {
            return Ok(Err(UpstreamProblem::NotRecent.into()));
        }
        let only_linked = source.settings().arrival == UpstreamArrival::LinkedOnly;
        let terms = if only_linked { source.terms().of_known_user() } else { source.terms() };
        let user = match self.apply_source_entry(&terms, &entry, event).await? {
            Ok(user) if user.is_enabled() => user,
            Err(SourceSignIn::NameTaken) => return Ok(Err(UpstreamProblem::NameTaken.into())),
            Err(SourceSignIn::Nameless) => return Ok(Err(UpstreamProblem::Nameless.into())),
            Err(SourceSignIn::Absent) => return Ok(Err(UpstreamProblem::NotLinked.into())),
            Err(SourceSignIn::OtherOrigin) => return Ok(Err(UpstreamProblem::OtherOrigin.into())),
            Ok(user) => {
                return Ok(Err(UpstreamRejection { problem: UpstreamProblem::Disabled, user: Some(user.sub) }));
            }
            Err(_) => return Ok(Err(UpstreamProblem::Disabled.into())),
        };
        let assurance =
            UpstreamAssurance { level: level.unwrap_or(AssuranceLevel::One), amr: AmrValues::registered(amr) };
        // A provider's clock may be ahead of this server's.
        let step = AuthenticationStep::at_upstream(assurance, auth_time.map(|at| at.min(now)));
        let seal = |kind, token: Option<secrecy::SecretString>| {
            self.seal_token(user.sub, source.name(), kind, token?.expose_secret())
        };
        let session = OpenIdSession {
            source: source.name().clone(),
            sub: sub.filter(|_| !source.has_sub_as_id()),
            sid,
            id_token: seal(UpstreamTokenKind::Id, id_token),
            refresh_token: seal(UpstreamTokenKind::Refresh, refresh_token),
            at: requested_at,
        };
        Ok(Ok(UpstreamArrived { user, steps: AuthenticationSteps::from_step(step), session }))
    }

    /// Seals a token. Returns `None` if there is no data key, or if the token is too long.
    pub(super) fn seal_token(
        &self,
        subject: Subject,
        source: &SourceName,
        kind: UpstreamTokenKind,
        token: &str,
    ) -> Option<Sealed> {
        if !self.store.can_encrypt() || token.len() > MAX_TOKEN_LENGTH {
            return None;
        }
        let sealed = self.store.seal_upstream_token(subject, source, kind, random(self.entropy.as_ref()), token);
        sealed.inspect_err(|error| tracing::warn!(upstream = %source, %error, "cannot seal a token of a user")).ok()
    }

    /// Logs and counts a sign-in for which the provider cannot be reached.
    fn report_upstream(&self, source: &OpenIdSource, fault: &dyn Display, begun: Instant) {
        tracing::error!(upstream = %source.name(), %fault, "the OpenID provider cannot sign a user in");
        let (name, outcome) = (source.name().as_str(), UpstreamSignInOutcome::Unavailable);
        self.metrics.upstream_signed_in(name, outcome, begun.elapsed().as_secs_f64());
    }
}

/// Removes the scope `offline_access` from an authorization request.
fn without_offline_access(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return url.to_owned() };
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let other_scopes =
        |scopes: &str| scopes.split(' ').filter(|scope| *scope != "offline_access").collect::<Vec<_>>().join(" ");
    let pairs = pairs.into_iter().map(|(name, value)| {
        let value = if name == "scope" { other_scopes(&value) } else { value };
        (name, value)
    });
    url.query_pairs_mut().clear().extend_pairs(pairs);
    url.into()
}

/// Fault of a network that has all its places in use.
const CROWDED: &str = "a network has many sign-ins at once";

/// Logs a refusal. Returns the problem that the user sees.
fn refused(source: &OpenIdSource, refusal: &UpstreamRefusal) -> UpstreamProblem {
    let (upstream, reason) = (source.name(), refusal.as_str());
    match refusal {
        UpstreamRefusal::Unavailable(fault) => {
            tracing::error!(%upstream, reason, %fault, "the OpenID provider cannot sign a user in");
            UpstreamProblem::Unavailable
        }
        UpstreamRefusal::Refused(fault) => {
            tracing::warn!(%upstream, reason, %fault, "the OpenID provider refused a sign-in with an error");
            UpstreamProblem::ProviderError
        }
        UpstreamRefusal::Denied => {
            tracing::info!(%upstream, reason, "a sign-in at the OpenID provider was denied");
            UpstreamProblem::Denied
        }
        UpstreamRefusal::GroupsOverage => {
            tracing::warn!(%upstream, reason, "the OpenID provider did not list the groups of a user, because there are too \
                many; have it send app roles, or only the groups that are assigned to the application");
            UpstreamProblem::GroupsOverage
        }
        UpstreamRefusal::NotAllowed(claim) => {
            tracing::info!(%upstream, reason, claim, "a user lacks the required value of a claim");
            UpstreamProblem::NotAllowed
        }
        UpstreamRefusal::Invalid(_)
        | UpstreamRefusal::InteractionRequired
        | UpstreamRefusal::NoSubject
        | UpstreamRefusal::Ended => {
            tracing::warn!(%upstream, reason, "refused an answer of the OpenID provider");
            UpstreamProblem::Invalid
        }
    }
}

fn outcome(problem: UpstreamProblem) -> UpstreamSignInOutcome {
    match problem {
        UpstreamProblem::Denied | UpstreamProblem::ProviderError => UpstreamSignInOutcome::Denied,
        UpstreamProblem::Unavailable => UpstreamSignInOutcome::Unavailable,
        UpstreamProblem::Invalid => UpstreamSignInOutcome::Invalid,
        UpstreamProblem::NameTaken | UpstreamProblem::Nameless => UpstreamSignInOutcome::NameRefused,
        UpstreamProblem::GroupsOverage
        | UpstreamProblem::NotAllowed
        | UpstreamProblem::NotLinked
        | UpstreamProblem::Disabled
        | UpstreamProblem::NotRecent
        | UpstreamProblem::OtherOrigin => UpstreamSignInOutcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scope_offline_access_is_removed() {
        let url = "https://acme.test/authorize?tenant=a&scope=openid+offline_access+email&state=s.offline_access";
        let expected = "https://acme.test/authorize?tenant=a&scope=openid+email&state=s.offline_access";
        assert_eq!(without_offline_access(url), expected);
        assert_eq!(without_offline_access(expected), expected);
    }
}
