//! TLS of the public listeners: selection of the certificate, and client authentication.
//!
//! Supports TLS 1.2 and 1.3, and offers HTTP/2 and HTTP/1.1.
//!
//! The client certificate is verified during the handshake. Afterwards, the certificate may expire,
//! or its authority may be removed. So if client certificates are requested, sessions cannot be
//! resumed, because a resumed session verifies no certificate. [`Tls::wait_until_refused`] checks
//! open connections.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora::listeners::tls::{Acceptor, TlsSettings};
use pingora::protocols::tls::{SslDigest, TlsStream};
use pingora::{ErrorType, OrErr};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::timeout;

use super::certificate::{Certificate, LoadedCertificate};
use super::challenges::{ACME_TLS, Challenges};
use super::client_certificate::{ClientCertificateReader, ClientVerifier, VerifiedClientCertificate};
use super::connection::Connection;
use super::token_key::{TokenKeys, peek_hello};
use sealgate_config as config;
use sealgate_config::{CertificateKey, ClientCertificates};
use sealgate_system::file_version::FileVersion;
use sealgate_system::tls::listener_provider;

/// Interval between checks of the certificate files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum interval between checks whether a client certificate has expired. A longer timer would
/// fire too late after the machine was suspended.
const MAX_EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between checks in the last second before a client certificate expires.
const FINAL_EXPIRY_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// TLS configuration of the public listeners. A reload of the configuration replaces it.
pub struct Tls {
    snapshot: ArcSwap<TlsSnapshot>,
    changed: watch::Sender<()>,
    challenges: Arc<Challenges>,
    token: Option<Arc<TokenKeys>>,
}

/// TLS settings of one handshake.
pub(crate) struct TlsTerms {
    acceptor: Acceptor,
    /// Verifier of client certificates. `None` if no client certificates are requested.
    clients: Option<Arc<ClientVerifier>>,
    certificates: Arc<Certificates>,
    /// Keys of the token, if a certificate uses one.
    token: Option<Arc<TokenKeys>>,
}

impl TlsTerms {
    /// Performs the handshake of a new connection.
    ///
    /// # Errors
    /// If the client disconnects or the handshake fails.
    pub(super) async fn handshake(&self, connection: Connection) -> pingora::Result<TlsStream<Connection>> {
        match &self.token {
            None => self.acceptor.tls_handshake(connection).await,
            // Boxed, so that handshakes without a key in the token reserve no memory for this
            // future.
            Some(token) => Box::pin(self.handshake_with_token(token, connection)).await,
        }
    }

    async fn handshake_with_token(
        &self,
        token: &TokenKeys,
        mut connection: Connection,
    ) -> pingora::Result<TlsStream<Connection>> {
        let is_in_token = |hello: &ClientHello<'_>| self.certificates.select(hello).is_some_and(|one| one.is_in_token);
        let signs = peek_hello(&mut connection, is_in_token).await;
        let signs = signs.or_err(ErrorType::TLSHandshakeFailure, "reading the ClientHello")?;
        let handshake = Box::pin(self.acceptor.tls_handshake(connection));
        if signs == Some(true) { token.sign_in_turn(handshake).await } else { handshake.await }
    }

    fn admit(&self, client: Option<&VerifiedClientCertificate>, now: UnixTime) -> bool {
        match &self.clients {
            Some(verifier) => verifier.admits(client, now),
            None => client.is_none(),
        }
    }
}

impl Tls {
    /// Reads the files, and finds the keys that are in the token. `None` if no certificate is
    /// configured. Blocking.
    ///
    /// # Errors
    /// One line that names the file or the key, and the error.
    pub fn load(
        server: &config::ServerConfig,
        challenges: Arc<Challenges>,
        token: Option<Arc<TokenKeys>>,
    ) -> Result<Option<Self>, String> {
        let (changed, _) = watch::channel(());
        let snapshot = TlsSnapshot::load(server, &challenges, token.as_ref())?;
        Ok(snapshot.map(|snapshot| Self { snapshot: ArcSwap::from_pointee(snapshot), changed, challenges, token }))
    }

    /// Reads the files of a new configuration, for [`Tls::replace`].
    ///
    /// # Errors
    /// The same errors as those of [`Tls::load`].
    pub(crate) fn load_snapshot(&self, server: &config::ServerConfig) -> Result<Option<TlsSnapshot>, String> {
        TlsSnapshot::load(server, &self.challenges, self.token.as_ref())
    }

    /// Returns whether handshakes may wait for a signature of the token.
    pub(crate) fn signs_in_token(&self) -> bool {
        self.snapshot.load().token.is_some()
    }

    pub(crate) fn terms(&self) -> Arc<TlsTerms> {
        self.snapshot.load().terms()
    }

    /// Replaces the settings for new handshakes and for the checks of open connections. Sessions of
    /// the old settings cannot be resumed.
    pub(crate) fn replace(&self, snapshot: TlsSnapshot) {
        self.snapshot.store(Arc::new(snapshot));
        self.changed.send_replace(());
    }

    /// Waits until a client that was accepted under `terms` would be refused.
    ///
    /// A client is refused when its certificate expires, when the authority of its certificate is
    /// removed, or when certificates become required and the client has sent no certificate.
    pub(crate) async fn wait_until_refused(&self, mut terms: Arc<TlsTerms>, tls: Option<Arc<SslDigest>>) {
        let client = tls.as_deref().and_then(VerifiedClientCertificate::from_tls);
        let mut changed = self.changed.subscribe();
        let mut checked_at = UnixTime::now();
        loop {
            let (current, now) = (self.terms(), UnixTime::now());
            let ended =
                client.and_then(|client| client.next_expiry(checked_at)).is_some_and(|end| end <= now.as_secs());
            // The check verifies one or two signatures, so it runs only if something has changed.
            if (ended || now < checked_at || !Arc::ptr_eq(&terms, &current)) && !current.admit(client, now) {
                return;
            }
            (terms, checked_at) = (current, now);
            let rest = client.and_then(|client| client.next_expiry(now)).map(|end| end - now.as_secs());
            let pause = match rest {
                // No certificate expires. Only new settings can change the result.
                None => Duration::MAX,
                Some(1) => FINAL_EXPIRY_CHECK_INTERVAL,
                Some(rest) => Duration::from_secs(rest - 1).min(MAX_EXPIRY_CHECK_INTERVAL),
            };
            // Cannot fail: the sender exists as long as `self`.
            let _ = timeout(pause, changed.changed()).await;
        }
    }
}

/// Certificates and client authentication of one configuration.
pub(crate) struct TlsSnapshot {
    certificates: Arc<Certificates>,
    clients: Option<ClientCertificates>,
    token: Option<Arc<TokenKeys>>,
    /// Replaced when the file of the authorities for client certificates changes.
    terms: RwLock<Arc<TlsTerms>>,
    /// Version of the authorities' file when it was last read.
    last_version: Mutex<Option<FileVersion>>,
}

impl TlsSnapshot {
    /// Reads the files. `None` if no certificate is configured.
    ///
    /// # Errors
    /// One line that names the file and the error.
    fn load(
        server: &config::ServerConfig,
        challenges: &Arc<Challenges>,
        token: Option<&Arc<TokenKeys>>,
    ) -> Result<Option<Self>, String> {
        if server.tls.is_empty() {
            return Ok(None);
        }
        let all = server.tls.iter().map(|files| Certificate::load(files, token)).collect::<Result<_, _>>()?;
        let certificates = Arc::new(Certificates { all, challenges: Arc::clone(challenges) });
        let clients = server.client_certificates.clone();
        let last_version = Mutex::new(clients.as_ref().and_then(|clients| FileVersion::of(&clients.ca)));
        let is_needed = server.tls.iter().any(|files| matches!(files.key, CertificateKey::Token(_)));
        let token = token.filter(|_| is_needed).cloned();
        let terms = RwLock::new(Arc::new(terms(&certificates, clients.as_ref(), token.as_ref())?));
        Ok(Some(Self { certificates, clients, token, terms, last_version }))
    }

    fn terms(&self) -> Arc<TlsTerms> {
        Arc::clone(&self.terms.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reloads certificates and authorities whose files have changed. Returns whether the
    /// authorities changed. Blocking I/O.
    fn reload_if_changed(&self) -> bool {
        for certificate in &self.certificates.all {
            certificate.reload_if_changed();
        }
        let Some(clients) = &self.clients else { return false };
        let version = FileVersion::of(&clients.ca);
        if std::mem::replace(&mut *self.last_version.lock().unwrap_or_else(PoisonError::into_inner), version) == version
        {
            return false;
        }
        match terms(&self.certificates, Some(clients), self.token.as_ref()) {
            Ok(new) => {
                *self.terms.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!(ca = %clients.ca.display(), "loaded new CA certificates for client certificates");
                true
            }
            Err(why) => {
                tracing::warn!(
                    "the new file with CA certificates cannot be used; the current CA \
                    certificates stay in use: {why}"
                );
                false
            }
        }
    }
}

/// Reloads changed files and reports each certificate (file, expiry in seconds since 1970) every
/// second, until `stop` becomes true.
pub async fn watch_tls(tls: Arc<Tls>, report: impl Fn(&[(&Path, i64)]), mut stop: watch::Receiver<bool>) {
    loop {
        let snapshot = tls.snapshot.load_full();
        let shown: Vec<_> = snapshot.certificates.all.iter().map(Certificate::file_and_expiry).collect();
        report(&shown);
        drop(shown);
        if timeout(FILE_CHECK_INTERVAL, stop.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
        match tokio::task::spawn_blocking(move || snapshot.reload_if_changed()).await {
            Ok(true) => {
                tls.changed.send_replace(());
            }
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "checking the certificate files failed"),
        }
    }
}

fn terms(
    certificates: &Arc<Certificates>,
    clients: Option<&ClientCertificates>,
    token: Option<&Arc<TokenKeys>>,
) -> Result<TlsTerms, String> {
    let fault = |error: &dyn fmt::Display| format!("cannot set up TLS: {error}");
    let clients = clients.map(ClientVerifier::new).transpose()?.map(Arc::new);
    let resolver = Arc::clone(certificates) as Arc<dyn ResolvesServerCert>;
    let config = ServerConfig::builder_with_provider(listener_provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| fault(&error))?;
    let (config, settings) = match &clients {
        Some(verifier) => {
            let verifier = Arc::clone(verifier) as Arc<dyn ClientCertVerifier>;
            (config.with_client_cert_verifier(verifier), TlsSettings::with_callbacks(Box::new(ClientCertificateReader)))
        }
        None => (config.with_no_client_auth(), TlsSettings::intermediate("", "")),
    };
    let mut config = config.with_cert_resolver(Arc::clone(&resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec(), ACME_TLS.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if clients.is_some() {
        config.send_tls13_tickets = 0;
    } else {
        // With tickets, the client stores the session in encrypted form. Without tickets, the
        // server would store sessions, and would have to evict those of clients that return late.
        // The ticket keys change every few hours. The keys exist only in memory, and a reload of
        // the settings replaces them.
        config.ticketer = Ticketer::new().map_err(|error| fault(&format_args!("no session ticket keys: {error}")))?;
    }
    // `build` panics if it has neither files nor a resolver, so a resolver is set. The TLS
    // configuration that `build` creates is replaced below.
    let mut settings = settings.map_err(|error| fault(&error))?;
    settings.set_cert_resolver(resolver);
    let mut acceptor = settings.build();
    acceptor.acceptor = Arc::new(config).into();
    Ok(TlsTerms { acceptor, clients, certificates: Arc::clone(certificates), token: token.cloned() })
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

impl Certificates {
    /// Selects a certificate whose key can make a signature that the client supports.
    ///
    /// Prefers the first certificate with exactly the requested name, then the first certificate
    /// with a matching wildcard. If the client sends no server name or an unknown server name,
    /// returns the first certificate.
    fn select(&self, hello: &ClientHello<'_>) -> Option<Arc<LoadedCertificate>> {
        let all: Vec<Arc<LoadedCertificate>> = self.all.iter().map(Certificate::current).collect();
        let understood =
            |shown: &&Arc<LoadedCertificate>| shown.key.key.choose_scheme(hello.signature_schemes()).is_some();
        let named = hello.server_name().and_then(|name| {
            let exact = all.iter().filter(|shown| shown.has_name(name)).find(understood);
            exact.or_else(|| all.iter().filter(|shown| shown.matches_wildcard(name)).find(understood))
        });
        named.or_else(|| all.first()).cloned()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // Only an ACME authority that validates a challenge offers this protocol and no other (RFC
        // 8737 §3). No other client gets the certificate of the challenge.
        let is_validation = hello.alpn().is_some_and(|offered| offered.eq([ACME_TLS]));
        if is_validation {
            return self.challenges.certificate(hello.server_name()?);
        }
        self.select(&hello).map(|shown| Arc::clone(&shown.key))
    }
}
