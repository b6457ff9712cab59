//! Reads the certificate that a server presents, and determines whether a browser would accept it.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};

use crate::named_certificate::is_for_name;
use crate::tls;

/// A certificate that a server presented, and the verdict of a browser.
#[derive(Debug, Clone)]
pub struct PresentedCertificate {
    /// The leaf certificate, in DER.
    pub certificate: Vec<u8>,
    pub verdict: BrowserVerdict,
}

/// Verdict on a certificate by the authorities of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrowserVerdict {
    Accepted,
    /// No authority of this machine issued the certificate.
    UnknownIssuer,
    /// The certificate is invalid for the reason in this text.
    Refused(String),
}

/// Connects to a server and returns the certificate that it presents for `host`.
///
/// `timeout` limits the connection and each read and write. The authorities are those of this
/// machine, or of the file in `SSL_CERT_FILE`.
///
/// # Errors
/// One line, if the server cannot be reached or does not speak TLS.
pub fn presented(address: SocketAddr, host: &str, timeout: Duration) -> Result<PresentedCertificate, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().unwrap_or_default());
    // The only possible error is that there are no authorities.
    let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider()).build().ok();
    let algorithms = tls::provider().signature_verification_algorithms;
    let recorder = Arc::new(Recorder { issued, algorithms, seen: Mutex::default() });
    let config = ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&recorder) as _)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    let socket = TcpStream::connect_timeout(&address, timeout).map_err(|error| error.to_string())?;
    let waits = socket.set_read_timeout(Some(timeout)).and_then(|()| socket.set_write_timeout(Some(timeout)));
    waits.map_err(|error| error.to_string())?;
    // Flushing completes the handshake.
    let completed = StreamOwned::new(connection, socket).flush();
    let seen = recorder.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    seen.ok_or_else(|| completed.err().map_or_else(|| "no certificate".to_owned(), |error| error.to_string()))
}

/// Verifier that records its verdict and accepts every certificate. No data is sent on the
/// connection.
#[derive(Debug)]
struct Recorder {
    /// `None` on a machine without certificate authorities.
    issued: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    seen: Mutex<Option<PresentedCertificate>>,
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = Err(CertificateError::UnknownIssuer.into());
        let verify =
            |issued: &Arc<WebPkiServerVerifier>| issued.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        let verdict = match self.issued.as_ref().map_or(unknown, verify) {
            Ok(_) => BrowserVerdict::Accepted,
            // webpki reports an unknown issuer before a wrong name, so the name is checked here.
            Err(_) if !is_for_name(end_entity, name) => {
                BrowserVerdict::Refused(format!("the certificate is not for {}", name.to_str()))
            }
            Err(Error::InvalidCertificate(
                error @ (CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYetContext { .. }
                | CertificateError::Revoked),
            )) => BrowserVerdict::Refused(error.to_string()),
            // This includes a bad signature, for example by an authority with the same name.
            Err(_) => BrowserVerdict::UnknownIssuer,
        };
        let presented = PresentedCertificate { certificate: end_entity.to_vec(), verdict };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(presented);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
