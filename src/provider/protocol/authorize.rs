//! `GET` and `POST /oauth/authorize` (OpenID Connect Core §3.1.2; RFC 6749 §4.1), and
//! `GET /oauth/resume`, to which the pages of a sign-in return.
//!
//! [`next_step`] alone decides the next step. This module executes it.

use http::Method;

use crate::protocol::client_document;
use crate::request::ProviderRequest as _;
use crate::sign_in::interaction::{RESUME, Waiting};
use crate::sign_in::passkey::new_challenge;
use crate::sign_in::{SIGN_IN, consent, enrol, interaction, login};
use crate::{sign_in, visitor};
use sealgate_core::tokens::clients::OWN_CLIENT;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::client::{Client, ConsentRule};
use sealgate_domain::code::{Code, CodeState};
use sealgate_domain::consent::Consent;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::authorize::{AuthorizationRequest, ReturnTo, UnredirectableError};
use sealgate_domain::oauth::next_step::{Interaction, NextStep, Progress, UserRequirements, next_step};
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_domain::session::{Session, SignIn};
use sealgate_domain::user::{Subject, User};
use sealgate_pages::Problem;
use sealgate_store::{Committed, StoreError};
use sealgate_system::metrics::TokenKind;

/// Returns the rate limit bucket of an authorization request.
pub(crate) fn bucket(ctx: &RequestContext<'_>) -> Bucket {
    let query = ctx.query();
    let id = query.as_ref().ok().and_then(|params| params.one("client_id").ok().flatten()).unwrap_or_default();
    Bucket::of_request(id)
}

/// Handles a new authorization request of a client.
pub(crate) async fn authorization_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if let Some(address) = ctx.again_with_cookies() {
        return Ok(Response::see_other(&address));
    }
    let params = ctx.params()?;
    ctx.set_ui_locales(params.one("ui_locales").ok().flatten());
    // Check the client and redirect URI first. No response may redirect before the redirect URI is
    // known to belong to the client (RFC 6749 §4.1.2.1).
    let error_page = |fault| match fault {
        UnredirectableError::Client => Failure::page(Problem::UnknownClient),
        UnredirectableError::NoRedirectUri => Failure::page(Problem::NoRedirectUri),
        UnredirectableError::Repeated => Failure::page(Problem::InvalidRequest),
        UnredirectableError::RedirectUri => Failure::page(Problem::RedirectUri),
    };
    let id = ReturnTo::client_id(&params).map_err(error_page)?;
    let client = client_document::client(ctx, &id).await?.filter(Client::is_enabled);
    let client = client.ok_or_else(|| Failure::page(Problem::UnknownClient))?;
    ctx.set_referring_app(Some(&client));
    let form_post = ctx.sealgate.config.form_post.is_for(&client.id);
    let return_to = ReturnTo::resolve(&params, &client, form_post).map_err(error_page)?;

    let outcome = begin(ctx, &params, &client, return_to.clone()).await;
    outcome.map_err(|failure| returning(failure, &client, &return_to))
}

/// Returns the failure to the client by redirect.
///
/// For the provider's own pages, an error page is shown instead. The pages would otherwise start
/// the sign-in again, in an endless loop.
fn returning(failure: Failure, client: &Client, return_to: &ReturnTo) -> Failure {
    if client.id.as_str() == OWN_CLIENT { failure } else { failure.returning_to(return_to) }
}

async fn begin(
    ctx: &RequestContext<'_>,
    params: &sealgate_domain::oauth::params::Params,
    client: &Client,
    return_to: ReturnTo,
) -> Result<Response, Failure> {
    let mut request = AuthorizationRequest::parse(params, client, return_to, &*ctx.sealgate.config)?;
    let expected = match request.id_token_hint.take() {
        Some(hint) => Some(hint_subject(ctx, &hint)?),
        None => None,
    };
    let id = Secret::from_random(&ctx.random::<16>());
    let is_without_cookies = is_post_without_cookies(ctx, &request);
    let (browser, new_cookie) = if is_without_cookies && ctx.cookie(ctx.cookies.browser).is_none() {
        // The browser may have a browser cookie that it did not send. A new cookie would replace
        // the existing one, and other tabs would lose their pending requests. [`bind`] binds the
        // request when the browser returns with a GET.
        (unbound(id.expose()), None)
    } else {
        let (browser, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
        (SecretHash::for_secret(browser.as_bytes()), new_cookie)
    };
    // An administrator's enrolment link is only valid for a sign-in to the provider's own pages.
    let enrolment = match params.one(enrol::LINK)?.filter(|_| client.id.as_str() == OWN_CLIENT) {
        Some(token) => Some(enrol::opened(ctx, token).await?),
        None => None,
    };
    let interaction = Interaction {
        browser,
        request,
        expected,
        progress: Progress::default(),
        challenge: Some(new_challenge(ctx)),
        enrolment,
        upstream: None,
        number: 0,
        created_at: ctx.now,
        expires_at: ctx.now.plus(ctx.sealgate.config.sessions.interaction),
    };
    let page = if is_without_cookies {
        RESUME
    } else {
        match decide(ctx, &interaction, client).await? {
            Decision::Answered(response) => return Ok(response),
            Decision::Page(page) => page,
        }
    };
    ctx.charge_site(Bucket::of_request(client.id.as_str())).await?;
    ctx.sealgate.store.begin_interaction(&id.hash(), &interaction).await?;
    let mut address = interaction::address(ctx, page, id.expose(), &client.id);
    // The page with fields for a password, if all other users sign in at one OpenID provider.
    if client.id.as_str() == OWN_CLIENT && params.has(login::LOCAL) {
        address = format!("{address}&{}", login::LOCAL);
    }
    let response = Response::see_other(&address);
    Ok(match new_cookie {
        Some(cookie) => response.with_cookie(cookie),
        None => response,
    })
}

/// Returns whether the request is a POST without a session cookie.
///
/// Most such requests have already been repeated as a GET ([`RequestContext::again_with_cookies`]).
/// Some have not, for instance because the browser sends no Fetch Metadata.
///
/// A form on the client's site is a cross-site POST. Browsers send `SameSite=Lax` cookies with the
/// GET after a redirect, but not with this POST. The session is therefore checked after a redirect.
/// Otherwise every user who arrives by POST would have to sign in again.
fn is_post_without_cookies(ctx: &RequestContext<'_>, request: &AuthorizationRequest) -> bool {
    ctx.head.method == Method::POST && ctx.cookie(ctx.cookies.session).is_none() && !request.prompt.none
}

/// Returns the browser hash of a posted request that is not yet bound to a browser. No cookie has
/// this hash.
fn unbound(id: &str) -> SecretHash {
    SecretHash::for_secret(format!("posted {id}").as_bytes())
}

/// Binds a posted request to the browser that returns with its id. The request gets a new id.
///
/// The address of an unbound request is of no use to an attacker. A browser that opens the address
/// begins its own sign-in, as with any authorization request.
async fn bind(ctx: &RequestContext<'_>) -> Result<Option<Response>, Failure> {
    let query = ctx.query()?;
    let Some((id, _)) = query.one(interaction::PARAMETER)?.map(interaction::split_parameter) else { return Ok(None) };
    let store = &ctx.sealgate.store;
    let stored = store.interaction(&unbound(id), &SecretHash::for_secret(id.as_bytes())).await?;
    let Some(stored) = stored.filter(|stored| ctx.now < stored.value.expires_at) else { return Ok(None) };
    if store.drop_interaction(&stored).await? == Committed::Conflict {
        return Err(Failure::page(Problem::NothingToDo));
    }
    let (browser, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
    let bound = Interaction { browser: SecretHash::for_secret(browser.as_bytes()), ..stored.value };
    let id = Secret::from_random(&ctx.random::<16>());
    store.begin_interaction(&id.hash(), &bound).await?;
    let response = Response::see_other(&interaction::address(ctx, RESUME, id.expose(), &bound.request.client));
    Ok(Some(new_cookie.into_iter().fold(response, Response::with_cookie)))
}

/// Continues a pending request after a page has completed its step.
pub(crate) async fn resume(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if let Some(bound) = bind(ctx).await? {
        return Ok(bound);
    }
    let waiting = Waiting::find(ctx).await?;
    let interaction = waiting.interaction();
    let outcome = match decide(ctx, interaction, &waiting.client).await {
        Ok(Decision::Page(page)) => return Ok(Response::see_other(&waiting.address(ctx, page))),
        Ok(Decision::Answered(response)) => Ok(response),
        Err(failure) => Err(returning(failure, &waiting.client, &interaction.request.return_to)),
    };
    match ctx.sealgate.store.drop_interaction(&waiting.loaded).await {
        Ok(Committed::Yes) => outcome.map(|response| {
            interaction::last_request_cookie(ctx, &waiting).into_iter().fold(response, Response::with_cookie)
        }),
        // If two tabs finish the same request at once, only one responds to the client.
        Ok(Committed::Conflict) => Err(interaction::finished(ctx, interaction).await?),
        Err(error) => outcome.and(Err(error.into())),
    }
}

/// Result of [`decide`]: the response to the client, or the page that performs the next step.
enum Decision {
    Answered(Response),
    Page(&'static str),
}

async fn decide(ctx: &RequestContext<'_>, interaction: &Interaction, client: &Client) -> Result<Decision, Failure> {
    // The operator may have removed scopes of the client since the request.
    if !interaction.request.scope.is_subset_of(client.scope) {
        let refusal = Refusal::new(ErrorCode::InvalidScope, "The client may not request this scope.");
        return Err(Failure::Return(Box::new(interaction.request.return_to.clone()), refusal));
    }
    // The operator may also have removed the resource or its scopes.
    if let Some(resource) = &interaction.request.resource
        && resource.still_available(&client.id, &*ctx.sealgate.config)? != *resource
    {
        let refusal = Refusal::new(ErrorCode::InvalidScope, "The resource no longer has this scope.");
        return Err(Failure::Return(Box::new(interaction.request.return_to.clone()), refusal));
    }
    let session = match ctx.session().await? {
        Some(session) => {
            ctx.sealgate.store.touch_session(&session, ctx.now).await;
            with_enabled_users(ctx, session.value).await?
        }
        None => None,
    };
    let (step, before) = next(ctx, interaction, client, session.as_ref()).await?;
    Ok(match (step, session) {
        (NextStep::ChooseAccount, _) => Decision::Page("select-account"),
        (NextStep::SignIn, _) => Decision::Page(SIGN_IN),
        (NextStep::SecondFactor(_), _) => Decision::Page("factor"),
        (NextStep::Enrol(_), _) => Decision::Page("enrol"),
        (NextStep::Unmet(..), _) => Decision::Page("unmet"),
        (NextStep::AwaitEnrolmentLink, _) => return Err(Failure::page(Problem::FactorsReset)),
        (NextStep::Consent(_), _) => Decision::Page("consent"),
        (NextStep::Refuse(refusal), _) => {
            return Err(Failure::Return(Box::new(interaction.request.return_to.clone()), refusal));
        }
        // The provider's own pages need no code: the browser has the session, and the redirect URI
        // is the page.
        (NextStep::Issue { .. }, Some(_)) if client.id.as_str() == OWN_CLIENT => {
            let return_to = &interaction.request.return_to;
            let path = return_to.redirect_uri().strip_prefix(ctx.sealgate.config.issuer.as_str());
            let page = visitor::requested(path.ok_or(Failure::Internal)?, return_to.state());
            Decision::Answered(Response::see_other(&ctx.path(&page)))
        }
        (NextStep::Issue { sign_in, scope }, Some(session)) => {
            issue(ctx, interaction, client, &session, sign_in, scope, before).await?
        }
        (NextStep::Issue { .. }, None) => return Err(Failure::Internal),
    })
}

/// Returns the next step. If the step issues a code, also returns the earlier consent of the user.
async fn next(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    client: &Client,
    session: Option<&Session>,
) -> Result<(NextStep, Option<Consent>), StoreError> {
    let terms = terms(ctx, interaction, session).await?;
    let terms = |subject| terms.iter().find(|(known, _)| *known == subject).map(|(_, terms)| *terms);
    let consents = consents(ctx, session, client).await?;
    let consent_of = |subject| consents.iter().find(|consent| consent.subject == subject);
    let request = &interaction.request;
    let has_consented = |subject| match consent_of(subject) {
        Some(consent) => consent.covers(request.scope, request.resource.as_ref()),
        // Without consent, only a request for nothing needs none.
        None => request.scope.is_empty() && request.resource.is_none(),
    };
    let step = next_step(interaction, client, session, terms, has_consented, ctx.now);
    let before = match &step {
        NextStep::Issue { sign_in, .. } => consent_of(sign_in.subject).cloned(),
        _ => None,
    };
    Ok((step, before))
}

/// Returns the next step of a pending request.
///
/// A page must perform its step only if this is the next step. Otherwise a user could skip earlier
/// steps by opening the address of a later page.
pub(crate) async fn next_of(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<NextStep, StoreError> {
    let session = match ctx.session().await? {
        Some(session) => with_enabled_users(ctx, session.value).await?,
        None => None,
    };
    Ok(next(ctx, waiting.interaction(), &waiting.client, session.as_ref()).await?.0)
}

/// Removes users from the session who are deleted or disabled, or who must sign in at their OpenID
/// provider again. Returns `None` if none remain.
async fn with_enabled_users(ctx: &RequestContext<'_>, mut session: Session) -> Result<Option<Session>, StoreError> {
    let mut enabled = Vec::with_capacity(session.sign_ins.len());
    for sign_in in session.sign_ins {
        let user = ctx.sealgate.store.user(sign_in.subject).await?.filter(User::is_enabled);
        if user.is_some_and(|user| !ctx.sealgate.sources.needs_sign_in(&user, ctx.now)) {
            enabled.push(sign_in);
        }
    }
    session.sign_ins = enabled;
    Ok((!session.sign_ins.is_empty()).then_some(session))
}

/// Returns the sign-in requirements of every user who is signed in or has a pending sign-in.
async fn terms(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    session: Option<&Session>,
) -> Result<Vec<(Subject, UserRequirements)>, StoreError> {
    let partial = interaction.progress.partial.iter().map(|partial| partial.subject);
    let signed_in = session.iter().flat_map(|session| &session.sign_ins).map(|sign_in| sign_in.subject);
    let mut terms = Vec::new();
    for subject in partial.chain(signed_in) {
        if let Some(user) = ctx.sealgate.store.user(subject).await?.filter(User::is_enabled) {
            let factors = ctx.sealgate.store.factors(subject).await?.map(|loaded| loaded.value);
            terms.push((subject, sign_in::terms(ctx, interaction, &user, factors.as_ref())));
        }
    }
    Ok(terms)
}

async fn consents(
    ctx: &RequestContext<'_>,
    session: Option<&Session>,
    client: &Client,
) -> Result<Vec<Consent>, StoreError> {
    let mut consents = Vec::new();
    for sign_in in session.iter().flat_map(|session| &session.sign_ins) {
        let consent = ctx.sealgate.store.consent(sign_in.subject, &client.id).await?;
        consents.extend(consent.filter(|consent| consent.is_for(client)));
    }
    Ok(consents)
}

/// Returns the subject of an ID token that this issuer issued, expired or not.
fn hint_subject(ctx: &RequestContext<'_>, hint: &str) -> Result<Subject, Failure> {
    let claims = ctx.sealgate.issuer.id_token_hint(hint);
    let subject = claims.and_then(|claims| Subject::parse(&claims.sub));
    subject.ok_or_else(|| {
        Refusal::new(ErrorCode::InvalidRequest, "The id_token_hint is not a valid ID token of this issuer.").into()
    })
}

async fn issue(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    client: &Client,
    session: &Session,
    sign_in: SignIn,
    scope: Scope,
    before: Option<Consent>,
) -> Result<Decision, Failure> {
    let request = &interaction.request;
    let secret = Secret::from_random(&ctx.random::<32>());
    let newly_allowed = interaction.progress.allowed.filter(|_| client.consent == ConsentRule::Ask);
    let consent = newly_allowed.map(|allowed| {
        let (scope, resources) = before.map(|before| (before.scope, before.resources)).unwrap_or_default();
        let consent = Consent {
            subject: sign_in.subject,
            client: client.id.clone(),
            scope,
            at: ctx.now,
            incarnation: Some(client.incarnation),
            resources,
        };
        consent.with_decision(request.scope, allowed, request.resource.as_ref())
    });
    let code = Code {
        client: client.id.clone(),
        redirect_uri: request.return_to.redirect_uri().to_owned(),
        challenge: request.challenge.clone(),
        scope,
        resource: request.resource.clone(),
        nonce: request.nonce.clone(),
        sign_in,
        typed: interaction.progress.signed_in,
        session: session.id,
        expires_at: ctx.now.plus(ctx.sealgate.config.tokens.authorization_code),
        state: CodeState::Issued,
    };
    let store = ctx.sealgate.store.for_code(session.id, code.sign_in.subject);
    match store.issue_code(&secret.hash(), &code, consent.as_ref()).await {
        // The session ended after the decision.
        Err(StoreError::SignedOut) => return Ok(Decision::Page(SIGN_IN)),
        issued => issued?,
    }
    ctx.sealgate.metrics.issued(TokenKind::Code);
    if let Some(consent) = consent {
        let event =
            ctx.event(AuditKind::ConsentGiven, Actor::User).for_subject(consent.subject).with_client(&client.id);
        ctx.sealgate.audit.note(event.in_session(session.id).with_detail(decision(request, &consent)));
        if let Err(error) = Box::pin(consent::request_approval(ctx, client)).await {
            tracing::error!(%error, client = client.id.as_str(), "cannot notify the administrators that a \
                client needs an approval");
        }
    }
    let redirect = request.return_to.with_code(secret.expose(), ctx.sealgate.config.issuer.as_str());
    Ok(Decision::Answered(response::to_client(ctx, &redirect)))
}

/// Returns the scope of a decision for the audit log, with the resource.
fn decision(request: &AuthorizationRequest, consent: &Consent) -> String {
    let given = request.resource.as_ref().and_then(|resource| consent.resources.get_key_value(&resource.id));
    let Some((id, given)) = given else { return consent.scope.to_string() };
    let scopes = given.scopes.iter().fold(given.scope.to_string(), |scopes, scope| scopes + " " + scope);
    format!("{} for {id}", scopes.trim()).trim().to_owned()
}

/// Returns the user for whom a page is shown: the user chosen or signed in for this request,
/// otherwise the active user of the session.
///
/// This function must select the same user as [`next_step`]. Otherwise the page and the next step
/// would redirect to each other in a loop.
pub(crate) async fn account(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Option<User>, StoreError> {
    let session = match ctx.session().await? {
        Some(session) => with_enabled_users(ctx, session.value).await?,
        None => None,
    };
    let interaction = waiting.interaction();
    let account = interaction.progress.account.or(interaction.expected);
    let sign_in = session.as_ref().and_then(|session| match account {
        Some(subject) => session.sign_in_of(subject),
        None => session.current(),
    });
    match sign_in {
        Some(sign_in) => Ok(ctx.sealgate.store.user(sign_in.subject).await?.filter(User::is_enabled)),
        None => Ok(None),
    }
}
