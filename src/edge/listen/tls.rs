//! TLS on the public listeners: which certificate is shown to whom, and whether clients must show one. HTTP/2 is
//! offered, HTTP/1.1 too; TLS 1.2 and 1.3.
//!
//! A handshake proves who a client is at that moment. Two things would let it stay beyond its certificate's end, or its
//! authority's removal: a session that is resumed, for which neither the certificate nor its key is asked for again, and
//! a connection that is kept. So there are no resumptions where clients are asked for certificates, and each connection is
//! held to the terms of today: see [`Tls::outstayed`].

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::listeners::tls::{Acceptor, TlsSettings};
use pingora::protocols::tls::SslDigest;
use pingora::tls::install_default_crypto_provider;
use rustls::ServerConfig;
use rustls::crypto::ring::Ticketer;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::timeout;

use super::certificate::{Certificate, Shown, Stamp, stamp};
use super::client_certificate::{ClientVerifier, ShownClient, Witness};
use crate::config::{self, ClientCertificates};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The longest that nobody looks whether a client's certificate has ended: the machine may have slept meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// And how often in its last second.
const LAST_LOOKS: Duration = Duration::from_millis(100);

/// What is spoken on the public listeners now; a reload of the configuration sets another one.
pub(crate) struct Tls {
    spoken: ArcSwap<Spoken>,
    changed: watch::Sender<()>,
}

/// What handshakes are held to.
pub(in crate::edge) struct TlsTerms {
    acceptor: Acceptor,
    /// Who looks at the certificates of clients; nobody where they are not asked for any.
    clients: Option<Arc<ClientVerifier>>,
}

impl TlsTerms {
    pub(in crate::edge) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    fn admit(&self, client: Option<&ShownClient>, now: UnixTime) -> bool {
        match &self.clients {
            Some(verifier) => verifier.admits(client, now),
            None => client.is_none(),
        }
    }
}

impl Tls {
    /// Reads the files; none when no certificate is configured.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub(crate) fn load(server: &config::ServerConfig) -> Result<Option<Self>, String> {
        let (changed, _) = watch::channel(());
        Ok(Spoken::load(server)?.map(|spoken| Self { spoken: ArcSwap::from_pointee(spoken), changed }))
    }

    pub(in crate::edge) fn terms(&self) -> Arc<TlsTerms> {
        self.spoken.load().terms()
    }

    /// For all handshakes from now on, and for the clients that are here already. Sessions of before are not resumed.
    pub(in crate::edge) fn replace(&self, spoken: Spoken) {
        self.spoken.store(Arc::new(spoken));
        self.changed.send_replace(());
    }

    /// Waits for the moment from which a client that came in by these terms would not come in any more: its certificate
    /// has ended, its authority is gone, or it has shown none and must do so now.
    pub(in crate::edge) async fn outstayed(&self, mut terms: Arc<TlsTerms>, tls: Option<Arc<SslDigest>>) {
        let client = tls.as_deref().and_then(ShownClient::of);
        let mut changed = self.changed.subscribe();
        let mut looked = UnixTime::now();
        loop {
            let (current, now) = (self.terms(), UnixTime::now());
            let ended = client.and_then(|client| client.next_end(looked)).is_some_and(|end| end <= now.as_secs());
            // A signature or two: not to be asked for without a reason.
            if (ended || now < looked || !Arc::ptr_eq(&terms, &current)) && !current.admit(client, now) {
                return;
            }
            (terms, looked) = (current, now);
            let rest = client.and_then(|client| client.next_end(now)).map(|end| end - now.as_secs());
            let pause = match rest {
                // Only another configuration can change anything.
                None => Duration::MAX,
                Some(1) => LAST_LOOKS,
                Some(rest) => Duration::from_secs(rest - 1).min(LOOK_AGAIN),
            };
            // The sender lives as long as `self`.
            let _ = timeout(pause, changed.changed()).await;
        }
    }
}

/// One configuration's certificates, and what it asks of clients.
pub(in crate::edge) struct Spoken {
    certificates: Arc<Certificates>,
    clients: Option<ClientCertificates>,
    /// Made anew when the authorities of clients' certificates change.
    terms: RwLock<Arc<TlsTerms>>,
    /// What the file of those authorities was like when it was last read.
    read: Mutex<Stamp>,
}

impl Spoken {
    /// Reads the files; none when no certificate is configured.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub(in crate::edge) fn load(server: &config::ServerConfig) -> Result<Option<Self>, String> {
        if server.tls.is_empty() {
            return Ok(None);
        }
        // The only provider that this build of rustls has; a second call changes nothing.
        install_default_crypto_provider();
        let all = server.tls.iter().map(Certificate::load).collect::<Result<_, _>>()?;
        let certificates = Arc::new(Certificates(all));
        let clients = server.client_certificates.clone();
        let read = Mutex::new(clients.as_ref().and_then(|clients| stamp(&clients.ca)));
        let terms = RwLock::new(Arc::new(terms(&certificates, clients.as_ref())?));
        Ok(Some(Self { certificates, clients, terms, read }))
    }

    fn terms(&self) -> Arc<TlsTerms> {
        Arc::clone(&self.terms.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files that have changed again; whether the terms are others now. Blocks on the disk.
    fn look(&self) -> bool {
        for certificate in &self.certificates.0 {
            certificate.look();
        }
        let Some(clients) = &self.clients else { return false };
        let stamp = stamp(&clients.ca);
        if std::mem::replace(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner), stamp) == stamp {
            return false;
        }
        match terms(&self.certificates, Some(clients)) {
            Ok(new) => {
                *self.terms.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(ca = %clients.ca.display(), "new authorities for clients' certificates are in use");
                true
            }
            Err(why) => {
                tracing::warn!("the authorities in use stay, the new file will not do: {why}");
                false
            }
        }
    }
}

/// Looks at the files, and reports which certificates are shown, by their files, and until when each is good, over and over,
/// until `stop` turns true.
pub(crate) async fn watch_tls(tls: Arc<Tls>, report: impl Fn(&[(&Path, i64)]), mut stop: watch::Receiver<bool>) {
    loop {
        let spoken = tls.spoken.load_full();
        let shown: Vec<_> = spoken.certificates.0.iter().map(Certificate::end).collect();
        report(&shown);
        drop(shown);
        if timeout(LOOK, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
        match tokio::task::spawn_blocking(move || spoken.look()).await {
            Ok(true) => {
                tls.changed.send_replace(());
            }
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "looking at the certificates' files has failed"),
        }
    }
}

fn terms(certificates: &Arc<Certificates>, clients: Option<&ClientCertificates>) -> Result<TlsTerms, String> {
    let fault = |error: Box<pingora::Error>| format!("TLS cannot be set up: {error}");
    let clients = clients.map(ClientVerifier::new).transpose()?.map(Arc::new);
    let mut settings = match &clients {
        Some(verifier) => {
            let mut settings = TlsSettings::with_callbacks(Box::new(Witness)).map_err(fault)?;
            settings.set_client_cert_verifier(Arc::clone(verifier) as Arc<dyn ClientCertVerifier>);
            settings
        }
        None => TlsSettings::intermediate("", "").map_err(fault)?,
    };
    settings.set_cert_resolver(Arc::clone(certificates) as Arc<dyn ResolvesServerCert>);
    settings.enable_h2();
    // It panics where there is neither a resolver nor a file; there is a resolver.
    let mut acceptor = settings.build();
    let mut config = ServerConfig::clone(acceptor.acceptor.config());
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if clients.is_some() {
        config.send_tls13_tickets = 0;
    } else {
        // A session travels with its client, sealed: a store of ours would have room for so many, and those who come back after
        // others would not be known. The keys last for hours, are nowhere but in memory, and go with these terms.
        config.ticketer = Ticketer::new().map_err(|error| format!("TLS cannot be set up: no ticket keys: {error}"))?;
    }
    acceptor.acceptor = Arc::new(config).into();
    Ok(TlsTerms { acceptor, clients })
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
