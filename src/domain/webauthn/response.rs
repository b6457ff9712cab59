//! JSON of `PublicKeyCredential.toJSON()` (Level 3 §5.1.8), and the client data in it (§5.8.1):
//! type, challenge and origin.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use sha2::{Digest, Sha256};

use crate::secret::from_base64url;
use crate::webauthn::{CeremonyChallenge, CeremonyError, CredentialId, MAX_CEREMONY_RESPONSE_LENGTH, RelyingParty};

/// Value that must be a JSON object. Derived deserializers would also accept an array.
pub(super) struct JsonObject<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

/// Bytes encoded as unpadded base64url.
pub(super) struct Base64Bytes(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_base64url(&text).map(Self).ok_or_else(|| D::Error::custom("not base64url"))
    }
}

/// Credential in a browser's answer. `R` is the response of its ceremony.
#[derive(serde::Deserialize)]
pub(super) struct CredentialJson<R> {
    id: String,
    #[serde(rename = "rawId")]
    raw_id: String,
    #[serde(rename = "type")]
    kind: String,
    response: JsonObject<R>,
    #[serde(rename = "clientExtensionResults", default)]
    extensions: Option<JsonObject<ExtensionsJson>>,
}

#[derive(serde::Deserialize)]
struct ExtensionsJson {
    #[serde(rename = "credProps", default)]
    properties: Option<JsonObject<PropertiesJson>>,
}

#[derive(serde::Deserialize)]
struct PropertiesJson {
    #[serde(default)]
    rk: Option<bool>,
}

/// Parses a credential. Returns its id, the response, and whether the credential is discoverable
/// according to the browser.
pub(super) fn parse<R: DeserializeOwned>(json: &str) -> Result<(CredentialId, R, Option<bool>), CeremonyError> {
    if json.len() > MAX_CEREMONY_RESPONSE_LENGTH {
        return Err(CeremonyError::TooLong);
    }
    let JsonObject(credential) =
        serde_json::from_str::<JsonObject<CredentialJson<R>>>(json).map_err(|_| CeremonyError::ResponseJson)?;
    if credential.kind != "public-key" {
        return Err(CeremonyError::ResponseJson);
    }
    if credential.id != credential.raw_id {
        return Err(CeremonyError::IdText);
    }
    let id = from_base64url(&credential.raw_id).ok_or(CeremonyError::IdText)?;
    let id = CredentialId::from_bytes(&id).ok_or(CeremonyError::IdLength)?;
    let discoverable = credential.extensions.and_then(|JsonObject(all)| all.properties?.0.rk);
    Ok((id, credential.response.0, discoverable))
}

/// Checked members of client data. Other members are ignored. Chromium adds a random member, so
/// that servers do not compare the whole text.
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
/// is part of the signed data.
pub(super) fn check(
    bytes: &[u8],
    ceremony: &str,
    relying_party: &RelyingParty,
    challenge: &CeremonyChallenge,
) -> Result<[u8; 32], CeremonyError> {
    let text = str::from_utf8(bytes).map_err(|_| CeremonyError::ClientData)?;
    // The specification requires the algorithm "UTF-8 decode", which removes a byte order mark.
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
