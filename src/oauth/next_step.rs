//! What happens next to an authorization request: the one place that decides between sign-in, chooser, consent and code
//! (OpenID Connect Core §3.1.2.3, §3.1.2.4). Pages do their one thing and come back here.

use serde::{Deserialize, Serialize};

use crate::domain::client::{Client, ConsentRule};
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::scope::Scope;
use crate::domain::secret::SecretHash;
use crate::domain::session::{Session, SignIn};
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;
use crate::oauth::authorize::AuthorizationRequest;

/// What the person has already done for this request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Who signed in for it, or was chosen.
    #[serde(default)]
    pub account: Option<Subject>,
    /// Whether that person typed their password for it.
    #[serde(default)]
    pub signed_in: bool,
    #[serde(default)]
    pub allowed: Option<Scope>,
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
    /// Its place among those that the browser has open: the store gives it, and the lowest gives way first.
    #[serde(default)]
    pub number: u32,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    ChooseAccount,
    SignIn,
    Consent(Subject),
    Issue { sign_in: SignIn, scope: Scope },
    Refuse(Refusal),
}

/// Decides. `session` is the live session of the browser, `consented` tells what a person has allowed this client before.
pub fn next_step(
    interaction: &Interaction,
    client: &Client,
    session: Option<&Session>,
    consented: impl Fn(Subject) -> Scope,
    now: UnixTime,
) -> NextStep {
    let Interaction { request, progress, expected, .. } = interaction;
    let prompt = request.prompt;
    let silent_or = |code, description, step| {
        if prompt.none { NextStep::Refuse(Refusal::new(code, description)) } else { step }
    };
    let sign_in_page = || silent_or(ErrorCode::LoginRequired, "The person has to sign in.", NextStep::SignIn);

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
        let too_old = request.max_age.is_some_and(|most| most == 0 || now.since(sign_in.at()).as_secs() > most);
        if prompt.login || too_old {
            return sign_in_page();
        }
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
