//! `GET` and `POST /oauth/authorize` (specification §2), and `GET /oauth/resume`, where the pages of the sign-in come
//! back to. What happens next is decided by [`next_step`] alone; this file does it.

use http::Method;

use crate::domain::audit::{Actor, AuditKind};
use crate::domain::client::{Client, ConsentRule};
use crate::domain::code::{Code, CodeState};
use crate::domain::consent::Consent;
use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::scope::Scope;
use crate::domain::secret::{Secret, SecretHash};
use crate::domain::session::{Session, SignIn};
use crate::domain::user::{Subject, User};
use crate::metrics::TokenKind;
use crate::oauth::authorize::{AuthorizationRequest, NoWayBack, ReturnTo};
use crate::oauth::next_step::{Interaction, NextStep, PersonTerms, Progress, next_step};
use crate::page::Problem;
use crate::provider::ceremony::fresh;
use crate::provider::interaction::{self, RESUME, Waiting};
use crate::provider::sign_in::SIGN_IN;
use crate::provider::{approval, enrol, own_page, sign_in};
use crate::store::{Committed, StoreError};
use crate::tokens::clients::OWN_CLIENT;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::limits::Bucket;
use crate::web::response::Response;
use crate::web::way_back;

/// What a request is counted as.
pub(super) fn bucket(ctx: &RequestContext<'_>) -> Bucket {
    let query = ctx.query();
    let id = query.as_ref().ok().and_then(|params| params.one("client_id").ok().flatten()).unwrap_or_default();
    Bucket::of_request(id)
}

/// A new request of a client.
pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if let Some(address) = ctx.again_with_cookies() {
        return Ok(Response::see_other(&address));
    }
    let params = ctx.params()?;
    ctx.speak(params.one("ui_locales").ok().flatten());
    // Client and redirect URI before all else: until they are known to belong together, nothing may leave by a redirect.
    let no_way_back = |fault| match fault {
        NoWayBack::Client => Failure::page(Problem::UnknownClient),
        NoWayBack::NoRedirectUri => Failure::page(Problem::NoRedirectUri),
        NoWayBack::Repeated => Failure::page(Problem::InvalidRequest),
        NoWayBack::RedirectUri => Failure::page(Problem::RedirectUri),
    };
    let id = ReturnTo::client_id(&params).map_err(no_way_back)?;
    let client = ctx.sealgate.client(&id).await?.filter(Client::is_enabled);
    let client = client.ok_or_else(|| Failure::page(Problem::UnknownClient))?;
    ctx.concern(Some(&client));
    let form_post = ctx.sealgate.config.form_post.is_for(&client.id);
    let return_to = ReturnTo::resolve(&params, &client, form_post).map_err(no_way_back)?;

    let begun = begin(ctx, &params, &client, return_to.clone()).await;
    begun.map_err(|failure| returning(failure, &client, &return_to))
}

/// One of our own pages would ask for the sign-in again, and so redirect for ever: the failure is shown instead.
fn returning(failure: Failure, client: &Client, return_to: &ReturnTo) -> Failure {
    if client.id.as_str() == OWN_CLIENT { failure } else { failure.returning_to(return_to) }
}

async fn begin(
    ctx: &RequestContext<'_>,
    params: &crate::oauth::params::Params,
    client: &Client,
    return_to: ReturnTo,
) -> Result<Response, Failure> {
    let mut request = AuthorizationRequest::parse(params, client, return_to)?;
    let expected = match request.id_token_hint.take() {
        Some(hint) => Some(hinted(ctx, &hint)?),
        None => None,
    };
    let id = Secret::from_random(&ctx.random::<16>());
    let blind = is_posted_blind(ctx, &request);
    let (browser, new_cookie) = if blind && ctx.cookie(ctx.cookies.browser).is_none() {
        // The browser may have a binding cookie that it keeps back: a new one would take its place, and with it all that
        // waits in other tabs. The request is bound when the browser comes back by GET.
        (unbound(id.expose()), None)
    } else {
        let (browser, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
        (SecretHash::of(browser.as_bytes()), new_cookie)
    };
    // A link that an administrator gave opens an enrolment on our own page, and nothing elsewhere.
    let enrolment = match params.one(enrol::LINK)?.filter(|_| client.id.as_str() == OWN_CLIENT) {
        Some(token) => Some(enrol::opened(ctx, token).await?),
        None => None,
    };
    let interaction = Interaction {
        browser,
        request,
        expected,
        progress: Progress::default(),
        challenge: Some(fresh(ctx)),
        enrolment,
        number: 0,
        created_at: ctx.now,
        expires_at: ctx.now.plus(ctx.sealgate.config.sessions.interaction),
    };
    let page = if blind {
        RESUME
    } else {
        match decide(ctx, &interaction, client).await? {
            Decision::Answered(response) => return Ok(response),
            Decision::Page(page) => page,
        }
    };
    ctx.charge_site(Bucket::of_request(client.id.as_str())).await?;
    ctx.sealgate.store.begin_interaction(&id.hash(), &interaction).await?;
    let response = Response::see_other(&interaction::address(ctx, page, id.expose(), &client.id));
    Ok(match new_cookie {
        Some(cookie) => response.with_cookie(cookie),
        None => response,
    })
}

/// Whether this is a POST without a session cookie, from a browser that does not say whence (see
/// [`RequestContext::again_with_cookies`]). A form on the client's site is a cross-site POST, and browsers keep a SameSite=Lax
/// cookie back from those; they send it with the GET that our redirect asks for. So whether somebody is signed in is
/// decided there, or everybody who comes by POST would have to sign in again.
fn is_posted_blind(ctx: &RequestContext<'_>, request: &AuthorizationRequest) -> bool {
    ctx.head.method == Method::POST && ctx.cookie(ctx.cookies.session).is_none() && !request.prompt.none
}

/// Stands for the browser of a posted request until one comes back with it. No cookie has this value.
fn unbound(id: &str) -> SecretHash {
    SecretHash::of(format!("posted {id}").as_bytes())
}

/// Binds a posted request to the browser that comes back with it, under a new name. Until then its address is worth what
/// the address of any authorization request is: whoever opens it begins a sign-in of their own.
async fn bind(ctx: &RequestContext<'_>) -> Result<Option<Response>, Failure> {
    let query = ctx.query()?;
    let Some((id, _)) = query.one(interaction::PARAMETER)?.map(interaction::named) else { return Ok(None) };
    let store = &ctx.sealgate.store;
    let found = store.interaction(&unbound(id), &SecretHash::of(id.as_bytes())).await?;
    let Some(found) = found.filter(|found| ctx.now < found.value.expires_at) else { return Ok(None) };
    if store.drop_interaction(&found).await? == Committed::Conflict {
        return Err(Failure::page(Problem::NothingToDo));
    }
    let (browser, new_cookie) = ctx.cookies.browser(&ctx.head.headers, ctx.random());
    let bound = Interaction { browser: SecretHash::of(browser.as_bytes()), ..found.value };
    let id = Secret::from_random(&ctx.random::<16>());
    store.begin_interaction(&id.hash(), &bound).await?;
    let response = Response::see_other(&interaction::address(ctx, RESUME, id.expose(), &bound.request.client));
    Ok(Some(new_cookie.into_iter().fold(response, Response::with_cookie)))
}

/// A waiting request goes on, after a page has done its part.
pub(super) async fn resume(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if let Some(bound) = bind(ctx).await? {
        return Ok(bound);
    }
    let waiting = Waiting::find(ctx).await?;
    let interaction = waiting.interaction();
    let answered = match decide(ctx, interaction, &waiting.client).await {
        Ok(Decision::Page(page)) => return Ok(Response::see_other(&waiting.address(ctx, page))),
        Ok(Decision::Answered(response)) => Ok(response),
        Err(failure) => Err(returning(failure, &waiting.client, &interaction.request.return_to)),
    };
    match ctx.sealgate.store.drop_interaction(&waiting.loaded).await {
        Ok(Committed::Yes) => answered,
        // Of two tabs that finish the same request at once, one gives the answer to the client.
        Ok(Committed::Conflict) => Err(interaction::finished(ctx, interaction).await?),
        Err(error) => answered.and(Err(error.into())),
    }
}

enum Decision {
    Answered(Response),
    Page(&'static str),
}

async fn decide(ctx: &RequestContext<'_>, interaction: &Interaction, client: &Client) -> Result<Decision, Failure> {
    // The client may have been forbidden something since it asked.
    if !interaction.request.scope.is_subset_of(client.scope) {
        let refusal = Refusal::new(ErrorCode::InvalidScope, "The client may not ask for this scope.");
        return Err(Failure::Return(Box::new(interaction.request.return_to.clone()), refusal));
    }
    let session = match ctx.session().await? {
        Some(session) => {
            ctx.sealgate.store.touch_session(&session, ctx.now).await;
            without_gone_accounts(ctx, session.value).await?
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
        // Our own pages need no code: the session is there, and the way back is one of ours.
        (NextStep::Issue { .. }, Some(_)) if client.id.as_str() == OWN_CLIENT => {
            let return_to = &interaction.request.return_to;
            let path = return_to.redirect_uri().strip_prefix(ctx.sealgate.config.issuer.as_str());
            let page = own_page::requested(path.ok_or(Failure::Internal)?, return_to.state());
            Decision::Answered(Response::see_other(&ctx.path(&page)))
        }
        (NextStep::Issue { sign_in, scope }, Some(session)) => {
            issue(ctx, interaction, client, &session, sign_in, scope, before).await?
        }
        (NextStep::Issue { .. }, None) => return Err(Failure::Internal),
    })
}

/// What is to be done next, and what whoever gets a code has allowed this client before.
async fn next(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    client: &Client,
    session: Option<&Session>,
) -> Result<(NextStep, Scope), StoreError> {
    let terms = terms(ctx, interaction, session).await?;
    let terms = |subject| terms.iter().find(|(known, _)| *known == subject).map(|(_, terms)| *terms);
    let consents = consents(ctx, session, client).await?;
    let consented =
        |subject| consents.iter().find(|(known, _)| *known == subject).map_or(Scope::EMPTY, |(_, scope)| *scope);
    let step = next_step(interaction, client, session, terms, consented, ctx.now);
    let before = match &step {
        NextStep::Issue { sign_in, .. } => consented(sign_in.subject),
        _ => Scope::EMPTY,
    };
    Ok((step, before))
}

/// What a waiting request needs next. A page does its part only where that is what this says: whoever opens one out of its turn,
/// by its address, would leave out what comes before it.
pub(super) async fn next_of(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<NextStep, StoreError> {
    let session = match ctx.session().await? {
        Some(session) => without_gone_accounts(ctx, session.value).await?,
        None => None,
    };
    Ok(next(ctx, waiting.interaction(), &waiting.client, session.as_ref()).await?.0)
}

/// The session with those people only that may still come in; `None` when nobody is left.
async fn without_gone_accounts(ctx: &RequestContext<'_>, mut session: Session) -> Result<Option<Session>, StoreError> {
    let mut kept = Vec::with_capacity(session.sign_ins.len());
    for sign_in in session.sign_ins {
        if ctx.sealgate.store.user(sign_in.subject).await?.is_some_and(|user| user.is_enabled()) {
            kept.push(sign_in);
        }
    }
    session.sign_ins = kept;
    Ok((!session.sign_ins.is_empty()).then_some(session))
}

/// How surely those must sign in who are signed in, or half so.
async fn terms(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    session: Option<&Session>,
) -> Result<Vec<(Subject, PersonTerms)>, StoreError> {
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
) -> Result<Vec<(Subject, Scope)>, StoreError> {
    let mut consents = Vec::new();
    for sign_in in session.iter().flat_map(|session| &session.sign_ins) {
        let consent = ctx.sealgate.store.consent(sign_in.subject, &client.id).await?;
        if let Some(consent) = consent.filter(|consent| consent.is_for(client)) {
            consents.push((sign_in.subject, consent.scope));
        }
    }
    Ok(consents)
}

/// The person whom an ID token names that we once issued, expired or not.
fn hinted(ctx: &RequestContext<'_>, hint: &str) -> Result<Subject, Failure> {
    let claims = ctx.sealgate.issuer.id_token_hint(hint);
    let subject = claims.and_then(|claims| Subject::parse(&claims.sub));
    subject.ok_or_else(|| {
        Refusal::new(ErrorCode::InvalidRequest, "The id_token_hint is not an ID token of this issuer.").into()
    })
}

async fn issue(
    ctx: &RequestContext<'_>,
    interaction: &Interaction,
    client: &Client,
    session: &Session,
    sign_in: SignIn,
    scope: Scope,
    before: Scope,
) -> Result<Decision, Failure> {
    let request = &interaction.request;
    let secret = Secret::from_random(&ctx.random::<32>());
    let newly_allowed = interaction.progress.allowed.filter(|_| client.consent == ConsentRule::Ask);
    let consent = newly_allowed.map(|allowed| Consent {
        subject: sign_in.subject,
        client: client.id.clone(),
        // What was asked for this time is answered anew: something that was unticked is no longer allowed.
        scope: allowed.union(before.except(request.scope)),
        at: ctx.now,
        incarnation: Some(client.incarnation),
    });
    let code = Code {
        client: client.id.clone(),
        redirect_uri: request.return_to.redirect_uri().to_owned(),
        challenge: request.challenge.clone(),
        scope,
        nonce: request.nonce.clone(),
        sign_in,
        typed: interaction.progress.signed_in,
        session: session.id,
        expires_at: ctx.now.plus(ctx.sealgate.config.tokens.authorization_code),
        state: CodeState::Issued,
    };
    let store = ctx.sealgate.store.for_code(session.id, code.sign_in.subject);
    match store.issue_code(&secret.hash(), &code, consent.as_ref()).await {
        // It ended while this was decided.
        Err(StoreError::SignedOut) => return Ok(Decision::Page(SIGN_IN)),
        issued => issued?,
    }
    ctx.sealgate.metrics.issued(TokenKind::Code);
    if let Some(consent) = consent {
        let event = ctx.event(AuditKind::ConsentGiven, Actor::Person).of(consent.subject).with_client(&client.id);
        ctx.sealgate.audit.note(event.in_session(session.id).with_detail(consent.scope.to_string()));
        if let Err(error) = Box::pin(approval::request(ctx, client)).await {
            tracing::error!(%error, client = client.id.as_str(), "administrators are not notified of a client that needs an approval");
        }
    }
    let way = request.return_to.with_code(secret.expose(), ctx.sealgate.config.issuer.as_str());
    Ok(Decision::Answered(way_back::respond(ctx, &way)))
}

/// The person that a page speaks to: chosen or signed in for this request, or else in use. The same as [`next_step`]
/// means, or page and step would send the browser to and fro.
pub(super) async fn account(ctx: &RequestContext<'_>, waiting: &Waiting) -> Result<Option<User>, StoreError> {
    let session = match ctx.session().await? {
        Some(session) => without_gone_accounts(ctx, session.value).await?,
        None => None,
    };
    let interaction = waiting.interaction();
    let wanted = interaction.progress.account.or(interaction.expected);
    let sign_in = session.as_ref().and_then(|session| match wanted {
        Some(subject) => session.sign_in_of(subject),
        None => session.current(),
    });
    match sign_in {
        Some(sign_in) => Ok(ctx.sealgate.store.user(sign_in.subject).await?.filter(User::is_enabled)),
        None => Ok(None),
    }
}
