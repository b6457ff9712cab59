//! JSON of `PublicKeyCredential.toJSON()` (Level 3 §5.1.8).

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, Visitor};

use crate::secret::from_base64url;
use crate::webauthn::{CeremonyError, CredentialId, MAX_CEREMONY_RESPONSE_LENGTH};

/// Value that must be a JSON object. Derived deserializers also accept an array of the members in
/// order.
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

/// A credential as browsers send it, with the answer `R` of its ceremony.
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

/// Parses a credential. Returns its id, the answer, and whether it is discoverable according to the
/// browser.
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
