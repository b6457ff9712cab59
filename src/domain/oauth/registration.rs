//! Dynamic client registration (RFC 7591, RFC 7592, OpenID Connect Registration 1.0): conversion
//! between metadata and clients.
//!
//! Supported metadata is stored and returned. Unsupported response types, grant types and scopes
//! are removed from lists, and the response contains the registered values (RFC 7591 §2). Other
//! unsupported values are rejected, and unknown metadata is ignored. URLs in a registration are
//! never fetched.

use serde_json::{Map, Value, json};

use crate::client::{ApplicationType, AuthMethod, Client, ClientDetails, ClientType, ConsentRule, GrantType};
use crate::error::{ErrorCode, Refusal};
use crate::oauth::jwk_set::Algorithm;
use crate::profile::is_line;
use crate::redirect_uri::RedirectUri;
use crate::resource::Resources;
use crate::scope::{Scope, ScopeValue};
use crate::secret::Secret;

/// Maximum number of redirect URIs of a client.
const MAX_URIS: usize = 20;
const MAX_NAME_LENGTH: usize = 200;

/// Validated metadata of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientMetadata {
    pub name: Option<String>,
    pub auth_method: AuthMethod,
    /// Redirect URIs, at least one.
    pub redirect_uris: Vec<RedirectUri>,
    /// URIs to which browsers may be redirected after a logout.
    pub post_logout_redirect_uris: Vec<RedirectUri>,
    pub scope: Scope,
    pub grant_types: Vec<GrantType>,
    pub details: ClientDetails,
}

impl ClientMetadata {
    /// Parses the body of a registration or update request. The caller must check that the server
    /// signs with [`ClientDetails::id_token_alg`].
    ///
    /// # Errors
    /// `invalid_redirect_uri`, `invalid_client_metadata`, `unapproved_software_statement` (RFC 7591
    /// §3.2.2).
    pub fn parse(body: &[u8], resources: &dyn Resources) -> Result<Self, Refusal> {
        let members = members(body)?;
        if members.contains_key("software_statement") {
            return Err(Refusal::new(ErrorCode::UnapprovedSoftwareStatement, "Software statements are not supported."));
        }
        refuse_unsupported(&members)?;
        let auth_method = match text(&members, "token_endpoint_auth_method")? {
            None | Some("client_secret_basic") => AuthMethod::ClientSecretBasic,
            Some("client_secret_post") => AuthMethod::ClientSecretPost,
            Some("none") => AuthMethod::None,
            Some(_) => {
                return Err(invalid(
                    "The token_endpoint_auth_method must be none, client_secret_basic or client_secret_post.",
                ));
            }
        };
        let grant_types = grant_types(&members)?;
        let scope = scope(&members, resources)?;
        Ok(Self {
            name: name(&members)?,
            auth_method,
            redirect_uris: uris(&members, "redirect_uris")?.ok_or(NO_REDIRECT_URI)?,
            post_logout_redirect_uris: uris(&members, "post_logout_redirect_uris")?.unwrap_or_default(),
            scope: scope.union([ScopeValue::OpenId].into_iter().collect()),
            grant_types,
            details: ClientDetails {
                description: None,
                client_uri: https(&members, "client_uri")?,
                initiate_login_uri: https(&members, "initiate_login_uri")?,
                tos_uri: https(&members, "tos_uri")?,
                policy_uri: https(&members, "policy_uri")?,
                default_max_age: default_max_age(&members)?,
                default_scope: None,
                application_type: application_type(&members)?,
                id_token_signed_response_alg: id_token_alg(&members)?,
            },
        })
    }

    /// Returns the type of a client with this metadata: public or confidential.
    pub fn client_type(&self) -> ClientType {
        if self.auth_method == AuthMethod::None { ClientType::Public } else { ClientType::Confidential }
    }

    /// Replaces the metadata of a client. Omitted values are reset (RFC 7592 §2.2).
    ///
    /// Keeps the default scope, which is not part of the metadata. A client to which an operator gave
    /// keys also keeps its authentication method (§2.2 lets the server replace values).
    pub fn replace(self, client: &mut Client) {
        if !client.uses_assertions() {
            client.client_type = self.client_type();
            client.set_auth_method(self.auth_method);
        }
        client.name = self.name.unwrap_or_else(|| client.id.to_string());
        client.redirect_uris = self.redirect_uris;
        client.post_logout_redirect_uris = self.post_logout_redirect_uris;
        client.scope = self.scope;
        client.grant_types = self.grant_types;
        client.details = ClientDetails { default_scope: client.details.default_scope, ..self.details };
        client.consent = ConsentRule::Ask;
    }
}

/// Secrets for the response. These are the secrets that the request created or presented, because
/// the store has only hashes.
#[derive(Debug, Clone)]
pub struct Issued<'a> {
    /// Client secret of a confidential client.
    pub secret: Option<&'a Secret>,
    /// Registration access token.
    pub access_token: Option<&'a Secret>,
}

/// Returns the client information response (RFC 7591 §3.2.1, RFC 7592 §3).
pub fn client_information(client: &Client, registration_uri: &str, issued: &Issued<'_>) -> Value {
    let mut members = json!({
        "client_id": client.id,
        "client_id_issued_at": client.created_at,
        "client_name": client.name,
        "redirect_uris": client.redirect_uris,
        "grant_types": client.grant_types,
        "response_types": ["code"],
        "token_endpoint_auth_method": client.auth_method,
        "application_type": client.details.application_type,
        "id_token_signed_response_alg": client.details.id_token_alg(),
        "subject_type": "public",
        "scope": client.scope,
        "registration_client_uri": registration_uri,
    });
    let mut set = |name: &str, value: Option<Value>| {
        if let (Some(members), Some(value)) = (members.as_object_mut(), value) {
            members.insert(name.to_owned(), value);
        }
    };
    if !client.post_logout_redirect_uris.is_empty() {
        set("post_logout_redirect_uris", Some(json!(client.post_logout_redirect_uris)));
    }
    set("client_uri", client.details.client_uri.as_ref().map(|uri| json!(uri)));
    set("initiate_login_uri", client.details.initiate_login_uri.as_ref().map(|uri| json!(uri)));
    set("tos_uri", client.details.tos_uri.as_ref().map(|uri| json!(uri)));
    set("policy_uri", client.details.policy_uri.as_ref().map(|uri| json!(uri)));
    set("default_max_age", client.details.default_max_age.map(|seconds| json!(seconds)));
    set("client_secret", issued.secret.map(|secret| json!(secret.expose())));
    set("client_secret_expires_at", issued.secret.map(|_| json!(0)));
    set("registration_access_token", issued.access_token.map(|token| json!(token.expose())));
    members
}

/// Returns the members of a request's body. Omits null members, because null means absent (RFC 7592
/// §2.2).
///
/// # Errors
/// `invalid_client_metadata` if the body is not a JSON object.
pub fn members(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    let mut members: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| invalid("The body must be a JSON object."))?;
    members.retain(|_, value| !value.is_null());
    Ok(members)
}

const NO_REDIRECT_URI: Refusal =
    Refusal::new(ErrorCode::InvalidRedirectUri, "The member redirect_uris must be a list of at least one URI.");

const fn invalid(description: &'static str) -> Refusal {
    Refusal::new(ErrorCode::InvalidClientMetadata, description)
}

/// Rejects unsupported members that the client would rely on.
fn refuse_unsupported(members: &Map<String, Value>) -> Result<(), Refusal> {
    if members.contains_key("jwks") && members.contains_key("jwks_uri") {
        return Err(invalid("The members jwks and jwks_uri exclude each other."));
    }
    if strings(members, "response_types")?.is_some_and(|types| !types.contains(&"code")) {
        return Err(invalid("The only supported response type is code."));
    }
    for (member, only) in [("subject_type", "public"), ("userinfo_signed_response_alg", "none")] {
        if text(members, member)?.is_some_and(|value| value != only) {
            return Err(invalid("UserInfo is plain JSON, and the subject type is public."));
        }
    }
    for member in [
        "id_token_encrypted_response_alg",
        "id_token_encrypted_response_enc",
        "userinfo_encrypted_response_alg",
        "userinfo_encrypted_response_enc",
        "request_object_signing_alg",
        "request_object_encryption_alg",
        "request_object_encryption_enc",
        "sector_identifier_uri",
    ] {
        if members.contains_key(member) {
            return Err(invalid("Encryption, request objects and sector identifiers are not supported."));
        }
    }
    if members.get("require_auth_time").is_some_and(|value| !value.is_boolean()) {
        return Err(invalid("The member require_auth_time must be a boolean."));
    }
    Ok(())
}

fn application_type(members: &Map<String, Value>) -> Result<ApplicationType, Refusal> {
    match text(members, "application_type")? {
        None | Some("web") => Ok(ApplicationType::Web),
        Some("native") => Ok(ApplicationType::Native),
        Some(_) => Err(invalid("The application_type must be web or native.")),
    }
}

/// The requested algorithm has no keys. Members of the discovery document list the algorithms.
pub const UNSUPPORTED_ALGORITHM: Refusal =
    invalid("ID tokens are signed with an algorithm in id_token_signing_alg_values_supported.");

/// Parses the algorithm of ID tokens. Returns `None` for RS256, the default. The caller must check
/// that the server has keys for another algorithm.
fn id_token_alg(members: &Map<String, Value>) -> Result<Option<Algorithm>, Refusal> {
    let Some(name) = text(members, "id_token_signed_response_alg")? else { return Ok(None) };
    let algorithm = Algorithm::parse(name).ok_or(UNSUPPORTED_ALGORITHM)?;
    Ok(Some(algorithm).filter(|algorithm| *algorithm != Algorithm::Rs256))
}

fn grant_types(members: &Map<String, Value>) -> Result<Vec<GrantType>, Refusal> {
    let Some(requested) = strings(members, "grant_types")? else {
        // RFC 7591 §2 defines the default. Without the grant type `refresh_token`, the scope
        // `offline_access` has no effect.
        return Ok(vec![GrantType::AuthorizationCode]);
    };
    let supported = [GrantType::AuthorizationCode, GrantType::RefreshToken];
    let types: Vec<_> = supported.into_iter().filter(|grant| requested.contains(&grant.as_str())).collect();
    if !types.contains(&GrantType::AuthorizationCode) {
        return Err(invalid("The grant_types must contain authorization_code and may contain refresh_token."));
    }
    Ok(types)
}

/// Parses the scope. Removes unsupported values, and values that only an operator can grant.
fn scope(members: &Map<String, Value>, resources: &dyn Resources) -> Result<Scope, Refusal> {
    let Some(list) = text(members, "scope")? else { return Ok(Scope::all()) };
    let (scope, others) = Scope::with_others(list);
    let scope = scope.intersection(Scope::all());
    // Each client may request the scopes of resources, so they are not part of the registration.
    let has_known = !scope.is_empty() || others.iter().any(|value| resources.declare_scope(value));
    if !has_known && !list.trim().is_empty() {
        return Err(invalid("The scope has no known value."));
    }
    Ok(scope)
}

/// Returns a list of strings. `None` if the member is absent.
fn strings<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<Vec<&'a str>>, Refusal> {
    let Some(value) = members.get(name) else { return Ok(None) };
    let list = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    list.map(Some).ok_or(invalid("The members response_types and grant_types must be lists of strings."))
}

/// Parses a name that fits on one line.
fn name(members: &Map<String, Value>) -> Result<Option<String>, Refusal> {
    let name = text(members, "client_name")?;
    if name.is_some_and(|name| !is_line(name, MAX_NAME_LENGTH)) {
        return Err(invalid("The member client_name must be one line of visible characters."));
    }
    Ok(name.map(str::to_owned))
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Refusal> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(value)) if value.chars().count() <= MAX_NAME_LENGTH || name.ends_with("_uri") => {
            Ok(Some(value.as_str()).filter(|value| !value.is_empty()))
        }
        Some(_) => Err(invalid("A member that must be a string is not a string, or is too long.")),
    }
}

fn https(members: &Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = text(members, name)? else { return Ok(None) };
    match RedirectUri::parse(value) {
        Ok(uri) if uri.as_str().starts_with("https://") => Ok(Some(value.to_owned())),
        _ => Err(invalid("The members client_uri, initiate_login_uri, tos_uri and policy_uri must be https URLs.")),
    }
}

fn default_max_age(members: &Map<String, Value>) -> Result<Option<u64>, Refusal> {
    match members.get("default_max_age") {
        None => Ok(None),
        Some(value) => {
            value.as_u64().map(Some).ok_or(invalid("The member default_max_age must be a number of seconds."))
        }
    }
}

/// Returns a list of URIs. `None` if the member is absent.
fn uris(members: &Map<String, Value>, name: &str) -> Result<Option<Vec<RedirectUri>>, Refusal> {
    let Some(value) = members.get(name) else { return Ok(None) };
    let list = value.as_array().filter(|list| !list.is_empty() && list.len() <= MAX_URIS);
    let Some(list) = list else {
        return if name == "redirect_uris" {
            Err(NO_REDIRECT_URI)
        } else if value.as_array().is_some_and(Vec::is_empty) {
            Ok(None)
        } else {
            Err(invalid("A list of URIs can have at most 20 entries."))
        };
    };
    list.iter()
        .map(|uri| uri.as_str().and_then(|text| RedirectUri::parse(text).ok()))
        .collect::<Option<Vec<_>>>()
        .map(Some)
        .ok_or(Refusal::new(
            ErrorCode::InvalidRedirectUri,
            "A URI must be https, or http on localhost, 127.0.0.1 or [::1], without fragment, wildcard or username.",
        ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the cases read better")]
    fn parse(body: Value) -> Result<ClientMetadata, ErrorCode> {
        ClientMetadata::parse(body.to_string().as_bytes(), &()).map_err(|refusal| refusal.code)
    }

    #[test]
    fn defaults_follow_the_rfc() {
        let metadata = parse(json!({"redirect_uris": ["https://rp.test/cb"]})).unwrap();
        assert_eq!(metadata.auth_method, AuthMethod::ClientSecretBasic);
        assert_eq!(metadata.grant_types, [GrantType::AuthorizationCode]);
        assert_eq!(metadata.client_type(), ClientType::Confidential);
    }

    #[test]
    fn unsupported_metadata_is_refused() {
        for (member, value) in [
            ("grant_types", json!(["implicit"])),
            ("grant_types", json!(["refresh_token"])),
            ("grant_types", json!(["authorization_code", 7])),
            ("response_types", json!(["token"])),
            ("response_types", json!(["code id_token"])),
            ("response_types", json!([])),
            ("response_types", json!("code")),
            ("scope", json!("foo groups")),
            ("tos_uri", json!("http://rp.test/terms")),
            ("token_endpoint_auth_method", json!("private_key_jwt")),
            ("id_token_signed_response_alg", json!("none")),
            ("subject_type", json!("pairwise")),
            ("initiate_login_uri", json!("http://rp.test/login")),
            ("client_name", json!(7)),
        ] {
            let mut body = json!({"redirect_uris": ["https://rp.test/cb"]});
            body[member] = value;
            assert_eq!(parse(body), Err(ErrorCode::InvalidClientMetadata), "{member}");
        }
    }

    #[test]
    fn redirect_uris_are_checked() {
        for list in [json!(null), json!([]), json!("https://rp.test/cb"), json!([7]), json!(["http://rp.test/cb"])] {
            assert_eq!(parse(json!({"redirect_uris": list})), Err(ErrorCode::InvalidRedirectUri), "{list}");
        }
        assert_eq!(parse(json!({})), Err(ErrorCode::InvalidRedirectUri));
    }

    #[test]
    fn unknown_members_are_ignored() {
        let body = json!({
            "redirect_uris": ["https://rp.test/cb"], "client_name#tr": "Ş", "contacts": ["a@b.test"],
            "logo_uri": "javascript:alert(1)", "jwks": {"keys": []}, "x": {"y": [1]},
        });
        assert!(parse(body).is_ok());
    }

    proptest! {
        #[test]
        fn no_body_causes_a_panic(body in ".{0,200}") {
            let _ = ClientMetadata::parse(body.as_bytes(), &());
        }
    }
}
