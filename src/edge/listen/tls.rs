//! TLS on the public listeners: selection of the certificate and of the client authentication.
//!
//! Supports TLS 1.2 and 1.3, and offers HTTP/2 and HTTP/1.1.
//!
//! A handshake authenticates a client only at that moment. Two mechanisms could extend its access
//! past the expiry of its certificate or the removal of its authority. Session resumption verifies
//! neither the certificate nor its key again, so it is disabled where clients are asked for
//! certificates. A kept connection verifies nothing again, so [`Tls::outstayed`] checks it against
//! the current terms.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::listeners::tls::{Acceptor, TlsSettings};
use pingora::protocols::tls::SslDigest;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::timeout;

use super::certificate::{Certificate, LoadedCertificate, Stamp, stamp};
use super::challenges::{ACME_TLS, Challenges};
use super::client_certificate::{ClientVerifier, VerifiedClientCertificate, Witness};
use sealgate_config as config;
use sealgate_config::ClientCertificates;
use sealgate_system::tls::listener_provider;

/// Interval between checks of the certificate files.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum time between two checks for the expiry of a client's certificate. The machine may have
/// been suspended.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Interval between checks in the last second before the expiry.
const LAST_LOOKS: Duration = Duration::from_millis(100);

/// TLS configuration of the public listeners. A reload of the configuration replaces it.
pub struct Tls {
    spoken: ArcSwap<TlsSnapshot>,
    changed: watch::Sender<()>,
    challenges: Arc<Challenges>,
}

/// Terms of a handshake.
pub(crate) struct TlsTerms {
    acceptor: Acceptor,
    /// Verifier of client certificates; `None` if clients are not asked for one.
    clients: Option<Arc<ClientVerifier>>,
}

impl TlsTerms {
    pub(crate) const fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    fn admit(&self, client: Option<&VerifiedClientCertificate>, now: UnixTime) -> bool {
        match &self.clients {
            Some(verifier) => verifier.admits(client, now),
            None => client.is_none(),
        }
    }
}

impl Tls {
    /// Reads the files. Returns `None` if no certificate is configured.
    ///
    /// # Errors
    /// One line that names the file and the fault.
    pub fn load(server: &config::ServerConfig, challenges: Arc<Challenges>) -> Result<Option<Self>, String> {
        let (changed, _) = watch::channel(());
        let spoken = TlsSnapshot::load(server, &challenges)?;
        Ok(spoken.map(|spoken| Self { spoken: ArcSwap::from_pointee(spoken), changed, challenges }))
    }

    /// Reads the files of another configuration for [`Tls::replace`].
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub(crate) fn read(&self, server: &config::ServerConfig) -> Result<Option<TlsSnapshot>, String> {
        TlsSnapshot::load(server, &self.challenges)
    }

    pub(crate) fn terms(&self) -> Arc<TlsTerms> {
        self.spoken.load().terms()
    }

    /// Replaces the configuration for new handshakes and for connected clients. Earlier sessions
    /// cannot be resumed.
    pub(crate) fn replace(&self, spoken: TlsSnapshot) {
        self.spoken.store(Arc::new(spoken));
        self.changed.send_replace(());
    }

    /// Waits until a client that was admitted under `terms` would be refused.
    ///
    /// This happens when its certificate expires, its authority is removed, or a certificate
    /// becomes required and it has shown none.
    pub(crate) async fn outstayed(&self, mut terms: Arc<TlsTerms>, tls: Option<Arc<SslDigest>>) {
        let client = tls.as_deref().and_then(VerifiedClientCertificate::from_tls);
        let mut changed = self.changed.subscribe();
        let mut looked = UnixTime::now();
        loop {
            let (current, now) = (self.terms(), UnixTime::now());
            let ended = client.and_then(|client| client.next_end(looked)).is_some_and(|end| end <= now.as_secs());
            // This verifies one or two signatures, so it only runs when something changed.
            if (ended || now < looked || !Arc::ptr_eq(&terms, &current)) && !current.admit(client, now) {
                return;
            }
            (terms, looked) = (current, now);
            let rest = client.and_then(|client| client.next_end(now)).map(|end| end - now.as_secs());
            let pause = match rest {
                // Nothing expires; only a new configuration can change the result.
                None => Duration::MAX,
                Some(1) => LAST_LOOKS,
                Some(rest) => Duration::from_secs(rest - 1).min(LOOK_AGAIN),
            };
            // An error is impossible: the sender lives as long as `self`.
            let _ = timeout(pause, changed.changed()).await;
        }
    }
}

/// Certificates and client authentication of one configuration.
pub(crate) struct TlsSnapshot {
    certificates: Arc<Certificates>,
    clients: Option<ClientCertificates>,
    /// Replaced when the authorities for client certificates change.
    terms: RwLock<Arc<TlsTerms>>,
    /// Stamp of the authorities' file when it was last read.
    read: Mutex<Stamp>,
}

impl TlsSnapshot {
    /// Reads the files. Returns `None` if no certificate is configured.
    ///
    /// # Errors
    /// One line that names the file and the fault.
    fn load(server: &config::ServerConfig, challenges: &Arc<Challenges>) -> Result<Option<Self>, String> {
        if server.tls.is_empty() {
            return Ok(None);
        }
        let all = server.tls.iter().map(Certificate::load).collect::<Result<_, _>>()?;
        let certificates = Arc::new(Certificates { all, challenges: Arc::clone(challenges) });
        let clients = server.client_certificates.clone();
        let read = Mutex::new(clients.as_ref().and_then(|clients| stamp(&clients.ca)));
        let terms = RwLock::new(Arc::new(terms(&certificates, clients.as_ref())?));
        Ok(Some(Self { certificates, clients, terms, read }))
    }

    fn terms(&self) -> Arc<TlsTerms> {
        Arc::clone(&self.terms.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads certificates and authorities whose files changed. Returns whether the terms changed.
    /// Blocking I/O.
    fn look(&self) -> bool {
        for certificate in &self.certificates.all {
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
                tracing::info!(ca = %clients.ca.display(), "loaded new CA certificates for client certificates");
                true
            }
            Err(why) => {
                tracing::warn!(
                    "the new file with CA certificates cannot be used; the current ones stay in \
                    use: {why}"
                );
                false
            }
        }
    }
}

/// Reloads changed files and reports the expiry of each certificate (file, seconds since 1970),
/// every second until `stop` turns true.
pub async fn watch_tls(tls: Arc<Tls>, report: impl Fn(&[(&Path, i64)]), mut stop: watch::Receiver<bool>) {
    loop {
        let spoken = tls.spoken.load_full();
        let shown: Vec<_> = spoken.certificates.all.iter().map(Certificate::end).collect();
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
            Err(error) => tracing::error!(%error, "checking the certificate files failed"),
        }
    }
}

fn terms(certificates: &Arc<Certificates>, clients: Option<&ClientCertificates>) -> Result<TlsTerms, String> {
    let fault = |error: &dyn fmt::Display| format!("cannot set up TLS: {error}");
    let clients = clients.map(ClientVerifier::new).transpose()?.map(Arc::new);
    let resolver = Arc::clone(certificates) as Arc<dyn ResolvesServerCert>;
    let config = ServerConfig::builder_with_provider(listener_provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| fault(&error))?;
    let (config, settings) = match &clients {
        Some(verifier) => {
            let verifier = Arc::clone(verifier) as Arc<dyn ClientCertVerifier>;
            (config.with_client_cert_verifier(verifier), TlsSettings::with_callbacks(Box::new(Witness)))
        }
        None => (config.with_no_client_auth(), TlsSettings::intermediate("", "")),
    };
    let mut config = config.with_cert_resolver(Arc::clone(&resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), ACME_TLS.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if clients.is_some() {
        config.send_tls13_tickets = 0;
    } else {
        // Tickets keep the session at the client, encrypted. A session store in memory would have
        // limited capacity and evict clients that return late. The ticket keys are rotated every
        // few hours, exist in memory only, and are dropped with these terms.
        config.ticketer = Ticketer::new().map_err(|error| fault(&format_args!("no session ticket keys: {error}")))?;
    }
    // Pingora builds a configuration of its own, which is replaced. `build` panics without a resolver and without
    // files; a resolver is set.
    let mut settings = settings.map_err(|error| fault(&error))?;
    settings.set_cert_resolver(resolver);
    let mut acceptor = settings.build();
    acceptor.acceptor = Arc::new(config).into();
    Ok(TlsTerms { acceptor, clients })
}

struct Certificates {
    /// All certificates, in the order of the configuration.
    all: Vec<Certificate>,
    challenges: Arc<Challenges>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.all).finish()
    }
}

impl ResolvesServerCert for Certificates {
    /// Selects a certificate with a key whose signature scheme the client supports.
    ///
    /// The first certificate with exactly the requested name is preferred, then the first with a
    /// matching wildcard. Otherwise the first of all is used: clients without a server name get it,
    /// and clients with an unknown name see which server they reached.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A validation offers this protocol only (RFC 8737 §3). Other clients never get the certificate of a
        // challenge, and a validation never gets another.
        let is_validation = hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS]));
        if is_validation {
            return self.challenges.certificate(hello.server_name()?);
        }
        let all: Vec<Arc<LoadedCertificate>> = self.all.iter().map(Certificate::current).collect();
        let understood =
            |shown: &&Arc<LoadedCertificate>| shown.key.key.choose_scheme(hello.signature_schemes()).is_some();
        let named = hello.server_name().and_then(|name| {
            let exact = all.iter().filter(|shown| shown.names(name)).find(understood);
            exact.or_else(|| all.iter().filter(|shown| shown.covers(name)).find(understood))
        });
        named.or_else(|| all.first()).map(|shown| Arc::clone(&shown.key))
    }
}
