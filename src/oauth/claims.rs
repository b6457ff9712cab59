//! What tokens and UserInfo say (OpenID Connect Core §2, §5; RFC 9068 §2.2).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::domain::scope::{Scope, ScopeValue};
use crate::domain::time::UnixTime;
use crate::domain::user::User;

/// What a scope lets a client learn about a person (OpenID Connect Core §5.4). Absent data is left out, never null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserClaims {
    /// Full name: `profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What applications may call the person: `profile`. Nobody else's while it is theirs (OpenID Connect Core §5.7 says what
    /// it is not: an identifier for ever).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_username: Option<String>,
    /// Image: `profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    /// Last change of the profile: `profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<UnixTime>,
    /// Address: `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether it was verified: `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// Number: `phone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone_number: Option<String>,
    /// The groups that the person is in, none of them left out: `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<String>>,
}

/// The longest list of groups in a token, bytes of JSON: a token travels in a header, and most servers take 8 KiB for all
/// of them.
const LONGEST_GROUPS: usize = 4096;

impl UserClaims {
    /// The same for a token. More groups than fit are left out, all of them: part of them would quietly change what the person
    /// may do. Who finds no `groups` in a token asks UserInfo.
    pub fn in_token(user: &User, scope: Scope) -> Self {
        let mut claims = Self::of(user, scope);
        claims.groups = groups_in_token(user, scope);
        claims
    }

    /// The claims of this person that the scope covers.
    pub fn of(user: &User, scope: Scope) -> Self {
        let mut claims = Self::default();
        if scope.contains(ScopeValue::Profile) {
            claims.name = Some(user.name.clone()).filter(|name| !name.is_empty());
            claims.preferred_username = user.username.as_ref().map(ToString::to_string);
            claims.picture.clone_from(&user.picture);
            claims.updated_at = Some(user.updated_at);
        }
        if scope.contains(ScopeValue::Email) {
            claims.email = Some(user.email.as_str().to_owned());
            claims.email_verified = Some(user.email_verified);
        }
        if scope.contains(ScopeValue::Phone) {
            claims.phone_number.clone_from(&user.phone_number);
        }
        if scope.contains(ScopeValue::Groups) {
            claims.groups = Some(user.groups.clone());
        }
        claims
    }
}

/// The groups of a person, where the scope covers them and a token has room for all.
pub fn groups_in_token(user: &User, scope: Scope) -> Option<BTreeSet<String>> {
    // Quotes and a comma; what JSON escapes in them is rare, and invisible characters are refused.
    let size: usize = user.groups.iter().map(|group| group.len() + 3).sum();
    (scope.contains(ScopeValue::Groups) && size <= LONGEST_GROUPS).then(|| user.groups.clone())
}

/// The UserInfo response (OpenID Connect Core §5.3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    pub sub: String,
    #[serde(flatten)]
    pub claims: UserClaims,
}

/// The claims of an ID token (OpenID Connect Core §2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdTokenClaims {
    pub iss: String,
    pub sub: String,
    pub aud: String,
    pub exp: UnixTime,
    pub iat: UnixTime,
    pub auth_time: UnixTime,
    /// The `nonce` of the authorization request; absent after a refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    pub acr: String,
    pub amr: Vec<String>,
    /// Which access token came with it: the left half of its SHA-256, in base64url (§3.1.3.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_hash: Option<String>,
    #[serde(flatten)]
    pub claims: UserClaims,
}

/// The claims of an access token (RFC 9068 §2.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessTokenClaims {
    pub iss: String,
    pub sub: String,
    /// For whom the token is: the issuer itself, whose UserInfo endpoint and gate take it.
    pub aud: Audience,
    pub exp: UnixTime,
    /// When it begins to be valid (RFC 7519 §4.1.5). We write none; one that stands there holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<UnixTime>,
    pub iat: UnixTime,
    pub jti: String,
    /// The client that it was issued to.
    pub client_id: String,
    pub scope: String,
    pub auth_time: UnixTime,
    pub acr: String,
    pub amr: Vec<String>,
    /// The grant that it belongs to: our own claim, so that ending the grant ends the token.
    pub grant_id: String,
    /// The person's groups (§2.2.3.1), where the scope covers them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<BTreeSet<String>>,
}

/// The claims of an assertion, which tells an application who sent a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssertionClaims {
    pub iss: String,
    pub aud: String,
    /// The person; with a colon in it, somebody whom only another issuer knows.
    pub sub: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email_verified: Option<bool>,
    /// Their full name, where they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_username: Option<String>,
    pub groups: Vec<String>,
    /// Their session at the provider; absent where a bearer token came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    pub iat: UnixTime,
    pub exp: UnixTime,
}

/// One audience or several (RFC 7519 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    /// Whether this audience is named.
    pub fn contains(&self, wanted: &str) -> bool {
        match self {
            Self::One(only) => only == wanted,
            Self::Many(list) => list.iter().any(|one| one == wanted),
        }
    }
}
