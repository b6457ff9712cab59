//! Reload of the configuration of a running server, by command or SIGHUP, as a whole or not at all.
//!
//! The file is checked completely before the server uses any of it. If it has an error, or a change
//! that needs a restart, the running configuration stays in use. A failed reload may leave two
//! effects: the files that listeners need before the first ACME certificate, and the clients of the
//! file, if the store does not report whether it has stored them. Two failures do not undo a
//! reload, but are only logged: a log filter that cannot be set, and grants of removed clients that
//! cannot be ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

use crate::app::server::{Stop, notify};
use crate::app::site::Site;
use crate::app::{certificates, defined_clients};
use sealgate_config::{Config, Difference};
use sealgate_core::reload::{PendingReload, Reload, ReloadFault, ReloadRequest};
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::client::ClientId;
use sealgate_edge::{EdgeUpdate, EdgeUpdater, Front};
use sealgate_system::log::SetFilter;

/// Maximum number of changed settings that an audit record names. The log names all of them.
const MAX_NAMED_SETTINGS: usize = 20;

pub(crate) struct Reloader {
    file: PathBuf,
    edge: Arc<EdgeUpdater>,
    set_filter: SetFilter,
    /// The site under the current configuration. The lock serializes reloads.
    site: Mutex<Arc<Site>>,
}

/// Reload that is ready to be applied.
struct Prepared {
    site: Arc<Site>,
    edge_update: EdgeUpdate,
    /// Names of the changed settings.
    changed: Vec<String>,
}

/// Installs a handler for SIGHUP. Without the handler, a SIGHUP before [`Reloader::listen`] runs
/// would end the process. Call it inside a runtime.
pub(crate) fn handle_hangup() -> Result<(), String> {
    // The handler remains when the listener is dropped.
    signal(SignalKind::hangup()).map(drop).map_err(|error| format!("cannot listen for SIGHUP: {error}"))
}

impl Reloader {
    /// Creates a reloader of `file`, an absolute path, for the server of `edge`. The server now serves
    /// `site`.
    pub(crate) fn new(file: PathBuf, edge: EdgeUpdater, set_filter: SetFilter, site: Arc<Site>) -> Self {
        Self { file, edge: Arc::new(edge), set_filter, site: Mutex::new(site) }
    }

    /// Reloads at each SIGHUP, until `stop`. Results are logged.
    pub(crate) async fn listen(self: Arc<Self>, mut stop: Stop) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => hangup,
            Err(error) => {
                tracing::error!(%error, "SIGHUP has no effect; use: sealgate reload");
                return;
            }
        };
        loop {
            let signal = tokio::select! {
                signal = hangup.recv() => signal,
                () = async { drop(stop.wait_for(|stop| *stop).await) } => return,
            };
            if signal.is_none() {
                return;
            }
            // `reload` has logged the result.
            let _ = self.reload(None).await;
        }
    }

    /// Prepares a reload. `confirmed` is the fingerprint of the configuration that a user confirmed.
    async fn prepare(&self, site: &Arc<Site>, confirmed: Option<String>) -> Result<Prepared, ReloadFault> {
        let (file, edge, site) = (self.file.clone(), Arc::clone(&self.edge), Arc::clone(site));
        blocking(move || {
            let PendingReload { config, difference } = pending(&file, &site).map_err(ReloadFault::Refused)?;
            if confirmed.is_some_and(|confirmed| confirmed != config.fingerprint()) {
                return Err(ReloadFault::ChangedMeanwhile);
            }
            prepare(config, difference, &edge, &site).map_err(ReloadFault::Refused)
        })
        .await
        .map_err(|error| ReloadFault::Refused(vec![error]))?
    }

    /// Prepares a reload, and then stores the clients of the file. Storing them is the last step
    /// that can fail. Before it, checks that the user may still reload. Returns the removed clients,
    /// and the audit event of the request.
    async fn prepare_and_store(
        &self,
        site: &Arc<Site>,
        request: Option<ReloadRequest>,
    ) -> Result<(Prepared, Vec<ClientId>, Option<AuditEvent>), ReloadFault> {
        let confirmed = request.as_ref().map(|request| request.fingerprint().to_owned());
        let prepared = self.prepare(site, confirmed).await?;
        let event = match request {
            Some(request) => Some(request.permitted().await?),
            None => None,
        };
        let sealgate = prepared.site.sealgate();
        let removed = defined_clients::store(sealgate, &sealgate.config.clients).await;
        let removed = removed.map_err(|fault| ReloadFault::Refused(fault.into_lines()))?;
        Ok((prepared, removed, event))
    }

    /// Applies a prepared reload. A log filter that cannot be set is only logged.
    fn apply(&self, before: &Site, prepared: Prepared) -> (Arc<Site>, Vec<String>) {
        let Prepared { site, edge_update, changed } = prepared;
        self.edge.apply(edge_update);
        site.take_effect();
        let next = site.sealgate();
        next.in_effect.store(Arc::clone(&next.config));
        let (old, new) = (&before.sealgate().config.log.filter, &site.sealgate().config.log.filter);
        if old != new
            && let Err(error) = (self.set_filter)(new)
        {
            tracing::error!(error, "cannot change the log filter; the current one stays in use");
        }
        (site, changed)
    }
}

#[async_trait]
impl Reload for Reloader {
    fn file(&self) -> &Path {
        &self.file
    }

    async fn pending(&self) -> Result<PendingReload, Vec<String>> {
        let (file, site) = (self.file.clone(), Arc::clone(&*self.site.lock().await));
        blocking(move || pending(&file, &site)).await.map_err(|error| vec![error])?
    }

    async fn reload(&self, request: Option<ReloadRequest>) -> Result<Vec<String>, ReloadFault> {
        let mut site = self.site.lock().await;
        let _notice = ReloadNotice::new();
        let metrics = Arc::clone(&site.sealgate().metrics);
        match self.prepare_and_store(&site, request).await {
            Ok((prepared, removed, event)) => {
                let (next, changed) = self.apply(&site, prepared);
                *site = next;
                let sealgate = site.sealgate();
                let now = sealgate.clock.now();
                metrics.configured(now.seconds());
                metrics.reloaded(true);
                tracing::info!(config = %self.file.display(), ?changed, "reloaded the configuration");
                for warning in &sealgate.config.warnings {
                    tracing::warn!("{warning}");
                }
                let by_operator = || AuditEvent::new(now, AuditKind::ConfigurationReloaded, Actor::Operator);
                let event = event.unwrap_or_else(by_operator);
                sealgate.audit.record(&sealgate.store, event.with_detail(setting_list(&changed))).await;
                defined_clients::end_grants(sealgate, &removed).await;
                Ok(changed)
            }
            Err(fault) => {
                if let ReloadFault::Refused(faults) = &fault {
                    metrics.reloaded(false);
                    for fault in faults {
                        tracing::error!(fault, "the configuration was not reloaded; the current one stays in use");
                    }
                }
                Err(fault)
            }
        }
    }
}

/// Runs blocking work on a thread for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| format!("the reload failed: {error}"))
}

/// Reads the file, and compares it with the running configuration. Blocks for file access.
fn pending(file: &Path, site: &Site) -> Result<PendingReload, Vec<String>> {
    let config = Config::load(file).map_err(|faults| lines(&faults))?;
    let difference = site.sealgate().config.difference(&config);
    Ok(PendingReload { config, difference })
}

/// Prepares the changes. Blocks for file access and name lookups.
fn prepare(config: Config, difference: Difference, edge: &EdgeUpdater, site: &Site) -> Result<Prepared, Vec<String>> {
    if !difference.restart.is_empty() {
        // Refuse the whole reload, so that the running configuration always equals the content of
        // one file.
        return Err(difference.restart.iter().map(|key| format!("{key}: a change requires a restart")).collect());
    }
    if !site.sealgate().store.can_encrypt()
        && let Some(fault) = config.registration_of_people.fault_without_sealing()
    {
        return Err(vec![fault]);
    }
    certificates::prepare(&config).map_err(|fault| vec![fault])?;
    let next = Arc::new(site.with(config));
    let config = &next.sealgate().config;
    let front = Arc::clone(&next) as Arc<dyn Front>;
    let edge_update = edge.prepare(&config.apps, &config.server, front)?;
    Ok(Prepared { site: next, edge_update, changed: difference.reloadable })
}

fn lines(faults: &[impl ToString]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// Returns the changed settings in one line of bounded length.
fn setting_list(changed: &[String]) -> String {
    let mut names: Vec<&str> = changed.iter().take(MAX_NAMED_SETTINGS).map(String::as_str).collect();
    let more = changed.len().saturating_sub(MAX_NAMED_SETTINGS);
    let rest = format!("{more} more");
    if more > 0 {
        names.push(&rest);
    }
    if names.is_empty() { "no changes".to_owned() } else { names.join("; ") }
}

/// Reports the start of a reload to systemd. When dropped, reports that the server is ready again.
struct ReloadNotice;

impl ReloadNotice {
    fn new() -> Self {
        // Type=notify-reload needs the start time (sd_notify(3)).
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(error) => tracing::debug!(%error, "cannot read the monotonic clock, so systemd is not \
                notified of the reload"),
        }
        Self
    }
}

impl Drop for ReloadNotice {
    fn drop(&mut self) {
        notify(&[NotifyState::Ready]);
    }
}
