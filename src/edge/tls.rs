//! TLS on the public listeners: which certificate is shown to whom, and whether clients must show one. HTTP/2 is
//! offered, HTTP/1.1 too; TLS 1.2 and 1.3.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::listeners::tls::{Acceptor, TlsSettings};
use pingora::tls::install_default_crypto_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::timeout;

use super::certificate::{Certificate, Shown, Stamp, stamp};
use super::client_certificate::{Verifier, Witness};
use super::stage::Stages;
use crate::config::{ClientCertificates, Server};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What is spoken on the public listeners now; a reload of the configuration sets another one.
pub(crate) struct Tls(ArcSwap<Spoken>);

impl Tls {
    /// Reads the files; none when no certificate is configured.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub(crate) fn load(server: &Server) -> Result<Option<Self>, String> {
        Ok(Spoken::load(server)?.map(|spoken| Self(ArcSwap::from_pointee(spoken))))
    }

    /// For one handshake.
    pub(super) fn acceptor(&self) -> Arc<Acceptor> {
        self.0.load().acceptor()
    }

    /// For all handshakes from now on. Connections that are open go on; sessions of before are not resumed.
    pub(super) fn replace(&self, spoken: Spoken) {
        self.0.store(Arc::new(spoken));
    }
}

/// One configuration's certificates, and what it asks of clients.
pub(super) struct Spoken {
    certificates: Arc<Certificates>,
    clients: Option<ClientCertificates>,
    /// Made anew when the authorities of clients' certificates change. A session of before is then no way in.
    acceptor: RwLock<Arc<Acceptor>>,
    /// What the file of those authorities was like when it was last read.
    read: Mutex<Stamp>,
}

impl Spoken {
    /// Reads the files; none when no certificate is configured.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub(super) fn load(server: &Server) -> Result<Option<Self>, String> {
        if server.tls.is_empty() {
            return Ok(None);
        }
        // The only provider that this build of rustls has; a second call changes nothing.
        install_default_crypto_provider();
        let all = server.tls.iter().map(Certificate::load).collect::<Result<_, _>>()?;
        let certificates = Arc::new(Certificates(all));
        let clients = server.client_certificates.clone();
        let read = Mutex::new(clients.as_ref().and_then(|clients| stamp(&clients.ca)));
        let acceptor = RwLock::new(Arc::new(acceptor(&certificates, clients.as_ref())?));
        Ok(Some(Self { certificates, clients, acceptor, read }))
    }

    fn acceptor(&self) -> Arc<Acceptor> {
        Arc::clone(&self.acceptor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files that have changed again. Blocks on the disk.
    fn look(&self) {
        for certificate in &self.certificates.0 {
            certificate.look();
        }
        let Some(clients) = &self.clients else { return };
        let stamp = stamp(&clients.ca);
        if std::mem::replace(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner), stamp) == stamp {
            return;
        }
        match acceptor(&self.certificates, Some(clients)) {
            Ok(new) => {
                *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(ca = %clients.ca.display(), "new authorities for clients' certificates are in use");
            }
            Err(why) => tracing::warn!("the authorities in use stay, the new file will not do: {why}"),
        }
    }
}

/// Looks at the files, and tells the front until when the certificates are good, over and over, until `stop` turns true.
pub(crate) async fn watch_tls(tls: Arc<Tls>, stages: Arc<Stages>, mut stop: watch::Receiver<bool>) {
    loop {
        let spoken = tls.0.load_full();
        let shown: Vec<_> = spoken.certificates.0.iter().map(Certificate::end).collect();
        stages.current().front.certificates(&shown);
        drop(shown);
        if timeout(LOOK, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
        if let Err(error) = tokio::task::spawn_blocking(move || spoken.look()).await {
            tracing::error!(%error, "looking at the certificates' files has failed");
        }
    }
}

fn acceptor(certificates: &Arc<Certificates>, clients: Option<&ClientCertificates>) -> Result<Acceptor, String> {
    let fault = |error: Box<pingora::Error>| format!("TLS cannot be set up: {error}");
    let mut settings = match clients {
        Some(clients) => {
            let mut settings = TlsSettings::with_callbacks(Box::new(Witness)).map_err(fault)?;
            settings.set_client_cert_verifier(Arc::new(Verifier::new(clients)?));
            settings
        }
        None => TlsSettings::intermediate("", "").map_err(fault)?,
    };
    settings.set_cert_resolver(Arc::clone(certificates) as Arc<dyn ResolvesServerCert>);
    settings.enable_h2();
    // It panics where there is neither a resolver nor a file; there is a resolver.
    Ok(settings.build())
}

/// All certificates, in the configuration's order.
#[derive(Debug)]
struct Certificates(Vec<Certificate>);

impl ResolvesServerCert for Certificates {
    /// The first that has the very name the client asks for and a key that it understands; failing that, the first that a
    /// wildcard makes fit; failing that, the first of all: clients that name nobody get that one, and to those who name a
    /// stranger it says who we are.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let all: Vec<Arc<Shown>> = self.0.iter().map(Certificate::current).collect();
        let understood = |shown: &&Arc<Shown>| shown.key.key.choose_scheme(hello.signature_schemes()).is_some();
        let named = hello.server_name().and_then(|name| {
            let exact = all.iter().filter(|shown| shown.names(name)).find(understood);
            exact.or_else(|| all.iter().filter(|shown| shown.covers(name)).find(understood))
        });
        named.or_else(|| all.first()).map(|shown| Arc::clone(&shown.key))
    }
}
