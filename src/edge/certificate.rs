//! The certificate that the public listeners show, read again when its files change: whoever renews it has nothing to
//! tell us. A pair of files that cannot be used changes nothing; it may be half written.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use pingora::tls::load_certs_and_key_files;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::Tls;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The certificate in use.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: Tls,
    current: RwLock<Arc<CertifiedKey>>,
    /// What chain and key were like before they were last read.
    read: RwLock<[Stamp; 2]>,
}

/// What tells that a file is another one.
pub(super) type Stamp = Option<(SystemTime, u64)>;

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub(super) fn load(files: &Tls) -> Result<Self, String> {
        let stamp = stamps(files);
        let current = RwLock::new(Arc::new(read(files)?));
        Ok(Self { files: files.clone(), current, read: RwLock::new(stamp) })
    }

    /// Reads the files again if they have changed. Blocks on the disk.
    fn look(&self) {
        let stamp = stamps(&self.files);
        if *self.read.read().unwrap_or_else(PoisonError::into_inner) == stamp {
            return;
        }
        *self.read.write().unwrap_or_else(PoisonError::into_inner) = stamp;
        match read(&self.files) {
            Ok(new) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(certificate = %self.files.certificate.display(), "a new certificate is in use");
            }
            Err(why) => tracing::warn!("the certificate in use stays, the new files will not do: {why}"),
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Looks at the files, over and over, until `stop` turns true.
pub(crate) async fn watch_certificate(certificate: Arc<Certificate>, mut stop: watch::Receiver<bool>) {
    while timeout(LOOK, stop.wait_for(|stop| *stop)).await.is_err() {
        let certificate = Arc::clone(&certificate);
        if let Err(error) = tokio::task::spawn_blocking(move || certificate.look()).await {
            tracing::error!(%error, "looking at the certificate's files has failed");
        }
    }
}

fn stamps(files: &Tls) -> [Stamp; 2] {
    [stamp(&files.certificate), stamp(&files.key)]
}

/// What a file is like now; none when it cannot be looked at.
pub(super) fn stamp(path: &Path) -> Stamp {
    fs::metadata(path).and_then(|file| Ok((file.modified()?, file.len()))).ok()
}

/// A chain and a key that belong together.
pub(super) fn read(files: &Tls) -> Result<CertifiedKey, String> {
    let (certificates, key) = read_pair(files)?;
    let (certificate, file) = (files.certificate.display(), files.key.display());
    CertifiedKey::from_der(certificates, key, &ring::default_provider())
        .map_err(|error| format!("cannot use certificate {certificate} with key {file}: {error}"))
}

/// Reads a chain, leaf first, and a key; whether they belong together is not looked at.
///
/// # Errors
/// One line that names the file and what is wrong with it.
pub(super) fn read_pair(files: &Tls) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    for file in [&files.certificate, &files.key] {
        fs::File::open(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    }
    let (certificate, key) = (files.certificate.display(), files.key.display());
    load_certs_and_key_files(text(&files.certificate)?, text(&files.key)?)
        .ok()
        .flatten()
        .ok_or_else(|| format!("{certificate} must hold a certificate chain and {key} its private key, both PEM"))
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: write the file's name in UTF-8", path.display()))
}
