//! Service accounts: clients that get access tokens in their own name (RFC 6749 §4.4), without a
//! user.
//!
//! All tokens of a client for one application belong to one grant, which is renewed. Otherwise a
//! client on many machines would fill the store, and so would a client that requests tokens for many
//! hosts of a wildcard. The grant's resource is the host of its first token. The grant has no user. Its subject is derived from the
//! client, so that grants of users and of clients never have the same subject.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::error::{ErrorCode, Refusal};
use crate::grant::{Grant, GrantId, GrantState};
use crate::oauth::claims::{AccessTokenClaims, Audience};
use crate::oauth::params::Params;
use crate::resource::{DeclaredResource, FoundResource, ResourceAccess, Resources};
use crate::scope::{Scope, UnknownScope};
use crate::secret::SecretHash;
use crate::session::SessionId;
use crate::time::UnixTime;
use crate::user::Subject;

/// Permission of a client to get tokens in its own name. Only an operator can grant it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceAccess {
    /// Scopes that the client may request, by name of the application.
    pub apps: BTreeMap<String, BTreeSet<String>>,
    /// Groups of the client, for the rules and identity headers of applications.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
}

impl ServiceAccess {
    /// Returns the access to a resource that the client may request: the scopes that the operator
    /// allows and the application declares. `None` if the client may not use the application.
    pub fn to_resource(&self, declared: &DeclaredResource) -> Option<ResourceAccess> {
        let allowed = self.apps.get(&declared.app)?;
        Some(ResourceAccess { id: declared.id.clone(), scopes: allowed & &declared.scopes })
    }
}

/// Client that a token identifies instead of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceClient {
    pub id: ClientId,
    pub name: String,
    pub groups: BTreeSet<String>,
}

impl ServiceClient {
    /// Returns the client as a holder of tokens. `None` if it may not get tokens in its own name.
    pub fn from_client(client: &Client) -> Option<Self> {
        let service = client.service.as_ref().filter(|_| !client.is_public())?;
        Some(Self { id: client.id.clone(), name: client.name.clone(), groups: service.groups.clone() })
    }

    /// Returns the unique name in identity headers. No user's `sub` has a colon, and no trusted
    /// issuer has the name `client`.
    pub fn name(&self) -> String {
        format!("{RESERVED_ISSUER}:{}", self.id)
    }
}

/// Name that no trusted issuer can have, because it would be mistaken for [`ServiceClient::name`].
pub const RESERVED_ISSUER: &str = "client";

/// Time for which a grant outlives its last token. A longer time needs fewer commits.
const RENEWAL_PERIOD: Duration = Duration::from_hours(1);

/// Maximum number of grants of a client and application within the lifetime of a token. Each revocation
/// needs a new grant.
pub const MAX_GRANTS: u32 = 32;

/// Returns the subject of the grants of a client.
pub fn subject_of(client: &ClientId) -> Subject {
    let hash = SecretHash::for_secret(format!("sealgate service subject {client}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    Subject::from_random(bytes)
}

/// Returns the id of a client's grant for an application. After a revocation, the client gets a grant with
/// the next `number`, so that the revoked tokens remain invalid.
pub fn grant_id(client: &Client, app: &str, number: u32) -> GrantId {
    let parts = format!("sealgate service grant {} {} {number} {app}", client.id, client.incarnation);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&SecretHash::for_secret(parts.as_bytes()).as_bytes()[..16]);
    GrantId::from_bytes(bytes)
}

/// Returns a new grant of a client.
pub fn new_grant(
    client: &Client,
    id: GrantId,
    allowed: &ResourceAccess,
    now: UnixTime,
    access_token: Duration,
) -> Grant {
    Grant {
        id,
        client: client.id.clone(),
        subject: subject_of(&client.id),
        session: SessionId::from_bytes([0; 16]),
        scope: Scope::EMPTY,
        resource: Some(allowed.clone()),
        auth_time: now,
        acr: String::new(),
        amr: Vec::new(),
        created_at: now,
        expires_at: now.plus(access_token + RENEWAL_PERIOD),
        state: GrantState::Active,
        refresh: None,
        is_service: true,
    }
}

/// Returns the grant with a later expiry, or `None` if it outlives a token that is issued now.
pub fn renewed(grant: &Grant, now: UnixTime, access_token: Duration) -> Option<Grant> {
    let is_short = grant.expires_at < now.plus(access_token);
    is_short.then(|| grant.clone().living_until(now.plus(access_token + RENEWAL_PERIOD)))
}

/// Returns the access that a token request of a client asks for (RFC 6749 §4.4.2). Without `scope`,
/// this is everything that the client may request of the resource.
///
/// # Errors
/// `unauthorized_client`, `invalid_target`, `invalid_scope`.
pub fn requested(
    form: &Params,
    client: &Client,
    resource: Option<&DeclaredResource>,
) -> Result<ResourceAccess, Refusal> {
    let refused = |code, description| Err(Refusal::new(code, description));
    let Some(service) = client.service.as_ref().filter(|_| !client.is_public()) else {
        return refused(ErrorCode::UnauthorizedClient, "The client may not use this grant type.");
    };
    let Some(resource) = resource else {
        return refused(
            ErrorCode::InvalidTarget,
            "The parameter resource is missing, or the application is not a resource.",
        );
    };
    let Some(allowed) = service.to_resource(resource) else {
        return refused(ErrorCode::InvalidTarget, "The client may not use this resource.");
    };
    let Some(text) = form.one("scope")? else { return Ok(allowed) };
    let (own, others) = Scope::with_others(text);
    if !own.is_empty() {
        return refused(ErrorCode::InvalidScope, "A token without a user has only scopes of its resource.");
    }
    if let Some(unknown) = others.iter().find(|value| !resource.scopes.contains(**value)) {
        return Err(Refusal::unknown_scope(&UnknownScope::from_value(unknown)));
    }
    let scopes: BTreeSet<String> = others.into_iter().map(str::to_owned).collect();
    if !scopes.is_subset(&allowed.scopes) {
        return refused(ErrorCode::InvalidScope, "The client may not request this scope.");
    }
    if scopes.is_empty() {
        return refused(ErrorCode::InvalidScope, "The scope is empty.");
    }
    Ok(ResourceAccess { scopes, ..allowed })
}

/// Returns whether the client may still have this token: the operator may have removed its access to
/// the resource, or a scope.
pub fn still_allows(client: &Client, claims: &AccessTokenClaims, resources: &dyn Resources) -> bool {
    let Audience::One(id) = &claims.aud else { return false };
    let FoundResource::Declared(declared) = resources.find(id) else { return false };
    let allowed = client.service.as_ref().and_then(|service| service.to_resource(&declared));
    let scopes = || claims.scope.split(' ').filter(|scope| !scope.is_empty());
    allowed.is_some_and(|allowed| scopes().all(|scope| allowed.scopes.contains(scope)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str, incarnation: u32) -> Client {
        let record = format!(
            r#"{{"id":"{id}","name":"C","client_type":"confidential","auth_method":"client_secret_basic",
            "redirect_uris":[],"scope":"openid","grant_types":[],"consent":"ask","state":"enabled","created_at":0,
            "incarnation":{incarnation},"service":{{"apps":{{"wiki":["read"]}}}}}}"#
        );
        serde_json::from_str(&record).unwrap()
    }

    #[test]
    fn grants_differ_by_client_incarnation_application_and_number() {
        let ids = [
            grant_id(&client("a", 1), "wiki", 0),
            grant_id(&client("b", 1), "wiki", 0),
            grant_id(&client("a", 2), "wiki", 0),
            grant_id(&client("a", 1), "shop", 0),
            grant_id(&client("a", 1), "wiki", 1),
        ];
        let distinct: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(grant_id(&client("a", 1), "wiki", 0), ids[0]);
    }

    #[test]
    fn a_grant_is_renewed_only_when_a_token_would_outlive_it() {
        let (now, life) = (UnixTime::from_seconds(1_000_000), Duration::from_mins(15));
        let allowed = ResourceAccess { id: "https://wiki.test".to_owned(), scopes: BTreeSet::new() };
        let client = client("a", 1);
        let grant = new_grant(&client, grant_id(&client, "wiki", 0), &allowed, now, life);
        assert_eq!(renewed(&grant, now.plus(RENEWAL_PERIOD), life), None);
        let late = now.plus(RENEWAL_PERIOD + Duration::from_secs(1));
        let renewed = renewed(&grant, late, life).unwrap();
        assert_eq!(renewed.expires_at, late.plus(life + RENEWAL_PERIOD));
    }

    #[test]
    fn a_client_is_named_with_a_colon() {
        assert_eq!(ServiceClient::from_client(&client("backup", 1)).unwrap().name(), "client:backup");
        let public = Client { client_type: crate::client::ClientType::Public, ..client("backup", 1) };
        assert_eq!(ServiceClient::from_client(&public), None);
    }
}
