//! Certificates from an ACME authority: orders due certificates, one host after another.
//!
//! The certificate in use stays until the next one is written. A failed order is logged, counted
//! and retried later. The failure has no effect on requests. In a cluster, one node orders the
//! certificates, and all nodes use them.

mod storage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use sealgate_acme::{
    AcmeAuthority, AcmeFault, AcmeFaultKind, AcmeFiles, AcmeState, AuthorityAccount, CertificateOrder,
    CertificateValidity, HostState, PendingChallenge, RenewalWindow, pause_after, renew_at,
};
use sealgate_config::{AcmeConfig, Config};
use sealgate_core::state::Sealgate;
use sealgate_edge::Challenges;
use sealgate_store::LeaseName;
use sealgate_system::metrics::AcmeOutcome;

use self::storage::{CertificateStorage, SyncResult};
use crate::app::server::Stop;
use crate::app::task_lease::TaskLease;

/// Interval of checks whether a certificate is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a failed request for the renewal window.
const WINDOW_PAUSE: Duration = Duration::from_hours(6);

/// Creates the files that the listeners need before the first certificate is issued.
///
/// # Errors
/// One line that names the file.
pub(crate) fn prepare(config: &Config) -> Result<(), String> {
    let Some(acme) = &config.acme else { return Ok(()) };
    sealgate_acme::prepare(acme)
}

/// Orders certificates until `stop`. Does nothing while the configuration has no `[acme]` section.
pub(crate) async fn run(sealgate: Arc<Sealgate>, challenges: Arc<Challenges>, mut stop: Stop) {
    let is_shared = sealgate.store.is_shared();
    let lease = is_shared.then(|| Arc::new(Mutex::new(TaskLease::new(&sealgate, LeaseName::Certificates))));
    let mut service =
        CertificateService { sealgate, challenges, lease: lease.clone(), current: None, is_failing: false };
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            () = Box::pin(service.wait_and_check()) => {}
        }
    }
    if let Some(lease) = lease {
        lease.lock().await.release().await;
    }
}

struct CertificateService {
    sealgate: Arc<Sealgate>,
    challenges: Arc<Challenges>,
    /// Lease of the node that orders certificates for the whole cluster. `None` outside a cluster.
    lease: Option<Arc<Mutex<TaskLease>>>,
    current: Option<CertificateOrderer>,
    /// Whether the last check failed.
    is_failing: bool,
}

impl CertificateService {
    async fn wait_and_check(&mut self) {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let checked = self.check().await;
        if let Err(fault) = &checked
            && !self.is_failing
        {
            tracing::error!(%fault, "cannot order certificates or copy them from other nodes");
        }
        self.is_failing = checked.is_err();
    }

    async fn check(&mut self) -> Result<(), AcmeFault> {
        let config = self.sealgate.in_effect.load().acme.clone();
        let is_current = self.current.as_ref().map(|orderer| orderer.authority.config()) == config.as_ref();
        // The operator may have corrected the cause of the failures.
        let retries_now = !is_current && self.current.take().is_some();
        let Some(config) = config else { return Ok(()) };
        if self.current.is_none() {
            let (sealgate, challenges, lease) =
                (Arc::clone(&self.sealgate), Arc::clone(&self.challenges), self.lease.clone());
            let opened = blocking(move || CertificateOrderer::open(&config, &sealgate, &challenges, lease)).await?;
            self.current = Some(opened);
        }
        let Some(orderer) = &mut self.current else { return Ok(()) };
        match orderer.storage.sync_from_cluster(&orderer.authority).await? {
            SyncResult::NoCluster => {}
            SyncResult::Cluster { state, changed, holds_lease } => {
                for host in changed {
                    tracing::info!(host, "loaded a certificate that another node obtained");
                    orderer.validities.remove(&host);
                }
                if !holds_lease {
                    orderer.account = None;
                    self.sealgate.metrics.acme_failing(0);
                    return Ok(());
                }
                orderer.state = state;
            }
        }
        if retries_now {
            orderer.state.hosts.values_mut().for_each(|host| host.not_before = 0);
        }
        for host in orderer.authority.config().hosts.clone() {
            orderer.order_if_due(&host, &self.sealgate).await;
        }
        let failing = orderer.state.hosts.iter().filter(|(host, state)| state.failures > 0 && orderer.orders_for(host));
        self.sealgate.metrics.acme_failing(failing.count());
        Ok(())
    }
}

/// Orders certificates under one configuration.
struct CertificateOrderer {
    authority: Arc<AcmeAuthority>,
    storage: CertificateStorage,
    state: AcmeState,
    account: Option<AuthorityAccount>,
    /// Validity of each host's certificate. `None` for a host without a certificate.
    validities: BTreeMap<String, Option<CertificateValidity>>,
    /// Suggested renewal window of each host, and when to request it again.
    windows: BTreeMap<String, (Option<RenewalWindow>, Instant)>,
}

impl CertificateOrderer {
    /// Reads the state. Blocking I/O.
    fn open(
        config: &AcmeConfig,
        sealgate: &Arc<Sealgate>,
        challenges: &Arc<Challenges>,
        lease: Option<Arc<Mutex<TaskLease>>>,
    ) -> Result<Self, AcmeFault> {
        let (authority, files) = (Arc::new(AcmeAuthority::new(config)?), AcmeFiles::new(config));
        // A cluster keeps this state in the store, not in files.
        let state = if lease.is_some() { AcmeState::default() } else { files.load()? };
        let storage = CertificateStorage::new(sealgate, challenges, files, lease);
        Ok(Self { authority, storage, state, account: None, validities: BTreeMap::new(), windows: BTreeMap::new() })
    }

    /// Returns whether this configuration orders a certificate for the host.
    fn orders_for(&self, host: &str) -> bool {
        self.authority.config().hosts.iter().any(|ordered| ordered == host)
    }

    /// Orders the host's certificate if it is due.
    async fn order_if_due(&mut self, host: &str, sealgate: &Sealgate) {
        let host_state = self.state.hosts.get(host).cloned().unwrap_or_default();
        let now = || i64::try_from(sealgate.clock.now().seconds()).unwrap_or(i64::MAX);
        if self.authority.pause().is_some() || now() < host_state.not_before {
            return;
        }
        let current = match self.validities.get(host) {
            Some(validity) => *validity,
            None => self.read_validity(host, &host_state).await,
        };
        if let Some(validity) = current {
            let window = self.renewal_window(host).await;
            let permille = u16::try_from(validity.starts.rem_euclid(1000)).unwrap_or_default();
            if now() < renew_at(validity, window.map(|window| window.window), permille) {
                return;
            }
        }
        let keep_lease = self.storage.keep_lease();
        let ended = tokio::select! {
            ended = Box::pin(self.order(host, current)) => ended,
            () = keep_lease => return,
        };
        if let Err(fault) = self.storage.answer_challenge(None).await {
            tracing::warn!(%fault, "cannot remove the challenge of a finished order; nodes still answer it");
        }
        self.windows.remove(host);
        let outcome = match &ended {
            Ok(()) => AcmeOutcome::Issued,
            Err(fault) => outcome(fault.kind),
        };
        sealgate.metrics.acme_ordered(outcome);
        let next = match ended {
            Ok(()) => {
                tracing::info!(host, "a certificate was issued");
                let config = self.authority.config();
                HostState {
                    directory: config.directory.clone(),
                    profile: config.profile.clone().unwrap_or_default(),
                    ..HostState::default()
                }
            }
            Err(fault) => {
                if fault.kind == AcmeFaultKind::NoAccount {
                    self.state.forget_account();
                    self.account = None;
                }
                let failures = host_state.failures.saturating_add(1);
                let pause = pause_after(fault.kind, failures, self.authority.pause());
                let seconds = pause.as_secs();
                tracing::warn!(host, failures, again_in_seconds = seconds, "no certificate was issued: {fault}");
                let not_before = now().saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
                HostState { failures, not_before, ..host_state }
            }
        };
        self.state.hosts.insert(host.to_owned(), next.clone());
        if let Err(fault) = self.save().await {
            tracing::error!(%fault, "the state of certificate orders could not be written");
        }
        self.read_validity(host, &next).await;
    }

    /// Reads and caches the validity of the host's certificate.
    async fn read_validity(&mut self, host: &str, state: &HostState) -> Option<CertificateValidity> {
        let (authority, name, state) = (Arc::clone(&self.authority), host.to_owned(), state.clone());
        let read = blocking(move || Ok(authority.current(&name, &state))).await.unwrap_or_default();
        self.validities.insert(host.to_owned(), read);
        read
    }

    async fn save(&mut self) -> Result<(), AcmeFault> {
        self.storage.save(&self.state).await
    }

    /// Opens the account at the authority, or registers one.
    async fn account(&mut self) -> Result<AuthorityAccount, AcmeFault> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let before = self.state.clone();
        let account = self.authority.account(&mut self.state).await?;
        if self.state != before {
            self.save().await?;
            tracing::info!(
                directory = self.authority.config().directory,
                "an account at the certificate authority was registered"
            );
        }
        self.account = Some(account.clone());
        Ok(account)
    }

    /// Returns the renewal window that the authority suggests. Requests it if it is unknown or
    /// outdated.
    async fn renewal_window(&mut self, host: &str) -> Option<RenewalWindow> {
        if let Some((window, again)) = self.windows.get(host)
            && Instant::now() < *again
        {
            return *window;
        }
        let suggestion = match self.account().await {
            Ok(account) => self.authority.renewal_window(&account, host).await,
            Err(fault) => Err(fault),
        };
        let (window, pause) = match suggestion {
            Ok(window) => (Some(window), window.again_after),
            Err(fault) => {
                tracing::debug!(host, %fault, "cannot read the renewal window that the certificate authority suggests");
                (None, WINDOW_PAUSE)
            }
        };
        self.windows.insert(host.to_owned(), (window, Instant::now() + pause));
        window
    }

    async fn order(&mut self, host: &str, current: Option<CertificateValidity>) -> Result<(), AcmeFault> {
        let account = self.account().await?;
        let storage = Mutex::new(&mut self.storage);
        let answer_challenge =
            async |pending: PendingChallenge| storage.lock().await.answer_challenge(Some(pending)).await;
        let order = CertificateOrder { host, current };
        let pem = self.authority.obtain(&account, order, answer_challenge).await?;
        self.storage.replace(&self.authority, host, pem).await
    }
}

const fn outcome(kind: AcmeFaultKind) -> AcmeOutcome {
    match kind {
        AcmeFaultKind::Rejected => AcmeOutcome::Rejected,
        AcmeFaultKind::Limited => AcmeOutcome::Limited,
        AcmeFaultKind::Unreachable | AcmeFaultKind::BadNonce => AcmeOutcome::Unreachable,
        AcmeFaultKind::NoAccount | AcmeFaultKind::Local => AcmeOutcome::Failed,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AcmeFault> + Send + 'static,
) -> Result<T, AcmeFault> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(AcmeFault::local(error)))
}
