//! Client of the provider: sends authorization requests, redeems codes, refreshes tokens.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::provider::encode;
use super::{Browser, Provider, REDIRECT_URI, Reply, VERIFIER};

/// Registered client.
pub(crate) struct Client<'a> {
    provider: &'a Provider,
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
}

/// Content of a token response.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) id: String,
    pub(crate) refresh: String,
    pub(crate) body: Value,
}

impl<'a> Client<'a> {
    pub(crate) fn confidential(provider: &'a Provider, id: &str) -> Self {
        Self { provider, id: id.into(), secret: Some(format!("secret of {id}")) }
    }

    pub(crate) fn public(provider: &'a Provider, id: &str) -> Self {
        Self { provider, id: id.into(), secret: None }
    }

    /// Returns the headers that authenticate the client.
    pub(crate) fn authorization(&self) -> Vec<(&'static str, String)> {
        self.secret.iter().map(|secret| ("authorization", basic(&self.id, secret))).collect()
    }

    /// `AUTHZ(x)`: returns the URL of an authorization request with these changes. A value of `-`
    /// removes the parameter.
    pub(crate) fn authorize(&self, changes: &[(&str, &str)]) -> String {
        let challenge = challenge(VERIFIER);
        let mut fields = vec![
            ("client_id", self.id.as_str()),
            ("response_type", "code"),
            ("scope", "openid"),
            ("redirect_uri", REDIRECT_URI),
            ("state", "s1"),
            ("nonce", "n1"),
        ];
        if self.secret.is_none() {
            fields.push(("code_challenge", &challenge));
            fields.push(("code_challenge_method", "S256"));
        }
        for (name, value) in changes {
            let known = fields.iter().position(|(known, _)| known == name);
            match (known, *value) {
                (Some(at), "-") => {
                    fields.remove(at);
                }
                (None, "-") => {}
                (Some(at), value) => fields[at].1 = value,
                (None, value) => fields.push((name, value)),
            }
        }
        format!("/oauth/authorize?{}", encode(&fields))
    }

    /// Returns a code for Anna, from a new browser that passes all pages.
    pub(crate) async fn code(&self, changes: &[(&str, &str)]) -> String {
        self.code_in(&self.provider.browser(), changes).await
    }

    /// Returns a code for Anna, from this browser.
    pub(crate) async fn code_in(&self, browser: &Browser<'_>, changes: &[(&str, &str)]) -> String {
        let reply = browser.authorize(&self.authorize(changes), "anna@example.test").await;
        reply.returned("code").unwrap_or_else(|| panic!("no code: {}", reply.location()))
    }

    /// Sends an authenticated POST to the token endpoint with exactly these fields.
    pub(crate) async fn token(&self, fields: &[(&str, &str)]) -> Reply {
        self.post("/oauth/token", fields).await
    }

    /// Sends an authenticated POST with exactly these fields, and the id of a public client.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let authorization = self.authorization();
        let headers: Vec<(&str, &str)> = authorization.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut all = fields.to_vec();
        if self.secret.is_none() && !fields.iter().any(|(name, _)| *name == "client_id") {
            all.push(("client_id", &self.id));
        }
        self.provider.post(path, &headers, &all).await
    }

    /// `TOKEN()`: redeems a code.
    pub(crate) async fn redeem(&self, code: &str) -> Reply {
        let mut fields = vec![("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)];
        if self.secret.is_none() {
            fields.push(("code_verifier", VERIFIER));
        }
        self.token(&fields).await
    }

    /// Uses a refresh token.
    pub(crate) async fn refresh(&self, token: &str) -> Reply {
        self.token(&[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }

    /// Returns tokens for Anna with this scope.
    pub(crate) async fn tokens(&self, scope: &str) -> Tokens {
        let code = self.code(&[("scope", scope)]).await;
        Tokens::of(&self.redeem(&code).await)
    }

    pub(crate) async fn revoke(&self, token: &str) -> Reply {
        self.post("/oauth/revoke", &[("token", token)]).await
    }
}

impl Tokens {
    /// Returns the tokens of a successful response.
    #[track_caller]
    pub(crate) fn of(reply: &Reply) -> Self {
        assert_eq!(reply.status, 200, "{reply:?}");
        let body = reply.json();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Self { access: text("access_token"), id: text("id_token"), refresh: text("refresh_token"), body }
    }
}

/// Returns `Basic …`, encoded as RFC 6749 §2.3.1 requires.
pub(crate) fn basic(id: &str, secret: &str) -> String {
    let form = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", form(id), form(secret))))
}

/// Returns the S256 challenge of a verifier.
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// Returns the header of a JWT.
pub(crate) fn jwt_header(token: &str) -> Value {
    part(token, 0)
}

/// Returns the claims of a JWT, unverified.
pub(crate) fn jwt_claims(token: &str) -> Value {
    part(token, 1)
}
