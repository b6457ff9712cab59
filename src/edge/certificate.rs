//! The certificate that the public listeners show, read again when its files change: whoever renews it has nothing to
//! tell us. A pair of files that cannot be used changes nothing; it may be half written.

use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use pingora::tls::load_certs_and_key_files;
use rustls::crypto::ring;
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
    /// What the files were like before they were last read.
    read: RwLock<Stamp>,
}

/// What tells that a file is another one: of the chain and of the key.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub(super) fn load(files: &Tls) -> Result<Self, String> {
        let stamp = stamp(files);
        let current = RwLock::new(Arc::new(read(files)?));
        Ok(Self { files: files.clone(), current, read: RwLock::new(stamp) })
    }

    /// Reads the files again if they have changed. Blocks on the disk.
    fn look(&self) {
        let stamp = stamp(&self.files);
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

fn stamp(files: &Tls) -> Stamp {
    let of = |path: &Path| fs::metadata(path).and_then(|file| Ok((file.modified()?, file.len()))).ok();
    [of(&files.certificate), of(&files.key)]
}

fn read(files: &Tls) -> Result<CertifiedKey, String> {
    for file in [&files.certificate, &files.key] {
        fs::File::open(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    }
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let (certificates, secret) = load_certs_and_key_files(text(&files.certificate)?, text(&files.key)?)
        .ok()
        .flatten()
        .ok_or_else(|| format!("{certificate} must hold a certificate chain and {key} its private key, both PEM"))?;
    CertifiedKey::from_der(certificates, secret, &ring::default_provider())
        .map_err(|error| format!("cannot use certificate {certificate} with key {key}: {error}"))
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: write the file's name in UTF-8", path.display()))
}
