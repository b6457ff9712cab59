//! `/oauth/login`: the user signs in with a password. [`sign_in::proceed`] then decides the next
//! step.
//!
//! A wrong password and an unknown address or username get the same response in the same time.
//! Guesses are counted before any hashing; see [`Guesses`].

use std::sync::Arc;

use http::{Method, StatusCode};
use secrecy::SecretString;

use crate::links::{create_account, reset};
use crate::request::ProviderRequest as _;
use crate::sign_in;
use crate::sign_in::guesses::Guesses;
use crate::sign_in::interaction::{PARAMETER, Waiting};
use crate::sign_in::passkey::relying_party;
use crate::sign_in::{Proceeded, Proof, SIGN_IN, guesses, upstream};
use sealgate_config::UpstreamSettings;
use sealgate_core::password;
use sealgate_core::password::QueueKey;
use sealgate_core::sources::{
    DirectorySource, DirectoryUnavailable, LdapRefusal, OpenIdSource, PasswordChecker, SourceSignIn,
};
use sealgate_core::state::Sealgate;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::oauth::next_step::CredentialMark;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::session::{KeepSignedIn, SignIn};
use sealgate_domain::source::SourceName;
use sealgate_domain::upstream_trip::{UpstreamProblem, UpstreamTrip};
use sealgate_domain::user::{PasswordHash, User};
use sealgate_domain::webauthn::RequestOptions;
use sealgate_pages::{LoginPage, LoginProblem, PasskeyOffer, Problem, UpstreamButton, UpstreamFailure, html};
use sealgate_system::metrics::SignInOutcome;

/// Form field with the user's choice to stay signed in on the device.
pub(super) const KEEP: &str = "keep";

/// Input that the sign-in page shows again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Typed<'a> {
    pub(super) email: &'a str,
    /// Whether the user chose to stay signed in on the device. Only a submitted form can set it.
    pub(super) keep: bool,
}

pub(crate) async fn login_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        return begin(ctx).await;
    }
    let waiting = Waiting::find_at_any_time(ctx).await?;
    let form = waiting.form(ctx, SIGN_IN)?;
    // Accept a form whose pending request has expired, and replace that request. The CSRF token has
    // proven that this browser showed the form.
    let waiting = waiting.in_time(ctx).await?;
    let typed = Typed { email: form.one("email")?.unwrap_or_default().trim(), keep: form.has(KEEP) };
    if let Some(source) = upstream_of(ctx, &form, typed.email)? {
        return upstream::leave(ctx, waiting, source, typed).await;
    }
    let password = form.one("password")?;
    if password.is_none() && has_name_step(ctx)? {
        return show_login(ctx, &waiting, StatusCode::OK, typed, None);
    }
    let password = SecretString::from(password.unwrap_or_default());
    let user = ctx.sealgate.store.user_by_sign_in_name(typed.email).await?;
    let known_browser = guesses::find_known_browser(ctx, user.as_ref()).await?;
    let mut guesses = match Guesses::at_sign_in(ctx, typed.email, known_browser.as_ref()).await {
        Ok(Ok(guesses)) => guesses,
        Err(Failure::Unavailable) => return busy(ctx, &waiting, typed),
        Err(other) => return Err(other),
        Ok(Err(seconds)) => return throttled(ctx, &waiting, typed, user.as_ref(), seconds),
    };
    match check_password(ctx, &mut guesses, user.as_ref(), typed.email, password).await {
        Ok(PasswordCheck::Correct(user)) => {
            guesses.give_back(ctx);
            let sub = user.sub;
            let proven = proceed_by_password(ctx, &waiting, *user, typed.keep).await?;
            if let Some(response) = proven.respond(ctx, &waiting) {
                return Ok(response);
            }
            let user = ctx.sealgate.store.user(sub).await?;
            wrong(ctx, &waiting, typed, user.as_ref())
        }
        Ok(PasswordCheck::Wrong) => wrong(ctx, &waiting, typed, user.as_ref()),
        Ok(PasswordCheck::Refused(problem)) => {
            guesses.give_back(ctx);
            ctx.sealgate.metrics.signed_in(SignInOutcome::Failed);
            failed(ctx, &waiting, user.as_ref(), "refused by the directory");
            show_login(ctx, &waiting, StatusCode::OK, typed, Some(problem))
        }
        // The guess stays counted for the sender and the typed name.
        Ok(PasswordCheck::Throttled { seconds }) => throttled(ctx, &waiting, typed, user.as_ref(), seconds),
        Ok(PasswordCheck::DirectoryAway) => {
            guesses.give_back(ctx);
            directory_away(ctx, &waiting, typed)
        }
        // The guess stays counted, because the password was checked.
        Ok(PasswordCheck::WrongWhileAway) => {
            ctx.sealgate.metrics.signed_in(SignInOutcome::Failed);
            failed(ctx, &waiting, user.as_ref(), "wrong");
            directory_away(ctx, &waiting, typed)
        }
        Err(Failure::Unavailable) => {
            guesses.give_back(ctx);
            busy(ctx, &waiting, typed)
        }
        Err(other) => Err(other),
    }
}

/// Handles a GET: shows the sign-in page, or sends the browser to the only OpenID provider.
async fn begin(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    // The address for an emergency names no pending request.
    if is_local(ctx)? && !ctx.query()?.has(PARAMETER) {
        return Ok(Response::see_other(&ctx.sign_in_address("/account", &[(LOCAL, "yes"), ("prompt", "login")])));
    }
    let waiting = Waiting::find(ctx).await?;
    let failure = match &waiting.interaction().upstream {
        Some(UpstreamTrip::Failed { problem, .. }) => Some(*problem),
        _ => None,
    };
    if let Some(source) = only_upstream(ctx)?.filter(|_| failure.is_none()) {
        return upstream::leave(ctx, waiting, source, Typed { email: "", keep: false }).await;
    }
    let email = waiting.interaction().request.login_hint.as_deref().unwrap_or_default();
    let status = match failure {
        None => StatusCode::OK,
        Some(UpstreamProblem::Unavailable) => StatusCode::SERVICE_UNAVAILABLE,
        Some(_) => StatusCode::FORBIDDEN,
    };
    let page = show_login(ctx, &waiting, status, Typed { email, keep: false }, None)?;
    Ok(if status == StatusCode::SERVICE_UNAVAILABLE { page.retry_after(DIRECTORY_RETRY_SECONDS) } else { page })
}

/// Query parameter of the sign-in page with fields for a password, if all other users sign in at one
/// OpenID provider. It is also a parameter of the authorization request of such a sign-in.
pub(crate) const LOCAL: &str = "local";

/// Returns whether the request is for the sign-in page with fields for a password.
fn is_local(ctx: &RequestContext<'_>) -> Result<bool, Failure> {
    Ok(ctx.query()?.has(LOCAL))
}

/// Returns the OpenID provider at which all users sign in, unless the request is for the page with
/// fields for a password.
fn only_upstream<'a>(ctx: &RequestContext<'a>) -> Result<Option<&'a OpenIdSource>, Failure> {
    let sealgate: &'a Sealgate = ctx.sealgate;
    let is_local = is_local(ctx)?;
    let name = sealgate.config.login.only_upstream.as_ref().filter(|_| !is_local);
    Ok(name.and_then(|name| sealgate.sources.upstream(name)).map(Arc::as_ref))
}

/// Returns the OpenID provider at which the sender of the form signs in: the one whose button was
/// pressed, or the one that is responsible for the domain of the typed name. `None` if the password
/// is checked here or in a directory.
fn upstream_of<'a>(ctx: &RequestContext<'a>, form: &Params, typed: &str) -> Result<Option<&'a OpenIdSource>, Failure> {
    let sealgate: &'a Sealgate = ctx.sealgate;
    if let Some(name) = form.one("upstream")? {
        let source = SourceName::parse(name).and_then(|name| sealgate.sources.upstream(&name));
        return source.map(|source| Some(source.as_ref())).ok_or_else(|| Failure::page(Problem::InvalidRequest));
    }
    if is_local(ctx)? {
        return Ok(None);
    }
    let of_domain = sealgate.sources.upstream_for_domain(typed).map(Arc::as_ref);
    Ok(of_domain.or(only_upstream(ctx)?))
}

/// Returns whether users enter their name first, and the password on the next page: an OpenID provider is
/// responsible for the users of a domain, and they have no password here.
fn has_name_step(ctx: &RequestContext<'_>) -> Result<bool, Failure> {
    let has_domains = || ctx.sealgate.sources.upstreams().iter().any(|source| source.settings().has_domains());
    Ok(!is_local(ctx)? && has_domains())
}

/// Seconds after which a browser may repeat a sign-in that a directory did not decide.
const DIRECTORY_RETRY_SECONDS: u64 = 10;

/// Returns the page for a guess that exceeds a limit. The password was not checked.
fn throttled(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    typed: Typed<'_>,
    user: Option<&User>,
    seconds: u64,
) -> Result<Response, Failure> {
    failed(ctx, waiting, user, "throttled");
    ctx.sealgate.metrics.signed_in(SignInOutcome::Throttled);
    let problem = LoginProblem::Throttled { seconds };
    let page = show_login(ctx, waiting, StatusCode::TOO_MANY_REQUESTS, typed, Some(problem))?;
    Ok(page.retry_after(seconds))
}

/// Returns the page for a name that a directory would check, which does not answer.
fn directory_away(ctx: &RequestContext<'_>, waiting: &Waiting, typed: Typed<'_>) -> Result<Response, Failure> {
    let problem = Some(LoginProblem::DirectoryAway);
    let page = show_login(ctx, waiting, StatusCode::SERVICE_UNAVAILABLE, typed, problem)?;
    Ok(page.retry_after(DIRECTORY_RETRY_SECONDS))
}

/// Returns the page for a password that could not be checked now.
fn busy(ctx: &RequestContext<'_>, waiting: &Waiting, typed: Typed<'_>) -> Result<Response, Failure> {
    let page = show_login(ctx, waiting, StatusCode::SERVICE_UNAVAILABLE, typed, Some(LoginProblem::Busy))?;
    Ok(page.retry_after(1))
}

fn wrong(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    typed: Typed<'_>,
    user: Option<&User>,
) -> Result<Response, Failure> {
    ctx.sealgate.metrics.signed_in(SignInOutcome::Failed);
    failed(ctx, waiting, user, "wrong");
    show_login(ctx, waiting, StatusCode::OK, typed, Some(LoginProblem::WrongCredentials))
}

/// Records a failed sign-in in the audit log, with the user if there is one.
///
/// The typed name is not stored, because users may type a password into the wrong field.
fn failed(ctx: &RequestContext<'_>, waiting: &Waiting, user: Option<&User>, why: &str) {
    let event = ctx.event(AuditKind::SignInFailed, Actor::Stranger).with_client(&waiting.client.id).with_detail(why);
    ctx.sealgate.audit.note(user.into_iter().fold(event, |event, user| event.for_subject(user.sub)));
}

/// Result of checking a password.
enum PasswordCheck {
    Correct(Box<User>),
    /// The user is unknown or disabled, or the password is wrong.
    Wrong,
    /// The password is correct, but the user cannot sign in, for this reason.
    Refused(LoginProblem),
    /// The directory did not check the password.
    DirectoryAway,
    /// The password of a local user is wrong, and the directory that checks all similar names does
    /// not answer. The response must not reveal which names are local.
    WrongWhileAway,
    /// There were too many guesses for the user, with different names. The password was not checked.
    Throttled {
        seconds: u64,
    },
}

/// Checks the password, here or at a directory.
async fn check_password(
    ctx: &RequestContext<'_>,
    guesses: &mut Guesses,
    user: Option<&User>,
    typed: &str,
    password: SecretString,
) -> Result<PasswordCheck, Failure> {
    let user = match ctx.sealgate.sources.checker(user, typed) {
        PasswordChecker::Local => user,
        PasswordChecker::Directory(source) => return check_at_directory(ctx, source, guesses, typed, &password).await,
        PasswordChecker::Nobody => None,
    };
    // Without an enabled account, the same work is done with a dummy hash that no password matches.
    let user = user.filter(|user| user.is_enabled());
    let hash = user.and_then(|user| user.password.as_ref());
    let right = ctx.sealgate.passwords.verify(guesses.queue(ctx), hash, password.clone()).await?;
    if let Some(user) = user.filter(|_| right) {
        return Ok(PasswordCheck::Correct(Box::new(rehash(ctx, user, password).await)));
    }
    // Other names in this domain are checked by a directory.
    if let PasswordChecker::Directory(source) = ctx.sealgate.sources.checker(None, typed)
        && let Err(DirectoryUnavailable) = ctx.sealgate.ask_for_no_user(source, guesses.queue(ctx)).await
    {
        return Ok(PasswordCheck::WrongWhileAway);
    }
    Ok(PasswordCheck::Wrong)
}

async fn check_at_directory(
    ctx: &RequestContext<'_>,
    source: &DirectorySource,
    guesses: &mut Guesses,
    typed: &str,
    password: &SecretString,
) -> Result<PasswordCheck, Failure> {
    let queue = guesses.queue(ctx);
    let found = match ctx.sealgate.find_at(source, queue, typed, password).await {
        Ok(Some(found)) => found,
        Ok(None) => return wrong_at_directory(ctx, queue, password).await,
        Err(DirectoryUnavailable) => return Ok(PasswordCheck::DirectoryAway),
    };
    if let Some(link) = found.link()
        && let Err(seconds) = guesses.count_directory_user(ctx, &link).await?
    {
        return Ok(PasswordCheck::Throttled { seconds });
    }
    let event = |kind| ctx.event(kind, Actor::Server);
    Ok(match ctx.sealgate.verify_at(found, event).await? {
        SourceSignIn::User(user) => PasswordCheck::Correct(user),
        SourceSignIn::Wrong | SourceSignIn::Absent | SourceSignIn::OtherOrigin => {
            return wrong_at_directory(ctx, queue, password).await;
        }
        SourceSignIn::Refused(refusal) => PasswordCheck::Refused(match refusal {
            LdapRefusal::Disabled => LoginProblem::AccountDisabled,
            LdapRefusal::Expired => LoginProblem::AccountExpired,
            LdapRefusal::PasswordExpired | LdapRefusal::PasswordMustChange => LoginProblem::PasswordExpired,
        }),
        SourceSignIn::NameTaken => PasswordCheck::Refused(LoginProblem::NameTaken),
        SourceSignIn::Nameless => PasswordCheck::Refused(LoginProblem::Nameless),
        SourceSignIn::Unavailable => PasswordCheck::DirectoryAway,
    })
}

/// Verifies a dummy hash, so that the response takes about as long as for a local user.
async fn wrong_at_directory(
    ctx: &RequestContext<'_>,
    queue: QueueKey,
    password: &SecretString,
) -> Result<PasswordCheck, Failure> {
    ctx.sealgate.passwords.verify(queue, None, password.clone()).await?;
    Ok(PasswordCheck::Wrong)
}

/// Continues the sign-in after a correct password.
async fn proceed_by_password(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    user: User,
    keep: bool,
) -> Result<Proceeded, Failure> {
    let factors = ctx.sealgate.store.factors(user.sub).await?.map(|loaded| loaded.value);
    let generation = factors.as_ref().map_or(0, |factors| factors.generation);
    let credentials = CredentialMark::for_user(&user, generation);
    let steps = SignIn::by_password(user.sub, ctx.now).steps;
    let proof = Proof { user, steps, credentials, is_step_up: false, keep, upstream: None };
    sign_in::proceed(ctx, waiting, proof, factors.as_ref()).await
}

/// Rehashes the password if its hash has outdated parameters. Returns the user with the new hash.
///
/// On failure, the sign-in continues, and the next sign-in tries to rehash again.
async fn rehash(ctx: &RequestContext<'_>, user: &User, password: SecretString) -> User {
    let Some(old) = user.password.as_ref().filter(|hash| password::needs_rehash(hash)) else { return user.clone() };
    match try_rehash(ctx, user, old, password).await {
        Ok(Some(changed)) => changed,
        Ok(None) => user.clone(),
        Err(error) => {
            tracing::warn!(?error, "cannot save a password hash with the current parameters");
            user.clone()
        }
    }
}

async fn try_rehash(
    ctx: &RequestContext<'_>,
    user: &User,
    old: &PasswordHash,
    password: SecretString,
) -> Result<Option<User>, Failure> {
    let new = ctx.sealgate.passwords.hash(password, ctx.random()).await?;
    // Keep a password that another request has set since the check.
    let replace = |user: &mut User| {
        if user.password.as_ref() == Some(old) {
            user.password = Some(new.clone());
        }
    };
    let changed = ctx.sealgate.store.change_user(user.sub, replace).await?;
    // If another request has changed the password, the typed password no longer matches the
    // account.
    Ok(changed.filter(|changed| changed.password.as_ref() == Some(&new)))
}

/// Name of the page that receives a passkey.
const PASSKEY: &str = "passkey";

/// Returns the sign-in page, with the problem of the last attempt if there is one.
pub(super) fn show_login(
    ctx: &RequestContext<'_>,
    waiting: &Waiting,
    status: StatusCode,
    typed: Typed<'_>,
    problem: Option<LoginProblem>,
) -> Result<Response, Failure> {
    let options = options(ctx, waiting)?;
    let local = if is_local(ctx)? { format!("&{LOCAL}") } else { String::new() };
    let (action, passkey) = (waiting.address(ctx, SIGN_IN) + &local, waiting.address(ctx, PASSKEY) + &local);
    let left = waiting.interaction().expires_at.since(ctx.now).as_secs();
    let offer = options.as_deref().map(|options| PasskeyOffer { action: &passkey, options, seconds: left });
    let only = only_upstream(ctx)?;
    let has_password = only.is_none();
    let shown = |source: &&Arc<OpenIdSource>| only.is_none_or(|only| only.name() == source.name());
    let shown = ctx.sealgate.sources.upstreams().iter().filter(shown).map(|source| source.settings());
    let upstreams: Vec<_> = shown.map(upstream_button).collect();
    let failure = match &waiting.interaction().upstream {
        Some(UpstreamTrip::Failed { source, problem: upstream_problem }) if problem.is_none() => {
            let upstream = ctx.sealgate.sources.upstream(source);
            let label = upstream.map_or(source.as_str(), |upstream| &upstream.settings().label);
            Some(UpstreamFailure { label, problem: *upstream_problem })
        }
        _ => None,
    };
    let forgot = reset::address(ctx, waiting).filter(|_| has_password);
    let create = create_account::address(ctx, waiting).filter(|_| has_password);
    let local_page = waiting.address(ctx, SIGN_IN) + "&" + LOCAL;
    let is_name_unknown = typed.email.is_empty() || ctx.sealgate.sources.upstream_for_domain(typed.email).is_some();
    let page = LoginPage {
        frame: ctx.frame(),
        action: &action,
        csrf: &waiting.csrf(SIGN_IN),
        client: waiting.client_name(),
        email: typed.email,
        keep: (ctx.sealgate.config.sessions.keep_signed_in == KeepSignedIn::Choice).then_some(typed.keep),
        has_password,
        is_name_step: is_name_unknown && has_name_step(ctx)?,
        upstreams: &upstreams,
        local: (!has_password).then_some(local_page.as_str()),
        upstream_failure: failure,
        forgot: forgot.as_deref(),
        create: create.as_deref(),
        passkey: offer,
        problem,
    };
    Ok(Response::page(status, html(&page), waiting.then().as_deref()))
}

fn upstream_button(settings: &UpstreamSettings) -> UpstreamButton<'_> {
    UpstreamButton { name: settings.name.as_str(), label: &settings.label }
}

/// Returns the options for signing in with a passkey as JSON, if passkeys are available.
fn options(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Option<String>, Failure> {
    let interaction = waiting.interaction();
    let Some((relying_party, challenge)) = relying_party(ctx).zip(interaction.challenge) else {
        return Ok(None);
    };
    let left = interaction.expires_at.since(ctx.now);
    let options = RequestOptions::of_anybody(&relying_party, &challenge, left);
    serde_json::to_string(&options).map(Some).map_err(|_| Failure::Internal)
}
