//! Requests and answers in detail: another sender, changed fields, rate limit headers, and a
//! provider restarted on the same records.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use sealgate_config::Config;
use sealgate_core::sources::NoClientKeys;
use sealgate_core::state::Parts;
use sealgate_domain::client;
use sealgate_domain::client::ClientId;
use sealgate_domain::user::{Subject, User};
use sealgate_store::engine::Engine;
use sealgate_system::clock::{Clock, OsEntropy};
use sealgate_system::metrics::Metrics;

use super::{Client, ISSUER, Provider, REDIRECT_URI, Reply, settings, token_device};

/// Content type header of a form.
pub(crate) const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// Values of the three rate limit headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: u64,
}

impl Reply {
    /// Returns the rate limit headers. Panics if one is missing or not an integer.
    #[track_caller]
    pub(crate) fn allowance(&self) -> Allowance {
        let number = |name| {
            let text = self.header(name).unwrap_or_else(|| panic!("{name} is missing: {self:?}"));
            text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is {text}"))
        };
        Allowance {
            limit: number("x-ratelimit-limit"),
            remaining: number("x-ratelimit-remaining"),
            reset: number("x-ratelimit-reset"),
        }
    }

    /// Asserts a failed client authentication: 401 `invalid_client`, with a challenge that names
    /// the scheme.
    #[track_caller]
    pub(crate) fn assert_unauthenticated(&self) {
        self.assert_error(401, "invalid_client");
        let challenge = self.header("www-authenticate").unwrap_or_else(|| panic!("no challenge: {self:?}"));
        assert!(challenge.starts_with("Basic realm=\""), "{challenge}");
    }

    /// Asserts a rejected bearer token: this status and error, in the body and in the challenge.
    #[track_caller]
    pub(crate) fn assert_bearer_error(&self, status: u16, error: &str) {
        self.assert_error(status, error);
        let challenge = self.header("www-authenticate").unwrap_or_else(|| panic!("no challenge: {self:?}"));
        assert!(challenge.starts_with("Bearer realm=\""), "{challenge}");
        assert!(challenge.contains(&format!("error=\"{error}\"")), "{challenge}");
    }
}

impl Provider {
    /// Sends a request with this method, headers and body from an address.
    pub(crate) async fn request_from(
        &self,
        address: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send_from(address, request.body(Bytes::from(body.to_owned())).unwrap()).await
    }

    /// Changes a client's record, as an operator does.
    pub(crate) async fn change_client(&self, id: &str, change: impl Fn(&mut client::Client) + Send) {
        let id = ClientId::parse(id).unwrap();
        assert!(self.sealgate.store.change_client(&id, change).await.unwrap().is_some());
    }

    /// Changes a user's record, as an operator does.
    pub(crate) async fn change_user(&self, sub: Subject, change: impl Fn(&mut User) + Send) {
        assert!(self.sealgate.store.change_user(sub, change).await.unwrap().is_some());
    }

    /// Restarts the provider: with the same records, keys and clock, and empty memory.
    pub(crate) async fn restarted(&self) -> Self {
        self.restarted_from(&settings("")).await
    }

    /// Restarts the provider under another issuer's name, as after a move.
    pub(crate) async fn restarted_as(&self, issuer: &str) -> Self {
        self.restarted_from(&settings("").replace(ISSUER, issuer)).await
    }

    /// Restarts the provider with additional sections in its configuration.
    pub(crate) async fn restarted_with(&self, more: &str) -> Self {
        self.restarted_from(&settings(more)).await
    }

    async fn restarted_from(&self, settings: &str) -> Self {
        let parts = Parts {
            config: Config::parse(settings, Path::new("/nowhere")).unwrap(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::new(OsEntropy),
            engine: Arc::clone(&self.engine) as Arc<dyn Engine>,
            signer: token_device::signer(),
            client_keys: Arc::new(NoClientKeys),
            metrics: Arc::new(Metrics::new().unwrap()),
        };
        Self {
            sealgate: Arc::new(parts.assemble().await.unwrap()),
            engine: Arc::clone(&self.engine),
            clock: Arc::clone(&self.clock),
            anna: self.anna.clone(),
            ben: self.ben.clone(),
        }
    }
}

impl Client<'_> {
    /// Refreshes with a `scope`.
    pub(crate) async fn refresh_with_scope(&self, token: &str, scope: &str) -> Reply {
        self.token(&[("grant_type", "refresh_token"), ("refresh_token", token), ("scope", scope)]).await
    }
}

/// `TOKEN(x)`: returns the fields of a redemption with these changes. A value of `-` removes a
/// field.
pub(crate) fn redemption<'a>(code: &'a str, changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)];
    for (name, value) in changes {
        fields.retain(|(known, _)| known != name);
        if *value != "-" {
            fields.push((name, value));
        }
    }
    fields
}
