//! JSON Schema (2020-12) of answers, for the description of the admin API.
//!
//! The schema of an answer is derived from the definition that also derives its JSON form.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::answer::ShownSecret;
use sealgate_domain::account_links::InvitationState;
use sealgate_domain::api_token::{ApiScope, ApiTokenId};
use sealgate_domain::assertion_source::Workload;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::audit::{AuditId, AuditKind};
use sealgate_domain::client::{AuthMethod, ClientDecision, ClientId, ClientState, ClientType, ConsentRule, GrantType};
use sealgate_domain::grant::GrantId;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::open_access::OpenAccess;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_domain::redirect_uri::RedirectUri;
use sealgate_domain::resource::ResourceAccess;
use sealgate_domain::scope::Scope;
use sealgate_domain::service::ServiceAccess;
use sealgate_domain::session::SessionId;
use sealgate_domain::source::UserSource;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Role, Subject, UserState};
use sealgate_domain::username::Username;

/// Type with a JSON Schema.
pub trait Described {
    /// Returns the schema.
    fn schema() -> Value;
}

/// Member of an object: name, schema, whether it is always present, and description.
pub(crate) type Member = (&'static str, Value, bool, &'static str);

/// Returns the schema of an object.
pub(crate) fn object(members: Vec<Member>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, mut schema, is_required, description) in members {
        if !description.is_empty() {
            schema["description"] = json!(description.trim());
        }
        properties.insert(name.to_owned(), schema);
        if is_required {
            required.push(name);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

macro_rules! described {
    ($($schema:tt => $($type:ty),+;)*) => {
        $($(impl Described for $type {
            fn schema() -> Value {
                json!($schema)
            }
        })+)*
    };
}

described! {
    { "type": "string" } => String, Email, Username, ClientId, RedirectUri, Scope, AuditKind, InvitationState, ShownSecret;
    { "type": "string", "format": "uuid" } => Subject;
    { "type": "string", "pattern": "^[A-Za-z0-9_-]{22}$" } => AuditId, ApiTokenId, GrantId, SessionId;
    { "type": "string", "description": "IP address" } => IpAddr;
    { "type": "boolean" } => bool;
    { "type": "integer", "minimum": 0 } => u32, u64, usize;
    { "type": "integer", "minimum": 0, "description": "Seconds since 1970-01-01T00:00:00Z" } => UnixTime;
    { "type": "string", "enum": ["enabled", "disabled"] } => UserState, ClientState;
    { "type": "string", "enum": ["public", "confidential"] } => ClientType;
    { "type": "string", "enum": ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"] } => AuthMethod;
    { "type": "string", "enum": ["authorization_code", "refresh_token"] } => GrantType;
    { "type": "string", "enum": ["ask", "implied"] } => ConsentRule;
    { "type": "string", "enum": ["RS256", "PS256", "ES256", "EdDSA"] } => Algorithm;
    { "type": "string", "enum": ["1", "2", "3"] } => AssuranceLevel;
    { "type": ["integer", "string"], "description": "Requests per minute, or \"none\"" } => RateLimit;
    { "type": "object" } => Value, UserSource, ClientDecision, Workload, ServiceAccess, ResourceAccess, OpenAccess;
}

impl Described for Role {
    fn schema() -> Value {
        json!({ "type": "string", "enum": Self::ALL })
    }
}

impl Described for ApiScope {
    fn schema() -> Value {
        json!({ "type": "string", "enum": Self::ALL })
    }
}

impl<T: Described> Described for Option<T> {
    fn schema() -> Value {
        json!({ "anyOf": [T::schema(), { "type": "null" }] })
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }
}

impl<T: Described> Described for BTreeSet<T> {
    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema(), "uniqueItems": true })
    }
}

impl<V> Described for BTreeMap<String, V> {
    fn schema() -> Value {
        json!({ "type": "object" })
    }
}
