//! Metadata documents of clients whose identifier is a URL
//! (draft-ietf-oauth-client-id-metadata-document-03).

use serde_json::{Map, Value};

use crate::client::{AuthMethod, ClientId};
use crate::oauth::registration::ClientMetadata;
use crate::oauth::strict_json;
use crate::resource::Resources;

/// Maximum length of a document in bytes.
pub const MAX_DOCUMENT_LENGTH: u64 = 5 * 1024;

/// Parses the document of a client.
///
/// The client is public, because a document has no secrets. Its name begins with the host of the
/// document: anyone can write any name into a document.
///
/// # Errors
/// Returns the violated rule.
pub fn parse(id: &ClientId, document: &[u8], resources: &dyn Resources) -> Result<ClientMetadata, String> {
    let members = strict_json::object(document).ok_or("is not a JSON object, or repeats a member")?;
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    if text("client_id") != Some(id.as_str()) {
        return Err("names another client_id than its URL".to_owned());
    }
    if has_secret(&members) {
        return Err("contains a secret".to_owned());
    }
    if members.get("token_endpoint_auth_method").is_some_and(|method| method != "none") {
        return Err("has another token_endpoint_auth_method than none".to_owned());
    }
    let metadata = ClientMetadata::parse(document, resources).map_err(|refusal| refusal.description.into_owned())?;
    let host = id.document_host().ok_or("has no URL")?;
    let name = metadata.name.map_or_else(|| host.to_owned(), |name| format!("{host}: {name}"));
    Ok(ClientMetadata { name: Some(name), auth_method: AuthMethod::None, ..metadata })
}

/// Returns whether the document has a client secret, or a private or symmetric key.
fn has_secret(members: &Map<String, Value>) -> bool {
    let keys = members.get("jwks").and_then(|jwks| jwks.get("keys")).and_then(Value::as_array);
    let is_secret = |key: &Value| ["d", "k"].iter().any(|member| key.get(member).is_some());
    ["client_secret", "client_secret_expires_at"].iter().any(|member| members.contains_key(*member))
        || keys.is_some_and(|keys| keys.iter().any(is_secret))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const URL: &str = "https://agents.test/notes.json";

    #[expect(clippy::needless_pass_by_value, reason = "the cases read better")]
    fn with(more: Value) -> Result<ClientMetadata, String> {
        let mut document = json!({"client_id": URL, "redirect_uris": ["http://localhost/cb"]});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(&ClientId::parse(URL).unwrap(), document.to_string().as_bytes(), &())
    }

    #[test]
    fn a_document_describes_a_public_client_of_its_host() {
        let metadata = with(json!({"client_name": "Notes"})).unwrap();
        assert_eq!((metadata.name.as_deref(), metadata.auth_method), (Some("agents.test: Notes"), AuthMethod::None));
        assert_eq!(with(json!({})).unwrap().name.as_deref(), Some("agents.test"));
        assert!(with(json!({"jwks": {"keys": [{"kty": "EC", "x": "a"}]}})).is_ok());
    }

    #[test]
    fn other_documents_are_refused() {
        for (more, fault) in [
            (json!({"client_id": "https://agents.test/notes.jsoN"}), "names another client_id"),
            (json!({"client_id": "https://agents.test/notes.json/"}), "names another client_id"),
            (json!({"client_id": null}), "names another client_id"),
            (json!({"client_secret": "x"}), "contains a secret"),
            (json!({"client_secret_expires_at": 0}), "contains a secret"),
            (json!({"jwks": {"keys": [{"kty": "EC", "d": "a"}]}}), "contains a secret"),
            (json!({"jwks": {"keys": [{"kty": "oct", "k": "a"}]}}), "contains a secret"),
            (json!({"token_endpoint_auth_method": "client_secret_basic"}), "has another token_endpoint_auth_method"),
            (json!({"token_endpoint_auth_method": "private_key_jwt"}), "has another token_endpoint_auth_method"),
            (json!({"redirect_uris": ["http://agents.test/cb"]}), "A URI must be https"),
            (json!({"redirect_uris": null}), "The member redirect_uris"),
        ] {
            let found = with(more.clone()).unwrap_err();
            assert!(found.starts_with(fault), "{more}: {found}");
        }
        let id = ClientId::parse(URL).unwrap();
        for document in ["", "[]", r#"{"client_id":"x","client_id":"https://agents.test/notes.json"}"#] {
            assert!(
                parse(&id, document.as_bytes(), &()).unwrap_err().starts_with("is not a JSON object"),
                "{document}"
            );
        }
    }
}
