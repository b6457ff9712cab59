//! `POST /oauth/token` (OpenID Connect Core §3.1.3; RFC 6749 §4.1.3, §6).
//!
//! Both grant types take five steps before the response: parse, load, decide, sign, commit. Signing
//! precedes the commit, so that the code or refresh token remains unused if the HSM fails. The
//! commit is durable before the response is sent. A restart therefore cannot lose a token that a
//! client has received.

use std::time::Instant;

use http::StatusCode;

use crate::protocol::client_auth;
use crate::protocol::client_auth::Caller;
use crate::protocol::client_credentials;
use sealgate_core::tokens::issuer::{TokenAlgorithms, Tokens};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response::Response;
use sealgate_domain::answers::AnswerOutcome;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::{Client, ConsentRule};
use sealgate_domain::client_logout::SessionClient;
use sealgate_domain::code::{Code, RedeemFault, UNKNOWN_CODE};
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::grant::{
    EndReason, Grant, GrantKey, GrantState, Parent, PresentedToken, Refresh, RefreshToken, Salt,
};
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::oauth::token::{Authorization, RequestedScope, TokenRequest, TokenResponse};
use sealgate_domain::pkce::CodeVerifier;
use sealgate_domain::resource::{self, DeclaredResource, ResourceAccess};
use sealgate_domain::scope::{Scope, ScopeValue};
use sealgate_domain::secret::{Secret, base64url};
use sealgate_domain::user::{Subject, User};
use sealgate_store::{Committed, StoreError};
use sealgate_system::metrics::{Replayed, TokenKind};

/// Maximum attempts to commit while concurrent requests change the same record.
const MAX_TRIES: usize = 8;

const SIGN_IN_ENDED: &str = "The sign-in has ended.";

pub(crate) async fn token_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let form = match ctx.form() {
        Ok(form) => form,
        Err(refusal) => {
            ctx.charge_address(Bucket::Token).await?;
            return Err(refusal.into());
        }
    };
    let received = Instant::now();
    let caller = client_auth::authenticate(ctx, &form, Bucket::Token).await?;
    let outcome = grant_tokens(ctx, &caller, &form, received).await;
    caller.charge(ctx, outcome).await
}

async fn grant_tokens(
    ctx: &RequestContext<'_>,
    caller: &Caller,
    form: &Params,
    received: Instant,
) -> Result<Response, Failure> {
    match TokenRequest::parse(form, &caller.client, &*ctx.sealgate.config)? {
        TokenRequest::Code { code, redirect_uri, verifier, resource } => {
            redeem(ctx, caller, &code, &redirect_uri, verifier.as_ref(), resource.as_ref()).await
        }
        TokenRequest::Refresh { token, scope, resource } => {
            refresh(ctx, caller, &token, scope.as_ref(), resource.as_ref(), received).await
        }
        TokenRequest::Service { app, allowed, requested } => {
            client_credentials::issue(ctx, caller, &app, &allowed, &requested).await
        }
    }
}

async fn redeem(
    ctx: &RequestContext<'_>,
    caller: &Caller,
    code: &Secret,
    redirect_uri: &str,
    verifier: Option<&CodeVerifier>,
    requested: Option<&DeclaredResource>,
) -> Result<Response, Failure> {
    let client = &caller.client;
    for _ in 0..MAX_TRIES {
        let Some(loaded) = ctx.sealgate.store.code(&code.hash()).await? else { return Err(UNKNOWN_CODE.into()) };
        let code = &loaded.value;
        match code.redeem(&client.id, redirect_uri, verifier, ctx.now) {
            Ok(()) => caller.prove(ctx).await?,
            Err(RedeemFault::Refused(refusal)) => return Err(refusal.into()),
            Err(RedeemFault::Replayed(grant)) => {
                // The code was used twice and may have been stolen, so end the grant (RFC 6749
                // §4.1.2).
                ctx.sealgate.store.end_grant(grant, EndReason::CodeReplayed, ctx.now).await?;
                ctx.sealgate.metrics.replayed(Replayed::Code);
                let event = ctx.event(AuditKind::ReuseDetected, Actor::Client).for_subject(code.sign_in.subject);
                ctx.sealgate.audit.note(event.with_client(&client.id).with_grant(grant).with_detail("code"));
                return Err(Refusal::invalid_grant("The authorization code was used before.").into());
            }
        }
        let user = still_valid(ctx, client, code).await?;
        let key = GrantKey::from_random(ctx.random());
        let first =
            code.scope.contains(ScopeValue::OfflineAccess).then(|| RefreshToken::first(key.clone(), ctx.random()));
        let grant = grant(ctx, code, &key, first.as_ref());
        let resource = resource::of_token(code.resource.as_ref(), requested, &client.id, &*ctx.sealgate.config)?;
        let authorization = authorization(&grant, grant.scope, resource);
        let sid = SessionClient::sid_for(client, grant.subject, grant.session);
        let visible_groups = client.visible_groups.clone();
        let authorization = Authorization { nonce: code.nonce.clone(), sid, visible_groups, ..authorization };
        let tokens = mint(ctx, &authorization, client, &user).await?;
        if !ctx.sealgate.store.note_use(client).await? {
            return Err(Refusal::invalid_grant("The client is no longer active.").into());
        }
        let store = ctx.sealgate.store.for_code(code.session, code.sign_in.subject);
        // A client without an ID token has no session that could end.
        let is_listed = client.backchannel_logout.is_some() && authorization.has_id_token();
        let redeemed = if is_listed {
            store.redeem_code_and_list(&loaded, &grant).await
        } else {
            store.redeem_code(&loaded, &grant).await
        };
        if matches!(redeemed, Err(StoreError::SignedOut)) {
            return Err(Refusal::invalid_grant(SIGN_IN_ENDED).into());
        }
        if redeemed? == Committed::Yes {
            // A revocation during the signing has ended the grants that existed at that time, but
            // not this new grant. End this grant: no client has received its tokens.
            if let Err(gone) = still_valid(ctx, client, code).await {
                ctx.sealgate.store.end_grant(grant.id, EndReason::Administrator, ctx.now).await?;
                return Err(gone);
            }
            note(ctx, AuditKind::TokensIssued, &grant, None);
            return Ok(respond(ctx, tokens, first.as_ref(), &authorization));
        }
    }
    Err(Failure::Unavailable)
}

async fn refresh(
    ctx: &RequestContext<'_>,
    caller: &Caller,
    presented: &Secret,
    narrower: Option<&RequestedScope>,
    requested: Option<&DeclaredResource>,
    received: Instant,
) -> Result<Response, Failure> {
    let client = &caller.client;
    let unknown = Refusal::invalid_grant("The refresh token is invalid.");
    let Some(token) = RefreshToken::parse(presented.expose()) else { return Err(unknown.into()) };
    let settings = &ctx.sealgate.config.tokens;
    let window = client.refresh_retry(settings.refresh_retry);
    for _ in 0..MAX_TRIES {
        let Some(loaded) = ctx.sealgate.store.grant(token.grant()).await? else { return Err(unknown.into()) };
        let grant = &loaded.value;
        let answers = &ctx.sealgate.answers;
        let may_precede_rotation = answers.may_precede_rotation(received, grant.rotated_at(), ctx.now);
        let mut judged = grant.judge(&token, &client.id, window, ctx.now);
        let is_doubtful = matches!(judged, PresentedToken::Parent(..));
        if let PresentedToken::Parent(salt, rotation) = judged {
            judged = match answers.outcome(&ctx.sealgate.store, &rotation, ctx.now).await? {
                AnswerOutcome::Doubtful => PresentedToken::Again(salt),
                AnswerOutcome::InTime => PresentedToken::Replayed,
                AnswerOutcome::Pending => return Err(Failure::Unavailable),
            };
        }
        let again = match judged {
            PresentedToken::Current => None,
            PresentedToken::Again(salt) => Some(salt),
            PresentedToken::Unknown => return Err(unknown.into()),
            PresentedToken::Ended => return Err(Refusal::invalid_grant("The refresh token was revoked.").into()),
            PresentedToken::Expired => return Err(Refusal::invalid_grant("The refresh token has expired.").into()),
            // While this request was delayed, the client may have given up and retried, at this or
            // another node.
            PresentedToken::Replayed if may_precede_rotation => return Err(Failure::Unavailable),
            PresentedToken::Replayed | PresentedToken::Parent(..) => {
                // The attacker may have this token or the newer one, so end the whole family (RFC
                // 9700 §4.14.2).
                ctx.sealgate.store.end_grant(grant.id, EndReason::RefreshReplayed, ctx.now).await?;
                ctx.sealgate.metrics.replayed(Replayed::RefreshToken);
                note(ctx, AuditKind::ReuseDetected, grant, Some("refresh token"));
                return Err(Refusal::invalid_grant("The refresh token was used before.").into());
            }
        };
        caller.prove(ctx).await?;
        let user = find_user(ctx, grant.subject).await?;
        require_level(ctx, client, &user, &grant.acr).await?;
        // Scopes that the operator has removed from the client are not granted on refresh either.
        let most = grant.scope.intersection(client.scope);
        let mut scope = most;
        let mut resource = resource::of_token(grant.resource.as_ref(), requested, &client.id, &*ctx.sealgate.config)?;
        if let Some(narrower) = narrower {
            scope = narrower.scope;
            let of_resource = resource.as_ref().map(|resource| resource.scopes.clone()).unwrap_or_default();
            if !scope.is_subset_of(most) || !narrower.of_resource.is_subset(&of_resource) {
                return Err(Refusal::new(ErrorCode::InvalidScope, "The scope was not granted.").into());
            }
            resource = resource.map(|resource| ResourceAccess { scopes: narrower.of_resource.clone(), ..resource });
        }
        let sid = sid_on_refresh(ctx, client, grant).await?;
        let visible_groups = client.visible_groups.clone();
        let authorization = Authorization { sid, visible_groups, ..authorization(grant, scope, resource) };
        let tokens = mint(ctx, &authorization, client, &user).await?;
        let detail = again.as_ref().map(|_| "again");
        let salt = again.clone().unwrap_or_else(|| Salt::from_random(ctx.random()));
        let next = token.next(&salt);
        let answering = answers.begin(received, ctx.now);
        let changed = if again.is_some() {
            // Commit even if the record hardly changes: the commit fails if the child token was
            // used or the grant ended during signing.
            if is_doubtful { grant.given_again(answering.rotation()) } else { grant.clone() }
        } else {
            let answer = Some(answering.rotation());
            let parent = Parent { hash: token.hash(), salt, rotated_at: ctx.now, answer };
            grant.rotated(&next, Some(parent), ctx.now, settings.refresh_token)
        };
        let changed = changed.living_until(ctx.now.plus(settings.access_token));
        if ctx.sealgate.store.update_grant(&loaded, &changed).await? == Committed::Yes {
            note(ctx, AuditKind::TokensRefreshed, grant, detail);
            let response = respond(ctx, tokens, Some(&next), &authorization);
            answering.ready();
            return Ok(response);
        }
        answering.withdraw();
    }
    Err(Failure::Unavailable)
}

/// Returns the claim `sid` if the session lists the client, so that a logout token with this `sid`
/// will follow. The session may have ended, and the operator may have set the client's
/// `backchannel_logout_uri` after the code was redeemed.
async fn sid_on_refresh(ctx: &RequestContext<'_>, client: &Client, grant: &Grant) -> Result<Option<String>, Failure> {
    let Some(sid) = SessionClient::sid_for(client, grant.subject, grant.session) else { return Ok(None) };
    let Some(session) = ctx.sealgate.store.session(grant.session).await? else { return Ok(None) };
    let listed = SessionClient { client: client.id.clone(), subject: grant.subject };
    Ok(Some(sid).filter(|_| session.value.clients.contains(&listed)))
}

/// Records an event of a grant in the audit log.
fn note(ctx: &RequestContext<'_>, kind: AuditKind, grant: &Grant, detail: Option<&str>) {
    let event =
        ctx.event(kind, Actor::Client).for_subject(grant.subject).with_client(&grant.client).with_grant(grant.id);
    ctx.sealgate.audit.note(detail.into_iter().fold(event.in_session(grant.session), AuditEvent::with_detail));
}

/// Returns the user of a code if the user, session, consent and client are still valid.
async fn still_valid(ctx: &RequestContext<'_>, client: &Client, code: &Code) -> Result<User, Failure> {
    let user = find_user(ctx, code.sign_in.subject).await?;
    require_session(ctx, code).await?;
    require_consent(ctx, client, code).await?;
    let incarnation = client.incarnation;
    let client = ctx.sealgate.registered_client(&client.id).await?;
    let Some(client) = client.filter(|client| client.is_enabled() && client.incarnation == incarnation) else {
        return Err(Refusal::invalid_grant("The client is no longer active.").into());
    };
    // The operator may have removed scopes of the client since the code was issued.
    if !code.scope.is_subset_of(client.scope) {
        return Err(Refusal::invalid_grant("The client may no longer request this scope.").into());
    }
    require_level(ctx, &client, &user, code.sign_in.acr()).await?;
    Ok(user)
}

/// Checks that the sign-in meets the level of the client, and the level that `[factors]` requires
/// of the user.
///
/// The level in the authorization request does not matter: the user can edit that request's
/// address, and the required levels may have risen since.
///
/// On failure, the code or refresh token remains unused and the grant stays active, because the
/// operator may have set the requirement by mistake.
async fn require_level(ctx: &RequestContext<'_>, client: &Client, user: &User, acr: &str) -> Result<(), Failure> {
    if !client.accepts_acr(acr) {
        let why = "The client requires a stronger sign-in. Sign in again.";
        return Err(Refusal::invalid_grant(why).into());
    }
    if ctx.level_above(acr, user).await?.is_some() {
        let why = "The account requires a stronger sign-in. Sign in again.";
        return Err(Refusal::invalid_grant(why).into());
    }
    Ok(())
}

/// Returns the user, if enabled.
async fn find_user(ctx: &RequestContext<'_>, subject: Subject) -> Result<User, Failure> {
    let user = ctx.sealgate.active_user(subject).await?;
    user.ok_or_else(|| Refusal::invalid_grant("The account is no longer active.").into())
}

/// Checks that the code's session is live, and that the user is still signed in in this session.
///
/// A code that was issued before a sign-out must not give access afterwards.
async fn require_session(ctx: &RequestContext<'_>, code: &Code) -> Result<(), Failure> {
    let session = ctx.sealgate.store.session(code.session).await?;
    let is_live = session.is_some_and(|session| session.value.sign_in_of(code.sign_in.subject).is_some());
    if is_live { Ok(()) } else { Err(Refusal::invalid_grant(SIGN_IN_ENDED).into()) }
}

/// Checks that the user still consents to the code's scope.
///
/// The user may have withdrawn the consent since the code was issued.
async fn require_consent(ctx: &RequestContext<'_>, client: &Client, code: &Code) -> Result<(), Failure> {
    if client.consent == ConsentRule::Implied {
        return Ok(());
    }
    let consent = ctx.sealgate.store.consent(code.sign_in.subject, &client.id).await?;
    if consent.is_some_and(|consent| consent.is_for(client) && consent.covers(code.scope, code.resource.as_ref())) {
        return Ok(());
    }
    Err(Refusal::invalid_grant("The consent was withdrawn.").into())
}

fn grant(ctx: &RequestContext<'_>, code: &Code, key: &GrantKey, first: Option<&RefreshToken>) -> Grant {
    let settings = &ctx.sealgate.config.tokens;
    let refresh = first.map(|token| Refresh {
        generation: 0,
        current: token.hash(),
        expires_at: ctx.now.plus(settings.refresh_token),
        parent: None,
    });
    let lifetime =
        refresh.as_ref().map_or(settings.access_token, |_| settings.refresh_token.max(settings.access_token));
    Grant {
        id: key.id(),
        client: code.client.clone(),
        subject: code.sign_in.subject,
        session: code.session,
        scope: code.scope,
        resource: code.resource.clone(),
        auth_time: code.sign_in.at(),
        acr: code.sign_in.acr().to_owned(),
        amr: code.sign_in.amr(),
        created_at: ctx.now,
        expires_at: ctx.now.plus(lifetime),
        state: GrantState::Active,
        refresh,
        is_service: false,
    }
}

fn authorization(grant: &Grant, scope: Scope, resource: Option<ResourceAccess>) -> Authorization {
    Authorization {
        grant: grant.id,
        client: grant.client.clone(),
        subject: grant.subject,
        scope,
        resource,
        nonce: None,
        auth_time: grant.auth_time,
        acr: grant.acr.clone(),
        amr: grant.amr.clone(),
        sid: None,
        visible_groups: GroupFilter::default(),
    }
}

async fn mint(
    ctx: &RequestContext<'_>,
    authorization: &Authorization,
    client: &Client,
    user: &User,
) -> Result<Tokens, Failure> {
    let jti = base64url(&ctx.random::<16>());
    let algorithms = TokenAlgorithms::of(&ctx.sealgate.config, authorization.resource.as_ref(), client);
    Ok(ctx.sealgate.issuer.mint(authorization, algorithms, user, jti, ctx.now).await?)
}

fn respond(
    ctx: &RequestContext<'_>,
    tokens: Tokens,
    refresh: Option<&RefreshToken>,
    authorization: &Authorization,
) -> Response {
    let metrics = &ctx.sealgate.metrics;
    metrics.issued(TokenKind::Access);
    if tokens.id_token.is_some() {
        metrics.issued(TokenKind::Id);
    }
    if refresh.is_some() {
        metrics.issued(TokenKind::Refresh);
    }
    let response = TokenResponse {
        access_token: tokens.access_token,
        token_type: "Bearer",
        expires_in: tokens.lifetime.as_secs(),
        id_token: tokens.id_token,
        refresh_token: refresh.map(|token| token.to_wire().expose().to_owned()),
        scope: authorization.whole_scope(),
    };
    Response::json(StatusCode::OK, &response)
}
