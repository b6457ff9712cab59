//! Issuer identifier, the public addresses derived from it, and `[[trusted_issuer]]`.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use sealgate_domain::oauth::trusted_token::TrustTerms;

/// Issuer identifier (OpenID Connect Discovery §3).
///
/// An https URL, or an http URL on a loopback host. The URL has no query, no fragment and no
/// trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerUrl {
    text: String,
    url: Url,
}

impl IssuerUrl {
    /// Parses an issuer.
    ///
    /// # Errors
    /// Returns a text that states the allowed values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("not a URL ({error}); write https://host"))?;
        let loopback = is_loopback_host(url.host_str().unwrap_or_default());
        match url.scheme() {
            "https" => {}
            "http" if loopback => {}
            "http" => {
                return Err("http is only allowed on localhost, *.localhost, 127.0.0.1 and [::1]; use https".into());
            }
            _ => return Err("the scheme must be https (or http on a loopback host)".into()),
        }
        if url.host_str().is_none() || !url.username().is_empty() || url.password().is_some() {
            return Err("write a scheme, a host, and optionally a port and a path, without a username".into());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("no query and no fragment are allowed".into());
        }
        if text.ends_with('/') {
            return Err("remove the trailing slash".into());
        }
        // Clients compare the issuer byte for byte. A client would reject the issuer if the
        // client's URL library changed its text.
        if url.as_str().trim_end_matches('/') != text {
            return Err(format!("write the URL in its normal form: {}", url.as_str().trim_end_matches('/')));
        }
        Ok(Self { text: text.to_owned(), url })
    }

    /// Returns the issuer exactly as configured.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the parsed issuer.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns whether the issuer uses TLS. This determines whether HSTS is sent, and whether
    /// cookies are `Secure` and have the prefix `__Host-`.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the `Host` header of requests to the issuer, without a default port.
    pub fn authority(&self) -> String {
        authority(&self.url)
    }

    /// Returns `https` or `http`.
    pub fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// Returns the host without the port.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the port, or `None` for the default port of the scheme.
    pub fn port(&self) -> Option<u16> {
        self.url.port()
    }

    /// Returns the prefix of every path of the provider. The prefix is empty, or begins with a
    /// slash and has no trailing slash.
    pub fn path_prefix(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }
}

/// Returns the `Host` header of requests to a URL, without a default port.
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns whether a host name means this machine: `localhost`, a name that ends in `.localhost`
/// (RFC 6761 §6.3), 127.0.0.1 or `[::1]`.
pub fn is_loopback_host(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost") || host == "127.0.0.1" || host == "[::1]"
}

/// `[[trusted_issuer]]`: issuer whose access tokens some applications accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// Short name of the issuer, and requirements for its tokens.
    pub terms: TrustTerms,
    pub keys: KeySource,
    /// Maximum time between two fetches of the keys.
    pub refresh: Duration,
    /// Minimum time between two fetches that are caused by tokens with an unknown key.
    pub throttle: Duration,
    /// Maximum time for which fetched keys stay in use if later fetches fail.
    pub stale: Duration,
}

/// Source of a trusted issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The URL in the issuer's metadata (OpenID Connect Discovery §4, RFC 8414 §3).
    Discovered,
    /// A configured URL.
    At(Url),
    /// A file. It is read again when it changes.
    File(PathBuf),
}
