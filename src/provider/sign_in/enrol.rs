//! Enrolment of a user's first factor during a sign-in.
//!
//! `/oauth/enrol` adds the factor after the password and before the session begins.
//! `/oauth/enrolment` opens the link that an administrator gives to a user whose factors were
//! reset.

use http::{Method, StatusCode};
use secrecy::ExposeSecret;

use crate::request::ProviderRequest as _;
use crate::sign_in;
use crate::sign_in::enrolment::{Enrolled, Enrolling, kind_of};
use crate::sign_in::interaction::{RESUME, Waiting};
use crate::sign_in::passkey::relying_party;
use crate::sign_in::{Proceeded, Proof, SIGN_IN, enrolment};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::LinkToken;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::oauth::next_step::{CredentialMark, PartialSignIn, UserRequirements, required_level};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::User;
use sealgate_pages::{AppEnrolment, EnrolPage, EnrolProblem, EnrolStep, FactorChoice, KeyEnrolment, Problem, html};

const PAGE: &str = "enrol";

/// User who adds their first factor, after the password.
struct Newcomer {
    proof: Proof,
    terms: UserRequirements,
    required: AssuranceLevel,
}

impl Newcomer {
    /// Returns whether the user may sign in without a factor for now.
    fn may_postpone(&self) -> bool {
        self.terms.policy.may_postpone && !self.terms.factors.is_reset && self.required == AssuranceLevel::One
    }

    /// Returns whether an authenticator app meets the required level and its secret can be stored.
    fn takes_apps(&self, ctx: &RequestContext<'_>) -> bool {
        let needed_level = self.required.max(self.terms.policy.level);
        !needed_level.meets(AssuranceLevel::PhishingResistant) && ctx.sealgate.store.can_encrypt()
    }
}

pub(crate) async fn enrol_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let waiting = Waiting::find(ctx).await?;
    let Some(newcomer) = find(ctx, &waiting).await? else {
        // Decide the next step again.
        return Ok(Response::see_other(&waiting.address(ctx, RESUME)));
    };
    if ctx.head.method != Method::POST {
        let chosen = ctx.query()?.one("with")?.and_then(FactorChoice::parse);
        return show(ctx, &waiting, &newcomer, chosen, "", None).await;
    }
    let form = waiting.form(ctx, PAGE)?;
    if form.has("later") {
        return later(ctx, &waiting, newcomer).await;
    }
    let chosen = form.one("with")?.and_then(FactorChoice::parse);
    let name = form.one("name")?.unwrap_or_default();
    let enrolling = enrolling(ctx, &waiting, &newcomer);
    let confirmed = match chosen {
        Some(FactorChoice::App) if newcomer.takes_apps(ctx) => {
            enrolling.confirm_app(form.one("code")?.unwrap_or_default(), name).await?
        }
        Some(FactorChoice::Key) => {
            let credential_json = form.one("credential")?.unwrap_or_default();
            enrolling.confirm_key(kind_of(&form)?, credential_json, name).await?
        }
        _ => return show(ctx, &waiting, &newcomer, None, "", None).await,
    };
    match confirmed {
        Ok(enrolled) => added(ctx, &waiting, newcomer.proof, enrolled).await,
        Err(problem) => show(ctx, &waiting, &newcomer, chosen, name, Some(problem)).await,
    }
}

/// Returns the pending sign-in that awaits a first factor.
async fn find(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Option<Newcomer>, Failure> {
    let interaction = waiting.interaction();
    let Some(partial) = &interaction.progress.partial else { return Ok(None) };
    let store = &ctx.sealgate.store;
    let Some(user) = store.user(partial.subject).await?.filter(User::is_enabled) else { return Ok(None) };
    let factors = store.factors(user.sub).await?.map(|loaded| loaded.value);
    let terms = sign_in::terms(ctx, interaction, &user, factors.as_ref());
    // The account, its factors or the policy may have changed since the page was shown.
    if terms.factors.has_any || terms.enrollable == AssuranceLevel::One || partial.credentials != terms.credentials {
        return Ok(None);
    }
    let required = required_level(interaction, &waiting.client, &terms);
    let PartialSignIn { subject: _, steps, credentials, keep, upstream } = partial.clone();
    Ok(Some(Newcomer { proof: Proof { user, steps, credentials, is_step_up: false, keep, upstream }, terms, required }))
}

/// Returns the enrolment. The enrolment fails if the password changes or the account is disabled
/// before the commit.
fn enrolling<'a, 'c>(ctx: &'a RequestContext<'c>, waiting: &Waiting, newcomer: &'a Newcomer) -> Enrolling<'a, 'c> {
    let user = &newcomer.proof.user;
    Enrolling { ctx, store: ctx.sealgate.store.for_credentials(user), user, origin: waiting.origin() }
}

async fn show(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    newcomer: &Newcomer,
    chosen: Option<FactorChoice>,
    name: &str,
    problem: Option<EnrolProblem>,
) -> Result<Response, Failure> {
    let takes_apps = newcomer.takes_apps(ctx);
    let has_keys = relying_party(ctx).is_some();
    let enrolling = enrolling(ctx, waiting, newcomer);
    let (app, key);
    let (secret, uri);
    let enrolment = match chosen {
        Some(FactorChoice::App) if takes_apps => {
            app = enrolling.app().await?;
            secret = app.grouped();
            uri = enrolling.uri(&app);
            EnrolStep::App(AppEnrolment { secret: secret.expose(), uri: uri.expose_secret(), name, problem })
        }
        Some(FactorChoice::Key) if has_keys => {
            key = enrolling.key().await?;
            EnrolStep::Key(KeyEnrolment { security_key: &key.security_key, passkey: &key.passkey, name, problem })
        }
        _ => EnrolStep::Choice,
    };
    let until = ctx.sealgate.config.factors.enrol_by;
    let page = EnrolPage {
        frame: ctx.frame(),
        action: &waiting.address(ctx, PAGE),
        csrf: &waiting.csrf(PAGE),
        account: newcomer.proof.user.sign_in_name(),
        enrolment,
        takes_apps,
        later: until.filter(|_| newcomer.may_postpone()),
        start_over: &waiting.address(ctx, SIGN_IN),
    };
    Ok(Response::page(StatusCode::OK, html(&page), waiting.then().as_deref()))
}

/// Signs the user in without a factor, for now.
async fn later(ctx: &RequestContext<'_>, waiting: &Waiting, newcomer: Newcomer) -> Result<Response, Failure> {
    if !newcomer.may_postpone() {
        return Err(Failure::page(Problem::InvalidRequest));
    }
    let proceeded = sign_in::complete(ctx, waiting, &newcomer.proof).await?;
    Ok(proceeded.respond_or_begin_again(ctx, waiting))
}

/// Counts the new factor as the second step of this sign-in.
///
/// Shows the user their recovery codes before continuing.
async fn added(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    before: Proof,
    enrolled: Enrolled,
) -> Result<Response, Failure> {
    let Proof { user, mut steps, keep, upstream, .. } = before;
    let event = ctx.event(AuditKind::FactorAdded, Actor::User).for_subject(user.sub).with_client(&waiting.client.id);
    ctx.sealgate.audit.note(event.with_detail(enrolled.detail()));
    steps.add(enrolled.step(ctx.now));
    let credentials = CredentialMark::for_user(&user, enrolled.factors.generation);
    let new_codes = enrolment::new_recovery_codes(ctx, &ctx.sealgate.store.for_credentials(&user), &user).await?;
    let proof = Proof { user: user.clone(), steps, credentials, is_step_up: false, keep, upstream };
    let proceeded = sign_in::proceed(ctx, waiting, proof, Some(&enrolled.factors)).await?;
    let (Some(new_codes), Proceeded::SignedIn(cookies)) = (new_codes, &proceeded) else {
        return Ok(proceeded.respond_or_begin_again(ctx, waiting));
    };
    ctx.sealgate.audit.note(ctx.event(AuditKind::RecoveryCodesMade, Actor::User).for_subject(user.sub));
    let page = enrolment::recovery_codes_page(
        ctx,
        &user,
        &new_codes,
        &waiting.address(ctx, RESUME),
        waiting.then().as_deref(),
    );
    Ok(cookies.iter().cloned().fold(page, Response::with_cookie))
}

/// Parameter of the authorization request with the token of an enrolment link.
pub(crate) const LINK: &str = "enrolment";

/// Handles an administrator's enrolment link.
///
/// Redirects to a sign-in for the account's security page. During this sign-in, the user may add
/// the first factor.
pub(crate) async fn link(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let token = ctx.query()?.one("token")?.unwrap_or_default().to_owned();
    opened(ctx, &token).await?;
    Ok(Response::see_other(&ctx.sign_in_address("/account/security", &[(LINK, &token), ("prompt", "login")])))
}

/// Returns the hash of the link's secret if the link permits an enrolment.
///
/// # Errors
/// An error page if the link is invalid or expired.
pub(crate) async fn opened(ctx: &RequestContext<'_>, token: &str) -> Result<SecretHash, Failure> {
    let over = || Failure::page(Problem::EnrolmentLink);
    let link = LinkToken::parse(token).ok_or_else(over)?;
    let factors = ctx.sealgate.store.factors(link.subject).await?;
    let opens = factors.is_some_and(|factors| factors.value.opens_reset(&link.hash, ctx.now));
    if opens { Ok(link.hash) } else { Err(over()) }
}
