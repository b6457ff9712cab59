//! Client data of a ceremony (Level 3 §5.8.1): its type, challenge and origin.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, IgnoredAny};
use sha2::{Digest, Sha256};

use crate::webauthn::response::JsonObject;
use crate::webauthn::{CeremonyChallenge, CeremonyError, RelyingParty};

/// The members that are checked. Others are ignored: Chromium adds a random one to prevent
/// comparisons of the whole text.
#[derive(serde::Deserialize)]
struct ClientData<'a> {
    #[serde(rename = "type", borrow)]
    ceremony: Cow<'a, str>,
    #[serde(borrow)]
    challenge: Cow<'a, str>,
    #[serde(borrow)]
    origin: Cow<'a, str>,
    #[serde(rename = "crossOrigin", default)]
    cross_origin: bool,
    #[serde(rename = "topOrigin", default, deserialize_with = "is_there")]
    top_origin: bool,
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|IgnoredAny| true)
}

/// Checks client data (§7.1 steps 5 to 12, §7.2 steps 8 to 14 and 20). Returns their SHA-256, which
/// is signed.
pub(super) fn check(
    bytes: &[u8],
    ceremony: &str,
    relying_party: &RelyingParty,
    challenge: &CeremonyChallenge,
) -> Result<[u8; 32], CeremonyError> {
    let text = str::from_utf8(bytes).map_err(|_| CeremonyError::ClientData)?;
    // The specification requires UTF-8 decode, which removes a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let JsonObject(data) =
        serde_json::from_str::<JsonObject<ClientData<'_>>>(text).map_err(|_| CeremonyError::ClientData)?;
    if data.ceremony != ceremony {
        return Err(CeremonyError::OtherCeremony);
    }
    if !challenge.is(&data.challenge) {
        return Err(CeremonyError::OtherChallenge);
    }
    if data.origin != relying_party.origin {
        return Err(CeremonyError::OtherOrigin);
    }
    if data.cross_origin || data.top_origin {
        return Err(CeremonyError::CrossOrigin);
    }
    Ok(Sha256::digest(bytes).into())
}
