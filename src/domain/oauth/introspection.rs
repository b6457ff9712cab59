//! Token introspection (RFC 7662): which tokens a client may see, and the response.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::grant::Grant;
use crate::oauth::claims::{AccessTokenClaims, Audience};
use crate::resource::{FoundResource, Resources, whole_scope};
use crate::time::UnixTime;

/// Permission of a confidential client to introspect its own tokens, and access tokens for these
/// applications. Only an operator can grant it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntrospectionAccess {
    /// Names of applications.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub apps: BTreeSet<String>,
}

/// Returns whether a client may see this access token: its own token, or a token with a listed
/// application in its audience that accepts the token's client. `vouched_for` is whether an
/// authorized party vouches for the token's client.
///
/// A token for the issuer alone names no application, so only its own client sees it.
pub fn may_see(
    client: &Client,
    token: &AccessTokenClaims,
    issued_to: &ClientId,
    vouched_for: bool,
    resources: &dyn Resources,
) -> bool {
    let Some(access) = client.introspection.as_ref().filter(|_| !client.is_public()) else { return false };
    let is_listed = |audience: &str| match resources.find(audience) {
        FoundResource::Declared(declared) => {
            access.apps.contains(&declared.app) && declared.accepts(issued_to, vouched_for)
        }
        FoundResource::Undeclared | FoundResource::Unknown => false,
    };
    *issued_to == client.id || token.aud.iter().any(is_listed)
}

/// Introspection response (RFC 7662 §2.2; RFC 9470 §6.2 for `acr` and `auth_time`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct IntrospectionResponse {
    pub active: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Username of the user. Only for tokens with the scope `profile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<UnixTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<UnixTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<UnixTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acr: Option<String>,
}

impl IntrospectionResponse {
    /// Returns the response about a token that is not valid, or that the client may not see (§2.2).
    pub fn inactive() -> Self {
        Self::default()
    }

    /// Returns the response about a valid access token.
    pub fn of_access_token(claims: &AccessTokenClaims, username: Option<String>) -> Self {
        Self {
            active: true,
            scope: claims.scope.clone(),
            client_id: Some(claims.client_id.clone()),
            username,
            token_type: Some("Bearer"),
            exp: Some(claims.exp),
            iat: Some(claims.iat),
            sub: Some(claims.sub.clone()),
            aud: Some(claims.aud.clone()),
            iss: Some(claims.iss.clone()),
            jti: Some(claims.jti.clone()),
            auth_time: claims.auth_time,
            acr: Some(claims.acr.clone()).filter(|acr| !acr.is_empty()),
        }
    }

    /// Returns the response about the valid refresh token of a grant, which expires at `exp`.
    pub fn of_refresh_token(grant: &Grant, issuer: &str, exp: UnixTime) -> Self {
        Self {
            active: true,
            scope: whole_scope(grant.scope, grant.resource.as_ref()),
            client_id: Some(grant.client.to_string()),
            exp: Some(exp),
            sub: Some(grant.subject.to_string()),
            iss: Some(issuer.to_owned()),
            auth_time: Some(grant.auth_time),
            acr: Some(grant.acr.clone()).filter(|acr| !acr.is_empty()),
            ..Self::default()
        }
    }
}
