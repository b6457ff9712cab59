//! Connections to the servers of a directory: one for searches, and a few for binds of users.
//!
//! A connection on which users bind never searches. After a failed bind, OpenLDAP makes the
//! connection anonymous, but Samba keeps its previous identity.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use sealgate_config::{DirectorySecurity, DirectoryServer, DirectorySettings, read_secret_file};
use sealgate_domain::secret::SecretHash;
use sealgate_system::named_certificate::NamedOrIssued;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::connection::LdapConnection;
use crate::fault::{LdapFault, LdapFaultKind};
use crate::message::OperationResult;

/// Maximum number of users who bind at the same time. Further users wait.
const MAX_BINDS: usize = 16;
/// Maximum number of idle connections for binds.
const MAX_IDLE: usize = 4;
/// Time for which a refused password of the account for searches is not sent again. Directories
/// lock accounts after a few refused passwords.
const REFUSAL_PAUSE: Duration = Duration::from_mins(1);

/// Servers of a directory, and the connections to them.
#[derive(Debug)]
pub(crate) struct DirectoryServers {
    settings: DirectorySettings,
    tls: Option<Arc<ClientConfig>>,
    /// Index of the server that answered last.
    current: AtomicUsize,
    /// Connection of the account for searches.
    service: tokio::sync::Mutex<Option<Arc<LdapConnection>>>,
    refusal: Mutex<Option<Refusal>>,
    /// Idle connections for binds, with the index of the server.
    idle: Mutex<Vec<(usize, LdapConnection)>>,
    binds: Semaphore,
}

/// Refusal of the account for searches.
#[derive(Debug)]
struct Refusal {
    password: SecretHash,
    at: Instant,
    fault: LdapFault,
}

impl DirectoryServers {
    /// Reads the CA file, and checks the password file. Does not connect.
    pub(crate) fn new(settings: DirectorySettings) -> Result<Self, LdapFault> {
        let is_tls = |server: &DirectoryServer| server.security != DirectorySecurity::None;
        let tls =
            settings.servers.iter().any(is_tls).then(|| client_config(settings.ca_file.as_deref())).transpose()?;
        let servers = Self {
            settings,
            tls,
            current: AtomicUsize::new(0),
            service: tokio::sync::Mutex::default(),
            refusal: Mutex::default(),
            idle: Mutex::default(),
            binds: Semaphore::new(MAX_BINDS),
        };
        servers.password()?;
        Ok(servers)
    }

    pub(crate) fn settings(&self) -> &DirectorySettings {
        &self.settings
    }

    /// Returns the password of the account for searches. The file is read for each connection, so
    /// that a changed password needs no reload.
    fn password(&self) -> Result<Zeroizing<String>, LdapFault> {
        let path = &self.settings.bind.password_file;
        read_secret_file(path, "the password of the account that searches the directory")
            .map_err(|problem| LdapFault::new(LdapFaultKind::Settings, format!("{} {problem}", path.display())))
    }

    /// Connects to one server without a bind, for checks.
    pub(crate) async fn open_one(
        &self,
        server: &DirectoryServer,
        deadline: Instant,
    ) -> Result<LdapConnection, LdapFault> {
        LdapConnection::open(server, self.tls.as_ref(), deadline).await
    }

    /// Connects to the first server that answers. Starts with the server that answered last.
    async fn open(&self, deadline: Instant) -> Result<(usize, LdapConnection), LdapFault> {
        let count = self.settings.servers.len();
        let first = self.current.load(Ordering::Relaxed);
        let mut problems = Vec::new();
        for step in 0..count {
            let index = (first + step) % count;
            let Some(server) = self.settings.servers.get(index) else { break };
            // A server that does not answer must leave time for the others.
            let left = u32::try_from(count - step).unwrap_or(1);
            let share = deadline.saturating_duration_since(Instant::now()) / left;
            match LdapConnection::open(server, self.tls.as_ref(), Instant::now() + share).await {
                Ok(connection) => {
                    self.current.store(index, Ordering::Relaxed);
                    return Ok((index, connection));
                }
                Err(fault) => problems.push(fault),
            }
        }
        let kind = problems.last().map_or(LdapFaultKind::Connect, LdapFault::kind);
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Err(LdapFault::new(kind, problems.join("; ")))
    }

    /// Lets the next connection go to another server.
    fn leave(&self, server: &str) {
        let servers = &self.settings.servers;
        if let Some(index) = servers.iter().position(|known| known.to_string() == server) {
            let next = (index + 1) % servers.len();
            let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns the time of silence after which a server is considered unreachable.
    fn patience(&self) -> Duration {
        self.settings.timeout / 2
    }

    /// Returns the connection for searches. Opens it if there is none.
    ///
    /// # Errors
    /// If no server can be reached before the deadline, or refuses the account.
    pub(crate) async fn service(&self, deadline: Instant) -> Result<Arc<LdapConnection>, LdapFault> {
        let mut slot = self.service.lock().await;
        if let Some(connection) = slot.as_ref() {
            if connection.is_silent(self.patience()) {
                self.leave(connection.server());
            } else if connection.is_open() {
                return Ok(Arc::clone(connection));
            }
        }
        *slot = None;
        let password = self.password()?;
        self.check_refusal(&password)?;
        let count = self.settings.servers.len();
        let mut late = None;
        for step in 0..count {
            let (_, connection) = self.open(deadline).await?;
            // A server that does not answer must leave time for the others.
            let left = u32::try_from(count - step).unwrap_or(1);
            let share = deadline.saturating_duration_since(Instant::now()) / left;
            let bind = connection.bind(self.settings.bind.dn.as_bytes(), password.as_bytes());
            let outcome = tokio::time::timeout(share, bind).await;
            let Ok(result) = outcome else {
                self.leave(connection.server());
                late = Some(connection.server().to_owned());
                continue;
            };
            self.accept_service(connection.server(), &result?, &password)?;
            let connection = Arc::new(connection);
            *slot = Some(Arc::clone(&connection));
            return Ok(connection);
        }
        let text = format!(
            "{}: no answer to the bind in time; check that the directory runs",
            late.unwrap_or_else(|| "no server".to_owned())
        );
        Err(LdapFault::new(LdapFaultKind::Deadline, text))
    }

    /// Returns the fault if the directory refused the account for searches. Remembers refused
    /// passwords.
    pub(crate) fn accept_service(
        &self,
        server: &str,
        result: &OperationResult,
        password: &str,
    ) -> Result<(), LdapFault> {
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let dn = &self.settings.bind.dn;
        let remedy = match result.code {
            0 => {
                *refusal = None;
                return Ok(());
            }
            8 | 13 => "the directory requires TLS; write ldaps:// in servers, or set starttls = true".to_owned(),
            49 => format!("check bind.dn and the password in {}", self.settings.bind.password_file.display()),
            51 | 52 => "the directory is busy or stops; try again".to_owned(),
            _ => "see the log of the directory".to_owned(),
        };
        let text = format!(
            "{server}: the account for searches, {dn}, cannot sign in (code {}: {}); {remedy}",
            result.code, result.diagnostic
        );
        let kind = if matches!(result.code, 51 | 52) { LdapFaultKind::Answer } else { LdapFaultKind::ServiceBind };
        let fault = LdapFault::new(kind, text);
        if result.code == 49 {
            let password = SecretHash::for_secret(password.as_bytes());
            *refusal = Some(Refusal { password, at: Instant::now(), fault: fault.clone() });
        }
        Err(fault)
    }

    fn check_refusal(&self, password: &str) -> Result<(), LdapFault> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        match &*refusal {
            Some(refusal)
                if refusal.at.elapsed() < REFUSAL_PAUSE
                    && refusal.password == SecretHash::for_secret(password.as_bytes()) =>
            {
                Err(refusal.fault.clone())
            }
            _ => Ok(()),
        }
    }

    /// Returns the password of the account for searches, for checks.
    pub(crate) fn service_password(&self) -> Result<Zeroizing<String>, LdapFault> {
        self.password()
    }

    /// Binds as a user on a connection for binds.
    ///
    /// # Errors
    /// If no server answers before the deadline.
    pub(crate) async fn bind(
        &self,
        dn: &[u8],
        password: &[u8],
        deadline: Instant,
    ) -> Result<OperationResult, LdapFault> {
        let closed = |_| LdapFault::new(LdapFaultKind::Busy, "the directory is no longer used");
        let _turn = self.binds.acquire().await.map_err(closed)?;
        if let Some((index, connection)) = self.idle_connection() {
            match connection.bind(dn, password).await {
                Ok(result) => {
                    self.keep(index, connection);
                    return Ok(result);
                }
                // The server closed the idle connection.
                Err(fault) if fault.kind() == LdapFaultKind::Connect => {}
                Err(fault) => return Err(fault),
            }
        }
        let (index, connection) = self.open(deadline).await?;
        let result = connection.bind(dn, password).await?;
        self.keep(index, connection);
        Ok(result)
    }

    /// Returns an idle connection to the current server.
    fn idle_connection(&self) -> Option<(usize, LdapConnection)> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load(Ordering::Relaxed);
        idle.retain(|(index, connection)| *index == current && connection.is_open());
        idle.pop()
    }

    fn keep(&self, index: usize, connection: LdapConnection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push((index, connection));
        }
    }
}

/// Creates the TLS configuration. Trusts the certificates in the file, which are CA certificates or
/// the own certificate of a server, or else the authorities of this machine.
fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, LdapFault> {
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    let name = ca_file.map_or_else(|| "the authorities of this machine".to_owned(), |file| file.display().to_string());
    let fault = |cause: &dyn std::fmt::Display| {
        LdapFault::new(LdapFaultKind::Settings, format!("{name} cannot be used ({cause}); set ca_file to a PEM file"))
    };
    if let Some(file) = ca_file {
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| fault(&error))? {
            let certificate = certificate.map_err(|error| fault(&error))?;
            roots.add(certificate.clone()).map_err(|error| fault(&error))?;
            certificates.push(certificate);
        }
    } else {
        let native = rustls_native_certs::load_native_certs().map_err(|error| fault(&error))?;
        roots.add_parsable_certificates(native);
    }
    if roots.is_empty() {
        return Err(fault(&"it has no certificate"));
    }
    let provider = sealgate_system::tls::provider();
    let verifier = NamedOrIssued::new(roots, certificates, Arc::clone(&provider)).map_err(|error| fault(&error))?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| fault(&error))?;
    Ok(Arc::new(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}
