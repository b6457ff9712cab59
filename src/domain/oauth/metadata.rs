//! Discovery document (OpenID Connect Discovery 1.0 §3, RFC 8414 §2).

use serde::Serialize;

use crate::assurance::ACR_VALUES;
use crate::client::AuthMethod;
use crate::oauth::jwk_set::Algorithm;
use crate::scope::{Scope, ScopeValue};

/// Members of the discovery document, in its order.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the document has these members")]
pub struct ProviderMetadata {
    pub issuer: String,
    pub authorization_endpoint: String,
    pub token_endpoint: String,
    pub userinfo_endpoint: String,
    pub jwks_uri: String,
    pub registration_endpoint: String,
    pub revocation_endpoint: String,
    pub end_session_endpoint: String,
    pub scopes_supported: Vec<&'static str>,
    pub response_types_supported: [&'static str; 1],
    pub response_modes_supported: Vec<&'static str>,
    pub grant_types_supported: Vec<&'static str>,
    pub subject_types_supported: [&'static str; 1],
    pub id_token_signing_alg_values_supported: Vec<Algorithm>,
    pub token_endpoint_auth_methods_supported: Vec<&'static str>,
    pub revocation_endpoint_auth_methods_supported: Vec<&'static str>,
    pub code_challenge_methods_supported: [&'static str; 2],
    pub prompt_values_supported: [&'static str; 4],
    pub acr_values_supported: [&'static str; 4],
    pub ui_locales_supported: [&'static str; 2],
    pub claims_supported: Vec<&'static str>,
    pub claims_parameter_supported: bool,
    pub request_parameter_supported: bool,
    pub request_uri_parameter_supported: bool,
    pub authorization_response_iss_parameter_supported: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub client_id_metadata_document_supported: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub token_endpoint_auth_signing_alg_values_supported: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revocation_endpoint_auth_signing_alg_values_supported: Vec<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backchannel_logout_supported: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backchannel_logout_session_supported: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introspection_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introspection_endpoint_auth_methods_supported: Option<[&'static str; 2]>,
}

impl ProviderMetadata {
    /// Creates the document of this issuer, which has keys for these algorithms.
    ///
    /// The document always names the registration endpoint, even if the operator disabled
    /// registration (docs/explanation/protocol-tokens.md). The scope `groups` with its claim, the response mode
    /// `form_post`, the grant type `client_credentials`, and the support for `documents` of clients
    /// are included only if the operator enabled them.
    #[expect(clippy::fn_params_excessive_bools, reason = "independent members of the document")]
    pub fn for_issuer(
        issuer: &str,
        algorithms: &[Algorithm],
        groups: bool,
        form_post: bool,
        services: bool,
        documents: bool,
    ) -> Self {
        const METHODS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];
        let scopes = Scope::all().union(groups.then_some(ScopeValue::Groups).into_iter().collect());
        let at = |path: &str| format!("{issuer}{path}");
        Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: at("/oauth/authorize"),
            token_endpoint: at("/oauth/token"),
            userinfo_endpoint: at("/oauth/userinfo"),
            jwks_uri: at("/oauth/jwks"),
            registration_endpoint: at("/oauth/register"),
            revocation_endpoint: at("/oauth/revoke"),
            end_session_endpoint: at("/oauth/logout"),
            scopes_supported: scopes.values().map(ScopeValue::as_str).collect(),
            response_types_supported: ["code"],
            response_modes_supported: ["query", "fragment"]
                .into_iter()
                .chain(form_post.then_some("form_post"))
                .collect(),
            grant_types_supported: ["authorization_code", "refresh_token"]
                .into_iter()
                .chain(services.then_some("client_credentials"))
                .collect(),
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: algorithms.to_vec(),
            token_endpoint_auth_methods_supported: METHODS.to_vec(),
            revocation_endpoint_auth_methods_supported: METHODS.to_vec(),
            code_challenge_methods_supported: ["S256", "plain"],
            prompt_values_supported: ["none", "login", "consent", "select_account"],
            acr_values_supported: ACR_VALUES,
            ui_locales_supported: ["tr", "en"],
            claims_supported: [
                "sub",
                "name",
                "email",
                "email_verified",
                "phone_number",
                "phone_number_verified",
                "picture",
                "updated_at",
                "iss",
                "aud",
                "exp",
                "iat",
                "auth_time",
                "nonce",
                "acr",
                "amr",
            ]
            .into_iter()
            .chain(groups.then_some("groups"))
            .collect(),
            claims_parameter_supported: false,
            request_parameter_supported: false,
            request_uri_parameter_supported: false,
            authorization_response_iss_parameter_supported: true,
            client_id_metadata_document_supported: documents,
            token_endpoint_auth_signing_alg_values_supported: Vec::new(),
            revocation_endpoint_auth_signing_alg_values_supported: Vec::new(),
            backchannel_logout_supported: false,
            backchannel_logout_session_supported: false,
            introspection_endpoint: None,
            introspection_endpoint_auth_methods_supported: None,
        }
    }

    /// Adds client authentication with signed assertions, which is included only if the operator has
    /// enabled it for a client.
    #[must_use]
    pub fn with_client_assertions(mut self) -> Self {
        // RFC 9864 names `EdDSA` on Ed25519 after its curve. Both names are accepted.
        let names: Vec<_> = Algorithm::ALL.map(|(name, _)| name).into_iter().chain(["Ed25519"]).collect();
        for methods in
            [&mut self.token_endpoint_auth_methods_supported, &mut self.revocation_endpoint_auth_methods_supported]
        {
            methods.push(AuthMethod::PrivateKeyJwt.as_str());
        }
        self.token_endpoint_auth_signing_alg_values_supported.clone_from(&names);
        self.revocation_endpoint_auth_signing_alg_values_supported = names;
        self
    }

    /// Adds the introspection endpoint (RFC 8414 §2).
    #[must_use]
    pub fn with_introspection(mut self) -> Self {
        self.introspection_endpoint = Some(format!("{}/oauth/introspect", self.issuer));
        self.introspection_endpoint_auth_methods_supported = Some(["client_secret_basic", "client_secret_post"]);
        self
    }

    /// Adds that clients can receive logout tokens (OpenID Connect Back-Channel Logout 1.0 §2.1).
    #[must_use]
    pub fn with_backchannel_logout(mut self) -> Self {
        self.backchannel_logout_supported = true;
        self.backchannel_logout_session_supported = true;
        self.claims_supported.push("sid");
        self
    }
}
