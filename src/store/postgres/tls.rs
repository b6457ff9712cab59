//! TLS to the database. The certificate is always verified, and SCRAM is bound to the channel.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::PostgresFault;
use sealgate_system::named_certificate::NamedOrIssued;

/// Creates the TLS configuration. Trusts the certificates in the file. They are CA certificates, or
/// the own certificate of a server.
///
/// Public web authorities are not trusted, because they seldom issue certificates for databases.
///
/// # Errors
/// `Ca`.
pub(super) fn client_config(ca_file: &Path) -> Result<ClientConfig, PostgresFault> {
    let fault = |cause: String| PostgresFault::Ca { path: ca_file.to_owned(), cause };
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_file_iter(ca_file).map_err(|error| fault(error.to_string()))? {
        let certificate = certificate.map_err(|error| fault(error.to_string()))?;
        roots.add(certificate.clone()).map_err(|error| fault(error.to_string()))?;
        certificates.push(certificate);
    }
    if roots.is_empty() {
        return Err(fault("it holds no certificate".to_owned()));
    }
    let provider = sealgate_system::tls::provider();
    let verifier = NamedOrIssued::new(roots, certificates, Arc::clone(&provider)).map_err(fault)?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| fault(error.to_string()))?;
    Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// TLS settings of a server. Empty for a server on this machine without TLS.
#[derive(Clone)]
pub(super) struct TlsChoice(Option<Arc<ClientConfig>>);

impl TlsChoice {
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn new(config: ClientConfig) -> Self {
        Self(Some(Arc::new(config)))
    }
}

pub(super) struct NamedTls {
    config: Option<Arc<ClientConfig>>,
    name: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for TlsChoice {
    type Stream = DatabaseTls<S>;
    type TlsConnect = NamedTls;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<NamedTls> {
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(NamedTls { config: self.0.clone(), name })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for NamedTls {
    type Stream = DatabaseTls<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<DatabaseTls<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or_else(|| io::Error::other("TLS is not set up"))?;
            Ok(DatabaseTls(Box::new(TlsConnector::from(config).connect(self.name, stream).await?)))
        })
    }
}

pub(super) struct DatabaseTls<S>(Box<client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for DatabaseTls<S> {
    /// Returns the channel binding `tls-server-end-point` (RFC 5929 §4.1): the certificate's digest
    /// by the hash function of its signature, or SHA-256 if that function is weaker.
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let digest = certificates.and_then(<[_]>::first).and_then(|certificate| end_point(certificate));
        digest.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(match parsed.signature_algorithm.algorithm.to_id_string().as_str() {
        // RSA with SHA-1 and SHA-256, ECDSA with SHA-256.
        "1.2.840.113549.1.1.5" | "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => {
            Sha256::digest(certificate).to_vec()
        }
        // RSA and ECDSA with SHA-384.
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Sha384::digest(certificate).to_vec(),
        // RSA and ECDSA with SHA-512.
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Sha512::digest(certificate).to_vec(),
        // RSA-PSS names its hash function elsewhere, and Ed25519 has none. Neither the RFC nor the
        // server defines a binding for them.
        _ => return None,
    })
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for DatabaseTls<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for DatabaseTls<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}
