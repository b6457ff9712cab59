//! Creates tokens from an [`Authorization`] and verifies presented tokens.
//!
//! This module does not read the store, so it cannot check revocation.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use sealgate_config::Config;
use sealgate_domain::client::Client;
use sealgate_domain::client_logout::LogoutTokenClaims;
use sealgate_domain::grant::Grant;
use sealgate_domain::oauth::claims::{
    AccessTokenClaims, AssertionClaims, Audience, IdTokenClaims, UserClaims, groups_in_token,
};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::oauth::jwt;
use sealgate_domain::oauth::jwt::Unverified;
use sealgate_domain::oauth::token::Authorization;
use sealgate_domain::resource::{ResourceAccess, whole_scope};
use sealgate_domain::scope::Scope;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_signer::{SignError, Signer};

/// Issues tokens and verifies its own.
pub struct Issuer {
    name: String,
    access_token: Duration,
    signer: Arc<dyn Signer>,
}

/// Algorithms of the tokens of a grant.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenAlgorithms {
    /// Algorithm of the access token: the choice of the resource.
    pub access_token: Algorithm,
    /// Algorithm of the ID token: the choice of the client.
    pub id_token: Algorithm,
}

impl TokenAlgorithms {
    /// Returns the algorithms that the configuration chooses for the resource, and the client for
    /// itself.
    pub fn of(config: &Config, resource: Option<&ResourceAccess>, client: &Client) -> Self {
        Self { access_token: config.access_token_alg(resource), id_token: client.details.id_token_alg() }
    }
}

/// Signed tokens of a grant.
#[derive(Debug)]
pub struct Tokens {
    pub access_token: String,
    /// The ID token, if the scope contains `openid`.
    pub id_token: Option<String>,
    pub lifetime: Duration,
}

impl Issuer {
    /// Creates the issuer with this name and this lifetime of access and ID tokens.
    pub fn new(name: String, access_token: Duration, signer: Arc<dyn Signer>) -> Self {
        Self { name, access_token, signer }
    }

    /// Returns the signer of the tokens.
    pub fn signer(&self) -> &dyn Signer {
        self.signer.as_ref()
    }

    /// Signs the tokens of a grant. `jti` becomes the id of the access token.
    ///
    /// The access token is signed first, because the ID token contains its hash.
    ///
    /// # Errors
    /// Returns an error if the PKCS#11 token does not sign. In this case, nothing has been stored.
    pub async fn mint(
        &self,
        authorization: &Authorization,
        algorithms: TokenAlgorithms,
        user: &User,
        jti: String,
        now: UnixTime,
    ) -> Result<Tokens, SignError> {
        let claims = self.access_claims(authorization, user, jti, now);
        let access_token = self.signed(jwt::ACCESS_TOKEN, algorithms.access_token, &claims).await?;
        let mut id_token = None;
        if authorization.has_id_token() {
            let claims = self.id_claims(authorization, user, &access_token, now);
            id_token = Some(self.signed(jwt::ID_TOKEN, algorithms.id_token, &claims).await?);
        }
        Ok(Tokens { access_token, id_token, lifetime: self.access_token })
    }

    /// Signs a token that a client gets in its own name (RFC 6749 §4.4). `jti` becomes its id.
    ///
    /// # Errors
    /// Returns an error if the PKCS#11 token does not sign.
    pub async fn mint_for_client(
        &self,
        grant: &Grant,
        access: &ResourceAccess,
        algorithm: Algorithm,
        jti: String,
        now: UnixTime,
    ) -> Result<Tokens, SignError> {
        let claims = AccessTokenClaims {
            iss: self.name.clone(),
            sub: grant.client.to_string(),
            aud: Audience::One(access.id.clone()),
            exp: now.plus(self.access_token),
            nbf: None,
            iat: now,
            jti,
            client_id: grant.client.to_string(),
            scope: whole_scope(Scope::EMPTY, Some(access)),
            auth_time: None,
            acr: String::new(),
            amr: Vec::new(),
            grant_id: grant.id.to_string(),
            groups: None,
        };
        let access_token = self.signed(jwt::ACCESS_TOKEN, algorithm, &claims).await?;
        Ok(Tokens { access_token, id_token: None, lifetime: self.access_token })
    }

    /// Signs a token with the active key of this algorithm.
    async fn signed(
        &self,
        typ: &'static str,
        algorithm: Algorithm,
        claims: &(impl Serialize + Sync),
    ) -> Result<String, SignError> {
        let keys = self.signer.key_set();
        let key = keys.active_for(algorithm).ok_or_else(|| {
            SignError::Unavailable(format!("no {algorithm} key is active yet; `sealgate key list` shows the schedule"))
        })?;
        let kid = key.kid();
        let input = jwt::signing_input(typ, key.algorithm(), kid.as_str(), claims)
            .map_err(|error| SignError::Bug(format!("cannot encode the claims: {error}")))?;
        let signatures = self.signer.sign(kid, vec![input.clone().into_bytes()]).await?;
        let signature =
            signatures.first().ok_or_else(|| SignError::Bug("the PKCS#11 token returned no signature".to_owned()))?;
        Ok(jwt::assemble(&input, signature.as_bytes()))
    }

    fn access_claims(
        &self,
        authorization: &Authorization,
        user: &User,
        jti: String,
        now: UnixTime,
    ) -> AccessTokenClaims {
        AccessTokenClaims {
            iss: self.name.clone(),
            sub: authorization.subject.to_string(),
            aud: self.audience(authorization),
            exp: now.plus(self.access_token),
            nbf: None,
            iat: now,
            jti,
            client_id: authorization.client.to_string(),
            scope: authorization.whole_scope(),
            auth_time: Some(authorization.auth_time),
            acr: authorization.acr.clone(),
            amr: authorization.amr.clone(),
            grant_id: authorization.grant.to_string(),
            groups: groups_in_token(user, authorization.scope, &authorization.visible_groups),
        }
    }

    /// Returns the audience of an access token: the resource, or the issuer if there is no resource.
    ///
    /// With `openid`, the issuer is a second audience, for its UserInfo endpoint. The gateway accepts
    /// the issuer as audience only if it is the only one.
    fn audience(&self, authorization: &Authorization) -> Audience {
        match &authorization.resource {
            None => Audience::One(self.name.clone()),
            Some(resource) if authorization.has_id_token() => {
                Audience::Many(vec![resource.id.clone(), self.name.clone()])
            }
            Some(resource) => Audience::One(resource.id.clone()),
        }
    }

    fn id_claims(
        &self,
        authorization: &Authorization,
        user: &User,
        access_token: &str,
        now: UnixTime,
    ) -> IdTokenClaims {
        IdTokenClaims {
            iss: self.name.clone(),
            sub: authorization.subject.to_string(),
            aud: authorization.client.to_string(),
            exp: now.plus(self.access_token),
            iat: now,
            auth_time: authorization.auth_time,
            nonce: authorization.nonce.clone(),
            acr: authorization.acr.clone(),
            amr: authorization.amr.clone(),
            at_hash: Some(jwt::at_hash(access_token)),
            sid: authorization.sid.clone(),
            claims: UserClaims::in_token(user, authorization.scope, &authorization.visible_groups),
        }
    }

    /// Signs a logout token to a client.
    ///
    /// # Errors
    /// Returns an error if the PKCS#11 token does not sign.
    pub async fn logout_token(&self, claims: &LogoutTokenClaims, algorithm: Algorithm) -> Result<String, SignError> {
        self.signed(jwt::LOGOUT_TOKEN, algorithm, claims).await
    }

    /// Signs an assertion for an application.
    pub async fn assert(&self, claims: &AssertionClaims, algorithm: Algorithm) -> Result<String, SignError> {
        self.signed(jwt::ASSERTION, algorithm, claims).await
    }

    /// Returns the claims of an unexpired access token of this issuer (RFC 9068 §4), or `None` for
    /// any other text. The caller must check the audience.
    pub fn access_token(&self, token: &str, now: UnixTime) -> Option<AccessTokenClaims> {
        let token = self.verified(token)?;
        if !token.is(jwt::ACCESS_TOKEN) {
            return None;
        }
        let claims: AccessTokenClaims = token.claims()?;
        let is_after_nbf = claims.nbf.is_none_or(|begins| begins <= now);
        (claims.iss == self.name && is_after_nbf && now < claims.exp).then_some(claims)
    }

    /// Returns whether a text looks like an access token of this issuer, valid or not.
    ///
    /// Verifies no signature. The gateway uses this to withhold such tokens from applications.
    pub fn is_own_access_token(&self, token: &str) -> bool {
        #[derive(serde::Deserialize)]
        struct Named {
            iss: String,
        }
        let Some(token) = Unverified::parse(token).filter(|token| token.is(jwt::ACCESS_TOKEN)) else { return false };
        token.claims::<Named>().is_some_and(|claims| claims.iss == self.name)
    }

    /// Returns the claims of an ID token of this issuer, expired or not, for use as a hint (OpenID
    /// Connect Core §3.1.2.1, RP-Initiated Logout §2).
    ///
    /// Returns `None` for any other text, including access tokens.
    pub fn id_token_hint(&self, token: &str) -> Option<IdTokenClaims> {
        let token = self.verified(token)?;
        if !token.is(jwt::ID_TOKEN) {
            return None;
        }
        let claims: IdTokenClaims = token.claims()?;
        (claims.iss == self.name).then_some(claims)
    }

    /// Returns whether the key of a previously verified token is still published. The operator may
    /// have removed a compromised key.
    pub(crate) fn names_a_published_key(&self, token: &str) -> bool {
        Unverified::parse(token).is_some_and(|token| self.signer.key_set().find(&token.kid).is_some())
    }

    fn verified<'a>(&self, token: &'a str) -> Option<Unverified<'a>> {
        let token = Unverified::parse(token)?;
        let keys = self.signer.key_set();
        // The key determines the algorithm, never the token alone.
        let key = keys.find(&token.kid).filter(|key| key.algorithm() == token.algorithm)?;
        key.verify(token.signing_input.as_bytes(), &token.signature).then_some(token)
    }
}
