//! Metadata of upstream providers (OpenID Connect Discovery 1.0 §3, §4.3, RFC 8414 §2, RFC 9207 §3).

use std::net::IpAddr;

use serde_json::{Map, Value};
use url::{Host, Url};

use crate::oauth::jwk_set::Algorithm;
use crate::oauth::strict_json;

/// Maximum length of a metadata document in bytes.
pub const MAX_METADATA_LENGTH: usize = 256 * 1024;

/// Maximum length of an endpoint's URL in bytes.
const MAX_URL_LENGTH: usize = 2048;

/// Metadata of a provider, as far as this server uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamMetadata {
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub jwks_uri: String,
    pub userinfo_endpoint: Option<String>,
    pub end_session_endpoint: Option<String>,
    /// Algorithms of ID tokens that the provider uses and this server supports. At least one.
    pub algorithms: Vec<Algorithm>,
    pub client_authentication: ClientAuthentication,
    /// Whether authorization responses contain `iss` (RFC 9207).
    pub sends_iss: bool,
    /// Whether the provider declares back-channel logout.
    pub sends_logout_tokens: bool,
}

/// Supported methods of client authentication at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAuthentication {
    pub basic: bool,
    pub post: bool,
    pub private_key_jwt: bool,
    /// Whether assertions may be signed with ES256. `None` if the metadata do not say.
    pub es256: Option<bool>,
}

/// Reason to reject metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataFault {
    #[error("it is not a JSON object, or repeats a member, or has more than {MAX_METADATA_LENGTH} bytes")]
    Malformed,
    #[error("it names another issuer ({0:?}); write the issuer exactly as there, or correct the provider")]
    OtherIssuer(String),
    #[error("it has no usable {0}; check that the issuer is an OpenID provider")]
    Missing(&'static str),
    #[error("its {0} is not allowed: {1}")]
    Endpoint(&'static str, EndpointFault),
    #[error("the provider does not support the response type code, which is required")]
    NoCode,
    #[error("its ID tokens are not signed with RS256, PS256, ES256 or EdDSA; change the provider's settings")]
    NoAlgorithm,
}

/// Reason to reject the URL of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFault {
    #[error("it is not a URL")]
    NoUrl,
    #[error("it is not https (http is only allowed between addresses of this machine)")]
    NotHttps,
    #[error("it contains a username or a fragment")]
    OtherParts,
    #[error("it is on this machine, but the issuer is not")]
    ThisMachine,
    #[error("it is a link-local address, such as a cloud's metadata service")]
    LinkLocal,
}

impl UpstreamMetadata {
    /// Parses the metadata of this issuer.
    ///
    /// # Errors
    /// [`MetadataFault`].
    pub fn parse(document: &[u8], issuer: &str) -> Result<Self, MetadataFault> {
        if document.len() > MAX_METADATA_LENGTH {
            return Err(MetadataFault::Malformed);
        }
        let metadata = strict_json::object(document).ok_or(MetadataFault::Malformed)?;
        let named = metadata.get("issuer").and_then(Value::as_str).ok_or(MetadataFault::Missing("issuer"))?;
        // Otherwise an attacker who can write files at the well-known path could impersonate the
        // issuer (RFC 8414 §6.2).
        if named != issuer {
            return Err(MetadataFault::OtherIssuer(named.chars().take(200).collect()));
        }
        let optional = |name: &'static str| match metadata.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => {
                let checked = check_endpoint(issuer, text);
                checked.map_err(|fault| MetadataFault::Endpoint(name, fault))?;
                Ok(Some(text.clone()))
            }
            Some(_) => Err(MetadataFault::Missing(name)),
        };
        let required = |name: &'static str| optional(name)?.ok_or(MetadataFault::Missing(name));
        if listed(&metadata, "response_types_supported").is_some_and(|types| !types.contains(&"code")) {
            return Err(MetadataFault::NoCode);
        }
        let algorithms = listed(&metadata, "id_token_signing_alg_values_supported").unwrap_or_else(|| vec!["RS256"]);
        let algorithms: Vec<_> = Algorithm::ALL
            .into_iter()
            .map(|(_, algorithm)| algorithm)
            .filter(|algorithm| algorithms.iter().any(|name| Algorithm::parse(name) == Some(*algorithm)))
            .collect();
        if algorithms.is_empty() {
            return Err(MetadataFault::NoAlgorithm);
        }
        // Discovery §3: the default is client_secret_basic.
        let methods = listed(&metadata, "token_endpoint_auth_methods_supported");
        let methods = methods.unwrap_or_else(|| vec!["client_secret_basic"]);
        let signing = listed(&metadata, "token_endpoint_auth_signing_alg_values_supported");
        let flag = |name: &str| metadata.get(name) == Some(&Value::Bool(true));
        Ok(Self {
            authorization_endpoint: required("authorization_endpoint")?,
            token_endpoint: required("token_endpoint")?,
            jwks_uri: required("jwks_uri")?,
            userinfo_endpoint: optional("userinfo_endpoint")?,
            end_session_endpoint: optional("end_session_endpoint")?,
            algorithms,
            client_authentication: ClientAuthentication {
                basic: methods.contains(&"client_secret_basic"),
                post: methods.contains(&"client_secret_post"),
                private_key_jwt: methods.contains(&"private_key_jwt"),
                es256: signing.map(|algorithms| algorithms.contains(&"ES256")),
            },
            sends_iss: flag("authorization_response_iss_parameter_supported"),
            sends_logout_tokens: flag("backchannel_logout_supported"),
        })
    }
}

fn listed<'m>(metadata: &'m Map<String, Value>, name: &str) -> Option<Vec<&'m str>> {
    Some(metadata.get(name)?.as_array()?.iter().filter_map(Value::as_str).collect())
}

/// Checks the URL of an endpoint in the metadata of this issuer.
///
/// # Errors
/// [`EndpointFault`].
pub fn check_endpoint(issuer: &str, endpoint: &str) -> Result<(), EndpointFault> {
    let issuer = Url::parse(issuer).map_err(|_| EndpointFault::NoUrl)?;
    // The URL parser silently removes blanks and line breaks.
    if endpoint.len() > MAX_URL_LENGTH || endpoint.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return Err(EndpointFault::NoUrl);
    }
    let url = Url::parse(endpoint).map_err(|_| EndpointFault::NoUrl)?;
    let issuer_is_local = is_on_this_machine(&issuer);
    match url.scheme() {
        "https" => {}
        "http" if issuer_is_local && is_on_this_machine(&url) => {}
        _ => return Err(EndpointFault::NotHttps),
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(EndpointFault::OtherParts);
    }
    if is_on_this_machine(&url) && !issuer_is_local {
        return Err(EndpointFault::ThisMachine);
    }
    if is_link_local(&url) && !is_link_local(&issuer) {
        return Err(EndpointFault::LinkLocal);
    }
    Ok(())
}

/// Returns whether the host of a URL always means this machine.
fn is_on_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => {
            let address = IpAddr::V6(address).to_canonical();
            address.is_loopback() || address.is_unspecified()
        }
        None => false,
    }
}

fn is_link_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_link_local(),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(address) => address.is_link_local(),
            None => address.is_unicast_link_local(),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://op.test/tenant";

    fn parse(change: impl FnOnce(&mut Value)) -> Result<UpstreamMetadata, MetadataFault> {
        let mut document = json!({
            "issuer": ISSUER, "authorization_endpoint": "https://op.test/auth", "token_endpoint": "https://op.test/token",
            "jwks_uri": "https://keys.op.test/jwks", "response_types_supported": ["code", "id_token"],
            "id_token_signing_alg_values_supported": ["HS256", "none", "ES256", "RS256"],
        });
        change(&mut document);
        UpstreamMetadata::parse(document.to_string().as_bytes(), ISSUER)
    }

    fn with(name: &str, value: impl Into<Value>) -> Result<UpstreamMetadata, MetadataFault> {
        parse(|document| document[name] = value.into())
    }

    #[test]
    fn metadata_are_read_with_the_defaults_of_the_specification() {
        let metadata = parse(|_| {}).unwrap();
        assert_eq!(metadata.algorithms, [Algorithm::Rs256, Algorithm::Es256]);
        let default = ClientAuthentication { basic: true, post: false, private_key_jwt: false, es256: None };
        assert_eq!(metadata.client_authentication, default);
        assert_eq!((metadata.userinfo_endpoint, metadata.sends_iss), (None, false));
        let rs256 = parse(|document| {
            document.as_object_mut().unwrap().remove("id_token_signing_alg_values_supported");
        });
        assert_eq!(rs256.unwrap().algorithms, [Algorithm::Rs256]);
        let methods = with("token_endpoint_auth_methods_supported", json!(["client_secret_post"])).unwrap();
        assert!(!methods.client_authentication.basic && methods.client_authentication.post);
        assert!(with("authorization_response_iss_parameter_supported", true).unwrap().sends_iss);
        assert!(!with("authorization_response_iss_parameter_supported", "true").unwrap().sends_iss);
    }

    #[test]
    fn unusable_metadata_are_refused() {
        for issuer in ["https://op.test", "https://op.test/tenant/", "https://op.test/Tenant", ""] {
            assert_eq!(with("issuer", issuer), Err(MetadataFault::OtherIssuer(issuer.to_owned())));
        }
        for name in ["issuer", "authorization_endpoint", "token_endpoint", "jwks_uri"] {
            let removed = parse(|document| {
                document.as_object_mut().unwrap().remove(name);
            });
            assert_eq!(removed, Err(MetadataFault::Missing(name)));
            assert_eq!(with(name, 7), Err(MetadataFault::Missing(name)));
        }
        assert_eq!(with("response_types_supported", json!(["id_token"])), Err(MetadataFault::NoCode));
        for algorithms in [json!([]), json!(["none"]), json!(["HS256", "RS384"])] {
            assert_eq!(with("id_token_signing_alg_values_supported", algorithms), Err(MetadataFault::NoAlgorithm));
        }
        let twice = format!(r#"{{"issuer":"{ISSUER}","issuer":"{ISSUER}"}}"#);
        for text in ["", "[]", "null", twice.as_str()] {
            assert_eq!(UpstreamMetadata::parse(text.as_bytes(), ISSUER), Err(MetadataFault::Malformed), "{text}");
        }
        let long = vec![b' '; MAX_METADATA_LENGTH + 1];
        assert_eq!(UpstreamMetadata::parse(&long, ISSUER), Err(MetadataFault::Malformed));
    }

    #[test]
    fn endpoints_are_https_and_not_on_this_machine() {
        for (endpoint, fault) in [
            ("https://other.test/x?y=1", None),
            ("https://10.0.0.1/x", None),
            ("http://op.test/x", Some(EndpointFault::NotHttps)),
            ("http://127.0.0.1/x", Some(EndpointFault::NotHttps)),
            ("ftp://op.test/x", Some(EndpointFault::NotHttps)),
            ("file:///etc/passwd", Some(EndpointFault::NotHttps)),
            ("/token", Some(EndpointFault::NoUrl)),
            ("https://op.test/a b", Some(EndpointFault::NoUrl)),
            ("https://op.test/a\nb", Some(EndpointFault::NoUrl)),
            ("https://a@op.test/", Some(EndpointFault::OtherParts)),
            ("https://:b@op.test/", Some(EndpointFault::OtherParts)),
            ("https://op.test/#x", Some(EndpointFault::OtherParts)),
            ("https://localhost/", Some(EndpointFault::ThisMachine)),
            ("https://LOCALHOST./", Some(EndpointFault::ThisMachine)),
            ("https://a.localhost/", Some(EndpointFault::ThisMachine)),
            ("https://127.8.8.8/", Some(EndpointFault::ThisMachine)),
            ("https://2130706433/", Some(EndpointFault::ThisMachine)),
            ("https://0.0.0.0/", Some(EndpointFault::ThisMachine)),
            ("https://[::1]/", Some(EndpointFault::ThisMachine)),
            ("https://[::ffff:127.0.0.1]/", Some(EndpointFault::ThisMachine)),
            ("https://169.254.169.254/latest", Some(EndpointFault::LinkLocal)),
            ("https://[fe80::1]/", Some(EndpointFault::LinkLocal)),
            ("https://[::ffff:169.254.169.254]/", Some(EndpointFault::LinkLocal)),
        ] {
            assert_eq!(check_endpoint(ISSUER, endpoint).err(), fault, "{endpoint}");
            let expected = fault.map(|fault| MetadataFault::Endpoint("jwks_uri", fault));
            assert_eq!(with("jwks_uri", endpoint).err(), expected, "{endpoint}");
        }
        assert_eq!(check_endpoint("http://127.0.0.1:9", "http://localhost:8/x"), Ok(()));
        assert_eq!(check_endpoint("http://127.0.0.1:9", "http://op.test/x"), Err(EndpointFault::NotHttps));
        let long = format!("https://op.test/{}", "a".repeat(MAX_URL_LENGTH));
        assert_eq!(check_endpoint(ISSUER, &long), Err(EndpointFault::NoUrl));
    }

    proptest! {
        #[test]
        fn no_document_causes_a_panic(text in "\\PC{0,200}", endpoint in "\\PC{0,60}") {
            let _ = UpstreamMetadata::parse(text.as_bytes(), ISSUER);
            let _ = check_endpoint(ISSUER, &endpoint);
        }
    }
}
