//! What a decision leaves in the hands of whoever carries the request. Its fields are the policy's alone to fill.

use http::request::Parts;
use http::uri::PathAndQuery;

use crate::gateway::cors::Cors;
use crate::gateway::headers::{self, Identity};
use crate::gateway::route::Rule;
use crate::web::origin::Origin;
use crate::web::rewrite::Rewrite;

/// Leave to carry one request to one application, with all that the application may learn from it.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    pub(super) app: usize,
    pub(super) path_and_query: PathAndQuery,
    pub(super) identity: Identity,
    /// What the answer says to pages of other origins.
    pub(super) cors: Cors,
    pub(super) allow_get_body: bool,
}

impl Permit {
    /// Which application, an index into the configured ones.
    pub(crate) fn app(&self) -> usize {
        self.app
    }

    /// Whether a GET, HEAD or OPTIONS may have a body.
    pub(crate) fn allows_get_body(&self) -> bool {
        self.allow_get_body
    }

    /// The same, for an application whose rules look at methods or not, and a request that holds a token of ours or not.
    pub(in crate::gateway) fn for_request(self, methods_ruled: bool, holds_token: bool, rule: &Rule) -> Self {
        Self { identity: self.identity.for_request(methods_ruled, holds_token, rule), ..self }
    }

    /// The same with a signed assertion.
    pub(in crate::gateway) fn with_assertion(self, assertion: &str) -> Self {
        Self { identity: self.identity.with_assertion(assertion), ..self }
    }

    /// How the request is changed on its way, and the answer on its way back. `head` is the one that the permit was given
    /// for.
    pub(crate) fn rewrite(self, head: &Parts) -> Rewrite {
        headers::rewrite(head, &Origin::of(head), self.path_and_query, self.identity, &self.cors)
    }
}
