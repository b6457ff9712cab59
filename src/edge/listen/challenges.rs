//! Answers to the challenges of an ACME certificate authority (RFC 8555 §8).
//!
//! The challenges prove to the authority that the server controls a host.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use sealgate_system::tls;

/// Protocol that a validation by TLS-ALPN-01 negotiates (RFC 8737 §6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// Path prefix of HTTP-01 validations. The token follows the prefix (RFC 8555 §8.3).
const HTTP_PATH: &str = "/.well-known/acme-challenge/";

/// Answers to the challenges that the authority is validating.
#[derive(Default)]
pub struct Challenges(ArcSwap<Vec<ChallengeAnswer>>);

/// Answer to one challenge.
pub struct ChallengeAnswer {
    server_name: String,
    certificate: Arc<CertifiedKey>,
    token: String,
    key_authorization: String,
}

impl ChallengeAnswer {
    /// Creates an answer.
    ///
    /// A handshake with `server_name` gets `certificate` with `key` (both DER). A request with
    /// `token` gets `key_authorization` as its body.
    ///
    /// # Errors
    /// If the key cannot be used. The certificate is not parsed: it has a critical extension that
    /// only certificate authorities know.
    pub fn new(
        server_name: String,
        certificate: Vec<u8>,
        key: Vec<u8>,
        token: String,
        key_authorization: String,
    ) -> Result<Self, String> {
        let key = PrivateKeyDer::try_from(key)?;
        let key = tls::provider().key_provider.load_private_key(key).map_err(|error| error.to_string())?;
        let certificate = Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate)], key));
        Ok(Self { server_name, certificate, token, key_authorization })
    }
}

impl Challenges {
    /// Replaces all answers.
    pub fn set(&self, answers: Vec<ChallengeAnswer>) {
        self.0.store(Arc::new(answers));
    }

    /// Returns the certificate for a TLS-ALPN-01 validation of this server name.
    pub(super) fn certificate(&self, server_name: &str) -> Option<Arc<CertifiedKey>> {
        let answers = self.0.load();
        let answer = answers.iter().find(|answer| answer.server_name.eq_ignore_ascii_case(server_name))?;
        Some(Arc::clone(&answer.certificate))
    }

    /// Returns the body of the response to a request for this path, if it belongs to an HTTP-01
    /// validation.
    pub(crate) fn key_authorization(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(HTTP_PATH)?;
        let answers = self.0.load();
        answers.iter().find(|answer| answer.token == token).map(|answer| answer.key_authorization.clone())
    }
}
