//! Tests the admin API: tokens, scopes, conditions of requests, and the rules of its commits.

mod clients;
mod nodes;
mod objects;
mod protected;
mod requests;
mod tokens;
mod users;
mod write_only;

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use sealgate_domain::api_token::{ApiScope, ApiToken};
use sealgate_domain::user::{Role, Subject, User};
use sealgate_system::clock::{Clock, OsEntropy, random};
use serde_json::{Value, json};

use crate::support::{PASSWORD, Provider, Reply};

const ON: &str = "[api]\nenabled = true\n[console]\nenabled = true\nadmins = \"admins\"";
const ANNA: &str = "anna@example.test";
const BEN: &str = "ben@example.test";
const JSON: (&str, &str) = ("content-type", "application/json");

/// Returns a provider with the API, and Anna as administrator.
async fn provider() -> Provider {
    provider_with("").await
}

async fn provider_with(more: &str) -> Provider {
    let provider = Provider::with(&format!("{ON}\n{more}")).await;
    give(&provider, provider.anna.sub, &[Role::Admin]).await;
    provider
}

async fn give(provider: &Provider, subject: Subject, roles: &[Role]) {
    provider.change_user(subject, |user| user.roles = roles.iter().copied().collect()).await;
}

/// Stores a token with these scopes. Returns its text.
async fn token_of(provider: &Provider, creator: Option<Subject>, scopes: &[ApiScope]) -> String {
    let secret = ApiToken::new_secret(random(&OsEntropy));
    let now = provider.clock.now();
    let token = ApiToken {
        hash: secret.hash(),
        name: "test".to_owned(),
        scopes: scopes.iter().copied().collect(),
        creator,
        created_at: now,
        expires_at: now.plus(Duration::from_hours(24)),
        // The first use of a token is a commit.
        last_used_at: Some(now),
    };
    assert!(provider.sealgate.store.add_api_token(&token).await.unwrap());
    secret.expose().to_owned()
}

/// Program with a token.
struct Program<'a> {
    provider: &'a Provider,
    token: String,
}

impl<'a> Program<'a> {
    /// Returns a program of Anna with these scopes.
    async fn with(provider: &'a Provider, scopes: &[ApiScope]) -> Self {
        Self { provider, token: token_of(provider, Some(provider.anna.sub), scopes).await }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let authorization = format!("Bearer {}", self.token);
        let mut all = vec![("authorization", authorization.as_str())];
        all.extend_from_slice(headers);
        self.provider.request(method, &format!("/api/v1/{path}"), &all, body).await
    }

    async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.send(method, path, &[JSON], &body.to_string()).await
    }

    /// Sends a request with a condition.
    async fn call_if(&self, method: &str, path: &str, condition: (&str, &str), body: &Value) -> Reply {
        self.send(method, path, &[JSON, condition], &body.to_string()).await
    }
}

/// Returns the body of an error.
#[track_caller]
fn problem(reply: &Reply) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:?}");
    let body: Value = serde_json::from_str(reply.text()).unwrap();
    assert_eq!(body["status"], reply.status, "{reply:?}");
    assert!(body["errors"].as_array().is_some_and(|errors| !errors.is_empty()), "{reply:?}");
    body
}

/// Returns the word of an error with this status.
#[track_caller]
fn code(reply: &Reply, status: u16) -> String {
    assert_eq!(reply.status, status, "{reply:?}");
    problem(reply)["code"].as_str().unwrap().to_owned()
}

async fn user(provider: &Provider, subject: Subject) -> User {
    provider.sealgate.store.user(subject).await.unwrap().unwrap()
}
