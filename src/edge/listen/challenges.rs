//! Answers to the challenges of a certificate authority (RFC 8555 §8), which prove control over a host.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use sealgate_system::tls;

/// Protocol that a validation by TLS-ALPN-01 negotiates (RFC 8737 §6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// Path before the token of a validation by HTTP-01 (RFC 8555 §8.3).
const HTTP_PATH: &str = "/.well-known/acme-challenge/";

/// Challenges that are being validated.
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
    /// Creates an answer: a certificate with its private key, DER, for a handshake with this server name,
    /// and the body for a request with this token.
    ///
    /// # Errors
    /// If the key cannot be used. The certificate is not parsed, because the extension of such certificates
    /// is critical and only authorities know it.
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

    /// Returns the certificate for a validation with this server name.
    pub(super) fn certificate(&self, server_name: &str) -> Option<Arc<CertifiedKey>> {
        let answers = self.0.load();
        let answer = answers.iter().find(|answer| answer.server_name.eq_ignore_ascii_case(server_name))?;
        Some(Arc::clone(&answer.certificate))
    }

    /// Returns the body for a request to this path.
    pub(crate) fn key_authorization(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(HTTP_PATH)?;
        let answers = self.0.load();
        answers.iter().find(|answer| answer.token == token).map(|answer| answer.key_authorization.clone())
    }
}
