//! Resources (RFC 8707): protected applications that clients request tokens for, with scopes of
//! their own.
//!
//! A token has at most one resource. Scopes of two resources in one token would be ambiguous (RFC
//! 9068 §5).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::client::ClientId;
use crate::error::{ErrorCode, Refusal};
use crate::oauth::params::Params;
use crate::scope::{Scope, ScopeValue};

/// Access to one resource: the audience of the tokens, and the resource's scopes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceAccess {
    /// Identifier of the resource, which is the audience of its tokens.
    pub id: String,
    /// Scopes that the resource declares. Scopes of this server are not among them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<String>,
}

impl ResourceAccess {
    /// Returns this access, limited to the scopes that the resource still declares.
    ///
    /// # Errors
    /// `invalid_target` if the resource no longer exists, or no longer accepts tokens of the client.
    pub fn still_available(&self, client: &ClientId, resources: &dyn Resources) -> Result<Self, Refusal> {
        const REMOVED: Refusal =
            Refusal::new(ErrorCode::InvalidTarget, "The resource is no longer available to the client.");
        match resources.find(&self.id) {
            FoundResource::Declared(declared) if declared.admits(client) => {
                Ok(Self { id: self.id.clone(), scopes: &self.scopes & &declared.scopes })
            }
            _ => Err(REMOVED),
        }
    }
}

/// Returns all scope values of a token, space-separated: those of this server, then those of the
/// resource.
pub fn whole_scope(scope: Scope, resource: Option<&ResourceAccess>) -> String {
    let mut values: Vec<&str> = scope.values().map(ScopeValue::as_str).collect();
    values.extend(resource.iter().flat_map(|resource| &resource.scopes).map(String::as_str));
    values.join(" ")
}

/// Returns the resource of a new token.
///
/// `granted` is the resource of the grant, and `requested` the resource that the token request names
/// (RFC 8707 §2.2). A token of a grant without a resource may be limited to one resource that accepts
/// the issuer as audience.
///
/// # Errors
/// `invalid_target` if the resource was not granted, or is no longer available to the client.
pub fn of_token(
    granted: Option<&ResourceAccess>,
    requested: Option<&DeclaredResource>,
    client: &ClientId,
    resources: &dyn Resources,
) -> Result<Option<ResourceAccess>, Refusal> {
    const NOT_GRANTED: Refusal = Refusal::new(ErrorCode::InvalidTarget, "The resource was not granted.");
    match (granted, requested) {
        (None, None) => Ok(None),
        (None, Some(requested)) if requested.issuer_audience => {
            Ok(Some(ResourceAccess { id: requested.id.clone(), scopes: BTreeSet::new() }))
        }
        (Some(granted), requested) if requested.is_none_or(|requested| requested.id == granted.id) => {
            granted.still_available(client, resources).map(Some)
        }
        _ => Err(NOT_GRANTED),
    }
}

/// Resource as the configuration declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredResource {
    /// Name of the application.
    pub app: String,
    /// Identifier of the resource: the origin of the application.
    pub id: String,
    /// Scopes that the resource declares.
    pub scopes: BTreeSet<String>,
    /// Whether a request without a scope is for all scopes of the resource (RFC 6749 §3.3). Otherwise
    /// it is for none.
    pub all_by_default: bool,
    /// Whether the application also accepts tokens that have only the issuer as audience.
    pub issuer_audience: bool,
    /// Clients whose tokens the application accepts. `None` if it lists no clients.
    pub clients: Option<Vec<ClientId>>,
    /// Hosts of metadata documents whose clients are accepted too.
    pub client_hosts: Vec<String>,
}

impl DeclaredResource {
    /// Returns whether this client can request tokens for the application. An application without a
    /// list then accepts tokens of each client that an operator created or approved.
    pub fn admits(&self, client: &ClientId) -> bool {
        accepts_client(self.clients.as_deref(), &self.client_hosts, client, true)
    }

    /// Returns whether the application accepts tokens of this client.
    pub fn accepts(&self, client: &ClientId, vouched_for: bool) -> bool {
        accepts_client(self.clients.as_deref(), &self.client_hosts, client, vouched_for)
    }
}

/// Returns whether an application accepts tokens of a client: a listed client, a client with a
/// metadata document on a listed host, or, without a list of clients, a client for which an
/// authorized party vouches.
pub fn accepts_client(clients: Option<&[ClientId]>, hosts: &[String], client: &ClientId, vouched_for: bool) -> bool {
    clients.map_or(vouched_for, |clients| clients.contains(client))
        || client.document_host().is_some_and(|host| hosts.iter().any(|listed| listed == host))
}

/// Meaning of a resource identifier in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundResource {
    Declared(DeclaredResource),
    /// A protected application that is not declared as a resource. A token for it alone does not
    /// exist: tokens without a resource are valid at all applications of this kind.
    Undeclared,
    Unknown,
}

/// Resources of an installation.
pub trait Resources {
    /// Returns whether any resource is declared. If not, the parameter `resource` is unknown, and
    /// ignored.
    fn has_any(&self) -> bool;

    /// Returns the resource with this identifier.
    fn find(&self, id: &str) -> FoundResource;

    /// Returns whether any resource declares this scope.
    fn declare_scope(&self, scope: &str) -> bool;
}

/// An installation without resources.
impl Resources for () {
    fn has_any(&self) -> bool {
        false
    }

    fn find(&self, _id: &str) -> FoundResource {
        FoundResource::Unknown
    }

    fn declare_scope(&self, _scope: &str) -> bool {
        false
    }
}

/// Name of the request parameter (RFC 8707 §2).
const PARAMETER: &str = "resource";

/// Refusal of an identifier that names no protected application, or that is not a URI.
pub const UNKNOWN_RESOURCE: Refusal =
    Refusal::new(ErrorCode::InvalidTarget, "The resource is unknown. Send the origin of an application.");

/// Returns the resource that a client requests, or `None` if it requests none.
///
/// # Errors
/// `invalid_target` if the resource is unknown, if several are requested, or if the application does
/// not accept tokens of this client (RFC 8707 §2).
pub fn requested(
    params: &Params,
    client: &ClientId,
    resources: &dyn Resources,
) -> Result<Option<DeclaredResource>, Refusal> {
    if !resources.has_any() {
        return Ok(None);
    }
    let refused = |description| Err(Refusal::new(ErrorCode::InvalidTarget, description));
    if params.repeats_any(&[PARAMETER]) {
        return refused("A token has one resource. Send one parameter resource, and one request for each resource.");
    }
    let Some(id) = params.one(PARAMETER).map_err(|_| UNKNOWN_RESOURCE)? else { return Ok(None) };
    match resources.find(id) {
        FoundResource::Declared(declared) if declared.admits(client) => Ok(Some(declared)),
        FoundResource::Declared(_) => refused("The resource does not accept tokens of this client."),
        FoundResource::Undeclared => {
            refused("There are no tokens for this application alone. Send no parameter resource.")
        }
        FoundResource::Unknown => Err(UNKNOWN_RESOURCE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Wiki;

    impl Resources for Wiki {
        fn has_any(&self) -> bool {
            true
        }

        fn find(&self, id: &str) -> FoundResource {
            match id {
                "https://wiki.test" => FoundResource::Declared(DeclaredResource {
                    app: "wiki".to_owned(),
                    id: id.to_owned(),
                    scopes: BTreeSet::from(["wiki:read".to_owned()]),
                    all_by_default: false,
                    issuer_audience: true,
                    clients: Some(vec![ClientId::parse("c").unwrap()]),
                    client_hosts: Vec::new(),
                }),
                "https://old.test" => FoundResource::Undeclared,
                _ => FoundResource::Unknown,
            }
        }

        fn declare_scope(&self, scope: &str) -> bool {
            scope == "wiki:read"
        }
    }

    fn ask(query: &str, client: &str, resources: &dyn Resources) -> Result<Option<String>, &'static str> {
        let params = Params::parse(query.as_bytes()).unwrap();
        let found = requested(&params, &ClientId::parse(client).unwrap(), resources);
        found.map(|found| found.map(|found| found.id)).map_err(|refusal| refusal.code.as_str())
    }

    #[test]
    fn a_client_may_request_one_resource_that_accepts_it() {
        let wiki = "resource=https://wiki.test";
        assert_eq!(ask(wiki, "c", &Wiki), Ok(Some("https://wiki.test".to_owned())));
        assert_eq!(ask(wiki, "d", &Wiki), Err("invalid_target"));
        assert_eq!(ask("resource=", "c", &Wiki), Ok(None));
        for wrong in ["https://x.test", "https://old.test", "%ff", "https://wiki.test&resource=https://wiki.test"] {
            assert_eq!(ask(&format!("resource={wrong}"), "c", &Wiki), Err("invalid_target"), "{wrong}");
            assert_eq!(ask(&format!("resource={wrong}"), "c", &()), Ok(None), "{wrong}");
        }
    }
}
