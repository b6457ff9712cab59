//! `GET /.well-known/openid-configuration` (OpenID Connect Discovery 1.0 §4) and its OAuth
//! equivalent (RFC 8414 §3).

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::oauth::metadata::ProviderMetadata;

/// Time for which clients may cache the document, seconds.
const SECONDS: u32 = 3600;

#[expect(clippy::unnecessary_wraps, reason = "all endpoints have this signature")]
pub(super) fn discovery_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let config = &ctx.sealgate.config;
    let (groups, form_post) = (config.tokens.groups_scope, config.form_post.is_for_some());
    let document = ProviderMetadata::of(config.issuer.as_str(), groups, form_post);
    Ok(Response::public_json(&document, SECONDS))
}
