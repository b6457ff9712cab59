//! `GET /.well-known/sealgate/keys`: key information for auditors.
//!
//! For each published key it lists the attributes stated by the PKCS #11 token, its times, and the
//! vendor's attestation, if stored. They are separate members because they differ in evidential
//! value. The attributes are claims of the token, the times are claims of this server, and only an
//! attestation is evidence.

use serde_json::json;

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;

/// Time for which the document may be cached, seconds. It is short because key states change.
const SECONDS: u32 = 60;

pub(super) async fn keys_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let sealgate = ctx.sealgate;
    let signer = sealgate.issuer.signer();
    let (set, found) = (signer.key_set(), signer.found());
    let ring = sealgate.store.key_ring().await?;
    let mut keys = Vec::new();
    for published in set.iter() {
        let kid = published.kid().as_str();
        let life = ring.find(kid);
        let attestation = match sealgate.attestations.of(kid) {
            Some(chain) => json!({ "x5c": *chain }),
            None => json!("not attested"),
        };
        keys.push(json!({
            "kid": kid,
            "alg": "RS256",
            "bits": published.bits(),
            "state": life.map(|life| ring.state(life, ctx.now)),
            "created_at": life.map(|life| life.created_at),
            "published_at": life.map(|life| life.published_at),
            "activate_at": life.and_then(|life| life.activate_at),
            "retire_at": life.and_then(|life| life.retire_at),
            "remove_at": life.and_then(|life| life.remove_at),
            "stated_by_token": found.iter().find(|key| key.kid.as_str() == kid),
            "attestation": attestation,
        }));
    }
    let document = json!({ "issuer": sealgate.config.issuer.as_str(), "keys": keys });
    Ok(Response::public_json(&document, SECONDS))
}
