//! `GET /.well-known/sealgate/keys`: for auditors. What the token states of each published key, its times, and the
//! vendor's attestation where the operator has laid one down. A member of its own for each, since they weigh differently:
//! the attributes are the token's word, the times are ours, and only an attestation is evidence.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::endpoint::call::Call;
use crate::endpoint::failure::Failure;
use crate::endpoint::response::Response;

/// How long the document may be kept, seconds: short, for it shows states as they are now.
const SECONDS: u32 = 60;

/// The longest attestation file that is read, bytes: a chain of a few certificates.
const LONGEST_ATTESTATION: u64 = 64 * 1024;

pub(super) async fn answer(call: &Call<'_>) -> Result<Response, Failure> {
    let sealgate = call.sealgate;
    let signer = sealgate.issuer.signer();
    let (set, found) = (signer.key_set(), signer.found());
    let ring = sealgate.store.key_ring().await?;
    let mut keys = Vec::new();
    for published in set.iter() {
        let kid = published.kid().as_str();
        let life = ring.find(kid);
        keys.push(json!({
            "kid": kid,
            "alg": "RS256",
            "bits": published.bits(),
            "state": life.map(|life| life.state(call.now)),
            "created_at": life.map(|life| life.created_at),
            "published_at": life.map(|life| life.published_at),
            "activate_at": life.and_then(|life| life.activate_at),
            "retire_at": life.and_then(|life| life.retire_at),
            "remove_at": life.and_then(|life| life.remove_at),
            "stated_by_token": found.iter().find(|key| key.kid.as_str() == kid),
            "attestation": attestation(sealgate.config.hsm.attestation.as_deref(), kid).await,
        }));
    }
    let document = json!({ "issuer": sealgate.config.issuer.as_str(), "keys": keys });
    Ok(Response::public_json(&document, SECONDS))
}

/// The certificates in `KID.pem`, written as in `x5c` (RFC 7517 §4.7). A kid is one of ours: letters, digits, `-`, `_`.
async fn attestation(directory: Option<&Path>, kid: &str) -> Value {
    let none = || json!("not attested");
    let Some(directory) = directory else { return none() };
    let file = directory.join(format!("{kid}.pem"));
    let mut pem = Vec::new();
    let read = async {
        let file = tokio::fs::File::open(&file).await?;
        file.take(LONGEST_ATTESTATION).read_to_end(&mut pem).await
    };
    match read.await {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return none(),
        Err(error) => {
            tracing::warn!(%error, file = %file.display(), "the attestation cannot be read");
            return none();
        }
    }
    let chain: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => {
            json!({ "x5c": chain.iter().map(|certificate| STANDARD.encode(certificate)).collect::<Vec<_>>() })
        }
        _ => {
            tracing::warn!(file = %file.display(), "the attestation holds no PEM certificates, or is too long");
            none()
        }
    }
}
