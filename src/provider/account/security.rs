//! `/account/security`: the user's second factors, passkeys and recovery codes.
//!
//! An attacker at an open browser could add a factor of their own. Each change therefore requires a
//! recent sign-in at the highest level that the user can reach.

use std::time::Duration;

use http::{Method, StatusCode};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::account::linking;
use crate::request::ProviderRequest as _;
use crate::sign_in::enrolment;
use crate::sign_in::enrolment::{CONFIRMATION_TIMEOUT, Enrolled, Enrolling};
use crate::sign_in::passkey::relying_party;
use crate::submission::Effect;
use crate::visitor::Visitor;
use crate::{sign_in, submission, visitor};
use sealgate_config::EnrolmentChoice;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::assurance::{AssuranceLevel, AssuranceRequirement, FactorId, RecoveryCodeWorth};
use sealgate_domain::audit::AuditKind;
use sealgate_domain::factors::{FactorKind, FactorOrigin, Factors, KeyFactor, TotpFactor, factor_name};
use sealgate_domain::secret::base64url;
use sealgate_domain::user::User;
use sealgate_domain::webauthn::UserHandle;
use sealgate_pages::{
    AddFactorPage, AppEnrolment, Done, EnrolProblem, EnrolStep, FactorLine, FactorSettingsPage, KeyEnrolment,
    MakeCodesPage, PasskeySignals, Problem, RecoveryState, SecurityPage, SecurityProblem, html,
};
use sealgate_store::{FactorsChanged, Store};

pub(super) const PAGE: &str = "/account/security";
const ADD_APP: &str = "/account/security/app";
const ADD_KEY: &str = "/account/security/key";
const CODES: &str = "/account/security/codes";

/// Maximum age of the sign-in when the user starts a change.
pub(super) const MAX_AGE_TO_CHANGE: Duration = Duration::from_mins(5);

/// Maximum age of the sign-in when the user finishes a change in the same session.
///
/// A started enrolment expires earlier, after [`CONFIRMATION_TIMEOUT`].
pub(super) const MAX_AGE_TO_FINISH: Duration =
    Duration::from_secs(MAX_AGE_TO_CHANGE.as_secs() + CONFIRMATION_TIMEOUT.as_secs());

pub(super) async fn security_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    show(ctx, &Visitor::find(ctx, PAGE).await?, None).await
}

/// Handles `/account/security/app`.
pub(super) async fn add_app(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if !ctx.sealgate.store.can_encrypt() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if ctx.head.method != Method::POST {
        let visitor = Visitor::recent(ctx, ADD_APP, MAX_AGE_TO_CHANGE).await?;
        may_add(ctx, &visitor.user).await?;
        return show_app(ctx, &visitor, "", None).await;
    }
    let visitor = Visitor::recent(ctx, ADD_APP, MAX_AGE_TO_FINISH).await?;
    may_add(ctx, &visitor.user).await?;
    let form = visitor.form(ctx, ADD_APP)?;
    let name = form.one("name")?.unwrap_or_default();
    let code = form.one("code")?.unwrap_or_default();
    match enrolling(ctx, &visitor).confirm_app(code, name).await? {
        Ok(enrolled) => added(ctx, visitor, &enrolled).await,
        Err(problem) => {
            // The page shows a new secret. A new secret requires a recent sign-in, like the first
            // secret.
            let visitor = match problem {
                EnrolProblem::Expired => Visitor::recent(ctx, ADD_APP, MAX_AGE_TO_CHANGE).await?,
                _ => visitor,
            };
            show_app(ctx, &visitor, name, Some(problem)).await
        }
    }
}

/// Handles `/account/security/key`.
pub(super) async fn add_key(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if relying_party(ctx).is_none() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if ctx.head.method != Method::POST {
        let visitor = Visitor::recent(ctx, ADD_KEY, MAX_AGE_TO_CHANGE).await?;
        may_add(ctx, &visitor.user).await?;
        return show_key(ctx, &visitor, "", None).await;
    }
    let visitor = Visitor::recent(ctx, ADD_KEY, MAX_AGE_TO_FINISH).await?;
    may_add(ctx, &visitor.user).await?;
    let form = visitor.form(ctx, ADD_KEY)?;
    let name = form.one("name")?.unwrap_or_default();
    let answer = form.one("credential")?.unwrap_or_default();
    match enrolling(ctx, &visitor).confirm_key(enrolment::kind_of(&form)?, answer, name).await? {
        Ok(enrolled) => added(ctx, visitor, &enrolled).await,
        Err(problem) => {
            // The attempt used up the challenge. A new challenge requires a recent sign-in, like
            // the first challenge.
            let visitor = Visitor::recent(ctx, ADD_KEY, MAX_AGE_TO_CHANGE).await?;
            show_key(ctx, &visitor, name, Some(problem)).await
        }
    }
}

/// Returns whether the user may add factors on this page.
///
/// A user without factors may not add one here if an administrator has to send an enrolment link.
/// Such a user has proven only the password, which an attacker may have stolen.
fn adds_here(ctx: &RequestContext<'_>, factors: Option<&Factors>) -> bool {
    let has_any = factors.is_some_and(Factors::has_any);
    let is_reset = factors.is_some_and(|factors| factors.reset.is_some());
    has_any || (!is_reset && ctx.sealgate.config.factors.enrolment == EnrolmentChoice::InSignIn)
}

/// Returns whether the home page offers to add a passkey: the user has no passkey and may add one.
///
/// The offer is only a link. The browser does not create a passkey silently after a sign-in with a
/// password; see docs/decisions/0036-passkeys-are-added-by-the-user.md.
pub(super) async fn offers_passkey(ctx: &RequestContext<'_>, user: &User) -> Result<bool, Failure> {
    if relying_party(ctx).is_none() {
        return Ok(false);
    }
    let factors = factors(ctx, user).await?;
    let has_room = factors.as_ref().is_none_or(|factors| factors.has_room_for_key() && !factors.has_passkey());
    Ok(has_room && adds_here(ctx, factors.as_ref()))
}

pub(super) async fn may_add(ctx: &RequestContext<'_>, user: &User) -> Result<(), Failure> {
    let factors = factors(ctx, user).await?;
    let refused = Failure::Page(StatusCode::FORBIDDEN, Problem::FactorsReset);
    if adds_here(ctx, factors.as_ref()) { Ok(()) } else { Err(refused) }
}

/// Handles `/account/security/factor`, where the user renames or removes one factor.
pub(super) async fn settings(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::recent(ctx, PAGE, MAX_AGE_TO_CHANGE).await?;
    if ctx.head.method != Method::POST {
        let factors = factors(ctx, &visitor.user).await?;
        let id = ctx.query()?.one("id")?.and_then(FactorId::parse);
        let lines = factor_lines(factors.as_ref());
        let Some(line) = lines.iter().find(|line| Some(line.id) == id) else {
            // The user has removed the factor in another tab.
            return Err(Failure::Redirect(ctx.path(PAGE)));
        };
        let csrf = &visitor.csrf(ctx, PAGE);
        let page = FactorSettingsPage { inside: visitor.inside(ctx), csrf, factor: *line, is_last: lines.len() == 1 };
        return Ok(Response::page(StatusCode::OK, html(&page), None));
    }
    let form = visitor.form(ctx, PAGE)?;
    let id = form.one("factor")?.and_then(FactorId::parse).ok_or(Failure::page(Problem::InvalidRequest))?;
    if form.has("remove") {
        return remove(ctx, &visitor, id).await;
    }
    let typed = form.one("name")?.unwrap_or_default();
    let changed = change(ctx, &visitor, |factors| {
        let name = factor_name(typed, factors.name_of(id)?);
        let kind = kind_of(factors, id)?;
        factors.rename(id, &name).then(|| format!("{} {name}", kind.as_str()))
    });
    if let Some(detail) = changed.await? {
        ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::FactorRenamed).with_detail(detail));
    }
    Ok(Response::see_other(&visitor::done(ctx, PAGE, Done::FactorRenamed)))
}

/// Handles `/account/security/codes`.
pub(super) async fn codes(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    // A form that was sent in time redirects here. The page must then show the new codes, even if
    // the sign-in has become older than `MAX_AGE_TO_CHANGE`.
    let most = if submission::is_awaited(ctx) { MAX_AGE_TO_FINISH } else { MAX_AGE_TO_CHANGE };
    let visitor = Visitor::recent(ctx, CODES, most).await?;
    let before = factors(ctx, &visitor.user).await?;
    if !ctx.sealgate.store.can_encrypt() {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if !before.as_ref().is_some_and(|factors| factors.may_have_recovery_codes(&visitor.user)) {
        return Err(Failure::Redirect(ctx.path(PAGE)));
    }
    if ctx.head.method != Method::POST {
        let result = submission::take_result(ctx, &visitor, CODES).await?;
        if let Some(codes) = result.secret() {
            return Ok(enrolment::recovery_codes_page(ctx, &visitor.user, codes, &ctx.path(PAGE), None));
        }
        let (csrf, replaces) = (visitor.csrf(ctx, CODES), before.is_some_and(|factors| factors.recovery.is_some()));
        let inside = submission::with_hint(visitor.inside(ctx), Some(&result));
        let page = MakeCodesPage { inside, csrf: &csrf, replaces };
        return Ok(Response::page(StatusCode::OK, html(&page), None));
    }
    let form = visitor.form(ctx, CODES)?;
    let work = Box::pin(async {
        let Some(codes) = enrolment::new_recovery_codes(ctx, &ctx.sealgate.store, &visitor.user).await? else {
            return Err(Failure::Redirect(ctx.path(PAGE)));
        };
        ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::RecoveryCodesMade));
        Ok(Effect::Done { page: CODES.to_owned(), secret: Some(codes) })
    });
    submission::once(ctx, &visitor, &form, work).await
}

async fn remove(ctx: &RequestContext<'_>, visitor: &Visitor, id: FactorId) -> Result<Response, Failure> {
    let demanded = demanded(ctx, &visitor.user);
    let removed = change(ctx, visitor, |factors| {
        let mut next = factors.clone();
        let Some(removed) = next.remove(id) else { return Ok(None) };
        check_removal(&visitor.user, demanded, factors, &next)?;
        *factors = next;
        Ok(Some(removed))
    });
    match removed.await? {
        Err(problem) => show(ctx, visitor, Some(problem)).await,
        Ok(removed) => {
            // If the factor is already removed, the request succeeds without an audit event.
            if let Some((kind, name)) = removed {
                let event = visitor.event(ctx, AuditKind::FactorRemoved);
                ctx.sealgate.audit.note(event.with_detail(format!("{} {name}", kind.as_str())));
            }
            Ok(Response::see_other(&visitor::done(ctx, PAGE, Done::FactorRemoved)))
        }
    }
}

/// Returns the level that the user must be able to reach.
///
/// This is the higher one of two levels: the level that `[factors]` demands, and the highest level
/// that an application demands of this user.
fn demanded(ctx: &RequestContext<'_>, user: &User) -> AssuranceLevel {
    let config = &ctx.sealgate.config;
    config.apps.iter().map(|app| app.level_for(user)).fold(config.factors.level_for(user), AssuranceLevel::max)
}

/// Checks whether the user can sign in with the factors that remain after a removal.
///
/// A user without a password must keep a passkey. A removal must not lower the user's reachable
/// level below `demanded`. If the level stays the same, the removal is allowed even below
/// `demanded`, so that lost factors can be removed.
fn check_removal(
    user: &User,
    demanded: AssuranceLevel,
    before: &Factors,
    after: &Factors,
) -> Result<(), SecurityProblem> {
    if !user.has_password() && before.has_passkey() && !after.has_passkey() {
        return Err(SecurityProblem::LastPasskey);
    }
    let (had, has) = (before.reachable(user), after.reachable(user));
    if has < demanded && has < had { Err(SecurityProblem::Demanded) } else { Ok(()) }
}

fn enrolling<'a, 'c>(ctx: &'a RequestContext<'c>, visitor: &'a Visitor) -> Enrolling<'a, 'c> {
    let session = visitor.session.value.under_its_cookie();
    let origin = FactorOrigin::from_text(&format!("session {}", base64url(session.as_bytes())));
    Enrolling { ctx, store: Store::clone(&ctx.sealgate.store), user: &visitor.user, origin }
}

/// Records the new factor and counts it as a step of the sign-in. A user without recovery codes then
/// gets the page that makes them.
///
/// The user has just presented the factor, so the next page does not ask for it again.
async fn added(ctx: &RequestContext<'_>, visitor: Visitor, enrolled: &Enrolled) -> Result<Response, Failure> {
    ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::FactorAdded).with_detail(enrolled.detail()));
    let lacks_codes = matches!(recovery(&visitor.user, Some(&enrolled.factors)), RecoveryState::None);
    // The page that makes codes would ask a user for another sign-in who took longer.
    let recent = AssuranceRequirement {
        level: AssuranceLevel::One,
        max_age: Some(MAX_AGE_TO_CHANGE),
        recovery_codes: RecoveryCodeWorth::LostFactor,
    };
    let is_recent = recent.judge(&visitor.sign_in.steps, ctx.now).is_ok();
    let next = if lacks_codes && is_recent && ctx.sealgate.store.can_encrypt() { CODES } else { PAGE };
    let cookie = sign_in::step_up(ctx, visitor.session, &visitor.sign_in, enrolled.step(ctx.now)).await?;
    let response = Response::see_other(&visitor::done(ctx, next, Done::FactorAdded));
    Ok(cookie.into_iter().fold(response, Response::with_cookie))
}

async fn show_app(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    name: &str,
    problem: Option<EnrolProblem>,
) -> Result<Response, Failure> {
    let enrolling = enrolling(ctx, visitor);
    let secret = enrolling.app().await?;
    let (grouped, uri) = (secret.grouped(), enrolling.uri(&secret));
    let app = AppEnrolment { secret: grouped.expose(), uri: uri.expose_secret(), name, problem };
    let csrf = &visitor.csrf(ctx, ADD_APP);
    let page =
        AddFactorPage { inside: visitor.inside(ctx), action: &ctx.path(ADD_APP), csrf, enrolment: EnrolStep::App(app) };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

async fn show_key(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    name: &str,
    problem: Option<EnrolProblem>,
) -> Result<Response, Failure> {
    let options = enrolling(ctx, visitor).key().await?;
    let key = KeyEnrolment { security_key: &options.security_key, passkey: &options.passkey, name, problem };
    let csrf = &visitor.csrf(ctx, ADD_KEY);
    let page =
        AddFactorPage { inside: visitor.inside(ctx), action: &ctx.path(ADD_KEY), csrf, enrolment: EnrolStep::Key(key) };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

async fn show(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    problem: Option<SecurityProblem>,
) -> Result<Response, Failure> {
    let factors = factors(ctx, &visitor.user).await?;
    let inside = visitor.inside(ctx);
    let signals = factors.as_ref().and_then(|factors| signals(ctx, &visitor.user, factors));
    // After a removal, tell the browser to stop offering the removed passkey.
    let tells = inside.done == Some(Done::FactorRemoved);
    let adds = adds_here(ctx, factors.as_ref());
    let page = SecurityPage {
        inside,
        factors: &factor_lines(factors.as_ref()),
        recovery: recovery(&visitor.user, factors.as_ref()),
        takes_apps: adds && ctx.sealgate.store.can_encrypt() && factors.as_ref().is_none_or(Factors::has_room_for_app),
        takes_keys: adds && relying_party(ctx).is_some() && factors.as_ref().is_none_or(Factors::has_room_for_key),
        signals: signals
            .as_ref()
            .map(|(accepted, details)| PasskeySignals { accepted: tells.then_some(accepted.as_str()), details }),
        linked: &linking::linked_accounts(ctx, &visitor.user),
        problem,
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

pub(super) async fn factors(ctx: &RequestContext<'_>, user: &User) -> Result<Option<Factors>, Failure> {
    Ok(ctx.sealgate.store.factors(user.sub).await?.map(|loaded| loaded.value))
}

async fn change<T: Send>(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    change: impl FnMut(&mut Factors) -> T + Send,
) -> Result<T, Failure> {
    let handle = UserHandle::from_random(ctx.random());
    match ctx.sealgate.store.change_factors(visitor.user.sub, handle, change).await? {
        FactorsChanged::Yes(result, _) => Ok(result),
        // Unreachable, because the change adds no credential.
        FactorsChanged::CredentialTaken => Err(Failure::Internal),
    }
}

fn kind_of(factors: &Factors, id: FactorId) -> Option<FactorKind> {
    let key = factors.keys.iter().find(|key| key.id == id).map(KeyFactor::kind);
    key.or_else(|| factors.totp.iter().any(|app| app.id == id).then_some(FactorKind::Totp))
}

fn recovery(user: &User, factors: Option<&Factors>) -> RecoveryState {
    let Some(factors) = factors.filter(|factors| factors.may_have_recovery_codes(user)) else {
        return RecoveryState::Unavailable;
    };
    factors.recovery.as_ref().filter(|codes| codes.unused() > 0).map_or(RecoveryState::None, |codes| {
        RecoveryState::Left { count: codes.unused() as u64, few: codes.are_few(), made_at: codes.created_at }
    })
}

/// Returns the arguments of the WebAuthn signal methods for the browser's passkey store: all
/// accepted credentials, and the user's details.
fn signals(ctx: &RequestContext<'_>, user: &User, factors: &Factors) -> Option<(String, String)> {
    let relying_party = relying_party(ctx)?;
    let (rp_id, user_id) = (relying_party.id(), factors.handle.to_string());
    let ids: Vec<String> = factors.keys.iter().map(|key| key.credential.id.to_string()).collect();
    let accepted = json!({ "rpId": rp_id, "userId": user_id, "allAcceptedCredentialIds": ids });
    let details = json!({ "rpId": rp_id, "userId": user_id, "name": user.sign_in_name(), "displayName": user.name });
    Some((accepted.to_string(), details.to_string()))
}

/// Returns the factors in the order in which they were added.
pub(crate) fn factor_lines(factors: Option<&Factors>) -> Vec<FactorLine<'_>> {
    let Some(factors) = factors else { return Vec::new() };
    let mut lines: Vec<_> = factors.totp.iter().map(of_app).chain(factors.keys.iter().map(of_key)).collect();
    lines.sort_by_key(|line| line.added_at);
    lines
}

fn of_app(app: &TotpFactor) -> FactorLine<'_> {
    let (added_at, last_used_at) = (app.added_at, app.last_used_at);
    FactorLine { id: app.id, kind: FactorKind::Totp, is_synced: None, name: &app.name, added_at, last_used_at }
}

fn of_key(key: &KeyFactor) -> FactorLine<'_> {
    let is_synced = Some(key.credential.backup.is_eligible());
    let (added_at, last_used_at) = (key.added_at, key.last_used_at);
    FactorLine { id: key.id, kind: key.kind(), is_synced, name: &key.name, added_at, last_used_at }
}
