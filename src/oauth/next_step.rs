//! What happens next to an authorization request: the one place that decides between sign-in, chooser, consent and code
//! (OpenID Connect Core §3.1.2.3, §3.1.2.4). Pages do their one thing and come back here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::assurance::{
    AssuranceLevel, AssuranceRequirement, AuthenticationSteps, LevelPolicy, RecoveryCodeWorth,
};
use crate::domain::client::{Client, ConsentRule, INTERNAL_CLIENT, OWN_CLIENT};
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::scope::Scope;
use crate::domain::secret::SecretHash;
use crate::domain::session::{Session, SignIn};
use crate::domain::time::UnixTime;
use crate::domain::user::{Subject, User};
use crate::factors::FactorSummary;
use crate::oauth::authorize::AuthorizationRequest;
use crate::webauthn::CeremonyChallenge;

/// What a person's credentials were when something was proven with them. A proof is worth nothing once they are others: an
/// administrator may have reset them between two steps of a sign-in, because somebody else was taking them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialMark {
    /// Of the password's hash.
    pub password: Option<SecretHash>,
    /// [`FactorSummary::generation`].
    pub factors: u64,
}

impl CredentialMark {
    pub fn of(user: &User, factors: u64) -> Self {
        let password = user.password.as_ref().map(|hash| SecretHash::of(hash.as_str().as_bytes()));
        Self { password, factors }
    }
}

/// Half a sign-in: the password was right, and a second step is missing. It opens nothing but that step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialSignIn {
    pub subject: Subject,
    pub steps: AuthenticationSteps,
    pub credentials: CredentialMark,
}

/// What the person has already done for this request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Who signed in for it, or was chosen.
    #[serde(default)]
    pub account: Option<Subject>,
    /// Whether that person signed in for it, with all steps that it takes.
    #[serde(default)]
    pub signed_in: bool,
    #[serde(default)]
    pub allowed: Option<Scope>,
    /// Who has typed their password for it and not done more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialSignIn>,
}

/// A request that waits for a person, in one browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    /// Of the browser's binding cookie: nobody else can go on with it.
    pub browser: SecretHash,
    pub request: AuthorizationRequest,
    /// Who must be signed in, from `id_token_hint`.
    #[serde(default)]
    pub expected: Option<Subject>,
    pub progress: Progress,
    /// What keys sign for it. Each answer, right or wrong, puts another one in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<CeremonyChallenge>,
    /// Of the secret of the enrolment link by which it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<SecretHash>,
    /// Its place among those that the browser has open: the store gives it, and the lowest gives way first.
    #[serde(default)]
    pub number: u32,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
}

/// What is known of a person for the decision how surely they must sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PersonTerms {
    pub factors: FactorSummary,
    /// As they are now.
    pub credentials: CredentialMark,
    /// The level that the operator demands of each sign-in of theirs.
    pub policy: LevelPolicy,
    /// The level that a first factor can reach which they may add within the sign-in: [`AssuranceLevel::One`] where they may
    /// add none. After an administrator's reset they have to come by its link.
    pub enrollable: AssuranceLevel,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    ChooseAccount,
    SignIn,
    /// A factor of theirs, after the password or on top of a session.
    SecondFactor(Subject),
    /// Their first factor is to be added.
    Enrol(Subject),
    /// They must have a factor, add one by an administrator's link only, and have not come by it: their factors were taken away,
    /// or they never had any.
    AwaitEnrolmentLink,
    /// They cannot reach this level with what they have.
    Unmet(Subject, AssuranceLevel),
    Consent(Subject),
    Issue {
        sign_in: SignIn,
        scope: Scope,
    },
    Refuse(Refusal),
}

/// What is missing once somebody has proven something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofStep {
    /// Nothing: the sign-in is whole.
    Complete,
    SecondFactor,
    Enrol,
    AwaitEnrolmentLink,
}

/// The level that a sign-in of this person for this request must reach, whatever the request's address says: the operator's
/// demand, the client's, and the one of the gate's rule, whose wish is a demand. The gate checks what it gets, so that an
/// address that somebody edited opens nothing.
pub fn required_level(interaction: &Interaction, client: &Client, terms: &PersonTerms) -> AssuranceLevel {
    let policy = terms.policy.in_force(terms.factors.has_any);
    let named = client.id.as_str().starts_with(INTERNAL_CLIENT).then(|| least_named(interaction)).flatten();
    if client.id.as_str() == OWN_CLIENT {
        // Who has a factor that is not enough must come in to add a better one.
        let asked = policy.max(named.unwrap_or(AssuranceLevel::One));
        return if terms.factors.has_any { asked.min(terms.factors.reachable) } else { policy };
    }
    policy.max(client.level.unwrap_or(AssuranceLevel::One)).max(named.unwrap_or(AssuranceLevel::One))
}

/// The lowest level of `acr_values`: each of them will do.
fn least_named(interaction: &Interaction) -> Option<AssuranceLevel> {
    interaction.request.acr_values.as_deref()?.split(' ').filter_map(AssuranceLevel::parse).min()
}

/// The level that the request wishes for, as far as the person can reach it: no more than that is done about it.
pub fn wished_level(interaction: &Interaction, terms: &PersonTerms) -> Option<AssuranceLevel> {
    let values = interaction.request.acr_values.as_deref()?;
    AssuranceLevel::wished(values, terms.factors.reachable)
}

/// The level that these steps are worth to this client.
pub fn level_for(client: &Client, steps: &AuthenticationSteps) -> AssuranceLevel {
    steps.level_with(recovery_codes(client)).unwrap_or(AssuranceLevel::One)
}

/// What recovery codes are worth to this client.
fn recovery_codes(client: &Client) -> RecoveryCodeWorth {
    if client.id.as_str() == OWN_CLIENT { RecoveryCodeWorth::LostFactor } else { RecoveryCodeWorth::SecondFactor }
}

/// Whether the sign-in is older than the request allows. A `max_age` of 0 asks for a new one whatever its age.
fn is_too_old(client: &Client, steps: &AuthenticationSteps, max_age: u64, now: UnixTime) -> bool {
    let required = AssuranceRequirement {
        level: level_for(client, steps),
        max_age: Some(Duration::from_secs(max_age)),
        recovery_codes: recovery_codes(client),
    };
    max_age == 0 || required.judge(steps, now).is_err()
}

/// What is missing of a sign-in whose steps are worth `level`. Whoever has a factor is asked for it at each password, also
/// where nothing demands it: it would protect nobody otherwise.
pub fn after_proof(level: AssuranceLevel, required: AssuranceLevel, terms: &PersonTerms) -> ProofStep {
    let PersonTerms { factors, .. } = terms;
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
    // Whoever could put it off is asked all the same, and has a button for it.
    let LevelPolicy { level: policy, may_postpone } = terms.policy;
    let asked = required.max(policy);
    if !level.meets(asked) && terms.enrollable.meets(asked) {
        ProofStep::Enrol
    } else if !level.meets(policy) && !may_postpone && terms.enrollable == AssuranceLevel::One {
        // What each sign-in must reach is no session without it, and the first factor comes by a link only.
        ProofStep::AwaitEnrolmentLink
    } else {
        ProofStep::Complete
    }
}

/// Decides. `session` is the live session of the browser, `consented` tells what a person has allowed this client before,
/// `terms` how surely they must sign in.
pub fn next_step(
    interaction: &Interaction,
    client: &Client,
    session: Option<&Session>,
    terms: impl Fn(Subject) -> Option<PersonTerms>,
    consented: impl Fn(Subject) -> Scope,
    now: UnixTime,
) -> NextStep {
    let Interaction { request, progress, expected, .. } = interaction;
    let prompt = request.prompt;
    let silent_or = |code, description, step| {
        if prompt.none { NextStep::Refuse(Refusal::new(code, description)) } else { step }
    };
    let sign_in_page = || silent_or(ErrorCode::LoginRequired, "The person has to sign in.", NextStep::SignIn);

    if let Some(partial) = progress.partial.as_ref().filter(|_| !progress.signed_in) {
        return of_partial(interaction, client, partial, terms(partial.subject));
    }
    if prompt.select_account && progress.account.is_none() {
        // With nobody to choose from, the chooser would be a page with one button.
        return if session.is_some() { NextStep::ChooseAccount } else { NextStep::SignIn };
    }
    let wanted = progress.account.or(*expected);
    let sign_in = session.and_then(|session| match wanted {
        Some(subject) => session.sign_in_of(subject),
        None => session.current(),
    });
    let Some(sign_in) = sign_in else { return sign_in_page() };
    // A client that named a person gets that person or nobody (OpenID Connect Core §3.1.2.1, id_token_hint).
    if expected.is_some_and(|expected| expected != sign_in.subject) {
        return NextStep::Refuse(Refusal::new(ErrorCode::LoginRequired, "Another person is signed in."));
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
                "The person cannot sign in as surely as is asked for.",
                step,
            ),
            step => silent_or(ErrorCode::LoginRequired, "The person has to sign in more surely.", step),
        };
    }
    let before = consented(sign_in.subject);
    let implied = client.consent == ConsentRule::Implied;
    let scope = match progress.allowed {
        Some(allowed) => allowed,
        None if (implied || request.scope.is_subset_of(before)) && !prompt.consent => request.scope,
        None => {
            let ask = NextStep::Consent(sign_in.subject);
            return silent_or(ErrorCode::ConsentRequired, "The person has to give consent.", ask);
        }
    };
    NextStep::Issue { sign_in: sign_in.clone(), scope }
}

/// What comes after half a sign-in. Nobody is sent back to a page that would send them here again.
fn of_partial(
    interaction: &Interaction,
    client: &Client,
    partial: &PartialSignIn,
    terms: Option<PersonTerms>,
) -> NextStep {
    let Some(terms) = terms.filter(|terms| terms.credentials == partial.credentials) else {
        return NextStep::SignIn;
    };
    let required = required_level(interaction, client, &terms);
    match after_proof(level_for(client, &partial.steps), required, &terms) {
        ProofStep::SecondFactor => NextStep::SecondFactor(partial.subject),
        ProofStep::Enrol => NextStep::Enrol(partial.subject),
        ProofStep::AwaitEnrolmentLink => NextStep::AwaitEnrolmentLink,
        // Nothing is missing any more, since the operator has changed the policy: the password is typed anew.
        ProofStep::Complete => NextStep::SignIn,
    }
}

/// What is missing of the level of a sign-in that there is; `None` where it is high enough.
fn of_level(interaction: &Interaction, client: &Client, sign_in: &SignIn, terms: &PersonTerms) -> Option<NextStep> {
    let (level, subject) = (level_for(client, &sign_in.steps), sign_in.subject);
    let required = required_level(interaction, client, terms);
    if level.meets(required) {
        // A wish is asked about once, of whoever can answer, and not where no page may be shown.
        let wished = wished_level(interaction, terms).is_some_and(|wished| !level.meets(wished));
        let asks = wished && !interaction.progress.signed_in && !interaction.request.prompt.none;
        return asks.then_some(NextStep::SecondFactor(subject));
    }
    Some(if terms.factors.reachable.meets(required) {
        NextStep::SecondFactor(subject)
    } else if !terms.factors.has_any && terms.enrollable.meets(required) && !interaction.progress.signed_in {
        // The first factor is added after the password, typed for this very request: an old session may be anybody's.
        NextStep::SignIn
    } else {
        NextStep::Unmet(subject, required)
    })
}
