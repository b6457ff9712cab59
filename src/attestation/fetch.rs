//! Reading a provider's documents from outside, over HTTP with deadlines and limits. Blocks: for the command line.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The longest that one document may take, with name resolution, connection and TLS.
const PATIENCE: Duration = Duration::from_secs(15);

/// The longest document, bytes: a key set with chains is a few kilobytes a key.
const LONGEST: u64 = 2 << 20;

/// An HTTP client that trusts the machine's certificate authorities; `SSL_CERT_FILE` names others.
#[derive(Debug)]
pub struct Web {
    agent: Agent,
}

impl Web {
    /// A client.
    ///
    /// # Errors
    /// One line, when the machine's certificate authorities cannot be read.
    pub fn new() -> Result<Self, String> {
        let authorities = rustls_native_certs::load_native_certs()
            .map_err(|error| format!("this machine's certificate authorities cannot be read: {error}"))?;
        let authorities: Vec<_> =
            authorities.iter().map(|authority| Certificate::from_der(authority).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(authorities)))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            // These documents stand where they stand: a redirect would have others speak for the issuer.
            .max_redirects(0)
            .user_agent(concat!("sealgate/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build()
            .new_agent();
        Ok(Self { agent })
    }

    /// The JSON document at `url`.
    ///
    /// # Errors
    /// One line that names the address.
    pub fn json(&self, url: &str) -> Result<Value, String> {
        let fault = |error: &dyn std::fmt::Display| format!("{url}: {error}");
        let mut response = self.agent.get(url).call().map_err(|error| fault(&error))?;
        if response.status() != 200 {
            return Err(fault(&format_args!("answered {}, and 200 was expected", response.status())));
        }
        let body = response.body_mut().with_config().limit(LONGEST).read_to_vec().map_err(|error| fault(&error))?;
        serde_json::from_slice(&body).map_err(|error| fault(&format_args!("is not JSON ({error})")))
    }
}
