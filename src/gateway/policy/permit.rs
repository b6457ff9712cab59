//! Permit of a request. Only the policy can create it.

use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;
use http::uri::PathAndQuery;

use crate::cors::Cors;
use crate::headers;
use crate::headers::Identity;
use crate::policy::AccessRequest;
use crate::upstream_session::SharedSession;
use crate::upstream_target::UpstreamTarget;
use sealgate_config::{Config, RouteLimits, Sticky};
use sealgate_core::web::server_cookie;
use sealgate_edge::origin::Origin;
use sealgate_edge::rewrite::Rewrite;
use sealgate_edge::{Affinity, UpstreamSession};

/// Permission to forward one request to one upstream, with the identity headers to add.
#[derive(Debug, Clone)]
pub struct Permit {
    pub(super) app: usize,
    /// Number of the list of upstreams; see [`sealgate_config::RouteUpstream::list`].
    pub(super) upstreams: usize,
    /// Number of the user, if all requests of a user get the same server.
    pub(super) user: Option<u64>,
    /// Target at the upstream.
    pub(crate) path_and_query: PathAndQuery,
    /// Changes for an upstream whose paths differ from the paths that clients see.
    pub(super) upstream_target: Option<Box<UpstreamTarget>>,
    pub(super) identity: Identity,
    /// CORS headers of the response.
    pub(super) cors: Cors,
    pub(super) allow_get_body: bool,
    pub(super) limits: RouteLimits,
    pub(super) compression: bool,
    /// Session at the application, if the gateway signs users in there.
    pub(super) session: Option<SharedSession>,
}

impl Permit {
    /// Returns the index of the application in the configuration.
    pub fn app(&self) -> usize {
        self.app
    }

    /// Returns the number of the list of upstreams; see [`sealgate_config::RouteUpstream::list`].
    pub fn upstreams(&self) -> usize {
        self.upstreams
    }

    /// Returns which server of the list receives the request.
    pub fn affinity(&self, config: &Config, headers: &HeaderMap) -> Affinity {
        match config.apps.get(self.app).and_then(|app| app.sticky) {
            None => Affinity::InTurn,
            Some(Sticky::User) => self.user.map_or(Affinity::Client, Affinity::User),
            Some(Sticky::Cookie) => {
                Affinity::Cookie(server_cookie::find(headers, self.upstreams, config.issuer.is_https()))
            }
        }
    }

    /// Returns the URL to which the gateway must redirect the client instead of forwarding the
    /// request. Without the redirect, relative links of the upstream's page would lead out of its
    /// prefix.
    pub fn redirect(&self) -> Option<&str> {
        self.upstream_target.as_ref()?.with_slash.as_deref()
    }

    /// Returns whether a GET, HEAD or OPTIONS request may have a body.
    pub fn allows_get_body(&self) -> bool {
        self.allow_get_body
    }

    /// Returns the limits of the rule on the size and the time of the exchange.
    pub fn limits(&self) -> RouteLimits {
        self.limits
    }

    /// Returns whether the response may be compressed.
    pub fn compression(&self) -> bool {
        self.compression
    }

    /// Adds the properties of the request and its rule; see `Identity::for_request`.
    pub(crate) fn for_request(self, methods_ruled: bool, holds_token: bool, asked: &AccessRequest<'_>) -> Self {
        let identity = self.identity.for_request(methods_ruled, holds_token, asked.rule, asked.is_by_network);
        Self { identity, ..self }
    }

    /// Returns the session at the application, if the gateway signs users in there.
    pub fn session(&self) -> Option<Arc<dyn UpstreamSession>> {
        self.session.clone().map(|session| Arc::new(session) as Arc<dyn UpstreamSession>)
    }

    /// Returns the permit with the user's session at the application.
    pub(crate) fn with_session(self, session: SharedSession) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Adds a signed assertion.
    pub(crate) fn with_assertion(self, assertion: &str) -> Self {
        Self { identity: self.identity.with_assertion(assertion), ..self }
    }

    /// Returns the changes to the request and to its response. `head` must be the head for which
    /// the permit was created.
    pub fn rewrite(self, head: &Parts) -> Rewrite {
        let mut rewrite =
            headers::rewrite(head, &Origin::from_head(head), self.path_and_query, self.identity, &self.cors);
        if let Some(target) = self.upstream_target {
            rewrite.set.extend(target.fields());
            rewrite.prefix = Some(target.prefix);
        }
        rewrite
    }
}
