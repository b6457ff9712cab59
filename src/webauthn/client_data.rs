//! What the browser says of a ceremony (Level 3 §5.8.1): which one, for which challenge, on whose page.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};
use sha2::{Digest, Sha256};

use crate::webauthn::response::JsonObject;
use crate::webauthn::{CeremonyChallenge, CeremonyError, RelyingParty};

/// The members that count. Others are left alone: Chromium adds one with a random name, so that nobody compares the whole.
#[derive(Deserialize)]
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

/// Checks client data (§7.1 steps 5 to 12, §7.2 steps 8 to 14 and 20), and returns their SHA-256, which is signed.
pub(super) fn check(
    bytes: &[u8],
    ceremony: &str,
    relying_party: &RelyingParty,
    challenge: &CeremonyChallenge,
) -> Result<[u8; 32], CeremonyError> {
    let text = str::from_utf8(bytes).map_err(|_| CeremonyError::ClientData)?;
    // UTF-8 decode, by which the specification reads the text, drops a byte order mark.
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
