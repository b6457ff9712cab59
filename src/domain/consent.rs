//! A user's consent to a client's access.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::resource::ResourceAccess;
use crate::scope::Scope;
use crate::time::UnixTime;
use crate::user::Subject;

/// Consent of a user to a client's access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// User who consented.
    pub subject: Subject,
    pub client: ClientId,
    /// Scope of tokens without a resource, whose audience is the issuer.
    pub scope: Scope,
    /// Time of the last consent.
    pub at: UnixTime,
    /// Incarnation of the client. An earlier client with the same id had another incarnation.
    /// `None` in records of versions without incarnations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// Consent to tokens for resources, by identifier.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceConsent>,
}

/// Consent to a client's access to one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceConsent {
    /// Scope of this server.
    pub scope: Scope,
    /// Scopes of the resource.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<String>,
}

/// Maximum number of resources in a consent. A wildcard application has a resource for each of its
/// hosts.
const MAX_RESOURCES: usize = 100;

impl Consent {
    /// Returns whether the user has consented to this scope and resource.
    ///
    /// Consent without a resource does not include resources, and the reverse.
    pub fn covers(&self, scope: Scope, resource: Option<&ResourceAccess>) -> bool {
        match resource {
            None => scope.is_subset_of(self.scope),
            Some(resource) => self
                .resources
                .get(&resource.id)
                .is_some_and(|given| scope.is_subset_of(given.scope) && resource.scopes.is_subset(&given.scopes)),
        }
    }

    /// Adds the user's decision on a request. Replaces the earlier decision on the requested scopes:
    /// a scope that the user deselected is no longer allowed.
    #[must_use]
    pub fn with_decision(mut self, requested: Scope, allowed: Scope, resource: Option<&ResourceAccess>) -> Self {
        let Some(resource) = resource else {
            self.scope = allowed.union(self.scope.except(requested));
            return self;
        };
        let is_new = !self.resources.contains_key(&resource.id);
        if is_new && self.resources.len() >= MAX_RESOURCES {
            // The next request for the removed resource shows the consent page again.
            self.resources.pop_first();
        }
        let given = self.resources.entry(resource.id.clone()).or_default();
        given.scope = allowed.union(given.scope.except(requested));
        given.scopes.extend(resource.scopes.iter().cloned());
        self
    }

    /// Returns the scope of this server over all resources.
    pub fn whole_scope(&self) -> Scope {
        self.resources.values().fold(self.scope, |scope, given| scope.union(given.scope))
    }

    /// Returns whether the consent is for this client, and not for an earlier client with the same
    /// id.
    ///
    /// Times alone do not suffice: if the clock is set back, every consent seems older than its
    /// client.
    pub fn is_for(&self, client: &Client) -> bool {
        self.client == client.id
            && match self.incarnation {
                Some(incarnation) => incarnation == client.incarnation,
                // Both records are from an earlier version, so only their times can be compared.
                None => client.incarnation == 0 && self.at >= client.created_at,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> Scope {
        Scope::parse(text).unwrap()
    }

    fn access(number: usize, scopes: &[&str]) -> ResourceAccess {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        ResourceAccess { id: format!("https://app{number:03}.test"), scopes }
    }

    fn none() -> Consent {
        let record = r#"{"subject":"01010101-0101-4101-8101-010101010101","client":"c","scope":"","at":0}"#;
        serde_json::from_str(record).unwrap()
    }

    #[test]
    fn consent_to_a_resource_is_separate() {
        let (openid, wiki, shop) = (scope("openid"), access(1, &["read"]), access(2, &["read"]));
        let consent = none().with_decision(openid, openid, Some(&wiki));
        assert!(consent.covers(openid, Some(&wiki)) && consent.covers(openid, Some(&access(1, &[]))));
        assert!(!consent.covers(openid, None) && !consent.covers(openid, Some(&shop)));
        assert!(!consent.covers(openid, Some(&access(1, &["write"]))));
        assert!(!consent.covers(scope("openid email"), Some(&wiki)));
        assert!(!none().with_decision(openid, openid, None).covers(openid, Some(&access(1, &[]))));
    }

    #[test]
    fn a_later_decision_adds_and_removes() {
        let (both, openid) = (scope("openid offline_access"), scope("openid"));
        let consent = none().with_decision(both, both, Some(&access(1, &["read"])));
        let consent = consent.with_decision(both, openid, Some(&access(1, &["write"])));
        assert!(consent.covers(openid, Some(&access(1, &["read", "write"]))));
        assert!(!consent.covers(both, Some(&access(1, &[]))));
        assert_eq!(consent.whole_scope(), openid);
    }

    #[test]
    fn the_number_of_resources_is_limited() {
        let openid = scope("openid");
        let add = |consent: Consent, number| consent.with_decision(openid, openid, Some(&access(number, &[])));
        let consent = (0..=MAX_RESOURCES).fold(none(), add);
        assert_eq!(consent.resources.len(), MAX_RESOURCES);
        assert!(consent.covers(openid, Some(&access(MAX_RESOURCES, &[]))));
    }
}
