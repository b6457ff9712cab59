//! Requests and responses of the token endpoint (RFC 6749 §4.1.3, §4.1.4, §6).
//!
//! Every grant type results in an [`Authorization`], from which `Issuer::mint` creates the tokens.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::client::{Client, ClientId, GrantType};
use crate::error::{ErrorCode, Refusal};
use crate::grant::GrantId;
use crate::group_filter::GroupFilter;
use crate::oauth::params::Params;
use crate::pkce::CodeVerifier;
use crate::resource::{self, DeclaredResource, ResourceAccess, Resources};
use crate::scope::{Scope, ScopeValue, UnknownScope};
use crate::secret::Secret;
use crate::service;
use crate::time::UnixTime;
use crate::user::Subject;

/// Known parameters of the token endpoint, for all grant types.
const KNOWN: [&str; 10] = [
    "grant_type",
    "code",
    "redirect_uri",
    "code_verifier",
    "refresh_token",
    "scope",
    "client_id",
    "client_secret",
    "client_assertion",
    "client_assertion_type",
];

/// Well-formed request of an authenticated client.
#[derive(Debug)]
pub enum TokenRequest {
    /// `grant_type=authorization_code`.
    Code {
        code: Secret,
        /// Redirect URI, which must equal the redirect URI of the authorization request.
        redirect_uri: String,
        verifier: Option<CodeVerifier>,
        /// Resource of the token (RFC 8707 §2.2).
        resource: Option<DeclaredResource>,
    },
    /// `grant_type=refresh_token`.
    Refresh {
        token: Secret,
        scope: Option<RequestedScope>,
        /// Resource of the token (RFC 8707 §2.2).
        resource: Option<DeclaredResource>,
    },
    /// `grant_type=client_credentials`: the application, the access to it that the client is
    /// allowed, and the access that it requests.
    Service { app: String, allowed: ResourceAccess, requested: ResourceAccess },
}

/// Scope of a refresh: values of this server, and scopes of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedScope {
    pub scope: Scope,
    pub of_resource: BTreeSet<String>,
}

impl RequestedScope {
    fn parse(text: &str, resources: &dyn Resources) -> Result<Self, Refusal> {
        let (scope, others) = Scope::with_others(text);
        if let Some(unknown) = others.iter().find(|value| !resources.declare_scope(value)) {
            return Err(Refusal::unknown_scope(&UnknownScope::from_value(unknown)));
        }
        // RFC 6749 §3.3 requires at least one value.
        if scope.is_empty() && others.is_empty() {
            return Err(Refusal::new(ErrorCode::InvalidScope, "The scope is empty."));
        }
        Ok(Self { scope, of_resource: others.into_iter().map(str::to_owned).collect() })
    }
}

impl TokenRequest {
    /// Parses the form of an authenticated client.
    ///
    /// # Errors
    /// `invalid_request`, `unsupported_grant_type`, `unauthorized_client`, `invalid_scope`,
    /// `invalid_target`.
    pub fn parse(form: &Params, client: &Client, resources: &dyn Resources) -> Result<Self, Refusal> {
        if form.repeats_any(&KNOWN) {
            return Err(Refusal::invalid_request("A parameter is repeated."));
        }
        let grant_type =
            form.required("grant_type", Refusal::invalid_request("The parameter grant_type is missing."))?;
        if grant_type == "client_credentials" && resources.has_any() {
            let resource = resource::requested(form, &client.id, resources)?;
            return Self::service(form, client, resource.as_ref());
        }
        let grant = match grant_type {
            "authorization_code" => GrantType::AuthorizationCode,
            "refresh_token" => GrantType::RefreshToken,
            _ => {
                return Err(Refusal::new(
                    ErrorCode::UnsupportedGrantType,
                    "The grant_type must be authorization_code or refresh_token.",
                ));
            }
        };
        if !client.may_use(grant) {
            return Err(Refusal::new(ErrorCode::UnauthorizedClient, "The client may not use this grant type."));
        }
        let resource = resource::requested(form, &client.id, resources)?;
        match grant {
            GrantType::AuthorizationCode => Self::code(form, client, resource),
            GrantType::RefreshToken => Self::refresh(form, resource, resources),
        }
    }

    fn code(form: &Params, client: &Client, resource: Option<DeclaredResource>) -> Result<Self, Refusal> {
        let code = form.required("code", Refusal::invalid_request("The parameter code is missing."))?;
        let redirect_uri =
            form.required("redirect_uri", Refusal::invalid_request("The parameter redirect_uri is missing."))?;
        let verifier = form
            .one("code_verifier")?
            .map(|text| {
                CodeVerifier::parse(text).ok_or(Refusal::invalid_request(
                    "The code_verifier must have 43 to 128 letters, digits, hyphens, dots, underscores or tildes.",
                ))
            })
            .transpose()?;
        if client.is_public() && verifier.is_none() {
            return Err(Refusal::invalid_request("The parameter code_verifier is missing."));
        }
        Ok(Self::Code { code: Secret::new(code), redirect_uri: redirect_uri.to_owned(), verifier, resource })
    }

    fn service(form: &Params, client: &Client, resource: Option<&DeclaredResource>) -> Result<Self, Refusal> {
        let requested = service::requested(form, client, resource)?;
        let allowed = resource.zip(client.service.as_ref()).and_then(|(resource, own)| own.to_resource(resource));
        let app = resource.map(|resource| resource.app.clone()).unwrap_or_default();
        Ok(Self::Service { app, allowed: allowed.unwrap_or_else(|| requested.clone()), requested })
    }

    fn refresh(form: &Params, resource: Option<DeclaredResource>, resources: &dyn Resources) -> Result<Self, Refusal> {
        let token =
            form.required("refresh_token", Refusal::invalid_request("The parameter refresh_token is missing."))?;
        let scope = form.one("scope")?.map(|text| RequestedScope::parse(text, resources)).transpose()?;
        Ok(Self::Refresh { token: Secret::new(token), scope, resource })
    }
}

/// Source of the tokens of a grant.
#[derive(Debug, Clone)]
pub struct Authorization {
    /// Grant that the tokens belong to.
    pub grant: GrantId,
    pub client: ClientId,
    pub subject: Subject,
    pub scope: Scope,
    /// Resource of the access token, and its scopes. `None` if the issuer is the audience.
    pub resource: Option<ResourceAccess>,
    /// The `nonce` of the authorization request. `None` for a refresh (OpenID Connect Core §12.2).
    pub nonce: Option<String>,
    pub auth_time: UnixTime,
    pub acr: String,
    pub amr: Vec<String>,
    /// Claim `sid` of the ID token. `None` if the client receives no logout tokens.
    pub sid: Option<String>,
    /// Groups of the user that the client sees.
    pub visible_groups: GroupFilter,
}

impl Authorization {
    /// Returns whether the response has an ID token. A refresh may omit `openid` from the scope.
    pub fn has_id_token(&self) -> bool {
        self.scope.contains(ScopeValue::OpenId)
    }

    /// Returns all scope values of the token, space-separated.
    pub fn whole_scope(&self) -> String {
        resource::whole_scope(self.scope, self.resource.as_ref())
    }
}

/// Token response (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3).
#[derive(Debug, Serialize)]
pub struct TokenResponse {
    pub access_token: String,
    /// Always `Bearer`.
    pub token_type: &'static str,
    /// Lifetime of the access token in seconds.
    pub expires_in: u64,
    /// ID token, if the scope contains `openid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token: Option<String>,
    /// Refresh token, if the scope contains `offline_access`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Granted scopes. Absent if there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scope: String,
}
