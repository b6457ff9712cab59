//! `/oauth/create-account/finish`: a user with a proven e-mail address chooses their name and
//! credential.
//!
//! The account contains only data from this form, so no other party can have prepared the account.
//! The new credential counts as the first step of the sign-in that the user had begun in this
//! browser. The sign-in then applies its other requirements.

use http::{Method, StatusCode};

use crate::links::create_account::{FINISH, MAX_TRIES, Registering, expired_registration_cookie, require_open};
use crate::sign_in::Proof;
use crate::sign_in::enrolment::{Enrolled, key_options, new_factor_name, refusal, verified};
use crate::sign_in::passkey::relying_party;
use crate::{links, sign_in};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::AuthenticationSteps;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::factors::{FactorKind, Factors};
use sealgate_domain::oauth::next_step::CredentialMark;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::password_rules::Owner;
use sealgate_domain::pending_registration::{PendingPasskey, PendingRegistration};
use sealgate_domain::profile::{MAX_NAME_LENGTH, is_line};
use sealgate_domain::session::SignIn;
use sealgate_domain::user::{ManagerDecisions, PasswordHash, Subject, User, UserState};
use sealgate_domain::webauthn::{CeremonyChallenge, CredentialKind, UserEntity, UserHandle};
use sealgate_pages::{CredentialChoice, EnrolProblem, NewAccountPage, NewPasswordProblem, Problem, html};
use sealgate_store::{Committed, Loaded};
use sealgate_system::metrics::RegistrationOutcome;

/// Registration whose e-mail address is proven.
struct Proven {
    registering: Registering,
    pending: Loaded<PendingRegistration>,
}

/// Credential that the user has chosen.
enum Chosen {
    Password(PasswordHash),
    Passkey(Enrolled),
}

pub(crate) async fn new_account_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    require_open(ctx)?;
    let registering = Registering::find(ctx).await?;
    if ctx.head.method != Method::POST {
        return match find(ctx, &registering).await? {
            Some(pending) => Ok(show_password(ctx, &Proven { registering, pending }, "", None, false)),
            // The code was not typed yet. The registration stays, because it may still become valid.
            None => Err(registering.back(ctx)),
        };
    }
    let form = registering.form(ctx, FINISH)?;
    let registering = registering.in_time(ctx).await?;
    let Some(pending) = find(ctx, &registering).await? else { return Ok(registering.over(ctx)) };
    let proven = Proven { registering, pending };
    let name = form.one("person-name")?.unwrap_or_default().trim();
    if !is_line(name, MAX_NAME_LENGTH) {
        return Ok(show_password(ctx, &proven, name, None, true));
    }
    if form.has("choose") || form.has("with") {
        return passkey(ctx, &proven, name, &form).await;
    }
    let owner = Owner { email: Some(&proven.pending.value.address), username: None, name };
    let typed = form.one("new-password")?.unwrap_or_default();
    match links::hash_new_password(ctx, typed, &owner).await {
        Ok(hash) => create(ctx, &proven, name, Subject::from_random(ctx.random()), Chosen::Password(hash)).await,
        Err(problem) => Ok(show_password(ctx, &proven, name, Some(problem), false)),
    }
}

/// Returns the pending registration if its address is proven and still allowed.
///
/// A reload of the configuration may have removed the address's domain from the allowed domains.
async fn find(
    ctx: &RequestContext<'_>,
    registering: &Registering,
) -> Result<Option<Loaded<PendingRegistration>>, Failure> {
    let pending = ctx.sealgate.store.pending_registration(&registering.id()).await?;
    let takes = |pending: &PendingRegistration| ctx.sealgate.config.registration_of_people.takes(&pending.address);
    let is_good = |pending: &PendingRegistration| pending.is_proven() && pending.is_live(ctx.now) && takes(pending);
    Ok(pending.filter(|pending| is_good(&pending.value)))
}

async fn passkey(ctx: &RequestContext<'_>, proven: &Proven, name: &str, form: &Params) -> Result<Response, Failure> {
    let relying_party = relying_party(ctx).ok_or_else(|| Failure::page(Problem::InvalidRequest))?;
    let typed = form.one("name")?.unwrap_or_default();
    let Some(credential_json) = form.one("credential")? else {
        return show_passkey(ctx, proven, name, typed, None).await;
    };
    let store = &ctx.sealgate.store;
    let Some(waiting) = proven.pending.value.passkey() else {
        return show_passkey(ctx, proven, name, typed, Some(EnrolProblem::Expired)).await;
    };
    // The challenge is used up even if the response is invalid.
    let used = store.change_registration(&proven.pending, &proven.pending.value.with_passkey(None)).await?;
    if used == Committed::Conflict {
        return show_passkey(ctx, proven, name, typed, Some(EnrolProblem::Expired)).await;
    }
    let challenge = CeremonyChallenge::from_random(waiting.challenge);
    let credential = match verified(&relying_party, &challenge, CredentialKind::Passkey, credential_json) {
        Ok(credential) => credential,
        Err(error) => {
            tracing::info!(%error, "refused a passkey for a new account");
            return show_passkey(ctx, proven, name, typed, Some(refusal(error))).await;
        }
    };
    if store.owner_of_credential(&credential.id).await?.is_some() {
        return show_passkey(ctx, proven, name, typed, Some(EnrolProblem::KeyKnown)).await;
    }
    let subject = Subject::from_random(ctx.random());
    let mut factors = Factors::none(subject, UserHandle::from_random(waiting.handle));
    let key_name = new_factor_name(ctx, &factors, Some(&credential), typed);
    let id = factors.add_key(&key_name, credential, ctx.now);
    let enrolled = Enrolled { id, kind: FactorKind::Passkey, name: key_name, factors: Box::new(factors) };
    create(ctx, proven, name, subject, Chosen::Passkey(enrolled)).await
}

/// Creates the account and removes the pending registration in one commit. If two users have proven
/// the same address, only one gets the account.
async fn create(
    ctx: &RequestContext<'_>,
    proven: &Proven,
    name: &str,
    subject: Subject,
    chosen: Chosen,
) -> Result<Response, Failure> {
    let (password, factors) = match &chosen {
        Chosen::Password(hash) => (Some(hash.clone()), None),
        Chosen::Passkey(enrolled) => (None, Some(&*enrolled.factors)),
    };
    let user = User {
        sub: subject,
        email: Some(proven.pending.value.address.clone()),
        username: None,
        email_verified: true,
        name: name.to_owned(),
        phone_number: None,
        picture: None,
        // An administrator assigns the roles and groups that applications need.
        roles: [].into(),
        groups: [].into(),
        password,
        source: None,
        state: UserState::Enabled,
        created_at: ctx.now,
        updated_at: ctx.now,
        audit_filters: Vec::new(),
        by_manager: ManagerDecisions::default(),
    };
    let (store, registering) = (&ctx.sealgate.store, &proven.registering);
    for _ in 0..MAX_TRIES {
        let pending = find(ctx, registering).await?;
        if let Some(pending) = &pending
            && store.finish_registration(pending, &user, factors).await? == Committed::Yes
        {
            return created(ctx, registering, user, &chosen).await;
        }
        if store.user_by_email(&proven.pending.value.address).await?.is_some() {
            return registering.report_taken_address(ctx, pending.as_ref().unwrap_or(&proven.pending)).await;
        }
        if pending.is_none() {
            return Ok(registering.over(ctx));
        }
    }
    Err(Failure::Unavailable)
}

/// Continues the sign-in that the user had begun.
async fn created(
    ctx: &RequestContext<'_>,
    registering: &Registering,
    user: User,
    chosen: &Chosen,
) -> Result<Response, Failure> {
    let waiting = &registering.waiting;
    let (steps, detail, factors) = match chosen {
        Chosen::Password(_) => (SignIn::by_password(user.sub, ctx.now).steps, "password".to_owned(), None),
        Chosen::Passkey(enrolled) => {
            (AuthenticationSteps::from_step(enrolled.step(ctx.now)), enrolled.detail(), Some(&*enrolled.factors))
        }
    };
    let event = ctx.event(AuditKind::SelfRegistered, Actor::User).for_subject(user.sub).with_client(&waiting.client.id);
    ctx.sealgate.audit.note(event.with_detail(detail));
    ctx.sealgate.metrics.registered(RegistrationOutcome::Created);
    let credentials = CredentialMark::for_user(&user, factors.map_or(0, |factors| factors.generation));
    let proof = Proof { user, steps, credentials, is_step_up: false, keep: false, upstream: None };
    let proceeded = sign_in::proceed(ctx, waiting, proof, factors).await?;
    Ok(proceeded.respond_or_begin_again(ctx, waiting).with_cookie(expired_registration_cookie(ctx)))
}

fn show_password(
    ctx: &RequestContext<'_>,
    proven: &Proven,
    name: &str,
    problem: Option<NewPasswordProblem>,
    name_is_wrong: bool,
) -> Response {
    let or_passkey = relying_party(ctx).is_some();
    let choice = CredentialChoice::Password { or_passkey, has_focus: false, problem };
    let page = page(ctx, proven, name, name_is_wrong, choice);
    // The form's response may redirect to the application immediately.
    let then = proven.registering.waiting.then();
    if problem == Some(NewPasswordProblem::Busy) {
        return Response::page(StatusCode::SERVICE_UNAVAILABLE, page, then.as_deref()).retry_after(1);
    }
    Response::page(StatusCode::OK, page, then.as_deref())
}

/// Shows the page and begins a WebAuthn ceremony.
///
/// This function writes to the store, so call it only for a request that sent a form.
async fn show_passkey(
    ctx: &RequestContext<'_>,
    proven: &Proven,
    name: &str,
    key_name: &str,
    problem: Option<EnrolProblem>,
) -> Result<Response, Failure> {
    let relying_party = relying_party(ctx).ok_or(Failure::Unavailable)?;
    let fresh = PendingPasskey { challenge: ctx.random(), handle: ctx.random() };
    for _ in 0..MAX_TRIES {
        let Some(pending) = find(ctx, &proven.registering).await? else { return Ok(proven.registering.over(ctx)) };
        let next = pending.value.with_passkey(Some(fresh));
        if ctx.sealgate.store.change_registration(&pending, &next).await? == Committed::Conflict {
            continue;
        }
        let user = UserEntity {
            id: UserHandle::from_random(fresh.handle),
            name: pending.value.address.as_str().to_owned(),
            display_name: name.to_owned(),
        };
        let challenge = CeremonyChallenge::from_random(fresh.challenge);
        let options = key_options(ctx, &relying_party, user, &challenge, CredentialKind::Passkey, &[])?;
        let choice = CredentialChoice::Passkey { options: &options, name: key_name, problem };
        let then = proven.registering.waiting.then();
        return Ok(Response::page(StatusCode::OK, page(ctx, proven, name, false, choice), then.as_deref()));
    }
    Err(Failure::Unavailable)
}

fn page(
    ctx: &RequestContext<'_>,
    proven: &Proven,
    person_name: &str,
    name_is_wrong: bool,
    choice: CredentialChoice<'_>,
) -> String {
    html(&NewAccountPage {
        frame: ctx.frame(),
        action: &proven.registering.waiting.address(ctx, FINISH),
        csrf: &proven.registering.csrf(FINISH),
        address: proven.pending.value.address.as_str(),
        person_name,
        name_is_wrong,
        choice,
    })
}
