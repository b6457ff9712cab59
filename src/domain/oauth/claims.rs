//! Claims of tokens and of the UserInfo response (OpenID Connect Core §2, §5; RFC 9068 §2.2).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::group_filter::GroupFilter;
use crate::scope::{Scope, ScopeValue};
use crate::time::UnixTime;
use crate::user::User;

/// User claims that a scope grants (OpenID Connect Core §5.4). Absent values are omitted and never
/// null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserClaims {
    /// Full name (scope `profile`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Username (scope `profile`). It is unique but can change, so clients must not use it as a
    /// permanent identifier (OpenID Connect Core §5.7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_username: Option<String>,
    /// URL of an image (scope `profile`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// Last change of the profile (scope `profile`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<UnixTime>,
    /// E-mail address (scope `email`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether the address is verified (scope `email`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// Phone number (scope `phone`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone_number: Option<String>,
    /// Whether the phone number is verified (scope `phone`). Always false: this server verifies no
    /// phone numbers, and some clients require the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone_number_verified: Option<bool>,
    /// Groups of the user that the client sees (scope `groups`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<String>>,
}

/// Maximum length of the groups in a token, in bytes of JSON.
///
/// A token is sent in a header, and most servers accept 8 KiB for all headers together.
const MAX_GROUPS_LENGTH: usize = 4096;

impl UserClaims {
    /// Returns the claims for a token. Omits all groups if they are too long.
    ///
    /// Omitting only some groups would silently change the user's permissions. A client that finds
    /// no `groups` in the token can request UserInfo.
    pub fn in_token(user: &User, scope: Scope, filter: &GroupFilter) -> Self {
        let mut claims = Self::for_user(user, scope, filter);
        claims.groups = groups_in_token(user, scope, filter);
        claims
    }

    /// Returns the claims of this user that the scope grants.
    pub fn for_user(user: &User, scope: Scope, filter: &GroupFilter) -> Self {
        let mut claims = Self::default();
        if scope.contains(ScopeValue::Profile) {
            claims.name = Some(user.name.clone()).filter(|name| !name.is_empty());
            claims.preferred_username = user.username.as_ref().map(ToString::to_string);
            claims.picture.clone_from(&user.picture);
            claims.updated_at = Some(user.updated_at);
        }
        if scope.contains(ScopeValue::Email) {
            claims.email = user.email.as_ref().map(|email| email.as_str().to_owned());
            claims.email_verified = user.email.as_ref().map(|_| user.email_verified);
        }
        if scope.contains(ScopeValue::Phone) {
            claims.phone_number.clone_from(&user.phone_number);
            claims.phone_number_verified = user.phone_number.as_ref().map(|_| false);
        }
        if scope.contains(ScopeValue::Groups) {
            claims.groups = Some(filter.visible(user).cloned().collect());
        }
        claims
    }
}

/// Returns the groups of a user that the client sees, if the scope grants them and they fit into a
/// token.
pub fn groups_in_token(user: &User, scope: Scope, filter: &GroupFilter) -> Option<BTreeSet<String>> {
    // In JSON, each group takes two quotes and a comma in addition. Escapes are rare, because group
    // names have no invisible characters.
    let size: usize = filter.visible(user).map(|group| group.len() + 3).sum();
    (scope.contains(ScopeValue::Groups) && size <= MAX_GROUPS_LENGTH).then(|| filter.visible(user).cloned().collect())
}

/// UserInfo response (OpenID Connect Core §5.3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    pub sub: String,
    #[serde(flatten)]
    pub claims: UserClaims,
}

/// Claims of an ID token (OpenID Connect Core §2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdTokenClaims {
    pub iss: String,
    pub sub: String,
    pub aud: String,
    pub exp: UnixTime,
    pub iat: UnixTime,
    pub auth_time: UnixTime,
    /// The `nonce` of the authorization request. Absent after a refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    pub acr: String,
    pub amr: Vec<String>,
    /// Hash of the access token in the same response: the left half of its SHA-256, in base64url
    /// (§3.1.3.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_hash: Option<String>,
    /// Session of the user at this client (OpenID Connect Back-Channel Logout 1.0 §2.1). Only for
    /// clients that receive logout tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    #[serde(flatten)]
    pub claims: UserClaims,
}

/// Claims of an access token (RFC 9068 §2.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessTokenClaims {
    pub iss: String,
    pub sub: String,
    /// Audience: the resource. The issuer, if there is no resource, or for its UserInfo endpoint.
    pub aud: Audience,
    pub exp: UnixTime,
    /// Start of the validity (RFC 7519 §4.1.5). This server issues tokens without `nbf`, but checks
    /// `nbf` if it is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<UnixTime>,
    pub iat: UnixTime,
    pub jti: String,
    /// Client that received the token.
    pub client_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// Time of the user's sign-in. Absent in a token without a user, like `acr` and `amr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_time: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub acr: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amr: Vec<String>,
    /// Private claim with the id of the grant. The token becomes invalid when the grant ends.
    pub grant_id: String,
    /// The user's groups, if the scope grants them (§2.2.3.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<String>>,
}

/// Claims of an assertion. The gateway adds the assertion to a request to an application, to
/// identify the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssertionClaims {
    pub iss: String,
    pub aud: String,
    /// User of the request. If `sub` contains a colon, a trusted issuer has identified the user, or the
    /// request has no user but a client (`client:ID`).
    pub sub: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// Full name of the user, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_username: Option<String>,
    pub groups: Vec<String>,
    /// Session at the provider. Absent for requests with a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    pub iat: UnixTime,
    pub exp: UnixTime,
}

impl AccessTokenClaims {
    /// Returns whether the client got the token in its own name (RFC 9068 §2.2: `sub` is then the
    /// client).
    pub fn is_of_service(&self) -> bool {
        self.sub == self.client_id
    }
}

/// Audience of a token: one value or several (RFC 7519 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    /// Returns the audiences.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let list = match self {
            Self::One(only) => std::slice::from_ref(only),
            Self::Many(list) => list,
        };
        list.iter().map(String::as_str)
    }

    /// Returns whether this audience is included.
    pub fn contains(&self, wanted: &str) -> bool {
        match self {
            Self::One(only) => only == wanted,
            Self::Many(list) => list.iter().any(|one| one == wanted),
        }
    }

    /// Returns whether this audience is the only one.
    pub fn is_only(&self, wanted: &str) -> bool {
        match self {
            Self::One(only) => only == wanted,
            Self::Many(list) => list.iter().all(|one| one == wanted) && !list.is_empty(),
        }
    }
}
