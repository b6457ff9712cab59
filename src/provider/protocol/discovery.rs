//! Public documents: the metadata of OpenID Connect Discovery and RFC 8414, the key set
//! (`/oauth/jwks`), and key information for auditors (`/.well-known/sealgate/keys`).

use http::StatusCode;
use serde_json::{Value, json};

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::client::ClientFeature;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::metadata::ProviderMetadata;
use sealgate_domain::source::SourceName;

/// Time for which clients may cache the metadata, in seconds.
const METADATA_CACHE_SECONDS: u32 = 3600;

pub(crate) async fn discovery_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let config = &ctx.sealgate.config;
    let (groups, form_post) = (config.tokens.groups_scope, config.form_post.is_for_some());
    let services = config.clients.iter().any(|defined| defined.client.service.is_some());
    let documents = !config.registration.document_hosts.is_empty();
    let (issuer, algorithms) = (config.issuer.as_str(), &config.keys.algorithms);
    let mut document = ProviderMetadata::for_issuer(issuer, algorithms, groups, form_post, services, documents);
    if ctx.sealgate.has_client_with(ClientFeature::Assertions).await {
        document = document.with_client_assertions();
    }
    if ctx.sealgate.has_client_with(ClientFeature::BackchannelLogout).await {
        document = document.with_backchannel_logout();
    }
    if ctx.sealgate.has_client_with(ClientFeature::Introspection).await {
        document = document.with_introspection();
    }
    Ok(Response::public_json(&document, METADATA_CACHE_SECONDS))
}

pub(crate) async fn jwks_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let sealgate = ctx.sealgate;
    if !sealgate.can_show_keys().await {
        return Err(Failure::Unavailable);
    }
    // A new key is published for longer than this cache lifetime before it signs.
    let seconds = u32::try_from(sealgate.config.keys.cache.as_secs()).unwrap_or(u32::MAX);
    Ok(Response::public_json(&sealgate.issuer.signer().key_set().jwk_set(), seconds))
}

/// Time for which OpenID providers may cache the client key, in seconds.
const CLIENT_KEY_CACHE_SECONDS: u32 = 3600;

/// Returns the public key of the client key at an OpenID provider, for that provider.
pub(crate) async fn upstream_jwks_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let name = ctx.head.uri.path().rsplit('/').nth(1).and_then(SourceName::parse);
    let source = name.and_then(|name| ctx.sealgate.sources.upstream(&name));
    let jwks = match source {
        Some(source) => source.provider.jwks().await.map_err(|fault| {
            tracing::error!(upstream = %source.name(), %fault, "cannot publish the client key");
            Failure::Unavailable
        })?,
        None => None,
    };
    let missing = || {
        let refusal = Refusal::new(ErrorCode::NotFound, "There is no client key with this name.");
        Failure::json(StatusCode::NOT_FOUND, refusal)
    };
    let document: Value = serde_json::from_str(&jwks.ok_or_else(missing)?).map_err(|_| Failure::Internal)?;
    Ok(Response::public_json(&document, CLIENT_KEY_CACHE_SECONDS))
}

/// Time for which the key information may be cached, in seconds. It is short because key states
/// change.
const KEYS_CACHE_SECONDS: u32 = 60;

pub(crate) async fn keys_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let sealgate = ctx.sealgate;
    let signer = sealgate.issuer.signer();
    let (set, key_reports) = (signer.key_set(), signer.key_reports());
    let ring = sealgate.store.key_ring().await?;
    let mut keys = Vec::new();
    for published in set.iter() {
        let kid = published.kid().as_str();
        let life = ring.find(kid);
        let attestation = match sealgate.attestations.get(kid) {
            Some(chain) => json!({ "x5c": *chain }),
            None => json!("not attested"),
        };
        keys.push(json!({
            "kid": kid,
            "alg": published.algorithm(),
            "bits": published.bits(),
            "state": life.map(|life| ring.state(life, ctx.now)),
            "created_at": life.map(|life| life.created_at),
            "published_at": life.map(|life| life.published_at),
            "activate_at": life.and_then(|life| life.activate_at),
            "retire_at": life.and_then(|life| life.retire_at),
            "remove_at": life.and_then(|life| life.remove_at),
            "stated_by_token": key_reports.iter().find(|key| key.kid.as_str() == kid),
            "attestation": attestation,
        }));
    }
    let document = json!({ "issuer": sealgate.config.issuer.as_str(), "keys": keys });
    Ok(Response::public_json(&document, KEYS_CACHE_SECONDS))
}
