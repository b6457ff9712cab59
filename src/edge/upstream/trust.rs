//! Whom an application's upstreams that speak TLS must prove to be, and what we show them: the certificates that the
//! configuration names, in the form that Pingora wants. A server's certificate is always verified; nothing here can turn
//! that off.

use std::path::PathBuf;
use std::sync::Arc;

use pingora::protocols::tls::CaType;
use pingora::upstreams::peer::HttpPeer;
use pingora::utils::tls::{CertKey, WrappedX509, parse_x509};
use rustls::pki_types::PrivateKeyDer;
use sha2::{Digest, Sha256};

use super::super::listen::certificate::{Stamp, authorities, read, read_pair, readable, stamp};
use crate::config::UpstreamTls;

#[derive(Clone, Default)]
pub(super) struct UpstreamTrust {
    /// The only authorities that count; the machine's own when absent.
    authorities: Option<Arc<CaType>>,
    client: Option<Arc<CertKey>>,
    /// Pingora keeps idle connections by address, name and client certificate's serial number, and does not look at who
    /// was trusted then. Two applications that trust others must not share them; nor may what was trusted before.
    group: u64,
}

impl UpstreamTrust {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub(super) fn read(tls: &UpstreamTls) -> Result<Self, String> {
        let mut digest = Sha256::new();
        let authorities = tls.ca.as_deref().map(authorities).transpose()?.map(|certificates| {
            let wrapped = certificates.into_iter().map(|certificate| {
                digest.update(&certificate);
                WrappedX509::new(certificate.to_vec(), parse_x509)
            });
            wrapped.collect::<Arc<CaType>>()
        });
        let client = match &tls.client {
            Some(files) => {
                // What rustls would refuse at each connection is refused here, once.
                read(files)?;
                let (certificates, key) = read_pair(files)?;
                let certificates: Vec<Vec<u8>> = certificates.iter().map(|one| one.to_vec()).collect();
                for certificate in &certificates {
                    readable(certificate).map_err(|why| format!("{}: {why}", files.certificate.display()))?;
                    digest.update(certificate);
                }
                let key = key.secret_der().to_vec();
                // Pingora finds out by itself, at each connection, of which kind the key is.
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
        Ok(Self { authorities, client, group })
    }

    /// Makes connections of this peer, which speaks TLS, subject to it.
    pub(super) fn give(&self, peer: &mut HttpPeer) {
        peer.options.ca.clone_from(&self.authorities);
        peer.client_cert_key.clone_from(&self.client);
        peer.group_key = self.group;
    }
}

/// What the files look like now.
pub(super) fn stamps(tls: &UpstreamTls) -> Vec<Stamp> {
    let pair = tls.client.iter().flat_map(|files| [&files.certificate, &files.key]);
    tls.ca.iter().chain(pair).map(PathBuf::as_path).map(stamp).collect()
}
