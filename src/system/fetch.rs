//! HTTP client for external documents, with a deadline and a size limit. Blocking: call it from the
//! command line or from threads that may block.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use ipnet::IpNet;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use ureq::Agent;
use ureq::config::{Config, ConfigBuilder};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::AgentScope;
use ureq::unversioned::transport::DefaultConnector;

use crate::guarded_resolver::{GuardedResolver, PublicResolver};

/// HTTP client that trusts the certificate authorities of this machine, or of the file in
/// `SSL_CERT_FILE`.
#[derive(Debug)]
pub struct Web {
    agent: Agent,
    max_bytes: u64,
}

/// A fetched document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub body: Vec<u8>,
    /// Time for which the document may be cached (`max-age`, RFC 9111 §5.2.2.1). `None` if caching
    /// is forbidden or the response states no time.
    pub max_age: Option<Duration>,
}

/// Reason why a document could not be read. Each variant contains one line that names the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// The server responded with status 404.
    Absent(String),
    /// Any other error.
    Fault(String),
}

impl Unread {
    /// Returns the line that names the URL.
    pub fn into_line(self) -> String {
        match self {
            Self::Absent(line) | Self::Fault(line) => line,
        }
    }
}

impl Web {
    /// Creates a client for documents of at most `max_bytes` bytes.
    ///
    /// `timeout` limits a whole request, including name resolution, connection and TLS handshake.
    ///
    /// # Errors
    /// One line, if the machine's certificate authorities cannot be read.
    pub fn new(timeout: Duration, max_bytes: u64) -> Result<Self, String> {
        Self::with_authorities(timeout, max_bytes, None)
    }

    /// Creates a client like [`Web::new`]. The client also trusts the certificate authorities in a
    /// PEM file.
    ///
    /// # Errors
    /// One line, if the authorities cannot be read.
    pub fn with_authorities(timeout: Duration, max_bytes: u64, ca_file: Option<&Path>) -> Result<Self, String> {
        Ok(Self { agent: config(timeout, ca_file)?.new_agent(), max_bytes })
    }

    /// Creates a client like [`Web::with_authorities`] for the documents of an issuer on this host.
    ///
    /// The client sends no requests to private addresses of other hosts.
    ///
    /// # Errors
    /// One line, if the authorities cannot be read.
    pub fn for_issuer(
        timeout: Duration,
        max_bytes: u64,
        ca_file: Option<&Path>,
        issuer_host: &str,
    ) -> Result<Self, String> {
        let resolver = GuardedResolver::new(issuer_host);
        let agent = Agent::with_parts(config(timeout, ca_file)?, DefaultConnector::default(), resolver);
        Ok(Self { agent, max_bytes })
    }

    /// Creates a client like [`Web::new`] for URLs that strangers choose: it connects to public
    /// addresses only, and ignores the proxy settings of the environment, because a proxy would
    /// resolve names itself.
    ///
    /// # Errors
    /// One line, if the authorities cannot be read.
    pub fn for_strangers(timeout: Duration, max_bytes: u64) -> Result<Self, String> {
        let config = settings(timeout, None)?.proxy(None).build();
        Ok(Self { agent: Agent::with_parts(config, DefaultConnector::default(), PublicResolver::default()), max_bytes })
    }

    /// Creates a client like [`Web::for_strangers`] that also connects to addresses in these networks.
    /// Connections are not kept open.
    ///
    /// # Errors
    /// One line, if the authorities cannot be read.
    pub fn for_clients(timeout: Duration, networks: &[IpNet]) -> Result<Self, String> {
        let config = settings(timeout, None)?.proxy(None).max_idle_connections(0).build();
        let resolver = PublicResolver::with_networks(networks);
        Ok(Self { agent: Agent::with_parts(config, DefaultConnector::default(), resolver), max_bytes: 0 })
    }

    /// Sends a form, and returns the status of the response. Does not read its body, and follows no
    /// redirect.
    ///
    /// # Errors
    /// One line without the URL and the form.
    pub fn post_form(&self, url: &str, form: &str) -> Result<u16, String> {
        let request = self.agent.post(url).config().http_status_as_error(false).build();
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        request.send(form).map(|response| response.status().as_u16()).map_err(|error| error.to_string())
    }

    /// Fetches the document at `url`.
    ///
    /// # Errors
    /// If the response has another status than 200, or is too long or too late.
    pub fn get(&self, url: &str) -> Result<Document, Unread> {
        let fault = |error: &dyn std::fmt::Display| Unread::Fault(format!("{url}: {error}"));
        let answer = self.agent.get(url).header("Accept", "application/json").call();
        let mut response = match answer {
            Err(ureq::Error::StatusCode(404)) => return Err(Unread::Absent(format!("{url}: not found (404)"))),
            answer => answer.map_err(|error| fault(&error))?,
        };
        if response.status() != 200 {
            return Err(fault(&format_args!("the response has the status {}, expected 200", response.status())));
        }
        let max_age = response.headers().get("cache-control").and_then(|value| value.to_str().ok()).and_then(max_age);
        let body =
            response.body_mut().with_config().limit(self.max_bytes).read_to_vec().map_err(|error| fault(&error))?;
        Ok(Document { body, max_age })
    }

    /// Sends a request and returns the response, whatever its status.
    ///
    /// # Errors
    /// One line that names the URL.
    pub fn exchange(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, String> {
        let url = request.uri().to_string();
        let fault = |error: ureq::Error| format!("{url}: {error}");
        let request = self.agent.configure_request(request).http_status_as_error(false).build();
        let (parts, mut body) = self.agent.run(request).map_err(fault)?.into_parts();
        let body = body.with_config().limit(self.max_bytes).read_to_vec().map_err(fault)?;
        Ok(Response::from_parts(parts, body))
    }

    /// Sends a request that contains secrets, and returns the response, whatever its status.
    /// Ignores the proxy settings of the environment.
    ///
    /// # Errors
    /// One line without the URL.
    pub fn send_secret(&self, request: Request<&[u8]>, timeout: Duration) -> Result<Response<Vec<u8>>, String> {
        let request = self.agent.configure_request(request).http_status_as_error(false);
        let request = request.timeout_global(Some(timeout)).proxy(None).build();
        let (parts, mut body) = self.agent.run(request).map_err(|error| error.to_string())?.into_parts();
        let body = body.with_config().limit(self.max_bytes).read_to_vec().map_err(|error| error.to_string())?;
        Ok(Response::from_parts(parts, body))
    }

    /// Fetches and parses the JSON document at `url`.
    ///
    /// # Errors
    /// One line that names the URL.
    pub fn json(&self, url: &str) -> Result<Value, String> {
        let document = self.get(url).map_err(Unread::into_line)?;
        serde_json::from_slice(&document.body).map_err(|error| format!("{url}: the response is not JSON ({error})"))
    }
}

fn config(timeout: Duration, ca_file: Option<&Path>) -> Result<Config, String> {
    Ok(settings(timeout, ca_file)?.build())
}

/// Returns the settings of all clients: authorities, timeout, and no redirects.
fn settings(timeout: Duration, ca_file: Option<&Path>) -> Result<ConfigBuilder<AgentScope>, String> {
    let authorities = rustls_native_certs::load_native_certs()
        .map_err(|error| format!("cannot read this machine's certificate authorities: {error}"))?;
    let mut authorities: Vec<_> =
        authorities.iter().map(|authority| Certificate::from_der(authority).to_owned()).collect();
    if let Some(file) = ca_file {
        let fault = |error| format!("cannot read {}: {error}", file.display());
        for authority in CertificateDer::pem_file_iter(file).map_err(fault)? {
            authorities.push(Certificate::from_der(&authority.map_err(fault)?).to_owned());
        }
    }
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(authorities)))
        .unversioned_rustls_crypto_provider(crate::tls::provider())
        .build();
    Ok(Agent::config_builder()
        .timeout_global(Some(timeout))
        // The document must come from the configured URL. A redirect would let another server
        // provide the issuer's document.
        .max_redirects(0)
        .user_agent(concat!("sealgate/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls))
}

/// Returns the `max-age` of a `Cache-Control` field, or `None` if `no-store` or `no-cache` forbids
/// caching.
fn max_age(field: &str) -> Option<Duration> {
    let directives = || field.split(',').map(str::trim);
    let forbids =
        |directive: &str| directive.eq_ignore_ascii_case("no-store") || directive.eq_ignore_ascii_case("no-cache");
    if directives().any(forbids) {
        return None;
    }
    let mut ages = directives().filter_map(|directive| {
        let (name, value) = directive.split_once('=')?;
        name.eq_ignore_ascii_case("max-age").then(|| value.trim_matches('"').parse().ok()).flatten()
    });
    ages.next().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one request with these bytes, and returns the URL.
    fn serve(answer: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/document", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = stream.write_all(answer.as_bytes());
        });
        url
    }

    fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    }

    #[test]
    fn a_document_has_the_status_200_and_a_limited_length() {
        let web = Web::new(Duration::from_secs(20), 10).unwrap();
        assert_eq!(web.get(&serve(answer("200 OK", "012345678"))).unwrap().body, b"012345678");
        assert!(web.get(&serve(answer("200 OK", "01234567890"))).is_err());
        for status in ["201 Created", "302 Found\r\nLocation: /other", "304 Not Modified", "500 Internal Server Error"]
        {
            assert!(web.get(&serve(answer(status, ""))).is_err(), "{status}");
        }
    }

    #[test]
    fn a_url_of_a_stranger_is_not_fetched_from_this_machine() {
        let web = Web::for_strangers(Duration::from_secs(20), 10).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fault = web.get(&format!("http://{}/", listener.local_addr().unwrap())).unwrap_err().into_line();
        assert!(fault.contains("127.0.0.1 is not public"), "{fault}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "no connection was made");
    }

    #[test]
    fn max_age_is_read_unless_caching_is_forbidden() {
        for (field, seconds) in [
            ("max-age=300", Some(300)),
            ("public, Max-Age=\"60\", must-revalidate", Some(60)),
            ("max-age=60, no-cache", None),
            ("no-store", None),
            ("s-maxage=9", None),
            ("max-age=-1", None),
            ("max-age=99999999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(max_age(field), seconds.map(Duration::from_secs), "{field}");
        }
    }
}
