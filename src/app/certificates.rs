//! Certificates from an ACME authority: orders those that are due, one host after another.
//!
//! The certificate in use stays until the next one is written. A failure is logged and counted, and tried
//! again later; it has no effect on requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealgate_acme::{
    AcmeAuthority, AcmeFault, AcmeFaultKind, AcmeFiles, AcmeState, AuthorityAccount, CertificateOrder,
    CertificateValidity, HostState, PendingChallenge, RenewalWindow, challenge_certificate, pause_after, renew_at,
};
use sealgate_config::{AcmeConfig, Config, StoreConfig};
use sealgate_core::state::Sealgate;
use sealgate_edge::{ChallengeAnswer, Challenges};
use sealgate_system::metrics::AcmeOutcome;

use crate::app::server::Stop;

/// Interval of checks.
const PULSE: Duration = Duration::from_secs(1);
/// Pause after a question for the renewal window that was not answered.
const WINDOW_PAUSE: Duration = Duration::from_hours(6);

/// Creates the files that the listeners need before the first certificate is issued.
///
/// # Errors
/// One line: what is wrong.
pub(crate) fn prepare(config: &Config) -> Result<(), String> {
    let Some(acme) = &config.acme else { return Ok(()) };
    if matches!(config.store, StoreConfig::Postgres(_)) {
        return Err(
            "acme: the nodes of a cluster share no certificates yet, so each would order its own; write server.tls, \
            and leave [acme] out"
                .to_owned(),
        );
    }
    sealgate_acme::prepare(acme)
}

/// Orders certificates until `stop`. Nothing is contacted without `[acme]`.
pub(crate) async fn keep(sealgate: Arc<Sealgate>, challenges: Arc<Challenges>, mut stop: Stop) {
    let mut service = CertificateService { sealgate, challenges, current: None };
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            () = Box::pin(service.pulse()) => {}
        }
    }
}

struct CertificateService {
    sealgate: Arc<Sealgate>,
    challenges: Arc<Challenges>,
    /// Work under the current configuration.
    current: Option<Ordering>,
}

impl CertificateService {
    async fn pulse(&mut self) {
        tokio::time::sleep(PULSE).await;
        let config = self.sealgate.in_effect.load().acme.clone();
        let is_current = self.current.as_ref().map(|ordering| ordering.authority.config()) == config.as_ref();
        if !is_current {
            self.current = None;
        }
        let Some(config) = config else { return };
        if self.current.is_none() {
            match blocking(move || Ordering::open(&config)).await {
                Ok(ordering) => self.current = Some(ordering),
                Err(fault) => {
                    tracing::error!(%fault, "no certificates can be ordered");
                    tokio::time::sleep(WINDOW_PAUSE.min(Duration::from_mins(1))).await;
                    return;
                }
            }
        }
        let Some(ordering) = &mut self.current else { return };
        for host in ordering.authority.config().hosts.clone() {
            ordering.look_after(&host, &self.sealgate, &self.challenges).await;
        }
        let failing = ordering.state.hosts.iter().filter(|(host, kept)| kept.failures > 0 && ordering.orders(host));
        self.sealgate.metrics.acme_failing(failing.count());
    }
}

/// Orders under one configuration.
struct Ordering {
    authority: Arc<AcmeAuthority>,
    files: AcmeFiles,
    state: AcmeState,
    account: Option<AuthorityAccount>,
    /// Validity of each host's certificate; `None` for a host without one.
    validities: BTreeMap<String, Option<CertificateValidity>>,
    /// Suggested renewal of each host, and when to ask again.
    windows: BTreeMap<String, (Option<RenewalWindow>, Instant)>,
}

impl Ordering {
    /// Reads the state. Blocks on the disk.
    fn open(config: &AcmeConfig) -> Result<Self, AcmeFault> {
        let (authority, files) = (Arc::new(AcmeAuthority::new(config)?), AcmeFiles::new(config));
        let state = files.load()?;
        Ok(Self { authority, files, state, account: None, validities: BTreeMap::new(), windows: BTreeMap::new() })
    }

    fn orders(&self, host: &str) -> bool {
        self.authority.config().hosts.iter().any(|own| own == host)
    }

    /// Orders the host's certificate if that is due.
    async fn look_after(&mut self, host: &str, sealgate: &Sealgate, challenges: &Challenges) {
        let kept = self.state.hosts.get(host).cloned().unwrap_or_default();
        let now = || i64::try_from(sealgate.clock.now().seconds()).unwrap_or(i64::MAX);
        if self.authority.pause().is_some() || now() < kept.not_before {
            return;
        }
        let current = match self.validities.get(host) {
            Some(known) => *known,
            None => self.read(host, &kept).await,
        };
        if let Some(validity) = current {
            let window = self.window(host).await;
            let permille = u16::try_from(validity.starts.rem_euclid(1000)).unwrap_or_default();
            if now() < renew_at(validity, window.map(|window| window.window), permille) {
                return;
            }
        }
        let ended = self.order(host, current, challenges).await;
        challenges.set(Vec::new());
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
                let failures = kept.failures.saturating_add(1);
                let pause = pause_after(fault.kind, failures).max(self.authority.pause().unwrap_or_default());
                let seconds = pause.as_secs();
                tracing::warn!(host, failures, again_in_seconds = seconds, "no certificate was issued: {fault}");
                let not_before = now().saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX));
                HostState { failures, not_before, ..kept }
            }
        };
        self.state.hosts.insert(host.to_owned(), next.clone());
        if let Err(fault) = self.save().await {
            tracing::error!(%fault, "the state of certificate orders could not be written");
        }
        self.read(host, &next).await;
    }

    /// Reads and remembers the validity of the host's certificate.
    async fn read(&mut self, host: &str, kept: &HostState) -> Option<CertificateValidity> {
        let (authority, name, kept) = (Arc::clone(&self.authority), host.to_owned(), kept.clone());
        let read = blocking(move || Ok(authority.current(&name, &kept))).await.unwrap_or_default();
        self.validities.insert(host.to_owned(), read);
        read
    }

    async fn save(&self) -> Result<(), AcmeFault> {
        let (files, state) = (self.files.clone(), self.state.clone());
        blocking(move || files.save(&state)).await
    }

    /// Opens the account, or registers one.
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

    /// Returns when the authority suggests to renew, and asks it if that is not known.
    async fn window(&mut self, host: &str) -> Option<RenewalWindow> {
        if let Some((window, again)) = self.windows.get(host)
            && Instant::now() < *again
        {
            return *window;
        }
        let asked = match self.account().await {
            Ok(account) => self.authority.renewal_window(&account, host).await,
            Err(fault) => Err(fault),
        };
        let (window, pause) = match asked {
            Ok(window) => (Some(window), window.again_after),
            Err(fault) => {
                tracing::debug!(host, %fault, "the certificate authority suggests no time for the renewal");
                (None, WINDOW_PAUSE)
            }
        };
        self.windows.insert(host.to_owned(), (window, Instant::now() + pause));
        window
    }

    async fn order(
        &mut self,
        host: &str,
        current: Option<CertificateValidity>,
        challenges: &Challenges,
    ) -> Result<(), AcmeFault> {
        let account = self.account().await?;
        let present = async |pending: PendingChallenge| answer(challenges, pending);
        let order = CertificateOrder { host, current };
        let pem = self.authority.obtain(&account, order, present).await?;
        let (files, authority, host) = (self.files.clone(), Arc::clone(&self.authority), host.to_owned());
        blocking(move || files.replace(authority.config(), &host, &pem)).await
    }
}

/// Answers this challenge, and no other.
fn answer(challenges: &Challenges, pending: PendingChallenge) -> Result<(), AcmeFault> {
    let (certificate, key) = challenge_certificate(&pending)?;
    let answer =
        ChallengeAnswer::new(pending.server_name(), certificate, key, pending.token, pending.key_authorization);
    challenges.set(vec![answer.map_err(AcmeFault::local)?]);
    Ok(())
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
