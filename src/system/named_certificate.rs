//! Verification of server certificates that are themselves in the configuration.
//!
//! A self-signed certificate, as `openssl req -x509` makes it, is its own authority. webpki does
//! not accept an authority's certificate for a server, so it rejects such a certificate. Other TLS
//! clients accept it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Returns whether a certificate contains this server name.
pub fn is_for_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

/// Verifies the server name and the validity period of a certificate, whatever its issuer.
///
/// The caller must have found the same certificate, byte for byte, in the configuration.
///
/// # Errors
/// If the certificate is for another name, or is not valid at `now`.
pub fn verify_named(certificate: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Verifier that accepts certificates that the given authorities issued, and the named certificates
/// themselves.
#[derive(Debug)]
pub struct NamedOrIssued {
    issued: Arc<WebPkiServerVerifier>,
    named_leaves: Vec<CertificateDer<'static>>,
}

impl NamedOrIssued {
    /// # Errors
    /// If there are no authorities.
    pub fn new(
        authorities: RootCertStore,
        named_leaves: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<Self>, String> {
        let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(authorities), provider).build();
        Ok(Arc::new(Self { issued: issued.map_err(|error| error.to_string())?, named_leaves }))
    }
}

impl ServerCertVerifier for NamedOrIssued {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.named_leaves.iter().any(|certificate| certificate == end_entity) {
            return verify_named(end_entity, name, now).map(|()| ServerCertVerified::assertion());
        }
        self.issued.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}
