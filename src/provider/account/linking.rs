//! `/account/security/link` and `/account/security/unlink`: the link of a local user to an account
//! at a directory or an OpenID provider.
//!
//! A link needs a recent sign-in here, a proof of the account at the source, and a confirmation, all
//! in one session. An OpenID provider proves the account with the same trip as at a sign-in. Its
//! answer arrives at the same callback, but belongs to the session instead of a pending request. It
//! signs nobody in, and the answer of a sign-in adds no link.
//!
//! The link has the effect of `sealgate user link`: the source replaces the password, and all access
//! ends. Users remove only links that they have added themselves. Otherwise a user could leave a
//! directory before the directory disables the account.

use http::request::Parts;
use http::{Method, StatusCode};
use secrecy::SecretString;

use crate::account::security::{self, MAX_AGE_TO_CHANGE, MAX_AGE_TO_FINISH};
use crate::links::mailing;
use crate::protocol::upstream_logout;
use crate::request::ProviderRequest as _;
use crate::sign_in::guesses::Guesses;
use crate::sign_in::login::LOCAL;
use crate::sign_in::upstream::redirect_uri;
use crate::visitor::Visitor;
use sealgate_core::password::QueueKey;
use sealgate_core::sources::{DirectoryProof, DirectorySource, DirectoryUnavailable, LdapRefusal, OpenIdSource};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::account_links::AccountLinks;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::grant::EndReason;
use sealgate_domain::mail::{Mail, MailKind, Notice, WaitingMail};
use sealgate_domain::pending_link::{LinkStep, PendingLink};
use sealgate_domain::profile::is_line;
use sealgate_domain::secret::{SecretHash, base64url};
use sealgate_domain::source::{SourceEntry, SourceLink, SourceName, UserSource};
use sealgate_domain::upstream_trip::{BegunTrip, LINKING, TripSecrets, UpstreamProblem, is_linking, new_state};
use sealgate_domain::user::{Email, Role, User};
use sealgate_domain::username::Username;
use sealgate_pages::{
    BeginLinkPage, ConfirmLinkPage, LeavePage, LinkDone, LinkDonePage, LinkProblem, LinkRefusal, LinkRefusedPage,
    LinkTarget, LinkableSource, LinkedAccount, LinkedAccounts, LoginProblem, Problem, UnlinkPage, html,
};
use sealgate_store::{LinkOutcome, ProvenAccount};
use sealgate_system::metrics::SignInOutcome;
use sealgate_upstream::{CallbackAnswer, Trip};

const LINK: &str = "/account/security/link";
const CONFIRM: &str = "/account/security/link/confirm";
const UNLINK: &str = "/account/security/unlink";

/// Seconds after which a browser may repeat a check that a source did not decide.
const RETRY_SECONDS: u64 = 10;

/// Returns whether a request is the answer of an OpenID provider for a link.
pub(crate) fn is_answer(head: &Parts) -> bool {
    let query = head.uri.query().unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "state" && is_linking(&value))
}

/// Returns the section of the page "Security".
pub(super) fn linked_accounts<'c>(ctx: &'c RequestContext<'_>, user: &'c User) -> LinkedAccounts<'c> {
    let sources = &ctx.sealgate.sources;
    if let Some(source) = &user.source {
        let name = &source.link.source;
        return LinkedAccounts::Linked(LinkedAccount {
            label: sources.label(name),
            linked_at: source.linked.map(|linked| linked.at),
            confirmed_at: source.confirmed_at,
            may_unlink: may_unlink(ctx, source),
        });
    }
    let upstreams = sources.upstreams().iter().map(|upstream| upstream.name());
    let names = upstreams.chain(sources.directories().iter().map(|directory| directory.name()));
    let linkable = names.filter(|name| sources.allows_linking(name));
    LinkedAccounts::None(
        linkable.map(|name| LinkableSource { name: name.as_str(), label: sources.label(name) }).collect(),
    )
}

/// Returns whether the user may remove the link: the user has added it, and the source allows it.
fn may_unlink(ctx: &RequestContext<'_>, source: &UserSource) -> bool {
    source.linked.is_some_and(|linked| linked.by_user) && ctx.sealgate.sources.allows_linking(&source.link.source)
}

/// Source to which a user wants to link their account.
#[derive(Clone, Copy)]
enum Chosen<'a> {
    Provider(&'a OpenIdSource),
    Directory(&'a DirectorySource),
}

impl<'a> Chosen<'a> {
    fn name(self) -> &'a SourceName {
        match self {
            Self::Provider(source) => source.name(),
            Self::Directory(source) => source.name(),
        }
    }
}

/// Returns the named source, if users may link their account to it.
fn chosen<'c>(ctx: &'c RequestContext<'_>, name: Option<&str>) -> Result<Chosen<'c>, Failure> {
    let sources = &ctx.sealgate.sources;
    let name = name.and_then(SourceName::parse).filter(|name| sources.allows_linking(name));
    let find = |name: &SourceName| {
        let provider = sources.upstream(name).map(|source| Chosen::Provider(source));
        provider.or_else(|| sources.directory(name).map(|source| Chosen::Directory(source)))
    };
    name.as_ref().and_then(find).ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))
}

/// Handles the page on which the user proves an account at a source.
pub(super) async fn link_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        let visitor = Visitor::recent(ctx, security::PAGE, MAX_AGE_TO_CHANGE).await?;
        security::may_add(ctx, &visitor.user).await?;
        let source = chosen(ctx, ctx.query()?.one("source")?)?;
        return match held(ctx, &visitor) {
            Some(refused) => Ok(refused),
            None => Ok(show(ctx, &visitor, source, StatusCode::OK, "", None)),
        };
    }
    let visitor = Visitor::recent(ctx, security::PAGE, MAX_AGE_TO_FINISH).await?;
    security::may_add(ctx, &visitor.user).await?;
    let form = visitor.form(ctx, LINK)?;
    let source = chosen(ctx, form.one("source")?)?;
    if let Some(refused) = held(ctx, &visitor) {
        return Ok(refused);
    }
    match source {
        Chosen::Provider(source) => leave(ctx, &visitor, source).await,
        Chosen::Directory(source) => {
            let typed = form.one("account")?.unwrap_or_default().trim();
            let password = SecretString::from(form.one("password")?.unwrap_or_default());
            prove_at_directory(ctx, &visitor, source, typed, &password).await
        }
    }
}

/// Returns the refusal for a user who has a link already.
fn held(ctx: &RequestContext<'_>, visitor: &Visitor) -> Option<Response> {
    let source = visitor.user.source.as_ref()?;
    Some(refuse(ctx, visitor, StatusCode::CONFLICT, &source.link.source, LinkRefusal::HasSource))
}

/// Sends the browser to a provider.
async fn leave(ctx: &RequestContext<'_>, visitor: &Visitor, source: &OpenIdSource) -> Result<Response, Failure> {
    let state = new_state(ctx.random(), LINKING);
    let (secrets, redirect_uri) = (trip_secrets(ctx, source, &state), redirect_uri(ctx, source));
    let sender = QueueKey::for_address(ctx.origin.address);
    let Ok(url) = ctx.sealgate.upstream_url(source, sender, &trip(&secrets, &redirect_uri)).await else {
        let refusal = LinkRefusal::Provider(UpstreamProblem::Unavailable);
        let page = refuse(ctx, visitor, StatusCode::SERVICE_UNAVAILABLE, source.name(), refusal);
        return Ok(page.retry_after(RETRY_SECONDS));
    };
    let state = SecretHash::for_secret(state.as_bytes());
    let begun = BegunTrip { source: source.name().clone(), state, at: ctx.now, keep: false };
    store(ctx, visitor, source.name(), LinkStep::Begun(begun)).await?;
    let label = &source.settings().label;
    let page = LeavePage { frame: ctx.frame(), label, url: &url, is_sign_out: false };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Handles the return of a browser from a provider.
///
/// The answer must belong to the trip that the signed-in user has begun in this session. Otherwise an
/// attacker could have the user's browser finish a trip of the attacker.
pub(crate) async fn callback(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let source = upstream_logout::source(ctx).ok_or(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound))?;
    let visitor = match Visitor::find(ctx, security::PAGE).await {
        Err(Failure::Redirect(_)) => return Err(Failure::page(Problem::LinkTrip)),
        found => found?,
    };
    let query = ctx.query()?;
    let state = query.one("state")?.unwrap_or_default();
    let answer = CallbackAnswer { code: query.one("code")?, error: query.one("error")?, iss: query.one("iss")? };
    let guesses = Guesses::of_upstream(ctx).await?.map_err(Failure::RateLimited)?;
    // End the trip before the code is redeemed, so that no other request can repeat the answer.
    let (user, session) = (&visitor.user, session_of(&visitor));
    let take = |links: &mut AccountLinks| links.take_link_trip((source.name(), state), session, user, ctx.now);
    if ctx.sealgate.store.change_account_links(user.sub, &[], take).await?.is_none() {
        guesses.give_back(ctx);
        return Ok(begin_again(ctx));
    }
    if !ctx.sealgate.sources.allows_linking(source.name()) {
        guesses.give_back(ctx);
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    let (secrets, redirect_uri) = (trip_secrets(ctx, source, state), redirect_uri(ctx, source));
    let sender = QueueKey::for_address(ctx.origin.address);
    let trip = trip(&secrets, &redirect_uri);
    let step = match ctx.sealgate.prove_at_provider(source, sender, &answer, &trip).await {
        Ok(entry) => LinkStep::Proven(entry),
        Err(problem) => {
            let event = visitor.event(ctx, AuditKind::SignInFailed);
            ctx.sealgate.audit.note(event.with_detail(format!("upstream {}: {}", source.name(), problem.as_str())));
            LinkStep::Failed(problem)
        }
    };
    // The browser determines these outcomes.
    let is_counted = matches!(
        step,
        LinkStep::Failed(UpstreamProblem::Invalid | UpstreamProblem::Denied | UpstreamProblem::ProviderError)
    );
    if !is_counted {
        guesses.give_back(ctx);
    }
    store(ctx, &visitor, source.name(), step).await?;
    // The redirect removes the code from the address of the page.
    Ok(Response::see_other(&ctx.path(CONFIRM)))
}

/// Returns the page for an answer that ends no trip of this session.
fn begin_again(ctx: &RequestContext<'_>) -> Response {
    let page = ctx.path(security::PAGE);
    ctx.problem_with_link(StatusCode::BAD_REQUEST, Problem::LinkTrip, &page, LinkTarget::Account)
}

/// Checks a name and a password at a directory.
///
/// The guess is counted as at a sign-in of another user, because the form could otherwise be used to
/// guess passwords.
async fn prove_at_directory(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    source: &DirectorySource,
    typed: &str,
    password: &SecretString,
) -> Result<Response, Failure> {
    let again = |status, problem| show(ctx, visitor, Chosen::Directory(source), status, typed, Some(problem));
    let away = || again(StatusCode::SERVICE_UNAVAILABLE, LinkProblem::Away).retry_after(RETRY_SECONDS);
    let throttled = |seconds| {
        failed(ctx, visitor, SignInOutcome::Throttled, "throttled, at linking");
        let problem = LinkProblem::SignIn(LoginProblem::Throttled { seconds });
        again(StatusCode::TOO_MANY_REQUESTS, problem).retry_after(seconds)
    };
    let mut guesses = match Guesses::at_sign_in(ctx, typed, None).await? {
        Ok(guesses) => guesses,
        Err(seconds) => return Ok(throttled(seconds)),
    };
    let proof = match ctx.sealgate.find_at(source, guesses.queue(ctx), typed, password).await {
        Ok(Some(found)) => {
            if let Some(link) = found.link()
                && let Err(seconds) = guesses.count_directory_user(ctx, &link).await?
            {
                return Ok(throttled(seconds));
            }
            ctx.sealgate.prove_at_directory(found).await
        }
        Ok(None) => DirectoryProof::Wrong,
        Err(DirectoryUnavailable) => DirectoryProof::Unavailable,
    };
    Ok(match proof {
        DirectoryProof::Account(entry) => {
            guesses.give_back(ctx);
            store(ctx, visitor, source.name(), LinkStep::Proven(entry)).await?;
            Response::see_other(&ctx.path(CONFIRM))
        }
        DirectoryProof::Wrong => {
            failed(ctx, visitor, SignInOutcome::Failed, "wrong, at linking");
            again(StatusCode::OK, LinkProblem::SignIn(LoginProblem::WrongCredentials))
        }
        DirectoryProof::Refused(refusal) => {
            guesses.give_back(ctx);
            again(
                StatusCode::OK,
                LinkProblem::SignIn(match refusal {
                    LdapRefusal::Disabled => LoginProblem::AccountDisabled,
                    LdapRefusal::Expired => LoginProblem::AccountExpired,
                    LdapRefusal::PasswordExpired | LdapRefusal::PasswordMustChange => LoginProblem::PasswordExpired,
                }),
            )
        }
        DirectoryProof::Unavailable => {
            guesses.give_back(ctx);
            away()
        }
    })
}

/// Counts and records a check of a directory's password that did not succeed.
fn failed(ctx: &RequestContext<'_>, visitor: &Visitor, outcome: SignInOutcome, detail: &str) {
    ctx.sealgate.metrics.signed_in(outcome);
    ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::SignInFailed).with_detail(detail));
}

/// Handles the page that names both accounts and the effect of the link.
pub(super) async fn confirm_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::recent(ctx, security::PAGE, MAX_AGE_TO_FINISH).await?;
    security::may_add(ctx, &visitor.user).await?;
    if let Some(refused) = held(ctx, &visitor) {
        return Ok(refused);
    }
    let links = ctx.sealgate.store.account_links(visitor.user.sub).await?;
    let pending = links.as_ref().and_then(|links| links.value.open_link(session_of(&visitor), &visitor.user, ctx.now));
    let Some(pending) = pending.filter(|pending| ctx.sealgate.sources.allows_linking(&pending.source)) else {
        return Ok(begin_again(ctx));
    };
    let entry = match &pending.step {
        LinkStep::Begun(_) => return Ok(begin_again(ctx)),
        LinkStep::Failed(problem) => {
            let status = match problem {
                UpstreamProblem::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::FORBIDDEN,
            };
            return Ok(refuse(ctx, &visitor, status, &pending.source, LinkRefusal::Provider(*problem)));
        }
        LinkStep::Proven(entry) => entry,
    };
    let link = SourceLink { source: pending.source.clone(), id: entry.id.clone() };
    if ctx.sealgate.store.user_by_source_link(&link).await?.is_some() {
        return Ok(refuse(ctx, &visitor, StatusCode::CONFLICT, &pending.source, LinkRefusal::Taken));
    }
    // The token of the form names the account, so that a link begun in another tab is not confirmed.
    let csrf_form = format!("{CONFIRM} {}", base64url(link.lookup_key().as_bytes()));
    if ctx.head.method != Method::POST {
        return Ok(show_confirmation(ctx, &visitor, pending, entry, &visitor.csrf(ctx, &csrf_form)));
    }
    let form = visitor.form(ctx, &csrf_form)?;
    if form.has("cancel") {
        ctx.sealgate.store.change_account_links(visitor.user.sub, &[], |links| links.link = None).await?;
        return Ok(Response::see_other(&ctx.path(security::PAGE)));
    }
    add(ctx, &visitor, &pending.source, entry).await
}

/// Adds the link, which ends all access of the user.
async fn add(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    source: &SourceName,
    entry: &SourceEntry,
) -> Result<Response, Failure> {
    let store = &ctx.sealgate.store;
    let revocation = store.new_revocation(visitor.user.sub, EndReason::Revoked, ctx.now);
    let provider = ctx.sealgate.sources.upstream(source).map(|upstream| upstream.provider_terms());
    let mail = notice(ctx, &visitor.user);
    let proven = ProvenAccount { entry, provider };
    let outcome = store.link_proven_user(&revocation, source, proven, mail.as_slice()).await?;
    let refusal = match outcome {
        LinkOutcome::Changed(..) => {
            ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::AccountLinked).with_detail(source.as_str()));
            return Ok(done(ctx, source, LinkDone::Linked));
        }
        LinkOutcome::Taken(_) => LinkRefusal::Taken,
        LinkOutcome::NameTaken => LinkRefusal::NameTaken,
        LinkOutcome::Nameless => LinkRefusal::Nameless,
        LinkOutcome::HasSource(_) => LinkRefusal::HasSource,
        LinkOutcome::Absent | LinkOutcome::IsLocal => return Err(Failure::page(Problem::LinkTrip)),
    };
    Ok(refuse(ctx, visitor, StatusCode::CONFLICT, source, refusal))
}

/// Returns the mail that notifies the user, or `None` if it cannot be sent. It goes to the address
/// before the link, because the source replaces the address.
fn notice(ctx: &RequestContext<'_>, user: &User) -> Option<WaitingMail> {
    let email = user.email.as_ref()?;
    if !ctx.sealgate.sends_mail() || !ctx.sealgate.has_room_for(MailKind::Notice) {
        tracing::warn!(subject = %user.sub, "a user is not notified of a link: mail is off, or too many messages are \
            queued");
        return None;
    }
    let mail = Mail::Notice { notice: Notice::AccountLinked, count: 1 };
    mailing::new_mail(ctx, Some(user.sub), Some(email), mail).ok()
}

/// Handles the page on which the user removes the link.
pub(super) async fn unlink_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::recent(ctx, security::PAGE, MAX_AGE_TO_CHANGE).await?;
    let Some(own) = &visitor.user.source else { return Ok(Response::see_other(&ctx.path(security::PAGE))) };
    let source = &own.link.source;
    if !may_unlink(ctx, own) {
        return Ok(refuse(ctx, &visitor, StatusCode::FORBIDDEN, source, LinkRefusal::OnlyAdministrator));
    }
    let store = &ctx.sealgate.store;
    // The link has replaced the password, so only a passkey remains for sign-ins.
    let factors = store.factors(visitor.user.sub).await?.filter(|factors| factors.value.has_passkey());
    let Some(factors) = factors else {
        return Ok(refuse(ctx, &visitor, StatusCode::CONFLICT, source, LinkRefusal::NoWayLeft));
    };
    if ctx.head.method != Method::POST {
        let label = ctx.sealgate.sources.label(source);
        let page = UnlinkPage { inside: visitor.inside(ctx), csrf: &visitor.csrf(ctx, UNLINK), label };
        return Ok(Response::page(StatusCode::OK, html(&page), None));
    }
    visitor.form(ctx, UNLINK)?;
    let revocation = store.new_revocation(visitor.user.sub, EndReason::Revoked, ctx.now);
    match store.unlink_user(&revocation, Some(&factors)).await? {
        LinkOutcome::Changed(..) => {
            ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::AccountUnlinked).with_detail(source.as_str()));
            Ok(done(ctx, source, LinkDone::Unlinked))
        }
        LinkOutcome::NameTaken => Ok(refuse(ctx, &visitor, StatusCode::CONFLICT, source, LinkRefusal::NameTaken)),
        LinkOutcome::Nameless => Ok(refuse(ctx, &visitor, StatusCode::CONFLICT, source, LinkRefusal::Nameless)),
        LinkOutcome::Absent | LinkOutcome::Taken(_) | LinkOutcome::HasSource(_) | LinkOutcome::IsLocal => {
            Ok(Response::see_other(&ctx.path(security::PAGE)))
        }
    }
}

/// Stores the progress of a link. A new link replaces the pending one.
async fn store(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    source: &SourceName,
    step: LinkStep,
) -> Result<(), Failure> {
    let pending = PendingLink::new(source, session_of(visitor), &visitor.user, step, ctx.now);
    let change = |links: &mut AccountLinks| links.link = Some(pending.clone());
    Ok(ctx.sealgate.store.change_account_links(visitor.user.sub, &[], change).await?)
}

fn session_of(visitor: &Visitor) -> SecretHash {
    visitor.session.value.under_its_cookie()
}

/// Returns the secrets of a trip. They depend on the session's cookie, so no other browser and no
/// later session can redeem the answer.
fn trip_secrets(ctx: &RequestContext<'_>, source: &OpenIdSource, state: &str) -> TripSecrets {
    let cookie = ctx.cookie(ctx.cookies.session).unwrap_or_default();
    TripSecrets::derive(source.name(), state, &format!("link {cookie}"))
}

fn trip<'a>(secrets: &'a TripSecrets, redirect_uri: &'a str) -> Trip<'a> {
    Trip {
        redirect_uri,
        state: &secrets.state,
        nonce: &secrets.nonce,
        code_verifier: &secrets.code_verifier,
        prompt: None,
        max_age: None,
        login_hint: None,
        acr_values: None,
    }
}

fn show(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    source: Chosen<'_>,
    status: StatusCode,
    typed: &str,
    problem: Option<LinkProblem>,
) -> Response {
    let page = BeginLinkPage {
        inside: visitor.inside(ctx),
        csrf: &visitor.csrf(ctx, LINK),
        source: source.name().as_str(),
        label: ctx.sealgate.sources.label(source.name()),
        is_directory: matches!(source, Chosen::Directory(_)),
        account: typed,
        problem,
    };
    Response::page(status, html(&page), None)
}

fn show_confirmation(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    pending: &PendingLink,
    entry: &SourceEntry,
    csrf: &str,
) -> Response {
    let user = &visitor.user;
    // At some providers, users choose their name and address, so these do not identify the account.
    let is_named = entry.email_verified || entry.username.is_some();
    let id = str::from_utf8(entry.id.as_bytes()).ok().filter(|id| !is_named && is_line(id, 255));
    let names = [
        Some(entry.name.as_str()).filter(|name| !name.is_empty()),
        entry.email.as_ref().map(Email::as_str),
        entry.username.as_ref().map(Username::as_str),
        id,
    ];
    let page = ConfirmLinkPage {
        inside: visitor.inside(ctx),
        csrf,
        label: ctx.sealgate.sources.label(&pending.source),
        is_directory: ctx.sealgate.sources.directory(&pending.source).is_some(),
        account: user.sign_in_name(),
        names: &names.into_iter().flatten().collect::<Vec<_>>(),
        has_password: user.has_password(),
        is_administrator: visitor.console_roles(ctx).is_administrator() || user.roles.contains(&Role::Admin),
    };
    Response::page(StatusCode::OK, html(&page), None)
}

fn refuse(
    ctx: &RequestContext<'_>,
    visitor: &Visitor,
    status: StatusCode,
    source: &SourceName,
    refusal: LinkRefusal,
) -> Response {
    let label = ctx.sealgate.sources.label(source);
    let page = LinkRefusedPage { inside: visitor.inside(ctx), label, refusal };
    Response::page(status, html(&page), None)
}

/// Returns the page after a change, which has ended the session.
fn done(ctx: &RequestContext<'_>, source: &SourceName, done: LinkDone) -> Response {
    let label = ctx.sealgate.sources.label(source);
    // Users without a link sign in here, also if the other users are sent to a provider at once.
    let is_local = done == LinkDone::Unlinked && ctx.sealgate.config.login.only_upstream.is_some();
    let parameters: &[_] = if is_local { &[(LOCAL, "yes")] } else { &[] };
    let sign_in = &ctx.sign_in_address(security::PAGE, parameters);
    let page = LinkDonePage { frame: ctx.frame(), label, done, sign_in };
    Response::page(StatusCode::OK, html(&page), None)
}
