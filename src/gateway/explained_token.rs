//! Access token of an explanation. Its signature is not checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::explain::{self, Asker, Explanation};
use sealgate_config::{AppHosts, Config, Route};
use sealgate_core::tokens::bearer::BearerHolder;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::oauth::claims::{AccessTokenClaims, Audience};
use sealgate_domain::oauth::jwt;
use sealgate_domain::oauth::jwt::Unverified;
use sealgate_domain::oauth::trusted_token::{Foreign, ForeignFault, Signed, claimed_issuer};
use sealgate_domain::resource::{DeclaredResource, FoundResource, ResourceAccess, Resources as _, whole_scope};
use sealgate_domain::scope::Scope;
use sealgate_domain::service::ServiceClient;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};

/// Token whose claims are valid.
#[derive(Debug, Clone)]
pub enum ExplainedToken {
    /// Token of this issuer.
    Own(Box<OwnToken>),
    /// Token of another issuer that an application trusts.
    Foreign(Box<Foreign>),
}

/// Token of this issuer. The caller finds its client, and its user if it has one.
#[derive(Debug, Clone)]
pub struct OwnToken {
    claims: AccessTokenClaims,
    pub client: ClientId,
    /// User of the token. `None` if the client got it in its own name.
    pub subject: Option<Subject>,
}

impl ExplainedToken {
    /// Parses a token and checks its claims.
    ///
    /// # Errors
    /// The claim that makes the token invalid, or `None` if the text is no token.
    pub fn parse(token: &str, config: &Config, now: UnixTime) -> Result<Self, Option<&'static str>> {
        if let Some(foreign) = foreign(token, config, now) {
            return foreign;
        }
        let token = Unverified::parse(token).ok_or(None)?;
        if !token.is(jwt::ACCESS_TOKEN) {
            return Err(Some("typ"));
        }
        let claims = token.claims::<AccessTokenClaims>().ok_or(None)?;
        if claims.iss != config.issuer.as_str() {
            return Err(Some("iss"));
        }
        if now >= claims.exp {
            return Err(Some("exp"));
        }
        let client = ClientId::parse(&claims.client_id).ok_or(None)?;
        let subject = if claims.is_of_service() { None } else { Some(Subject::parse(&claims.sub).ok_or(None)?) };
        Ok(Self::Own(Box::new(OwnToken { claims, client, subject })))
    }
}

/// Returns the token of another issuer, if an application accepts the issuer. Returns `None` for
/// every other token.
fn foreign(token: &str, config: &Config, now: UnixTime) -> Option<Result<ExplainedToken, Option<&'static str>>> {
    let claimed = claimed_issuer(token)?;
    let mut trusted = config.trusted_issuers.iter().map(|issuer| &issuer.terms);
    let terms = trusted.find(|terms| terms.issuer == claimed)?;
    let judged = Signed::parse(token, terms).and_then(|signed| signed.judged(terms, now));
    Some(judged.map(|foreign| ExplainedToken::Foreign(Box::new(foreign))).map_err(ForeignFault::claim))
}

impl OwnToken {
    /// Returns the client of a request with this token of a user.
    ///
    /// # Errors
    /// The claim that makes the token invalid, if the user is disabled.
    pub fn of_user(self, user: User, vouched_for: bool) -> Result<Asker, Option<&'static str>> {
        if !user.is_enabled() {
            return Err(Some("sub"));
        }
        let holder = BearerHolder::User(Arc::new(user));
        Ok(Asker::Token { claims: Box::new(self.claims), holder, vouched_for })
    }

    /// Returns the client of a request with this token, which the client got in its own name.
    pub fn of_service(self, name: String, groups: BTreeSet<String>, vouched_for: bool) -> Asker {
        let holder = BearerHolder::Client(Arc::new(ServiceClient { id: self.client, name, groups }));
        Asker::Token { claims: Box::new(self.claims), holder, vouched_for }
    }
}

/// Access token that a client could get for a request.
#[derive(Debug)]
pub enum ClientToken {
    /// Token with all scopes that the client may request.
    Widest(Asker),
    /// The gateway refuses every token of the client, because of this claim.
    Refused(&'static str),
    /// The client gets no token in its own name for the application.
    NotInItsOwnName,
}

impl ClientToken {
    /// Returns the token that a client could get for the application of a URL: for a user who has
    /// signed in at this level, or in its own name.
    pub fn of_client(
        config: &Config,
        client: &Client,
        user: Option<(&User, Option<AssuranceLevel>)>,
        url: &str,
        now: UnixTime,
    ) -> Self {
        if !client.is_enabled() {
            return Self::Refused("client_id");
        }
        let resources = resources_at(config, url);
        let vouched_for = client.is_vouched_for();
        let claims = AccessTokenClaims {
            iss: config.issuer.as_str().to_owned(),
            sub: client.id.to_string(),
            aud: Audience::One(config.issuer.as_str().to_owned()),
            exp: now.plus(config.tokens.access_token),
            nbf: None,
            iat: now,
            jti: String::new(),
            client_id: client.id.to_string(),
            scope: String::new(),
            auth_time: None,
            acr: String::new(),
            amr: Vec::new(),
            grant_id: String::new(),
            groups: None,
        };
        let token = |claims| OwnToken { claims, client: client.id.clone(), subject: None };
        let audience = |resources: &[DeclaredResource]| {
            Audience::Many(resources.iter().map(|resource| resource.id.clone()).collect())
        };
        let Some((user, level)) = user else {
            let service = ServiceClient::from_client(client).zip(client.service.as_ref());
            let access = resources
                .first()
                .zip(service)
                .and_then(|(resource, (holder, service))| Some((service.to_resource(resource)?, holder)));
            let Some((access, holder)) = access else { return Self::NotInItsOwnName };
            let scope = whole_scope(Scope::EMPTY, Some(&access));
            let claims = AccessTokenClaims { aud: audience(&resources), scope, ..claims };
            return Self::Widest(token(claims).of_service(holder.name, holder.groups, vouched_for));
        };
        let level = level.unwrap_or_else(|| config.factors.policy_for(user, now).level);
        let access =
            resources.first().map(|first| ResourceAccess { id: first.id.clone(), scopes: first.scopes.clone() });
        let claims = AccessTokenClaims {
            sub: user.sub.to_string(),
            aud: if resources.is_empty() { claims.aud } else { audience(&resources) },
            scope: whole_scope(client.scope, access.as_ref()),
            auth_time: Some(now),
            acr: level.as_str().to_owned(),
            ..claims
        };
        match token(claims).of_user(user.clone(), vouched_for) {
            Ok(asker) => Self::Widest(asker),
            Err(claim) => Self::Refused(claim.unwrap_or("sub")),
        }
    }
}

/// Returns the resources that a client can request for the application of a URL: the application, and
/// its routes that are resources of their own. Empty if there are no tokens for the application alone.
fn resources_at(config: &Config, url: &str) -> Vec<DeclaredResource> {
    let Some((host, _)) = explain::split(url) else { return Vec::new() };
    let app = AppHosts::from_config(config).app(host).and_then(|index| config.apps.get(index));
    let Some(app) = app.filter(|app| app.is_resource()) else { return Vec::new() };
    let origin = app.origin_at(&config.issuer, app.covered_host(host).as_ref());
    let paths: BTreeSet<&str> = app.routes.iter().filter_map(Route::resource_path).collect();
    let ids = std::iter::once(origin.clone()).chain(paths.into_iter().map(|path| format!("{origin}{path}")));
    ids.filter_map(|id| match config.find(&id) {
        FoundResource::Declared(declared) => Some(declared),
        FoundResource::Undeclared | FoundResource::Unknown => None,
    })
    .collect()
}

impl Explanation {
    /// Returns the explanation of a request with an invalid token, from the explanation of the
    /// request without credentials.
    ///
    /// On a public route the gateway ignores the token. On any other route it refuses an invalid
    /// token before it checks the route's other conditions.
    #[must_use]
    pub fn with_invalid_token(mut self, claim: Option<&'static str>) -> Self {
        if !self.forwarded && self.reason == "unauthenticated" {
            (self.reason, self.claim) = ("invalid_token", claim);
            self.status = self.status(false);
        }
        self
    }
}
