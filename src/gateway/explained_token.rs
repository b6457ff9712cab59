//! Access token of an explanation. Its signature is not checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::explain::{Asker, Explanation};
use sealgate_config::Config;
use sealgate_core::tokens::bearer::BearerHolder;
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::claims::AccessTokenClaims;
use sealgate_domain::oauth::jwt;
use sealgate_domain::oauth::jwt::Unverified;
use sealgate_domain::oauth::trusted_token::{Foreign, ForeignFault, Signed, claimed_issuer};
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
