//! Certificate authorities for verifying an application's upstreams, and the proxy's client
//! certificate.
//!
//! This module converts the configuration to Pingora's types. A server's certificate is always
//! verified; no setting can disable that.

use std::path::PathBuf;
use std::sync::Arc;

use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::HttpPeer;
use pingora::utils::tls::{CertKey, WrappedX509, parse_x509};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use sha2::{Digest, Sha256};

use super::super::listen::certificate::{check_parses, read_ca_certificates, read_certified_key, read_pair};
use sealgate_config::UpstreamTls;
use sealgate_system::named_certificate::{is_for_name, verify_named};

#[derive(Clone, Default)]
pub(super) struct UpstreamTrust {
    /// The only trusted authorities. `None` means the authorities of the operating system.
    authorities: Option<Arc<CaType>>,
    /// Certificates of the authorities' file. An upstream may also present one of them itself.
    named: Vec<CertificateDer<'static>>,
    client: Option<Arc<CertKey>>,
    /// Group of these connections in Pingora's pool.
    ///
    /// Pingora reuses idle connections by address, name and serial number of the client
    /// certificate, but ignores the trusted authorities. Applications with different authorities
    /// must not share connections. A change of the authorities must not leave old connections in
    /// use.
    group: u64,
}

impl UpstreamTrust {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file and the error.
    pub(super) fn read(tls: &UpstreamTls) -> Result<Self, String> {
        let mut digest = Sha256::new();
        let mut named = Vec::new();
        let authorities = tls.ca.as_deref().map(read_ca_certificates).transpose()?.map(|certificates| {
            named.clone_from(&certificates);
            let wrapped = certificates.into_iter().map(|certificate| {
                digest.update(&certificate);
                WrappedX509::new(certificate.to_vec(), parse_x509)
            });
            wrapped.collect::<Arc<CaType>>()
        });
        let client = match &tls.client {
            Some(files) => {
                // Reports an unusable pair once, here. rustls would report it again for each
                // connection.
                read_certified_key(files)?;
                let (certificates, key) = read_pair(files)?;
                let certificates: Vec<Vec<u8>> = certificates.iter().map(|one| one.to_vec()).collect();
                for certificate in &certificates {
                    check_parses(certificate).map_err(|why| format!("{}: {why}", files.certificate.display()))?;
                    digest.update(certificate);
                }
                let key = key.secret_der().to_vec();
                // Checked here, because Pingora would detect an unsupported key type only at each
                // connection.
                PrivateKeyDer::try_from(key.as_slice())
                    .map_err(|why| format!("{}: {why}; write a PKCS#8 key", files.key.display()))?;
                Some(Arc::new(CertKey::new(certificates, key)))
            }
            None => None,
        };
        let mut group = 0;
        if authorities.is_some() || client.is_some() {
            let mut first = [0; 8];
            first.copy_from_slice(&digest.finalize()[..8]);
            group = u64::from_ne_bytes(first) & !1;
        }
        Ok(Self { authorities, named, client, group })
    }

    /// Applies these settings to a peer with TLS.
    pub(super) fn apply_to(&self, peer: &mut HttpPeer) {
        peer.options.ca.clone_from(&self.authorities);
        peer.client_cert_key.clone_from(&self.client);
        peer.group_key = self.group;
    }

    /// Returns the certificates of the configuration that a server with this name may present
    /// itself.
    pub(super) fn named_for(&self, name: &str) -> Vec<NamedCertificate> {
        let Ok(name) = ServerName::try_from(name.to_owned()) else { return Vec::new() };
        let named = |certificate: &CertificateDer<'static>| NamedCertificate {
            digest: Sha256::digest(certificate).into(),
            certificate: certificate.clone(),
            name: name.clone(),
        };
        self.named.iter().filter(|certificate| is_for_name(certificate, &name)).map(named).collect()
    }
}

/// Certificate of the configuration that a server with this name may present itself.
pub(super) struct NamedCertificate {
    digest: [u8; 32],
    certificate: CertificateDer<'static>,
    name: ServerName<'static>,
}

impl NamedCertificate {
    /// Returns whether `digest`, the SHA-256 of the presented certificate, is that of this
    /// certificate, and this certificate is valid.
    pub(super) fn is_presented(&self, digest: &[u8]) -> bool {
        self.digest == digest && verify_named(&self.certificate, &self.name, UnixTime::now()).is_ok()
    }
}

/// Returns the configured files.
pub(super) fn files(tls: &UpstreamTls) -> impl Iterator<Item = &PathBuf> {
    let pair = tls.client.iter().flat_map(|files| [&files.certificate, &files.key]);
    tls.ca.iter().chain(pair)
}
