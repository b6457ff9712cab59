//! Next step of an authorization request: sign-in, account chooser, consent or code.
//!
//! Only this module decides on the next step (OpenID Connect Core §3.1.2.3, §3.1.2.4). It decides
//! again after the user has completed a page.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assurance::{AssuranceLevel, AssuranceRequirement, AuthenticationSteps, LevelPolicy, RecoveryCodeWorth};
use crate::client::{Client, ConsentRule, INTERNAL_CLIENT, OWN_CLIENT};
use crate::error::{ErrorCode, Refusal};
use crate::factors::FactorSummary;
use crate::oauth::authorize::AuthorizationRequest;
use crate::scope::Scope;
use crate::secret::SecretHash;
use crate::session::{OpenIdSession, Session, SignIn};
use crate::time::UnixTime;
use crate::upstream_trip::UpstreamTrip;
use crate::user::{Subject, User};
use crate::webauthn::CeremonyChallenge;

/// State of a user's credentials when a step of a sign-in succeeded.
///
/// If the credentials change afterwards, the step becomes invalid, because an administrator may
/// have reset them during an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialMark {
    /// Hash of the stored password hash.
    pub password: Option<SecretHash>,
    /// [`FactorSummary::generation`].
    pub factors: u64,
    /// Hash of the link to the user's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SecretHash>,
}

impl CredentialMark {
    /// Returns the current state of the user's credentials. `factors` is
    /// [`FactorSummary::generation`].
    pub fn for_user(user: &User, factors: u64) -> Self {
        let password = user.password.as_ref().map(|hash| SecretHash::for_secret(hash.as_str().as_bytes()));
        let source = user.source.as_ref().map(|source| source.link.lookup_key());
        Self { password, factors, source }
    }
}

/// Pending sign-in: the password is verified, and the second factor is outstanding. Permits only
/// the second factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialSignIn {
    pub subject: Subject,
    pub steps: AuthenticationSteps,
    pub credentials: CredentialMark,
    /// Whether the user chose to stay signed in on the device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Session at the user's OpenID provider, if the user signed in there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Box<OpenIdSession>>,
}

/// Steps that the user has completed for this request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// User who signed in for this request, or whom the user chose in the account chooser.
    #[serde(default)]
    pub account: Option<Subject>,
    /// Whether that user has completed a sign-in for this request.
    #[serde(default)]
    pub signed_in: bool,
    #[serde(default)]
    pub allowed: Option<Scope>,
    /// User whose password was verified for this request, but who has not completed the sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialSignIn>,
}

/// Pending authorization request in one browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    /// Hash of the browser's id cookie. No other browser can continue the request.
    pub browser: SecretHash,
    pub request: AuthorizationRequest,
    /// User who must be signed in, from `id_token_hint`.
    #[serde(default)]
    pub expected: Option<Subject>,
    pub progress: Progress,
    /// Challenge for security keys and passkeys. Each answer, right or wrong, replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<CeremonyChallenge>,
    /// Hash of the secret of the enrolment link that began the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<SecretHash>,
    /// Last sign-in at an OpenID provider for this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamTrip>,
    /// Number of this request among the pending requests of the browser, assigned by the store. The
    /// lowest is evicted first.
    #[serde(default)]
    pub number: u32,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
}

/// Properties of a user that determine the required level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRequirements {
    pub factors: FactorSummary,
    /// Current state of the user's credentials.
    pub credentials: CredentialMark,
    /// Level that the operator requires of the user's sign-ins.
    pub policy: LevelPolicy,
    /// Highest level that the user can reach by enrolling a first factor during the sign-in.
    /// [`AssuranceLevel::One`] if the user may not enrol a factor.
    ///
    /// After an administrator's reset, the user can enrol a factor only with the enrolment link.
    pub enrollable: AssuranceLevel,
}

/// Next step of an authorization request: a page, the code, or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    ChooseAccount,
    SignIn,
    /// The user must use a factor, after the password or in an existing session.
    SecondFactor(Subject),
    /// The user must enrol a first factor.
    Enrol(Subject),
    /// The user needs a factor, but can enrol it only with an administrator's link.
    ///
    /// Either the user's factors were reset, or the user never had a factor.
    AwaitEnrolmentLink,
    /// The user's factors cannot reach this level.
    Unmet(Subject, AssuranceLevel),
    Consent(Subject),
    Issue {
        sign_in: SignIn,
        scope: Scope,
    },
    Refuse(Refusal),
}

/// Next step after a step of a sign-in succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofStep {
    /// No step: the sign-in is complete.
    Complete,
    SecondFactor,
    Enrol,
    AwaitEnrolmentLink,
}

/// Returns the level that this user's sign-in must reach for this request.
///
/// This is the maximum of the operator's policy, the client's level and, for a protected
/// application, the lowest level in the request. The server's own pages never require a level that
/// the user's factors cannot reach. The gateway checks the reached level, so a user who edits the
/// level in the URL gains no access.
pub fn required_level(interaction: &Interaction, client: &Client, terms: &UserRequirements) -> AssuranceLevel {
    let policy = terms.policy.in_force(terms.factors.has_any);
    let named_level = client.id.as_str().starts_with(INTERNAL_CLIENT).then(|| least_named(interaction)).flatten();
    if client.id.as_str() == OWN_CLIENT {
        // A user whose factors do not suffice must be able to sign in to add a better factor.
        let requested_level = policy.max(named_level.unwrap_or(AssuranceLevel::One));
        return if terms.factors.has_any { requested_level.min(terms.factors.reachable) } else { policy };
    }
    policy.max(client.level.unwrap_or(AssuranceLevel::One)).max(named_level.unwrap_or(AssuranceLevel::One))
}

/// Returns the lowest level of `acr_values`, because each of its levels suffices.
fn least_named(interaction: &Interaction) -> Option<AssuranceLevel> {
    interaction.request.acr_values.as_deref()?.split(' ').filter_map(AssuranceLevel::parse).min()
}

/// Returns the level that the request prefers, if the user can reach it.
pub fn requested_level(interaction: &Interaction, terms: &UserRequirements) -> Option<AssuranceLevel> {
    let values = interaction.request.acr_values.as_deref()?;
    AssuranceLevel::requested(values, terms.factors.reachable)
}

/// Returns the level that these steps reach for this client.
pub fn level_for(client: &Client, steps: &AuthenticationSteps) -> AssuranceLevel {
    steps.level_with(recovery_codes(client)).unwrap_or(AssuranceLevel::One)
}

/// Returns what recovery codes are worth for this client.
fn recovery_codes(client: &Client) -> RecoveryCodeWorth {
    if client.id.as_str() == OWN_CLIENT { RecoveryCodeWorth::LostFactor } else { RecoveryCodeWorth::SecondFactor }
}

/// Returns whether the sign-in exceeds `max_age`. A `max_age` of 0 always requires a new sign-in.
fn is_too_old(client: &Client, steps: &AuthenticationSteps, max_age: u64, now: UnixTime) -> bool {
    let required = AssuranceRequirement {
        level: level_for(client, steps),
        max_age: Some(Duration::from_secs(max_age)),
        recovery_codes: recovery_codes(client),
    };
    max_age == 0 || required.judge(steps, now).is_err()
}

/// Returns the next step after the steps of a sign-in have reached `level`.
///
/// A user who has a factor must use it after each password, even if the level is not required.
/// Otherwise the factor would not protect the account.
pub fn after_proof(level: AssuranceLevel, required: AssuranceLevel, terms: &UserRequirements) -> ProofStep {
    let UserRequirements { factors, .. } = terms;
    if factors.has_any {
        let target = required.max(AssuranceLevel::Two).min(factors.reachable);
        return if level.meets(target) { ProofStep::Complete } else { ProofStep::SecondFactor };
    }
    if factors.is_reset {
        return if terms.enrollable.meets(AssuranceLevel::Two) {
            ProofStep::Enrol
        } else {
            ProofStep::AwaitEnrolmentLink
        };
    }
    // Also offer the enrolment to users who may postpone it. The page has a button to postpone it.
    let LevelPolicy { level: policy, may_postpone } = terms.policy;
    let needed_level = required.max(policy);
    if !level.meets(needed_level) && terms.enrollable.meets(needed_level) {
        ProofStep::Enrol
    } else if !level.meets(policy) && !may_postpone && terms.enrollable == AssuranceLevel::One {
        // No sign-in below the policy is permitted, and a first factor can be enrolled only with a
        // link.
        ProofStep::AwaitEnrolmentLink
    } else {
        ProofStep::Complete
    }
}

/// Returns the next step of a request.
///
/// `session` is the browser's valid session. `terms` returns the properties of a user that
/// determine the required level. `has_consented` returns whether a user has already consented to the
/// request.
pub fn next_step(
    interaction: &Interaction,
    client: &Client,
    session: Option<&Session>,
    terms: impl Fn(Subject) -> Option<UserRequirements>,
    has_consented: impl Fn(Subject) -> bool,
    now: UnixTime,
) -> NextStep {
    let Interaction { request, progress, expected, .. } = interaction;
    let prompt = request.prompt;
    let silent_or = |code, description, step| {
        if prompt.none { NextStep::Refuse(Refusal::new(code, description)) } else { step }
    };
    let sign_in_page = || silent_or(ErrorCode::LoginRequired, "The user must sign in.", NextStep::SignIn);

    if let Some(partial) = progress.partial.as_ref().filter(|_| !progress.signed_in) {
        return of_partial(interaction, client, partial, terms(partial.subject));
    }
    if prompt.select_account && progress.account.is_none() {
        // Without accounts to choose from, the account chooser would have only one button.
        return if session.is_some() { NextStep::ChooseAccount } else { NextStep::SignIn };
    }
    let account = progress.account.or(*expected);
    let sign_in = session.and_then(|session| match account {
        Some(subject) => session.sign_in_of(subject),
        None => session.current(),
    });
    let Some(sign_in) = sign_in else { return sign_in_page() };
    // If the client names a user, another user must not be signed in to it (OpenID Connect Core
    // §3.1.2.1, `id_token_hint`).
    if expected.is_some_and(|expected| expected != sign_in.subject) {
        return NextStep::Refuse(Refusal::new(ErrorCode::LoginRequired, "Another user is signed in."));
    }
    if !progress.signed_in {
        let too_old = request.max_age.is_some_and(|most| is_too_old(client, &sign_in.steps, most, now));
        if prompt.login || too_old {
            return sign_in_page();
        }
    }
    let Some(terms) = terms(sign_in.subject) else { return sign_in_page() };
    if let Some(step) = of_level(interaction, client, sign_in, &terms) {
        return match step {
            NextStep::Unmet(..) => silent_or(
                ErrorCode::UnmetAuthenticationRequirements,
                "The user cannot reach the requested authentication level.",
                step,
            ),
            step => {
                silent_or(ErrorCode::LoginRequired, "The user must sign in at a higher authentication level.", step)
            }
        };
    }
    let implied = client.consent == ConsentRule::Implied;
    let scope = match progress.allowed {
        Some(allowed) => allowed,
        None if (implied || has_consented(sign_in.subject)) && !prompt.consent => request.scope,
        None => {
            let ask = NextStep::Consent(sign_in.subject);
            return silent_or(ErrorCode::ConsentRequired, "The user must give consent.", ask);
        }
    };
    NextStep::Issue { sign_in: sign_in.without_upstream(), scope }
}

/// Returns the step after a pending sign-in. Each result is a page, so the browser is not
/// redirected in a loop.
fn of_partial(
    interaction: &Interaction,
    client: &Client,
    partial: &PartialSignIn,
    terms: Option<UserRequirements>,
) -> NextStep {
    let Some(terms) = terms.filter(|terms| terms.credentials == partial.credentials) else {
        return NextStep::SignIn;
    };
    let required = required_level(interaction, client, &terms);
    match after_proof(level_for(client, &partial.steps), required, &terms) {
        ProofStep::SecondFactor => NextStep::SecondFactor(partial.subject),
        ProofStep::Enrol => NextStep::Enrol(partial.subject),
        ProofStep::AwaitEnrolmentLink => NextStep::AwaitEnrolmentLink,
        // The policy has changed since the password was verified, so no step is missing. The user
        // must nevertheless sign in again.
        ProofStep::Complete => NextStep::SignIn,
    }
}

/// Returns the step that an existing sign-in lacks, or `None` if its level suffices.
fn of_level(
    interaction: &Interaction,
    client: &Client,
    sign_in: &SignIn,
    terms: &UserRequirements,
) -> Option<NextStep> {
    let (level, subject) = (level_for(client, &sign_in.steps), sign_in.subject);
    let required = required_level(interaction, client, terms);
    if level.meets(required) {
        // A level that is preferred but not required is requested only once. It is not requested if
        // the user cannot reach it, or if pages must not be shown.
        let requested = requested_level(interaction, terms).is_some_and(|requested| !level.meets(requested));
        let asks = requested && !interaction.progress.signed_in && !interaction.request.prompt.none;
        return asks.then_some(NextStep::SecondFactor(subject));
    }
    Some(if terms.factors.reachable.meets(required) {
        NextStep::SecondFactor(subject)
    } else if !terms.factors.has_any && terms.enrollable.meets(required) && !interaction.progress.signed_in {
        // A first factor may be enrolled only after the password was typed for this request,
        // because an attacker may use an old session.
        NextStep::SignIn
    } else {
        NextStep::Unmet(subject, required)
    })
}
