//! `grant_type=client_credentials` at the token endpoint (RFC 6749 §4.4): tokens of a client in its
//! own name, for one resource.
//!
//! All tokens of a client for an application belong to one grant. It is created with the first token,
//! and renewed about once an hour. Only then is a record written, in the store and in the audit log.

use http::StatusCode;

use crate::protocol::client_auth::Caller;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditKind};
use sealgate_domain::client::Client;
use sealgate_domain::error::Refusal;
use sealgate_domain::grant::{EndReason, Grant};
use sealgate_domain::oauth::token::TokenResponse;
use sealgate_domain::resource::{ResourceAccess, whole_scope};
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::base64url;
use sealgate_domain::service;
use sealgate_store::{Committed, Loaded};
use sealgate_system::metrics::TokenKind;

/// Maximum attempts to commit while concurrent requests change the same record.
const MAX_TRIES: usize = 8;

pub(crate) async fn issue(
    ctx: &RequestContext<'_>,
    caller: &Caller,
    app: &str,
    allowed: &ResourceAccess,
    requested: &ResourceAccess,
) -> Result<Response, Failure> {
    caller.prove(ctx).await?;
    let client = &caller.client;
    let lifetime = ctx.sealgate.config.tokens.access_token;
    for _ in 0..MAX_TRIES {
        let (grant, loaded) = grant_of(ctx, client, app, allowed).await?;
        let jti = base64url(&ctx.random::<16>());
        let algorithm = ctx.sealgate.config.access_token_alg(Some(requested));
        let tokens = ctx.sealgate.issuer.mint_for_client(&grant, requested, algorithm, jti, ctx.now).await?;
        let store = &ctx.sealgate.store;
        let committed = match &loaded {
            None => Some((store.add_grant(&grant).await?, AuditKind::TokensIssued)),
            Some(loaded) => match service::renewed(&grant, ctx.now, lifetime) {
                Some(renewed) => Some((store.update_grant(loaded, &renewed).await?, AuditKind::TokensRefreshed)),
                None => None,
            },
        };
        if let Some((Committed::Conflict, _)) = committed {
            continue;
        }
        // The client may have been disabled, deleted or changed while the token was signed. That
        // ended the grants of that time, but not a new grant.
        if let Err(refused) = still_allowed(ctx, client, requested).await {
            if loaded.is_none() {
                store.end_grant(grant.id, EndReason::Administrator, ctx.now).await?;
            }
            return Err(refused);
        }
        if let Some((_, kind)) = committed {
            let event = ctx.event(kind, Actor::Client).with_client(&client.id).with_grant(grant.id);
            ctx.sealgate.audit.note(event.with_detail(format!("client_credentials for {}", allowed.id)));
        }
        ctx.sealgate.metrics.issued(TokenKind::Service);
        let response = TokenResponse {
            access_token: tokens.access_token,
            token_type: "Bearer",
            expires_in: tokens.lifetime.as_secs(),
            id_token: None,
            refresh_token: None,
            scope: whole_scope(Scope::EMPTY, Some(requested)),
        };
        return Ok(Response::json(StatusCode::OK, &response));
    }
    Err(Failure::Unavailable)
}

/// Returns the active grant of the client for the application, or a new grant that is not stored yet.
async fn grant_of(
    ctx: &RequestContext<'_>,
    client: &Client,
    app: &str,
    allowed: &ResourceAccess,
) -> Result<(Grant, Option<Loaded<Grant>>), Failure> {
    for number in 0..service::MAX_GRANTS {
        let id = service::grant_id(client, app, number);
        match ctx.sealgate.store.grant(id).await? {
            None => {
                let lifetime = ctx.sealgate.config.tokens.access_token;
                return Ok((service::new_grant(client, id, allowed, ctx.now, lifetime), None));
            }
            Some(loaded) if loaded.value.is_active() => return Ok((loaded.value.clone(), Some(loaded))),
            // A revoked grant remains until its tokens have expired.
            Some(_) => {}
        }
    }
    Err(Refusal::invalid_grant("The access of the client was revoked too often. Try again in an hour.").into())
}

/// Checks that the client is still enabled, and may still request this access.
async fn still_allowed(ctx: &RequestContext<'_>, client: &Client, requested: &ResourceAccess) -> Result<(), Failure> {
    let stored = ctx.sealgate.registered_client(&client.id).await?;
    let stored = stored.filter(|stored| stored.is_enabled() && stored.incarnation == client.incarnation);
    let same = stored.filter(|stored| !stored.is_public() && stored.service == client.service);
    if same.is_some() && requested.still_available(&client.id, &*ctx.sealgate.config).is_ok() {
        return Ok(());
    }
    Err(Refusal::invalid_grant("The client is no longer active.").into())
}
